"""Resolves names to columns."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dpsql.catalog.model import Catalog
from dpsql.errors import SqlError
from dpsql.sql.text.spelling import closest, for_a_text, one_of
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.node import Field, Node
from dpsql.types import Span, Type

MOST_QUERIES, MOST_NESTING = 200, 25


class LooksOutside(Exception):
    """A subquery that is bound on its own names a column of the query around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The declared column that a column is an unchanged copy of; `scan` numbers the occurrence of its table in the statement."""

    scan: int
    table: str
    column: str


def declared_bins(catalog: Catalog, origin: Origin | None) -> tuple[float, ...] | None:
    """The cut points that the policy declares for a column, if it does."""
    table = catalog.table(origin.table) if origin is not None else None
    column = table.columns.get(origin.column) if table is not None and origin is not None else None
    return column.bins if column is not None else None


def owner_column(table: Table, place: int) -> str:
    """The name of an owner's column in origins: that of a column of the table, or a name that no column has."""
    way = table.owners[place]
    return way.column if way.in_row and way.column in table.columns else f"owner {place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSource:
    """A relation under a name: the columns that the text may use, in order, and their origins."""

    alias: str
    columns: tuple[tuple[str, Field], ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """All sources of one FROM.

    merged  columns that USING merged with another: the identifier of the column shown instead, None if that one is already
            shown. Qualified by their table, their names still refer to themselves.
    outer   the scope around a subquery of an expression
    """

    node: Node
    sources: tuple[NamedSource, ...]
    merged: Mapping[str, str | None] = field(default_factory=dict)
    outer: Scope | None = None

    @property
    def env(self) -> Mapping[str, Facts]:
        return self.node.env

    @property
    def origins(self) -> dict[str, Origin]:
        return {column: origin for source in self.sources for column, origin in source.origins.items()}

    def columns(self) -> Iterator[tuple[str, str, Field]]:
        """(alias, name, field) of every column that is visible without its table."""
        for source in self.sources:
            for name, found in source.columns:
                shown = self.merged.get(found.id, found.id)
                if shown is not None:
                    yield source.alias, name, self.node.field(shown)

    def find(self, name: str, table: str | None) -> list[Field]:
        """The columns that a name may stand for; none if it is unknown, several where it is ambiguous."""
        wanted = name.lower()
        if table is None:
            return [self.node.field(shown) for source in self.sources for column, found in source.columns
                    if column.lower() == wanted and (shown := self.merged.get(found.id, found.id)) is not None]
        return [found for source in self.sources if source.alias.lower() == table.lower()
                for column, found in source.columns if column.lower() == wanted]

    def resolve(self, name: str, table: str | None, span: Span | None) -> Field:
        """The column a name stands for. Raises SqlError if it is unknown or ambiguous."""
        matches = self.find(name, table)
        if len(matches) == 1:
            return matches[0]
        if matches:
            owners = list(dict.fromkeys(source.alias for source in self.sources for column, _ in source.columns
                                        if column.lower() == name.lower()))
            raise SqlError(f"{name} could be a column of {' or '.join(owners)}", code="ambiguous-column", span=span,
                           subject=name, try_=f"{owners[0]}.{name}")
        if table is not None and not self.is_source(table):
            known = [source.alias for source in self.sources]
            raise SqlError(f"there is no table {table} in FROM", code="unknown-table", span=span, subject=table,
                           try_=closest(table, known) or one_of(known))
        known = [column for source in self.sources for column, _ in source.columns
                 if table is None or source.alias.lower() == table.lower()]
        advice = closest(name, known) or one_of(known)
        if table is None and self._is_value(name):
            advice = for_a_text(name, advice)
        raise SqlError(f"there is no column {name}" + (f" in {table}" if table else ""), code="unknown-column", span=span,
                       subject=name, try_=advice)

    def _is_value(self, name: str) -> bool:
        """Whether it is a declared text of a column, which lacks its quotes."""
        return any(field.facts.domain is not None and field.facts.type is Type.VARCHAR and name in field.facts.domain.values
                   for _, _, field in self.columns())

    def is_source(self, name: str) -> bool:
        return any(source.alias.lower() == name.lower() for source in self.sources)


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names of columns as the query around sees them: repeated ones get a number, as in DuckDB."""
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        fresh, number = name, 0
        while (known := fresh.lower()) in taken:
            number += 1
            fresh = f"{name}_{number}"
        taken.add(known)
        found.append(fresh)
    return found


class FreshIdentifiers:
    """Hands out identifiers of columns and scans, unique in the statement, and counts its queries."""

    def __init__(self) -> None:
        self._columns, self._scans = itertools.count(), itertools.count()
        self._queries = self._depth = 0

    def column(self) -> str:
        return f"c{next(self._columns)}"

    def scan(self) -> int:
        return next(self._scans)

    @contextlib.contextmanager
    def query(self, span: Span | None) -> Iterator[None]:
        """A context around each query inside the statement. Raises SqlError for too many queries (a chain of CTEs, each of which
        names the one before it twice, doubles at each step), and for too deep nesting."""
        self._queries += 1
        if self._queries > MOST_QUERIES:
            raise SqlError(f"the statement holds more than {MOST_QUERIES} queries, counting a CTE wherever it is named",
                           code="too-large", span=span, try_="several statements")
        if self._depth >= MOST_NESTING:
            raise SqlError(f"queries are nested deeper than {MOST_NESTING}", code="too-deep", span=span,
                           try_="several statements")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
