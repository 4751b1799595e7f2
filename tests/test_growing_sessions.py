"""Sessions over tables that grow: their limits in each period, and the prepared stores that they read."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpsql
from dpsql import cli
from dpsql.audit.exact import Exact
from dpsql.budgets.convert import limit
from dpsql.catalog.price import price
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.session import Session
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import Account

POLICY = """\
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
source = "people.parquet"
key = "id"
columns = { id = {}, sex = { values = ["f", "m"] } }
[tables.visits]
source = "visits.parquet"
foreign_keys = [{ columns = "id", references = "people(id)" }]
GROWTHcolumns = { id = {}, day = {} }
[budgets.main]
entity = "person"
epsilon = 10
delta = 1e-6
LIMITS"""
GROWTH = 'grows_by = "day"\nperiod = "month"\nsince = 2024-01-01\n'
LIMITED = f"{GROWTH}rows_per_entity_and_period = 5\n"
LIMITS = "per_period = { epsilon = 1, delta = 1e-7 }\nper_analyst_and_period = { epsilon = 0.5, delta = 1e-8 }\n"
ROWS = {"people": "SELECT i AS id, ['f', 'm'][1 + i % 2] AS sex FROM range(200) AS t(i)",
        "visits": "SELECT i % 200 AS id, DATE '2024-01-01' + CAST(i % 600 AS INTEGER) AS day FROM range(3000) AS t(i)"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPSQL_STATE", str(tmp_path / "state"))
    monkeypatch.setattr("dpsql.engine.opening.LARGE", 1000)
    for name, rows in ROWS.items():
        duckdb.sql(f"COPY ({rows}) TO '{tmp_path / name}.parquet'")
    ReportingLedger.create(tmp_path / "dpsql.ledger").close()
    return tmp_path


def written(folder: Path, growth: str = GROWTH, limits: str = LIMITS) -> Path:
    path = folder / "dpsql.toml"
    path.write_text(POLICY.replace("GROWTH", growth).replace("LIMITS", limits), encoding="utf-8")
    return path


def opened(path: Path, *, awaited: list[Any] | None = None) -> Session:
    """A session of Ada. `awaited` is given what the session would wait for a store of."""
    return open_session(None, path, None, ConnectionTerms(analyst="Ada"), await_store=None if awaited is None else (
        lambda *told: awaited.append(told)))  # type: ignore[func-returns-value]


@pytest.mark.parametrize(("growth", "limits", "expected"), [
    (GROWTH, LIMITS, {None: {"epsilon": 1, "delta": 1e-7}, "ada": {"epsilon": 0.5, "delta": 1e-8}}),
    (GROWTH, "per_period = { epsilon = 1 }\n", {None: {"epsilon": 1}}),
    ("", "", {}),
])
def test_the_limits_in_each_period(growth: str, limits: str, expected: dict[str | None, dict[str, float]], folder: Path) -> None:
    with closing(opened(written(folder, growth, limits))) as session:
        made = {whose: price(**told) for whose, told in expected.items()}
        assert session.period_limits == {whose: limit(told) for whose, told in made.items() if told is not None}
        assert (session.catalog.tables["visits"].growth is None) is not bool(growth)
        assert session.account == Account(budget="main", analyst="ada") and set(session.limits) == {None}


def test_a_limit_in_rho(folder: Path) -> None:
    path = written(folder, limits="per_period = { rho = 0.1, delta = 1e-8 }\nper_analyst_and_period = { rho = 0.05, delta = 1e-9 }\n")
    path.write_text(path.read_text().replace("epsilon = 10\n", "rho = 1\n"))
    with closing(opened(path)) as session:
        assert [session.period_limits[whose].rho for whose in (None, "ada")] == [10**8, 5 * 10**7]


MARCH = "SELECT COUNT(*) AS n FROM visits WHERE day BETWEEN DATE '2024-03-01' AND DATE '2024-03-31'"


def counted(path: Path, text: str = MARCH) -> tuple[Any, ...]:
    """What the kernel counts, and the tables that are read in a store."""
    with dpsql.connect(policy=path, analyst="Ada", epsilon=0.1) as connection:
        connection.session.kernel._noise = Exact()
        return connection.execute(text).fetchall()[0][0], {*connection.session.kernel._reader.stored}


def test_a_store_is_prepared_of_tables_that_grow(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(folder, LIMITED)
    assert cli.main(["prepare", "--policy", str(path)]) == 0
    assert "prepared for each person: people, visits" in " ".join(capsys.readouterr().out.split())
    assert counted(path) == (155, {"people", "visits"})


def test_a_store_that_was_made_before_is_read_by_periods(folder: Path) -> None:
    """Its rows have places among those of all periods, by which no limit in a period goes."""
    static = written(folder, "", "")
    dpsql.prepare(policy=static)
    assert counted(written(folder, LIMITED)) == (155, {"people", "visits"})


def test_a_store_is_awaited_beside_a_connection_that_awaits_one(folder: Path) -> None:
    """Connections of one process to one database share what they may open."""
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        for name, rows in ROWS.items():
            connection.execute(f"CREATE TABLE {name} AS {rows}")
        connection.execute("ALTER TABLE people ADD PRIMARY KEY (id)")

    def opened_in_file(growth: str, limits: str, awaited: list[Any]) -> Session:
        path = written(folder, growth, limits)
        text = path.read_text().replace("version = 1\n", 'version = 1\ndatabase = "w.duckdb"\n')
        path.write_text(re.sub(r"source = .*\n", "", text))
        return opened(path, awaited=awaited)

    first: list[Any] = []
    then: list[Any] = []
    with closing(opened_in_file("", "", first)), closing(opened_in_file(GROWTH, LIMITS, then)):
        assert first and then


@pytest.mark.parametrize("growth", [GROWTH, ""])
def test_a_store_is_awaited(growth: str, folder: Path) -> None:
    awaited: list[Any] = []
    with closing(opened(written(folder, growth, LIMITS if growth else ""), awaited=awaited)):
        assert awaited
