"""Revisions of closed periods, as owners declare them and analysts see them; and clocks that are wrong."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.growing_worlds import add_visits, project
from support.wire_servers import PASSWORD, served

import dpsql
from dpsql import cli
from dpsql.audit.exact import Exact
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.engine.revising import correct_clock, revise
from dpsql.errors import BudgetExhausted, LedgerError, OptionError, Unsupported
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NANO
from dpsql.trusted.declarations.growth import KINDS, name_of, period_of
from dpsql.trusted.kernel import chain
from dpsql.trusted.kernel.chain import Event

BY_MONTH = "SELECT date_trunc('month', visited_on) AS month, COUNT(*) AS n FROM visits GROUP BY month"
MARCH = "visited_on >= DATE '2025-03-01' AND visited_on < DATE '2025-04-01'"
COUNT = f"SELECT COUNT(*) FROM visits WHERE {MARCH}"
JULY = dt.date(2025, 7, 6)  # June is closed


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every person has a visit on the 1st of each month of the first half of 2025."""
    monkeypatch.setattr(growing, "today", lambda: JULY)
    made = project(tmp_path)
    add_visits(made, itertools.product(range(40), [dt.date(2025, month, 1) for month in range(1, 7)]))
    return made


def connected(policy: Path, analyst: str = "ada", **terms: Any) -> Connection:
    made = dpsql.connect(policy=policy, budget="study", analyst=analyst, **{"epsilon": 1, **terms})
    made.session.kernel._noise = Exact()
    return made


def asked(policy: Path, text: str = COUNT, **terms: Any) -> tuple[list[Any], bool, tuple[str, ...]]:
    """The rows of the answer to a statement, whether it was stored, and its notes."""
    with connected(policy, **terms) as connection:
        cursor = connection.execute(text)
        assert cursor.answer is not None
        return cursor.fetchall(), cursor.answer.stored, cursor.answer.notes


def spent(policy: Path) -> dict[str, float]:
    """What a person was charged, by period, and in all."""
    with closing(ReportingLedger(policy.parent / "dpsql.ledger")) as ledger:
        found = {name_of("month", number): (charge.epsilon or 0) / NANO for number, charge in ledger.spent_in_periods("study").items()}
        return {**found, "all": (ledger.spent("study").epsilon or 0) / NANO}


# -- what a revision does


def test_a_revised_period_is_measured_and_charged_anew_to_the_same_account(policy: Path) -> None:
    assert asked(policy)[:2] == ([(40,)], False) and asked(policy)[1] is True
    add_visits(policy, [(person, dt.date(2025, 3, 9)) for person in range(40)])
    assert asked(policy)[:2] == ([(40,)], True), "what was told stays until the owner says so"
    revise("visits", period="2025-03", policy=policy, reason="a clinic was late")
    rows, stored, notes = asked(policy)
    assert (rows, stored) == ([(80,)], False) and spent(policy) == {"2025-03": 2, "all": 2}
    note, = [note for note in notes if "revised" in note]
    today = dt.datetime.now(dt.UTC).date()
    assert note == f"2025-03 of visits was revised on {today} (a clinic was late); earlier answers are about the rows before that"
    assert asked(policy)[:2] == ([(80,)], True) and asked(policy)[2] == notes and spent(policy) == {"2025-03": 2, "all": 2}


def test_other_periods_keep_their_answers(policy: Path) -> None:
    before = asked(policy, BY_MONTH)[0]
    add_visits(policy, itertools.product(range(40), [dt.date(2025, month, 9) for month in range(1, 7)]))
    revise("VISITS", period="2025-03", to="2025-04-30", policy=policy)
    rows, stored, notes = asked(policy, BY_MONTH)
    assert [n for _, n in rows] == [40, 40, 80, 80, 40, 40] and not stored and [n for _, n in before] == [40] * 6
    assert spent(policy) == {f"2025-0{month}": 2 if month in (3, 4) else 1 for month in range(1, 7)} | {"all": 8}
    assert any("2025-03 to 2025-04 of visits were revised" in note for note in notes)
    assert not any("revised" in note for note in asked(policy, "SELECT COUNT(*) FROM visits WHERE visited_on < DATE '2025-03-01'")[2])


