"""The numbers of an answer by columns: in memory, and packed for the ledger.

An answer may have a million rows. Its values, standard errors and intervals are kept column by column; rows are made of them when
they are asked for.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import zlib
from collections.abc import Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type

Numbers: TypeAlias = NDArray[np.float64]
Error: TypeAlias = float | None
Interval: TypeAlias = tuple[float, float] | None
FEW = 1000  # numbers that are stored one by one, so that a reader of the ledger sees them


class ColumnData(Frozen, eq=False):
    """The values of a column; and their standard errors and the ends of their intervals, NaN where there is none. None if no
    value has any."""

    values: Sequence[Value]
    errors: Numbers | None = None
    lows: Numbers | None = None
    highs: Numbers | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ColumnData):
            return NotImplemented
        pairs = zip(self._numbers, other._numbers, strict=True)
        return list(self.values) == list(other.values) and all(
            a is b if a is None or b is None else np.array_equal(a, b, equal_nan=True) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]

    @property
    def _numbers(self) -> tuple[Numbers | None, ...]:
        return self.errors, self.lows, self.highs

    def told_errors(self) -> list[Error]:
        return [None] * len(self.values) if self.errors is None else none_for_nan(self.errors)

    def told_intervals(self) -> list[Interval]:
        if self.lows is None or self.highs is None:
            return [None] * len(self.values)
        found = list[Interval](zip(self.lows.tolist(), self.highs.tolist(), strict=True))
        for at in np.flatnonzero(np.isnan(self.lows) | np.isnan(self.highs)).tolist():
            found[at] = None
        return found

    def at(self, rows: slice | Sequence[int]) -> ColumnData:
        """Only the rows at these positions, in this order."""
        places = rows if isinstance(rows, slice) else np.array(rows, dtype=np.intp)
        errors, lows, highs = (None if part is None else part[places] for part in self._numbers)
        values = self.values[rows] if isinstance(rows, slice) else tuple(self.values[row] for row in rows)
        return ColumnData(values=values, errors=errors, lows=lows, highs=highs)

    def packed(self) -> list[Any]:
        """A form for the ledger, which `unpacked` reads."""
        return [_packed_values(self.values), *map(_packed, self._numbers)]


def of_rows(rows: Sequence[Sequence[Value]], errors: Sequence[Sequence[Error]], intervals: Sequence[Sequence[Interval]],
            width: int) -> tuple[ColumnData, ...]:
    """The columns of a table given by rows."""
    return tuple(ColumnData(values=tuple(row[at] for row in rows), errors=_floats([row[at] for row in errors]),
                            lows=_floats([ends and ends[0] for ends in (row[at] for row in intervals)]),
                            highs=_floats([ends and ends[1] for ends in (row[at] for row in intervals)])) for at in range(width))


def joined(parts: Sequence[ColumnData]) -> ColumnData:
    """The rows of several columns, one after another."""
    def numbers(found: Sequence[tuple[Numbers | None, int]]) -> Numbers | None:
        if all(part is None for part, _ in found):
            return None
        return np.concatenate([np.full(size, math.nan) if part is None else part for part, size in found])

    errors, lows, highs = (numbers([(each, len(part.values)) for part, each in zip(parts, own, strict=True)])
                           for own in zip(*(part._numbers for part in parts), strict=True))
    return ColumnData(values=tuple(value for part in parts for value in part.values), errors=errors, lows=lows, highs=highs)


def none_for_nan(numbers: Numbers) -> list[Error]:
    """Numbers, None for NaN."""
    found: list[Error] = numbers.tolist()
    for at in np.flatnonzero(np.isnan(numbers)).tolist():
        found[at] = None
    return found


def _floats(numbers: Sequence[Error]) -> Numbers | None:
    """None where there is no number."""
    return None if all(number is None for number in numbers) else np.array(
        [math.nan if number is None else number for number in numbers], dtype=np.float64)


# -- packed for the ledger: few numbers as a list, many as the bytes of an array


def unpacked(body: Sequence[Any], kind: Type) -> ColumnData:
    """Unpack a column."""
    values, *numbers = body
    errors, lows, highs = (_array(part) if isinstance(part, dict) else None if part is None else _floats(part)
                           for part in numbers)
    return ColumnData(values=_unpacked_values(values, kind), errors=errors, lows=lows, highs=highs)


def _packed(numbers: Numbers | None) -> Any:
    if numbers is None:
        return None
    return none_for_nan(numbers) if len(numbers) <= FEW else _bytes_of(numbers.astype("<f8"))


def _packed_values(values: Sequence[Value]) -> Any:
    """Pack a column: many repeated values as a list of distinct ones and their positions; many numbers as bytes, with NaN for
    NULL or a list of the positions of NULL."""
    kinds = set(map(type, values)) - {type(None)} if len(values) > FEW else set()
    different = dict(zip(dict.fromkeys(values), count())) if kinds and float not in kinds else {}  # 0 and -0 are equal floats
    if 0 < 4 * len(different) <= len(values):
        places = np.array([different[value] for value in values], dtype="<i8")
        return {"values": list(map(plain, different)), "places": _bytes_of(places)}
    holes = [at for at, value in enumerate(values) if value is None]
    if kinds == {int}:
        whole = np.array([value or 0 for value in values])
        if whole.dtype == np.int64:  # not an array of larger integers
            return {**_bytes_of(whole.astype("<i8")), "null": holes}
    if kinds == {float}:
        numbers = np.array(values, dtype="<f8")
        if np.isnan(numbers).sum() == len(holes):
            return _bytes_of(numbers)
    return list(map(plain, values))


def _bytes_of(numbers: NDArray[Any]) -> dict[str, Any]:
    packed = zlib.compress(numbers.tobytes(), 1)
    return {"type": numbers.dtype.str, "zlib": base64.b64encode(packed).decode("ascii")}


def _array(packed: dict[str, Any]) -> NDArray[Any]:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed["zlib"])), dtype=packed["type"])


def _unpacked_values(values: Any, kind: Type) -> tuple[Value, ...]:
    if isinstance(values, list):
        return tuple(typed(value, kind) for value in values) if kind.temporal else tuple(values)
    if "values" in values:
        different = [typed(value, kind) for value in values["values"]]
        return tuple(map(different.__getitem__, _array(values["places"]).tolist()))
    numbers = _array(values)
    found: list[Value] = list(none_for_nan(numbers)) if numbers.dtype.kind == "f" else numbers.tolist()
    for at in values.get("null", ()):
        found[at] = None
    return tuple(found)


def plain(value: Value) -> Any:
    """A value for JSON."""
    return value.isoformat() if isinstance(value, dt.date) else value


def typed(value: Any, kind: Type) -> Value:
    """A value read from JSON, in its own type."""
    if value is None or not kind.temporal:
        return value  # type: ignore[no-any-return]
    return dt.datetime.fromisoformat(value) if kind is Type.TIMESTAMP else dt.date.fromisoformat(value)
