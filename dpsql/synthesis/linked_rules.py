"""Rules for the rows of linked tables: each is about the columns of one table, as `row_rules` says of a single one.

The models of views lack the combinations of listed values and bins that no row can have. A row that is drawn against a rule is
drawn again, given the same parent and the same row before it, with values from its bins: these are drawn for good at the end,
again and again where they break a rule. Rows below the top cannot be replaced by copies of others, as they follow each other. So
a row that no draw made obey stays, and is counted in a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dpsql.answers.simulation import Simulation
from dpsql.frozen import Frozen, replace
from dpsql.models.sampling import Places
from dpsql.models.table_domain import Columns
from dpsql.synthesis.column_forms import BinnedColumn, Form
from dpsql.synthesis.linked_views import LinkedTable, LowerTable
from dpsql.synthesis.measured_views import FittedView
from dpsql.synthesis.method import CodedTable
from dpsql.synthesis.packed_values import PackedValues, joined
from dpsql.synthesis.row_rules import Evaluator, Mask, RowRule, RowRules, consistent
from dpsql.synthesis.valid_combinations import FollowingColumn
from dpsql.trusted.plan.expr.nodes import Expr, Ref, rewrite
from dpsql.workload.factors import Array

ROUNDS = 50  # of drawing rows again that break rules


def with_rules(view: CodedTable, forms: Sequence[Form], tables: Sequence[LinkedTable], evaluator: Evaluator | None) -> CodedTable:
    """A view without the combinations that no row of the tables that are drawn in it can have: of the top table and those below
    it, or of one lower table. Nothing is ruled out if one of the tables would be left without rows, or if a model of all rules
    would be too large."""
    rules = tuple(_in_view(rule, table) for table in tables for rule in table.rules)
    below = [table for table in tables[1:] if isinstance(table, LowerTable)]
    nowhere = {table.column(own) for table in below for own in table.own}
    found = {columns: _without_null(view, columns, never) if nowhere.issuperset(columns) else never for columns, never in
             RowRules(rules=rules, evaluator=evaluator).ruled_out(forms, view.columns).items()}
    both = {**view.excluded, **found}
    if not found or not consistent(view.domain, both | {(table.rows,): _no_rows(view, table) for table in below}):
        return view
    return replace(view, excluded=both)


def _no_rows(view: CodedTable, table: LowerTable) -> Array:
    """For each number of a table's rows: 1 for none, else 0."""
    return np.array([value == 0 for value in view.columns[view.place[table.rows]].values], dtype=np.float64)


def _without_null(view: CodedTable, columns: Columns, never: Array) -> Array:
    """What is ruled out, but for NULL in all columns: that is how a view shows that there is no such row."""
    values = [view.columns[view.place[name]].values for name in columns]
    if all(None in own for own in values):
        never = never.copy()
        never[tuple(own.index(None) for own in values)] = 0
    return never


def _in_view(rule: RowRule, table: LinkedTable) -> RowRule:
    """A rule about the columns as a view names them."""
    def named(part: Expr) -> Expr | None:
        return replace(part, column=table.column(part.column)) if isinstance(part, Ref) else None

    return replace(rule, columns=tuple(map(table.column, rule.columns)), condition=rewrite(rule.condition, named))


class LinkedRules(Frozen, eq=False):
    """What evaluates rules, which is needed where there are some; and the columns that follow from others, by the place of the
    table."""

    evaluator: Evaluator | None
    draws: Simulation
    following: Mapping[int, tuple[FollowingColumn, ...]]

    def obeyed(self, table: LinkedTable, view: FittedView, places: Mapping[str, Places]) -> Mask:
        """Which rows of a table, as places in the lists of a view, obey its rules with values that are drawn from their bins."""
        if not table.rules:
            return np.ones(len(next(iter(places.values()))), dtype=bool)
        values = dict[str, PackedValues]()
        for own in self._read(table):
            column = table.column(own)
            form = view.forms[view.table.place[column]]
            values[own] = form.values(view.values(column), places[column], self.draws.random(len(places[column])))
        return self._obeyed(table, values)

    def settled(self, table: LinkedTable, values: dict[str, PackedValues], again: Callable[[str, Places], PackedValues]) -> int:
        """Replace values of a table's columns, within their bins, by others until the rows obey the rules; `again` draws some
        rows of a column. The number of rows that break a rule all the same."""
        left = np.flatnonzero(~self._obeyed(table, values)) if table.rules else np.zeros(0, dtype=np.int64)
        read = self._read(table)
        free = [own for own, form in zip(table.own, table.forms, strict=True) if isinstance(form, BinnedColumn) and own in read
                and not (isinstance(table, LowerTable) and own == table.step)]
        for _ in range(ROUNDS if free else 0):
            if not len(left):
                break
            drawn = {own: again(own, left) if own in free else values[own].taken(left) for own in read}
            good = self._obeyed(table, drawn)
            for own in free:
                order = np.arange(len(values[own]))
                order[left[good]] = len(order) + np.flatnonzero(good)
                values[own] = joined([values[own], drawn[own]]).taken(order)
            left = left[~good]
        return len(left)

    def _read(self, table: LinkedTable) -> list[str]:
        """The columns that are drawn on which rules depend."""
        of = {one.form.name: one.of for one in self.following.get(table.at, ())}
        return [*dict.fromkeys(of.get(name, name) for rule in table.rules for name in rule.columns)]

    def _obeyed(self, table: LinkedTable, values: Mapping[str, PackedValues]) -> Mask:
        told = {own: (form.type, list(values[own])) for own, form in zip(table.own, table.forms, strict=True)
                if own in self._read(table)}
        told |= {one.form.name: (one.form.type, list(one.drawn(values[one.of])))
                 for one in self.following.get(table.at, ()) if one.of in told}
        return RowRules(rules=table.rules, evaluator=self.evaluator).obeyed(told)


def drawn_until(rows: int, draw: Callable[[Places], dict[str, Places]], obeyed: Callable[[dict[str, Places]], Mask]) -> dict[
        str, Places]:
    """Draw so many rows, and draw those that break a rule again, `ROUNDS` times at most. `draw` gets the indices of the rows that
    are to be drawn, and returns their values, column by column; `obeyed` says which of these rows obey the rules."""
    left = np.arange(rows)
    found = draw(left)
    left = left[~obeyed(found)]
    for _ in range(ROUNDS):
        if not len(left):
            break
        again = draw(left)
        for column, places in again.items():
            found[column][left] = places
        left = left[~obeyed(again)]
    return found
