"""Inner and left joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dpsql.plan.expr.nodes import Call, Expr, Ref, conjuncts
from dpsql.plan.expr.printing import quote, show, to_sql
from dpsql.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, Stability, columns_of, least
from dpsql.types import Span, Type


@dataclass(frozen=True, kw_only=True)
class Join(Node):
    """Pairs of rows on which the condition is true; with `keep_left`, left rows without a partner too, NULL-padded.

    Write a, b for the rows that one entity can change left and right, and m_R (m_L) for the most partners of one left (right)
    row. m_R is 1 where the columns that the condition equates include a key of the right side.

    Proof. (1) *Right side public.* One left row takes part in at most m_R result rows (max(m_R, 1) when left rows are
    kept), and m_R is read from the public rows: a * m_R. Each result row has the owner of its left row. An inner join with
    the left side public is the mirror image. (2) *Both private, and the condition equates the two owners.* Then every result
    row is made of rows of one and the same entity, and an entity's rows meet only its own: the rows of an entity leave
    together, so at most a * b result rows (a * max(b, 1) when left rows are kept) leave with it and no other row changes.
    Where a left row has one partner at most, a rows. Where a right row has, b rows; when left rows are kept, of the a rows
    some may be padded, but not all of them beside a pair, so at most a + b - 1 for a, b >= 1. (3) *Both private, otherwise.* A
    pair leaves with either of its rows, and a row leaves with any of its owners: so a pair of an inner join has the owners of
    both its rows, one of two that the condition equates. How many pairs leave is not bounded. Left rows may be kept where
    every owner of the right side is equated with one of the left side: partners then leave together with the left row. An
    outer join that keeps public rows is not bounded: whether a public row is padded would depend on private ones, and the
    padded row has no owner; nor is any other that keeps left rows, as these would be padded when a partner leaves.
    """

    left: Node
    right: Node
    condition: Expr
    keep_left: bool = False
    span: Span | None = field(default=None, compare=False)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        self._check()
        right = self.right.fields
        if self.keep_left:
            right = tuple(replace(field, facts=replace(field.facts, nullable=True)) for field in right)
        return (*self.left.fields, *right)

    def _check(self) -> None:
        from dpsql.plan.expr.facts import NotTotal, facts
        if set(self.left.env) & set(self.right.env):
            raise InvalidPlan("both sides of a join have a column of one name")
        try:
            kind = facts(self.condition, {**self.left.env, **self.right.env}).type
        except (NotTotal, KeyError) as fault:
            raise InvalidPlan(f"a join condition is not safe: {fault}") from None
        if kind is not Type.BOOLEAN:
            raise InvalidPlan("a join condition is not a truth value")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @cached_property
    def equated(self) -> tuple[tuple[str, str], ...]:
        """Pairs (left column, right column) that the condition requires to be equal."""
        pairs = []
        for part in conjuncts(self.condition):
            if isinstance(part, Call) and part.function == "=":
                first, second = part.args
                if isinstance(first, Ref) and isinstance(second, Ref):
                    if first.column in self.left.env and second.column in self.right.env:
                        pairs.append((first.column, second.column))
                    elif second.column in self.left.env and first.column in self.right.env:
                        pairs.append((second.column, first.column))
        return tuple(pairs)

    def _one_partner(self, side: Node, position: int) -> bool:
        """Whether at most one row of `side` can meet any row of the other side."""
        return self._partners(side, position) in (0, 1)

    @cached_property
    def caps(self) -> Mapping[frozenset[str], int]:  # cached, as it is asked for again and again in a chain of joins
        """Each row of a side stands in as many pairs as it has partners; a left row without one, in one row if it is kept.

        Nothing is known of right columns where left rows are kept, as any number of them may be padded.
        """
        left, right = self._partners(self.right, 1), self._partners(self.left, 0)
        kept = {} if left is None else {agreed: rows * (max(left, 1) if self.keep_left else left)
                                        for agreed, rows in self.left.caps.items()}
        return least(kept, {} if right is None or self.keep_left else {
            agreed: rows * right for agreed, rows in self.right.caps.items()})

    def _partners(self, side: Node, position: int) -> int | None:
        """The most rows of `side` that can meet one row of the other side, in every database."""
        return side.cap([pair[position] for pair in self.equated])

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        left, right = below
        if left.public and right.public:
            return Stability(rows=0, because="public tables only")
        if right.public:
            return self._with_public(left, self.right, 1, public)
        if left.public:
            if self.keep_left:
                return Stability(rows=None, because="an outer join keeps public rows, which belong to no entity")
            return self._with_public(right, self.left, 0, public)
        if not left.owners or not right.owners:
            return Stability(rows=None, because="rows meet that have no owners")
        others = tuple(owner for owner in right.owners if not any((ours, owner) in self.equated for ours in left.owners))
        if len(left.owners) == 1 and not others:
            return self._own_rows(left, right)
        if others and self.keep_left:
            return Stability(rows=None, because="whether a row is padded depends on rows of other entities")
        return Stability(rows=None, owners=(*left.owners, *others), because="each row belongs to the entities of both sides")

    def _with_public(self, private: Stability, side: Node, position: int, public: PublicFacts) -> Stability:
        if self._one_partner(side, position):
            most, why = 1, "each row meets at most one public row"
        else:
            most = public.fanout(side, tuple(pair[position] for pair in self.equated))
            why = f"each row meets at most {most} public rows"
        most = max(most, 1) if self.keep_left else most
        rows = None if private.rows is None else private.rows * most
        return Stability(rows=rows, owners=private.owners, because=why)

    def _own_rows(self, left: Stability, right: Stability) -> Stability:
        bounds: list[tuple[int, str]] = []
        if left.rows is not None and self._one_partner(self.right, 1):
            bounds.append((left.rows, "each row meets at most one row of its own entity"))
        if right.rows is not None and self._one_partner(self.left, 0):
            if not self.keep_left:
                bounds.append((right.rows, "each row meets at most one row of its own entity"))
            elif left.rows is not None:
                bounds.append((left.rows + max(right.rows, 1) - 1,
                               f"an entity's {right.rows} rows meet at most one row each, and of {left.rows} some are padded"))
        if left.rows is not None and right.rows is not None:
            most = left.rows * (max(right.rows, 1) if self.keep_left else right.rows)
            bounds.append((most, f"an entity's {left.rows} and {right.rows} rows meet only each other"))
        if not bounds:
            return Stability(rows=None, owners=left.owners, because="rows per entity are not limited below")
        rows, why = min(bounds)
        return Stability(rows=rows, owners=left.owners, because=why)

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.left) | columns_of("t1", self.right)
        parts = ", ".join(f"{names[field.id]} AS {quote(field.id)}" for field in self.fields)
        kind = "LEFT JOIN" if self.keep_left else "JOIN"
        return f"SELECT {parts} FROM ({below[0]}) AS t0 {kind} ({below[1]}) AS t1 ON {to_sql(self.condition, names)}"

    def label(self) -> str:
        return f"{'Left join' if self.keep_left else 'Join'} on " + show(
            self.condition, {**self.left.names, **self.right.names})
