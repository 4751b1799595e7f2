"""Makes the demo data from the RAND Health Insurance Experiment, as statsmodels ships it.

    python -m dpsql.demo.build <randhie.csv> <folder>

`randhie.csv` is `statsmodels/datasets/randhie/src/randhie.csv`: one row for each person and year, with everything about the
person repeated. Here it becomes two private tables, `people` and `person_years`, and a public one, `plans`. `NOTE.md` says
where the data come from and what each column means. What the split rests on is checked, not assumed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import duckdb

WHOLE = ("plan", "site", "coins", "tookphys", "year", "zper", "female", "totadm", "inpmis", "mentvis", "mdvis", "notmdvis", "num",
         "idp", "hlthg", "hlthf", "hlthp")
REAL = ("black", "income", "xage", "educdec", "time", "outpdol", "drugdol", "suppdol", "mentdol", "inpdol", "meddol", "mhi",
        "disea", "physlm", "ghindx", "xghindx", "mdeoff", "pioff")

# DISTINCT leaves one row for a key exactly where the other columns are constant for it; `_check` counts the rows.
PLANS = """
SELECT DISTINCT plan, coins AS coinsurance, idp = 1 AS individual_deductible FROM source ORDER BY plan"""
PEOPLE = """
SELECT DISTINCT
    zper AS person_id, site, plan, coins AS coinsurance, idp = 1 AS individual_deductible,
    female = 1 AS female, black, educdec AS education_years, income,
    CASE WHEN hlthg = 1 THEN 'good' WHEN hlthf = 1 THEN 'fair' WHEN hlthp = 1 THEN 'poor' ELSE 'excellent' END AS health,
    ghindx AS general_health_index, xghindx AS general_health_index_imputed, mhi AS mental_health_index,
    disea AS chronic_disease_index, physlm AS physical_limitation, tookphys = 1 AS took_physical,
    mdeoff AS maximum_expenditure_offer, pioff AS participation_incentive
FROM source ORDER BY person_id"""
PERSON_YEARS = """
SELECT
    zper AS person_id, year, xage AS age, num AS family_size, time AS time_eligible,
    outpdol AS outpatient_dollars, drugdol AS drug_dollars, suppdol AS supply_dollars, mentdol AS mental_dollars,
    inpdol AS inpatient_dollars, meddol AS medical_dollars, totadm AS admissions, inpmis = 1 AS inpatient_incomplete,
    mdvis AS md_visits, notmdvis AS other_visits, mentvis AS mental_visits
FROM source ORDER BY person_id, year"""
# Year 1 is filed at the end of 2021: the source has no dates, and a table that grows has to have some.
YEARLY_CLAIMS = """
SELECT
    zper AS person_id, make_date(2020 + year, 12, 31) AS filed_on, mdvis AS md_visits, totadm AS admissions,
    meddol AS medical_dollars
FROM source ORDER BY person_id, year"""

TABLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "plans": (PLANS, ("plan",)), "people": (PEOPLE, ("person_id",)), "person_years": (PERSON_YEARS, ("person_id", "year")),
    "yearly_claims": (YEARLY_CLAIMS, ("person_id", "filed_on")),
}


def build(source: Path, folder: Path) -> dict[str, int]:
    """Write one Parquet file for each table. Returns the number of rows of each. Raises ValueError if a check fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(config={"threads": 1}) as connection:
        _read(connection, source)
        for table, (text, key) in TABLES.items():
            connection.execute(f"CREATE TABLE {table} AS {text}")
            _check(connection, table, key)
        for table, (_, key) in TABLES.items():
            path = str(folder / f"{table}.parquet").replace("'", "''")
            connection.execute(f"COPY (FROM {table} ORDER BY {', '.join(key)}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        return {table: _count(connection, f"FROM {table}") for table in TABLES}


def _read(connection: duckdb.DuckDBPyConnection, source: Path) -> None:
    """The file as table `source`; an empty field is NULL. A cast rounds fractions in silence, so they are looked for first."""
    types = dict.fromkeys(WHOLE + REAL, "DOUBLE")
    path = str(source).replace("'", "''")
    connection.execute(f"CREATE TABLE source AS FROM read_csv('{path}', header = true, types = {types})")
    fractions = " OR ".join(f"{name} <> trunc({name})" for name in WHOLE)
    _must_be_none(connection, "a fraction where a whole number belongs", fractions)
    for name in WHOLE:
        connection.execute(f"ALTER TABLE source ALTER {name} TYPE INTEGER")
    flags = ("idp", "female", "tookphys", "inpmis", "hlthg", "hlthf", "hlthp")
    _must_be_none(connection, "a flag is neither 0 nor 1", " OR ".join(f"{flag} NOT IN (0, 1)" for flag in flags))
    _must_be_none(connection, "two ratings of one person's health", "hlthg + hlthf + hlthp > 1")


def _check(connection: duckdb.DuckDBPyConnection, table: str, key: tuple[str, ...]) -> None:
    rows = _count(connection, f"FROM {table}")
    keys = _count(connection, f"FROM (SELECT DISTINCT {', '.join(key)} FROM {table})")
    if rows != keys:
        raise ValueError(f"{table} has {rows} rows for {keys} values of ({', '.join(key)})")


def _must_be_none(connection: duckdb.DuckDBPyConnection, fault: str, condition: str) -> None:
    if found := _count(connection, f"FROM source WHERE {condition}"):
        raise ValueError(f"{fault}: {found} rows")


def _count(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    row = connection.execute(f"SELECT count(*) {relation}").fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m dpsql.demo.build <randhie.csv> <folder>")
    for name, rows in build(Path(sys.argv[1]), Path(sys.argv[2])).items():
        print(f"{name}: {rows} rows")
