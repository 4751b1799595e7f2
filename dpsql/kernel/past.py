"""The events before the checkpoint from which a ledger was opened: not read then, and verified when one of them is.

A checkpoint names the one before it and its hash. So from a checkpoint that is known to be right, all others are found, one
after the other; and the events between two of them are right if their hashes lead from one to the other. Proof: the hash of a
checkpoint is of everything before it, so other events that led to it would be a collision of SHA-256. Events are verified as they
were when this was done; as with those after the checkpoint, a change under an open ledger need not be noticed.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable

from dpsql.kernel.chain import Broken, Event

COLUMNS = ", ".join(Event._fields)
Head = tuple[int, str]


class Past:
    """What is known of the events up to a checkpoint, which was verified."""

    def __init__(self, checkpoint: Head, genesis: str) -> None:
        self._marks = [checkpoint]  # all that were found, oldest first, down to the beginning
        self._genesis = genesis
        self._verified: set[int] = set()  # marks whose events, from the mark before on, were verified

    def verify(self, connection: sqlite3.Connection, seqs: Iterable[int]) -> None:
        """Verify these events, as far as they are of the past. Raises Broken where one is not as it was written."""
        try:
            self._verify(connection, seqs)
        except (LookupError, TypeError, ValueError):
            raise Broken from None

    def _verify(self, connection: sqlite3.Connection, seqs: Iterable[int]) -> None:
        first, last = 0, 0  # between which events were just verified
        for seq in seqs:
            if seq <= self._marks[-1][0] and not first < seq <= last:
                self._find(connection, seq)
                at = bisect_left(self._marks, (seq, ""))
                (first, _), (last, _) = self._marks[at - 1 : at + 1]
                if last not in self._verified:
                    self._walk(connection, self._marks[at - 1], self._marks[at])
                    self._verified.add(last)

    def _find(self, connection: sqlite3.Connection, seq: int) -> None:
        """Find the marks down to one before an event."""
        while self._marks[0][0] >= seq:
            at, link = self._marks[0]
            row = connection.execute(f"SELECT {COLUMNS} FROM events WHERE seq = ?", (at,)).fetchone()
            before = connection.execute("SELECT hash FROM events WHERE seq = ?", (at - 1,)).fetchone()
            if row is None or before is None or Event(*row).link(before[0]) != link:
                raise Broken
            found, its = json.loads(row[-1])["before"]
            if not found < at or (found == 0 and its != self._genesis):
                raise Broken
            self._marks.insert(0, (found, its))

    def _walk(self, connection: sqlite3.Connection, first: Head, last: Head) -> None:
        seq, link = first
        for row in connection.execute(f"SELECT {COLUMNS} FROM events WHERE seq > ? AND seq <= ? ORDER BY seq", (seq, last[0])):
            event = Event(*row)
            seq, link = event.seq, event.link(link)
        if (seq, link) != last:
            raise Broken
