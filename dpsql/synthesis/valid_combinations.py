"""Drawn rows have the combinations of values that there can be, as public tables say: a county is in its own state.

A listed column whose value follows from another one's is not measured: it costs nothing, and is right in every row. Of columns
that only go together in some ways, rows that were drawn with others are given a combination that exists, of the same value of the
column with the most values, and each as often as rows were drawn with it. That is done to released rows, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dpsql.answers.simulation import Simulation
from dpsql.frozen import Frozen
from dpsql.models.sampling import Places
from dpsql.questions.question import Combinations, Question
from dpsql.synthesis.column_forms import ListedColumn, PlannedForm
from dpsql.synthesis.method import CodedColumn
from dpsql.synthesis.packed_values import CodedValues, PackedValues, packed_values
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.trusted.plan.expr.nodes import Value


class FollowingColumn(Frozen):
    """A column whose value follows from that of the column `of`: at which place of the columns it is, and the values."""

    at: int
    form: ListedColumn
    of: str
    values: Mapping[Value, Value]

    def drawn(self, given: Sequence[Value]) -> PackedValues:
        """Its values in rows with these values of the other column."""
        packed = packed_values(given).loaded
        if isinstance(packed, CodedValues):
            return CodedValues([self.values.get(value) for value in packed.listed], packed.places)
        return packed_values([self.values.get(value) for value in packed])

    def column(self, given: Sequence[Value]) -> SyntheticColumn:
        """The column in rows with these values of the other one."""
        listed = tuple(dict.fromkeys(self.values.values()))
        return SyntheticColumn(name=self.form.name, type=self.form.type, sql_type=self.form.sql_type, values=self.drawn(given),
                               counted=self.form.counted(listed))


def following_columns(question: Question, forms: Sequence[PlannedForm]) -> tuple[FollowingColumn, ...]:
    """The listed columns that are determined by others. Keys and forms are those of the columns, in order."""
    places = {key.column: at for at, key in enumerate(question.keys)}
    found: dict[int, FollowingColumn] = {}
    for one in (one for one in question.combinations if one.enforced):
        first = next((i for i, key in enumerate(one.keys) if places[key] not in found and _listed(forms[places[key]])
                      and len({row[i] for row in one.rows}) == len(one.rows)), None)
        if first is None:
            continue
        of = forms[places[one.keys[first]]].name
        for i, key in enumerate(one.keys):
            form = forms[places[key]]
            if i != first and isinstance(form, ListedColumn) and not any(other.of == form.name for other in found.values()):
                found.setdefault(places[key], FollowingColumn(at=places[key], form=form, of=of,
                                                              values={row[first]: row[i] for row in one.rows}))
    return tuple(found.values())


def _listed(form: PlannedForm) -> bool:
    return isinstance(form, ListedColumn)


def valid_rows(places: Places, columns: Sequence[CodedColumn], combinations: Iterable[Combinations], draws: Simulation) -> Places:
    """Drawn rows, as indices into the lists of values of columns, each with combinations that exist."""
    at = {column.column: i for i, column in enumerate(columns)}
    for one in combinations:
        kept = [(i, at[key]) for i, key in enumerate(one.keys) if key in at]
        lists = [{value: place for place, value in enumerate(columns[own].values)} for _, own in kept]
        there = {tuple(found) for row in one.rows
                 if None not in (found := [known.get(row[i]) for (i, _), known in zip(kept, lists, strict=True)])}
        if len(kept) > 1 and there:
            places = _moved(places, [own for _, own in kept], np.array(sorted(there), dtype=np.int64), draws)
    return places


def _moved(places: Places, at: Sequence[int], there: Places, draws: Simulation) -> Places:
    """The rows whose values at some columns are none of `there`, with some that are."""
    shape = tuple(np.maximum(there.max(axis=0), places[:, at].max(axis=0, initial=0)) + 1)
    valid, drawn = (np.ravel_multi_index(tuple(rows.T), shape) for rows in (there, places[:, at]))
    wrong = np.flatnonzero(~np.isin(drawn, valid))
    if not len(wrong):
        return places
    codes, counts = np.unique(drawn, return_counts=True)
    often = 1.0 + np.where(np.isin(valid, codes), counts[np.minimum(np.searchsorted(codes, valid), len(codes) - 1)], 0)
    anchor = int(np.argmax([len(np.unique(column)) for column in there.T]))
    moved, uniform = places.copy(), draws.random(len(wrong))
    values = places[wrong, at[anchor]]
    for value in np.unique(values):
        mine, same = np.flatnonzero(values == value), np.flatnonzero(there[:, anchor] == value)
        choices = same if len(same) else np.arange(len(there))
        sums = np.cumsum(often[choices])
        chosen = choices[np.minimum(np.searchsorted(sums, uniform[mine] * sums[-1], side="right"), len(choices) - 1)]
        moved[np.ix_(wrong[mine], np.array(at))] = there[chosen]
    return moved
