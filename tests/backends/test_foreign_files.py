"""Files of SPSS, Stata, SAS, Excel and Arrow: what `init` drafts of them, what a snapshot holds, and what statements then read."""

from __future__ import annotations

import datetime as dt
import importlib
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from support.golden.comparison import released
from support.sessions import session_of

from dpsql import cli
from dpsql.audit.exact import Exact
from dpsql.audit.policy_on_rows import policy_on_rows
from dpsql.backends import foreign_files, foreign_rows, statistics_files
from dpsql.backends.cleaning import cleaned
from dpsql.backends.column_names import distinct_names
from dpsql.backends.duckdb import connected
from dpsql.backends.foreign_drafts import tables_in
from dpsql.backends.foreign_rows import ForeignFile
from dpsql.backends.workbooks import text_of_cell
from dpsql.catalog.policy import parse_policy, read_policy
from dpsql.catalog.promise import promise_of
from dpsql.catalog.reading import CellReading
from dpsql.engine.opening import open_reader
from dpsql.engine.refreshing import check_unread, refresh
from dpsql.errors import InternalError, OperationalError, PolicyError

pyreadstat = pytest.importorskip("pyreadstat")
NOTHING = float("nan")
PEOPLE = pd.DataFrame({
    "id": np.arange(1.0, 201), "sex": ([1.0, 2.0, NOTHING, 9.0, 2.0] * 40), "age": [20.0 + i % 60 if i % 9 else 99.0 for i in range(200)],
    "income": [1000 + i / 4 for i in range(200)], "mood": [[1.0, 2.0, 5.0, 98.0][i % 4] for i in range(200)],
    "region": ["N", "S"] * 100, "note": ["é", ""] * 100,
    "born": [dt.date(1950, 1, 1) + dt.timedelta(days=97 * i) if i % 8 else None for i in range(200)],
    "seen": [dt.datetime(2024, 1, 1, 8, 0, i % 60, 500_000) for i in range(200)],
})
LABELS: dict[str, Any] = {"sex": {1: "Male", 2: "Female", 9: "Refused"}, "mood": {1: "Low", 5: "High", 98: "Don't know"}}
SPSS: dict[str, Any] = {
    "variable_value_labels": {**LABELS, "region": {"N": "North", "S": "South"}}, "column_labels": {"sex": "Sex of respondent"},
    "missing_ranges": {"sex": [9], "age": [{"lo": 97, "hi": 99}]}}


def drafted(*files: str, to: str = "dpsql.toml") -> str:
    """The text of a draft whose questions are all answered by Enter, in the folder of the test."""
    assert cli.main(["init", *files, "--yes", "--to", to]) == 0
    return Path(to).read_text(encoding="utf-8")


def rows(sql: str, policy: str = "dpsql.toml") -> list[tuple[Any, ...]]:
    """What is read of the snapshot in force."""
    reader = open_reader(read_policy(policy), None)
    try:
        return reader.rows(sql)
    finally:
        reader.close()


def kept(path: str | Path, columns: Sequence[str] | None = None, **more: Any) -> pa.Table:
    """The copy of a file."""
    foreign_files.copy_rows(ForeignFile(table="t", path=Path(path).absolute(), **more), columns, Path("copy.parquet"))
    return parquet.read_table("copy.parquet")


def policy_for(source: str, columns: str, more: str = "", table: str = "") -> str:
    return (f'version = 1\n[entities.person]\ntable = "t"\nkey = "id"\n[tables.t]\nkey = "id"\nsource = "{source}"\n{table}\n'
            f'[tables.t.columns]\n{columns}\n{more}\n[budgets.main]\nentity = "person"\nepsilon = 100\n')


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, frame: pd.DataFrame, **more: Any) -> None:
    {".sav": pyreadstat.write_sav, ".zsav": pyreadstat.write_sav, ".dta": pyreadstat.write_dta, ".xpt": pyreadstat.write_xport,
     ".por": pyreadstat.write_por}[Path(name).suffix](frame, name, **more)


# -- surveys


