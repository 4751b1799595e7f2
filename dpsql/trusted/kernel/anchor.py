"""The anchor: a second file beside the ledger, or better on another volume, that remembers heads of its chain.

A record is the number of an event and the hash of the chain up to it. So one record stands for all events before it as well,
and the newest one for all records. Records are only ever appended. `record` writes one; `settle` waits until it is on disk.

What is written survives the death of any process; only a loss of power can take away what was not settled. A charge is settled
before its answer is shown and need not be settled earlier, and the answer itself is not settled here at all. The reasons:

  shown      Before anything of a statement is shown, its charge is on disk here and in the ledger, and its answer in the
             ledger. So a ledger that lacks a charge for something shown is detected, as long as this file is there.
  read       Rows are read when the charge is on disk in the ledger and written here. If power is lost before the answer is
             shown, nothing was: the ledger still has the charge, which counts as failed.
  answered   If power is lost and the ledger is rolled back as well, answers alone may be missing that this file has not
             seen. Their charges are there, and count as failed: no sum and no number of failures ever goes down.

The ledger still syncs the charge by itself, although nothing is shown before the sync of the answer. For a statement may
exhaust its machine, and the machine then loses what was not on disk (a virtual machine that is stopped because it ran out of
memory does). Without that sync, a failure that depends on private rows would leave neither charge nor incident, and could be
repeated without limit. A record here may also reach the disk by itself, and would then be ahead of the ledger.

So after a crash the anchor is behind the ledger, or level with it, and never ahead: a record is written when its events are on
disk in the ledger. An anchor that is ahead therefore means that the ledger was rolled back.

*The end of the file.* Opening reads the last records only. Each process appends its records in the order of events, at most one
at a time, right after it wrote these; so the newest record is among the last ones, one for each process that writes.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import re
import threading
from pathlib import Path

Head = tuple[int, str]
HEAD = re.compile(rb"(\d+) ([0-9a-f]{64})")
CUT_OFF = re.compile(rb"\d*( [0-9a-f]{0,63})?\x00*")  # what a crash can leave of a record
TAIL = 1 << 16  # bytes: hundreds of records, so hundreds of processes that write at the same time


class Unreadable(Exception):
    """The anchor is not a list of heads; the message says why."""


class Anchor:
    """The anchor as one process uses it. Threads may share it; a forked child needs its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._settling = threading.Lock()
        self._written = self._settled = 0  # the newest event that is known to be recorded, and the newest one known to be on disk
        self._soon = 0  # the newest one that a thread was begun for
        self.failed = False  # whether a sync failed, so that nothing is known of what was written before

    def create(self, head: Head) -> None:
        """Create an anchor with its first record. Raises OSError if one exists, or if it cannot be created."""
        self._append(head, os.O_CREAT | os.O_EXCL)
        self._sync()

    def heads(self, whole: bool = False) -> list[Head]:
        """The newest heads that were recorded, or all of them. Raises OSError, or Unreadable if the file is damaged."""
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if whole else max(0, size - TAIL))
            lines = file.read().split(b"\n")
        if size > TAIL and not whole:
            del lines[0]  # the end of a line
        found = []
        for line in lines:
            if told := HEAD.fullmatch(line):
                found.append((int(told[1]), told[2].decode()))
            elif not CUT_OFF.fullmatch(line):
                raise Unreadable("is damaged")
        if not found:
            raise Unreadable("is empty")
        self._written = max(self._written, *(seq for seq, _ in found))
        return found

    @property
    def newest(self) -> int:
        """The newest event that is known to be recorded."""
        return self._written

    def doubt(self) -> None:
        """Assume that nothing read from the file is on disk: the newest head is recorded again before anything is settled."""
        self._written = 0

    def check(self) -> None:
        """Raises OSError if nothing can be recorded."""
        if self.failed:
            raise OSError("records of the anchor were lost by the disk")
        os.close(os.open(self.path, os.O_WRONLY | os.O_APPEND))

    def record(self, head: Head) -> None:
        """Write a head whose events are on disk in the ledger. Raises OSError."""
        self._append(head)
        self._written = max(self._written, head[0])

    def has_settled(self, seq: int) -> bool:
        """Whether a head at or after this event is known to be on disk."""
        return seq <= self._settled and not self.failed

    def settle(self, seq: int, head: Head) -> None:
        """Wait until a head at or after this event is on disk; `head` must be one whose events are permanently in the ledger's
        file. Threads that wait at the same time share one sync.

        Raises OSError, and after that each further call raises it too: a system may report only once that what was written is
        lost.
        """
        if self.has_settled(seq):
            return
        with self._settling:
            if self.failed:
                raise OSError("records of the anchor were lost by the disk")
            if seq <= self._settled:
                return
            if seq > self._written:  # another process wrote the event, and perhaps no record yet
                self.record(head)
            self._sync()

    def settle_soon(self, seq: int, head: Head) -> None:
        """Begin to settle in the background: once for all events that were recorded together. This only saves time; nothing
        relies on it."""
        if seq <= self._soon or self._settling.locked():
            return
        self._soon = self._written

        def begin() -> None:
            with contextlib.suppress(OSError):
                self.settle(seq, head)

        with contextlib.suppress(RuntimeError):  # no thread can be started
            _thread.start_new_thread(begin, ())  # which, unlike `threading`, does not wait until it runs

    def _sync(self) -> None:
        written = self._written
        try:
            handle = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError:
            self.failed = True
            raise
        self._settled = max(self._settled, written)

    def _append(self, head: Head, flags: int = 0) -> None:
        """Append a record. Its leading newline separates it from a record that a crash cut off."""
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | flags, 0o600)
        try:
            record = f"\n{head[0]} {head[1]}\n".encode("ascii")
            if os.write(handle, record) < len(record):
                raise OSError("there is no space for the record")
        finally:
            os.close(handle)
