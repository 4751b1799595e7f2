"""Snapshots of databases of other kinds: what is read of them and how, when they are in force, and what is told where they cannot be taken."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.postgres import PASSWORD, Postgres, fresh
from support.snapshots import in_sqlite

import dpsql
from dpsql import cli
from dpsql.backends import manifests, snapshots
from dpsql.backends.drivers import SourceDatabase
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import open_reader
from dpsql.errors import DatabaseError, Error, IntegrityError, OperationalError, PolicyError
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.reader import ReaderFault

POLICY = """\
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "{uri}"
[tables.people.columns]
id = {{}}
age = {{ bounds = [0, 100] }}
[tables.visits]
source = "{uri}"
foreign_keys = [{{ columns = "id", references = "people(id)" }}]
rows_per_entity = 5
[tables.visits.columns]
id = {{}}
cost = {{ bounds = [0, 100] }}
[budgets.main]
entity = "person"
epsilon = 100
"""
KINDS = ("postgresql", "sqlite")
FILL = """
INSERT INTO people SELECT i, i % 90 FROM (WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < 99) SELECT i FROM r) AS t;
INSERT INTO visits SELECT id, id % 50 FROM people UNION ALL SELECT id, id % 40 FROM people
"""
MADE = ("CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER)", "CREATE TABLE visits (id INTEGER, cost INTEGER)", *FILL.split(";"))


class Clinic:
    """A database of a kind with people and their visits, and a policy for it with a ledger."""

    def __init__(self, kind: str, folder: Path, *statements: str) -> None:
        self.folder, self.policy = folder, folder / "dpsql.toml"
        self.database: Postgres | None = fresh() if kind == "postgresql" else None
        self.file = folder / "clinic.sqlite"
        self.uri = self.database.uri if self.database is not None else f"sqlite:///{self.file.name}"
        self.run(*(statements or MADE))
        self.declare()
        Ledger.create(folder / "dpsql.ledger").close()

    def run(self, *statements: str) -> None:
        if self.database is not None:
            self.database.run(*statements)
        else:
            with contextlib.closing(sqlite3.connect(self.file)) as connection, connection:
                for sql in statements:
                    connection.execute(sql)

    def declare(self, *changes: tuple[str, str], text: str = POLICY) -> None:
        text = text.format(uri=self.uri)
        for change in changes:
            assert change[0] in text
            text = text.replace(*change)
        self.policy.write_text(text, encoding="utf-8")

    def refresh(self) -> list[str]:
        return dpsql.refresh(policy=self.policy)

    def opened(self) -> DuckReader:
        reader = open_reader(read_policy(self.policy), None)
        assert isinstance(reader, DuckReader)
        return reader

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(self.opened()) as reader:
            return reader.rows(sql)

    def connect(self) -> dpsql.Connection:
        return dpsql.connect(policy=self.policy, analyst="ada", epsilon=20)

    @property
    def snapshots(self) -> list[Path]:
        return sorted(path for path in (self.folder / "dpsql.ledger.snapshots").glob("*/*") if path.is_dir())


@pytest.fixture(params=KINDS)
def clinic(request: pytest.FixtureRequest, tmp_path: Path) -> Clinic:
    return Clinic(request.param, tmp_path)


@pytest.fixture
def hospital(tmp_path: Path) -> Clinic:
    """The same in PostgreSQL."""
    return Clinic("postgresql", tmp_path)


def fault_of(wrong: Callable[[], Any], kind: type[DatabaseError] = OperationalError) -> DatabaseError:
    with pytest.raises(kind) as caught:
        wrong()
    assert caught.value.__cause__ is None and caught.value.try_
    return caught.value


# -- what is in force


def test_a_snapshot_is_read_as_files_are(clinic: Clinic) -> None:
    assert clinic.refresh() == ["people", "visits"]
    assert clinic.rows("SELECT COUNT(*), SUM(age) FROM people") == [(100, sum(i % 90 for i in range(100)))]
    schema = clinic.opened().schema()
    assert schema["people"].unique == (frozenset({"id"}),) and schema["visits"].unique == ()
    assert dict(schema["people"].columns)["age"] == ("INTEGER" if clinic.database else "BIGINT")
    with clinic.connect() as connection:
        (count,), = connection.execute("SELECT COUNT(*) FROM visits JOIN people USING (id)").fetchall()
    assert abs(count - 200) < 20


def test_without_a_snapshot_a_connection_says_what_to_do(clinic: Clinic) -> None:
    fault = fault_of(clinic.connect)
    assert fault.code == "no-snapshot" and "dpsql refresh" in fault.try_ and fault.as_dict()["line"] == 7


def test_only_the_owner_of_the_process_may_read_it(clinic: Clinic) -> None:
    before = os.umask(0)
    try:
        clinic.refresh()
    finally:
        os.umask(before)
    inside, = clinic.snapshots
    assert {stat.S_IMODE(path.stat().st_mode) for path in (inside, inside.parent)} == {0o700}
    files = [path for path in inside.parent.rglob("*") if path.is_file()]
    assert len(files) == 4 and {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_new_snapshot_replaces_the_old_one_and_is_noticed(clinic: Clinic) -> None:
    clinic.refresh()
    with clinic.connect() as connection:
        connection.execute("SELECT COUNT(*) FROM people")
        spent, before = str(connection.budget()), clinic.opened().version
        clinic.run("INSERT INTO people VALUES (1000, 5)")
        connection.execute("SELECT SUM(age) FROM people")
        spent = str(connection.budget())
        clinic.refresh()
        fault = fault_of(lambda: connection.execute("SELECT AVG(age) FROM people"))
        assert fault.code == "data-changed" and str(connection.budget()) == spent
    assert clinic.opened().version != before
    assert clinic.rows("SELECT COUNT(*) FROM people") == [(101,)]


@pytest.mark.parametrize("change", [(), ("INSERT INTO visits VALUES (7, 5)",)])
def test_whether_private_rows_changed_is_not_seen(change: tuple[str, ...], clinic: Clinic) -> None:
    """One person's visit may be all that is new: a statement that cost again only then would tell of it."""
    clinic.refresh()
    with clinic.connect() as connection:
        connection.execute("SELECT COUNT(*) FROM people")
        spent = str(connection.budget())
        clinic.run(*change)
        assert clinic.refresh() == ["people", "visits"]
        assert fault_of(lambda: connection.execute("SELECT COUNT(*) FROM people")).code == "data-changed"
    with clinic.connect() as connection:
        connection.execute("SELECT COUNT(*) FROM people")
        assert str(connection.budget()) != spent


PLANS = """\
[tables.plans]
public = true
source = "{uri}"
[tables.plans.columns]
plan = {{}}
price = {{ type = "DOUBLE" }}
"""


