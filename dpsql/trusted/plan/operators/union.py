"""UNION ALL."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import either
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, SplitBy, Stability


class UnionAll(Node):
    """The rows of all parts, column by position; `columns` are the new (identifier, name) pairs.

    Proof. The rows that change are those that change in a part: the sum of the parts' bounds. A row's owners are those its
    part gives it, if all parts carry their owners in the same positions; a public part has no owners, so with one the result
    has none. Where the rows of every part over all entities are those over disjoint sets put together, so are all of them; a
    public part would be there once for each set.
    """

    parts: tuple[Node, ...]
    columns: tuple[tuple[str, str], ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if len(self.parts) < 2 or any(len(part.fields) != len(self.columns) for part in self.parts):
            raise InvalidPlan("the parts of a union differ in their number of columns")
        found = []
        for i, (column, name) in enumerate(self.columns):
            pieces = [part.fields[i].facts for part in self.parts]
            if len({piece.type for piece in pieces}) != 1:
                raise InvalidPlan("the parts of a union differ in type")
            found.append(Field(id=column, name=name, facts=either(*pieces)))
        return tuple(found)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        at = {column: i for i, (column, _) in enumerate(self.columns)}
        found = {}
        for agreed in {frozenset(self._named(part, columns)) for part in self.parts for columns in part.max_frequencies}:
            rows = [part.max_frequency([part.fields[at[column]].id for column in agreed]) for part in self.parts]
            if None not in rows:
                found[agreed] = sum(filter(None, rows))
        return found

    def _named(self, part: Node, columns: frozenset[str]) -> list[str]:
        """The columns of the union in the places of some columns of a part."""
        return [column for field, (column, _) in zip(part.fields, self.columns, strict=True) if field.id in columns]

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        rows: int | None = 0
        for part in below:
            rows = None if rows is None or part.rows is None else rows + part.rows
        positions = {frozenset([field.id for field in node.fields].index(owner) for owner in part.owners)
                     for node, part in zip(self.parts, below, strict=True)}
        same = sorted(positions.pop()) if len(positions) == 1 else []
        return Stability(rows=rows, owners=tuple(self.columns[i][0] for i in same), because="the rows of all parts")

    def split_by(self, below: tuple[SplitBy, ...]) -> SplitBy:
        return SplitBy.ENTITIES if set(below) == {SplitBy.ENTITIES} else SplitBy.WHOLE

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        arms = []
        for node, text in zip(self.parts, below, strict=True):
            parts = ", ".join(f"t0.{quote(field.id)} AS {quote(column)}"
                              for field, (column, _) in zip(node.fields, self.columns, strict=True))
            arms.append(f"SELECT {parts} FROM ({text}) AS t0")
        return " UNION ALL ".join(arms)
