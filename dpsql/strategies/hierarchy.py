"""Hierarchies of blocks over one attribute: sums at several widths, with weights that are best in closed form.

Blocks of nested widths n = w_0 > ... > w_L = 1 that divide each other have commuting projectors P_l (the mean of each block), so
with weights lam_l the inverse of A'A is sum of (P_l - P_(l-1)) / mu_l, mu_l = sum over k >= l of lam_k^2 w_k. The total error is
2 (sum lam)^2 sum c_l / mu_l for Laplace noise, c_l = tr G (P_l - P_(l-1)), of a few numbers only. Uniform weights give the usual
hierarchy H_b; widths are chosen too, and levels that do not help are left out.

Sources: Hay, Rastogi, Miklau and Suciu, PVLDB 2010 (H_2); Qardaji, Yang and Li, PVLDB 2013 (the best b); Xiao, Wang and Gehrke,
ICDE 2010 (Haar wavelets measure the same up to weights). The closed form of the weights is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.optimize import minimize

from dpsql.strategies.base import Block, Refusal, Strategy
from dpsql.strategies.certificate import Certificate
from dpsql.strategies.least_squares import LeastSquares
from dpsql.strategies.p_identity import spectral_bound
from dpsql.workload.domain import DENSE
from dpsql.workload.factors import Array, Identity, Ranges, Total
from dpsql.workload.workload import Workload

BRANCHES = (2, 4, 8, 16, 32)
LEAST_WEIGHT = 1e-3  # of all weights: a level below is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Widths of blocks, from the widest, and the weight of each level."""

    widths: tuple[int, ...]
    weights: tuple[float, ...]
    error: float


def plan(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """The best weighted hierarchy over the branchings tried."""
    refusal = _fits(workload, targets)
    if refusal is not None:
        return refusal
    gram = workload.gram()
    found = min((weighted(gram, widths) for widths in chains(workload.domain.size)), key=lambda levels: levels.error)
    return _strategy(workload, found, "weighted-hierarchy")


def plan_uniform(workload: Workload, targets: Array | None = None) -> Strategy | Refusal:
    """H_b: all levels of one branching alike, with the b of the least error."""
    refusal = _fits(workload, targets)
    if refusal is not None:
        return refusal
    gram, n = workload.gram(), workload.domain.size
    found = []
    for b in BRANCHES:
        widths = tuple(b**k for k in range(_height(n, b), -1, -1))
        parts = projected(gram, widths)
        found.append(Levels(widths=widths, weights=(1.0,) * len(widths), error=_error(np.ones(len(widths)), widths, parts)))
    return _strategy(workload, min(found, key=lambda levels: levels.error), "hierarchy")


def _fits(workload: Workload, targets: Array | None) -> Refusal | None:
    if targets is not None:
        return Refusal("it minimises the total variance")
    if len(workload.domain.attributes) != 1:
        return Refusal("it is for one attribute")
    if not 4 <= workload.domain.size <= DENSE:
        return Refusal(f"its weights are worked out for 4 to {DENSE} values")
    return None


def _height(n: int, b: int) -> int:
    height = 0
    while b**height < n:
        height += 1
    return height


def chains(n: int) -> list[tuple[int, ...]]:
    """Nested widths, each dividing the one before: powers of every branching, and one or two powers of 2 (the weights of
    levels that do not help become small, so a chain stands for its parts too)."""
    found = {tuple(b**k for k in range(_height(n, b), -1, -1)) for b in BRANCHES}
    found |= {(*(2**k for k in sorted(powers, reverse=True)), 1) for count in (1, 2)
              for powers in combinations(range(1, _height(n, 2) + 1), count)}
    return sorted(found)


def projected(gram: Array, widths: Sequence[int]) -> Array:
    """c_l for every level, the domain made longer by values that nobody asks for."""
    traces = []
    for width in widths:
        of = np.arange(len(gram)) // width
        sums = np.zeros((of[-1] + 1, len(gram)))
        np.add.at(sums, of, gram)
        traces.append(float(sums[of, np.arange(len(gram))].sum() / width))
    return np.asarray(np.maximum(np.diff([0.0, *traces]), 0))


def _error(weights: Array, widths: Sequence[int], parts: Array) -> float:
    mu = np.cumsum((weights**2 * np.asarray(widths, dtype=float))[::-1])[::-1]
    return float(weights.sum() ** 2 * (parts / mu).sum())


def weighted(gram: Array, widths: Sequence[int]) -> Levels:
    """The best weights of some widths, without the levels that hardly count."""
    parts = projected(gram, widths)

    def loss(logs: Array) -> float:
        return math.log(_error(np.exp(logs), widths, parts))

    found = minimize(loss, np.zeros(len(widths)), method="L-BFGS-B")
    weights = np.exp(found.x) / np.exp(found.x).sum()
    kept = [i for i in range(len(widths)) if weights[i] >= LEAST_WEIGHT or widths[i] == 1]
    if len(kept) < len(widths):
        return weighted(gram, [widths[i] for i in kept])
    return Levels(widths=tuple(widths), weights=tuple(float(weight) for weight in weights), error=_error(weights, widths, parts))


def _strategy(workload: Workload, levels: Levels, name: str) -> Strategy:
    n = workload.domain.size
    blocks = []
    for width, weight in zip(levels.widths, levels.weights, strict=True):
        lows = np.arange(0, n, width)
        factor = Identity(n) if width == 1 else Total(n) if width >= n else Ranges(n, tuple(lows.tolist()), tuple(
            np.minimum(lows + width - 1, n - 1).tolist()))
        blocks.append(Block(axes=(0,), factors=(factor,), scale=1 / weight))
    found = LeastSquares(name=name, domain=workload.domain, noise="laplace", measured=tuple(blocks))
    value = float(found.variances(workload).sum())
    return replace(found, certificate=Certificate(objective="total variance", value=value, bound=2 * spectral_bound(workload),
                                                  covers="Laplace strategies"))
