"""What the readers of other programs' files have in common: the file that is asked for, and its rows as they are found there.

A library that reads such a file may say in a fault what a row holds. So none of it is shown: an error says which file cannot be
read, and why as far as that is known without its rows.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsql.catalog.reading import USUAL_CSV, CsvFormat
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, field

ROWS_AT_ONCE = 100_000
CELLS_AT_ONCE = 2_000_000  # of wide files, fewer rows


class ForeignFile(Frozen):
    """A table in a file of another program. `sheet` is that of a workbook, None for the first; `how` says what the file leaves
    open: the encoding of its texts, and of a sheet the lines in front of the header."""

    table: str
    path: Path
    sheet: str | None = None
    how: CsvFormat = USUAL_CSV


class ForeignRows(Frozen):
    """The rows of a file.

    types    the Arrow type of each column, which does not depend on rows. No two names differ only in case
    rows     the number of rows that the file states; None if it states none
    batches  a function of names of columns that yields their rows, some at a time. It raises what the library raises
    unread   the columns that cannot be read, each with its type
    """

    types: Mapping[str, Any]
    batches: Callable[[Sequence[str]], Iterator[Sequence[Any]]]
    rows: int | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


def rows_at_once(columns: int) -> int:
    return max(1000, min(ROWS_AT_ONCE, CELLS_AT_ONCE // max(1, columns)))


def library(module: str, file: ForeignFile, install: str) -> Any:
    """A module that reads files of this kind. Raises OperationalError if it is not installed."""
    with contextlib.suppress(ImportError):
        return importlib.import_module(module)
    raise OperationalError(f"reading {file.path.name} needs the package {module.partition('.')[0]}, which is not installed",
                           code="no-driver", subject=file.table, try_=install)


def check_there(file: ForeignFile) -> None:
    """Raises OperationalError if there is no such file."""
    if not file.path.is_file():
        raise OperationalError(f"there is no file {file.path}", code="no-database", subject=file.table, try_="its path")


def not_a_file(file: ForeignFile, kind: str, why: str = "", try_: str = "") -> OperationalError:
    return OperationalError(f"{file.path} cannot be read as {kind}{f': {why}' if why else ''}", code="no-database",
                            subject=file.table, try_=try_ or "a complete file with the usual suffix of its format")
