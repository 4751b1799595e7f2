"""Prepared stores: what they hold, when they are in force, and what becomes of them when something goes wrong."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support import worlds
from support.golden.comparison import released
from support.sessions import catalog_of, open_ledger, session_of
from support.stores import reopened, stored
from support.worlds import World, world

import dpsql
from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, open_database
from dpsql.backends.owned_rows import OwnedRows
from dpsql.backends.parted_rows import AT_ONCE, PartedRows
from dpsql.backends.row_orders import row_order
from dpsql.backends.spark_task import BUCKET
from dpsql.backends.store import fact_of
from dpsql.catalog.policy import parse_policy
from dpsql.cli import main
from dpsql.errors import OperationalError, OptionError
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.trusted.kernel.claims import Claims
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.ranking import Ranking
from dpsql.trusted.plan.stored import bucket_name
from dpsql.trusted.reader import PARTS, Parts, ReaderFault

MANY = "SELECT clinic, COUNT(*), SUM(cost) FROM visits GROUP BY clinic"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return world(seed=3, people=60, most_visits=9).save(tmp_path / "world.duckdb")


def exact(reader: Any, ledger: Ledger, text: str = MANY, budget: str = "person") -> list[Any]:
    session = session_of(ledger.path.parent, reader=reader, noise=Exact(), ledger=ledger, budget=budget, at={"epsilon": 100, "delta": 1e-3})
    return released(text, session)[0].rows


def manifest(folder: Path) -> Path:
    found, = folder.glob("manifest-*.json")
    return found


# -- what is in it


def test_a_bucket_holds_declared_columns_of_rows_with_an_owner(tmp_path: Path) -> None:
    rows = dict(world(seed=3).rows)
    people = rows["people"]
    rows["visits"] = [(1, people[0][0], 2019, "a", 1, None, None), (2, None, 2019, "a", 1, None, None), (3, 999, 2019, "a", 1, None, None)]
    reader = stored(World(rows).save(tmp_path / "w.duckdb"), open_ledger(tmp_path), buckets=1)
    with reader._cursor() as cursor:
        names = {table: [column for column, *_ in cursor.execute(f'DESCRIBE "bucket 0".main.{table}').fetchall()] for table in ("people", "visits")}
        assert "secret" not in names["people"]
        assert names["visits"][-2:] == ["owner of the row", "place of the row"]
        assert "place of the row" not in names["people"]  # who has one row has no places
        assert sorted(cursor.execute('SELECT visit_id, "owner of the row" FROM "bucket 0".main.visits').fetchall()) == [(1, people[0][0]), (3, 999)]


def test_an_owner_is_found_along_the_foreign_keys(database: Path, tmp_path: Path) -> None:
    reader = stored(database, open_ledger(tmp_path), budget="household", buckets=3)
    with reader._cursor() as cursor:
        joined = cursor.execute("SELECT v.visit_id, p.household_id FROM visits AS v JOIN people AS p USING (person_id) "
                                "WHERE p.household_id IS NOT NULL ORDER BY ALL").fetchall()
        found = [row for bucket in range(3) for row in cursor.execute(
            f'SELECT visit_id, "owner of the row" FROM "bucket {bucket}".main.visits').fetchall()]
    assert sorted(found) == joined


def test_entities_are_in_one_bucket_each_in_order_of_their_names(database: Path, tmp_path: Path) -> None:
    reader, seen = stored(database, open_ledger(tmp_path), buckets=5), set[int]()
    with reader._cursor() as cursor:
        for bucket in range(5):
            owners = [owner for owner, in cursor.execute(f'SELECT "owner of the row" FROM "bucket {bucket}".main.visits').fetchall()]
            assert owners == sorted(owners)
            assert not seen & set(owners)
            seen |= set(owners)
    assert len(seen) > 20


def test_only_the_owner_may_read_it(database: Path, tmp_path: Path) -> None:
    stored(database, open_ledger(tmp_path), folder=tmp_path / "store")
    for place in (tmp_path / "store").rglob("*"):
        assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600)


def test_what_is_known_of_the_rows_is_in_the_manifest(database: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    reader = stored(database, ledger)
    visits, facts = reader.stored["visits"], duckdb.connect(str(database), read_only=True)
    assert (visits.rows, visits.most) == facts.execute(
        "SELECT SUM(n), MAX(n) FROM (SELECT COUNT(*) AS n FROM visits WHERE person_id IS NOT NULL GROUP BY person_id)").fetchall()[0]
    assert visits.ends["year"] == facts.execute("SELECT MIN(year), MAX(year) FROM visits").fetchall()[0]
    exact(reader, ledger)
    assert len(reader.parts) == 1
    assert not any('FROM "visits"' in text for text in reader.others)


def test_ends_are_open_where_one_is_not_a_number(tmp_path: Path) -> None:
    rows = dict(world(seed=3).rows)
    rows["people"] = [(*row[:4], float("nan") if at == 5 else row[4], float("inf") if at == 7 else row[5], *row[6:]) for at, row in enumerate(rows["people"])]
    reader = stored(World(rows).save(tmp_path / "w.duckdb"), open_ledger(tmp_path))
    assert reader.stored["people"].ends["income"] is None
    assert reader.stored["people"].ends["weight"] is None


ODD = """CREATE TABLE t AS SELECT i AS id, k::INTEGER AS k, ['-0.0', '0', 'nan', '-nan', 'inf', '1e-320', NULL][1 + k % 7]::DOUBLE AS a,
    ['-0.0', '0', 'nan', '-inf', '1.1', NULL][1 + k % 6]::FLOAT AS b, ['-170141183460469231731687303715884105728', '1', NULL][1 + k % 3]::HUGEINT AS c,
    ['340282366920938463463374607431768211455', '1'][1 + k % 2]::UHUGEINT AS d, ['18446744073709551615', '0'][1 + k % 2]::UBIGINT AS e,
    ['99999999999999999999999999999999.999999', '-0.000001'][1 + k % 2]::DECIMAL(38, 6) AS f, uuid(k) AS g, [NULL, 'a', 'b'][1 + k % 3]::ENUM('b', 'a') AS h,
    ['infinity', '-infinity', '0044-03-15 (BC)', '2020-02-29'][1 + k % 4]::DATE AS i, ['infinity', '1816-03-30 05:56:08.066277', NULL][1 + k % 3]::TIMESTAMP AS j,
    '2262-04-11 23:47:16.854775806'::TIMESTAMP_NS AS l, '1500-01-01 00:00:01'::TIMESTAMP_S AS m, '1500-01-01 00:00:01.123'::TIMESTAMP_MS AS n,
    ['', chr(0), 'ünï', chr(0) || 'x', NULL, repeat('long', 9999)][1 + k % 6] AS o, [true, false, NULL][1 + k % 3] AS p, (k % 128)::TINYINT AS q
    FROM (SELECT i, i * 10 + j AS k FROM range(40) AS r(i), range(10) AS s(j))"""


def test_every_value_is_stored_as_it_was(tmp_path: Path) -> None:
    """Also where it is written to files on the way, which have fewer types."""
    with duckdb.connect(str(tmp_path / "w.duckdb")) as connection:
        connection.execute("CREATE MACRO uuid(k) AS md5(k::VARCHAR)::UUID")
        connection.execute(ODD)
        connection.execute("DROP MACRO uuid")
        connection.execute("CREATE TABLE e AS SELECT i AS id FROM range(40) AS t(i); ALTER TABLE e ADD PRIMARY KEY (id); ALTER TABLE t ADD UNIQUE (k)")
        names = [column for column, *_ in connection.execute("DESCRIBE t").fetchall()]
        shown = ", ".join(f"{name}::VARCHAR, typeof({name})" for name in names)
        facts = connection.execute(f"SELECT {shown} FROM t ORDER BY k").fetchall()
    policy = ('version = 1\n[entities.person]\ntable = "e"\nkey = "id"\n[tables.e]\nkey = "id"\n[tables.e.columns]\nid = {}\n[tables.t]\n'
              'foreign_keys = [{ columns = "id", references = "e(id)" }]\n[tables.t.columns]\n' + "".join(f"{name} = {{}}\n" for name in names) +
              '[budgets.person]\nentity = "person"\nepsilon = 1\n')
    for buckets in (1, 3):
        reader = stored(tmp_path / "w.duckdb", open_ledger(tmp_path), buckets=buckets, policy=policy)
        rows = [row for bucket in range(buckets) for row in reader.rows(f'SELECT k, {shown} FROM "bucket {bucket}".main.t')]
        assert [row for _, *row in sorted(rows)] == [[*row] for row in facts]


@pytest.mark.parametrize("budget", ["person", "household"])
@pytest.mark.parametrize("buckets", [1, 3, AT_ONCE + 3])
def test_places_are_those_of_the_ranking_that_a_truncation_prints(budget: str, buckets: int, database: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    reader = stored(database, ledger, budget=budget, buckets=buckets)
    table = catalog_of(reader, parse_policy(worlds.POLICY), budget).tables["visits"]
    owned, printing = OwnedRows.of(table), Printing(salt=ledger.salt)
    ranking = Ranking(input=owned.scan, by=(owned.owner,), rows=1, order=row_order(owned.scan, owned.owner))
    id_ = next(column for column, name in owned.scan.columns if name == "visit_id")
    expected = reader.rows(f'SELECT t0.{id_}, t0.{owned.owner}, {ranking.place(printing, ranking.groups)} FROM ({owned.scan.render((), printing)}) AS t0')
    found = [row for bucket in range(buckets) for row in reader.rows(
        f'SELECT visit_id, "owner of the row", "place of the row" FROM "bucket {bucket}".main.visits')]
    assert sorted(found) == sorted(expected)
    assert max(place for *_, place in found) == reader.stored["visits"].most > 1


# -- when it is in force


def test_a_store_of_another_version_of_the_data_is_not_used(database: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    stored(database, ledger, folder=tmp_path / "store").close()
    with duckdb.connect(str(database)) as connection:
        connection.execute("DELETE FROM visits WHERE clinic = 'a'")
    reader = reopened(database, ledger, tmp_path / "store")
    assert not reader.stored
    assert [row[1] for row in exact(reader, ledger) if row[0] == "a"] == [0]


def test_a_store_of_another_ledger_is_not_used(database: Path, tmp_path: Path) -> None:
    stored(database, open_ledger(tmp_path), folder=tmp_path / "store").close()
    assert not reopened(database, Ledger.create(tmp_path / "other.ledger"), tmp_path / "store").stored


def test_a_manifest_that_was_altered_is_not_used(database: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    stored(database, ledger, folder=tmp_path / "store").close()
    place = manifest(tmp_path / "store")
    told = json.loads(place.read_text())
    told["tables"]["visits"]["most"] = 1  # so that no limit would be enforced
    place.write_text(json.dumps(told, indent=1))
    assert not reopened(database, ledger, tmp_path / "store").stored


@pytest.mark.parametrize("alter", ["remove", "replace", "write"])
def test_a_bucket_that_was_altered_is_not_used(alter: str, database: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    stored(database, ledger, folder=tmp_path / "store").close()
    first, second, *_ = sorted((tmp_path / "store").rglob("*.duckdb"))
    if alter == "remove":
        first.unlink()
    elif alter == "replace":
        first.write_bytes(second.read_bytes())
    else:
        with duckdb.connect(str(first)) as connection:
            connection.execute("DELETE FROM visits")
    assert not reopened(database, ledger, tmp_path / "store").stored


def test_a_store_with_fewer_rows_than_it_says_is_refused(database: Path, tmp_path: Path) -> None:
    """Whatever made it so: a manifest is remembered that leaves a bucket out."""
    ledger = open_ledger(tmp_path)
    stored(database, ledger, folder=tmp_path / "store").close()
    place = manifest(tmp_path / "store")
    told = json.loads(place.read_text())
    del told["buckets"][2]
    place.write_text(json.dumps(told))
    FactsBesideLedger(ledger).keep(fact_of(place.read_text()))
    with pytest.raises(OperationalError, match="the prepared store is damaged"):
        reopened(database, ledger, tmp_path / "store")


def test_a_bucket_that_goes_away_is_noticed_before_a_charge(database: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    reader = stored(database, ledger, folder=tmp_path / "store")
    next(iter((tmp_path / "store").rglob("*.duckdb"))).unlink()
    with pytest.raises(OperationalError, match="changed since they were opened"):
        reader.check()


def test_a_table_that_the_policy_declares_otherwise_is_read_in_the_database(database: Path, tmp_path: Path) -> None:
    """Another path to the owner, so other owners of the same rows."""
    ledger = open_ledger(tmp_path)
    reader = stored(database, ledger, budget="household", folder=tmp_path / "store")
    exact(reader, ledger, budget="person")
    assert not reader.parts


# -- making one


def test_a_preparation_that_is_broken_off_leaves_the_store_before_in_force(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = open_ledger(tmp_path)
    stored(database, ledger, folder=tmp_path / "store", buckets=2).close()
    write, left = DuckReader.write, [9]

    def broken(self: DuckReader, sql: str) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        write(self, sql)

    monkeypatch.setattr(DuckReader, "write", broken)
    with pytest.raises(KeyboardInterrupt):
        stored(database, ledger, folder=tmp_path / "store", buckets=9)
    assert len(reopened(database, ledger, tmp_path / "store")._store.buckets) == 2  # type: ignore[union-attr]
    assert len([place for place in (tmp_path / "store").iterdir() if place.is_dir()]) == 1


def test_a_new_store_replaces_the_one_before(database: Path, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    first = exact(stored(database, ledger, folder=tmp_path / "store", buckets=2), ledger)
    reader = stored(database, ledger, folder=tmp_path / "store", buckets=4)
    assert len(list((tmp_path / "store").rglob("*.duckdb"))) == 4
    assert exact(reader, ledger) == first


@pytest.mark.parametrize(("right", "wrong"), [
    ('"#" - MAX', '"#" + 1 - MAX'),  # every place is one too high
    ("CURRENT ROW) + 1", "CURRENT ROW) + ABS(t1.\"#\" % 2)"),
    ('IS DISTINCT FROM t1."@"', "IS NULL"),  # places go on with the next owner
    ("ORDER BY", "ORDER BY random(),"),  # as if the engine did not keep rows as they were sorted
    (">> 32", ">> 31"),  # another order
    ("SELECT t1.", "SELECT DISTINCT ON (hash(t1.\"@\") % 5) t1."),  # rows are lost
])
def test_a_bucket_with_wrong_places_is_not_put_in_force(right: str, wrong: str, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = OwnedRows.sql
    assert right in sql(OwnedRows.of(catalog_of(open_database(database), parse_policy(worlds.POLICY), "person").tables["visits"]), Printing())
    monkeypatch.setattr(OwnedRows, "sql", lambda self, printing: sql(self, printing).replace(right, wrong) if self.order else sql(self, printing))
    for buckets in (1, 3):
        with pytest.raises(OperationalError, match="the store could not be written"):
            stored(database, open_ledger(tmp_path), folder=tmp_path / "store", buckets=buckets)
    assert not list((tmp_path / "store").iterdir())


def test_a_store_that_lacks_rows_is_not_put_in_force(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = PartedRows._files
    monkeypatch.setattr(PartedRows, "_files", lambda self, number: [found[1:] for found in files(self, number)])
    with pytest.raises(OperationalError, match="the store could not be written"):
        stored(database, open_ledger(tmp_path), folder=tmp_path / "store")
    assert not list((tmp_path / "store").iterdir())


def test_rows_on_their_way_are_closed_to_others_and_removed(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, seen = DuckReader.write, list[int]()

    def watched(self: DuckReader, sql: str) -> None:
        write(self, sql)
        if sql.startswith("COPY"):
            made, = (tmp_path / "store").iterdir()
            assert stat.S_IMODE(made.stat().st_mode) == 0o700
            seen.append(len([*made.rglob("*.parquet")]))

    monkeypatch.setattr(DuckReader, "write", watched)
    stored(database, open_ledger(tmp_path), folder=tmp_path / "store", buckets=3)
    assert seen and all(seen)
    assert not list((tmp_path / "store").rglob("*.parquet"))


def test_no_link_is_followed_out_of_a_store_that_is_removed(database: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "bucket=0"
    elsewhere.mkdir(parents=True)
    (elsewhere / "data_0.parquet").write_text("x")
    for number, link in enumerate(["parts", "parts/0-0", "parts/0-0/bucket=0"]):
        place = tmp_path / "store" / f"{number:016}" / link
        place.parent.mkdir(parents=True)
        place.symlink_to(elsewhere if number == 2 else elsewhere.parent)
    stored(database, open_ledger(tmp_path), folder=tmp_path / "store")
    assert (elsewhere / "data_0.parquet").exists()


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
import dpsql
try:
    dpsql.prepare(policy=sys.argv[1], buckets=int(sys.argv[2]))
except dpsql.OperationalError as fault:
    print(fault)
"""


