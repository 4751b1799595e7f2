"""Released and public tables in a scratch database, in all versions, and the numbers of relations over them in each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.backends.scratch import VERSION, ScratchTables, stored
from dpsql.estimates import Numbers
from dpsql.frozen import Frozen
from dpsql.postprocessing.moved_rows import LoadedColumn, MovedRows
from dpsql.postprocessing.row_identity import PLACE
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.expr.printing import quote, settled
from dpsql.trusted.plan.node import Node, Printing, bottom_up, fold
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.reader import ColumnArrays, ReaderFault
from dpsql.types import Type

SHOWN = "rows that are shown"  # the table of what identifies them


class Matched(Frozen):
    """A relation whose rows are matched with those that are shown: `ids` are its columns that identify a row, in their order, and
    `numbers` those whose values are asked for."""

    relation: Node
    ids: tuple[str, ...]
    numbers: tuple[str, ...]

    def joined(self, sql: str, version: str) -> str:
        """A query of the rows of `sql` that are shown: their version, the place at which they are shown, and their numbers."""
        same = [f"s.{quote(str(i))} IS NOT DISTINCT FROM r.{quote(name)}" for i, name in enumerate(self.ids)]
        numbers = [f"{_as_number(f'r.{quote(name)}', self.relation.env[name].type)} AS {quote(str(i))}"
                   for i, name in enumerate(self.numbers)]
        return (f"SELECT {', '.join([f'{version} AS {quote(VERSION)}', f's.{quote(PLACE)}', *numbers])} FROM ({sql}) AS r "
                f"JOIN {quote(SHOWN)} AS s ON {' AND '.join(same) or 'TRUE'}")


def _as_number(value: str, kind: Type) -> str:
    """A number or day as SQL for a double, as `as_floats` represents it."""
    number = f"date_diff('day', DATE '0001-01-01', {value}) + 1" if kind is Type.DATE else value
    return f"CAST({number} AS DOUBLE)"


class VersionedNumbers(Frozen, eq=False):
    """Rows in some versions: of each its version, the place at which it is shown, and its numbers, as rows x numbers."""

    versions: NDArray[np.int64]
    places: NDArray[np.int64]
    numbers: Numbers

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]]) -> VersionedNumbers:
        """Columns in the order of `Matched.joined`. Of rows that are shown at one place in one version there is none."""
        versions, places, *numbers = columns.values()
        found = np.stack([np.ma.filled(column, np.nan) for column in numbers], axis=1)
        _, own, many = np.unique(versions * (1 + places.max(initial=0)) + places, return_inverse=True, return_counts=True)
        alone = many[own] == 1
        return cls(versions=versions[alone], places=places[alone], numbers=found[alone])


class ReleasedTables:
    """Released and public tables in a scratch database, in all versions; what is asked of them is asked of one."""

    def __init__(self, tables: Mapping[str, Mapping[str, LoadedColumn]], versions: MovedRows, public: PublicTables) -> None:
        self._store, self._public, self._loaded = ScratchTables(), public, set[str]()
        self.version = 0
        for name, columns in tables.items():
            self._load(name, columns, versions)

    def _load(self, name: str, columns: Mapping[str, LoadedColumn], versions: MovedRows) -> None:
        size, times = max((len(column.values) for column in columns.values()), default=0), versions.versions
        places = np.tile(np.arange(size), times)
        given: dict[str, tuple[Type, ColumnArrays]] = {}
        for label, column in columns.items():
            moving = versions.columns.get((name, label))
            given[label] = column.type, ColumnArrays(numbers=places, listed=column.values) if moving is None else _arrays(
                moving.reshape(-1), column.type)
        given[PLACE] = Type.BIGINT, ColumnArrays(numbers=places)
        self._store.load(name, given, ColumnArrays(numbers=np.repeat(np.arange(times), size)))
        self._loaded.add(name)

    def keep(self, ids: Sequence[tuple[Type, Sequence[Value]]]) -> None:
        """Load what identifies the rows that are shown: each column's type and values."""
        size = max((len(values) for _, values in ids), default=1)  # without any, there is one row
        columns = {str(i): (kind, values) for i, (kind, values) in enumerate(ids)}
        self._store.load(SHOWN, {**columns, PLACE: (Type.BIGINT, ColumnArrays(numbers=np.arange(size)))})

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

    def in_all_versions(self, asked: Matched, versions: int) -> Iterator[VersionedNumbers]:
        """The numbers of a relation in every version but the first: in one query, or one by one if DuckDB cannot."""
        self.prepared(asked.relation)
        joined = fold(asked.relation, self._beside_version)
        every = (f"SELECT v.{quote(VERSION)}, r.* FROM (SELECT unnest(range(1, {versions})) AS {quote(VERSION)}) AS v, "
                 f"LATERAL ({joined}) AS r")
        try:
            yield VersionedNumbers.of(self._store.arrays(asked.joined(every, f"r.{quote(VERSION)}")))
        except ReaderFault:
            for version in range(1, versions):
                yield self.in_version(asked, version)

    def in_version(self, asked: Matched, version: int) -> VersionedNumbers:
        """The numbers of a relation in one version."""
        return VersionedNumbers.of(self._store.arrays(asked.joined(self.prepared(asked.relation), f"{version:d}"), version))

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


def _arrays(numbers: Numbers, kind: Type) -> ColumnArrays:
    """Numbers as values of a column's type; NaN is NULL."""
    missing = np.isnan(numbers)
    if kind in (Type.BIGINT, Type.DATE):
        days = dt.date(1970, 1, 1).toordinal() if kind is Type.DATE else 0
        numbers = np.where(missing, 0, numbers) - days
    return ColumnArrays(numbers=numbers, missing=missing)
