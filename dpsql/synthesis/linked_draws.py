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

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpsql.answers.simulation import Simulation
from dpsql.frozen import Frozen, replace
from dpsql.models.conditional_draws import Allowed
from dpsql.models.sampling import Places
from dpsql.planning.choose import price_charged
from dpsql.synthesis.doubtful_nulls import note_on
from dpsql.synthesis.linked_nulls import nulls_in_doubt, of_top
from dpsql.synthesis.linked_plan import LinkedModels, LinkedPlan
from dpsql.synthesis.linked_rules import LinkedRules, drawn_until
from dpsql.synthesis.linked_views import LinkedTable, LowerTable
from dpsql.synthesis.made_up_columns import seed_of
from dpsql.synthesis.measured_views import FittedView, LinkedView
from dpsql.synthesis.packed_values import NumberValues, PackedValues
from dpsql.synthesis.released_database import ReleasedDatabase
from dpsql.synthesis.released_table import CoarserColumn, ReleasedMarginal, SyntheticColumn
from dpsql.synthesis.row_rules import Evaluator
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.synthesis.table_options import MOST_LINKED_ROWS
from dpsql.synthesis.table_plan import released_marginals
from dpsql.trusted.cached import cached_property
from dpsql.trusted.declarations.tables import ForeignKey
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type


def steps(plan: LinkedPlan, identity: str, evaluator: Evaluator | None = None) -> Generator[Request, Any, ReleasedDatabase]:
    """Measure the views and draw the tables. The draws are public: they are determined by the identity of the statement."""
    plan = yield from plan.cut(evaluator)
    models, draws = (yield from plan.measure()), Simulation(int(identity[:16], 16))
    rules = LinkedRules(evaluator=evaluator, draws=draws, following=models.following)
    return LinkedDraws(plan=plan, models=models, draws=draws, rules=rules, identity=identity).made()


class DrawnRows(Frozen, eq=False):
    """Rows of a table as places in the lists of values of the view that has its first rows, column by column; and for each row
    the row of the parent's table on which it hangs."""

    places: Mapping[str, Places]
    parents: Places

    @property
    def number(self) -> int:
        return len(self.parents)


