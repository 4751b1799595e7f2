"""Accuracy as the question: prices in closed form, errors that meet what was asked, refusals that say what less would buy."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from support import worlds
from support.chances import too_many
from support.sessions import session_of

from dpsql.batch.accuracy_plan import AccuracyPlan
from dpsql.batch.goals import Goals, goals_of
from dpsql.dbapi import Connection
from dpsql.engine.accuracy import cheapest
from dpsql.engine.batches import all_linear
from dpsql.engine.single import bound_to
from dpsql.errors import BudgetExhausted, Error, OptionError, ProgrammingError, SqlError, Unsupported
from dpsql.estimates import laplaces
from dpsql.planning.options import Options
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

ACCOUNTS = {"person": "rho", "pure": "epsilon", "concentrated": "rho"}


def connected(folder: Path, budget: str = "person", **given: Any) -> Connection:
    return Connection(session_of(folder, worlds.world(), budget=budget, at={}, **given))


def charged(connection: Connection) -> list[Any]:
    return [entry.charge for entry in connection.session.ledger.entries(connection.session.budget.name)]


# -- the price


def test_the_price_of_one_count_is_that_of_the_formula(tmp_path: Path) -> None:
    for at, (x, p) in enumerate([(10, 0.95), (3, 0.8), (40, 0.999)]):
        gaussian = connected(tmp_path / f"g{at}")
        gaussian.execute(f"SELECT COUNT(*) FROM people ERROR WITHIN {x} CONFIDENCE {p}")
        (charge,) = charged(gaussian)
        z = norm.ppf((1 + p) / 2)
        assert charge.epsilon is None and charge.rho == pytest.approx(1e9 * z**2 / (2 * x**2), rel=1e-5)
        laplace = connected(tmp_path / f"l{at}", "pure")
        laplace.execute(f"SELECT COUNT(*) FROM people ERROR WITHIN {x} CONFIDENCE {p}")
        (charge,) = charged(laplace)
        assert charge.epsilon == pytest.approx(1e9 * math.sqrt(2) * laplaces(p) / x, rel=1e-5)
        assert charge.epsilon / 1e9 <= 1.2 * max(math.log(1 / (1 - p)), math.sqrt(2) * z) / x


def test_a_standard_error_is_one(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    cursor = connection.execute("SELECT age, COUNT(*) FROM people GROUP BY age STANDARD ERROR 5")
    (charge,) = charged(connection)
    assert charge.rho == pytest.approx(1e9 / (2 * 25), rel=1e-5) and charge.delta == 0
    assert [row[1] for row in cursor.errors] == [pytest.approx(5, rel=1e-6)] * 101 and max(row[1] or 0 for row in cursor.errors) <= 5
    assert cursor.cost == "ρ = 0.02" and cursor.notes[0] == "ρ = 0.02 meets STANDARD ERROR 5"


STATEMENTS = [
    "SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR WITHIN 10 CONFIDENCE 0.9",
    "SELECT bin_floor(age) AS band, sex, COUNT(*) FROM people GROUP BY 1, 2 STANDARD ERROR 3",
    "SELECT COUNT(*) FILTER (WHERE sex = 'f') STANDARD ERROR 2, COUNT(*) AS n STANDARD ERROR 6 FROM people WHERE age BETWEEN 20 AND 40",
    "SELECT year, SUM(cost) AS total ERROR WITHIN 400, COUNT(*) ERROR WITHIN 3 FROM visits GROUP BY year ORDER BY total DESC",
    "SELECT clinic, SUM(cost) FROM visits WHERE year >= 2019 GROUP BY clinic WITHIN 20 PERCENT OF 5000 CONFIDENCE 0.99",
    "FROM people SELECT active, COUNT(income) ERROR WITHIN 4.5 GROUP BY active",
]


@pytest.mark.parametrize("budget", ACCOUNTS)
@pytest.mark.parametrize("text", STATEMENTS)
def test_released_errors_meet_what_was_asked(text: str, budget: str, tmp_path: Path) -> None:
    """And the price is not more than it must be: some number's error is all that it may be."""
    connection = connected(tmp_path, budget)
    answer = connection.execute(text).answer
    assert answer is not None and answer.cost.startswith("ε" if budget == "pure" else "ρ")
    query = parse(text)
    assert isinstance(query, Query)
    z = {goal.column: goal for goal in query.goals}
    tightest = []
    for j, column in enumerate(answer.columns):
        goal = z.get(j, z.get(None))
        if column.exact or goal is None:
            continue
        sure = float(goal.confidence or Fraction(19, 20))
        quantile = 1.0 if goal.kind == "standard" else laplaces(sure) if budget == "pure" else norm.ppf((1 + sure) / 2)
        ratios = [(row[j] or math.inf) * quantile / float(goal.size) for row in answer.errors]
        assert max(ratios) <= 1 + 1e-9
        tightest.append(max(ratios))
    assert max(tightest) > 0.99
    assert len(charged(connection)) == 1


