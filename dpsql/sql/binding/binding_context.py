"""What binding needs besides the text, what it returns for a query, and how the files for parts of a query call each other."""

from __future__ import annotations

import abc
import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.errors import SqlError, Unsupported
from dpsql.frozen import Frozen, field
from dpsql.questions.question import Question, Scalar
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.push_equalities import push_equalities
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.binding.expressions import Binder
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.places import span_of
from dpsql.sql.text.spelling import closest, for_a_text, one_of
from dpsql.sql.text.statement import PARAMETER
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Expr, Value
from dpsql.trusted.plan.node import Field, Node, PublicFacts, Stability
from dpsql.types import Span, Type

MOST_QUERIES, MOST_NESTING = 200, 25


class LooksOutside(Exception):
    """A subquery that is bound on its own names a column of the query around it."""


class Origin(Frozen):
    """The declared column that a column is an unchanged copy of; `scan` numbers the occurrence of its table in the statement."""

    scan: int
    table: str
    column: str


def declared_bins(catalog: Catalog, origin: Origin | None) -> tuple[float, ...] | None:
    """The cut points that the policy declares for a column, if it does."""
    column = column_of(catalog, origin)
    return column.bins if column is not None else None


def column_of(catalog: Catalog, origin: Origin | None) -> Column | None:
    """The declared column that an origin is, if it is one."""
    table = catalog.table(origin.table) if origin is not None else None
    return table.columns.get(origin.column) if table is not None and origin is not None else None


def owner_column(table: Table, place: int) -> str:
    """The name of an owner's column in origins: that of a column of the table, or otherwise a name that no column has."""
    way = table.owners[place]
    return way.column if way.in_row and way.column in table.columns else f"owner {place}"


class NamedSource(Frozen):
    """A relation under a name: the columns that the text may use, in order, and their origins."""

    alias: str
    columns: tuple[tuple[str, Field], ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)


