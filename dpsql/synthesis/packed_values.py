"""The values of a column, row by row, in a few bytes each: sequences of Python's values that hold none of them.

A table of ten million rows and twenty columns would take many gigabytes as Python's values, and takes 200 MB as codes of one
byte. DuckDB reads codes and numbers where they are.
"""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from dpsql.synthesis.text_patterns import pattern_of
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.reader import ColumnArrays
from dpsql.types import Type

Array: TypeAlias = NDArray[Any]
PIECE, MOST_SHOWN = 2**16, 1000  # values that become Python's at a time, and that are shown
UNITS = {Type.DATE: "datetime64[D]", Type.TIMESTAMP: "datetime64[us]"}  # since 1970, as numpy and DuckDB count them
EPOCH = dt.date(1970, 1, 1).toordinal()


class PackedValues(Sequence[Value]):
    """Values that are taken from arrays when they are asked for. Equal to any sequence of the same values."""

    @property
    @abstractmethod
    def nullable(self) -> bool:
        """Whether NULL is among them."""

    @abstractmethod
    def distinct(self, most: int) -> list[Value] | None:
        """The different values other than NULL, in order; None if there are more than `most`."""

    def ends(self) -> tuple[Value, Value] | None:
        """The least and the greatest value other than NULL; None if there are none, or if they have no order that matters."""
        return None

    @abstractmethod
    def part(self, start: int, stop: int) -> list[Value]:
        """The values of some rows."""

    @abstractmethod
    def taken(self, rows: NDArray[np.int64]) -> PackedValues:
        """The values of some rows, in an order."""

    @property
    @abstractmethod
    def arrays(self) -> ColumnArrays:
        """The values as an engine reads them."""

    @property
    def loaded(self) -> PackedValues:
        """The same values in memory."""
        return self

    def pieces(self) -> Iterator[PackedValues]:
        """The same values in pieces, each of which is in memory only while it is used."""
        yield self

    @overload
    def __getitem__(self, at: int) -> Value: ...
    @overload
    def __getitem__(self, at: slice) -> list[Value]: ...
    def __getitem__(self, at: int | slice) -> Value | list[Value]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        place = range(len(self))[at]
        return self.part(place, place + 1)[0]

    def __iter__(self) -> Iterator[Value]:
        for start in range(0, len(self), PIECE):
            yield from self.part(start, start + PIECE)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedValues | tuple | list) or len(self) != len(other):
            return False
        return all(self.part(start, start + PIECE) == list(other[start:start + PIECE] if not isinstance(other, PackedValues)
                                                           else other.part(start, start + PIECE))
                   for start in range(0, len(self), PIECE))

    def __repr__(self) -> str:
        return repr(tuple(self)) if len(self) <= MOST_SHOWN else f"({self[0]!r}, {self[1]!r}, ... {len(self)} values)"

    def __hash__(self) -> int:
        return hash((len(self), *self.part(0, 3)))


class CodedValues(PackedValues):
    """Values of a short list: for each row the index of its value."""

    def __init__(self, listed: Sequence[Value], places: Array) -> None:
        self.listed = tuple(listed)
        self.places = np.ascontiguousarray(places, dtype=np.min_scalar_type(max(len(self.listed) - 1, 0)))

    def __len__(self) -> int:
        return len(self.places)

    @property
    def nullable(self) -> bool:
        return None in self.listed and bool((self.places == self.listed.index(None)).any())

    def distinct(self, most: int) -> list[Value] | None:
        present = self._present()
        return present if len(present) <= most else None

    def ends(self) -> tuple[Value, Value] | None:
        present = self._present()
        return (present[0], present[-1]) if present else None

    def _present(self) -> list[Value]:
        found: list[Any] = [self.listed[place] for place in np.flatnonzero(
            np.bincount(self.places, minlength=len(self.listed))).tolist()]
        return sorted({value for value in found if value is not None})

    def part(self, start: int, stop: int) -> list[Value]:
        return [self.listed[place] for place in self.places[start:stop].tolist()]

    def taken(self, rows: NDArray[np.int64]) -> PackedValues:
        return CodedValues(self.listed, self.places[rows])

    @property
    def arrays(self) -> ColumnArrays:
        return ColumnArrays(numbers=self.places, listed=self.listed)


