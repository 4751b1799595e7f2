"""The strategies that need no planning: noise on the cells, and noise on the queries themselves, made consistent or not.

Noise on the cells is input perturbation; noise on the queries, each by itself, is the plain Laplace or Gaussian mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsql.strategies.integers import integral
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.strategies.optimality_gap import Covers, Noise, OptimalityBound
from dpsql.strategies.strategy import Block, Refusal, Strategy
from dpsql.workload.factors import Array, Identity
from dpsql.workload.workload import Workload

MANY = 10**7  # most queries
LARGE = 10**7  # most cells
SOLVED = 1024  # most cells for which noisy queries are made consistent


def plan_cells(workload: Workload, targets: Array | None = None, *, noise: Noise = "gaussian") -> Strategy | Refusal:
    """Noise on every cell; queries add up noisy cells. Best if the workload is little more than the cells."""
    if workload.domain.size > LARGE:
        return Refusal(f"noise on the cells is limited to {LARGE} cells")
    block = one_block(*(Identity(size) for size in workload.domain.shape))
    return _valued(LeastSquares(name="identity", domain=workload.domain, noise=noise, measured=(block,)), workload, targets)


class AsAsked(Strategy):
    """Every query of a workload is measured separately and answered by its own measurement alone."""

    workload: Workload
    scales: tuple[float, ...]  # of the parts

    @property
    def blocks(self) -> Sequence[Block]:
        return [Block(axes=part.axes, factors=tuple(part.factors[axis] for axis in part.axes), scale=scale)
                for part, scale in zip(self.workload.parts, self.scales, strict=True)]

    def variance_of(self, workload: Workload) -> Array:
        self._same(workload)
        return np.repeat(np.square(self.scales), [part.rows for part in workload.parts])

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        self._same(workload)
        return np.concatenate([np.asarray(given, dtype=float).reshape(-1) for given in answers])

    def _same(self, workload: Workload) -> None:
        if workload.fingerprint != self.workload.fingerprint:
            raise ValueError("this strategy answers only the workload it was made for")


def plan_queries(workload: Workload, targets: Array | None = None, *, noise: Noise = "gaussian") -> Strategy | Refusal:
    """Noise on the answers of the queries; made consistent where least squares is cheap, which can only reduce errors.

    The noise of each part is scaled to its targets, if there are any.
    """
    plain = _as_asked("workload", workload, targets, noise)
    if isinstance(plain, AsAsked) and workload.domain.size <= SOLVED:
        solved = LeastSquares(name=plain.name, domain=plain.domain, noise=noise, measured=tuple(plain.blocks))
        return _valued(solved, workload, targets)
    return plain if isinstance(plain, Refusal) else _valued(plain, workload, targets)


def plan_independent(workload: Workload, targets: Array | None = None, *, noise: Noise = "gaussian") -> Strategy | Refusal:
    """Noise on the answers of the queries, which may contradict each other."""
    plain = _as_asked("independent", workload, targets, noise)
    return plain if isinstance(plain, Refusal) else _valued(plain, workload, targets)


def _as_asked(name: str, workload: Workload, targets: Array | None, noise: Noise) -> AsAsked | Refusal:
    if not all(integral(factor) for part in workload.parts for factor in part.factors):
        return Refusal("its coefficients are not whole numbers")
    scales = tuple(1.0 if targets is None else math.sqrt(float(targets[at].min())) for at in workload.slices)
    return AsAsked(name=name, domain=workload.domain, noise=noise, workload=workload, scales=scales)


def _valued(strategy: Strategy, workload: Workload, targets: Array | None) -> Strategy | Refusal:
    """The strategy with its value, without a lower bound on the optimum."""
    if workload.rows > MANY:
        return Refusal(f"errors are computed for at most {MANY} queries")
    variances = strategy.variances(workload)
    value = float(variances.sum() if targets is None else (variances / targets).max())
    objective = "total variance" if targets is None else "largest variance over target"
    covers: Covers = "Gaussian strategies" if strategy.noise == "gaussian" else "Laplace strategies"
    return strategy.certified(OptimalityBound(objective=objective, value=value, bound=0.0, covers=covers))