@pytest.mark.parametrize("buckets", ["1", "2"])
def test_a_full_disk_is_told_and_leaves_nothing(buckets: str, tmp_path: Path) -> None:
    """No file may grow beyond 400 KB: an empty bucket fits, and the rows do not."""
    with duckdb.connect(str(tmp_path / "world.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT i AS id, hash(i)::VARCHAR AS word FROM range(200000) AS t(i)")
    (tmp_path / "dpsql.toml").write_text('version = 1\ndatabase = "world.duckdb"\n[entities.e]\ntable = "t"\nkey = "id"\n'
                                         '[tables.t.columns]\nid = {}\nword = {}\n[budgets.b]\nentity = "e"\nepsilon = 1\n')
    Ledger.create(tmp_path / "dpsql.ledger").close()
    ended = subprocess.run([sys.executable, "-c", FULL, tmp_path / "dpsql.toml", buckets], capture_output=True, text=True, check=True)
    assert "the store could not be written" in ended.stdout
    assert not list((tmp_path / "dpsql.ledger.store").iterdir())


def demo(tmp_path: Path) -> Path:
    assert main(["demo", "--to", str(tmp_path / "demo")]) == 0
    return tmp_path / "demo" / "dpsql.toml"


def test_dpsql_prepare_makes_a_store_that_a_connection_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = demo(tmp_path)
    assert main(["prepare", "--policy", str(policy), "--buckets", "3"]) == 0
    assert "prepared for each person: " in capsys.readouterr().out
    with dpsql.connect(policy=policy, budget="study") as connection:
        assert set(connection.session.kernel._reader.stored) == {"people", "person_years", "yearly_claims"}
        assert len(connection.execute("SELECT COUNT(*) FROM people").fetchall()) == 1


@pytest.mark.parametrize("buckets", [0, -1, 4097, True, 2.5])
def test_a_number_of_buckets_that_cannot_be_is_refused(buckets: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="number of buckets"):
        dpsql.prepare(policy=demo(tmp_path), buckets=buckets)


def test_a_task_of_spark_makes_what_is_told_of_as_the_first_bucket() -> None:
    assert bucket_name(0) == BUCKET


# -- faults that must be found


def test_without_the_kernels_check_a_plan_that_is_not_split_is_answered_wrongly(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, text = open_ledger(tmp_path), "SELECT COUNT(*) FROM (SELECT year FROM visits GROUP BY year)"
    reader = stored(database, ledger)
    right = exact(reader, ledger, text)
    monkeypatch.setattr(Claims, "split_parts", lambda self, plan: (plan.input,))
    assert exact(reader, ledger, text) != right


def test_a_fault_in_a_bucket_is_a_fault_of_the_query(database: Path, tmp_path: Path) -> None:
    reader = stored(database, open_ledger(tmp_path))
    with pytest.raises(ReaderFault):
        reader.rows(f"SELECT COUNT(*) FROM {PARTS}", [Parts(statements=("SELECT 1 AS x", "SELECT 1 AS x WHERE error('no') IS NULL"))])
