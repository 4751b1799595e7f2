"""Blocks of queries as strategies hold them: products of factors, from which the integer matrices that are measured are built.

Nothing here is trusted: the kernel takes the matrices alone (`matrices.blocks`), and checks them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.matrices.blocks import BlockSensitivity, IntegerBlock, Noise, applied, sensitivity_of
from dpsql.trusted.matrices.matrices import (
    AllStretches,
    Centre,
    Exact,
    Halves,
    Matrix,
    Prefixes,
    Root,
    Stacked,
    Stretches,
    Sum,
    Unit,
    Written,
)
from dpsql.workload.factors import AllRange, Dense, Factor, Identity, Prefix, Ranges, Total
from dpsql.workload.implicit import Centered, Differences, PIdentity, SquareRoot


class Block(Frozen):
    """Queries kron(factors) about the marginal over `axes`, with noise of a `scale`; see `blocks.IntegerBlock`."""

    axes: tuple[int, ...]
    factors: tuple[Factor, ...]
    scale: float

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(factor.rows for factor in self.factors)

    @property
    def rows(self) -> int:
        return math.prod(self.shape)

    def measure(self, marginal: Exact) -> Exact:
        """The exact answers over a marginal of integers."""
        return applied([factor.matrix_of() for factor in self.factors], marginal)


def integer_blocks(blocks: Iterable[Block]) -> tuple[IntegerBlock, ...]:
    """Build the integer matrices of blocks, one for each factor. Raises ValueError if entries are not integers, or if a block has
    no noise."""
    known: dict[int, tuple[Factor, Matrix]] = {}  # by identity; the factor is kept, so that no other gets its number
    return tuple(_integers(block, known) for block in blocks)


def _integers(block: Block, known: dict[int, tuple[Factor, Matrix]]) -> IntegerBlock:
    for factor in block.factors:
        if id(factor) not in known:
            known[id(factor)] = factor, factor.matrix_of()
    matrices = tuple(known[id(factor)][1] for factor in block.factors)
    return IntegerBlock(axes=block.axes, matrices=matrices, scale=_scale(block.scale))


def _scale(scale: object) -> float:
    if type(scale) not in (float, int, np.float64) or not 0 < scale < math.inf:  # type: ignore[operator]
        raise ValueError("every block has noise")
    try:
        return float(scale)  # type: ignore[arg-type]
    except OverflowError:
        raise ValueError("every block has noise") from None


def with_factors(block: IntegerBlock) -> Block:
    """The inverse of `integer_blocks`, for one block."""
    return Block(axes=block.axes, factors=tuple(map(factor_of, block.matrices)), scale=block.scale)


def factor_of(matrix: Matrix) -> Factor:
    """The factor with this matrix."""
    match matrix:
        case Stretches():
            first, after = (np.frombuffer(ends, dtype=np.int64) for ends in (matrix.first, matrix.after))
            return Ranges(matrix.n, tuple(first.tolist()), tuple((after - 1).tolist()))
        case Written():
            return Dense(matrix.array)
        case Stacked():
            return PIdentity(own=np.frombuffer(matrix.own, dtype=np.int64), others=matrix.others.array)
        case Halves():
            return Differences(matrix.n, matrix.width)
    kinds: dict[type, Callable[[int], Factor]] = {
        Unit: Identity, Sum: Total, Prefixes: Prefix, AllStretches: AllRange, Centre: Centered, Root: SquareRoot}
    return kinds[type(matrix)](matrix.n)


def check_blocks(blocks: Iterable[Block], sizes: Sequence[int]) -> None:
    """Raises ValueError if blocks cannot be measured over cells of these sizes."""
    for block in blocks:
        if type(block.axes) is not tuple or any(type(axis) is not int or axis < 0 for axis in block.axes):
            raise ValueError("a block does not fit the cells")
    for made in integer_blocks(blocks):
        if not len({*made.axes}) == len(made.axes) == len(made.matrices) or not made.fits(sizes):
            raise ValueError("a block does not fit the cells")


def sensitivity(blocks: Iterable[Block], noise: Noise) -> BlockSensitivity:
    """The sensitivity of blocks to one row."""
    return sensitivity_of(integer_blocks(blocks), noise)
