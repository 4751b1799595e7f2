"""The SELECT list of a subquery: columns computed row by row."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.nodes import Expr, Ref
from dpsql.trusted.plan.expr.printing import quote, to_sql
from dpsql.trusted.plan.node import Field, Node, Norm, Printing, PublicFacts, SplitBy, Stability, columns_of, known


class Project(Node):
    """One output row for each input row; `columns` are (identifier, name, expression).

    Proof. A row's image depends on that row alone, so as many rows change as below, and it is split as below. The owner is kept
    if it is passed on unchanged; a bound on a norm is kept if all its columns are.
    """

    input: Node
    columns: tuple[tuple[str, str, Expr], ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(id=column, name=name, facts=known(expr, self.input)) for column, name, expr in self.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def passed(self) -> dict[str, str]:
        """Input columns that are passed on unchanged, with their new identifiers."""
        return {expr.column: column for column, _, expr in reversed(self.columns) if isinstance(expr, Ref)}

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return {frozenset(self.passed[column] for column in agreed): rows for agreed, rows in self.input.max_frequencies.items()
                if all(column in self.passed for column in agreed)}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        norm = below[0].norm
        if norm is not None and all(column in self.passed for column in norm.columns):
            norm = Norm(order=norm.order, bound=norm.bound, columns=tuple(self.passed[column] for column in norm.columns))
        else:
            norm = None
        kept = all(owner in self.passed for owner in below[0].owners)
        owners = tuple(self.passed[owner] for owner in below[0].owners) if kept else ()
        return Stability(rows=below[0].rows, owners=owners, norm=norm, because="one row for each row")

    def split_by(self, below: tuple[SplitBy, ...]) -> SplitBy:
        return below[0]

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.input)
        parts = ", ".join(f"{to_sql(expr, names)} AS {quote(column)}" for column, _, expr in self.columns)
        return f"SELECT {parts} FROM ({below[0]}) AS t0"