def test_a_draft_of_a_survey_takes_values_from_labels(folder: Path) -> None:
    write("people.sav", PEOPLE, **SPSS)
    text = drafted("people.sav")
    columns = read_policy("dpsql.toml").tables["people"].columns
    assert {name: column.type for name, column in columns.items()} == {
        "id": "BIGINT", "sex": "VARCHAR", "age": "BIGINT", "income": "DOUBLE", "mood": "BIGINT", "region": "VARCHAR", "note": "VARCHAR",
        "born": "DATE", "seen": "TIMESTAMP"}
    assert columns["sex"].values == ("Male", "Female") and columns["sex"].reading.aliases == {"1": "Male", "2": "Female"}
    assert columns["region"].values == ("North", "South") and columns["mood"].values is None
    line = {name: next(line for line in text.splitlines() if line.startswith(f"{name} = ")) for name in ("sex", "age", "mood")}
    assert "Sex of respondent; 9 counts as NULL; the labels of the file" in line["sex"]
    assert "97 to 99 counts as NULL" in line["age"] and "1 = Low; 5 = High; 98 = Don't know" in line["mood"]
    assert "dpsql refresh" not in text.split("[tables.people]")[1] and 'key = "id"' in text


def test_answers_are_those_of_pandas(folder: Path) -> None:
    write("people.sav", PEOPLE, **SPSS)
    text = drafted("people.sav").replace('income = { type = "DOUBLE" }', 'income = { type = "DOUBLE", bounds = [0, 2000], decimals = 2 }')
    Path("dpsql.toml").write_text(text, encoding="utf-8")
    assert refresh() == ["people"]
    session = session_of(folder, reader=open_reader(read_policy("dpsql.toml"), None), noise=Exact(), policy=text, budget="main",
                         at={"epsilon": 1.0})
    found, _ = released("SELECT sex, COUNT(*), AVG(income) FROM people GROUP BY sex", session)
    session.close()
    expected = PEOPLE[PEOPLE.sex.isin([1, 2])].replace({"sex": {1.0: "Male", 2.0: "Female"}}).groupby("sex").income.agg(["count", "mean"])
    assert {row[0]: row[1] for row in found.rows} == {**expected["count"].to_dict(), None: 80}
    assert {row[0]: pytest.approx(row[2], abs=0.01) for row in found.rows if row[0] is not None} == expected["mean"].to_dict()


@pytest.mark.parametrize("name", ["people.sav", "people.zsav", "people.dta", "people.xpt", "people.por"])
def test_every_cell_is_kept_of_every_kind_of_file(name: str) -> None:
    frame = PEOPLE.drop(columns=["note"] if name.endswith("por") else [])
    write(name, frame)
    found = kept(name)
    assert found.num_rows == 200 and [column.lower() for column in found.column_names] == [*frame.columns]
    for column, values in zip(found.column_names, frame.items(), strict=True):
        expected = [None if value is None or value != value or value == "" else value for value in values[1].tolist()]
        assert found[column].to_pylist() == expected, column
    types = {str(kind) for kind in found.schema.types}
    assert types == {"double", "string", "date32[day]", "timestamp[us]"}


def test_missing_values_of_stata_are_null_and_their_letters_are_told() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3, 4], "a": [1, 2, "a", None]})
    write("tags.dta", frame, missing_user_values={"a": ["a"]}, variable_value_labels={"a": {1: "One", 2: "Two", "a": "Refused"}})
    text = drafted("tags.dta")
    assert 'values = ["One", "Two"]' in text and ".a (Refused) counts as NULL" in text
    refresh()
    assert rows("SELECT a, COUNT(*) FROM tags GROUP BY a ORDER BY a") == [("One", 1), ("Two", 1), (None, 2)]


