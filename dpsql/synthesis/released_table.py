"""What is kept of a synthetic table: its rows, what was measured for it, and how near the two are."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np

from dpsql.frozen import Frozen, field
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.packed_numbers import packed_numbers, unpacked_numbers
from dpsql.trusted.declarations.tables import ForeignKey
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.stopping import go_on
from dpsql.types import Type


class SyntheticColumn(Frozen):
    """A column and its values, row by row.

    counted  what its counts are of; None if it was never counted
    """

    name: str
    type: Type
    values: tuple[Value, ...]
    counted: CountedValues | None = None


class CoarserColumn(Frozen):
    """A coarser version of a column, in which it was counted together with others.

    of      the column or version whose entries it merges
    merged  for each of these, the index of its entry here
    """

    name: str
    of: str
    merged: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of entries."""
        return max(self.merged) + 1


class ReleasedMarginal(Frozen):
    """A marginal that was measured: its columns, the standard error of each count, and the counts.

    shape   the number of entries of each column
    off     the mean distance between the counts measured and those of the table, scaled to as many rows as were estimated
    values  the counts, packed, the last column's entry changing first
    """

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    error: float
    off: float
    values: str

    @property
    def cells(self) -> int:
        """The number of counts."""
        return math.prod(self.shape)

    @property
    def measurement(self) -> MarginalMeasurement:
        """The noisy counts in the form to which models are fitted."""
        return MarginalMeasurement(columns=self.columns, variance=self.error**2,
                                   values=unpacked_numbers(self.values, "<f8").reshape(self.shape))


def released(measured: MarginalMeasurement, off: float) -> ReleasedMarginal:
    """A measured marginal, in its stored form."""
    return ReleasedMarginal(columns=measured.columns, shape=np.shape(measured.values), error=math.sqrt(measured.variance),
                            off=off, values=packed_numbers(measured.values, "<f8"))


class KeptTable(Frozen):
    """Rows drawn from a private model of a table, and the marginals that it was fitted to. All of it is public.

    total      the estimated number of private rows
    marginals  what was measured, in order
    known      of these the number, at the end, that earlier statements had measured
    key        columns that tell its rows apart, where it was made together with other tables
    parent     the table among these on which it hangs
    coarser    coarser versions of columns, that marginals of several columns are of
    records    the measurements as JSON values, which later statements may reuse; see `batch.records`
    stored     that it was made before, so that it costs nothing now
    """

    name: str
    method: str
    price: str
    total: float
    columns: tuple[SyntheticColumn, ...]
    marginals: tuple[ReleasedMarginal, ...]
    notes: tuple[str, ...] = ()
    statement: str = ""
    known: int = 0
    key: tuple[str, ...] = ()
    parent: ForeignKey | None = None
    coarser: tuple[CoarserColumn, ...] = ()
    records: tuple[object, ...] = field(default=(), repr=False, compare=False)
    stored: bool = field(default=False, compare=False)

    @property
    def cost(self) -> str:
        """What it cost when it was made."""
        return self.price

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0].values)


def packed(column: SyntheticColumn) -> dict[str, Any]:
    """The distinct values, and for each row the index of its value."""
    go_on()  # a column of a million rows takes seconds
    listed = list(dict.fromkeys(column.values))
    place, counted = {value: i for i, value in enumerate(listed)}, column.counted
    return {"name": column.name, "type": column.type.value, "values": [_told(value) for value in listed],
            "places": packed_numbers(np.array([place[value] for value in column.values]), "<u4"),
            "counted": None if counted is None else {"listed": [_told(value) for value in counted.listed],
                                                     "edges": counted.edges}}


def unpacked(told: dict[str, Any]) -> SyntheticColumn:
    kind, counted = Type(told["type"]), told["counted"]
    listed = [_read(value, kind) for value in told["values"]]
    return SyntheticColumn(
        name=told["name"], type=kind, values=tuple(listed[place] for place in unpacked_numbers(told["places"], "<u4").tolist()),
        counted=None if counted is None else CountedValues(edges=tuple(counted["edges"]), listed=tuple(
            value if counted["edges"] else _read(value, kind) for value in counted["listed"])))


def _told(value: Value) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def _read(value: Any, kind: Type) -> Value:
    if value is None or not kind.temporal:
        found: Value = value
        return found
    return dt.date.fromisoformat(value) if kind is Type.DATE else dt.datetime.fromisoformat(value)
