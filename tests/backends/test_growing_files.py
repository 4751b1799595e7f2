"""Files of tables that grow: which are read when, and that what is told of them never decides which rows are there."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.backends import growing_files
from dpsql.backends.file_tables import open_files
from dpsql.backends.growing_files import FileSpan
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import file_table, open_reader, sources_of
from dpsql.errors import OperationalError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger

POLICY = """
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "people.parquet"
columns = { id = {} }
[tables.visits]
source = "SOURCE"
grows_by = "day"
period = "day"
since = 2025-01-01
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity_and_period = 4
columns = { id = {}, day = {}, note = {} }
[budgets.main]
entity = "person"
epsilon = 10
per_period = { epsilon = 1 }
"""
FIRST = dt.date(2025, 1, 1)


class Folder:
    """A project with files of visits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "visits").mkdir()
        self.declare("visits")
        duckdb.sql(f"COPY (SELECT i AS id FROM range(50) AS t(i)) TO '{path}/people.parquet'")
        ReportingLedger.create(path / "dpsql.ledger").close()
        self.ledger = ReportingLedger(path / "dpsql.ledger")

    def declare(self, source: str, more: str = "") -> None:
        (self.path / "dpsql.toml").write_text(POLICY.replace("SOURCE", source).replace("day = {}, note", f"day = {{ {more} }}, note"), encoding="utf-8")

    def add(self, name: str, *days: dt.date | None, note: str = "'x'", more: str = "") -> Path:
        """A file with a row of person 1 for each day."""
        path = self.path / "visits" / name
        path.parent.mkdir(exist_ok=True)
        rows = ", ".join(f"(1, {'CAST(NULL AS DATE)' if day is None else f'DATE {str(day)!r}'})" for day in days)
        duckdb.sql(f"COPY (SELECT id, day, {note} AS note{more} FROM (VALUES {rows}) AS t(id, day)) TO '{path}' (FORMAT parquet)")
        return path

    def opened(self, told: list[str] | None = None) -> Any:
        policy = read_policy(self.path / "dpsql.toml")
        if told is None:
            return open_reader(policy, None, FactsBesideLedger(self.ledger))
        return open_files([file_table(policy.tables[name], files) for name, files in sources_of(policy).items()],
                          facts=FactsBesideLedger(self.ledger), tell=told.append)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.ledger.close()


def days(reader: Any, where: str = "TRUE") -> list[Any]:
    return [row[0] for row in reader.rows(f"SELECT t.day FROM visits AS t WHERE {where} ORDER BY ALL")]


def on(number: int) -> dt.date:
    return FIRST + dt.timedelta(number)


def of_day(number: int) -> str:
    return f"t.day >= DATE '{on(number)}' AND t.day < DATE '{on(number + 1)}'"


def files_opened(reader: Any, where: str) -> int:
    """How many scans of files are left in the engine's plan."""
    plan = "".join(row[1] for row in reader.rows(f"EXPLAIN (FORMAT json) SELECT COUNT(*), MAX(t.note) FROM visits AS t WHERE {where}"))
    return plan.count("READ_PARQUET") // 2  # once as a name, and once as a function


