"""Integer noise, and its privacy cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, TypeAlias

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.trusted.field_types import WIDEST, NumberRange
from dpsql.trusted.noise.source import Source
from dpsql.trusted.plan.certificate import Sensitivity


class DiscreteLaplace(Frozen):
    """Integer noise with probability proportional to exp(-|z| / scale).

    Cost: integer vectors at l1 distance D give an epsilon of D / scale (Ghosh, Roughgarden and Sundararajan 2009; the ratio of
    probabilities is at most exp(D / scale), coordinate by coordinate).
    """

    scale: Annotated[float, NumberRange(above=0)]

    def cost(self, sensitivity: Sensitivity) -> Cost:
        if sensitivity.l1 is None:
            raise ValueError("Laplace noise needs a bound on the l1 norm")
        return FREE if sensitivity.l1 == 0 else pure(Fraction(sensitivity.l1) / Fraction(self.scale))

    @property
    def variance(self) -> float:
        q = math.exp(-1 / self.scale) if self.scale > 0 else 0.0
        return 2 * q / (1 - q) ** 2 if q < 1 else 2 * self.scale**2


class DiscreteGaussian(Frozen):
    """Integer noise with probability proportional to exp(-z^2 / (2 sigma^2)).

    Cost: integer vectors at l2 distance D give rho = D^2 / (2 sigma^2) of zCDP (Canonne, Kamath and Steinke 2020, Theorem 14).
    """

    sigma: Annotated[float, NumberRange(above=0)]

    def cost(self, sensitivity: Sensitivity) -> Cost:
        if sensitivity.l2 == 0:
            return FREE
        return concentrated(Fraction(sensitivity.l2) ** 2 / (2 * Fraction(self.sigma) ** 2))

    @property
    def variance(self) -> float:
        return self.sigma**2  # an upper bound (Canonne, Kamath and Steinke 2020, Corollary 9), and exact to 1e-7 from sigma = 1


Noise: TypeAlias = DiscreteLaplace | DiscreteGaussian


TOO_WIDE = "noise that is drawn on its own must fit into 64 bits"


def spread_of(noise: Noise) -> float:
    """The scale of Laplace noise, or the standard deviation of Gaussian noise."""
    match noise:
        case DiscreteLaplace(scale=scale):
            return scale
        case DiscreteGaussian(sigma=sigma):
            return sigma


def fits_a_word(noise: Noise) -> bool:
    """Whether noise drawn on its own fits into 64 bits. If it was clamped to them, it would reveal the number that it is added to
    later. Noise that is added as it is drawn may be wider: only the sum is clamped to 64 bits, which is post-processing."""
    return spread_of(noise) <= WIDEST


def added(exact: Sequence[int], noise: Noise, source: Source) -> list[int]:
    """Integers, each plus independent noise; saturates at the ends of 64 bits."""
    match noise:
        case DiscreteLaplace(scale=scale):
            return source.laplace(exact, scale)
        case DiscreteGaussian(sigma=sigma):
            return source.gaussian(exact, sigma)


def drawn(noise: Noise, source: Source) -> int:
    """Noise on its own, to be added to an integer that may exceed 64 bits."""
    return added([0], noise, source)[0]
