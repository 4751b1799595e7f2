"""The exponential mechanism on ranks: one or several quantiles of a column, at the full resolution of its grid."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.mechanisms.mechanism import Accepted, Ordered, Rejected, Script, Task, TaskContext, Verdict
from dpsql.mechanisms.select.quantiles import QuantileSearch, searched
from dpsql.trusted.accounting.cost import Cost


class Exponential:
    """A value is drawn with probability proportional to exp(-(distance of its rank) / scale).

    Proof: `measurements.select.Select`.
    """

    name, kind = "exponential", Ordered

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Ordered):
            return Rejected(because="it chooses values by their rank")
        search = QuantileSearch(task=task, price=allotted)
        if not search.affordable:
            return Rejected(because="the price is as small as the rounding of its draws")
        return Accepted(error=search.error, noise=f"ranks off by {search.error:.4g} rows or so")

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        found = []
        for task, allotted in tasks:
            assert isinstance(task, Ordered)
            found.append((yield from searched(QuantileSearch(task=task, price=allotted), context)))
        return found
