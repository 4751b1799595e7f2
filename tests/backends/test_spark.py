"""Stores that a cluster of Spark reads: when they are in force, how Spark prepares them, and what becomes of them when something goes
wrong. Starting Spark takes ten seconds, and each query about one, so what needs it is slow."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support import worlds
from support.clusters import MASTER, cluster, manifest, needs_spark, read_again, spark_policy, uploaded
from support.golden.comparison import released
from support.laws.bad_worlds import KINDS
from support.policies import policy_of
from support.sessions import open_ledger, session_of
from support.stores import stored
from support.worlds import World, world

import dpsql
from dpsql.audit.exact import Exact
from dpsql.backends import spark_task, spark_writer
from dpsql.backends.duckdb import DuckReader
from dpsql.backends.file_tables import open_files
from dpsql.backends.spark import SparkBuckets, find_spark_store, manifest_in_spark
from dpsql.backends.spark_cluster import SparkCluster
from dpsql.backends.spark_results import Piece, Results, check_whole
from dpsql.backends.spark_tables import SparkTable, origin_in_spark
from dpsql.backends.spark_task import ABSENT, FAILED, Combining
from dpsql.catalog.policy import parse_policy
from dpsql.cli import main
from dpsql.engine.opening import open_reader
from dpsql.engine.opening_spark import alone_in_spark, read_by_spark
from dpsql.errors import IntegrityError, OperationalError, PolicyError
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.trusted.reader import PARTS, Parts, ReaderFault

MANY = "SELECT clinic, COUNT(*), SUM(cost) FROM visits GROUP BY clinic"
BEGAN = time.time()
WORLD = world(seed=3, people=60, most_visits=9)


def exact(reader: Any, ledger: ReportingLedger, text: str = MANY, *, budget: str = "person", analyst: str = "ada", policy: str = worlds.POLICY) -> list[Any]:
    session = session_of(ledger.path.parent, reader=reader, noise=Exact(), ledger=ledger, budget=budget, analyst=analyst, policy=policy,
                         at={"epsilon": 100, "delta": 1e-3})
    return released(text, session)[0].rows


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a world, and a store of it that Spark reads; tests do not change it."""
    folder = tmp_path_factory.mktemp("spark")
    with closing(open_ledger(folder)) as ledger:
        uploaded(WORLD.save(folder / "world.duckdb"), ledger, folder).close()
    return folder


@pytest.fixture(scope="module")
def ledger(place: Path) -> Iterator[ReportingLedger]:
    with closing(open_ledger(place)) as ledger:
        yield ledger


@pytest.fixture(scope="module")
def reader(place: Path, ledger: ReportingLedger) -> Iterator[DuckReader]:
    found = read_again(place / "world.duckdb", ledger, place)
    yield found
    found.close()


@pytest.fixture
def own_reader(place: Path, ledger: ReportingLedger) -> DuckReader:
    """One that a test may change."""
    return read_again(place / "world.duckdb", ledger, place)


@pytest.fixture
def copied(place: Path, tmp_path: Path) -> Path:
    """The same in a folder that a test may change."""
    shutil.copytree(place / "far", tmp_path / "far")
    return tmp_path


def buckets_in(folder: Path, reader: DuckReader) -> SparkBuckets:
    """The buckets of a reader, in another folder."""
    found = reader.far
    assert isinstance(found, SparkBuckets)
    there = Path(found.store.folder.removeprefix("file://")).name
    return SparkBuckets(cluster(), replace(found.store, folder=f"file://{folder / 'far' / there}"), Path(), public=["clinics"], private=[])


def collected(reader: DuckReader, sql: str, part: str, combined: str | None = None, keys: tuple[str, ...] = ()) -> list[Any]:
    """The rows of a statement over those of a part in each bucket, whose tables are named as in `bucket.visits`; they may be combined."""
    parts = [part.replace("bucket.", f'"bucket {number}".main.') for number in range(number_of(reader))]
    combined = None if combined is None else combined.format(rows=PARTS)
    return reader.rows(sql.format(rows=PARTS), [Parts(statements=tuple(parts), combined=combined, keys=keys)])


def number_of(reader: DuckReader) -> int:
    return next(iter(reader.stored.values())).buckets


def files(folder: Path) -> list[Path]:
    """The files of the buckets."""
    return sorted(folder.glob("far/*/bucket=*/part-*"))


def kept_files(digest: str) -> list[Path]:
    """The files of a bucket that executors of this machine keep."""
    return [*Path(tempfile.gettempdir()).glob(f"blockmgr-*/dpsql-{digest}.duckdb")]


