"""Files read where they are: what is believed of them decides nothing, they may not change, and only they can be opened."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import struct
from pathlib import Path

import duckdb
import pyarrow
import pyarrow.parquet
import pytest
from support.files import opened_files
from support.parquet_footers import altered, told, write

import dpsql
from dpsql import cli
from dpsql.backends import source_files
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import open_reader
from dpsql.errors import DatabaseError, IntegrityError, OperationalError, PolicyError
from dpsql.ledgers.proven_facts import FactsBesideLedger
from dpsql.trusted.kernel.ledger import Ledger
from dpsql.trusted.reader import ReaderFault

POLICY = """\
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
source = "people.parquet"
[tables.people.columns]
id = {}
age = { bounds = [0, 100] }
[tables.visits]
source = "visits"
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = 5
[tables.visits.columns]
id = {}
cost = { bounds = [0, 100] }
year = { type = "BIGINT", values = [2019, 2020] }
[budgets.main]
entity = "person"
epsilon = 100
"""


def copy(query: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql(query).write_parquet(str(target))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A hundred people, with visits in files by year."""
    copy("SELECT i AS id, i % 90 AS age FROM range(100) AS t(i)", tmp_path / "people.parquet")
    for year in (2019, 2020):
        for part in range(2):
            copy(f"SELECT i AS id, (i * {year}) % 100 AS cost FROM range({part * 50}, 100) AS t(i)", tmp_path / f"visits/year={year}/{part}.parquet")
    (tmp_path / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    Ledger.create(tmp_path / "dpsql.ledger").close()
    return tmp_path


def opened(folder: Path, text: str = POLICY) -> DuckReader:
    (folder / "dpsql.toml").write_text(text, encoding="utf-8")
    reader = open_reader(read_policy(folder / "dpsql.toml"), None)
    assert isinstance(reader, DuckReader)
    return reader


def asked(folder: Path, sql: str = "SELECT year, COUNT(*) FROM visits GROUP BY year") -> list[tuple[object, ...]]:
    with dpsql.connect(policy=folder / "dpsql.toml", analyst="ada", epsilon=20) as connection:
        return connection.execute(sql).fetchall()


# -- what a source may be


@pytest.mark.parametrize("source", ["visits", "visits/**/*.parquet", "visits/*/*.parquet", "visits/year=20[12]?/?.parquet"])
def test_folders_and_patterns_name_the_same_files(source: str, folder: Path) -> None:
    reader = opened(folder, POLICY.replace('"visits"', f'"{source}"'))
    assert reader.rows("SELECT year, COUNT(*), SUM(cost) FROM visits GROUP BY year ORDER BY year") == duckdb.sql(
        f"SELECT year, COUNT(*), SUM(cost) FROM '{folder}/visits/*/*.parquet' GROUP BY year ORDER BY year").fetchall()
    assert dict(reader.schema()["visits"].columns)["year"] == "BIGINT" and reader.schema()["people"].unique == (frozenset({"id"}),)
    reader.close()
    assert [(year, round(count, -1)) for year, count in asked(folder)[:2]] == [(2019, 150), (2020, 150)]  # type: ignore[call-overload]


def test_files_of_csv_go_together_too(folder: Path) -> None:
    for year in (2019, 2020):
        (folder / f"logs/year={year}").mkdir(parents=True)
        (folder / f"logs/year={year}/a.csv").write_text("id,cost\n1,5\n2,7\n", encoding="utf-8")
    typed = POLICY.replace('"visits"', '"logs/*/*.csv"').replace("[tables.visits.columns]\nid = {}\ncost = {", (
        '[tables.visits.columns]\nid = { type = "BIGINT" }\ncost = { type = "BIGINT", '))
    reader = opened(folder, typed)
    assert reader.rows("SELECT year, id, cost FROM visits ORDER BY ALL") == [(2019, 1, 5), (2019, 2, 7), (2020, 1, 5), (2020, 2, 7)]
    reader.close()


@pytest.mark.parametrize(("name", "shown"), [
    ("year=2020", 2020), ("year=old", None), ("year=__HIVE_DEFAULT_PARTITION__", None), ("year=%32020", 2020), ("year=%2", None)])
def test_folders_without_a_value_of_the_type_are_null(name: str, shown: int | None, folder: Path) -> None:
    for path in (folder / "visits").glob("*"):
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    copy("SELECT 1 AS id, 5 AS cost", folder / "visits" / name / "a.parquet")
    assert opened(folder).rows("SELECT year FROM visits") == [(shown,)]


def test_a_column_of_the_files_is_not_that_of_a_folder(folder: Path) -> None:
    """The engine would show the folder's name in place of what the rows have."""
    copy("SELECT 1 AS id, 2 AS cost, 2020 AS year", folder / "other/year=2019/id=7/a.parquet")
    reader = opened(folder, POLICY.replace('"visits"', '"other"').replace('type = "BIGINT", ', ""))
    assert reader.rows("SELECT id, year FROM visits") == [(1, 2020)]


@pytest.mark.parametrize(("change", "told", "line"), [
    (('"visits"', '"none/*.parquet"'), "no CSV or Parquet file fits", 12),
    (('"visits"', '"empty"'), "no CSV or Parquet file is in", 12),
    (('"visits"', '"mixed"'), "both CSV and Parquet", 12),
    (('"visits"', '"odd"'), "has other columns", 12),
    (("year =", "years ="), "neither in", 12),
    (('"visits"', '"vis**/*.parquet"'), "is not a valid pattern", 12),
    (('"people.parquet"', '"person.parquet"'), "there is no file", 7),
    (('"people.parquet"', '"twice"'), "share the declared key", 6),
    (('"people.parquet"', '"nokey"'), "lacks a column of the declared key", 7),
])
def test_mistakes_are_told_at_the_line_of_the_policy(change: tuple[str, str], told: str, line: int, folder: Path) -> None:
    (folder / "empty").mkdir()
    copy("SELECT 1 AS id, 5 AS cost", folder / "mixed/year=2019/a.parquet")
    (folder / "mixed/a.csv").write_text("id\n1\n", encoding="utf-8")
    for name, query in (("a", "SELECT 1 AS id, 5 AS cost"), ("b", "SELECT 1 AS id, 5.5 AS cost")):
        copy(query, folder / f"odd/year=2019/{name}.parquet")
    for part in ("a", "b"):
        copy("SELECT 1 AS id, 5 AS age", folder / f"twice/{part}.parquet")
    copy("SELECT 5 AS age", folder / "nokey/a.parquet")
    with pytest.raises(DatabaseError) as caught:
        opened(folder, POLICY.replace(*change))
    assert told in caught.value.reason and caught.value.as_dict()["line"] == line
    assert isinstance(caught.value, IntegrityError if "share" in told else OperationalError)


def test_a_public_table_is_no_file_of_a_private_one(folder: Path) -> None:
    public = '[tables.costs]\npublic = true\nsource = "{}"\n[tables.costs.columns]\ncost = {{}}\n'
    for source in ("visits/year=2019/*.parquet", "link.parquet"):
        if source == "link.parquet":
            (folder / source).symlink_to(folder / "visits/year=2020/1.parquet")
        with pytest.raises(OperationalError, match="has the file of visits, which is private"):
            opened(folder, POLICY + public.format(source))


# -- what is believed of a file


def with_nan(target: Path) -> None:
    """Numbers in blocks of five thousand, one of them NaN, which the statistics of its block leave out, as the format demands."""
    numbers = [float("nan") if i == 7 else float(i % 100) for i in range(20_000)]
    write(target, {"id": range(20_000), "cost": numbers}, row_group_size=5000)


CONDITIONS = ("cost > 100", "NOT cost <= 100", "isnan(cost)", "cost = 'nan'::DOUBLE", "cost IN (1000, 'nan')", "NOT isfinite(cost)")


def test_a_row_with_nan_is_read_whatever_stands_around_it(tmp_path: Path) -> None:
    """Whether it was read depended on the other rows of its block, which is further than one person's rows reach."""
    with_nan(tmp_path / "t.parquet")
    bare = [duckdb.sql(f"SELECT COUNT(*) FROM '{tmp_path}/t.parquet' WHERE {condition}").fetchall()[0][0] for condition in CONDITIONS]
    assert 0 in bare, "the engine skips the block no more; then this can go"
    reader = opened_files({"t": tmp_path / "t.parquet"})
    for condition in CONDITIONS:
        assert reader.rows(f"SELECT COUNT(*) FROM t WHERE {condition}") == [(1,)], condition
        assert reader.rows(f"SELECT COUNT(*) FROM t JOIN range(20000) AS r(id) USING (id) WHERE {condition}") == [(1,)], condition
    assert str(reader.rows("SELECT MAX(cost) FROM t")[0][0]) == "nan"
    reader.close()


def test_wrong_statistics_of_a_file_hide_no_row(tmp_path: Path) -> None:
    with_nan(tmp_path / "t.parquet")
    altered(tmp_path / "t.parquet", tmp_path / "u.parquet", told("id", min_value=struct.pack("<q", 0), max_value=struct.pack("<q", 100)))
    assert duckdb.sql(f"SELECT COUNT(*) FROM '{tmp_path}/u.parquet' WHERE id > 200").fetchall() != [(19_799,)]
    reader = opened_files({"u": tmp_path / "u.parquet"}, {"u": ["id"]})
    for query, found in (("COUNT(*) FROM u WHERE id > 200", 19_799), ("COUNT(*) FROM u WHERE id = 300", 1), ("MAX(id) FROM u WHERE id < 5000", 4999),
                         ("COUNT(*) FROM u JOIN (VALUES (300), (400)) AS t(id) USING (id)", 2), ("COUNT(*) FROM u WHERE id + 0 > 200", 19_799),
                         ("COUNT(*) FROM u WHERE id BETWEEN 4000 AND 4500", 501), ("COUNT(*) FROM u WHERE id IN (3000, 4000)", 2)):
        assert reader.rows(f"SELECT {query}") == [(found,)], query
    assert reader.rows("SELECT id FROM u ORDER BY id DESC LIMIT 1 OFFSET 15000") == [(4999,)]
    reader.close()


def test_a_text_that_cannot_be_read_is_told_when_the_data_are_opened(folder: Path) -> None:
    """Later it would fail the statements that read it, and no others: a person's row would decide."""
    kind = pyarrow.string()
    texts = pyarrow.Array.from_buffers(kind, 2, pyarrow.array(["ab", "cd"]).buffers())
    broken = pyarrow.Array.from_buffers(kind, 2, [None, texts.buffers()[1], pyarrow.py_buffer(b"ab\xff\xfe")])
    write(folder / "people.parquet", {"id": [1, 2], "age": broken})
    with pytest.raises(OperationalError, match="cannot be read"):
        opened(folder, POLICY.replace("{ bounds = [0, 100] }", "{}", 1))
    opened(folder, POLICY.replace("age = { bounds = [0, 100] }\n", "", 1)).close()


# -- files that change


@pytest.mark.parametrize("how", ["rewritten", "replaced", "removed", "touched"])
def test_a_file_that_changes_is_noticed_before_anything_is_charged(how: str, folder: Path) -> None:
    file = folder / "visits/year=2019/0.parquet"
    with dpsql.connect(policy=folder / "dpsql.toml", analyst="ada", epsilon=1) as connection:
        connection.execute("SELECT COUNT(*) FROM visits")
        spent = str(connection.budget())
        if how == "rewritten":
            file.write_bytes((folder / "visits/year=2020/0.parquet").read_bytes() + b"")
        elif how == "replaced":
            copy("SELECT 1::BIGINT AS id, 2::BIGINT AS cost", folder / "new.parquet")
            (folder / "new.parquet").replace(file)
        elif how == "removed":
            file.unlink()
        else:
            os.utime(file)
        with pytest.raises(OperationalError) as caught:
            connection.execute("SELECT SUM(cost) FROM visits")
        assert caught.value.code == "data-changed" and "parquet" not in caught.value.reason, "the name of a file may be private"
        assert str(connection.budget()) == spent
    assert how == "removed" or asked(folder)


def test_what_was_read_while_a_file_changed_is_not_used(folder: Path) -> None:
    reader = opened(folder)
    assert reader.rows("SELECT COUNT(*) FROM people") == [(100,)]
    os.utime(folder / "people.parquet", (1, 1))
    with pytest.raises(ReaderFault):
        reader.rows("SELECT COUNT(*) FROM people")


def test_versions_differ_where_a_file_is_in_another_folder(folder: Path) -> None:
    before = opened(folder).version
    (folder / "visits/year=2021").mkdir()
    (folder / "visits/year=2020/1.parquet").rename(folder / "visits/year=2021/1.parquet")
    assert opened(folder).version != before


# -- what is remembered


class Counting(FactsBesideLedger):
    found = 0

    def known(self, fact: str) -> bool:
        known = super().known(fact)
        self.found += known
        return known


def test_files_are_verified_once(folder: Path) -> None:
    policy, ledger = read_policy(folder / "dpsql.toml"), Ledger(folder / "dpsql.ledger")
    for known in (0, 2, 2):
        facts = Counting(ledger)
        open_reader(policy, None, facts).close()
        assert facts.found == known
    os.utime(folder / "people.parquet", (1, 1))
    facts = Counting(ledger)
    open_reader(policy, None, facts).close()
    assert facts.found == 1


def test_only_who_knows_the_ledger_can_say_what_was_found(folder: Path) -> None:
    """The lines of another ledger, or made up ones, are worth nothing."""
    Ledger.create(folder / "other.ledger").close()
    for name in ("dpsql.ledger", "other.ledger"):
        FactsBesideLedger(Ledger(folder / name)).keep("a fact")
    lines = [(folder / f"{name}.facts").read_bytes() for name in ("dpsql.ledger", "other.ledger")]
    assert lines[0] != lines[1] and oct((folder / "dpsql.ledger.facts").stat().st_mode)[-3:] == "600"
    facts = FactsBesideLedger(Ledger(folder / "dpsql.ledger"))
    assert facts.known("a fact") and not facts.known("another")
    (folder / "dpsql.ledger.facts").write_bytes(b"a fact\n" + lines[1] + b"\xff\n\n")
    assert not facts.known("a fact") and not facts.known("")


# -- what the engine may open


def test_nothing_but_the_files_can_be_opened(folder: Path) -> None:
    copy("SELECT 1 AS x", folder / "visits/secret.txt")
    reader = opened(folder, POLICY.replace('"visits"', '"visits/year=2019"').replace('year = { type = "BIGINT", values = [2019, 2020] }\n', ""))
    file = folder / "visits/year=2019/0.parquet"
    assert reader.rows(f"SELECT COUNT(*) FROM '{file}'") == [(100,)]
    for text in (f"SELECT * FROM '{folder}/visits/year=2020/0.parquet'", f"SELECT * FROM '{folder}/visits/year=2019/*.parquet'",
                 f"SELECT * FROM '{folder}/visits/year=2019/../secret.txt'", f"SELECT * FROM read_text('{folder}/dpsql.toml')",
                 f"COPY (SELECT 1) TO '{folder}/new.parquet'", f"ATTACH '{folder}/new.duckdb'", f"SELECT * FROM glob('{folder}/*')",
                 "SET allowed_paths = ['/etc/passwd']", "SET memory_limit = '1GB'"):
        with pytest.raises(ReaderFault):
            reader.rows(text)
    reader.close()


def test_memory_is_what_the_policy_says(folder: Path) -> None:
    """A key is looked through, and rows are grouped, in less memory than they take."""
    copy("SELECT i AS id, i % 90 AS age FROM range(3000000) AS t(i) ORDER BY hash(i)", folder / "people.parquet")
    reader = opened(folder, POLICY.replace("[entities", '[store]\nmemory = "100MB"\n[entities', 1))
    assert reader.rows("SELECT current_setting('memory_limit')") == [("95.3 MiB",)]
    assert reader.rows("SELECT COUNT(*) FROM (SELECT id, SUM(age) AS s FROM people GROUP BY id)") == [(3_000_000,)]
    reader.close()


@pytest.mark.parametrize("size", ["lots", "4", "4 GB; SET x", "-1GB", "", "1KB", "63MB", "0GB"])
def test_memory_is_a_size(size: str, folder: Path) -> None:
    with pytest.raises(PolicyError, match="size of memory"):
        opened(folder, POLICY.replace("[entities", f'[store]\nmemory = "{size}"\n[entities', 1))


@pytest.mark.parametrize("asked_first", [True, False])
def test_a_public_file_that_changes_is_told_as_such(asked_first: bool, folder: Path) -> None:
    """Bounds rest on how many public rows agree, which was counted in the old file."""
    copy("SELECT i AS age, i // 10 AS decade FROM range(100) AS t(i)", folder / "ages.parquet")
    (folder / "dpsql.toml").write_text(POLICY + '[tables.ages]\npublic = true\nsource = "ages.parquet"\n[tables.ages.columns]\n'
                                       "age = {}\ndecade = {}\n", encoding="utf-8")
    text = "SELECT COUNT(*) FROM people JOIN ages USING (age)"
    with dpsql.connect(policy=folder / "dpsql.toml", analyst="ada", epsilon=1) as connection:
        if asked_first:
            connection.execute(text)
        copy("SELECT i % 10 AS age, i // 10 AS decade FROM range(100) AS t(i)", folder / "ages.parquet")
        for other in (text, f"EXPLAIN PRIVACY {text}", "SELECT SUM(decade) FROM people JOIN ages USING (age)", "SELECT * FROM ages"):
            with pytest.raises(OperationalError) as caught:
                connection.execute(other)
            assert caught.value.code == "data-changed", other


# -- beside a database


@pytest.fixture
def mixed(folder: Path) -> Path:
    """People in a database file, with views; visits in files."""
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE People (id BIGINT PRIMARY KEY, age BIGINT); INSERT INTO people SELECT i, i % 90 FROM range(100) AS t(i); "
                           "CREATE TABLE ages (age BIGINT, decade BIGINT); INSERT INTO ages SELECT i, i // 10 FROM range(100) AS t(i); "
                           "CREATE VIEW decades AS SELECT age, decade FROM ages; CREATE VIEW hidden AS SELECT age FROM people")
    text = POLICY.replace('source = "people.parquet"\n', "").replace("version = 1", 'version = 1\ndatabase = "people.duckdb"')
    (folder / "dpsql.toml").write_text(text + "[tables.decades]\npublic = true\n[tables.decades.columns]\nage = {}\ndecade = {}\n", encoding="utf-8")
    return folder


