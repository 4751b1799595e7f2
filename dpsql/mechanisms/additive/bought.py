"""The noise that a price buys."""

from __future__ import annotations

from fractions import Fraction

from dpsql.accounting.cost import Cost
from dpsql.measurements import DiscreteGaussian, DiscreteLaplace, Noise
from dpsql.mechanisms.additive.gaussian import sigma_of
from dpsql.mechanisms.additive.laplace import scale_of


def bought(moved: int, allotted: Cost) -> Noise:
    """The least noise for a number that one entity moves by at most so much: Laplace for a pure epsilon, Gaussian for rho."""
    if allotted.epsilon is not None:
        return DiscreteLaplace(scale=scale_of(moved / allotted.epsilon))
    return DiscreteGaussian(sigma=sigma_of(Fraction(moved) ** 2 / (2 * allotted.rho)))
