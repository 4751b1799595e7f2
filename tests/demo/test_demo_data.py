"""The demo data are what they are said to be, and the demo policy fits them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.files import opened_files

import dpsql.demo
from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.model import Catalog, Policy
from dpsql.catalog.policy import read_policy
from dpsql.catalog.schema import fit
from dpsql.demo.build import TABLES, build
from dpsql.engine.opening import public_values
from dpsql.types import Type

FOLDER = Path(dpsql.demo.__file__).parent
SOURCE = "datasets/randhie/src/randhie.csv"


@pytest.fixture(scope="module")
def policy() -> Policy:
    return read_policy(FOLDER / "dpsql.toml")


@pytest.fixture(scope="module")
def reader(policy: Policy) -> DuckReader:
    sources = {name: FOLDER / str(table.source) for name, table in policy.tables.items()}
    return opened_files(sources, {name: table.key for name, table in policy.tables.items()})


@pytest.fixture(scope="module")
def catalog(policy: Policy, reader: DuckReader) -> Catalog:
    return fit(policy, "study", reader.schema(), public_values(reader))


@pytest.fixture(scope="module")
def original() -> Path:
    found = importlib.util.find_spec("statsmodels")
    if found is None or found.origin is None:
        pytest.skip("statsmodels, which ships the source of the demo data, is not installed")
    return Path(found.origin).parent / SOURCE


def only(reader: DuckReader, sql: str) -> Any:
    ((value,),) = reader.rows(sql)
    return value


def test_rows_and_keys(reader: DuckReader) -> None:
    assert only(reader, "SELECT count(*) FROM people") == only(reader, "SELECT count(DISTINCT person_id) FROM people") == 5912
    assert only(reader, "SELECT count(*) FROM person_years") == 20190
    assert only(reader, "SELECT count(*) FROM (SELECT DISTINCT person_id, year FROM person_years)") == 20190
    assert only(reader, "SELECT count(*) FROM yearly_claims") == 20190
    assert only(reader, "SELECT count(*) FROM plans") == only(reader, "SELECT count(DISTINCT plan) FROM plans") == 18


def test_tables_refer_to_each_other(reader: DuckReader) -> None:
    assert only(reader, "SELECT count(*) FROM person_years ANTI JOIN people USING (person_id)") == 0
    assert only(reader, "SELECT count(*) FROM people ANTI JOIN person_years USING (person_id)") == 0
    assert only(reader, "SELECT count(*) FROM people SEMI JOIN plans USING (plan, coinsurance, individual_deductible)") == 5912
    assert only(reader, "SELECT max(n) FROM (SELECT count(*) AS n FROM person_years GROUP BY person_id)") == 5


def test_claims_are_the_same_years_with_dates(reader: DuckReader) -> None:
    assert only(reader, """SELECT count(*) FROM yearly_claims JOIN person_years ON yearly_claims.person_id = person_years.person_id
        AND filed_on = make_date(2020 + year, 12, 31) AND yearly_claims.md_visits = person_years.md_visits
        AND yearly_claims.admissions = person_years.admissions
        AND yearly_claims.medical_dollars = person_years.medical_dollars""") == 20190


def test_rows_are_sorted_and_compressed() -> None:
    for table, (_, key) in TABLES.items():
        path = FOLDER / f"{table}.parquet"
        connection = duckdb.connect()
        rows = connection.execute(f"SELECT {', '.join(key)} FROM '{path}'").fetchall()
        assert rows == sorted(rows)
        assert connection.execute(f"SELECT DISTINCT compression FROM parquet_metadata('{path}')").fetchall() == [("ZSTD",)]
        assert path.stat().st_size < 500_000


def test_the_shipped_files_are_what_build_makes(original: Path, tmp_path: Path) -> None:
    assert build(original, tmp_path) == {"plans": 18, "people": 5912, "person_years": 20190, "yearly_claims": 20190}
    connection = duckdb.connect()
    for table in TABLES:
        shipped, made = (f"'{folder / f'{table}.parquet'}'" for folder in (FOLDER, tmp_path))
        assert connection.execute(f"DESCRIBE FROM {shipped}").fetchall() == connection.execute(f"DESCRIBE FROM {made}").fetchall()
        assert connection.execute(f"FROM {shipped}").fetchall() == connection.execute(f"FROM {made}").fetchall()


def test_no_value_was_lost(original: Path, reader: DuckReader) -> None:
    """Sums over the source, by its own names, are sums over the tables joined again."""
    pairs = {"xage": "age", "outpdol": "outpatient_dollars", "drugdol": "drug_dollars", "suppdol": "supply_dollars",
             "mentdol": "mental_dollars", "inpdol": "inpatient_dollars", "meddol": "medical_dollars", "totadm": "admissions",
             "mdvis": "md_visits", "notmdvis": "other_visits", "mentvis": "mental_visits", "num": "family_size",
             "time": "time_eligible", "inpmis": "inpatient_incomplete", "income": "income", "black": "black",
             "educdec": "education_years", "mhi": "mental_health_index", "disea": "chronic_disease_index",
             "physlm": "physical_limitation", "ghindx": "general_health_index", "xghindx": "general_health_index_imputed",
             "mdeoff": "maximum_expenditure_offer", "pioff": "participation_incentive", "female": "female", "site": "site",
             "tookphys": "took_physical", "coins": "coinsurance", "plan": "plan", "idp": "individual_deductible"}
    connection = duckdb.connect()
    before = connection.execute("SELECT " + ", ".join(
        f"sum(CAST({old} AS DECIMAL(18, 7))), count({old})" for old in pairs) + f" FROM read_csv('{original}')").fetchall()
    after = reader.rows("SELECT " + ", ".join(
        f"sum(CAST({new} AS DECIMAL(18, 7))), count({new})" for new in pairs.values())
        + " FROM person_years JOIN people USING (person_id)")
    assert before == after
    health = connection.execute("SELECT sum(hlthg), sum(hlthf), sum(hlthp), sum(1 - hlthg - hlthf - hlthp) "
                                f"FROM read_csv('{original}')").fetchall()
    assert health == reader.rows(
        "SELECT " + ", ".join(f"count(*) FILTER (health = '{value}')" for value in ("good", "fair", "poor", "excellent"))
        + " FROM person_years JOIN people USING (person_id)")


@pytest.mark.parametrize(("change", "says"), [
    (("income", "income + year"), "people has 20190 rows for 5912"), (("year", "1"), "person_years has"),
    (("coins", "CASE WHEN zper % 2 = 0 THEN 7 ELSE coins END"), "plans has"), (("female", "2"), "neither 0 nor 1"),
    (("hlthf", "1"), "two ratings"), (("mdvis", "mdvis + 0.5"), "a fraction"),
])
def test_build_checks_what_it_rests_on(original: Path, tmp_path: Path, change: tuple[str, str], says: str) -> None:
    column, expression = change
    spoilt = tmp_path / "spoilt.csv"
    duckdb.connect().execute(f"COPY (SELECT * REPLACE ({expression} AS {column}) FROM read_csv('{original}')) TO '{spoilt}'")
    with pytest.raises(ValueError, match=says):
        build(spoilt, tmp_path / "made")
    assert not list((tmp_path / "made").glob("*.parquet"))


def test_the_policy_names_every_column(policy: Policy, reader: DuckReader, catalog: Catalog) -> None:
    assert not catalog.undeclared and not catalog.outside
    assert not any(catalog.hidden.values())
    assert {name: table.rows for name, table in catalog.tables.items()} == {"plans": None, "people": 1, "person_years": 5,
                                                                            "yearly_claims": None}
    for budget in policy.budgets:
        fit(policy, budget, reader.schema(), lambda *_: [])


def test_budgets_of_each_kind(policy: Policy) -> None:
    study, pure, concentrated = (policy.budgets[name] for name in ("study", "pure", "concentrated"))
    assert study.total.epsilon == 10 and study.total.delta and study.per_statement is not None
    assert study.of("anybody").epsilon == 5 and study.of("auditor").epsilon == 10  # type: ignore[union-attr]
    assert pure.total.epsilon == 10 and not pure.total.delta
    assert concentrated.total.rho is not None and concentrated.total.epsilon is None


def test_columns_without_null_have_none(catalog: Catalog, reader: DuckReader) -> None:
    for name, table in catalog.tables.items():
        for column in table.columns.values():
            if not column.nullable:
                assert only(reader, f"SELECT count(*) FROM {name} WHERE {column.name} IS NULL") == 0


def test_listed_values_are_complete(catalog: Catalog, reader: DuckReader) -> None:
    for name in ("people", "person_years", "yearly_claims"):
        for column in catalog.tables[name].columns.values():
            if column.domain is not None:
                found = {row[0] for row in reader.rows(f"SELECT DISTINCT {column.name} FROM {name}")} - {None}
                assert found <= set(column.domain.values), column.name


def test_the_policy_shows_every_kind_of_declaration(policy: Policy) -> None:
    columns = [column for table in policy.tables.values() for column in table.columns.values()]
    for declared in ("values", "values_from", "bounds", "bins", "step"):
        assert any(getattr(column, declared) is not None for column in columns), declared
    assert any(column.search for column in columns) and any(column.complete for column in columns)


def test_the_note_describes_every_column(catalog: Catalog) -> None:
    note = (FOLDER / "NOTE.md").read_text(encoding="utf-8")
    described = dict(re.findall(r"^\| (\w+) \| ([A-Z]+) \|", note, flags=re.MULTILINE))
    for name in ("people", "person_years", "yearly_claims"):
        for column in catalog.tables[name].columns.values():
            assert described.get(column.name) == column.sql_type
            assert column.type in (Type.BIGINT, Type.DOUBLE, Type.BOOLEAN, Type.VARCHAR, Type.DATE)
    assert "public domain" in note