def test_tables_in_files_stand_beside_those_of_a_database(mixed: Path) -> None:
    reader = opened(mixed, (mixed / "dpsql.toml").read_text(encoding="utf-8"))
    schema = reader.schema()
    assert {name.lower() for name in schema} == {"people", "visits", "ages", "decades", "hidden"}
    assert schema["People"].unique == (frozenset({"id"}),) and schema["visits"].unique == () and dict(schema["visits"].columns)["year"] == "BIGINT"
    assert schema["decades"].view == {"ages"} and schema["decades"].fixed and schema["hidden"].view == {"people"}
    assert reader.rows('SELECT COUNT(*) FROM "visits" JOIN "People" USING (id) JOIN "decades" USING (age)') == [(300,)]
    reader.close()
    (answer,), = asked(mixed, "SELECT COUNT(*) FROM visits JOIN people USING (id) JOIN decades USING (age) WHERE decade < 9")
    assert isinstance(answer, int) and abs(answer - 300) < 20
    for text in (f"SELECT * FROM '{mixed}/people.parquet'", "DROP TABLE people", "INSERT INTO people VALUES (1000, 1)"):
        with pytest.raises(ReaderFault):
            opened(mixed, (mixed / "dpsql.toml").read_text(encoding="utf-8")).rows(text)


