"""Tables that grow, as analysts see them: which periods are read, what they are charged, and numbers that stay."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.growing_worlds import Clock, add_visits, project
from support.wire_servers import PASSWORD, served

import dpsql
from dpsql.answers.answer import Answer
from dpsql.audit.exact import Exact
from dpsql.cli import main
from dpsql.dbapi import Connection
from dpsql.engine.period_by_period import _notes_together
from dpsql.errors import BudgetExhausted, Unsupported
from dpsql.trusted.accounting.cost import NANO
from dpsql.trusted.declarations.growth import name_of, period_of

BY_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"
MARCH = "visited_on >= DATE '2025-03-01' AND visited_on < DATE '2025-04-01'"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Every person has a visit on the 1st and the last day of each month of the first half of 2025, and one without a day."""
    made = project(tmp_path)
    ends = [day for month in range(1, 7) for day in (dt.date(2025, month, 1), dt.date(2025, month + 1, 1) - dt.timedelta(days=1))]
    add_visits(made, itertools.product(range(40), [*ends, None]))
    return made


def connected(policy: Path, *, exact: bool = True, **terms: Any) -> Connection:
    made = dpsql.connect(policy=policy, budget="study", analyst="ada", **{"epsilon": 1, **terms})
    if exact:
        made.session.kernel._noise = Exact()
    return made


def spent(connection: Connection, analyst: str | None = None) -> dict[str, float]:
    """What a person was charged, by period, and in all."""
    ledger = connection.session.ledger
    ledger.refresh()
    found = {name_of("month", number): (charge.epsilon or 0) / NANO for number, charge in ledger.spent_in_periods("study", analyst).items()}
    return {**found, "all": (ledger.spent("study", analyst).epsilon or 0) / NANO}


THIRD = 0.333333334  # rounded up


@pytest.mark.parametrize(("where", "count", "charged"), [
    (MARCH, 80, {"2025-03": 1, "all": 1}),
    ("date_trunc('month', visited_on) = DATE '2025-03-01'", 80, {"2025-03": 1, "all": 1}),
    ("month(visited_on) = 3 AND year(visited_on) = 2025", 80, {"2025-03": 1, "all": 1}),
    ("visited_on BETWEEN DATE '2025-03-02' AND DATE '2025-03-31'", 40, {"2025-03": 1, "all": 1}),
    ("visited_on IN (DATE '2025-03-31')", 40, {"2025-03": 1, "all": 1}),
    ("visited_on > DATE '2025-04-29'", 200, {"2025-04": THIRD, "2025-05": THIRD, "2025-06": THIRD, "all": 1}),
    ("visited_on BETWEEN DATE '2025-01-31' AND DATE '2025-02-01'", 80, {"2025-01": 0.5, "2025-02": 0.5, "all": 1}),
    ("cost > 1000", 0, {name_of("month", period_of("month", dt.date(2025, month, 1))): 0.166666667 for month in range(1, 7)}
     | {"all": 1}),
])
def test_the_periods_that_conditions_leave_are_read_and_charged(policy: Path, clock: Clock, where: str, count: int,
                                                                charged: dict[str, float]) -> None:
    with connected(policy) as connection:
        assert connection.execute(f"SELECT COUNT(*) FROM visits WHERE {where}").fetchall() == [(count,)]
        assert spent(connection) == spent(connection, "ada") == charged


@pytest.mark.parametrize(("text", "steps"), [
    ("SELECT sex, COUNT(*) FROM visits JOIN people USING (person_id) WHERE {} GROUP BY sex", 1),
    ("SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits WHERE {} GROUP BY person_id) WHERE n > 1", 1),
    ("SELECT COUNT(DISTINCT person_id) FROM visits WHERE {}", 1),
    ("SELECT median(cost) FROM visits WHERE {}", 1),
    ("SELECT SUM(cost) FROM visits LEFT JOIN people USING (person_id) WHERE {}", 1),
    ("SELECT (SELECT COUNT(*) FROM people) - COUNT(DISTINCT person_id) FROM visits WHERE {}", 2),
    ("SELECT COUNT(*) FROM people WHERE person_id NOT IN (SELECT person_id FROM visits WHERE {})", 2),
    ("SELECT COUNT(*) FROM people LEFT JOIN (SELECT * FROM visits WHERE {}) AS v USING (person_id)", 2),
])
def test_where_a_part_of_a_person_is_not_a_person_it_costs_twice_as_much(policy: Path, clock: Clock, text: str, steps: int) -> None:
    with connected(policy) as connection:
        connection.execute(text.format(MARCH))
        assert spent(connection) == {"2025-03": steps, "all": 1}


