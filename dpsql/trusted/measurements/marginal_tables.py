"""Marginals of a view by listed values, counted once for all requests of a statement that choose among them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpsql.frozen import Frozen, field
from dpsql.trusted.field_types import Assumptions, Natural
from dpsql.trusted.matrices.matrices import Exact
from dpsql.trusted.measurements.block_sums import LARGEST, Axis, MergedAxis, occupied
from dpsql.trusted.measurements.listed import are_axes
from dpsql.trusted.measurements.reading.occupied_cells import Filled
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums

MOST_MERGED = 2**16  # cells of a marginal from which others are computed, at most: hundreds of these marginals may be kept
Places = tuple[Natural, ...]  # of the axes of a marginal, in the order of its own axes


class MarginalTables(Frozen, kw_only=False):
    """The non-empty cells, and the marginals requested so far."""

    filled: Filled
    tables: dict[Places, Exact] = field(default_factory=dict)

    def table(self, places: Places) -> Exact:
        """The counts of a marginal as a vector, with the last axis changing fastest."""
        if places not in self.tables:
            self.tables[places] = self._table(places).reshape(-1)
        return self.tables[places]

    def _table(self, places: Places) -> Exact:
        """The marginal. One with merged axes is computed from that of the axes which they merge, if this is small: others may
        follow from it too."""
        filled = self.filled
        roots = tuple(dict.fromkeys(map(filled.root, places)))
        shape = [filled.sizes[axis] for axis in roots]
        if roots == places or math.prod(shape) > MOST_MERGED:
            return filled.marginal(places)
        return filled.merged_marginal(self.table(roots).reshape(shape), roots, places)


def marginal_tables(plan: GroupedSums, axes: tuple[Axis, ...], context: Context,
                    merged: tuple[MergedAxis, ...] = ()) -> MarginalTables:
    """The exact counts; they are read again only if another view or other axes were used last."""
    asked = (plan, axes, merged)
    if context.last.asked != asked:
        context.last.found = MarginalTables(occupied(plan, axes, context, merged))
        context.last.asked = asked
    found: MarginalTables = context.last.found
    return found


def are_merged(axes: Sequence[Axis], merged: Sequence[MergedAxis]) -> bool:
    """Whether each further axis merges all cells of an earlier axis."""
    sizes = _sizes(axes, merged)
    return all(each.of < at and len(each.cells) == sizes[each.of] for at, each in enumerate(merged, len(axes)))


def are_places(places: Places, sizes: Sequence[int]) -> bool:
    """Whether a candidate is a list of different axes whose marginal is not too large."""
    return (len({*places}) == len(places) and max(places, default=0) < len(sizes)
            and math.prod(sizes[place] for place in places) <= LARGEST)


def are_candidates(axes: Sequence[Axis], marginals: Sequence[Places], expected: Sequence[Sequence[int]],
                   merged: Sequence[MergedAxis] = ()) -> Assumptions:
    """Assumptions about marginals in the proofs of choices among them."""
    yield are_axes(axes), "axes must be different columns of the view"
    yield are_merged(axes, merged), "a merged axis must merge all cells of an earlier one"
    sizes = _sizes(axes, merged)
    yield all(sizes), "every axis needs a value"
    yield len(marginals) == len(expected) > 0, "every candidate needs expected counts"
    for places, counts in zip(marginals, expected, strict=True):
        yield are_places(places, sizes), f"a candidate must be a list of different axes with at most {LARGEST} cells"
        yield len(counts) == math.prod(sizes[place] for place in places), "every cell of a candidate needs an expected count"


def _sizes(axes: Sequence[Axis], merged: Sequence[MergedAxis]) -> list[int]:
    return [*(axis.size for axis in axes), *(each.size for each in merged)]
