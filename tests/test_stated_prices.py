"""The price of one statement that a program gives beside its text: as if the text stated it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support import worlds

import dpsql
from dpsql import aio
from dpsql.ledgers.ledger_reports import ReportingLedger

COUNT = "SELECT COUNT(*) FROM people WHERE age > 40"
STATED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({}) COUNT(*) FROM people WHERE age > 40"
TERMS: dict[str, Any] = {"budget": "person", "analyst": "ada"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    worlds.world().save(tmp_path / "people.duckdb")
    (tmp_path / "dpsql.toml").write_text(worlds.POLICY.replace(
        "[budgets.person]\n", "[budgets.person]\nper_statement = { epsilon = 0.1, delta = 1e-7 }\n"), encoding="utf-8")
    ReportingLedger.create(tmp_path / "dpsql.ledger").close()
    return tmp_path


@pytest.fixture
def connection(folder: Path) -> dpsql.Connection:
    return dpsql.connect(folder / "people.duckdb", **TERMS)


@pytest.mark.parametrize(("given", "stated"), [
    ({"epsilon": 0.5}, "epsilon = 0.5, delta = 1e-7"), ({"epsilon": Decimal("0.5"), "delta": 0}, "epsilon = 0.5"),
    ({"epsilon": Fraction(1, 2), "delta": 1e-6}, "epsilon = 0.5, delta = 1e-6"), ({"rho": 0.1}, "rho = 0.1")])
def test_it_is_the_same_as_stating_it(given: dict[str, Any], stated: str, connection: dpsql.Connection) -> None:
    cursor = connection.execute(COUNT, **given)
    again = connection.execute(STATED.format(stated))
    assert cursor.cost and again.fetchall() == cursor.fetchall() and again.answer.stored  # type: ignore[union-attr]
    assert connection.cursor().execute(COUNT, (), **given).answer.stored  # type: ignore[union-attr]
    assert connection.execute(STATED.format(stated), **given).answer.stored, "the same price twice"  # type: ignore[union-attr]
    assert connection.execute(COUNT).cost.startswith("ε = 0.1"), "later statements have the price of the connection"


def test_other_kinds_of_statements_have_a_price_too(connection: dpsql.Connection) -> None:
    made = connection.execute("CREATE SYNTHETIC TABLE made AS SELECT sex, active FROM people", epsilon=2)
    assert made.cost.startswith("ε = 2")
    assert "ε = 0.3" in str(connection.execute(f"EXPLAIN PRIVACY {COUNT}", epsilon=0.3).explanation)
    capped = "SELECT COUNT(*) FROM people ERROR WITHIN 5 CONFIDENCE 0.95"
    with pytest.raises(dpsql.Error, match=r"0\.001"):
        connection.execute(capped, rho=0.001)


def test_a_page_explains_the_statement_at_its_price(connection: dpsql.Connection, tmp_path: Path) -> None:
    connection.execute(COUNT, epsilon=0.7).report(tmp_path / "page.html")
    assert "ε = 0.7" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("text", "given", "reason", "place"), [
    (STATED.format("epsilon = 0.5"), {"epsilon": 1}, "states epsilon = 0.5, and execute was given epsilon = 1", "epsilon"),
    (STATED.format("epsilon = 0.5"), {"rho": 1}, "states epsilon = 0.5, and execute was given rho = 1", "epsilon"),
    (STATED.format("epsilon = 0.5, delta = 1e-7"), {"epsilon": 0.5, "delta": 1e-8}, "states delta", "delta"),
    (f"EXPLAIN PRIVACY {STATED.format('rho = 0.5')}", {"rho": 1}, "states rho = 0.5, and execute was given rho = 1", "rho"),
    ("SHOW BUDGET", {"epsilon": 1}, "costs nothing, so it has no price", None),
    (COUNT, {"epsilon": 1, "rho": 1}, "either epsilon or rho", None), (COUNT, {"delta": 1e-6}, "delta alone", None),
    (COUNT, {"epsilon": "much"}, "epsilon must be a number, not text", None)])
def test_what_cannot_be_the_price_is_refused(text: str, given: dict[str, Any], reason: str, place: str | None,
                                             connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.Error, match=reason) as caught:
        connection.execute(text, **given)
    span = caught.value.span
    assert (span is None) == (place is None) and (span is None or text[span.start:].startswith(str(place)))
    assert not connection.execute("SHOW RELEASES").fetchall()


def test_a_planned_statement_has_its_price(connection: dpsql.Connection) -> None:
    with pytest.raises(dpsql.ProgrammingError, match="a statement is a text"):
        connection.execute(connection.planned(COUNT), epsilon=1)


def test_it_can_be_awaited(folder: Path) -> None:
    async def asked() -> str:
        async with await aio.connect(folder / "people.duckdb", **TERMS) as connection:
            return (await connection.execute(COUNT, epsilon=0.5)).cost

    assert asyncio.run(asked()).startswith("ε = 0.5")
