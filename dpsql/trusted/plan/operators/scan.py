"""Reading a declared table."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.growth import Growth, PeriodRange
from dpsql.trusted.declarations.tables import OwnerPath, Table
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref
from dpsql.trusted.plan.expr.printing import literal, quote, to_sql
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability
from dpsql.trusted.plan.stored import OWNER, place_in_bucket
from dpsql.types import Type

NONE: Mapping[str, str] = MappingProxyType({})


class Scan(Node):
    """The rows of a table, with every column widened to one of the types of expressions.

    `columns` pairs identifiers with declared columns. For a private table, `owners` are the identifiers of the columns that
    name the row's entities, one for each way of the table: declared columns, or columns that are found by joining along the
    foreign keys.

    Proof. A public table does not depend on private rows: 0. In a private table, by the meaning of a protected entity, the
    rows that leave with an entity are those that have its key as one of their owners. An owner is a function of the row: it is
    read in the row, or in the one parent that each foreign key step names (parents are unique, by a guarantee of the database,
    and leave together with the row). Rows with an owner that is NULL, or whose parent is missing, are dropped. If a foreign
    key of several columns contains the name, rows with a NULL in another of its columns are dropped too, as they reference no
    row and stay when the entity leaves. (That a key without a NULL references an existing row is declared by the policy.) If
    the owner alone is a key, an entity has one row; otherwise the number of its rows is not bounded here: `Truncate` does
    that. If entities are of several kinds, the name is combined with the number of its kind, and different entities have
    different names: n * k + i with 0 <= i < k determines n and i, and so does the text 'i:n', as i contains no colon. (32 bits
    of n leave room for k kinds.)

    Every NaN is replaced by the same one: engines may or may not store its sign, depending on the values stored next to it, and a
    text or an order would show the sign. Widening never raises: whole numbers and numbers fit into their wide types, and moments
    of another unit that do not are NULL. Frequencies are those of the table's keys, which the database guarantees by `=`, and
    only of columns that are carried exactly and never NULL (`catalog.schema`): values that it tells apart stay apart.

    Of a table that grows only the rows of some whole `periods` are read. The period of a row is a function of the row, so this is
    a filter: each row stays or not by itself. A growing table without periods is no relation that can be certified.

    Where late rows are dropped, a row is read only if it arrived before its own period was closed, which is again a function of
    the row: of its time and of the time at which it arrived. So this is a filter too, and the law of `kernel.period_reads` does
    not change: the rows of a person in a period are the same ones, of which fewer are read. Let a be the arrival, p the period
    of the row, and c the days until a period is closed. The row is on time if a < first_day(p + 1) + c, which holds exactly if
    the period of a - c is p or an earlier one; printed is a comparison of the first days of both. It is not true, so the row is
    not read, if the arrival is NULL, or before the year 201 or after 9000, where nothing is computed.
    """

    table: Table
    columns: tuple[tuple[str, str], ...]
    owners: tuple[str, ...] = ()
    periods: PeriodRange | None = None

    @property
    def owner(self) -> str | None:
        """The owner of rows that belong to one entity each."""
        return self.owners[0] if len(self.owners) == 1 else None

    @property
    def in_one_period(self) -> bool:
        """Whether one period of a growing table is read."""
        growth, periods = self.table.growth, self.periods
        return growth is not None and periods is not None and len(growth.first_numbers(periods)) == 1

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        found, followed = [], self._followed
        for column, name in self.columns:
            declared = self.table.columns.get(name)
            if declared is None:
                raise InvalidPlan(f"table {self.table.name} declares no column {name}")
            found.append(Field(id=column, name=name, facts=Facts(
                type=declared.type, physical=declared.physical,
                nullable=declared.nullable and column not in self.owners and name not in followed,
                declared=declared.declared, domain=declared.domain, step=declared.step, whole=declared.type.value == "BIGINT",
                search=declared.search, single=declared.sql_type.upper() == "FLOAT")))
        for owner, way in self._unseen:
            found.append(Field(id=owner, name="(owner)", facts=Facts(type=way.type, nullable=False)))
        return tuple(found)

    @property
    def _followed(self) -> frozenset[str]:
        """The columns in which the path to an owner starts. Rows with NULL in one of them have no parent and are dropped."""
        return frozenset(column for way in self.table.owners for step in way.steps[:1] for column in step.columns)

    @property
    def _unseen(self) -> tuple[tuple[str, OwnerPath], ...]:
        """The owners that are read in addition to the declared columns, and their paths."""
        if len(self.owners) != len(self.table.owners):
            raise InvalidPlan(f"table {self.table.name} is read without its owners")
        return tuple((owner, way) for owner, way in zip(self.owners, self.table.owners, strict=True)
                     if owner not in dict(self.columns))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        ids = {name: column for column, name in self.columns}
        found = {frozenset(ids[name] for name in key): 1 for key in self.table.unique if all(name in ids for name in key)}
        return found | {frozenset([owner]): 1 for owner, way in self._unseen
                        if not way.steps and {way.column} in self.table.unique}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if self.table.public:
            return Stability(rows=0, because="public table")
        if not self.owners or len(set(self.owners)) != len(self.table.owners):
            raise InvalidPlan(f"private table {self.table.name} is read without its owners")
        growth, periods = self.table.growth, self.periods
        if (growth is None) is not (periods is None) or (growth and periods and not growth.is_whole(periods)):
            raise InvalidPlan(f"the periods in which {self.table.name} is read are not those in which it grows")
        inside = dict(self.columns)
        for owner, way in zip(self.owners, self.table.owners, strict=True):
            if owner in inside and (not way.in_row or inside[owner] != way.column):
                raise InvalidPlan(f"{inside[owner]} does not name an owner of {self.table.name}")
        told = " and ".join(self._told(way) for way in self.table.owners)
        if self.one_row:
            return Stability(rows=1, owners=self.owners, because=f"owned by {told}, a key of the table")
        return Stability(rows=None, owners=self.owners, because=f"owned by {told}; rows per entity not yet limited")

    def _told(self, way: OwnerPath) -> str:
        return " -> ".join((self.table.name, *(step.table for step in way.steps))) + f".{way.column}"

    @property
    def one_row(self) -> bool:
        """Whether the database guarantees that an entity has at most one row."""
        return self.owner is not None and any(key == {self.owner} for key in self.unique)

    @property
    def owner_in_row(self) -> bool:
        """Whether the owner is in the row itself."""
        return self.table.owner is not None and not self.table.owner.steps

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        return self.rows_where(None, printing)

    def rows_where(self, condition: Expr | None, printing: Printing, *, beside: Mapping[str, str] = NONE,
                   tested: Sequence[str] = ()) -> str:
        """The SELECT statement of the rows that satisfy a condition, and further conditions `tested`, given as SQL. `beside` are
        additional columns, as SQL. In the SQL, `t0` is the table."""
        carried = {column: self._carried(name) for column, name in self.columns}
        source, tests = self._stored(carried, printing) if self.table.name in printing.stored else self._found(carried)
        tests += [*([to_sql(condition, carried)] if condition is not None else []), *self.in_periods(), *tested]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        shown = ", ".join(f"{printed} AS {quote(column)}" for column, printed in {**carried, **beside}.items())
        return f"SELECT {shown} FROM {source}{where}"

    def in_periods(self) -> Iterator[str]:
        """The tests that a row is in the periods that are read."""
        growth, periods = self.table.growth, self.periods
        if growth is not None and periods is not None:
            kind = self.table.columns[growth.column].type
            for sign, day in (">=", periods.start), ("<", periods.end):
                end = dt.datetime.combine(day, dt.time()) if kind is Type.TIMESTAMP else day
                yield f"({self._carried(growth.column)} {sign} {literal(end, kind)})"
            if growth.arrived is not None:
                yield self._on_time(growth, growth.arrived)

    def _on_time(self, growth: Growth, arrived: str) -> str:
        """The test that a row arrived before its period was closed, by functions that never raise."""
        first_day, columns = f"date_trunc_{growth.period}", self.table.columns
        then, time = (Ref(column=name, type=columns[name].type) for name in (arrived, growth.column))
        before = Call(function="add_days", args=(then, Literal(value=-growth.closes, type=Type.BIGINT)), type=Type.TIMESTAMP)
        test = Call(function="<=", type=Type.BOOLEAN, args=tuple(
            Call(function=first_day, args=(moment,), type=Type.TIMESTAMP) for moment in (before, time)))
        return to_sql(test, {name: self._carried(name) for name in (arrived, growth.column)})

    def _stored(self, carried: dict[str, str], printing: Printing) -> tuple[str, list[str]]:
        """The source of rows in a store, where all rows have an owner; the printed owners are added to `carried`."""
        carried.update({owner: _widened(f"t0.{quote(OWNER)}", way.type) for owner, way in self._unseen})
        name, stored = self.table.name, printing.stored[self.table.name]
        buckets = range(stored.buckets) if printing.bucket is None else [printing.bucket]
        places = [place_in_bucket(name, number, part) for number in buckets for part in stored.read_in(self.periods) or [None]]
        if len(places) == 1 and printing.bucket is not None:
            return f"{places[0]} AS t0", []
        return f"({' UNION ALL '.join(f'SELECT * FROM {place}' for place in places)}) AS t0", []

    def _found(self, carried: dict[str, str]) -> tuple[str, list[str]]:
        """The source of rows, joined with the tables that name their owners, and the tests that they have owners; the printed
        owners are added to `carried`."""
        source, tables, tests = f"{quote(self.table.name)} AS t0", 1, []
        for owner, way in zip(self.owners, self.table.owners, strict=True):
            at = 0
            for step in way.steps:
                test = " AND ".join(
                    f"({_widened(f't{at}.{quote(child)}', kind)} = {_widened(f't{tables}.{quote(parent)}', kind)})"
                    for child, parent, kind in zip(step.columns, step.references, step.types, strict=True))
                source += f" JOIN {quote(step.table)} AS t{tables} ON {test}"
                at, tables = tables, tables + 1
            named = f"t{at}.{quote(way.column)}"
            carried.setdefault(owner, _named(named, way))
            tests += [] if way.not_null else [f"{named} IS NOT NULL"]
            tests += [f"t{at}.{quote(column)} IS NOT NULL" for column in way.beside]
        return source, tests

    def _carried(self, name: str) -> str:
        declared = self.table.columns[name]
        printed = f"t0.{quote(name)}"
        wide = declared.sql_type.upper() == declared.type.value and declared.type is not Type.VARCHAR
        carried = printed if wide else _widened(printed, declared.type)
        if declared.type is not Type.DOUBLE:
            return carried
        return f"(CASE WHEN isnan({carried}) THEN CAST('nan' AS DOUBLE) ELSE {carried} END)"


def _named(printed: str, way: OwnerPath) -> str:
    """The name of an entity, with the number of its kind if there are several kinds."""
    name = _widened(printed, way.type)
    if way.kinds == 1:
        return name
    return f"(({name} * {way.kinds}) + {way.kind})" if way.type is Type.BIGINT else f"(('{way.kind}:' || {name}) COLLATE \"C\")"


def _widened(printed: str, kind: Type) -> str:
    """A column cast to the type that carries it. Text is compared by binary collation; otherwise names of two entities could
    be equal.

    A second or a millisecond of 64 bits may lie too far for microseconds.
    """
    wide = f"{'TRY_' * (kind is Type.TIMESTAMP)}CAST({printed} AS {kind.value})"
    return f"({wide} COLLATE \"C\")" if kind is Type.VARCHAR else wide
