"""The answers to a standing query, period after period, as they are published: a table for CSV and Parquet files, and JSON.

Everything in it follows from the stored answers and the query, so that it is the same, byte for byte, whoever publishes it, and
when.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpsql.answers.answer import Answer, together
from dpsql.answers.columns import plain
from dpsql.answers.display import as_dict
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, replace
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type

FORMULA = re.compile(r"\s*[=+\-@](?![0-9.]+$)")  # spreadsheets take text that begins so for a formula; numbers are none


class PublishedPeriod(Frozen):
    """One period of a series. `answer` is what was measured; None if that was not possible so far. The prices are what a person
    in this period was charged for it, and a person in all."""

    name: str
    first: dt.date
    last: dt.date
    answer: Answer | None = None
    price_in_period: str = ""
    price_in_all: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The period for JSON."""
        told = {} if self.answer is None else as_dict(self.answer)
        return {"period": self.name, "first day": self.first.isoformat(), "last day": self.last.isoformat(),
                "stored": self.answer is not None, "price in the period": self.price_in_period or None,
                "price in all": self.price_in_all or None,
                **{name: told.get(name, []) for name in ("rows", "errors", "intervals", "notes")}}


class PublishedSeries(Frozen):
    """All closed periods of a standing query, in the order of time.

    whole    rows of several periods together, such as totals, if there are any
    order    the places of the rows of all measured periods, and of these, in the order that the query asks for
    changes  what does not stay as it was told when another period is added, in words; "" if all numbers do
    """

    name: str
    statement: str
    analyst: str
    budget: str
    entity: str
    confidence: float
    periods: tuple[PublishedPeriod, ...]
    order: tuple[int, ...]
    whole: Answer | None = None
    changes: str = ""

    @property
    def measured(self) -> tuple[PublishedPeriod, ...]:
        """The periods with an answer."""
        return tuple(period for period in self.periods if period.answer is not None)

    @cached_property
    def answer(self) -> Answer:
        """The rows of all measured periods, of which there is at least one; without notes and cost, which are of each period."""
        made = together([rows for _, rows in self._blocks])
        return Answer(columns=made.columns, data=tuple(column.at(self.order) for column in made.data), confidence=made.confidence,
                      stored=True)

    @cached_property
    def of_rows(self) -> tuple[PublishedPeriod, ...]:
        """The period of each row; for rows of several periods, all of them as one."""
        found = [period for period, rows in self._blocks for _ in range(rows.size)]
        return tuple(found[place] for place in self.order)

    @property
    def _blocks(self) -> list[tuple[PublishedPeriod, Answer]]:
        found = [(period, period.answer) for period in self.measured if period.answer is not None]
        return found if self.whole is None else [*found, (self._together, self.whole)]

    @property
    def _together(self) -> PublishedPeriod:
        first, last = self.measured[0], self.measured[-1]
        return PublishedPeriod(name=f"{first.name} to {last.name}", first=first.first, last=last.last, answer=self.whole)

    def as_json(self) -> str:
        """The series for programs."""
        columns = as_dict(self.answer)["columns"]
        several = None if self.whole is None else self._together.as_dict()
        return json.dumps({"name": self.name, "statement": self.statement, "analyst": self.analyst, "budget": self.budget,
                           "entity": self.entity, "confidence": self.confidence, "columns": columns,
                           "changes": self.changes or None, "periods": [period.as_dict() for period in self.periods],
                           "several periods": several}, indent=1, ensure_ascii=False) + "\n"


class TableColumn(Frozen):
    """A column of the table of a series, with the name of its type in SQL."""

    title: str
    kind: str
    values: tuple[Value, ...]