@pytest.mark.parametrize("text", [
    BY_MONTH.replace("GROUP BY month", "GROUP BY ROLLUP (month)"), f"{BY_MONTH} ERROR WITHIN 20", "SELECT COUNT(*), COUNT(cost) FROM visits ERROR WITHIN 900",
    "SELECT sex, COUNT(*) FROM visits JOIN people USING (person_id) GROUP BY CUBE (sex)"])
def test_every_kind_of_answer_tells_revisions_and_what_each_period_is_charged(policy: Path, text: str) -> None:
    revise("visits", period="2025-03", policy=policy, reason="a clinic was late")
    terms = {} if "ERROR" not in text else {"epsilon": None}
    with connected(policy, **terms) as connection:
        told = str(connection.execute(f"EXPLAIN PRIVACY {text}").explanation)
        notes = connection.execute(text).answer.notes
    assert any("2025-03 of visits was revised on" in note for note in notes), notes
    assert any("charged" in note for note in notes) and "charged" in told


def test_running_totals_tell_revisions(policy: Path) -> None:
    totals = "SELECT date_trunc('month', visited_on) AS month, SUM(COUNT(*)) OVER (ORDER BY date_trunc('month', visited_on)) AS n FROM visits GROUP BY month"
    policy.write_text(policy.read_text().replace("epsilon = 1000\ndelta = 1e-3", "rho = 100").replace("epsilon = 10, delta = 1e-4", "rho = 2").replace(
        "epsilon = 5, delta = 1e-4", "rho = 1.5"))
    revise("visits", period="2025-03", policy=policy, reason="a clinic was late")
    with connected(policy, epsilon=None, rho=0.1) as connection:
        assert any("2025-03 of visits was revised on" in note for note in connection.execute(totals).answer.notes)


def test_a_statement_over_several_periods_is_another_one_if_one_of_them_was_revised(policy: Path) -> None:
    half = "SELECT COUNT(*) FROM visits"
    asked(policy, half, epsilon=0.5)
    revise("visits", period="2025-06", policy=policy)
    assert asked(policy, half, epsilon=0.5)[1] is False and asked(policy, half, epsilon=0.5)[1] is True
    revise(None, policy=policy, reason="erasures of June")
    again = asked(policy, half, epsilon=0.5)
    assert again[1] is False and any("2025-01 to 2025-06 of visits were revised" in note and "erasures of June), revision 2" in note for note in again[2])
    assert spent(policy)["all"] == 1.5 and spent(policy)["2025-01"] == 0.250000002  # the parts of six periods that they state


def test_tables_that_do_not_grow_are_not_revised(policy: Path) -> None:
    people = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
    asked(policy, people)
    revise(None, policy=policy)
    assert asked(policy, people)[1] is True


def test_a_revision_does_not_renew_what_a_period_has_spent(policy: Path) -> None:
    asked(policy, epsilon=4)
    revise("visits", period="2025-03", policy=policy, reason="corrected")
    with pytest.raises(BudgetExhausted, match="for 2025-03 has left: 20 %; the period was revised on .* .corrected., which does not renew") as caught:
        asked(policy, epsilon=4)
    assert caught.value.code == "period-exhausted" and spent(policy) == {"2025-03": 4, "all": 4}
    with pytest.raises(BudgetExhausted) as caught:
        asked(policy, f"{COUNT} AND cost > 1", epsilon=4)
    assert "revised" in str(caught.value)


def test_without_a_revision_the_refusal_says_nothing_of_one(policy: Path) -> None:
    asked(policy, epsilon=4)
    revise("visits", period="2025-04", policy=policy)
    with pytest.raises(BudgetExhausted) as caught:
        asked(policy, f"{COUNT} AND cost > 1", epsilon=4)
    assert "revised" not in str(caught.value)


