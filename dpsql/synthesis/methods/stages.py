"""The stages of methods in words, as EXPLAIN shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpsql.budgets.reports import amount
from dpsql.planning.explain import Measurement
from dpsql.synthesis.method import CodedTable
from dpsql.synthesis.methods.marginal_requests import noise_for
from dpsql.trusted.accounting.cost import Cost

CELL = 8  # bytes of a probability


def singles_stage(table: CodedTable, columns: Sequence[str], each: Cost) -> str:
    """The stage that measures these columns one by one, each at the same price."""
    cells = sum(table.domain.shape(columns))
    which = ("the column" if len(table.columns) == 1 else "each column" if len(columns) == len(table.columns) else
             ", ".join(columns))
    return f"counts of the values of {which}: {cells:,} cells, {error_stage(table, each)}"


def error_stage(table: CodedTable, each: Cost) -> str:
    """The standard error of a count that is measured at a price, in words."""
    return f"standard error {math.sqrt(noise_for(table, each).variance):.3g}"


def size_stage(cells: int) -> str:
    """The largest possible model, in words."""
    return f"a model of {cells:,} cells at most ({max(cells * CELL / 2**20, 0.1):.1f} MB)"


def measurement(what: str, of: str, method: str, price: Cost, about: tuple[str, ...] = ()) -> Measurement:
    """A stage as a line of EXPLAIN: the table or model, the method, and the price."""
    return Measurement(what=what, aggregates=(of,), price=amount(price), mechanism=method, noise="discrete, on counts",
                       about=about, against={})
