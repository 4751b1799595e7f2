"""The shell: one file for each group of commands, and `entry`, which finds the command that is meant."""

from dpsql.cli.entry import EXIT, main

__all__ = ["EXIT", "main"]
