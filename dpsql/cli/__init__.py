"""The shell: one file for each group of commands, and `entry`, which finds the command that is meant."""

from dpsql.cli.entry import main
from dpsql.cli.faults import EXIT

__all__ = ["EXIT", "main"]
