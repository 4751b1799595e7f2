"""Strategies: integer queries that are measured with independent noise, and how the workload is answered from them.

Privacy does not depend on this room: what blocks cost and how they are applied to private sums is in `matrices.blocks`, and how
they were found does not matter. The unit price is rho = 1/2 (zCDP) for Gaussian noise and epsilon = 1 for Laplace noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np

from dpsql.frozen import AbstractFrozen, Frozen, replace
from dpsql.strategies.optimality_gap import OptimalityBound
from dpsql.trusted.cached import cached_property
from dpsql.trusted.matrices.blocks import BlockSensitivity, Noise
from dpsql.workload.domain import CellDomain
from dpsql.workload.factor_blocks import Block, sensitivity
from dpsql.workload.factors import Array
from dpsql.workload.workload import Workload

__all__ = ["Block", "BlockSensitivity", "NotMeasured", "Refusal", "Strategy", "rmse", "sensitivity"]

MOST_KEPT = 2**20  # variances that a strategy keeps


class Refusal(Frozen, kw_only=False):
    """Why a strategy does not fit the workload."""

    because: str


class NotMeasured(ValueError):
    """Least squares cannot give the workload's answers: they are not linear combinations of what is measured, or too many
    digits are lost to rounding."""

    def __init__(self) -> None:
        super().__init__("the strategy does not measure all of the workload")


class Strategy(AbstractFrozen):
    """The queries to measure, a name, and how far the strategy is from the best known bound, if there is one."""

    name: str
    domain: CellDomain
    noise: Noise = "gaussian"
    certificate: OptimalityBound | None = None

    @property
    @abstractmethod
    def blocks(self) -> Sequence[Block]: ...

    @abstractmethod
    def variance_of(self, workload: Workload) -> Array:
        """The variance of each query if every block has noise of variance scale^2."""

    @abstractmethod
    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        """The workload's answers by least squares, from those of the blocks."""

    def certified(self, certificate: OptimalityBound) -> Self:
        """The same strategy with a certificate. What was computed of it, such as inverses, is kept."""
        made = replace(self, certificate=certificate)
        vars(made).update(vars(self))
        return made

    @cached_property
    def sensitivity(self) -> BlockSensitivity:
        return sensitivity(self.blocks, self.noise)

    def stretch(self, price: float) -> float:
        """The factor for all scales at which measuring everything costs this rho, or this epsilon."""
        most = float(self.sensitivity.value)
        return math.sqrt(most / (2 * price)) if self.noise == "gaussian" else most / price

    def variances(self, workload: Workload, price: float | None = None) -> Array:
        """The variance of each query at a price, by default the unit price.

        Discrete Laplace noise of scale b has a variance below 2 b^2, discrete Gaussian noise of scale s one below s^2; both are
        very close to these limits unless the scale is small.
        """
        unit, each = (0.5, 1.0) if self.noise == "gaussian" else (1.0, 2.0)
        return self._unscaled(workload) * each * self.stretch(unit if price is None else price) ** 2

    def _unscaled(self, workload: Workload) -> Array:
        """`variance_of`, computed once for one workload at several prices."""
        known = self._latest
        if not known or known[0][0] is not workload:
            known[:] = [(workload, self.variance_of(workload))] if workload.rows <= MOST_KEPT else []
        return known[0][1] if known else self.variance_of(workload)

    @cached_property
    def _latest(self) -> list[tuple[Workload, Array]]:
        """The workload whose variances were computed last, and these."""
        return []


def rmse(variances: Array) -> float:
    """The root of the mean variance."""
    return math.sqrt(float(np.mean(variances)))
