"""How far one protected entity can move what is read, and why: plan -> certificate.

Nothing here is believed from outside: the kernel derives the certificate again from the plan in each request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpsql.plan.node import InvalidPlan, Node, PublicFacts, Stability, fold
from dpsql.plan.operators.summands import Clipped
from dpsql.plan.operators.tally import Tally


class Unbounded(Exception):
    """No bound is known. `node` is the lowest operator at which it was lost, `stability` what is known there."""

    def __init__(self, node: Node, stability: Stability) -> None:
        super().__init__(stability.because)
        self.node, self.stability = node, stability


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Bounds on how far the sums of one summand, over all cells, move with one entity. l1 is None where only l2 is bounded."""

    l1: int | None
    l2: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The stability of the relation that is summed, and the sensitivity of each summand."""

    below: Stability
    summands: tuple[Sensitivity, ...]


def stabilities(plan: Node, public: PublicFacts) -> dict[int, Stability]:
    """The stability of every node of a plan, by the identity of the node."""
    found: dict[int, Stability] = {}

    def visit(node: Node, below: tuple[Stability, ...]) -> Stability:
        _ = node.fields  # checks the node
        found[id(node)] = node.stability(below, public)
        return found[id(node)]

    fold(plan, visit)
    return found


def stability(plan: Node, public: PublicFacts) -> Stability:
    """The stability of a relation. Raises InvalidPlan where the plan breaks an invariant."""
    return stabilities(plan, public)[id(plan)]


def certify(plan: Tally, public: PublicFacts) -> Certificate:
    """The sensitivities of a tally.

    Proof. If an entity moves at most k rows of the input, the vector of a summand's sums over all cells moves by a sum of at
    most k row vectors, each of norm l1 (l2) at most: k * l1, k * l2 (triangle inequality). Sums of clipped columns move by the
    one vector that the entity contributes, whose norm the `Clip` below bounds; an l1 bound is an l2 bound too. Saturation of
    totals is 1-Lipschitz.

    Raises Unbounded where no bound is known, InvalidPlan where the plan breaks an invariant.
    """
    known = stabilities(plan, public)
    below = known[id(plan.input)]
    found = []
    for summand in plan.summands:
        if isinstance(summand, Clipped):
            norm = below.norm
            if norm is None or not set(summand.clipped) <= set(norm.columns) or len(set(summand.clipped)) != len(summand.clipped):
                raise InvalidPlan("columns that were not clipped together are summed as clipped")
            found.append(Sensitivity(l1=norm.bound if norm.order == 1 else None, l2=norm.bound))
        elif below.rows is None:
            raise Unbounded(*first_unbounded(plan.input, known))
        else:
            found.append(Sensitivity(l1=below.rows * summand.l1, l2=below.rows * summand.l2))
    return Certificate(below=below, summands=tuple(found))


def first_unbounded(plan: Node, known: dict[int, Stability]) -> tuple[Node, Stability]:
    """The lowest node above which a bound is missing: the one whose inputs still belong to one entity each, or are bounded."""

    def lost(node: Node) -> Iterator[Node]:
        for below in node.inputs:
            yield from lost(below)
        here = known[id(node)]
        if here.rows is None and here.owner is None:
            yield node

    node = next(lost(plan), plan)
    return node, known[id(node)]
