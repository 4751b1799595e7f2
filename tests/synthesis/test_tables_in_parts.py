"""Large synthetic tables: stored in parts, which are read when their rows are used, and otherwise like all others."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from support import worlds
from support.sessions import open_ledger, session_of
from support.vaults import remote, vault_of

import dpsql
from dpsql import cli
from dpsql.demo.folder import export
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import LedgerError
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.synthesis import stored_values
from dpsql.synthesis.packed_values import CodedValues, NumberValues, PackedValues
from dpsql.synthesis.stored_values import PartWriter, StoredValues
from dpsql.synthesis.synthetic_table import SyntheticTable, of_json
from dpsql.trusted.accounting.cost import NOTHING
from dpsql.trusted.kernel.chain import part_digest
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.types import Type

MAKE = ("CREATE SYNTHETIC TABLE made AS SELECT health, female, income, education_years, NULLIF(health, 'good') AS told, "
        "CASE WHEN site > 2 THEN DATE '2020-01-01' ELSE DATE '2021-01-01' END AS day, site FROM people "
        "OPTIONS (epsilon = 0.5, rows = 700, method = 'independent')")
QUERIES = ("SELECT health, COUNT(*) FROM made GROUP BY health ORDER BY health", "SELECT AVG(income), SUM(site) FROM made WHERE female",
           "SELECT COUNT(*) FROM made", "SELECT COUNT(told), MAX(day), MIN(education_years) FROM made")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    export(tmp_path / "study")
    Ledger.create(tmp_path / "study" / "test.ledger", None).close()
    return tmp_path / "study"


def opened(place: Path, analyst: str = "ada") -> dpsql.Connection:
    return dpsql.connect(policy=place / "dpsql.toml", budget="study", analyst=analyst, ledger=place / "test.ledger")


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of more than 640 values is in parts of ten rows of a column."""
    monkeypatch.setattr(stored_values, "PART", 10)


@pytest.fixture
def parts_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    part = ReportingLedger.part
    monkeypatch.setattr(ReportingLedger, "part", lambda self, account, digest: found.append(digest) or part(self, account, digest))
    return found


def made_by(connection: dpsql.Connection, text: str = MAKE) -> SyntheticTable:
    table = connection.execute(text).synthetic
    assert table is not None
    return table


def kinds(place: Path) -> Counter[str]:
    with contextlib.closing(sqlite3.connect(place / "test.ledger")) as connection:
        return Counter(kind for kind, in connection.execute("SELECT kind FROM events"))


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Any]:
    """What the same table tells that is stored in one text. The identity of the statement determines the rows."""
    export(tmp_path / "whole")
    Ledger.create(tmp_path / "whole" / "test.ledger", None).close()
    with pytest.MonkeyPatch.context() as patch, opened(tmp_path / "whole") as connection:
        patch.setattr(stored_values, "PART", 2**18)
        table = made_by(connection)
        assert not isinstance(table.columns[0].values, StoredValues) and kinds(tmp_path / "whole")["part"] == 0
        return {"types": [(column.name, column.kind) for column in table.columns], "rows": table.rows, "method": table.method}


@pytest.mark.usefixtures("in_parts")
def test_a_large_table_is_asked_shown_exported_dropped_and_made_again(place: Path, tmp_path: Path, whole: dict[str, Any]) -> None:
    with opened(place) as connection:
        table = made_by(connection)
        assert {"types": [(column.name, column.kind) for column in table.columns], "rows": table.rows, "method": table.method} == whole
        assert 300 < kinds(place)["part"] <= 7 * 70 and kinds(place)["answer"] == 1, "some are equal, and stored once"
        assert all(isinstance(column.values, StoredValues) and len(column.values) == 700 for column in table.columns)
        frame, told = table.df(), str(table)
        answers = [connection.execute(text).fetchall() for text in QUERIES]
        assert answers[0] == sorted((health, count) for health, count in Counter(frame.health).items())
        assert answers[1] == [(pytest.approx(frame.income[frame.female].mean()), frame.site[frame.female].sum())]
        assert answers[3] == [(frame.told.notna().sum(), frame.day.max(), pytest.approx(frame.education_years.min()))]
        connection.execute("DROP SYNTHETIC TABLE made")
        with pytest.raises(dpsql.Error, match="there is no table made"):
            connection.execute(QUERIES[0])
        assert made_by(connection) == table and [connection.execute(text).fetchall() for text in QUERIES] == answers
    with opened(place) as later:
        again = later.synthetic_table("made")
        assert again.df().equals(frame) and [later.execute(text).fetchall() for text in QUERIES] == answers
        assert str(again).splitlines()[2:] == told.splitlines()[2:], "what it can be trusted for"
        again.write(tmp_path / "made.parquet")
        again.report(tmp_path / "made.html")
        rows = duckdb.sql(f"SELECT health, COUNT(*) FROM '{tmp_path / 'made.parquet'}' GROUP BY health ORDER BY health").fetchall()
        assert rows == answers[0] and (tmp_path / "made.html").stat().st_size > 1000
    with pytest.raises(LedgerError, match="closed"):
        again.df()


