"""Time, in the shapes of `http_bodies`: what is left in each period of growing tables, standing queries, and their numbers."""

from __future__ import annotations

from typing import Any

from dpsql.answers.described_columns import OF_STANDING_QUERIES
from dpsql.dbapi import Connection
from dpsql.engine.standing_queries import kept, unknown
from dpsql.engine.standing_shapes import may_read
from dpsql.engine.standing_tables import series_for
from dpsql.frozen import replace
from dpsql.server.front.http.http_answers import released_body

FIELDS = ("name", "analyst", "last", "next", "closes", "price", "year_in_period", "year_in_all", "room", "statement")
"""The columns of SHOW STANDING QUERIES, as the interface calls them."""


def time_of(connection: Connection) -> dict[str, Any]:
    """What SHOW PERIODS and SHOW STANDING QUERIES list, and of which queries the user may read the numbers."""
    session = connection.session
    if not session.catalog.grows:
        return {"periods": [], "queries": []}
    assert len(FIELDS) == len(OF_STANDING_QUERIES)
    queries = kept(session)
    return {"periods": [dict(zip(("tables", "period", "whose", "limit", "left", "revised"), row, strict=True))
                        for row in _rows(connection, "SHOW PERIODS")],
            "queries": [{**dict(zip(FIELDS, row, strict=True)), "own": row[1] == session.account.named.analyst,
                         "readable": (query := queries.get(str(row[0]).lower())) is not None and may_read(query, session)}
                        for row in _rows(connection, "SHOW STANDING QUERIES")]}


def series_of(connection: Connection, name: str) -> dict[str, Any]:
    """What was measured of a standing query so far. Of another analyst's, it is recorded first that the user is told it. Raises
    Unsupported if the budget does not share answers, and SqlError if there is no such query."""
    session = connection.session
    query = kept(session).get(name.lower())
    if query is None:
        raise unknown(name, session)
    series = series_for(query, session)
    if series is None:
        return {"name": query.name, "answer": None, "periods": []}
    newest = series.measured[-1].answer
    answer = replace(series.answer, notes=() if newest is None else newest.notes)
    return {"name": query.name, "answer": released_body(answer, query.text, session.catalog), "periods": [
        {"period": period.name, "first": period.first.isoformat(), "last": period.last.isoformat(),
         "price_in_period": period.price_in_period, "price_in_all": period.price_in_all} for period in series.measured]}


def _rows(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    return [*connection.execute(sql).fetchall()]