class NumberValues(PackedValues):
    """Numbers; or dates as days, and times as microseconds, since 1970.

    missing  the rows that have NULL; None if there are none
    parts    the unit of the numbers is 1 / parts: 100 if they are cents
    """

    def __init__(self, type: Type, numbers: Array, missing: NDArray[np.bool_] | None = None, parts: int = 1) -> None:
        self.type, self.numbers, self.parts = type, numbers, parts
        self.missing = missing if missing is not None and missing.any() else None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nullable(self) -> bool:
        return self.missing is not None

    @property
    def _known(self) -> Array:
        return self.numbers if self.missing is None else self.numbers[~self.missing]

    def distinct(self, most: int) -> list[Value] | None:
        known = self._known
        if len(np.unique(known[:16 * most])) > most:
            return None
        found = np.unique(known)
        return self._values(found) if len(found) <= most else None

    def ends(self) -> tuple[Value, Value] | None:
        known = self._known
        if not len(known):
            return None
        low, high = self._values(np.array([known.min(), known.max()]))
        return low, high

    def part(self, start: int, stop: int) -> list[Value]:
        values = self._values(self.numbers[start:stop])
        if self.missing is None:
            return values
        return [None if missing else value for value, missing in zip(values, self.missing[start:stop].tolist(), strict=True)]

    def taken(self, rows: NDArray[np.int64]) -> PackedValues:
        return NumberValues(self.type, self.numbers[rows], None if self.missing is None else self.missing[rows],
                            self.parts)

    def _values(self, numbers: Array) -> list[Value]:
        found: list[Value] = (numbers.astype(np.int64).astype(UNITS[self.type]) if self.type in UNITS else
                              in_ones(numbers, self.parts)).tolist()
        return found

    @property
    def arrays(self) -> ColumnArrays:
        return ColumnArrays(numbers=self.numbers, missing=self.missing, parts=self.parts)


class PatternValues(PackedValues):
    """Texts by a pattern, made when they are asked for: different ones, as long as there are enough."""

    def __init__(self, pattern: str, seed: int, rows: int) -> None:
        self.pattern, self.seed, self._rows = pattern, seed, rows
        self._texts = pattern_of(pattern)

    def __len__(self) -> int:
        return self._rows

    @property
    def nullable(self) -> bool:
        return False

    def distinct(self, most: int) -> list[Value] | None:
        many = min(self._texts.size, self._rows)
        return [*sorted(set(self._texts.texts(np.arange(many), self.seed)))] if many <= most else None

    def part(self, start: int, stop: int) -> list[Value]:
        return [*self._texts.texts(np.arange(start, min(stop, self._rows)), self.seed)]

    def taken(self, rows: NDArray[np.int64]) -> PackedValues:
        texts = list(self)
        return packed_values([texts[row] for row in rows.tolist()])

    @property
    def arrays(self) -> ColumnArrays:
        return ColumnArrays(numbers=np.array(list(self), dtype=object))


def in_ones(numbers: Array, parts: int) -> Array:
    """Numbers that are given in units of 1 / parts."""
    return numbers if parts == 1 else numbers / parts


def in_memory(values: Sequence[Value]) -> Sequence[Value]:
    """The same values, read if they are kept elsewhere."""
    return values.loaded if isinstance(values, PackedValues) else values


def packed_values(values: Sequence[Value]) -> PackedValues:
    """The same values, packed."""
    if isinstance(values, PackedValues):
        return values
    place = {value: at for at, value in enumerate(dict.fromkeys(values))}
    return CodedValues(tuple(place), np.fromiter((place[value] for value in values), dtype=np.int64, count=len(values)))


def joined(parts: Sequence[PackedValues]) -> PackedValues:
    """The values of several parts of a column, one after the other. Parts with codes have the same list, and numbers one unit."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, CodedValues):
        return CodedValues(first.listed, np.concatenate([part.places for part in parts if isinstance(part, CodedValues)]))
    found = [part for part in parts if isinstance(part, NumberValues)]
    missing = [np.zeros(len(part), dtype=np.bool_) if part.missing is None else part.missing for part in found]
    return NumberValues(found[0].type, np.concatenate([part.numbers for part in found]), np.concatenate(missing), found[0].parts)
