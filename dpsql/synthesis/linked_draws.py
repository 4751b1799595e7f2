"""Tables that hang together, drawn from the models of their views: post-processing of what was released.

The rows of the top table are drawn first, each with the numbers of rows that hang on it, and with the first of these. Then row
after row is drawn of the others, given the parent's columns, the number of rows, and the row before. A column that tells rows of
one parent apart, such as the year of a person's years, rises from row to row, as it does in the data: enough values are left over
for the rows that are still to come. If it is in bins, as dates are, several rows may be in the same one.

Source of the idea to draw the rows of one parent given its own row, so that they resemble each other: Cai, Xiao and Cormode,
PrivLava: Synthesizing Relational Data with Foreign Keys under Differential Privacy, SIGMOD 2023. There they are independent given
a latent class of the parent. Here they form a chain, in which nothing is hidden, so that nothing has to be learned by rounds of
expectation and maximisation, each of which is paid for.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from dpsql.answers.simulation import Simulation
from dpsql.frozen import Frozen, replace
from dpsql.models.conditional_draws import Allowed
from dpsql.models.sampling import Places
from dpsql.planning.choose import price_charged
from dpsql.synthesis.linked_plan import LinkedModels, LinkedPlan
from dpsql.synthesis.linked_views import LinkedTable, LowerTable
from dpsql.synthesis.measured_views import FittedView, LinkedView
from dpsql.synthesis.packed_values import NumberValues
from dpsql.synthesis.released_database import ReleasedDatabase
from dpsql.synthesis.released_table import CoarserColumn, ReleasedMarginal, SyntheticColumn
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.synthesis.table_options import MOST_LINKED_ROWS
from dpsql.synthesis.table_plan import released_marginals
from dpsql.trusted.declarations.tables import ForeignKey
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type


def steps(plan: LinkedPlan, identity: str) -> Generator[Request, Any, ReleasedDatabase]:
    """Measure the views and draw the tables. The draws are public: they are determined by the identity of the statement."""
    models = yield from plan.measure()
    return LinkedDraws(plan=plan, models=models, draws=Simulation(int(identity[:16], 16))).made()


class DrawnRows(Frozen, eq=False):
    """Rows of a table as places in the lists of values of the view that has its first rows, column by column; and for each row
    the row of the parent's table on which it hangs."""

    places: Mapping[str, Places]
    parents: Places

    @property
    def number(self) -> int:
        return len(self.parents)