def test_intervals_at_the_confidence_are_those_that_were_asked_for(tmp_path: Path) -> None:
    for budget in ("person", "pure"):
        cursor = connected(tmp_path / budget, budget).execute("SELECT COUNT(*) FROM people ERROR WITHIN 12")
        assert cursor.answer is not None
        (ends,), (count,) = cursor.answer.intervals[0], cursor.answer.rows[0]
        assert ends is not None and ends[1] - count == pytest.approx(12, abs=0.6)  # a count is told as a whole number
        assert any(note.startswith("1 number over 1 cell by") for note in cursor.notes), cursor.notes


def test_a_workload_has_one_accuracy_or_one_for_each_statement(tmp_path: Path) -> None:
    texts = ["SELECT sex, COUNT(*) FROM people GROUP BY sex", "SELECT active, COUNT(*) FROM people GROUP BY active"]
    for options, largest in (({"standard_error": 3}, 3.0), ({"error_within": 6, "confidence": 0.9}, 6 / norm.ppf(0.95))):
        made = connected(tmp_path / next(iter(options))).workload(texts, **options)
        errors = [row[-1] or 0 for answer in made for row in answer.errors]
        assert max(errors) <= largest and max(errors) > largest * 0.99
    own = connected(tmp_path / "own").workload([texts[0] + " STANDARD ERROR 2", texts[1]], standard_error=8)
    assert max(row[-1] or 0 for row in own[0].errors) <= 2 < max(row[-1] or 0 for row in own[1].errors) <= 8


