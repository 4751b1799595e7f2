"""Sums plus noise."""

from __future__ import annotations

from dpsql.cells import Cells, cell_of
from dpsql.kernel.looks.context import Context
from dpsql.requests import DiscreteGaussian, DiscreteLaplace, Measure, Measured


def look(request: Measure, context: Context) -> Measured:
    """Read the exact sums of the listed cells, add each summand's noise, and let only that out."""
    plan = request.plan
    exact = dense(context.reader.rows(context.sql(plan)), len(plan.keys), len(plan.totals), request.cells)
    totals, column = [], 0
    for summand, noise in zip(plan.summands, request.noises, strict=True):
        parts = []
        for _ in range(summand.components):
            match noise:
                case DiscreteLaplace(scale=scale):
                    parts.append(tuple(context.noise.laplace(exact[column], scale)))
                case DiscreteGaussian(sigma=sigma):
                    parts.append(tuple(context.noise.gaussian(exact[column], sigma)))
            column += 1
        totals.append(tuple(parts))
    return Measured(totals=tuple(totals))


def dense(rows: list[tuple[object, ...]], keys: int, totals: int, cells: Cells) -> list[list[int]]:
    """For each total its integers over the listed cells, in their order; 0 where a cell has no rows, others are dropped.

    Rows that are read as one cell are added up: whichever came last must not decide.
    """
    position = {cell_of(key): i for i, key in enumerate(cells)}
    columns = [[0] * len(cells) for _ in range(totals)]
    for row in rows:
        at = position.get(cell_of(row[:keys]))
        if at is not None:
            for column, value in zip(columns, row[keys:], strict=True):
                if not isinstance(value, int):
                    raise TypeError("only integers leave the engine")
                column[at] += value
    return columns
