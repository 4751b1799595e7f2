"""What is kept of a synthetic table: its rows, what was measured for it, and how near the two are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dpsql.frozen import Frozen, field
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.synthesis.acceptance import Acceptance
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.packed_numbers import packed_numbers, unpacked_numbers
from dpsql.synthesis.packed_values import PatternValues, packed_values
from dpsql.synthesis.stored_values import (
    PartWriter,
    ReadPart,
    StoredValues,
    are_large,
    no_part,
    read_value,
    told_of,
    told_value,
    values_of,
)
from dpsql.trusted.declarations.tables import ForeignKey
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type
from dpsql.workload.factors import Array


class SyntheticColumn(Frozen):
    """A column and its values, row by row.

    counted  what its counts are of; None if it was never counted
    sql_type  the type in which it is exported and queried, such as DECIMAL(10,2); "" for the usual one of its type
    """

    name: str
    type: Type
    values: Sequence[Value]
    counted: CountedValues | None = None
    sql_type: str = ""

    @property
    def kind(self) -> str:
        """The SQL type in which it is exported and queried."""
        return self.sql_type or self.type.value


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
    drawn   the rows of the table in the same cells, packed; empty where they have to be counted
    """

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    error: float
    off: float
    values: str
    drawn: str = field(default="", compare=False)

    @property
    def cells(self) -> int:
        """The number of counts."""
        return math.prod(self.shape)

    @property
    def measurement(self) -> MarginalMeasurement:
        """The noisy counts in the form to which models are fitted."""
        return MarginalMeasurement(columns=self.columns, variance=self.error**2,
                                   values=unpacked_numbers(self.values, "<f8").reshape(self.shape))


def released(measured: MarginalMeasurement, off: float, drawn: Array | None = None) -> ReleasedMarginal:
    """A measured marginal, in its stored form, perhaps with the counts of the table's rows."""
    return ReleasedMarginal(columns=measured.columns, shape=np.shape(measured.values), error=math.sqrt(measured.variance),
                            off=off, values=packed_numbers(measured.values, "<f8"),
                            drawn="" if drawn is None else packed_numbers(drawn, "<f8"))


class KeptTable(Frozen):
    """Rows drawn from a private model of a table, and the marginals that it was fitted to. All of it is public.

    total      the estimated number of private rows
    marginals  what was measured, in order
    known      of these the number, at the end, that earlier statements had measured
    key        columns that tell its rows apart, where it was made together with other tables
    parent     the table among these on which it hangs
    coarser    coarser versions of columns, that marginals of several columns are of
    acceptance  how it was compared with criteria; None if there were none
    records    the measurements as JSON values, which later statements may reuse; see `batch.records`
    stored     that it was made before, so that it costs nothing now
    whole      the table of all periods, where this one is that of a period of a growing table
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
    acceptance: Acceptance | None = None
    records: tuple[object, ...] = field(default=(), repr=False, compare=False)
    stored: bool = field(default=False, compare=False)
    whole: str = ""
    periods: tuple[str, ...] = field(default=(), compare=False)

    @property
    def cost(self) -> str:
        """What it cost when it was made."""
        return self.price

    @property
    def keys(self) -> frozenset[str]:
        """The columns that join it with tables made together with it."""
        return frozenset([*self.key, *(() if self.parent is None else self.parent.columns)])

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0].values)

    @property
    def is_large(self) -> bool:
        """Whether it has so many values that its stored form is in parts."""
        return are_large(self.rows, len(self.columns))


def packed(column: SyntheticColumn) -> dict[str, Any]:
    """The column in the stored form, with its values."""
    return _described(column, told_of(packed_values(column.values)))


def packed_in_parts(column: SyntheticColumn, keep: Callable[[str], str]) -> dict[str, Any]:
    """The same with the values in parts; `keep` stores a part and returns its digest. Values that follow from a pattern need no
    parts."""
    values = packed_values(column.values)
    if isinstance(values, PatternValues):
        return packed(column)
    if isinstance(values, StoredValues):
        return _described(column, values.told)
    writer = PartWriter(keep)
    writer.add(values)
    return _described(column, writer.told())


def _described(column: SyntheticColumn, values: Mapping[str, Any]) -> dict[str, Any]:
    counted = column.counted
    return {"name": column.name, "type": column.type.value, "sql_type": column.sql_type, **values,
            "counted": None if counted is None else {"listed": [told_value(value) for value in counted.listed],
                                                     "edges": counted.edges}}


def unpacked(told: dict[str, Any], read: ReadPart = no_part) -> SyntheticColumn:
    """The column in a stored form; `read` reads its parts, when they are needed."""
    kind, counted = Type(told["type"]), told["counted"]
    return SyntheticColumn(
        name=told["name"], type=kind, sql_type=told.get("sql_type", ""), values=values_of(told, kind, read),
        counted=None if counted is None else CountedValues(edges=tuple(counted["edges"]), listed=tuple(
            value if counted["edges"] else read_value(value, kind) for value in counted["listed"])))
