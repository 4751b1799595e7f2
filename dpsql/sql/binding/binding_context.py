"""What binding needs besides the text, what it returns for a query, and how the files for parts of a query call each other."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from dpsql.catalog.model import Catalog
from dpsql.errors import SqlError, Unsupported
from dpsql.questions.question import Question, Scalar
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.questions.rules.prune_columns import prune_columns
from dpsql.questions.rules.push_equalities import push_equalities
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.sql.binding.domains import Scratch
from dpsql.sql.binding.expressions import Binder
from dpsql.sql.binding.scope import FreshIdentifiers, Origin, Scope
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import PARAMETER
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Expr, Value
from dpsql.trusted.plan.node import Field, Node, PublicFacts, Stability
from dpsql.types import Span


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
            raise Unsupported("which rows of a public table are used here depends on a value that is not yet released",
                              code="scalar-subquery", span=awaited.span,
                              try_="the comparison in the WHERE of the outermost query")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRelation:
    """A bound query: its node and the columns that the text around it may use."""

    node: Node
    columns: tuple[tuple[str, Field], ...]
    origins: Mapping[str, Origin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The visible CTEs, each with those visible to it. A CTE is bound anew wherever it is named."""

    ctes: Mapping[str, tuple[exp.CTE, Names]] = field(default_factory=dict)

    def with_(self, clause: exp.Expr | None) -> Names:
        """With the CTEs of a WITH clause. Raises SqlError if two have one name."""
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
        """A SELECT of aggregates to be released, as a question; and what is known of its first column."""
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
        """Whether there are any."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingContext:
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
        """A part of the text, with single blanks, as the name of a column."""
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
        """Whether a column is the one that names the row's entity in its table."""
        table = self.catalog.table(origin.table) if origin is not None else None
        return (table is not None and origin is not None and table.owner is not None and not table.owner.steps
                and table.owner.column == origin.column)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumns:
    """An expression, and the rows of a SELECT with the columns that it reads; those in `joined` were added by a subquery."""

    expr: Expr
    node: Node
    joined: frozenset[str] = frozenset()


class WindowFunctions(Protocol):
    """Binds the window functions of a SELECT."""

    @property
    def env(self) -> Mapping[str, Facts]:
        """What is known of their columns."""
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
    def inside(self, select: exp.Select, names: Names) -> SelectHost:
        """The binder of a subquery, whose names may also be those of this SELECT."""
