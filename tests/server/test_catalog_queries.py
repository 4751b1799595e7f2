"""What clients ask of the system catalogue is answered of the policy, and nothing else is: no file, no endless question."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients_catalogue import ASKING, asked, catalog, questions
from support.forged import tampered

from dpsql.errors import Error, OperationalError
from dpsql.server.front.catalogue import catalog_queries
from dpsql.server.front.catalogue.catalog_functions import MACROS
from dpsql.server.front.catalogue.catalog_queries import CatalogAnswer, CatalogDatabase, parameter_kinds, read_question

QUESTIONS = questions()
ANSWERS = Path(__file__).with_name("answers_to_clients.json")  # DPSQL_WRITE_GOLDEN=1 writes it again
TABLES = ("people", "visits")


@pytest.fixture(scope="module")
def database() -> Iterator[CatalogDatabase]:
    made = asked()
    yield made
    made.close()


@pytest.fixture(scope="module")
def oids(database: CatalogDatabase) -> dict[str, str]:
    return {str(name): str(oid) for name, oid in ask(database, "SELECT relname, oid FROM pg_class").rows}


def ask(database: CatalogDatabase, text: str, *parameters: object) -> CatalogAnswer:
    tree = read_question(text, TABLES)
    assert tree is not None, text
    return database.ask(tree, parameters)


def placed(text: str, oids: dict[str, str]) -> str:
    for name, oid in oids.items():
        text = text.replace(f"{{{name}}}", oid)
    return text


def as_data(found: CatalogAnswer) -> dict[str, object]:
    return {"columns": [[column.name, column.kind] for column in found.columns],
            "rows": [[value.isoformat() if isinstance(value, dt.date) else value for value in row] for row in found.rows]}


@pytest.mark.parametrize("title", QUESTIONS)
def test_questions_of_clients_have_their_answers(title: str, database: CatalogDatabase, oids: dict[str, str]) -> None:
    found = as_data(ask(database, placed(QUESTIONS[title], oids)))
    known = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    if os.environ.get("DPSQL_WRITE_GOLDEN"):
        ANSWERS.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(told)}" for name, told in {**known, title: found}.items()) + "\n}\n", encoding="utf-8")
        return
    assert found == known[title]


@pytest.mark.parametrize("title", QUESTIONS)
def test_their_columns_are_known_before(title: str, database: CatalogDatabase, oids: dict[str, str]) -> None:
    tree = read_question(placed(QUESTIONS[title], oids), TABLES)
    assert tree is not None
    assert database.describe(tree, ()) == database.ask(tree).columns


def test_the_tables_of_the_policy_are_listed(database: CatalogDatabase) -> None:
    found = ask(database, "SELECT table_schema, table_name FROM information_schema.tables ORDER BY 2")
    assert found.rows == [("public", "people"), ("public", "visits")]
    found = ask(database, "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = $1 ORDER BY ordinal_position", "visits")
    assert found.rows == [("visit_id", "bigint", "NO"), ("person_id", "bigint", "YES"), ("seen", "timestamp without time zone", "YES")]
    assert ask(database, "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f'").rows == [
        ("visits_person_id_fkey", "FOREIGN KEY (person_id) REFERENCES people(person_id)")]
    assert ask(database, "SELECT col_description('people'::regclass, 4)").rows == [("bounds: [0, 100]",)]


def test_a_key_of_a_column_that_is_not_declared_is_not_told() -> None:
    whole = catalog()
    people = whole.tables["people"]
    tampered(people, columns={name: each for name, each in people.columns.items() if name != "person_id"})
    database = CatalogDatabase(whole, ASKING)
    assert ask(database, "SELECT conname FROM pg_constraint").rows == [("visits_pkey",)]
    assert ask(database, "SELECT count(*) FROM pg_attribute WHERE attname = 'person_id' AND attrelid = 'people'::regclass").rows == [(0,)]


@pytest.mark.parametrize("text", [
    "SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM people, pg_class", "SELECT * FROM read_csv('x.csv'), people", "SHOW search_path",
    "WITH pg_x AS (SELECT * FROM people) SELECT * FROM pg_x", "SELECT (SELECT COUNT(*) FROM people) FROM pg_class", "pg_class", "DELETE FROM pg_class",
    "CREATE TABLE pg_x (a int)", "SELECT 1 FROM pg_class; SELECT 2 FROM pg_class", "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM pg_class",
])
def test_other_texts_are_no_questions_to_the_catalogue(text: str) -> None:
    assert read_question(text, TABLES) is None


def test_a_table_of_the_policy_is_itself_whatever_its_name() -> None:
    assert read_question("SELECT COUNT(*) FROM pg_class", ("pg_class",)) is None
    assert read_question("SELECT COUNT(*) FROM pg_catalog.pg_class", ("pg_class",)) is not None


REFUSED = [
    "SELECT * FROM pg_class, read_csv('/etc/passwd')", "SELECT * FROM pg_class, read_text('/etc/passwd')", "SELECT read_text('/etc/passwd')",
    "SELECT pg_read_file('/etc/passwd')", "SELECT pg_sleep(1000)", "SELECT getenv('HOME')", "SELECT * FROM pg_class, glob('/*')",
    "SELECT * FROM pg_class, query('SELECT 1')", "SELECT * FROM pg_class, duckdb_settings()", "SELECT * FROM pg_class, pragma_database_list()",
    "SELECT * FROM pg_catalog.pg_nothing", "SELECT nothing FROM pg_class", "SELECT dblink('x', 'y')", "SELECT lo_import('/etc/passwd')",
    "SELECT * INTO x FROM pg_class", "SELECT * FROM pg_class FOR UPDATE", "WITH x AS (DELETE FROM pg_class RETURNING 1) SELECT * FROM x, pg_class",
    "SELECT pg_", "SELECT $1", "SELECT $2::int", "SELECT * FROM other.pg_catalog.pg_class", "SELECT 1 / (SELECT oid FROM pg_class)",
    "SELECT * FROM information_schema.\"../x.csv\"", "SELECT pg_catalog.query_to_xml('x')", "SELECT set_config('a')", "SELECT duckdb_secrets()",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_question_about_tables_is_refused(text: str, database: CatalogDatabase) -> None:
    tree = read_question(text, TABLES)
    if tree is not None:
        with pytest.raises(Error) as told:
            database.ask(tree)
        assert "passwd" not in told.value.reason and told.value.code != "internal"


def test_the_database_cannot_read_files_whatever_is_printed(database: CatalogDatabase, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n", encoding="utf-8")
    for text in (f"SELECT * FROM read_csv('{tmp_path}/x.csv')", f"COPY (SELECT 1) TO '{tmp_path}/y.csv'", "INSTALL httpfs", "SET enable_external_access = true"):
        with pytest.raises(Error):
            database._run(text)
    assert not (tmp_path / "y.csv").exists()


def test_an_endless_question_ends(database: CatalogDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_queries, "SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(OperationalError) as told:
        ask(database, "SELECT count(*) FROM generate_series(1, 10000000) AS a(x), generate_series(1, 10000000) AS b(y), pg_class WHERE x * y % 7 = 5")
    assert told.value.code == "interrupted" and time.monotonic() - began < 20
    with pytest.raises(Error):
        ask(database, "SELECT x FROM generate_series(1, 200000) AS a(x), pg_class")


def test_deep_and_long_texts_end_in_an_error(database: CatalogDatabase) -> None:
    for text in ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "SELECT " + "+".join("1" * 5000), "SELECT '" + "x" * 100_000 + "' FROM pg_class", "SELECT " + "-" * 3001 + "1"):
        tree = read_question(text, TABLES)
        if tree is not None:
            with contextlib.suppress(Error):
                database.ask(tree)


def test_parameters_have_kinds_and_are_constants(database: CatalogDatabase) -> None:
    text = "SELECT relname FROM pg_class WHERE relname = $1::name AND oid > $2::oid LIMIT $3"
    tree = read_question(text, TABLES)
    assert tree is not None and parameter_kinds(tree, []) == ("VARCHAR", "BIGINT", "BIGINT")
    assert parameter_kinds(tree, [None, "DOUBLE"]) == ("VARCHAR", "DOUBLE", "BIGINT")
    assert ask(database, text, "people", 5, 1).rows == [("people",)]
    described = read_question("SELECT current_setting($1::VARCHAR) AS s, $2::regclass::oid AS o FROM pg_am", TABLES)
    assert described is not None and [column.kind for column in database.describe(described, ["VARCHAR", "VARCHAR"])] == ["VARCHAR", "BIGINT"]
    assert ask(database, text, "' OR true --", 5, 1).rows == []
    assert ask(database, "SELECT relname FROM pg_class WHERE oid = ANY($1::oid[])", "{1247,1249}").rows == [("pg_type",), ("pg_attribute",)]


def test_every_macro_is_one_of_the_database(database: CatalogDatabase) -> None:
    known = {name for name, in database._tables.cursor().execute("SELECT function_name FROM duckdb_functions() WHERE NOT internal").fetchall()}
    assert set(MACROS) <= known
