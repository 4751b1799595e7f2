"""Keys that link rows to entities: what the source deletes with a person moves no more than was claimed, or the key is refused.

PostgreSQL and SQLite themselves delete, along foreign keys with ON DELETE CASCADE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.deletions import Source
from support.postgres import Postgres, fresh

from dpsql import cli
from dpsql.backends import snapshots
from dpsql.backends.dialects import BIGQUERY, DIALECTS, PLAIN, POSTGRES, SNOWFLAKE, SQLITE, Dialect
from dpsql.catalog.foreign_keys import tying_columns
from dpsql.catalog.policy import parse_policy, read_policy
from dpsql.errors import DatabaseError, OperationalError

POLICY = """\
[entities.person]
table = "people"
key = "name"
[tables.people]
key = "name"
[tables.people.columns]
name = {people}
[tables.visits]
foreign_keys = [{{ columns = "name", references = "people(name)" }}]
rows_per_entity = 1
[tables.visits.columns]
name = {visits}
cost = {{ bounds = [0, 100] }}
[budgets.main]
entity = "person"
epsilon = 100
"""
ICU = "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
WIDE = "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
CITEXT = "CREATE EXTENSION citext"
MOOD = "CREATE TYPE mood AS ENUM ('sad', 'glad', 'Sad')"
CASES = tuple("".join(letter.upper() if bits >> i & 1 else letter for i, letter in enumerate("annals")) for bits in range(64))


def source(kind: str, folder: Path, of: str, values: Sequence[str], *before: str, child: str = "", column: str = "{}",
           visits: str = "") -> Source:
    """A person under the first value, who has a visit under each of them, and nine others without visits where the key is text."""
    made = Source(kind, folder, *before, f"CREATE TABLE people (name {of} PRIMARY KEY)",
                  f"CREATE TABLE visits (name {child or of} REFERENCES people ON DELETE CASCADE, cost INTEGER)",
                  f"INSERT INTO people VALUES ({values[0]})",
                  *(f"INSERT INTO visits VALUES ({value}, 1)" for value in values))
    made.declare(POLICY.format(people=column, visits=visits or column))
    return made


def fault_of(wrong: Callable[[], Any]) -> DatabaseError:
    with pytest.raises(OperationalError) as caught:
        wrong()
    assert caught.value.code == "key-equality", caught.value.reason
    assert caught.value.try_ and caught.value.as_dict()["line"]
    return caught.value


def texts(*values: str) -> tuple[str, ...]:
    return tuple(f"'{value}'" for value in values)


# -- keys under whose one value there are several names

DECLARED = '{{ type = "{}" }}'
REFUSED = {
    # of PostgreSQL: the type, spellings of one value, what has to be made before, the declaration
    "icu": ("postgresql", "text COLLATE folded", texts(*CASES), (ICU,), "{}", "its collation folded"),
    "icu without accents": ("postgresql", "varchar(20) COLLATE alike", texts("zoe", "zoé", "ZOË"), (WIDE,), "{}", "its collation alike"),
    "icu of a char(n)": ("postgresql", "char(6) COLLATE folded", texts("ann", "ANN"), (ICU,), "{}", "its collation folded"),
    "icu of a domain": ("postgresql", "named", texts("ann", "ANN"), (ICU, "CREATE DOMAIN named AS text COLLATE folded"), "{}", "its collation folded"),
    "icu of a domain of a domain": ("postgresql", "called", texts("ann", "ANN"), (
        ICU, "CREATE DOMAIN named AS text COLLATE folded", "CREATE DOMAIN called AS named"), "{}", "its collation folded"),
    "citext": ("postgresql", "citext", texts(*CASES), (CITEXT,), DECLARED.format("VARCHAR"), "type in the database is citext"),
    "a domain of citext": ("postgresql", "named", texts("ann", "ANN"), (CITEXT, "CREATE DOMAIN named AS citext"), DECLARED.format("VARCHAR"), "is citext"),
    "numeric": ("postgresql", "numeric", ("1", "1.0", "1.00", "1.000"), (), DECLARED.format("VARCHAR"), "is numeric"),
    "a domain of numeric": ("postgresql", "amount", ("1", "1.0"), ("CREATE DOMAIN amount AS numeric",), DECLARED.format("VARCHAR"), "is numeric"),
    "double": ("postgresql", "double precision", ("'0.0'", "'-0.0'"), (), DECLARED.format("VARCHAR"), "is double precision"),
    "real": ("postgresql", "real", ("'0.0'", "'-0.0'"), (), DECLARED.format("VARCHAR"), "is real"),
    "interval": ("postgresql", "interval", texts("1 day", "24 hours", "1440 minutes"), (), DECLARED.format("VARCHAR"), "is interval"),
    "jsonb": ("postgresql", "jsonb", texts("1", "1.0", "1.00"), (), DECLARED.format("VARCHAR"), "is jsonb"),
    "a range": ("postgresql", "numrange", texts("[1,2)", "[1.0,2.0)"), (), DECLARED.format("VARCHAR"), "is numrange"),
    "a list": ("postgresql", "numeric[]", texts("{1}", "{1.0}"), (), DECLARED.format("VARCHAR"), r"is numeric[]"),
    "a row": ("postgresql", "pair", texts("(1,2)", "(1.0,2)"), ("CREATE TYPE pair AS (a numeric, b numeric)",), DECLARED.format("VARCHAR"), "is pair"),
    "a domain of a list": ("postgresql", "floats", texts("{0.0}", "{-0.0}"), ("CREATE DOMAIN floats AS float8[]",), DECLARED.format("VARCHAR"), "is double precision[]"),
    # of SQLite
    "nocase": ("sqlite", "TEXT COLLATE NOCASE", texts(*CASES), (), "{}", "its collation NOCASE"),
    "nocase, spelled oddly": ("sqlite", "[VARCHAR](9) /* , */ collate/**/\"nocase\" NOT NULL", texts("ann", "ANN"), (), "{}", "its collation nocase"),
    "nocase declared otherwise": ("sqlite", "CLOB COLLATE NOCASE", texts("ann", "ANN"), (), DECLARED.format("VARCHAR"), "its collation NOCASE"),
    "rtrim": ("sqlite", "TEXT COLLATE RTRIM", texts("ann", "ann ", "ann  "), (), "{}", "its collation RTRIM"),
    "text that becomes numbers": ("sqlite", "STRING", ("'1'", "'1.0'", "1", "'01'", "'1e0'"), (), DECLARED.format("VARCHAR"), "is STRING"),
    "decimals": ("sqlite", "DECIMAL(10,5)", ("'1.5'", "1.50", "'1.500'"), (), DECLARED.format("VARCHAR"), "is DECIMAL(10,5)"),
    "whole numbers as text": ("sqlite", "INTEGER", ("1",), (), DECLARED.format("VARCHAR"), "is INTEGER"),
    "no type": ("sqlite", "", ("1", "1.0"), (), DECLARED.format("VARCHAR"), "is unnamed"),
    "days": ("sqlite", "REAL", ("0.0", "-0.0"), (), DECLARED.format("VARCHAR"), "is REAL"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_key_with_several_names_for_one_value_is_refused(name: str, tmp_path: Path) -> None:
    kind, of, values, before, column, told = REFUSED[name]
    made = source(kind, tmp_path, of, values, *before, column=column)
    fault = fault_of(made.refresh)
    assert told in fault.reason and fault.reason.startswith("people.name links rows to entities")
    assert "name = " in (fault.text or "").splitlines()[fault.as_dict()["line"] - 1]


@pytest.mark.parametrize("name", ["icu", "citext", "numeric", "interval", "jsonb", "nocase", "rtrim"])
def test_such_a_key_would_break_the_promise(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused is worth refusing: without the check, the source deletes more with one person than was claimed."""
    kind, of, values, before, column, _ = REFUSED[name]
    made = source(kind, tmp_path, of, values, *before, column=column)
    monkeypatch.setattr(snapshots, "check_key", lambda *given: None)
    monkeypatch.setattr(snapshots, "check_pairs", lambda *given: None)
    statement = "SELECT COUNT(*) FROM visits"
    (everybody, claimed), _ = made.total(statement), made.run("DELETE FROM people")
    (nobody, _) = made.total(statement)
    assert claimed == 1 and everybody - nobody > claimed