def test_labels_may_be_alike_empty_numbers_or_of_broken_codes() -> None:
    frame = pd.DataFrame({"id": [1.0, 2, 3, 4], "same": [1.0, 2, 3, 3], "swapped": [1.0, 2, 1, 2], "half": [0.5, 1.5, 0.5, 0.5],
                          "plain": [1.0, 2, 1, 1], "bare": [1.0, 2, 2, 2], "long": [1.0, 1, 1, 1]})
    labels = {"same": {1: "Yes", 2: "Yes", 3: "No"}, "swapped": {1: "2", 2: "1"}, "half": {0.5: "Half", 1.5: "More"},
              "plain": {1: "1", 2: "2"}, "bare": {1: " ", 2: "Two"}, "long": {1: "x" * 110}}
    write("t.sav", frame, variable_value_labels=labels)
    drafted("t.sav")
    refresh()
    assert rows("SELECT same, swapped, half, plain, bare, length(long) FROM t ORDER BY id") == [
        ("Yes", "2", "Half", 1, "1", 110), ("Yes", "1", "More", 2, "Two", 110), ("No", "2", "Half", 1, "Two", 110),
        ("No", "1", "Half", 1, "Two", 110)]
    columns = read_policy("dpsql.toml").tables["t"].columns
    assert columns["same"].values == ("Yes", "No") and columns["plain"].type == "BIGINT"


def test_a_code_without_a_label_leaves_a_column_as_it_is() -> None:
    write("t.sav", pd.DataFrame({"id": [1.0, 2], "a": [1.0, 3.0], "b": ["x", "z"]}), variable_value_labels={
        "a": {1: "One", 2: "Two"}, "b": {"x": "Ex", "y": "Why"}})
    drafted("t.sav")
    columns = read_policy("dpsql.toml").tables["t"].columns
    assert (columns["a"].type, columns["b"].type, columns["a"].values) == ("BIGINT", "VARCHAR", None)


def test_a_number_that_is_no_date_is_null_and_fails_nothing() -> None:
    """The library fails for it, which one person's row would decide."""
    write("t.sav", pd.DataFrame({"d": [1e300, -1e15, 13797302400.0], "m": [1e300, -5.0, 13797313445.678]}),
          variable_format={"d": "DATE11", "m": "DATETIME20"})
    assert kept("t.sav").to_pylist() == [{"d": None, "m": None}, {"d": None, "m": dt.datetime(1582, 10, 13, 23, 59, 55)},
                                         {"d": dt.date(2020, 1, 2), "m": dt.datetime(2020, 1, 2, 3, 4, 5, 678_000)}]


@pytest.mark.parametrize(("name", "form", "kind"), [
    ("a.sav", "MOYR8", "date"), ("a.sav", "SDATE10", "date"), ("a.sav", "YMDHMS19", "moment"), ("a.sav", "DTIME12.2", "seconds"),
    ("a.sav", "F8.2", "number"), ("a.sav", "MONTH9", "number"), ("a.dta", "%tdNN/DD/CCYY", "date"), ("a.dta", "%d", "date"),
    ("a.dta", "%-tdD_m_Y", "date"), ("a.dta", "%tm", "date"), ("a.dta", "%tw", "number"), ("a.dta", "%tcHH:MM", "moment"),
    ("a.dta", "%9.0g", "number"), ("a.dta", "%10s", "number"), ("a.xpt", "MMDDYY10", "date"), ("a.sas7bdat", "E8601DA10", "date"),
    ("a.sas7bdat", "DATETIME22.3", "moment"), ("a.sas7bdat", "DTDATE9", "moment"), ("a.sas7bdat", "TIME8", "seconds"),
    ("a.sas7bdat", "BEST12", "number"), ("a.sas7bdat", "DOLLAR10.2", "number"), ("a.sas7bdat", "", "number")])
def test_formats_say_what_numbers_are(name: str, form: str, kind: str) -> None:
    assert statistics_files.kind_of_format(ForeignFile(table="t", path=Path(name)), form) == kind


def test_a_month_of_stata_is_its_first_day() -> None:
    write("t.dta", pd.DataFrame({"m": [720.0, -1.0, None], "q": [240.0, -1.0, 1e300]}), variable_format={"m": "%tm", "q": "%tq"})
    assert kept("t.dta").to_pylist() == [{"m": dt.date(2020, 1, 1), "q": dt.date(2020, 1, 1)},
                                         {"m": dt.date(1959, 12, 1), "q": dt.date(1959, 10, 1)}, {"m": None, "q": None}]


