"""A synthetic table: as a frame, a file, a page and a public table of later statements, and its form in the ledger."""

from __future__ import annotations

import datetime as dt
import json
import textwrap
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpsql.answers.described_columns import OF_SYNTHETIC_TABLE
from dpsql.answers.listing import Listing
from dpsql.answers.new_files import new_file, save
from dpsql.frozen import asdict
from dpsql.synthesis.acceptance import acceptance_of
from dpsql.synthesis.packed_values import CodedValues, NumberValues, in_ones, packed_values
from dpsql.synthesis.released_table import (
    CoarserColumn,
    KeptTable,
    ReleasedMarginal,
    SyntheticColumn,
    packed,
    packed_in_parts,
    unpacked,
)
from dpsql.synthesis.stored_values import MOST_LISTED, ReadPart, StoredValues, no_part
from dpsql.trusted.declarations.tables import Column, Domain, ForeignKey, Table
from dpsql.trusted.kernel.chain import InParts, part_digest
from dpsql.types import ANY_NUMBER, Interval, Type

if TYPE_CHECKING:
    import pandas as pd

MARK = '{"synthetic table": '  # with which the stored form of each begins, and of nothing else


class SyntheticTable(KeptTable):
    """A synthetic table, with what can be done with it. Asking its rows costs nothing.

    The rows of a table with more than 16 million values are read from the ledger when they are used, so the connection must be
    open then.
    """

    FIELD: ClassVar[str] = "synthetic"

    def as_table(self) -> Listing:
        """The marginals that were measured, with their errors."""
        return Listing(columns=OF_SYNTHETIC_TABLE, rows=tuple(
            (", ".join(each.columns), each.cells, each.error, each.off) for each in self.marginals))

    def df(self) -> pd.DataFrame:
        """The rows as a pandas frame; NULL is None, or NaN among numbers."""
        import pandas as pd

        return pd.DataFrame({column.name: _series(column, pd) for column in self.columns})

    def write(self, target: str | Path) -> None:
        """Write the rows to a CSV or Parquet file, by its suffix; an empty cell of a CSV file is NULL.

        Raises OperationalError if the file exists, or cannot be written.
        """
        import duckdb

        from dpsql.backends.duckdb import connected
        from dpsql.backends.held_columns import run_over
        from dpsql.trusted.plan.expr.printing import text_literal

        target = Path(target)
        with new_file(target, duckdb.Error), connected() as connection:
            target.open("xb").close()
            connection.execute("SET threads = 1")  # others would wait with parts of the rows in memory, as these are in order
            form = "PARQUET" if target.suffix.lower() == ".parquet" else "CSV, HEADER"
            run_over(connection, {column.name: (column.kind, packed_values(column.values)) for column in self.columns}, "COPY (",
                     f") TO {text_literal(target.absolute())} (FORMAT {form})")

    def report(self, target: str | Path) -> None:
        """Write a page for people to a new HTML file: how far the table can be trusted, and its drawn rows compared with the
        measurements. The page contains public values only. Raises OperationalError if the file exists, or cannot be written."""
        from dpsql.synthesis.table_report import page

        save(page(self), target)

    def _repr_html_(self) -> str:
        """The report, in a notebook."""
        from dpsql.synthesis.table_report import shown_in_notebook

        return shown_in_notebook(self)

    def as_dict(self) -> dict[str, Any]:
        """A description of the table and its measurements, without its rows."""
        from dpsql.synthesis.table_comparison import TableComparison
        from dpsql.synthesis.table_trust import trust

        return {"table": self.name, "rows": self.rows, "private rows": self.total, "method": self.method, "cost": self.price,
                "statement": self.statement, "notes": self.notes,
                "columns": [{"name": column.name, "type": column.kind} for column in self.columns],
                "marginals": [{"columns": each.columns, "cells": each.cells, "error": each.error, "off": each.off}
                              for each in self.marginals],
                "acceptance": None if self.acceptance is None else self.acceptance.as_dict(),
                "trust": dict(trust(TableComparison(self)))}

    def as_json(self) -> str:
        """The stored form, in one text."""
        return self._text(map(packed, self.columns), [_without_drawn(asdict(each)) for each in self.marginals])

    def _text(self, columns: Iterable[dict[str, Any]], marginals: list[dict[str, Any]]) -> str:
        told = {"synthetic table": self.name, **({"whole": self.whole} if self.whole else {}), "method": self.method,
                "price": self.price, "total": self.total, "notes": self.notes, "statement": self.statement,
                "marginals": marginals}
        told |= {"key": self.key, "parent": None if self.parent is None else asdict(self.parent)}
        told["coarser"] = [asdict(one) for one in self.coarser]
        if self.acceptance is not None:
            told["acceptance"] = self.acceptance.as_dict()
        text = json.dumps({**told, "known": self.known, "measured": self.records, "columns": []}).removesuffix("]}")
        for at, column in enumerate(columns):
            text += ", " * (at > 0) + json.dumps(column)  # in place: the columns of a large table would be there twice
        text += "]}"
        return text

    def __str__(self) -> str:
        """A summary: what was measured, how far the table is from it, and what it can be used for."""
        from dpsql.synthesis.table_comparison import TableComparison
        from dpsql.synthesis.table_trust import trust

        cost = f"nothing, as it was made before; it cost {self.price}" if self.stored else self.price
        lines = [f"{self.name}: {self.rows:,} rows of {len(self.columns)} columns, drawn from a model by {self.method}",
                 f"the private rows number about {self.total:,.0f}; cost {cost}", *self.notes]
        if self.marginals:
            names = [", ".join(each.columns) for each in self.marginals]
            width, new = max(map(len, names)), len(self.marginals) - self.known
            shown = [f"  {name:<{width}}  {each.cells:>7,} cells  ± {each.error:,.4g}; the table is off by {each.off:,.4g} a cell"
                     for name, each in zip(names, self.marginals, strict=True)]
            lines += ["", "measured, with the error of each count", *shown[:new]]
            lines += ["measured by earlier statements", *shown[new:]] if self.known else []
        if self.acceptance is not None:
            lines += ["", self.acceptance.first_line, *(f"  {line}" for line in self.acceptance.lines())]
        lines += ["", "what it can be used for"]
        for of, told in trust(TableComparison(self)):
            lines += textwrap.wrap(f"{of}: {told}".replace(" %", "\u00a0%"), 110, initial_indent="  ", subsequent_indent="    ",
                                   break_on_hyphens=False)
        return "\n".join(lines).replace("\u00a0", " ")


