"""Stored answers of periods are found without planning each of them, under the names that real plans give."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.growing_worlds import add_visits, project

import dpsql
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.engine import answering
from dpsql.engine.around_periods import AroundPeriods
from dpsql.engine.merged_periods import MergedPeriods
from dpsql.engine.period_by_period import PeriodByPeriod
from dpsql.engine.running_over_periods import RunningTotals
from dpsql.engine.single import SingleStatement
from dpsql.engine.stored_periods import StoredPeriod
from dpsql.frozen import replace
from dpsql.questions.identity import SharedTexts, canonical
from dpsql.questions.question import Question
from dpsql.questions.rebuilding import rebuild
from dpsql.sql.binding.periods_read import read_in
from dpsql.trusted.declarations.growth import PeriodRange
from dpsql.trusted.plan.operators.scan import Scan

MONTH = "date_trunc('month', visited_on)"
BY_PERIOD = [
    f"SELECT {MONTH} AS month, COUNT(*) AS n FROM visits GROUP BY month",
    f"SELECT {MONTH} AS month, sex, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS a FROM visits JOIN people USING (person_id) "
    "GROUP BY month, sex ORDER BY n",
    "SELECT visited_on, COUNT(*) AS n FROM visits GROUP BY visited_on",
    f"SELECT {MONTH} AS month, COUNT(DISTINCT person_id) AS n FROM visits WHERE cost > 3 GROUP BY month HAVING COUNT(*) > 2",
    f"SELECT {MONTH} AS month, MEDIAN(cost) AS m FROM visits WHERE visited_on >= DATE '2025-02-11' GROUP BY month",
    f"SELECT DISTINCT {MONTH} AS month, COUNT(*) AS n FROM visits GROUP BY month, cost > 5",
    f"SELECT month, AVG(n) OVER (ORDER BY month ROWS 2 PRECEDING) AS m FROM (SELECT {MONTH} AS month, COUNT(*) AS n FROM visits "
    "GROUP BY month)",
]
TOTALS = [
    f"SELECT {MONTH} AS month, SUM(COUNT(*)) OVER (ORDER BY {MONTH}) AS n FROM visits GROUP BY month",
    f"SELECT sex, {MONTH} AS month, SUM(COUNT(*)) OVER (PARTITION BY sex ORDER BY {MONTH}) AS n, SUM(SUM(cost)) OVER "
    f"(PARTITION BY sex ORDER BY {MONTH}) AS s FROM visits JOIN people USING (person_id) GROUP BY sex, month ORDER BY month, sex",
]


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Sets the number of months that are closed."""
    day = [dt.date(2025, 7, 6)]
    monkeypatch.setattr(growing, "today", lambda: day[0])
    yield lambda months: day.__setitem__(0, dt.date(2025 + months // 12, months % 12 + 1, 6))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    made = project(tmp_path)
    made.write_text(made.read_text().replace("epsilon = 1000\ndelta = 1e-3", "rho = 1000").replace(
        "epsilon = 10, delta = 1e-4", "rho = 100").replace("epsilon = 5, delta = 1e-4", "rho = 100"))
    add_visits(made, [(person, dt.date(2025, month, 1 + person % 27)) for person in range(40) for month in range(1, 13)], cost=7)
    return made


def connected(policy: Path) -> Connection:
    return dpsql.connect(policy=policy, budget="study", analyst="ada", rho=0.5)


def parts(connection: Connection, text: str) -> Any:
    plan = answering.planned(text, connection.session).plan
    if isinstance(plan, AroundPeriods):
        return plan.tables[0].parts
    assert isinstance(plan, PeriodByPeriod | MergedPeriods)
    return plan.parts


@pytest.mark.parametrize("text", BY_PERIOD)
def test_names_follow_from_the_newest_plan(policy: Path, closed: Any, text: str) -> None:
    with connected(policy) as connection:
        first = connection.execute(text).answer
    closed(8)
    with connected(policy) as connection:
        found = parts(connection, text)
        assert [type(part) for part in found] == [SingleStatement, *[StoredPeriod] * (len(found) - 3), *[SingleStatement] * 2]
        for part in found[1:-2]:
            planned = part.planned
            assert part.reads == planned.reads and part.body == planned.stored_form and part.answer() == planned.answer()
        assert not list(found[1].dues()) and len(list(found[-1].dues())) == 1
        again = connection.execute(text).answer
        old = {row: place for place, row in enumerate(again.rows)}
        if " OVER " not in text and "DISTINCT month" not in text:
            assert all(row in old and again.errors[old[row]] == errors for row, errors in zip(first.rows, first.errors, strict=True))


@pytest.mark.parametrize("text", TOTALS)
def test_names_of_running_totals_follow_from_the_plans_of_two(policy: Path, closed: Any, text: str) -> None:
    with connected(policy) as connection:
        first = connection.execute(text).answer
        paid = connection.session.ledger.spent("study").rho
        assert connection.execute(text).answer.rows == first.rows
        assert connection.session.ledger.spent("study").rho == paid
    closed(8)
    with connected(policy) as connection:
        plan = answering.planned(text, connection.session).plan
        assert isinstance(plan, RunningTotals) and sorted(plan.stored) == [1, 2, 3, 4, 5]
        assert all(plan.stored[at] == plan.parts[at].stored_form for at in plan.stored)
        assert len(list(plan.dues())) == 2
        again = connection.execute(text).answer
        assert again.rows[:first.size] == first.rows and again.errors[:first.size] == first.errors


def test_a_shown_total_is_the_same_whether_periods_are_composed_at_once(policy: Path, closed: Any,
                                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(policy) as connection:
        at_once = connection.execute(TOTALS[1]).answer
        monkeypatch.setattr(RunningTotals, "_shown_together", lambda *_: None)
        one_by_one = connection.execute(TOTALS[1]).answer
        assert at_once.rows == one_by_one.rows
        for one, other in zip(at_once.errors, one_by_one.errors, strict=True):
            assert one[2:] == pytest.approx(other[2:], rel=1e-9)
        for one, other in zip(at_once.intervals, one_by_one.intervals, strict=True):
            assert one[2] == pytest.approx(other[2], abs=3) and one[3] == pytest.approx(other[3], abs=3)  # ends are of whole numbers


def test_a_revision_and_another_text_find_no_wrong_answers(policy: Path, closed: Any) -> None:
    text = BY_PERIOD[0]
    with connected(policy) as connection:
        connection.execute(text)
        spent = connection.session.ledger.spent("study").rho
        other = text.replace("FROM visits", "FROM visits WHERE cost > 1")
        assert not any(part.is_stored for part in parts(connection, other))
        same = text.replace("GROUP BY month", "GROUP BY 1 LIMIT 3")
        assert connection.execute(same).answer.stored and connection.session.ledger.spent("study").rho == spent
        connection.execute(other)
        assert connection.session.ledger.spent("study").rho == 2 * spent


def test_shared_texts_are_canonical(policy: Path, closed: Any) -> None:
    with connected(policy) as connection:
        question: Question = parts(connection, BY_PERIOD[1])[-1].program.question
        texts, newest = SharedTexts(question), 2025 * 12 + 5
        assert texts.of(question) == canonical(question)
        for number in range(24300, 24320):
            def other(node: Any, number: int = number) -> Any:
                if isinstance(node, Scan) and node.periods is not None:
                    return read_in(node, PeriodRange(period="month", first=number, last=number))
                return node

            made = replace(question, view=rebuild(question.view, other))
            assert texts.of(made) == canonical(made)
            assert (texts.of(made) == canonical(question)) == (number == newest)
