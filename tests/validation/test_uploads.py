"""What may be brought along as a synthetic table: uploads of allowed folders, and nothing that holds private rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpsql
from dpsql.catalog.policy import parse_policy
from dpsql.dbapi import Connection
from dpsql.errors import Error, OperationalError, OptionError, PolicyError

POLICY = """
version = 1
ledger = "uploads/people.ledger"
{uploads}
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "uploads/people_private.csv"
[tables.people.columns]
id = {{ type = "BIGINT" }}
note = {{ type = "VARCHAR" }}
sex = {{ type = "VARCHAR", values = ["f", "m"] }}
income = {{ type = "BIGINT", bounds = [0, 100] }}
[budgets.study]
entity = "person"
epsilon = 10
"""
QUERY = "SELECT COUNT(*) FROM people WHERE note = 'victim'"
ROWS = "id,note,sex,income\n1,victim,f,10\n2,other,m,20\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy whose own files lie among the uploads, where they should not."""
    uploads = tmp_path / "uploads"
    (uploads / "inner").mkdir(parents=True)
    (uploads / "people_private.csv").write_text(ROWS)
    (uploads / "good.csv").write_text(ROWS)
    (uploads / "inner" / "good.csv").write_text(ROWS)
    (tmp_path / "elsewhere.csv").write_text(ROWS)
    (tmp_path / "uploads2").mkdir()
    (tmp_path / "uploads2" / "other.csv").write_text(ROWS)
    (tmp_path / "dpsql.toml").write_text(POLICY.format(uploads='uploads = ["uploads"]'))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def connection(home: Path) -> Iterator[Connection]:
    from dpsql.ledgers.ledger_reports import ReportingLedger

    if not (home / "uploads" / "people.ledger").exists():
        ReportingLedger.create(home / "uploads" / "people.ledger").close()
    with dpsql.connect(policy=home / "dpsql.toml", epsilon=1) as made:
        yield made


def linked(home: Path, name: str, target: str, *, hard: bool = False) -> str:
    (os.link if hard else os.symlink)(home / target, home / name)
    return name


def hidden(home: Path) -> str:
    os.symlink(home, home / "uploads" / "up")
    return "uploads/up/elsewhere.csv"


def looped(home: Path) -> str:
    os.symlink(home / "uploads" / "a.csv", home / "uploads" / "b.csv")
    os.symlink(home / "uploads" / "b.csv", home / "uploads" / "a.csv")
    return "uploads/a.csv"


def piped(home: Path) -> str:
    os.mkfifo(home / "uploads" / "pipe.csv")
    return "uploads/pipe.csv"


def foldered(home: Path) -> str:
    (home / "uploads" / "folder.csv").mkdir()
    return "uploads/folder.csv"


OUT: dict[str, Callable[[Path], Any]] = {
    "the source": lambda home: "uploads/people_private.csv",
    "the source, as a path": lambda home: home / "uploads" / "people_private.csv",
    "the source, by a longer way": lambda home: "uploads/inner/../people_private.csv",
    "the source, by a link": lambda home: linked(home, "uploads/link.csv", "uploads/people_private.csv"),
    "the source, by its second name": lambda home: linked(home, "uploads/second.csv", "uploads/people_private.csv", hard=True),
    "the source, by a second name elsewhere": lambda home: linked(home, "uploads/inner/x.csv", "uploads/people_private.csv", hard=True),
    "the source, by a link to a second name": lambda home: linked(home, "uploads/l.csv", linked(
        home, "uploads/inner/y.csv", "uploads/people_private.csv", hard=True)),
    "the source, in a mapping": lambda home: {"people": "uploads/people_private.csv"},
    "another folder": lambda home: "elsewhere.csv",
    "another folder, absolute": lambda home: str(home / "elsewhere.csv"),
    "a folder of a longer name": lambda home: "uploads2/other.csv",
    "out of the folder": lambda home: "uploads/../elsewhere.csv",
    "out of the folder by a link": lambda home: linked(home, "uploads/out.csv", "elsewhere.csv"),
    "out of the folder by a folder": hidden,
    "in circles": looped,
    "a pipe": piped,
    "a folder": foldered,
    "no file": lambda home: "uploads/missing.csv",
    "a pattern": lambda home: "uploads/*.csv",
    "a pattern of one letter": lambda home: "uploads/people_privat?.csv",
    "a pattern of letters": lambda home: "uploads/people_privat[e].csv",
    "a pattern of alternatives": lambda home: "uploads/{people_private,good}.csv",
    "a pattern of folders": lambda home: "**/*.csv",
    "another machine": lambda home: "s3://bucket/people.csv",
    "another machine, of the web": lambda home: "https://example.org/people.parquet",
    "a file by its scheme": lambda home: f"file://{home}/uploads/people_private.csv",
    "a user's folder": lambda home: "~/people.csv",
    "a device": lambda home: "/dev/stdin.csv",
    "a process": lambda home: Path("/proc/self/environ"),
    "a list of files": lambda home: ["uploads/people_private.csv"],
    "bytes": lambda home: b"uploads/people_private.csv",
    "quotes": lambda home: "uploads/x') UNION ALL SELECT * FROM read_csv('uploads/people_private.csv",
    "quotes, and a suffix": lambda home: "uploads/x', 'uploads/people_private.csv",
    "NUL": lambda home: "uploads/good.csv\x00.csv",
    "very long": lambda home: "uploads/" + "x" * 5000 + ".csv",
    "the ledger": lambda home: Path("uploads/people.ledger"),
    "the policy": lambda home: Path("dpsql.toml"),
    "a relation": lambda home: __import__("duckdb").sql(f"SELECT * FROM '{home}/uploads/people_private.csv'"),
    "a data set": lambda home: __import__("pyarrow.dataset").dataset.dataset(home / "uploads" / "people_private.csv", format="csv"),
    "the private table": lambda home: "people",
    "a table of the engine": lambda home: "duckdb_settings()",
}