@pytest.fixture
def plans(clinic: Clinic) -> Clinic:
    """Public plans in the database; people and their visits are in files."""
    duckdb.sql("SELECT i AS id, i % 90 AS age FROM range(100) AS t(i)").write_parquet(str(clinic.folder / "people.parquet"))
    duckdb.sql("SELECT i AS id, i % 50 AS cost FROM range(100) AS t(i)").write_parquet(str(clinic.folder / "visits.parquet"))
    clinic.declare(text=POLICY.replace("{uri}", "people.parquet", 1).replace("{uri}", "visits.parquet", 1) + PLANS)
    clinic.run("CREATE TABLE plans (plan TEXT, price DOUBLE PRECISION)",
               "INSERT INTO plans VALUES ('a', 1.5), ('b', NULL), ('a', 1.5), (NULL, 2)")
    return clinic


@pytest.mark.parametrize(("change", "new"), [
    ("UPDATE plans SET plan = plan", False), ("DELETE FROM plans WHERE price = 2; INSERT INTO plans VALUES (NULL, 2)", False),
    ("INSERT INTO plans VALUES ('a', 1.5)", True), ("DELETE FROM plans WHERE plan IS NULL", True),
    ("UPDATE plans SET price = 1.25 WHERE plan = 'b'", True), ("UPDATE plans SET plan = 'A' WHERE plan = 'a'", True),
    ("DELETE FROM plans WHERE plan = 'a'; INSERT INTO plans VALUES ('a', 1.5), ('b', NULL)", True), ("DELETE FROM plans", True)])
def test_public_rows_that_are_the_same_are_the_same_version(change: str, new: bool, plans: Clinic) -> None:
    assert plans.refresh() == ["plans"]
    before, there = plans.opened().version, plans.snapshots
    plans.run(*change.split("; "))
    with plans.connect() as connection:
        connection.execute("SELECT COUNT(*) FROM people")
        assert plans.refresh() == (["plans"] if new else [])
        if new:
            assert fault_of(lambda: connection.execute("SELECT COUNT(*) FROM people")).code == "data-changed"
        else:
            assert not connection.execute("SELECT COUNT(*) FROM people").cost and plans.snapshots == there
    assert (plans.opened().version != before) is new


def test_other_declarations_of_public_rows_are_another_version(plans: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    plans.refresh()
    text = plans.policy.read_text()
    for change in (("plan = {}", 'plan = { type = "VARCHAR" }'), ("public = true", 'public = true\nfilter = "1 = 1"'), ("\nplan = {}", "")):
        plans.policy.write_text(text.replace(*change), encoding="utf-8")
        assert plans.refresh() == ["plans"] and plans.refresh() == []
    for path in plans.snapshots:
        if (path / "0.parquet").exists():
            (path / "0.parquet").write_bytes(b"damaged")
    assert plans.refresh() == ["plans"]
    assert cli.main(["refresh", "--policy", str(plans.policy)]) == 0
    assert capsys.readouterr().out == "all tables are public and no row has changed, so the previous snapshot is still used\n"


def test_a_statement_that_runs_ends_with_what_it_began_with(clinic: Clinic) -> None:
    """It was charged already; it would be an incident otherwise, whenever a scheduler takes a snapshot."""
    clinic.refresh()
    reader = clinic.opened()
    clinic.run("DELETE FROM visits")
    clinic.refresh()
    assert fault_of(reader.check).code == "data-changed"
    assert reader.rows("SELECT COUNT(*) FROM visits") == [(200,)] and clinic.rows("SELECT COUNT(*) FROM visits") == [(0,)]
    clinic.refresh()
    assert len(clinic.snapshots) == 2, "the one in force and the one before"
    with pytest.raises(ReaderFault):
        reader.rows("SELECT COUNT(*) FROM visits")


@pytest.mark.parametrize("change", [
    ("age = {{", 'age = {{ type = "DOUBLE",'), ("cost = {{", "costs = {{"), ("[tables.visits]", '[tables.visits]\nfilter = "cost > 5"'),
    ("[tables.visits]", '[tables.visits]\nrelation = "people"')], ids=["type", "column", "filter", "relation"])
def test_a_snapshot_is_of_what_the_policy_asks_for(change: tuple[str, str], clinic: Clinic) -> None:
    clinic.refresh()
    clinic.declare(text=POLICY.replace(*change))
    fault = fault_of(clinic.opened)
    assert fault.code == "no-snapshot" and "before the policy changed" in fault.reason


@pytest.mark.parametrize("damage", ["manifest", "form", "file", "folder"])
def test_a_damaged_snapshot_is_none(damage: str, clinic: Clinic) -> None:
    clinic.refresh()
    inside, = clinic.snapshots
    manifest = inside.parent / "manifest.json"
    if damage == "manifest":
        manifest.write_text('{"form": 1, "tables"', encoding="utf-8")
    elif damage == "form":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "form": 1}), encoding="utf-8")
    elif damage == "folder":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "folder": f"../{inside.parent.name}/{inside.name}"}), encoding="utf-8")
    else:
        (inside / "1.parquet").unlink()
    assert fault_of(clinic.opened).code == "no-snapshot"
    clinic.refresh()
    assert clinic.rows("SELECT COUNT(*) FROM visits") == [(200,)]


