"""Period columns: the functions of time that tell periods apart, on every day that can be read, and where unions show them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import product

import duckdb
import pyarrow as pa
import pytest
from support.laws.growing import Growing, growing_catalog

from dpsql.frozen import replace
from dpsql.trusted.declarations.growth import EARLIEST, KINDS, LATEST, PeriodKind, PeriodRange, first_day, period_of
from dpsql.trusted.kernel.checker import Known, known
from dpsql.trusted.kernel.claims import Derived
from dpsql.trusted.kernel.period_certificate import period_columns
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref
from dpsql.trusted.plan.expr.printing import to_sql
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.types import Type

TIMES = {Type.DATE: ("scores", "person_id", "scored"), Type.TIMESTAMP: ("visits", "person_id", "seen")}
MOMENTS = dt.time(), dt.time(12), dt.time(23, 59, 59, 999999)
MONDAYS = EARLIEST, dt.date(1970, 1, 5), dt.date(2020, 2, 24)
DAYS = *MONDAYS, dt.date(1969, 12, 30), dt.date(2000, 1, 1), dt.date(2020, 2, 29), LATEST


def scan(kind: PeriodKind, of: Type, since: dt.date = dt.date(2020, 1, 1)) -> Scan:
    """The owner `o` and the time `t` of a growing table, in the periods from that of a day to the last there is."""
    name, owner, time = TIMES[of]
    periods = PeriodRange(period=kind, first=period_of(kind, since), last=period_of(kind, LATEST))
    return Scan(table=growing_catalog("person", Growing(period=kind)).tables[name], columns=(("o", owner), ("t", time)), owners=("o",),
                periods=periods)


def showing(node: Node, expr: Expr) -> Project:
    return Project(input=node, columns=(("o", "o", node.field("o").ref), ("p", "p", expr)))


def told(node: Node) -> frozenset[str]:
    """The period columns that the kernel derives."""
    found = dict[int, Known]()
    known(node, lambda *_: 1, found)
    return period_columns(node, Derived(found))


def trunc(kind: str, of: Type) -> Call:
    return Call(function=f"date_trunc_{kind}", args=(Ref(column="t", type=of),), type=Type.TIMESTAMP)


def diff(kind: str, of: Type, day: dt.date, at: dt.time = dt.time()) -> Call:
    start = Literal(value=dt.datetime.combine(day, at) if of is Type.TIMESTAMP else day, type=of)
    return Call(function=f"date_diff_{kind}", args=(start, Ref(column="t", type=of)), type=Type.BIGINT)


def all_days(kind: PeriodKind) -> pa.Table:
    """Every day that a scan can read, and the number of its period."""
    ends = first_day(kind, period_of(kind, EARLIEST)), first_day(kind, period_of(kind, LATEST) + 1)
    days = [dt.date.fromordinal(number) for number in range(*(end.toordinal() for end in ends))]
    assert days[0] <= EARLIEST and days[-1] >= LATEST
    return pa.table({"day": pa.array(days, pa.date32()), "number": [period_of(kind, day) for day in days]})


@pytest.mark.parametrize("of", TIMES, ids=lambda of: of.value)
@pytest.mark.parametrize("kind", KINDS)
def test_period_columns_tell_periods_on_every_day_of_eleven_centuries(kind: PeriodKind, of: Type) -> None:
    """Each function that the kernel accepts has one value in each period, a different one in all others, and is never NULL."""
    literals = [(day, at) for day in DAYS for at in (MOMENTS if of is Type.TIMESTAMP else MOMENTS[:1])]
    exprs = [trunc(kind, of), *(diff(kind, of, *literal) for literal in literals)]
    accepted = [expr for expr in exprs if told(showing(scan(kind, of, EARLIEST), expr)) == {"p"}]
    assert accepted == (exprs if kind != "week" else exprs[:1 + len(literals) // len(DAYS)])
    moments = "(day)" if of is Type.DATE else f"unnest([{', '.join(f'day + TIME {str(at)!r}' for at in MOMENTS)}])"
    shown = ", ".join(f"{to_sql(expr, {'t': 't'})} AS e{i}" for i, expr in enumerate(accepted))
    counts = ", ".join(f"[COUNT(DISTINCT e{i}), COUNT(DISTINCT (number, e{i})), COUNT(e{i})]" for i in range(len(accepted)))
    with duckdb.connect() as connection:
        connection.register("days", all_days(kind))
        (periods, rows, *found), = connection.execute(
            f"SELECT COUNT(DISTINCT number), COUNT(*), {counts} FROM (SELECT number, {shown} FROM (SELECT number, {moments} AS t FROM days))").fetchall()
    assert periods == period_of(kind, LATEST) - period_of(kind, EARLIEST) + 1
    assert found == [[periods, periods, rows]] * len(accepted)


def others(kind: PeriodKind, of: Type) -> Iterator[Expr]:
    """Functions that do not tell periods, or not for the kernel."""
    for wrong in {*KINDS, "hour", "minute"} - {kind}:
        yield from (trunc(wrong, of), diff(wrong, of, EARLIEST))
    yield from (diff(kind, of, day) for day in (EARLIEST - dt.timedelta(days=7), LATEST + dt.timedelta(days=6)))
    counted = diff(kind, of, EARLIEST)
    yield from (replace(counted, args=counted.args[::-1]), replace(counted, function=f"date_sub_{kind}"))
    one = Literal(value=1, type=Type.BIGINT)
    yield from (one, Call(function="+", args=(counted, one), type=Type.BIGINT))
    if kind == "week":  # the first Monday that is read is 2019-12-30
        yield from (diff(kind, of, day) for day in (dt.date(2019, 12, 29), dt.date(2019, 12, 31), dt.date(2020, 1, 6)))


@pytest.mark.parametrize("of", TIMES, ids=lambda of: of.value)
@pytest.mark.parametrize("kind", KINDS)
def test_other_functions_tell_no_periods(kind: PeriodKind, of: Type) -> None:
    read = scan(kind, of)
    assert told(showing(read, trunc(kind, of))) == told(showing(read, diff(kind, of, EARLIEST))) == {"p"}
    assert [expr for expr in others(kind, of) if told(showing(read, expr))] == []


def test_weeks_are_counted_from_a_monday_before_all_that_is_read() -> None:
    """DuckDB divides days by seven, towards zero: around another day, or before it, other weeks result."""
    for of, day in product(TIMES, (dt.date(2019, 12, 30), dt.date(1900, 1, 1), dt.date(2019, 12, 23))):
        assert told(showing(scan("week", of), diff("week", of, day))) == {"p"}
    earlier = UnionAll(parts=(scan("week", Type.DATE), scan("week", Type.DATE, dt.date(2019, 1, 1))), columns=(("o", "o"), ("t", "t")))
    assert told(showing(earlier, diff("week", Type.DATE, dt.date(2019, 12, 30)))) == frozenset()
    with duckdb.connect() as connection:
        days = [dt.date(2020, 1, 4), dt.date(2020, 1, 5), dt.date(2020, 1, 6), dt.date(2020, 1, 8)]
        text = f"SELECT list({to_sql(diff('week', Type.DATE, dt.date(2020, 1, 1)), {'t': 't'})} ORDER BY t) FROM (SELECT unnest(?) AS t)"
        assert connection.execute(text, [days]).fetchall() == [([0, 0, 0, 1],)]  # a Monday counts with the Sunday before


def test_a_date_is_its_own_day() -> None:
    assert told(scan("day", Type.DATE)) == {"t"}
    assert told(scan("day", Type.TIMESTAMP)) == told(scan("month", Type.DATE)) == frozenset()


@pytest.mark.parametrize(("first", "second", "tells"), [
    (trunc("month", Type.DATE), trunc("month", Type.DATE), True),
    (diff("month", Type.DATE, EARLIEST), diff("month", Type.DATE, EARLIEST), True),
    (diff("month", Type.DATE, EARLIEST), diff("month", Type.DATE, dt.date(1900, 2, 1)), False),
    (diff("month", Type.DATE, EARLIEST), Literal(value=5, type=Type.BIGINT), False),
    (Literal(value=5, type=Type.BIGINT), Literal(value=5, type=Type.BIGINT), False),
], ids=str)
def test_parts_of_a_union_number_periods_alike(first: Expr, second: Expr, tells: bool) -> None:
    """Counted from two days, one number would mean two months: what groups by it would mix their rows."""
    parts = tuple(showing(scan("month", Type.DATE), expr) for expr in (first, second))
    assert told(UnionAll(parts=parts, columns=(("o", "o"), ("p", "p")))) == ({"p"} if tells else set())