def test_old_answers_stay_in_the_ledger(policy: Path) -> None:
    asked(policy)
    revise("visits", period="2025-03", policy=policy)
    with connected(policy) as connection:
        assert len(connection.execute("SHOW RELEASES").fetchall()) == 1
        connection.execute(COUNT)
        assert len(connection.execute("SHOW RELEASES").fetchall()) == 2


def test_the_name_of_a_statement_is_as_before_where_nothing_was_revised(policy: Path) -> None:
    """So answers of earlier versions stay: the data of the charge name the periods alone."""
    asked(policy)
    revise("visits", period="2025-04", policy=policy)
    asked(policy, f"{COUNT} AND cost > 1")
    with closing(ReportingLedger(policy.parent / "dpsql.ledger")) as ledger:
        march = period_of("month", dt.date(2025, 3, 1))
        assert {event.data for event in ledger._events("kind = 'charge'")} == {f"periods month {march} {march} 1 closed"}


def test_explain_and_lists_tell_of_revisions(policy: Path) -> None:
    revise("visits", period="2025-03", policy=policy, reason="first")
    revise("visits", period="2025-03", policy=policy, reason="second")
    with connected(policy) as connection:
        told = " ".join(str(connection.execute(f"EXPLAIN PRIVACY {COUNT}").explanation).split())
        assert "2025-03 of visits was revised on" in told and "(second), revision 2" in told and "(first)" not in told
        listed = connection.execute("SHOW PERIODS")
        assert [column[0] for column in listed.description or ()][-1] == "revised"
        revised = {row[1]: row[-1] for row in listed.fetchall()}
        assert revised["2025-03"].endswith(" (second)") and revised["2025-04"] == ""


def test_an_open_connection_sees_a_revision_with_its_next_statement(policy: Path) -> None:
    with connected(policy) as connection:
        connection.execute(COUNT)
        for _ in range(3):
            again = connection.execute(COUNT).answer
            assert again is not None and again.stored
        revise("visits", period="2025-03", policy=policy)
        again = connection.execute(COUNT).answer
        assert again is not None and not again.stored


def test_answers_that_are_shared_are_those_of_the_revision(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("[budgets.study]", "[budgets.study]\nshare_answers = true"))
    asked(policy)
    add_visits(policy, [(person, dt.date(2025, 3, 9)) for person in range(40)])
    assert asked(policy, analyst="eve")[0] == [(40,)]
    revise("visits", period="2025-03", policy=policy)
    assert asked(policy, analyst="eve")[0] == asked(policy)[0] == [(80,)] and spent(policy) == {"2025-03": 2, "all": 2}