@pytest.mark.parametrize("made", ["CREATE TABLE Visits (id BIGINT)", "CREATE VIEW VISITS AS SELECT id FROM people"])
def test_no_name_stands_for_two_tables(made: str, mixed: Path) -> None:
    """A view of the database that reads visits would show the rows of the one or of the other, depending on what else a query names;
    and how many of its rows agree is counted by another query than the one that uses it."""
    with duckdb.connect(str(mixed / "people.duckdb")) as connection:
        connection.execute(made)
    with pytest.raises(OperationalError, match="the database has a table visits too") as caught:
        opened(mixed, (mixed / "dpsql.toml").read_text(encoding="utf-8"))
    assert caught.value.as_dict()["line"] == 12


def test_a_public_view_does_not_read_private_files_by_a_name_that_was_free(mixed: Path) -> None:
    with duckdb.connect(str(mixed / "people.duckdb")) as connection:
        connection.execute("DROP VIEW decades; CREATE TABLE visits (age BIGINT, decade BIGINT); "
                           "CREATE VIEW decades AS SELECT age, decade FROM visits; DROP TABLE visits")
    with pytest.raises(DatabaseError), dpsql.connect(policy=mixed / "dpsql.toml", analyst="ada", epsilon=1) as connection:
        connection.execute("SELECT COUNT(*) FROM decades")