@pytest.mark.parametrize("place", OUT.values(), ids=OUT.keys())
def test_what_is_no_upload_is_refused(place: Callable[[Path], Any], home: Path, connection: Connection) -> None:
    with pytest.raises(Error) as caught:
        connection.validate(QUERY, synthetic=place(home), within=1)
    assert "victim" not in str(caught.value).replace(QUERY, "") and caught.value.__cause__ is None
    assert not connection.session.ledger.entries("study")


@pytest.mark.parametrize("place", ["uploads/good.csv", "uploads/inner/good.csv", "uploads/inner/../good.csv", Path("uploads/good.csv")], ids=str)
def test_an_upload_is_read(place: Any, connection: Connection) -> None:
    assert connection.validate(QUERY, synthetic=place, within=1, epsilon=1).findings[0].synthetic == (1.0,)


def test_the_suffix_of_an_upload_is_of_any_case(home: Path, connection: Connection) -> None:
    pd.DataFrame({"id": [1], "note": ["victim"]}).to_parquet(home / "uploads" / "a b'c.PARQUET")
    assert connection.validate(QUERY, synthetic="uploads/a b'c.PARQUET", within=1, epsilon=1).findings[0].synthetic == (1.0,)


def test_frames_and_tables_of_arrow_are_taken(connection: Connection) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"id": [1, 2], "note": ["victim", "victim"]})
    for given in (frame, pyarrow.Table.from_pandas(frame), pyarrow.RecordBatch.from_pandas(frame)):
        assert connection.validate(QUERY, synthetic=given, within=1, epsilon=1).findings[0].synthetic == (2.0,)


def test_a_refusal_is_the_same_whether_or_not_there_is_a_file(home: Path, connection: Connection) -> None:
    told = []
    for name in ("elsewhere.csv", "nowhere123.csv"):
        with pytest.raises(OperationalError) as caught:
            connection.validate(QUERY, synthetic=name, within=1)
        told.append(str(caught.value).replace(name, "it"))
    assert told[0] == told[1]


BAD = {"a value that is not declared": ("sex", "secret"), "a number that is none": ("income", "secret"), "a key that is none": ("id", "secret")}


@pytest.mark.parametrize(("column", "value"), BAD.values(), ids=BAD.keys())
def test_a_refusal_shows_no_value(column: str, value: str, home: Path, connection: Connection) -> None:
    frame = pd.DataFrame({"id": ["1"], "note": ["x"], "sex": ["f"], "income": ["1"]}).assign(**{column: [value]})
    frame.to_csv(home / "uploads" / "bad.csv", index=False)
    for given in ("uploads/bad.csv", frame):
        with pytest.raises((OptionError, OperationalError)) as caught:
            connection.validate("SELECT COUNT(*) FROM people", synthetic=given, within=1)
        assert column in str(caught.value) and value not in str(caught.value)


def test_without_a_folder_nothing_is_an_upload(home: Path) -> None:
    (home / "dpsql.toml").write_text(POLICY.format(uploads=""))
    from dpsql.ledgers.ledger_reports import ReportingLedger

    if not (home / "uploads" / "people.ledger").exists():
        ReportingLedger.create(home / "uploads" / "people.ledger").close()
    with dpsql.connect(policy=home / "dpsql.toml", epsilon=1) as made, pytest.raises(OperationalError) as caught:
        made.validate(QUERY, synthetic="uploads/good.csv", within=1)
    assert caught.value.code == "upload"


@pytest.mark.parametrize("uploads", ["uploads = 3", "uploads = [3]", "uploads = {}", "uploads = true"])
def test_folders_are_names(uploads: str) -> None:
    with pytest.raises(PolicyError):
        parse_policy(POLICY.format(uploads=uploads))


def test_a_name_that_stands_for_another_file_by_now_does_not_lead_out(home: Path, connection: Connection,
                                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder becomes a link between the check and the opening."""
    opened = os.open

    def late(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if str(path).endswith("inner/good.csv"):
            (home / "uploads" / "inner" / "good.csv").unlink()
            (home / "uploads" / "inner").rmdir()
            (home / "elsewhere").mkdir()
            (home / "elsewhere" / "good.csv").write_text(ROWS.replace("other", "victim"))
            os.symlink(home / "elsewhere", home / "uploads" / "inner")
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(OperationalError):
        connection.validate(QUERY, synthetic="uploads/inner/good.csv", within=1)


def test_the_shell_reads_the_current_folder_but_no_file_of_the_policy(home: Path, connection: Connection,
                                                                      capsys: pytest.CaptureFixture[str]) -> None:
    from dpsql.cli import main

    def run(name: str) -> int:
        return main(["validate", "--policy", "dpsql.toml", "--epsilon", "1", "--sql", QUERY, "--synthetic", name, "--within", "1"])

    assert run("elsewhere.csv") == 0
    for name in ("uploads/people_private.csv", linked(home, "mine.csv", "uploads/people_private.csv", hard=True),
                 linked(home, "also.csv", "uploads/people_private.csv"), "../outside.csv"):
        assert run(name) != 0
    capsys.readouterr()
