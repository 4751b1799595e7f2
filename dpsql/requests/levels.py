"""Sums over rows that belong to several entities each, held to a level."""

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
    """The sum of all weights, as the highest of several underestimates: race to the top (R2T).

    With F_j the sum held to `levels[j]` for each entity (`kernel.extensions.value`), in units, the answer is the largest of 0
    and all F_j + noise_j - `penalties[j]`, and which of them it is. Where the plan is signed, the positive and the negative
    weights run a race each, and the answer is the difference.

    Cost. An entity moves F_j by at most `pull(levels[j], owners)`, so each noisy F_j costs what its noise costs, and all of them
    together the sum (two sums for two races): the largest, after public numbers are taken off, is post-processing. So is
    leaving out levels that cannot win, as the look answers what all levels with the same noise would (`looks.race`).

    The penalties have no part in privacy: a noise stays below its own with the probability that the mechanism wants, so that
    noisy underestimates are seldom above the truth. Source: Dong, Fang, Yi, Tao and Machanavajjhala, SIGMOD 2022.
    """

    plan: Shares
    levels: tuple[int, ...]
    noises: tuple[Noise, ...]
    penalties: tuple[int, ...]

    def cost(self, certificate: Certificate) -> Cost:
        if is_free(self.plan, self.levels, self.noises, certificate):
            return FREE
        total = FREE
        for level, noise, _ in zip(self.levels, self.noises, self.penalties, strict=True):
            moved = pull(level, len(self.plan.owners))
            once = noise.cost(Sensitivity(l1=moved, l2=moved))
            total += once + once if self.plan.signed else once
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The sum of all weights held to one of several levels, the level drawn so that what is cut off balances the noise.

    With F_j as in `Race`, of positive and negative weights together, and t_j the levels, level i is judged by

        s_i = max(0, max over j > i of floor((F_j - F_i) / t_j)):

    about how many entities, in 1 / UNIT, are above it. It is drawn with probability proportional to
    exp(-(s_i + handicaps[i]) / scale), an exponential mechanism whose public handicaps make high levels rarer, as these cost much
    when they are drawn in vain. Then F of the positive weights less F of the negative ones, at that level, is told with
    fresh noise `noises[i]`.

    Cost of the level. When an entity leaves, F_j falls by at most pull(t_j) and rises by at most slack(t_j), for each part. So
    F_j - F_i falls by at most pull(t_j) + slack(t_i) and rises by at most pull(t_i) + slack(t_j); each floor, and with them
    s_i, falls by at most A and rises by at most B, the largest of these over t_j, rounded up. Two probabilities of one level
    then have a ratio within exp(±(A + B) / scale), and the ratios of different levels are within a factor of
    exp((A + B) / scale) of each other: epsilon = (A + B) / scale, and as the range is bounded, rho = epsilon^2 / 8 (McSherry
    and Talwar 2007; Cesar and Rogers 2021). For powers of two B is half of A. The look draws exactly so.

    Cost of the sum. For one part it moves by pull(t_i). For two parts, V of each falls by at most t_i when an entity leaves, so
    their difference moves by at most t_i, and each part's slack may come on top: UNIT t_i + 2 slack. The dearest level counts,
    as the level is already told.

    Source: choosing among Lipschitz extensions by how much is above them, Raskhodnikova and Smith, FOCS 2016, with a score of
    smaller range in place of theirs.
    """

    plan: Shares
    levels: tuple[int, ...]
    handicaps: tuple[int, ...]
    scale: float
    noises: tuple[Noise, ...]

    def cost(self, certificate: Certificate) -> Cost:
        if is_free(self.plan, self.levels, self.noises, certificate):
            return FREE
        if len(self.handicaps) != len(self.levels) or not 0 < self.scale <= COARSEST:
            raise ValueError("every level has a handicap, and scores a scale")
        owners, parts = len(self.plan.owners), 2 if self.plan.signed else 1
        epsilon = Fraction(score_range(self.levels, owners, parts)) / Fraction(self.scale)
        moved = [UNIT * level + parts * slack(level, owners) for level in self.levels]
        told = [noise.cost(Sensitivity(l1=far, l2=far)) for far, noise in zip(moved, self.noises, strict=True)]
        epsilons = [cost.epsilon for cost in told if cost.epsilon is not None]
        return Cost(epsilon=epsilon, rho=epsilon**2 / 8) + Cost(
            epsilon=max(epsilons) if len(epsilons) == len(told) else None, rho=max(cost.rho for cost in told))


def score_range(levels: tuple[int, ...], owners: int, parts: int) -> int:
    """A + B of `Balance`."""
    falls, rises = [0], [0]
    for low, high in combinations(levels, 2):
        falls.append(-(-parts * (pull(high, owners) + slack(low, owners)) // high))
        rises.append(-(-parts * (pull(low, owners) + slack(high, owners)) // high))
    return max(falls) + max(rises)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A noisy sum held to a level, in units of 1 / UNIT, and the place of the level for each part; None where 0 won."""

    total: int
    levels: tuple[int | None, ...]


COARSEST = 2.0**40  # of the scale of scores, so that floats hold those that matter


def is_free(plan: Shares, levels: tuple[int, ...], noises: tuple[Noise, ...], certificate: Certificate) -> bool:
    """True for public rows. Raises ValueError where the sums held to these levels are not bounded by the proofs above.

    What they need is that removing an entity deletes exactly the rows that name it in one of the plan's owner columns; further
    columns there only lower the sums. And noise must not be cut off at 64 bits before it is added, or the sum would show.
    """
    if certificate.below.public:
        return True
    if not certificate.below.owners or not set(certificate.below.owners) <= set(plan.owners):
        raise ValueError("a column that names an entity of these rows is not among the owners")
    if not levels or min(levels) < 1 or max(levels) > LARGEST or any(a >= b for a, b in pairwise(levels)):
        raise ValueError("levels are rising positive integers")
    if len(noises) != len(levels) or any(spread_of(noise) > WIDEST for noise in noises):
        raise ValueError("every level has a noise that 64 bits hold")
    return False