def test_an_old_file_has_its_encoding_in_the_draft() -> None:
    write("t.sav", pd.DataFrame({"id": [1.0, 2], "town": ["Zürich", "Linz"]}))
    written = Path("t.sav").read_bytes()
    assert struct.pack("<iiii", 7, 20, 1, 5) in written, "the record that names the encoding"
    Path("t.sav").write_bytes(written.replace("ü".encode(), b"\xfc "))
    assert 'csv = { encoding = "cp1252" }' in drafted("t.sav")
    refresh()
    assert rows("SELECT town FROM t ORDER BY id") == [("Zü rich",), ("Linz",)]
    Path("dpsql.toml").write_text(Path("dpsql.toml").read_text().replace('csv = { encoding = "cp1252" }', ""))
    with pytest.raises(OperationalError, match="another encoding") as told:
        refresh()
    assert told.value.code == "encoding" and "line" in str(told.value)


def test_names_that_differ_in_case_only_are_told_apart() -> None:
    write("t.dta", pd.DataFrame({"id": [1.0, 2], "x": [1.0, 2.0], "X": [3.0, 4.5]}))
    drafted("t.dta")
    refresh()
    assert rows("SELECT x, X_2 FROM t ORDER BY id") == [(1, 3.0), (2, 4.5)]
    assert distinct_names(["a", "", "A", "a_2", "x\ny"]) == ["a", "column2", "A_3", "a_2", "x y"]


def test_a_wide_file_is_read_in_parts_and_no_row_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("people.sav", "people.dta", "people.xpt"):
        write(name, PEOPLE)
    monkeypatch.setattr(statistics_files, "rows_at_once", lambda columns: 64)
    for name in ("people.sav", "people.dta", "people.xpt"):
        assert kept(name, ["ID", "income"]).to_pydict() == {"ID": PEOPLE.id.tolist(), "income": PEOPLE.income.tolist()}
        assert parquet.ParquetFile("copy.parquet").num_row_groups == 4
    read = statistics_files._read
    monkeypatch.setattr(statistics_files, "_read", lambda file, **asked: read(file, **asked) if not asked.get("row_offset") else ({"id": []}, None))
    with pytest.raises(InternalError, match="136 rows") as told:
        kept("people.sav", ["id"])
    assert told.value.code == "rows-lost"


def test_a_file_that_changes_meanwhile_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    write("people.sav", PEOPLE)
    written = foreign_files._written

    def replaced(*given: Any) -> int:
        found = written(*given)
        write("people.sav", PEOPLE.iloc[:100])
        return found

    monkeypatch.setattr(foreign_files, "_written", replaced)
    with pytest.raises(OperationalError, match="changed while it was read"):
        kept("people.sav")


# -- snapshots


def test_a_file_is_read_by_refresh_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write("people.sav", PEOPLE)
    drafted("people.sav")
    assert "dpsql refresh" in capsys.readouterr().out
    with pytest.raises(OperationalError, match="no snapshot of people") as told:
        rows("SELECT 1")
    assert told.value.code == "no-snapshot" and told.value.span is not None
    check_unread(read_policy("dpsql.toml"))
    assert cli.main(["refresh"]) == 0 and rows("SELECT COUNT(*) FROM people") == [(200,)]
    write("people.sav", PEOPLE.iloc[:50])
    assert rows("SELECT COUNT(*) FROM people") == [(200,)], "what the file holds now shows after the next refresh"
    assert cli.main(["refresh"]) == 0 and rows("SELECT COUNT(*) FROM people") == [(50,)]
    with pytest.raises(OperationalError, match="read by dpsql refresh"):
        open_reader(read_policy("dpsql.toml"), "people.sav")
    made = [*folder.rglob("*.parquet")]
    assert made and all(file.stat().st_mode & 0o077 == 0 for file in made)


def test_what_codes_mean_may_change_without_a_refresh_but_not_the_columns() -> None:
    write("t.sav", pd.DataFrame({"id": [1.0, 2, 3], "a": [1.0, 2.0, 2.5]}))
    text = policy_for("t.sav", 'id = { type = "BIGINT" }\na = { type = "DOUBLE" }')
    Path("dpsql.toml").write_text(text)
    refresh()
    for declared, expected in (('{ type = "DOUBLE" }', [1.0, 2.0, 2.5]), ('{ type = "BIGINT" }', [1, 2, None]),
                               ('{ type = "VARCHAR", aliases = { "1" = "one" } }', ["one", "2", "2.5"]),
                               ('{ type = "BIGINT", null = 2 }', [1, None, None])):
        Path("dpsql.toml").write_text(text.replace('a = { type = "DOUBLE" }', f"a = {declared}"))
        assert [value for value, in rows("SELECT a FROM t ORDER BY id")] == expected
    Path("dpsql.toml").write_text(text.replace('a = { type = "DOUBLE" }\n', ""))
    with pytest.raises(OperationalError, match="before the policy changed"):
        rows("SELECT 1")


