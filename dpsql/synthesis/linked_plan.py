"""The plan of several tables that hang together: the views that are measured, and how tables are drawn from their models.

The rows of the top table are drawn first, each with the numbers of rows that hang on it. Of each table below, the first row of
every parent is drawn by the model of first rows, given the parent's columns and the number of rows; then row after row by the
model of later rows, given these and the row before. A column that tells rows of one parent apart, such as the year in a person's
years, rises from row to row, as it does in the data: values are left over for the rows that are still to come.

Everything after the last release is post-processing.

Source of the idea to model the rows of one entity given its own row and each other: Cai, Xiao and Cormode, PrivLava:
Synthesizing Relational Data with Foreign Keys under Differential Privacy, SIGMOD 2023. There rows of one parent are independent
given a latent class of the parent. Here they form a chain, with nothing hidden that would have to be learned by rounds of
expectation and maximisation, each of which is paid for.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsql.accounting.cost import Cost
from dpsql.answers.simulation import Simulation
from dpsql.catalog.model import ForeignKey
from dpsql.measurements import Request
from dpsql.models.conditional_draws import Allowed
from dpsql.models.sampling import Places
from dpsql.models.table_domain import Columns
from dpsql.plan.expr.nodes import Value
from dpsql.plan.node import Node
from dpsql.planning.explain import Measurement
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.linked_views import LinkedTable, LinkedTables, LowerTable
from dpsql.synthesis.method import CodedTable, Measured, Method, SynthesisTask
from dpsql.synthesis.methods.stages import measurement
from dpsql.synthesis.released_database import ReleasedDatabase
from dpsql.synthesis.synthetic_table import SyntheticColumn, SyntheticTable
from dpsql.synthesis.table_options import MOST_ROWS, SynthesisTerms
from dpsql.synthesis.table_plan import released_marginals
from dpsql.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedView:
    """A view that is measured: for the rows of one table, all of them, the first ones or the later ones. Its columns `drawn` are
    drawn given the others."""

    task: SynthesisTask
    forms: tuple[Form, ...]
    drawn: Columns

    @property
    def table(self) -> CodedTable:
        return self.task.table

    def values(self, column: str) -> tuple[Value, ...]:
        """The listed values of a column."""
        return next(each.values for each in self.table.columns if each.name == column)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewsOfTable:
    """The views of a table: `first` of all rows, or of the first ones of each parent, and `later` of the others."""

    first: LinkedView
    later: LinkedView | None = None

    @property
    def both(self) -> tuple[LinkedView, ...]:
        return (self.first,) if self.later is None else (self.first, self.later)


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnRows:
    """Rows of a table on the way: for each column its places in the list of values, and for each row that of its parent among the
    rows of the parent's table."""

    places: Mapping[str, Places]
    parents: Places

    @property
    def number(self) -> int:
        return len(self.parents)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedPlan:
    """What will be measured, by which method and for which prices, and how tables are drawn from it.

    views  by the place of the table in the statement
    """

    tables: LinkedTables
    views: Mapping[int, ViewsOfTable]
    method: Method
    terms: SynthesisTerms
    price: Cost
    statement: str
    notes: tuple[str, ...] = ()

    @property
    def measured(self) -> tuple[tuple[str, LinkedView], ...]:
        """All views in the order in which they are measured, each with what it is of."""
        found = [(self.tables.top.name, self.views[self.tables.top.at].first)]
        for table in self.tables.lower:
            views = self.views[table.at]
            found.append((f"the first rows of {table.name}", views.first))
            if views.later is not None:
                found.append((f"the later rows of {table.name}", views.later))
        return tuple(found)

    @property
    def relations(self) -> tuple[Node, ...]:
        """The relations that are queried."""
        return tuple(view.table.view for _, view in self.measured)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What will be measured, for EXPLAIN."""
        return tuple(measurement(line, of, self.method.name, view.task.price) for of, view in self.measured
                     for line in self.method.told(view.task))

    def steps(self, identity: str) -> Generator[Request, Any, ReleasedDatabase]:
        """Measures the views one after the other, fits a model to each, and draws the tables. The draws, which are public, follow
        from the identity of the statement."""
        models: dict[int, list[Measured]] = {}
        for table in (self.tables.top, *self.tables.lower):
            models[table.at] = []
            for view in self.views[table.at].both:
                models[table.at].append((yield from self.method.measure(view.task)))
        return DrawnDatabase(plan=self, models=models, draws=Simulation(int(identity[:16], 16))).made()


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnDatabase:
    """The tables of a plan, drawn from the models of its views."""

    plan: LinkedPlan
    models: Mapping[int, Sequence[Measured]]
    draws: Simulation

    def made(self) -> ReleasedDatabase:
        """All tables, in the order of the statement."""
        plan, top = self.plan, self.plan.tables.top
        rows = self._top()
        drawn = {top.at: _rows_as(plan.views[top.at].first.table, rows, np.arange(len(rows)))}
        made = {top.at: self._released(top, drawn, [rows])}
        for table in plan.tables.lower:
            drawn[table.at], codes = self._below(table, drawn[table.parent])
            made[table.at] = self._released(table, drawn, codes)
        return ReleasedDatabase(tables=tuple(made[at] for at in sorted(made)))

    # -- rows as places in the lists of values

    def _top(self) -> Places:
        """As many rows as were asked for, or as there seem to be; no table gets more than a million, about."""
        model, view = self.models[self.plan.tables.top.at][0].model, self.plan.views[self.plan.tables.top.at].first
        below = [float(np.dot(model.marginal((table.rows,)), np.array(view.values(table.rows), dtype=float))) / model.total
                 for table in self.plan.tables.below(self.plan.tables.top)]
        most = int(MOST_ROWS / max(1.0, *below))
        rows = self.plan.terms.rows if self.plan.terms.rows is not None else min(max(round(model.total), 1), most)
        return model.draw(rows, self.draws)

    def _below(self, table: LowerTable, parent: DrawnRows) -> tuple[DrawnRows, list[Places]]:
        """The rows of a table below, parent by parent; and the places that its views would have of them."""
        views, models = self.plan.views[table.at], self.models[table.at]
        numbers = self._numbers(table, parent)
        at = np.flatnonzero(numbers)
        above = self.plan.views[table.parent].first
        given = {column.name: _placed(parent.places[column.name][at], above.values(column.name), views.first.values(column.name))
                 for column in views.first.table.columns if column.name in parent.places}
        first = models[0].model.draw_given(len(at), given, self.draws, self._allowed(table, views.first, numbers[at], 0, None))
        parts = [_rows_as(views.first.table, first, at)]
        if views.later is None:
            return _together(parts), [first]
        found = [np.zeros((0, len(views.later.table.columns)), dtype=np.int64)]
        for place in range(1, table.most):
            on = numbers[parts[-1].parents] > place
            at, held = parts[-1].parents[on], {name: places[on] for name, places in parts[-1].places.items()}
            found.append(self._next(table, views.first, views.later, held, numbers[at], place))
            parts.append(self._as_first(views.first, views.later, found[-1], held, at))
        return _together(parts), [first, np.concatenate(found)]

    def _numbers(self, table: LowerTable, parent: DrawnRows) -> Places:
        """How many rows of the table each row of its parent has."""
        listed = self.plan.views[table.parent].first.values(table.rows)
        return np.array(listed, dtype=np.int64)[parent.places[table.rows]]

    def _next(self, table: LowerTable, first: LinkedView, later: LinkedView, held: Mapping[str, Places], numbers: Places,
              place: int) -> Places:
        """The rows after given ones, which are `held` as rows of the view of first rows."""
        own = {table.column(name): table.before(name) for name in table.own}
        given = {own.get(name, name): _placed(places, first.values(name), later.values(own.get(name, name)))
                 for name, places in held.items() if own.get(name, name) in later.table.domain.columns}
        last = None if table.step is None else held[table.column(table.step)]
        return self.models[table.at][1].model.draw_given(len(numbers), given, self.draws,
                                                         self._allowed(table, later, numbers, place, last))

    def _allowed(self, table: LowerTable, view: LinkedView, numbers: Places, place: int, last: Places | None) -> dict[
            str, Allowed]:
        """Values of the column that tells rows apart: greater than the last one, and small enough for the rows to come."""
        if table.step is None:
            return {}
        column = table.column(table.step)
        ranks = _ranks(view.values(column))
        before = -1 if last is None else _ranks(self.plan.views[table.at].first.values(column))[last]
        low, high = np.broadcast_to(before, numbers.shape), ranks.max() - (numbers - place - 1)
        ends, at = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
        return {column: Allowed(patterns=(ranks > ends[:, :1]) & (ranks <= ends[:, 1:]), at=at)}

    def _as_first(self, first: LinkedView, later: LinkedView, places: Places, held: Mapping[str, Places],
                  at: Places) -> DrawnRows:
        """Later rows as rows of the view of first rows, which has the parent's columns as they are held."""
        found, own = dict(zip(later.table.domain.columns, places.T, strict=True)), set(later.drawn)
        return DrawnRows(parents=at, places={name: _placed(found[name], later.values(name), first.values(name))
                                             if name in own else held[name] for name in first.table.domain.columns})

    # -- the tables that are released

    def _released(self, table: LinkedTable, drawn: Mapping[int, DrawnRows], codes: Sequence[Places]) -> SyntheticTable:
        """The table with values in its columns, and with new keys, from 1 on."""
        plan, rows, views = self.plan, drawn[table.at], self.plan.views[table.at]
        key: tuple[str, ...] = () if table.key is None else (table.key,)
        parent = None
        columns = {own: self._column(own, views.first, table.column(own), rows) for own in table.own}
        if table.key is not None:
            columns[table.key] = _numbered(table.key, np.arange(rows.number))
        if isinstance(table, LowerTable):
            columns[table.link] = _numbered(table.link, rows.parents)
            key = key or (() if table.step is None else (table.link, table.step))
            above = plan.tables.by_place[table.parent].name
            parent = ForeignKey(columns=(table.link,), table=above, references=(table.reference,))
        top = plan.tables.top.at
        return SyntheticTable(
            name=table.name, method=plan.method.name, price=str(plan.terms.options.price), notes=plan.notes,
            statement=plan.statement, columns=tuple(columns[name] for name in table.names),
            total=self.models[top][0].model.total * rows.number / drawn[top].number,
            marginals=tuple(told for view, measured, places in zip(views.both, self.models[table.at], codes, strict=True)
                            for told in released_marginals(view.table.domain, measured, places)),
            key=key, parent=parent)

    def _column(self, own: str, view: LinkedView, column: str, rows: DrawnRows) -> SyntheticColumn:
        form = view.forms[view.table.domain.columns.index(column)]
        values = form.values(view.values(column), rows.places[column], self.draws.random(rows.number))
        return SyntheticColumn(name=own, type=form.type, values=tuple(values), counted=form.counted(view.values(column)))


