"""Permute-and-flip on ranks: for a pure epsilon and coarse grids; at best half the error of the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpsql.frozen import replace
from dpsql.mechanisms.mechanism import Accepted, Ordered, Rejected, Script, Task, TaskContext, Verdict
from dpsql.mechanisms.select.quantiles import QuantileSearch, searched
from dpsql.questions.parts import Quantiles
from dpsql.trusted.accounting.cost import Cost

MOST_VALUES = 2**16  # every value of the grid is a candidate, one by one


class PermuteAndFlip:
    """Values in random order, each accepted with probability exp(-(distance of its rank) / scale). Proof: `Select`."""

    name, kind = "permute_and_flip", Ordered

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Ordered):
            return Rejected(because="it chooses values by their rank")
        if len(task.part.fractions) > 1:
            return Rejected(because="it chooses one quantile of a column")
        search = QuantileSearch(task=task, price=allotted, flip=True)
        if not search.affordable:
            return Rejected(because="the price is as small as the rounding of its draws")
        coarse = coarser(task.part).grid
        fits = coarse == task.part.grid  # a coarser grid is used only if the statement names this mechanism
        return Accepted(error=search.error if fits else math.inf,
                        noise=f"ranks off by {search.error:.4g} rows or so, values in steps of {float(coarse.step):g}")

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        found = []
        for task, allotted in tasks:
            assert isinstance(task, Ordered)
            held = replace(task, part=coarser(task.part))
            estimates = yield from searched(QuantileSearch(task=held, price=allotted, flip=True), context)
            factor = float(held.part.grid.step / task.part.grid.step)
            found.append(tuple(estimate * factor for estimate in estimates))
        return found


def coarser(part: Quantiles) -> Quantiles:
    """The same quantiles on a grid coarse enough to have at most MOST_VALUES values."""
    factor = -(-part.grid.most // (MOST_VALUES - 1))
    return part if factor <= 1 else replace(part, grid=replace(part.grid, step=part.grid.step * factor))
