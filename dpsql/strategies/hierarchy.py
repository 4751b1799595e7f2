"""Hierarchies of blocks over one attribute: sums at several widths, with weights that are best in closed form.

With weights lam_l of the levels the normal matrix has the eigenvalues mu_l = sum over k >= l of lam_k^2 w_k (see `nested`), so
the total error is 2 (sum lam)^2 sum_l c_l / mu_l for Laplace noise at epsilon = 1, and (sum lam^2) sum_l c_l / mu_l for Gaussian
noise at squared cost 1, with c_l = tr G (P_l - P_(l-1)): of a few numbers only. Uniform weights give the usual hierarchy H_b;
widths are chosen too, and levels that do not help are left out.

Sources: Hay, Rastogi, Miklau and Suciu, PVLDB 2010 (H_2); Qardaji, Yang and Li, PVLDB 2013 (the best b). The closed form of the
weights is this project's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import scipy

from dpsql.frozen import Frozen
from dpsql.strategies.nested import Nested, energy
from dpsql.strategies.optimality_gap import Noise
from dpsql.strategies.product_bound import valued
from dpsql.strategies.strategy import Block, Refusal, Strategy
from dpsql.workload.domain import DENSE
from dpsql.workload.factors import AllRange, Array, Identity, Intervals, Ranges, Total
from dpsql.workload.workload import Workload

BRANCHES = (2, 4, 8, 16, 32, 64)
LONGEST = 2**22  # largest number of values
BOUNDED = 1024  # values up to which a lower bound is computed
WIDE = 40.0  # largest logarithm of a weight whose square does not overflow
LEAST_WEIGHT = 1e-3  # of all weights: a level below is left out


class Levels(Frozen):
    """Widths of blocks, from the widest, and the weight of each level."""

    widths: tuple[int, ...]
    weights: tuple[float, ...]
    error: float


def plan(workload: Workload, targets: Array | None = None, *, noise: Noise = "laplace") -> Strategy | Refusal:
    """The best weighted hierarchy over the widths tried."""
    refusal = fits(workload, targets)
    if refusal is not None:
        return refusal
    of = Energies(workload)
    found = min((weighted(of, widths, noise) for widths in chains(workload.domain.size)), key=lambda levels: levels.error)
    return _strategy(workload, found, "weighted-hierarchy", noise)


def plan_uniform(workload: Workload, targets: Array | None = None, *, noise: Noise = "laplace") -> Strategy | Refusal:
    """H_b: equal weights for all levels of a tree with branching b, for the b with the least error."""
    refusal = fits(workload, targets)
    if refusal is not None:
        return refusal
    of, found = Energies(workload), []
    for b in BRANCHES:
        widths = powers(workload.domain.size, b)
        error = _error(np.ones(len(widths)), widths, of.parts(widths), noise)
        found.append(Levels(widths=widths, weights=(1.0,) * len(widths), error=error))
    return _strategy(workload, min(found, key=lambda levels: levels.error), "hierarchy", noise)


def fits(workload: Workload, targets: Array | None) -> Refusal | None:
    """Why blocks of values do not help here; None if they may help."""
    if targets is not None:
        return Refusal("it minimises the total variance")
    if len(workload.domain.attributes) != 1:
        return Refusal("it is for one attribute")
    if not 4 <= workload.domain.size <= LONGEST:
        return Refusal(f"it is for 4 to {LONGEST} values")
    simple = all(isinstance(part.factors[0], Identity | Intervals | Total) for part in workload.parts)
    if workload.domain.size > DENSE and not simple:
        return Refusal(f"queries other than ranges are supported for up to {DENSE} values")
    if any(isinstance(part.factors[0], AllRange) for part in workload.parts) and workload.domain.size > DENSE:
        return Refusal(f"all ranges are answered one by one for up to {DENSE} values")
    return None


def powers(n: int, b: int) -> tuple[int, ...]:
    """The powers of b, from the first that is at least n down to 1."""
    found = [1]
    while found[-1] < n:
        found.append(found[-1] * b)
    return tuple(found[::-1])


def chains(n: int) -> list[tuple[int, ...]]:
    """Nested widths, each dividing the one before: powers of every branching, and one to three powers of 2. (The weights of
    useless levels become small, so a chain includes its sub-chains.)"""
    found = {powers(n, b) for b in BRANCHES}
    twos = powers(n, 2)[:-1]
    found |= {(*chosen, 1) for count in ((1, 2) if n <= DENSE else (2, 3)) for chosen in combinations(twos, count)}
    return sorted(found)


class Energies:
    """tr G P_w of a workload for any width w, each computed once."""

    def __init__(self, workload: Workload) -> None:
        self._factors = [part.factors[0] for part in workload.parts]
        self._known: dict[int, float] = {}

    def of(self, width: int) -> float:
        if width not in self._known:
            self._known[width] = sum(energy(factor, width) for factor in self._factors)
        return self._known[width]

    def parts(self, widths: Sequence[int]) -> Array:
        """c_l for every level."""
        return np.asarray(np.maximum(np.diff([0.0, *(self.of(width) for width in widths)]), 0))


def eigenvalues(weights: Array, widths: Sequence[int]) -> Array:
    """mu_l for every level, from the widest."""
    return np.asarray(np.cumsum((weights**2 * np.asarray(widths, dtype=float))[::-1])[::-1])


def _error(weights: Array, widths: Sequence[int], parts: Array, noise: Noise) -> float:
    cost = 2 * weights.sum() ** 2 if noise == "laplace" else (weights**2).sum()
    return float(cost * (parts / eigenvalues(weights, widths)).sum())


def loss(logs: Array, widths: Sequence[int], parts: Array, noise: Noise) -> tuple[float, Array]:
    """The logarithm of the error as a function of the logarithms of the weights, and its gradient."""
    weights = np.exp(logs)
    squares, mu = weights**2, eigenvalues(weights, widths)
    shares = parts / mu
    of_cost = 2 * weights / weights.sum() if noise == "laplace" else 2 * squares / squares.sum()
    of_parts = 2 * squares * widths * np.cumsum(shares / mu) / shares.sum()
    return math.log(_error(weights, widths, parts, noise)), of_cost - of_parts


def weighted(of: Energies, widths: Sequence[int], noise: Noise) -> Levels:
    """The best weights for some widths, without levels of negligible weight."""
    parts = of.parts(widths)

    def lost(logs: Array) -> tuple[float, Array]:
        return loss(logs, widths, parts, noise)

    found = scipy.optimize.minimize(lost, np.zeros(len(widths)), jac=True, method="L-BFGS-B",
                                    bounds=scipy.optimize.Bounds(-WIDE, WIDE))
    weights = np.exp(found.x) / np.exp(found.x).sum()
    kept = [i for i in range(len(widths)) if weights[i] >= LEAST_WEIGHT or widths[i] == 1]
    if len(kept) < len(widths):
        return weighted(of, [widths[i] for i in kept], noise)
    return Levels(widths=tuple(widths), weights=tuple(float(weight) for weight in weights),
                  error=_error(weights, widths, parts, noise))


def _strategy(workload: Workload, levels: Levels, name: str, noise: Noise) -> Strategy:
    n, blocks = workload.domain.size, []
    for width, weight in zip(levels.widths, levels.weights, strict=True):
        lows = np.arange(0, n, width)
        factor = Identity(n) if width == 1 else Total(n) if width >= n else Ranges(n, tuple(lows.tolist()), tuple(
            np.minimum(lows + width - 1, n - 1).tolist()))
        blocks.append(Block(axes=(0,), factors=(factor,), scale=1 / weight))
    mu = eigenvalues(np.array(levels.weights), levels.widths)
    return valued(Nested(name=name, domain=workload.domain, noise=noise, widths=levels.widths, mu=tuple(mu.tolist()),
                         measured=tuple(blocks), signed=False), workload, bounded=n <= BOUNDED)
