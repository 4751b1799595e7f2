"""Stores that are prepared while statements are asked: when, what is asked meanwhile, and what is left of one that is broken off."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.vaults import remote, vault_of

import dpsql
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import attach_store
from dpsql.backends.store import Store
from dpsql.dbapi import Connection
from dpsql.engine import background, preparing
from dpsql.engine.answering import answer
from dpsql.engine.background import Preparation, StoreOfReader, await_store
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.session import Session
from dpsql.errors import OperationalError
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.reader import ReaderFault

POLICY = """\
version = 1
{top}
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
{people}
[tables.people.columns]
id = {{}}
sex = {{ values = ["f", "m"] }}
[tables.visits]
key = "vid"
foreign_keys = [{{ columns = "id", references = "people(id)" }}]
rows_per_entity = 3
{visits}
[tables.visits.columns]
vid = {{}}
id = {{}}
cost = {{ bounds = [0, 100] }}
[budgets.main]
entity = "person"
epsilon = 1000
delta = 0.01
"""
ROWS = {"people": "SELECT i AS id, ['f', 'm'][1 + i % 2] AS sex FROM range(200) AS t(i)",
        "visits": "SELECT i AS vid, (i * i) % 230 AS id, i % 90 AS cost FROM range(2000) AS t(i)"}
VISITS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100) COUNT(*) FROM visits"
SLOW = """
import sys, time
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import attach_store
from dpsql.backends.store import Store
from dpsql.engine import preparing_apart
write, left = DuckReader.write, [2]
def slow(self, sql):
    left[0] -= 1
    write(self, sql)
    if not left[0]:
        time.sleep(60)
