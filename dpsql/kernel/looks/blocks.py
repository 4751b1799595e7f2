"""Blocks of integer queries over the cells of a view, with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsql.cells import cell_of
from dpsql.kernel.looks.context import Context
from dpsql.requests import Blocked, Blocks
from dpsql.strategies.base import Block
from dpsql.workload.factors import Exact

WORDS = 2**62  # beyond this, Python's integers are used


def look(request: Blocks, context: Context) -> Blocked:
    """The cells that have rows are read once; each block adds them up over its axes."""
    codes, sums = _cells(request, context.reader.rows(context.sql(request.cells)))
    marginals: dict[tuple[int, ...], Exact] = {}
    found = []
    for block in request.blocks:
        axes = tuple(range(len(request.axes))) if request.line else block.axes
        if axes not in marginals:
            marginals[axes] = _marginal(request, axes, codes, sums)
        table = marginals[axes].reshape(-1) if request.line else marginals[axes]
        exact = [int(number) for number in _answers(block, table).reshape(-1)]
        draw = context.noise.laplace if request.noise == "laplace" else context.noise.gaussian
        noise = draw([0] * len(exact), block.scale)  # 64 bits hold the noise, and perhaps not the sums
        found.append(tuple(number + more for number, more in zip(exact, noise, strict=True)))
    return Blocked(answers=tuple(found))


def _cells(request: Blocks, rows: Sequence[tuple[Any, ...]]) -> tuple[list[Exact], Exact]:
    """For each axis the places of the cells that have rows, and their sums; rows with values of no axis are left out."""
    places = [{cell_of((value,)): i for i, value in enumerate(axis.values)} for axis in request.axes]
    codes: list[list[int]] = [[] for _ in request.axes]
    sums: list[int] = []
    for row in rows:
        here = [place.get(cell_of((value,))) for place, value in zip(places, row, strict=False)]
        if not isinstance(row[-1], int):
            raise TypeError("only integers leave the engine")
        if None not in here:
            sums.append(row[-1])
            for column, code in zip(codes, here, strict=True):
                column.append(code or 0)
    return [np.array(column, dtype=np.int64) for column in codes], np.array(sums, dtype=object)


def _marginal(request: Blocks, axes: tuple[int, ...], codes: Sequence[Exact], sums: Exact) -> Exact:
    """The table over some axes."""
    shape = tuple(len(request.axes[axis].values) for axis in axes)
    flat = np.zeros(len(sums), dtype=np.int64)
    for axis, size in zip(axes, shape, strict=True):
        flat = flat * size + codes[axis]
    small = sum(map(abs, sums.tolist())) < WORDS
    table: Exact = np.zeros(math.prod(shape), dtype=np.int64 if small else object)
    np.add.at(table, flat, sums.astype(table.dtype))
    return table.reshape(shape)


def _answers(block: Block, table: Exact) -> Exact:
    """The exact answers, in 64 bits where these hold every sum on the way."""
    largest = math.prod(max(factor.column_powers(1), default=0) for factor in block.factors)
    total = sum(abs(int(number)) for number in table.reshape(-1))
    return block.measure(table if largest * total < WORDS else table.astype(object))