def test_both_are_noticed_to_change(mixed: Path) -> None:
    text = (mixed / "dpsql.toml").read_text(encoding="utf-8")
    versions = [opened(mixed, text).version]
    copy("SELECT 5::BIGINT AS id, 5::BIGINT AS cost", mixed / "visits/year=2019/2.parquet")
    versions.append(opened(mixed, text).version)
    with duckdb.connect(str(mixed / "people.duckdb")) as connection:
        connection.execute("INSERT INTO people VALUES (1000, 5)")
    versions.append(opened(mixed, text).version)
    assert len(set(versions)) == 3


@pytest.mark.parametrize(("change", "told"), [
    (('"people.duckdb"', '"none.duckdb"'), "there is no database"),
    (("[tables.people]", "[tables.person]"), "person"), (('"people.duckdb"', '"broken.duckdb"'), "cannot be opened"),
    (('"people.duckdb"', '"own.duckdb"'), "defines round itself")])
def test_mistakes_in_both_are_told(change: tuple[str, str], told: str, mixed: Path) -> None:
    (mixed / "broken.duckdb").write_bytes(b"not one")
    with duckdb.connect(str(mixed / "own.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, age BIGINT); CREATE MACRO round(x) AS x * 100")
    with pytest.raises(DatabaseError, match=told):
        opened(mixed, (mixed / "dpsql.toml").read_text(encoding="utf-8").replace(*change)).schema()


def test_a_file_that_has_several_names_is_read_once(folder: Path) -> None:
    (folder / "visits/year=2020/2.parquet").hardlink_to(folder / "visits/year=2020/1.parquet")
    (folder / "visits/year=2020/3.parquet").symlink_to(folder / "visits/year=2020/1.parquet")
    (folder / "visits/round").symlink_to(folder / "visits")
    (folder / "visits/again").symlink_to(folder / "visits")
    for name in ("_temporary/0.parquet", ".hidden.parquet"):
        copy("SELECT 1::BIGINT AS id, 2::BIGINT AS cost", folder / "visits" / name)
    assert opened(folder).rows("SELECT COUNT(*) FROM visits") == [(300,)]
    assert opened(folder, POLICY.replace('"visits"', '"visits/**/*.parquet"')).rows("SELECT COUNT(*) FROM visits") == [(300,)]


# -- columns without any value


def written(target: Path, rows: str, *columns: str) -> None:
    """A file in which columns have no values, and no type, as writers of data frames make it."""
    target.parent.mkdir(exist_ok=True)
    table = duckdb.sql(rows).to_arrow_table()
    for column in columns:
        table = table.set_column(table.column_names.index(column), column, pyarrow.nulls(len(table)))
    pyarrow.parquet.write_table(table, target)


@pytest.mark.parametrize("name", ["0", "9"])
@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(10, 2)", "INTEGER"])
def test_a_file_may_have_a_column_without_any_value(name: str, kind: str, tmp_path: Path) -> None:
    for other, part in (("5", "1 AS id, CASE WHEN TRUE THEN NULL END"), ("7", "2 AS id, NULL")):
        written(tmp_path / "people" / f"{other}.parquet", f"SELECT {part}::{kind} AS x, 'a' AS t")
    written(tmp_path / "people" / f"{name}.parquet", f"SELECT 3 AS id, NULL::{kind} AS x, 'b' AS t", "x")
    with contextlib.closing(opened_files({"people": tmp_path / "people"})) as reader:
        types = dict(reader.schema()["people"].columns)
        assert types == {"id": "INTEGER", "x": kind.replace(" ", ""), "t": "VARCHAR"}
        assert reader.rows("SELECT id, x, t FROM people ORDER BY id") == [(1, None, "a"), (2, None, "a"), (3, None, "b")]


def test_values_are_those_of_the_file_that_has_them(tmp_path: Path) -> None:
    written(tmp_path / "0.parquet", "SELECT 1::BIGINT AS id, NULL::DOUBLE AS x, NULL::VARCHAR AS t", "x", "t")
    written(tmp_path / "1.parquet", "SELECT 2::BIGINT AS id, 0.5::DOUBLE AS x, 'a' AS t")
    written(tmp_path / "2.parquet", "SELECT 3::BIGINT AS id, 1.5::DOUBLE AS x, NULL::VARCHAR AS t", "t")
    with contextlib.closing(opened_files({"people": tmp_path / "*.parquet"})) as reader:
        assert reader.rows("SELECT id, x, t FROM people ORDER BY id") == [(1, None, None), (2, 0.5, "a"), (3, 1.5, None)]
        assert reader.rows("SELECT id FROM people WHERE x > 1 OR t = 'a' ORDER BY id") == [(2,), (3,)]


@pytest.mark.parametrize("other", ["SELECT 2::BIGINT AS id, 1::INTEGER AS x", "SELECT 2::BIGINT AS id", "SELECT 2::BIGINT AS id, 0.5::DOUBLE AS x, 1 AS y"])
def test_other_columns_are_refused_beside_such_a_file(other: str, tmp_path: Path) -> None:
    written(tmp_path / "0.parquet", "SELECT 1::BIGINT AS id, NULL::DOUBLE AS x", "x")
    written(tmp_path / "1.parquet", "SELECT 2::BIGINT AS id, 0.5::DOUBLE AS x")
    written(tmp_path / "2.parquet", "SELECT 2::BIGINT AS id, 0.5::DOUBLE AS x")
    written(tmp_path / "3.parquet", other)
    with pytest.raises(OperationalError, match=r"3.parquet has other columns"):
        opened_files({"people": tmp_path / "*.parquet"})


def test_files_without_a_model_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "0.parquet", "SELECT 1::BIGINT AS id, NULL::DOUBLE AS x, 1.5::DOUBLE AS y", "x")
    written(tmp_path / "1.parquet", "SELECT 1::BIGINT AS id, 1.5::DOUBLE AS x, NULL::DOUBLE AS y", "y")
    with pytest.raises(OperationalError, match="has other columns"):
        opened_files({"people": tmp_path / "*.parquet"})


