"""How far a strategy can be from the best one: a value and a lower bound that holds for a whole class of mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Covers: TypeAlias = Literal["Gaussian strategies", "Laplace strategies", "all unbiased mechanisms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """No mechanism of the class `covers` has an error (or a price) below `bound`; this one has `value`.

    Both are squared: `objective` says of what ("total variance", "largest variance over target", "squared cost"), at unit price.
    """

    objective: str
    value: float
    bound: float
    covers: Covers

    @property
    def ratio(self) -> float:
        """At most so many times the best (of squared errors)."""
        return self.value / self.bound if self.bound > 0 else math.inf

    def __str__(self) -> str:
        return f"{self.objective} within {self.ratio:.4g} times the best of {self.covers}"
