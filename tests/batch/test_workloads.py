"""Workloads from SQL: without noise they say what each statement says by itself; with it, as much as their errors say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.audits import refutes
from support.sessions import session_of

from dpsql.audit.epsilon import lower_bound
from dpsql.audit.exact import Exact
from dpsql.batch import measured
from dpsql.batch.workload_answers import Answers, of_json
from dpsql.dbapi import Connection
from dpsql.engine import answering
from dpsql.engine.session import Session
from dpsql.engine.together import batched
from dpsql.errors import BudgetExhausted, Error, Incident, OptionError, ProgrammingError, SqlError, Unsupported
from dpsql.strategies.all_strategies import GAUSSIAN
from dpsql.strategies.strategy import Block, sensitivity
from dpsql.workload.factors import Dense, Prefix

PEOPLE = [
    "SELECT COUNT(*) FROM people",
    "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
    "SELECT age, COUNT(*) FROM people GROUP BY age",
    "SELECT bin_floor(age) AS band, sex, COUNT(*) FROM people GROUP BY 1, 2",
    "SELECT COUNT(*) FROM people WHERE age BETWEEN 20 AND 40",
    "SELECT COUNT(*) FILTER (WHERE sex = 'f') AS f, COUNT(*) FILTER (WHERE sex <> 'f' AND age > 30) AS m FROM people",
    "SELECT COUNT(*) FROM people WHERE income > 1000.5 AND income <= 60000",
    "SELECT COUNT(*) FROM people WHERE income IS NULL OR income < 500",
    "SELECT active, COUNT(*) FROM people WHERE age >= 18 GROUP BY active",
    "SELECT COUNT(income) FROM people WHERE sex = 'm'",
    "SELECT sex, SUM(CASE WHEN age < 18 THEN income ELSE 0 END), COUNT(CASE WHEN age < 18 THEN 1 END) FROM people GROUP BY sex",
]
VISITS = [
    "SELECT COUNT(*) FROM visits",
    "SELECT year, COUNT(*) FROM visits GROUP BY year",
    "SELECT year, clinic, SUM(cost) AS cost, COUNT(*) AS n FROM visits GROUP BY year, clinic",
    "SELECT SUM(cost) FROM visits WHERE year >= 2019",
    "SELECT SUM(cost) FILTER (WHERE clinic = 'a') / COUNT(*) FROM visits",
    "SELECT clinic, COUNT(*) AS n FROM visits GROUP BY clinic HAVING n > 0 ORDER BY n DESC, clinic LIMIT 2",
]


GENEROUS = worlds.POLICY.replace("person = 3, household = 12", "person = 15, household = 15")  # so many that all rows stay


def listed() -> worlds.World:
    """The small world without rows that have undeclared values: a workload leaves these out of all its statements."""
    rows = dict(worlds.world().rows)
    rows["people"] = [row for row in rows["people"] if row[2] in ("f", "m", None) and 0 <= row[3] <= 100]
    rows["visits"] = [row for row in rows["visits"] if row[2] in (2018, 2019, 2020, 2021, None) and row[3] in ("a", "b", "c", "d", None)]
    return worlds.World(rows)


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[Session]:
    made = session_of(tmp_path, listed(), noise=Exact(), policy=GENEROUS)
    yield made
    made.close()


@pytest.fixture
def connection(tmp_path: Path) -> Connection:
    return Connection(session_of(tmp_path, worlds.world()))


@pytest.mark.parametrize("options", [{"epsilon": 1}, {"rho": 0.5}], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("statements", [PEOPLE, VISITS], ids=["people", "visits"])
def test_without_noise_a_workload_says_what_its_statements_say(statements: list[str], options: dict[str, Any],
                                                               exact: Session) -> None:
    together = Connection(exact).workload(statements, **options)
    for text, told in zip(statements, together, strict=True):
        alone = answering.answer(text, exact)
        assert [column.name for column in told.columns] == [column.name for column in alone.columns]  # type: ignore[union-attr]
        assert len(told.rows) == len(alone.rows)  # type: ignore[union-attr]
        for row, other in zip(told.rows, alone.rows, strict=True):  # type: ignore[union-attr]
            for value, expected in zip(row, other, strict=True):
                assert value == expected or value == pytest.approx(expected, abs=1e-4), text


@pytest.mark.slow
def test_the_price_is_charged_once_and_the_same_workload_is_free(connection: Connection) -> None:
    first = connection.workload(PEOPLE, epsilon=0.25)
    assert len(connection.session.ledger.entries("person")) == 1
    assert connection.session.ledger.entries("person")[0].charge.epsilon == 250_000_000
    again = connection.workload([text.lower().replace("'m'", "'m'") for text in PEOPLE], epsilon=0.25)
    assert again.stored and [answer.rows for answer in again] == [answer.rows for answer in first]
    assert len(connection.session.ledger.entries("person")) == 1
    assert of_json(first.as_json()).answers[1].rows == first[1].rows


def test_answers_agree_with_each_other(connection: Connection) -> None:
    """A total is the sum of its groups and of the rows that are in none; each number is rounded to a whole one."""
    groups = {"sex": ["sex NOT IN ('f', 'm')"], "age": ["age < 0", "age > 100"]}
    others = [f"SELECT COUNT(*) FROM people WHERE {test}" for tests in groups.values() for test in tests]
    made = connection.workload(["SELECT COUNT(*) FROM people", *others,
                                *(f"SELECT {key}, COUNT(*) FROM people GROUP BY {key}" for key in groups)], rho=0.5)
    total, no_sex, young, old = (int(answer.rows[0][0]) for answer in made.answers[:4])
    for answer, rest in zip(made.answers[4:], ([no_sex], [young, old]), strict=True):
        parts = [*(int(row[-1]) for row in answer.rows), *rest]
        assert abs(sum(parts) - total) <= (len(parts) + 1) / 2


@pytest.mark.slow
def test_errors_are_those_of_the_numbers(tmp_path: Path, effort: float) -> None:
    session = session_of(tmp_path, worlds.world())
    made, _ = batched([_query(text) for text in PEOPLE], session, [_option("epsilon", 1.0)])
    promised = [next(iter(found.values())) for found in made.expected()]
    truth = _values(session_of(tmp_path / "exact", worlds.world(), noise=Exact()))
    times = int(150 * effort)
    runs = np.array([np.concatenate([next(iter(found.values())).values for _, found in _measured(made, session).statements])
                     for _ in range(times)])
    found = np.sqrt(((runs - truth) ** 2).mean(axis=0))
    ratio = found / np.concatenate(promised)
    assert abs(float(np.sqrt((ratio**2).mean())) - 1) < 0.2 and ratio.max() < 1 + 8 / np.sqrt(times), ratio


def test_a_workload_costs_less_than_its_statements(connection: Connection) -> None:
    """Forty ranges by themselves share the price; together they are measured at once."""
    ranges = [f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {low + width}" for low in range(0, 80, 10) for width in
              (5, 10, 15, 20, 25)]
    made = connection.workload(ranges, rho=0.02)
    together = max(row[0] or 0 for answer in made for row in answer.errors)
    alone = math.sqrt(len(ranges) / (2 * 0.02))
    assert together < alone / 2


WRONG: list[tuple[list[str], dict[str, Any], type[Error], str]] = [
    (["SELECT STDDEV(income) FROM people"], {}, Unsupported, "STDDEV(income) is not linear"),
    (["SELECT sex FROM people GROUP BY sex"], {}, Unsupported, "these statements contain no aggregates"),
    (["SELECT MEDIAN(age) FROM people"], {}, Unsupported, "MEDIAN(age) is not linear"),
    (["SELECT COUNT(DISTINCT sex) FROM people"], {}, Unsupported, "COUNT(DISTINCT sex) is not linear"),
    (["SELECT SUM(weight) FROM people"], {}, Unsupported, "weight has no declared bounds"),
    (["SELECT COUNT(*) FROM people WHERE age > income"], {}, Unsupported, "this condition compares several columns"),
    (["SELECT COUNT(*) FROM people WHERE sex = 'f' OR age > 3"], {}, Unsupported, "this condition compares several columns"),
    (["SELECT COUNT(*) FROM people WHERE nickname = 'al'"], {}, Unsupported, "the values of nickname are not declared"),
    (["SELECT nickname, COUNT(*) FROM people GROUP BY nickname"], {}, Unsupported, "the values of nickname are not declared"),
    (["SELECT sex, COUNT(*) FROM people WHERE sex = 'q' GROUP BY sex"], {}, Unsupported, "no value of sex is left, so there are no groups"),
    (["SELECT COUNT(*) FROM people WHERE 1 = 2"], {}, Unsupported, ""),
    (["SELECT COUNT(*) FROM people", "SELECT age FROM people GROUP BY age, age + 1, age + 2, age + 3"], {}, Unsupported, "these are 104"),
    (["SELECT COUNT(*) FROM scores"], {}, Unsupported, "a workload needs private rows with a limit"),
    (["SELECT COUNT(*) FROM clinics"], {}, Unsupported, "a workload needs private rows with a limit"),
    (["SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM peple"], {}, SqlError, "there is no table peple"),
    (["SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM people"], {}, OptionError, "the options of a workload"),
    (["SHOW BUDGET"], {}, ProgrammingError, "a workload consists of queries"),
    ([], {}, ProgrammingError, "there is no statement"),
    (["SELECT COUNT(*) FROM people"], {"epsilonn": 1}, OptionError, "there is no option epsilonn"),
    (["SELECT COUNT(*) FROM people"], {"epsilon": 10**6}, OptionError, "epsilon must be between"),
    (["SELECT COUNT(*) FROM people"], {"epsilon": 999.5, "rho": 1}, OptionError, ""),
]


@pytest.mark.parametrize(("statements", "options", "kind", "reason"), WRONG, ids=[f"{i}: {case[3][:40]}" for i, case in enumerate(WRONG)])
def test_mistakes_are_told_and_cost_nothing(statements: list[str], options: dict[str, Any], kind: type[Error], reason: str,
                                            connection: Connection) -> None:
    with pytest.raises(kind) as caught:
        connection.workload(statements, **{"epsilon": 1, **options})
    assert caught.value.reason.startswith(reason), caught.value
    assert not connection.session.ledger.entries("person")


def test_what_the_budget_does_not_hold_is_refused(tmp_path: Path) -> None:
    session = session_of(tmp_path, worlds.world(), policy=worlds.POLICY.replace("epsilon = 1000\ndelta = 0.01", "epsilon = 1"))
    with pytest.raises(BudgetExhausted):
        Connection(session).workload(PEOPLE, epsilon=2)
    assert not session.ledger.entries("person")


# -- many ranges


def test_many_ranges_are_one_matrix(exact: Session) -> None:
    """Ranges of one column, by themselves or beside other conditions, become one factor; rectangles a union of products."""
    draw = np.random.default_rng(3)
    lines = [f"SELECT COUNT(*) FROM people WHERE sex = '{sex}' AND age BETWEEN {low} AND {low + 20}" for sex in "fm" for low in range(0, 80, 4)]
    boxes = [f"SELECT COUNT(*) FROM people WHERE age BETWEEN {a} AND {a + 30} AND income BETWEEN {b} AND {b + 900}"
             for a, b in zip(draw.integers(0, 60, 60), draw.integers(0, 90_000, 60), strict=True)]
    for texts, parts in ((lines, 1), (boxes, 60)):
        made, _ = batched([_query(text) for text in texts], exact, [_option("rho", 1.0)])
        (group,) = made.groups
        assert len(group.workload.parts) <= parts and group.workload.rows == len(texts)
        told = Connection(exact).workload(texts, rho=1)
        for text, answer in zip(texts, told, strict=True):
            assert answer.rows[0][0] == exact.kernel._reader.rows(text)[0][0]


# -- strategies by name


def test_a_statement_with_a_strategy_is_a_workload_of_one(connection: Connection) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = '{}') age, COUNT(*) FROM people GROUP BY age"
    cursor = connection.execute(text.format("identity"))
    assert cursor.rowcount == 101 and "by the strategy 'identity'" in cursor.notes[0] and cursor.cost == "ε = 1"
    again = connection.execute(text.format("identity").replace("COUNT(*)", "COUNT(*) AS n"))
    assert again.cost == "" and again.fetchall() == cursor.fetchall() and again.description[1][0] == "n"  # type: ignore[index]
    together = connection.workload("SELECT age, COUNT(*) FROM people GROUP BY age", epsilon=1, strategy="identity")
    assert together.stored and len(connection.session.ledger.entries("person")) == 1
    assert connection.execute(text.format("p-identity")).cost == "ε = 1"
    connection.workload("SELECT age, COUNT(*) FROM people GROUP BY age", epsilon=1)
    assert connection.execute(text.format("auto")).cost == ""


def test_the_explanation_tells_of_the_strategy_and_spends_nothing(connection: Connection) -> None:
    told = str(connection.explain("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.5, strategy = 'auto') sex, COUNT(*), SUM(income) "
                                  "FROM people WHERE age BETWEEN 20 AND 40 GROUP BY sex"))
    for part in ("counts: 4 numbers over 416 cells by the strategy 'convex'", "sex (4) x age (104); 4 that some query distinguishes", "cost    ρ = 0.5",
                 "matrix: 4 x 416; each value of sex x a range of age", "measured as 2 workloads", "COUNT(*): 1.41421"):
        assert part in told, told
    assert not connection.session.ledger.entries("person")


def test_a_workload_is_explained_without_spending(connection: Connection) -> None:
    told = connection.explain(PEOPLE, epsilon=1)
    assert "matrix: " in str(told) and "for COUNT(*)" in str(told) and told.cost == "ε = 1"
    assert len(told.expected) == sum(len(text.split("COUNT(")) - 1 for text in PEOPLE) + 1  # and one SUM
    assert not connection.session.ledger.entries("person")
    with pytest.raises(ProgrammingError, match="options are part of the statement"):
        connection.explain(PEOPLE[0], epsilon=1)


def test_errors_name_the_statement(connection: Connection) -> None:
    for wrong, place in (("SELECT COUNT(*) FROM peple", "column 22 of statement 2"), ("SELECT COUNT( FROM people", "of statement 2"),
                         ("SELECT MEDIAN(age) FROM people", "column 8 of statement 2")):
        with pytest.raises(Error) as caught:
            connection.workload(f"SELECT COUNT(*) FROM people;\n-- a comment\n{wrong};", epsilon=1)
        assert place in str(caught.value), caught.value
    with pytest.raises(ProgrammingError, match="statement 2 is not one"):
        connection.workload("SELECT COUNT(*) FROM people; SHOW BUDGET", epsilon=1)


@pytest.mark.parametrize(("options", "reason", "try_"), [
    ({"strategy": "p-identiti"}, "there is no strategy 'p-identiti'", "'p-identity'"),
    ({"strategy": 3}, "strategy must be a text, not int", "one of 'auto'"),
    ({"strategy": "residual-planner"}, "the strategy 'residual-planner' is for rho", "delta"),
    ({"strategy": "p-identity", "epsilon": None, "rho": 0.1}, "the strategy 'p-identity' is for a pure epsilon", "epsilon"),
    ({"strategy": "residual-planner", "epsilon": None, "rho": 0.1}, "the strategy 'residual-planner' cannot be used for this", "auto"),
    ({"clip": 3}, "a workload cannot have the option clip", ""), ({"bound": "balance"}, "a workload cannot have the option bound", ""),
])
def test_strategies_that_do_not_fit_are_refused(options: dict[str, Any], reason: str, try_: str, connection: Connection) -> None:
    given = {name: value for name, value in {"epsilon": 1, **options}.items() if value is not None}
    with pytest.raises(OptionError) as caught:
        connection.workload("SELECT COUNT(*) FROM people WHERE age < 30; SELECT age, COUNT(*) FROM people GROUP BY age", **given)
    assert caught.value.reason.startswith(reason) and try_ in caught.value.try_, caught.value
    given.setdefault("strategy", "auto")
    clause = ", ".join(f"{name} = {value!r}" for name, value in given.items())
    with pytest.raises(OptionError) as located:
        connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({clause}) COUNT(*) FILTER (WHERE age < 30), "
                           "COUNT(*) FROM people")
    assert located.value.span is not None
    assert not connection.session.ledger.entries("person")


def test_a_strategy_that_is_named_is_planned_once(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, plan = [], GAUSSIAN["convex"]
    monkeypatch.setitem(GAUSSIAN, "convex", lambda *given: planned.append(given) or plan(*given))
    connection.workload("SELECT age, COUNT(*) FROM people GROUP BY age", rho=0.1, strategy="convex", consistency="nnls")
    assert len(planned) == 1


# -- the promise


def test_a_workload_keeps_its_promise(tmp_path: Path, effort: float) -> None:
    assert _bound(tmp_path, int(300 * effort)) <= 1


@pytest.mark.slow
def test_noise_that_is_too_small_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: float) -> None:
    from dpsql.trusted.noise import source

    add = source.laplace
    monkeypatch.setattr(source, "laplace", lambda values, scale: add(values, scale / 6))
    assert refutes(_bound, 1, tmp_path, int(600 * max(1.0, effort)))


def test_the_kernel_refuses_blocks_that_were_not_paid_for(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.batch.measured.SLACK", 0.5)
    with pytest.raises(Incident):
        connection.workload(PEOPLE, epsilon=1)


def test_sensitivities_are_those_of_the_columns() -> None:
    matrix = np.array([[3, -1, 0], [0, 2, 5]])
    blocks = [Block(axes=(0,), factors=(Dense(matrix),), scale=2.0), Block(axes=(1,), factors=(Prefix(4),), scale=0.5)]
    l1 = max(abs(matrix[:, j]).sum() for j in range(3)) / Fraction(2) + 4 / Fraction(1, 2)
    l2 = max((matrix[:, j] ** 2).sum() for j in range(3)) / Fraction(4) + 4 / Fraction(1, 4)
    assert l1 <= sensitivity(blocks, "laplace").value <= l1 * (1 + Fraction(1, 2**60))
    assert l2 <= sensitivity(blocks, "gaussian").value <= l2 * (1 + Fraction(1, 2**60))


def _bound(tmp_path: Path, times: int) -> float:
    """What the noisy numbers of two neighbours tell, at epsilon = 1: one visit more of someone who has two."""
    from support.audits import Pair, person, visit

    pair = Pair(people=[person(i) for i in range(4)], visits=[visit(i, 0, year=2018 + i) for i in range(3)])
    samples = []
    for name, world in zip("ab", pair.worlds(), strict=True):
        session = session_of(tmp_path / name, world)
        made, _ = batched([_query(text) for text in VISITS[1:2]], session, [_option("epsilon", 1.0)])
        samples.append(np.array([np.concatenate([estimate.values for _, found in _measured(made, session).statements
                                                 for estimate in found.values()]) for _ in range(times)]))
    return lower_bound(*samples, confidence=1 - 1e-8).epsilon


def _query(text: str) -> Any:
    from dpsql.sql.text.parse import parse

    return parse(text)


def _option(name: str, value: float) -> Any:
    from dpsql.sql.text.statement import Option

    return Option(name=name, value=value, span=None)


def _measured(made: Any, session: Session) -> Any:
    return session.kernel._serve(made.steps(), made.allotted)


def _values(session: Session) -> np.ndarray:
    made, _ = batched([_query(text) for text in PEOPLE], session, [_option("epsilon", 1.0)])
    return np.concatenate([next(iter(found.values())).values for _, found in _measured(made, session).statements])


def test_answers_are_a_sequence(connection: Connection) -> None:
    made = connection.workload("SELECT COUNT(*) FROM people; SELECT sex, COUNT(*) FROM people GROUP BY sex", epsilon=1)
    assert isinstance(made, Answers) and len(made) == 2 and len(list(made)) == 2 and made.cost == "ε = 1"


def test_errors_of_combined_columns_allow_for_noise_that_they_share(connection: Connection) -> None:
    """The older ones are counted twice in the sum. Where nobody knows it, the error of a sum is at most the sum of the errors."""
    young, most, both = _errors_of_ages(connection, epsilon=1)
    assert both**2 == pytest.approx(4 * young**2 + (most**2 - young**2))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(measured, "MOST_MIXED", 0)
        young, most, both = _errors_of_ages(connection, epsilon=2)
    assert both == pytest.approx(young + most)


def _errors_of_ages(connection: Connection, *, epsilon: int) -> tuple[float, float, float]:
    found = connection.execute(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, strategy = 'p-identity') "
                               "COUNT(*) FILTER (WHERE age < 30) AS young, COUNT(*) FILTER (WHERE age < 60) AS most, "
                               "COUNT(*) FILTER (WHERE age < 30) + COUNT(*) FILTER (WHERE age < 60) AS both FROM people")
    ((young, most, both),) = found.errors
    assert young is not None and most is not None and both is not None
    return young, most, both