class LinkedDraws(Frozen, eq=False):
    """The tables of a plan, drawn from the models of its views."""

    plan: LinkedPlan
    models: LinkedModels
    draws: Simulation

    def made(self) -> ReleasedDatabase:
        """All tables, in the order of the statement."""
        tables = self.plan.tables
        whole = self._whole()
        drawn = {tables.top.at: DrawnRows(places=whole, parents=np.arange(len(next(iter(whole.values())))))}
        roots = {tables.top.at: np.arange(drawn[tables.top.at].number)}  # for each row the row of the top table above it
        told = {tables.top.at: _compared(self.models.whole, whole, tables.top, roots[tables.top.at])}
        for table in tables.lower:
            first = self._first(table, drawn[table.parent])
            parts, later = self._later(table, first)
            drawn[table.at] = _together([first, *parts])
            told[table.at] = self._told(table, first, parts, later, roots[table.parent])
            roots[table.at] = roots[table.parent][drawn[table.at].parents]
        return ReleasedDatabase(tables=tuple(self._released(tables.by_place[at], drawn, told[at]) for at in sorted(drawn)))

    # -- rows as places in lists of values

    def _whole(self) -> dict[str, Places]:
        """The top table's rows with the first ones that hang on each: as many as were asked for, or as there seem to be, but so
        many that no table gets more than about a million."""
        plan, view, tables = self.plan, self.models.whole, self.plan.tables
        model = view.model
        below = [float(model.marginal((table.rows,)) @ np.array(view.values(table.rows), dtype=float)) / model.total
                 for table in tables.below(tables.top)]
        most = int(MOST_LINKED_ROWS / max(1.0, *below))
        rows = plan.terms.rows if plan.terms.rows is not None else min(max(round(model.total), 1), most)
        found = _columns(view, model.draw(rows, self.draws).copy())
        for table in tables.below(tables.top):
            numbers = _numbers(table, view, found)
            allowed = self._allowed(table, view, numbers, 0, None)
            wrong = np.flatnonzero((numbers > 0) & ~np.logical_and.reduce(
                [each.patterns[each.at, found[column]] for column, each in allowed.items()] or [np.ones(rows, dtype=bool)]))
            given = {column: found[column][wrong] for column in tables.drawn(tables.top)}
            again = _columns(view, model.draw_given(
                len(wrong), given, self.draws, self._allowed(table, view, numbers[wrong], 0, None)))
            for column in tables.drawn(table):
                found[column][wrong] = again[column]
        return found

    def _first(self, table: LowerTable, parent: DrawnRows) -> DrawnRows:
        """The first row of each row of the parent that has any."""
        above = self._view_of(table.parent)
        numbers = _numbers(table, above, parent.places)
        at = np.flatnonzero(numbers)
        if table.at not in self.models.first:
            return DrawnRows(parents=at, places={column: places[at] for column, places in parent.places.items()})
        view = self.models.first[table.at]
        given = {column: above.moved(column, view, column)[parent.places[column][at]]
                 for column in view.table.domain.columns if column in parent.places}
        places = view.model.draw_given(len(at), given, self.draws, self._allowed(table, view, numbers[at], 0, None))
        return DrawnRows(parents=at, places=_columns(view, places))

    def _view_of(self, at: int) -> FittedView:
        """The view with the first rows of a table, in whose lists its rows have their places."""
        return self.models.first.get(at, self.models.whole)

    def _later(self, table: LowerTable, first: DrawnRows) -> tuple[list[DrawnRows], dict[str, Places]]:
        """All rows but the first ones, in parts: the second rows, the third ones, and so on; and all of them as the rows of their
        view."""
        if table.at not in self.models.later:
            return [], {}
        base, view = self._view_of(table.at), self.models.later[table.at]
        drawn, columns = self.plan.tables.drawn(table), view.table.domain.columns
        names = {table.before(own): table.column(own) for own in table.own}
        last, parts, found = first, [], [dict.fromkeys(columns, first.parents[:0])]
        for place in range(1, table.most):
            on = _numbers(table, base, last.places) > place
            held = {column: places[on] for column, places in last.places.items()}
            given = {name: base.moved(names.get(name, name), view, name)[held[names.get(name, name)]]
                     for name in columns if name not in drawn}
            allowed = self._allowed(table, view, _numbers(table, base, held), place, held)
            found.append(_columns(view, view.model.draw_given(int(on.sum()), given, self.draws, allowed)))
            now = {column: view.moved(column, base, column)[found[-1][column]] for column in drawn}
            last = DrawnRows(parents=last.parents[on], places={**held, **now})
            parts.append(last)
        return parts, {column: np.concatenate([each[column] for each in found]) for column in columns}

    def _allowed(self, table: LowerTable, view: LinkedView, numbers: Places, place: int,
                 held: Mapping[str, Places] | None) -> dict[str, Allowed]:
        """The values that a row may have: NULL only where its column may be NULL; and of the column that tells rows of one parent
        apart those that are greater than the last one and leave enough for the rows to come, or bins that are not below it."""
        found = {}
        nullable = set(map(table.column, table.nullable))
        for column in self.plan.tables.drawn(table):
            present = np.array([value is not None for value in view.values(column)])
            if column not in nullable and not present.all():
                found[column] = Allowed(patterns=present[None], at=np.zeros(len(numbers), dtype=np.int64))
        if table.step is not None:
            column = table.column(table.step)
            ranks = _ranks(view.values(column))
            low = np.full(len(numbers), -1) if held is None else _ranks(self._view_of(table.at).values(column))[held[column]]
            low = low if table.distinct else np.maximum(low - 1, -1)
            high = ranks.max() - np.maximum(numbers - place - 1, 0) * table.distinct
            ends, at = np.unique(np.stack([low, high], axis=1), axis=0, return_inverse=True)
            found[column] = Allowed(patterns=(ranks > ends[:, :1]) & (ranks <= ends[:, 1:]), at=at)
        return found

    # -- the tables that are released

    def _told(self, table: LowerTable, first: DrawnRows, parts: Sequence[DrawnRows], later: Mapping[str, Places],
              roots: Places) -> tuple[ReleasedMarginal, ...]:
        """What was measured in views of a lower table alone; `roots` has the top row above each row of its parent."""
        told: tuple[ReleasedMarginal, ...] = ()
        if table.at in self.models.first:
            told += _compared(self.models.first[table.at], first.places, table, roots[first.parents])
        if table.at in self.models.later:
            above = np.concatenate([first.parents[:0], *(part.parents for part in parts)])
            told += _compared(self.models.later[table.at], later, table, roots[above])
        return told

    def _released(self, table: LinkedTable, drawn: Mapping[int, DrawnRows], told: tuple[ReleasedMarginal, ...]) -> SyntheticTable:
        """The table with values in its columns, and with new keys, from 1 on."""
        plan, rows = self.plan, drawn[table.at]
        columns = {own: self._column(own, table, rows) for own in table.own}
        key: tuple[str, ...] = () if table.key is None else (table.key,)
        parent = None
        if table.key is not None:
            columns[table.key] = _numbered(table.key, np.arange(rows.number))
        if isinstance(table, LowerTable):
            columns[table.link] = _numbered(table.link, rows.parents)
            key = key or ((table.link, table.step) if table.distinct and table.step is not None else ())
            above = plan.tables.by_place[table.parent].name
            parent = ForeignKey(columns=(table.link,), table=above, references=(table.reference,))
        return SyntheticTable(
            name=table.name, method=plan.choice.method.name,
            price=str(price_charged(plan.terms.options.price, plan.price)), notes=plan.notes,
            statement=plan.statement, columns=tuple(columns[name] for name in table.names), marginals=told, key=key,
            parent=parent, coarser=self._coarser(table),
            total=self.models.whole.model.total * rows.number / drawn[plan.tables.top.at].number)

    def _coarser(self, table: LinkedTable) -> tuple[CoarserColumn, ...]:
        """Coarser versions of the table's columns."""
        view, prefix = self._view_of(table.at), table.column("")
        return tuple(CoarserColumn(name=each.name.removeprefix(prefix), of=each.of.removeprefix(prefix), merged=each.merged)
                     for each in view.table.coarser if view.versions[each.name] in map(table.column, table.own))

    def _column(self, own: str, table: LinkedTable, rows: DrawnRows) -> SyntheticColumn:
        view, column = self._view_of(table.at), table.column(own)
        form, listed = view.forms[view.table.domain.columns.index(column)], view.values(column)
        uniform = self.draws.random(rows.number)
        if isinstance(table, LowerTable) and own == table.step:  # rows of one parent in the same bin follow each other, too
            uniform = uniform[np.lexsort((uniform, _ranks(listed)[rows.places[column]], rows.parents))]
        values = form.values(listed, rows.places[column], uniform)
        return SyntheticColumn(name=own, type=form.type, sql_type=form.sql_type, values=values, counted=form.counted(listed))


