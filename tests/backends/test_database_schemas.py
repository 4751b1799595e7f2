"""Drafts of policies from the catalogs of other databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.postgres import fresh
from support.snapshots import in_sqlite

import dpsql
from dpsql import cli
from dpsql.backends.database_schemas import database_schema
from dpsql.errors import OperationalError
from dpsql.trusted.declarations.tables import ForeignKey
from dpsql.trusted.kernel.ledger import Ledger


def postgres() -> str:
    database = fresh()
    database.run("CREATE SCHEMA lab", "CREATE TABLE people (person_id int PRIMARY KEY, born date, code uuid, amount numeric)",
                 "CREATE TABLE lab.people (id int REFERENCES people(person_id), note text)",
                 "CREATE TABLE lab.visits (visit int, nr int, person_id int NOT NULL REFERENCES people, cost numeric(10,2), PRIMARY KEY (nr, visit))",
                 "CREATE VIEW shown AS SELECT 1 AS one", "INSERT INTO people VALUES (1, '2000-01-01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 5)",
                 "INSERT INTO lab.visits VALUES (1, 1, 1, 5)")
    return database.uri


def sqlite(folder: Path) -> str:
    return in_sqlite(folder / "clinic.sqlite", {
        "people": ("person_id INTEGER PRIMARY KEY, born DATE, code", [(1, "2000-01-01", "x")]),
        "visits": ("visit INTEGER, nr INTEGER, person_id INTEGER NOT NULL REFERENCES people(person_id), cost DECIMAL(10,2), PRIMARY KEY (nr, visit)", [(1, 1, 1, 5)])})


def test_the_catalog_of_postgres() -> None:
    found = database_schema(postgres())
    assert set(found.tables) == {"people", "lab_people", "visits"}
    assert found.relations == {"lab_people": "lab.people", "visits": "lab.visits"}
    assert found.types == {"people": {"code": "VARCHAR", "amount": "DOUBLE"}}
    visits = found.tables["visits"]
    assert visits.columns == (("visit", "INTEGER"), ("nr", "INTEGER"), ("person_id", "INTEGER"), ("cost", "DECIMAL(10,2)"))
    assert visits.unique == (frozenset({"visit", "nr"}),) and visits.not_null == {"visit", "nr", "person_id"}
    assert visits.foreign_keys == (ForeignKey(columns=("person_id",), table="people", references=("person_id",)),)


def test_the_catalog_of_sqlite(tmp_path: Path) -> None:
    found = database_schema(sqlite(tmp_path))
    assert found.relations == {} and set(found.types) == {"people"}
    assert found.tables["visits"].unique == (frozenset({"visit", "nr"}),)
    assert found.tables["visits"].foreign_keys == (ForeignKey(columns=("person_id",), table="people", references=("person_id",)),)


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_a_draft_serves(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri, policy = postgres() if kind == "postgresql" else sqlite(tmp_path), str(tmp_path / "dpsql.toml")
    assert cli.main(["init", uri, "--to", policy]) == 0
    assert f"then: dpsql refresh --policy {policy}" in capsys.readouterr().out
    Ledger.create(tmp_path / "dpsql.ledger").close()
    assert "visits" in dpsql.refresh(policy=policy)
    with dpsql.connect(policy=policy, analyst="ada", epsilon=0.5) as connection:
        assert len(connection.execute("SELECT COUNT(*) FROM visits JOIN people USING (person_id)").fetchall()) == 1


@pytest.mark.parametrize(("uris", "told"), [
    (["postgresql://ada:s3cret@host/db"], "password"), (["sqlite:///none.sqlite"], "no file"), (["mysql://host/db"], "cannot be read"),
    (["sqlite:///a", "sqlite:///b"], "one database"), (["snowflake://ada@account/db/schema"], "package adbc-driver-snowflake")])
def test_what_cannot_be_drafted_is_told(uris: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", *uris, "--to", "-"]) == 2
    printed = capsys.readouterr()
    assert told in printed.err and "s3cret" not in printed.err + printed.out


def test_an_empty_database_has_nothing_to_draft() -> None:
    with pytest.raises(OperationalError, match="no table"):
        from dpsql.catalog.draft import draft
        draft(database_schema(fresh().uri).tables)