def test_numbers_stay_and_the_next_month_costs_the_next_month(policy: Path, clock: Clock) -> None:
    with connected(policy, exact=False) as connection:
        first = connection.execute(BY_MONTH)
        rows, errors = first.fetchall(), first.answer.errors if first.answer else ()
        assert [row[0].month for row in rows] == [*range(1, 7)]
        assert spent(connection) == {f"2025-0{month}": 1 for month in range(1, 7)} | {"all": 6}
    add_visits(policy, [(person, dt.date(2025, 7, 9)) for person in range(40)])
    add_visits(policy, [(person, dt.date(2025, 2, 9)) for person in range(40)])  # late: what was told stays
    clock.day = dt.date(2025, 8, 5)
    with connected(policy, exact=False) as connection:
        assert connection.execute(BY_MONTH).fetchall() == rows  # July is not closed yet
    clock.day = dt.date(2025, 8, 6)
    with connected(policy, exact=False) as connection:
        again = connection.execute(BY_MONTH)
        assert again.fetchall()[:6] == rows and again.answer is not None and again.answer.errors[:6] == errors
        assert spent(connection) == {f"2025-0{month}": 1 for month in range(1, 8)} | {"all": 7}
        shorter = connection.execute(f"{BY_MONTH.replace('GROUP', 'WHERE visited_on >= DATE {} GROUP')} ORDER BY month DESC LIMIT 2".format("'2025-03-01'"))
        assert shorter.fetchall() == [*again.answer.rows[:4:-1]] and shorter.answer is not None and shorter.answer.stored


