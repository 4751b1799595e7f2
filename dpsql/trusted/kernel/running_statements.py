"""Which charged statements are still running, known from locks that the operating system releases when a process dies.

Beside the ledger is a folder with one file for each running statement, named by the number of its charge. The process that
runs the statement holds an exclusive lock (`flock`) on the file, and removes it when the statement is over. A killed process
cannot remove its file, but its lock ends with it: if a file is missing or can be locked, its statement is over. Nothing
depends on clocks, process ids or the cooperation of the process. A child forked while a statement ran holds its lock too, so
until that child ends the statement counts as running, never as answered.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path


class Running:
    """The statements running on one ledger, including those of this process."""

    def __init__(self, ledger: Path) -> None:
        self._folder = Path(f"{ledger.resolve()}.running")
        self._mine: dict[int, int] = {}

    def begin(self, seq: int) -> None:
        """Take the lock of a statement. Called before its charge is committed, so that no charge is visible without its lock.

        Only the process whose turn it is to write the ledger calls this, so an existing file of this number was left by a
        charge that was not committed. Raises OSError if no lock is possible.
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
        """Release the lock of a statement that has ended; does nothing if it was not held."""
        handle = self._mine.pop(seq, None)
        if handle is not None:
            self._file(seq).unlink(missing_ok=True)
            os.close(handle)

    def abandon(self, seq: int) -> None:
        """Release a number whose charge was not committed. Its file stays, because another process may hold the number by now."""
        handle = self._mine.pop(seq, None)
        if handle is not None:
            os.close(handle)

    def check(self, seq: int) -> None:
        """Raises StoreFault if a statement has lost its lock. Here it never does: the system takes no lock from a live
        process."""

    def is_running(self, seq: int) -> bool:
        """Whether a statement is still running; True if this cannot be determined."""
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

    @contextlib.contextmanager
    def alone(self, name: str, seconds: float) -> Iterator[None]:
        """A context that only one thread of one process can be in at a time; others wait, and raise TimeoutError after `seconds`.
        Raises OSError if locks are impossible."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            end = time.monotonic() + seconds
            while not _locked(handle):
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(0.02)
            yield
        finally:
            os.close(handle)

    def end_all(self) -> None:
        for seq in list(self._mine):
            self.end(seq)

    def let_go_of_inherited(self) -> None:
        """In a forked child, forget the parent's running statements. Their locks stay, as the parent holds them too."""
        for handle in self._mine.values():
            os.close(handle)
        self._mine = {}

    def _file(self, seq: int) -> Path:
        return self._folder / str(seq)


def _locked(handle: int) -> bool:
    """Try to take the lock of a file; returns whether it was free. Raises OSError if locks are impossible."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
