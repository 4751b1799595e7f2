"""The cost of sums over rows of several entities each, released as Lipschitz extensions at a level for each cell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dpsql.accounting.cost import Cost
from dpsql.noise.integer import WIDEST, Noise, spread_of
from dpsql.plan.certificate import Certificate, Sensitivity
from dpsql.plan.operators.owner_sets import LARGEST, UNIT, OwnerSets, slack


def cost_of_sums(plan: OwnerSets, levels: tuple[int, ...], noises: tuple[Noise, ...], cells: int) -> Cost:
    """The cost of the extensions of all cells at the most expensive level, with that level's noise; see `Balance`."""
    parts = 2 if plan.signed else 1
    moved = [UNIT * level + parts * slack(level, plan.width) for level in levels]
    costs = [noise.cost(Sensitivity(l1=far, l2=far)) for far, noise in zip(moved, noises, strict=True)]
    epsilons = [cost.epsilon for cost in costs if cost.epsilon is not None]
    dearest = Cost(epsilon=max(epsilons) if len(epsilons) == len(costs) else None, rho=max(cost.rho for cost in costs))
    return times(dearest, cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionSums:
    """For each cell the noisy extension at a level, in units of 1 / UNIT; and for each of its parts the index of the level, None
    where the largest underestimate is 0 (`Race`).
    """

    totals: tuple[int, ...]
    levels: tuple[tuple[int | None, ...], ...]


COARSEST = 2.0**40  # the largest scale of scores, so that floats hold all scores that matter


def times(cost: Cost, number: int) -> Cost:
    """The cost of `number` releases of this cost."""
    return Cost(epsilon=None if cost.epsilon is None else cost.epsilon * number, rho=cost.rho * number, delta=cost.delta * number)


def is_free(plan: OwnerSets, levels: tuple[int, ...], noises: tuple[Noise, ...], cells: int, certificate: Certificate) -> bool:
    """True for public rows. Raises ValueError where the proofs of `Balance` and `Race` do not cover these levels and noises.

    Noise must not be cut off at 64 bits before it is added, as this would reveal the sum.
    """
    if not are_bounded(plan, levels, cells, certificate):
        return True
    if len(noises) != len(levels) or any(spread_of(noise) > WIDEST for noise in noises):
        raise ValueError("every level needs noise that fits into 64 bits")
    return False


def are_bounded(plan: OwnerSets, levels: tuple[int, ...], cells: int, certificate: Certificate) -> bool:
    """False for public rows. Raises ValueError for private ones to which the proofs of Lipschitz constants do not apply.

    They assume that removing an entity deletes exactly the rows that name it in one of the plan's owner columns; additional
    owner columns only lower the sums.
    """
    if certificate.below.public:
        return False
    if not certificate.below.owners or not set(certificate.below.owners) <= set(plan.owners):
        raise ValueError("every column that names an entity of these rows must be among the owners")
    if not levels or min(levels) < 1 or max(levels) > LARGEST or any(a >= b for a, b in pairwise(levels)):
        raise ValueError("levels must be increasing positive integers within the limit")
    if cells < 1 or (cells > 1 and plan.cell is None):
        raise ValueError("several cells need a column with the number of the cell")
    return True
