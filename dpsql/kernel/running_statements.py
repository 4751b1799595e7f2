"""Which charged statements are still running, told by locks that the operating system lets go of when a process dies.

Beside the ledger there is a folder with one file for each statement that runs, under the number of its charge. Whoever runs the
statement holds an exclusive lock (`flock`) on it, and removes the file when the statement is over. A killed process cannot remove
its file, but its lock ends with it: a file that is missing, or that can be locked, is of a statement that is over. Nothing rests
on clocks, on process ids or on the goodwill of the process. A child that was forked while a statement ran holds its lock too, so
the statement looks as if it ran until that child ends: then it is counted as running, never as answered.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Running:
    """The statements that run on one ledger, with those that this process runs."""

    def __init__(self, ledger: Path) -> None:
        self._folder = Path(f"{ledger.resolve()}.running")
        self._mine: dict[int, int] = {}

    def begin(self, seq: int) -> None:
        """Hold the lock of a statement. Called before its charge is committed, so that no charge is seen without its lock.

        Only who may write the ledger begins, one after another, so a file of this number was left by a charge that was not
        committed. Raises OSError where there can be no lock.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._file(seq).unlink(missing_ok=True)
        handle = os.open(self._file(seq), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
        self._mine[seq] = handle

    def end(self, seq: int) -> None:
        """Let go of a statement that is over; nothing to do where it was not held."""
        handle = self._mine.pop(seq, None)
        if handle is not None:
            self._file(seq).unlink(missing_ok=True)
            os.close(handle)

    def abandon(self, seq: int) -> None:
        """Let go of a number whose charge was not committed. Its file stays: another process may hold the number by now."""
        handle = self._mine.pop(seq, None)
        if handle is not None:
            os.close(handle)

    def is_running(self, seq: int) -> bool:
        """Whether somebody still runs a statement; where that cannot be told, they do."""
        if seq in self._mine:
            return True
        try:
            handle = os.open(self._file(seq), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False

    def end_all(self) -> None:
        for seq in list(self._mine):
            self.end(seq)

    def let_go_of_inherited(self) -> None:
        """In a forked child: what the parent runs is the parent's. Its locks stay, as the parent holds them too."""
        for handle in self._mine.values():
            os.close(handle)
        self._mine = {}

    def _file(self, seq: int) -> Path:
        return self._folder / str(seq)
