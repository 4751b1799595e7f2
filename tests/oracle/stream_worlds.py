"""Small policies whose tables grow, the rows that they are about, and what is left of these without a person, or a part of one.

A person in one period owns the rows of the growing tables that have a time in this period, and a person in a window those of its
periods. A row is late if it arrived when its period was closed. All that is read here from the rows and the foreign keys alone, by
the calendar of Python, and not by the code that is tested.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dpsql.frozen import Frozen, replace

Row: TypeAlias = tuple[Any, ...]
State: TypeAlias = Mapping[str, tuple[Row, ...]]
"""The rows of each table at one moment."""

PEOPLE = 4
PERIODS = 4  # that can be closed when a stream ends
WHOLE = None  # in place of periods: all rows of a person


class Part(Frozen, kw_only=False):
    """The rows that a neighbour does not have: those of a person in some periods of the growing tables, or else all of theirs. `unit`
    says of which unit of privacy they are."""

    person: int
    periods: range | None
    unit: str

    def __str__(self) -> str:
        where = "" if self.periods is None else f" ({self.periods.start} to {self.periods.stop - 1})"
        return f"the rows of person {self.person} {self.unit}{where}"


IN_PERIOD, IN_WINDOW, IN_ALL = "in one period", "in a window", "in all"
LATE = Part(-1, WHOLE, "that came late")
"""All rows that arrived too late, of everybody, where the owner drops them: nothing may depend on them."""

START = {"day": dt.date(2024, 2, 27), "week": dt.date(2024, 2, 19), "month": dt.date(2023, 12, 1), "quarter": dt.date(2023, 10, 1),
         "year": dt.date(2021, 1, 1)}


class Reference(Frozen, kw_only=False):
    """A foreign key."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


class StreamTable(Frozen):
    """A table: the types of its columns, what the policy declares of them, and how it grows."""

    name: str
    columns: Mapping[str, str]
    declared: Mapping[str, str]
    key: str | None = None
    references: tuple[Reference, ...] = ()
    time: str | None = None
    closes: int = 0
    limit: int | None = None
    public: bool = False
    arrived: str | None = None

    def at(self, column: str) -> int:
        return [*self.columns].index(column)

    def created(self) -> str:
        columns = [f"{name} {kind}" for name, kind in self.columns.items()]
        keys = [f"PRIMARY KEY ({self.key})"] if self.key else []
        return f"CREATE OR REPLACE TABLE {self.name} ({', '.join([*columns, *keys])})"


class StreamWorld(Frozen):
    """A policy, and the rows at the beginning."""

    tables: Mapping[str, StreamTable]
    period: str
    first: int
    budget: str
    rows: State
    price: Mapping[str, float]
    window: int = 2  # consecutive periods that the third unit is about, whether the policy limits it or not
    prepared: bool = False  # whether the owner makes prepared stores

    @property
    def growing(self) -> list[StreamTable]:
        return [table for table in self.tables.values() if table.time is not None]

    @property
    def since(self) -> dt.date:
        return start_of(self.period, self.first)

    @property
    def policy(self) -> str:
        return "\n".join(_policy(self))

    def closed(self, table: StreamTable, day: dt.date) -> range:
        """The numbers of the periods of a table that are closed on a day."""
        number = self.first
        while start_of(self.period, number + 1) + dt.timedelta(days=table.closes) <= day:
            number += 1
        return range(self.first, number)

    # -- who owns a row

    def owners(self, state: State, name: str, row: Row) -> set[int]:
        """The people to whom a row belongs, by the foreign keys and the rows at this moment."""
        table = self.tables[name]
        if name == "people":
            return {row[table.at("person_id")]}
        found = set[int]()
        for ref in table.references:
            mine, above = [row[table.at(column)] for column in ref.columns], self.tables[ref.table]
            if None in mine:
                continue
            for parent in state[ref.table]:
                if [parent[above.at(column)] for column in ref.references] == mine:
                    found |= self.owners(state, ref.table, parent)
        return found

    def period_at(self, name: str, row: Row) -> int | None:
        """The period of a row of a growing table; None if it has no time."""
        table = self.tables[name]
        time = row[table.at(table.time)] if table.time else None
        return None if time is None else number_of(self.period, time.date() if isinstance(time, dt.datetime) else time)

    def is_late(self, name: str, row: Row) -> bool:
        """Whether a row is never read, as it arrived when its period was closed, or nobody knows when."""
        table = self.tables[name]
        number = None if table.arrived is None else self.period_at(name, row)
        if table.arrived is None or number is None:
            return False
        arrival = row[table.at(table.arrived)]
        if arrival is None:
            return True
        moment = arrival if isinstance(arrival, dt.datetime) else dt.datetime.combine(arrival, dt.time())
        return bool(moment >= dt.datetime.combine(start_of(self.period, number + 1), dt.time()) + dt.timedelta(days=table.closes))

    def parts(self, states: Sequence[State]) -> list[Part]:
        """Everybody, in each period in which they ever have rows, in each window that has one of these, and in all; and late rows."""
        found: dict[int, set[int]] = {person: set() for person in range(PEOPLE + 1)}
        late = False
        for state in states:
            for name, rows in Owned(self, state).rows.items():
                for row, people, number in rows:
                    late |= self.is_late(name, row)
                    if number is not None:
                        for person in people:
                            found.setdefault(person, set()).add(number)
        made = [*(Part(person, WHOLE, IN_ALL) for person in range(PEOPLE + 1)), *([LATE] if late else [])]
        for person, numbers in sorted(found.items()):
            made += [Part(person, range(number, number + 1), IN_PERIOD) for number in sorted(numbers)]
            made += [Part(person, range(first, first + self.window), IN_WINDOW) for first in sorted(
                {number - back for number in numbers for back in range(self.window)})]
        return made