def test_a_workload_for_targets_costs_less_than_its_statements(tmp_path: Path) -> None:
    ranges = [f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {low + width}" for low in range(0, 80, 10) for width in (5, 15, 25)]
    made = connected(tmp_path).workload(ranges, standard_error=10)
    together = float(Fraction(made.cost.removeprefix("ρ = ")))
    assert together < len(ranges) / (2 * 100) / 3
    assert max(row[0] or 0 for answer in made for row in answer.errors) <= 10


def test_what_follows_from_the_others_needs_no_accuracy(tmp_path: Path) -> None:
    made = connected(tmp_path).workload(["SELECT sex, active, COUNT(*) FROM people GROUP BY sex, active STANDARD ERROR 2",
                                         "SELECT COUNT(*) FROM people WHERE sex = 'f'", "SELECT COUNT(*) FROM people"])
    assert made[1].errors[0][0] == pytest.approx(2 * math.sqrt(3), rel=1e-3)
    assert made[2].errors[0][0] == pytest.approx(2 * math.sqrt(12), rel=1e-3)  # with the rows of undeclared sex
    assert made[2].rows[0][0] == pytest.approx(sum(row[2] for row in made[0].rows), abs=5 + 12 * math.sqrt(3))


def test_the_same_question_is_answered_once(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    text = "SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR WITHIN 10"
    first, again = connection.execute(text), connection.execute(text.lower())
    assert again.answer is not None and again.answer.stored and again.cost == "" and first.fetchall() == again.fetchall()
    assert len(charged(connection)) == 1


def test_noise_that_is_wide_in_small_units_costs_what_was_charged(tmp_path: Path) -> None:
    """Units of 2^-22: the noise is wider than 2^36 of them, and its cost is still worked out to nine digits."""
    text = "SELECT SUM(w) FROM visits JOIN (VALUES ('a', 1), ('b', 2.5)) AS weights(clinic, w) USING (clinic) ERROR WITHIN 20000"
    for budget in ("person", "pure"):
        cursor = connected(tmp_path / budget, budget).execute(text)
        assert 0 < (cursor.errors[0][0] or 0) <= 20000 / 1.95


# -- caps and budgets


def test_a_price_beside_an_accuracy_is_a_cap(tmp_path: Path) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({}) COUNT(*) FROM people ERROR WITHIN {}"
    enough = connected(tmp_path)
    enough.execute(text.format("rho = 1", 10))
    assert charged(enough)[0].rho == pytest.approx(0.0192073e9, rel=1e-4)
    for price in ("rho = 0.0001", "epsilon = 0.01", "epsilon = 0.01, delta = 1e-6"):
        connection = connected(tmp_path / price)
        with pytest.raises(OptionError, match="this accuracy costs") as caught:
            connection.execute(text.format(price, 2))
        assert caught.value.code == "accuracy" and caught.value.span is not None and not charged(connection)
        buys = re.fullmatch(r"ERROR WITHIN ([\d.e+]+) CONFIDENCE 0.95", caught.value.try_)
        assert buys is not None
        with pytest.raises(OptionError):
            connection.execute(text.format(price, float(buys[1]) * 0.97))
        connection.execute(text.format(price, buys[1]))
        assert len(charged(connection)) == 1


@pytest.mark.parametrize(("declared", "budget"), [("epsilon = 1000\ndelta = 0.01", "person"), ("epsilon = 1000\n", "pure")])
def test_a_refusal_says_what_the_rest_of_the_budget_buys(declared: str, budget: str, tmp_path: Path) -> None:
    small = worlds.POLICY.replace(f'[budgets.{budget}]\nentity = "person"\n{declared}',
                                  f'[budgets.{budget}]\nentity = "person"\n{declared.replace("1000", "1")}')
    assert small != worlds.POLICY
    connection = connected(tmp_path, budget, policy=small)
    text = "SELECT sex, COUNT(*) {}, SUM(income) {} FROM people GROUP BY sex"
    with pytest.raises(BudgetExhausted) as caught:
        connection.execute(text.format("ERROR WITHIN 1 CONFIDENCE 0.9", "WITHIN 10 PERCENT OF 1000"))
    first, second = caught.value.try_.split(", ")
    assert first.startswith("ERROR WITHIN") and second.endswith("PERCENT OF 1000 CONFIDENCE 0.95") and not charged(connection)
    wider = [float(re.findall(r"WITHIN ([\d.e+]+)", each)[0]) / given for each, given in ((first, 1), (second, 10))]
    assert wider[0] == pytest.approx(wider[1], rel=0.011) and wider[0] > 2
    connection.execute(text.format(first, second))
    assert len(charged(connection)) == 1
    with pytest.raises(BudgetExhausted) as caught:
        connection.execute("SELECT COUNT(*) FROM visits ERROR WITHIN 1")
    assert len(charged(connection)) == 1


# -- refusals

WRONG: list[tuple[list[str], dict[str, Any], type[Error], str]] = [
    (["SELECT AVG(income) FROM people ERROR WITHIN 10"], {}, Unsupported, "a workload for an accuracy has COUNT and SUM, and AVG(income)"),
    (["SELECT MEDIAN(age) ERROR WITHIN 1 FROM people"], {}, Unsupported, "a workload for an accuracy has COUNT and SUM, and MEDIAN"),
    (["SELECT COUNT(DISTINCT sex) FROM people STANDARD ERROR 1"], {}, Unsupported, "a workload for an accuracy has COUNT and SUM, and COUNT("),
    (["SELECT sex ERROR WITHIN 3, COUNT(*) FROM people GROUP BY sex"], {}, ProgrammingError, "sex is exact"),
    (["SELECT sex FROM people GROUP BY sex ERROR WITHIN 3"], {}, ProgrammingError, "this statement has no aggregate"),
    (["SELECT 2 * COUNT(*) FROM people ERROR WITHIN 3"], {}, Unsupported, "2 * COUNT(*) is computed from aggregates"),
    (["SELECT COUNT(*) FROM clinics ERROR WITHIN 3"], {}, Error, ""),
    (["SELECT COUNT(*) ERROR WITHIN 3, SUM(income) FROM people"], {}, Unsupported, "an aggregate without an accuracy"),
    (["SELECT COUNT(*) FROM people ERROR WITHIN 3", "SELECT sex, COUNT(*) FROM people GROUP BY sex"], {}, Unsupported,
     "an aggregate without an accuracy"),
    (["SELECT nickname, COUNT(*) FROM people GROUP BY nickname ERROR WITHIN 3"], {}, Unsupported, "the values of nickname"),
    (["SELECT COUNT(*) FROM people"], {"error_within": 0}, OptionError, "error_within must be between"),
    (["SELECT COUNT(*) FROM people"], {"error_within": -1}, OptionError, "error_within must be between"),
    (["SELECT COUNT(*) FROM people"], {"error_within": math.nan}, OptionError, "error_within must be a finite number"),
    (["SELECT COUNT(*) FROM people"], {"standard_error": True}, OptionError, "standard_error must be a number"),
    (["SELECT COUNT(*) FROM people"], {"standard_error": 1, "error_within": 1}, OptionError, "give either error_within"),
    (["SELECT COUNT(*) FROM people"], {"error_within": 1, "confidence": 1.5}, OptionError, "confidence must be between"),
    (["SELECT COUNT(*) FROM people"], {"error_within": 1, "strategy": "identity"}, OptionError, "an accuracy determines the strategy"),
    (["SELECT COUNT(*) FROM people"], {"error_within": 1, "epsilon": 1, "rho": 1}, OptionError, "a price is either"),
]


@pytest.mark.parametrize(("statements", "options", "kind", "reason"), WRONG, ids=[f"{i}: {case[3][:40]}" for i, case in enumerate(WRONG)])
def test_mistakes_are_told_and_cost_nothing(statements: list[str], options: dict[str, Any], kind: type[Error], reason: str,
                                            tmp_path: Path) -> None:
    connection = connected(tmp_path)
    with pytest.raises(kind) as caught:
        connection.workload(statements, **options)
    assert caught.value.reason.startswith(reason)
    if not options:
        assert "^" in str(caught.value)
    assert not charged(connection)


def test_public_statements_are_exact(tmp_path: Path) -> None:
    for text in ("SELECT COUNT(*) FROM clinics ERROR WITHIN 3", "EXPLAIN PRIVACY SELECT COUNT(*) FROM clinics ERROR WITHIN 3"):
        with pytest.raises(ProgrammingError, match="its answer is exact"):
            connected(tmp_path / text[:3]).execute(text)


def test_an_accuracy_inside_is_refused_by_the_parser() -> None:
    with pytest.raises(SqlError, match="outermost"):
        parse("SELECT COUNT(*) FROM (SELECT * FROM people STANDARD ERROR 3) AS t")


# -- EXPLAIN


def test_explain_tells_the_price_first_and_spends_nothing(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    text = "SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR WITHIN 10 CONFIDENCE 0.9"
    told = str(connection.explain(text))
    assert told.splitlines()[0] == "price   ρ = 0.0135277 meets ERROR WITHIN 10 CONFIDENCE 0.9" and "cost    ρ = 0.0135277" in told
    assert not charged(connection)
    assert connection.execute(text).cost == "ρ = 0.0135277"
    again = str(connection.explain(text.replace("10", "11")))
    assert again.splitlines()[0] == "price   nothing, as earlier measurements meet ERROR WITHIN 11 CONFIDENCE 0.9"
    assert "cost    nothing" in again and len(charged(connection)) == 1
    pure = str(connected(tmp_path / "pure", "pure").explain(text))
    assert pure.splitlines()[0].endswith("by a bound for all sums of Laplace noise")


# -- by chance


class Remembering:
    """A reader that reads each plan once, as what is looked at is the noise."""

    def __init__(self, below: Any) -> None:
        self._below = below
        self._read: dict[str, Any] = {}

    def columns(self, sql: str, parts: Any = ()) -> Any:
        if sql not in self._read:
            self._read[sql] = self._below.columns(sql)
        return self._read[sql]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)


def _aimed(text: str, connection: Connection) -> tuple[AccuracyPlan, Query]:
    query = parse(text)
    assert isinstance(query, Query)
    session = connection.session
    question, options = bound_to(query, session, ())
    asked = all_linear([query], [question], options, session)
    goals = Goals(each=(goals_of(question, query.goals, None),), confidence=options.confidence)
    return cheapest([query], asked, goals, (), Options(price=None), session), query


def _errors(made: AccuracyPlan, connection: Connection, times: int) -> np.ndarray:
    """Of all numbers, drawn so many times, as they are released: counts are whole numbers."""
    from dpsql.audit.exact import Exact

    session = connection.session
    noisy = [_numbers(session.kernel._serve(made.steps(), made.allotted)) for _ in range(times)]
    session.kernel._noise = Exact()
    truth = _numbers(session.kernel._serve(made.steps(), made.allotted))
    return np.abs(np.rint(noisy) - np.rint(truth))


def _numbers(found: Any) -> np.ndarray:
    return np.concatenate([estimate.values for _, aggregates in found.statements for estimate in aggregates.values()])


CASES: Sequence[tuple[str, float, float]] = [
    ("SELECT COUNT(*) FROM people ERROR WITHIN 6 CONFIDENCE 0.9", 6, 0.9),
    ("SELECT COUNT(*) FROM people ERROR WITHIN 2.9 CONFIDENCE 0.8", 2.9, 0.8),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ERROR WITHIN 4 CONFIDENCE 0.7", 4, 0.7),
    ("SELECT active, COUNT(*) FROM people WHERE age BETWEEN 20 AND 60 GROUP BY active ERROR WITHIN 15 CONFIDENCE 0.9", 15, 0.9),
]


@pytest.mark.stat
@pytest.mark.parametrize("budget", ["person", "pure"])
@pytest.mark.parametrize(("text", "x", "p"), CASES)
def test_errors_are_within_what_was_asked_as_often_as_it_was(text: str, x: float, p: float, budget: str, tmp_path: Path,
                                                             effort: float) -> None:
    connection = connected(tmp_path, budget, around=Remembering)
    made, _ = _aimed(text, connection)
    times = int(600 * effort)
    errors = _errors(made, connection, times)
    for column in errors.T:
        assert not too_many(int((column > x).sum()), times, 1 - p)


@pytest.mark.stat
def test_noise_that_is_too_wide_is_found(tmp_path: Path, effort: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsql.trusted.noise import source

    add = source.gaussian
    monkeypatch.setattr(source, "gaussian", lambda values, sigma: add(values, sigma * 1.5))
    connection = connected(tmp_path, around=Remembering)
    times = int(600 * max(1.0, effort))
    errors = _errors(_aimed(CASES[0][0], connection)[0], connection, times)
    assert too_many(int((errors[:, 0] > CASES[0][1]).sum()), times, 1 - CASES[0][2])
