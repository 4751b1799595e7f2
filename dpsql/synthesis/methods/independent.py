"""Every column by itself: the noisy counts of its values, each for an equal share of the price."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.frozen import replace
from dpsql.models.mirror_descent import fit
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.synthesis.method import Measured, Measuring, Method, SynthesisTask
from dpsql.synthesis.methods.marginal_requests import counted, told_of, unknown_columns
from dpsql.synthesis.methods.stages import singles_stage, size_stage


class Independent(Method):
    """The method of tables with one column, and the one that others are compared with."""

    name = "independent"

    def parts(self, task: SynthesisTask) -> int:
        return len(task.columns)

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure one marginal for each column that is not known well enough; if all are, for every column."""
        columns = self._columns(task)
        found = []
        for column in columns:
            found.append((yield from counted(task.table, (column,), task.price.part(Fraction(1, len(columns))))))
        known = [each for each in task.known if len(each.columns) == 1]
        return Measured(marginals=tuple(found), model=fit(
            task.table.domain, [*known, *found], impossible=task.table.excluded))

    def again(self, task: SynthesisTask, found: Sequence[MarginalMeasurement]) -> Measuring:
        """Measure all columns for the price of the task, after the marginals `found` by a method whose price is too low to
        continue."""
        more = (yield from self.measure(replace(task, known=(*task.known, *found)))).marginals
        domain = task.table.domain
        return Measured(marginals=(*found, *more), model=fit(
            domain, told_of(domain, [*task.known, *found, *more]), impossible=task.table.excluded))

    def _columns(self, task: SynthesisTask) -> list[str]:
        return unknown_columns(task, task.price.part(Fraction(1, len(task.columns)))) or list(task.columns)

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        columns = self._columns(task)
        return (singles_stage(task.table, columns, task.price.part(Fraction(1, len(columns)))),
                size_stage(sum(task.table.domain.sizes)))
