"""The cost of sums over rows that name several entities each, released as Lipschitz extensions with one level per cell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, TypeAlias

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.field_types import Assumptions, NumberRange
from dpsql.trusted.noise.integer import TOO_WIDE, Noise, fits_a_word
from dpsql.trusted.plan.cells import MOST_CELLS
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.operators.owner_sets import LARGEST, UNIT, OwnerSets, slack

MOST_LEVELS = 2**10
Level: TypeAlias = Annotated[int, NumberRange(least=1, most=LARGEST)]
CellCount: TypeAlias = Annotated[int, NumberRange(least=1, most=MOST_CELLS)]
COARSEST = 2.0**40  # the largest scale of scores, so that floats hold all scores that matter
ScaleOfScores: TypeAlias = Annotated[float, NumberRange(above=0, most=COARSEST)]


def cost_of_sums(plan: OwnerSets, levels: tuple[int, ...], noises: tuple[Noise, ...], cells: int) -> Cost:
    """The cost of the extensions of all cells at the most expensive level, with that level's noise; see `Balance`."""
    parts = 2 if plan.signed else 1
    moved = [UNIT * level + parts * slack(level, plan.width) for level in levels]
    costs = [noise.cost(Sensitivity(l1=far, l2=far)) for far, noise in zip(moved, noises, strict=True)]
    epsilons = [cost.epsilon for cost in costs if cost.epsilon is not None]
    dearest = Cost(epsilon=max(epsilons) if len(epsilons) == len(costs) else None, rho=max(cost.rho for cost in costs))
    return times(dearest, cells)


class ExtensionSums(Frozen):
    """For each cell, the noisy extension at a level, in units of 1 / UNIT; and for each of its parts the index of the level,
    or None if the largest underestimate is 0 (`Race`).
    """

    totals: tuple[int, ...]
    levels: tuple[tuple[int | None, ...], ...]


def times(cost: Cost, number: int) -> Cost:
    """The cost of `number` releases of this cost."""
    return Cost(epsilon=None if cost.epsilon is None else cost.epsilon * number, rho=cost.rho * number, delta=cost.delta * number)


def assumptions(plan: OwnerSets, levels: Sequence[int], cells: int, noises: Sequence[Noise] | None,
                numbers: Sequence[int] | None = None) -> Assumptions:
    """Assumptions about levels and cells in the proofs of `Balance`, `Race` and `Removed`."""
    yield 1 <= len(levels) <= MOST_LEVELS, f"there must be 1 to {MOST_LEVELS} levels"
    yield all(a < b for a, b in pairwise(levels)), "levels must increase"
    given = [each for each in (noises, numbers) if each is not None]
    yield all(len(each) == len(levels) for each in given), "every level needs its noise, penalty or log-prior"
    yield all(map(fits_a_word, noises or ())), TOO_WIDE
    yield cells == 1 or plan.cell is not None, "several cells need a column with the number of the cell"


def are_bounded(plan: OwnerSets, certificate: Certificate) -> bool:
    """Whether the proofs of Lipschitz constants apply to private rows; False for public ones. Raises ValueError for private
    rows to which they do not apply.

    They assume that removing an entity deletes exactly the rows that name it in one of the plan's owner columns; additional
    owner columns only lower the sums.
    """
    if certificate.below.public:
        return False
    if not certificate.below.owners or not set(certificate.below.owners) <= set(plan.owners):
        raise ValueError("every column that names an entity of these rows must be among the owners")
    return True
