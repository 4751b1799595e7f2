"""Attacks on prepared stores, and on what is remembered of rows; the first ones succeeded once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql.errors import OperationalError
from dpsql.trusted.kernel.ledger import Ledger

PEOPLE = '''
[entities.e]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {}
sex = { values = ["f", "m"] }
'''
VISITS = '''
[tables.visits]
key = "vid"
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = 2
[tables.visits.columns]
vid = {}
id = {}
'''
BUDGET = '\n[budgets.b]\nentity = "e"\nepsilon = 1000\ndelta = 0.01\n'


def owned(folder: Path, text: str) -> Path:
    """A policy and its ledger."""
    (folder / "dpsql.toml").write_text(f"version = 1\n{text}{BUDGET}")
    if not (folder / "dpsql.ledger").exists():
        Ledger.create(folder / "dpsql.ledger").close()
    return folder / "dpsql.toml"


def world(folder: Path, *more: str) -> None:
    """A hundred people, and five visits of each."""
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, sex VARCHAR)")
        connection.execute("INSERT INTO people SELECT i, ['f', 'm'][1 + i % 2] FROM range(100) AS t(i)")
        connection.execute("CREATE TABLE visits (vid INTEGER PRIMARY KEY, id INTEGER)")
        connection.execute("INSERT INTO visits SELECT i, i % 100 FROM range(500) AS t(i)")
        for text in more:
            connection.execute(text)


def asked(policy: Path, *texts: str, epsilon: int = 60) -> list[Any]:
    """The answers, with noise far below one; and whether there was a store."""
    with dpsql.connect(policy=policy, epsilon=epsilon, delta=1e-6) as connection:
        return [*(connection.execute(text).fetchall() for text in texts), bool(connection.session.kernel._reader.stored)]


def about(answer: list[tuple[Any, ...]]) -> int:
    (number, *_), = answer
    return round(number)


# -- names


@pytest.mark.parametrize("name", ["people in buckets", "bucket 0", "rows of all buckets", "PEOPLE IN BUCKETS"])
def test_no_table_of_an_analyst_is_taken_for_rows_of_a_store(name: str, tmp_path: Path) -> None:
    policy = owned(tmp_path, f'database = "w.duckdb"\n{PEOPLE}{VISITS}')
    world(tmp_path)
    dpsql.prepare(policy=policy, buckets=3)
    *_, drawn, ids, people, stored = asked(
        policy, f'CREATE SYNTHETIC TABLE "{name}" AS SELECT sex, sex AS id, sex AS "owner of the row" FROM people OPTIONS (epsilon = 1)',
        f'SELECT COUNT(*) FROM "{name}" AS s WHERE s.id IN (\'f\', \'m\')', f'SELECT COUNT(*) FROM "{name}" AS s WHERE s.id NOT IN (\'f\', \'m\')',
        f'SELECT COUNT(*) FROM people JOIN "{name}" AS s ON people.sex = s.sex WHERE people.id = 7')
    assert stored and about(drawn) > 0 and about(ids) == 0
    assert 0 < about(people) <= about(drawn)


@pytest.mark.parametrize("name", ["visits in buckets", "rows of all buckets"])
def test_no_public_table_is_taken_for_rows_of_a_store(name: str, tmp_path: Path) -> None:
    declared = f'database = "w.duckdb"\n{PEOPLE}{VISITS}'
    policy = owned(tmp_path, declared)
    world(tmp_path, f'CREATE TABLE "{name}" (m0_0 BIGINT, c VARCHAR)', f"INSERT INTO \"{name}\" VALUES (1, 'f'), (2, 'm'), (3, 'f')")
    dpsql.prepare(policy=policy, buckets=3)
    owned(tmp_path, f'{declared}[tables."{name}"]\npublic = true\n[tables."{name}".columns]\nm0_0 = {{}}\nc = {{}}\n')
    public, joined, visits, stored = asked(policy, f'SELECT COUNT(*) FROM "{name}"', f'SELECT COUNT(*) FROM people JOIN "{name}" AS r ON r.c = people.sex',
                                           "SELECT COUNT(*) FROM visits")
    assert stored and (about(public), about(joined), about(visits)) == (3, 150, 200)


@pytest.mark.parametrize("name", ["Owner of the row", "place of the row"])
def test_a_column_that_is_called_like_one_of_a_store_is_refused(name: str, tmp_path: Path) -> None:
    policy = owned(tmp_path, f'database = "w.duckdb"\n{PEOPLE}{VISITS}"{name}" = {{}}\n')
    world(tmp_path, f'ALTER TABLE visits ADD COLUMN "{name}" INTEGER', f'UPDATE visits SET "{name}" = 1')
    with pytest.raises(OperationalError, match="has a name that the store uses"):
        dpsql.prepare(policy=policy, buckets=1)
    assert about(asked(policy, "SELECT COUNT(*) FROM visits")[0]) == 200


# -- files


def test_preparing_removes_nothing_but_stores(tmp_path: Path) -> None:
    policy = owned(tmp_path, f'database = "w.duckdb"\n{PEOPLE}{VISITS}[store]\nfolder = "."\n')
    world(tmp_path)
    kept = [tmp_path / "thesis" / "only_copy.txt", tmp_path / "0123456789abcdef" / "notes.txt"]
    for place in kept:
        place.parent.mkdir()
        place.write_text("x")
    before = tmp_path.stat().st_mode
    for _ in range(2):
        dpsql.prepare(policy=policy, buckets=2)
    assert all(place.exists() for place in kept) and tmp_path.stat().st_mode == before
    store, = tmp_path.glob("dpsql-store-*")
    (store / "0123456789abcdef").mkdir()
    (store / "0123456789abcdef" / "notes.txt").write_text("x")
    dpsql.prepare(policy=policy, buckets=2)
    assert (store / "0123456789abcdef" / "notes.txt").exists()


def test_a_log_of_changes_beside_a_bucket_is_not_carried_out(tmp_path: Path) -> None:
    policy = owned(tmp_path, f'database = "w.duckdb"\n{PEOPLE}{VISITS}')
    world(tmp_path)
    dpsql.prepare(policy=policy, buckets=1)
    bucket, = tmp_path.rglob("0000.duckdb")
    shutil.copy(bucket, tmp_path / "copy.duckdb")
    connection = duckdb.connect(str(tmp_path / "copy.duckdb"))
    connection.execute("PRAGMA disable_checkpoint_on_shutdown; SET wal_autocheckpoint = '1TB'; UPDATE visits SET \"place of the row\" = 1")
    connection.close()
    shutil.copy(tmp_path / "copy.duckdb.wal", f"{bucket}.wal")
    visits, stored = asked(policy, "SELECT COUNT(*) FROM visits")
    assert not stored and about(visits) == 200


def test_a_store_cannot_be_where_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = owned(tmp_path, f'database = "w.duckdb"\n{PEOPLE}{VISITS}[store]\nfolder = "dpsql.toml"\n')
    world(tmp_path)
    with pytest.raises(OperationalError, match="the store could not be written"):
        dpsql.prepare(policy=policy)
    monkeypatch.setattr("dpsql.engine.opening.LARGE", 10)
    assert about(asked(policy, "SELECT COUNT(*) FROM visits")[0]) == 200


def parquet(folder: Path, name: str, query: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    duckdb.execute(f"COPY ({query}) TO '{folder / name}' (FORMAT PARQUET)")


def of_files(folder: Path, old: str, new: str, more: str = "") -> Path:
    tables = "".join(f'[tables.{name}]\nsource = "{source}"\nforeign_keys = [{{ columns = "id", references = "people(id)" }}]\nrows_per_entity = 2\n'
                     f"[tables.{name}.columns]\nid = {{}}\n{more}" for name, source in (("old", old), ("new", new)) if source)
    return owned(folder, PEOPLE.replace('key = "id"\n[tables.people.columns]', 'key = "id"\nsource = "people.parquet"\n[tables.people.columns]') + tables)


def test_files_that_change_places_are_other_tables(tmp_path: Path) -> None:
    parquet(tmp_path, "people.parquet", "SELECT i AS id, 'f' AS sex FROM range(100) AS t(i)")
    parquet(tmp_path, "x.parquet", "SELECT i AS id FROM range(100) AS t(i)")
    parquet(tmp_path, "z.parquet", "SELECT i % 100 AS id FROM range(500) AS t(i)")
    policy = of_files(tmp_path, "x.parquet", "z.parquet")
    dpsql.prepare(policy=policy, buckets=2)
    old, new, stored = asked(policy, "SELECT COUNT(*) FROM old", "SELECT COUNT(*) FROM new")
    assert stored and (about(old), about(new)) == (100, 200)
    of_files(tmp_path, "z.parquet", "x.parquet")
    old, new, stored = asked(policy, "SELECT COUNT(*) FROM old", "SELECT COUNT(*) FROM new")
    assert not stored and (about(old), about(new)) == (200, 100)


def test_what_was_counted_of_a_table_is_not_believed_of_other_files(tmp_path: Path) -> None:
    parquet(tmp_path, "people.parquet", "SELECT i AS id, 'f' AS sex FROM range(1000) AS t(i)")
    for name, each in (("x", 1), ("y", 3), ("z", 1)):
        parquet(tmp_path, f"d/{name}.parquet", f"SELECT i % 100 AS id FROM range({100 * each}) AS t(i)")
    policy = of_files(tmp_path, "d/x.parquet", "d/[yz].parquet")
    assert about(asked(policy, "SELECT COUNT(*) FROM old")[0]) == 100
    of_files(tmp_path, "d/[xy].parquet", "d/z.parquet")
    assert about(asked(policy, "SELECT COUNT(*) FROM old WHERE id < 5000")[0]) == 200


def test_what_was_found_in_names_of_folders_is_not_believed_from_another_root(tmp_path: Path) -> None:
    parquet(tmp_path, "people.parquet", "SELECT i AS id, 'f' AS sex FROM range(100) AS t(i)")
    parquet(tmp_path, "data/v=1/v=5000/f.parquet", "SELECT i % 100 AS id FROM range(200) AS t(i)")
    column = 'v = { type = "BIGINT", bounds = [0, 10] }\n'
    assert about(asked(of_files(tmp_path, "data", "", column), "SELECT SUM(v) FROM old WHERE id < 101", epsilon=450)[0]) == 200
    assert about(asked(of_files(tmp_path, "data/v=1", "", column), "SELECT SUM(v) FROM old WHERE id < 102", epsilon=450)[0]) == 2000


def test_types_that_are_declared_later_make_other_rows(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,day\n" + "".join(f"{i},13/02/2020\n" for i in range(100)))
    text = '[entities.e]\ntable = "people"\nkey = "id"\n[tables.people]\nkey = "id"\nsource = "people.csv"\n[tables.people.columns]\n'
    key = 'id = { type = "BIGINT" }\n'
    policy = owned(tmp_path, f'{text}{key}day = {{ type = "VARCHAR" }}\n')
    dpsql.prepare(policy=policy, buckets=2)
    ask = "SELECT COUNT(*) FROM people WHERE day IS NOT NULL AND id < {}"
    assert about(asked(policy, ask.format(500))[0]) == 100
    owned(tmp_path, f'{text}{key}day = {{ type = "DATE" }}\n')
    assert about(asked(policy, ask.format(501))[0]) == 0


# -- values


@pytest.mark.parametrize("others", [[], [0.5], [0.5, -1.0]])
def test_no_persons_number_gives_a_sign_to_nan_or_takes_it(others: list[float], tmp_path: Path) -> None:
    """The engine stores a block of NaN alone as one value, without a sign: one other number in it, and all the signs are there."""
    rows = [f"SELECT {i} AS id, {number} AS y" for i, number in enumerate(others)]
    parquet(tmp_path, "people.parquet", " UNION ALL ".join(["SELECT 10 + i AS id, CAST('-nan' AS DOUBLE) AS y FROM range(3000) AS t(i)", *rows]))
    with duckdb.connect(str(tmp_path / "w.duckdb")) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM '{tmp_path / 'people.parquet'}'")
    declared = '[entities.e]\ntable = "people"\nkey = "id"\n[tables.people]\n{}\nkey = "id"\n[tables.people.columns]\nid = {{}}\ny = {{ bounds = [-1, 1] }}\n'
    for place, top in (('source = "people.parquet"', ""), ("", 'database = "w.duckdb"\n')):
        policy = owned(tmp_path, top + declared.format(place))
        for prepared in (False, True):
            if prepared:
                dpsql.prepare(policy=policy, buckets=1)
            found, stored = asked(policy, f"SELECT COUNT(*) FROM people WHERE CAST(y AS VARCHAR) = '-nan' AND id > {-1 - prepared}")
            assert stored is prepared and about(found) == 0