@pytest.mark.parametrize("files", [1, 2, 15, 16, 17, 100])
def test_queries_of_a_day_open_the_files_of_that_day_alone(files: int, folder: Folder) -> None:
    for number in range(files):
        folder.add(f"{(number * 37) % files:03}.parquet", on((number * 37) % files))
    with closing(folder.opened()) as reader:
        assert days(reader) == [on(number) for number in range(files)]
        for number in {0, files // 2, files - 1}:
            assert days(reader, of_day(number)) == [on(number)] and files_opened(reader, of_day(number)) == 1
        assert days(reader, of_day(files)) == [] and files_opened(reader, of_day(files)) == (files == 1)


def test_names_and_folders_decide_nothing(folder: Folder) -> None:
    """Rows are where they are, whatever day the file has in its name."""
    folder.add("2025-01-01.parquet", on(1), on(3), None)
    folder.add("2025-01-02.parquet", on(0))
    folder.add("2025-01-03.parquet", on(2), dt.date(1, 1, 1), dt.date(9999, 12, 31))
    folder.add("2025-01-04.parquet", None)
    everything = [dt.date(1, 1, 1), *map(on, range(4)), dt.date(9999, 12, 31), None, None]
    for _ in range(2):  # what is remembered is the same
        with closing(folder.opened()) as reader:
            assert days(reader) == everything
            assert [days(reader, of_day(number)) for number in range(4)] == [[on(number)] for number in range(4)]
            assert files_opened(reader, of_day(0)) in (2, 3)


@pytest.mark.parametrize(("kind", "numbers"), [
    ("date32", [-2**31, -2**31 + 1, -2**31 + 2, 2**31 - 2, 2**31 - 1]),  # the engine writes the first one as a text that it cannot read
    ("timestamp", [-2**63, -2**63 + 1, -2**63 + 2, 2**63 - 2, 2**63 - 1]),
])
def test_a_time_at_the_ends_of_all_time_makes_no_statement_fail(kind: str, numbers: list[int], folder: Folder) -> None:
    """Otherwise one person's row would decide whether a statement about others is answered."""
    usual = 20089 if kind == "date32" else 20089 * 86_400_000_000
    column = pa.date32() if kind == "date32" else pa.timestamp("us")
    for number, extreme in enumerate([*numbers, None]):
        cells = pa.array([usual, *([] if extreme is None else [extreme])], pa.int32() if kind == "date32" else pa.int64()).view(column)
        pq.write_table(pa.table({"id": [1] * len(cells), "day": cells, "note": ["x"] * len(cells)}), folder.path / "visits" / f"{number}.parquet")
    for _ in range(2):  # what is remembered is the same
        with closing(folder.opened()) as reader:
            assert reader.rows("SELECT COUNT(*), COUNT(day) FROM visits") == [(11, 11)]
            where = "t.day >= DATE '2025-01-01' AND t.day < DATE '2025-01-02'"
            assert reader.rows(f"SELECT COUNT(*) FROM visits AS t WHERE {where}") == [(6,)]
            assert reader.rows("SELECT COUNT(*) FROM visits AS t WHERE t.day < DATE '1900-01-01'") == [(3,)]


def test_columns_in_the_names_of_folders(folder: Folder) -> None:
    folder.declare("visits", 'type = "DATE"')
    for number in range(20):
        path = folder.path / "visits" / f"day={on(number)}"
        path.mkdir()
        duckdb.sql(f"COPY (SELECT 1 AS id, 'x' AS note) TO '{path}/a.parquet'")
    with closing(folder.opened()) as reader:
        assert days(reader) == [on(number) for number in range(20)] and days(reader, of_day(7)) == [on(7)]


def test_a_new_file_is_read_once_and_others_are_not_read_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    found = growing_files.GrowingFiles._read
    monkeypatch.setattr(growing_files.GrowingFiles, "_read", lambda self, connection, path: read.append(path.name) or found(self, connection, path))
    told: list[str] = []
    folder.add("0.parquet", on(0))
    folder.add("1.parquet", on(1))
    for new, words in ((["0.parquet", "1.parquet"], "reading 2 new files of visits once"), ([], None)):
        folder.opened(told).close()
        assert read == new and any(words in line for line in told) if words else not read and not [line for line in told if "visits" in line]
        read.clear(), told.clear()
    folder.add("2.parquet", on(2))
    folder.add("0.parquet", on(4), on(0))  # written again: another file
    with closing(folder.opened(told)) as reader:
        assert read == ["0.parquet", "2.parquet"] and days(reader, of_day(4)) == [on(4)] == days(reader, of_day(4))


def test_a_claim_that_nobody_verified_is_not_believed(folder: Folder) -> None:
    """Who can write beside the ledger, but does not know its secret, hides no rows."""
    folder.add("0.parquet", on(0))
    folder.add("1.parquet", on(1))
    folder.opened().close()
    facts = folder.path / "dpsql.ledger.facts"
    lines = facts.read_bytes().split(b"\n")
    changed = [line[:-8] + b"00000000" if line.count(b" ") == 2 else line for line in lines]
    facts.write_bytes(b"\n".join(changed))
    with closing(folder.opened()) as reader:
        assert days(reader) == [on(0), on(1)] and days(reader, of_day(1)) == [on(1)]


def test_files_that_are_being_written_are_not_read(folder: Folder) -> None:
    folder.add("0.parquet", on(0))
    whole = folder.add("1.parquet", on(1)).read_bytes()
    (folder.path / "visits" / "1.parquet").unlink()
    for name in (".1.parquet", "_1.parquet", "1.parquet.tmp", "1.parquet.crc", ".hidden/1.parquet", "_temporary/1.parquet"):
        path = folder.path / "visits" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(whole[:20])
    with closing(folder.opened()) as reader:
        assert days(reader) == [on(0)]
    (folder.path / "visits" / ".1.parquet").write_bytes(whole)
    os.replace(folder.path / "visits" / ".1.parquet", folder.path / "visits" / "1.parquet")
    with closing(folder.opened()) as reader:
        assert days(reader) == [on(0), on(1)]


@pytest.mark.parametrize("kept", [0, 20, 200, -1])
def test_a_broken_file_is_an_error_where_the_policy_names_it(kept: int, folder: Folder) -> None:
    folder.add("0.parquet", on(0))
    path = folder.add("1.parquet", *[on(1)] * 500, note="repeat('long', 20)")
    folder.add("2.parquet", on(2))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(OperationalError, match=r"1\.parquet is not a complete Parquet file") as caught:
        folder.opened()
    assert caught.value.span is not None and caught.value.code == "no-database" and "source" in str(caught.value)
    assert "removing it" in caught.value.try_
    path.unlink()
    folder.opened().close()


def test_a_file_whose_rows_cannot_be_read_is_named(folder: Folder) -> None:
    folder.add("0.parquet", on(0))
    path = folder.add("1.parquet", *[on(number % 9) for number in range(2000)], note="md5(day::VARCHAR || id)")
    data = bytearray(path.read_bytes())
    data[40:600] = bytes(reversed(data[40:600]))
    path.write_bytes(data)
    with pytest.raises(OperationalError, match=r"1\.parquet") as caught:
        folder.opened()
    assert caught.value.span is not None


def test_a_column_without_any_value_in_some_file(folder: Folder) -> None:
    """Its type is then another one there: all files are read, as of tables that do not grow."""
    folder.add("0.parquet", on(0))
    folder.add("1.parquet", on(1), note="NULL")
    folder.add("2.parquet", on(2))
    with closing(folder.opened()) as reader:
        assert days(reader) == [on(0), on(1), on(2)] and days(reader, of_day(1)) == [on(1)]


def test_spans_as_text() -> None:
    for span in (FileSpan(path=Path("a"), least=None, most=None, without=True), FileSpan(path=Path("a"), least="2025-01-01 00:00:00.5", most="infinity", without=False),
                 FileSpan(path=Path("a"), least=growing_files.OPEN, most="2025-01-01", without=True)):
        assert FileSpan.from_text(Path("a"), span.as_text()) == span
