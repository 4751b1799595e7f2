"""Joins: inner, left, right and full."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from dpsql.frozen import Frozen, field, replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import NotTotal, either, facts
from dpsql.trusted.plan.expr.nodes import Call, Expr, Ref, conjuncts
from dpsql.trusted.plan.expr.printing import quote, to_sql
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, PublicFacts, SplitBy, Stability, columns_of, least
from dpsql.trusted.plan.operators.filter import without_null
from dpsql.types import Span, Type

EQUALITIES = ("=", "is not distinct from")


class Merged(Frozen):
    """One column made from two that a full join equates: the left one, or the right one if there is no left row."""

    id: str
    name: str
    left: str
    right: str


class Join(Node):
    """Pairs of rows that satisfy the condition, and NULL-padded rows without a partner of a side that is kept.

    Write a, b for the numbers of left and right rows that one entity can change. Write m for the largest number of right rows
    that meet one left row, and n for the largest number of left rows that meet one right row, in every database. They follow
    from the frequencies of the columns that the condition equates, or, for a public side, from its rows: the largest number of
    them that agree on these columns. A row with NULL in a column that `=` equates meets no row, so it does not count there; a
    row with NULL in a column that IS NOT DISTINCT FROM equates meets all rows with NULL, and counts. l is 1 if left rows are
    kept and 0 otherwise, and r is the same for right rows.

    Proof, rows. Go from one database to its neighbour by one changed row at a time, first left and then right, first those
    that leave and then those that come: on the way each side is a part of what it is in one of the two databases, so m and n
    are still bounds. A left row comes or goes with at most m pairs; then, if right rows are kept, at most m padded right rows
    go or come. If it has no partner, it is itself padded where left rows are kept. So it changes max(l, m (1 + r)) rows, a
    right row max(r, n (1 + l)), and the entity

        a max(l, m (1 + r)) + b max(r, n (1 + l)).

    A public side has the summand 0: only its m and n matter.

    With `bare`, one side is kept and only its columns are shown, so that a padded row looks like a pair. A kept row with k
    partners then gives max(1, k) equal rows. If a row of the other side comes or goes, it changes k by one for at most n (or
    m) kept rows, and so it changes at most as many rows of the result: its 1 + l (or 1 + r) is 1.

    Proof, owners. (1) *One side public*: each pair has the owners of its private row, and so has the padded row of that side;
    a kept public row would be padded or not as private rows come and go, and has no owner. (2) *Both private.* A pair leaves
    with either of its rows, and a row leaves with any of its owners: so a pair of an inner join has the owners of both rows;
    two owners that the condition equates count as one. Left rows may be kept if every owner of the right side is equated with
    one of the left side: partners then leave together with the left row, so that no row that stays is padded. The same holds
    for the right side. If both sides are kept, a column that is merged from two equated owners names the entity of pairs and
    of padded rows.

    Proof, rows of one entity. Where each side has one owner and these are equated, an entity's rows meet only its own, and no
    other row changes. Its a and b rows make P <= min(a m, b n) pairs, where now m <= b and n <= a too; at least P / m left and
    P / n right rows are in pairs, and the others are padded: at most

        P + l (a - P / m) + r (b - P / n)

    rows, whose largest value is at P = 0 or at the largest P. For an inner join, one of a and b is enough: rows with at most
    one partner each are not more afterwards.

    Proof, split. Where one side is public and not kept, each row of the result is made of one private row and of public rows,
    whatever other private rows there are: it is split as the private side.

    Sources: Johnson, Near and Song, Towards Practical Differential Privacy for SQL Queries, VLDB 2018 (a m + b n for inner joins,
    from frequencies in the one database; its rule for outer joins is that of inner ones, which is short by (1 + l) and (1 + r));
    Kotsogiannis et al., PrivateSQL, VLDB 2019 (frequencies that are enforced).
    """

    left: Node
    right: Node
    condition: Expr
    keep_left: bool = False
    keep_right: bool = False
    merged: tuple[Merged, ...] = ()
    bare: bool = False
    span: Span | None = field(default=None, compare=False)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        self._check()
        left = _padded(self.left.fields) if self.keep_right else self.left.fields
        right = _padded(self.right.fields) if self.keep_left else self.right.fields
        if self.bare:
            return left if self.keep_left else right
        return (*left, *right, *(Field(id=made.id, name=made.name, facts=either(
            self.left.env[made.left], self.right.env[made.right])) for made in self.merged))

    def _check(self) -> None:
        if set(self.left.env) & set(self.right.env):
            raise InvalidPlan("both sides of a join have a column of one name")
        try:
            kind = facts(self.condition, {**self.left.env, **self.right.env}).type
        except (NotTotal, KeyError) as fault:
            raise InvalidPlan(f"a join condition is not safe: {fault}") from None
        if kind is not Type.BOOLEAN:
            raise InvalidPlan("a join condition is not a truth value")
        if self.bare and self.keep_left is self.keep_right:
            raise InvalidPlan("one side alone can be shown only if a join keeps the unmatched rows of exactly one side")
        for made in self.merged:
            if (made.left, made.right) not in self.equated or not (self.keep_left and self.keep_right):
                raise InvalidPlan("only columns that a full join equates are merged")

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @cached_property
    def equated(self) -> tuple[tuple[str, str], ...]:
        """Pairs (left column, right column) that the condition requires to be equal."""
        return tuple(self._pairs(*EQUALITIES))

    def _pairs(self, *functions: str) -> Iterator[tuple[str, str]]:
        for part in conjuncts(self.condition):
            if isinstance(part, Call) and part.function in functions:
                first, second = part.args
                if isinstance(first, Ref) and isinstance(second, Ref):
                    if first.column in self.left.env and second.column in self.right.env:
                        yield first.column, second.column
                    elif second.column in self.left.env and first.column in self.right.env:
                        yield second.column, first.column

    # -- how many rows meet

    @property
    def right_of_left(self) -> int | None:
        """m: the largest number of right rows that match one left row, in every database."""
        return self.right.max_frequency([pair[1] for pair in self.equated])

    @property
    def left_of_right(self) -> int | None:
        """n: the largest number of left rows that match one right row, in every database."""
        return self.left.max_frequency([pair[0] for pair in self.equated])

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:  # cached, as it is asked for again and again in a chain of joins
        """Each row of a side is in as many pairs as it has partners; without a partner, in one row if it is kept.

        Nothing is known of columns that are padded, as any number of rows may be. Rows that agree on merged columns: with x of
        the left and y of the right side they are at most xy pairs, or rows that are padded, x + y in all.
        """
        m, n = self.right_of_left, self.left_of_right
        found = []
        if m is not None and not self.keep_right:
            found.append({agreed: rows * max(m, self.keep_left) for agreed, rows in self.left.max_frequencies.items()})
        if n is not None and not self.keep_left:
            found.append({agreed: rows * max(n, self.keep_right) for agreed, rows in self.right.max_frequencies.items()})
        x, y = self.left.max_frequency([made.left for made in self.merged]), self.right.max_frequency([made.right
                                                                                                       for made in self.merged])
        if self.merged and x is not None and y is not None:
            found.append({frozenset(made.id for made in self.merged): max(x * y, x + y)})
        return least(*found)

    # -- how far it moves

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        left, right = below
        if left.public and right.public:
            return Stability(rows=0, because="public tables only")
        m = self._with_public(self.right_of_left, self.right, 1, public) if right.public else self.right_of_left
        n = self._with_public(self.left_of_right, self.left, 0, public) if left.public else self.left_of_right
        changes = [self._changes(left, m, self.keep_left, self.keep_right and not self.bare),
                   self._changes(right, n, self.keep_right, self.keep_left and not self.bare)]
        bounds = [sum(filter(None, changes))] if None not in changes else []
        owners = self._owners(left, right)
        if self._one_entity(left, right):
            bounds += self._own_rows(left, right, m, n)
        return Stability(rows=min(bounds, default=None), owners=owners, because=self._because(left, right, owners, m, n))

    def split_by(self, below: tuple[SplitBy, ...]) -> SplitBy:
        left, right = below
        if SplitBy.PUBLIC not in below or (self.keep_left if left is SplitBy.PUBLIC else self.keep_right):
            return SplitBy.WHOLE
        return right if left is SplitBy.PUBLIC else left

    def _with_public(self, cap: int | None, side: Node, position: int, public: PublicFacts) -> int:
        """The largest number of public rows that match one row: from the structure of the plan, or from the actual rows."""
        if cap is not None and cap <= 1:
            return cap
        meeting = without_null(side, (pair[position] for pair in self._pairs("=")))
        seen = public.fanout(meeting, tuple(dict.fromkeys(pair[position] for pair in self.equated)))
        return seen if cap is None else min(cap, seen)

    @staticmethod
    def _changes(side: Stability, partners: int | None, kept: bool, others_kept: bool) -> int | None:
        """The rows of the result that change with the changed rows of one side; see the class."""
        if side.rows == 0:
            return 0
        if side.rows is None or partners is None:
            return None
        return side.rows * max(int(kept), partners * (1 + others_kept))

    def _owners(self, left: Stability, right: Stability) -> tuple[str, ...]:
        if left.public or right.public:
            kept, side = (self.keep_left, right) if left.public else (self.keep_right, left)
            return () if kept else side.owners
        if not left.owners or not right.owners:
            return ()
        ours = tuple(owner for owner in left.owners if not any((owner, theirs) in self.equated for theirs in right.owners))
        theirs = tuple(owner for owner in right.owners if not any((ours, owner) in self.equated for ours in left.owners))
        if self.keep_left and self.keep_right:
            return self._merged_owners(left, right)
        if self.keep_right:
            return () if ours else right.owners
        return () if theirs and self.keep_left else (*left.owners, *theirs)

    def _merged_owners(self, left: Stability, right: Stability) -> tuple[str, ...]:
        """The merged columns of owners, if every owner of both sides is in one of them; otherwise none."""
        made = [merged for merged in self.merged if merged.left in left.owners and merged.right in right.owners]
        whole = {merged.left for merged in made} == set(left.owners) and {merged.right for merged in made} == set(right.owners)
        return tuple(merged.id for merged in made) if whole else ()

    def _one_entity(self, left: Stability, right: Stability) -> bool:
        """Whether rows that match belong to the same entity."""
        return left.owner is not None and right.owner is not None and (left.owner, right.owner) in self.equated

    def _own_rows(self, left: Stability, right: Stability, m: int | None, n: int | None) -> list[int]:
        """The bound on the rows of one entity, if there is one."""
        a, b = left.rows, right.rows
        m, n = _least(m, b), _least(n, a)
        most = _least(_times(a, m), _times(b, n))
        if most is None or (self.keep_left and a is None) or (self.keep_right and b is None):
            return []
        padded = (a or 0) * self.keep_left + (b or 0) * self.keep_right
        left_in, right_in = Fraction(self.keep_left, m or 1), Fraction(self.keep_right, n or 1)
        return [padded + max(0, math.floor(most * (1 - left_in - right_in)))]

    def _because(self, left: Stability, right: Stability, owners: tuple[str, ...], m: int | None, n: int | None) -> str:
        if left.public or right.public:
            kept = self.keep_left if left.public else self.keep_right
            most = n if left.public else m
            why = "each row matches at most " + ("one public row" if most == 1 else f"{most} public rows")
            return why + ", and public rows are kept, which belong to no entity" if kept else why
        if self._one_entity(left, right):
            return "an entity's rows match only each other"
        if len(owners) > 1:
            return "each row belongs to the entities of both sides"
        if m is None or n is None:
            return "the number of matching rows is not limited"
        return f"a row matches at most {m} on the right and {n} on the left"

    # -- printing

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        names = columns_of("t0", self.left) | columns_of("t1", self.right)
        parts = [f"{printed} AS {quote(column)}" for column, printed in names.items() if column in self.env or not self.bare]
        parts += [f"COALESCE({names[made.left]}, {names[made.right]}) AS {quote(made.id)}" for made in self.merged]
        return (f"SELECT {', '.join(parts)} FROM ({below[0]}) AS t0 {self.kind} ({below[1]}) AS t1 "
                f"ON {to_sql(self.condition, names)}")

    @property
    def kind(self) -> str:
        sides = {(False, False): "", (True, False): "LEFT ", (False, True): "RIGHT ", (True, True): "FULL "}
        return sides[self.keep_left, self.keep_right] + "JOIN"


def _padded(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(replace(field, facts=replace(field.facts, nullable=True)) for field in fields)


def _least(*numbers: int | None) -> int | None:
    """The smallest of the known numbers; None if none is known."""
    return min((number for number in numbers if number is not None), default=None)


def _times(x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else x * y