# -- what is read


@needs_spark
def test_a_statement_is_read_by_spark(reader: DuckReader, ledger: ReportingLedger, place: Path) -> None:
    assert isinstance(reader.far, SparkBuckets)
    local = open_files([], database=place / "world.duckdb")
    assert exact(reader, ledger) == exact(local, ledger, analyst="eve")
    assert exact(reader, ledger, WHOLE) == exact(local, ledger, WHOLE, analyst="eve")  # which is read here


@needs_spark
def test_a_released_table_may_have_any_name(reader: DuckReader) -> None:
    names = ["bucket 0", "rows", "public rows", "rows from tasks", "rows of all buckets", "the bucket", "visits in buckets"]
    for name in names:
        reader.hold(name, f"{name} 1", {"n": ("BIGINT", [5, 6])})
    total, people = " + ".join(f'(SELECT SUM("n") FROM "{name}")' for name in names), len(WORLD.rows["people"])
    found = collected(reader, "SELECT SUM(n), SUM(m) FROM {rows}", f'SELECT COUNT(*) AS n, {total} AS m FROM bucket."people"')
    assert found == [(people, 33 * len(names))]


@needs_spark
def test_public_and_released_rows_are_sent_along(reader: DuckReader) -> None:
    reader.hold("found", "found-1", {"clinic": ("VARCHAR", ["a", "b"]), "n": ("HUGEINT", [2**100, 3])})
    part = ('SELECT c."city", CAST(SUM(f."n") AS HUGEINT) AS n FROM bucket."visits" AS v JOIN "clinics" AS c ON v."clinic" = c."clinic" '
            'JOIN "found" AS f ON f."clinic" = c."clinic" GROUP BY 1')
    visits = {clinic: sum(row[3] == clinic and row[1] is not None for row in WORLD.rows["visits"]) for clinic in ("a", "b")}
    found = collected(reader, 'SELECT "city", CAST(SUM(n) AS HUGEINT) FROM {rows} GROUP BY 1', part)
    assert found == [("Oslo", visits["a"] * 2**100 + visits["b"] * 3)]


@needs_spark
def test_every_type_comes_back_as_it_is(reader: DuckReader) -> None:
    shown = ("1::HUGEINT - 2 AS a, 2::DECIMAL(30,4) AS b, DATE 'infinity' AS c, TIMESTAMP_NS '2020-01-01 00:00:00.000000001' AS d, "
             "'NaN'::DOUBLE AS e, NULL::VARCHAR AS f, 3::UTINYINT AS g, true AS h, -0.0::DOUBLE AS i")
    here = duckdb.sql(f"SELECT DISTINCT typeof(COLUMNS(*)) FROM (SELECT {shown})").fetchall()
    assert collected(reader, 'SELECT DISTINCT typeof(COLUMNS(*)) FROM {rows}', f"SELECT {shown}") == here
    texts = duckdb.sql(f"SELECT DISTINCT CAST(COLUMNS(*) AS VARCHAR) FROM (SELECT {shown})").fetchall()
    assert collected(reader, 'SELECT DISTINCT CAST(COLUMNS(*) AS VARCHAR) FROM {rows}', f"SELECT {shown}") == texts


@needs_spark
def test_a_bucket_without_rows_counts(reader: DuckReader) -> None:
    assert collected(reader, 'SELECT COUNT(*) FROM {rows}', 'SELECT * FROM bucket."visits" WHERE false') == [(0,)]


@needs_spark
def test_many_rows_come_in_pieces(reader: DuckReader) -> None:
    found = collected(reader, 'SELECT COUNT(*), SUM(i) FROM {rows}', "SELECT i FROM range(450000) AS t(i)")
    assert found == [(3 * 450000, 3 * sum(range(450000)))]


@needs_spark
def test_only_its_owner_may_read_the_files(place: Path) -> None:
    assert len(files(place)) == 3
    assert not any(file.stat().st_mode & 0o077 for file in (place / "far").rglob("*"))


@needs_spark
def test_nothing_is_left_where_it_was_made(place: Path) -> None:
    assert [file.name for file in (place / "store").iterdir()] == [manifest(place).name]


@needs_spark
def test_executors_keep_the_files_of_buckets(own_reader: DuckReader, ledger: ReportingLedger) -> None:
    """One that keeps none reads them again."""
    assert isinstance(own_reader.far, SparkBuckets)
    first = exact(own_reader, ledger)
    kept = [file for digest in own_reader.far.store.digests for file in kept_files(digest)]
    assert len(kept) == 3 and not any(file.stat().st_mode & 0o077 for file in kept)
    assert exact(own_reader, ledger) == first
    kept[1].unlink()
    assert exact(own_reader, ledger) == first and kept[1].exists()
    with closing(own_reader):
        kept[0].write_bytes(b"")
        with pytest.raises(ReaderFault):
            collected(own_reader, 'SELECT COUNT(*) FROM {rows}', 'SELECT * FROM bucket."people"')
    kept[0].unlink()


