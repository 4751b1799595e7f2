"""Every column by itself: the noisy counts of its values, each for an equal share of the price."""

from __future__ import annotations

from fractions import Fraction

from dpsql.accounting.cost import Cost
from dpsql.models.mirror_descent import fit
from dpsql.synthesis.method import CodedTable, Measured, Measuring
from dpsql.synthesis.methods.marginal_requests import counted
from dpsql.synthesis.methods.stages import singles_stage


class Independent:
    """The method of tables with one column, and the one that others are compared with."""

    name = "independent"

    def measure(self, table: CodedTable, price: Cost) -> Measuring:
        """One marginal for each column."""
        columns, found = table.domain.columns, []
        for column in columns:
            found.append((yield from counted(table, (column,), price.part(Fraction(1, len(columns))))))
        return Measured(marginals=tuple(found), network=fit(table.domain, found))

    def told(self, table: CodedTable, price: Cost) -> tuple[str, ...]:
        return (singles_stage(table, price.part(Fraction(1, len(table.columns)))),)
