"""Attacks on the borders where data come in: files, cleaning, and lists of public tables. Each succeeded once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import dpsql
from dpsql.backends.file_tables import FileTable, open_files
from dpsql.backends.foreign_drafts import drafted_copy
from dpsql.backends.foreign_rows import ForeignFile
from dpsql.backends.source_files import files_of
from dpsql.backends.workbooks import sheet_rows
from dpsql.catalog.reading import CellReading, CsvFormat
from dpsql.errors import OperationalError
from dpsql.trusted.kernel.ledger import Ledger

TEXT = CellReading(type="VARCHAR")


def read(folder: Path, text: str, how: CsvFormat = CsvFormat()) -> list[tuple[Any, ...]]:
    (folder / "t.csv").write_text(text, encoding="utf-8", newline="")
    reader = open_files([FileTable(source=files_of("t", folder / "t.csv"), csv=how, cells={"id": TEXT, "x": TEXT})])
    try:
        return reader.rows("SELECT id, x FROM t")
    finally:
        reader.close()


def asked(folder: Path, rows: Sequence[str], policy: str, text: str, *database: str) -> Any:
    """The answer to a statement about tables that are made in `s.duckdb`."""
    with duckdb.connect(str(folder / "s.duckdb")) as connection:
        for sql in rows:
            connection.execute(sql)
    (folder / "dpsql.toml").write_text(f'version = 1\ndatabase = "s.duckdb"\n{policy}\n[budgets.main]\nentity = "person"\nepsilon = 1000\n')
    Ledger.create(folder / "dpsql.ledger").close()
    with dpsql.connect(*(str(folder / name) for name in database), policy=folder / "dpsql.toml", epsilon=200) as connection:
        return connection.execute(text).fetchall()


# -- CSV files


def test_a_comment_within_a_text_takes_no_quote_with_it(tmp_path: Path) -> None:
    """Its line was left out with the quote that closed the cell; the next such cell closed it, and hid all rows between."""
    text = 'id,x\n1,"a\n# b"\n2,b\n3,c\n7,"c\n# d"\n8,e\n'
    rows = [("1", "a\n# b"), ("2", "b"), ("3", "c"), ("7", "c\n# d"), ("8", "e")]
    assert read(tmp_path, f"# made\n{text}# made\n", CsvFormat(comment="#")) == rows
    without = read(tmp_path, text.replace('1,"a\n# b"\n', ""), CsvFormat(comment="#"))
    assert without == rows[1:]


def test_where_no_cell_is_quoted_a_quote_is_a_letter(tmp_path: Path) -> None:
    """It escaped what follows it: the end of a line too, and with it the next row."""
    assert read(tmp_path, 'id,x\n1,5"\n2,b\n3,a"b\n', CsvFormat(quote="")) == [("1", '5"'), ("2", "b"), ("3", 'a"b')]


def test_quotes_that_nothing_closes_hide_no_rows(tmp_path: Path) -> None:
    """Their number was even."""
    with pytest.raises(OperationalError, match="ends inside a quoted text"):
        read(tmp_path, 'id,x\n1,5" pipe\n2,"abc\n3,x\n4,y\n')


@pytest.mark.parametrize(("rows", "odd"), [('1,x\n2, "abc\n3,x\n4,y\n', ' "abc'), ('1,x\n2,"a"b"\n3,x\n4,y', 'ab"')])
def test_odd_quotes_hide_no_rows(rows: str, odd: str, tmp_path: Path) -> None:
    """The engine took them for those around a cell, which went on to the end of the file."""
    assert read(tmp_path, f"id,x\n{rows}") == [("1", "x"), ("2", odd), ("3", "x"), ("4", "y")]


@pytest.mark.parametrize("cell", ['"aa"b', '"aa"é', '"aa" é', '"a""a"é'])
def test_a_text_that_goes_on_behind_its_quotes_is_read(cell: str, tmp_path: Path) -> None:
    """The engine cuts off its last byte: the value is another one, or the file is not read at all because of it."""
    found = read(tmp_path, f"id,x\n1,{cell}\n2,ok\n")
    assert found[1] == ("2", "ok")
    assert found[0][1] is None or found[0][1].endswith(cell[-1])


def test_an_empty_line_is_no_header(tmp_path: Path) -> None:
    """The header was a row."""
    with pytest.raises(OperationalError, match="format that the policy declares"):
        read(tmp_path, "\nid,x\n1,2\n")
    assert read(tmp_path, "\nid,x\n1,2\n", CsvFormat(skip=1)) == [("1", "2")]


# -- files of other programs


def test_one_cell_moves_no_columns_of_a_sheet(tmp_path: Path) -> None:
    """Columns began with the first that has a cell, so that a note beside one row gave all others other values."""
    openpyxl = pytest.importorskip("openpyxl")
    found = []
    for note in ("note", None):
        book = openpyxl.Workbook()
        for row in ((None, 1, "a"), (None, 2, "b"), (note, 3, "c")):
            book.active.append(row)
        book.save(tmp_path / "t.xlsx")
        rows = sheet_rows(ForeignFile(table="t", path=tmp_path / "t.xlsx", how=CsvFormat(header=False, names=("n", "id", "x"))))
        found.append([column.to_pylist() for batch in rows.batches(["id", "x"]) for column in batch])
    assert found[0] == found[1] == [["1", "2", "3"], ["a", "b", "c"]]


def test_categories_that_are_values_of_rows_are_not_drafted(tmp_path: Path) -> None:
    """pandas takes the categories of a column from its rows, and a policy is public."""
    names = ["Ada Secret", "Bob Hidden"]
    pd.DataFrame({"id": [1, 2], "name": pd.Categorical(names)}).to_feather(tmp_path / "t.feather")
    found = drafted_copy(ForeignFile(table="t", path=tmp_path / "t.feather"), tmp_path / "copy.parquet")
    assert not any(name in repr(found) for name in names)


# -- cleaning


CLEANED = """
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
columns = { id = { trim = true, case = "lower" }, town = { trim = true, case = "lower", values = ["x"] } }
[tables.visits]
foreign_keys = [{ columns = "person", references = "people(id)" }]
rows_per_entity = 5
columns = { person = { trim = true, case = "lower" } }
"""


@pytest.mark.parametrize("database", [(), ("s.duckdb",)])
def test_cells_are_cleaned_whoever_names_the_database(database: tuple[str, ...], tmp_path: Path) -> None:
    """A database that was named to `connect` was read as it is: other values, and other rows of an entity."""
    rows = ["CREATE TABLE people (id VARCHAR PRIMARY KEY, town VARCHAR)", "INSERT INTO people VALUES ('a', ' X'), ('b', 'x ')",
            "CREATE TABLE visits (person VARCHAR)", "INSERT INTO visits VALUES ('a'), ('A '), ('b')"]
    text = "SELECT COUNT(*) FROM visits JOIN people ON person = id WHERE town = 'x'"
    assert asked(tmp_path, rows, CLEANED, text, *database) == [(3,)]


# -- lists of public tables


STAR = """
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
columns = { id = {}, town = {}, state = {} }
[tables.towns]
public = true
columns = { town = {}, state = {}, region = {}, since = {} }
[tables.regions]
public = true
columns = { region = {}, country = {} }
"""
PEOPLE = ["CREATE TABLE towns (town VARCHAR, state VARCHAR, region VARCHAR, since DATE)",
          "INSERT INTO towns VALUES ('a', 's', 'r', '2020-01-01'), ('b', 's', 'r', 'infinity'), ('c', 't', 'q', NULL)",
          "CREATE TABLE regions (region VARCHAR, country VARCHAR)", "INSERT INTO regions VALUES ('r', 'x'), ('q', 'y'), (NULL, 'z')",
          "CREATE TABLE people (id BIGINT PRIMARY KEY, town VARCHAR, state VARCHAR)",
          "INSERT INTO people SELECT i, ['a', 'b', 'c'][i % 3 + 1], ['s', 's', 't'][i % 3 + 1] FROM range(30) AS r(i)"]


@pytest.mark.parametrize("grouped", ["1, 2, 3", "ROLLUP (1, 2, 3)"])
def test_keys_of_two_public_tables_that_share_one_are_groups(grouped: str, tmp_path: Path) -> None:
    """A key whose values went together with others before was looked for among keys that are alone."""
    text = ("SELECT t.state, t.region, g.country, COUNT(*) FROM people p JOIN towns t ON p.town = t.town "
            f"JOIN regions g ON t.region = g.region GROUP BY {grouped}")
    found = asked(tmp_path, PEOPLE, STAR, text)
    assert [row for row in found if None not in row] == [("s", "r", "x", 20), ("t", "q", "y", 10)]


def test_a_day_that_python_does_not_know_hides_no_other_rows(tmp_path: Path) -> None:
    """Python read it as the last day, so that no row of its town had a combination that exists."""
    text = "SELECT t.town, t.region, COUNT(*) FROM people p JOIN towns t ON p.town = t.town GROUP BY ROLLUP (1, 2)"
    assert ("b", "r", 10) in asked(tmp_path, PEOPLE, STAR, text)


def test_a_day_that_is_not_there_is_no_group(tmp_path: Path) -> None:
    text = "SELECT t.town, t.since, COUNT(*) FROM people p JOIN towns t ON p.town = t.town GROUP BY 1, 2"
    try:
        found = asked(tmp_path, PEOPLE, STAR, text)
    except dpsql.Error:  # its days cannot all be listed
        return
    assert not any(str(row[1]).startswith("9999") for row in found)
