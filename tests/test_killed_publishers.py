"""`dpsql publish` may be killed at any moment, run twice at once, or be given an old ledger: what was told stays, and is paid once.

A period whose publisher is killed after the charge and before the answer is charged again: a charge is never taken back. Such
charges are exactly those that the ledger lists as failed, and each kill makes at most one.
"""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from support.growing_worlds import POLICY, add_visits, project
from support.publishers import Publishers, moments, publishers

import dpsql
from dpsql.answers.published_folder import MARKER
from dpsql.catalog import growing
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NANO
from dpsql.trusted.declarations.growth import name_of
from dpsql.trusted.kernel.ledger import anchor_beside
from dpsql.trusted.kernel.period_reads import PeriodReads

FIRST = dt.date(2025, 1, 7)  # the first day is closed
QUERIES = {
    "visits": "SELECT visited_on AS day, COUNT(*) AS n FROM visits GROUP BY day",
    "sexes": "SELECT visited_on AS day, sex, COUNT(*) AS n, AVG(cost) AS cost FROM visits JOIN people USING (person_id) GROUP BY day, sex",
}
FILES = {MARKER, "index.html", *(f"{name}.{form}" for name in QUERIES for form in ("csv", "parquet", "json", "html"))}
EPSILON = 0.25


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    """The day for what is not done by publishers, each of which has its own."""
    monkeypatch.setattr(growing, "today", lambda: FIRST)


def world(folder: Path) -> Path:
    """A project that grows by the day, with two standing queries, and room for many failures."""
    folder.mkdir()
    policy = project(folder, period="day")
    text = POLICY.format(period="day", column="visited_on").replace("epsilon = 1000", "epsilon = 1000\nincidents = 1000")
    policy.write_text(text.replace("epsilon = 10,", "epsilon = 500,").replace("epsilon = 5,", "epsilon = 400,"), encoding="utf-8")
    with dpsql.connect(policy=policy, budget="study", analyst="ada") as connection:
        for name, text in QUERIES.items():
            connection.execute(f"CREATE STANDING QUERY {name} AS {text} OPTIONS (epsilon = {EPSILON})")
    return policy


def measured(policy: Path) -> tuple[Counter[tuple[str, int]], Counter[tuple[str, int]], int]:
    """How often each query was answered, and charged, in each period; and how many charges failed."""
    ledger = ReportingLedger(policy.parent / "dpsql.ledger")
    try:
        answered, charged = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        for kind, sql, data in ledger._store.rows("SELECT kind, sql, data FROM events WHERE kind IN ('charge', 'answer')"):
            if (reads := PeriodReads.from_text(data)) is not None:
                (answered if kind == "answer" else charged)[sql.split()[3], reads.periods.first] += 1
        for number, charge in ledger.spent_in_periods("study").items():
            assert charge.epsilon == sum(times for (_, period), times in charged.items() if period == number) * EPSILON * NANO
        return answered, charged, len(ledger.failures("study"))
    finally:
        ledger.close()


def rows_of(out: Path) -> dict[tuple[str, ...], list[str]]:
    """The rows of the CSV files that there are, by query, period and group. Fails if one is not whole."""
    found = {}
    for name in QUERIES:
        if (path := out / f"{name}.csv").exists():
            text = path.read_text(encoding="utf-8")
            assert text.endswith("\n")
            titles, *rows = csv.reader(text.splitlines())
            assert all(len(row) == len(titles) and row[-1] == "true" for row in rows)
            found |= {(name, row[0], row[2] if name == "sexes" else ""): row for row in rows}
        if (path := out / f"{name}.json").exists():
            json.loads(path.read_text(encoding="utf-8"))
        if (path := out / f"{name}.parquet").exists():
            assert duckdb.sql(f"SELECT COUNT(*) FROM '{path}'").fetchall()
        if (path := out / f"{name}.html").exists():
            assert path.read_text(encoding="utf-8").endswith("</html>\n") or "</body>" in path.read_text(encoding="utf-8")
    return found


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