def test_the_planted_fault_of_a_revision_that_renews_the_account_is_found(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If sums forgot the revised periods, more would be spent than the limit: the check above would see it."""
    follow = chain.Chain._follow

    def forgetful(self: chain.Chain, event: Event, pending: set[int], failed: set[int]) -> None:
        follow(self, event, pending, failed)
        if event.kind == "revised":
            self.sums.periods.clear()

    monkeypatch.setattr(chain.Chain, "_follow", forgetful)
    asked(policy, epsilon=4)
    revise("visits", period="2025-03", policy=policy)
    assert asked(policy, epsilon=4)[1] is False


# -- what the owner writes


@pytest.mark.parametrize(("given", "says", "try_"), [
    ({"table": "visit", "period": "2025-03"}, "visit is not a table that grows", "visits"),
    ({"table": "people", "period": "2025-03"}, "people is not a table that grows", "visits"),
    ({"table": "visits", "period": "2025-Q1"}, "2025-Q1 is not the name of a month", "--period 2025-01"),
    ({"table": "visits", "period": "March"}, "not the name of a month", "--period 2025-01"),
    ({"table": "visits", "period": "2025-13"}, "not the name of a month", "--period 2025-01"),
    ({"table": "visits", "period": "2025-07"}, "2025-07 is no closed period of visits", "2025-01 to 2025-06"),
    ({"table": "visits", "period": "2024-12"}, "2024-12 is no closed period of visits", "2025-01 to 2025-06"),
    ({"table": "visits", "period": "2025-03", "to": "2025-07"}, "2025-07 is no closed period", "2025-03 to 2025-06"),
    ({"table": "visits", "period": "2025-03", "to": "2025-02"}, "or comes before the first one", "2025-03 to 2025-06"),
    ({"table": "visits", "to": "2025-02"}, "the first period is missing", "--period"),
    ({"table": None, "period": "2025-02"}, "periods are those of one table", "name of the table"),
    ({"table": "visits", "period": "2025-03", "reason": "x" * 201}, "one line of at most 200 letters", "reason"),
    ({"table": "visits", "period": "2025-03", "reason": "two\nlines"}, "one line of at most 200 letters", "reason"),
])
def test_a_mistake_is_told_and_records_nothing(policy: Path, given: dict[str, Any], says: str, try_: str) -> None:
    with pytest.raises(OptionError) as caught:
        revise(**given, policy=policy)
    assert says in caught.value.reason and try_ in str(caught.value.try_)
    with closing(ReportingLedger(policy.parent / "dpsql.ledger")) as ledger:
        assert ledger.time_state().revised == () and ledger.events == 0


def test_the_command(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--policy", str(policy)]
    assert cli.main(["revise", "visits", "--period", "2025-03", "--to", "2025-05", "--reason", "late files", *place]) == 0
    assert "2025-03 to 2025-05 of visits: statements about it are measured and charged anew" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["revise", "--all", *place]) == 0 and cli.main(["revise", "visits", "--all", *place]) == 0
    with closing(ReportingLedger(policy.parent / "dpsql.ledger", whole=True)) as ledger:
        first, *others = ledger.time_state().revised
        assert (first.reason, len(first.periods), [len(one.periods) for one in others]) == ("late files", 3, [6, 6])
    for wrong in ([], ["visits"], ["--period", "2025-03"], ["visits", "--all", "--period", "2025-03"], ["--all", "--to", "2025-03"]):
        assert cli.main(["revise", *wrong, *place]) == 2
    assert "it is not clear what is revised" in " ".join(capsys.readouterr().err.split())


def test_before_a_period_is_closed_there_is_nothing_to_revise(policy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(growing, "today", lambda: dt.date(2025, 2, 5))
    assert revise(None, policy=policy) == []
    with pytest.raises(OptionError) as caught:
        revise("visits", period="2025-01", policy=policy)
    assert "waiting until one is closed" in str(caught.value.try_)
    assert cli.main(["revise", "--all", "--policy", str(policy)]) == 0 and "no period is closed yet" in capsys.readouterr().out


def test_a_policy_without_growing_tables_has_nothing_to_revise(policy: Path) -> None:
    text = policy.read_text()
    start, end = text.index("grows_by"), text.index("foreign_keys")
    policy.write_text("\n".join(line for line in (text[:start] + text[end:]).splitlines() if not line.startswith("per_")))
    with pytest.raises(OptionError, match="no table of the policy grows"):
        revise(None, policy=policy)


@pytest.mark.parametrize("kind", KINDS)
def test_periods_are_named_as_they_are_listed_or_by_a_day(kind: Any) -> None:
    for day in (dt.date(2020, 2, 29), dt.date(2024, 12, 31), dt.date(2025, 1, 1)):
        number = period_of(kind, day)
        assert growing.number_named(kind, name_of(kind, number)) == growing.number_named(kind, day.isoformat()) == number
    for text in ("", "2025-2", "2025-02-30", "2025-Q5", "Q1", "2025-00", "0000", "25-03", "2025-03-01 ", "week of 2025", "\u0662025-03"):
        assert growing.number_named(kind, text) is None


# -- clocks


class MovedClock(dt.datetime):
    """A machine's clock that is some days off."""

    days = 0

    @classmethod
    def now(cls, tz: Any = None) -> dt.datetime:  # type: ignore[override]
        return dt.datetime.now(tz) + dt.timedelta(days=cls.days)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, policy: Path) -> type[MovedClock]:
    """The clock of the ledger, and of the machine: it says 2025-07-06 where it is not off."""
    monkeypatch.setattr(MovedClock, "days", 0)

    class Dates:
        date, timedelta, UTC, datetime = dt.date, dt.timedelta, dt.UTC, MovedClock

    monkeypatch.setattr(chain, "dt", Dates)
    monkeypatch.setattr(growing, "today", lambda: JULY + dt.timedelta(days=MovedClock.days))
    return MovedClock


