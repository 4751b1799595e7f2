"""The answer of SQL over released rows: computed from them, with propagated errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import numpy as np

from dpsql.answers.answer import Answer, AnswerColumn, Single, noisy_rows, rows_shown, sorted_by
from dpsql.answers.columns import of_rows
from dpsql.answers.described_columns import DescribedColumn, has_ends
from dpsql.estimates import Estimate, Numbers
from dpsql.frozen import Frozen, replace
from dpsql.postprocessing.around_binder import AroundRows
from dpsql.postprocessing.around_released import AroundReleased, ReleasedTable
from dpsql.postprocessing.carried_errors import DrawnErrors, Error, LinearErrors
from dpsql.postprocessing.moved_rows import (
    DRAWS,
    DRAWS_ONE_BY_ONE,
    MOST_ONE_BY_ONE,
    MOST_PROBED,
    LoadedColumn,
    MovedRows,
    as_floats,
    probed_rows,
    redrawn_rows,
)
from dpsql.postprocessing.row_identity import RowIdentity, moved, without_last_filters
from dpsql.postprocessing.versioned_tables import Matched, ReleasedTables, VersionedNumbers
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type

MOST_ROWS = 1_000_000  # of an answer, and of a public table beside released rows
TOLD = 200  # rows that a note tells


def columns_of(around: AroundReleased) -> tuple[DescribedColumn, ...]:
    """The columns of the answer: see `composed`. If a statement is bound again after its rows are released, every column whose
    type can have an interval is taken to be noisy."""
    noisy = moved(around.rows.node, around.measured).columns
    return tuple(DescribedColumn(name=name, type=field.facts.type, measured=has_ends(field.facts.type) and (
        around.awaits or field.id in noisy)) for name, field in around.rows.shown)


def loaded(made: ReleasedTable, cells: Cells, aggregates: Mapping[str, Estimate], scratch: Scratch,
           singles: Mapping[str, Single]) -> tuple[dict[str, LoadedColumn], int]:
    """The released columns of a part, and how many of its groups are withheld."""
    with np.errstate(all="ignore"):
        found = noisy_rows(made.question, cells, aggregates, scratch, singles)
    kept = np.array(found.kept, dtype=np.intp)
    shared = frozenset(name for one in singles.values() if one.estimate is not None for name in one.estimate.slopes)
    columns = {}
    for label, output, column in zip(made.labels, made.question.outputs, found.outputs, strict=True):
        kind, physical = output.expr.type, made.table.columns[label].physical
        values: Sequence[Value] = [column.values[i] for i in kept.tolist()]
        loading = LoadedColumn(type=kind, values=values, noisy=column.noisy, physical=physical, shared=shared,
                               estimate=column.estimate.at(kept) if column.estimate is not None else None)
        if kind is Type.BIGINT:
            loading = replace(loading, values=[value if value is None else min(max(value, int(physical.low)), int(physical.high))
                                               for value in values])
        columns[label] = loading
    return columns, found.withheld


def composed(around: AroundReleased, tables: Mapping[str, Mapping[str, LoadedColumn]], public: PublicTables, *,
             confidence: float, price: str, notes: Sequence[str], seed: int) -> Answer:
    """The answer of the SQL around released rows. If that fails, for instance because there are too many rows, the released rows
    are still shown, as they were paid for."""
    made = _Composing(around=around, tables=tables, public=public, confidence=confidence, seed=seed)
    try:
        with np.errstate(all="ignore"):
            return made.answer(price, notes)
    except Exception:  # noqa: S110 - told below
        pass
    return _released_only(around, tables, confidence=confidence, price=price, notes=notes)


def _released_only(around: AroundReleased, tables: Mapping[str, Mapping[str, LoadedColumn]], *, confidence: float, price: str,
                   notes: Sequence[str]) -> Answer:
    """An answer that shows the released rows as notes, as the SQL around them could not be computed."""
    told = ["the SQL around the released rows could not be computed on this machine; the released rows are shown instead"]
    for name, columns in tables.items():
        rows = list(zip(*(column.values for column in columns.values()), strict=True))
        told += [f"{name} ({', '.join(columns)}): {', '.join(map(str, rows[:TOLD]))}" + (" ..." if len(rows) > TOLD else "")]
    shown = tuple(AnswerColumn(name=name, type=field.facts.type) for name, field in around.rows.shown)
    return Answer(columns=shown, data=of_rows((), (), (), len(shown)), confidence=confidence, cost=price, notes=(*notes, *told))


class _Composing(Frozen):
    """SQL around released rows, which are given by column. The `seed` decides how they are moved."""

    around: AroundReleased
    tables: Mapping[str, Mapping[str, LoadedColumn]]
    public: PublicTables
    confidence: float
    seed: int

    def answer(self, price: str, notes: Sequence[str]) -> Answer:
        """The answer, with the errors of its numbers."""
        probed = probed_rows(self.tables, self.seed, MOST_ONE_BY_ONE if self.around.awaits else MOST_PROBED)
        with closing(ReleasedTables(self.tables, probed, self.public)) as store:
            return self._answer(store, probed, price, notes)

    def _answer(self, store: ReleasedTables, probed: MovedRows, price: str, notes: Sequence[str]) -> Answer:
        around, asked = self.around, self.around.over(store)
        rest = moved(asked.node, self._noisy).columns
        every = [column.id for _, column in asked.shown]
        exact = [column not in rest and not around.awaits for column in every]
        identified = RowIdentity().of(asked.node)
        at = {field.id: i for i, field in enumerate(identified.node.fields)}
        ids = [at[name] for name in identified.ids] if identified.ids is not None else None
        found = store.rows(store.prepared(identified.node))
        terms = [(at[term.column], term.descending, term.nulls_first) for term in reversed(asked.ordering)]
        terms = [*((place, False, False) for place in reversed(ids or ())), *terms]
        order = sorted_by(range(len(found)), [([row[place] for row in found], down, first) for place, down, first in terms])
        kept = [found[i] for i in order[rows_shown(asked.limit, asked.offset)]]
        numbers = [i for i, (_, column) in enumerate(asked.shown) if not exact[i] and (
            column.facts.type.numeric or column.facts.type is Type.DATE)]
        told: Sequence[Error] = ()
        if numbers and kept and probed.numbers:
            shown = _Shown(columns=tuple(every[i] for i in numbers), ids=None if ids is None else tuple(
                (identified.node.fields[i].facts.type, [row[i] for row in kept]) for i in ids),
                           numbers=as_floats([row[at[every[i]]] for row in kept for i in numbers]))
            told, versions = self._errors(shown, store, probed)
            for i, column in enumerate(numbers if around.awaits else ()):
                still = versions[:, i :: len(numbers)]
                exact[column] = every[column] not in rest and bool(((still == still[0]) | np.isnan(still)).all())
        carried = {(i // len(numbers), numbers[i % len(numbers)]): error for i, error in enumerate(told)}
        none: Error = (None, None, False)
        cells = [[none if exact[column] else carried.get((row, column), none) for column in range(len(every))]
                 for row in range(len(kept))]
        columns = tuple(AnswerColumn(name=name, type=column.facts.type, exact=exact[i],
                                     approximate=any(row[i][2] for row in cells))
                        for i, (name, column) in enumerate(asked.shown))
        data = of_rows([[row[at[column]] for column in every] for row in kept], [[cell[0] for cell in row] for row in cells],
                       [[cell[1] for cell in row] for row in cells], len(columns))
        return Answer(columns=columns, data=data, confidence=self.confidence, cost=price, notes=tuple(notes))

    @cached_property
    def _noisy(self) -> Mapping[str, frozenset[str]]:
        return {name: frozenset(label for label, column in columns.items() if column.noisy)
                for name, columns in self.tables.items()}

    def _errors(self, shown: _Shown, store: ReleasedTables, probed: MovedRows) -> tuple[list[Error], Numbers]:
        """The errors of the numbers that are shown, and these in all versions that were needed: versions x numbers."""
        versions = self._in_versions(shown, store, probed)
        linear = LinearErrors(tables=self.tables, moved=probed, confidence=self.confidence).of(versions)
        if None not in linear:
            return [error for error in linear if error is not None], versions
        drawn = redrawn_rows(self.tables, self.seed, self.confidence, DRAWS_ONE_BY_ONE if self.around.awaits else DRAWS)
        with closing(ReleasedTables(self.tables, drawn, self.public)) as other:
            more = self._in_versions(shown, other, drawn)
        told = DrawnErrors(tables=self.tables, moved=drawn, confidence=self.confidence).of(
            more[:, [at for at, error in enumerate(linear) if error is None]])
        rest = iter(told)
        return [next(rest) if error is None else error for error in linear], np.concatenate([versions, more[1:]])

    def _in_versions(self, shown: _Shown, store: ReleasedTables, versions: MovedRows) -> Numbers:
        """The numbers that are shown, in every version: versions x numbers, NaN if a version has no such row."""
        answers = np.full((versions.versions, len(shown.numbers)), np.nan)
        answers[0] = shown.numbers
        if shown.ids is None or versions.versions == 1:
            return answers
        store.keep(shown.ids)
        columns = np.arange(len(shown.columns))
        for found in self._found(shown, store, versions.versions):
            answers[found.versions[:, None], found.places[:, None] * len(columns) + columns] = found.numbers
        return answers

    def _found(self, shown: _Shown, store: ReleasedTables, versions: int) -> Iterator[VersionedNumbers]:
        if not self.around.awaits:
            yield from store.in_all_versions(self._matched(self.around.rows, shown), versions)
            return
        for version in range(1, versions):
            store.version = version
            yield store.in_version(self._matched(self.around.over(store), shown), version)
        store.version = 0

    def _matched(self, asked: AroundRows, shown: _Shown) -> Matched:
        identified = RowIdentity().of(without_last_filters(asked.node, self._noisy))
        return Matched(relation=identified.node, ids=identified.ids or (), numbers=shown.columns)


class _Shown(Frozen, eq=False):
    """The rows that are shown: the columns with noisy numbers, these numbers row by row, and the types and values of what
    identifies the rows; None if nothing does."""

    columns: tuple[str, ...]
    numbers: Numbers
    ids: tuple[tuple[Type, Sequence[Value]], ...] | None