def kill_many(publisher: Publishers, folder: Path, kills: int, seed: int) -> tuple[int, int]:
    """Kill publishers of one world, while days pass and rows arrive; returns how many were killed before they ended, and how many
    of these lost a charge."""
    policy, out, day, told, killed = world(folder), folder / "out", FIRST, dict[tuple[str, ...], list[str]](), 0
    add_visits(policy, [(person, FIRST - dt.timedelta(days=6)) for person in range(40)])
    assert publisher.run(day, policy, folder / "first") == 0
    day += dt.timedelta(days=1)
    began = time.monotonic()
    assert publisher.run(day, policy, folder / "first") == 0
    longest = 0.9 * (time.monotonic() - began)
    for at, seconds in enumerate(moments(kills, longest, seed)):
        if at % 2:
            day += dt.timedelta(days=1)
            add_visits(policy, [(person, day - dt.timedelta(days=6)) for person in range(at % 40)])
        killed += publisher.killed(day, policy, out, seconds)
        now = rows_of(out) if out.exists() else {}
        assert {key: now[key] for key in told} == told  # to the last digit
        told = now
    assert publisher.run(day, policy, out) == 0
    final = contents(out)
    assert final.keys() == FILES  # nothing unfinished
    assert {key: rows_of(out)[key] for key in told} == told
    answered, charged, failed = measured(policy)
    days = (day - FIRST).days + 1
    assert len(answered) == len(QUERIES) * days and {*answered.values()} == {1}
    assert sum(charged.values()) == sum(answered.values()) + failed and failed <= killed
    assert publisher.run(day, policy, folder / "again") == 0  # from the same ledger, undisturbed
    assert contents(folder / "again") == final and measured(policy) == (answered, charged, failed)
    return killed, failed


@pytest.mark.slow
def test_a_publisher_is_killed_at_any_moment(tmp_path: Path) -> None:
    with publishers() as publisher:
        killed, _ = kill_many(publisher, tmp_path / "world", 10, seed=1)
        assert killed >= 3


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_500_publishers_are_killed(tmp_path: Path, seed: int) -> None:
    """25 in each of 20 worlds."""
    with publishers() as publisher:
        killed, lost = kill_many(publisher, tmp_path / "world", 25, seed)
    print(f"{killed} of 25 were killed before they ended, {lost} of these after a charge and before its answer")
    assert killed >= 5


@pytest.mark.slow
def test_two_publishers_at_once_pay_once_and_tell_the_same(tmp_path: Path) -> None:
    policy = world(tmp_path / "world")
    add_visits(policy, [(person, dt.date(2025, 1, day)) for day in range(1, 5) for person in range(40)])
    day = FIRST + dt.timedelta(days=3)
    with publishers() as one, publishers() as other:
        for publisher, out in ((one, "one"), (other, "other"), (one, "both")):
            publisher.start(day, policy, tmp_path / out)
            if publisher is other:
                assert (one.ended(), other.ended()) == (0, 0)
        assert one.ended() == 0
    answered, charged, failed = measured(policy)
    assert answered == charged and {*charged.values()} == {1} and len(charged) == 8 and failed == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "other") == contents(tmp_path / "both")