def _numbered(name: str, places: Places) -> SyntheticColumn:
    """A key: the rows that places stand for, from 1 on."""
    return SyntheticColumn(name=name, type=Type.BIGINT, values=tuple((places + 1).tolist()))


def _rows_as(table: CodedTable, places: Places, parents: Places) -> DrawnRows:
    return DrawnRows(places=dict(zip(table.domain.columns, places.T, strict=True)), parents=parents)


def _together(parts: Sequence[DrawnRows]) -> DrawnRows:
    """All rows, those of one parent after each other."""
    parents = np.concatenate([part.parents for part in parts])
    order = np.argsort(parents, kind="stable")
    return DrawnRows(parents=parents[order], places={name: np.concatenate([part.places[name] for part in parts])[order]
                                                     for name in parts[0].places})


def _placed(places: Places, listed: Sequence[Value], wanted: Sequence[Value]) -> Places:
    """The places of the same values in another list, which has them all."""
    at = {value: place for place, value in enumerate(wanted)}
    return np.array([at.get(value, 0) for value in listed], dtype=np.int64)[places]


def _ranks(listed: Sequence[Value]) -> Places:
    """The place of each value in order; -1 for NULL, which no key has."""
    known: list[Any] = [value for value in listed if value is not None]
    at = {value: place for place, value in enumerate(sorted(known))}
    return np.array([-1 if value is None else at[value] for value in listed], dtype=np.int64)