DuckReader.write = slow
preparing_apart.main()
"""


@pytest.fixture(params=["parquet", "duckdb"])
def policy(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("dpsql.engine.opening.LARGE", 1000)
    return world(tmp_path, request.param)


def world(folder: Path, kind: str, store: str = "") -> Path:
    sources = {name: f'source = "{name}.parquet"' for name in ROWS} if kind == "parquet" else dict.fromkeys(ROWS, "")
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        for name, rows in ROWS.items():
            if kind == "parquet":
                connection.execute(f"COPY ({rows}) TO '{folder / name}.parquet'")
            else:
                connection.execute(f"CREATE TABLE {name} AS {rows}; ALTER TABLE {name} ADD PRIMARY KEY ({'id' if name == 'people' else 'vid'})")
    top = "" if kind == "parquet" else 'database = "w.duckdb"'
    (folder / "dpsql.toml").write_text(POLICY.format(top=top + store, **sources), encoding="utf-8")
    if not (folder / "dpsql.ledger").exists():
        Ledger.create(folder / "dpsql.ledger").close()
    return folder / "dpsql.toml"


@pytest.fixture
def paying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preparing takes no time, as far as is expected, and there is room."""
    monkeypatch.setattr(background, "CELLS", 1e15)
    monkeypatch.setattr(background, "has_room", lambda folder, files: True)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What other processes would be told; the store is made by nobody."""
    told: list[dict[str, Any]] = []

    class Process:
        returncode, stdin = 0, None

        def poll(self) -> int:
            return 0

        def communicate(self) -> None:
            pass

    def start(self: Preparation) -> None:
        told.append(self._told)
        self._process = Process()  # type: ignore[assignment]

    monkeypatch.setattr(Preparation, "_start", start)
    return told


def reader_of(connection: Connection) -> DuckReader:
    found = connection.session.kernel._reader
    assert isinstance(found, DuckReader)
    return found


def awaited(connection: Connection) -> StoreOfReader:
    found = connection.session.awaited
    assert isinstance(found, StoreOfReader)
    return found


def about(connection: Connection, sql: str = VISITS) -> list[int]:
    (row,) = connection.execute(sql).fetchall()
    return [round(number) for number in row]


def ended(found: Callable[[], bool], seconds: float = 60) -> bool:
    until = time.monotonic() + seconds
    while not found() and time.monotonic() < until:
        time.sleep(0.02)
    return found()


def test_a_store_is_made_after_the_first_answer_and_read_by_the_next_statement(policy: Path, paying: None) -> None:
    with dpsql.connect(policy=policy) as connection, dpsql.connect(policy=policy, analyst="eve") as other:
        preparation, version = awaited(connection).preparation, connection.session.kernel.version
        connection.explain(VISITS)
        assert preparation.process is None
        first, paid = about(connection), connection.execute("SELECT SUM(cost) FROM visits", epsilon=1).fetchall()
        process = preparation.process
        assert process is not None and awaited(other).preparation is preparation
        assert os.getpriority(os.PRIO_PROCESS, process.pid) in (0, 19)  # as it begins, and then
        assert process.wait(60) == 0
        assert not reader_of(connection).stored
        assert about(connection, VISITS.replace("100", "101")) == first
        assert about(other) == first  # by its first statement
        assert reader_of(connection).stored.keys() == reader_of(other).stored.keys() == {"people", "visits"}
        assert connection.session.kernel.version == version
        again = connection.execute("SELECT SUM(cost) FROM visits", epsilon=1)
        assert again.fetchall() == paid and not again.cost, "what was paid for stays, as the data are the same"
        assert ended(lambda: process.poll() is not None)
    with dpsql.connect(policy=policy) as connection:
        assert reader_of(connection).stored and connection.session.awaited is None


def test_nothing_is_made_where_it_does_not_pay_or_the_owner_forbids_it(tmp_path: Path, here: list[dict[str, Any]],
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "has_room", lambda folder, files: True)
    monkeypatch.setattr("dpsql.engine.opening.LARGE", 3000)
    policy = world(tmp_path, "parquet")
    with dpsql.connect(policy=policy) as connection:
        assert connection.session.awaited is None, "there are few rows"
    monkeypatch.setattr("dpsql.engine.opening.LARGE", 1000)
    with dpsql.connect(policy=policy) as connection:
        monkeypatch.setattr(awaited(connection).preparation, "_seconds", 50)
        for statement in range(1, 6):
            assert connection.execute("SELECT COUNT(*) FROM visits", epsilon=statement).fetchall()
            reader_of(connection).spent += 30
            connection.session.look()
            assert len(here) == (statement >= 4), "half of 100 seconds would have been saved; and one is enough"
    policy = world(tmp_path, "parquet", '\n[store]\nprepare = false\n')
    with dpsql.connect(policy=policy) as connection:
        allowed = reader_of(connection).rows("SELECT current_setting('allowed_directories')")[0][0]
        assert connection.session.awaited is None and not any("ledger.store" in folder for folder in allowed)


def test_connections_to_one_engine_share_a_store_and_no_other_is_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of another ledger, whose secret gives rows other places, go on with the source."""
    monkeypatch.setattr("dpsql.engine.opening.LARGE", 1000)
    monkeypatch.setattr(background, "CELLS", 1)
    policy, store = world(tmp_path, "duckdb", '\n[store]\nfolder = "stores"\n'), tmp_path / "stores"
    store.mkdir()
    Ledger.create(tmp_path / "other.ledger").close()
    with (dpsql.connect(policy=policy) as first, dpsql.connect(policy=policy, analyst="eve") as second,
          dpsql.connect(policy=policy, ledger=tmp_path / "other.ledger") as other):
        expected = about(first)
        dpsql.prepare(policy=policy, buckets=2)
        dpsql.prepare(policy=policy, buckets=2, ledger=tmp_path / "other.ledger")
        assert about(first, VISITS.replace("100", "101")) == about(second) == about(other) == expected
        assert reader_of(first).stored and reader_of(second).stored and not reader_of(other).stored
        assert other.session.awaited is None, "the first connection has said which folder may be read"
        made = [Store.from_json(place.read_text()) for place in store.glob("*/manifest-*")]
        theirs, = (one for one in made if one.buckets != reader_of(first)._store.buckets)  # type: ignore[union-attr]
        with pytest.raises(OperationalError, match="damaged, or was just replaced"):
            reader_of(second).adopt(theirs, attach_store)
        assert about(second, VISITS.replace("100", "103")) == expected
    with dpsql.connect(policy=policy, ledger=tmp_path / "other.ledger") as other:
        assert reader_of(other).stored and about(other, VISITS.replace("100", "102")) == expected


def test_nothing_is_made_without_room(policy: Path, paying: None, here: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "has_room", preparing.has_room)
    monkeypatch.setattr(preparing, "MARGIN", 10**12)
    with dpsql.connect(policy=policy) as connection:
        assert about(connection) and about(connection, VISITS.replace("visits", "people")) and not here


