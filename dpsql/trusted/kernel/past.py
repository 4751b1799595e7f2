"""The events before the checkpoint at which a ledger was opened. They are not read at that time, but verified when one of them
is read.

A checkpoint names earlier ones and their hashes (`waypoint`), so from one that is known to be right all others are found. Proof:
its hash is of its text, so another text would be a collision of SHA-256. The hashes of the events between two checkpoints are
those in the file if they have the hash that the later one states, as others would be a collision; and an event is right if it
leads from the hash before it to its own, as another would be one. Checkpoints of earlier versions do not state that hash: there,
all events between the two are read, and lead from one to the other.

Hashes are verified as they were when this was done; as with events after the checkpoint, a change under an open ledger need not
be noticed.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, insort
from collections.abc import Iterable
from contextlib import closing

from dpsql.trusted.kernel.chain import Broken, Event
from dpsql.trusted.kernel.event_store import LINKED, EventStore
from dpsql.trusted.kernel.waypoint import Head, Waypoint


class Past:
    """The state after the events up to a verified checkpoint."""

    def __init__(self, checkpoint: Head, genesis: str) -> None:
        self._genesis = genesis
        self._newest = checkpoint
        self._found: list[Head] = []  # checkpoints, oldest first
        self._waypoints: dict[Head, Waypoint] = {}  # what these state
        self._sound: set[int] = set()  # those before which the hashes, from the checkpoint before on, were verified

    def verify(self, store: EventStore, rows: Iterable[tuple[Event, str, str | None]]) -> None:
        """Verify those of the given events that are before the checkpoint; each comes with the hash up to it and the previous
        hash. Raises Broken if one is not as it was written."""
        try:
            for event, link, previous in rows:
                if event.seq <= self._newest[0]:
                    self._verify(store, event.seq)
                    if event.link(self._genesis if event.seq == 1 else previous or "") != link:
                        raise Broken
        except (AttributeError, LookupError, TypeError, ValueError):
            raise Broken from None

    def _verify(self, store: EventStore, seq: int) -> None:
        """Verify the hashes around an event."""
        head, waypoint = self._checkpoint_after(store, seq)
        if head[0] not in self._sound:
            self._check(store, head, waypoint)
            self._sound.add(head[0])

    def _checkpoint_after(self, store: EventStore, seq: int) -> tuple[Head, Waypoint]:
        """The first checkpoint at or after an event."""
        at = bisect_left(self._found, (seq, ""))
        head = self._found[at] if at < len(self._found) else self._newest
        while (waypoint := self._at(store, head)).before[0] >= seq:
            head = min(earlier for earlier in (waypoint.before, *waypoint.skips) if earlier[0] >= seq)
        return head, waypoint

    def _at(self, store: EventStore, head: Head) -> Waypoint:
        """The statements of a checkpoint, given its number and hash."""
        if head in self._waypoints:
            return self._waypoints[head]
        row = next(iter(store.rows(f"SELECT {LINKED} FROM events WHERE seq = $1", head[0])), None)
        if row is None or Event(*row[:-2]).link(row[-1] or "") != head[1]:
            raise Broken
        waypoint = Waypoint.from_values(json.loads(row[-3]))
        if not all(seq < head[0] for seq, _ in (waypoint.before, *waypoint.skips)) or (
                waypoint.before[0] == 0 and waypoint.before[1] != self._genesis):
            raise Broken
        self._waypoints[head] = waypoint
        insort(self._found, head)
        return waypoint

    def _check(self, store: EventStore, head: Head, waypoint: Waypoint) -> None:
        """Verify the hashes from the previous checkpoint to this one."""
        before = waypoint.before
        heads = [before] if before[0] == 0 else []
        heads += store.rows("SELECT seq, hash FROM events WHERE seq BETWEEN $1 AND $2 ORDER BY seq", before[0], head[0])
        if [seq for seq, _ in heads] != [*range(before[0], head[0] + 1)] or heads[0] != before or heads[-1] != head:
            raise Broken
        if waypoint.between is None:
            self._walk(store, heads)
        elif hashlib.sha256("".join(f"{link}\n" for _, link in heads[1:-1]).encode()).hexdigest() != waypoint.between:
            raise Broken

    def _walk(self, store: EventStore, heads: list[Head]) -> None:
        """Verify hashes against their events; the first and the last hash are known to be right."""
        with closing(store.events_from(heads[0][0] + 1)) as rows:
            for (*row, _), (_, previous), (_, link) in zip(rows, heads, heads[1:], strict=False):
                if Event(*row).link(previous) != link:
                    raise Broken
