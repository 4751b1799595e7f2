"""Limits in any so many consecutive months, as owners declare them and analysts see them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.growing_worlds import add_visits, project
from support.wire_servers import PASSWORD, served

import dpsql
from dpsql.agents.public_facts import budget_as_data
from dpsql.audit.exact import Exact
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.engine.accounts import budget_of, left_if_known
from dpsql.errors import BudgetExhausted
from dpsql.trusted.accounting.cost import NANO, NOTHING
from dpsql.trusted.declarations.growth import period_of

LIMITS = "in_any = { periods = 3, epsilon = 12, delta = 1e-4 }\nper_analyst_in_any = { epsilon = 6, delta = 1e-4 }\n"
JANUARY = period_of("month", dt.date(2025, 1, 1))


@pytest.fixture(autouse=True)
def june_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 7, 6))


def limited(folder: Path, limits: str = LIMITS) -> Path:
    made = project(folder)
    made.write_text(made.read_text() + limits)
    add_visits(made, itertools.product(range(40), [dt.date(2025, month, 1) for month in range(1, 7)]))
    return made


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return limited(tmp_path)


def connected(policy: Path, **terms: Any) -> Connection:
    made = dpsql.connect(policy=policy, budget="study", analyst="ada", **{"epsilon": 2, **terms})
    made.session.kernel._noise = Exact()
    return made


def in_month(month: int, more: str = "") -> str:
    return f"SELECT COUNT(*) FROM visits WHERE date_trunc('month', visited_on) = DATE '2025-{month:02}-01'{more}"


def spent(connection: Connection, analyst: str | None = None) -> list[float]:
    """What a person was charged in the three months that begin with each one from January to May."""
    found = connection.session.ledger.spent_in_windows("study", analyst, 3)
    return [(found.get(JANUARY + month, NOTHING).epsilon or 0) / NANO for month in range(5)]


def test_three_months_together_have_less_than_three_times_one(policy: Path) -> None:
    with connected(policy) as connection:
        for month in (1, 2, 3):
            assert connection.execute(in_month(month)).fetchall() == [(40,)]
        assert spent(connection) == spent(connection, "ada") == [6, 4, 2, 0, 0]
        for month in (1, 2, 3):
            with pytest.raises(BudgetExhausted, match="the budget of ada for 2025-01 to 2025-03 has left: 0 %") as caught:
                connection.execute(in_month(month, " AND cost > 1"))
            assert caught.value.code == "period-exhausted" and caught.value.subject == "ada"
        connection.execute(in_month(4))
        assert spent(connection) == [6, 6, 4, 2, 0], "the total of January is not charged, nor that of any three months with it"
        assert connection.execute(in_month(1)).answer.stored  # type: ignore[union-attr]


def test_others_have_their_own_limit_and_all_have_one_together(policy: Path) -> None:
    with connected(policy) as connection, dpsql.connect(policy=policy, budget="study", analyst="bob", epsilon=3) as other:
        for month in (1, 2, 3):
            connection.execute(in_month(month))
        for month in (1, 3):
            other.execute(in_month(month))
        with dpsql.connect(policy=policy, budget="study", analyst="eve", epsilon=1) as third:
            with pytest.raises(BudgetExhausted, match="the budget for 2025-01 to 2025-03 has left: 0 %") as caught:
                third.execute(in_month(2))
            assert caught.value.subject == "all"
            third.execute(in_month(4))
        connection.session.ledger.refresh()
        assert spent(connection) == [12, 8, 6, 1, 0] and spent(connection, "bob") == [6, 3, 3, 0, 0]


def test_several_months_are_charged_once_in_two_steps(policy: Path) -> None:
    with connected(policy, epsilon=1) as connection:
        told = connection.execute("SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-03-01'")
        assert told.fetchall() == [(80,)] and spent(connection) == [2, 2, 0, 0, 0]
        assert told.answer is not None
        assert "in any 3 consecutive months that include one of these, each person is charged twice the ε, or four times the ρ" in told.answer.notes
        one = connection.execute(in_month(3)).answer
        assert one is not None and "in any 3 consecutive months that include 2025-03, each person is charged the same" in one.notes
        assert spent(connection) == [3, 3, 1, 0, 0]


def test_groups_by_month_add_up_in_the_months_together(policy: Path) -> None:
    with connected(policy, epsilon=1) as connection:
        told = connection.execute("SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month")
        assert spent(connection) == [3, 3, 3, 3, 2], "three months together cost three times the price"
        assert told.answer is not None
        assert ("in any 3 consecutive months, each person is charged the sum of the prices of those of the 6 periods 2025-01 to 2025-06 "
                "that are among them") in told.answer.notes


BY_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"


@pytest.mark.parametrize("text", [
    BY_MONTH, f"{BY_MONTH} HAVING COUNT(*) > 3", BY_MONTH.replace("GROUP BY month", "GROUP BY CUBE (month)"),
    "SELECT date_trunc('month', visited_on) AS month, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY date_trunc('month', visited_on)) AS more "
    "FROM visits GROUP BY month",
    "SELECT month, n FROM (SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month) WHERE n > 3",
    f"VALIDATE {BY_MONTH} AGAINST open_visits WITHIN 50", "CREATE SYNTHETIC TABLE syn AS SELECT visited_on, cost FROM visits",
    "SELECT date_trunc('month', visited_on) AS month, SUM(COUNT(*)) OVER (ORDER BY date_trunc('month', visited_on)) AS n FROM visits GROUP BY month"])
def test_what_some_months_cannot_pay_is_refused_before_any_is_charged(policy: Path, text: str) -> None:
    """Ada may spend 6 in any three months, and 2.5 cost 7.5; each month alone could pay."""
    with duckdb.connect(policy.with_name("data.duckdb")) as connection:
        connection.execute("CREATE TABLE open_visits AS SELECT * FROM visits")
    policy.write_text(policy.read_text() + "\n[tables.open_visits]\npublic = true\n[tables.open_visits.columns]\nperson_id = {}\n"
                      "visited_on = {}\ncost = {}\n")
    terms: dict[str, Any] = {"epsilon": None, "rho": 0.4} if "SUM(COUNT" in text else {"epsilon": 2.5}
    with connected(policy, **terms) as connection:
        with pytest.raises(BudgetExhausted, match=r"costs \d times .*, and the budget.* for .* has left: 100 %") as caught:
            connection.execute(text)
        assert caught.value.code == "period-exhausted" and caught.value.span is None and "fewer periods" in caught.value.try_
        assert spent(connection) == [0] * 5 and not connection.execute("SHOW RELEASES").fetchall()


def test_what_the_total_or_a_month_cannot_pay_is_refused_before_any_is_charged(tmp_path: Path) -> None:
    made = project(tmp_path)
    made.write_text(made.read_text().replace("epsilon = 1000", "epsilon = 10"))
    with connected(made, epsilon=2) as connection:
        with pytest.raises(BudgetExhausted, match="costs 6 times ε = 2, and the budget has left: 100 %"):
            connection.execute(BY_MONTH)
        assert spent(connection) == [0] * 5
        connection.execute(BY_MONTH.replace("GROUP", "WHERE visited_on BETWEEN DATE '2025-03-01' AND DATE '2025-03-31' GROUP"), epsilon=4)
        with pytest.raises(BudgetExhausted, match="costs 3 times ε = 1.5, and the budget of ada for 2025-03 has left: 20 %"):
            connection.execute(BY_MONTH.replace("GROUP", "WHERE visited_on < DATE '2025-04-01' GROUP"), epsilon=1.5)
        assert [row[2] for row in connection.execute("SHOW RELEASES").fetchall()] == ["ada"], "one statement was charged"


def test_room_for_standing_queries_is_looked_for_in_months_together(policy: Path) -> None:
    """Each month alone could pay 1.5 and more; any three of them have 6 for ada and 12 for all."""
    series = f"CREATE STANDING QUERY {{}} AS {BY_MONTH} OPTIONS (epsilon = {{}})"

    def room(connection: Connection) -> list[str]:
        return [str(row[8]) for row in connection.execute("SHOW STANDING QUERIES").fetchall()]

    with connected(policy) as connection:
        connection.execute(series.format("small", 1.5))
        assert room(connection) == ["yes"]
        connection.execute(series.format("more", 0.75))
        assert room(connection) == ["yes", "no: 2025-01 to 2025-03 of ada"], "two months have room, and three have not"
        connection.execute("DROP STANDING QUERY more")
        connection.execute(in_month(3))
        assert room(connection) == ["no: 2025-01 to 2025-03 of ada"], "with what was charged"
    with dpsql.connect(policy=policy, budget="study", analyst="eve", epsilon=1) as other:
        assert room(other) == ["yes"], "eve sees her own accounts and those of all, which have room"


def test_what_is_left_in_the_fullest_months_is_shown(policy: Path) -> None:
    with connected(policy) as connection:
        first = {row[2]: row[1:5] for row in connection.execute("SHOW PERIODS").fetchall()[:2]}
        assert first == {"all": ("2025-04 to 2025-06", "all", "ε = 12, δ = 0.0001 in any 3 months", "100 %"),
                         "ada": ("2025-04 to 2025-06", "ada", "ε = 6, δ = 0.0001 in any 3 months", "100 %")}
        for month in (2, 3):
            connection.execute(in_month(month))
        rows = connection.execute("SHOW PERIODS").fetchall()
        assert [row[1:3] + row[4:5] for row in rows[:2]] == [("2025-02 to 2025-04", "all", "66.6 %"), ("2025-02 to 2025-04", "ada", "33.3 %")]
        assert len(rows) == 2 + 2 * 6 and rows[2][1] == "2025-06"
        shown = {row[0]: row for row in connection.execute("SHOW BUDGET").fetchall()}
        assert shown["ada, 2025-02 to 2025-04"][1:4] == ("ε = 6, δ = 0.0001 in any 3 months", "66.7 %", "33.3 %")
        told = budget_of(connection.session)
        assert [(window.line.whose, window.periods, window.length) for window in told.windows] == [
            (None, "2025-02 to 2025-04", "3 months"), ("ada", "2025-02 to 2025-04", "3 months")]
        assert "ada, 2025-02 to 2025-04" in repr(told) and "in any 3 months" in repr(told) and "in any 3 months" in told.as_html()
        assert [window["periods"] for window in json.loads(json.dumps(told.as_dict(tight=False)))["windows"]] == ["2025-02 to 2025-04"] * 2
        assert left_if_known(connection.session).endswith("all analysts, in 2025-02 to 2025-04: 66.6 %; ada, in 2025-02 to 2025-04: 33.3 %")
        assert [(line["of"], line["total"]) for line in budget_as_data(told)[1:]] == [
            (f"{whose}, 2025-02 to 2025-04", f"ε = {most}, δ = 0.0001 in any 3 months") for whose, most in (("all analysts", 12), ("ada", 6))]
        pytest.importorskip("fastapi", reason="fastapi is not installed")
        from dpsql.server.front.http.http_answers import budget_of_analyst  # needs more than a plain installation has

        assert [line["whose"] for line in budget_of_analyst(connection)["accounts"]] == ["all analysts", *(
            f"{whose}, 2025-02 to 2025-04" for whose in ("all analysts", "ada"))]
        explained = " ".join(str(connection.execute(f"EXPLAIN PRIVACY {in_month(5)}").explanation).split())
        assert "(ada, in 2025-02 to 2025-04)" in explained


def test_without_the_limit_nothing_is_said_of_it(tmp_path: Path) -> None:
    with connected(limited(tmp_path, "")) as connection:
        answer = connection.execute(in_month(3)).answer
        assert answer is not None and not [note for note in answer.notes if "consecutive" in note]
        told = budget_of(connection.session)
        assert told.windows == () and len(connection.execute("SHOW PERIODS").fetchall()) == 12 and "2025" not in left_if_known(connection.session)


def test_a_limit_that_is_added_later_counts_what_was_charged_before(tmp_path: Path) -> None:
    policy = limited(tmp_path, "")
    with connected(policy) as connection:
        for month in (1, 2, 3):
            connection.execute(in_month(month))
    policy.write_text(policy.read_text() + LIMITS)
    with connected(policy) as connection, pytest.raises(BudgetExhausted, match="2025-01 to 2025-03"):
        connection.execute(in_month(2, " AND cost > 1"))


@pytest.fixture
def port(policy: Path) -> Iterator[int]:
    with served(policy, budget="study", price={"epsilon": 2}) as found:  # type: ignore[dict-item]
        yield found.port


@pytest.mark.slow
def test_over_the_network(port: int, policy: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    notices: list[str] = []
    with psycopg.connect(host="127.0.0.1", port=port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as client:
        client.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        for month in (1, 2, 3):
            assert client.execute(in_month(month)).fetchone() is not None
        assert any("in 2025-01 to 2025-03: 0 %" in notice for notice in notices), notices
        with pytest.raises(psycopg.Error, match="the budget of ada for 2025-01 to 2025-03 has left: 0 %"):
            client.execute(in_month(2, " AND cost > 1"))
        listed = client.execute("SHOW PERIODS").fetchall()
        assert [row[1:3] for row in listed[:2]] == [("2025-01 to 2025-03", "all"), ("2025-01 to 2025-03", "ada")]
    with connected(policy) as connection:
        assert spent(connection, "ada") == [6, 4, 2, 0, 0]
