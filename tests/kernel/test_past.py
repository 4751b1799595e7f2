"""Events before a checkpoint are verified when they are read: whatever was changed in them, in hashes or in checkpoints is seen."""

from __future__ import annotations

import hashlib
import random
import sqlite3
from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest

from dpsql.frozen import replace
from dpsql.trusted.kernel.chain import Broken, Event
from dpsql.trusted.kernel.event_store import COLUMNS, LINKED
from dpsql.trusted.kernel.past import Past
from dpsql.trusted.kernel.waypoint import Head, Waypoint

GENESIS, OTHER = "0" * 64, "1" * 64
EVERY, MANY = 4, 41  # the last event is no checkpoint


class Store:
    """Events in memory, every fourth of them a checkpoint."""

    def __init__(self, *, older: bool = False, edit: Callable[[Event], Event] = lambda event: event) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute(f"CREATE TABLE events ({COLUMNS}, hash)")
        self.older, self.heads, self.asked = older, list[Head](), 0
        before, waypoint, links = (0, GENESIS), None, list[str]()
        for seq in range(1, MANY + 1):
            event = Event(seq, "charge", "now", "main", "ada", "d", "v", f"SELECT {seq}", 1, 0, 0, None, None)
            if seq % EVERY == 0:
                hashed = hashlib.sha256("".join(f"{link}\n" for link in links).encode()).hexdigest()
                waypoint = Waypoint(number=seq // EVERY, before=before, skips=waypoint.skips_after(before) if waypoint else (), between=hashed)
                event = event._replace(kind="checkpoint", body=self.text(waypoint))
            link = edit(event).link(links[-1] if links else before[1])
            self.connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * 14)})", (*edit(event), link))
            links.append(link)
            if seq % EVERY == 0:
                before, links = (seq, link), []
                self.heads.append(before)

    def text(self, waypoint: Waypoint) -> str:
        told = waypoint.as_values()
        return str({"before": told["before"]} if self.older else told).replace("'", '"')

    def rows(self, sql: str, *given: Any) -> list[Any]:
        self.asked += 1
        return self.connection.execute(sql.replace("$", "?"), given).fetchall()

    def events_from(self, seq: int) -> Generator[Any]:
        yield from self.rows(f"SELECT {COLUMNS}, hash FROM events WHERE seq >= $1 ORDER BY seq", seq)

    def past(self, genesis: str = GENESIS) -> Past:
        return Past(self.heads[-1], genesis)

    def verify(self, past: Past, seqs: Iterable[int]) -> None:
        for seq in seqs:
            past.verify(self, [(Event(*row), link, previous) for *row, link, previous in self.rows(  # type: ignore[arg-type]
                f"SELECT {LINKED} FROM events WHERE seq = $1", seq)])

    def known(self, at: int) -> tuple[Head, Waypoint]:
        """A checkpoint by its place among them, and what it states."""
        found = self.past()._checkpoint_after(self, (at + 1) * EVERY)  # type: ignore[arg-type]
        assert found[0] == self.heads[at]
        return found


SEQS = range(1, MANY + 1)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("seqs", [SEQS, SEQS[::-1], random.Random(1).sample(SEQS, MANY)], ids=["on", "back", "anyhow"])
def test_what_was_written_is_sound(seqs: Iterable[int], older: bool) -> None:
    store = Store(older=older)
    store.verify(store.past(), seqs)
    for seq in seqs:
        store.verify(store.past(), [seq])


def test_each_checkpoint_and_the_hashes_before_it_are_read_once() -> None:
    store = Store()
    past = store.past()
    store.verify(past, SEQS)
    assert store.asked == len(SEQS) + 2 * len(store.heads)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("seq", [1, 2, 7, 8, 9])
def test_an_event_that_was_changed_is_not_sound_whatever_hashes_are_beside_it(seq: int, older: bool) -> None:
    store, forged = Store(older=older), Store(older=older, edit=lambda event: event._replace(rho=9) if event.seq == seq else event)
    for until in (0, seq, seq + 1, store.heads[-1][0] - 1):  # hashes that were computed again, those of checkpoints too
        again = Store(older=older)
        for (*row, link), own in zip(forged.events_from(1), SEQS, strict=True):
            if own == seq or own <= until:
                again.connection.execute("DELETE FROM events WHERE seq = ?", (own,))
                linked = link if own <= until else store.rows("SELECT hash FROM events WHERE seq = $1", own)[0][0]
                again.connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * 14)})", (*row, linked))
        with pytest.raises(Broken):
            again.verify(store.past(), [seq])


def test_checkpoints_and_hashes_that_are_sound_by_themselves_are_not_another_past() -> None:
    """All before the checkpoint that is known was written anew, and so is what it states."""
    store, forged = Store(), Store(edit=lambda event: event._replace(rho=9) if event.seq == 2 else event)
    seq, link = store.heads[-1]
    forged.connection.execute("UPDATE events SET hash = ? WHERE seq = ?", (link, seq))
    for each in (2, 3, seq - 1):
        with pytest.raises(Broken):
            forged.verify(store.past(), [each])


@pytest.mark.parametrize("older", [False, True])
def test_hashes_lead_from_one_checkpoint_to_the_next(older: bool) -> None:
    store = Store(older=older)
    for at in (0, 1, 5):
        head, waypoint = store.known(at)
        store.past()._check(store, head, waypoint)  # type: ignore[arg-type]
        first, last = waypoint.before[0], head[0]
        for change in (*(f"UPDATE events SET hash = '{OTHER}' WHERE seq = {seq}" for seq in range(max(first, 1), last + 1)),
                       *(f"DELETE FROM events WHERE seq = {seq}" for seq in range(max(first, 1), last + 1)),
                       f"UPDATE events SET seq = seq + 100 WHERE seq > {first}"):
            store.connection.execute("SAVEPOINT whole")
            store.connection.execute(change)
            with pytest.raises(Broken):
                store.past()._check(store, head, waypoint)  # type: ignore[arg-type]
            store.connection.execute("ROLLBACK TO whole")
        if not older:
            with pytest.raises(Broken):
                store.past()._check(store, head, replace(waypoint, between=OTHER))  # type: ignore[arg-type]


def test_the_first_checkpoint_is_of_this_ledger_and_each_of_what_was_before_it() -> None:
    store = Store()
    with pytest.raises(Broken):
        store.verify(store.past(OTHER), [2])
    for wrong in ((EVERY, GENESIS), (MANY, GENESIS)):
        def elsewhere(event: Event, before: Head = wrong) -> Event:
            stated = Waypoint(number=1, before=before, skips=(), between="")
            return event._replace(body=store.text(stated)) if event.seq == EVERY else event

        forged = Store(edit=elsewhere)
        with pytest.raises(Broken):
            forged.verify(Past(forged.heads[0], GENESIS), [2])
