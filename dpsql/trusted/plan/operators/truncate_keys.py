"""Limiting the rows of each value of a key."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.frozen import replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.node import Field, Node, Printing, PublicFacts, Stability, least
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.ranking import Ranking


class TruncateKeys(Node):
    """Keep at most `rows` rows of each value of `keys` (without keys: in total), whichever entities they belong to. NULL
    counts as a value.

    `order` are the columns that tell rows apart, as in `Truncate`; with `first` the first rows by these terms are kept, and
    the secret only breaks ties.

    Proof. (1) *Every owner is among the keys.* The rows of a group belong to the same entities. Which of them stay does not
    depend on rows of other groups, so with an entity its kept rows leave, and no other row changes: at most as many as below,
    and at most `rows` where the owner is the only key. (2) *Otherwise.* What stays of a group is a function of its rows, so add
    or remove the changed rows below one at a time. One row that comes in takes a place among the first `rows` or not; if it
    does, it pushes at most one row out. One that leaves gives its place to at most one row. So each changes at most two rows of
    the result: 2a. Rows of other entities come and go, so a row has no owner.

    The alternative to drop all rows of a value that has too many changes up to rows + 1 with each changed row.

    Source: Kotsogiannis et al., PrivateSQL, VLDB 2019 (truncation by frequency), with ranks in place of dropping.
    """

    input: Node
    rows: int
    keys: tuple[str, ...]
    order: tuple[str, ...]
    first: tuple[Term, ...] = ()

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        self.ranking.check()
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def ranking(self) -> Ranking:
        return Ranking(input=self.input, by=self.keys, rows=self.rows, order=self.order, first=self.first)

    @cached_property
    def max_frequencies(self) -> Mapping[frozenset[str], int]:
        return least(self.input.max_frequencies, {frozenset(self.keys): self.rows})

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        if below[0].public:
            return below[0]
        if not self.ranking.total:
            return Stability(rows=None, because="the order does not distinguish all rows")
        owners, rows = below[0].owners, below[0].rows
        if owners and set(owners) <= set(self.keys):
            if self.keys == owners[:1]:
                rows = self.rows if rows is None else min(self.rows, rows)
            return replace(below[0], rows=rows, because="each entity's rows are counted separately")
        return Stability(rows=None if rows is None else 2 * rows,
                         because="a row that leaves a full group makes room for one other")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        return self.ranking.sql(below[0], printing)
