"""A synthetic table: its rows, what was measured for it and how well, and its form in the ledger."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.catalog.model import Column, Domain, ForeignKey, Table
from dpsql.errors import OperationalError
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.plan.expr.nodes import Value
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.packed_numbers import packed_numbers, unpacked_numbers
from dpsql.types import ANY_NUMBER, Interval, Type

if TYPE_CHECKING:
    import pandas as pd

MOST_LISTED = 1000  # values of a column that are the groups of GROUP BY
MARK = '{"synthetic table": '  # with which the stored form of each begins, and of nothing else


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticColumn:
    """A column and its values, row by row.

    counted  what its counts are of; None where it was never counted
    """

    name: str
    type: Type
    values: tuple[Value, ...]
    counted: CountedValues | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedMarginal:
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
        """How many counts there are."""
        return math.prod(self.shape)

    @property
    def measurement(self) -> MarginalMeasurement:
        """The noisy counts, as models are fitted to them."""
        return MarginalMeasurement(columns=self.columns, variance=self.error**2,
                                   values=unpacked_numbers(self.values, "<f8").reshape(self.shape))


def released(measured: MarginalMeasurement, off: float) -> ReleasedMarginal:
    """A measured marginal, in its stored form."""
    return ReleasedMarginal(columns=measured.columns, shape=np.shape(measured.values), error=math.sqrt(measured.variance),
                            off=off, values=packed_numbers(measured.values, "<f8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticTable:
    """Rows drawn from a private model of a table. They are public: asking them costs nothing.

    total      the estimated number of private rows
    marginals  what was measured, in order
    key        columns that tell its rows apart, where it was made with other tables
    parent     the table on which it hangs then
    """

    name: str
    method: str
    price: str
    total: float
    columns: tuple[SyntheticColumn, ...]
    marginals: tuple[ReleasedMarginal, ...]
    notes: tuple[str, ...] = ()
    statement: str = ""
    key: tuple[str, ...] = ()
    parent: ForeignKey | None = None

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return len(self.columns[0].values)

    def df(self) -> pd.DataFrame:
        """The rows as a pandas frame; NULL is None, or NaN among numbers."""
        import pandas as pd

        return pd.DataFrame({column.name: _series(column, pd) for column in self.columns})

    def write(self, target: Path) -> None:
        """Write the rows to a CSV or Parquet file, by its suffix; an empty cell of a CSV file is NULL.

        Raises OperationalError where the file exists, or cannot be written.
        """
        import duckdb

        from dpsql.backends.duckdb import connected, make_table, written

        try:
            target.open("xb").close()
            with connected() as connection:
                make_table(connection, "drawn", {column.name: (column.type.value, column.values) for column in self.columns})
                form = "PARQUET" if target.suffix.lower() == ".parquet" else "CSV, HEADER"
                connection.execute(f"COPY drawn TO {written(target.absolute())} (FORMAT {form})")
        except FileExistsError:
            raise OperationalError(f"{target} exists, and is not overwritten", code="exists", try_="another name") from None
        except (OSError, duckdb.Error) as fault:
            raise OperationalError(f"{target} cannot be written ({type(fault).__name__})", code="file") from None

    def as_json(self) -> str:
        """The stored form."""
        told = {"synthetic table": self.name, "method": self.method, "price": self.price, "total": self.total,
                "notes": self.notes, "statement": self.statement, "marginals": [asdict(each) for each in self.marginals],
                "key": self.key, "parent": None if self.parent is None else asdict(self.parent)}
        return json.dumps({**told, "columns": [packed(column) for column in self.columns]})

    def __str__(self) -> str:
        """A summary: what was measured, and how far the table is from it."""
        lines = [f"{self.name}: {self.rows:,} rows of {len(self.columns)} columns, drawn from a model by {self.method}",
                 f"the private rows number about {self.total:,.0f}; cost {self.price}", "measured, with the error of each count"]
        width = max(len(", ".join(each.columns)) for each in self.marginals)
        lines += [f"  {', '.join(each.columns):<{width}}  {each.cells:>7,} cells  ± {each.error:,.4g}; the table is off by "
                  f"{each.off:,.4g} a cell" for each in self.marginals]
        return "\n".join([*lines, *self.notes])


def of_json(stored: str) -> SyntheticTable:
    """The table of a stored form."""
    told = json.loads(stored)
    return SyntheticTable(
        name=told["synthetic table"], method=told["method"], price=told["price"], total=told["total"],
        columns=tuple(map(unpacked, told["columns"])), notes=tuple(told["notes"]), statement=told["statement"],
        marginals=tuple(ReleasedMarginal(**{**each, "columns": tuple(each["columns"]), "shape": tuple(each["shape"])})
                        for each in told["marginals"]),
        key=tuple(told["key"]), parent=None if told["parent"] is None else ForeignKey(
            columns=tuple(told["parent"]["columns"]), table=told["parent"]["table"],
            references=tuple(told["parent"]["references"])))


def declared(table: SyntheticTable) -> Table:
    """The table as one that a policy declares public, with the values and ranges that its rows have."""
    return Table(name=table.name, public=True, columns={column.name: declared_column(column) for column in table.columns},
                 key=table.key, foreign_keys=() if table.parent is None else (table.parent,))


def declared_column(column: SyntheticColumn) -> Column:
    present: list[Any] = sorted({value for value in column.values if value is not None})
    ends = ANY_NUMBER
    if present and (column.type.numeric or column.type.temporal):
        low, high = (end.toordinal() if isinstance(end, dt.date) else float(end) for end in (present[0], present[-1]))
        ends = Interval(low, high)
    return Column(name=column.name, type=column.type, sql_type=column.type.value, nullable=None in column.values, declared=ends,
                  physical=ANY_NUMBER if column.type.temporal else ends,
                  domain=Domain(tuple(present)) if 0 < len(present) <= MOST_LISTED else None)


def packed(column: SyntheticColumn) -> dict[str, Any]:
    """The distinct values, and which of them each row has."""
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


def _series(column: SyntheticColumn, pandas: Any) -> Any:
    whole, known = ("Int64", "boolean") if None in column.values else ("int64", "bool")
    kinds = {Type.BIGINT: whole, Type.BOOLEAN: known, Type.DOUBLE: "float64"}
    return pandas.Series(list(column.values), dtype=kinds.get(column.type, "object"))
