"""Scalar subqueries from text to answer: released first, for a part of the price, and a constant from then on."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import worlds
from support.golden.dense import dense
from support.sessions import reader_of, session_of
from test_engine import in_order, watched

from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.audit.prepared import PreparedStatement
from dpsql.catalog.price import Price, price
from dpsql.engine.accounts import releases_of
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted, Error, Incident, OptionError, Unsupported
from dpsql.frozen import replace
from dpsql.planning.explain import Explanation
from dpsql.questions.rules.substitute import has_placeholders

ABOVE = "SELECT COUNT(*) FROM people WHERE income > (SELECT AVG(income) FROM people)"
ONE = 1.3569624860015788  # the standard error of a count at epsilon 1


def asked(text: str, session: Session, parameters: Any = ()) -> Answer:
    made = answer(text, session, parameters)
    assert isinstance(made, Answer)
    return made


@cache
def people() -> Any:
    """A reader of a world that is made once; no session over it is closed."""
    return reader_of(dense())


@cache
def small() -> Any:
    return reader_of(worlds.world())


def exact(folder: Path, **more: Any) -> Session:
    return session_of(folder, reader=people(), noise=Exact(), **more)


def options(text: str, given: str) -> str:
    return text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({given})", 1)


# -- the price

PRICES: dict[str, dict[str, Any]] = {
    "a pure epsilon": {"at": {"epsilon": 2}}, "epsilon and delta": {"at": {"epsilon": 2, "delta": 1e-6}},
    "rho": {"at": {"rho": 0.5}}, "a pure budget": {"at": {"epsilon": 2}, "budget": "pure"},
    "a budget in rho": {"at": {"rho": 0.5}, "budget": "concentrated"}}
TEXTS = [
    ABOVE, "SELECT sex, COUNT(*), AVG(age) FROM people WHERE age > (SELECT MEDIAN(age) FROM people) GROUP BY sex",
    "SELECT (SELECT COUNT(*) FROM people) - (SELECT COUNT(*) FROM visits)",
    "SELECT COUNT(*) FROM clinics WHERE beds < (SELECT AVG(age) FROM people)",
    "SELECT sex, (SELECT COUNT(*) FROM people) FROM people GROUP BY sex",
    "SELECT SUM(points) FROM scores WHERE points > (SELECT AVG(points) FROM scores WHERE points < (SELECT MAX(points) FROM scores))",
    "SELECT AVG(weight) FROM people WHERE weight > (SELECT AVG(weight) FROM people)",
]


@pytest.mark.parametrize("name", PRICES)
@pytest.mark.parametrize("text", TEXTS)
def test_exactly_the_price_is_charged_once(text: str, name: str, tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events, reader=small(), **PRICES[name])
    asked(text, session)
    (entry,) = releases_of(session)
    assert in_order(events) and events.count("charge") == 1
    at = session.price
    assert at is not None
    if at.epsilon is None or name == "epsilon and delta":
        assert entry.charge.epsilon in (None, 2 * 10**9) and entry.charge.rho > 0
        assert at.rho is None or entry.charge.rho == at.rho * 10**9
    else:
        assert (entry.charge.epsilon, entry.charge.rho) == (2 * 10**9, 2 * 10**9)
    assert entry.charge.delta == 0, "nothing here may fail"


def allotments(text: str, session: Session) -> list[Fraction]:
    program = PreparedStatement(text, session).program
    return [below.allotted.epsilon if below.allotted.epsilon is not None else below.allotted.rho
            for below in (*(found for _, found in program.first), program)]


@pytest.mark.parametrize(("text", "expected"), [
    (ABOVE, ["1", "1"]),
    ("SELECT COUNT(*), COUNT(DISTINCT sex), MEDIAN(age) FROM people WHERE age > (SELECT AVG(age) FROM people)", ["1/2", "3/2"]),
    ("SELECT AVG(age), STDDEV(age), COUNT(*) FROM people WHERE age > (SELECT AVG(age) + MEDIAN(age) FROM people)", ["4/3", "2/3"]),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people) AND age < (SELECT AVG(age) FROM people WHERE active)",
     ["2/3", "2/3", "2/3"]),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people) AND age <> (SELECT AVG(age) FROM people)", ["1", "1"]),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(beds) FROM clinics)", ["2"]),
    ("SELECT COUNT(*) FROM clinics WHERE beds > (SELECT AVG(age) FROM people)", ["2", "0"]),
    ("SELECT sex, (SELECT COUNT(*) FROM people) FROM people GROUP BY sex", ["2", "0"]),
    ("SELECT nickname, COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people) GROUP BY nickname", ["2/3", "4/3"]),
])
@pytest.mark.parametrize("account", ["epsilon", "rho"])
def test_everything_that_is_measured_has_an_equal_share(text: str, expected: list[str], account: str, tmp_path: Path) -> None:
    session = session_of(tmp_path, reader=small(), at={account: 2, "delta": 1e-6} if "nickname" in text else {account: 2})
    found = [part if account == "epsilon" else part for part in allotments(text, session)]
    whole = sum(found)
    assert [2 * part / whole for part in found] == [Fraction(part) for part in expected]


def test_a_price_that_is_too_small_for_a_part_is_refused_before_anything(tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events, reader=small())
    text = "SELECT COUNT(*) FROM people WHERE age > (SELECT MEDIAN(age) FROM people)"
    with pytest.raises(OptionError, match="no price"):
        answer(text, replace(session, price=None))
    with pytest.raises(OptionError, match="smooth_sensitivity cannot answer"):
        answer(options(ABOVE, "epsilon = 1, mechanism = 'smooth_sensitivity'"), session)
    assert set(events) <= {"public"} and releases_of(session) == []


@pytest.mark.parametrize("text", [
    "SELECT SUM(age) FROM people WHERE age > (SELECT SUM(s) FROM (SELECT 1 / age AS s FROM people) AS t)",
    "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(agee) FROM people)",
    "SELECT AVG(n) FROM (SELECT 1 / age AS n FROM people WHERE age > (SELECT AVG(age) FROM people)) AS t",
    "SELECT SUM(income * (SELECT SUM(income) FROM people)) FROM people",
    "SELECT nickname, COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people) GROUP BY nickname",
    "SELECT MODE(a.nickname) FROM people a, people b WHERE a.sex = b.sex AND a.age > (SELECT AVG(age) FROM people)",
    "SELECT COUNT(*) FROM people WHERE age > (SELECT MODE(a.sex) FROM people a, people b WHERE a.sex = b.sex)",
    "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people LIMIT -1)"])
def test_errors_anywhere_are_told_before_the_charge(text: str, tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events, reader=small(), budget="pure", at={"epsilon": 1})
    with pytest.raises(Error) as caught:
        answer(text, session)
    assert not isinstance(caught.value, Incident) and caught.value.span is not None
    assert "private" not in events and "charge" not in events


def test_what_a_budget_cannot_pay_reads_nothing(tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events, reader=small(), policy=worlds.POLICY.replace("epsilon = 1000\ndelta = 0.01", "epsilon = 1"))
    with pytest.raises(BudgetExhausted):
        answer(options(ABOVE, "epsilon = 1.5"), session)
    assert set(events) <= {"public"}


def test_the_delta_of_failures_is_shared_by_those_that_may_fail(tmp_path: Path) -> None:
    session = session_of(tmp_path, reader=small(), at={"epsilon": 2, "delta": 1e-3})
    text = options("SELECT nickname, COUNT(*) FROM people WHERE age > (SELECT MEDIAN(age) FROM people) GROUP BY nickname",
                   "epsilon = 2, delta = 0.001, mechanism = 'smooth_sensitivity'")
    program = PreparedStatement(text, session).program
    ((_, below),) = program.first
    assert below.allotted.delta == program.allotted.delta == program.cost.delta / 2 and program.cost.delta > 0
    asked(text, session)
    (entry,) = releases_of(session)
    assert entry.charge.delta == program.cost.delta * 10**18
    plain = PreparedStatement(ABOVE, session).program
    assert plain.cost.delta == 0, "nothing in it may fail"


# -- the answer


def test_the_value_is_told_with_its_price_and_its_error(tmp_path: Path) -> None:
    found = asked(options(ABOVE, "epsilon = 2"), exact(tmp_path))
    note, bounds = found.notes
    assert bounds == "values are clamped to their bounds: income to [0, 100000]"
    assert note.startswith("(SELECT AVG(income) FROM people) = 49") and note.endswith("was released first, for ε = 1")
    assert "standard error" in note and found.cost == "ε = 2"
    again = asked(options(ABOVE, "epsilon = 2").lower().replace("differential", "DIFFERENTIAL"), exact(tmp_path / "."))
    assert again.stored and again.notes == found.notes and again.rows == found.rows


def test_what_stands_in_the_select_list_carries_the_error_of_the_value(tmp_path: Path) -> None:
    session = exact(tmp_path, at={"epsilon": 2})
    found = asked("SELECT COUNT(*) - (SELECT COUNT(*) FROM visits), (SELECT COUNT(*) FROM visits) FROM people", session)
    assert found.errors[0] == (pytest.approx(math.hypot(ONE, 3.0 * _count(3)), rel=1e-6), pytest.approx(3 * _count(3)))
    assert not found.columns[0].exact and not found.columns[1].exact and not found.columns[0].approximate
    ratio = asked("SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM people) FROM people WHERE sex = 'f'", session)
    part, whole = sum(row[2] == "f" for row in dense().rows["people"]), 300
    slope = math.hypot(ONE / whole, ONE * part / whole**2)
    assert ratio.columns[0].approximate and ratio.errors[0][0] == pytest.approx(slope, rel=1e-3)


def _count(scale: float) -> float:
    """The standard error of discrete Laplace noise of this scale, per unit of it."""
    return 1 / (math.sqrt(2) * math.sinh(0.5 / scale)) / scale


def test_one_value_is_one_wherever_it_stands(tmp_path: Path) -> None:
    session = session_of(tmp_path, reader=people(), at={"epsilon": 3})
    value = "(SELECT COUNT(*) FROM people)"
    found = asked(f"SELECT {value} - {value}, {value}, 2 * {value}, COUNT(*) + {value} - {value} FROM people", session)
    difference, once, twice, count = found.rows[0]
    assert difference == 0 and twice == 2 * once  # type: ignore[operator]
    assert found.errors[0][0] == 0 and found.errors[0][2] == pytest.approx(2 * found.errors[0][1])  # type: ignore[operator]
    assert found.errors[0][3] == pytest.approx(1 / (math.sqrt(2) * math.sinh(0.5 * 1.5))) and isinstance(count, int)
    assert len(found.notes) == 1


def test_errors_are_carried_through_values_that_rest_on_each_other(tmp_path: Path) -> None:
    """n + (m - n) has the error of m alone."""
    session = exact(tmp_path, at={"epsilon": 3})
    n, m = "(SELECT COUNT(*) FROM people)", "(SELECT COUNT(*) FROM people WHERE active)"
    text = f"SELECT {n} + (SELECT COUNT(*) - {n} FROM people WHERE active) AS together, (SELECT COUNT(*) - {n} FROM people WHERE active)"
    found = asked(text, session)
    one = 1 / (math.sqrt(2) * math.sinh(0.5 * 1.5))
    assert found.errors[0] == (pytest.approx(one), pytest.approx(math.sqrt(2) * one)), m
    assert len(found.notes) == 2


def test_a_text_or_a_truth_value_is_noisy_and_has_no_error(tmp_path: Path) -> None:
    found = asked("SELECT CASE WHEN (SELECT COUNT(*) > 100 FROM people) THEN 'many' ELSE 'few' END, (SELECT COUNT(*) > 100 FROM people) "
                  "AND COUNT(*) > 3 FROM visits", exact(tmp_path))
    assert found.rows == (("many", True),) and found.errors == ((None, None),)
    assert not found.columns[0].exact and not found.columns[1].exact


@pytest.mark.parametrize(("text", "rows"), [
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people WHERE FALSE)", 0),
    ("SELECT COUNT(*) FROM people WHERE (SELECT AVG(age) FROM people WHERE FALSE) IS NULL", 300),
    ("SELECT SUM(age + (SELECT MEDIAN(age) FROM people HAVING COUNT(*) > 10000)) FROM people", 0),
    ("SELECT SUM(age * COALESCE((SELECT MAX(age) FROM people LIMIT 0), 1)) FROM people WHERE age = 3", None),
    ("SELECT SUM(age) FROM people WHERE age = 3", None),
    ("SELECT (SELECT AVG(age) FROM people WHERE FALSE) + COUNT(*) FROM people", "NULL"),
    ("SELECT COUNT(*) FROM people WHERE age > (SELECT 1 / (COUNT(*) - 300) FROM people)", 0),
    ("SELECT COUNT(*) FROM people WHERE age < (SELECT 1e308 * COUNT(*) FROM people)", 0)])
def test_a_value_that_is_no_number_is_null(text: str, rows: Any, tmp_path: Path) -> None:
    found = asked(text, exact(tmp_path))
    expected = {"NULL": None, None: session_rows(tmp_path)}.get(rows, rows)
    assert found.rows == ((expected,),)


def session_rows(folder: Path) -> int:
    return sum(row[3] for row in dense().rows["people"] if row[3] == 3)


def test_a_value_makes_what_comes_after_it_more_exact(tmp_path: Path) -> None:
    """The sum is clamped at a value that was released, so its noise is as small as that value."""
    session = exact(tmp_path, at={"epsilon": 2})
    whole = asked("SELECT SUM(LEAST(GREATEST(income, 0), 100000)) FROM people", session).errors[0][0]
    held = asked("SELECT SUM(LEAST(GREATEST(income, 0), (SELECT AVG(income) / 100 FROM people))) FROM people", session)
    assert held.errors[0][0] == pytest.approx(2 * whole * 0.00498, rel=0.01)  # type: ignore[operator]
    assert has_placeholders(PreparedStatement(ABOVE, session).program.question) != {}


def test_limits_and_bounds_are_for_the_outermost_query(tmp_path: Path) -> None:
    session = exact(tmp_path, at={"epsilon": 90})
    every, some = len(dense().rows["visits"]), len({row[1] for row in dense().rows["visits"]})
    found = asked(options("SELECT (SELECT COUNT(*) FROM visits), COUNT(*) FROM visits", "epsilon = 90, max_rows = 1"), session)
    assert found.rows == ((every, some),)
    both = "SELECT SUM(cost) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)"
    clipped, plain = (asked(options(both, f"epsilon = 90{clip}"), session).notes for clip in (", clip = 1e6", ""))
    assert sorted(clipped) == sorted((*plain, "each entity's total is limited to clip = 1e+06"))
    pairs = ("SELECT COUNT(*) FROM visits a JOIN visits b USING (clinic) WHERE a.cost > (SELECT AVG(cost) FROM visits)")
    for bound in ("balance", "frequency', max_frequency = '100".replace("'100", "100"), "r2t"):
        text = options(pairs, f"epsilon = 90, bound = '{bound}" + ("" if "=" in bound else "'"))
        assert "ε = 45" in asked(text, session).notes[0], bound


def test_where_the_outermost_query_reads_nothing_private_they_are_for_its_subqueries(tmp_path: Path) -> None:
    session = exact(tmp_path, at={"epsilon": 90})
    some = len({row[1] for row in dense().rows["visits"]})
    assert asked(options("SELECT (SELECT COUNT(*) FROM visits)", "epsilon = 90, max_rows = 1"), session).rows == ((some,),)
    found = asked(options("SELECT COUNT(*) FROM clinics WHERE beds < (SELECT COUNT(*) FROM visits)", "epsilon = 90, clip = 2"), session)
    assert found.rows[0][0] == 3
    with pytest.raises(OptionError, match="clip could mean"):
        answer(options("SELECT (SELECT SUM(cost) FROM visits) / (SELECT COUNT(*) FROM visits)", "epsilon = 1, clip = 3"), session)
    learned = options("SELECT (SELECT SUM(points) FROM scores) / (SELECT COUNT(*) FROM scores)", "epsilon = 9, bound = 'clip'")
    assert sum("learned privately" in note or "released first" in note for note in asked(learned, session).notes) == 4


def test_parameters_are_values_inside_too(tmp_path: Path) -> None:
    session = exact(tmp_path)
    text = "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people WHERE sex = ?) AND sex = ?"
    one, other = asked(text, session, ["f", "m"]), asked(text, session, ["m", "f"])
    assert not other.stored and one.notes != other.notes
    assert asked(text, session, ["f", "m"]).stored
    named = ("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people WHERE sex = $A) AND age < "
             "(SELECT AVG(age) FROM people WHERE sex = $a)")
    assert sum("released first" in note for note in asked(named, session, {"A": "f", "a": "m"}).notes) == 2


def test_other_entities_are_protected_alike(tmp_path: Path) -> None:
    session = session_of(tmp_path, reader=people(), budget="household", at={"epsilon": 500})
    found = asked("SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)", session)
    assert found.rows[0][0] == pytest.approx(150, abs=30) and "ε = 250" in found.notes[0]


# -- EXPLAIN


def test_explain_shows_what_is_released_first(tmp_path: Path) -> None:
    events: list[str] = []
    session = watched(tmp_path, events, reader=small(), at={"epsilon": 2})
    found = answer("EXPLAIN PRIVACY " + ABOVE, session)
    assert isinstance(found, Explanation) and set(events) <= {"public"} and releases_of(session) == []
    (first,) = found.first
    assert (first.text, first.price) == ("(SELECT AVG(income) FROM people)", "ε = 1")
    assert first.explanation.measurements[0].aggregates == ("AVG(income)",) and first.explanation.measurements[0].price == "ε = 1"
    assert found.expected[0].error == pytest.approx(ONE) and found.cost == "ε = 2"
    lines = str(found).splitlines()
    assert lines[0] == "first   (SELECT AVG(income) FROM people) is released, for ε = 1" and lines[1] == "  plan (what one person can change)"
    assert "    Filter income > (SELECT AVG(income) FROM people)" in str(found)
    assert str(found).count("cost ") == 1 and found.as_dict()["first"][0]["price"] == "ε = 1"


def test_explain_shows_a_linked_subquery_as_a_join(tmp_path: Path) -> None:
    found = answer("EXPLAIN PRIVACY SELECT COUNT(*) FROM visits v WHERE cost > (SELECT AVG(w.cost) FROM visits w WHERE w.person_id = "
                   "v.person_id)", session_of(tmp_path, reader=small()))
    assert isinstance(found, Explanation) and found.first == ()
    labels = [step.label for step in found.steps]
    assert any(label.startswith("Left join on ") for label in labels) and any(label.startswith("Group avg(") for label in labels)
    assert "owned by one person each" in found.steps[0].stability
    assert "decorrelate: a subquery that is linked to the row around it becomes a left join with groups by person_id" in found.rewrites


def test_explain_of_public_rows_has_the_price_of_the_value(tmp_path: Path) -> None:
    found = answer("EXPLAIN PRIVACY SELECT COUNT(*) FROM clinics WHERE beds < (SELECT AVG(age) FROM people)",
                   session_of(tmp_path, reader=small(), at={"epsilon": 2}))
    assert isinstance(found, Explanation) and found.cost == "ε = 2" and found.first[0].price == "ε = 2" and found.left


# -- faults


@pytest.mark.parametrize("text", [ABOVE, TEXTS[3]])
def test_a_failure_after_the_first_release_is_an_incident_with_the_charge_kept(text: str, tmp_path: Path,
                                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(tmp_path, reader=small(), at={"epsilon": 2})
    with monkeypatch.context() as patch:
        patch.setattr("dpsql.planning.script.release_note", lambda *given: 1 / 0)
        with pytest.raises(Incident) as caught:
            answer(text, session)
    fault: BaseException = caught.value
    assert str(fault) == str(Incident().located(text)) and fault.__cause__ is None and fault.__context__ is None
    (entry,) = releases_of(session)
    assert entry.body is None and entry.charge.epsilon == 2 * 10**9
    asked(text, session)
    assert [found.body is None for found in releases_of(session)] == [True, False]


def the_whole_price_for_each(patch: pytest.MonkeyPatch) -> None:
    from dpsql.planning import account_choice

    shared_out = account_choice._shared_out

    def whole(given: Any, cost: Any) -> Any:
        made = shared_out(given, cost)
        return replace(made, first=tuple((scalar, replace(below, allotted=cost)) for scalar, below in made.first))

    patch.setattr(account_choice, "_shared_out", whole)


def a_value_that_is_released_twice(patch: pytest.MonkeyPatch) -> None:
    from dpsql.planning import script

    once = script._asked

    def twice(program: Any, public: Any) -> Any:
        yield from once(program, public)
        return (yield from once(program, public))

    patch.setattr(script, "_asked", twice)


def a_value_that_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dpsql.planning.script.with_values", lambda program, values: program)


@pytest.mark.parametrize("plant", [the_whole_price_for_each, a_value_that_is_released_twice, a_value_that_is_forgotten])
@pytest.mark.parametrize("at", [{"epsilon": 1}, {"rho": 0.1}])
def test_what_was_not_charged_is_not_released(plant: Callable[[pytest.MonkeyPatch], None], at: dict[str, object], tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of(tmp_path, reader=small(), at=at)
    with monkeypatch.context() as patch:
        plant(patch)
        with pytest.raises(Incident):
            answer(ABOVE, session)
    assert [entry.body for entry in session.ledger.entries("person")] == [None]
    asked(ABOVE, session)


def test_a_subquery_is_not_answered_in_validate(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="released first"):
        answer("VALIDATE (SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)) AGAINST people WITHIN 5 PERCENT",
               session_of(tmp_path, reader=small()))


def test_prices_are_whole(tmp_path: Path) -> None:
    """Shares are exact fractions, so their sum is what is charged and not more."""
    for parts in range(1, 8):
        values = " + ".join(f"(SELECT AVG(age) FROM people WHERE age > {i})" for i in range(parts))
        session = session_of(tmp_path, reader=small(), at={"epsilon": 1})
        assert sum(allotments(f"SELECT COUNT(*) FROM people WHERE age > {values}", session)) == 1
    assert price(epsilon=1) == Price(epsilon=Fraction(1))