def test_files_are_looked_for_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[str] = []
    listed = source_files._named
    monkeypatch.setattr(source_files, "_named", lambda table, source: (asked_for.append(table), listed(table, source))[1])
    (folder / "dpsql.toml").write_text(POLICY.replace("version = 1", 'version = 1\nuploads = ["."]'), encoding="utf-8")
    with dpsql.connect(policy=folder / "dpsql.toml", analyst="ada", epsilon=1) as connection:
        assert asked_for == ["people", "visits"]
        for closed in ("people.parquet", "visits/year=2019/0.parquet"):
            with pytest.raises(DatabaseError, match="or belongs to the policy"):
                connection.validate("SELECT COUNT(*) FROM people", synthetic=folder / closed, within="5 PERCENT")


def test_a_draft_lists_the_columns_in_the_names_of_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("kept/day=2020-01-02/kind=a/n=7", "kept/day=2020-02-03/kind=7/n=8/more=1"):
        copy("SELECT 1 AS id, 8 AS n", folder / path / "0.parquet")
    assert cli.main(["init", str(folder / "visits"), str(folder / "kept"), str(folder / "people.parquet"), "--to", str(folder / "draft.toml")]) == 0
    text = (folder / "draft.toml").read_text(encoding="utf-8")
    kept = read_policy(folder / "draft.toml").tables
    assert {name: column.type for name, column in kept["visits"].columns.items() if column.type} == {"year": "BIGINT"}, text
    assert {name: column.type for name, column in kept["kept"].columns.items()} == {"id": None, "n": None, "day": "DATE", "kind": "VARCHAR"}
    reader = open_reader(read_policy(folder / "draft.toml"), None)
    assert reader.rows("SELECT day, kind, n FROM kept ORDER BY day") == [(dt.date(2020, 1, 2), "a", 8), (dt.date(2020, 2, 3), "7", 8)]
    reader.close()


