"""The tables of standing queries (`standing_tables`) without their rows: their columns follow from texts and policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from dpsql.answers.described_columns import DescribedColumn, has_ends, with_ends
from dpsql.engine.session import Session
from dpsql.engine.standing_queries import PlanOf, StandingQuery, growth_of, kept, next_closing, series_on, session_of
from dpsql.errors import Error
from dpsql.frozen import replace
from dpsql.sql.binding.binding_context import distinct_names
from dpsql.sql.text.schemas import name_of_standing
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.types import Type

ERROR = "error"  # with which the name of a column of standard errors ends


def with_all_tables(session: Session, plan_of: PlanOf) -> Session:
    """The session, extended by the account's synthetic tables and by the tables of standing queries that it may read, these
    without their rows. `plan_of` makes plans."""
    from dpsql.engine.synthesizing import with_synthetic_tables

    session = with_synthetic_tables(session)
    if not session.catalog.grows:
        return session
    queries = [query for query in kept(session).values() if may_read(query, session)]
    made = [_shape(query, described_columns(query, session, plan_of)) for query in queries]
    return extended(session, {table.name: table for table in made if table.columns})


def extended(session: Session, tables: Mapping[str, Table]) -> Session:
    """The session with more tables; those of the policy and synthetic ones take precedence."""
    new = {name: table for name, table in tables.items() if session.catalog.table(name) is None}
    return replace(session, catalog=replace(session.catalog, tables={**session.catalog.tables, **new})) if new else session


def may_read(query: StandingQuery, session: Session) -> bool:
    """Whether the account may read the numbers of a standing query."""
    return session.budget.share_answers or query.analyst == session.account.named.analyst


def described_columns(query: StandingQuery, session: Session, plan_of: PlanOf) -> tuple[DescribedColumn, ...]:
    """The columns of the answers to a standing query. If the policy no longer allows it, those of the newest answer that the
    account was told; none if there is none."""
    try:
        asked, mine = query.query, session_of(query, session)
        growth, today = growth_of(asked, mine.catalog), session.today
        return series_on(asked, mine, today if growth is None else next_closing(growth, today)[1], plan_of).plan.columns
    except Error:
        from dpsql.engine.standing_records import told_periods  # loaded only where it is needed

        told = [period.rows for period in told_periods(query, session)]
        return tuple(DescribedColumn(name=column.name, type=column.type, measured=not column.exact and has_ends(column.type))
                     for column in (told[-1].columns if told else ()))


def titled(described: Sequence[DescribedColumn]) -> list[tuple[str, Type]]:
    """The names and types of the columns of the table. Sums that may exceed 64 bits are floating-point numbers."""
    made = list(chain.from_iterable(_with_error(column) for column in described))
    return list(zip(distinct_names([name for name, _ in made]), (kind for _, kind in made), strict=True))


def _with_error(column: DescribedColumn) -> list[tuple[str, Type]]:
    own, *ends = with_ends([column])
    kind = Type.DOUBLE if own.wide and own.type is Type.BIGINT else own.type
    error = [(f"{own.name}_{ERROR}", Type.DOUBLE)] if ends else []
    return [(own.name, kind), *error, *((end.name, end.type) for end in ends)]


def _shape(query: StandingQuery, described: Sequence[DescribedColumn]) -> Table:
    return Table(name=name_of_standing(query.name), public=True, columns={
        name: Column(name=name, type=kind, sql_type=kind.value) for name, kind in titled(described)})