def _without_drawn(marginal: dict[str, Any]) -> dict[str, Any]:
    """A marginal without the counts of drawn rows: of a table in one text, these can be counted again."""
    return {name: value for name, value in marginal.items() if name != "drawn"}


class TableParts:
    """The parts of a table's stored form, by their digests, while it is made."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def keep(self, part: str) -> str:
        """Keep a part. Returns its digest."""
        digest = part_digest(part)
        self.found[digest] = part
        return digest


def stored_in_parts(table: SyntheticTable) -> InParts:
    """The stored form of a large table."""
    parts = TableParts()
    columns = [packed_in_parts(column, parts.keep) for column in table.columns]
    for column in table.columns:
        if isinstance(column.values, StoredValues):
            parts.found |= column.values.texts()
    return InParts(text=table._text(columns, [*map(asdict, table.marginals)]), parts=tuple(parts.found.values()))


def of_json(stored: str, read: ReadPart = no_part) -> SyntheticTable:
    """The table in a stored form; `read` reads its parts, when they are needed."""
    told = json.loads(stored)
    return SyntheticTable(
        name=told["synthetic table"], method=told["method"], price=told["price"], total=told["total"],
        columns=tuple(unpacked(column, read) for column in told["columns"]), notes=tuple(told["notes"]),
        statement=told["statement"], known=told["known"], records=tuple(told["measured"]), stored=True,
        whole=told.get("whole", ""),
        acceptance=acceptance_of(told.get("acceptance")),
        marginals=tuple(ReleasedMarginal(**{**each, "columns": tuple(each["columns"]), "shape": tuple(each["shape"])})
                        for each in told["marginals"]),
        coarser=tuple(CoarserColumn(name=one["name"], of=one["of"], merged=tuple(one["merged"]))
                      for one in told.get("coarser", ())),
        key=tuple(told["key"]), parent=None if told["parent"] is None else ForeignKey(
            columns=tuple(told["parent"]["columns"]), table=told["parent"]["table"],
            references=tuple(told["parent"]["references"])))


def declared(table: SyntheticTable, content: str) -> Table:
    """The table as if a policy declared it public, with the values and ranges of its rows; `content` identifies the rows."""
    return Table(name=table.name, public=True, columns={column.name: declared_column(column) for column in table.columns},
                 key=table.key, foreign_keys=() if table.parent is None else (table.parent,), content=content)


def declared_column(column: SyntheticColumn) -> Column:
    values = packed_values(column.values)
    ends, found, present = ANY_NUMBER, values.ends(), values.distinct(MOST_LISTED)
    if found is not None and (column.type.numeric or column.type.temporal):
        low, high = (end.toordinal() if isinstance(end, dt.date) else end for end in found)
        ends = Interval(low, high)  # type: ignore[arg-type]
    return Column(name=column.name, type=column.type, sql_type=column.kind, nullable=values.nullable, declared=ends,
                  physical=ANY_NUMBER if column.type.temporal else ends,
                  domain=Domain(tuple(present)) if present else None)  # type: ignore[arg-type]


def _series(column: SyntheticColumn, pandas: Any) -> Any:
    """The values as pandas has them; those of a DECIMAL as Python's decimal numbers."""
    values = packed_values(column.values).loaded
    whole, known = ("Int64", "boolean") if values.nullable else ("int64", "bool")
    kind = {Type.BIGINT: whole, Type.BOOLEAN: known, Type.DOUBLE: "float64"}.get(column.type, "object")
    if column.sql_type.startswith("DECIMAL"):
        scale = int(column.sql_type[:-1].split(",")[1])
        return pandas.Series([None if value is None else Decimal(f"{value:.{scale}f}") for value in values], dtype="object")
    if isinstance(values, CodedValues):
        none = next(value for value in (*values.listed, 0) if value is not None)  # NULL is listed, but in no row: any value does
        listed = values.listed if values.nullable else [none if value is None else value for value in values.listed]
        return pandas.Series(listed, dtype=kind).take(values.places).reset_index(drop=True)
    if isinstance(values, NumberValues) and values.missing is None and column.type.numeric:
        return pandas.Series(in_ones(values.numbers, values.parts).astype(kind))
    return pandas.Series(list(values), dtype=kind)
