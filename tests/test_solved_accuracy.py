"""Averages, variances, quantiles and other aggregates with a required accuracy: prices from public facts, errors within the target."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.chances import too_few
from support.owned_trips import POLICY, connected, reader, riders_of

from dpsql.answers.answer import Answer
from dpsql.audit.prepared import Remembering
from dpsql.dbapi import Connection
from dpsql.engine.answering import charge_of, planned
from dpsql.engine.decide import decide
from dpsql.engine.solved_price import SolvedStatement
from dpsql.errors import BudgetExhausted, Error, OptionError, ProgrammingError, SqlError, Unsupported
from dpsql.sql.text.parse import parse

BUDGETS = ("rho", "pure", "mixed")
SELECT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({}) {}"


def asked(text: str, **options: object) -> str:
    return SELECT.format(", ".join(f"{name} = {value!r}" for name, value in options.items()), text)


def charged(connection: Connection) -> list[Any]:
    return [entry.charge for entry in connection.session.ledger.entries(connection.session.budget.name)]


def offs(answer: Answer) -> list[float]:
    """How far the ends of each interval are from the number; an open end counts as none."""
    found = []
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        for value, end in zip(row, ends, strict=True):
            if end is not None and isinstance(value, int | float):
                found.append(max((abs(value - side) for side in end if math.isfinite(side)), default=0.0))
    return found


WITHIN: Sequence[tuple[str, float]] = [
    (asked("AVG(age) FROM riders ERROR WITHIN 2", rows=1500), 2),
    (asked("AVG(pay) FROM riders ERROR WITHIN 30", rows=1350), 30),
    (asked("kind, AVG(fare) FROM trips GROUP BY kind ERROR WITHIN 2", rows=1200), 2),
    (asked("town, AVG(fare) FROM trips JOIN riders USING (rider) GROUP BY town ERROR WITHIN 2", rows=1800), 2),
    (asked("AVG(fare) FILTER (WHERE kind = 'car') FROM trips ERROR WITHIN 3", rows=1150, confidence=0.8), 3),
    (asked("AVG(minutes) FROM meetings ERROR WITHIN 3", rows=2250), 3),
    (asked("place, AVG(minutes) FROM meetings GROUP BY place ERROR WITHIN 5", rows=1080), 5),
    (asked("VAR_POP(age) FROM riders ERROR WITHIN 60", rows=1500), 60),
    (asked("VAR_SAMP(minutes) FROM meetings ERROR WITHIN 100", rows=2250), 100),
    (asked("town, STDDEV(age) FROM riders GROUP BY town ERROR WITHIN 5", rows=700), 5),
    (asked("STDDEV(fare) FROM trips ERROR WITHIN 1", rows=3750, spread=10), 1),
    (asked("GEOMEAN(GREATEST(fare, 1)) FROM trips ERROR WITHIN 5", rows=3750), 5),
    ("SELECT COUNT(DISTINCT stop) FROM trips ERROR WITHIN 15", 15.5),
    ("SELECT COUNT(DISTINCT kind) FROM trips ERROR WITHIN 2", 2.5),
    ("SELECT kind, COUNT(DISTINCT rider) FROM trips GROUP BY kind ERROR WITHIN 20", 20.5),
    ("SELECT COUNT(DISTINCT minutes) FROM meetings ERROR WITHIN 20", 20.5),
    ("SELECT place, COUNT(*) FROM meetings GROUP BY place ERROR WITHIN 30", 30.5),
    ("SELECT SUM(minutes) FROM meetings ERROR WITHIN 3000", 3000),
    ("SELECT town, COUNT(*) FROM riders WHERE pay > age GROUP BY town ERROR WITHIN 20", 20.5),
]


def prepared(folder: Path, text: str, budget: str) -> tuple[Connection, SolvedStatement]:
    connection = connected(folder, budget, around=Remembering)
    made = decide(parse(text), connection.session)
    assert isinstance(made, SolvedStatement)
    return connection, made


@pytest.mark.slow
@pytest.mark.stat
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("text", "target"), WITHIN)
def test_intervals_are_within_the_target_if_the_sizes_are_right(text: str, target: float, budget: str, tmp_path: Path,
                                                                effort: float) -> None:
    connection, made = prepared(tmp_path, text, budget)
    answers = [connection.session.kernel._serve((due := made.bill()).steps, due.cost) for _ in range(int(80 * effort))]
    told = [off for answer in answers for off in offs(answer)]
    assert not too_few(sum(off <= target * (1 + 1e-6) for off in told), len(told), 0.95)
    if "STDDEV" not in text and "GEOMEAN" not in text:  # whose widest intervals are those of quite other rows
        assert max(told) > 0.3 * target


WORST = [  # of 1,500 riders, the ages
    [100] * 1500, [0] * 1500, [0, 100] * 750, [100] * 1499 + [0], [0] * 1400 + [100] * 100, [50] * 1500]


@pytest.mark.slow
@pytest.mark.stat
@pytest.mark.parametrize("budget", ["rho", "pure"])
@pytest.mark.parametrize("ages", WORST, ids=[f"{ages[0]} to {ages[-1]}" for ages in WORST])
@pytest.mark.parametrize(("text", "target"), [
    (asked("AVG(age) FROM riders ERROR WITHIN 2", rows=1500), 2), (asked("VAR_POP(age) FROM riders ERROR WITHIN 60", rows=1500), 60),
    (asked("STDDEV_POP(age) FROM riders ERROR WITHIN 5", rows=1500), 5),
    (asked("STDDEV_SAMP(age) FROM riders ERROR WITHIN 2", rows=1500, spread=25), 2)], ids=["AVG", "VAR", "STDDEV", "spread"])
def test_intervals_are_within_the_target_whatever_the_values_are(text: str, target: float, ages: list[int], budget: str, tmp_path: Path,
                                                                 effort: float) -> None:
    if "spread" in text and np.std(ages) < 25:
        pytest.skip("their standard deviation is not what is stated")
    connection = connected(tmp_path, budget, around=Remembering, reader=riders_of(ages))
    made = decide(parse(text), connection.session)
    assert isinstance(made, SolvedStatement)
    answers = [connection.session.kernel._serve((due := made.bill()).steps, due.cost) for _ in range(int(160 * effort))]
    told = [off for answer in answers for off in offs(answer)]
    assert not too_few(sum(off <= target * (1 + 1e-6) for off in told), len(told), 0.95)


RANKS: Sequence[tuple[str, str, list[float], float]] = [
    ("SELECT MEDIAN(fare) FROM trips ERROR WITHIN 150 ROWS", "fare FROM trips", [0.5], 150),
    ("SELECT MEDIAN(stop) FILTER (WHERE kind = 'bus') FROM trips ERROR WITHIN 100 ROWS", "stop FROM trips WHERE kind = 'bus'", [0.5], 100),
    (asked("QUANTILE_CONT(fare, 0.9) FROM trips ERROR WITHIN 4 PERCENT OF ROWS", rows=3750), "fare FROM trips", [0.9], 150),
    (asked("QUANTILE_CONT(fare, 0.25), MEDIAN(fare), QUANTILE_CONT(fare, 0.75) FROM trips ERROR WITHIN 300 ROWS", rows=3750),
     "fare FROM trips", [0.25, 0.5, 0.75], 300),
]


@pytest.mark.stat
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("text", "source", "fractions", "target"), RANKS)
def test_ends_of_quantiles_are_within_so_many_rows(text: str, source: str, fractions: list[float], target: float, budget: str,
                                                   tmp_path: Path, effort: float) -> None:
    values = np.sort([row[0] for row in reader()._connection.cursor().execute(f"SELECT {source}").fetchall()])
    connection, made = prepared(tmp_path, text, budget)

    def between(low: float, high: float) -> int:
        return max(0, int(np.searchsorted(values, high, "left") - np.searchsorted(values, low, "right")))

    within, covered, times = 0, 0, int(80 * effort)
    for _ in range(times):
        due = made.bill()
        answer = connection.session.kernel._serve(due.steps, due.cost)
        for value, ends, fraction in zip(answer.rows[0], answer.intervals[0], fractions, strict=True):
            within += max(between(ends[0], value), between(value, ends[1])) <= target
            covered += ends[0] - 1e-6 <= np.quantile(values, fraction) <= ends[1] + 1e-6
    assert not too_few(within, times * len(fractions), 0.95) and not too_few(covered, times * len(fractions), 0.95)


@pytest.mark.parametrize("budget", BUDGETS)
def test_several_quantiles_are_chosen_by_the_mechanism_that_is_priced(budget: str, tmp_path: Path) -> None:
    calls = ", ".join(f"QUANTILE_CONT(fare, {i / 10})" for i in range(1, 10))
    _, made = prepared(tmp_path, asked(f"{calls} FROM trips ERROR WITHIN 600 ROWS", rows=3750), budget)
    chosen = made.cheapest().program.chosen
    assert chosen is not None and [choice.mechanism.name for choice in chosen] == ["exponential"]
    named = asked(f"{calls} FROM trips ERROR WITHIN 600 ROWS", rows=3750, mechanism="rank_counts")
    with pytest.raises(Unsupported, match="it is answered by rank_counts"):
        prepared(tmp_path / "named", named, budget)[1].cheapest()


# -- prices


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("text", [
    asked("AVG(age) FROM riders ERROR WITHIN 2", rows=1500), "SELECT MEDIAN(fare) FROM trips ERROR WITHIN 150 ROWS",
    asked("kind, AVG(fare) ERROR WITHIN 4, COUNT(*) ERROR WITHIN 50, MEDIAN(fare) ERROR WITHIN 20 PERCENT OF ROWS FROM trips GROUP BY kind "
          "ORDER BY 2 LIMIT 2", rows=1200)])
def test_what_explain_tells_is_what_is_charged(text: str, budget: str, tmp_path: Path) -> None:
    connection = connected(tmp_path, budget)
    told = str(connection.explain(text)).splitlines()
    due = charge_of(planned(text, connection.session))
    assert not charged(connection)
    cursor = connection.execute(text)
    (charge,) = charged(connection)
    assert charge == due and (charge.epsilon is not None) == (budget == "pure")
    assert told[0].startswith(f"price   {cursor.cost} meets ERROR WITHIN") and f"cost    {cursor.cost}" in told
    assert cursor.answer is not None and cursor.notes[0] == told[0].removeprefix("price   ")
    again = connection.execute(text)
    assert again.answer is not None and again.answer.stored and again.fetchall() == cursor.fetchall() and len(charged(connection)) == 1


def price(text: str, folder: Path, budget: str = "rho") -> float:
    told = str(connected(folder, budget).explain(text)).splitlines()[0]
    found = re.match(r"price   [ρε] = ([\d.e-]+) meets", told)
    assert found is not None, told
    return float(found[1])


def test_prices_follow_from_targets_and_sizes(tmp_path: Path) -> None:
    """Half the error costs four times the rho, or twice the epsilon; so does half the number of rows."""
    text = "AVG(age) FROM riders ERROR WITHIN {}"
    for budget, power in (("rho", 4), ("pure", 2)):
        first = price(asked(text.format(2), rows=100_000), tmp_path / f"{budget}1", budget)
        assert price(asked(text.format(1), rows=100_000), tmp_path / f"{budget}2", budget) == pytest.approx(power * first, rel=0.02)
        assert price(asked(text.format(2), rows=50_000), tmp_path / f"{budget}3", budget) == pytest.approx(power * first, rel=0.02)
    ranks = price("SELECT MEDIAN(fare) FROM trips ERROR WITHIN 100 ROWS", tmp_path / "r1")
    assert price("SELECT MEDIAN(fare) FROM trips ERROR WITHIN 50 ROWS", tmp_path / "r2") > 3 * ranks
    assert price(asked("STDDEV(fare) FROM trips ERROR WITHIN 2", rows=3750, spread=10), tmp_path / "s1") < price(
        asked("STDDEV(fare) FROM trips ERROR WITHIN 2", rows=3750), tmp_path / "s2") / 10


def test_a_little_less_would_not_do(tmp_path: Path) -> None:
    from dpsql.engine.single import compiled
    from dpsql.frozen import replace
    from dpsql.planning.foreseen_errors import strain

    for text, _ in WITHIN[::4]:
        connection, made = prepared(tmp_path / str(len(text)), text, "rho")
        plan = made.cheapest()
        program, public = plan.program, connection.session.kernel
        less = replace(program.options, price=replace(plan.price, rho=(plan.price.rho or 0) * 99 / 100))
        smaller = compiled(program.question, less, program.view, program.known, connection.session)
        assert strain(program, public, plan.asked) <= 1 + 1e-9 < strain(smaller, public, plan.asked)


@pytest.mark.slow
def test_prices_do_not_depend_on_rows(tmp_path: Path) -> None:
    """The same policy over tables without any rows."""
    for at, text in enumerate([text for text, _ in WITHIN] + [text for text, *_ in RANKS]):
        bare = connected(tmp_path / f"e{at}", reader=riders_of([]))
        assert str(bare.explain(text)).splitlines()[0] == str(connected(tmp_path / f"f{at}").explain(text)).splitlines()[0]


# -- sizes


@pytest.mark.parametrize("first", [
    "SELECT COUNT(*) FROM riders ERROR WITHIN 20", asked("COUNT(*) FROM riders", epsilon=0.5),
    asked("COUNT(*), AVG(age) FROM riders", epsilon=0.5), "SELECT town, COUNT(*) FROM riders GROUP BY town ERROR WITHIN 20",
    asked("COUNT(*) ERROR WITHIN 20, AVG(age) ERROR WITHIN 5 FROM riders", rows=1000)])
@pytest.mark.parametrize("budget", ["rho", "pure"])
def test_an_earlier_count_tells_the_size(first: str, budget: str, tmp_path: Path) -> None:
    if budget == "rho":
        first = first.replace("epsilon = 0.5", "rho = 0.1")
    text, connection = "SELECT AVG(age) FROM riders ERROR WITHIN 2", connected(tmp_path, budget)
    with pytest.raises(Unsupported, match="depends on the number of rows, which is not known") as caught:
        connection.execute(text)
    assert "rows = 10000" in caught.value.try_ and "COUNT" in caught.value.try_ and not charged(connection)
    connection.execute(first)
    cursor = connection.execute(text)
    assert cursor.answer is not None
    told = re.search(r"for ([\d,]+) rows or more \(by earlier answers\)", cursor.notes[0])
    assert told is not None and 1350 < int(told[1].replace(",", "")) < 1560
    assert max(offs(cursor.answer)) <= 2


def test_sizes_of_groups_and_of_values(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.execute("SELECT COUNT(*) FROM riders ERROR WITHIN 20")
    for text in ("SELECT AVG(pay) FROM riders ERROR WITHIN 30", "SELECT AVG(age) FROM riders WHERE age < 50 ERROR WITHIN 2",
                 "SELECT town, AVG(age) FROM riders GROUP BY town ERROR WITHIN 2"):  # other rows, or none of these has a value
        with pytest.raises(Unsupported, match="not known"):
            connection.execute(text)
    connection.execute("SELECT COUNT(pay) FROM riders ERROR WITHIN 20")
    assert "by earlier answers" in connection.execute("SELECT AVG(pay) FROM riders ERROR WITHIN 30").notes[0]
    connection.execute("SELECT town, COUNT(*) FROM riders GROUP BY town ERROR WITHIN 20")
    cursor = connection.execute("SELECT town, AVG(age) FROM riders GROUP BY town ERROR WITHIN 4")
    assert cursor.answer is not None and max(offs(cursor.answer)) <= 4
    other = connected(tmp_path, analyst="bob", ledger=connection.session.ledger)  # what others were told is not known
    with pytest.raises(Unsupported, match="not known"):
        other.execute("SELECT AVG(pay) FROM riders ERROR WITHIN 30")


def test_the_size_of_two_owners_rows_follows_from_their_count(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.execute("SELECT COUNT(*) FROM meetings ERROR WITHIN 60")
    cursor = connection.execute("SELECT AVG(minutes) FROM meetings ERROR WITHIN 4")
    assert cursor.answer is not None and "by earlier answers" in cursor.notes[0] and max(offs(cursor.answer)) <= 4


def test_the_size_of_rows_under_any_condition_follows_from_their_count(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.execute("SELECT COUNT(*) FROM riders WHERE pay > age ERROR WITHIN 20")
    assert "by earlier answers" in connection.execute("SELECT AVG(age) FROM riders WHERE pay > age ERROR WITHIN 3").notes[0]
    with pytest.raises(Unsupported, match="not known"):
        connection.execute("SELECT AVG(age) FROM riders WHERE pay < age ERROR WITHIN 3")


def test_a_group_that_may_be_empty_has_no_size(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    connection.execute("SELECT COUNT(*) FROM riders WHERE age > 79 ERROR WITHIN 400")
    with pytest.raises(Unsupported, match="this may have no rows"):
        connection.execute("SELECT AVG(age) FROM riders WHERE age > 79 ERROR WITHIN 2")
    assert len(charged(connection)) == 1


def test_with_fewer_rows_than_stated_the_interval_is_wider_and_a_note_says_so(tmp_path: Path) -> None:
    for at, (text, target) in enumerate([(asked("AVG(age) FROM riders ERROR WITHIN 2", rows=15_000), 2),
                                         (asked("STDDEV(age) FROM riders ERROR WITHIN 2", rows=1500, spread=49), 2)]):
        cursor = connected(tmp_path / str(at)).execute(text)
        assert cursor.answer is not None and max(offs(cursor.answer)) > target
        assert any("is wider than the accuracy that was asked for" in note for note in cursor.notes)
        (value,), (ends,) = cursor.answer.rows[0], cursor.answer.intervals[0]
        assert ends is not None and ends[0] <= value <= ends[1]
    right = connected(tmp_path / "right").execute(asked("AVG(age) FROM riders ERROR WITHIN 2", rows=1500))
    assert not any("is wider" in note for note in right.notes)


def test_another_size_is_another_statement(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    for number, options in enumerate([{"rows": 1500}, {"rows": 1400}, {"rows": 1500, "spread": 5}], 1):
        for _ in range(2):
            connection.execute(asked("STDDEV(age) FROM riders ERROR WITHIN 20", **options))
        assert len(charged(connection)) == number


def test_small_groups_are_withheld(tmp_path: Path) -> None:
    rule = POLICY.replace('key = "rider"\n[tables.riders]', 'key = "rider"\nminimum_frequency = 900\n[tables.riders]')
    cursor = connected(tmp_path, policy=rule).execute(asked("town, AVG(age) FROM riders GROUP BY town ERROR WITHIN 2", rows=700))
    assert cursor.fetchall() == [] and any("withheld" in note for note in cursor.notes)


# -- caps and budgets


@pytest.mark.slow
def test_a_price_beside_an_accuracy_is_a_cap(tmp_path: Path) -> None:
    text = "AVG(age) FROM riders ERROR WITHIN {}"
    for at, cap in enumerate([{"rho": 0.0005}, {"epsilon": 0.01}, {"epsilon": 0.09, "delta": 1e-6}]):
        connection = connected(tmp_path / str(at), "mixed")
        with pytest.raises(OptionError, match="this accuracy costs") as caught:
            connection.execute(asked(text.format(2), rows=1500, **cap))
        assert caught.value.span is not None and not charged(connection)
        buys = re.fullmatch(r"ERROR WITHIN ([\d.e+]+) CONFIDENCE 0.95", caught.value.try_)
        assert buys is not None
        connection.execute(asked(text.format(buys[1]), rows=1500, **cap))
        assert len(charged(connection)) == 1
    enough = connected(tmp_path / "enough")
    enough.execute(asked(text.format(2), rows=1500, rho=1))
    assert charged(enough)[0].rho < 0.003e9


@pytest.mark.parametrize("budget", ["rho", "pure"])
def test_a_refusal_says_what_the_rest_of_the_budget_buys(budget: str, tmp_path: Path) -> None:
    small = POLICY.replace("rho = 1000", "rho = 0.001").replace("epsilon = 1000\n[budgets.rho]", "epsilon = 0.05\n[budgets.rho]")
    connection = connected(tmp_path, budget, policy=small)
    text = asked("AVG(age) ERROR WITHIN {}, COUNT(*) ERROR WITHIN {} FROM riders", rows=1500)
    with pytest.raises(BudgetExhausted) as caught:
        connection.execute(text.format(1, 50))
    wider = re.findall(r"WITHIN ([\d.e+]+)", caught.value.try_)
    assert len(wider) == 2 and not charged(connection)
    connection.execute(text.format(*wider))
    assert len(charged(connection)) == 1


# -- refusals

WRONG: list[tuple[str, type[Error], str]] = [
    ("SELECT MEDIAN(age) FROM riders ERROR WITHIN 1", Unsupported, "how far MEDIAN(age) is off depends on how close the values are"),
    ("SELECT MEDIAN(age) FROM riders STANDARD ERROR 1", Unsupported, "how far MEDIAN(age) is off depends"),
    ("SELECT MEDIAN(age) FROM riders ERROR WITHIN 1 PERCENT OF ROWS", Unsupported, "the error of MEDIAN(age) depends on the number of rows"),
    ("SELECT COUNT(*) FROM riders ERROR WITHIN 10 ROWS", Unsupported, "an error in ROWS is for quantiles, and COUNT(*) is none"),
    ("SELECT MAX(age) FROM riders ERROR WITHIN 10 ROWS", Unsupported, "MAX(age) aims inside the data"),
    (asked("CORR(age, pay) FROM riders ERROR WITHIN 1", rows=1000), Unsupported, "how accurate CORR(age, pay) is depends on the data"),
    (asked("MODE(town) FROM riders ERROR WITHIN 1", rows=1000), Error, ""),
    (asked("STDDEV(age) FROM riders STANDARD ERROR 1", rows=1000), Unsupported, "how accurate STDDEV(age) is depends on the data"),
    (asked("AVG(length) FROM calls ERROR WITHIN 1", rows=1000), Unsupported, "how accurate AVG(length) is depends on the data: a limit"),
    (asked("AVG(length) FROM calls ERROR WITHIN 1", rows=1000, max_rows=3), Unsupported, "how accurate AVG(length) is depends on the data: a"),
    (asked("AVG(age) FROM riders ERROR WITHIN 1", rows=1000, strategy="auto"), OptionError, "strategy is for workloads"),
    (asked("AVG(age) / 2 FROM riders ERROR WITHIN 1", rows=1000), Unsupported, "AVG(age) / 2 is computed from aggregates"),
    (asked("STDDEV(age) FROM riders ERROR WITHIN 1", rows=1000, spread=80), OptionError, "values from 0 to 100 cannot have a"),
    (asked("AVG(age) FROM riders", rows=1000, rho=1), OptionError, "only an accuracy of averages, quantiles and the like rests on rows"),
    (asked("COUNT(*) FROM riders ERROR WITHIN 10", rows=1000), OptionError, "only an accuracy of averages"),
    (asked("MEDIAN(age) FROM riders ERROR WITHIN 50 ROWS CONFIDENCE 0.8", rho=1), OptionError, "the ends of a quantile's interval are"),
    (asked("town, AVG(age) FROM riders GROUP BY ROLLUP (town) ERROR WITHIN 1", rows=1000), Unsupported, "an accuracy of several"),
    (asked("AVG(age) FROM riders ERROR WITHIN 1e-9", rows=1), Unsupported, "no price meets"),
    ("SELECT AVG(age), town ERROR WITHIN 1 FROM riders GROUP BY town", ProgrammingError, "town is exact"),
    ("SELECT MEDIAN(age) FROM riders ERROR WITHIN 0 ROWS", SqlError, "a number above 0"),
]


@pytest.mark.parametrize(("text", "kind", "reason"), WRONG)
def test_mistakes_are_told_and_cost_nothing(text: str, kind: type[Error], reason: str, tmp_path: Path) -> None:
    connection = connected(tmp_path)
    with pytest.raises(kind) as caught:
        connection.execute(text)
    assert caught.value.reason.startswith(reason), caught.value.reason
    assert "^" in str(caught.value) and not charged(connection)


def test_a_limit_that_may_leave_out_rows_leaves_no_accuracy_of_averages(tmp_path: Path) -> None:
    """And one end of what grows with each row: the other end is within the target."""
    connection = connected(tmp_path, policy=POLICY.replace("limits_hold = true\n", ""))
    for text in (asked("AVG(fare) FROM trips ERROR WITHIN 2", rows=3750), "SELECT MEDIAN(fare) FROM trips ERROR WITHIN 90 ROWS",
                 asked("VAR_POP(minutes) FROM meetings ERROR WITHIN 100", rows=2250)):
        with pytest.raises(Unsupported, match="a limit may leave out any number of rows") as caught:
            connection.execute(text)
        assert caught.value.try_.startswith("limits_hold = true") and not charged(connection)
    cursor = connection.execute("SELECT COUNT(DISTINCT stop) FROM trips ERROR WITHIN 15")
    assert cursor.answer is not None
    ((value,),), ((ends,),) = cursor.answer.rows, cursor.answer.intervals
    assert ends is not None and ends[1] == math.inf and value - ends[0] <= 15.5


def test_aggregates_without_an_accuracy_are_answered_beside_the_others(tmp_path: Path) -> None:
    connection = connected(tmp_path)
    cursor = connection.execute(asked("AVG(age) ERROR WITHIN 3, CORR(age, pay), MEDIAN(age) FROM riders", rows=1500))
    assert cursor.answer is not None and offs(cursor.answer)[0] <= 3 and len(charged(connection)) == 1
