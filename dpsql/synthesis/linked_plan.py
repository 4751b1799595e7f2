"""The plan of several tables that hang together: the views that are measured, one after the other, for shares of one price.

What is learned of the parents' columns in the first view is known in the views of later rows, and is not paid for again: where
each entity has one row in both, these rows are the same entities, but for those that have one row below, or none. Columns of the
parent and of the row before have the same coarser versions in all views, so that a value and the one before it can be counted
together at a resolution that noise leaves.

Columns whose bins follow the rows are cut first (`linked_bins`). Until then the plan assumes the largest number of bins.

A model of later rows is fitted twice. Marginals are chosen as if the columns of the row before were not known, or the choice
would neglect how later rows depend on the parent. Then their dependence on each other is taken from the first view.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from fractions import Fraction
from typing import Any

from dpsql.frozen import Frozen, replace
from dpsql.planning.explain import Measurement
from dpsql.synthesis.column_forms import not_learned
from dpsql.synthesis.dependent_columns import DependentColumn, dependency_stage, determined, part_for
from dpsql.synthesis.first_rows import without_rows
from dpsql.synthesis.learned_bins import least_rows
from dpsql.synthesis.linked_bins import MOST, Cut, UncutRows, in_learned_bins, with_cut_columns
from dpsql.synthesis.linked_rules import with_rules
from dpsql.synthesis.linked_views import LinkedTable, LinkedTables
from dpsql.synthesis.measured_views import FittedView, LinkedView, known_of_parents, known_of_rows_before, with_bins_above
from dpsql.synthesis.method import SynthesisTask
from dpsql.synthesis.method_choice import MethodChoice
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.row_rules import Evaluator
from dpsql.synthesis.table_options import SynthesisTerms
from dpsql.synthesis.table_plan import told_to_who_waits
from dpsql.synthesis.valid_combinations import FollowingColumn
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import Node


class LinkedPairs(Frozen):
    """Rows of a table in which columns that determine others are counted with these, the `dependent` ones, for a part of the
    price of the task."""

    task: SynthesisTask
    dependent: tuple[DependentColumn, ...]

    @property
    def part(self) -> Fraction:
        """The part of the price of the task that they cost."""
        return len(self.dependent) * part_for(self.dependent)


class LinkedPlan(Frozen):
    """What will be measured, by which method and for which prices.

    whole  the view of the top table's rows, with the first rows that hang on each
    first  the views of first rows further below, by the place of the table in the statement
    later  the views of later rows
    pairs  the rows by which columns that determine others are counted together with these, by the place of the table
    uncut  the rows by which columns are cut into bins, by the place of the table. The prices of the views are what is left if
           bins cost as much as they may
    """

    tables: LinkedTables
    whole: LinkedView
    first: Mapping[int, LinkedView]
    later: Mapping[int, LinkedView]
    pairs: Mapping[int, LinkedPairs]
    uncut: Mapping[int, UncutRows]
    choice: MethodChoice
    terms: SynthesisTerms
    price: Cost
    statement: str
    notes: tuple[str, ...] = ()

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
        return (*(view.table.view for _, view in self.views), *(pairs.task.table.view for pairs in self.pairs.values()),
                *(rows.task.table.view for rows in self.uncut.values()))

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What will be measured, for EXPLAIN."""
        method, found = self.choice.method, []
        for of, view in self.views:
            first, *others = method.stages(view.task)
            found.append(measurement(first, of, method.name, view.task.price, tuple(others)))
        counted = [measurement(dependency_stage(each.task, each.dependent), f"pairs of {self.tables.by_place[at].name}",
                               method.name, each.task.price.part(each.part)) for at, each in self.pairs.items()]
        cut = [rows.stage(self.tables.by_place[at].name, method.name) for at, rows in self.uncut.items()]
        return (replace(found[0], against=dict(self.choice.against)), *found[1:], *counted, *cut)

    def cut(self, evaluator: Evaluator | None) -> Generator[Request, Any, LinkedPlan]:
        """The plan with bins that follow the rows, and without the combinations of values that no row can have."""
        cut, spent = dict[int, Cut](), Fraction(0)
        for at, rows in self.uncut.items():
            cut[at], part = yield from rows.cut(self._least_rows(self.tables.by_place[at]))
            spent += part
        tables = with_cut_columns(self.tables, cut)
        left = (1 - spent) / (1 - MOST) if self.uncut else Fraction(1)

        def settled(view: LinkedView, *drawn: LinkedTable) -> LinkedView:
            view = in_learned_bins(view, tables, cut)
            table = replace(view.table, excluded=without_rows(tables, view.table)) if tables.top in drawn else view.table
            table = with_rules(table, [not_learned(form) for form in view.forms], drawn, evaluator)
            return replace(view, task=replace(view.task, table=table, price=view.task.price.part(left)))

        return replace(self, tables=tables, uncut={}, whole=settled(self.whole, tables.top, *tables.below(tables.top)),
                       first={at: settled(view, tables.by_place[at]) for at, view in self.first.items()},
                       later={at: settled(view, tables.by_place[at]) for at, view in self.later.items()})

    def _least_rows(self, table: LinkedTable) -> float:
        """How many rows a bin of a table's columns should have, by the noise of the views in which these are drawn."""
        views = [self.first.get(table.at, self.whole), *([self.later[table.at]] if table.at in self.later else [])]
        return max(least_rows(view.task) for view in views)

    def measure(self) -> Generator[Request, Any, LinkedModels]:
        """Measure the views one by one, and fit a model to each."""
        following = dict[int, tuple[FollowingColumn, ...]]()
        for at, pairs in self.pairs.items():
            columns = (*pairs.task.table.columns, *(one.coded for one in pairs.dependent))
            following[at] = yield from told_to_who_waits(determined(pairs.task, pairs.dependent), columns)
        whole = yield from self._measured(self.whole)
        models = LinkedModels(whole=whole, first={}, later={}, following=following)
        for table in self.tables.lower:
            if table.at in self.first:
                view = with_bins_above(table, self.first[table.at], models.first_of(self.tables.by_place[table.parent]))
                models = replace(models, first={**models.first, table.at: (yield from self._measured(view))})
            if table.at in self.later:
                view = with_bins_above(table, self.later[table.at], models.first_of(table))
                view = replace(view, task=replace(view.task, known=known_of_parents(table, self.tables, whole, view)))
                found = yield from self._measured(view)
                found = found.fitted_to(known_of_rows_before(table, self.tables, models.first_of(table), found))
                models = replace(models, later={**models.later, table.at: found})
        return models

    def _measured(self, view: LinkedView) -> Generator[Request, Any, FittedView]:
        """Measure a view, and fit a model to all of its counts."""
        measured = yield from told_to_who_waits(self.choice.method.measure(view.task), view.table.columns)
        table = replace(view.table, coarser=measured.coarser)
        found = FittedView(task=replace(view.task, table=table), forms=tuple(map(not_learned, view.forms)), measured=measured)
        return found.fitted_to()


class LinkedModels(Frozen):
    """What was measured, and the models, of the views of a plan; and the columns that follow from others, by table."""

    whole: FittedView
    first: Mapping[int, FittedView]
    later: Mapping[int, FittedView]
    following: Mapping[int, tuple[FollowingColumn, ...]]

    def first_of(self, table: LinkedTable) -> FittedView:
        """The view that contains the first rows of a table."""
        return self.first.get(table.at, self.whole)
