"""The sets of entities and their weights, shared by the measurements of sums over rows of several entities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.extensions.ask_solvers import Solvers
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.extensions.owned import MOST_ROWS, signed
from dpsql.trusted.extensions.removal_distance import sets_of
from dpsql.trusted.extensions.removal_program import Sets
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.measurements.several.many_sets import Listed, Streamed
from dpsql.trusted.measurements.several.vouched_values import Extension, VouchedValues, vouched_values
from dpsql.trusted.noise.integer import Noise, drawn
from dpsql.trusted.noise.source import Source
from dpsql.trusted.plan.operators.owner_sets import OwnerSets
from dpsql.trusted.reader import Query, ReaderFault

Columns: TypeAlias = Sequence[NDArray[Any]]
"""The printed sets, column by column."""
Sums: TypeAlias = Extension | VouchedValues


def read(plan: OwnerSets, levels: tuple[int, ...], cells: int, context: Context) -> Sequence[tuple[Sums, ...]]:
    """For each cell, the extensions at the levels: of the positive weights and, if the plan is signed, of the negative ones."""
    if plan.once is None or len(plan.owners) > 1 or plan.summed:
        return _sums(plan, levels, cells, context)
    text, parts = context.query(plan.input)
    sample = _at_most(MOST_ROWS // 2, (plan.sampled(text), parts), context)  # three pairs of each are fewer than the proofs allow
    if sample is None:
        return _sums(plan, levels, cells, context)
    return vouched_values(sample, lambda: _at_most(MOST_ROWS, (plan.gathered(text), parts), context),
                          lambda: _sums(plan, levels, cells, context), levels, cells, context.solvers)


def _sums(plan: OwnerSets, levels: tuple[int, ...], cells: int, context: Context) -> Sequence[tuple[Extension, ...]]:
    """The same from the sets of all rows."""
    columns = columns_of(plan, context)
    if columns is not None:
        return in_memory(columns, plan, levels, cells, context.solvers)
    numbers, signs = range(cells) if plan.cell is not None else (None,), (1, -1) if plan.signed else (0,)
    return [tuple(Streamed(Listed(plan, number, context, sign), levels, MOST_ROWS) for sign in signs) for number in numbers]


def columns_of(plan: OwnerSets, context: Context) -> Columns | None:
    """The sets as arrays; None if there are more than fit into memory, here or in the engine."""
    return _at_most(MOST_ROWS, context.query(plan), context)


def _at_most(most: int, query: Query, context: Context) -> Columns | None:
    """The rows of a query as arrays; None if there are more."""
    text, parts = query
    try:
        found = context.reader.arrays(f"SELECT * FROM ({text}) AS t LIMIT {most + 1}", parts)
    except ReaderFault:  # the groups may not fit into memory; after any other fault, the reading that follows fails too
        return None
    return found if len(found[-1]) <= most else None


def in_memory(columns: Columns, plan: OwnerSets, levels: tuple[int, ...], cells: int,
              solvers: Solvers) -> list[tuple[Extension, ...]]:
    """The extensions that `read` returns, for sets in memory."""
    found: list[tuple[Extension, ...]] = []
    for names, weights in by_cell(columns, cells, told=plan.cell is not None):
        once = plan.once is not None
        positive, negative = signed(names, np.minimum(weights, 1) if once else weights, once=once)  # the limit of a value is 1
        if len(negative.weights) and not plan.signed:
            raise ValueError("a weight is below zero in an unsigned plan")
        parts = (positive, negative) if plan.signed else (positive,)
        found.append(tuple(LipschitzExtension(part, levels, plan.width, solvers) for part in parts))
    return found


def released(cells: Sequence[tuple[Sums, ...]], at: int, place: int, noise: Noise, source: Source) -> ExtensionSums:
    """For each cell, the extension at one level of its positive weights minus that of the negative ones, with fresh noise.

    `at` is the index of the level in the sums, `place` that in the request.
    """
    totals = [sum(sign * part.value(at) for sign, part in zip((1, -1), parts, strict=False)) for parts in cells]
    return ExtensionSums(totals=tuple(total + drawn(noise, source) for total in totals),
                         levels=tuple((place,) * len(parts) for parts in cells))


def in_cells(columns: Columns, plan: OwnerSets, cells: int) -> Sets:
    """The sets of all cells 0 .. `cells` - 1 together."""
    if plan.cell is None:
        *names, weights = columns
        return sets_of(names, weights, np.zeros(len(weights), dtype=np.int32))
    numbers, *names, weights = columns
    kept = (numbers >= 0) & (numbers < cells)
    return sets_of([column[kept] for column in names], weights[kept], numbers[kept])


def by_cell(columns: Sequence[NDArray[Any]], cells: int, *, told: bool) -> Iterator[tuple[list[NDArray[Any]], NDArray[np.int64]]]:
    """Names and weights of the sets of each cell 0 .. `cells` - 1. If `told`, the first column gives the cell; other cells are
    dropped."""
    if not told:
        *names, weights = columns
        yield names, np.asarray(weights, dtype=np.int64)
        return
    numbers, *names, weights = columns
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(cells + 1))
    for first, last in pairwise(starts):
        here = order[first:last]
        yield [column[here] for column in names], np.asarray(weights[here], dtype=np.int64)