def closed(policy: Path) -> str:
    """The newest period that is closed."""
    with connected(policy) as connection:
        return str(connection.execute("SHOW PERIODS").fetchall()[0][1])


def test_a_clock_that_is_set_back_closes_no_period_again(policy: Path, clock: type[MovedClock]) -> None:
    asked(policy)
    clock.days = -100
    assert closed(policy) == "2025-06"
    asked(policy, f"{COUNT} AND cost > 1")
    assert closed(policy) == "2025-06", "also after events with an earlier time"
    assert asked(policy)[1] is True
    clock.days = 31
    assert closed(policy) == "2025-07"


def test_a_clock_that_was_ahead_is_corrected_by_the_owner(policy: Path, clock: type[MovedClock]) -> None:
    clock.days = 31
    early = "SELECT COUNT(*) FROM visits WHERE visited_on >= DATE '2025-07-01' AND visited_on < DATE '2025-08-01'"
    asked(policy, early)
    clock.days = 0
    assert closed(policy) == "2025-07"
    assert cli.main(["ledger", "correct-clock", "--policy", str(policy)]) == 0
    assert closed(policy) == "2025-06" and spent(policy) == {"2025-07": 1, "all": 1}, "what was charged stays charged"
    with pytest.raises(Unsupported, match="2025-07 is not closed"):
        asked(policy, early)
    asked(policy)
    assert closed(policy) == "2025-06" and correct_clock(policy=policy) == 0


def test_the_day_and_revisions_are_a_part_of_checkpoints(policy: Path, clock: type[MovedClock], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "EVERY", 4)
    path = policy.parent / "dpsql.ledger"
    clock.days = 400
    revise("visits", period="2025-03", policy=policy, reason='"revised": [] \u2014 "day"')
    clock.days = 0
    for number in range(30):
        asked(policy, f"{COUNT} AND cost > {number}", epsilon=0.01)
    with closing(ReportingLedger(path)) as resumed, closing(ReportingLedger(path, whole=True)) as whole:
        assert resumed._chain.checkpoint[0] > 20 and resumed.time_state() == whole.time_state()
        state = whole.time_state()
        assert state.days_behind == 400 and [one.reason for one in state.revised] == ['"revised": [] \u2014 "day"']
    checkpoint = json.loads(resumed_text(path))
    assert checkpoint["day"] > "2026" and len(checkpoint["revised"]) == 1


def resumed_text(path: Path) -> str:
    with closing(ReportingLedger(path)) as ledger:
        return str(ledger._events("kind = 'checkpoint' ORDER BY seq DESC LIMIT 1")[0].body)


# -- events that no ledger writes


@pytest.mark.parametrize("body", [
    None, "", "{}", "[]", '["visits", "month", 24300, 24300]', '["visits", "month", 24300, 24300, "", 1]', '["visits", "decade", 24300, 24300, ""]',
    '["visits", "month", 24301, 24300, ""]', '["visits", "month", 1, 24300, ""]', '["visits", "month", 24300.0, 24300, ""]', '[7, "month", 24300, 24300, ""]',
    '["visits", "month", true, 24300, ""]', '["visits", "month", 24300, 24300, null]', json.dumps(["visits", "month", 24300, 24300, "x" * 201]), "["])
