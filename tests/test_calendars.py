"""Tables that grow by the periods of a public calendar: how they are declared, read, charged, and what becomes of a changed one."""

from __future__ import annotations

import datetime as dt
import gc
import itertools
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.growing_worlds import POLICY, add_visits

import dpsql
from dpsql.audit.exact import Exact
from dpsql.audit.policy_on_rows import policy_on_rows
from dpsql.catalog import growing
from dpsql.catalog.policy import read_policy
from dpsql.cli import main
from dpsql.dbapi import Connection
from dpsql.engine.revising import revise
from dpsql.errors import BudgetExhausted, PolicyError, Unsupported
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NANO
from dpsql.trusted.declarations.growth import CALENDAR, Growth, PeriodRange
from dpsql.trusted.kernel.claims import Disagreement
from dpsql.trusted.kernel.period_certificate import period_columns
from dpsql.trusted.kernel.period_costs import costs_in_periods
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.noise.integer import DiscreteGaussian
from dpsql.trusted.plan.certificate import Certificate, Sensitivity, stability
from dpsql.trusted.plan.expr.nodes import Case, Ref
from dpsql.trusted.plan.expr.period_places import place_among
from dpsql.trusted.plan.node import InvalidPlan
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type

FIRST_DAYS = [dt.date(2025, 1, 1), dt.date(2025, 2, 3), dt.date(2025, 2, 4), dt.date(2025, 7, 14), dt.date(2025, 9, 1)]
WINTER, DAY, SPRING, SUMMER = "2025-01-01 to 2025-02-02", "2025-02-03", "2025-02-04 to 2025-07-13", "2025-07-14 to 2025-08-31"
TERMS = "[tables.terms]\npublic = true\n[tables.terms.columns]\nname = {}\nfirst_day = {}\n\n[tables.visits]"
PERIOD = 'period = { table = "terms", starts = "first_day" }'
BY_TERM = ("SELECT CASE WHEN visited_on < DATE '2025-02-03' THEN 'w' WHEN visited_on < DATE '2025-02-04' THEN 'd' "
           "WHEN visited_on < DATE '2025-07-14' THEN 's' ELSE 'u' END AS term, COUNT(*) AS n FROM visits GROUP BY term ORDER BY term")


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "today", lambda: dt.date(2026, 3, 1))