@pytest.mark.usefixtures("in_parts")
def test_a_statement_reads_the_columns_that_it_names(place: Path, parts_read: list[str]) -> None:
    with opened(place) as connection:
        table = made_by(connection)
        assert not parts_read, "nothing is read to store a table"
        of = {column.name: {digest for _, digest in column.values.told["stored"]} for column in table.columns
              if isinstance(column.values, StoredValues)}
    with opened(place) as later:
        later.execute("SHOW TABLES").fetchall()
        later.execute("SELECT COUNT(*) FROM people").fetchall()
        later.execute("DESCRIBE made").fetchall()
        assert not parts_read
        later.execute("SELECT health, COUNT(*) FROM made GROUP BY health").fetchall()
        assert set(parts_read) == of["health"]
        later.execute("SELECT health, COUNT(*) FROM made WHERE female GROUP BY health").fetchall()
        assert set(parts_read) == of["health"] | of["female"] and len(parts_read) == 140, "each once in a session"


def test_a_table_that_was_stored_in_one_text_is_read_as_before(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(place) as connection:
        table = made_by(connection)
        answers = [connection.execute(text).fetchall() for text in QUERIES]
    assert kinds(place)["part"] == 0
    monkeypatch.setattr(stored_values, "PART", 10)
    with opened(place) as later:
        assert later.synthetic_table("made") == table == made_by(later)
        assert [later.execute(text).fetchall() for text in QUERIES] == answers


@pytest.mark.usefixtures("in_parts")
def test_made_up_columns_and_linked_tables_may_be_in_parts(place: Path) -> None:
    with opened(place) as connection:
        made = made_by(connection, "CREATE SYNTHETIC TABLE ids AS SELECT person_id, health, female, site FROM people OPTIONS "
                       "(epsilon = 0.3, rows = 300, method = 'independent', made_up = 'person_id')")
        assert [*made.df().person_id] == [*range(1, 301)] and connection.execute(
            "SELECT MAX(person_id), COUNT(*) FROM ids").fetchall() == [(300, 300)]
        linked = connection.synthesize({"p": "SELECT person_id, health FROM people", "y": "SELECT person_id, year FROM person_years"},
                                       epsilon=0.5)
        frames = {each.name: each.df() for each in linked.tables}  # type: ignore[union-attr]
        joined = "SELECT year, COUNT(*) FROM y JOIN p USING (person_id) GROUP BY year ORDER BY year"
        answers = connection.execute(joined).fetchall()
        assert answers == sorted(Counter(frames["y"].year).items())
    with opened(place) as later:
        assert later.execute(joined).fetchall() == answers and later.synthetic_table("y").df().equals(frames["y"])
        assert isinstance(later.synthetic_table("y").columns[0].values, StoredValues)


@pytest.mark.usefixtures("in_parts")
def test_the_shell_exports_a_table_in_parts(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(place)
    shell = ["synthesize", "--budget", "study", "--analyst", "ada", "--ledger", "test.ledger", "--name", "made"]
    assert cli.main([*shell, "--epsilon", "0.5", "--rows", "500", "--to", "first.parquet", "--report", "page.html",
                     "SELECT health, female, income FROM people"]) == 0
    assert cli.main([*shell, "--again", "--to", "again.parquet"]) == 0 and kinds(place)["part"] > 3
    first, again = (duckdb.sql(f"SELECT * FROM '{place / name}.parquet'").fetchall() for name in ("first", "again"))
    assert first == again and len(first) == 500 and (place / "page.html").exists()
    assert cli.main(["ledger", "verify", "--ledger", "test.ledger"]) == 0
    capsys.readouterr()


SHARED = worlds.POLICY.replace("[budgets.person]\n", "[budgets.person]\nshare_answers = true\n")
TABLE = "CREATE SYNTHETIC TABLE made AS SELECT sex, active, age FROM people OPTIONS (epsilon = 1, rows = 500, method = 'independent')"
GROUPS = "SELECT sex, COUNT(*) FROM made GROUP BY sex ORDER BY sex"


@pytest.fixture(params=["here", "behind a vault"])
def of_user(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Session]]:
    def session(user: str) -> Session:
        return session_of(tmp_path, policy=SHARED, analyst=user, digest="p")

    open_ledger(tmp_path).close()
    if request.param == "here":
        yield session
        return
    vault = vault_of(session)
    yield lambda user: remote(vault, user)
    vault.close()


@pytest.mark.usefixtures("in_parts")
def test_an_account_that_is_told_a_table_reads_its_parts(of_user: Callable[[str], Session], tmp_path: Path) -> None:
    ada, bob, eve = of_user("ada"), of_user("bob"), of_user("eve")
    table: Any = answer(TABLE, ada)
    told: Any = answer(GROUPS, ada)
    assert isinstance(table.columns[0].values, StoredValues) and sum(count for _, count in told.rows) == 500
    with pytest.raises(dpsql.Error):
        answer(GROUPS, bob)
    digest = table.columns[0].values.told["stored"][0][1]
    for stranger in (bob, eve):
        with pytest.raises(LedgerError):
            stranger.part(digest)
    again: Any = answer(TABLE, bob)
    assert again == table and answer(GROUPS, bob).rows == told.rows  # type: ignore[union-attr]
    with pytest.raises(LedgerError):
        eve.part(digest)
    with contextlib.closing(open_ledger(tmp_path)) as ledger:
        assert ledger.spent("person", "bob") == NOTHING and ledger.shared() == 1


# -- values in parts


def filled() -> dict[str, tuple[Type, PackedValues]]:
    some = np.arange(27)
    return {
        "codes": (Type.VARCHAR, CodedValues(["a", None, "b", "c"], some % 3)),
        "no NULL": (Type.BIGINT, CodedValues([5, 7], some % 2)),
        "all NULL": (Type.VARCHAR, CodedValues([None], some * 0)),
        "cents": (Type.DOUBLE, NumberValues(Type.DOUBLE, (some * 7 % 27).astype(np.int16), parts=100)),
        "some NULL": (Type.BIGINT, NumberValues(Type.BIGINT, some.astype(np.int64) << 40, some > 20)),
        "days": (Type.DATE, NumberValues(Type.DATE, (some % 5).astype(np.int16))),
        "moments": (Type.TIMESTAMP, NumberValues(Type.TIMESTAMP, some.astype(np.int64) * 10**12, some == 4)),
        "many": (Type.BIGINT, NumberValues(Type.BIGINT, some.astype(np.int64)))}


@pytest.mark.parametrize("sizes", [[27], [3] * 9, [1, 25, 1], [11, 16]])
@pytest.mark.parametrize("case", filled())
def test_values_in_parts_are_the_same_values(case: str, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """However they come, and also the first part is the last one, or they end within a part."""
    kind, values = filled()[case]
    kept: dict[str, str] = {}

    def keep(part: str) -> str:
        kept[part_digest(part)] = part
        return part_digest(part)

    for size in (1, 4, 9, 27, 100):
        monkeypatch.setattr(stored_values, "PART", size)
        writer, start = PartWriter(keep), 0
        for rows in sizes:
            writer.add(values.taken(np.arange(start, start + rows)))
            start += rows
        found = StoredValues(writer.told(), kind, kept.__getitem__)
        assert found == values and list(found) == list(values) == list(found.loaded) and found[13:15] == values[13:15]
        assert found.nullable == values.nullable and found.ends() == values.ends() and max(map(len, found.pieces())) <= size
        assert [found.distinct(most) for most in (0, 3, 1000)] == [values.distinct(most) for most in (0, 3, 1000)]
        assert found.taken(np.array([5, 0])) == values.taken(np.array([5, 0])) and found[-1] == values[-1]


def test_a_column_of_many_values_lists_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_values, "PART", 600)
    writer = PartWriter(part_digest)
    writer.add(NumberValues(Type.BIGINT, np.arange(1001)))
    assert writer.told()["distinct"] is None and writer.told()["ends"] == [0, 1000]


def test_a_stored_form_in_one_text_has_no_parts() -> None:
    with pytest.raises(LookupError):
        list(of_json('{"synthetic table": "t", "method": "m", "price": "", "total": 1, "columns": [{"name": "c", "type": "BIGINT", '
                     '"stored": [[1, "digest"]], "parts": 1, "counted": null}], "notes": [], "statement": "", "known": 0, "measured": [], '
                     '"marginals": [], "key": [], "parent": null}').columns[0].values)