def test_files_are_verified_before_they_are_in_force_and_not_again(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.refresh()
    clinic.declare(("[tables.visits]", '[tables.visits]\nkey = "id"'))
    fault = fault_of(clinic.refresh, IntegrityError)
    assert "share the declared key" in fault.reason and fault.as_dict()["line"] == 12
    clinic.declare()
    assert clinic.rows("SELECT COUNT(*) FROM visits") == [(200,)], "the one before is in force"
    told: list[str] = []
    monkeypatch.setattr("dpsql.engine.opening.tell", told.append)
    clinic.refresh()
    clinic.connect().close()
    assert told == []


def test_another_folder_is_named_by_the_policy(clinic: Clinic) -> None:
    (clinic.folder / "kept" / "snapshot-of-others").mkdir(parents=True)
    clinic.declare(("version = 1", 'version = 1\nstore = { snapshots = "kept" }'))
    clinic.refresh()
    clinic.refresh()
    assert len([*(clinic.folder / "kept").glob("*/snapshot-*")]) == 2 and (clinic.folder / "kept" / "snapshot-of-others").is_dir()
    assert clinic.rows("SELECT COUNT(*) FROM visits") == [(200,)]


@pytest.mark.parametrize("shared", ["version = 1\nledger = \"dpsql.ledger\"", 'version = 1\nstore = { snapshots = "kept" }'])
def test_policies_that_share_a_folder_have_snapshots_of_their_own(shared: str, clinic: Clinic) -> None:
    clinic.declare(("version = 1", shared))
    other = clinic.folder / "other.toml"
    other.write_text(clinic.policy.read_text().replace('key = "id"\nsource', 'key = "id"\nfilter = "age < 10"\nsource'), encoding="utf-8")
    clinic.refresh()
    with clinic.connect() as connection, contextlib.closing(clinic.opened()) as before:
        for _ in range(3):
            assert dpsql.refresh(policy=other) == ["people", "visits"]
        connection.execute("SELECT COUNT(*) FROM people")
        with contextlib.closing(open_reader(read_policy(other), None)) as reader:
            assert reader.rows("SELECT COUNT(*) FROM people") == [(20,)] and before.rows("SELECT COUNT(*) FROM people") == [(100,)]
    with pytest.MonkeyPatch.context() as patch:  # as somebody else names the same file
        patch.chdir(clinic.folder)
        os.symlink("dpsql.toml", "linked.toml")
        for name in ("dpsql.toml", "./linked.toml"):
            with contextlib.closing(open_reader(read_policy(name), None)) as reader:
                assert reader.rows("SELECT COUNT(*) FROM people") == [(100,)]
    if clinic.database is None:  # a file that moves is another source
        return
    moved = clinic.folder.with_name(f"{clinic.folder.name} moved")
    clinic.folder.rename(moved)
    with contextlib.closing(open_reader(read_policy(moved / "other.toml"), None)) as reader:
        assert reader.rows("SELECT COUNT(*) FROM people") == [(20,)]


def test_one_process_at_a_time_takes_a_snapshot(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[DatabaseError] = []
    described = snapshots._described

    def meanwhile(*given: Any) -> Any:
        faults.append(fault_of(clinic.refresh))
        return described(*given)

    monkeypatch.setattr(snapshots, "_described", meanwhile)
    clinic.refresh()
    assert [fault.code for fault in faults] == ["busy"]


def test_a_snapshot_may_not_be_uploaded(clinic: Clinic) -> None:
    clinic.declare(("version = 1", 'version = 1\nuploads = ["."]'))
    clinic.refresh()
    inside, = clinic.snapshots
    with clinic.connect() as connection, pytest.raises(Error, match="is not in a folder for uploads, or belongs to the policy"):
        connection.validate("SELECT COUNT(*) FROM people", synthetic=inside / "0.parquet", within="5 PERCENT")


def test_the_same_database_under_another_ledger_is_noticed(clinic: Clinic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DPSQL_STATE", str(tmp_path / "state"))
    clinic.refresh()
    clinic.connect().close()
    clinic.refresh()
    with clinic.connect() as connection:
        assert connection.notes == (), "a new snapshot is of the same data, under the same ledger"
    Ledger.create(tmp_path / "other.ledger").close()
    clinic.declare(("version = 1", 'version = 1\nledger = "other.ledger"'), ("source", 'filter = "id > 0"\nsource'))
    clinic.refresh()
    with pytest.warns(UserWarning, match="served before"):
        clinic.connect().close()


# -- interruptions


def test_an_interruption_leaves_the_snapshot_before_in_force(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.refresh()
    before = clinic.opened().version

    def interrupt(manifest: Path, text: str, files: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(snapshots, "put_in_place", interrupt)
    with pytest.raises(KeyboardInterrupt):
        clinic.refresh()
    assert len(clinic.snapshots) == 1 and clinic.opened().version == before


def test_an_interruption_after_the_last_step_leaves_the_new_one(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.refresh()
    clinic.run("INSERT INTO people VALUES (1000, 5)")
    synced = manifests._sync

    def interrupt(path: Path) -> None:
        synced(path)
        if path.parent.name == "dpsql.ledger.snapshots":
            raise KeyboardInterrupt

    monkeypatch.setattr(manifests, "_sync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        clinic.refresh()
    assert clinic.rows("SELECT COUNT(*) FROM people") == [(101,)]


KILLED = """
import sys, os, signal
import dpsql
from dpsql.backends import snapshots
snapshots.put_in_place = lambda manifest, text, files: os.kill(os.getpid(), signal.SIGKILL)
dpsql.refresh(policy=sys.argv[1])
"""


def test_what_a_killed_process_left_is_removed(clinic: Clinic) -> None:
    clinic.refresh()
    before, known = clinic.opened().version, clinic.snapshots
    assert subprocess.run([sys.executable, "-c", KILLED, clinic.policy], check=False).returncode == -signal.SIGKILL
    left, = {*clinic.snapshots} - {*known}
    assert clinic.opened().version == before
    clinic.refresh()
    assert left not in clinic.snapshots and {*known} < {*clinic.snapshots}


@pytest.mark.slow
def test_a_real_interrupt_ends_a_long_read(hospital: Clinic) -> None:
    hospital.run("CREATE VIEW many AS SELECT generate_series(1, 1000000000) AS id, 5 AS cost")
    hospital.declare(("[tables.visits]", '[tables.visits]\nrelation = "many"\npublic = true'), ("rows_per_entity = 5\n", ""),
                     ('foreign_keys = [{ columns = "id", references = "people(id)" }]\n', ""))
    running = subprocess.Popen([sys.executable, "-m", "dpsql.cli", "refresh", "--policy", hospital.policy], stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": str(Path(dpsql.__file__).parents[1])})
    while not any(path.stat().st_size for folder in hospital.snapshots for path in folder.glob("1.parquet")):
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130 and told.startswith(b"interrupted") and hospital.snapshots == []


LIMITED = """
import resource, sys
from dpsql.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sys.exit(main(["refresh", "--policy", sys.argv[1]]))
"""


def test_a_disk_that_is_full_is_told(clinic: Clinic) -> None:
    """Here by a limit on the size of files; the engine and the system say the same of a full disk."""
    clinic.run("INSERT INTO visits SELECT a.id, abs(a.id * b.id * 7919 % 100003) FROM people AS a, people AS b, (SELECT id FROM people WHERE id < 5) AS c")
    made = subprocess.run([sys.executable, "-c", LIMITED, clinic.policy], capture_output=True, text=True, check=False)
    assert made.returncode == 2 and "cannot be written" in made.stderr and clinic.snapshots == []


# -- one version of all tables


def test_all_tables_are_of_one_moment(hospital: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that come between the first table and the second are in neither."""
    copied = snapshots._copy

    def slowly(source: SourceDatabase, found: Any, *rest: Any) -> None:
        copied(source, found, *rest)
        if found.table.name == "people":
            hospital.run("INSERT INTO people VALUES (1000, 5)", "INSERT INTO visits VALUES (1000, 5)", "DELETE FROM visits WHERE id = 1")

    monkeypatch.setattr(snapshots, "_copy", slowly)
    hospital.refresh()
    assert hospital.rows("SELECT COUNT(*) FROM visits WHERE id NOT IN (SELECT id FROM people)") == [(0,)]
    assert hospital.rows("SELECT COUNT(*) FROM visits") == [(200,)]


def test_all_tables_of_a_file_are_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ward, copied = Clinic("sqlite", tmp_path), snapshots._copy
    ward.run("PRAGMA journal_mode = WAL")  # in which a reader keeps nobody from writing
    insert = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('INSERT INTO visits VALUES (1000, 5)'); db.commit()"

    def slowly(source: SourceDatabase, found: Any, *rest: Any) -> None:
        copied(source, found, *rest)
        # by a process of its own: the driver and Python have a SQLite each, and two of one process undo each other's locks
        subprocess.run([sys.executable, "-c", insert, ward.file], check=True)

    monkeypatch.setattr(snapshots, "_copy", slowly)
    ward.refresh()
    assert ward.rows("SELECT COUNT(*) FROM visits") == [(200,)]
    monkeypatch.undo()
    ward.refresh()
    assert ward.rows("SELECT COUNT(*) FROM visits") == [(202,)]


def test_nothing_is_written_to_the_database(hospital: Clinic) -> None:
    hospital.run("CREATE FUNCTION lower(i int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN DELETE FROM visits; RETURN true; END $$")
    hospital.declare(("[tables.visits]", '[tables.visits]\nfilter = "lower(cost)"'))
    assert "the database" in fault_of(hospital.refresh).reason
    hospital.declare()
    hospital.refresh()
    assert hospital.rows("SELECT COUNT(*) FROM visits") == [(200,)]


def test_no_connection_stays_open(hospital: Clinic) -> None:
    hospital.refresh()
    hospital.declare(("[tables.visits]", '[tables.visits]\nfilter = "1 / (id - 50) > 0"'))
    fault_of(hospital.refresh)
    hospital.run(f"CREATE DATABASE copied TEMPLATE {hospital.database.name}", "DROP DATABASE copied")  # refused while anybody is connected


# -- types

NEIGHBOURS = """\
version = 1
[entities.person]
table = "t"
key = "id"
[tables.t]
key = "id"
source = "{uri}"
[tables.t.columns]
{columns}
[budgets.main]
entity = "person"
epsilon = 1
"""
TYPED = {  # of PostgreSQL: the type there, the declared one, the type here, and values with what they are here
    "small": ("smallint", None, "SMALLINT", {"-32768": -32768, "NULL": None}),
    "whole": ("integer", None, "INTEGER", {"2147483647": 2147483647}),
    "large": ("bigint", None, "BIGINT", {"-9223372036854775808": -(2**63)}),
    "wide": ("integer", "DOUBLE", "DOUBLE", {"7": 7.0}),
    "single": ("real", None, "FLOAT", {"'NaN'": "nan", "'-Infinity'": float("-inf"), "'-0.0'": 0.0, "1e-40": 9.999946101114759e-41}),
    "double": ("double precision", None, "DOUBLE", {"'NaN'": "nan", "'Infinity'": float("inf"), "'-0.0'": 0.0, "0.1": 0.1, "5e-324": 5e-324}),
    "money": ("numeric(10,2)", None, "DECIMAL(10,2)", {"12345678.90": "12345678.90", "'NaN'": None, "-0.01": "-0.01"}),
    "long": ("numeric(38,10)", None, "DECIMAL(38,10)", {"1234567890123456789012345678.0123456789": "1234567890123456789012345678.0123456789"}),
    "any": ("numeric", "DOUBLE", "DOUBLE", {"'NaN'": "nan", "1e400": float("inf"), "'-Infinity'": float("-inf"), "0.1": 0.1,
                                            "9007199254740993": 9007199254740992.0}),
    "ids": ("numeric", "BIGINT", "BIGINT", {"'NaN'": None, "1e30": None, "12.5": None, "12.00": 12, "-9223372036854775808": -(2**63), "'Infinity'": None}),
    "digits": ("numeric(50,3)", "VARCHAR", "VARCHAR", {"1" * 40 + ".5": "1" * 40 + ".500"}),
    "name": ("text", None, "VARCHAR", {"'é'": "é", "''": "", "E'a\\nb'": "a\nb", "'\U0001f600'": "\U0001f600", "'NULL'": "NULL"}),
    "short": ("varchar(5)", None, "VARCHAR", {"'abc'": "abc"}),
    "padded": ("char(5)", None, "VARCHAR", {"'abc'": "abc"}),
    "flag": ("boolean", None, "BOOLEAN", {"true": True, "false": False, "NULL": None}),
    "day": ("date", None, "DATE", {"'infinity'": "infinity", "'-infinity'": "-infinity", "NULL": None, "'5874897-12-31'": "5874897-12-31", "'4713-01-01 BC'": "4713-01-01 (BC)",
                                   "'2020-02-29'": "2020-02-29"}),
    "seen": ("timestamp", None, "TIMESTAMP", {"'infinity'": "infinity", "'-infinity'": "-infinity", "NULL": None, "'294276-12-31 23:59:59'": None, "'4714-11-24 BC'": None, "'4713-01-01 BC'": "4713-01-01 (BC) 00:00:00",
                                              "'2020-02-29 12:00:00.000001'": "2020-02-29 12:00:00.000001"}),
    "zoned": ("timestamptz", None, "TIMESTAMP", {"'2020-01-01 00:30:00+05'": "2019-12-31 19:30:00", "'infinity'": "infinity", "'294276-12-31 23:59:59+00'": None}),
    "shown": ("timestamptz", "DATE", "DATE", {"'2020-01-01 00:30:00+05'": "2019-12-31", "'-infinity'": "-infinity"}),
    "uuid": ("uuid", "VARCHAR", "VARCHAR", {"'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}),
    "mood": ("mood", "VARCHAR", "VARCHAR", {"'sad'": "sad"}),
    "bytes": ("bytea", "VARCHAR", "VARCHAR", {"'\\x00ff'": "\\x00ff"}),
    "list": ("int[]", "VARCHAR", "VARCHAR", {"'{{1,NULL}}'": "{1,NULL}"}),
    "doc": ("jsonb", "VARCHAR", "VARCHAR", {"'{{\"a\": 1}}'": '{"a": 1}'}),
    "span": ("interval", "VARCHAR", "VARCHAR", {"'1 day 02:00'": "1 day 02:00:00"}),
    "positive": ("positive", None, "INTEGER", {"5": 5}),
    "odd \"name'": ("integer", None, "INTEGER", {"3": 3}),
}


@pytest.mark.parametrize("name", TYPED)
def test_types_and_values_of_postgres(name: str, tmp_path: Path) -> None:
    theirs, declared, here, values = TYPED[name]
    database = fresh()
    quoted = '"' + name.replace('"', '""') + '"'
    database.run("CREATE TYPE mood AS ENUM ('sad')", "CREATE DOMAIN positive AS integer CHECK (value > 0)", f"CREATE TABLE t (id int, {quoted} {theirs})",
                 *(f"INSERT INTO t VALUES ({i}, {value.replace('{{', '{').replace('}}', '}')})" for i, value in enumerate(values)))
    given = "{ }" if declared is None else f'{{ type = "{declared}" }}'
    (tmp_path / "dpsql.toml").write_text(NEIGHBOURS.format(uri=database.uri, columns=f"id = {{}}\n{json.dumps(name)} = {given}"), encoding="utf-8")
    dpsql.refresh(policy=tmp_path / "dpsql.toml")
    with contextlib.closing(open_reader(read_policy(tmp_path / "dpsql.toml"), None)) as reader:
        shown = f"{quoted}::VARCHAR" if here in ("DATE", "TIMESTAMP") else quoted
        found = [value for value, in reader.rows(f"SELECT {shown} FROM t ORDER BY id")]
        assert dict(reader.schema()["t"].columns)[name] == here
    for told, wanted in zip(found, values.values(), strict=True):
        assert (str(told) == wanted) if isinstance(wanted, str) else told == wanted


CELLS = {  # of SQLite: the type there, the declared one, the type here, and cells with what they are here
    "whole": ("INTEGER", None, "BIGINT", {"5": 5, "'x'": None, "5.5": None, "9223372036854775807": 2**63 - 1, "1e30": None, "x'00'": None, "NULL": None}),
    "number": ("REAL", None, "DOUBLE", {"5": 5.0, "0.1": 0.1, "9e999": float("inf"), "-0.0": 0.0, "'x'": None, "5e-324": 5e-324}),
    "money": ("DECIMAL(10,2)", None, "DECIMAL(10,2)", {"0.07": "0.07", "12345678.9": "12345678.90", "1e300": None, "'x'": None}),
    "name": ("VARCHAR(9)", None, "VARCHAR", {"'é'": "é", "5": "5", "x'00'": None, "CAST(x'c328' AS TEXT)": None, "''": ""}),
    "flag": ("BOOLEAN", None, "BOOLEAN", {"1": True, "0": False, "2": None, "'yes'": None}),
    "day": ("DATE", None, "DATE", {"'2020-02-29'": "2020-02-29", "'2020-02-30'": None, "5": None}),
    "seen": ("DATETIME", None, "TIMESTAMP", {"'2020-02-29 12:00:00'": "2020-02-29 12:00:00", "'2020-02-29T12:00:00+05:00'": "2020-02-29 12:00:00", "'never'": None}),
    "bare": ("", "BIGINT", "BIGINT", {"5": 5, "'5'": None, "x'05'": None}),
    "date_as_text": ("TEXT", "DATE", "DATE", {"'2020-01-01'": "2020-01-01", "'soon'": None}),
}


@pytest.mark.parametrize("name", CELLS)
def test_types_and_cells_of_sqlite(name: str, tmp_path: Path) -> None:
    """A cell may be of any type whatever its column says; what is not of the type is NULL, and decides over no other. The driver itself
    fails where later rows have other types than the first ones."""
    theirs, declared, here, values = CELLS[name]
    with contextlib.closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection, connection:
        connection.execute(f"CREATE TABLE t (id INTEGER, {name} {theirs})")
        connection.execute("INSERT INTO t SELECT -i, NULL FROM (WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5000) SELECT i FROM r)")
        for i, value in enumerate(values):
            connection.execute(f"INSERT INTO t VALUES ({i}, {value})")
    given = "{ }" if declared is None else f'{{ type = "{declared}" }}'
    (tmp_path / "dpsql.toml").write_text(NEIGHBOURS.format(uri="sqlite:///t.sqlite", columns=f"id = {{}}\n{name} = {given}"), encoding="utf-8")
    dpsql.refresh(policy=tmp_path / "dpsql.toml")
    with contextlib.closing(open_reader(read_policy(tmp_path / "dpsql.toml"), None)) as reader:
        found = [value for value, in reader.rows(f"SELECT {name} FROM t WHERE id >= 0 ORDER BY id")]
        assert dict(reader.schema()["t"].columns)[name] == here and reader.rows("SELECT COUNT(*) FROM t") == [(5000 + len(values),)]
    for told, wanted in zip(found, values.values(), strict=True):
        assert (str(told) == wanted) if isinstance(wanted, str) else told == wanted


def test_a_type_that_does_not_fit_is_told_at_its_column(clinic: Clinic) -> None:
    clinic.run("DROP TABLE visits", f"CREATE TABLE visits (id INTEGER, cost {'numeric' if clinic.database else 'whatever'})")
    fault = fault_of(clinic.refresh)
    assert fault.code == "unsupported-type" and fault.as_dict()["line"] == 17 and 'type = "DOUBLE"' in fault.try_
    clinic.declare(("cost = {", 'cost = { type = "DOUBLE",'))
    clinic.refresh()


@pytest.mark.parametrize("kind", ["text", "numeric(10,2)[]", "boolean", "timestamp with time zone[]"])
def test_a_text_or_a_list_declared_a_number_does_not_fit(kind: str, hospital: Clinic) -> None:
    hospital.run("ALTER TABLE visits DROP COLUMN cost", f"ALTER TABLE visits ADD COLUMN cost {kind}")
    hospital.declare(("cost = {", 'cost = { type = "BIGINT",'))
    fault = fault_of(hospital.refresh)
    assert f"visits.cost has the type {kind} in the database, which does not fit BIGINT" in fault.reason and 'type = "VARCHAR"' in fault.try_


def test_texts_come_as_utf8_whatever_the_database_uses(tmp_path: Path) -> None:
    outer = fresh()
    outer.run(f"CREATE DATABASE latin_{outer.name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    clinic = Clinic("postgresql", tmp_path)
    clinic.database = Postgres(outer.port, f"latin_{outer.name}")
    clinic.uri = clinic.database.uri
    clinic.run("CREATE TABLE people (id int, age int)", "CREATE TABLE visits (id int, cost text)", "INSERT INTO visits VALUES (1, chr(233))")
    clinic.declare(("cost = { bounds = [0, 100] }", "cost = {}"))
    clinic.refresh()
    assert clinic.rows("SELECT cost FROM visits") == [("é",)]


# -- names, filters, relations


def test_relations_and_filters(hospital: Clinic) -> None:
    hospital.run('CREATE SCHEMA "my schema"', 'CREATE TABLE "my schema"."Odd.""Name" ("Id" int, cost int)', 'INSERT INTO "my schema"."Odd.""Name" VALUES (1, 5), (2, 50)')
    hospital.declare(("[tables.visits]", "[tables.visits]\nrelation = '\"my schema\".\"Odd.\"\"Name\"'\nfilter = \"cost < 10 -- the cheap\""))
    hospital.refresh()
    assert hospital.rows("SELECT id, cost FROM visits") == [(1, 5)]


@pytest.mark.parametrize(("filter", "told"), [
    ("cost <", "is no condition"), ("cost < 5) OR (1 = 1", "is no condition"), ("1 = 1) UNION SELECT 1 FROM t WHERE (1 = 1", "is no condition"),
    ("true; DROP TABLE people", "is no condition"), ("true) LIMIT (5", "is no condition"), ("true) GROUP BY (cost", "is no condition"),
    ("cost = (SELECT MAX(cost) FROM visits)", "more than the row"), ("EXISTS (SELECT 1 FROM people p WHERE p.id = visits.id)", "more than the row"),
    ("id IN (SELECT id FROM people)", "more than the row"), ("row_number() OVER () < 5", "more than the row"), ("MAX(cost) > 5", "more than the row"),
    ("random() < 0.5", "more than the row"), ("query_to_xml('SELECT 1', true, true, '') IS NULL", "calls query_to_xml"),
    ("lower(total_changes()) > '0'", "calls total_changes"), ("nothing > 5", "which is not a column"), ("cost ~~~ 5", "is n")])
def test_a_filter_is_a_condition_on_the_row(filter: str, told: str, clinic: Clinic) -> None:
    """One that looked at other rows would let one person's decide over another's."""
    clinic.declare(("[tables.visits]", f'[tables.visits]\nfilter = "{filter}"'))
    fault = fault_of(clinic.refresh)
    assert told in fault.reason and fault.as_dict()["line"] == 12 and fault.code == "filter"


@pytest.mark.parametrize(("change", "told", "line"), [
    (("[tables.visits]", '[tables.visits]\nrelation = "nothing"'), "the database has no table nothing", 12),
    (("[tables.visits]", '[tables.visits]\nrelation = "other.visits"'), "the database has no table other.visits", 12),
    (("cost =", "costs ="), "has no column costs", 17),
    (("[tables.visits]", '[tables.visits]\nrelation = "shown"'), "shown is a view", 13)])
def test_mistakes_are_told_at_their_line(change: tuple[str, str], told: str, line: int, clinic: Clinic) -> None:
    clinic.run("CREATE VIEW shown AS SELECT id, cost FROM visits")
    clinic.declare(change)
    if "other." in told and clinic.database is None:
        pytest.skip("SQLite has no schemas")
    fault = fault_of(clinic.refresh)
    assert told in fault.reason and fault.as_dict()["line"] == line


@pytest.mark.parametrize("more", ["", "?application_name=again"])
def test_a_public_table_is_not_a_private_one(more: str, hospital: Clinic) -> None:
    """Under whatever name, and by whatever URI."""
    again = '[tables.again]\npublic = true\nsource = "{uri}' + more + '"\nrelation = "public.visits"\n[tables.again.columns]\ncost = {{}}\n'
    hospital.declare(text=POLICY + again)
    assert "has the rows of visits, which is private" in fault_of(hospital.refresh).reason


def test_a_public_view_is_read_once(hospital: Clinic) -> None:
    hospital.run("CREATE VIEW costs AS SELECT i AS cost FROM generate_series(1, 5) AS t(i)")
    hospital.declare(text=POLICY + '[tables.costs]\npublic = true\nsource = "{uri}"\n[tables.costs.columns]\ncost = {{}}\n')
    hospital.refresh()
    assert hospital.rows("SELECT SUM(cost) FROM costs") == [(15,)]


def test_a_public_table_is_not_a_private_one_by_another_uri(clinic: Clinic) -> None:
    public = '\n[tables.seen]\npublic = true\nrelation = "people"\nsource = "{uri}"\n[tables.seen.columns]\nage = {{}}\n'
    (clinic.folder / "link.sqlite").symlink_to("clinic.sqlite")
    if clinic.file.exists():
        (clinic.folder / "hard.sqlite").hardlink_to(clinic.file)
    others = ([clinic.uri.replace("127.0.0.1", "localhost"), clinic.uri.replace("127.0.0.1:", ":") + "?host=127.0.0.1"] if clinic.database
              else ["sqlite:///link.sqlite", "sqlite:///hard.sqlite", "sqlite:///%63linic.sqlite", f"sqlite:///../{clinic.folder.name}/clinic.sqlite"])
    for other in others:
        clinic.declare(text=POLICY + public.replace("{uri}", other))
        assert "has the rows of people, which is private" in fault_of(clinic.refresh).reason, other


def test_rows_of_elsewhere_are_not_private_rows(hospital: Clinic) -> None:
    """They may be those of a view, which shows one person's row because of another's."""
    try:
        hospital.run("CREATE EXTENSION postgres_fdw")
    except Exception:
        pytest.skip("this server has no postgres_fdw")
    hospital.run("CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw", "CREATE FOREIGN TABLE far (id int, cost int) SERVER self",
                 "CREATE TABLE parts (id int, cost int) PARTITION BY LIST (cost)", "CREATE TABLE parent (id int, cost int)",
                 "CREATE FOREIGN TABLE part PARTITION OF parts FOR VALUES IN (1) SERVER self",
                 "CREATE FOREIGN TABLE child () INHERITS (parent) SERVER self")
    for relation in ("far", "parts", "parent"):
        hospital.declare(("[tables.visits]", f'[tables.visits]\nrelation = "{relation}"'))
        assert "it is unknown whose rows these are" in fault_of(hospital.refresh).reason


@pytest.mark.parametrize("column", ["ctid", "xmin", "rowid", '"costs"', "visits.ctid"])
def test_a_filter_names_columns_of_the_table_alone(column: str, clinic: Clinic) -> None:
    """Where a row is depends on others, and SQLite takes an unknown name in quotes for a text."""
    clinic.declare(("[tables.visits]", f"[tables.visits]\nfilter = '{column} IS NOT NULL'"))
    fault = fault_of(clinic.refresh)
    assert fault.code == "filter" and "which is not a column of the table" in fault.reason
    clinic.declare(("[tables.visits]", "[tables.visits]\nfilter = '\"COST\" >= 0 AND visits.id >= 0 AND CURRENT_DATE IS NOT NULL'"
                    .replace("COST", "cost" if clinic.database else "COST")))
    clinic.refresh()


def test_texts_that_are_not_in_utf8_are_refused_in_a_file(tmp_path: Path) -> None:
    """They would come as other texts: f as f and a NUL."""
    ward = Clinic("sqlite", tmp_path)
    ward.file.unlink()
    with contextlib.closing(sqlite3.connect(ward.file)) as connection, connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        for sql in MADE:
            connection.execute(sql)
    assert "it has its texts in UTF-16" in fault_of(ward.refresh).reason


def test_nobody_empties_a_table_before_it_is_read(hospital: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is seen by transactions that began before, other than a DELETE."""
    copied, refused = snapshots._copy, []

    def slowly(source: SourceDatabase, found: Any, *rest: Any) -> None:
        copied(source, found, *rest)
        if found.table.name == "people":
            try:
                hospital.run("SET lock_timeout = '50ms'", "TRUNCATE visits")
            except Exception:
                refused.append("visits")

    monkeypatch.setattr(snapshots, "_copy", slowly)
    hospital.refresh()
    assert hospital.rows("SELECT COUNT(*) FROM visits") == [(200,)] and refused == ["visits"]


def test_rows_that_a_policy_of_the_database_hides_are_not_left_out_in_silence(hospital: Clinic) -> None:
    hospital.run("ALTER TABLE visits ENABLE ROW LEVEL SECURITY", "CREATE POLICY few ON visits USING (cost < 5)", "GRANT SELECT ON people, visits TO reader")
    reader = hospital.uri.replace("owner@", "reader@")
    hospital.policy.write_text(hospital.policy.read_text().replace(hospital.uri, reader).replace(
        "version = 1", f'version = 1\n[store.passwords]\n"{reader}" = "CLINIC_PASSWORD"'), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLINIC_PASSWORD", PASSWORD)
        assert "row security hides some" in fault_of(hospital.refresh).reason
        hospital.run("ALTER TABLE visits DISABLE ROW LEVEL SECURITY")
        hospital.refresh()


def test_a_column_or_table_that_may_not_be_read(hospital: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    hospital.run("GRANT SELECT (id) ON visits TO reader", "GRANT SELECT ON people TO reader")
    hospital.policy.write_text(hospital.policy.read_text().replace("owner@", "reader@"), encoding="utf-8")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    fault = fault_of(hospital.refresh)
    assert "table visits may not be read" in fault.reason and fault.as_dict()["line"] == 12


# -- passwords, and hosts that are not there


def read_by(hospital: Clinic, user: str = "reader", more: str = "") -> None:
    hospital.run("GRANT SELECT ON people, visits TO reader")
    text = hospital.policy.read_text(encoding="utf-8").replace("owner@", f"{user}@")
    hospital.policy.write_text(text.replace("version = 1", f"version = 1\n{more}", 1), encoding="utf-8")


def test_passwords_come_from_where_libpq_looks(hospital: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    read_by(hospital)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(hospital.folder / "none"))
    assert "does not accept the user or the password" in fault_of(hospital.refresh).reason
    monkeypatch.setenv("PGPASSWORD", "another")
    assert "does not accept the user or the password" in fault_of(hospital.refresh).reason
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    hospital.refresh()
    monkeypatch.delenv("PGPASSWORD")
    (hospital.folder / "pass").write_text(f"127.0.0.1:*:*:reader:{PASSWORD}\n", encoding="utf-8")
    (hospital.folder / "pass").chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(hospital.folder / "pass"))
    hospital.refresh()


def test_a_variable_that_the_policy_names_holds_the_password(hospital: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = hospital.uri.replace("owner@", "reader@")
    read_by(hospital, more=f'[store.passwords]\n"{reader}" = "CLINIC_PASSWORD"')
    fault = fault_of(hospital.refresh)
    assert fault.code == "no-password" and "CLINIC_PASSWORD" in fault.reason
    monkeypatch.setenv("CLINIC_PASSWORD", PASSWORD)
    hospital.refresh()
    assert PASSWORD not in "".join(path.read_text(errors="replace") for path in hospital.folder.rglob("*") if path.is_file())
    monkeypatch.setenv("CLINIC_PASSWORD", "wr0ng/pass")
    fault = fault_of(hospital.refresh)
    assert "wr0ng" not in f"{fault} {fault.as_dict()}"


@pytest.mark.parametrize("uri", [
    "postgresql://ada:s3cret@host/db", "postgresql://ada:s3cret/@host/db", "postgresql://ada:s3 cret@host/db", "postgresql://host/db?password=s3cret", "snowflake://a@b/c/d?oauthClientSecret=s3cret",
    "bigquery://p/d?adbc.bigquery.sql.auth_credentials=s3cret",
    "postgresql://host/db?sslmode=require&PASSWORD=s3cret", "postgresql://ada:s3%zzcret@host/db", "postgres://:s3cret@host/db",
    "snowflake://ada:s3cret@account/db/schema", "postgresql://ada:@host/db", "bigquery://p/d?auth_credentials=s3cret", "postgresql://ada:s3cret@[::1/db",
    "mysql://ada:s3cret@host/db"])
@pytest.mark.parametrize("place", ["source", "database"])
def test_a_password_in_the_policy_is_refused_and_never_shown(uri: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = POLICY.format(uri=uri) if place == "source" else POLICY.replace('source = "{uri}"\n', "").format().replace("version = 1", f'version = 1\ndatabase = "{uri}"')
    (tmp_path / "dpsql.toml").write_text(text, encoding="utf-8")
    for arguments in (["check"], ["refresh"], ["query", "SELECT COUNT(*) FROM people"], ["check", "--json"]):
        extra = ["--policy", str(tmp_path / "dpsql.toml")]
        assert cli.main([arguments[0], *extra, *arguments[1:]]) == 2
        printed = capsys.readouterr()
        assert "s3" not in printed.out + printed.err and "password" in printed.out + printed.err or "mysql" in uri


@pytest.mark.parametrize("mistake", ['source = "{uri}', "source = {uri}", 'source = "{uri}" "', 'sauce = "{uri}"', 'source = ["{uri}"]', 'source = "{uri}"\nsource = "{uri}"'])
def test_other_mistakes_in_the_line_do_not_show_it_either(mistake: str, tmp_path: Path) -> None:
    (tmp_path / "dpsql.toml").write_text(POLICY.replace('source = "{uri}"', mistake, 1).format(uri="postgresql://ada:s3cret@host/db"), encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        read_policy(tmp_path / "dpsql.toml")
    assert "s3cret" not in f"{caught.value} {caught.value.as_dict()} {vars(caught.value)}"


def test_a_uri_in_place_of_a_file_is_not_shown(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    uri = "postgresql://ada:s3cret@host/db"
    fault = fault_of(lambda: dpsql.connect(uri, policy=clinic.policy))
    assert "put it into the policy" in fault.reason and "s3cret" not in f"{fault} {vars(fault)}"
    for arguments in (["query", "--database", uri, "SELECT 1"], ["check", "--database", uri], ["refresh", "--policy", uri], ["check", "--policy", uri]):
        assert cli.main(arguments) == 2
        printed = capsys.readouterr()
        assert "s3cret" not in printed.out + printed.err, arguments


@pytest.mark.parametrize(("uri", "told"), [
    ("postgresql://owner@no-such-host.invalid/db", "its host is unknown"), ("postgresql://owner@127.0.0.1:1/db", "nobody answers there"),
    ("postgresql://owner@127.0.0.1:{port}/none", "there is no such database there"), ("sqlite:///none.sqlite", "there is no file"),
    ("postgresql://nobody@127.0.0.1:{port}/postgres", "does not accept the user")])
def test_databases_that_are_not_there(uri: str, told: str, tmp_path: Path, hospital: Clinic) -> None:
    uri = uri.format(port=hospital.database.port)
    hospital.policy.write_text(POLICY.format(uri=uri), encoding="utf-8")
    fault = fault_of(hospital.refresh)
    assert told in fault.reason and fault.as_dict()["line"] == 7


@pytest.mark.parametrize(("uri", "told"), [
    ("mysql://host/db", "cannot be read"), ("sqlite://file.sqlite", "not the URI"), ("postgresql://host:port/db", "not the URI"), ("snowflake://account", "not the URI"),
    ("postgresql://host/a b", "not the URI"), ("http://host/people.parquet", "cannot be read")])
def test_uris_that_are_none(uri: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "dpsql.toml").write_text(POLICY.format(uri=uri), encoding="utf-8")
    with pytest.raises(PolicyError, match=told) as caught:
        read_policy(tmp_path / "dpsql.toml")
    assert caught.value.as_dict()["line"] == 7 and caught.value.try_


@pytest.mark.parametrize(("change", "told"), [
    (('source = "{uri}"', 'source = "people.parquet"\nrelation = "x"'), "relation is for tables of databases"),
    (('source = "{uri}"', 'source = "people.parquet"\nfilter = "x"'), "filter is for tables of databases"),
    (('source = "{uri}"', 'source = "{uri}"\nrelation = "a..b"'), "must be the name of a table"),
    (('source = "{uri}"', 'source = "{uri}"\nrelation = ""'), "must be the name of a table"),
    (("version = 1", 'version = 1\n[store.passwords]\n"postgresql://elsewhere/db" = "X"'), "no table has this database as its source"),
    (("version = 1", 'version = 1\n[store.passwords]\n"{uri}" = "pass word"'), "the name of a variable"),
    (("cost = {{ bounds = [0, 100] }}", "").__class__(("[tables.visits.columns]\nid = {{}}\ncost = {{ bounds = [0, 100] }}", "")), "column"),
])
def test_mistakes_of_policies(change: tuple[str, str], told: str, tmp_path: Path) -> None:
    text = POLICY.replace(*change).format(uri="postgresql://host/db")
    (tmp_path / "dpsql.toml").write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError, match=told):
        read_policy(tmp_path / "dpsql.toml")


# -- the rest


def test_a_missing_driver_is_told_with_what_installs_it(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "adbc_driver_postgresql" if clinic.database else "adbc_driver_sqlite"
    for missing in (module, "adbc_driver_manager"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            fault = fault_of(clinic.refresh)
        assert fault.code == "no-driver" and fault.try_ == "pip install 'dpsql[databases]'" and fault.as_dict()["line"] == 7


def test_a_row_that_fails_the_database_is_not_told(hospital: Clinic) -> None:
    hospital.refresh()
    hospital.declare(("[tables.visits]", '[tables.visits]\nfilter = "CAST(CAST(cost AS text) || \'canary\' AS int) > 0"'))
    fault = fault_of(hospital.refresh)
    assert "canary" not in f"{fault} {fault.as_dict()}" and "the database stopped while visits was read" in fault.reason
    hospital.declare(("[tables.visits]", '[tables.visits]\nfilter = "1 / (cost - 39) < 5"'))
    hospital.run("DELETE FROM visits WHERE cost = 39", "INSERT INTO visits SELECT i, 5 FROM generate_series(1, 300000) AS t(i)", "INSERT INTO visits VALUES (1, 39)")
    assert "the database stopped while visits was read" in fault_of(hospital.refresh).reason
    hospital.declare()
    assert hospital.rows("SELECT COUNT(*) FROM visits") == [(200,)]


def test_a_connection_that_breaks_is_told(hospital: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    hospital.run("INSERT INTO visits SELECT i, 5 FROM generate_series(1, 500000) AS t(i)")
    streamed = SourceDatabase.stream

    def broken(self: SourceDatabase, sql: str) -> Any:
        found = streamed(self, sql)
        if "visits" in sql and "pg_class" not in sql and "LIMIT 0" not in sql:
            hospital.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
        return found

    monkeypatch.setattr(SourceDatabase, "stream", broken)
    assert "the database stopped while visits was read" in fault_of(hospital.refresh).reason and hospital.snapshots == []


def test_files_and_databases_go_together(clinic: Clinic) -> None:
    duckdb.sql("SELECT i AS id, i % 7 AS cost FROM range(50) AS t(i)").write_parquet(str(clinic.folder / "visits.parquet"))
    text = POLICY.format(uri=clinic.uri).replace(f'[tables.visits]\nsource = "{clinic.uri}"', '[tables.visits]\nsource = "visits.parquet"')
    clinic.policy.write_text(text, encoding="utf-8")
    assert clinic.refresh() == ["people"]
    assert clinic.rows("SELECT COUNT(*) FROM visits JOIN people USING (id)") == [(50,)]


def test_two_databases_are_in_one_snapshot(tmp_path: Path) -> None:
    uris = [in_sqlite(tmp_path / f"{name}.sqlite", {name: (f"id INTEGER, {column} INTEGER", [(1, 5), (2, 6)])}) for name, column in (("people", "age"), ("visits", "cost"))]
    first, _, rest = POLICY.partition('source = "{uri}"')
    (tmp_path / "dpsql.toml").write_text(f'{first}source = "{uris[0]}"{rest.replace("{uri}", uris[1])}'.replace("{{", "{").replace("}}", "}"), encoding="utf-8")
    assert dpsql.refresh(policy=tmp_path / "dpsql.toml") == ["people", "visits"]


def test_a_policy_without_other_databases_has_nothing_to_refresh(tmp_path: Path) -> None:
    (tmp_path / "dpsql.toml").write_text(POLICY.format(uri="people.parquet"), encoding="utf-8")
    assert "no table of the policy" in fault_of(lambda: dpsql.refresh(policy=tmp_path / "dpsql.toml")).reason


def test_the_shell_refreshes(clinic: Clinic, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["refresh", "--policy", str(clinic.policy)]) == 0
    assert capsys.readouterr().out == "a new snapshot of people, visits is in force; connections that are open must connect again\n"
    assert cli.main(["check", "--policy", str(clinic.policy)]) == 0
    assert cli.main(["check", "--rows", "--policy", str(clinic.policy)]) in (0, 1)


@pytest.fixture(autouse=True)
def no_password(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("PGPASSWORD", "PGPASSFILE", "PGUSER", "PGHOST", "PGPORT", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    yield
