"""Bins of linked tables that follow the rows, learned as those of a single table are (`learned_bins`).

Each table learns its own columns, before any view is measured, and a column has the same bins in all views. Of a table below the
top one, one row of each entity is counted. All tables together spend at most a tenth of the price, each in proportion to the
number of its columns; what they leave is spent on the views. A single table spends a fifth; here several views share the rest,
and need it more (`tests/bench/linked.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from dpsql.frozen import Frozen, replace
from dpsql.planning.explain import Measurement
from dpsql.synthesis.column_forms import BinnedColumn, Form, UncutColumn
from dpsql.synthesis.learned_bins import LEARNING, in_bins, learned_columns, learning_stage
from dpsql.synthesis.linked_views import LinkedTable, LinkedTables, LowerTable
from dpsql.synthesis.measured_views import LinkedView
from dpsql.synthesis.method import SynthesisTask
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.table_plan import told_to_who_waits
from dpsql.trusted.measurements.reading.request import Request

Cut: TypeAlias = Mapping[str, BinnedColumn]  # by the names of the columns
MOST = Fraction(1, 10)  # of the price, for all tables


class UncutRows(Frozen):
    """Rows of a table by which some of its columns are cut into bins, for at most the fraction `most` of the price of all tables.
    The price of the task is that of a single table which spends as much on bins."""

    task: SynthesisTask
    forms: tuple[UncutColumn, ...]
    most: Fraction

    def stage(self, table: str, method: str) -> Measurement:
        """What will be measured, for EXPLAIN."""
        stage = learning_stage(self.task, [form.name for form in self.forms], "this price")
        return measurement(stage, f"bins of {table}", method, self.task.price.part(LEARNING))

    def cut(self, least: float) -> Generator[Request, Any, tuple[Cut, Fraction]]:
        """The columns in bins of `least` rows, about, or more, and the part of the price of all tables that was spent."""
        columns = self.task.table.columns
        uncut = {column.column: form for column, form in zip(columns, self.forms, strict=True)}
        found = yield from told_to_who_waits(learned_columns(self.task, uncut, least), columns)
        return {form.name: form for form in found.forms}, found.spent * self.most / LEARNING


def with_cut_columns(tables: LinkedTables, cut: Mapping[int, Cut]) -> LinkedTables:
    """The tables with columns in bins, by the places of the tables."""
    def settled(table: LinkedTable) -> tuple[Form | UncutColumn, ...]:
        return tuple(cut.get(table.at, {}).get(form.name, form) for form in table.forms)

    return replace(tables, top=replace(tables.top, forms=settled(tables.top)),
                   lower=tuple(replace(table, forms=settled(table)) for table in tables.lower))


def in_learned_bins(view: LinkedView, tables: LinkedTables, cut: Mapping[int, Cut]) -> LinkedView:
    """A view of the tables with columns in bins, of first rows, of later ones, and of those before these."""
    learned = dict[str, BinnedColumn]()
    for at, forms in cut.items():
        table = tables.by_place[at]
        learned |= {table.column(own): form for own, form in forms.items()}
        learned |= {table.before(own): form for own, form in forms.items()} if isinstance(table, LowerTable) else {}
    settled = tuple(replace(learned[form.name], name=form.name, nullable=form.nullable) if isinstance(form, UncutColumn) else form
                    for form in view.forms)
    bins = {column.column: form for column, form, uncut in zip(view.table.columns, settled, view.forms, strict=True)
            if isinstance(uncut, UncutColumn) and isinstance(form, BinnedColumn)}
    return replace(view, forms=settled, task=replace(view.task, table=in_bins(view.table, bins)))
