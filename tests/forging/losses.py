"""How much of its privacy a draw loses between two databases, from the numbers that it is about on either and its scales.

Each law is that of a distribution, written here from its probabilities (or, where these have no simple form, from the proof of
`dpsql.trusted.noise`, with the distance that the numbers have really moved). None uses what a measurement says that it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from forging.watched import Step

from dpsql.frozen import Frozen

NEVER = -60.0  # log-probability of what is never drawn: half of it is what proofs leave out


class Loss(Frozen, kw_only=False):
    """A loss in epsilon, in rho, and the chance that it is larger. Losses of draws, one after the other, add up."""

    epsilon: float = 0.0
    rho: float = 0.0
    delta: float = 0.0

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.epsilon + other.epsilon, self.rho + other.rho, self.delta + other.delta)


ALL = Loss(math.inf, math.inf, 1.0)


def pure(epsilon: float) -> Loss:
    return Loss(epsilon, epsilon * epsilon / 2)


def _sized(a: Step, b: Step) -> list[float]:
    return [float(x) - float(y) if abs(x) < 2**53 and abs(y) < 2**53 else float(x - y) for x, y in zip(a.numbers, b.numbers, strict=True)]


def laplace(a: Step, b: Step) -> Loss:
    """Independent noise of one scale on each number."""
    scale, change = float(a.scales[0]), _sized(a, b)
    if not any(change):
        return Loss()
    if not 0 < scale < math.inf:
        return ALL
    parts = [abs(part) / scale for part in change]
    return Loss(sum(parts), sum(part * part for part in parts) / 2)


def gaussian(a: Step, b: Step) -> Loss:
    sigma, change = float(a.scales[0]), _sized(a, b)
    if not any(change):
        return Loss()
    if not 0 < abs(sigma) < math.inf:
        return ALL
    return Loss(math.inf, sum(part / sigma * (part / sigma) for part in change) / 2)


def _log_chances(scores: Sequence[float], scale: float) -> np.ndarray[Any, Any]:
    found = np.array([float(score) for score in scores])
    with np.errstate(over="ignore"):
        logs = (found - found.max()) / float(scale)
    return np.asarray(logs - math.log(np.exp(logs).sum()))


def exponential(a: Step, b: Step) -> Loss:
    """An index, with the ratio of its chances; what is never drawn on either database is left out."""
    if a.numbers == b.numbers:
        return Loss()
    if not 0 < float(a.scales[0]) < math.inf:
        return ALL
    mine, yours = _log_chances(a.numbers, a.scales[0]), _log_chances(b.numbers, b.scales[0])
    return ratio(mine, yours)


def ratio(mine: np.ndarray[Any, Any], yours: np.ndarray[Any, Any]) -> Loss:
    seen = (mine > NEVER / 2) | (yours > NEVER / 2)
    with np.errstate(invalid="ignore"):
        change = (mine - yours)[seen]
    if not np.isfinite(change).all():
        return ALL
    wide = float(change.max(initial=0)) - float(change.min(initial=0))
    return Loss(float(np.abs(change).max(initial=0)), wide * wide / 8)


def flip(a: Step, b: Step) -> Loss:
    """The highest score with one-sided noise: the scores move within a range."""
    change = _sized(a, b)
    if not any(change):
        return Loss()
    return pure((max(change) - min(change)) / float(a.scales[0])) if 0 < float(a.scales[0]) < math.inf and len(a.scales) == 1 else ALL


def sparse(a: Step, b: Step) -> Loss:
    """The first small number: of the noise that all share the most that one falls or rises, of a yes both."""
    change = _sized(a, b)
    fall, rise = max([0.0, *(-part for part in change)]), max([0.0, *change])
    if not (fall or rise):
        return Loss()
    limit, query = map(float, a.scales)
    return pure(max(fall, rise) / limit + (fall + rise) / query) if min(limit, query) > 0 else ALL


def sparse_kinds(a: Step, b: Step) -> Loss:
    """The same where each kind has a noise of its own, and several answers are yes."""
    falls, rises = dict[int, float](), dict[int, float]()
    for mine, yours in zip(a.numbers, b.numbers, strict=True):
        if mine.keys() != yours.keys():
            return ALL
        for kind, gap in mine.items():
            falls[kind] = max(falls.get(kind, 0.0), yours[kind] - gap)
            rises[kind] = max(rises.get(kind, 0.0), gap - yours[kind])
    if not any([*falls.values(), *rises.values()]):
        return Loss()
    _, limit, query, most = a.scales
    if not (float(limit) > 0 and float(query) > 0):
        return ALL
    shared = max(sum(falls.values()), sum(rises.values()))
    return pure(shared / float(limit) + min(most, len(a.numbers)) * max(falls[kind] + rises[kind] for kind in falls) / float(query))


def split(a: Step, b: Step) -> Loss:
    """Whether boxes of one depth are split: all of them, or none."""
    depth, decay, scale = a.scales
    total = 0.0
    for mine, yours in zip(a.numbers, b.numbers, strict=True):
        if mine != yours:
            total += _log_split(max(-decay, mine - depth * decay), scale) - _log_split(max(-decay, yours - depth * decay), scale)
    return Loss(abs(total))  # of the rho of a tree, the proof alone tells


def unsplit(a: Step, b: Step) -> Loss:
    depth, decay, scale = a.scales
    total = 0.0
    for mine, yours in zip(a.numbers, b.numbers, strict=True):
        if mine != yours:
            total += (_log_split(1 - max(-decay, mine - depth * decay), scale) - _log_split(1 - max(-decay, yours - depth * decay), scale))
    return Loss(abs(total))


def _log_split(biased: int, scale: float) -> float:
    """log P(b + noise > 0) for noise with P(z) proportional to exp(-|z| / scale)."""
    q = math.exp(-1 / scale)
    return (1 - biased) * -1 / scale - math.log1p(q) if biased <= 0 else math.log1p(-(q**biased) / (1 + q))


def above(a: Step, b: Step) -> Loss:
    """Counts with noise that is cut off, shown where they exceed its reach: steps of one, and the chance of what only one side can
    show. Counts are aligned by key before."""
    scale, reach = float(a.scales[0]), int(a.scales[1])
    q = math.exp(-1 / scale)
    total = 1 + 2 * sum(q**k for k in range(1, min(reach, 4000) + 1)) if reach < 4000 else (1 + q - 2 * q ** (reach + 1)) / (1 - q)
    loss, chance = 0.0, 0.0
    for mine, yours in zip(a.numbers, b.numbers, strict=True):
        steps = abs(mine - yours)
        loss += steps / scale
        chance += sum(q ** max(reach - i, 0) for i in range(min(steps, reach + 1))) / total
    return Loss(loss, loss * loss / 2, min(chance, 1.0))


def shown_above(a: Step, b: Step, threshold: int) -> Loss:
    """Counts with Gaussian noise, shown from a threshold on: rho for keys of both, and for a key of one the chance that it is."""
    sigma, rho, chance = abs(float(a.scales[0])), 0.0, 0.0
    for mine, yours in zip(a.numbers, b.numbers, strict=True):
        if mine and yours:
            rho += (mine - yours) / sigma * ((mine - yours) / sigma) / 2
        elif mine or yours:
            chance += _gaussian_tail(threshold - max(mine, yours), sigma)
    return Loss(math.inf if rho else 0.0, rho, chance)


def _gaussian_tail(least: int, sigma: float) -> float:
    """P(Z >= least) of discrete Gaussian noise."""
    if sigma < 1e-3:
        return float(least <= 0)
    reach = math.ceil(40 * sigma) + abs(least)
    if reach > 10**6:
        return 0.5 * math.erfc(least / (sigma * math.sqrt(2)))
    numbers = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-(numbers**2) / (2 * sigma**2))
    return float(weights[numbers >= least].sum() / weights.sum())


def dilated(a: Step, b: Step, epsilon: float) -> float:
    """For Laplace noise whose scale differs too, the chance beyond `epsilon`: the hockey-stick divergence, exactly over whole
    numbers where scales are small and by integrals of exponentials otherwise."""
    (x,), (y,), s, t = a.numbers, b.numbers, float(a.scales[0]), float(b.scales[0])
    if (x, s) == (y, t):
        return 0.0
    return max(_beyond(float(x), s, float(y), t, epsilon), _beyond(float(y), t, float(x), s, epsilon))


def _beyond(x: float, s: float, y: float, t: float, epsilon: float) -> float:
    if max(s, t) * 50 + abs(x - y) < 50_000:
        low, high = math.floor(min(x, y) - 50 * max(s, t)) - 2, math.ceil(max(x, y) + 50 * max(s, t)) + 2
        z = np.arange(low, high + 1, dtype=np.float64)
        p = np.exp(-np.abs(z - x) / s) * math.tanh(1 / (2 * s))
        q = np.exp(-np.abs(z - y) / t) * math.tanh(1 / (2 * t))
        return float(np.maximum(p - math.exp(min(epsilon, 700)) * q, 0).sum())
    ends = sorted({min(x, y), max(x, y)})
    pieces = [(-math.inf, ends[0]), *zip(ends, ends[1:], strict=False), (ends[-1], math.inf)]
    total = 0.0
    for low, high in pieces:  # between the ends the loss is a straight line, which crosses epsilon once at most
        middle = low + 1 if high == math.inf else high - 1 if low == -math.inf else (low + high) / 2
        def loss(z: float) -> float:
            return math.log(t / s) - abs(z - x) / s + abs(z - y) / t - epsilon
        slope = -math.copysign(1, middle - x) / s + math.copysign(1, middle - y) / t
        cut = middle - loss(middle) / slope if slope else math.inf
        for a, b in ((low, min(max(cut, low), high)), (min(max(cut, low), high), high)):
            inside = a + 1 if b == math.inf else b - 1 if a == -math.inf else (a + b) / 2
            if a < b and loss(inside) > 0:
                total += _mass(a, b, x, s) - math.exp(min(epsilon, 700)) * _mass(a, b, y, t)
    return max(0.0, total)


def _mass(a: float, b: float, centre: float, scale: float) -> float:
    """Of a continuous Laplace distribution."""
    def upto(z: float) -> float:
        if math.isinf(z):
            return 0.0 if z < 0 else 1.0
        u = (z - centre) / scale
        return 0.5 * math.exp(u) if u < 0 else 1 - 0.5 * math.exp(-u)
    return upto(b) - upto(a)


def student(a: Step, b: Step) -> Loss:
    """Student's t noise whose scale may differ too: the largest ratio of probabilities, from a grid and the tails."""
    (x,), (y,), s, t = a.numbers, b.numbers, float(a.scales[0]), float(b.scales[0])
    if (x, s) == (y, t):
        return Loss()
    if not (0 < s < math.inf and 0 < t < math.inf):
        return ALL
    grid = np.concatenate([np.array([-1e9, *np.linspace(-30, 30, 6001), 1e9]) * scale + centre for centre, scale in ((float(x), s), (float(y), t))])
    change = (-2 * np.log1p(((grid - x) / s) ** 2) - _log_normal(s)) - (-2 * np.log1p(((grid - y) / t) ** 2) - _log_normal(t))
    return pure(float(np.abs(change).max()))


def _log_normal(s: float) -> float:
    """log of the sum of 1 / (1 + (z / s)^2)^2 over whole numbers: pi s / 2 coth(pi s) + (pi s)^2 / 2 csch(pi s)^2."""
    u = math.pi * s
    if u < 1e-3:
        return 0.0
    wide = u > 300
    return math.log(u / 2 / math.tanh(u) + (0.0 if wide else (u / math.sinh(u)) ** 2 / 2))


def nothing(a: Step, b: Step) -> Loss:
    """Noise by itself, or a public draw."""
    return Loss()


LAWS: Mapping[str, Callable[[Step, Step], Loss]] = {
    "laplace": laplace, "gaussian": gaussian, "hidden laplace": laplace, "hidden gaussian": gaussian, "exponential": exponential, "flip": flip,
    "sparse": sparse, "sparse kinds": sparse_kinds, "tree": split, "above": above, "student": student, "alone laplace": nothing,
    "alone gaussian": nothing, "below": nothing, "one-sided": nothing}
