"""Values of a column as the ledger keeps them: in the text of their table or, if it is large, in parts, which are read when they
are used."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.synthesis.packed_numbers import packed_rows, unpacked_numbers, unpacked_rows
from dpsql.synthesis.packed_values import CodedValues, NumberValues, PackedValues, PatternValues, joined
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.reader import ColumnArrays
from dpsql.trusted.stopping import go_on
from dpsql.types import Type

PART = 2**18  # rows of a column that are kept in one part
PARTS_TOGETHER = 64  # a table whose values would fit into so many parts is kept in one text
MOST_LISTED = 1000  # values of a column that are the groups of GROUP BY
OF_ROWS = "codes", "numbers", "missing"  # what a stored form has for each row
ReadPart: TypeAlias = Callable[[str], str]
"""Reads a part of a stored form, by its digest."""


def are_large(rows: int, columns: int) -> bool:
    """Whether a table has so many values that its stored form is in parts."""
    return rows * columns > PARTS_TOGETHER * PART


def no_part(digest: str) -> str:
    """Raises LookupError: a stored form in one text has no parts."""
    raise LookupError(digest)


def told_of(values: PackedValues) -> dict[str, Any]:
    """Values as JSON values: numbers, or codes in a list."""
    go_on()  # a million rows take a moment
    if isinstance(values, CodedValues):
        return {"values": [told_value(value) for value in values.listed], "codes": packed_rows(values.places)}
    if isinstance(values, NumberValues):
        missing = values.missing
        return {"numbers": packed_rows(values.numbers), "missing": None if missing is None else packed_rows(missing),
                "parts": values.parts}
    if isinstance(values, PatternValues):
        return {"pattern": values.pattern, "seed": str(values.seed), "rows": len(values)}
    return told_of(values.loaded)


def values_of(told: Mapping[str, Any], kind: Type, read: ReadPart) -> PackedValues:
    """The values in a stored form; `read` reads its parts, when they are needed."""
    if "stored" in told:
        return StoredValues(told, kind, read)
    if "pattern" in told:
        return PatternValues(told["pattern"], int(told["seed"]), told["rows"])
    if "numbers" in told:
        missing = told["missing"]
        return NumberValues(kind, unpacked_rows(told["numbers"]), None if missing is None else unpacked_rows(missing),
                            told.get("parts", 1))
    listed = [read_value(value, kind) for value in told["values"]]
    return CodedValues(listed, unpacked_rows(told["codes"]) if "codes" in told else unpacked_numbers(told["places"], "<u4"))


def told_value(value: Value) -> Any:
    """A value as a JSON value."""
    return value.isoformat() if isinstance(value, dt.date) else value


def read_value(value: Any, kind: Type) -> Value:
    """The value of a type in a JSON value."""
    if value is None or not kind.temporal:
        found: Value = value
        return found
    return dt.date.fromisoformat(value) if kind is Type.DATE else dt.datetime.fromisoformat(value)


class StoredValues(PackedValues):
    """Values in parts. `told` says how many rows each part has, with its digest, and what declares the column: whether NULL is
    among the values, the least and the greatest one, and the different ones if there are few."""

    def __init__(self, told: Mapping[str, Any], kind: Type, read: ReadPart) -> None:
        self.told, self._kind, self._read = told, kind, read
        self._starts: list[int] = [0, *accumulate(size for size, _ in told["stored"])]
        self._last: tuple[int, PackedValues] | None = None  # rows are read one after the other, so the same part comes again

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def nullable(self) -> bool:
        return bool(self.told["nullable"])

    def distinct(self, most: int) -> list[Value] | None:
        found = self.told["distinct"]
        return None if found is None or len(found) > most else [read_value(value, self._kind) for value in found]

    def ends(self) -> tuple[Value, Value] | None:
        if self.told["ends"] is None:
            return None
        low, high = (read_value(value, self._kind) for value in self.told["ends"])
        return low, high

    def part(self, start: int, stop: int) -> list[Value]:
        found: list[Value] = []
        for number, (first, end) in enumerate(pairwise(self._starts)):
            if first < stop and start < end:
                found += self._piece(number).part(max(start - first, 0), min(stop, end) - first)
        return found

    def taken(self, rows: NDArray[np.int64]) -> PackedValues:
        return self.loaded.taken(rows)

    @property
    def arrays(self) -> ColumnArrays:
        return self.loaded.arrays

    @property
    def loaded(self) -> PackedValues:
        return joined([*self.pieces()])

    def pieces(self) -> Iterator[PackedValues]:
        for digest in self._digests:
            yield self._values(self._read(digest))

    def texts(self) -> dict[str, str]:
        """The parts, by their digests."""
        return {digest: self._read(digest) for digest in self._digests}

    @property
    def _digests(self) -> list[str]:
        return [digest for _, digest in self.told["stored"]]

    def _values(self, part: str) -> PackedValues:
        common = {name: value for name, value in self.told.items() if name != "stored"}
        return values_of({**common, **json.loads(part)}, self._kind, no_part)

    def _piece(self, number: int) -> PackedValues:
        if self._last is None or self._last[0] != number:
            self._last = number, self._values(self._read(self._digests[number]))
        return self._last[1]


class PartWriter:
    """Packs values of a column in parts as they come, so that they are never in memory together. `keep` stores a part and returns
    its digest."""

    def __init__(self, keep: Callable[[str], str]) -> None:
        self._keep, self._waiting = keep, list[PackedValues]()
        self._stored: list[tuple[int, str]] = []
        self._common: dict[str, Any] = {}
        self._nullable, self._ends = False, list[Any]()
        self._distinct: set[Value] | None = set()

    def add(self, values: PackedValues) -> None:
        """Add the values of more rows."""
        self._waiting.append(values)
        if sum(map(len, self._waiting)) >= PART:
            whole = joined(self._waiting)
            end = len(whole) - len(whole) % PART
            for start in range(0, end, PART):
                self._write(whole.taken(np.arange(start, start + PART)))
            self._waiting = [whole.taken(np.arange(end, len(whole)))] if end < len(whole) else []

    def _write(self, values: PackedValues) -> None:
        told = told_of(values)
        part = json.dumps({name: told.pop(name) for name in OF_ROWS if name in told})
        self._stored.append((len(values), self._keep(part)))
        self._common, self._nullable = told, self._nullable or values.nullable
        ends, distinct = values.ends(), values.distinct(MOST_LISTED)
        self._ends = [*self._ends, *(ends or ())]
        if distinct is None or self._distinct is None or len(both := self._distinct.union(distinct)) > MOST_LISTED:
            self._distinct = None
        else:
            self._distinct = both

    def told(self) -> dict[str, Any]:
        """All of them as JSON values; see `StoredValues`."""
        if self._waiting:
            self._write(joined(self._waiting))
            self._waiting = []
        ends: list[Any] | None = [min(self._ends), max(self._ends)] if self._ends else None
        distinct: list[Any] | None = None if self._distinct is None else sorted(self._distinct)
        return {**self._common, "stored": self._stored, "nullable": self._nullable,
                "ends": None if ends is None else [*map(told_value, ends)],
                "distinct": None if distinct is None else [*map(told_value, distinct)]}
