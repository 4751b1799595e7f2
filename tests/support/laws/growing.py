"""Worlds in which tables grow: rows at the ends of periods, rows without a time, people in several periods, and tables beside
them that do not grow; with each neighbour that lacks one entity, and each that lacks the rows of one entity in one period."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

import duckdb
from support import worlds
from support.laws.bad_worlds import KINDS as BAD
from support.laws.family import ENTITIES, Family, nodes
from support.laws.law import Evaluation, Violation, certificate_of, evaluate, longer, moved, ranks_moved, sums_moved
from support.laws.random_plans import Builder, random_plans
from support.worlds import CLINICS, World, insert, removals

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine.opening import public_values
from dpsql.frozen import Frozen, field, replace
from dpsql.trusted.declarations.growth import CALENDAR, Growth, PeriodKind, PeriodRange, period_of
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.plan.node import Field, Node, Summary
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan

SCHEMA = {**worlds.SCHEMA, "scores": "person_id INTEGER, points INTEGER, scored DATE"}
POLICY = worlds.POLICY.replace("points = { range = [-5, 5] }", "points = { range = [-5, 5] }\nscored = { range = [2018-01-01, 2021-12-31] }")
TIMES = {"visits": ("seen", 6), "scores": ("scored", 2)}
"""The column of time of each table that can grow, and its place in a row."""
LEAP = dt.date(2020, 2, 29)
TERMS = tuple(day.toordinal() for day in (dt.date(2019, 10, 7), LEAP, dt.date(2020, 3, 1), dt.date(2020, 5, 18)))
Key: TypeAlias = tuple[Any, int | None]
IN_A_PERIOD = {entity: f"{entity} in a period" for entity in ENTITIES}


class Growing(Frozen):
    """Which tables grow, how time is cut, and how many rows of an entity in one period are used."""

    period: PeriodKind
    tables: frozenset[str] = frozenset(TIMES)
    rows: int | None = None
    calendar: tuple[int, ...] = ()

    @property
    def numbers(self) -> Sequence[int]:
        """The periods in which there are rows, by their first numbers: that of a leap day and those around it."""
        middle = period_of(self.period, LEAP)
        return range(middle - 1, middle + 2) if self.period != CALENDAR else self.calendar[:-1]

    @property
    def growth(self) -> Growth:
        return Growth(column="", period=self.period, since=self.numbers[0], calendar=self.calendar)

    def number(self, day: dt.date) -> int:
        """The first number of the period of a day."""
        found = self.growth.containing(period_of(self.period, day))
        assert found is not None
        return found.first

    def range_of(self, first: int, last: int) -> PeriodRange:
        """The periods from one to another, by their first numbers."""
        end = self.growth.containing(last)
        assert end is not None
        return PeriodRange(period=self.period, first=first, last=end.last)


class GrowingWorld(World, kw_only=False):
    """A world whose tables grow."""

    growing: Growing = field(default_factory=lambda: Growing(period="month"))

    def fill(self, connection: duckdb.DuckDBPyConnection) -> None:
        for table, columns in SCHEMA.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            insert(connection, table, self.rows.get(table, []))

    def without_in(self, entity: str, key: Any, period: int | None) -> World:
        """Without the rows of an entity in one period of the growing tables; without those that are in no period, if that is
        None. All other rows stay."""
        rows = {table: list(found) for table, found in self.rows.items()}
        for table in self.growing.tables:
            rows[table] = [row for row in rows[table] if not (self.period_at(table, row) == period and self._owned(entity, key, table, row))]
        return World(rows)

    def period_at(self, table: str, row: tuple[Any, ...]) -> int | None:
        time = row[TIMES[table][1]]
        return None if time is None else self.growing.number(time.date() if isinstance(time, dt.datetime) else time)

    def _owned(self, entity: str, key: Any, table: str, row: tuple[Any, ...]) -> bool:
        person = row[0 if table == "scores" else 1]
        return person == key if entity == "person" else any(
            found[0] == person and found[1] == key for found in self.rows["people"])

    def parts(self, entity: str) -> Iterator[tuple[Key, World]]:
        """Every neighbour that lacks the rows of one entity in one period, or those without a time."""
        for key in self.keys(entity):
            for period in (*self.growing.numbers, None):
                yield (key, period), self.without_in(entity, key, period)


def grown(world: World, growing: Growing, seed: int) -> GrowingWorld:
    """A world whose rows have times around the ends of three periods; some have none."""
    draw = random.Random(seed)

    def time() -> dt.datetime | None:
        number = draw.choice(growing.numbers)
        period = growing.range_of(number, number)
        start, end = (dt.datetime.combine(day, dt.time()) for day in (period.start, period.end))
        return draw.choice([start, end - dt.timedelta(microseconds=1), start + (end - start) / 2, *([None] * (draw.random() < 0.3))])

    def dated(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [(*row[:2], None if (at := time()) is None else at.date()) for row in rows]

    rows = {table: list(found) for table, found in world.rows.items()}
    rows["visits"] = [(*row[:6], time()) for row in rows["visits"]]
    rows["scores"] = dated(rows["scores"])
    return GrowingWorld(rows, growing)


class GrowingFamily(Family):
    """A growing world and all of its neighbours of both units."""

    schema: ClassVar[Mapping[str, str]] = SCHEMA

    def __init__(self, full: GrowingWorld, *, name: str) -> None:
        self.growing, self.sized = full.growing, full
        super().__init__(full, name=name, entities=(*ENTITIES, *IN_A_PERIOD.values()))

    def _removals(self, full: World, entity: str) -> Iterable[tuple[Any, World]]:
        if entity in ENTITIES:
            return removals(full, entity)
        assert isinstance(full, GrowingWorld)
        return full.parts(entity.removesuffix(" in a period"))

    def catalog(self, entity: str) -> Catalog:
        return growing_catalog(entity, self.growing)

    def reads(self, plan: Node) -> PeriodReads | None:
        """What the kernel derives of the periods that a plan reads."""
        claims = self.kernel._claims
        claims.begin()
        claims.relation(plan.input if isinstance(plan, Summary) else plan)
        return claims.reads([plan])


@lru_cache(maxsize=32)
def growing_catalog(entity: str, growing: Growing) -> Catalog:
    connection = duckdb.connect(":memory:")
    for table, columns in SCHEMA.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
    insert(connection, "clinics", list(CLINICS))
    parsed = parse_policy(POLICY)
    budget = next(name for name, found in parsed.budgets.items() if found.entity == entity)
    reader = DuckReader(connection, "test")
    made = fit(parsed, budget, reader.schema(), public_values(reader))
    return growing_tables(made, growing)


def growing_tables(catalog: Catalog, growing: Growing) -> Catalog:
    """A catalog whose tables grow."""
    return replace(catalog, tables={name: replace(table, growth=Growth(
        column=TIMES[name][0], period=growing.period, since=growing.numbers[0], rows=growing.rows, calendar=growing.calendar)) if name in growing.tables else table
        for name, table in catalog.tables.items()})


class GrowingBuilder(Builder):
    """Draws plans whose scans of growing tables read one period, or several, the same in all scans or not. Half of them combine a
    growing table with a private one that does not grow, mostly by owner."""

    growing: Growing = Growing(period="month")

    def plans(self, depth: int = 3) -> tuple[Node, ...]:
        self.one = self.draw.choice(self.growing.numbers) if self.draw.random() < 0.75 else None
        self.beside = self.draw.random() < 0.5
        return super().plans(depth)

    def relation(self, depth: int) -> Node:
        if not self.beside:
            return super().relation(depth)
        self.beside = False
        sides = [self.scan(self.draw.choice(sorted(self.growing.tables))), self.scan("people")]
        sides = [self.draw.choice([self.filter, self.group, self.truncate])(side) if self.draw.random() < 0.3 else side for side in sides]
        self.draw.shuffle(sides)
        made = self.draw.choice([self.join, self.join, self.join, self.join, self.union, self.lookup, self.set_operation])(*sides)
        return made if self.draw.random() < 0.4 else self.draw.choice([self.filter, self.project, self.group, self.truncate, self.window])(made)

    def pair(self, left: Node, right: Node) -> tuple[Field, Field] | None:
        """Columns to compare: often the owners of both sides."""
        ours, theirs = (self.known(side).owner for side in (left, right))
        if ours is not None and theirs is not None and self.draw.random() < 0.7:
            return left.field(ours), right.field(theirs)
        return super().pair(left, right)

    def scan(self, name: str) -> Node:
        made = super().scan(name)
        assert isinstance(made, Scan)
        if made.table.growth is None:
            return made
        first, last = (self.one, self.one) if self.one is not None else sorted(self.draw.choices(self.growing.numbers, k=2))
        return replace(made, periods=self.growing.range_of(first, last))


def growing_plans(seed: int, entity: str, family: GrowingFamily) -> tuple[Node, ...]:
    """Two plans over one relation with a growing table in it, or none."""
    builder = type("Drawn", (GrowingBuilder,), {"growing": family.growing})
    plans = random_plans(seed, family.catalog(entity), family.kernel, builder)
    return plans if any(isinstance(node, Scan) and node.periods is not None for node in nodes(*plans)) else ()


def growing_families(size: int) -> list[GrowingFamily]:
    """Each kind of bad world, growing by each kind of period; in some, one of the two tables does not grow. The calendar has a long
    period, one of a single day, and one that ends in the middle of a month."""
    kinds: Sequence[Growing] = (Growing(period="month"), Growing(period="day"), Growing(period="week"), Growing(period="year"),
                                Growing(period="quarter", tables=frozenset({"visits"})),
                                Growing(period="month", tables=frozenset({"scores"})), Growing(period=CALENDAR, calendar=TERMS))
    return [GrowingFamily(grown(make(size), growing, size + at), name=f"{name} by {growing.period}")
            for at, ((name, make), growing) in enumerate(zip((*BAD.items(), *BAD.items()), kinds, strict=False))]


# -- the law


def why(plan: Node, reads: PeriodReads | None) -> str:
    """Why a plan takes one step, or two."""
    scans = [node for node in nodes(plan) if isinstance(node, Scan) and not node.table.public]
    if reads is None:
        return "nothing that grows"
    if reads.steps == 1:
        return "only growing tables" if all(scan.periods is not None for scan in scans) else "carried by growth"
    one = len({scan.periods for scan in scans} - {None}) == 1 and all(scan.in_one_period for scan in scans if scan.periods is not None)
    return "not carried" if one else "several periods"


def violations_in_periods(plans: Sequence[Node], entity: str, family: GrowingFamily, whole: Evaluation | None = None,
                          moves: Counter[str] | None = None) -> list[Violation]:
    """All claims about the rows of an entity in one period that do not hold. `whole` is what was seen without all of its rows;
    `moves` counts, for each reason, the entities whose rows in a period moved a result."""
    seen, whole, found = evaluate(plans, IN_A_PERIOD[entity], family), whole or evaluate(plans, entity, family), list[Violation]()
    for plan in plans:
        reads = family.reads(plan)
        inside = {key: rows for key, rows in seen.without.items() if reads is not None and key[1] in reads.numbers}
        for claim, detail in (*_outside(plan, seen, inside), *_within(plan, seen, whole, inside, reads, family)):
            found.append(Violation(claim, plan, detail, plan))
        if moves is not None:
            moves[why(plan, reads)] += sum(rows[id(plan)] != seen.full[id(plan)] for rows in inside.values())
    return found


def _outside(plan: Node, seen: Evaluation, inside: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    for key, rows in seen.without.items():
        for node in nodes(plan) if key not in inside else ():
            if rows[id(node)] != seen.full[id(node)]:
                yield "outside", f"without {key}, which is not read, rows of {type(node).__name__} change"


def _within(plan: Node, seen: Evaluation, whole: Evaluation, inside: Mapping[Any, Any], reads: PeriodReads | None,
            family: GrowingFamily) -> Iterator[tuple[str, str]]:
    steps = 2 if reads is None else reads.steps
    here, (below,) = replace(seen, without=inside), plan.inputs
    for key, rows in inside.items():
        if steps == 1 and rows[id(below)] != whole.without[key[0]][id(below)]:
            yield "carried", f"without {key}, the rows are not those without the entity"
        claimed = seen.known[id(below)].rows
        if claimed is not None and moved(seen.full[id(below)], rows[id(below)]) > steps * claimed:
            yield "rows", f"without {key}, {moved(seen.full[id(below)], rows[id(below)])} rows differ; claimed are {claimed}"
        if claimed is not None and isinstance(plan, Ranks):
            yield from (("ranks", f"without {where}, {count} ranks move") for where, count in ranks_moved(plan, replace(here, without={key: rows}))
                        if count > steps * claimed)
    certificate = certificate_of(plan, family)
    if isinstance(plan, GroupedSums) and certificate is not None:
        for key, summand, vector in sums_moved(plan, here):
            of = certificate.summands[summand]
            if of.l1 is not None and longer(vector, 1, steps * of.l1) or longer(vector, 2, steps * of.l2):
                yield "tally", f"without {key}, summand {summand} moves by {vector}; claimed is {of} in {steps} steps"