def test_groups_beside_the_period(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        rows = connection.execute("SELECT sex, visited_on, COUNT(*) AS n FROM visits JOIN people USING (person_id) WHERE visited_on < DATE '2025-03-01' "
                                  "GROUP BY sex, visited_on HAVING COUNT(*) > 0 ORDER BY sex, visited_on DESC").fetchall()
        days = [dt.date(2025, 2, 28), dt.date(2025, 2, 1), dt.date(2025, 1, 31), dt.date(2025, 1, 1)]
        assert rows == [(sex, day, 20) for sex in "fm" for day in days]
        assert spent(connection) == {"2025-01": 1, "2025-02": 1, "all": 2}


def test_windows_look_at_other_periods_and_groups_of_them_are_one_statement(policy: Path, clock: Clock) -> None:
    """The first visit of a month has one before it, in the month before."""
    rows = "SELECT visited_on, LAG(cost) OVER (PARTITION BY person_id ORDER BY visited_on) AS before FROM visits WHERE visited_on < DATE '2025-03-01'"
    with connected(policy) as connection:
        found = connection.execute(f"SELECT visited_on, COUNT(*) AS n FROM ({rows}) WHERE before IS NOT NULL GROUP BY visited_on HAVING COUNT(*) > 5").fetchall()
        assert found == [(day, 40) for day in (dt.date(2025, 1, 31), dt.date(2025, 2, 1), dt.date(2025, 2, 28))]
        assert spent(connection) == {"2025-01": 2, "2025-02": 2, "all": 1}


def test_rows_that_an_outer_join_makes_are_of_no_period(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        found = connection.execute("SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM people LEFT JOIN visits USING (person_id) "
                                   "WHERE person_id < 10 GROUP BY month").fetchall()
        assert [row[1] for row in found] == [20] * 6 + [0] and found[-1][0] is None


def test_a_period_that_is_computed_of_several_rows_is_no_period_of_theirs(policy: Path, clock: Clock) -> None:
    """The last visit of everybody is in June."""
    with connected(policy) as connection:
        last = "SELECT person_id, date_trunc('month', MAX(visited_on)) AS month FROM visits GROUP BY person_id"
        found = connection.execute(f"SELECT month, COUNT(*) AS n FROM ({last}) GROUP BY month HAVING COUNT(*) > 5").fetchall()
        assert found == [(dt.datetime(2025, 6, 1), 40)] and spent(connection) == {f"2025-0{month}": 2 for month in range(1, 7)} | {"all": 1}


@pytest.mark.parametrize(("period", "day", "numbers"), [("day", dt.date(2025, 1, 20), 14), ("week", dt.date(2025, 2, 10), 5), ("quarter", dt.date(2025, 7, 6), 2), ("year", dt.date(2026, 1, 6), 1)])
def test_other_periods(tmp_path: Path, clock: Clock, period: str, day: dt.date, numbers: int) -> None:
    policy, clock.day = project(tmp_path, period=period), day
    with connected(policy) as connection:
        connection.execute(f"SELECT date_trunc('{period}', visited_on) AS p, COUNT(*) AS n FROM visits GROUP BY p")
        assert len(connection.session.ledger.spent_in_periods("study")) == numbers


def test_moments(tmp_path: Path, clock: Clock) -> None:
    policy = project(tmp_path, column="seen_at")
    add_visits(policy, [(person, day) for person in range(40) for day in (dt.date(2025, 3, 1), dt.date(2025, 3, 31), dt.date(2025, 4, 1))])
    with connected(policy) as connection:
        text = "SELECT COUNT(*) FROM visits WHERE seen_at >= TIMESTAMP '2025-03-01 00:00:00' AND seen_at < TIMESTAMP '2025-04-01 00:00:00'"
        assert connection.execute(text).fetchall() == [(80,)] and spent(connection) == {"2025-03": 1, "all": 1}
        rows = connection.execute(BY_MONTH.replace("visited_on", "seen_at").replace("GROUP", "WHERE seen_at >= DATE '2025-03-01' GROUP")).fetchall()
        assert [row[1] for row in rows] == [80, 40, 0, 0]


@pytest.mark.parametrize(("text", "code", "words"), [
    ("SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-08-01'", "open-period", "2025-07 is not closed"),
    ("SELECT COUNT(*) FROM visits WHERE visited_on = DATE '2025-07-02'", "open-period", "2025-08-06"),
    ("SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2024-12-31'", "periods", "no closed period"),
    ("SELECT cost, COUNT(*) FROM visits WHERE visited_on < DATE '2025-03-01' GROUP BY cost", "periods", "found privately"),
    (f"{BY_MONTH} ORDER BY COUNT(*) + 1 ERROR WITHIN 100", "periods", "ordered by columns that are shown"),
])
def test_refusals_are_located_and_cost_nothing(policy: Path, clock: Clock, text: str, code: str, words: str) -> None:
    with connected(policy, delta=1e-9) if "cost," in text else connected(policy) as connection:
        with pytest.raises(Unsupported, match=re.escape(words)) as caught:
            connection.execute(text)
        assert caught.value.code == code and caught.value.span is not None and spent(connection) == {"all": 0}


@pytest.mark.parametrize(("condition", "way_out"), [
    ("visited_on < DATE '2025-08-01'", "visited_on < DATE '2025-07-01'"),
    ("visited_on BETWEEN DATE '2025-06-10' AND DATE '2025-09-10'", "visited_on < DATE '2025-07-01'"),
    ("date_trunc('month', visited_on) = DATE '2025-09-01'", "periods from 2025-01 to 2025-06"),
    ("visited_on >= DATE '2025-07-01'", "periods from 2025-01 to 2025-06"),
])
def test_what_to_write_instead_of_a_period_that_is_not_closed_is_answered(policy: Path, clock: Clock, condition: str, way_out: str) -> None:
    with connected(policy) as connection:
        with pytest.raises(Unsupported, match="is not closed yet: rows of visits in it can be read from 2025-") as caught:
            connection.execute(f"SELECT COUNT(*) FROM visits WHERE {condition}")
        assert caught.value.try_ == way_out
        if way_out.startswith("visited_on"):
            assert connection.execute(f"SELECT COUNT(*) FROM visits WHERE visited_on >= DATE '2025-06-10' AND {way_out}").fetchall()


def test_notes_on_several_periods_say_what_is_charged_and_of_which_periods_they_are() -> None:
    """Numbers of rows in a note are those of one period, and a note that is not on all periods names its own."""
    names = [f"2025-{month:02}" for month in range(1, 7)]

    def answer(*notes: str) -> Answer:
        return cast(Answer, SimpleNamespace(notes=notes))

    told = _notes_together(names, [answer(
        f"this is what each person is charged in {name}, and in all", f"only rows of visits in {name} are read",
        "n tells nothing in 2 of 2 rows: more rows make it narrower", "values are clamped",
        *(["at most 3 rows are used"] if name == "2025-02" else []), *(["at most 4 rows are used"] if name != "2025-02" else []))
        for name in names])
    assert set(told) == {
        "each person is charged the price of each of the 6 periods 2025-01 to 2025-06 in that period, and their sum in all",
        "only rows of visits in the 6 periods 2025-01 to 2025-06 are read", "values are clamped",
        "in each period, n tells nothing in 2 of 2 rows: more rows make it narrower",
        "2025-02: at most 3 rows are used", "5 of 6 periods: at most 4 rows are used"}


def test_tables_show_the_limit_in_a_period_and_its_column(policy: Path, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """The same on every day: what is closed is not a part of it."""
    for day in (dt.date(2025, 2, 6), dt.date(2025, 7, 6)):
        clock.day = day
        with connected(policy) as connection:
            shown = {row[0]: row[2] for row in connection.execute("SHOW TABLES").fetchall()}
            assert shown == {"people": "1", "visits": "4 in a month of visited_on"}
            assert "at most 4 rows of each person in a month of visited_on count" in connection._repr_html_()
    assert main(["check", "--policy", str(policy)]) == 0 and "4 in a month of visited_on" in capsys.readouterr().out


def test_no_period_is_closed_at_first(policy: Path, clock: Clock) -> None:
    clock.day = dt.date(2025, 2, 5)
    with connected(policy) as connection:
        with pytest.raises(Unsupported, match="no period of visits is closed yet"):
            connection.execute(BY_MONTH)
        assert connection.execute("SELECT sex, COUNT(*) FROM people GROUP BY sex").fetchall() == [("f", 20), ("m", 20)]


def test_a_period_that_is_used_up_says_so_and_others_go_on(policy: Path, clock: Clock) -> None:
    march = f"SELECT COUNT(*) FROM visits WHERE {MARCH} AND cost > "
    with connected(policy, epsilon=4) as connection:
        connection.execute(f"{march}1")
        with pytest.raises(BudgetExhausted, match="the budget of ada for 2025-03 has left: 20 %") as caught:
            connection.execute(f"{march}2")
        assert caught.value.code == "period-exhausted" and spent(connection) == {"2025-03": 4, "all": 4}
        connection.execute("SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-02-01'")
        left = {row[1:3]: row[4] for row in connection.execute("SHOW PERIODS").fetchall()}
        assert left["2025-03", "ada"] == "20 %" and left["2025-03", "all"] == "60 %" and left["2025-02", "ada"] == "100 %"


def test_explain_tells_both_units_and_the_price_of_all_new_periods(policy: Path, clock: Clock) -> None:
    with connected(policy) as connection:
        connection.execute(f"SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits WHERE {MARCH} GROUP BY month")
        told = " ".join(str(connection.execute(f"EXPLAIN PRIVACY {BY_MONTH}").explanation).split())
        assert "one statement for each of 6 periods, 2025-01 to 2025-06" in told and "not answered before: 5" in told
        assert "this is what each person is charged in 2025-06, and in all" in told
        assert spent(connection) == {"2025-03": 1, "all": 1}


@pytest.fixture
def port(policy: Path) -> Iterator[int]:
    with served(policy, budget="study", price={"epsilon": 1}) as found:  # type: ignore[dict-item]
        yield found.port


@pytest.mark.slow
def test_over_the_network(port: int, policy: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(host="127.0.0.1", port=port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as client:
        text = BY_MONTH.replace("GROUP", "WHERE visited_on < DATE '2025-04-01' GROUP")
        rows = client.execute(text).fetchall()
        assert len(rows) == 3 and client.execute(text).fetchall() == rows
        assert client.execute(f"SELECT COUNT(*) FROM visits WHERE {MARCH}").fetchone() is not None
        listed = client.execute("SHOW PERIODS").fetchall()
        assert {row[1] for row in listed if row[4] != "100 %"} == {"2025-01", "2025-02", "2025-03"}
    with connected(policy) as connection:
        assert spent(connection) == {"2025-01": 1, "2025-02": 1, "2025-03": 2, "all": 4}


# -- statements over several periods


@pytest.fixture
def ten_each(tmp_path: Path) -> Path:
    """Every person has ten visits in each month of the first half of 2025, of which four are used."""
    made = project(tmp_path)
    add_visits(made, [(person, dt.date(2025, month, day)) for person in range(40) for month in range(1, 7) for day in range(1, 11)])
    return made


def halves(connection: Connection) -> dict[str, float]:
    return {name: round(epsilon, 6) for name, epsilon in spent(connection).items()}


QUARTER = "visited_on < DATE '2025-04-01'"
EACH_THIRD = {"2025-01": 0.333333, "2025-02": 0.333333, "2025-03": 0.333333, "all": 1}


@pytest.mark.parametrize(("text", "rows"), [
    ("SELECT COUNT(*) FROM visits WHERE {}", [(480,)]),
    ("SELECT SUM(cost) FROM visits WHERE {}", [(4800,)]),
    ("SELECT sex, COUNT(*) FROM visits JOIN people USING (person_id) WHERE {} GROUP BY sex ORDER BY sex", [("f", 240), ("m", 240)]),
    ("SELECT COUNT(*) FROM visits WHERE {} AND person_id IN (SELECT person_id FROM people WHERE sex = 'f')", [(240,)]),
    ("SELECT COUNT(*) FROM visits LEFT JOIN people USING (person_id) WHERE {}", [(480,)]),
])
def test_a_person_keeps_its_rows_in_each_month_and_each_month_is_charged_its_part(ten_each: Path, clock: Clock, text: str, rows: list[Any]) -> None:
    with connected(ten_each) as connection:
        assert connection.execute(text.format(QUARTER)).fetchall() == rows
        assert halves(connection) == EACH_THIRD


def test_a_person_with_rows_in_one_month_alone_keeps_no_more_there(tmp_path: Path, clock: Clock) -> None:
    policy = project(tmp_path)
    add_visits(policy, [(person, dt.date(2025, 2, day)) for person in range(40) for day in range(1, 21)])
    with connected(policy) as connection:
        assert connection.execute(f"SELECT COUNT(*) FROM visits WHERE {QUARTER}").fetchall() == [(160,)]


@pytest.mark.parametrize("text", [
    "SELECT COUNT(*) FROM (SELECT person_id, COUNT(*) AS n FROM visits WHERE {} GROUP BY person_id) WHERE n > 1",
    "SELECT COUNT(DISTINCT person_id) FROM visits WHERE {}",
    "SELECT COUNT(*) FROM people LEFT JOIN (SELECT * FROM visits WHERE {}) AS v USING (person_id)",
    "SELECT COUNT(*) FROM (SELECT person_id, ROW_NUMBER() OVER (PARTITION BY person_id ORDER BY visited_on) AS n FROM visits WHERE {}) WHERE n = 1",
    "SELECT COUNT(*) FROM (SELECT person_id, date_trunc('year', visited_on) AS y, COUNT(*) AS n FROM visits WHERE {} GROUP BY person_id, y)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT person_id, m FROM (SELECT person_id, date_diff('month', DATE '2025-01-01', visited_on) AS m FROM visits WHERE {} "
    "UNION ALL SELECT person_id, date_diff('month', DATE '2025-02-01', visited_on) AS m FROM visits WHERE {}))",
])
def test_what_mixes_rows_of_several_months_costs_twice_as_much_in_each(ten_each: Path, clock: Clock, text: str) -> None:
    with connected(ten_each) as connection:
        connection.execute(text.replace("{}", QUARTER))
        assert spent(connection) == {"2025-01": 2, "2025-02": 2, "2025-03": 2, "all": 1}


def test_explain_tells_the_part_of_each_month_and_the_statement_is_charged_it(ten_each: Path, clock: Clock) -> None:
    text = f"SELECT COUNT(*) FROM visits WHERE {QUARTER}"
    with connected(ten_each) as connection:
        told = " ".join(str(connection.execute(f"EXPLAIN PRIVACY {text}").explanation).split())
        assert "this is what each person is charged in all; in each of 2025-01 to 2025-03 it is" in told and "twice" not in told
        assert spent(connection) == {"all": 0}
        answer = connection.execute(text).answer
        assert answer is not None and any("in each of 2025-01 to 2025-03 it is" in note for note in answer.notes)
        assert halves(connection) == EACH_THIRD
        again = connection.execute(text)
        assert again.answer is not None and again.answer.stored and halves(connection) == EACH_THIRD
    with connected(ten_each) as connection:  # in another session, too
        assert (again := connection.execute(text)).answer is not None and again.answer.stored


@pytest.mark.parametrize(("price", "share"), [({"epsilon": 0.7}, 1 / 3), ({"epsilon": 0.1, "delta": 1e-6}, 1 / 3), ({"epsilon": None, "rho": 0.09}, 1 / 9),
                                              ({"epsilon": None, "rho": 0.07}, 1 / 9)], ids=str)
@pytest.mark.parametrize("columns", ["COUNT(*)", "COUNT(*), COUNT(*) FILTER (WHERE cost > 5)", "VAR_POP(cost)"])
def test_each_month_is_charged_by_what_its_rows_can_move(ten_each: Path, clock: Clock, columns: str, price: dict[str, float], share: float) -> None:
    """A third of the rows is a third of epsilon, or a ninth of rho; also where the scale of the noise was rounded."""
    with connected(ten_each, **price) as connection:
        connection.execute(f"SELECT {columns} FROM visits WHERE {QUARTER}")
        ledger = connection.session.ledger
        whole, parts = ledger.spent("study"), ledger.spent_in_periods("study").values()
        charged = [part.rho / whole.rho if whole.epsilon is None or part.epsilon is None else part.epsilon / whole.epsilon for part in parts]
        assert charged == pytest.approx([share] * 3, rel=1e-5) and {part.epsilon is None for part in parts} == {price["epsilon"] is None}


@pytest.mark.parametrize("weeks", [2, 5])
def test_every_day_of_a_week_counts_in_its_week(tmp_path: Path, clock: Clock, weeks: int) -> None:
    """DuckDB's own weeks begin on the day from which they are counted."""
    policy, monday = project(tmp_path, period="week"), dt.date(2025, 1, 6)
    days = [monday + dt.timedelta(days=day) for day in range(7 * weeks)]
    add_visits(policy, [(person, day) for person in range(40) for day in days])
    first = f"visited_on >= DATE '{monday}' AND visited_on < DATE '{monday + dt.timedelta(weeks=weeks)}'"
    with connected(policy) as connection:
        assert connection.execute(f"SELECT COUNT(*) FROM visits WHERE {first}").fetchall() == [(40 * 4 * weeks,)]
        ledger = connection.session.ledger
        assert [round((charge.epsilon or 0) / NANO, 6) for charge in ledger.spent_in_periods("study").values()] == [round(1 / weeks, 6)] * weeks
