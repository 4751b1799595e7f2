"""The front over HTTP, and the files of the console in the browser."""
