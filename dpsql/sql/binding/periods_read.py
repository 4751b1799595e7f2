"""Which periods of growing tables a question reads: those that its conditions leave, by the text alone.

A scan begins with all closed periods. Conditions that its rows have to satisfy, if they are to have a part in the result,
are carried down to it: through filters, projections, inner joins, groups by the columns that they compare, and so on. The periods
that remain are the range from the first to the last one whose rows can satisfy them (`domains.values_left`). Nothing that privacy
rests on depends on this: the scan reads the rows of its range, whatever the conditions are, and is charged for them.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from dpsql.catalog.growing import within
from dpsql.catalog.model import Catalog
from dpsql.errors import Unsupported
from dpsql.frozen import replace
from dpsql.questions.rebuilding import updated
from dpsql.sql.binding import typing
from dpsql.sql.binding.domains import Scratch, values_left
from dpsql.trusted.declarations.growth import CALENDAR, Growth, PeriodRange, first_day, name_of, names_of, period_of
from dpsql.trusted.declarations.tables import Domain, Table
from dpsql.trusted.plan.expr.nodes import Call, Expr, Ref, columns, conjuncts, rewrite
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window
from dpsql.types import Type

COMPARED = frozenset({"=", "<", "<=", ">", ">="})
AHEAD: Mapping[str, int] = {"day": 800, "week": 120, "month": 36, "quarter": 12, "year": 5, "calendar": 800}
"""How many numbers of periods beyond the last closed one conditions may end in."""


def in_periods(node: Node, catalog: Catalog, scratch: Scratch, tests: Sequence[Expr] = ()) -> Node:
    """A relation whose growing tables are read in the periods that its conditions leave, and further `tests` over its columns,
    if only rows that satisfy them have a part in the result. Raises Unsupported if these are none, or if conditions name one that
    is not closed."""
    return _Periods(catalog, scratch).narrowed(node, tests)


class _Periods:
    """The closed periods of the tables of a catalog."""

    def __init__(self, catalog: Catalog, scratch: Scratch) -> None:
        self._catalog, self._scratch = catalog, scratch

    def narrowed(self, node: Node, tests: Sequence[Expr]) -> Node:
        """A relation, if only rows that satisfy the tests, which are over its columns, have a part in the result."""
        match node:
            case Scan():
                return node if node.periods is None else self._scan(node, tests)
            case Filter():
                return updated(node, input=self.narrowed(node.input, (*tests, *conjuncts(node.condition))))
            case Project():
                below = {column: expr for column, _, expr in node.columns}
                return updated(node, input=self.narrowed(node.input, _under(tests, below)))
            case Join():
                left, right = (_over(tests, side.env) for side in (node.left, node.right))
                both = conjuncts(node.condition)
                return updated(node, left=self.narrowed(node.left, _kept(left, both, node.left, node.keep_left, node.keep_right)),
                               right=self.narrowed(node.right, _kept(right, both, node.right, node.keep_right, node.keep_left)))
            case GroupBy():
                return updated(node, input=self.narrowed(node.input, _over(tests, node.keys)))
            case Window():
                return updated(node, input=self.narrowed(node.input, _over(tests, node.partition)))
            case Distinct():
                return updated(node, input=self.narrowed(node.input, tests))
            case Lookup():
                return updated(node, input=self.narrowed(node.input, _over(tests, node.input.env)),
                               listed=self.narrowed(node.listed, ()))
            case UnionAll():
                return updated(node, parts=tuple(self.narrowed(part, _under(tests, {
                    column: Ref(column=own.id, type=own.facts.type) for (column, _), own in zip(
                        node.columns, part.fields, strict=True)})) for part in node.parts))
        return _with_inputs(node, [self.narrowed(below, ()) for below in node.inputs])

    def _scan(self, node: Scan, tests: Sequence[Expr]) -> Scan:
        growth, whole = node.table.growth, self._catalog.periods[node.table.name]
        time = next((column for column, name in node.columns if growth is not None and name == growth.column), None)
        assert growth is not None
        if time is None:
            return read_in(node, whole)
        found = self._left(node, Ref(column=time, type=node.env[time].type), growth, whole, _over(tests, node.env))
        closed = [number for number in found if number <= whole.last]
        later = [number for number in found if number > whole.last]
        all_later = later and later == [*range(whole.last + 1, later[-1] + 1)]
        is_end = all_later and later[-1] < whole.last + AHEAD[growth.period]
        if later and (is_end or not closed):
            raise _is_open(node.table, growth, later[0], whole, reads_closed=bool(closed))
        if not closed:
            raise Unsupported(f"no closed period of {node.table.name} has rows that satisfy the conditions", code="periods",
                              try_=_closed_ones(growth, whole))
        ends = growth.containing(closed[0]), growth.containing(closed[-1])
        assert ends[0] is not None and ends[1] is not None
        return read_in(node, PeriodRange(period=growth.period, first=ends[0].first, last=ends[1].last))

    def _left(self, scan: Scan, time: Ref, growth: Growth, whole: PeriodRange, tests: Sequence[Expr]) -> list[int]:
        """The numbers of the periods in which rows can satisfy the tests, a while beyond the last closed one. Of a calendar,
        these are the days on which they can."""
        numbers = range(whole.first, whole.last + AHEAD[growth.period] + 1)
        if not tests:
            return [*numbers]
        test = functools.reduce(lambda one, other: typing.call("and", [one, other], scan.env, None), tests)
        if time.type is Type.DATE:  # any function of a day can be tried out for each of them
            days = range(*(first_day(growth.period, number).toordinal() for number in (numbers.start, numbers.stop)))
            key, domain = cast(Expr, time), Domain(tuple(map(dt.date.fromordinal, days)))
        else:
            unit = "day" if growth.period == CALENDAR else growth.period
            key = typing.call(f"date_trunc_{unit}", [time], scan.env, None)
            domain = Domain(tuple(dt.datetime.combine(first_day(growth.period, number), dt.time()) for number in numbers))
        left, _ = values_left(key, Filter(input=scan, condition=test), domain, self._scratch, nullable=False)
        found = () if left is None else left.values
        return [*dict.fromkeys(period_of(growth.period, day) for day in found if isinstance(day, dt.date))]


def read_in(node: Scan, periods: PeriodRange) -> Scan:
    """The same scan of some periods of its table."""
    return node if node.periods == periods else replace(node, periods=periods, table=within(node.table, periods))


def _is_open(table: Table, growth: Growth, number: int, whole: PeriodRange, *, reads_closed: bool) -> Unsupported:
    """The error for a period that is not closed. Without it the statement reads closed ones, or else none of `whole`."""
    period = growth.containing(number)
    if period is None:
        begun = first_day(growth.period, max((day for day in growth.calendar if day <= number), default=number))
        return Unsupported(f"the period from {begun} on has no end yet: {table.name} can be read there when the "
                           "calendar has the first day of the next one", code="open-period", subject=table.name,
                           try_=f"{growth.column} < DATE '{begun}'")
    end, following = period.end + dt.timedelta(days=growth.closes), growth.containing(whole.last + 1)
    start = period.start if following is None else following.start
    return Unsupported(f"{names_of(period)} is not closed yet: rows of {table.name} in it can be read from {end.isoformat()} on, "
                       "by connections that are opened then, or after a dpsql refresh", code="open-period", subject=table.name,
                       try_=f"{growth.column} < DATE '{start.isoformat()}'" if reads_closed else _closed_ones(growth, whole))


def _closed_ones(growth: Growth, whole: PeriodRange) -> str:
    """What to ask for instead of rows that no closed period has."""
    first, last = (name_of(growth.period, number) for number in (whole.first, whole.last))
    return f"periods from {first} to {last}" if first != last else f"the period {first}"


def _kept(tests: Sequence[Expr], condition: Sequence[Expr], side: Node, keeps: bool, other_keeps: bool) -> tuple[Expr, ...]:
    """The tests that hold for rows of a side of a join that have a part in the result. Without a partner, rows of a side that is
    kept stay, whatever the condition is. Where the other side is kept, its rows would be padded without the rows that a later
    test leaves out; but a comparison is not true of NULL, and leaves out padded rows too."""
    later = [test for test in tests if not other_keeps or (isinstance(test, Call) and test.function in COMPARED)]
    return (*later, *(() if keeps else _over(condition, side.env)))


def _over(tests: Iterable[Expr], known: Iterable[str]) -> tuple[Expr, ...]:
    """The tests that read only some columns, and at least one of them."""
    names = set(known)
    return tuple(test for test in tests if columns(test) and columns(test) <= names)


def _under(tests: Iterable[Expr], below: Mapping[str, Expr]) -> tuple[Expr, ...]:
    """The tests with their columns replaced; without those that read others."""
    return tuple(rewrite(test, lambda part: below.get(part.column) if isinstance(part, Ref) else None)
                 for test in _over(tests, below))


def _with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The same operator over other relations."""
    others = dict(zip(map(id, node.inputs), inputs, strict=True))
    changes = {name: others[id(getattr(node, name))] for name in ("input", "left", "right", "listed")
               if id(getattr(node, name, None)) in others}
    if "parts" in type(node).__annotations__:
        changes["parts"] = tuple(inputs)  # type: ignore[assignment]
    return updated(node, **changes)
