"""Blocks of integer queries: the one place that defines which queries are measured, their cost, and their answers.

Everything that decides privacy is here and in `matrices`: how blocks were found does not matter. A block holds the integer
matrices themselves; the factors that planners calculate with (`factors`) are known outside only. The unit price is rho = 1/2 of
zCDP for Gaussian noise and epsilon = 1 for Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from operator import ge
from typing import Literal, TypeAlias

from dpsql.frozen import Frozen
from dpsql.trusted.field_types import Assumptions, Natural, Scale
from dpsql.trusted.matrices.matrices import Exact, Matrix

Noise: TypeAlias = Literal["gaussian", "laplace"]

COMBINATIONS = 2 * 10**6  # combinations of cell kinds and blocks that are checked one by one
COMPARED = 2 * 10**6  # kinds of values of an attribute that are compared pairwise
BITS = 96  # least number of fractional bits of the sensitivity; the rest is rounded up
WORDS = 2**62  # beyond this, Python's integers are used


class IntegerBlock(Frozen):
    """Integer queries kron(matrices), asked of the marginal over `axes` (the other attributes are summed out).

    Independent integer noise is added to each answer, of standard deviation (Gaussian) or scale (Laplace) `scale`, all blocks in
    proportion to the price.
    """

    axes: tuple[Natural, ...]
    matrices: tuple[Matrix, ...]
    scale: Scale

    def assumptions(self) -> Assumptions:
        yield len(self.axes) == len(self.matrices) == len({*self.axes}), "a block does not fit the cells"

    @property
    def rows(self) -> int:
        return math.prod(matrix.rows for matrix in self.matrices)

    @property
    def cells(self) -> int:
        """The number of cells of its marginal."""
        return math.prod(matrix.n for matrix in self.matrices)

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether its marginal fits cells of these sizes."""
        return all(axis < len(sizes) and matrix.n == sizes[axis] for axis, matrix in zip(self.axes, self.matrices, strict=True))

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


class BlockSensitivity(Frozen):
    """The sensitivity to one row: the L1 norm (Laplace) or squared L2 norm (Gaussian) of what it adds, in units of noise.

    `exact` says whether a row of some cell attains it; otherwise it is only an upper bound.
    """

    value: Fraction
    exact: bool


def sensitivity_of(blocks: Sequence[IntegerBlock], noise: Noise) -> BlockSensitivity:
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
    for block in blocks:
        for axis, matrix in zip(block.axes, block.matrices, strict=True):
            used.setdefault(axis, {}).setdefault(matrix, len(used[axis]))
    values = {axis: _undominated([matrix.powers(power) for matrix in matrices]) for axis, matrices in used.items()}
    exact = len(blocks) * math.prod(len(kinds) for kinds in values.values()) <= max(COMBINATIONS, len(blocks))
    if not exact:
        values = {axis: [tuple(max(norms) for norms in zip(*kinds, strict=True))] for axis, kinds in values.items()}
    largest = {axis: [max(norms) for norms in zip(*kinds, strict=True)] for axis, kinds in values.items()}
    places = [tuple((axis, used[axis][matrix]) for axis, matrix in zip(block.axes, block.matrices, strict=True))
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
        if compared > COMPARED or not any(all(map(ge, other, norms)) for other in reversed(kept)):
            kept.append(norms)
    return kept