def test_rows_without_a_key_are_named_by_their_own_cells() -> None:
    frame = pd.DataFrame({"a": [1.0, 1.0, 2.0, 3.0], "b": ["x", "x", None, "z"]})
    write("t.sav", frame)
    assert 'row_key = "row"' in drafted("t.sav")
    refresh()
    before = rows("SELECT a, row FROM t ORDER BY a, row")
    assert len({name for _, name in before}) == 4
    write("t.sav", frame.iloc[[0, 1, 3]])
    refresh()
    assert rows("SELECT a, row FROM t ORDER BY a, row") == [row for row in before if row[0] != 2], "nobody else has another name"


def test_a_public_table_may_be_a_sheet_but_not_that_of_a_private_one() -> None:
    book = openpyxl.Workbook()
    for name, cells in (("people", [["id", "town"], [1, "a"], [2, "b"]]), ("towns", [["town"], ["a"], ["b"]])):
        sheet = book.create_sheet(name)
        for row in cells:
            sheet.append(row)
    del book["Sheet"]
    book.save("book.xlsx")
    more = '[tables.towns]\npublic = true\nkey = "town"\nsource = "book.xlsx"\nsheet = "{}"\n[tables.towns.columns]\ntown = {{ type = "VARCHAR" }}'
    columns = 'id = { type = "BIGINT" }\ntown = { type = "VARCHAR", values_from = "towns.town" }'
    Path("dpsql.toml").write_text(policy_for("book.xlsx", columns, more.format("towns"), 'sheet = "people"'))
    refresh()
    assert rows("SELECT COUNT(*) FROM t JOIN towns USING (town)") == [(2,)]
    for mine, theirs in (('sheet = "people"', "people"), ("", "towns")):
        Path("dpsql.toml").write_text(policy_for("book.xlsx", columns, more.format(theirs), mine))
        with pytest.raises(OperationalError, match="has the file of t, which is private"):
            refresh()


def test_cells_of_another_type_than_declared_are_counted_for_the_owner() -> None:
    write("t.sav", pd.DataFrame({"id": [float(i) for i in range(1, 41)], "a": [0.5, 1.5, 2.5, 0.5, *[1.0] * 36]}))
    Path("dpsql.toml").write_text(policy_for("t.sav", 'id = { type = "BIGINT" }\na = { type = "BIGINT" }'))
    refresh()
    policy = read_policy("dpsql.toml")
    found = policy_on_rows(policy, [*policy.budgets.values()], None)
    (cells,), = (file.cells for file in found.files)
    assert (cells.column, cells.cells, cells.examples) == ("a", 4, ("0.5", "1.5", "2.5"))
    assert any("4 cells of a are no BIGINT" in text for text in found.suspicions)


# -- workbooks


def book_of(path: str = "book.xlsx", *, epoch: Any = None) -> None:
    book = openpyxl.Workbook()
    if epoch is not None:
        book.epoch = epoch
    sheet = book.active
    sheet.title = "People"
    for row in (["The people of 2024"], [], ["id", "sex", "income", "born", "seen", "member", "id", None]):
        sheet.append(row)
    for i in range(1, 31):
        sheet.append([i, "mf"[i % 2], 1000.5 if i % 7 else "NA", dt.date(1950, 1, 1) + dt.timedelta(days=i),
                      dt.datetime(2024, 1, 1, 8, i), bool(i % 3), f"K{i}", None])
    sheet["C4"] = "#N/A"
    sheet["C4"].data_type = "e"
    sheet.append([])
    for name in ("Empty", "Hidden"):
        book.create_sheet(name)
    book["Hidden"].sheet_state = "hidden"
    book.save(path)


