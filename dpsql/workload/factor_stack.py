"""Factors of one attribute, one below the other, where many ranges are handled as one matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array, Factor, Ranges

MANY = 8  # factors of ranges from which on they are one matrix


class FactorStack(Frozen, kw_only=False, eq=False):
    """Different factors over the same values."""

    factors: tuple[Factor, ...]

    def each(self, action: Callable[[Factor], Array]) -> list[Array]:
        """What is computed of each factor: an array with a number for each row."""
        joint = action(self._joint) if self._joint is not None else np.zeros(0)
        parts = dict(zip(self._ranges, np.split(joint, self._ends), strict=True)) if self._joint is not None else {}
        return [parts[at] if at in parts else action(factor) for at, factor in enumerate(self.factors)]

    def gram(self, weights: Array) -> Array:
        """The sum of the factors' Gram matrices, each times its weight."""
        whole = [self.factors[at].gram() * weights[at] for at in range(len(self.factors)) if at not in self._ranges]
        if self._joint is not None:
            rows = [self.factors[at].rows for at in self._ranges]
            whole.append(self._joint.gram(np.repeat(weights[list(self._ranges)], rows)))
        return np.asarray(sum(whole))

    @cached_property
    def _ranges(self) -> dict[int, None]:
        """The indices of the factors that are handled as one."""
        found = dict.fromkeys(at for at, factor in enumerate(self.factors) if isinstance(factor, Ranges))
        return found if len(found) >= MANY else {}

    @cached_property
    def _ends(self) -> list[int]:
        """The rows of the joint matrix at which factors after the first one begin."""
        return [int(end) for end in np.cumsum([self.factors[at].rows for at in self._ranges])[:-1]]

    @cached_property
    def _joint(self) -> Ranges | None:
        lows, highs = list[int](), list[int]()
        for at in self._ranges:
            factor = self.factors[at]
            assert isinstance(factor, Ranges)
            lows += factor.lows
            highs += factor.highs
        return Ranges(self.factors[0].n, tuple(lows), tuple(highs)) if lows else None
