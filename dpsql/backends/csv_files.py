"""CSV files whose columns are known before their rows are read."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from dpsql.plan.expr.printing import quote, text_literal


def csv_of_types(path: Path, types: Mapping[str, str]) -> str:
    """The FROM item that reads a CSV file whose column names and types are known before its rows are read.

    The separator is that of the header. A cell that cannot be read as its type is NULL. A line with more or fewer cells, with
    bytes that are not UTF-8, or without its key is left out. Each row is read as if it were alone, so that no row decides how,
    or whether, another is read. (A quote that is never closed is not the end of a row, so it hides the lines after
    it. Writers of CSV close them. And rows of one key break what the policy says of the file, so it is not opened.)

    So the reader is not strict, as it would refuse the whole file for one row that ends, or is broken, by a carriage return. And
    it reads from one end to the other: threads that begin in the middle guess where a row begins, and take lines of a text for
    rows, which may name others.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:  # more than the first line is decoded
        first = file.readline()
        separator = max(",;\t|", key=first.count)
        file.seek(0)
        names = next(csv.reader(file, delimiter=separator))
    known = {name.lower(): kind for name, kind in types.items()}
    shown = ", ".join(f"TRY_CAST({quote(name)} AS {known.get(name.lower(), 'VARCHAR')}) AS {quote(name)}" for name in names)
    read = ", ".join(f"{text_literal(name)}: 'VARCHAR'" for name in names)
    place = text_literal(path)
    return (f"(SELECT {shown} FROM read_csv({place}, auto_detect = false, header = true, "
            f"delim = {text_literal(separator)}, quote = '\"', escape = '\"', ignore_errors = true, strict_mode = false, "
            f"parallel = false, hive_partitioning = false, columns = {{{read}}}))")