class Owned:
    """The rows of a moment, with their owners and their periods."""

    def __init__(self, world: StreamWorld, state: State) -> None:
        self.world, self.state = world, state
        self.rows = {name: [(row, world.owners(state, name, row), world.period_at(name, row)) for row in rows]
                     for name, rows in state.items() if not world.tables[name].public}

    def without(self, part: Part) -> State:
        """The rows that are not of a part."""
        return {name: tuple(row for row, people, number in self.rows[name] if not self._is_of(part, name, row, people, number))
                if name in self.rows else rows for name, rows in self.state.items()}

    def _is_of(self, part: Part, name: str, row: Row, people: set[int], number: int | None) -> bool:
        if part is LATE:
            return self.world.is_late(name, row)
        return part.person in people and (part.periods is None or number in part.periods)


# -- the calendar, written once more


def number_of(period: str, day: dt.date) -> int:
    if period == "day":
        return day.toordinal()
    if period == "week":
        return (day - dt.timedelta(days=day.weekday())).toordinal() // 7
    return {"month": day.year * 12 + day.month - 1, "quarter": day.year * 4 + (day.month - 1) // 3, "year": day.year}[period]


def start_of(period: str, number: int) -> dt.date:
    if period == "day":
        return dt.date.fromordinal(number)
    if period == "week":
        return dt.date.fromordinal(number * 7 + 1)
    months = number * {"month": 1, "quarter": 3, "year": 12}[period]
    return dt.date(months // 12, months % 12 + 1, 1)


# -- drawing one


class Maker:
    """Draws a policy and the rows at the beginning."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"world {seed}")
        self.period = self.draw.choice(["day", "week", "month", "month", "quarter", "year"])
        self.first = number_of(self.period, START[self.period])

    def world(self) -> StreamWorld:
        tables = [self.people(), self.places(), self.visits()]
        if self.draw.random() < 0.5:
            tables.append(self.cards())
        if self.draw.random() < 0.5:
            tables.append(self.lines())
        if self.draw.random() < 0.5:
            tables.append(self.calls("cards" in [table.name for table in tables]))
        if self.draw.random() < 0.2:
            tables.append(self.meetings())
        if self.draw.random() < 0.4:
            tables.append(self.open_visits(tables[2]))
        named = {table.name: table for table in tables}
        window = self.draw.choice([2, 2, 3])
        budget, price = self.budget(window)
        world = StreamWorld(tables=named, period=self.period, first=self.first, budget=budget, rows={}, price=price, window=window,
                            prepared=self.draw.random() < 0.3)
        writer = RowWriter(world, self.draw)
        rows: dict[str, tuple[Row, ...]] = dict.fromkeys(named, ())
        for name in named:
            rows[name] = tuple(writer.first_rows(name, rows))
        return replace(world, rows=rows)

    # -- tables

    def grown(self) -> dict[str, Any]:
        return {"time": "seen", "closes": self.draw.choice([0, 0, 1, 5]), "limit": self.draw.choice([1, 2, 2, 3, None])}

    def arriving(self) -> dict[str, str]:
        """The column of a row's arrival, in some tables: their rows are dropped if they are late."""
        return {"loaded": self.kind_of_time()} if self.draw.random() < 0.5 else {}

    def kind_of_time(self) -> str:
        return self.draw.choice(["DATE", "TIMESTAMP"])

    def people(self) -> StreamTable:
        return StreamTable(name="people", key="person_id", columns={"person_id": "INTEGER", "sex": "VARCHAR", "age": "INTEGER"},
                           declared={"person_id": "{}", "sex": '{ values = ["f", "m"] }', "age": "{ range = [0, 9] }"})

    def places(self) -> StreamTable:
        return StreamTable(name="places", columns={"place": "INTEGER", "town": "VARCHAR"},
                           declared={"place": "{}", "town": "{}"}, public=True)

    def visits(self) -> StreamTable:
        loaded = self.arriving()
        return StreamTable(name="visits", key="visit_id", arrived=next(iter(loaded), None), **self.grown(), columns={
            "visit_id": "INTEGER", "person_id": "INTEGER", "seen": self.kind_of_time(), "cost": "INTEGER", "place": "INTEGER", **loaded}, declared={
            "visit_id": "{}", "person_id": "{}", "seen": "{}", "cost": "{ bounds = [0, 9], decimals = 0 }", "place": "{ range = [0, 3] }",
            **dict.fromkeys(loaded, "{}")}, references=(Reference(("person_id",), "people", ("person_id",)),))

    def open_visits(self, visits: StreamTable) -> StreamTable:
        """A public table like that of the visits, which VALIDATE compares them with."""
        return StreamTable(name="visits_syn", columns=visits.columns, declared=visits.declared, time=None, public=True)

    def cards(self) -> StreamTable:
        """A private table that does not grow, and on whose rows others hang."""
        return StreamTable(name="cards", key="card_id", columns={"card_id": "INTEGER", "person_id": "INTEGER", "kind": "VARCHAR"},
                           declared={"card_id": "{}", "person_id": "{}", "kind": '{ values = ["a", "b"] }'},
                           references=(Reference(("person_id",), "people", ("person_id",)),), limit=2)

    def lines(self) -> StreamTable:
        """A growing table whose rows name a person, and a visit, perhaps one of somebody else or of another period."""
        loaded = self.arriving()
        return StreamTable(name="lines", arrived=next(iter(loaded), None), **self.grown(), columns={
            "person_id": "INTEGER", "visit_id": "INTEGER", "seen": self.kind_of_time(), "amount": "INTEGER", **loaded}, declared={
            "person_id": "{}", "visit_id": "{}", "seen": "{}", "amount": "{ bounds = [-5, 5], decimals = 0 }", **dict.fromkeys(loaded, "{}")},
            references=(Reference(("person_id",), "people", ("person_id",)),))

    def calls(self, has_cards: bool) -> StreamTable:
        """A growing table whose rows name a person, or a card of one."""
        above = Reference(("card_id",), "cards", ("card_id",)) if has_cards and self.draw.random() < 0.6 else Reference(
            ("person_id",), "people", ("person_id",))
        own, = above.columns
        return StreamTable(name="calls", **self.grown(), columns={own: "INTEGER", "seen": self.kind_of_time(), "length": "INTEGER"}, declared={
            own: "{}", "seen": "{}", "length": "{ bounds = [0, 9], decimals = 0 }"}, references=(above,))

    def meetings(self) -> StreamTable:
        """A growing table whose rows belong to two people."""
        return StreamTable(name="meetings", **{**self.grown(), "limit": None}, columns={"one": "INTEGER", "other": "INTEGER", "seen": self.kind_of_time()},
                           declared={"one": "{}", "other": "{}", "seen": "{}"},
                           references=(Reference(("one",), "people", ("person_id",)), Reference(("other",), "people", ("person_id",))))

    # -- budgets

    def budget(self, window: int) -> tuple[str, Mapping[str, float]]:
        kind, small = self.draw.choice(["epsilon", "epsilon and delta", "rho"]), self.draw.random() < 0.4
        per, one_price = (self.draw.choice([3, 5]), 0.25) if small else (100, 1.0)
        if kind == "rho":
            total, one, price = f"rho = {50 if small else 1000}\ndelta = 0.1", f"rho = {per}, delta = 0.01", {"rho": one_price}
        else:
            delta, of_one = ("\ndelta = 0.1", ", delta = 0.01") if kind != "epsilon" else ("", "")
            total, one, price = f"epsilon = {20 if small else 1000}{delta}", f"epsilon = {per}{of_one}", {"epsilon": one_price}
            price |= {"delta": 1e-4} if kind != "epsilon" else {}
        mine = f"\nper_analyst_and_period = {{ {one.replace(str(per), str(max(2, per // 2)), 1)} }}" if self.draw.random() < 0.5 else ""
        if self.draw.random() < 0.5:
            several = one.replace(str(per), str(2 * per), 1)
            mine += f"\nin_any = {{ periods = {window}, {several} }}"
        return f"{total}\nper_period = {{ {one} }}{mine}", price


class RowWriter:
    """Draws rows of a world's tables."""

    def __init__(self, world: StreamWorld, draw: random.Random) -> None:
        self.world, self.draw = world, draw

    def first_rows(self, name: str, state: State) -> Iterator[Row]:
        if name == "people":
            yield from ((person, self.draw.choice(["f", "m", "x", None]), self.draw.randrange(10)) for person in range(PEOPLE))
        elif name == "places":
            yield from ((place, self.draw.choice(["north", "south"])) for place in (0, 1, 1, 2))
        elif name == "visits_syn":
            yield from (self.draw.sample(state["visits"], min(len(state["visits"]), 3)))
        else:
            made = dict(state)
            for _ in range(self.draw.choice([4, 8, 12])):
                if (row := self.row(name, made)) is not None:
                    made[name] = (*made[name], row)
                    yield row

    def row(self, name: str, state: State, period: int | None = None) -> Row | None:
        """A new row, in a period if that is given; None if there is no room for one."""
        table, found = self.world.tables[name], dict[str, Any]()
        for column, kind in table.columns.items():
            found[column] = (self.time(kind, period) if column == table.time else self.value(column))
        if table.arrived is not None:
            found[table.arrived] = self.arrival(table, found[table.time or ""])
        for ref in table.references:
            above = self.world.tables[ref.table]
            parents = state[ref.table]
            if parents and self.draw.random() < 0.95:
                parent = self.draw.choice(parents)
                found |= {own: parent[above.at(column)] for own, column in zip(ref.columns, ref.references, strict=True)}
        if table.key is not None:
            taken = {row[table.at(table.key)] for row in state[name]}
            free = [number for number in range(40) if number not in taken]
            if not free:
                return None
            found[table.key] = self.draw.choice(free)
        return tuple(found.values())

    def time(self, kind: str, period: int | None) -> Any:
        """The ends of periods, and moments within; without a period, sometimes none, or one that is never read."""
        if period is None:
            if self.draw.random() < 0.1:
                return None
            period = self.world.first + self.draw.choice([-1, 0, 0, 1, 1, 2, 2, 3, 3, 4])
        start, end = (dt.datetime.combine(start_of(self.world.period, number), dt.time()) for number in (period, period + 1))
        at = self.draw.choice([start, start, end - dt.timedelta(microseconds=1), start + (end - start) / 2])
        return at if kind == "TIMESTAMP" else at.date()

    def arrival(self, table: StreamTable, time: Any) -> Any:
        """A moment around that at which the period of a row is closed; sometimes it is not known."""
        if time is None or self.draw.random() < 0.05:
            return None
        number = number_of(self.world.period, time.date() if isinstance(time, dt.datetime) else time)
        end = dt.datetime.combine(start_of(self.world.period, number + 1), dt.time())
        closed, tick, day = end + dt.timedelta(days=table.closes), dt.timedelta(microseconds=1), dt.timedelta(days=1)
        at = self.draw.choice([end - day, end - day, end - tick, closed - tick, closed - tick, closed, closed, closed + tick, closed + 9 * day])
        return at if table.columns["loaded"] == "TIMESTAMP" else at.date()

    def value(self, column: str) -> Any:
        if column == "loaded":
            return None
        if column == "kind":
            return self.draw.choice(["a", "b"])
        if column in ("person_id", "one", "other", "visit_id", "card_id"):
            return self.draw.choice([0, 1, 2, 3, 7, None])
        return self.draw.choice([None, *range(10), 99, -99])


def world_of(seed: int) -> StreamWorld:
    """The world of a number."""
    return Maker(seed).world()


def _policy(world: StreamWorld) -> Iterator[str]:
    yield 'version = 1\ndatabase = "data.duckdb"\n[entities.person]\ntable = "people"\nkey = "person_id"'
    for table in world.tables.values():
        yield f"[tables.{table.name}]"
        yield from ("public = true",) if table.public else ()
        yield from (f'key = "{table.key}"',) if table.key else ()
        if table.time is not None:
            yield f'grows_by = "{table.time}"\nperiod = "{world.period}"\nsince = {world.since}\ncloses = "{table.closes} days"'
        yield from ('late = "drop"', f'arrived = "{table.arrived}"') if table.arrived else ()
        if table.limit is not None:
            yield f"{'rows_per_entity_and_period' if table.time else 'rows_per_entity'} = {table.limit}"
        if table.references:
            keys = ", ".join(f"{{ columns = {_names(ref.columns)}, references = \"{ref.table}({', '.join(ref.references)})\" }}"
                             for ref in table.references)
            yield f"foreign_keys = [{keys}]"
        yield f"[tables.{table.name}.columns]"
        yield from (f"{column} = {told}" for column, told in table.declared.items())
    yield f'[budgets.study]\nentity = "person"\n{world.budget}'


def _names(columns: Sequence[str]) -> str:
    return f'"{columns[0]}"' if len(columns) == 1 else "[" + ", ".join(f'"{column}"' for column in columns) + "]"
