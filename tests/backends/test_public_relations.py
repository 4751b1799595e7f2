"""Public relations of another database that show private rows, by whatever way, are refused; those that do not are read.

They are real relations of PostgreSQL and SQLite, which would show the rows: each is read once without the check.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.deletions import Source

from dpsql.backends import snapshots
from dpsql.errors import OperationalError

POLICY = """\
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {{}}
age = {{}}
[tables.shown]
public = true
relation = '{relation}'
[tables.shown.columns]
{column} = {{ type = "{type}" }}
[budgets.main]
entity = "person"
epsilon = 100
"""
MADE = ("CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER)", "CREATE TABLE plans (plan TEXT, price INTEGER)",
        "INSERT INTO people VALUES (1, 41), (2, 42), (3, 43)", "INSERT INTO plans VALUES ('a', 1), ('b', 42)")
READS_PEOPLE, UNKNOWN = "shows rows of people, which is private", "may show private data"


def source(kind: str, folder: Path, statements: Sequence[str], relation: str = "shown", column: str = "n", type: str = "VARCHAR") -> Source:
    made = Source(kind, folder, *MADE, *statements)
    made.declare(POLICY.format(relation=relation, column=column, type=type))
    return made


FUNCTION = "CREATE FUNCTION told() RETURNS TABLE (n integer) LANGUAGE {} STABLE AS $$ {} $$"
VIEWS = {  # that show private rows, in PostgreSQL: what is made, and what is told
    "a view": (["CREATE VIEW shown AS SELECT age AS n FROM people"], READS_PEOPLE),
    "a count": (["CREATE VIEW shown AS SELECT COUNT(*) AS n FROM people"], READS_PEOPLE),
    "a view of a view of a view": (["CREATE VIEW a AS SELECT * FROM people", "CREATE VIEW b AS SELECT age FROM a", "CREATE VIEW shown AS SELECT age AS n FROM b"], READS_PEOPLE),
    "a subquery": (["CREATE VIEW shown AS SELECT plan AS n FROM plans WHERE price IN (SELECT age FROM people)"], READS_PEOPLE),
    "EXISTS": (["CREATE VIEW shown AS SELECT plan AS n FROM plans WHERE EXISTS (SELECT FROM people WHERE id = 2)"], READS_PEOPLE),
    "LATERAL": (["CREATE VIEW shown AS SELECT l.age AS n FROM plans, LATERAL (SELECT age FROM people WHERE age = price) l"], READS_PEOPLE),
    "WITH": (["CREATE VIEW shown AS WITH plans AS (SELECT age FROM people) SELECT age AS n FROM plans"], READS_PEOPLE),
    "WITH RECURSIVE": (["CREATE VIEW shown AS WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT age FROM r, people) SELECT n FROM r"], READS_PEOPLE),
    "UNION": (["CREATE VIEW shown AS SELECT price AS n FROM plans UNION ALL SELECT age FROM people"], READS_PEOPLE),
    "a scalar in LIMIT": (["CREATE VIEW shown AS SELECT plan AS n FROM plans LIMIT (SELECT COUNT(*) FROM people)"], READS_PEOPLE),
    "another schema": (["CREATE SCHEMA away", "CREATE VIEW away.people AS SELECT age FROM public.people", "CREATE VIEW shown AS SELECT age AS n FROM away.people"], READS_PEOPLE),
    "a materialized view": (["CREATE MATERIALIZED VIEW shown AS SELECT age AS n FROM people"], READS_PEOPLE),
    "a view of a materialized view": (["CREATE MATERIALIZED VIEW m AS SELECT age FROM people", "CREATE VIEW shown AS SELECT age AS n FROM m"], READS_PEOPLE),
    "a rule": (["CREATE VIEW shown AS SELECT price AS n FROM plans", "CREATE OR REPLACE RULE \"_RETURN\" AS ON SELECT TO shown DO INSTEAD SELECT age AS n FROM people"], READS_PEOPLE),
    "a parent of the private table": (["CREATE TABLE shown (n INTEGER)", "CREATE TABLE kin (age INTEGER) INHERITS (shown)", "ALTER TABLE people ADD COLUMN n INTEGER",
                                       "UPDATE people SET n = age", "ALTER TABLE people INHERIT shown"], READS_PEOPLE),
    "a child of the private table": (["CREATE TABLE shown (n INTEGER) INHERITS (people)", "INSERT INTO shown VALUES (9, 9, 9)"], "shows rows of people"),
    "a partition of the private table": (["DROP TABLE people", "CREATE TABLE people (id INTEGER, age INTEGER, n INTEGER) PARTITION BY LIST (age)",
                                          "CREATE TABLE shown PARTITION OF people FOR VALUES IN (41)", "INSERT INTO people VALUES (1, 41, 5)"], "shows rows of people"),
    "a view of a partition": (["DROP TABLE people", "CREATE TABLE people (id INTEGER, age INTEGER) PARTITION BY LIST (age)", "CREATE TABLE part PARTITION OF people FOR VALUES IN (41)",
                               "INSERT INTO people VALUES (1, 41)", "CREATE VIEW shown AS SELECT age AS n FROM part"], READS_PEOPLE),
    "a function in SQL": ([FUNCTION.format("sql", "SELECT age FROM people"), "CREATE VIEW shown AS SELECT n FROM told()"], UNKNOWN),
    "a function in SQL with a body": (["CREATE FUNCTION told() RETURNS integer LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT MAX(age) FROM people; END", "CREATE VIEW shown AS SELECT told() AS n"], UNKNOWN),
    "a function in PL/pgSQL": ([FUNCTION.format("plpgsql", "BEGIN RETURN QUERY EXECUTE 'SELECT age FROM peo' || 'ple'; END"), "CREATE VIEW shown AS SELECT n FROM told()"], UNKNOWN),
    "a function that says it is immutable": (["CREATE FUNCTION told(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT MAX(age) FROM people WHERE age > $1'",
                                              "CREATE VIEW shown AS SELECT told(price) AS n FROM plans"], UNKNOWN),
    "an operator": (["CREATE FUNCTION told(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 IN (SELECT age FROM people)'",
                     "CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = told)", "CREATE VIEW shown AS SELECT plan AS n FROM plans WHERE price === 1"], UNKNOWN),
    "a cast": (["CREATE TYPE held AS (x integer)", "CREATE FUNCTION told(held) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT MAX(age)::text FROM people'",
                "CREATE CAST (held AS text) WITH FUNCTION told(held)", "CREATE VIEW shown AS SELECT CAST(ROW(1)::held AS text) AS n"], UNKNOWN),
    "an aggregate": (["CREATE FUNCTION told(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT MAX(age) FROM people'",
                      "CREATE AGGREGATE told(integer) (SFUNC = told, STYPE = integer, INITCOND = '0')", "CREATE VIEW shown AS SELECT told(price) AS n FROM plans"], UNKNOWN),
    "a window function": (["CREATE FUNCTION told(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT MAX(age) FROM people'",
                           "CREATE AGGREGATE told(integer) (SFUNC = told, STYPE = integer, INITCOND = '0')", "CREATE VIEW shown AS SELECT told(price) OVER () AS n FROM plans"], UNKNOWN),
    "a domain": (["CREATE FUNCTION told(integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 <> ALL (SELECT age FROM people)'",
                  "CREATE DOMAIN aged AS integer CHECK (told(value))", "CREATE VIEW shown AS SELECT 7::aged AS n"], UNKNOWN),
    "a query in a text": (["CREATE VIEW shown AS SELECT query_to_xml('SELECT age FROM people', true, true, '')::text AS n"], UNKNOWN),
    "a table in a text": (["CREATE VIEW shown AS SELECT table_to_xml('people', true, true, '')::text AS n FROM plans"], UNKNOWN),
    "the size of a table": (["CREATE VIEW shown AS SELECT pg_relation_size('people') AS n"], UNKNOWN),
    "counters of a table": (["CREATE VIEW shown AS SELECT pg_stat_get_tuples_inserted('people'::regclass) AS n"], UNKNOWN),
    "a file of the server": (["CREATE VIEW shown AS SELECT pg_read_file('PG_VERSION') AS n"], UNKNOWN),
    "the catalog": (["ANALYZE people", "CREATE VIEW shown AS SELECT reltuples AS n FROM pg_class WHERE relname = 'people'"], UNKNOWN),
    "statistics": (["ANALYZE people", "CREATE VIEW shown AS SELECT histogram_bounds::text AS n FROM pg_stats WHERE tablename = 'people'"], UNKNOWN),
    "another user's setting": (["CREATE VIEW shown AS SELECT current_setting('work_mem') AS n"], UNKNOWN),
    "a sequence": (["CREATE SEQUENCE numbers", "SELECT nextval('numbers')", "CREATE VIEW shown AS SELECT last_value AS n FROM numbers"], UNKNOWN),
}


@pytest.mark.parametrize("name", VIEWS)
def test_public_views_of_private_rows_are_refused(name: str, tmp_path: Path) -> None:
    statements, told = VIEWS[name]
    made = source("postgresql", tmp_path, statements)
    with pytest.raises(OperationalError) as caught:
        made.refresh()
    fault = caught.value
    assert told in fault.reason and fault.code == "policy-schema" and "table" in fault.try_ and fault.as_dict()["line"] == 11


@pytest.mark.parametrize(("relation", "column"), [
    ("pg_catalog.pg_class", "reltuples"), ("pg_stats", "histogram_bounds"), ("information_schema.tables", "table_name"), ("pg_statistic", "stanullfrac"),
    ("numbers", "last_value"), ("pg_toast.{toast}", "chunk_data")])
def test_relations_of_the_server_itself_are_refused(relation: str, column: str, tmp_path: Path) -> None:
    """Its catalog counts rows and holds samples of them, and what is too long for a table is in another one."""
    made = source("postgresql", tmp_path, ["CREATE SEQUENCE numbers", "ALTER TABLE people ADD COLUMN note TEXT"])
    if "{" in relation:
        with made_text(made) as asked:
            relation = relation.format(toast=asked("SELECT relname::text FROM pg_class WHERE oid = (SELECT reltoastrelid FROM pg_class WHERE relname = 'people')"))
    made.declare(POLICY.format(relation=relation, column=column, type="VARCHAR"))
    with pytest.raises(OperationalError, match=UNKNOWN):
        made.refresh()


@contextlib.contextmanager
def made_text(made: Source):  # type: ignore[no-untyped-def]
    from dpsql.backends.drivers import opened

    with opened(made.uri, None, "") as source:
        yield lambda sql: source.rows(sql)[0][0]


def test_a_cast_of_the_owners_is_not_called(tmp_path: Path) -> None:
    """A table whose rows are its own would show others by what a cast to text, by which they were read, looks at."""
    made = source("postgresql", tmp_path, [
        "CREATE TYPE held AS (x integer)", "CREATE FUNCTION told(held) RETURNS text LANGUAGE sql STABLE AS 'SELECT MAX(age)::text FROM people'",
        "CREATE CAST (held AS text) WITH FUNCTION told(held)", "CREATE TABLE shown (n held, m numeric, i inet)",
        "INSERT INTO shown VALUES (ROW(1), 1.50, '10.0.0.1'), (NULL, NULL, NULL), (ROW(NULL), 2, '10.0.0.0/8')"])
    made.declare(POLICY.format(relation="shown", column="n", type="VARCHAR").replace("[budgets", 'm = { type = "DOUBLE" }\ni = { type = "VARCHAR" }\n[budgets'))
    with made.opened() as reader:
        assert sorted(map(str, reader.rows("SELECT n, m, i FROM shown"))) == [
            "('()', 2.0, '10.0.0.0/8')", "('(1)', 1.5, '10.0.0.1/32')", "(None, None, None)"]


FINE = {
    "a view of a public table": ["CREATE VIEW shown AS SELECT plan AS n FROM plans WHERE price > 0"],
    "a view that groups": ["CREATE VIEW shown AS SELECT UPPER(plan) AS n, COUNT(*), MAX(price) + 1 AS m FROM plans GROUP BY plan ORDER BY 1 LIMIT 5"],
    "a materialized view": ["CREATE MATERIALIZED VIEW shown AS SELECT DISTINCT plan AS n FROM plans"],
    "values": ["CREATE VIEW shown AS SELECT i AS n FROM generate_series(1, 5) AS t(i)"],
    "a partitioned table": ["CREATE TABLE shown (n INTEGER) PARTITION BY LIST (n)", "CREATE TABLE part PARTITION OF shown FOR VALUES IN (1)", "INSERT INTO shown VALUES (1)"],
    "a view that names a private table": ["CREATE VIEW shown AS WITH people AS (SELECT plan FROM plans) SELECT plan || ' :relid 1 people' AS n FROM people"],
    "a table that references it": ["CREATE TABLE shown (n INTEGER REFERENCES people)", "INSERT INTO shown VALUES (1)"],
}


@pytest.mark.parametrize("name", FINE)
def test_public_relations_without_private_rows_are_read(name: str, tmp_path: Path) -> None:
    made = source("postgresql", tmp_path, FINE[name])
    with made.opened() as reader:
        assert reader.rows("SELECT COUNT(n) > 0 FROM shown") == [(True,)]


def test_a_foreign_table_may_be_a_private_one(tmp_path: Path) -> None:
    made = source("postgresql", tmp_path, [])
    try:
        made.run("CREATE EXTENSION postgres_fdw")
    except Exception:
        pytest.skip("this server has no postgres_fdw")
    made.run("CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw", "CREATE FOREIGN TABLE far (n int) SERVER self", "CREATE VIEW shown AS SELECT n FROM far",
             "CREATE TABLE parts (n int) PARTITION BY LIST (n)", "CREATE FOREIGN TABLE part PARTITION OF parts FOR VALUES IN (1) SERVER self")
    for relation in ("shown", "far", "parts"):
        made.declare(POLICY.format(relation=relation, column="n", type="VARCHAR"))
        with pytest.raises(OperationalError, match=UNKNOWN):
            made.refresh()


# -- SQLite

IN_SQLITE = {
    "a view": (["CREATE VIEW shown AS SELECT age AS n FROM people"], READS_PEOPLE),
    "a count": (["CREATE VIEW shown AS SELECT COUNT(*) AS n FROM people"], READS_PEOPLE),
    "a view of a view of a view": (["CREATE VIEW a AS SELECT * FROM people", "CREATE VIEW b AS SELECT age FROM a", "CREATE VIEW shown AS SELECT age AS n FROM b"], READS_PEOPLE),
    "views before what they read": (["CREATE VIEW shown AS SELECT age AS n FROM later", "CREATE VIEW later AS SELECT age FROM PEOPLE"], READS_PEOPLE),
    "IN and a table": (["CREATE TABLE ages AS SELECT age FROM people", "DROP TABLE people", "CREATE TABLE people (id INTEGER)", "ALTER TABLE people ADD COLUMN age INTEGER",
                        "CREATE VIEW ids AS SELECT id FROM people", "CREATE VIEW shown AS SELECT plan AS n FROM plans WHERE price NOT IN ids"], READS_PEOPLE),
    "a table in quotes": (["CREATE VIEW shown AS SELECT COUNT(*) AS n FROM 'people'"], READS_PEOPLE),
    "a table in brackets": (["CREATE VIEW shown AS SELECT COUNT(*) AS n FROM [main].[PeOpLe] -- plans"], READS_PEOPLE),
    "WITH": (["CREATE VIEW shown AS WITH plans AS (SELECT age FROM people) SELECT age AS n FROM plans"], READS_PEOPLE),
    "EXISTS": (["CREATE VIEW shown AS SELECT plan AS n FROM plans WHERE EXISTS (SELECT 1 FROM people)"], READS_PEOPLE),
    "a scalar in ORDER BY": (["CREATE VIEW shown AS SELECT plan AS n FROM plans ORDER BY (SELECT MAX(age) FROM people) LIMIT (SELECT COUNT(*) FROM people)"], READS_PEOPLE),
    "a join that adds nothing": (["CREATE VIEW shown AS SELECT plan AS n FROM plans LEFT JOIN people ON id = price"], READS_PEOPLE),
    "UNION": (["CREATE VIEW shown AS SELECT plan AS n FROM plans UNION SELECT age FROM people"], READS_PEOPLE),
    "a window": (["CREATE VIEW shown AS SELECT SUM(age) OVER () AS n FROM people"], READS_PEOPLE),
    "a function of a table": (["CREATE VIEW shown AS SELECT j.value AS n FROM plans, json_each('[1, 2]') AS j"], UNKNOWN),
    "the catalog": (["CREATE VIEW shown AS SELECT name AS n FROM sqlite_master"], UNKNOWN),
    "a pragma": (["CREATE VIEW shown AS SELECT name AS n FROM pragma_table_info('people')"], UNKNOWN),
    "statistics": (["ANALYZE", "CREATE VIEW shown AS SELECT stat AS n FROM sqlite_stat1"], UNKNOWN),
    "an index of texts": (["CREATE VIRTUAL TABLE shown USING fts5(n)", "INSERT INTO shown SELECT age FROM people"], UNKNOWN),
    "a view of an index of texts": (["CREATE VIRTUAL TABLE texts USING fts5(n)", "INSERT INTO texts SELECT age FROM people", "CREATE VIEW shown AS SELECT n FROM texts"], UNKNOWN),
}


@pytest.mark.parametrize("name", IN_SQLITE)
def test_public_views_of_private_rows_are_refused_in_sqlite(name: str, tmp_path: Path) -> None:
    statements, told = IN_SQLITE[name]
    made = source("sqlite", tmp_path, statements)
    with pytest.raises(OperationalError) as caught:
        made.refresh()
    fault = caught.value
    assert told in fault.reason and fault.code == "policy-schema" and fault.as_dict()["line"] == 11


@pytest.mark.parametrize(("relation", "column"), [("sqlite_stat1", "stat"), ("sqlite_sequence", "seq"), ("texts_content", "c0"), ("texts_data", "id")])
def test_tables_that_sqlite_fills_are_refused(relation: str, column: str, tmp_path: Path) -> None:
    made = source("sqlite", tmp_path, ["CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO counted SELECT id FROM people", "ANALYZE",
                                       "CREATE VIRTUAL TABLE texts USING fts5(n)", "INSERT INTO texts SELECT age FROM people"], relation, column)
    with pytest.raises(OperationalError, match=UNKNOWN):
        made.refresh()


def test_a_private_table_is_no_virtual_one(tmp_path: Path) -> None:
    made = source("sqlite", tmp_path, ["DROP TABLE people", "CREATE VIRTUAL TABLE people USING fts5(id, age)", "CREATE TABLE shown (n INTEGER)"])
    with pytest.raises(OperationalError, match="it is unknown whose rows these are"):
        made.refresh()


FINE_IN_SQLITE = {
    "a view of a public table": ["CREATE VIEW shown AS SELECT UPPER(plan) AS n, COUNT(*) OVER () AS m FROM plans WHERE price IN (SELECT price FROM plans)"],
    "a view that names a private table": ["CREATE VIEW shown AS WITH people AS (SELECT plan FROM plans) SELECT plan AS n FROM people"],
    "values": ["CREATE VIEW shown AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r"],
    "names that differ in an accent's case": ['CREATE TABLE "É" (n INTEGER)', 'CREATE VIEW "é" AS SELECT 1 AS n', 'CREATE VIEW shown AS SELECT n FROM "é"'],
}


@pytest.mark.parametrize("name", FINE_IN_SQLITE)
def test_public_relations_without_private_rows_are_read_in_sqlite(name: str, tmp_path: Path) -> None:
    made = source("sqlite", tmp_path, FINE_IN_SQLITE[name])
    with made.opened() as reader:
        assert reader.rows("SELECT COUNT(n) > 0 FROM shown") == [(True,)]


def test_names_that_differ_in_an_accents_case_are_two(tmp_path: Path) -> None:
    """SQLite folds the letters of ASCII alone: a view `é` is not the table `É`, and is looked through."""
    made = source("sqlite", tmp_path, ['CREATE VIEW "é" AS SELECT age AS n FROM people', 'CREATE TABLE "É" (n INTEGER)'], "é")
    with pytest.raises(OperationalError, match=READS_PEOPLE):
        made.refresh()


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_without_the_check_the_private_rows_would_be_shown(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = source(kind, tmp_path, ["CREATE VIEW a AS SELECT age FROM people", "CREATE VIEW shown AS SELECT MAX(age) AS n FROM a"])
    monkeypatch.setattr(snapshots, "_check_public", lambda seen: None)
    with made.opened() as reader:
        assert reader.rows("SELECT n FROM shown") == [("43",)]


# -- DuckDB files that are named twice

IN_DUCKDB = """\
version = 1
database = "people.duckdb"
[entities.person]
table = "hidden"
key = "id"
[tables.hidden]
{hidden}
[tables.hidden.columns]
id = {{}}
[tables.shown]
public = true
{shown}
[tables.shown.columns]
age = {{}}
[budgets.main]
entity = "person"
epsilon = 1
"""


@pytest.mark.parametrize("file", ["people.duckdb", "./people.duckdb", "hard.duckdb", "soft.duckdb", "folder/../people.duckdb"])
@pytest.mark.parametrize(("hidden", "shown"), [("", 'relation = "hidden"'), ("", 'relation = "main.HIDDEN"'), ('relation = "hidden"', ""), ('relation = "hidden"', "view")])
def test_a_file_of_duckdb_is_not_named_twice(hidden: str, shown: str, file: str, tmp_path: Path) -> None:
    """Its private table, or a view over it, would be a public one of another name."""
    import duckdb

    from dpsql.catalog.policy import read_policy
    from dpsql.engine.opening import open_reader

    with contextlib.closing(duckdb.connect(str(tmp_path / "people.duckdb"))) as connection:
        connection.execute("CREATE TABLE hidden (id INTEGER PRIMARY KEY, age INTEGER)")
        connection.execute(f"CREATE {'VIEW' if shown == 'view' else 'TABLE'} shown AS FROM hidden")
    (tmp_path / "folder").mkdir()
    (tmp_path / "soft.duckdb").symlink_to("people.duckdb")
    (tmp_path / "hard.duckdb").hardlink_to(tmp_path / "people.duckdb")
    source = f'source = "{file}"\n'
    text = IN_DUCKDB.format(hidden=source + hidden if hidden else "", shown="" if hidden else source + shown)
    (tmp_path / "dpsql.toml").write_text(text, encoding="utf-8")
    with pytest.raises(OperationalError, match="is the database of other tables") as caught:
        open_reader(read_policy(tmp_path / "dpsql.toml"), None)
    assert caught.value.as_dict()["line"]
    both = IN_DUCKDB.format(hidden=f'{source}relation = "hidden"', shown='source = "people.duckdb"\nrelation = "hidden"')
    (tmp_path / "dpsql.toml").write_text(both, encoding="utf-8")
    with pytest.raises(OperationalError, match="has the file of hidden"):
        open_reader(read_policy(tmp_path / "dpsql.toml"), None)
