"""The numbers of standing queries as tables of the schema `standing`, which any SQL reads for free, as in SELECT * FROM
standing.visits.

A table has the columns of the query, each noisy number followed by its standard error and the ends of its interval (n, n_error,
n_low, n_high), and the rows of all periods that were measured. To statements it is a public table, like a synthetic one: nothing
is measured for it, no private row is read, and what is computed of released numbers reveals nothing more.

An analyst reads what their account was told. Numbers that were measured for another account are told to this one first, which
the ledger records (`kernel.chain`, *Told*): so only where the budget shares answers. Without that, the limit of each analyst
bounds what they know, and such a table is refused.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

from dpsql.answers.described_columns import DescribedColumn, with_ends
from dpsql.answers.published_series import PublishedSeries
from dpsql.engine.decide import decide
from dpsql.engine.publishing import measured_so_far
from dpsql.engine.session import SeriesTable, Session
from dpsql.engine.standing_queries import StandingQuery, kept
from dpsql.engine.standing_shapes import ERROR, described_columns, extended, may_read, titled
from dpsql.errors import Unsupported
from dpsql.sql.text.schemas import name_of_standing, standing_in
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.synthetic_table import declared_column
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Span, Type


def with_standing_tables(session: Session, named: Iterable[tuple[str, Span | None]]) -> Session:
    """The session, extended by those of some tables that are of standing queries, with their rows. Raises Unsupported, with a
    place, for numbers of another account that are not shared."""
    queries = kept(session)
    made: dict[str, Table] = {}
    for name, span in named:
        query = queries.get((standing_in(name) or "").lower())
        if query is not None and session.catalog.table(name) is None:
            _check_shared(query, session, span)
            held = _held(query, session)
            made[held.table.name] = held.table
    return extended(session, made)


def series_for(query: StandingQuery, session: Session) -> PublishedSeries | None:
    """What was measured of a standing query so far, after recording that the account is told it if another one paid; None if
    nothing was measured. Raises Unsupported if it is not shared."""
    _check_shared(query, session, None)
    return measured_so_far(query, session, telling=True)


def _check_shared(query: StandingQuery, session: Session, span: Span | None) -> None:
    if not may_read(query, session):
        raise Unsupported(
            f"the numbers of {name_of_standing(query.name)} were measured for {query.analyst}, and analysts of the budget "
            f"{session.budget.name} do not share answers", code="standing-shared", span=span, subject=query.name,
            try_=f"share_answers = true in the policy, or the files that dpsql publish writes for {query.analyst}")


# -- rows


def _held(query: StandingQuery, session: Session) -> SeriesTable:
    """The table of a standing query, whose rows the session's reader holds. They are read again only if they are others."""
    series = series_for(query, session)
    described = described_columns(query, session, decide)
    titles = titled(described)
    values = [tuple[Value, ...]()] * len(titles) if series is None else _values(series, described)
    columns = [SyntheticColumn(name=name, type=_type_of(own, kind), values=_fitting(own, _type_of(own, kind)))
               for (name, kind), own in zip(titles, values, strict=True)]
    name = name_of_standing(query.name)
    content = hashlib.sha256(repr([(column.name, column.kind, column.values) for column in columns]).encode()).hexdigest()
    held = session.series.get(name.lower())
    if held is None or held.content != content:
        if columns:
            session.kernel.hold(name, content, {column.name: (column.kind, column.values) for column in columns})
        table = Table(name=name, public=True, content=content,
                      columns={column.name: declared_column(column) for column in columns})
        held = SeriesTable(content=content, table=table, note=_note(name, series, described))
        session.series[name.lower()] = held
    return held


def _values(series: PublishedSeries, described: Sequence[DescribedColumn]) -> list[tuple[Value, ...]]:
    """The values of each column of the table."""
    answer = series.answer
    found: list[tuple[Value, ...]] = []
    for at, column in enumerate(described):
        found.append(tuple(answer.data[at].values))
        if len(with_ends([column])) > 1:
            ends = [answer.ends(row, at) or (None, None) for row in range(answer.size)]
            found += [tuple(row[at] for row in answer.errors), *(tuple(end[side] for end in ends) for side in (0, 1))]
    return found


def _type_of(values: Sequence[Value], kind: Type) -> Type:
    """The type of a column. Where the owner has changed it, earlier numbers stay as they were told."""
    return Type.DOUBLE if kind is Type.BIGINT and any(isinstance(value, float) for value in values) else kind


def _fitting(values: Sequence[Value], kind: Type) -> tuple[Value, ...]:
    """The values as a table keeps them: what is not finite, such as the end of an open interval, is NULL."""
    if kind is Type.DOUBLE:
        return tuple(None if value is None or not math.isfinite(value) else float(value) for value in values)  # type: ignore[arg-type]
    return tuple(values)


def _note(name: str, series: PublishedSeries | None, described: Sequence[DescribedColumn]) -> str:
    if series is None:
        return f"no period of {name} is measured yet; dpsql publish does that"
    first, last = series.measured[0].name, series.measured[-1].name
    which = first if first == last else f"{len(series.measured)} periods, {first} to {last}"
    periods = f"{name} has the numbers that were measured for {which}"
    noisy = next((column.name for column in described if len(with_ends([column])) > 1), None)
    return periods if noisy is None else (
        f"{periods}; they are noisy, so this answer is exact only for them: {noisy}_{ERROR} is the standard error of {noisy}, "
        f"and {noisy}_low to {noisy}_high its {100 * series.confidence:.4g} % confidence interval")