@pytest.mark.parametrize("epoch", [openpyxl.utils.datetime.CALENDAR_WINDOWS_1900, openpyxl.utils.datetime.CALENDAR_MAC_1904])
def test_a_sheet_is_drafted_and_read_like_a_csv_file(epoch: Any) -> None:
    book_of(epoch=epoch)
    text = drafted("book.xlsx")
    table = read_policy("dpsql.toml").tables["People"]
    assert table.sheet == "People" and table.csv is not None and table.csv.skip == 2
    assert {name: column.type for name, column in table.columns.items()} == {
        "id": "BIGINT", "sex": "VARCHAR", "income": "DOUBLE", "born": "DATE", "seen": "TIMESTAMP", "member": "BOOLEAN", "id_2": "VARCHAR"}
    assert "the sheet Hidden of book.xlsx is left out: it is hidden" in text and "Empty of book.xlsx is left out: it has no table" in text
    refresh()
    assert rows("SELECT COUNT(*), COUNT(income), MIN(born), MAX(seen), COUNT(*) FILTER (WHERE member), MAX(id_2) FROM People") == [
        (30, 25, dt.date(1950, 1, 2), dt.datetime(2024, 1, 1, 8, 30), 20, "K9")]


def test_a_sheet_that_is_not_there_is_told_with_those_that_are() -> None:
    book_of()
    Path("dpsql.toml").write_text(policy_for("book.xlsx", 'id = { type = "BIGINT" }', table='sheet = "2024"'))
    for act in (refresh, lambda: check_unread(read_policy("dpsql.toml"))):
        with pytest.raises(OperationalError, match="has no sheet 2024") as told:
            act()
        assert "one of People, Empty" in str(told.value) and "line" in str(told.value)


def test_a_workbook_with_a_password_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import python_calamine

    def protected(path: str) -> None:
        raise python_calamine.PasswordError("Workbook is password protected")

    book_of()
    monkeypatch.setattr(python_calamine, "load_workbook", protected)
    with pytest.raises(OperationalError, match="protected by a password"):
        kept("book.xlsx")


def test_cells_become_texts() -> None:
    assert [text_of_cell(cell) for cell in (
        1.0, 0.1 + 0.2, 1e20, -0.0, True, "", " x ", dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4), dt.time(3, 4), NOTHING, float("inf"),
        dt.timedelta(days=1, hours=2, seconds=3), None)] == [
            "1", "0.30000000000000004", "1e+20", "0", "true", None, " x ", "2024-01-02", "2024-01-02 03:04:00", "03:04:00", None, None,
            "26:00:03", None]


def test_a_sheet_without_a_header_and_one_in_the_middle() -> None:
    book = openpyxl.Workbook()
    for i in range(1, 6):
        book.active.append([i, i * 2])
    inner = book.create_sheet("inner")
    for at, row in enumerate([["id", "x"], [1, "a"], [2, None]]):
        for place, cell in enumerate(row):
            inner.cell(row=at + 4, column=place + 3, value=cell)
    book.save("book.xlsx")
    (plain, middle), aside = tables_in(ForeignFile(table="book", path=Path("book.xlsx").absolute()))
    assert (plain.how.names, middle.how.skip, aside) == (("column1", "column2"), 3, {})
    assert kept("book.xlsx", sheet="inner", how=middle.how).select(["id", "x"]).to_pylist() == [{"id": "1", "x": "a"}, {"id": "2", "x": None}]
    assert kept("book.xlsx", sheet="Sheet", how=plain.how).num_rows == 5


def test_sheets_whose_names_are_alike_are_different_tables() -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in ("a-1", "a 1", "2024"):
        sheet = book.create_sheet(name)
        for row in (["person_id", "x"], [1, name], [2, name]):
            sheet.append(row)
    book.save("book.xlsx")
    drafted("book.xlsx")
    policy = read_policy("dpsql.toml")
    assert {name: table.sheet for name, table in policy.tables.items()} == {"a_1": "a-1", "a_1_2": "a 1", "table_2024": "2024"}
    promised = promise_of(policy, policy.budgets["main"]).tables
    first, second = promised["a_1"].places, promised["a_1_2"].places
    assert first == {"book.xlsx/a-1"} and first != second, "one may be public where the other is not"


