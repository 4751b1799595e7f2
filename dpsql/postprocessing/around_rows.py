"""The answer of SQL over released rows: computed from them, with propagated errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from dpsql.answers.answer import Answer, AnswerColumn, Single, noisy_rows, rows_shown, sorted_by
from dpsql.answers.columns import of_rows
from dpsql.answers.described_columns import DescribedColumn, has_ends
from dpsql.backends.scratch import VERSION, ScratchTables, stored
from dpsql.estimates import Estimate, Numbers
from dpsql.frozen import replace
from dpsql.postprocessing.around_binder import AroundRows
from dpsql.postprocessing.around_released import AroundReleased, ReleasedTable
from dpsql.postprocessing.carried_errors import CarriedErrors, Error
from dpsql.postprocessing.moved_rows import DRAWS, DRAWS_ONE_BY_ONE, LoadedColumn, MovedRows, as_floats, as_values, moved_rows
from dpsql.postprocessing.row_identity import PLACE, RowIdentity, moved, without_last_filters
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Node, Printing, bottom_up, fold
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.reader import ReaderFault
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


class ReleasedTables:
    """Released and public tables in a scratch database, in all versions; what is asked of them is asked of one."""

    def __init__(self, tables: Mapping[str, Mapping[str, LoadedColumn]], versions: MovedRows, public: PublicTables) -> None:
        self._store, self._public, self._loaded = ScratchTables(), public, set[str]()
        self.version = 0
        for name, columns in tables.items():
            self._load(name, columns, versions)

    def _load(self, name: str, columns: Mapping[str, LoadedColumn], versions: MovedRows) -> None:
        size, times = max((len(column.values) for column in columns.values()), default=0), max(1, versions.versions)
        given: dict[str, tuple[Type, list[Any]]] = {}
        for label, column in columns.items():
            moving = versions.columns.get((name, label))
            given[label] = (column.type, list(column.values) * times if moving is None else [
                value for version in moving for value in as_values(version, column.type)])
        given[PLACE] = (Type.BIGINT, list(range(size)) * times)
        self._store.load(name, given, [version for version in range(times) for _ in range(size)])
        self._loaded.add(name)

    def public_rows(self, relation: Node) -> list[tuple[Any, ...]]:
        return self.rows(self.prepared(relation))

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        source = f"({self.prepared(relation)}) AS t0"
        if columns:
            agreed = ", ".join(settled(f"t0.{quote(column)}", relation.env[column].type) for column in columns)
            source = f"(SELECT COUNT(*) AS n FROM {source} GROUP BY {agreed}) AS t1"
            return int(self.rows(f"SELECT COALESCE(MAX(t1.n), 0) FROM {source}")[0][0])
        return int(self.rows(f"SELECT COUNT(*) FROM {source}")[0][0])

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._store.rows(sql, self.version)

    def prepared(self, relation: Node) -> str:
        """A relation as SQL, after loading the tables that it reads."""
        for scan in bottom_up(relation):
            if isinstance(scan, Scan) and scan.table.name not in self._loaded:
                self._load_public(scan)
        return fold(relation, lambda node, below: node.render(below, Printing()))

    def all_versions(self, relation: Node, versions: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """The rows of every version but the first, with its number: in one query, or one by one if DuckDB cannot."""
        text = self.prepared(relation)
        joined = fold(relation, self._beside_version)
        try:
            found = self._store.rows(f"SELECT v.{quote(VERSION)}, r.* FROM (SELECT unnest(range(1, {versions})) AS "
                                     f"{quote(VERSION)}) AS v, LATERAL ({joined}) AS r")
        except ReaderFault:
            found = [(version, *row) for version in range(1, versions) for row in self._store.rows(text, version)]
        return ((row[0], row[1:]) for row in found)

    def _beside_version(self, node: Node, below: tuple[str, ...]) -> str:
        """A relation as SQL, with a column for the version of its tables."""
        text = node.render(below, Printing())
        if not isinstance(node, Scan) or not self._store.versioned(node.table.name):
            return text
        name = quote(node.table.name)
        own = f"(SELECT * FROM {quote(stored(node.table.name))} AS s WHERE s.{quote(VERSION)} = v.{quote(VERSION)})"
        return text.replace(f" FROM {name} AS t0", f" FROM {own} AS t0", 1)

    def _load_public(self, scan: Scan) -> None:
        names = [name for name in scan.table.columns if name != PLACE]
        whole = Scan(table=scan.table, columns=tuple((f"c{i}", name) for i, name in enumerate(names)))
        rows = self._public.public_rows(whole)
        columns = {name: (scan.table.columns[name].type, [row[i] for row in rows]) for i, name in enumerate(names)}
        self._store.load(scan.table.name, {**columns, PLACE: (Type.BIGINT, list(range(len(rows))))})
        self._loaded.add(scan.table.name)

    def close(self) -> None:
        self._store.close()


def composed(around: AroundReleased, tables: Mapping[str, Mapping[str, LoadedColumn]], public: PublicTables, *,
             confidence: float, price: str, notes: Sequence[str], seed: int) -> Answer:
    """The answer of the SQL around released rows. If that fails, for instance because there are too many rows, the released rows
    are still shown, as they were paid for."""
    try:
        versions = moved_rows(tables, seed, confidence, DRAWS_ONE_BY_ONE if around.awaits else DRAWS)
        with np.errstate(all="ignore"), closing(ReleasedTables(tables, versions, public)) as store:
            return _composed(around, tables, store, versions, confidence=confidence, price=price, notes=notes)
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


def _composed(around: AroundReleased, tables: Mapping[str, Mapping[str, LoadedColumn]], store: ReleasedTables,
              versions: MovedRows, *, confidence: float, price: str, notes: Sequence[str]) -> Answer:
    asked = around.over(store)
    noisy = {name: frozenset(label for label, column in columns.items() if column.noisy) for name, columns in tables.items()}
    rest = moved(asked.node, noisy).columns
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
    carried: dict[tuple[int, int], Error] = {}
    if numbers and kept and versions.numbers:
        places = [tuple(row[i] for i in ids) for row in kept] if ids is not None else None
        answers = _versions(around, store, versions, places, [at[every[i]] for i in numbers], noisy, kept)
        told = CarriedErrors(tables=tables, moved=versions, confidence=confidence).of(answers)
        carried = {(row, column): told[row * len(numbers) + i] for row in range(len(kept)) for i, column in enumerate(numbers)}
        if around.awaits:
            for i, column in enumerate(numbers):
                still = answers[:, i :: len(numbers)]
                exact[column] = every[column] not in rest and bool(((still == still[0]) | np.isnan(still)).all())
    none: Error = (None, None, False)
    cells = [[none if exact[column] else carried.get((row, column), none) for column in range(len(every))]
             for row in range(len(kept))]
    shown = tuple(AnswerColumn(name=name, type=column.facts.type, exact=exact[i],
                               approximate=any(row[i][2] for row in cells))
                  for i, (name, column) in enumerate(asked.shown))
    data = of_rows([[row[at[column]] for column in every] for row in kept], [[cell[0] for cell in row] for row in cells],
                   [[cell[1] for cell in row] for row in cells], len(shown))
    return Answer(columns=shown, data=data, confidence=confidence, cost=price, notes=tuple(notes))


def _versions(around: AroundReleased, store: ReleasedTables, versions: MovedRows, places: Sequence[tuple[Value, ...]] | None,
              columns: Sequence[int], noisy: Mapping[str, frozenset[str]], kept: Sequence[tuple[Value, ...]]) -> Numbers:
    """The numbers of the answer in every version: versions x (rows x columns), NaN if a version has no such row."""
    answers = np.full((versions.versions, len(kept) * len(columns)), np.nan)
    answers[0] = as_floats([row[column] for row in kept for column in columns])
    if places is None:
        return answers
    seen: dict[tuple[int, tuple[Value, ...]], Sequence[Value] | None] = {}
    for version, row, ids in _all_rows(around, store, versions.versions, noisy):
        place = version, tuple(row[i] for i in ids)
        seen[place] = None if place in seen else [row[column] for column in columns]  # two rows of one identity are neither
    for version in range(1, versions.versions):
        for i, own in enumerate(places):
            found = seen.get((version, own))
            if found is not None:
                answers[version, i * len(columns) : (i + 1) * len(columns)] = as_floats(found)
    return answers


def _all_rows(around: AroundReleased, store: ReleasedTables, versions: int,
              noisy: Mapping[str, frozenset[str]]) -> Iterator[tuple[int, tuple[Value, ...], list[int]]]:
    """The rows of all versions, each with the columns that identify it."""
    if not around.awaits:
        node, ids = _moving(around.rows, noisy)
        yield from ((version, row, ids) for version, row in store.all_versions(node, versions))
        return
    for version in range(1, versions):
        store.version = version
        node, ids = _moving(around.over(store), noisy)
        yield from ((version, row, ids) for row in store.rows(store.prepared(node)))
    store.version = 0


def _moving(asked: AroundRows, noisy: Mapping[str, frozenset[str]]) -> tuple[Node, list[int]]:
    identified = RowIdentity().of(without_last_filters(asked.node, noisy))
    names = [field.id for field in identified.node.fields]
    return identified.node, [names.index(name) for name in identified.ids or ()]
