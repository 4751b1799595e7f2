"""What may be asked about private rows, what each question costs, and what comes back.

A mechanism yields requests; the kernel derives the certificate of each from its plan, works out the cost with the formulas
below, and answers with a release. These classes are all the ways there are to look at private rows: a reviewer of privacy
reads this file, the operators and `kernel/`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import TypeAlias

from dpsql.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.cells import Cells
from dpsql.plan.certificate import Certificate, Sensitivity
from dpsql.plan.operators.ranks import Ranks
from dpsql.plan.operators.shares import LARGEST, UNIT, Shares, pull, slack
from dpsql.plan.operators.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace:
    """Integer noise with probability proportional to exp(-|z| / scale).

    Cost: integer vectors at l1 distance D give an epsilon of D / scale (Ghosh, Roughgarden and Sundararajan 2009; the ratio of
    probabilities is at most exp(D / scale), coordinate by coordinate).
    """

    scale: float

    def cost(self, sensitivity: Sensitivity) -> Cost:
        if sensitivity.l1 is None:
            raise ValueError("Laplace noise needs a bound of the l1 norm")
        return FREE if sensitivity.l1 == 0 else pure(Fraction(sensitivity.l1) / Fraction(self.scale))

    @property
    def variance(self) -> float:
        q = math.exp(-1 / self.scale) if self.scale > 0 else 0.0
        return 2 * q / (1 - q) ** 2 if q < 1 else 2 * self.scale**2


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian:
    """Integer noise with probability proportional to exp(-z^2 / (2 sigma^2)).

    Cost: integer vectors at l2 distance D give rho = D^2 / (2 sigma^2) of zCDP (Canonne, Kamath and Steinke 2020, Theorem 14).
    """

    sigma: float

    def cost(self, sensitivity: Sensitivity) -> Cost:
        if sensitivity.l2 == 0:
            return FREE
        return concentrated(Fraction(sensitivity.l2) ** 2 / (2 * Fraction(self.sigma) ** 2))

    @property
    def variance(self) -> float:
        return self.sigma**2  # an upper bound (Canonne, Kamath and Steinke 2020, Corollary 9), and exact to 1e-7 from sigma = 1


Noise: TypeAlias = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """The sums of a tally over the listed cells, with independent noise of `noises[i]` on every component of summand i.

    Cells that are not listed are dropped, which is post-processing, and listed cells without rows count as zero. The costs of
    the summands add up (their noise is independent); cells cost nothing more, as sensitivities are over all cells together.
    """

    plan: Tally
    cells: Cells
    noises: tuple[Noise, ...]

    def cost(self, certificate: Certificate) -> Cost:
        total = FREE
        for noise, sensitivity in zip(self.noises, certificate.summands, strict=True):
            total += noise.cost(sensitivity)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """For each summand and component the noisy integers, one for each cell."""

    totals: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A rank that is looked for among the n values of a segment: `fraction` * n + `offset` values lie below."""

    fraction: Fraction
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Grid values low <= v <= high of one cell, and the rank looked for among the values there."""

    low: int
    high: int
    target: Target


ROUNDING = Fraction(1, 2**40)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """For each segment of each cell, a grid value whose rank is near the target: the exponential mechanism.

    The score of v is -d(v), d(v) = max(0, L - (p n + t), G - ((1 - p) n - t)), with L, G the values below and above v, n those
    in the segment, p and t of the target. A value is drawn with probability proportional to exp(-d(v) * b / scale), b the
    denominator of p (so that scores are integers). With `flip`, permute-and-flip draws among the same scores.

    Cost. One value more or less moves L - p n by 1 - p or -p and G - (1 - p) n by p - 1 or p, so d by max(p, 1 - p) at most;
    an entity that moves j values of a segment moves each score by j max(p, 1 - p). Segments are disjoint, so an entity's k
    moved rows are shared out among segments, and the losses add up to the loss of k rows in one: epsilon = 2 k b max(p, 1 - p)
    / scale (McSherry and Talwar 2007; permute-and-flip: McKenna and Sheldon 2020). The exponential mechanism has bounded
    range, so it is (epsilon^2 / 8)-zCDP (Cesar and Rogers 2021). Drawing by intervals weighs each value by exp(ln(width)),
    rounded: each weight is off by a factor within exp(±2^-43), which adds less than `ROUNDING` to the loss of each draw that an
    entity moves, and it moves k draws at most.
    """

    plan: Ranks
    cells: Cells
    segments: tuple[tuple[Segment, ...], ...]
    scale: float
    flip: bool = False

    def cost(self, certificate: Certificate) -> Cost:
        rows = certificate.below.rows
        assert rows is not None
        for segments in self.segments:
            ordered = sorted(segments, key=lambda segment: segment.low)
            if any(a.high >= b.low for a, b in pairwise(ordered)) or any(s.low > s.high for s in ordered):
                raise ValueError("segments of a cell overlap")
        if rows == 0:
            return FREE
        worst = max(reach(segment.target) for segments in self.segments for segment in segments)
        epsilon = Fraction(2 * rows * worst) / Fraction(self.scale) + (0 if self.flip else rows * ROUNDING)
        return pure(epsilon) if self.flip else Cost(epsilon=epsilon, rho=epsilon**2 / 8)


def reach(target: Target) -> int:
    """How far one row moves the integer score of a target: b * max(p, 1 - p) for p = a / b."""
    return max(target.fraction.numerator, target.fraction.denominator - target.fraction.numerator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """For each cell the chosen grid value of each segment."""

    values: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Smooth:
    """For each cell a quantile of the ranks plus Laplace noise scaled to its smooth sensitivity, and a noisy size of that noise.

    With S the beta-smooth upper bound on the local sensitivity of the quantile (Nissim, Raskhodnikova and Smith 2007), for
    neighbours that differ in one entity of at most k rows, integer noise Z with probability proportional to exp(-|z| / t),
    t = 2 S / epsilon, is added to the integer value.

    Proof that this is epsilon-DP up to a failure of probability delta, for beta <= ln(1 + epsilon / (2 ln(2 / delta) +
    epsilon)). Let the neighbours have values at distance m <= S and scales t, t'. *Sliding* Z by m changes its log-probability
    by m / t <= epsilon / 2. *Dilating* from t to t': if t' >= t the exponent falls and the normaliser tanh(1 / (2t)) grows by a
    factor of at most t' / t <= e^beta (tanh(x) / x falls), and beta <= epsilon / 2. If t' < t the normaliser falls and the
    exponent grows by |z| (1 / t' - 1 / t) <= (|z| / t)(e^beta - 1) with |z| <= |Z| + S; outside an event of probability
    P(|Z| > t ln(2 / delta)) <= delta that is at most (ln(2 / delta) + epsilon / 2)(e^beta - 1) <= epsilon / 2.

    The size of the noise is told as floor(ln S / beta) plus discrete Laplace noise of scale 1 / epsilon_size: ln S moves by at
    most beta between neighbours, its floor in units of beta by at most 1, so that costs epsilon_size.

    With several cells an entity may have at most one row, as it then is in one cell only.
    """

    plan: Ranks
    cells: Cells
    target: Target
    epsilon: Fraction
    delta: Fraction
    epsilon_size: Fraction

    def cost(self, certificate: Certificate) -> Cost:
        rows = certificate.below.rows
        assert rows is not None
        if rows > 1 and len(self.cells) > 1:
            raise ValueError("smooth sensitivity over several cells needs one row for each entity")
        return FREE if rows == 0 else pure(self.epsilon + self.epsilon_size, self.delta)

    @property
    def beta(self) -> float:
        """The smoothness, less a margin for the rounding of S."""
        epsilon = float(self.epsilon)
        return math.log1p(epsilon / (2 * math.log(2 / float(self.delta)) + epsilon)) - 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothed:
    """For each cell the noisy grid value and the noisy number floor(ln S / beta)."""

    values: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The first rung of a ladder that few entities exceed: the sparse vector technique with one answer.

    The plan counts entities by an integer key 0 .. `rungs`; q_j counts those with a key above j. Asked are q_0, q_1, ... in
    order, until q_j + noise <= `limit` + j * `rise` + noise'; the answer is that j, or `rungs`. The limit rises, so that a noise'
    far below zero, which all rungs share, does not send the answer to the top.

    Cost. One entity adds 0 or 1 to every q_j, all in one direction. For the larger of two neighbours shift noise' by one (a
    factor exp(1 / scale_limit)) and the noise of the answer that stops by at most one (exp(1 / scale_query)); for the smaller
    one only the latter moves. So epsilon = 1 / scale_limit + 1 / scale_query (Dwork et al. 2009; Lyu, Su and Li 2017 for
    queries that move together). Answers before the stop are a prefix of the output and cost nothing more.
    """

    plan: Tally
    rungs: int
    limit: int
    rise: int = 0
    scale_limit: float
    scale_query: float

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.rows == 0:
            return FREE
        if certificate.below.rows != 1 or certificate.summands[0].l1 != 1 or len(self.plan.keys) != 1:
            raise ValueError("a ladder counts each entity once")
        return pure(1 / Fraction(self.scale_limit) + 1 / Fraction(self.scale_query))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """The rung at which the ladder stopped."""

    rung: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedGeometric:
    """Keep a key that n entities have with the largest probability that (epsilon, delta)-DP for one key allows.

    Source: Desfontaines, Voss, Gipson and Mandayam, Differentially Private Partition Selection, PoPETs 2022, Theorem 1.
    """

    epsilon: Fraction
    delta: Fraction

    def cost(self, keys: int) -> Cost:
        return pure(self.epsilon * keys, self.delta * keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianThreshold:
    """Keep a key where its number of entities plus discrete Gaussian noise reaches `threshold`.

    Cost for an entity with c keys: rho = c / (2 sigma^2) for keys that others have too. A key that only this entity has shows
    with probability P(1 + Z >= threshold) at most, which is P(N(0, sigma^2) >= threshold - 2) at most (Canonne, Kamath and
    Steinke 2020, Proposition 25); over c keys that is delta <= c times that.
    """

    sigma: float
    threshold: int

    def cost(self, keys: int) -> Cost:
        tail = max(0.5 * math.erfc((self.threshold - 2) / (self.sigma * math.sqrt(2))), LEAST_TAIL)
        return concentrated(Fraction(keys) / (2 * Fraction(self.sigma) ** 2), Fraction(keys) * Fraction(tail * (1 + 1e-9)))


LEAST_TAIL = 1e-300  # erfc of more is 0 in floats, and the tail is not

KeyRule: TypeAlias = TruncatedGeometric | GaussianThreshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of a GROUP BY that enough entities have. The plan counts, for each key, the entities that have it.

    Cost: an entity adds one to the count of at most c keys, c the certificate's stability, as its rows have different keys;
    see the rules.
    """

    plan: Tally
    rule: KeyRule

    def cost(self, certificate: Certificate) -> Cost:
        rows = certificate.below.rows
        if rows == 0:
            return FREE
        if rows is None or not certificate.apart or certificate.summands[0].l1 != rows:
            raise ValueError("keys are counted once for each entity")
        return self.rule.cost(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The keys that may be shown, in canonical order."""

    keys: Cells


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
        if _is_free(self.plan, self.levels, self.noises, certificate):
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
        if _is_free(self.plan, self.levels, self.noises, certificate):
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


WIDEST = 2.0**55  # of noise that is drawn by itself: with such a scale, 64 bits do not hold it with a chance below 1e-100
COARSEST = 2.0**40  # of the scale of scores, so that floats hold those that matter


def _is_free(plan: Shares, levels: tuple[int, ...], noises: tuple[Noise, ...], certificate: Certificate) -> bool:
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


def spread_of(noise: Noise) -> float:
    """The scale of a noise or its standard deviation."""
    match noise:
        case DiscreteLaplace(scale=scale):
            return scale
        case DiscreteGaussian(sigma=sigma):
            return sigma


Request: TypeAlias = Measure | Select | Smooth | Threshold | Keys | Race | Balance
Release: TypeAlias = Measured | Selected | Smoothed | Rung | Found | Held
