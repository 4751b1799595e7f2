"""The two strategies that need no planning: noise on the cells, and noise on the queries themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsql.strategies.base import Block, Noise, Refusal, Strategy
from dpsql.strategies.least_squares import LeastSquares, one_block
from dpsql.workload.domain import DENSE
from dpsql.workload.factors import Array, Dense, Identity
from dpsql.workload.workload import Workload


def input_perturbation(workload: Workload, noise: Noise = "gaussian") -> LeastSquares:
    """Noise on every cell; queries add up noisy cells. Best where cells are asked for and little else."""
    block = one_block(*(Identity(size) for size in workload.domain.shape))
    return LeastSquares(name="noise on cells", domain=workload.domain, noise=noise, measured=(block,))


@dataclass(frozen=True, kw_only=True)
class AsAsked(Strategy):
    """Every query of a workload is measured by itself and answered by its own measurement. No query helps another."""

    workload: Workload

    @property
    def blocks(self) -> Sequence[Block]:
        return [Block(axes=part.axes, factors=tuple(part.factors[axis] for axis in part.axes), scale=1.0)
                for part in self.workload.parts]

    def variance_of(self, workload: Workload) -> Array:
        self._same(workload)
        return np.ones(workload.rows)

    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        self._same(workload)
        return np.concatenate([np.asarray(given, dtype=float).reshape(-1) for given in answers])

    def _same(self, workload: Workload) -> None:
        if workload.fingerprint != self.workload.fingerprint:
            raise ValueError("this strategy answers only what it was made for")


def as_asked(workload: Workload, noise: Noise = "gaussian") -> AsAsked | LeastSquares | Refusal:
    """Noise on the queries' own answers; consistent answers where least squares is cheap, which only lowers the errors."""
    for part in workload.parts:
        for factor in part.factors:
            if isinstance(factor, Dense) and factor.matrix.dtype.kind == "f":
                return Refusal("its coefficients are not whole numbers")
    plain = AsAsked(name="noise on queries", domain=workload.domain, noise=noise, workload=workload)
    if workload.domain.size > DENSE:
        return plain
    return LeastSquares(name=plain.name, domain=plain.domain, noise=noise, measured=tuple(plain.blocks))
