"""Marginals of a view by listed values, counted once for all requests of a statement that choose among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpsql.measurements.block_sums import LARGEST, Axis, occupied
from dpsql.measurements.listed import check_columns
from dpsql.measurements.reading.occupied_cells import Filled
from dpsql.measurements.reading.request import Context
from dpsql.noise.choice import MOST_SCORE
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.workload.factors import Exact

Places = tuple[int, ...]  # of the axes of a marginal, in the order of its own axes


@dataclass(frozen=True, slots=True)
class MarginalTables:
    """The cells that have rows, and the marginals that were asked for so far."""

    filled: Filled
    tables: dict[Places, Exact] = field(default_factory=dict)

    def table(self, places: Places) -> Exact:
        """The counts of a marginal, as a vector; the last axis changes first."""
        if places not in self.tables:
            self.tables[places] = self.filled.marginal(places).reshape(-1)
        return self.tables[places]


def marginal_tables(plan: GroupedSums, axes: tuple[Axis, ...], context: Context) -> MarginalTables:
    """The exact counts, read anew only where another view or other axes were asked for last."""
    asked = (plan, axes)
    if context.last.asked != asked:
        context.last.found = MarginalTables(occupied(plan, axes, context))
        context.last.asked = asked
    found: MarginalTables = context.last.found
    return found


def check_axes(axes: object) -> None:
    """Raise ValueError for anything but a tuple of axes of different columns."""
    if type(axes) is not tuple:
        raise ValueError("a choice needs a tuple of axes")
    for axis in axes:
        Axis.check(axis)
    check_columns([axis.column for axis in axes])


def check_places(places: object, axes: Sequence[Axis]) -> None:
    """Raise ValueError for anything but the places of different axes whose marginal is not too large."""
    found = check_numbers(places, 0)
    if len(set(found)) != len(found) or max(found, default=0) >= len(axes):
        raise ValueError("a candidate is a list of different axes")
    if math.prod(axes[place].size for place in found) > LARGEST:
        raise ValueError(f"a candidate has {LARGEST} cells at most")


def check_candidates(axes: tuple[Axis, ...], marginals: tuple[Places, ...], expected: tuple[tuple[int, ...], ...]) -> None:
    """Raise ValueError for anything but different axes, and marginals of them with an expected number for each cell."""
    check_axes(axes)
    if type(marginals) is not tuple or type(expected) is not tuple or not marginals:
        raise ValueError("a choice needs tuples of candidates, and of what is expected of each")
    if len(marginals) != len(expected):
        raise ValueError("every candidate needs expected counts")
    for places, counts in zip(marginals, expected, strict=True):
        check_places(places, axes)
        if len(check_numbers(counts, -MOST_SCORE)) != math.prod(axes[place].size for place in places):
            raise ValueError("a count is expected of every cell of a candidate")


def check_numbers(numbers: object, least: int) -> tuple[int, ...]:
    """The numbers. Raises ValueError for anything but a tuple of whole numbers, none below `least` or too large for floats."""
    if type(numbers) is not tuple or not {type(number) for number in numbers} <= {int}:
        raise ValueError("counts, scores, weights and places are tuples of whole numbers")
    if min(numbers, default=least) < least or max(numbers, default=least) > MOST_SCORE:
        raise ValueError(f"these numbers must lie between {least} and {MOST_SCORE}")
    return numbers