class Scope(Frozen):
    """All sources of one FROM.

    merged  columns that USING merged with another: the identifier of the column shown instead, None where that one is already
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
        """The columns that a name may refer to: none if it is unknown, several if it is ambiguous."""
        wanted = name.lower()
        if table is None:
            return [self.node.field(shown) for source in self.sources for column, found in source.columns
                    if column.lower() == wanted and (shown := self.merged.get(found.id, found.id)) is not None]
        return [found for source in self.sources if source.alias.lower() == table.lower()
                for column, found in source.columns if column.lower() == wanted]

    def resolve(self, name: str, table: str | None, span: Span | None) -> Field:
        """The column that a name refers to. Raises SqlError if the name is unknown or ambiguous."""
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
    """The names of columns as seen by the surrounding query: repeated ones get a number, as in DuckDB."""
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
        """A context around each query inside the statement. Raises SqlError if there are too many queries, or if they are nested
        too deeply. (A chain of CTEs, each of which names the previous one twice, doubles the number at each step.)"""
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


# -- the context


class PublicTables(PublicFacts, Protocol):
    """What binding may look up in the database: facts and rows of public relations."""

    def public_rows(self, relation: Node) -> list[tuple[Value, ...]]: ...


class GuardedPublicTables:
    """Public tables; refuses to look up anything that depends on a value not yet released."""

    def __init__(self, public: PublicTables) -> None:
        self._public = public

    def public_rows(self, relation: Node) -> list[tuple[Value, ...]]:
        self._check(relation)
        return self._public.public_rows(relation)

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        self._check(relation)
        return self._public.fanout(relation, columns)

    @staticmethod
    def _check(relation: Node) -> None:
        for awaited in has_placeholders(relation).values():
            raise Unsupported("the selection of rows of a public table depends on a value that is not released yet",
                              code="scalar-subquery", span=awaited.span,
                              try_="the comparison in the WHERE of the outermost query")


class BoundRelation(Frozen):
    """A bound query: its node and the columns that the text around it may use."""

    node: Node
    columns: tuple[tuple[str, Field], ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)


class Names(Frozen):
    """The visible CTEs, each with those visible to it. A CTE is bound anew wherever it is named."""

    ctes: Mapping[str, tuple[exp.CTE, Names]] = field(default_factory=dict)

    def with_(self, clause: exp.Expr | None) -> Names:
        """The names, extended by the CTEs of a WITH clause. Raises SqlError if two have the same name."""
        names, seen = self, set[str]()
        for cte in clause.expressions if clause is not None else ():
            alias = str(cte.args["alias"].this.this).lower()
            if alias in seen:
                raise SqlError(f"{alias} is named twice in WITH", code="alias", span=span_of(cte.args["alias"]), subject=alias,
                               try_=f"{alias}2")
            seen.add(alias)
            names = Names(ctes={**names.ctes, alias: (cte, names)})
        return names


class Queries(Protocol):
    """Binds queries inside a query. `relations.QueryBinder` does; it imports the files that call it through this class."""

    def relation(self, tree: exp.Expr, context: BindingContext, names: Names) -> BoundRelation:
        """A subquery or CTE."""
        ...

    def question(self, select: exp.Select, context: BindingContext, names: Names, scope: Scope) -> tuple[Question, Facts]:
        """A SELECT of aggregates to be released, as a question; and the facts about its first column."""
        ...

    def sources(self, select: exp.Expr, context: BindingContext, names: Names) -> Scope:
        """The FROM of a SELECT."""
        ...


class Scalars:
    """The scalar subqueries of a statement, in the order of their release. Equal ones are released once."""

    def __init__(self) -> None:
        self._found: list[tuple[exp.Expr, Names, Scalar]] = []

    def find(self, tree: exp.Expr, names: Names) -> Scalar | None:
        wanted = _without_case(tree)
        return next((known for other, visible, known in self._found if other == wanted and visible == names), None)

    def add(self, tree: exp.Expr, names: Names, scalar: Scalar) -> None:
        self._found.append((_without_case(tree), names, scalar))

    @property
    def found(self) -> bool:
        """Whether there are any scalar subqueries."""
        return bool(self._found)

    def needed(self, question: Question) -> tuple[Scalar, ...]:
        """The subqueries whose values a question needs, directly or through other subqueries."""
        if not self._found:
            return ()
        wanted, kept = _awaited_by(question), list[Scalar]()
        for _, _, scalar in reversed(self._found):
            if scalar.awaited.id in wanted:
                kept.append(scalar)
                wanted |= _awaited_by(scalar.question)
        return tuple(reversed(kept))


def _without_case(tree: exp.Expr) -> exp.Expr:
    """A tree with all names in lower case, as names ignore case (except those of parameters)."""
    def lowered(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Identifier) or str(node.this).startswith(PARAMETER):
            return node
        return exp.Identifier(this=str(node.this).lower(), quoted=True)

    return tree.transform(lowered)


def _awaited_by(question: Question) -> set[str]:
    return set(has_placeholders((prune_columns(question.view), question.outputs, question.having, question.ordering)))


class BindingContext(Frozen):
    """What binding needs besides the text; it is the same for every query of a statement."""

    catalog: Catalog
    public: PublicTables
    scratch: Scratch
    parameters: Mapping[str, ParameterValue]
    queries: Queries
    text: str = ""
    fresh: FreshIdentifiers = field(default_factory=FreshIdentifiers)
    scalars: Scalars = field(default_factory=Scalars)

    def written(self, span: Span | None) -> str:
        """A part of the text, with runs of blanks shortened, used as the name of a column."""
        return " ".join(self.text[span.start : span.end].split()) if span is not None else ""

    def relation(self, tree: exp.Expr, names: Names) -> BoundRelation:
        return self.queries.relation(tree, self, names)

    def question(self, select: exp.Select, names: Names, scope: Scope) -> tuple[Question, Facts]:
        return self.queries.question(select, self, names, scope)

    def sources(self, select: exp.Expr, names: Names) -> Scope:
        return self.queries.sources(select, self, names)

    def stability(self, node: Node) -> Stability:
        """The stability of a relation once declared limits are enforced."""
        return stability(limit_rows(push_equalities(node)), self.public)

    def owners(self, node: Node) -> tuple[str, ...]:
        return self.stability(node).owners

    def names_owner(self, origin: Origin | None) -> bool:
        """Whether a column contains the name of the row's entity in its table."""
        table = self.catalog.table(origin.table) if origin is not None else None
        return (table is not None and origin is not None and table.owner is not None and not table.owner.steps
                and table.owner.column == origin.column)


class AddedColumns(Frozen):
    """An expression, and the rows of a SELECT with the columns that it reads; those in `joined` were added by a subquery."""

    expr: Expr
    node: Node
    joined: frozenset[str] = frozenset()


class WindowFunctions(Protocol):
    """Binds the window functions of a SELECT."""

    @property
    def env(self) -> Mapping[str, Facts]:
        """Facts about the columns of window functions."""
        ...

    def read(self, node: exp.Expr) -> Expr:
        """The column of a window function. Raises SqlError or Unsupported, located."""
        ...


class SelectHost(Binder):
    """The SELECT, as seen by the files that bind parts of it; implemented by `SelectBinder`.

    These files return what they add to its rows (`AddedColumns`), and change nothing.

    node    the rows of FROM and WHERE, as far as they are bound
    joined  the columns that subqueries have added
    """

    context: BindingContext
    scope: Scope
    names: Names
    node: Node
    joined: set[str]

    @abc.abstractmethod
    def where(self, clause: exp.Expr | None) -> list[Expr]: ...

    @abc.abstractmethod
    def continue_with(self, node: Node) -> None:
        """Take these as the rows: the same, with more columns."""

    @abc.abstractmethod
    def places(self, within: Sequence[Expr], value: Expr, span: Span | None, *, descending: bool) -> tuple[Expr, Expr]:
        """Columns with the place of each row among those that agree on `within`, in the order of a value, NULL last; and with the
        number of values there. Raises Unsupported unless these are rows of one entity."""

    @abc.abstractmethod
    def inside(self, select: exp.Select, names: Names) -> SelectHost:
        """The binder of a subquery, which also sees the names of this SELECT."""