def calendar(policy: Path, days: list[Any], kind: str = "DATE") -> None:
    """The calendar of a project, in place of the one it had."""
    with duckdb.connect(policy.parent / "data.duckdb") as connection:
        connection.execute(f"CREATE OR REPLACE TABLE terms (name VARCHAR, first_day {kind})")
        connection.executemany("INSERT INTO terms VALUES (?, ?)", [(f"term {i}", day) for i, day in enumerate(days)])


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Forty people, each with a visit on the first and the last day of each of four periods, and one after them."""
    made = tmp_path / "dpsql.toml"
    with duckdb.connect(tmp_path / "data.duckdb") as connection:
        connection.execute("CREATE TABLE people (person_id INTEGER PRIMARY KEY, sex VARCHAR)")
        connection.execute("INSERT INTO people SELECT i, CASE WHEN i % 2 = 0 THEN 'f' ELSE 'm' END FROM range(40) AS t(i)")
        connection.execute("CREATE TABLE visits (person_id INTEGER, visited_on DATE, seen_at TIMESTAMP, cost INTEGER)")
    made.write_text(POLICY.format(period="month", column="visited_on").replace('period = "month"', PERIOD).replace("[tables.visits]", TERMS, 1))
    calendar(made, FIRST_DAYS)
    ReportingLedger.create(tmp_path / "dpsql.ledger").close()
    ends = [day - dt.timedelta(days=1) for day in FIRST_DAYS[1:]]
    add_visits(made, itertools.product(range(40), [*FIRST_DAYS[:-1], *ends, FIRST_DAYS[-1]]))
    return made


def connected(policy: Path, **terms: Any) -> Connection:
    made = dpsql.connect(policy=policy, analyst="ada", **{"epsilon": 1, **terms})
    made.session.kernel._noise = Exact()
    return made


def asked(connection: Connection, sql: str) -> list[Any]:
    return list(connection.cursor().execute(sql).fetchall())


def spent(connection: Connection) -> dict[str, float]:
    """What ada was charged on each day on which this changes."""
    ledger = connection.session.ledger
    ledger.refresh()
    found, last = {}, 0.0
    for day in range(FIRST_DAYS[0].toordinal(), FIRST_DAYS[-1].toordinal() + 1):
        charge = ledger.spent_in_periods("study", "ada").get(day, None)
        now = 0.0 if charge is None else (charge.epsilon or 0) / NANO
        if now != last:
            found[dt.date.fromordinal(day).isoformat()] = now
        last = now
    return found


# -- what is read, and what it is charged


@pytest.mark.parametrize("column", ["visited_on", "seen_at"])
def test_whole_periods_of_the_calendar_are_read_and_charged(policy: Path, column: str) -> None:
    policy.write_text(policy.read_text().replace('grows_by = "visited_on"', f'grows_by = "{column}"'))
    con = connected(policy)
    for condition, number in ((f"{column} >= DATE '2025-01-20' AND {column} < DATE '2025-02-03'", 40),
                              (f"{column} >= DATE '2025-02-03' AND {column} < DATE '2025-02-04'", 80)):
        assert asked(con, f"SELECT COUNT(*) FROM visits WHERE {condition}") == [(number,)]
    assert spent(con) == {"2025-01-01": 1, "2025-02-04": 0}, "a part of a period is charged as the whole, and others are not"
    assert asked(con, "SELECT COUNT(*) FROM visits") == [(320,)], "two visits in each period, none without an end"
    assert spent(con) == {"2025-01-01": 1.25, "2025-02-04": 0.25, "2025-09-01": 0}, "four rows in one period, of sixteen in all"


def test_a_period_is_read_when_it_is_closed(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 7, 18))
    con = connected(policy)
    assert asked(con, "SELECT COUNT(*) FROM visits") == [(160,)]
    with pytest.raises(Unsupported, match=f"{SPRING} is not closed yet: rows of visits in it can be read from 2025-07-19 on"):
        asked(con, "SELECT COUNT(*) FROM visits WHERE visited_on >= DATE '2025-03-01'")
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 7, 19))
    assert asked(connected(policy), "SELECT COUNT(*) FROM visits WHERE visited_on >= DATE '2025-03-01'") == [(40,)]


def test_the_last_first_day_begins_no_period_that_can_be_read(policy: Path) -> None:
    with pytest.raises(Unsupported, match="the period from 2025-09-01 on has no end yet"):
        asked(connected(policy), "SELECT COUNT(*) FROM visits WHERE visited_on >= DATE '2025-09-01'")


@pytest.mark.parametrize(("sql", "rows"), [
    (BY_TERM, [("d", 80), ("s", 80), ("u", 80), ("w", 80)]),
    ("SELECT visited_on, COUNT(*) FROM visits WHERE visited_on >= DATE '2025-02-02' AND visited_on < DATE '2025-02-05' GROUP BY 1 ORDER BY 1",
     [(dt.date(2025, 2, 2), 40), (dt.date(2025, 2, 3), 80), (dt.date(2025, 2, 4), 40)])], ids=["case", "day"])
def test_groups_that_the_day_decides_are_a_statement_for_each_period(policy: Path, sql: str, rows: list[Any]) -> None:
    con = connected(policy)
    assert asked(con, sql) == rows
    assert set(spent(con).values()) <= {1, 0}, "each period is charged once"
    before = spent(con)
    assert asked(con, sql) == rows
    assert spent(con) == before, "what was told of a period stays"


def test_groups_that_cross_periods_are_one_statement(policy: Path) -> None:
    con = connected(policy)
    assert len(asked(con, "SELECT date_trunc('month', visited_on) AS month, COUNT(*) FROM visits GROUP BY month")) == 8
    assert len(list(con.session.ledger.spent_in_periods("study", "ada").runs)) == 1


def test_groups_by_month_are_of_each_period_where_periods_begin_with_months(policy: Path) -> None:
    calendar(policy, [dt.date(2025, 1, 1), dt.date(2025, 3, 1), dt.date(2025, 9, 1)])
    policy.write_text(policy.read_text().replace("entity_and_period = 4", "entity_and_period = 9"))
    con = connected(policy)
    found = asked(con, "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month ORDER BY month")
    assert [number for _, number in found] == [40, 160, 0, 0, 0, 0, 80, 40]
    assert spent(con) == {"2025-01-01": 1, "2025-09-01": 0}


def test_a_period_has_a_limit_of_its_own(policy: Path) -> None:
    con = connected(policy, epsilon=5)
    asked(con, "SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-02-03'")
    with pytest.raises(BudgetExhausted, match=re.escape(f"for {WINTER} has left")):
        asked(con, "SELECT SUM(cost) FROM visits WHERE visited_on < DATE '2025-02-03'")
    asked(con, "SELECT SUM(cost) FROM visits WHERE visited_on >= DATE '2025-07-14'  AND visited_on < DATE '2025-09-01'")
    assert {(row[1], row[4]) for row in asked(con, "SHOW PERIODS") if row[2] == "ada"} == {
        (WINTER, "0 %"), (DAY, "100 %"), (SPRING, "100 %"), (SUMMER, "0 %")}


# -- a calendar that goes on, or changes


def test_further_first_days_keep_all_accounts(policy: Path) -> None:
    with connected(policy) as con:
        asked(con, BY_TERM)
        before = spent(con)
    calendar(policy, [*FIRST_DAYS, dt.date(2025, 9, 2)])
    with connected(policy) as con:
        assert spent(con) == before
        assert asked(con, BY_TERM.replace("ELSE 'u'", "WHEN visited_on < DATE '2025-09-01' THEN 'u' ELSE 'x'"))[-1] == ("x", 40)
        assert asked(con, "SELECT COUNT(*) FROM visits WHERE visited_on = DATE '2025-09-01'") == [(40,)]
    calendar(policy, FIRST_DAYS)  # a last one that is gone took no end from a period that was read
    connected(policy).close()


@pytest.mark.parametrize(("days", "told"), [
    ([*FIRST_DAYS[:3], dt.date(2025, 7, 15), FIRST_DAYS[4]], "periods of visits began on 2025-07-14, and now do not; periods of visits now begin on 2025-07-15"),
    ([*FIRST_DAYS[:2], *FIRST_DAYS[3:]], "periods of visits began on 2025-02-04, and now do not"),
    ([*FIRST_DAYS[:3], dt.date(2025, 5, 1), *FIRST_DAYS[3:]], "periods of visits now begin on 2025-05-01"),
    ([dt.date(2024, 9, 1), *FIRST_DAYS], "periods of visits now begin on 2024-09-01")], ids=["moved", "removed", "inserted", "earlier"])
def test_another_calendar_is_a_changed_promise(policy: Path, days: list[dt.date], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with connected(policy) as con:
        asked(con, "SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-02-03'")
    calendar(policy, days)
    with pytest.raises(PolicyError, match=re.escape(told)) as caught:
        connected(policy)
    assert caught.value.code == "promise-changed" and caught.value.subject == "tables.visits.period"
    del caught
    gc.collect()  # the database that was opened
    assert main(["budget", "--accept-change", "--yes", "--policy", str(policy)]) == 0
    assert told in " ".join(capsys.readouterr().out.split())
    with connected(policy) as con:
        assert con.session.ledger.spent("study", "ada").epsilon == NANO, "what is charged in all is carried on"
        asked(con, "SELECT COUNT(*) FROM visits")
    calendar(policy, FIRST_DAYS)
    with pytest.raises(PolicyError, match="periods of visits"):
        connected(policy)


def test_a_calendar_may_change_while_nothing_is_charged(policy: Path) -> None:
    connected(policy).close()
    calendar(policy, [*FIRST_DAYS[:2], *FIRST_DAYS[3:]])
    assert asked(connected(policy), "SELECT COUNT(*) FROM visits WHERE visited_on = DATE '2025-02-04'") == [(40,)]


def test_months_are_another_promise_than_a_calendar(policy: Path) -> None:
    with connected(policy) as con:
        asked(con, "SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-02-03'")
    policy.write_text(policy.read_text().replace(PERIOD, 'period = "month"'))
    with pytest.raises(PolicyError, match="visits grew by period from terms.first_day of visited_on, and now grows by month of visited_on"):
        connected(policy)


def test_a_day_names_the_period_to_revise(policy: Path) -> None:
    with connected(policy) as con:
        asked(con, BY_TERM)
        before = spent(con)
    revise("visits", period="2025-03-01", policy=policy, reason="late files")
    with connected(policy) as con:
        asked(con, BY_TERM)
        assert spent(con) == {**before, "2025-02-04": 2, "2025-07-14": 1}, "the period of the day, and no other, is measured anew"
        assert [row[1] for row in asked(con, "SHOW PERIODS") if row[2] == "ada" and "late files" in row[5]] == [SPRING]


def test_the_owner_sees_rows_by_period_of_the_calendar(policy: Path) -> None:
    declared = read_policy(policy)
    (found,) = policy_on_rows(declared, [*declared.budgets.values()], None).growth
    assert found.periods == ((WINTER, 80), (DAY, 80), (SPRING, 80), (SUMMER, 80))
    assert (found.most, found.open, found.beyond) == (2, 40, 0)


# -- what cannot be declared


@pytest.mark.parametrize(("before", "after", "told"), [
    ('table = "terms"', 'table = "term"', "table term is not declared"),
    ("public = true\n[tables.terms.columns]", "[tables.terms.columns]", "table terms is not public, so its days are private"),
    ('starts = "first_day"', 'starts = "day"', "column day of terms is not declared"),
    ('starts = "first_day"', "starts = 1", "starts"),
    (', starts = "first_day"', "", "starts"),
    ("since = 2025-01-01", "since = 2025-01-20", "no period of terms.first_day begins on 2025-01-20"),
    ('closes = "5 days"', 'closes = "5 days"\nlate = "drop"\narrived = "seen_at"', "late rows can be dropped only where"),
    ("per_period =", "in_any = { periods = 3, epsilon = 20, delta = 1e-3 }\nper_period =", "a limit in any so many consecutive periods"),
])
def test_a_wrong_declaration_is_located(policy: Path, before: str, after: str, told: str) -> None:
    text = policy.read_text()
    assert before in text
    policy.write_text(text.replace(before, after, 1))
    with pytest.raises(PolicyError, match=re.escape(told)) as caught:
        connected(policy)
    assert caught.value.span is not None


@pytest.mark.parametrize(("days", "told"), [
    ([*FIRST_DAYS, None], "terms.first_day is NULL in a row"), ([*FIRST_DAYS, FIRST_DAYS[1]], "terms.first_day has 2025-02-03 in two rows"),
    (FIRST_DAYS[:1], "fewer than two days"), ([dt.date(1899, 12, 31), *FIRST_DAYS], "outside 1900-01-01 to 2999-12-31"),
    ([dt.date(1900, 1, 1) + dt.timedelta(days=i) for i in range(4001)], "more than 4,000 rows")], ids=["null", "twice", "one", "early", "many"])
def test_wrong_first_days_are_refused(policy: Path, days: list[Any], told: str) -> None:
    calendar(policy, days)
    with pytest.raises(PolicyError, match=re.escape(told)) as caught:
        connected(policy)
    assert caught.value.subject == "tables.visits.period" and caught.value.span is not None


def test_first_days_are_dates(policy: Path) -> None:
    calendar(policy, FIRST_DAYS, "TIMESTAMP")
    with pytest.raises(PolicyError, match=r"terms\.first_day is TIMESTAMP, not a date"):
        connected(policy)


# -- what the kernel believes


GROWTH = Growth(column="visited_on", period=CALENDAR, since=FIRST_DAYS[0].toordinal(), calendar=tuple(day.toordinal() for day in FIRST_DAYS))


def part(first: int, last: int) -> PeriodRange:
    """From the first day at a place of the calendar to the day before that at another one."""
    return PeriodRange(period=CALENDAR, first=GROWTH.calendar[first], last=GROWTH.calendar[last] - 1)


def scan_of(policy: Path) -> tuple[Connection, Scan]:
    con = connected(policy)
    table = con.session.catalog.tables["visits"]
    return con, Scan(table=table, columns=(("v", "visited_on"),), owners=("o",), periods=part(0, 4))


def test_the_kernel_reads_whole_periods_alone(policy: Path) -> None:
    con, scan = scan_of(policy)
    con.session.kernel._claims.begin()
    con.session.kernel._claims.relation(scan)
    growth, days = scan.table.growth, FIRST_DAYS[0].toordinal()
    assert growth is not None and growth.calendar == GROWTH.calendar
    forged = [replace(scan, periods=PeriodRange(period=CALENDAR, first=first, last=last)) for first, last in (
        (days, days), (days + 1, GROWTH.calendar[1] - 1), (days, GROWTH.calendar[2]), (GROWTH.calendar[3], GROWTH.calendar[4] + 30))]
    forged += [replace(scan, table=replace(scan.table, growth=replace(growth, **changed))) for changed in (
        {"calendar": ()}, {"calendar": growth.calendar[::-1]}, {"calendar": (growth.calendar[0], *growth.calendar)}, {"arrived": "seen_at"},
        {"period": "month"})]
    for one in forged:
        con.session.kernel._claims.begin()
        with pytest.raises((Disagreement, InvalidPlan)):
            con.session.kernel._claims.relation(one)


def test_one_step_is_taken_in_one_period_of_the_calendar(policy: Path) -> None:
    con, scan = scan_of(policy)
    claims = con.session.kernel._claims
    for periods, steps in ((part(0, 1), 1), (part(1, 2), 1), (part(2, 3), 1), (part(0, 2), 2), (part(0, 4), 2)):
        claims.begin()
        claims.relation(one := replace(scan, periods=periods))
        reads = claims.reads([one])
        assert reads == PeriodReads(periods=periods, steps=steps)
        assert PeriodReads.from_text(str(reads)) == reads
    other = replace(scan, table=replace(scan.table, growth=replace(GROWTH, calendar=GROWTH.calendar[:4])), periods=part(0, 1))
    with pytest.raises(ValueError, match="different calendars"):
        claims.reads([replace(scan, periods=part(0, 1)), other])


@pytest.mark.parametrize("kind", [Type.DATE, Type.TIMESTAMP])
def test_a_place_tells_the_period_of_each_time(policy: Path, kind: Type) -> None:
    con, days = connected(policy), range(GROWTH.calendar[0], GROWTH.calendar[-1])
    moments: list[Any] = [dt.date.fromordinal(day) for day in days]
    if kind is Type.TIMESTAMP:
        moments = [dt.datetime.combine(day, time) for day in moments for time in (dt.time(), dt.time(23, 59, 59, 999999))]
    for first in range(4):
        starts = GROWTH.calendar[first:4]
        found = con.session.scratch.evaluate([place_among(Ref(column="v", type=kind), starts)], {"v": (kind, moments)})
        expected = [max((i for i, start in enumerate(starts) if start <= moment.toordinal()), default=0) for moment in moments]
        assert [place for place, in found] == expected


class Known:
    """The owner of the relations below."""

    def owner(self, node: Any) -> str | None:
        return "o"


def test_only_the_place_among_the_first_days_that_are_read_is_a_period_column(policy: Path) -> None:
    _, scan = scan_of(policy)
    time = Ref(column="v", type=Type.DATE)
    exact = place_among(time, GROWTH.calendar[:4])
    assert isinstance(exact, Case)

    def told(expr: Any, periods: PeriodRange) -> frozenset[str]:
        node = Project(input=replace(scan, periods=periods), columns=(("v", "v", time), ("o", "o", Ref(column="o", type=Type.BIGINT)),
                                                                     ("p", "p", expr)))
        return period_columns(node, Known())  # type: ignore[arg-type]

    assert "p" in told(exact, part(0, 4))
    for wrong, periods in ((exact, part(0, 3)), (place_among(time, GROWTH.calendar[:3]), part(0, 4)), (place_among(time, GROWTH.calendar[1:4]), part(0, 4)),
                           (replace(exact, otherwise=exact.branches[0][1]), part(0, 4))):
        assert "p" not in told(wrong, periods)


def test_places_of_a_calendar_are_no_numbers_of_periods(policy: Path) -> None:
    """A measurement of places would be charged to days as if each were a period."""
    con, scan = scan_of(policy)
    time = Ref(column="v", type=Type.DATE)
    numbered = Project(input=scan, columns=(("p", "p", place_among(time, GROWTH.calendar[:4])),))
    request = WeightedPeriods(plan=GroupedSums(input=numbered, keys=("p",), summands=(Count(),)), cells=((),),
                              weights=((len(part(0, 4)), 1),), noises=(DiscreteGaussian(sigma=10.0),))
    once = Certificate(below=stability(scan, con.session.kernel), summands=(Sensitivity(l1=1, l2=1),), numbered_from=GROWTH.calendar[0])
    reads = PeriodReads(periods=part(0, 4), steps=2)
    assert costs_in_periods(reads, request, [replace(once, in_period=once)]) is None
    by_day = PeriodReads(periods=PeriodRange(period="day", first=reads.periods.first, last=reads.periods.last), steps=2)
    assert costs_in_periods(by_day, request, [replace(once, in_period=once)]) is not None


@pytest.mark.parametrize("text", ["periods calendar 1 2 1", "periods calendar 739300 739252 1", "periods calendar 739252 739284 3",
                                  "periods terms 739252 739284 1", "periods calendar 739252 739284 2 each=2*1:1:0"])
def test_texts_that_state_no_periods_of_a_calendar_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        PeriodReads.from_text(text)


def test_a_statement_says_what_its_periods_are(policy: Path) -> None:
    with connected(policy) as con:
        told = con.cursor().execute(BY_TERM).answer
        assert told is not None
        assert "only rows of visits in the 4 periods 2025-01-01 to 2025-08-31 are read" in told.notes
        with pytest.raises(Unsupported, match="must group by the period of visited_on, so that each period is a statement of its own") as caught:
            asked(con, "CREATE STANDING QUERY n AS SELECT COUNT(*) FROM visits")
        assert caught.value.try_ == "SELECT CASE WHEN visited_on < DATE '...' THEN ... END AS period, ... GROUP BY period"
        told = con.cursor().execute("SELECT COUNT(*) FROM visits").answer
        assert told is not None and any("used per person and period, " in note for note in told.notes)


def test_statements_that_stand_go_on_with_the_calendar(policy: Path) -> None:
    with connected(policy) as con:
        con.cursor().execute(f"CREATE STANDING QUERY terms AS {BY_TERM.removesuffix(' ORDER BY term')}")
        (row,) = asked(con, "SHOW STANDING QUERIES")
        assert not str(row[8]).startswith("no: the policy")


def test_a_prepared_store_is_read_in_periods_of_the_calendar(policy: Path) -> None:
    assert main(["prepare", "--policy", str(policy), "--buckets", "2"]) == 0
    with connected(policy) as con:
        assert con.session.kernel._reader.stored, "the store is in force"
        assert asked(con, BY_TERM) == [("d", 80), ("s", 80), ("u", 80), ("w", 80)]
        assert asked(con, "SELECT COUNT(*) FROM visits") == [(320,)]