@pytest.mark.slow
def test_two_publishers_of_one_folder(tmp_path: Path) -> None:
    policy, out = world(tmp_path / "world"), tmp_path / "out"
    with publishers() as one, publishers() as other:
        for publisher in (one, other):
            publisher.start(FIRST, policy, out)
        assert (one.ended(), other.ended()) == (0, 0)
        before = contents(out)
        assert before.keys() == FILES and one.run(FIRST, policy, out) == 0 and contents(out) == before


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_after_its_period(tmp_path: Path, number: signal.Signals) -> None:
    """Nothing is lost: what was charged is answered and in the files, and the next run goes on."""
    policy, out = world(tmp_path / "world"), tmp_path / "out"
    day = FIRST + dt.timedelta(days=40)
    with publishers() as publisher:
        process = publisher.start(day, policy, out)
        wait_for(lambda: len(measured(policy)[0]) > 2)
        os.kill(process, number)
        assert publisher.ended() == 75
        answered, charged, failed = measured(policy)
        assert 2 < len(answered) < 82 and answered == charged and failed == 0
        told = rows_of(out)
        assert {(key[0], key[1]) for key in told} == {(name, name_of("day", period)) for name, period in answered}
        assert publisher.run(day, policy, out) == 0
        assert {key: row for key, row in rows_of(out).items() if key in told} == told and len(measured(policy)[0]) == 82


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    policy, out = world(tmp_path / "world"), tmp_path / "out"
    day = FIRST + dt.timedelta(days=40)
    with publishers() as publisher:
        process = publisher.start(day, policy, out)
        wait_for(lambda: len(measured(policy)[0]) > 2)
        for _ in range(20):  # of signals that come before the first is handled, one alone is delivered
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
            time.sleep(0.001)
        assert publisher.ended() == -signal.SIGTERM
        assert publisher.run(day, policy, out) == 0 and len(measured(policy)[0]) == 82


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.slow
def test_an_older_copy_without_its_anchor_is_refused(tmp_path: Path) -> None:
    """The folder has periods that this ledger has not measured: nothing is charged again, and the files stay."""
    policy, out = world(tmp_path / "world"), tmp_path / "out"
    ledger, anchor = policy.parent / "dpsql.ledger", anchor_beside(policy.parent / "dpsql.ledger")
    with publishers() as publisher:
        assert publisher.run(FIRST, policy, out) == 0
        for path in (ledger, anchor):
            shutil.copy(path, tmp_path / path.name)
        assert publisher.run(FIRST + dt.timedelta(days=2), policy, out) == 0
        before, newest = contents(out), {path: path.read_bytes() for path in (ledger, anchor)}
        for path in (ledger, anchor):
            shutil.copy(tmp_path / path.name, path)
        told = measured(policy)
        assert publisher.run(FIRST + dt.timedelta(days=2), policy, out) == 4
        assert contents(out) == before and measured(policy) == told
        assert publisher.run(FIRST + dt.timedelta(days=2), policy, tmp_path / "other") == 0  # as the advice says
        assert publisher.run(FIRST + dt.timedelta(days=2), policy, out) == 4  # it has other numbers now
        assert contents(out) == before
        for path, content in newest.items():
            path.write_bytes(content)
        assert publisher.run(FIRST + dt.timedelta(days=2), policy, out) == 0 and contents(out) == before


@pytest.mark.slow
def test_an_older_copy_of_the_ledger_is_refused(tmp_path: Path) -> None:
    """The anchor has seen more, so nothing is charged again, and the files stay."""
    policy, out = world(tmp_path / "world"), tmp_path / "out"
    ledger, copy = policy.parent / "dpsql.ledger", tmp_path / "copy"
    with publishers() as publisher:
        assert publisher.run(FIRST, policy, out) == 0
        shutil.copy(ledger, copy)
        assert publisher.run(FIRST + dt.timedelta(days=1), policy, out) == 0
        before = contents(out)
        newest = ledger.read_bytes()
        shutil.copy(copy, ledger)
        assert publisher.run(FIRST + dt.timedelta(days=2), policy, out) == 4
        assert contents(out) == before
        ledger.write_bytes(newest)
        assert publisher.run(FIRST + dt.timedelta(days=2), policy, out) == 0
        assert {key: row for key, row in rows_of(out).items() if key[1] < "2025-01-03"} == _rows(before, tmp_path / "before")


def _rows(files: dict[str, bytes], folder: Path) -> dict[tuple[str, ...], list[str]]:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return rows_of(folder)
