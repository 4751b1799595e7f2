"""The exponential mechanism on ranks: quantiles, one or several of a column, to the full resolution of its grid."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.accounting.cost import Cost
from dpsql.measurements import ROUNDING
from dpsql.mechanisms.mechanism import No, Ordered, Script, Setting, Task, Verdict, Yes
from dpsql.mechanisms.select.quantiles import AROUND_SHARE, ERROR_SHARE, TIES, QuantileSearch, exponential_scale, levels, searched
from dpsql.plan.operators.ranks import Ranks


class Exponential:
    """A value is drawn with probability proportional to exp(-(distance of its rank) / scale). Proof: `measurements.Select`."""

    name, kind = "exponential", Ordered

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Ordered):
            return No(because="it chooses values by their rank")
        depth = levels(len(task.part.fractions))
        if allotted.part(min((1 - ERROR_SHARE) / depth, AROUND_SHARE)).as_epsilon <= 2 * task.rows * ROUNDING:
            return No(because="the price is as small as the rounding of its draws")
        scale = exponential_scale(task.rows)(allotted.part((1 - ERROR_SHARE) / depth), 1)
        return Yes(error=scale * depth, noise=f"ranks off by {scale * depth:.4g} rows or so")

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        found = []
        for task, allotted in tasks:
            assert isinstance(task, Ordered)
            ties = TIES if len(task.part.fractions) > 1 and task.rows else 0
            plan = Ranks(input=task.input, keys=setting.keys, column=task.part.column, grid=task.part.grid, when=task.part.when,
                         ties=ties)
            found.append((yield from searched(QuantileSearch(
                task=task, setting=setting, plan=plan, price=allotted, scale=exponential_scale(task.rows), flip=False))))
        return found
