"""How the private rows of growing tables fall into periods, for `dpsql check --rows`: exact, and for the owner alone."""

from __future__ import annotations

import datetime as dt
from collections import Counter

from dpsql.frozen import Frozen, replace
from dpsql.trusted.declarations.growth import CALENDAR, Growth, PeriodRange, first_day, names_of, period_of
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.expr.period_places import place_among
from dpsql.trusted.plan.expr.printing import literal, to_sql
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.reader import Reader
from dpsql.types import Type


class GrowthOnRows(Frozen):
    """The rows of a growing table. `periods` names the periods from the first to the last closed one, each with its number of
    rows, with and without an owner; where late rows are dropped, `late` has the number of those of each that arrived when it was
    closed, or at no known time. `nulls` rows have no time, `early` rows lie before the first period, and `open` rows after
    the last closed one. `most` is the largest number of rows of an entity in a closed period; `beyond` rows of closed periods are
    left out by the declared limit."""

    table: str
    entity: str
    column: str
    period: str
    rows: int
    periods: tuple[tuple[str, int], ...]
    nulls: int
    early: int
    open: int
    most: int
    limit: int | None
    beyond: int
    late: tuple[int, ...] = ()


def growth_on_rows(table: Table, growth: Growth, entity: str, reader: Reader, day: dt.date) -> GrowthOnRows:
    """The rows of a private table that grows, by the periods that are closed on a day."""
    last = growth.last_closed(day)
    start, end = (_day(growth, table, number) for number in (growth.since, max(growth.since, last + 1)))
    everybodys = replace(table, public=True, owners=())
    source = f"({Scan(table=everybodys, columns=(('v', growth.column),)).render((), Printing())}) AS t"
    (rows, values, early, later), = reader.rows(
        f'SELECT COUNT(*), COUNT(t."v"), COUNT(*) FILTER (WHERE t."v" < {start}), COUNT(*) FILTER (WHERE t."v" >= {end}) '
        f"FROM {source}")
    found = GrowthOnRows(table=table.name, entity=entity, column=growth.column, period=growth.period, rows=rows, periods=(),
                         nulls=rows - values, early=early, open=later, most=0, limit=growth.rows, beyond=0)
    if last < growth.since:
        return found
    closed = PeriodRange(period=growth.period, first=growth.since, last=last)
    anytime = replace(everybodys, growth=replace(growth, arrived=None))
    counts, read = (_by_period(Scan(table=one, columns=(("v", growth.column),), periods=closed), reader)
                    for one in (anytime, everybodys if growth.arrived else anytime))
    each = growth.each(closed)
    most, beyond = _most(table, growth, last, reader)
    return replace(found, most=most, beyond=beyond,
                   periods=tuple((names_of(one), counts[one.first]) for one in each),
                   late=tuple(counts[one.first] - read[one.first] for one in each) if growth.arrived else ())


def _by_period(scan: Scan, reader: Reader) -> Counter[int]:
    """The number of rows that a scan reads in each of its periods, by its first number."""
    growth, counts = scan.table.growth, Counter[int]()
    assert growth is not None
    rows = scan.render((), Printing())
    for at, number in reader.rows(f'SELECT CAST(t."v" AS DATE) AS d, COUNT(*) FROM ({rows}) AS t GROUP BY d'):
        period = growth.containing(period_of(growth.period, at))
        assert period is not None
        counts[period.first] += number
    return counts


def _most(table: Table, growth: Growth, last: int, reader: Reader) -> tuple[int, int]:
    """The largest number of rows of an entity in a closed period, and the number of rows beyond the limit."""
    owners = tuple(f"o{i}" for i in range(len(table.owners)))
    closed = PeriodRange(period=growth.period, first=growth.since, last=last)
    scan = Scan(table=table, columns=(("v", growth.column),), owners=owners, periods=closed).render((), Printing())
    period = f"date_trunc('{growth.period}', t.\"v\")"
    if growth.period == CALENDAR:
        time = Ref(column="v", type=table.columns[growth.column].type)
        period = to_sql(place_among(time, growth.first_numbers(closed)), {"v": 't."v"'})
    named = ", ".join(f't."{owner}"' for owner in owners)
    each = (f"SELECT unnest(list_distinct([{named}])) AS o, {period} AS p FROM ({scan}) AS t")
    limit = "n" if growth.rows is None else str(growth.rows)
    (most, beyond), = reader.rows(
        f"SELECT COALESCE(MAX(n), 0), CAST(COALESCE(SUM(GREATEST(n - {limit}, 0)), 0) AS BIGINT) "
        f"FROM (SELECT COUNT(*) AS n FROM ({each}) AS named GROUP BY o, p) AS t")
    return most, beyond


def _day(growth: Growth, table: Table, number: int) -> str:
    """The first day of a period, as SQL."""
    kind, day = table.columns[growth.column].type, first_day(growth.period, number)
    return literal(dt.datetime.combine(day, dt.time()) if kind is Type.TIMESTAMP else day, kind)