# -- Arrow


def test_a_file_of_arrow_keeps_its_types_and_its_categories_are_not_told() -> None:
    frame = pd.DataFrame({"id": range(10), "town": pd.Categorical(["a", "b"] * 5, categories=["a", "b", "c"]), "took": pd.Timedelta("1h"),
                          "x": [0.5] * 10, "day": [dt.date(2024, 1, 1)] * 10, "at": pd.Timestamp("2024-01-01", tz="UTC")})
    frame["list"] = [[1, 2]] * 10
    feather.write_feather(frame, "towns.feather")
    text = drafted("towns.feather")
    columns = read_policy("dpsql.toml").tables["towns"].columns
    assert [*columns] == ["id", "town", "x", "day", "at"] and columns["town"].values is None
    assert "categories, which programs derive from rows" in text
    assert "# took = {}" in text and "duration[us]: this type is not supported" in text and "# list = {}" in text
    refresh()
    assert rows("SELECT town, COUNT(*), MIN(day) FROM towns GROUP BY town ORDER BY town") == [
        ("a", 5, dt.date(2024, 1, 1)), ("b", 5, dt.date(2024, 1, 1))]


def test_a_stream_of_arrow_is_read_and_the_first_form_of_feather_is_named() -> None:
    table = pa.table({"id": [1, 2], "x": ["a", None]})
    with pa.ipc.new_stream("t.arrow", table.schema) as writer:
        writer.write_table(table)
    assert kept("t.arrow").to_pylist() == table.to_pylist()
    Path("t.feather").write_bytes(b"FEA1" + b"\0" * 60)
    with pytest.raises(OperationalError, match="Feather V1"):
        kept("t.feather")


# -- what cannot be read


