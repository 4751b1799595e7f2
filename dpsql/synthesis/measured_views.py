"""The views of linked tables that are measured, and what one reveals about the columns of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from dpsql.frozen import Frozen, replace
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.mirror_descent import fit
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.sampling import Places
from dpsql.models.table_model import TableModel
from dpsql.synthesis.column_forms import Form, PlannedForm
from dpsql.synthesis.linked_views import LinkedTables, LowerTable
from dpsql.synthesis.method import CodedTable, Measured, SynthesisTask, columns_of_versions
from dpsql.synthesis.methods.marginal_requests import told_of
from dpsql.synthesis.same_levels import with_same_levels
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.workload.domain import has_room
from dpsql.workload.factors import Array

SWEEPS = 20  # of proportional fitting


class LinkedView(Frozen):
    """A view that is measured, and the forms of its columns."""

    task: SynthesisTask
    forms: tuple[PlannedForm, ...]

    @property
    def table(self) -> CodedTable:
        return self.task.table

    def values(self, column: str) -> tuple[Value, ...]:
        """The listed values of a column, or of a coarser version."""
        return next(each.values for each in (*self.table.columns, *self.table.coarser) if each.name == column)

    @property
    def versions(self) -> Mapping[str, str]:
        """The column of each column and coarser version, by their names."""
        return {**{each.name: each.name for each in self.table.columns}, **columns_of_versions(self.table.coarser)}

    def moved(self, column: str, other: LinkedView, name: str) -> Places:
        """For each listed value of a column, its index among those of a column of another view, which includes all values of the
        rows."""
        at = {value: place for place, value in enumerate(other.values(name))}
        return np.array([at.get(value, 0) for value in self.values(column)], dtype=np.int64)


class FittedView(LinkedView):
    """A view after it was measured, with the coarser bins in which its columns were counted."""

    forms: tuple[Form, ...]
    measured: Measured

    @property
    def model(self) -> TableModel:
        return self.measured.model

    def fitted_to(self, more: Iterable[MarginalMeasurement] = ()) -> FittedView:
        """The same with a model that is fitted anew to all counts, and to more, until it cannot be nearer to them: dependence is
        small between rows of large tables, and a fit that stops earlier makes it smaller."""
        model, task = self.model, self.task
        if not isinstance(model, MarkovNetwork):
            return self
        counts = told_of(model.domain, (*task.known, *self.measured.marginals, *more))
        model = fit(model.domain, counts, start=model, impossible=task.table.impossible, to_optimum=True)
        return replace(self, measured=replace(self.measured, model=model))


def with_bins_above(table: LowerTable, view: LinkedView, above: FittedView) -> LinkedView:
    """A view of a table's rows, with the coarser bins that the given columns have in the view of those above or before."""
    prefix = table.before("")
    names = {name: table.column(name.removeprefix(prefix)) if name.startswith(prefix) else name for name in view.task.given}
    return replace(view, task=replace(view.task, table=with_same_levels(view.table, above.table, names)))


def known_of_parents(table: LowerTable, tables: LinkedTables, whole: FittedView, later: LinkedView) -> tuple[
        MarginalMeasurement, ...]:
    """What the first view reveals about the columns of the parents of a table's later rows: these are the parents with several
    rows. Only for a table right below the top one, of which both views have one row of each entity."""
    if table.parent != tables.top.at or not whole.table.rows == later.table.rows == 1:
        return ()
    return tuple(_known(_parents(table, tables, whole), table, whole, later))


def known_of_rows_before(table: LowerTable, tables: LinkedTables, first: FittedView, later: FittedView) -> tuple[
        MarginalMeasurement, ...]:
    """How the columns of the row before a later one depend on each other and on the parent, taken from first rows. The counts of
    single columns are those of the view of later rows.

    Without it, two columns of the row before that tell the same would count twice.
    """
    step = None if table.step is None else table.column(table.step)
    before = {name: table.before(name.removeprefix(table.column(""))) for name, column in first.versions.items()
              if column in map(table.column, table.own) and column != step}
    names, found = {**_parents(table, tables, first), **before}, []
    for each in _known(names, table, first, later):
        if len(each.columns) > 1 and not set(each.columns).isdisjoint(before.values()):
            single = [later.model.marginal((column,)) for column in each.columns]
            found.append(replace(each, values=_proportional(each.values, single)))
    return tuple(found)


def _parents(table: LowerTable, tables: LinkedTables, first: FittedView) -> dict[str, str]:
    """The columns of the parent, the number of its rows, and their coarser versions, which have the same names in both views."""
    parent = tables.by_place[table.parent]
    columns = {table.rows, *map(parent.column, parent.own)}
    return {name: name for name, column in first.versions.items() if column in columns}


def _known(names: Mapping[str, str], table: LowerTable, first: FittedView, later: LinkedView) -> Iterator[MarginalMeasurement]:
    """The measured marginals of the view of first rows over columns with `names` in that of later ones, of the parents with
    several rows."""
    several = np.array([number or 0 for number in first.values(table.rows)], dtype=np.int64) >= 2
    for each in first.measured.marginals:
        columns = (*(column for column in each.columns if column != table.rows), table.rows)
        if not names.keys() >= set(each.columns) or not has_room(*first.model.domain.shape(columns)):
            continue
        counts = first.model.marginal(columns) * several
        if table.rows not in each.columns:
            counts, columns = counts.sum(axis=-1), columns[:-1]
        moved = tuple(names[column] for column in columns)
        if not later.versions.keys() >= set(moved):
            continue  # the price was too low for coarser versions
        values = np.zeros([len(later.values(column)) for column in moved])
        places = (first.moved(old, later, new) for old, new in zip(columns, moved, strict=True))
        np.add.at(values, np.ix_(*places), counts)
        yield MarginalMeasurement(columns=moved, values=values, variance=each.variance)


def _proportional(counts: Array, single: Sequence[Array]) -> Array:
    """Counts with the dependence of these, and the given counts along each axis: iterative proportional fitting."""
    found = np.maximum(counts, 0) + 1e-9 * counts.sum()
    for _ in range(SWEEPS):
        for axis, wanted in enumerate(single):
            others = tuple(other for other in range(found.ndim) if other != axis)
            now = found.sum(axis=others)
            factor = np.divide(wanted, now, out=np.zeros_like(now), where=now > 0)
            found = found * factor.reshape([-1 if other == axis else 1 for other in range(found.ndim)])
    return np.asarray(found)
