"""A drafted policy parses, fits the database it was drafted from, and says no more than the schema does."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest
from support.files import opened_files
from support.worlds import world

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.draft import Chosen, draft
from dpsql.catalog.guesses import Guess
from dpsql.catalog.model import Catalog, Entity
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.errors import OperationalError, PolicyError
from dpsql.trusted.declarations.tables import Domain, ForeignKey, TableSchema


def schema_of(*statements: str) -> Mapping[str, TableSchema]:
    connection = duckdb.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    return DuckReader(connection, "1").schema()


def fitted(text: str, schema: Mapping[str, TableSchema]) -> Catalog:
    def values(table: str, column: str, most: int) -> list[object]:
        raise AssertionError("a draft reads no values")
    return fit(parse_policy(text), "main", schema, values)  # type: ignore[arg-type]


def line_of(text: str, start: str) -> str:
    (found,) = [line for line in text.splitlines() if line.startswith(start)]
    return found


HOSPITAL = (
    "CREATE TYPE mood AS ENUM ('well', 'can''t say', 'a, b')",
    "CREATE TABLE wards (ward VARCHAR PRIMARY KEY, beds INTEGER)",
    "CREATE TABLE patients (patient_id INTEGER PRIMARY KEY, ward VARCHAR REFERENCES wards (ward), mood mood, scan BLOB, "
    "born DATE NOT NULL, \"blood group\" VARCHAR)",
    "CREATE TABLE stays (stay_id INTEGER PRIMARY KEY, Patient_ID INTEGER NOT NULL REFERENCES PATIENTS (PATIENT_ID), "
    "cost DECIMAL(9,2))",
    "CREATE TABLE doses (stay_id INTEGER REFERENCES stays (stay_id), given TIMESTAMP, grams DOUBLE, tags VARCHAR[])",
    "CREATE VIEW dear AS SELECT * FROM stays WHERE cost > 1000",
)


@pytest.fixture(scope="module")
def hospital() -> Mapping[str, TableSchema]:
    return schema_of(*HOSPITAL)


def test_the_draft_of_a_hospital(hospital: Mapping[str, TableSchema]) -> None:
    text = draft(hospital, database="hospital.duckdb")
    policy, catalog = parse_policy(text), fitted(text, hospital)
    assert policy.database == "hospital.duckdb"
    assert policy.entities == {"patient": Entity(name="patient", table="patients", key="patient_id")}
    assert set(catalog.tables) == {"patients", "stays", "doses"}
    assert set(catalog.outside) == {"wards"}
    assert catalog.tables["stays"].foreign_keys == (
        ForeignKey(columns=("Patient_ID",), table="patients", references=("patient_id",)),)
    assert [step.table for step in catalog.tables["doses"].owner.steps] == ["stays"]  # type: ignore[union-attr]
    assert policy.tables["stays"].key == ("stay_id",)


def test_a_draft_proposes_how_a_table_grows() -> None:
    """For a private table with one column of time, but not for that of the entities; what is proposed fits the schema."""
    schema = schema_of(
        "CREATE TABLE people (person_id INTEGER PRIMARY KEY, born DATE)", "CREATE TABLE towns (town VARCHAR, founded DATE)",
        *(f"CREATE TABLE {name} (person_id INTEGER REFERENCES people (person_id), {columns})" for name, columns in [
            ("visits", "visited_on DATE, cost DOUBLE"), ("stays", "came DATE, went DATE"), ("calls", 'amount INTEGER, "at" TIMESTAMP WITH TIME ZONE')]))
    text = draft(schema)
    assert [line.split("  ")[0] for line in text.splitlines() if line.startswith("# grows_by")] == ['# grows_by = "at"', '# grows_by = "visited_on"']
    assert all(table.growth is None for table in parse_policy(text).tables.values())
    taken = re.sub(r"^# (grows_by|period|since) ", r"\1 ", text, flags=re.M).replace('entity = "person"', 'entity = "person"\nper_period = { epsilon = 0.1 }')
    found = {name: table.growth.column for name, table in fitted(taken, schema).tables.items() if table.growth is not None}
    assert found == {"visits": "visited_on", "calls": "at"}


def test_a_draft_proposes_the_column_of_arrival_by_its_name() -> None:
    """Beside one other column of time; a table with only such a column, or with more, gets the usual proposal or none."""
    schema = schema_of("CREATE TABLE people (person_id INTEGER PRIMARY KEY)", *(
        f"CREATE TABLE {name} (person_id INTEGER REFERENCES people (person_id), {columns})" for name, columns in [
            ("visits", "visited_on DATE, loaded_at TIMESTAMP"), ("calls", '"at" TIMESTAMP, "Created" DATE'), ("stays", "came DATE, went DATE, loaded_at DATE"),
            ("bills", "received DATE"), ("loads", "loaded_at DATE, created_at DATE"), ("trips", "unloaded DATE, went DATE")]))
    text = draft(schema)
    lines = [line.split("  ")[0] for line in text.splitlines() if re.match("# (grows_by|late|arrived) ", line)]
    assert lines == ['# grows_by = "received"', '# grows_by = "at"', '# late = "drop"', '# arrived = "Created"',
                     '# grows_by = "visited_on"', '# late = "drop"', '# arrived = "loaded_at"']
    taken = re.sub(r"^# (grows_by|period|since|late|arrived) ", r"\1 ", text, flags=re.M).replace('entity = "person"', 'entity = "person"\nper_period = { epsilon = 0.1 }')
    found = {name: table.growth.arrived for name, table in fitted(taken, schema).tables.items() if table.growth is not None}
    assert found == {"visits": "loaded_at", "calls": "Created", "bills": None}


def test_a_draft_of_a_log_proposes_how_it_grows() -> None:
    """Rows of a table that has several for each entity are added over time, even if they say who is protected."""
    schema = schema_of("CREATE TABLE events (user_id INTEGER, seen TIMESTAMP, what VARCHAR)")
    for several in (True, False):
        guess = Guess(entity=Entity(name="user", table="events", key="user_id"), why="", several=several)
        text = draft(schema, chosen=Chosen(guess=guess, public=frozenset(), references={}, rows={}, epsilon="1.0", per_statement="0.1"))
        assert ('# grows_by = "seen"' in text) is several


def test_everything_stays_private(hospital: Mapping[str, TableSchema]) -> None:
    text = draft(hospital)
    assert not any(table.public for table in parse_policy(text).tables.values())
    assert "Everything is private until you say otherwise" in text


def test_a_draft_declares_nothing_of_the_values(hospital: Mapping[str, TableSchema]) -> None:
    """Only the values of an ENUM, which are part of the schema."""
    columns = [column for table in parse_policy(draft(hospital)).tables.values() for column in table.columns.values()]
    assert [column.name for column in columns if column.values is not None] == ["mood"]
    assert all(column.bounds is None and column.bins is None and column.step is None and not column.search for column in columns)
    mood = fitted(draft(hospital), hospital).tables["patients"].columns["mood"]
    assert mood.domain == Domain(("a, b", "can't say", "well"))


def test_each_column_says_what_to_fill_in(hospital: Mapping[str, TableSchema]) -> None:
    text = draft(hospital)
    assert "DATE; range =" in line_of(text, "born")
    assert "DOUBLE; bounds =" in line_of(text, "grams") and "decimals" in line_of(text, "grams")
    assert "DECIMAL(9,2); bounds =" in line_of(text, "cost")
    assert "TIMESTAMP; bounds =" in line_of(text, "given")
    assert 'VARCHAR; values = ["a", "b"]' in line_of(text, '"blood group" = {}')
    assert "INTEGER, names a row of patients" in line_of(text, "Patient_ID")
    assert "INTEGER, key" in line_of(text, "patient_id")


def test_columns_of_other_types_are_left_out_with_the_reason(hospital: Mapping[str, TableSchema]) -> None:
    text = draft(hospital)
    assert "BLOB: this type is not supported" in line_of(text, "# scan = {}")
    assert "VARCHAR[]: this type is not supported" in line_of(text, "# tags = {}")
    catalog = fitted(text, hospital)
    assert catalog.hidden["patients"] == {"scan"}
    assert catalog.hidden["doses"] == {"tags"}


def test_views_are_left_out(hospital: Mapping[str, TableSchema]) -> None:
    text = draft(hospital)
    assert "dear" not in parse_policy(text).tables
    assert "# dear is left out: a view." in text


def test_a_table_that_cannot_be_asked_about_says_why(hospital: Mapping[str, TableSchema]) -> None:
    text = draft(hospital)
    after = text.split("[tables.wards]")[1].split("[tables.wards.columns]")[0]
    assert "no foreign key leads from it to the protected patient" in " ".join(after.replace("#", " ").split())
    assert "rows_per_entity" in text.split("[tables.stays]")[1].split("[tables.stays.columns]")[0]


@pytest.mark.parametrize(("tables", "table", "key"), [
    # by its name, whichever table has the most foreign keys leading to it
    (("homes (home INTEGER PRIMARY KEY)", "people (id INTEGER PRIMARY KEY, home INTEGER REFERENCES homes (home))"),
     "people", "id"),
    # by foreign keys
    (("firms (firm INTEGER PRIMARY KEY)", "plants (plant INTEGER PRIMARY KEY, firm INTEGER REFERENCES firms (firm))"),
     "firms", "firm"),
    # by being the only one with a key of one column
    (("facts (a INTEGER, b INTEGER, PRIMARY KEY (a, b))", "things (thing VARCHAR PRIMARY KEY)"), "things", "thing"),
    # NOT NULL and UNIQUE is a key, too; a number that is not exact is none
    (("firms (x DOUBLE UNIQUE NOT NULL, y INTEGER UNIQUE NOT NULL, z INTEGER)",), "firms", "y"),
    # nor is a time of which the nanoseconds are lost
    (("events (at_time TIMESTAMP_NS PRIMARY KEY, id INTEGER UNIQUE NOT NULL)",), "events", "id"),
    # without any key, by the names of table and column
    (("users (age INTEGER, user_id VARCHAR)", "logs (user_id VARCHAR, seen TIMESTAMP)"), "users", "user_id"),
])
def test_the_guess(tables: tuple[str, ...], table: str, key: str) -> None:
    schema = schema_of(*(f"CREATE TABLE {columns}" for columns in tables))
    text = draft(schema)
    (entity,) = parse_policy(text).entities.values()
    assert (entity.table, entity.key) == (table, key)
    assert "This is a guess" in text
    fitted(text, schema)


def test_where_nothing_can_be_guessed_the_draft_says_what_to_fill_in() -> None:
    schema = schema_of("CREATE TABLE a (x INTEGER PRIMARY KEY)", "CREATE TABLE b (y INTEGER PRIMARY KEY, z INTEGER)")
    text = draft(schema, database="ab.duckdb")
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert caught.value.code == "missing-key" and "entities" in caught.value.reason
    assert "FILL IN" in text
    assert "candidates: a.x, b.y" in text
    filled = text.replace("# [entities.person]", "[entities.person]").replace(
        '# table = "..."', 'table = "b"').replace('# key = "..."', 'key = "y"')
    assert set(fitted(filled, schema).tables) == {"b"}
    changed = [line for line in difflib.ndiff(text.splitlines(), filled.splitlines()) if line[0] in "+-"]
    assert len(changed) == 6  # three lines, and nothing else, had to be changed


def test_foreign_keys_that_cannot_be_followed_are_comments() -> None:
    schema = schema_of(
        "CREATE TABLE employees (id INTEGER PRIMARY KEY, boss INTEGER REFERENCES employees (id))",
        "CREATE TABLE rates (rate DOUBLE PRIMARY KEY)",
        "CREATE TABLE pay (id INTEGER REFERENCES employees (id), rate DOUBLE REFERENCES rates (rate))")
    text = draft(schema)
    assert "form a cycle" in line_of(text, '# { columns = "boss"')
    assert "cannot be compared exactly" in line_of(text, '# { columns = "rate"')
    policy = parse_policy(text)
    assert policy.tables["employees"].foreign_keys == ()
    assert policy.tables["pay"].foreign_keys == (ForeignKey(columns=("id",), table="employees", references=("id",)),)
    assert set(fitted(text, schema).tables) == {"employees", "pay"}


def test_two_ways_to_an_entity() -> None:
    schema = schema_of("CREATE TABLE people (id INTEGER PRIMARY KEY)",
                       "CREATE TABLE friends (a INTEGER REFERENCES people (id), b INTEGER REFERENCES people (id))")
    text = draft(schema)
    assert len(parse_policy(text).tables["friends"].foreign_keys) == 2
    assert [way.column for way in fitted(text, schema).tables["friends"].owners] == ["a", "b"]


def test_composite_keys() -> None:
    schema = schema_of("CREATE TABLE people (site INTEGER, id INTEGER UNIQUE NOT NULL, PRIMARY KEY (site, id))",
                       "CREATE TABLE visits (s INTEGER, i INTEGER, FOREIGN KEY (s, i) REFERENCES people (site, id))")
    text = draft(schema)
    assert parse_policy(text).tables["visits"].foreign_keys == (
        ForeignKey(columns=("s", "i"), table="people", references=("site", "id")),)
    assert fitted(text, schema).tables["visits"].owner.column == "i"  # type: ignore[union-attr]


def test_files(tmp_path: Path) -> None:
    paths = {}
    for name, query in {"people": "SELECT range AS person_id, 'x' AS sex FROM range(3)",
                        "visits": "SELECT range % 3 AS person_id, range AS year FROM range(7)"}.items():
        paths[name] = tmp_path / f"{name}.parquet"
        duckdb.connect().execute(f"COPY ({query}) TO '{paths[name]}'")
    schema = opened_files(paths).schema()
    text = draft(schema, sources={name: path.name for name, path in paths.items()})
    policy = parse_policy(text)
    assert (policy.database, {name: table.source for name, table in policy.tables.items()}) == (
        None, {"people": "people.parquet", "visits": "visits.parquet"})
    assert policy.entities["person"].key == "person_id"
    likely = '# foreign_keys = [{ columns = "person_id", references = "people(person_id)" }]'
    assert "check it" in line_of(text, likely)  # a guess from names is not declared
    assert "visits" in fitted(text, schema).outside
    taken = text.replace(likely, likely[2:])
    assert "visits" in fitted(taken, schema).tables


def test_no_row_is_read() -> None:
    """The draft of a full database is the draft of an empty one."""
    full, empty = duckdb.connect(":memory:"), duckdb.connect(":memory:")
    world(seed=5).fill(full)
    world(seed=5, people=0).fill(empty)
    assert draft(DuckReader(full, "1").schema()) == draft(DuckReader(empty, "1").schema())


def test_strange_names() -> None:
    schema = schema_of('CREATE TABLE people (id INTEGER PRIMARY KEY, "a ""b"" \\ c" INTEGER, "x.y" DOUBLE, "é" DATE, '
                       '"line\nend" VARCHAR, "bad\nblob" BLOB)',
                       'CREATE TABLE "odd name" (id INTEGER REFERENCES people (id))')
    text = draft(schema)
    policy = parse_policy(text)
    assert set(policy.tables["people"].columns) == {"id", 'a "b" \\ c', "x.y", "é", "line\nend"}
    assert set(policy.tables) == {"people", "odd name"}
    assert policy.tables["odd name"].foreign_keys[0].table == "people"
    fitted(text, schema)


def test_foreign_keys_to_strange_names() -> None:
    schema = schema_of('CREATE TABLE people ("Person ID" INTEGER PRIMARY KEY)', 'CREATE TABLE codes ("a, (b)" VARCHAR PRIMARY KEY)',
                       'CREATE TABLE visits (person INTEGER REFERENCES people ("Person ID"), code VARCHAR REFERENCES codes ("a, (b)"))')
    text = draft(schema)
    assert [key.references for key in parse_policy(text).tables["visits"].foreign_keys] == [("Person ID",), ("a, (b)",)]
    assert fitted(text, schema).tables["visits"].owner is not None


def test_keys_are_guessed_from_names_as_people_write_them() -> None:
    text = draft(schema_of('CREATE TABLE people ("Person ID" BIGINT)', 'CREATE TABLE visits ("person-id" BIGINT, cost DOUBLE)'),
                 sources={"people": "people.parquet", "visits": "visits.parquet"})
    assert parse_policy(text).entities["person"].key == "Person ID"
    assert 'foreign_keys = [{ columns = "person-id", references = "people(Person ID)" }]' in text


def test_comments_keep_to_their_lines() -> None:
    """A name cannot leave its comment and become a declaration."""
    columns = (("id", "INTEGER"), ("x = {}\npublic = true\n# ", "BLOB"))
    schema = {"people": TableSchema(columns=columns, unique=(frozenset(["id"]),), not_null=frozenset(["id"])),
              "v\n[tables.people]\npublic = true": TableSchema(columns=(("x", "INTEGER"),), view=frozenset())}
    text = draft(schema)
    policy = parse_policy(text)
    assert not policy.tables["people"].public
    assert set(policy.tables["people"].columns) == {"id"}


def test_nothing_to_draft() -> None:
    for schema in ({}, {"my\ttable": TableSchema(columns=(("x", "INTEGER"),))}):
        with pytest.raises(OperationalError) as caught:
            draft(schema)
        assert caught.value.code == "no-tables"
