"""Rows of a synthetic table, drawn from the model of its measured columns.

All of it is post-processing of what was released, and the randomness is public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.simulation import Simulation
from dpsql.frozen import Frozen
from dpsql.models.sampling import Places
from dpsql.questions.question import Combinations
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.doubtful_nulls import DoubtfulNulls
from dpsql.synthesis.learned_bins import LearnedTable
from dpsql.synthesis.method import Measured
from dpsql.synthesis.packed_values import PackedValues, joined
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.row_rules import RowRules, names_of
from dpsql.synthesis.valid_combinations import FollowingColumn, valid_rows
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type

ROUNDS = 50  # of drawing rows again that break rules
Values: TypeAlias = Mapping[str, PackedValues]


class DrawnPiece(Frozen, eq=False):
    """Rows as indices into the lists of values of the measured columns, and the values of all columns by their names."""

    places: Places
    values: Values

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.places)

    def taken(self, rows: NDArray[np.int64]) -> DrawnPiece:
        """Some of the rows, in an order."""
        return DrawnPiece(places=self.places[rows], values={name: values.taken(rows) for name, values in self.values.items()})


def together(parts: Sequence[DrawnPiece]) -> DrawnPiece:
    """The rows of several parts, one after the other."""
    return DrawnPiece(places=np.concatenate([part.places for part in parts]), values={
        name: joined([part.values[name] for part in parts]) for name in parts[0].values})


class TableDraw(Frozen, eq=False):
    """What rows are drawn from.

    cut           the table in its bins
    measured      the model
    following     columns that follow from others
    combinations  values that go together
    rules         what holds in every row
    nulls         columns in which NULL may be noise alone
    """

    cut: LearnedTable
    measured: Measured
    following: tuple[FollowingColumn, ...]
    combinations: tuple[Combinations, ...]
    rules: RowRules
    nulls: DoubtfulNulls

    @property
    def types(self) -> Mapping[str, Type]:
        """The types of all columns."""
        return {form.name: form.type for form in (*self.cut.forms, *(one.form for one in self.following))}

    def drawn(self, rows: int, draws: Simulation) -> tuple[DrawnPiece, int]:
        """So many rows that obey the rules, and the number of those that no draw made: these are copies of others. Where no row
        obeys the rules, all are as drawn, and count as copies."""
        first = self._drawn(rows, draws)
        if not self.rules.rules:
            return first, 0
        found = [self._obeying(first)]
        many = found[0].size
        for _ in range(ROUNDS):
            if many == rows:
                break
            found.append(self._obeying(self._drawn(rows - many, draws)))
            many += found[-1].size
        if not many:
            return first, rows
        whole = together(found)
        copied = np.minimum((draws.random(rows - many) * many).astype(np.int64), many - 1)
        return whole if many == rows else whole.taken(np.append(np.arange(many), copied)), rows - many

    def redrawn(self, drawn: DrawnPiece, rows: NDArray[np.int64], draws: Simulation) -> DrawnPiece:
        """Some of the rows, perhaps several times, with new values from their bins, if no rule could be broken by these."""
        return drawn.taken(rows) if self.rules.rules else self._with_values(drawn.places[rows], draws)

    def _obeying(self, drawn: DrawnPiece) -> DrawnPiece:
        types = self.types
        read = {name for rule in self.rules.rules for name in rule.columns}
        obeyed = self.rules.obeyed({name: (types[name], list(drawn.values[name])) for name in read})
        return drawn if obeyed.all() else drawn.taken(np.flatnonzero(obeyed))

    def _drawn(self, rows: int, draws: Simulation) -> DrawnPiece:
        model, columns = self.measured.model, self.cut.table.columns
        order = [model.domain.columns.index(column.name) for column in columns]
        drawn = self.nulls.replaced(model.draw(rows, draws), model, draws)[:, order]
        return self._with_values(valid_rows(drawn, columns, self.combinations, draws), draws)

    def _with_values(self, places: Places, draws: Simulation) -> DrawnPiece:
        values = {form.name: form.values(column.values, places[:, at], draws.random(len(places)))
                  for at, (form, column) in enumerate(zip(self.cut.forms, self.cut.table.columns, strict=True))}
        return DrawnPiece(places=places, values=values | {one.form.name: one.drawn(values[one.of]) for one in self.following})

    def columns(self, values: Values) -> list[SyntheticColumn]:
        """All columns, in the order of the statement, with their values, if these are given."""
        coded = self.cut.table.columns
        found = [_column(form, column.values, values) for form, column in zip(self.cut.forms, coded, strict=True)]
        for one in sorted(self.following, key=lambda one: one.at):
            found.insert(one.at, _column(one.form, tuple(dict.fromkeys(one.values.values())), values))
        return found

    def notes(self, rows: int, copied: int) -> tuple[str, ...]:
        """What a reader should know of rows that were drawn, of which so many are copies."""
        told = []
        if self.rules.rules:
            told = [f"in every row: {names_of(self.rules.rules)}"]
        if copied == rows > 0:
            told = [f"no row that was drawn obeyed the rules, so they were not applied: {names_of(self.rules.rules)}"]
        elif copied:
            told.append(f"{copied:,} rows are copies of other made-up rows, as no draw obeyed the rules")
        return (*told, *self.nulls.notes)


def _column(form: Form, listed: Sequence[Value], values: Values) -> SyntheticColumn:
    return SyntheticColumn(name=form.name, type=form.type, sql_type=form.sql_type, counted=form.counted(listed),
                           values=values.get(form.name, ()))