def _compared(view: FittedView, places: Mapping[str, Places], of: LinkedTable, roots: Places) -> tuple[ReleasedMarginal, ...]:
    """What was measured of a view, beside the drawn rows, of which `roots` are the rows of the top table above them. Columns of
    the table itself have their own names, if all its rows are in the view.

    Of the private rows some of each entity were counted, by a limit; of the drawn ones below one row of the top table each counts
    as much as it would have been likely to be among these.
    """
    domain, table = view.table.domain, view.table
    weights = np.minimum(1.0, view.table.rows / np.bincount(roots)[roots]) if len(roots) else np.zeros(0)
    rows = np.stack([places[column] for column in domain.columns], axis=1)
    found = released_marginals(domain, view.measured.marginals, rows, view.model.total, weights, table.coarser)
    own = {} if isinstance(of, LowerTable) else {name: name.removeprefix(of.column("")) for name, column in view.versions.items()
                                                 if column in map(of.column, of.own)}
    return tuple(replace(each, columns=tuple(own.get(column, column) for column in each.columns)) for each in found)


def _columns(view: FittedView, rows: Places) -> dict[str, Places]:
    """Rows drawn from the model of a view, column by column, without the coarser ones."""
    return {column: rows[:, view.model.domain.columns.index(column)] for column in view.table.domain.columns}


def _numbers(table: LowerTable, view: LinkedView, places: Mapping[str, Places]) -> Places:
    """How many rows of a table hang on each row of its parent."""
    return np.array([number or 0 for number in view.values(table.rows)], dtype=np.int64)[places[table.rows]]


def _numbered(name: str, places: Places) -> SyntheticColumn:
    """A key: the rows that places stand for, from 1 on."""
    return SyntheticColumn(name=name, type=Type.BIGINT, values=NumberValues(Type.BIGINT, places + 1))


def _together(parts: Sequence[DrawnRows]) -> DrawnRows:
    """All rows, those of one parent after each other."""
    parents = np.concatenate([part.parents for part in parts])
    order = np.argsort(parents, kind="stable")
    return DrawnRows(parents=parents[order], places={name: np.concatenate([part.places[name] for part in parts])[order]
                                                     for name in parts[0].places})


def _ranks(listed: Sequence[Value]) -> Places:
    """The place of each value in order; -1 for NULL, which no key has."""
    known: list[Any] = [value for value in listed if value is not None]
    at = {value: place for place, value in enumerate(sorted(known))}
    return np.array([-1 if value is None else at[value] for value in listed], dtype=np.int64)
