"""Rows of CSV files that have no key get names of their own, which depend on no other row."""

from __future__ import annotations

import random
from pathlib import Path

from dpsql.backends.file_tables import FileTable, open_files
from dpsql.backends.source_files import files_of
from dpsql.catalog.reading import CellReading

CELLS = {"a": CellReading(type="VARCHAR", trim=True), "b": CellReading(type="BIGINT")}
ROWS = ["x,1", "x,1", " x,1", "x,1:", "y,", ",1", ",", "x,01", "1:x,", "x,1", "y,", "", "x"]


def named(path: Path, rows: list[str]) -> list[tuple[object, ...]]:
    path.write_text("".join(f"{row}\n" for row in ("a,b", *rows)))
    return opened(path)


def opened(path: Path) -> list[tuple[object, ...]]:
    reader = open_files([FileTable(source=files_of("t", path), cells=CELLS, row_key="row", key=("row",))])
    found = reader.rows("SELECT row, a, b FROM t")
    reader.close()
    return found


def test_no_two_rows_have_one_name(tmp_path: Path) -> None:
    found = named(tmp_path / "t.csv", ROWS)
    assert len({name for name, *_ in found}) == len(found) == len(ROWS) - 1  # an empty line is no row


def test_a_row_that_is_removed_takes_one_name_with_it_and_changes_no_other(tmp_path: Path) -> None:
    whole = set(named(tmp_path / "t.csv", ROWS))
    for at, row in enumerate(ROWS):
        if row:
            left = set(named(tmp_path / "t.csv", [*ROWS[:at], *ROWS[at + 1 :]]))
            assert left < whole and len(whole - left) == 1


def test_rows_of_two_files_of_one_name_have_different_names(tmp_path: Path) -> None:
    """Otherwise the files would be refused if, and only if, a row of one were in the other too."""
    for year in (2019, 2020):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}/t.csv").write_text("a,b\nx,1\n", encoding="utf-8")
    assert len({name for name, *_ in opened(tmp_path / "*/t.csv")}) == 2


def test_names_do_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    whole = set(named(tmp_path / "t.csv", ROWS))
    shuffled = [*ROWS]
    random.Random(3).shuffle(shuffled)
    assert set(named(tmp_path / "t.csv", shuffled)) == whole