# -- keys that are compared as what is read of them

KEPT = {
    # kind, type, spellings of one value, what has to be made before, the declaration
    "text": ("postgresql", "text", texts("ann", "ann"), (), "{}"),
    "a uniform collation": ("postgresql", 'text COLLATE "und-x-icu"', texts("ann", "ann"), (), "{}"),
    "padded": ("postgresql", "char(8)", texts("ann", "ann ", "ann   "), (), "{}"),
    "names": ("postgresql", "name", texts("ann", "ann"), (), "{}"),
    "a domain of a domain": ("postgresql", "called", texts("ann", "ann"), (
        "CREATE DOMAIN named AS varchar(20)", "CREATE DOMAIN called AS named CHECK (value <> '')"), "{}"),
    "whole numbers": ("postgresql", "bigint", ("1", "1"), (), "{}"),
    "whole numbers as text": ("postgresql", "integer", ("1", "'01'"), (), DECLARED.format("VARCHAR")),
    "numeric as whole numbers": ("postgresql", "numeric", ("1", "1.0", "1.00"), (), DECLARED.format("BIGINT")),
    "numeric with digits": ("postgresql", "numeric(10,3)", ("1", "1.0", "1.00"), (), DECLARED.format("VARCHAR")),
    "uuid": ("postgresql", "uuid", texts("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc999c0b4ef8bb6d6bb9bd380a11"), (), DECLARED.format("VARCHAR")),
    "bytes": ("postgresql", "bytea", ("'\\x41'", "'A'"), (), DECLARED.format("VARCHAR")),
    "an enumeration": ("postgresql", "mood", texts("sad", "sad"), (MOOD,), DECLARED.format("VARCHAR")),
    "truth": ("postgresql", "boolean", ("true", "'yes'", "'t'"), (), "{}"),
    "text of sqlite": ("sqlite", "TEXT", texts("ann", "ann"), (), "{}"),
    "numbers as text of sqlite": ("sqlite", "VARCHAR(10)", ("1", "'1'"), (), "{}"),
    "binary, said so": ("sqlite", "TEXT COLLATE binary", texts("ann", "ann"), (), "{}"),
    "whole numbers of sqlite": ("sqlite", "INTEGER", ("1", "'01'", "1.0", "' 1 '"), (), "{}"),
    "whole numbers among decimals": ("sqlite", "NUMERIC", ("1", "1.0", "'1e0'"), (), DECLARED.format("BIGINT")),
    "whole numbers of no type": ("sqlite", "", ("1", "1.0"), (), DECLARED.format("BIGINT")),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_deleted_with_a_person_moves_what_was_claimed_at_most(name: str, tmp_path: Path) -> None:
    kind, of, values, before, column = KEPT[name]
    made = source(kind, tmp_path, of, values, *before, column=column)
    statement = "SELECT COUNT(*) FROM visits"
    everybody, claimed = made.total(statement)
    made.run("DELETE FROM people")
    nobody, _ = made.total(statement)
    assert claimed == 1 == everybody and nobody == 0


def test_a_cast_of_the_owners_does_not_name_entities(tmp_path: Path) -> None:
    """Texts of a type are those that the server writes, and not what a cast to text makes of them: it may give a value many."""
    made = Source("postgresql", tmp_path, MOOD, "CREATE SEQUENCE numbers",
                  "CREATE FUNCTION told(mood) RETURNS text LANGUAGE sql AS $$ SELECT 'mood ' || nextval('numbers') $$",
                  "CREATE CAST (mood AS text) WITH FUNCTION told(mood)", "CREATE TABLE people (name mood PRIMARY KEY)",
                  "CREATE TABLE visits (name mood REFERENCES people ON DELETE CASCADE, cost integer)", "INSERT INTO people VALUES ('sad')",
                  "INSERT INTO visits VALUES ('sad', 1), ('sad', 1), ('sad', 1)")
    made.declare(POLICY.format(people=DECLARED.format("VARCHAR"), visits=DECLARED.format("VARCHAR")))
    with made.opened() as reader:
        assert reader.rows("SELECT DISTINCT name FROM visits") == [("sad",)]


CANONICAL = {
    "postgresql": ("CREATE TABLE people (name text COLLATE folded PRIMARY KEY, name_key text GENERATED ALWAYS AS (lower(name::text COLLATE \"C\")) STORED UNIQUE)",
                   "CREATE TABLE visits (name text COLLATE folded, cost integer, name_key text GENERATED ALWAYS AS (lower(name::text COLLATE \"C\")) STORED "
                   "REFERENCES people (name_key) ON DELETE CASCADE)"),
    "sqlite": ("CREATE TABLE people (name TEXT COLLATE NOCASE PRIMARY KEY, name_key TEXT AS (lower(rtrim(name))) STORED UNIQUE)",
               "CREATE TABLE visits (name TEXT COLLATE NOCASE REFERENCES people ON DELETE CASCADE, cost INTEGER, name_key TEXT AS (lower(rtrim(name))))"),
}


@pytest.mark.parametrize("kind", CANONICAL)
def test_the_way_out_works(kind: str, tmp_path: Path) -> None:
    """A column with one spelling, which the source itself works out: all visits are of one person, of which one counts."""
    made = Source(kind, tmp_path, *([ICU] if kind == "postgresql" else []), *CANONICAL[kind], "INSERT INTO people (name) VALUES ('annals')",
                  *(f"INSERT INTO visits (name, cost) VALUES ('{value}', 1)" for value in CASES))
    made.declare(POLICY.format(people="{}", visits="{}"))
    fault = fault_of(made.refresh)
    told = fault.try_.split("such as ")[1]
    assert told.split(" GENERATED")[0].split(" AS ")[0].lower() == "name_key text" and "lower(" in told
    made.declare(POLICY.format(people="{}", visits="{}").replace("name", "name_key"))
    assert made.total("SELECT COUNT(*) FROM visits") == (1, 1.0)
    made.run("DELETE FROM people")
    assert made.total("SELECT COUNT(*) FROM visits")[0] == 0


# -- what is compared otherwise than its type is

OTHERWISE = {
    "collation of a unique index": ("sqlite", ["CREATE TABLE people (name TEXT)", "CREATE UNIQUE INDEX i ON people (name COLLATE NOCASE)"], "by the collation NOCASE"),
    "collation of a primary key": ("sqlite", ["CREATE TABLE people (name TEXT, PRIMARY KEY (name COLLATE RTRIM)) WITHOUT ROWID"], "by the collation RTRIM"),
    "expression of a unique index": ("sqlite", ["CREATE TABLE people (name TEXT)", 'CREATE UNIQUE INDEX i ON people (lower("NAME"))'], "an expression of it"),
    "column that was added": ("sqlite", ["CREATE TABLE people (id INTEGER)", "ALTER TABLE people ADD COLUMN name TEXT COLLATE NOCASE"], "its collation NOCASE"),
    "column of an odd table": ("sqlite", ["CREATE TABLE people (\"a, name TEXT COLLATE BINARY\" TEXT, 'name' TEXT COLLATE NOCASE -- COLLATE BINARY\n)"], "its collation NOCASE"),
    "default that calls what is unknown": ("sqlite", ["CREATE TABLE people (name TEXT DEFAULT (lower('A')) COLLATE RTRIM)"], "its collation RTRIM"),
    "expression of an index": ("postgresql", ["CREATE TABLE people (name text)", "CREATE UNIQUE INDEX ON people (lower(name))"], "a unique index compares it differently"),
    "collation of an index": ("postgresql", [ICU, "CREATE TABLE people (name text)", "CREATE UNIQUE INDEX ON people (name COLLATE folded)"], "a unique index compares it differently"),
    "operators of an index": ("postgresql", [
        "CREATE FUNCTION same(text, text) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT lower($1) = lower($2)'",
        "CREATE FUNCTION compared(text, text) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT bttextcmp(lower($1), lower($2))'",
        "CREATE OPERATOR === (LEFTARG = text, RIGHTARG = text, FUNCTION = same, COMMUTATOR = ===, MERGES, HASHES)",
        "CREATE OPERATOR CLASS folding FOR TYPE text USING btree AS OPERATOR 3 ===, FUNCTION 1 compared(text, text)",
        "CREATE TABLE people (name text)", "CREATE UNIQUE INDEX ON people (name folding)"], "a unique index compares it differently"),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_column_that_is_compared_otherwise_than_its_type(name: str, tmp_path: Path) -> None:
    kind, statements, told = OTHERWISE[name]
    made = Source(kind, tmp_path, *statements, "CREATE TABLE visits (name TEXT, cost INTEGER)")
    made.declare(POLICY.format(people="{}", visits="{}"))
    assert told in fault_of(made.refresh).reason


def test_a_definition_that_cannot_be_read_here_is_not_trusted(tmp_path: Path) -> None:
    """A collation of the owner's program may be anything, and is not in the file."""
    import contextlib
    import sqlite3

    made = Source("sqlite", tmp_path, "CREATE TABLE visits (name TEXT, cost INTEGER)")
    with contextlib.closing(sqlite3.connect(made.file)) as connection, connection:
        connection.create_collation("own", lambda a, b: 0)
        connection.execute("CREATE TABLE people (name TEXT COLLATE own)")
    made.declare(POLICY.format(people="{}", visits="{}"))
    assert "its definition cannot be read here" in fault_of(made.refresh).reason


def test_texts_of_an_encoding_that_may_merge_are_no_keys(tmp_path: Path) -> None:
    outer = fresh()
    outer.run(f"CREATE DATABASE euc_{outer.name} TEMPLATE template0 ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C'")
    made = Source("postgresql", tmp_path)
    made.database = Postgres(outer.port, f"euc_{outer.name}")
    made.uri = made.database.uri
    made.run("CREATE TABLE people (name text)", "CREATE TABLE visits (name text, cost integer)")
    made.declare(POLICY.format(people="{}", visits="{}"))
    assert "different texts in EUC_JP" in fault_of(made.refresh).reason


@pytest.mark.parametrize("name", ["a unique column beside it", "an index that is not unique", "an expression of another column"])
def test_indexes_that_say_nothing_of_the_key_are_no_reason(name: str, tmp_path: Path) -> None:
    made = Source("postgresql", tmp_path, ICU, "CREATE TABLE people (name text PRIMARY KEY, other text COLLATE folded UNIQUE)", {
        "a unique column beside it": "CREATE UNIQUE INDEX ON people (name, other)",
        "an index that is not unique": "CREATE INDEX ON people (lower(name))",
        "an expression of another column": "CREATE UNIQUE INDEX ON people (lower(other), name)"}[name],
        "CREATE TABLE visits (name text, cost integer)")
    made.declare(POLICY.format(people="{}", visits="{}"))
    made.refresh()


# -- both sides of a foreign key

PAIRS = {
    # the kind, parent and child, their declarations, and the two things as which they are compared
    "padded parent": ("postgresql", "char(5)", "text", "{}", "{}", ("ann", "ann  "), "text compared without trailing blanks"),
    "padded child": ("postgresql", "text", "char(5)", "{}", "{}", ("ann", "ann"), "text compared without trailing blanks"),
    "digits": ("postgresql", "numeric(10,2)", "numeric(10,3)", DECLARED.format("VARCHAR"), DECLARED.format("VARCHAR"), ("1", "1.000"), "numbers with 3 digits"),
    "whole numbers and digits": ("postgresql", "numeric(10,2)", "integer", DECLARED.format("VARCHAR"), DECLARED.format("VARCHAR"), ("1", "1"), "whole numbers as text"),
    "text and numbers": ("sqlite", "TEXT", "INTEGER", "{}", "{}", ("1", "1"), "whole numbers"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_both_sides_of_a_foreign_key_are_compared_as_the_same(name: str, tmp_path: Path) -> None:
    kind, of, child, people, visits, values, told = PAIRS[name]
    made = source(kind, tmp_path, of, texts(*values), child=child, column=people, visits=visits)
    fault = fault_of(made.refresh)
    assert told in fault.reason and "people.name and visits.name link rows to entities" in fault.reason


def test_one_collation_on_one_side_is_enough(tmp_path: Path) -> None:
    for kind, of, before in (("postgresql", "text COLLATE folded", (ICU,)), ("sqlite", "TEXT COLLATE NOCASE", ())):
        (tmp_path / kind).mkdir()
        made = source(kind, tmp_path / kind, "TEXT", texts("ann"), *before, child=of)
        assert fault_of(made.refresh).reason.startswith("visits.name links rows to entities")


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_every_step_of_a_path_and_every_column_of_a_key_counts(kind: str, tmp_path: Path) -> None:
    before, of = ([ICU], "text COLLATE folded") if kind == "postgresql" else ([], "TEXT COLLATE NOCASE")
    made = Source(kind, tmp_path, *before, "CREATE TABLE people (name TEXT, ward INTEGER)", f"CREATE TABLE stays (name TEXT, stay {of}, day INTEGER)",
                  f"CREATE TABLE tests (stay {of}, day INTEGER, cost INTEGER)")
    policy = """\
[entities.person]
table = "people"
key = "name"
[tables.people.columns]
name = {}
[tables.stays]
key = ["stay", "day"]
foreign_keys = [{ columns = "name", references = "people(name)" }]
[tables.stays.columns]
name = {}
stay = {}
day = {}
[tables.tests]
foreign_keys = [{ columns = ["stay", "day"], references = "stays(stay, day)" }]
[tables.tests.columns]
stay = {}
day = {}
cost = {}
[budgets.main]
entity = "person"
epsilon = 1
"""
    made.declare(policy)
    assert fault_of(made.refresh).reason.startswith("stays.stay links")
    made.run(*(f"DROP TABLE {table}" for table in ("tests", "stays")), "CREATE TABLE stays (name TEXT, stay TEXT, day INTEGER)",
             f"CREATE TABLE tests (stay TEXT, day INTEGER, cost INTEGER, place {of})")
    made.refresh()


def test_columns_that_tie_nothing_are_read_whatever_they_are(tmp_path: Path) -> None:
    """Keys of public tables, and columns that are only counted and grouped, have our equality."""
    made = Source("postgresql", tmp_path, ICU, CITEXT, "CREATE TABLE people (name integer PRIMARY KEY)",
                  "CREATE TABLE visits (name integer, cost integer, place text COLLATE folded)", "CREATE TABLE places (place text COLLATE folded PRIMARY KEY, kind citext)")
    made.declare(POLICY.format(people="{}", visits="{}").replace("cost =", "place = {}\ncost =").replace(
        "rows_per_entity", 'key = "place"\nrows_per_entity').replace(
        "[{", '[{ columns = "place", references = "places(place)" }, {').replace("[budgets", '[tables.places]\npublic = true\nkey = "place"\n'
        '[tables.places.columns]\nplace = {}\nkind = { type = "VARCHAR" }\n[budgets'))
    made.refresh()


@pytest.mark.parametrize(("of", "fits"), [("uuid", False), ("char(9)", False), ("text", True), ("integer", True)])
def test_keys_of_which_files_may_have_other_spellings(of: str, fits: bool, tmp_path: Path) -> None:
    import duckdb

    made = Source("postgresql", tmp_path, f"CREATE TABLE people (name {of})")
    duckdb.sql(f"SELECT CAST('1' AS {'INTEGER' if of == 'integer' else 'VARCHAR'}) AS name, 1 AS cost").write_parquet(str(tmp_path / "visits.parquet"))
    made.declare(POLICY.format(people='{ type = "VARCHAR" }' if of == "uuid" else "{}", visits="{}").replace(
        "rows_per_entity", 'source = "visits.parquet"\nrows_per_entity'))
    if fits:
        made.refresh()
    else:
        assert "which files may spell differently" in fault_of(made.refresh).reason


# -- when it is told


def test_a_snapshot_says_which_columns_tie_rows(tmp_path: Path) -> None:
    """A policy that makes another column a key needs another snapshot, and is told then that the column is none."""
    made = Source("sqlite", tmp_path, "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE)", "CREATE TABLE visits (name INTEGER, cost INTEGER)")
    text = POLICY.format(people="{}", visits="{}")
    first = text.replace('key = "name"', 'key = "id"').replace("people(name)", "people(id)").replace("[tables.people.columns]", "[tables.people.columns]\nid = {}")
    made.declare(first)
    made.refresh()
    made.declare(text.replace("[tables.people.columns]", "[tables.people.columns]\nid = {}"))
    with pytest.raises(OperationalError, match="before the policy changed its declarations for people") as caught, made_open(made):
        pass
    assert caught.value.code == "no-snapshot"
    fault_of(made.refresh)


def made_open(made: Source) -> Any:
    import contextlib

    from dpsql.engine.opening import open_reader
    return contextlib.closing(open_reader(read_policy(made.policy), None))


@pytest.mark.parametrize("rows", [[], ["--rows"]])
def test_check_tells_the_same_without_a_snapshot(rows: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = source("sqlite", tmp_path, "TEXT COLLATE NOCASE", texts("ann", "ANN"))
    assert cli.main(["check", *rows, "--policy", str(made.policy)]) == 2
    told = capsys.readouterr().err
    assert "its collation NOCASE" in told and "dpsql.toml" in told and "lower(rtrim(name))" in told
    made.declare(POLICY.format(people="{}", visits="{}").replace('key = "name"\n[', 'key = "cost"\n[') + "")
    assert cli.main(["refresh", "--policy", str(made.policy)]) == 2


def test_columns_that_tie_rows_are_those_of_entities_and_foreign_keys() -> None:
    policy = parse_policy("version = 1\n" + POLICY.format(people="{}", visits="{}"))
    assert tying_columns(policy) == {"people": {"name": frozenset({("visits", "name")})}, "visits": {"name": frozenset({("people", "name")})}}


# -- the table of ways


@pytest.mark.parametrize("dialect", [POSTGRES, SQLITE, SNOWFLAKE, BIGQUERY], ids=lambda dialect: dialect.filters)
@pytest.mark.parametrize("of", ["float", "FLOAT64", "interval", "json", "jsonb", "xml", "money", "citext", "time", "timetz", "inet", "cidr", "bit(3)", "oid", "tsvector",
                                "hstore", "ltree", "point", "VARIANT", "OBJECT", "GEOGRAPHY", "BYTES", "STRUCT<a INT64>", "numeric", "TIMESTAMP_NTZ", "whatever", ""])
def test_what_is_not_known_names_nobody(of: str, dialect: Dialect) -> None:
    if dialect is SQLITE and any(part in of.upper() for part in ("INT", "TEXT")):
        pytest.skip("SQLite keeps whole numbers, or text, in a column that is called so")
    for declared in (None, "VARCHAR", "DOUBLE", "DATE"):
        found = dialect.reading("x", of, declared)
        assert found is None or not found.equality, (of, declared, found)


def test_every_kind_tells_what_keys_are_compared_as() -> None:
    for dialect in DIALECTS.values():
        assert {way.equality for way in dialect.ways} & PLAIN >= {"text", "whole numbers"}
        assert not any(way.equality for way in dialect.ways if way.target in ("DOUBLE", "FLOAT") or "DECIMAL" in way.target)