# -- DuckDB files as sources


@pytest.fixture
def several(folder: Path) -> Path:
    """Visits and public ages in one DuckDB file, people in another; logs in Parquet files."""
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE persons (id BIGINT, age BIGINT, twice BIGINT AS (age * 2)); "
                           "INSERT INTO persons SELECT i, i % 90 FROM range(100) AS t(i); INSERT INTO persons VALUES (NULL, 5)")
    with duckdb.connect(str(folder / "care.duckdb")) as connection:
        connection.execute("CREATE SCHEMA billing; CREATE TABLE billing.Visits (id BIGINT, Cost BIGINT, year BIGINT); "
                           "INSERT INTO billing.visits SELECT i % 100, i % 50, 2019 + i % 2 FROM range(300) AS t(i); "
                           "CREATE TABLE ages (age BIGINT, decade BIGINT); INSERT INTO ages SELECT i, i // 10 FROM range(100) AS t(i); "
                           "CREATE VIEW shown AS SELECT * FROM billing.visits")
    text = POLICY.replace('"people.parquet"', '"people.duckdb"\nrelation = "persons"').replace(
        'source = "visits"', 'source = "care.duckdb"\nrelation = "billing.visits"').replace('type = "BIGINT", ', "")
    logs = '[tables.logs]\nsource = "logs.parquet"\nforeign_keys = [{ columns = "id", references = "people(id)" }]\n[tables.logs.columns]\nid = {}\n'
    ages = '[tables.ages]\npublic = true\nsource = "care.duckdb"\nkey = "age"\n[tables.ages.columns]\nage = {}\ndecade = {}\n'
    copy("SELECT i % 10 AS id FROM range(100) AS t(i)", folder / "logs.parquet")
    (folder / "dpsql.toml").write_text(text + logs + ages, encoding="utf-8")
    return folder


