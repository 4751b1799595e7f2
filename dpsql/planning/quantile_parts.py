"""Quantiles: places in the order of a column, which are selected together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from dpsql.estimates import Estimate
from dpsql.mechanisms.mechanism import Estimates, Ordered, SharedRanks
from dpsql.planning.contribution_bound import BoundedQuestion
from dpsql.planning.part_kind import LimitedRows, PartKind, Reach, reach_of
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.parts import Decomposition, Quantiles
from dpsql.questions.question import AggregateCall
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import Node

MANY_PLACES = 2**12  # of a quantile's grid: with fewer places, values that many rows share are close to each other on it


class QuantilesKind(PartKind[Quantiles]):
    """Quantiles of one column."""

    ranked = True

    def task(self, at: int, part: Quantiles, asked: BoundedQuestion, rows: LimitedRows) -> Ordered:
        most = stability(rows.view, rows.public).rows
        assert most is not None
        return Ordered(at=at, input=rows.view, part=part, rows=most)

    def shared_task(self, at: int, part: Quantiles, asked: BoundedQuestion, view: Node,
                    reach: Reach | None = None) -> SharedRanks:
        clip, reach = asked.options.clip, reach or reach_of(asked, view, derived=True)
        level = reach.rows if reach.declared else None if clip is None else max(1, math.ceil(clip))
        return SharedRanks(at=at, input=view, owners=asked.known.owners, part=part, most=reach.rows, level=level)

    def sample(self, at: int, part: Quantiles, asked: BoundedQuestion) -> Ordered:
        return Ordered(at=at, input=asked.view, part=part, rows=asked.known.rows or 1)

    def words(self, part: Quantiles, asked: BoundedQuestion) -> str:
        fractions = ", ".join(f"{float(fraction):g}" for fraction in part.fractions)
        return f"quantiles {fractions} of {asked.view.names[part.column]} in [{part.grid.low:g}, {part.grid.high:g}]"

    def notes(self, asked: BoundedQuestion, parts: Decomposition, view: Node, estimates: Mapping[int, Estimates], *,
              kept: bool) -> Iterator[str]:
        """Notes on quantiles whose grid has far more places than the values need; not for those of a bound's mechanism.

        The probability of selecting a place between two values that many rows share grows with the number of such places. So if
        the quantile is among the last rows with its value (within as many scales as the logarithm of the number of places), both
        the estimate and an end of its interval may be selected there.
        """
        if asked.bound.each:
            return
        for column in dict.fromkeys(part.column for part in _quantiles(parts) if part.grid.most > MANY_PLACES):
            yield (f"intervals of quantiles of {view.names[column]} are valid if values differ; if many rows share one, such "
                   "as a round number, they may be too narrow (decimals or power_of_two in the policy, as coarse as the values, "
                   "help)")


def open_at_found_bounds(call: AggregateCall, searched: Sequence[str], parts: Decomposition, estimate: Estimate) -> Estimate:
    """The estimate of a quantile within privately found bounds. Its interval is open at such a bound, as the truth may be beyond
    it."""
    grid = next((part.grid for part in _quantiles(parts) if part.column in (set(searched) & set(call.columns))
                 and call.aggregate.kind is Kind.RANK), None)
    return estimate if grid is None else estimate.open_at(*map(float, (grid.low, grid.low + grid.most * grid.step)))


def _quantiles(parts: Decomposition) -> list[Quantiles]:
    return [part for part in parts.parts if isinstance(part, Quantiles)]
