"""Sums over rows that may belong to several entities each, held to a level, for each cell of a GROUP BY."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise

from dpsql.accounting.cost import FREE, Cost
from dpsql.plan.certificate import Certificate, Sensitivity
from dpsql.plan.operators.shares import LARGEST, UNIT, Shares, pull, slack
from dpsql.requests.noise import WIDEST, Noise, spread_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The sum of all weights of each cell, as the highest of several underestimates: race to the top (R2T).

    With F_j the sum held to `levels[j]` for each entity (`kernel.extensions.value`), in units, the answer is the largest of 0
    and all F_j + noise_j - `penalties[j]`, and which of them it is. Where the plan is signed, the positive and the negative
    weights run a race each, and the answer is the difference. Every cell has races of its own, over the sets of that cell.

    Cost. An entity moves F_j by at most `pull(levels[j], owners)`, so each noisy F_j costs what its noise costs, and all of them
    together the sum, for each race of each cell: the largest, after public numbers are taken off, is post-processing. So is
    leaving out levels that cannot win, as the look answers what all levels with the same noise would (`looks.race`).

    The penalties have no part in privacy: a noise stays below its own with the probability that the mechanism wants, so that
    noisy underestimates are seldom above the truth. Source: Dong, Fang, Yi, Tao and Machanavajjhala, SIGMOD 2022.
    """

    plan: Shares
    levels: tuple[int, ...]
    noises: tuple[Noise, ...]
    penalties: tuple[int, ...]
    cells: int = 1

    def cost(self, certificate: Certificate) -> Cost:
        if is_free(self.plan, self.levels, self.noises, self.cells, certificate):
            return FREE
        total = FREE
        for level, noise, _ in zip(self.levels, self.noises, self.penalties, strict=True):
            moved = pull(level, len(self.plan.owners))
            total += noise.cost(Sensitivity(l1=moved, l2=moved))
        return times(total, self.cells * (2 if self.plan.signed else 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The sums of all cells held to one of several levels, the level drawn so that what is cut off balances the noise.

    With F_j as in `Race`, of all cells and of positive and negative weights together, and t_j the levels, level i is judged by

        s_i = max(0, max over j > i of floor((F_j - F_i) / t_j)):

    about how many entities, in 1 / UNIT, are above it. It is drawn with probability proportional to
    exp(-(s_i + handicaps[i]) / scale), an exponential mechanism whose public handicaps make high levels rarer, as these cost much
    when they are drawn in vain. Then for each cell F of the positive weights less F of the negative ones, at that level, is told
    with fresh noise `noises[i]`.

    Cost of the level. When an entity leaves, F_j falls by at most pull(t_j) and rises by at most slack(t_j), for each part of
    each cell (two parts in a cell where weights have two signs). So
    F_j - F_i falls by at most pull(t_j) + slack(t_i) and rises by at most pull(t_i) + slack(t_j); each floor, and with them
    s_i, falls by at most A and rises by at most B, the largest of these over t_j, rounded up. Two probabilities of one level
    then have a ratio within exp(±(A + B) / scale), and the ratios of different levels are within a factor of
    exp((A + B) / scale) of each other: epsilon = (A + B) / scale, and as the range is bounded, rho = epsilon^2 / 8 (McSherry
    and Talwar 2007; Cesar and Rogers 2021). For powers of two B is half of A. Where rows have one owner, F_j - F_i is a sum over
    entities of UNIT * (min(load, t_j) - min(load, t_i)), of which none is below zero nor above UNIT (t_j - t_i): it falls by
    that at most when one leaves, and does not rise. The look draws exactly so.

    Cost of the sums. For one part it moves by pull(t_i). For two parts, V of each falls by at most t_i when an entity leaves, so
    their difference moves by at most t_i, and each part's slack may come on top: UNIT t_i + 2 slack. The dearest level counts,
    as the level is already told. An entity may move the sums of all cells, and their noise is independent: the costs add up.

    Why one level for all cells: with a level for each, every choice would be bought with its part of the price, and be as
    coarse as the noise of a cell. Chosen once, the scores of all cells add up, and so does what tells levels apart.

    Source: choosing among Lipschitz extensions by how much is above them, Raskhodnikova and Smith, FOCS 2016, with a score of
    smaller range in place of theirs.
    """

    plan: Shares
    levels: tuple[int, ...]
    handicaps: tuple[int, ...]
    scale: float
    noises: tuple[Noise, ...]
    cells: int = 1

    def cost(self, certificate: Certificate) -> Cost:
        if is_free(self.plan, self.levels, self.noises, self.cells, certificate):
            return FREE
        drawn = Level(plan=self.plan, levels=self.levels, handicaps=self.handicaps, scale=self.scale, cells=self.cells)
        return drawn.cost(certificate) + told(self.plan, self.levels, self.noises, self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The level that `Balance` would draw, and nothing else; its cost is the first part of that one's."""

    plan: Shares
    levels: tuple[int, ...]
    handicaps: tuple[int, ...]
    scale: float
    cells: int = 1

    def cost(self, certificate: Certificate) -> Cost:
        if not are_bounded(self.plan, self.levels, self.cells, certificate):
            return FREE
        if len(self.handicaps) != len(self.levels) or not 0 < self.scale <= COARSEST:
            raise ValueError("every level has a handicap, and scores a scale")
        parts = 2 if self.plan.signed else 1
        epsilon = Fraction(score_range(self.levels, len(self.plan.owners), parts * self.cells)) / Fraction(self.scale)
        return Cost(epsilon=epsilon, rho=epsilon**2 / 8)


def score_range(levels: tuple[int, ...], owners: int, parts: int) -> int:
    """A + B of `Balance`, for so many parts of all cells together."""
    falls, rises = [0], [0]
    if owners == 1:
        return max([0, *(-(-parts * UNIT * (high - low) // high) for low, high in combinations(levels, 2))])
    for low, high in combinations(levels, 2):
        falls.append(-(-parts * (pull(high, owners) + slack(low, owners)) // high))
        rises.append(-(-parts * (pull(low, owners) + slack(high, owners)) // high))
    return max(falls) + max(rises)


def told(plan: Shares, levels: tuple[int, ...], noises: tuple[Noise, ...], cells: int) -> Cost:
    """The cost of the sums of all cells held to one of the levels, with its noise; see `Balance`."""
    parts = 2 if plan.signed else 1
    moved = [UNIT * level + parts * slack(level, len(plan.owners)) for level in levels]
    costs = [noise.cost(Sensitivity(l1=far, l2=far)) for far, noise in zip(moved, noises, strict=True)]
    epsilons = [cost.epsilon for cost in costs if cost.epsilon is not None]
    dearest = Cost(epsilon=max(epsilons) if len(epsilons) == len(costs) else None, rho=max(cost.rho for cost in costs))
    return times(dearest, cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """For each cell a noisy sum held to a level, in units of 1 / UNIT, and for each of its parts the place of the level; None
    where 0 won.
    """

    totals: tuple[int, ...]
    levels: tuple[tuple[int | None, ...], ...]


COARSEST = 2.0**40  # of the scale of scores, so that floats hold those that matter


def times(cost: Cost, number: int) -> Cost:
    """What so many releases of this cost cost."""
    return Cost(epsilon=None if cost.epsilon is None else cost.epsilon * number, rho=cost.rho * number, delta=cost.delta * number)


def is_free(plan: Shares, levels: tuple[int, ...], noises: tuple[Noise, ...], cells: int, certificate: Certificate) -> bool:
    """True for public rows. Raises ValueError where the sums held to these levels are not bounded by the proofs above.

    Noise must not be cut off at 64 bits before it is added, or the sum would show.
    """
    if not are_bounded(plan, levels, cells, certificate):
        return True
    if len(noises) != len(levels) or any(spread_of(noise) > WIDEST for noise in noises):
        raise ValueError("every level has a noise that 64 bits hold")
    return False


def are_bounded(plan: Shares, levels: tuple[int, ...], cells: int, certificate: Certificate) -> bool:
    """False for public rows. Raises ValueError where private ones are not bounded by the proofs above.

    What they need is that removing an entity deletes exactly the rows that name it in one of the plan's owner columns; further
    columns there only lower the sums.
    """
    if certificate.below.public:
        return False
    if not certificate.below.owners or not set(certificate.below.owners) <= set(plan.owners):
        raise ValueError("a column that names an entity of these rows is not among the owners")
    if not levels or min(levels) < 1 or max(levels) > LARGEST or any(a >= b for a, b in pairwise(levels)):
        raise ValueError("levels are rising positive integers")
    if cells < 1 or (cells > 1 and plan.cell is None):
        raise ValueError("several cells are told apart by a column")
    return True
