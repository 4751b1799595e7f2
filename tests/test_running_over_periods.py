"""Running totals over periods: what they are, what each period pays, and that they stay."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest
from support.growing_worlds import Clock, add_visits, project, project_in_rho

import dpsql
from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.errors import BudgetExhausted
from dpsql.strategies.over_time import square_root
from dpsql.trusted.accounting.cost import NANO
from dpsql.trusted.declarations.growth import name_of

SO_FAR = "SUM(COUNT(*)) OVER (ORDER BY date_trunc('month', visited_on))"
TOTALS = f"SELECT date_trunc('month', visited_on) AS month, {SO_FAR} AS so_far FROM visits GROUP BY month ORDER BY month"
BY_SEX = (f"SELECT sex, date_trunc('month', visited_on) AS month, {SO_FAR.replace('(ORDER', '(PARTITION BY sex ORDER')} AS so_far, "
          "SUM(SUM(cost)) OVER (PARTITION BY sex ORDER BY date_trunc('month', visited_on)) AS spent "
          "FROM visits JOIN people USING (person_id) GROUP BY sex, month ORDER BY month, sex")
LENGTH = square_root(64).length


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return project_in_rho(tmp_path, per_period=2)


def connected(policy: Path, *, exact: bool = True, analyst: str = "ada", rho: float = 0.5) -> Connection:
    made = dpsql.connect(policy=policy, budget="study", analyst=analyst, rho=rho)
    if exact:
        made.session.kernel._noise = Exact()
    return made


def spent(connection: Connection) -> Mapping[str, float]:
    ledger = connection.session.ledger
    ledger.refresh()
    return {name_of("month", number): charge.rho / NANO for number, charge in ledger.spent_in_periods("study").items()}


def test_totals_are_right_and_each_period_pays_by_its_weights(policy: Path, clock: Clock) -> None:
    visits = [40, 120, 240, 360, 480, 600]
    with connected(policy) as connection:
        assert [row[1] for row in connection.execute(TOTALS).fetchall()] == visits
        weights = [int(weight) ** 2 for weight in square_root(64).weights]
        for month in range(6):  # charged by itself, and by each month after it
            paid = sum(weights[:6 - month]) / LENGTH**2 / 2
            assert spent(connection)[f"2025-0{month + 1}"] == pytest.approx(paid, abs=1e-8)
        clock.day = dt.date(2025, 9, 6)
    with connected(policy) as connection:
        assert [row[1] for row in connection.execute(TOTALS).fetchall()] == [*visits, 720, 840]
        assert spent(connection)["2025-01"] == pytest.approx(sum(weights[:8]) / LENGTH**2 / 2, abs=1e-8)


def test_what_was_told_stays_and_is_free(policy: Path, clock: Clock) -> None:
    with connected(policy, exact=False) as connection:
        first = connection.execute(BY_SEX)
        told, errors, paid = first.fetchall(), first.answer.errors, dict(spent(connection))
        again = connection.execute(BY_SEX)
        assert again.fetchall() == told and again.answer.stored and dict(spent(connection)) == paid
    clock.day = dt.date(2026, 1, 6)
    with connected(policy, exact=False) as connection:
        later = connection.execute(BY_SEX)
        assert later.fetchall()[:12] == told and later.answer.errors[:12] == errors and len(later.answer.rows) == 24


def test_errors_are_those_of_the_strategy(policy: Path, clock: Clock) -> None:
    """One total, measured alone in its period at the price, has a sensitivity of 4 rows and so an error of 4 / sqrt(2 rho)."""
    with connected(policy) as connection:
        answer = connection.execute(TOTALS).answer
        alone = 4 / math.sqrt(2 * 0.5)
        for (*_, error), factor in zip(answer.errors, square_root(64).errors(6), strict=True):
            assert error == pytest.approx(alone * LENGTH * factor, rel=1e-6)
        assert any("times the least of any strategy" in note for note in answer.notes)
        assert ("the stated price is what each period is charged altogether, by its own measurement and by the 63 after it; the cost is "
                "what each person is charged in all") in answer.notes


def test_sums_and_several_keys(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        found = connection.execute(BY_SEX).fetchall()
        assert [(sex, month.month) for sex, month, *_ in found] == [(sex, month) for month in range(1, 7) for sex in ("f", "m")]
        assert [(so_far, cost) for _, _, so_far, cost in found] == [
            (total, 10 * total) for total in (20, 60, 120, 180, 240, 300) for _ in range(2)]


def test_a_pure_epsilon_adds_up_what_was_measured(tmp_path: Path, clock: Clock) -> None:
    made = project(tmp_path)
    add_visits(made, [(person, dt.date(2025, month, 1)) for person, month in itertools.product(range(40), range(1, 7))])
    with dpsql.connect(policy=made, budget="study", analyst="ada", epsilon=1) as connection:
        connection.session.kernel._noise = Exact()
        found = connection.execute(TOTALS)
        assert [row[1] for row in found.fetchall()] == [40 * month for month in range(1, 7)]
        first = found.answer.errors[0][1]
        assert [error for _, error in found.answer.errors] == pytest.approx([first * math.sqrt(k) for k in range(1, 7)])
        connection.session.ledger.refresh()
        charges = connection.session.ledger.spent_in_periods("study").values()
        assert {Fraction(charge.epsilon or 0, NANO) for charge in charges} == {Fraction(1)}


def test_periods_that_cannot_pay_are_named_and_nothing_is_lost(policy: Path, clock: Clock) -> None:
    with connected(policy, rho=1.2) as connection:
        told = connection.execute(TOTALS).fetchall()
    with connected(policy, rho=1.2) as connection:
        with pytest.raises(BudgetExhausted, match="2025-01"):
            connection.execute(TOTALS.replace("visits GROUP", "visits WHERE cost < 50 GROUP"))
        assert connection.execute(TOTALS).fetchall() == told


def test_a_new_stream_adds_to_the_last_total_of_the_one_before(policy: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.engine.running_over_periods.HORIZONS", {"month": 4})
    clock.day = dt.date(2026, 1, 6)
    with connected(policy) as connection:
        found = connection.execute(TOTALS)
        assert [row[1] for row in found.fetchall()] == [40, 120, *range(240, 1321, 120)]
        errors, own = [error for _, error in found.answer.errors], square_root(4).errors(4)
        unit = errors[0] / own[0]
        assert errors[7] == pytest.approx(unit * math.hypot(own[3], own[3]))
        assert errors[9] == pytest.approx(unit * math.sqrt(2 * own[3]**2 + own[1]**2))
        assert spent(connection)["2025-01"] == pytest.approx(0.5, abs=1e-7)


def test_other_windows_are_workloads_as_before(policy: Path, clock: Clock) -> None:
    with connected(policy, rho=0.1) as connection:
        found = connection.execute(TOTALS.replace("ORDER BY date_trunc('month', visited_on))", "ORDER BY date_trunc('month', visited_on) DESC)"))
        assert [row[1] for row in found.fetchall()] == [600, 560, 480, 360, 240, 120]
