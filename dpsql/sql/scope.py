"""Names: which column a name in the text stands for."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dpsql.errors import SqlError
from dpsql.plan.expr.facts import Facts
from dpsql.plan.node import Field, Node
from dpsql.types import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The declared column that a column is an unchanged copy of, and which reading of the table it comes from."""

    scan: int
    table: str
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A relation under a name: the columns that the text may use, in order, and where they come from."""

    alias: str
    columns: tuple[tuple[str, Field], ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """All sources of one FROM. `merged` are columns that USING made one; `outer` is the scope around a subquery."""

    node: Node
    sources: tuple[Source, ...]
    merged: frozenset[str] = frozenset()
    outer: Scope | None = None

    @property
    def env(self) -> Mapping[str, Facts]:
        return self.node.env

    @property
    def origins(self) -> dict[str, Origin]:
        return {column: origin for source in self.sources for column, origin in source.origins.items()}

    def columns(self) -> Iterator[tuple[str, str, Field]]:
        """(alias, name, field) of everything visible, the right copy of a merged column left out."""
        seen: set[str] = set()
        for source in self.sources:
            for name, found in source.columns:
                if name.lower() in self.merged and name.lower() in seen:
                    continue
                seen.add(name.lower())
                yield source.alias, name, found

    def resolve(self, name: str, table: str | None, span: Span | None) -> Field:
        """The column a name stands for. Raises SqlError where it is unknown or ambiguous."""
        if table is not None:
            source = next((source for source in self.sources if source.alias.lower() == table.lower()), None)
            if source is None:
                raise SqlError(f"there is no table {table} in FROM", code="unknown-table", span=span, subject=table,
                               try_=_closest(table, [source.alias for source in self.sources]))
            matches = [found for column, found in source.columns if column.lower() == name.lower()]
        else:
            matches = [found for _, column, found in self.columns() if column.lower() == name.lower()]
        if len(matches) > 1:
            owners = [alias for alias, column, _ in self.columns() if column.lower() == name.lower()]
            raise SqlError(f"{name} could be a column of {' or '.join(owners)}", code="ambiguous-column", span=span,
                           subject=name, try_=f"{owners[0]}.{name}")
        if not matches:
            known = [column for _, column, _ in self.columns()]
            raise SqlError(f"there is no column {name}" + (f" in {table}" if table else ""), code="unknown-column", span=span,
                           subject=name, try_=_closest(name, known) or "one of " + ", ".join(sorted(set(known))[:12]))
        return matches[0]

    def is_source(self, name: str) -> bool:
        return any(source.alias.lower() == name.lower() for source in self.sources)


def _closest(name: str, known: list[str]) -> str:
    lowered = {item.lower(): item for item in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    return lowered[close[0]] if close else ""


class Fresh:
    """Plan-wide identifiers of columns."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._scans = itertools.count()

    def column(self) -> str:
        return f"c{next(self._numbers)}"

    def scan(self) -> int:
        return next(self._scans)