GROUPED = 'SELECT i % 150000 AS k, \'a\' || i % 3 AS t, CAST(2 AS HUGEINT)**99 AS n FROM range(450000) AS t(i)'
ADDED = 'SELECT k, t, CAST(SUM(n) AS HUGEINT) AS n FROM {rows} GROUP BY k, t'


@needs_spark
def test_many_groups_are_combined_by_spark(own_reader: DuckReader) -> None:
    """Of 450,000 rows in each of three buckets come 150,000, each once, with the sums that the driver works out by itself."""
    counted = "SELECT COUNT(*), COUNT(DISTINCT (k, t)), MIN(n), MAX(n) FROM {rows}"
    assert collected(own_reader, counted, GROUPED, ADDED, ("k", "t")) == [(150000, 150000, 9 * 2**99, 9 * 2**99)]
    assert collected(own_reader, counted.replace("{rows}", f"({ADDED})"), GROUPED) == [(150000, 150000, 9 * 2**99, 9 * 2**99)]


@needs_spark
@pytest.mark.parametrize("text", [MANY, "SELECT clinic, MEDIAN(cost) FROM visits GROUP BY clinic"])
def test_answers_are_equal_where_groups_are_combined(text: str, reader: DuckReader, ledger: ReportingLedger, place: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.backends.spark.MANY", 0)
    combined, done = SparkBuckets._combined, list[int]()

    def seen(self: SparkBuckets, *args: Any) -> Results:
        done.append(1)
        return combined(self, *args)

    monkeypatch.setattr(SparkBuckets, "_combined", seen)
    local = open_files([], database=place / "world.duckdb")
    assert exact(reader, ledger, text, analyst="combined") == exact(local, ledger, text, analyst="local") and done


# -- faults


@needs_spark
@pytest.mark.parametrize("fault", ["none", "lost", "twice"])
def test_a_piece_that_is_lost_or_doubled_while_groups_are_combined_is_a_fault(fault: str, own_reader: DuckReader,
                                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed on to be combined is another set of pieces than the driver has seen."""
    right = spark_task.shares

    def wrong(task: Combining) -> Any:
        def run(batches: Any) -> Iterator[Any]:
            for batch in batches:
                yield from [] if fault == "lost" and batch["bucket"][0].as_py() == 1 else [batch] * (2 if fault == "twice" else 1)

        return lambda batches: run(right(task)(batches))

    monkeypatch.setattr(spark_task, "shares", wrong)
    with nullcontext() if fault == "none" else pytest.raises(ReaderFault):
        assert collected(own_reader, "SELECT COUNT(*) FROM {rows}", GROUPED, ADDED, ("k", "t")) == [(150000,)]


@pytest.mark.parametrize("fetched", [[(0, 0)], [(0, 0), (1, 0), (1, 0)], [(0, 0), (1, 0), (1, 1)]])
def test_pieces_are_fetched_once_each(fetched: list[tuple[int, int]]) -> None:
    found = Results(frame=Frame(fetched), pieces=tuple(Piece(bucket=bucket, piece=0, last=True, rows=9, data=None) for bucket in (0, 1)))
    with pytest.raises(ReaderFault):
        list(found.data())
    assert list(replace(found, frame=Frame([(1, 0), (0, 0)])).data()) == [b"1", b"0"]


class Frame:
    """What Spark would keep."""

    def __init__(self, pieces: list[tuple[int, int]]) -> None:
        self._pieces = pieces

    def where(self, condition: str) -> Frame:
        return self

    def select(self, *columns: str) -> Frame:
        return self

    def toLocalIterator(self) -> Iterator[tuple[int, int, bytes]]:  # noqa: N802
        return iter([(bucket, piece, str(bucket).encode()) for bucket, piece in self._pieces])


@needs_spark
@pytest.mark.parametrize("alter", ["none", "remove", "twice", "exchange", "cut"])
def test_buckets_that_were_altered_are_a_fault(alter: str, own_reader: DuckReader, copied: Path) -> None:
    first, second, _ = files(copied)
    for file in copied.rglob("*.crc"):
        file.unlink()
    match alter:
        case "remove":
            first.unlink()
        case "twice":
            shutil.copy(first, first.with_name("part-9.parquet"))
        case "exchange":
            shutil.copy(second, first)
        case "cut":
            shutil.move(first, copied / "whole.parquet")
            duckdb.sql(f"COPY (SELECT * FROM '{copied}/whole.parquet' WHERE chunk > 0) TO '{first}' (FORMAT parquet)")
    own_reader.far = buckets_in(copied, own_reader)
    for digest in own_reader.far.store.digests:
        for kept in kept_files(digest):
            kept.unlink()
    if alter == "none":
        assert collected(own_reader, 'SELECT COUNT(*) FROM {rows}', 'SELECT * FROM bucket."people"') == [(60,)]
    else:
        with pytest.raises(ReaderFault):
            collected(own_reader, 'SELECT COUNT(*) FROM {rows}', 'SELECT * FROM bucket."people"')


@needs_spark
def test_a_fault_in_a_bucket_says_nothing_of_rows(reader: DuckReader, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ReaderFault) as caught:
        collected(reader, 'SELECT COUNT(*) FROM {rows}', 'SELECT error(\'person \' || "person_id") AS x FROM bucket."people"')
    assert caught.value.__cause__ is caught.value.__context__ is None and not caught.value.args
    out, err = capfd.readouterr()
    assert "person" not in out + err


@needs_spark
def test_rows_for_which_there_is_no_room_are_a_fault_that_says_nothing(reader: DuckReader, ledger: ReportingLedger,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, more: bool) -> int:
        raise duckdb.OutOfMemoryException("no room for the visits of person 7")

    monkeypatch.setattr("dpsql.backends.spark.put", full)
    with pytest.raises(ReaderFault) as caught:
        exact(reader, ledger, analyst="full")
    assert caught.value.__cause__ is caught.value.__context__ is None and not caught.value.args


@pytest.mark.parametrize("rows", [
    [(0, 0, True)],  # one is missing
    [(0, 0, True), (1, 0, True), (1, 0, True)],
    [(0, 0, True), (1, 0, True), (2, 0, True)],
    [(0, 0, True), (1, 0, True), (-1, 0, True)],
    [(0, 0, True), (1, 1, True)],
    [(0, 0, True), (1, 0, False)],
    [(0, 0, True), (1, 0, True), (1, 1, True)],
    [(0, 0, True), (1, 0, True), (1, 1, False)],
    [(0, 0, True), (1, 0, False), (1, FAILED, True)],
    [(0, 0, True), (1, ABSENT, True)],
    [],
])
def test_pieces_that_are_not_whole_are_a_fault(rows: list[tuple[int, int, bool]]) -> None:
    with pytest.raises(ReaderFault):
        check_whole(pieces_of(rows), 2)


def test_pieces_come_in_any_order() -> None:
    check_whole(pieces_of([(1, 1, True), (0, 0, True), (1, 0, False)]), 2)


def pieces_of(rows: list[tuple[int, int, bool]]) -> list[Piece]:
    return [Piece(bucket=bucket, piece=piece, last=last, rows=0) for bucket, piece, last in rows]


# -- when it is in force


@needs_spark
def test_a_store_of_another_version_of_the_data_is_not_used(place: Path, tmp_path: Path, ledger: ReportingLedger) -> None:
    other = world(seed=4).save(tmp_path / "world.duckdb")
    assert not read_again(other, ledger, place).stored


@needs_spark
def test_a_manifest_that_was_altered_is_not_used(place: Path, ledger: ReportingLedger, tmp_path: Path) -> None:
    shutil.copytree(place / "store", tmp_path / "store")
    told = json.loads(manifest(tmp_path).read_text())
    told["tables"]["visits"]["most"] = 1  # so that no limit would be enforced
    manifest(tmp_path).write_text(json.dumps(told, indent=1))
    assert not read_again(place / "world.duckdb", ledger, tmp_path).stored


@needs_spark
def test_a_store_is_that_of_its_entity_and_of_its_origin(place: Path, ledger: ReportingLedger, tmp_path: Path) -> None:
    facts, told = FactsBesideLedger(ledger), json.loads(manifest(place).read_text())
    shutil.copytree(place / "store", tmp_path / "store")
    manifest(tmp_path).rename(manifest(tmp_path, "household"))
    assert find_spark_store(place / "store", "person", told["made_of"], facts) is not None
    assert find_spark_store(place / "store", "person", f"{told['made_of']} ", facts) is None
    assert find_spark_store(tmp_path / "store", "household", told["made_of"], facts) is None
    assert duckdb.__version__ in told["made_of"]


def test_the_origin_in_spark_says_what_is_read_for_which_table() -> None:
    here = SparkTable(name="visits", source="s3a://lake/visits", public=False, key=("visit_id",), columns=("visit_id", "cost"))
    others = [replace(here, name="trips"), replace(here, source="s3a://lake/trips"), replace(here, key=()), replace(here, columns=("visit_id",))]
    assert len({origin_in_spark([one]) for one in (here, *others)}) == 5
    assert origin_in_spark([here, replace(here, name="other", public=True)]) == origin_in_spark([here])


@needs_spark
def test_a_store_that_went_away_is_told(reader: DuckReader, tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="Spark cannot read the prepared store"):
        buckets_in(tmp_path, reader)


@needs_spark
def test_a_store_that_is_prepared_anew_is_noticed_before_a_charge(place: Path, tmp_path: Path) -> None:
    with closing(open_ledger(tmp_path)) as ledger:
        before = uploaded(place / "world.duckdb", ledger, tmp_path, buckets=1)
        first, text = exact(before, ledger), manifest(tmp_path).read_text()
        after = uploaded(place / "world.duckdb", ledger, tmp_path, buckets=2)
        assert manifest(tmp_path).read_text() != text
        with pytest.raises(OperationalError, match="prepared again"):
            before.check()
        after.check()
        assert exact(after, ledger, analyst="eve") == first
        assert len(files(tmp_path)) == 2


# -- clusters that are none


def test_without_pyspark_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(OperationalError, match=r"dpsql\[spark\]"):
        SparkCluster(MASTER)


@needs_spark
def test_without_java_it_is_told(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "from dpsql.backends.spark_cluster import SparkCluster; SparkCluster('local[1]')"],
                           env={"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert "the Spark cluster local[1] does not answer" in ended.stderr and "Java 17" in ended.stderr


@needs_spark
def test_another_master_than_that_of_the_process_is_refused() -> None:
    cluster()
    with pytest.raises(OperationalError, match=r"already has a Spark session, of local\[2\]"):
        SparkCluster("spark://127.0.0.1:1")


OTHERS = """
from pyspark.sql import SparkSession
from dpsql.backends.spark_cluster import SparkCluster
SparkSession.builder.master("local[1]").getOrCreate()
SparkCluster("local[1]")
"""


@needs_spark
def test_a_session_of_others_which_keeps_nothing_to_itself_is_refused() -> None:
    ended = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, text=True, check=False)
    assert "already has a Spark session, and others may read its logs, pages and files" in ended.stderr


@needs_spark
def test_what_spark_puts_down_on_the_way_is_in_secret_writing() -> None:
    """Its local folders can be read by everybody."""
    spark = cluster().session()
    spark.createDataFrame([("Cassandra of Troy",)], "name STRING").repartition(2, "name").collect()
    found = []
    for path in Path(tempfile.gettempdir()).glob("blockmgr-*/*/shuffle_*.data"):
        with contextlib.suppress(FileNotFoundError):  # Spark may clean up meanwhile
            found += [path.read_bytes()] if path.stat().st_mtime > BEGAN else []
    assert found and not any(b"Cassandra" in each for each in found)


@needs_spark
def test_executors_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch, reader: DuckReader) -> None:
    version = duckdb.__version__
    monkeypatch.setattr(duckdb, "__version__", "2.0.99")
    with pytest.raises(OperationalError, match=f"executors of .* have DuckDB {version}, and this is DuckDB 2.0.99"):
        SparkCluster(MASTER)
    with pytest.raises(ReaderFault):
        collected(reader, 'SELECT COUNT(*) FROM {rows}', 'SELECT * FROM bucket."people"')


@needs_spark
def test_a_cluster_that_runs_no_task_is_noticed_before_a_charge(reader: DuckReader, monkeypatch: pytest.MonkeyPatch) -> None:
    reader.check()
    monkeypatch.setattr("dpsql.backends.spark_cluster.PATIENCE", 0)
    with pytest.raises(OperationalError, match="does not answer"):
        reader.check()


@pytest.mark.parametrize(("text", "told"), [
    ('store = "file:///x"', "master is missing"), ('master = "local[2]"', "store is missing"),
    ('master = "host:7077"\nstore = "file:///x"', "must be the address of a master"),
    ('master = "local[2]"\nstore = "/x"', "must be the address of a folder"),
    ('master = "local[2]"\nstore = "file:///x"\nsecret = "y"', "this key is unknown"),
])
def test_a_policy_that_is_wrong_is_told(text: str, told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        parse_policy(f"{worlds.POLICY}\n[spark]\n{text}\n")


def test_tables_in_spark_need_a_cluster_and_private_ones_are_there_together() -> None:
    declared = worlds.POLICY.replace("[tables.visits]", '[tables.visits]\nsource = "spark:visits"')
    with pytest.raises(PolicyError, match="names no cluster"):
        parse_policy(declared)
    with pytest.raises(PolicyError, match="other private tables are in Spark"):
        parse_policy(f'{declared}\n[spark]\nmaster = "local[2]"\nstore = "file:///x"\n')


def test_a_public_table_is_not_a_private_one_in_spark() -> None:
    text = ('version = 1\n[spark]\nmaster = "local[2]"\nstore = "file:///x"\n[entities.e]\ntable = "t"\nkey = "id"\n'
            '[tables.t]\nsource = "spark:s3a://x/t"\n[tables.t.columns]\nid = {}\n'
            '[tables.p]\npublic = true\nsource = "spark:s3a://x/t/"\n[tables.p.columns]\nid = {}\n[budgets.b]\nentity = "e"\nepsilon = 1\n')
    with pytest.raises(PolicyError, match="the source of t, which is private"):
        parse_policy(text)


# -- tables that only Spark can see


def in_spark(folder: Path, policy: str = worlds.POLICY, here: World | None = WORLD) -> Path:
    """A policy of tables that are in Parquet files, which Spark reads, in a folder."""
    if here is not None:
        here.save(folder / "world.duckdb")
    with duckdb.connect(str(folder / "world.duckdb")) as connection:
        for table, in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            (folder / table).mkdir()
            connection.execute(f"COPY {table} TO '{folder}/{table}/0.parquet'")
            policy = policy.replace(f"\n[tables.{table}]\n", f'\n[tables.{table}]\nsource = "spark:file://{folder}/{table}"\n')
    written = folder / "dpsql.toml"
    written.write_text(spark_policy(folder, policy))
    ReportingLedger.create(folder / "dpsql.ledger").close()
    return written


def reader_in_spark(policy: Path, ledger: ReportingLedger, budget: str) -> DuckReader:
    declared, facts = parse_policy(policy.read_text(), path=str(policy)), FactsBesideLedger(ledger)
    folder, entity = policy.with_name("dpsql.ledger.store"), declared.budgets[budget].entity
    alone = alone_in_spark(declared, folder, entity, facts)
    reader = open_reader(declared, None, facts)
    assert isinstance(reader, DuckReader)
    read_by_spark(declared, reader, folder, entity, facts, alone)
    return reader


STATEMENTS = (
    MANY, "SELECT city, COUNT(*) FROM visits JOIN clinics USING (clinic) GROUP BY city",
    "SELECT COUNT(DISTINCT note) FROM visits", "SELECT SUM(points) FROM scores",
    "SELECT COUNT(*) FROM visits JOIN people USING (person_id) WHERE age > 40",
)
WHOLE = "SELECT COUNT(*) FROM (SELECT year FROM visits GROUP BY year)"  # not split by entity
PUT_TOGETHER = (  # nor are these
    WHOLE, "SELECT COUNT(*) FROM (SELECT n FROM (SELECT person_id, COUNT(*) AS n FROM visits GROUP BY person_id) AS t GROUP BY n)",
    "SELECT COUNT(*) FROM visits AS a JOIN visits AS b ON a.clinic = b.clinic AND a.year = b.year",
)


@needs_spark
def test_spark_prepares_its_own_tables(tmp_path: Path) -> None:
    """Of persons, and of households, whose key is two foreign keys away from visits."""
    policy = in_spark(tmp_path)
    made = dpsql.prepare(policy=policy, buckets=2)
    assert [(one.entity, one.buckets) for one in made] == [("household", 2), ("person", 2)]
    with closing(ReportingLedger(tmp_path / "dpsql.ledger")) as ledger:
        for budget in ("person", "household"):
            reader, local = reader_in_spark(policy, ledger, budget), open_files([], database=tmp_path / "world.duckdb")
            assert len(reader.version) > len(local.version)
            for text in (*STATEMENTS, *PUT_TOGETHER) if budget == "person" else (MANY, WHOLE):
                assert exact(reader, ledger, text, budget=budget, analyst="ada") == exact(local, ledger, text, budget=budget, analyst="eve"), text
    with dpsql.connect(policy=policy, budget="person", epsilon=1) as connection:
        assert len(connection.execute(MANY).fetchall()) == 5


def same_rows(policy: Path, budget: str, ledger: ReportingLedger) -> dict[str, int]:
    """The number of rows of each table of a store, which are the same where Spark makes it and where it is made here, with their
    owners and places."""
    dpsql.prepare(policy=policy, budget=budget, buckets=5)
    text = re.sub('\nsource = "spark:.*', "", policy.read_text().partition("[spark]")[0])
    readers = reader_in_spark(policy, ledger, budget), stored(policy.with_name("world.duckdb"), ledger, budget=budget, policy=text, buckets=5)
    first, second = ({name: Counter(map(repr, collected(reader, 'SELECT * FROM {rows}', f'SELECT * FROM bucket."{name}"')))
                      for name in reader.stored} for reader in readers)
    assert first == second
    assert {name: replace(table, at_once=True, alone=False) for name, table in readers[0].stored.items()} == readers[1].stored
    return {name: rows.total() for name, rows in first.items()}


@needs_spark
def test_a_store_that_spark_makes_is_the_one_that_is_made_here(tmp_path: Path) -> None:
    policy = in_spark(tmp_path, here=KINDS["orphans"](7))
    with closing(ReportingLedger(tmp_path / "dpsql.ledger")) as ledger:
        assert min(same_rows(policy, "household", ledger).values()) > 0


TEXTS = policy_of("people", """
""", """
[tables.cards]
key = ["branch", "number"]
foreign_keys = [{ columns = "name", references = "people(name)" }]
[tables.cards.columns]
branch = {}
number = {}
name = {}
[tables.payments]
foreign_keys = [{ columns = ["branch", "number"], references = "cards(branch, number)" }]
[tables.payments.columns]
branch = {}
number = {}
amount = {}
""", key="name", price="epsilon = 1")


@needs_spark
def test_texts_are_names_as_they_are_spelled(tmp_path: Path) -> None:
    """Along a foreign key of two columns, of which one may be NULL."""
    with duckdb.connect(str(tmp_path / "world.duckdb")) as connection:
        connection.execute("CREATE TABLE people (name VARCHAR PRIMARY KEY)")
        connection.executemany("INSERT INTO people VALUES (?)", [["a"], ["A"], ["a "], ["\u00e4"], ["a\u0308"], [""], ["1"], ["01"]])
        connection.execute("CREATE TABLE cards AS SELECT (i % 3)::SMALLINT AS branch, DATE '2020-01-01' + (i // 3) AS number, name "
                           "FROM (SELECT row_number() OVER (ORDER BY name)::INTEGER AS i, name FROM people)")
        connection.execute("INSERT INTO cards VALUES (7, '2020-01-01', NULL), (8, '2020-01-01', 'nobody')")
        connection.execute("ALTER TABLE cards ADD PRIMARY KEY (branch, number)")
        connection.execute("CREATE TABLE payments AS SELECT c.branch::BIGINT AS branch, c.number, i * 1.5::DECIMAL(6,2) AS amount "
                           "FROM cards AS c, range(3) AS t(i)")
        connection.execute("INSERT INTO payments VALUES (NULL, '2020-01-01', 1), (0, NULL, 1), (99, '2020-01-01', 1)")
    policy = in_spark(tmp_path, TEXTS, None)
    with closing(ReportingLedger(tmp_path / "dpsql.ledger")) as ledger:
        assert same_rows(policy, "person", ledger) == {"people": 8, "cards": 9, "payments": 27}


@needs_spark
def test_tables_in_spark_are_prepared_first(tmp_path: Path) -> None:
    with pytest.raises(OperationalError, match="only in Spark") as caught:
        dpsql.connect(policy=in_spark(tmp_path), budget="person")
    assert "[spark]" in str(caught.value)


@needs_spark
@pytest.mark.parametrize("many", [0, 100_000])
def test_rows_in_spark_that_share_a_key_are_refused(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the keys of the buckets are compared by Spark's tasks or here. Those of `people` are compared before, and are unique."""
    monkeypatch.setattr("dpsql.backends.spark.MANY", many)
    with pytest.raises(IntegrityError, match=r"share the declared key \(person_id\)"):
        dpsql.prepare(policy=in_spark(tmp_path, policy=worlds.POLICY.replace("[tables.scores]\n", '[tables.scores]\nkey = "person_id"\n')),
                      budget="person")
    assert not list((tmp_path / "dpsql.ledger.store").glob("*.json"))


@needs_spark
def test_check_shows_tables_in_spark_and_counts_no_rows_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = in_spark(tmp_path)
    assert main(["check", "--policy", str(policy), "--budget", "person"]) == 0
    assert "visits" in capsys.readouterr().out
    assert main(["check", "--policy", str(policy), "--budget", "person", "--rows"]) == 2
    assert "rows in Spark cannot be counted" in capsys.readouterr().err


@needs_spark
def test_a_table_that_spark_does_not_find_is_told(tmp_path: Path) -> None:
    policy = in_spark(tmp_path)
    policy.write_text(policy.read_text().replace(f"spark:file://{tmp_path}/visits", "spark:no.such.table"))
    with pytest.raises(OperationalError, match="Spark cannot read no.such.table as table visits") as caught:
        dpsql.prepare(policy=policy, budget="person")
    assert 'source = "spark:no.such.table"' in str(caught.value)


@needs_spark
@pytest.mark.parametrize("public", [False, True])
def test_a_table_is_no_view_of_spark(public: bool, tmp_path: Path) -> None:
    """It may show the rows of one person because of those of another, and a public one those of a private table."""
    spark = cluster().session()
    spark.createDataFrame([(7,)], "person_id BIGINT").createOrReplaceGlobalTempView("seen")
    with pytest.raises(OperationalError, match="is a view, and it is unknown whose rows it shows") as caught:
        SparkTable(name="visits", source="global_temp.seen", public=public, key=(), columns=("person_id",)).frame(spark)
    assert caught.value.subject == "visits" and caught.value.__cause__ is None


@needs_spark
def test_no_value_decides_the_type_of_a_column_in_the_names_of_folders(tmp_path: Path) -> None:
    kinds = []
    for values in ([7, 8], [7, "x"]):
        folder = tmp_path / str(len(kinds))
        for value in values:
            (folder / f"zip={value}").mkdir(parents=True)
            duckdb.sql("SELECT 1 AS id").write_parquet(str(folder / f"zip={value}" / "0.parquet"))
        table, spark = SparkTable(name="t", source=f"file://{folder}", public=False, key=(), columns=("id", "zip")), cluster().session()
        kinds.append(table.kinds(table.frame(spark)))
    assert kinds[0] == kinds[1] == {"id": "INTEGER", "zip": "VARCHAR"}


@needs_spark
def test_rows_of_several_entities_are_refused(tmp_path: Path) -> None:
    policy = in_spark(tmp_path, policy=worlds.POLICY.replace(
        '[tables.scores]\nforeign_keys = [{ columns = "person_id", references = "people(person_id)" }]',
        '[tables.scores]\nforeign_keys = [{ columns = "person_id", references = "people(person_id)" }, '
        '{ columns = "points", references = "people(person_id)" }]'))
    with pytest.raises(OperationalError, match="a row of scores may belong to several entities"):
        dpsql.prepare(policy=policy, budget="person")


@needs_spark
@pytest.mark.parametrize("alone", [True, False], ids=["made by Spark", "sent"])
def test_an_interruption_after_the_last_step_leaves_the_new_store(alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = in_spark(tmp_path) if alone else sent(tmp_path)
    dpsql.prepare(policy=policy, budget="person", buckets=2)
    first, emptied = json.loads(manifest_in_spark(tmp_path / "dpsql.ledger.store", "person").read_text())["folder"], spark_writer._empty

    def interrupt(to: SparkCluster, place: str) -> None:
        emptied(to, place)
        if place == first:
            raise KeyboardInterrupt

    monkeypatch.setattr(spark_writer, "_empty", interrupt)
    with pytest.raises(KeyboardInterrupt):
        dpsql.prepare(policy=policy, budget="person", buckets=2)
    with dpsql.connect(policy=policy, budget="person", epsilon=1) as connection:
        assert len(connection.execute(MANY).fetchall()) == 5


def sent(folder: Path) -> Path:
    """A policy of a DuckDB file, of which stores are sent to Spark, in a folder."""
    WORLD.save(folder / "world.duckdb")
    policy = folder / "dpsql.toml"
    policy.write_text(spark_policy(folder, worlds.POLICY.replace("version = 1\n", 'version = 1\ndatabase = "world.duckdb"\n')))
    ReportingLedger.create(folder / "dpsql.ledger").close()
    return policy


@needs_spark
def test_dpsql_prepare_sends_a_store_that_a_connection_reads(tmp_path: Path) -> None:
    policy = sent(tmp_path)
    made, = dpsql.prepare(policy=policy, budget="person", buckets=2)
    assert (made.buckets, made.place) == (2, f"file://{tmp_path}/far")
    with dpsql.connect(policy=policy, budget="person", epsilon=1) as connection:
        assert isinstance(connection.session.kernel._reader.far, SparkBuckets)
        assert len(connection.execute(MANY).fetchall()) == 5
