"""Tables in files of other programs, copied to Parquet: those of SPSS, Stata and SAS, sheets of workbooks, and files of Arrow.

The copy holds what the file holds, with types that no row decides: what a code means and how a cell is read, the policy says, and
it is done wherever the copy is read. No row is lost: those that were written are counted against those that the file says to
have.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from dpsql.backends.arrow_files import arrow_rows
from dpsql.backends.duckdb import connected, with_memory
from dpsql.backends.file_tables import row_name
from dpsql.backends.foreign_rows import ForeignFile, ForeignRows, check_there, library, not_a_file
from dpsql.backends.source_files import FileState
from dpsql.backends.statistics_files import statistics_rows
from dpsql.backends.workbooks import sheet_rows
from dpsql.catalog.file_names import is_of_statistics, is_workbook
from dpsql.errors import InternalError, OperationalError
from dpsql.trusted.plan.expr.printing import quote, text_literal

UNNAMED = "rows without names"  # the file of the rows before they get them


def rows_in(file: ForeignFile) -> ForeignRows:
    """The contents of a file. Raises OperationalError if it cannot be read."""
    check_there(file)
    if is_workbook(file.path.name):
        return sheet_rows(file)
    return statistics_rows(file) if is_of_statistics(file.path.name) else arrow_rows(file)


def columns_in(file: ForeignFile, rows: ForeignRows, columns: Sequence[str]) -> dict[str, str]:
    """The columns of a policy, each with its name in the file. A name that differs only in case is used if no other fits. Raises
    OperationalError for a column without a name in the file."""
    lower = {name.lower(): name for name in rows.types}
    for name in columns:
        if name.lower() not in lower:
            kind = rows.unread.get(name)
            raise OperationalError(f"column {name} of {file.path} has the type {kind}, which is not supported" if kind else
                                   f"{file.path} has no column {name}", code="no-column", subject=f"{file.table}.{name}",
                                   try_="leaving it out" if kind else "one of " + ", ".join(rows.types))
    return {name: lower[name.lower()] for name in columns}


def copy_rows(file: ForeignFile, columns: Sequence[str] | None, path: Path, *, row_key: str | None = None,
              memory: str | None = None) -> int:
    """Write some columns of a file (all, if None) to a Parquet file; `row_key` names an additional column that identifies each
    row. Returns the number of rows. Raises OperationalError if the file cannot be read, and OSError if the Parquet file cannot be
    written."""
    check_there(file)
    state = FileState.of(file.path)
    found = rows_in(file)
    named = columns_in(file, found, [*found.types] if columns is None else columns)
    target = path if row_key is None else path.with_name(f"{path.name}.{UNNAMED}")
    rows = _written(file, found, named, target)
    if found.rows is not None and rows != found.rows:
        raise InternalError(f"{found.rows - rows} rows of {file.path} were lost during reading", code="rows-lost")
    if not state.stands():
        raise OperationalError(f"{file.path} was changed while it was read", code="data-changed", subject=file.table,
                               try_="the same again")
    if row_key is not None:
        _name_rows(file, [*named], target, path, row_key, memory)
    path.chmod(0o600)
    return rows


def _written(file: ForeignFile, found: ForeignRows, named: dict[str, str], path: Path) -> int:
    pa, parquet = (library(module, file, "pip install 'dpsql[arrow]'") for module in ("pyarrow", "pyarrow.parquet"))
    schema = pa.schema([(name, found.types[origin]) for name, origin in named.items()])
    rows = 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as target, parquet.ParquetWriter(target, schema) as writer:
        for arrays in _read(file, found.batches([*named.values()]), pa.ArrowException):
            writer.write_batch(pa.record_batch(list(arrays), schema=schema))
            rows += len(arrays[0])
    return rows


def _read(file: ForeignFile, batches: Iterator[Sequence[Any]], fault: type[Exception]) -> Iterator[Sequence[Any]]:
    """Read the batches. A library that fails raises OperationalError here, and so is not mistaken for a disk that is full."""
    while True:
        arrays: Sequence[Any] | None = None
        broken = False
        try:
            arrays = next(batches, None)
        except (fault, ValueError, LookupError, OSError):
            broken = True
        if broken:
            raise not_a_file(file, "a table", "some of its rows cannot be read")
        if arrays is None:
            return
        yield arrays


def _name_rows(file: ForeignFile, columns: Sequence[str], rows: Path, path: Path, row_key: str, memory: str | None) -> None:
    """Give each row a name, by its own cells: see `row_name`."""
    fault: OperationalError | None = None
    cells = ", ".join(f"{quote(name)} AS c{at}, CAST({quote(name)} AS VARCHAR) AS t{at}" for at, name in enumerate(columns))
    kept = ", ".join(f"c{at} AS {quote(name)}" for at, name in enumerate(columns))
    named = f"{row_name(file.path.name, [f't{at}' for at in range(len(columns))])} AS {quote(row_key)}"
    try:
        with contextlib.closing(connected(config=with_memory(memory))) as engine:
            engine.execute(f"COPY (SELECT {kept}, {named} FROM (SELECT {cells} FROM read_parquet({text_literal(rows)}))) "
                           f"TO {text_literal(path)} (FORMAT parquet)")
    except duckdb.OutOfMemoryException:
        fault = OperationalError(f"there is not enough memory to read {file.table}", code="memory", subject=file.table,
                                 try_='memory = "4GB" in [store], or more')
    except duckdb.IOException:
        raise OSError(28, "") from None
    finally:
        rows.unlink(missing_ok=True)
    if fault is not None:
        raise fault