def test_a_forged_revision_breaks_the_chain(policy: Path, body: str | None) -> None:
    with closing(ReportingLedger(policy.parent / "dpsql.ledger")) as ledger:
        event = ledger._chain._next("revised", chain.NOBODY, body=body)
        with pytest.raises(chain.Broken):
            ledger._chain.accept(event, event.link(ledger._chain.head[1]))


def test_no_event_of_time_lowers_a_sum(policy: Path) -> None:
    """Not even one that states a charge, as nobody writes it: that is added, like any other."""
    asked(policy)
    with closing(ReportingLedger(policy.parent / "dpsql.ledger")) as ledger:
        before = ledger._chain.sums.as_values()
        good = json.dumps(["visits", "month", 24302, 24302, ""])
        for kind, body in ("revised", good), ("clock", None):
            event = ledger._chain._next(kind, chain.NOBODY, body=body)
            ledger._chain.accept(event, event.link(ledger._chain.head[1]))
        after = ledger._chain.sums.as_values()
        assert {name for name in before if before[name] != after[name]} <= {"revised", "day"}
        costly = ledger._chain._next("revised", chain.NOBODY, body=good)._replace(budget="study", analyst="ada", rho=5)
        ledger._chain.accept(costly, costly.link(ledger._chain.head[1]))
        assert ledger._chain.spent("study").rho == 5 + next(rho for *whose, _, rho, _, _ in before["spent"] if whose == ["study", None])


@pytest.mark.parametrize("kind", ["revised", "clock"])
def test_an_event_of_time_answers_no_charge(policy: Path, kind: str) -> None:
    with closing(ReportingLedger(policy.parent / "dpsql.ledger")) as ledger:
        event = ledger._chain._next(kind, chain.NOBODY, body=json.dumps(["visits", "month", 24302, 24302, ""]), answers=1)
        with pytest.raises(chain.Broken):
            ledger._chain.accept(event, event.link(ledger._chain.head[1]))


def test_a_revision_that_was_changed_is_found(policy: Path) -> None:
    import sqlite3

    revise("visits", period="2025-03", policy=policy)
    with sqlite3.connect(policy.parent / "dpsql.ledger") as store:
        store.execute("UPDATE events SET body = replace(body, 'visits', 'people') WHERE kind = 'revised'")
    with pytest.raises(LedgerError):
        connected(policy)


# -- through the server


@pytest.fixture
def port(policy: Path) -> Iterator[int]:
    with served(policy, budget="study", price={"epsilon": 1}) as found:  # type: ignore[dict-item]
        yield found.port


@pytest.mark.slow
def test_over_the_network(port: int, policy: Path) -> None:
    """The owner declares the revision beside the server; what its front has shown before is not shown again."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(host="127.0.0.1", port=port, user="ada", password=PASSWORD, dbname="study", autocommit=True) as client:
        rows = client.execute(COUNT).fetchall()
        assert all(client.execute(COUNT).fetchall() == rows for _ in range(4)) and spent(policy) == {"2025-03": 1, "all": 1}
        revise("visits", period="2025-03", policy=policy, reason="a clinic was late")
        revised = {row[1]: row[-1] for row in client.execute("SHOW PERIODS").fetchall()}
        assert revised["2025-03"].endswith(" (a clinic was late)") and revised["2025-02"] == ""
        again = client.execute(COUNT).fetchall()
        assert spent(policy) == {"2025-03": 2, "all": 2}
        assert all(client.execute(COUNT).fetchall() == again for _ in range(4)) and spent(policy) == {"2025-03": 2, "all": 2}
        assert "a clinic was late" in str(client.execute(f"EXPLAIN PRIVACY {COUNT}").fetchall())
