"""The sensitivity of a plan to one protected entity, and the reason for it: plan -> certificate.

No certificate from outside is trusted: the kernel derives it again from the plan in each request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dpsql.frozen import Frozen, replace
from dpsql.trusted.plan.node import InvalidPlan, Node, PublicFacts, SplitBy, Stability, bottom_up
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Clipped


class Unbounded(Exception):
    """No bound is known. `node` is the lowest operator at which it was lost, `stability` what is known there."""

    def __init__(self, node: Node, stability: Stability) -> None:
        super().__init__(stability.because)
        self.node, self.stability = node, stability


class Sensitivity(Frozen):
    """Bounds on the movement of the sums of one summand, over all cells, with one entity. l1 is None if only l2 is bounded."""

    l1: int | None
    l2: int


class Certificate(Frozen):
    """The stability of the summed relation, the sensitivity of each summand, whether all rows of an entity are in different
    cells, and the number of relations that a `JoinSum` joins; and the same for an entity in one period of growing tables, if that
    is known (`kernel.period_certificate`). There, `numbered_from` is the period that has the number 0 in the first key, if that
    key numbers the periods.
    """

    below: Stability
    summands: tuple[Sensitivity, ...]
    disjoint_cells: bool = False
    joined: int = 1
    in_period: Certificate | None = None
    numbered_from: int | None = None

    @property
    def rows(self) -> int:
        """The largest number of rows that one entity moves, by which distances in rows are divided; 1 for public rows, of
        which an entity moves none. Raises ValueError if it is not bounded.
        """
        if self.below.rows is None:
            raise ValueError("the rows that an entity moves are not bounded")
        return max(1, self.below.rows)

    @property
    def l1(self) -> int:
        """How far one entity moves the single sum, over all cells. Raises ValueError if that is not bounded."""
        only, = self.summands
        if only.l1 is None:
            raise ValueError("what an entity adds is not bounded")
        return only.l1


def stabilities(plan: Node, public: PublicFacts, known: dict[int, Stability] | None = None) -> dict[int, Stability]:
    """The stability of every node of a plan, by the identity of the node. They are added to `known`, if given; its nodes must
    exist as long as it is used.

    What is public is decided by the tables that a plan reads, not by their rows: a relation over private rows that no entity
    can move, because it is joined with a public one that happens to be empty, is still private. It is charged and gets noise
    like any other, as if the public table had one more row.
    """
    found = {} if known is None else known
    for node in () if id(plan) in found else bottom_up(plan):
        if id(node) not in found:
            _check(node)
            here = node.stability(tuple(found[id(below)] for below in node.inputs), public)
            if here.public and not all(found[id(below)].public for below in node.inputs):
                here = replace(here, rows=1, because=f"{here.because}; reading private rows counts as at least one row")
            found[id(node)] = here
    return found


def splits(plan: Node, known: Mapping[int, Stability]) -> dict[int, SplitBy]:
    """How every relation of a plan is composed from disjoint sets of entities, by the identity of the node; `known` are the
    stabilities.

    Proof. Let every private table that is read name one owner in each row, so that disjoint sets of entities have disjoint sets
    of rows; let a relation, in every database, have rows of one owner each, which is never NULL: removing an entity removes
    exactly its rows, and changes no other. Remove all entities but those of a set, one by one: what is left are the relation's
    rows over that set alone, and they are the rows whose owner is in it. Over several sets these are different rows, and together
    all of them. For all other relations, the operators decide (`Node.split_by`). Rows of a table with several owners are in no
    set.
    """
    found: dict[int, SplitBy] = {}
    for node in bottom_up(plan):
        here, below = known[id(node)], tuple(found[id(part)] for part in node.inputs)
        if here.public:
            found[id(node)] = SplitBy.PUBLIC
        elif SplitBy.WHOLE in below or (not below and here.owner is None):
            found[id(node)] = SplitBy.WHOLE
        else:
            found[id(node)] = SplitBy.ENTITIES if here.owner is not None else node.split_by(below)
    return found


def _check(node: Node) -> None:
    """Raises InvalidPlan if a node breaks an invariant."""
    if not node.well_named:
        raise InvalidPlan(f"{type(node).__name__} needs columns of different names, of letters and digits")


def stability(plan: Node, public: PublicFacts) -> Stability:
    """The stability of a relation. Raises InvalidPlan if the plan breaks an invariant."""
    return stabilities(plan, public)[id(plan)]


def certify(plan: GroupedSums, public: PublicFacts, known: dict[int, Stability] | None = None) -> Certificate:
    """The sensitivities of grouped sums; `known` are stabilities, as in `stabilities`.

    Proof. If an entity moves at most k rows of the input, the vector of a summand's sums over all cells moves by a sum of at most
    k row vectors, each of norm l1 (l2) at most: k * l1, k * l2 (triangle inequality). Where its rows, which leave together, are
    all in different cells, as no two rows agree on their owner and the keys (by the equality by which the tally groups:
    `expr.printing.settled` merges nothing that frequencies tell apart, and rows are left out of cells, never moved), these
    vectors are orthogonal: sqrt(k) * l2 (Pythagoras). Sums of clipped columns move by the one vector that the entity contributes,
    whose norm the `Clip` below bounds. Adding entries of that vector up in one cell can only lower its l1 norm, and an l1 bound
    is an l2 bound too; but it can raise the l2 norm, so a bound of that one holds where the entity's rows fall into different
    cells. Saturation of totals is 1-Lipschitz.

    Raises Unbounded if no bound is known, InvalidPlan where the plan breaks an invariant.
    """
    known = stabilities(plan, public, known)
    below = known[id(plan.input)]
    disjoint_cells = below.owner is not None and any(key <= {below.owner, *plan.keys} for key in plan.input.unique)
    found = []
    for summand in plan.summands:
        if isinstance(summand, Clipped):
            norm = below.norm
            if norm is None or not set(summand.clipped) <= set(norm.columns) or len(set(summand.clipped)) != len(summand.clipped):
                raise InvalidPlan("columns that were not clipped together are summed as clipped")
            if norm.order == 2 and not disjoint_cells:
                raise InvalidPlan("rows of one entity whose l2 norm is clipped are added up in one cell")
            found.append(Sensitivity(l1=norm.bound if norm.order == 1 else None, l2=norm.bound))
        elif below.rows is None:
            raise Unbounded(*first_unbounded(plan.input, known))
        else:
            l2 = root_above(below.rows * summand.l2**2) if disjoint_cells else below.rows * summand.l2
            found.append(Sensitivity(l1=below.rows * summand.l1, l2=l2))
    return Certificate(below=below, summands=tuple(found), disjoint_cells=disjoint_cells)


def root_above(number: int) -> int:
    """The square root of a whole number >= 0, rounded up."""
    root = math.isqrt(number)
    return root if root * root == number else root + 1


def first_unbounded(plan: Node, known: dict[int, Stability]) -> tuple[Node, Stability]:
    """The lowest node above which a bound is missing: a node whose inputs still have owners, or are bounded."""

    def lost(node: Node) -> Iterator[Node]:
        for below in node.inputs:
            yield from lost(below)
        here = known[id(node)]
        if here.rows is None and not here.owners:
            yield node

    node = next(lost(plan), plan)
    return node, known[id(node)]