def policy_in(folder: Path) -> str:
    return (folder / "dpsql.toml").read_text(encoding="utf-8")


def test_tables_may_be_in_several_duckdb_files(several: Path) -> None:
    reader = opened(several, policy_in(several))
    schema = reader.schema()
    assert schema.keys() == {"people", "visits", "logs", "ages"} and all(table.view is None and table.fixed for table in schema.values())
    assert schema["people"].unique == (frozenset({"id"}),) and dict(schema["people"].columns) == {"id": "BIGINT", "age": "BIGINT"}
    assert reader.rows('SELECT COUNT(*) FROM "visits" JOIN "people" USING (id) JOIN "ages" USING (age)') == [(300,)]
    assert reader.rows('SELECT COUNT(*) FROM "logs" JOIN "people" USING (id)') == [(100,)]
    with duckdb.connect(str(several / "other.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id BIGINT)")
    for text in (f"ATTACH '{several}/other.duckdb' AS more (READ_ONLY)", f"SELECT * FROM read_blob('{several}/other.duckdb')",
                 f"ATTACH '{several}/care.duckdb' AS more",
                 'INSERT INTO "database of a source 0".persons VALUES (1000, 1)', f"SELECT * FROM '{several}/people.parquet'"):
        with pytest.raises(ReaderFault):
            reader.rows(text)
    reader.close()
    (answer,), = asked(several, "SELECT COUNT(*) FROM visits JOIN people USING (id) JOIN ages USING (age) WHERE decade < 9")
    assert isinstance(answer, int) and abs(answer - 300) < 20


def test_a_database_beside_them(several: Path) -> None:
    text = policy_in(several).replace('source = "people.duckdb"\nrelation = "persons"', "").replace(
        "version = 1", 'version = 1\ndatabase = "main.duckdb"')
    with duckdb.connect(str(several / "main.duckdb")) as connection:
        connection.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, age BIGINT); INSERT INTO people SELECT i, i FROM range(50) AS t(i)")
    assert opened(several, text).rows('SELECT COUNT(*) FROM "visits" JOIN "people" USING (id)') == [(150,)]


