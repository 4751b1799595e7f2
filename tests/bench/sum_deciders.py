"""Ways to decide about a SUM of values from 0 to a bound, as chances of "yes": the paper's, the engine's, and ideas beside.

flip_distance            how many rows must come or go, exactly, from the values
flip, by the bound       the same as if every row that goes had the greatest value
additive (LM_sum)        noise for the bound
r2t, r2t recentred       the paper's, and without the penalty of the level that wins
svt, all levels          the paper's, without its private bound
bands                    rows in bands of a factor of two, which are disjoint: noise for each band's end; of those that stand out
bands + synthetic        the same, with the synthetic table's band where the private one is not clearly another
clip 99 %, 99.9 %        noise for a quantile of the synthetic values, and the synthetic table's rest above it
flip, clip 99.9 %        the flip distance of the sum clipped there, with the synthetic rest
flip, clip at most       the same at the largest synthetic value

Those that look at synthetic values are private, but wrong however small the noise is where the private tail is another one: no
decider that is never wrong in the limit, and no more often than flip_distance at the border, is better than that on any table
(`flip_distance.NoisyFlipDistance`). So they are not in the engine.
"""

from __future__ import annotations

import math

import numpy as np

from dpsql.trusted.measurements.flip_distance import fewest

LEVELS, DRAWS = 19, 300
Values = np.ndarray


def between(answer: float, low: float, high: float, scale: float) -> float:
    """The chance that an answer with continuous Laplace noise lies between."""
    def upto(x: float) -> float:
        return 0.5 * math.exp(x / scale) if x < 0 else 1 - 0.5 * math.exp(-x / scale)

    return upto(high - answer) - upto(low - answer)


def yes(slack: int, epsilon: float) -> float:
    """The chance that a slack with discrete Laplace noise is 1 or more."""
    q = math.exp(-epsilon)
    return 1 - q**slack / (1 + q) if slack >= 1 else q ** (1 - slack) / (1 + q)


def slack(values: Values, low: float, high: float, bound: float, *, exact: bool) -> int:
    """The flip distance of a sum: 1 or more where it lies between, else 0 or less."""
    total = float(values.sum())
    leave = [float(v) for v in np.sort(values)[::-1][:4096]] if exact else []

    def falls(need: float) -> int:
        plain = math.ceil(need / bound)
        return max(plain, min(4096, fewest(math.ceil(need), 0, map(int, leave)))) if exact else plain

    if total <= low:
        return 1 - (math.floor((low - total) / bound) + 1)
    if total >= high:
        return 1 - max(1, falls(total - high + 1))
    return max(1, min(falls(total - low), math.ceil((high - total) / bound)))


def chances(values: Values, synthetic: Values, low: float, high: float, bound: float, epsilon: float, seed: int) -> dict[str, float]:
    """For each decider the chance that it says "within"."""
    total = float(values.sum())
    found = {"flip_distance": yes(slack(values, low, high, bound, exact=True), epsilon),
             "flip, by the bound": yes(slack(values, low, high, bound, exact=False), epsilon),
             "additive (LM_sum)": between(total, low, high, bound / epsilon)}
    ends = [bound / 2**j for j in range(LEVELS - 1, -1, -1)]
    upto = np.searchsorted(np.sort(values), ends, "right")
    sums = np.append(0.0, np.cumsum(np.sort(values)))[upto]
    found |= _r2t(sums, ends, low, high, epsilon, seed)
    found["svt_all_levels (SVT_sum)"] = _svt(sums, ends, low, high, epsilon)
    found |= _bands(values, synthetic, ends, low, high, epsilon, seed)
    for name, at in (("99 %", 0.99), ("99.9 %", 0.999)):
        clip = max(1.0, float(np.quantile(synthetic, at)))
        rest = float(np.maximum(synthetic - clip, 0).sum())
        held = np.minimum(values, clip)
        found[f"clip {name}"] = between(float(held.sum()) + rest, low, high, clip / epsilon)
        if at == 0.999:
            found[f"flip, clip {name}"] = yes(slack(held, low - rest, high - rest, clip, exact=True), epsilon)
    most = max(1.0, float(synthetic.max()))
    found["flip, clip at most"] = yes(slack(np.minimum(values, most), low, high, most, exact=True), epsilon)
    return found


def _r2t(sums: Values, ends: list[float], low: float, high: float, epsilon: float, seed: int) -> dict[str, float]:
    draw = np.random.default_rng(seed)
    scales = np.array([LEVELS * end / epsilon for end in ends])
    noisy = sums + draw.laplace(size=(DRAWS, LEVELS)) * scales
    lowered = noisy - scales * math.log(LEVELS / 0.05)
    best = np.argmax(lowered, axis=1)
    told = {"r2t (R2T_sum)": np.maximum(0, lowered.max(axis=1)), "r2t recentred": noisy[np.arange(DRAWS), best]}
    return {name: float(((told_ > low) & (told_ < high)).mean()) for name, told_ in told.items()}


def _svt(sums: Values, ends: list[float], low: float, high: float, epsilon: float) -> float:
    """No noisy sum passes the upper end, and one passes the lower: an integral over the noise of the limit."""
    scale = 2 / epsilon
    rho = np.linspace(-30 * scale, 30 * scale, 1501)
    mass = np.exp(-np.abs(rho) / scale)
    mass /= mass.sum()
    stays = []
    for end in (high, low):
        x = (end - sums[:, None]) / np.array(ends)[:, None] + rho
        below = np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0) / scale), 1 - 0.5 * np.exp(-np.maximum(x, 0) / scale))
        stays.append(below.prod(axis=0))
    return float((mass * stays[0] * (1 - stays[1])).sum())


def _bands(values: Values, synthetic: Values, ends: list[float], low: float, high: float, epsilon: float, seed: int) -> dict[str, float]:
    draw = np.random.default_rng(seed)
    edges = np.array(ends)
    mine, theirs = (np.bincount(np.searchsorted(edges, given), weights=given, minlength=LEVELS)[:LEVELS] for given in (values, synthetic))
    noisy = mine + draw.laplace(size=(DRAWS, LEVELS)) * edges / epsilon
    alone = np.where(noisy > edges * math.log(2 * LEVELS / 0.05) / epsilon, noisy, 0).sum(axis=1)
    beside = np.where(np.abs(noisy - theirs) > 2 * edges / epsilon, noisy, theirs).sum(axis=1)
    return {name: float(((told > low) & (told < high)).mean()) for name, told in (("bands", alone), ("bands + synthetic", beside))}
