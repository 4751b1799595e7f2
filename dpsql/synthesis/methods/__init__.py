"""The methods that choose which marginals of a table are measured, one file each."""