@pytest.mark.parametrize("name", ["t.sav", "t.dta", "t.xpt", "t.por", "t.xlsx", "t.feather"])
def test_a_file_that_cannot_be_read_is_told_in_its_place(name: str) -> None:
    columns = {"id": [1.0, 2.0, 3.0] * 50, "x": [0.5, 1.5, 2.5] * 50}
    if name == "t.xlsx":
        pd.DataFrame(columns).to_excel(name, index=False)
    elif name == "t.feather":
        feather.write_feather(pd.DataFrame(columns), name)
    else:
        write(name, pd.DataFrame(columns))
    whole = Path(name).read_bytes()
    kind = "" if name == "t.feather" else 'type = "BIGINT"'
    Path("dpsql.toml").write_text(policy_for(name, f"id = {{ {kind} }}").replace('key = "id"\nsource', "source"))
    refresh()
    for cells in (whole[: len(whole) * 6 // 10], b"hello\n" * 500, b"", None):
        Path(name).unlink()
        if cells is not None:
            Path(name).write_bytes(cells)
        with pytest.raises(OperationalError) as told:
            refresh()
        assert told.value.span is not None and name in str(told.value) and told.value.__cause__ is None
        with pytest.raises(OperationalError):
            tables_in(ForeignFile(table="t", path=Path(name).absolute()))
            kept(name)
    assert rows("SELECT COUNT(*) FROM t") == [(150,)], "the previous snapshot is still used"


@pytest.mark.parametrize(("name", "extra"), [("t.sav", "statistics"), ("t.xlsx", "excel"), ("t.feather", "arrow")])
def test_a_library_that_is_not_installed_is_named(name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> Any:
        raise ImportError(module)

    Path(name).write_bytes(b"x")
    monkeypatch.setattr(foreign_rows.importlib, "import_module", missing)
    with pytest.raises(OperationalError, match="not installed") as told:
        kept(name)
    assert told.value.try_ == f"pip install 'dpsql[{extra}]'"
    assert importlib is foreign_rows.importlib


def test_a_file_without_rows_is_a_table_without_rows() -> None:
    write("t.sav", PEOPLE.iloc[:0])
    pd.DataFrame({"id": [], "x": []}).to_excel("b.xlsx", index=False)
    assert kept("t.sav").num_rows == kept("b.xlsx").num_rows == 0
    drafted("b.xlsx")
    refresh()
    assert rows("SELECT COUNT(*) FROM b") == [(0,)]


def test_a_column_that_the_file_lacks_is_told() -> None:
    write("t.sav", pd.DataFrame({"ID": [1.0]}))
    Path("dpsql.toml").write_text(policy_for("t.sav", 'id = { type = "BIGINT" }\nage = { type = "BIGINT" }'))
    with pytest.raises(OperationalError, match="has no column age") as told:
        refresh()
    assert "one of ID" in str(told.value) and "age = " in str(told.value)


@pytest.mark.parametrize(("source", "columns", "table", "reason"), [
    ("t.sav", "id = {}", "", "a column of a file of SPSS, Stata or SAS needs a type"),
    ("t.xlsx", "id = {}", "", "a column of a workbook needs a type"),
    ("t.feather", 'id = { type = "BIGINT" }', "", "only columns of CSV files"),
    ("t.sav", 'id = { type = "BIGINT" }', 'sheet = "a"', "only workbooks have sheets"),
    ("t.csv", 'id = { type = "BIGINT" }', 'sheet = "a"', "only workbooks have sheets"),
    ("t.sav", 'id = { type = "BIGINT" }', "csv = { skip = 1 }", "the format of this file cannot be declared"),
    ("t.xlsx", 'id = { type = "BIGINT" }', 'csv = { delimiter = ";" }', "the format of this file cannot be declared"),
    ("t.feather", "id = {}", 'csv = { encoding = "cp1252" }', "the format of this file cannot be declared"),
    ("t.sav", 'id = { type = "BIGINT" }', 'filter = "x"', "filter is for tables of databases")])
def test_a_policy_says_of_a_file_what_can_be_said(source: str, columns: str, table: str, reason: str) -> None:
    with pytest.raises(PolicyError, match=reason):
        parse_policy(policy_for(source, columns, table=table))


def test_a_file_of_another_program_is_no_database() -> None:
    with pytest.raises(PolicyError, match="is the source of a table"):
        parse_policy(policy_for("t.sav", 'id = { type = "BIGINT" }').replace("version = 1", 'version = 1\ndatabase = "t.sav"'))


# -- cells of another type


NUMBERS = [1.0, 2.5, -0.0, 1e20, 2.0**53, 1e300, NOTHING, float("inf"), None, 20240131.0, 9.0, 2.0**63]


@pytest.mark.parametrize(("how", "expected"), [
    (CellReading(type="BIGINT"), [1, None, 0, None, 2**53, None, None, None, None, 20240131, 9, None]),
    (CellReading(type="BIGINT", null=(9,)), [1, None, 0, None, 2**53, None, None, None, None, 20240131, None, None]),
    (CellReading(type="BOOLEAN"), [True, None, False, *[None] * 9]),
    (CellReading(type="DATE", format="%Y%m%d"), [*[None] * 9, dt.date(2024, 1, 31), None, None]),
    (CellReading(type="VARCHAR", aliases={"1": "one"}, null=("9",)), [
        "one", "2.5", "0", "1e+20", "9007199254740992.0", "1e+300", "nan", "inf", None, "20240131", None, "9.223372036854776e+18"]),
    (CellReading(type="TIMESTAMP"), [None] * 12)])
def test_a_number_is_read_as_another_type_by_its_text(how: CellReading, expected: list[Any]) -> None:
    connection = connected()
    connection.execute("CREATE TABLE t (n INTEGER, x DOUBLE)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [*enumerate(NUMBERS)])
    assert [value for value, in connection.execute(f"SELECT {cleaned('x', 'DOUBLE', how)} FROM t ORDER BY n").fetchall()] == expected
    connection.close()


def test_a_declared_type_is_that_of_a_column_in_a_folder_of_parquet_files_too(folder: Path) -> None:
    (folder / "t").mkdir()
    parquet.write_table(pa.table({"id": [1, 2, 3], "code": [1.0, 2.0, 2.5], "day": ["2024-01-31", "x", None]}), folder / "t" / "a.parquet")
    Path("dpsql.toml").write_text(policy_for("t", 'id = {}\ncode = { type = "BIGINT" }\nday = { type = "DATE" }'))
    assert rows("SELECT code, day FROM t ORDER BY id") == [(1, dt.date(2024, 1, 31)), (2, None), (None, None)]
