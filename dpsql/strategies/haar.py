"""The Haar wavelet over one attribute: the total, and at every scale the differences of neighbouring blocks.

For widths 2^k the difference of the two halves of a block of width w is a row of squared norm w, and the rows of one scale span
exactly what the means of halves add to the means of blocks. So the normal matrix is that of `nested`, with mu = lam^2 w for the
rows of blocks of width w, and lam_0^2 n for the total: each scale's error depends on its own weight only. At a given cost the
error sum of c / (lam^2 w) is least for lam in proportion to (c / w)^(1/3) with Laplace noise (the cost is the sum of lam), and to
(c / w)^(1/4) with Gaussian noise (the sum of lam^2).

Source: Xiao, Wang and Gehrke, Differential Privacy via Wavelet Transforms (Privelet), ICDE 2010; the weights are the best for the
workload.
"""

from __future__ import annotations

import numpy as np

from dpsql.strategies.hierarchy import BOUNDED, Energies, fits, powers
from dpsql.strategies.nested import Nested
from dpsql.strategies.optimality_gap import Noise
from dpsql.strategies.product_bound import valued
from dpsql.strategies.strategy import Block, Refusal, Strategy
from dpsql.workload.factors import Array, Factor, Total
from dpsql.workload.implicit import Differences as Differences
from dpsql.workload.workload import Workload

LEAST = 1e-9  # of the largest weight: every scale is measured


def plan(workload: Workload, targets: Array | None = None, *, noise: Noise = "laplace") -> Strategy | Refusal:
    """The wavelet with the best weight of every scale."""
    refusal = fits(workload, targets)
    if refusal is not None:
        return refusal
    widths = powers(workload.domain.size, 2)
    parts = Energies(workload).parts(widths)
    lengths = np.array([widths[0], *widths[:-1]], dtype=float)
    weights = (parts / lengths) ** (1 / 3 if noise == "laplace" else 1 / 4)
    return made(workload, np.maximum(weights / weights.max(), LEAST), noise)


def made(workload: Workload, weights: Array, noise: Noise) -> Strategy:
    """The wavelet with given weights, that of the total first."""
    n, widths = workload.domain.size, powers(workload.domain.size, 2)
    factors: list[Factor] = [Total(n), *(Differences(n, width) for width in widths[:-1])]
    lengths = np.array([widths[0], *widths[:-1]], dtype=float)
    blocks = tuple(Block(axes=(0,), factors=(factor,), scale=1 / float(weight))
                   for factor, weight in zip(factors, weights, strict=True))
    return valued(Nested(name="haar", domain=workload.domain, noise=noise, widths=widths, measured=blocks,
                         mu=tuple((weights**2 * lengths).tolist()), signed=True), workload, bounded=n <= BOUNDED)