def table_of(series: PublishedSeries) -> tuple[TableColumn, ...]:
    """The rows of a series with their periods; each noisy number is followed by its standard error and the ends of its interval.
    A period that is not measured has one row, at the end, without values."""
    answer, of_rows = series.answer, series.of_rows
    missing = [period for period in series.periods if period.answer is None]
    rows, none = (*of_rows, *missing), (None,) * len(missing)
    made = [TableColumn(title="period", kind="VARCHAR", values=tuple(period.name for period in rows))]
    for j, column in enumerate(answer.columns):
        kind = _kind(column.type, answer.data[j].values)
        made.append(TableColumn(title=column.name, kind=kind, values=(*answer.data[j].values, *none)))
        if not column.exact:
            ends = [answer.ends(i, j) or (None, None) for i in range(answer.size)]
            of_ends = "DATE" if column.type.temporal else "DOUBLE"
            made += [TableColumn(title=f"{column.name} error", kind="DOUBLE", values=(*(row[j] for row in answer.errors), *none)),
                     *(TableColumn(title=f"{column.name} {name}", kind=of_ends, values=(*(each[at] for each in ends), *none))
                       for at, name in enumerate(("low", "high")))]
    prices = (("price in the period", "price_in_period"), ("price in all", "price_in_all"))
    made += [TableColumn(title=title, kind="VARCHAR", values=tuple(getattr(period, name) or None for period in rows))
             for title, name in prices]
    made.append(TableColumn(title="stored", kind="BOOLEAN", values=tuple(period.answer is not None for period in rows)))
    return _with_own_titles(made)


def _with_own_titles(columns: Sequence[TableColumn]) -> tuple[TableColumn, ...]:
    """The columns; later ones of several with one title, as in `SELECT ... AS period`, are numbered."""
    made: list[TableColumn] = []
    for column in columns:
        taken, title, number = {other.title.lower() for other in made}, column.title, 2
        while title.lower() in taken:
            title, number = f"{column.title} {number}", number + 1
        made.append(replace(column, title=title))
    return tuple(made)


def _kind(kind: Type, values: Any) -> str:
    """The type of a column in a file: of sums that exceed 64 bits, a wider one. Where the owner has changed the type of a column,
    earlier numbers stay as they were told."""
    if kind is Type.BIGINT and any(isinstance(value, float) for value in values):
        return Type.DOUBLE.value
    wide = kind is Type.BIGINT and any(value is not None and abs(value) >= 2**63 for value in values)
    return "HUGEINT" if wide else kind.value


def as_csv(columns: tuple[TableColumn, ...]) -> str:
    """A table as CSV; an empty cell is NULL. Analysts choose titles and may choose texts, and strangers open the file: so none of
    these is a formula."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow([_no_formula(column.title) for column in columns])
    for row in zip(*(column.values for column in columns), strict=True):
        writer.writerow(map(_cell, row))
    return made.getvalue()


def _cell(value: Value) -> Any:
    if isinstance(value, str):
        return _no_formula(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else plain(value)


def _no_formula(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if FORMULA.match(text) else text


def as_parquet(columns: tuple[TableColumn, ...]) -> bytes:
    """A table as a Parquet file. Infinite ends of intervals stay infinite. Raises OperationalError if no temporary file can be
    written."""
    import duckdb

    from dpsql.backends.duckdb import connected
    from dpsql.trusted.plan.expr.printing import quote, text_literal

    shown = ", ".join(f"unnest(CAST(${at} AS {column.kind}[])) AS {quote(column.title)}" for at, column in enumerate(columns, 1))
    values = [[_finite_or_null(value) for value in column.values] for column in columns]
    try:
        with connected() as connection, tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.parquet"
            connection.execute("SET threads = 1")  # so that the file is the same each time
            connection.execute(f"COPY (SELECT {shown}) TO {text_literal(path)} (FORMAT PARQUET)", values)
            return path.read_bytes()
    except (OSError, duckdb.IOException) as fault:
        raise OperationalError(f"a temporary file cannot be written ({type(fault).__name__})", code="file",
                               try_="space on the disk of the folder that TMPDIR names") from None


def _finite_or_null(value: Value) -> Value:
    return None if isinstance(value, float) and math.isnan(value) else value
