"""Random events in the order of time: rows come, late ones too, are erased and corrected; days pass, and clocks are set back and
corrected; the owner revises closed periods and makes prepared stores; and analysts ask.

To add a kind of event, add a method of its name to `Teller`, and the name to `KINDS`. What the owner does is public: which of these
events happen, and when. Which rows they are about is private.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from oracle.stream_statements import Asked, Writer
from oracle.stream_worlds import PERIODS, RowWriter, State, StreamWorld, start_of, world_of

from dpsql.frozen import Frozen

KINDS: Mapping[str, int] = {"add": 8, "add_late": 5, "erase": 5, "correct": 5, "pass_days": 10, "set_back": 3, "right_clock": 2, "revise": 5,
                            "ask": 45, "ask_again": 12}
"""Kinds of events, and how often they happen."""
ANALYSTS = "ada", "bob"
SEVERAL = 6  # rows that one event is about at most


class Changed(Frozen, kw_only=False):
    """The owner has changed the data: the rows that there are now."""

    state: State


class Day(Frozen, kw_only=False):
    """The day that it is, by the clock."""

    day: dt.date


class Revise(Frozen, kw_only=False):
    """The owner says that closed periods of a table have changed, from one to another, which are named by days in them; all of them
    without these, and those of all tables without a table."""

    table: str | None
    first: dt.date | None = None
    last: dt.date | None = None


class RightClock(Frozen):
    """The owner says that the clock is right, after it was ahead."""


class Prepare(Frozen):
    """The owner makes a prepared store of the rows that there are."""


class Ask(Frozen, kw_only=False):
    """An analyst asks a statement."""

    analyst: str
    asked: Asked


Event: TypeAlias = Changed | Day | Revise | RightClock | Prepare | Ask


class Stream(Frozen, kw_only=False):
    """A world and what happens."""

    seed: int
    world: StreamWorld
    events: tuple[Event, ...]

    @property
    def states(self) -> list[State]:
        return [event.state for event in self.events if isinstance(event, Changed)]


class Teller:
    """Draws the events of a stream."""

    def __init__(self, world: StreamWorld, seed: int, often: Sequence[str] = ()) -> None:
        self.world, self.draw, self.often = world, random.Random(f"events {seed}"), often
        self.writer = RowWriter(world, self.draw)
        self.state, self.asked = dict(world.rows), list[Asked]()
        self.day = start_of(world.period, world.first + self.draw.choice([0, 1, 2, 2])) + dt.timedelta(days=self.draw.choice([0, 1, 6]))

    def events(self, statements: int) -> Iterator[Event]:
        yield from (Day(self.day), Changed(dict(self.state)))
        left = statements
        while left > 0:
            event = getattr(self, self.draw.choices([*KINDS], [*KINDS.values()])[0])()
            left -= isinstance(event, Ask)
            yield event
            if isinstance(event, Changed) and self.world.prepared and self.draw.random() < 0.6:
                yield Prepare()

    @property
    def grown(self) -> str:
        return self.draw.choice(self.world.growing).name

    def changed(self, name: str, rows: tuple[tuple[object, ...], ...]) -> Changed:
        self.state[name] = rows
        return Changed(dict(self.state))

    def add(self, period: int | None = None) -> Changed:
        name = self.grown
        for _ in range(self.draw.randint(1, SEVERAL)):
            if (row := self.writer.row(name, self.state, period)) is not None:
                self.state[name] = (*self.state[name], row)
        return Changed(dict(self.state))

    def add_late(self) -> Changed:
        """Rows of a period that is closed, if there is one."""
        closed = self.world.closed(self.world.tables["visits"], self.day)
        return self.add(self.draw.choice(closed) if closed else self.world.first)

    def erase(self) -> Changed:
        """Rows are removed: some of a person, some of a period, or any; all of the person's, in any table, at times."""
        name = self.draw.choice([*(table.name for table in self.world.growing), *(name for name in ("people", "cards") if name in self.state)])
        rows = self.state[name]
        if not rows:
            return Changed(dict(self.state))
        like = self.draw.choice(rows)
        out = self.draw.choice([
            [like], [row for row in rows if self.world.owners(self.state, name, row) == self.world.owners(self.state, name, like)],
            [row for row in rows if self.world.period_at(name, row) == self.world.period_at(name, like)]])
        return self.changed(name, tuple(row for row in rows if row not in out[:SEVERAL])) if name != "people" else self.changed(
            name, tuple(row for row in rows if row != like))

    def correct(self) -> Changed:
        """Values of rows are others: a number, a time in another period, another person."""
        name = self.draw.choice([self.grown, self.grown, "people"])
        rows, table = [*self.state[name]], self.world.tables[name]
        for at in self.draw.sample(range(len(rows)), min(len(rows), self.draw.randint(1, 3))):
            new = self.writer.row(name, self.state)
            column = self.draw.choice([column for column in table.columns if column != table.key])
            if new is not None:
                rows[at] = (*rows[at][:table.at(column)], new[table.at(column)], *rows[at][table.at(column) + 1:])
        return self.changed(name, tuple(rows))

    def pass_days(self) -> Day:
        """To the next day, or to the day on which the next period is closed, or beyond."""
        number, last = self.world.first, start_of(self.world.period, self.world.first + PERIODS) + dt.timedelta(days=5)
        while start_of(self.world.period, number) <= self.day:
            number += 1
        day = self.draw.choice([self.day + dt.timedelta(days=1), start_of(self.world.period, number) - dt.timedelta(days=1),
                                start_of(self.world.period, number), start_of(self.world.period, number) + dt.timedelta(days=5)])
        self.day = min(max(day, self.day), last)
        return Day(self.day)

    def set_back(self) -> Day:
        """The clock is set back, perhaps into a period that was closed."""
        earliest = start_of(self.world.period, self.world.first)
        self.day = max(earliest, start_of(self.world.period, self.world.first + self.draw.randrange(PERIODS)) + dt.timedelta(days=self.draw.choice([0, 1, 4])))
        return Day(self.day)

    def right_clock(self) -> RightClock:
        return RightClock()

    def revise(self) -> Revise:
        """All closed periods of all tables, or of one, or some of them."""
        table = self.draw.choice(self.world.growing)
        closed, drawn = self.world.closed(table, self.day), self.draw.random()
        if drawn < 0.5 or not closed:
            return Revise(None)
        if drawn < 0.6:
            return Revise(table.name)
        first, last = (start_of(self.world.period, number) for number in sorted(self.draw.choices(closed, k=2)))
        return Revise(table.name, first, last)

    def ask(self) -> Ask:
        kind = self.draw.choice(self.often) if self.often and self.draw.random() < 0.7 else None
        self.asked.append(Writer(self.world, self.draw, self.day).statement(kind))
        return Ask(self.draw.choice(ANALYSTS), self.asked[-1])

    def ask_again(self) -> Ask:
        if not self.asked:
            return self.ask()
        again = self.draw.choice(self.asked)
        return Ask(self.draw.choice(ANALYSTS), again)


def stream_of(seed: int, statements: int = 40, often: Sequence[str] = ()) -> Stream:
    """The stream of a number; most of its statements are of the kinds that are asked `often`, if there are any."""
    world = world_of(seed)
    return Stream(seed, world, tuple(Teller(world, seed, often).events(statements)))
