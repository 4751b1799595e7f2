"""Blocks of integer queries: the one place that defines which queries are measured, their cost, and their answers.

Everything that decides privacy is here and in `matrices`: neither how blocks were found nor what a file says about them
matters. A block comes with factors, which planners also use for other things. What is charged and applied to private sums is
neither a factor nor one of its methods, but an integer matrix that `checked` builds each time from the factor's parameters,
only for exactly the classes in `CLOSED`. The unit price is rho = 1/2 of zCDP for Gaussian noise and epsilon = 1 for Laplace
noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Annotated, Literal, TypeAlias

import numpy as np

from dpsql.field_types import Natural, NumberRange
from dpsql.workload.factors import AllRange, Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.implicit import Centered, Differences, PIdentity, SquareRoot
from dpsql.workload.matrices import Exact, Matrix

Noise: TypeAlias = Literal["gaussian", "laplace"]

CLOSED = frozenset({Identity, Total, Prefix, AllRange, Ranges, Dense, PIdentity, Differences, Centered, SquareRoot})
"""The factors that may be measured. To add one: its class here, its matrix in `matrices`, and both in the test of this file."""
COMBINATIONS = 2 * 10**6  # combinations of cell kinds and blocks that are checked one by one
COMPARED = 2 * 10**6  # kinds of values of an attribute that are compared pairwise
BITS = 96  # least number of fractional bits of the sensitivity; the rest is rounded up
WORDS = 2**62  # beyond this, Python's integers are used


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Integer queries kron(factors), asked of the marginal over `axes` (the other attributes are summed out).

    Independent integer noise is added to each answer, of standard deviation (Gaussian) or scale (Laplace) `scale`, all blocks in
    proportion to the price.
    """

    axes: tuple[Natural, ...]
    factors: tuple[Factor, ...]
    scale: Annotated[float, NumberRange(above=0)]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(factor.rows for factor in self.factors)

    @property
    def rows(self) -> int:
        return math.prod(self.shape)

    def measure(self, marginal: Exact) -> Exact:
        """The exact answers over a marginal of integers."""
        return applied([matrix_of(factor) for factor in self.factors], marginal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A block after its checks: what is measured, in arrays that cannot be changed."""

    axes: tuple[int, ...]
    matrices: tuple[Matrix, ...]
    scale: float

    @property
    def rows(self) -> int:
        return math.prod(matrix.rows for matrix in self.matrices)

    def answers(self, marginal: Exact, total: int) -> Exact:
        """The exact answers over a marginal whose numbers add up to at most `total` in absolute value.

        Proof that no word overflows. One matrix after the other is applied; after some of them, |.|_1 is at most `total` times
        the product of their largest columns, and within one no number is larger than that times max(1, its largest column).
        """
        largest = math.prod(max(1, *matrix.powers(1)) for matrix in self.matrices)
        return applied(self.matrices, marginal if largest * max(1, total) < WORDS else marginal.astype(object))


def applied(matrices: Sequence[Matrix], marginal: Exact) -> Exact:
    """The Kronecker product of matrices times a table, one axis after the other; axes that shrink the table come first."""
    for i in sorted(range(len(matrices)), key=lambda i: matrices[i].rows / matrices[i].n):
        marginal = matrices[i].apply(marginal, i)
    return marginal


def matrix_of(factor: Factor) -> Matrix:
    """The matrix of a factor, built from its parameters. Raises ValueError if its class is unknown or its entries are not
    integers."""
    kind = type(factor)
    if kind not in CLOSED:
        raise ValueError("only matrices of known kinds are measured")
    return kind.matrix_of(factor)  # the class's own, whatever this factor says of itself


def checked(blocks: object, sizes: Sequence[int] | None = None) -> tuple[Part, ...]:
    """The parts to measure. Raises ValueError for anything that is not a block of known matrices over these sizes."""
    if type(blocks) not in (tuple, list) or not all(type(block) is Block for block in blocks):  # type: ignore[attr-defined]
        raise ValueError("only blocks are measured")
    known: dict[int, tuple[Factor, Matrix]] = {}  # by identity; the factor is kept, so that no other gets its number
    return tuple(_part(block, sizes, known) for block in blocks)  # type: ignore[attr-defined]


def _part(block: Block, sizes: Sequence[int] | None, known: dict[int, tuple[Factor, Matrix]]) -> Part:
    axes, factors = block.axes, block.factors
    if type(axes) is not tuple or type(factors) is not tuple or len(axes) != len(factors):
        raise ValueError("a block does not fit the cells")
    if any(type(axis) is not int or axis < 0 for axis in axes) or len(set(axes)) != len(axes):
        raise ValueError("a block does not fit the cells")
    for factor in factors:
        if id(factor) not in known:
            known[id(factor)] = factor, matrix_of(factor)
    matrices = tuple(known[id(factor)][1] for factor in factors)
    wide = zip(axes, matrices, strict=True)
    if sizes is not None and any(axis >= len(sizes) or matrix.n != sizes[axis] for axis, matrix in wide):
        raise ValueError("a block does not fit the cells")
    return Part(axes=axes, matrices=matrices, scale=_scale(block.scale))


def _scale(scale: object) -> float:
    if type(scale) not in (float, int, np.float64) or not 0 < scale < math.inf:  # type: ignore[operator]
        raise ValueError("every block has noise")
    try:
        return float(scale)  # type: ignore[arg-type]
    except OverflowError:
        raise ValueError("every block has noise") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSensitivity:
    """The sensitivity to one row: the L1 norm (Laplace) or squared L2 norm (Gaussian) of what it adds, in units of noise.

    `exact` says whether a row of some cell attains it; otherwise it is only an upper bound.
    """

    value: Fraction
    exact: bool


def sensitivity(blocks: Iterable[Block], noise: Noise) -> BlockSensitivity:
    """The sensitivity of blocks, as `checked` reads them."""
    return sensitivity_of(checked(tuple(blocks)), noise)


def sensitivity_of(parts: Sequence[Part], noise: Noise) -> BlockSensitivity:
    """The largest over all cells of the sum over blocks of the norm of the cell's column.

    Proof. The column of kron(F1, F2, ...) at the cell (j1, j2, ...) is the Kronecker product of columns, so its L1 norm, and its
    squared L2 norm, is the product of those of the factors. A sum of products of numbers that are not negative can only grow
    with each of them: values of an attribute whose norms are, in every factor, at most those of another value can be ignored.
    The rest are tried in all combinations; if there are too many, the largest norm of each factor gives a bound. Norms are
    sums of integers; only the division by the noise is rounded, upwards.
    """
    if noise not in ("gaussian", "laplace"):
        raise ValueError("noise is Gaussian or Laplace")
    power = 1 if noise == "laplace" else 2
    used: dict[int, dict[Matrix, int]] = {}
    for part in parts:
        for axis, matrix in zip(part.axes, part.matrices, strict=True):
            used.setdefault(axis, {}).setdefault(matrix, len(used[axis]))
    values = {axis: _undominated([matrix.powers(power) for matrix in matrices]) for axis, matrices in used.items()}
    exact = len(parts) * math.prod(len(kinds) for kinds in values.values()) <= max(COMBINATIONS, len(parts))
    if not exact:
        values = {axis: [tuple(max(norms) for norms in zip(*kinds, strict=True))] for axis, kinds in values.items()}
    largest = {axis: [max(norms) for norms in zip(*kinds, strict=True)] for axis, kinds in values.items()}
    places = [tuple((axis, used[axis][matrix]) for axis, matrix in zip(part.axes, part.matrices, strict=True)) for part in parts]
    bits = BITS + max((sum(largest[axis][at].bit_length() for axis, at in place) for place in places), default=0)
    bits += power * max((max(0, math.frexp(part.scale)[1]) for part in parts), default=0)  # of wide noise as many digits too
    shares: dict[tuple[tuple[int, int], ...], int] = {}
    for place, part in zip(places, parts, strict=True):
        shares[place] = shares.get(place, 0) + _share(part.scale, power, bits)
    axes = sorted(values)
    most = 0
    for cell in product(*(values[axis] for axis in axes)):
        norms = dict(zip(axes, cell, strict=True))
        most = max(most, sum(share * math.prod(norms[axis][at] for axis, at in place) for place, share in shares.items()))
    return BlockSensitivity(value=Fraction(most, 2**bits), exact=exact)


def _share(scale: float, power: int, bits: int) -> int:
    """2^bits / scale^power, rounded up."""
    inverse: Fraction = 2**bits / Fraction(scale) ** power
    return math.ceil(inverse)


def _undominated(columns: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The values of an attribute that no other value dominates, given their norms in each factor. Where that would take long,
    some dominated ones may remain."""
    kept: list[tuple[int, ...]] = []
    compared = 0
    for norms in sorted(set(zip(*columns, strict=True)), reverse=True):  # a dominating value comes before the dominated one
        compared += len(kept)
        if compared > COMPARED or not any(all(a >= b for a, b in zip(other, norms, strict=True)) for other in reversed(kept)):
            kept.append(norms)
    return kept
