"""A bound statement: a private view, what is aggregated over it, and what is done with the noisy results."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.catalog.model import Domain
from dpsql.plan.expr.nodes import Awaited, Expr
from dpsql.plan.node import Node
from dpsql.types import Span, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the outermost GROUP BY: a column of the view. `domain` is None where its values are private.

    `nullable` says that NULL is one of the groups.
    """

    column: str
    name: str
    type: Type
    domain: Domain | None
    nullable: bool
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """One aggregate over the view, named `id` in outputs. `column` and `when` name columns of the view.

    function   count, count_distinct, sum, avg, var_pop, var_samp, stddev_pop, stddev_samp, min, max or quantile
    columns    the arguments; none for COUNT(*)
    fraction   of a quantile
    discrete   a quantile is one of the values
    """

    id: str
    function: str
    columns: tuple[str, ...] = ()
    when: str | None = None
    fraction: Fraction | None = None
    discrete: bool = False
    type: Type = Type.DOUBLE
    span: Span | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of the answer: an expression over keys and aggregates."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """One term of ORDER BY, over keys and aggregates."""

    expr: Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a statement asks. HAVING, ORDER BY, LIMIT and OFFSET act on the noisy rows.

    `scalars` are released first, in this order; they have none of their own.
    """

    view: Node
    keys: tuple[Key, ...]
    aggregates: tuple[AggregateCall, ...]
    outputs: tuple[Output, ...]
    having: Expr | None = None
    ordering: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False
    scalars: tuple[Scalar, ...] = ()

    @property
    def read(self) -> frozenset[str]:
        """The columns of the view that are grouped, aggregated, or conditions of aggregates."""
        calls = [column for call in self.aggregates for column in (*call.columns, call.when) if column is not None]
        return frozenset([*(key.column for key in self.keys), *calls])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A subquery of one value, and what stands for that value in the questions that come after it."""

    awaited: Awaited
    question: Question
    span: Span | None = None