class LinkedDraws(Frozen, eq=False):
    """The tables of a plan, drawn from the models of its views. What is made up follows from the identity of the statement."""

    plan: LinkedPlan
    models: LinkedModels
    draws: Simulation
    rules: LinkedRules
    identity: str

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

    @cached_property
    def _in_doubt(self) -> Mapping[int, tuple[str, ...]]:
        """The columns of each table in which NULL may be noise alone."""
        return nulls_in_doubt(self.plan.tables, self.models)

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
        nulls = of_top(tables, view, self._in_doubt[tables.top.at])
        found = drawn_until(
            rows, lambda some: _columns(view, nulls.replaced(model.draw(len(some), self.draws).copy(), model, self.draws)),
            lambda drawn: self.rules.obeyed(tables.top, view, drawn))
        for table in tables.below(tables.top):
            self._replace_first(table, found)
        return found

    def _replace_first(self, table: LowerTable, found: dict[str, Places]) -> None:
        """Draw the columns of first rows again, given the row of the top table, where they have values that they cannot have or
        break a rule."""
        view, tables = self.models.whole, self.plan.tables
        numbers = _numbers(table, view, found)
        allowed = self._allowed(table, view, numbers, 0, None)
        good = np.logical_and.reduce([each.patterns[each.at, found[column]] for column, each in allowed.items()]
                                     or [np.ones(len(numbers), dtype=bool)])
        wrong = np.flatnonzero((numbers > 0) & ~(good & self.rules.obeyed(table, view, found)))

        def drawn(rows: Places) -> dict[str, Places]:
            given = _taken({column: found[column] for column in tables.drawn(tables.top)}, wrong[rows])
            again = self._allowed(table, view, numbers[wrong[rows]], 0, None)
            return _columns(view, view.model.draw_given(len(rows), given, self.draws, again))

        again = drawn_until(len(wrong), drawn, lambda rows: self.rules.obeyed(table, view, rows))
        for column in tables.drawn(table):
            found[column][wrong] = again[column]

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

        def drawn(rows: Places) -> dict[str, Places]:
            allowed = self._allowed(table, view, numbers[at[rows]], 0, None)
            return _columns(view, view.model.draw_given(len(rows), _taken(given, rows), self.draws, allowed))

        return DrawnRows(parents=at, places=drawn_until(len(at), drawn, lambda found: self.rules.obeyed(table, view, found)))

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
            found.append(self._next(table, view, given, held, place))
            now = {column: view.moved(column, base, column)[found[-1][column]] for column in drawn}
            last = DrawnRows(parents=last.parents[on], places={**held, **now})
            parts.append(last)
        return parts, {column: np.concatenate([each[column] for each in found]) for column in columns}

    def _next(self, table: LowerTable, view: FittedView, given: Mapping[str, Places], held: Mapping[str, Places],
              place: int) -> dict[str, Places]:
        """A row after each of those `held`, which are at the place before this one."""
        base = self._view_of(table.at)

        def drawn(rows: Places) -> dict[str, Places]:
            before = _taken(held, rows)
            allowed = self._allowed(table, view, _numbers(table, base, before), place, before)
            return _columns(view, view.model.draw_given(len(rows), _taken(given, rows), self.draws, allowed))

        many = len(next(iter(held.values())))
        return drawn_until(many, drawn, lambda found: self.rules.obeyed(table, view, found))

    def _allowed(self, table: LowerTable, view: LinkedView, numbers: Places, place: int,
                 held: Mapping[str, Places] | None) -> dict[str, Allowed]:
        """The values that a row may have: NULL only where its column may be NULL, and was measured; and of the column that tells
        rows of one parent apart those that are greater than the last one and leave enough for the rows to come, or bins that
        are not below it."""
        found = {}
        nullable = set(map(table.column, table.nullable - {*self._in_doubt[table.at]}))
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
        columns, broken = self._own_columns(table, rows)
        for each in table.made_up:
            columns[each.name] = each.made(rows.number, seed_of(self.identity, table.column(each.name)))
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
            price=str(price_charged(plan.terms.options.price, plan.price)), notes=(*plan.notes, *self._notes(table, broken)),
            statement=plan.statement, columns=tuple(columns[name] for name in table.names), marginals=told, key=key,
            parent=parent, coarser=self._coarser(table),
            total=self.models.whole.model.total * rows.number / drawn[plan.tables.top.at].number)

    def _notes(self, table: LinkedTable, broken: int) -> Iterator[str]:
        """What a reader should know of a table, of whose rows so many break a rule."""
        if broken:
            yield f"{broken:,} rows of {table.name} break a rule all the same, as no draw obeyed it"
        if self._in_doubt[table.at]:
            yield note_on([f"{table.name}.{own}" for own in self._in_doubt[table.at]])

    def _coarser(self, table: LinkedTable) -> tuple[CoarserColumn, ...]:
        """Coarser versions of the table's columns."""
        view, prefix = self._view_of(table.at), table.column("")
        return tuple(CoarserColumn(name=each.name.removeprefix(prefix), of=each.of.removeprefix(prefix), merged=each.merged)
                     for each in view.table.coarser if view.versions[each.name] in map(table.column, table.own))

    def _own_columns(self, table: LinkedTable, rows: DrawnRows) -> tuple[dict[str, SyntheticColumn], int]:
        """The columns that are drawn, and those that follow from them, with their values; and how many rows break a rule."""
        view = self._view_of(table.at)
        forms = {own: view.forms[view.table.place[table.column(own)]] for own in table.own}
        listed = {own: view.values(table.column(own)) for own in table.own}
        places = {own: rows.places[table.column(own)] for own in table.own}
        values = dict[str, PackedValues]()
        for own, form in forms.items():
            uniform = self.draws.random(rows.number)
            if isinstance(table, LowerTable) and own == table.step:  # rows of one parent in the same bin follow each other, too
                uniform = uniform[np.lexsort((uniform, _ranks(listed[own])[places[own]], rows.parents))]
            values[own] = form.values(listed[own], places[own], uniform)

        def again(own: str, some: Places) -> PackedValues:
            return forms[own].values(listed[own], places[own][some], self.draws.random(len(some)))

        broken = self.rules.settled(table, values, again)
        made = {own: SyntheticColumn(name=own, type=form.type, sql_type=form.sql_type, values=values[own],
                                     counted=form.counted(listed[own])) for own, form in forms.items()}
        for one in self.models.following.get(table.at, ()):
            made[one.form.name] = one.column(values[one.of])
        return made, broken


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


def _taken(columns: Mapping[str, Places], rows: Places) -> dict[str, Places]:
    return {column: places[rows] for column, places in columns.items()}


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
