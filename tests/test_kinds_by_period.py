"""Every kind of statement over a table that grows: it shows what the statements of its periods show, one by one, and no more is
charged than they cost."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from pathlib import Path

import numpy as np
import pytest
from support.growing_worlds import Clock, add_visits, project
from test_growing_tables import connected, spent

from dpsql.answers.answer import Answer, AnswerColumn
from dpsql.answers.columns import ColumnData
from dpsql.dbapi import Connection
from dpsql.engine.merged_periods import estimate_of
from dpsql.errors import Unsupported
from dpsql.estimates import Estimate, NoiseTerm
from dpsql.trusted.declarations.growth import name_of
from dpsql.types import Type

MONTH = "date_trunc('month', visited_on) AS month"
OF_BOTH = "FROM visits JOIN people USING (person_id)"
NAMES = [f"2025-0{month}" for month in range(1, 5)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, dt.date(2025, 5, 6))  # April is closed


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """In each month every person has a visit on the 1st, and every second person one on the 15th."""
    made = project(tmp_path)
    days = [dt.date(2025, month, 1) for month in range(1, 7)]
    add_visits(made, itertools.product(range(40), days), cost=10)
    add_visits(made, itertools.product(range(0, 40, 2), [day.replace(day=15) for day in days]), cost=30)
    return made


def asked(connection: Connection, text: str) -> Answer:
    made = connection.execute(text).answer
    assert made is not None
    return made


def rho_spent(connection: Connection) -> dict[str, int]:
    """What a person was charged, by period, and in all, in any currency."""
    ledger = connection.session.ledger
    ledger.refresh()
    return {name_of("month", number): charge.rho for number, charge in ledger.spent_in_periods("study").items()} | {
        "all": ledger.spent("study").rho}


def in_month(text: str, month: int) -> str:
    """A statement with a condition that leaves one month."""
    days = f"visited_on >= DATE '2025-{month:02}-01' AND visited_on < DATE '2025-{month + 1:02}-01'"
    return text.replace(" GROUP BY", f" AND {days} GROUP BY" if " WHERE " in text else f" WHERE {days} GROUP BY")


# -- one by one


def statements(draw: random.Random) -> str:
    """A statement over months of any kind whose rows are those of its months."""
    numbers = ["COUNT(*) AS n", "SUM(cost) AS s", "AVG(cost) AS a", "COUNT(*) FILTER (cost > 10) AS f", "2 * COUNT(*) + 1 AS t"]
    hard = ["MEDIAN(cost) AS m", "COUNT(DISTINCT person_id) AS d", "VAR_POP(cost) AS v"]
    kind = draw.choice(["keys", "hard", "sets", "accuracy", "share", "order"])
    where = draw.choice(["", " WHERE cost > 5", " WHERE sex = 'f'"])
    if kind == "accuracy":
        return (f"SELECT {MONTH}, sex, COUNT(*) AS n {OF_BOTH}{where} GROUP BY month, sex "
                f"ERROR WITHIN {draw.choice([60, 80])}")
    if kind == "share":
        return f"SELECT {MONTH}, sex, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY month) AS share {OF_BOTH}{where} GROUP BY month, sex"
    if kind == "sets":
        sets = draw.choice(["CUBE(month, sex)", "ROLLUP(month, sex)", "GROUPING SETS ((month, sex), (month))",
                            "GROUPING SETS ((sex), (month, sex), ())"])
        shown = draw.sample(numbers, draw.randint(1, 2))
        return f"SELECT {MONTH}, sex, GROUPING(month) AS g, {', '.join(shown)} {OF_BOTH}{where} GROUP BY {sets}"
    shown = draw.sample(hard if kind == "hard" else numbers, draw.randint(1, 2))
    beside = draw.choice(["", ", sex"])
    end = " ORDER BY COUNT(*) % 7, month" + beside if kind == "order" else ""
    return f"SELECT {MONTH}{beside}, {', '.join(shown)} {OF_BOTH}{where} GROUP BY month{beside}{end}"


@pytest.mark.parametrize("seed", range(24))
def test_all_periods_are_the_statements_of_each(policy: Path, clock: Clock, seed: int) -> None:
    text = statements(random.Random(seed))
    with connected(policy, exact=False, epsilon=0.5) as connection:
        first = random.Random(seed).choice([True, False])  # whether single months are asked for before
        before = [asked(connection, in_month(text, month)) for month in (range(1, 5) if first else ())]
        charged = spent(connection)
        whole = asked(connection, text)
        assert whole.stored is first and (not first or spent(connection) == charged)
        charged = spent(connection)
        each = before or [asked(connection, in_month(text, month)) for month in range(1, 5)]
        assert all(answer.stored is not first for answer in each) and spent(connection) == charged
        assert {name for name in charged if name != "all"} == {*NAMES}
        of_months = {row[:2]: at for at, row in enumerate(whole.rows) if row[0] is not None}
        own = [(answer, at) for answer in each for at, row in enumerate(answer.rows) if row[0] is not None]
        assert len(own) == len(of_months) > 0
        for answer, at in own:
            place = of_months[answer.rows[at][:2]]
            assert whole.rows[place] == answer.rows[at] and whole.errors[place] == answer.errors[at]
            assert whole.intervals[place] == answer.intervals[at]


# -- totals


@pytest.mark.parametrize(("sets", "totals"), [
    ("CUBE(month, sex)", {(None, "f"): 160, (None, "m"): 80, (None, None): 240}), ("ROLLUP(month, sex)", {(None, None): 240}),
    ("GROUPING SETS ((month), (sex))", {(None, "f"): 160, (None, "m"): 80}), ("GROUPING SETS ((), (month, sex))", {(None, None): 240}),
])
def test_totals_over_periods_are_added(policy: Path, clock: Clock, sets: str, totals: dict[tuple[None, str | None], int]) -> None:
    """Women have two visits a month, of 10 and 30; men have one, of 10."""
    with connected(policy) as connection:
        made = asked(connection, f"SELECT {MONTH}, sex, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS a {OF_BOTH} GROUP BY {sets}")
        found = {row[:2]: row[2:] for row in made.rows if row[0] is None}
        assert {key: row[0] for key, row in found.items()} == totals
        sums = {"f": 160 * 20, "m": 80 * 10, None: 160 * 20 + 80 * 10}
        assert {key: row[1] for key, row in found.items()} == {key: sums[key[1]] for key in totals}
        assert {key: row[2] for key, row in found.items()} == {key: sums[key[1]] / count for key, count in totals.items()}
        assert spent(connection) == dict.fromkeys(NAMES, 1) | {"all": 4}


def test_totals_over_periods_have_the_errors_of_sums(policy: Path, clock: Clock) -> None:
    with connected(policy, exact=False) as connection:
        made = asked(connection, f"SELECT {MONTH}, sex, COUNT(*) AS n {OF_BOTH} GROUP BY CUBE(month, sex)")
        for sex in ("f", "m", None):
            parts = [at for at, row in enumerate(made.rows) if row[0] is not None and row[1] == sex]
            total, = (at for at, row in enumerate(made.rows) if row[:2] == (None, sex))
            assert made.rows[total][2] == sum(made.rows[at][2] for at in parts)  # type: ignore[misc]
            assert made.errors[total][2] == pytest.approx(math.sqrt(sum((made.errors[at][2] or 0) ** 2 for at in parts)))
        assert any("totals over month are the sums of the numbers of 4 periods" in note for note in made.notes)


def test_days_of_growing_months_have_totals_and_months(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        made = asked(connection, f"SELECT visited_on, sex, COUNT(*) AS n {OF_BOTH} WHERE visited_on < DATE '2025-03-01' "
                                 "GROUP BY GROUPING SETS ((visited_on), (sex)) HAVING COUNT(*) > 0 ORDER BY visited_on NULLS LAST, sex LIMIT 5 OFFSET 1")
        assert made.rows == ((dt.date(2025, 1, 15), None, 20), (dt.date(2025, 2, 1), None, 40), (dt.date(2025, 2, 15), None, 20),
                             (None, "f", 80), (None, "m", 40))
        assert spent(connection) == {"2025-01": 1, "2025-02": 1, "all": 2}


def test_years_and_months(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        made = asked(connection, f"SELECT date_trunc('year', visited_on) AS year, {MONTH}, COUNT(*) AS n FROM visits GROUP BY ROLLUP(year, month)")
        year = dt.datetime(2025, 1, 1)
        assert {row for row in made.rows if row[1] is None} == {(year, None, 240), (None, None, 240)}
        assert [row[2] for row in made.rows if row[1] is not None] == [60] * 4


@pytest.mark.parametrize(("text", "words"), [
    (f"SELECT {MONTH}, sex, MEDIAN(cost) AS m {OF_BOTH} GROUP BY CUBE(month, sex)", "MEDIAN(cost) over all periods does not follow"),
    (f"SELECT {MONTH}, COUNT(DISTINCT person_id) AS m FROM visits GROUP BY ROLLUP(month)", "over all periods does not follow"),
    (f"SELECT {MONTH}, cost, COUNT(*) AS n FROM visits GROUP BY CUBE(month, cost)", "groups of cost are found privately in each"),
])
def test_totals_that_do_not_follow_are_refused_at_no_cost(policy: Path, clock: Clock, text: str, words: str) -> None:
    with connected(policy, delta=1e-6) as connection:
        with pytest.raises(Unsupported) as caught:
            connection.execute(text)
        assert words in str(caught.value) and caught.value.code == "periods" and caught.value.span is not None
        assert spent(connection) == {"all": 0}


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_intervals_of_sums_cover_as_often_as_they_say(kind: str) -> None:
    """Numbers of four periods are read back from answers, which do not say of which kind their noise is."""
    noise, size = np.random.default_rng(3), 40_000
    own = NoiseTerm(kind=kind, scale=30.0)  # type: ignore[arg-type]
    total = None
    for place in range(4):
        drawn = noise.laplace(0, 30, size) if kind == "laplace" else noise.normal(0, 30, size)
        estimate = Estimate(values=np.rint(drawn), slopes={(0,): (own, np.ones(size))})
        lows, highs = estimate.ends(0.95)
        answer = Answer(columns=(AnswerColumn(name="n", type=Type.BIGINT),), confidence=0.95, data=(
            ColumnData(values=estimate.values.tolist(), errors=estimate.deviations, lows=lows, highs=highs),))
        read = estimate_of(answer, 0, (place, 0))
        assert (read.ends(0.95)[0] == lows).all() and read.deviations == pytest.approx(estimate.deviations)
        total = read if total is None else total + read
    assert total is not None
    low, high = total.ends(0.95)
    assert 0.946 < np.mean((low <= 0) & (high >= 0)) < 0.962


# -- next month


@pytest.mark.parametrize("text", [
    f"SELECT {MONTH}, sex, COUNT(*) AS n {OF_BOTH} GROUP BY CUBE(month, sex)",
    f"SELECT {MONTH}, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY month) AS so_far FROM visits GROUP BY month",
    f"SELECT {MONTH}, COUNT(*) AS n FROM visits GROUP BY month ERROR WITHIN 40",
    f"WITH m AS (SELECT {MONTH}, COUNT(*) AS n FROM visits GROUP BY month) SELECT month, n, n - LAG(n) OVER (ORDER BY month) FROM m",
])
def test_next_month_old_numbers_stay_and_the_new_month_is_charged(policy: Path, clock: Clock, text: str) -> None:
    with connected(policy, exact=False) as connection:
        first, charged = asked(connection, text), rho_spent(connection)
    add_visits(policy, [(person, dt.date(2025, 2, 9)) for person in range(40)])  # late
    clock.day = dt.date(2025, 6, 6)
    with connected(policy, exact=False) as connection:
        again = asked(connection, text)
        old = [at for at, row in enumerate(first.rows) if row[0] is not None]
        places = {row[:2]: at for at, row in enumerate(again.rows)}
        assert len(old) >= 4
        for at in old:
            place = places[first.rows[at][:2]]
            assert again.rows[place] == first.rows[at] and again.errors[place] == pytest.approx(first.errors[at], nan_ok=True)
        new = {name: amount - charged.get(name, 0) for name, amount in rho_spent(connection).items()}
        assert {name for name, amount in new.items() if amount} == {"2025-05", "all"} and new["2025-05"] == new["all"]
        assert "measured now: 2025-05; answered before: 4 other periods" in again.notes
        assert asked(connection, text).stored


def test_groups_that_are_found_privately_stay_as_told(tmp_path: Path, clock: Clock) -> None:
    policy = project(tmp_path, people=2000)
    add_visits(policy, itertools.product(range(1000), [dt.date(2025, month, 1) for month in range(1, 6)]), cost=10)
    add_visits(policy, itertools.product(range(30), [dt.date(2025, month, 1) for month in range(1, 6)]), cost=30)
    text = f"SELECT {MONTH}, cost, COUNT(*) AS n FROM visits GROUP BY month, cost"
    with connected(policy, exact=False, epsilon=2, delta=1e-5) as connection:
        first = asked(connection, text)
        assert {row[1] for row in first.rows} <= {10, 30} and len(first.rows) >= 4
        charged = spent(connection)
        assert charged == dict.fromkeys(NAMES, 2) | {"all": 8}
    clock.day = dt.date(2025, 6, 6)
    with connected(policy, exact=False, epsilon=2, delta=1e-5) as connection:
        again = asked(connection, text)
        assert again.rows[:len(first.rows)] == first.rows and again.errors[:len(first.rows)] == first.errors
        assert {name for name, amount in spent(connection).items() if amount != charged.get(name)} == {"2025-05", "all"}


# -- windows over several periods


def test_windows_compare_periods_at_no_cost(policy: Path, clock: Clock) -> None:
    with connected(policy, exact=False) as connection:
        plain = asked(connection, f"SELECT {MONTH}, COUNT(*) AS n FROM visits GROUP BY month")
        charged = spent(connection)
        assert charged == dict.fromkeys(NAMES, 1) | {"all": 4}
        made = asked(connection, f"SELECT {MONTH}, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY month) AS so_far, LAG(COUNT(*)) OVER (ORDER BY month) AS before, "
                                 "COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY month) AS change FROM visits GROUP BY month")
        assert made.stored and spent(connection) == charged
        numbers, error = [row[1] for row in plain.rows], plain.errors[0][1] or 0
        assert [row[:2] for row in made.rows] == [*plain.rows]
        assert [row[2] for row in made.rows] == [*itertools.accumulate(numbers)]  # type: ignore[type-var]
        assert [row[3] for row in made.rows] == [None, *numbers[:-1]]
        assert [row[4] for row in made.rows[1:]] == [b - a for a, b in itertools.pairwise(numbers)]  # type: ignore[operator]
        assert [row[2] for row in made.errors] == pytest.approx([error * math.sqrt(n) for n in range(1, 5)])
        assert [row[4] for row in made.errors[1:]] == pytest.approx([error * math.sqrt(2)] * 3)
        assert asked(connection, "SELECT DISTINCT COUNT(*) > 0 AS some FROM visits GROUP BY date_trunc('month', visited_on)").rows == ((True,),)
        assert spent(connection) == charged


def test_windows_read_the_periods_that_conditions_leave(policy: Path, clock: Clock) -> None:
    days = "visited_on >= DATE '2025-02-01' AND visited_on < DATE '2025-04-01'"
    with connected(policy) as connection:
        made = asked(connection, f"SELECT visited_on, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY visited_on) AS before FROM visits WHERE {days} "
                                 "GROUP BY visited_on HAVING COUNT(*) > 0")
        firsts = [dt.date(2025, 2, 1), dt.date(2025, 2, 15), dt.date(2025, 3, 1), dt.date(2025, 3, 15)]
        assert made.rows == tuple(zip(firsts, (40, 20, 40, 20), (None, 40, 20, 40), strict=True))
        assert spent(connection) == {"2025-02": 1, "2025-03": 1, "all": 2}
        asked(connection, f"SELECT n - 1 AS less FROM (SELECT COUNT(*) AS n FROM visits WHERE {days}) AS t")
        assert {*spent(connection)} == {"2025-02", "2025-03", "all"}


def test_several_parts_share_the_price(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        text = (f"WITH m AS (SELECT {MONTH}, COUNT(*) AS n FROM visits GROUP BY month) "
                "SELECT m.month, m.n / p.n AS each FROM m, (SELECT COUNT(*) AS n FROM people) AS p ORDER BY m.month DESC LIMIT 2")
        assert asked(connection, text).rows == ((dt.datetime(2025, 4, 1), 1.5), (dt.datetime(2025, 3, 1), 1.5))
        assert spent(connection) == dict.fromkeys(NAMES, 0.5) | {"all": 2.5}


def test_subqueries_over_other_tables_are_beside_the_periods(policy: Path, clock: Clock) -> None:
    text = f"SELECT {MONTH}, COUNT(*) / (SELECT COUNT(*) FROM people) AS each FROM visits GROUP BY month"
    with connected(policy) as connection:
        made = asked(connection, text)
        assert [row[1] for row in made.rows] == [1.5] * 4 and spent(connection) == dict.fromkeys(NAMES, 0.5) | {"all": 2.5}
        assert any("(SELECT COUNT(*) FROM people) = 40 (standard error" in note for note in made.notes)
    with connected(policy, exact=False) as connection:
        assert asked(connection, text).stored  # as numbers, whatever noise there would be
        other = asked(connection, text.replace(" AS each", " AS each, COUNT(*) > (SELECT COUNT(*) FROM people) + 5000 AS many"))
        assert {row[2] for row in other.rows} == {False} and spent(connection)["2025-01"] <= 1


def test_explain_tells_the_price_of_new_periods(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        for text in (f"SELECT {MONTH}, sex, COUNT(*) AS n {OF_BOTH} GROUP BY CUBE(month, sex)",
                     f"SELECT {MONTH}, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY month) AS l FROM visits GROUP BY month"):
            told = " ".join(str(connection.execute(f"EXPLAIN PRIVACY {text}").explanation).split())
            assert "one statement for each of 4 periods" in told and "not answered before: 4" in told
            assert "ε = 1 in each of 4 periods, and their sum in all" in told and spent(connection) == {"all": 0}
