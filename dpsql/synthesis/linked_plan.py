"""The plan of several tables that hang together: the views that are measured, one after the other, for shares of one price.

What is learned of the parents' columns in the first view is known in the views of later rows, and is not paid for again: where
each entity has one row in both, these rows are the same entities, but for those that have one row below, or none.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.sampling import Places
from dpsql.planning.explain import Measurement
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.linked_views import LinkedTables, LowerTable
from dpsql.synthesis.method import CodedTable, Measured, Measuring, SynthesisTask
from dpsql.synthesis.method_choice import MethodChoice
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.table_options import SynthesisTerms
from dpsql.synthesis.table_plan import told_to_who_waits
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node
from dpsql.workload.domain import has_room


class LinkedView(Frozen):
    """A view that is measured, and the forms of its columns."""

    task: SynthesisTask
    forms: tuple[Form, ...]

    @property
    def table(self) -> CodedTable:
        return self.task.table

    def values(self, column: str) -> tuple[Value, ...]:
        """The listed values of a column."""
        return next(each.values for each in self.table.columns if each.name == column)

    def moved(self, column: str, other: LinkedView, name: str) -> Places:
        """For each listed value of a column, its index among those of a column of another view, which includes all values of the
        rows."""
        at = {value: place for place, value in enumerate(other.values(name))}
        return np.array([at.get(value, 0) for value in self.values(column)], dtype=np.int64)


class LinkedPlan(Frozen):
    """What will be measured, by which method and for which prices.

    whole  the view of the top table's rows, with the first rows that hang on each
    first  the views of first rows further below, by the place of the table in the statement
    later  the views of later rows
    """

    tables: LinkedTables
    whole: LinkedView
    first: Mapping[int, LinkedView]
    later: Mapping[int, LinkedView]
    choice: MethodChoice
    terms: SynthesisTerms
    price: Cost
    statement: str
    notes: tuple[str, ...] = ()

    def first_of(self, table: LowerTable) -> LinkedView:
        """The view that contains the first rows of a table."""
        return self.first.get(table.at, self.whole)

    @property
    def views(self) -> tuple[tuple[str, LinkedView], ...]:
        """All views in the order in which they are measured, each with a description."""
        found = [(f"{self.tables.top.name} with first rows", self.whole)]
        for table in self.tables.lower:
            found += [(f"{what} rows of {table.name}", views[table.at])
                      for what, views in (("first", self.first), ("later", self.later)) if table.at in views]
        return tuple(found)

    @property
    def relations(self) -> tuple[Node, ...]:
        """The relations that are queried."""
        return tuple(view.table.view for _, view in self.views)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What will be measured, for EXPLAIN."""
        method, found = self.choice.method, []
        for of, view in self.views:
            first, *others = method.stages(view.task)
            found.append(measurement(first, of, method.name, view.task.price, tuple(others)))
        return (replace(found[0], against=dict(self.choice.against)), *found[1:])

    def measure(self) -> Generator[Request, Any, LinkedModels]:
        """Measure the views one by one, and fit a model to each."""
        whole = yield from self._measured(self.whole.task)
        first, later = {}, {}
        for table in self.tables.lower:
            if table.at in self.first:
                first[table.at] = yield from self._measured(self.first[table.at].task)
            if table.at in self.later:
                known = self.known(table, whole)
                given = frozenset(column for each in known for column in each.columns)
                task = replace(self.later[table.at].task, known=known, given=given)
                later[table.at] = yield from self._measured(task)
        return LinkedModels(whole=whole, first=first, later=later)

    def _measured(self, task: SynthesisTask) -> Measuring:
        return told_to_who_waits(self.choice.method.measure(task), task.table.columns)

    def known(self, table: LowerTable, whole: Measured) -> tuple[MarginalMeasurement, ...]:
        """What the counts of the first view reveal about the columns that are given in the view of a table's later rows:
        counts of the parents with several rows, and of the first of these rows, which are nearly those of the rows before
        later ones. This does not hold for the column that rises from row to row, of which nothing is used. Counts that would
        be too many are not used either.

        Without them, two columns of the row before that tell the same would count twice.
        """
        later = self.later[table.at]
        if table.parent != self.tables.top.at or not self.whole.table.rows == later.table.rows == 1:
            return ()
        several = np.array([number or 0 for number in self.whole.values(table.rows)], dtype=np.int64) >= 2
        names = {column: column for column in (*map(self.tables.top.column, self.tables.top.own), table.rows)}
        names |= {table.column(own): table.before(own) for own in table.own if own != table.step}
        found = []
        for each in whole.marginals:
            if names.keys() >= set(each.columns):
                columns = (*(column for column in each.columns if column != table.rows), table.rows)
                if not has_room(*whole.model.domain.shape(columns)):
                    continue
                counts = whole.model.marginal(columns) * several
                if table.rows not in each.columns:
                    counts, columns = counts.sum(axis=-1), columns[:-1]
                moved = tuple(names[column] for column in columns)
                values = np.zeros(later.table.domain.shape(moved))
                places = (self.whole.moved(old, later, new) for old, new in zip(columns, moved, strict=True))
                np.add.at(values, np.ix_(*places), counts)
                found.append(MarginalMeasurement(columns=moved, values=values, variance=each.variance))
        return tuple(found)


class LinkedModels(Frozen):
    """What was measured, and the models, of the views of a plan."""

    whole: Measured
    first: Mapping[int, Measured]
    later: Mapping[int, Measured]

    def first_of(self, table: LowerTable) -> Measured:
        """The model that contains the first rows of a table."""
        return self.first.get(table.at, self.whole)
