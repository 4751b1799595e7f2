"""INTERSECT and EXCEPT, with and without ALL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dpsql.frozen import replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability, columns_of, least


class SetOperation(Node):
    """The rows of the left side that are (INTERSECT) or are not (EXCEPT) on the right side; with `all`, the number of copies
    counts.

    `columns` are the new (identifier, name) pairs, by position. NULLs count as equal here, and so do NaN, and -0.0 and 0.0, which
    are shown as one value (`settled`). It is the equality of frequencies, so those that hold of a side hold of what is left of
    it.

    Proof, rows. Of a row v that stands l times left and r times right, the result has min(l, r) with INTERSECT ALL,
    max(l - r, 0) with EXCEPT ALL, and without ALL one where l, r > 0, or where l > 0 = r. Each of these moves by at most |l - l'|
    + |r - r'|: a + b rows. With a public side its summand is 0.

    Proof, owners. The owners of v on a side are the values of the columns that are owners there, and the copies of v on a side
    leave together, with any of these. (1) *INTERSECT*: v leaves the result exactly if l or r becomes 0, so it belongs to the
    owners of both sides; a public side has none. As v takes at most l and at most r places, at most a rows leave with the
    entities that left columns name, and b with those that right columns name. (2) *EXCEPT, where every owner of the right side
    stands in the place of one of the left, or the right side is public*: whoever takes v from the right side takes it from the
    left, so v leaves exactly with its owners on the left, and never comes: a rows. (3) Otherwise rows may come as others leave,
    and have no owner.
    """

    kind: Literal["intersect", "except"]
    all: bool
    left: Node
    right: Node
    columns: tuple[tuple[str, str], ...]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        if not len(self.left.fields) == len(self.right.fields) == len(self.columns) > 0:
            raise InvalidPlan("the sides of a set operation differ in their number of columns")
        found = []
        for (column, name), ours, theirs in zip(self.columns, self.left.fields, self.right.fields, strict=True):
            if ours.facts.type is not theirs.facts.type:
                raise InvalidPlan("the sides of a set operation differ in type")
            nullable = ours.facts.nullable and (theirs.facts.nullable or self.kind == "except")
            found.append(Field(id=column, name=name, facts=replace(ours.facts, nullable=nullable)))
        return tuple(found)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        sides = [self._named(self.left, self.left.max_frequencies)]
        sides += [self._named(self.right, self.right.max_frequencies)] if self.kind == "intersect" else []
        return least(*sides, *([] if self.all else [{frozenset(self.env): 1}]))

    def _named(self, side: Node, max_frequencies: Mapping[frozenset[str], int]) -> dict[frozenset[str], int]:
        ids = {field.id: column for field, (column, _) in zip(side.fields, self.columns, strict=True)}
        return {frozenset(ids[column] for column in agreed): rows for agreed, rows in max_frequencies.items()}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        left, right = below
        if left.public and right.public:
            return Stability(rows=0, because="public")
        ours, theirs = (self._places(side, found.owners) for side, found in zip(self.inputs, below, strict=True))
        rows = None if left.rows is None or right.rows is None else left.rows + right.rows
        places = set[int]()
        if self.kind == "intersect" and (ours or left.public) and (theirs or right.public):
            places = ours | theirs
            named = [found.rows for found, mine in ((left, ours), (right, theirs)) if mine == places and found.rows is not None]
            rows = min(named, default=rows)
        if self.kind == "except" and ours and (right.public or (theirs and theirs <= ours)):
            places, rows = ours, left.rows
        owners = tuple(self.columns[place][0] for place in sorted(places))
        if len(owners) == len(self.columns) == 1 and not self.all:
            return Stability(rows=1, owners=owners, because="one row for each entity")
        return Stability(rows=rows, owners=owners, because="a row counts as often as it occurs on both sides")

    @staticmethod
    def _places(side: Node, owners: tuple[str, ...]) -> set[int]:
        return {i for i, field in enumerate(side.fields) if field.id in owners}

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        word = self.kind.upper() + (" ALL" if self.all else "")
        return f" {word} ".join(self._values(side, text) for side, text in zip(self.inputs, below, strict=True))

    def _values(self, side: Node, text: str) -> str:
        names = columns_of("t0", side)
        parts = [f"{settled(names[field.id], field.facts.type)} AS {quote(column)}"
                 for field, (column, _) in zip(side.fields, self.columns, strict=True)]
        return f"SELECT {', '.join(parts)} FROM ({text}) AS t0"
