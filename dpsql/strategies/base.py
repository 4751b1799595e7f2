"""What a strategy is: integer queries to be measured with independent noise, and how the workload is answered from them.

Everything that decides privacy is in `sensitivity`, computed from the integer matrices themselves; how they were found does not
matter. The unit price is rho = 1/2 of zCDP for Gaussian noise and epsilon = 1 for Laplace noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from dpsql.strategies.certificate import Certificate, Noise
from dpsql.workload.domain import Domain
from dpsql.workload.factors import Array, Exact, Factor, Total
from dpsql.workload.workload import Product, Workload

COMBINATIONS = 10**6  # of kinds of cells that are looked at one by one
BITS = 96  # of the sensitivity behind the point, at least; what is beyond is rounded up


@dataclass(frozen=True, slots=True)
class Refusal:
    """A strategy does not fit the workload, and why."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Integer queries kron(factors), asked of the marginal over `axes` (the other attributes are summed out).

    Independent integer noise is added to each answer, of standard deviation (Gaussian) or scale (Laplace) `scale`, all blocks in
    proportion to the price.
    """

    axes: tuple[int, ...]
    factors: tuple[Factor, ...]
    scale: float

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(factor.rows for factor in self.factors)

    @property
    def rows(self) -> int:
        return math.prod(self.shape)

    def product(self, domain: Domain) -> Product:
        """The same queries over all attributes."""
        factors: list[Factor] = [Total(size) for size in domain.shape]
        for axis, factor in zip(self.axes, self.factors, strict=True):
            factors[axis] = factor
        return Product(tuple(factors))

    def measure(self, marginal: Exact) -> Exact:
        """The exact answers over a marginal. Integers stay integers; give Python integers where 64 bits might not do."""
        return Product(self.factors).apply(marginal) if self.axes else marginal


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """How much one row adds to what is measured: its L1 norm (Laplace) or its squared L2 norm (Gaussian), in units of noise.

    `exact` says whether a row of some cell adds as much; else it is only known that none adds more.
    """

    value: Fraction
    exact: bool


def sensitivity(blocks: Iterable[Block], noise: Noise) -> Sensitivity:
    """The largest over all cells of the sum over blocks of the norm of the cell's column.

    Proof. The column of kron(F1, F2, ...) at the cell (j1, j2, ...) is the Kronecker product of columns, so its L1 norm, and its
    squared L2 norm, is the product of those of the factors. A sum of products of numbers that are not negative can only grow
    with each of them: values of an attribute whose norms are, in every factor, at most those of another value need not be looked
    at. What is left is looked at in all combinations; if they are too many, the largest norm of each factor gives a bound. Norms
    are sums of integers; only the division by the noise is rounded, upwards.
    """
    power = 1 if noise == "laplace" else 2
    blocks = tuple(blocks)
    used: dict[int, dict[Factor, int]] = {}
    for block in blocks:
        for axis, factor in zip(block.axes, block.factors, strict=True):
            used.setdefault(axis, {}).setdefault(factor, len(used[axis]))
    values = {axis: _undominated([factor.column_powers(power) for factor in factors]) for axis, factors in used.items()}
    exact = math.prod(len(kinds) for kinds in values.values()) <= COMBINATIONS
    if not exact:
        values = {axis: [tuple(max(norms) for norms in zip(*kinds, strict=True))] for axis, kinds in values.items()}
    largest = {axis: [max(norms) for norms in zip(*kinds, strict=True)] for axis, kinds in values.items()}
    places = [tuple((axis, used[axis][factor]) for axis, factor in zip(block.axes, block.factors, strict=True))
              for block in blocks]
    bits = BITS + max((sum(largest[axis][at].bit_length() for axis, at in place) for place in places), default=0)
    bits += power * max((max(0, math.frexp(block.scale)[1]) for block in blocks), default=0)  # of wide noise as many digits too
    shares: dict[tuple[tuple[int, int], ...], int] = {}
    for place, block in zip(places, blocks, strict=True):
        shares[place] = shares.get(place, 0) + _share(block.scale, power, bits)
    axes = sorted(values)
    most = 0
    for cell in product(*(values[axis] for axis in axes)):
        norms = dict(zip(axes, cell, strict=True))
        most = max(most, sum(share * math.prod(norms[axis][at] for axis, at in place) for place, share in shares.items()))
    return Sensitivity(value=Fraction(most, 2**bits), exact=exact)


def _share(scale: float, power: int, bits: int) -> int:
    """2^bits / scale^power, rounded up."""
    if not scale > 0 or math.isinf(scale):
        raise ValueError("every block has noise")
    inverse: Fraction = 2**bits / Fraction(scale) ** power
    return math.ceil(inverse)


def _undominated(columns: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Of the values of an attribute, given their norms in each factor, those that no other value beats in all of them."""
    kept: list[tuple[int, ...]] = []
    for norms in sorted(set(zip(*columns, strict=True)), reverse=True):  # who beats another comes before it
        if not any(all(a >= b for a, b in zip(other, norms, strict=True)) for other in kept):
            kept.append(norms)
    return kept


@dataclass(frozen=True, kw_only=True)
class Strategy(ABC):
    """A name, what is measured, and how far it is from the best known bound (if one is known)."""

    name: str
    domain: Domain
    noise: Noise = "gaussian"
    certificate: Certificate | None = None

    @property
    @abstractmethod
    def blocks(self) -> Sequence[Block]: ...

    @abstractmethod
    def variance_of(self, workload: Workload) -> Array:
        """The variance of each query if every block has noise of variance scale^2."""

    @abstractmethod
    def reconstruct(self, answers: Sequence[Array], workload: Workload) -> Array:
        """The workload's answers by least squares, from those of the blocks."""

    @cached_property
    def sensitivity(self) -> Sensitivity:
        return sensitivity(self.blocks, self.noise)

    def stretch(self, price: float) -> float:
        """What scales are multiplied by so that measuring everything costs this rho, or this epsilon."""
        most = float(self.sensitivity.value)
        return math.sqrt(most / (2 * price)) if self.noise == "gaussian" else most / price

    def variances(self, workload: Workload, price: float | None = None) -> Array:
        """The variance of each query at a price; at the unit price, if none is given.

        Integer noise of scale b has a variance below 2 b^2 (Laplace) or s^2 (Gaussian), and very near if it is not small.
        """
        unit, each = (0.5, 1.0) if self.noise == "gaussian" else (1.0, 2.0)
        return self.variance_of(workload) * each * self.stretch(unit if price is None else price) ** 2


def rmse(variances: Array) -> float:
    """The root of the mean variance."""
    return math.sqrt(float(np.mean(variances)))
