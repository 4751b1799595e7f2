"""The format of a file according to its name."""

from __future__ import annotations

from pathlib import Path

from dpsql.catalog.reading import USUAL_CSV, CsvFormat
from dpsql.frozen import replace

PACKED = ".gz", ".zst"  # endings of files that are compressed
OF_TEXTS = ".csv", ".tsv", ".txt", ".dat"
PARQUET = ".parquet"
STATISTICS = ".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"
WORKBOOKS = ".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"
ARROW = ".feather", ".arrow"


def is_of_texts(name: str) -> bool:
    """Whether a file with this name is read as CSV, compressed or not."""
    return _unpacked(name).endswith(OF_TEXTS)


def is_of_rows(name: str) -> bool:
    """Whether a file with this name contains the rows of one table."""
    return is_of_texts(name) or name.lower().endswith(PARQUET)


def is_of_statistics(name: str) -> bool:
    """Whether a file with this name is a file of SPSS, Stata or SAS."""
    return name.lower().endswith(STATISTICS)


def is_workbook(name: str) -> bool:
    """Whether a file with this name is a workbook with sheets of cells, like Excel's."""
    return name.lower().endswith(WORKBOOKS)


def is_copied(name: str | None) -> bool:
    """Whether a file with this name is in a program's own format, so that a copy in Parquet is read instead."""
    return name is not None and "://" not in name and name.lower().endswith((*STATISTICS, *WORKBOOKS, *ARROW))


def _unpacked(name: str) -> str:
    name = name.lower()
    return next((name.removesuffix(ending) for ending in PACKED if name.endswith(ending)), name)


def usual_format(path: Path) -> CsvFormat:
    """The format of a CSV file for which the policy declares none."""
    return replace(USUAL_CSV, delimiter="\t") if _unpacked(path.name).endswith(".tsv") else USUAL_CSV