def test_a_store_that_somebody_prepares_meanwhile_is_read(policy: Path, here: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "CELLS", 1)
    with dpsql.connect(policy=policy) as connection:
        first = about(connection)
        dpsql.prepare(policy=policy, buckets=3)
        assert about(connection, VISITS.replace("100", "101")) == first and reader_of(connection).stored and not here


def test_nothing_but_the_files_and_the_folder_of_stores_can_be_opened(policy: Path, here: list[dict[str, Any]], tmp_path: Path) -> None:
    with dpsql.connect(policy=policy) as connection:
        reader, folder = reader_of(connection), awaited(connection)._folder
        for other in (tmp_path / "dpsql.toml", folder.with_name(f"{folder.name}-not") / "x.csv", folder / ".." / "dpsql.toml"):
            folder.mkdir(exist_ok=True)
            other.parent.mkdir(exist_ok=True)
            other.touch()
            for sql in (f"SELECT * FROM read_text('{other}')", f"COPY (SELECT 1) TO '{other}'", f"ATTACH '{other}' AS other"):
                with pytest.raises(ReaderFault):
                    reader.rows(sql)


def test_rows_whose_parent_is_missing_are_left_out_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has to be checked of a foreign key: a row that leads to nobody is dropped whenever it is read, also one with NULL."""
    monkeypatch.setattr("dpsql.engine.opening.LARGE", 1000)
    monkeypatch.setattr(background, "CELLS", 1)
    policy = world(tmp_path, "parquet")
    bills = "SELECT i AS bill, CASE WHEN i % 3 <> 0 THEN 1990 + i END AS vid FROM range(30) AS t(i)"
    duckdb.execute(f"COPY ({bills}) TO '{tmp_path / 'bills.parquet'}'")  # for 1990 to 2019, where visits end with 1999
    policy.write_text(policy.read_text().replace("[budgets.main]", """[tables.bills]
key = "bill"
source = "bills.parquet"
foreign_keys = [{ columns = "vid", references = "visits(vid)" }]
rows_per_entity = 30
[tables.bills.columns]
bill = {}
vid = {}
[budgets.main]"""), encoding="utf-8")
    count = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 400) COUNT(*) FROM bills"
    with dpsql.connect(policy=policy) as connection:
        assert about(connection, count) == [6]
        dpsql.prepare(policy=policy, buckets=2)
        assert about(connection, count.replace("400", "401")) == [6] and reader_of(connection).stored


def test_a_store_of_other_rows_or_of_another_ledger_is_not_read(policy: Path, here: list[dict[str, Any]], tmp_path: Path) -> None:
    with dpsql.connect(policy=policy) as connection:
        about(connection)
        dpsql.prepare(policy=policy, buckets=1)
        place, = tmp_path.glob("*.store/manifest-*")
        place.write_text(place.read_text().replace('"most": ', '"most": 0'))  # no limit would be enforced
        about(connection, VISITS.replace("100", "101"))
        assert not reader_of(connection).stored
        for source in (tmp_path / "visits.parquet", tmp_path / "w.duckdb"):
            os.utime(source, (1, 1)) if source.exists() else None
        dpsql.prepare(policy=policy, buckets=1)
        if (tmp_path / "visits.parquet").exists():
            with pytest.raises(OperationalError, match="were changed"):
                about(connection, VISITS.replace("100", "102"))
        else:
            about(connection, VISITS.replace("100", "102"))
        assert not reader_of(connection).stored


def test_a_store_that_goes_again_is_not_read(policy: Path, here: list[dict[str, Any]], tmp_path: Path) -> None:
    with dpsql.connect(policy=policy) as connection:
        first = about(connection)
        dpsql.prepare(policy=policy, buckets=2)
        for bucket in tmp_path.rglob("0001.duckdb"):
            bucket.unlink()
        assert about(connection, VISITS.replace("100", "101")) == first and not reader_of(connection).stored


def test_a_server_does_the_same(policy: Path, paying: None, here: list[dict[str, Any]]) -> None:
    """Within statements, whose outcomes leave at steps of a grid: what is done in between is not to be seen."""
    sessions: list[Session] = []

    def made(user: str) -> Session:
        sessions.append(open_session(None, policy, None, ConnectionTerms(analyst=user), await_store=await_store))
        return sessions[-1]

    there = remote(vault_of(made))
    first = answer(VISITS, there)
    assert not here
    assert round(answer(VISITS.replace("100", "101"), there).rows[0][0]) == round(first.rows[0][0]) and len(here) == 1  # type: ignore[union-attr, arg-type]
    dpsql.prepare(policy=policy, buckets=2)
    assert round(answer(VISITS.replace("100", "102"), there).rows[0][0]) == round(first.rows[0][0])  # type: ignore[union-attr, arg-type]
    assert isinstance(sessions[0].kernel._reader, DuckReader) and sessions[0].kernel._reader.stored
    there.close()


# -- processes that end


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The process sleeps once it has written a part of the rows."""
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / "slow_preparation.py").write_text(SLOW)
    monkeypatch.setattr(background, "PROGRAM", "slow_preparation")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "apart"), *filter(None, [os.environ.get("PYTHONPATH", "")])]))
    yield


def unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.store/*/*") if path.is_file()]


def test_closing_ends_the_process_and_removes_what_it_wrote(policy: Path, paying: None, slow: None, tmp_path: Path) -> None:
    connection, other = dpsql.connect(policy=policy), dpsql.connect(policy=policy, analyst="eve")
    first, process = about(connection), awaited(connection).preparation.process
    assert process is not None and ended(lambda: bool(unfinished(tmp_path)))
    connection.close()
    assert process.poll() is None, "another connection waits for the store"
    assert about(other) == first
    other.close()
    assert process.returncode is not None
    assert not [path for path in tmp_path.glob("*.store/*") if path.is_dir()] and not [*tmp_path.glob("*.store/manifest-*")]


def test_a_process_that_is_killed_leaves_no_store_and_is_not_noticed(policy: Path, paying: None, slow: None, tmp_path: Path) -> None:
    with dpsql.connect(policy=policy) as connection:
        first, process = about(connection), awaited(connection).preparation.process
        assert process is not None and ended(lambda: bool(unfinished(tmp_path)))
        process.kill()
        process.wait()
        for price in (101, 102):
            assert about(connection, VISITS.replace("100", str(price))) == first
        assert awaited(connection).preparation.process is process and not reader_of(connection).stored, "it is not tried again"
    assert not [path for path in tmp_path.glob("*.store/*") if path.is_dir()]
    dpsql.prepare(policy=policy, buckets=1)
    with dpsql.connect(policy=policy) as connection:
        assert reader_of(connection).stored and about(connection, VISITS.replace("100", "103")) == first


GOES = """
import os, sys
import dpsql
from dpsql.engine import background, opening
opening.LARGE, background.CELLS, background.PROGRAM, background.has_room = 1000, 1e15, "slow_preparation", lambda *given: True
connection = dpsql.connect(policy=sys.argv[1])
connection.execute("SELECT COUNT(*) FROM visits", epsilon=3)
print(connection.session.awaited.preparation.process.pid, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def test_it_does_not_outlive_a_process_that_is_killed(slow: None, tmp_path: Path) -> None:
    import subprocess

    policy = world(tmp_path, "parquet")
    with subprocess.Popen([sys.executable, "-c", GOES, policy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        child = int(parent.stdout.readline())
        assert ended(lambda: bool(unfinished(tmp_path)))
        parent.stdin.write("\n")
        parent.stdin.flush()
        parent.wait(60)
    assert ended(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2])
    assert unfinished(tmp_path) and not [*tmp_path.glob("*.store/manifest-*")]
    dpsql.prepare(policy=policy, buckets=1)
    assert len({path.parent for path in unfinished(tmp_path)}) == 1, "the next preparation removes it"


def test_a_preparation_that_fails_is_not_told(tmp_path: Path, paying: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: here the store would have to be where a file is."""
    monkeypatch.setattr("dpsql.engine.opening.LARGE", 1000)
    policy = world(tmp_path, "parquet", '\n[store]\nfolder = "dpsql.toml"\n')
    with dpsql.connect(policy=policy) as connection:
        first, process = about(connection), awaited(connection).preparation.process
        assert process is not None and process.wait(60) == 1
        assert about(connection, VISITS.replace("100", "101")) == first and not connection.notes