@pytest.mark.parametrize("how", ["write", "log", "replace"])
def test_duckdb_files_that_change_are_another_version(how: str, several: Path) -> None:
    path = several / "care.duckdb"
    with dpsql.connect(policy=several / "dpsql.toml", analyst="ada", epsilon=1) as connection:
        before = opened(several, policy_in(several))
        version = before.version
        if how == "replace":  # the engine holds the file that it has opened, so that no other process writes to it
            (several / "new.duckdb").write_bytes(path.read_bytes())
            (several / "new.duckdb").replace(path)
            with pytest.raises(OperationalError) as caught:
                connection.execute("SELECT COUNT(*) FROM logs")
            assert caught.value.code == "data-changed"
            with pytest.raises(ReaderFault):
                before.rows("SELECT COUNT(*) FROM logs")
        before.close()
    if how != "replace":
        with duckdb.connect(str(path)) as made:
            made.execute("PRAGMA disable_checkpoint_on_shutdown; " * (how == "log") + "INSERT INTO billing.visits VALUES (1, 1, 2019)")
    after = opened(several, policy_in(several))
    assert path.with_name("care.duckdb.wal").exists() is (how == "log") and after.version != version
    assert after.rows("SELECT COUNT(*) FROM visits") == [(300 + (how != "replace"),)]


def test_keys_of_duckdb_files_are_verified_once(several: Path) -> None:
    for known in (0, 4):
        facts = Counting(Ledger(several / "dpsql.ledger"))
        open_reader(read_policy(several / "dpsql.toml"), None, facts).close()
        assert facts.found == known
    with duckdb.connect(str(several / "people.duckdb")) as made:
        made.execute("INSERT INTO persons VALUES (7, 1)")
    with pytest.raises(IntegrityError, match="share the declared key") as caught:
        opened(several, policy_in(several))
    assert caught.value.as_dict()["line"] == 6


@pytest.mark.parametrize(("change", "told", "line"), [
    (('"people.duckdb"', '"none.duckdb"'), "there is no file", 7), (('"people.duckdb"', '"broken.db"'), "cannot be opened as a DuckDB", 7),
    (('"people.duckdb"', '"own.duckdb"'), "defines round itself", 7), (('"persons"', '"nobody"'), "has no table main.nobody", 8),
    (('"billing.visits"', '"shown"'), "or a view of that name", 14), (('"billing.visits"', '"a.b.visits"'), "relation is for tables of databases", 14),
    (('source = "care.duckdb"\nrelation = "billing.visits"', 'source = "care.duckdb"\nfilter = "cost > 1"'), "filter is for tables of databases", 14),
    (('relation = "persons"', 'relation = "persons"\nkey_ = 1'), "unknown", 9), (("age = { b", 'age = { type = "BIGINT", b'), "need types", 11),
    (("age = { b", "twice = {}\nage = { b"), "no column twice", 11)])
def test_mistakes_about_duckdb_files_are_told_at_their_line(change: tuple[str, str], told: str, line: int, several: Path) -> None:
    (several / "broken.db").write_bytes(b"SQLite format 3\x00 not one of DuckDB")
    with duckdb.connect(str(several / "own.duckdb")) as connection:
        connection.execute("CREATE TABLE persons (id BIGINT, age BIGINT); CREATE MACRO round(x) AS x * 100")
    assert change[0] in policy_in(several)
    (several / "dpsql.toml").write_text(policy_in(several).replace(*change), encoding="utf-8")
    with pytest.raises(DatabaseError, match=told) as caught:
        asked(several, "SELECT COUNT(*) FROM people")
    assert caught.value.as_dict()["line"] == line


@pytest.mark.parametrize("relation", ["billing.visits", "BILLING.Visits", '"billing"."VISITS"'])
def test_a_public_table_is_no_private_one_of_the_same_file(relation: str, several: Path) -> None:
    text = policy_in(several).replace('key = "age"\n[tables.ages.columns]\nage = {}\ndecade = {}', "relation = '" + relation + "'\n[tables.ages.columns]\ncost = {}")
    (several / "link.duckdb").symlink_to(several / "care.duckdb")
    for name in ("care.duckdb", "link.duckdb"):
        with pytest.raises(OperationalError, match="has the file of visits, which is private"):
            opened(several, text.replace('public = true\nsource = "care.duckdb"', f'public = true\nsource = "{name}"'))
