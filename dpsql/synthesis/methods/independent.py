"""Every column by itself: the noisy counts of its values, each for an equal share of the price."""

from __future__ import annotations

from fractions import Fraction

from dpsql.models.mirror_descent import fit
from dpsql.synthesis.method import Measured, Measuring, Method, SynthesisTask
from dpsql.synthesis.methods.marginal_requests import counted
from dpsql.synthesis.methods.stages import singles_stage


class Independent(Method):
    """The method of tables with one column, and the one that others are compared with."""

    name = "independent"

    def measure(self, task: SynthesisTask) -> Measuring:
        """One marginal for each column."""
        table, columns, found = task.table, task.table.domain.columns, []
        for column in columns:
            found.append((yield from counted(table, (column,), task.price.part(Fraction(1, len(columns))))))
        return Measured(marginals=tuple(found), model=fit(table.domain, found))

    def told(self, task: SynthesisTask) -> tuple[str, ...]:
        return (singles_stage(task.table, task.price.part(Fraction(1, len(task.table.columns)))),)
