"""The walls of the front, which the system enforces: system calls, files, root, user. Trusted, and without imports of dpsql."""
