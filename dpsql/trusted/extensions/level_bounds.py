"""Bounds of a number at each of several levels."""

from __future__ import annotations

import abc


class LevelBounds(abc.ABC):
    """For each level j, `low[j]` and `high[j]` enclose the number; `refine` narrows them until they meet."""

    low: list[int]
    high: list[int]

    @abc.abstractmethod
    def refine(self, j: int) -> None:
        """Narrow the bounds of a level."""

    def exact(self, j: int) -> bool:
        return self.low[j] == self.high[j]

    def value(self, j: int) -> int:
        """The number at a level."""
        while not self.exact(j):
            self.refine(j)
        return self.low[j]
