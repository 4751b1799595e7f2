"""Very many declared groups: a million in one answer, and what is said where they are too many."""

from __future__ import annotations

import datetime as dt
from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pytest
from support.policies import policy_of

import dpsql
from dpsql import cli
from dpsql.trusted.kernel.ledger import Ledger

COLUMNS = """
a = { range = [0, 999] }
b = { range = [0, 999] }
code = { range = [0, 99999999] }
more = { range = [1, 1000000] }
day = { range = [1600-01-01, 2599-12-31] }
ever = { range = [0001-01-01, 9999-12-31] }
"""
SIZE = 1001**2  # NULL is a group too
ROWS = 3000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("cells")
    with duckdb.connect(str(found / "people.duckdb")) as made:
        made.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, a BIGINT, b BIGINT, code BIGINT, more BIGINT, day DATE, ever DATE)")
        made.execute(f"INSERT INTO people SELECT i, i % 7, CASE WHEN i % 3 > 0 THEN 999 END, i % 5, 1000000, DATE '2020-02-27' + (i % 5)::INTEGER, "
                     f"DATE '2020-02-27' + (i % 5)::INTEGER FROM range({ROWS}) AS t(i)")
    (found / "dpsql.toml").write_text(policy_of("people", COLUMNS, price="epsilon = 1000\ndelta = 0.1"), encoding="utf-8")
    Ledger.create(found / "dpsql.ledger").close()
    return found


@pytest.fixture
def cursor(folder: Path, request: pytest.FixtureRequest) -> dpsql.Cursor:
    made = dpsql.connect(folder / "people.duckdb", budget="person", analyst=request.node.originalname, epsilon=1)
    request.addfinalizer(made.close)
    return made.cursor()


def test_a_million_groups_are_released_and_answered_again(cursor: dpsql.Cursor, folder: Path) -> None:
    before = (folder / "dpsql.ledger").stat().st_size
    text = "SELECT a, b, COUNT(*) AS n FROM people GROUP BY a, b"
    rows = cursor.execute(text).fetchall()
    assert cursor.rowcount == len(rows) == SIZE and cursor.cost
    assert [row[:2] for row in rows] == list(product([*range(1000), None], repeat=2))
    counts = np.array([row[2] for row in rows])
    for i in range(7):
        assert abs(counts[1001 * i + 999] - 2 * ROWS / 21) < 40 and abs(counts[1001 * i + 1000] - ROWS / 21) < 40
    assert abs(counts.sum() - ROWS) < 20_000 and counts[9 * 1001:].min() >= -40
    assert cursor.answer is not None
    low, high = cursor.answer.data[2].lows, cursor.answer.data[2].highs
    assert low is not None and high is not None and ((low <= counts) | (counts < 0)).all() and (high >= counts).all()
    released = cursor.answer
    again = cursor.execute(text)
    assert not again.cost and again.fetchall() == rows and again.answer is not None and again.answer.data == released.data
    assert (folder / "dpsql.ledger").stat().st_size - before < 12 * SIZE


def test_a_million_values_of_one_key(cursor: dpsql.Cursor) -> None:
    rows = cursor.execute("SELECT more, COUNT(*) AS n FROM people GROUP BY more").fetchall()
    assert [row[0] for row in rows] == [*range(1, 1_000_001), None] and abs(rows[-2][1] - ROWS) < 40


def test_groups_that_are_too_many_are_selected_and_the_answer_says_so(cursor: dpsql.Cursor) -> None:
    told = "the declared range of code has 100,000,000 values, more than the 2,097,152 that are listed"
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) code, COUNT(*) FROM people GROUP BY code"
    explained = "\n".join(line for line, in cursor.execute(f"EXPLAIN PRIVACY {text}").fetchall())
    assert told in " ".join(explained.split())
    assert [row[0] for row in cursor.execute(text).fetchall()] == list(range(5))
    assert f"{told}, so only groups that are selected privately are shown" in cursor.notes
    with pytest.raises(dpsql.Error, match=f"{told}, so which of them occur is private, and selecting them needs a delta"):
        cursor.execute("SELECT code, COUNT(*) FROM people GROUP BY code")


def test_expressions_of_too_many_numbers_are_told_too(cursor: dpsql.Cursor) -> None:
    told = "code // 1000 may be any of 100,000 whole numbers, and at most 10,000 are listed for an expression"
    cursor.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) code // 1000, COUNT(*) FROM people GROUP BY 1")
    assert f"{told}, so only groups that are selected privately are shown" in cursor.notes


def test_conditions_leave_few_of_very_many(cursor: dpsql.Cursor) -> None:
    rows = cursor.execute("SELECT code, COUNT(*) FROM people WHERE code BETWEEN 3 AND 7 GROUP BY code").fetchall()
    assert [row[0] for row in rows] == [3, 4, 5, 6, 7] and abs(rows[0][1] - ROWS / 5) < 40
    assert cursor.execute("SELECT code, COUNT(*) FROM people WHERE code < 1000 AND code % 500 = 1 GROUP BY code").fetchall()[1][0] == 501


def test_days_of_a_thousand_years_are_groups(cursor: dpsql.Cursor) -> None:
    rows = cursor.execute("SELECT day, COUNT(*) AS n FROM people GROUP BY day").fetchall()
    assert len(rows) == 365_243 + 1 and [row[0] for row in rows[:2]] == [dt.date(1600, 1, 1), dt.date(1600, 1, 2)] and rows[-1][0] is None
    assert abs(dict(rows)[dt.date(2020, 2, 29)] - ROWS / 5) < 40


@pytest.mark.parametrize(("condition", "days"), [
    ("ever BETWEEN DATE '2020-02-28' AND DATE '2020-03-01'", [28, 29, 1]), ("ever > DATE '2020-02-28' AND DATE '2020-03-01' > ever", [29]),
    ("ever = DATE '2020-02-29'", [29]), ("ever IN (DATE '2020-02-28', DATE '2020-03-01')", [28, 1]),
    ("ever >= DATE '9999-12-30'", [30, 31]), ("ever <= DATE '0001-01-02'", [1, 2]),
    ("ever > DATE '2020-02-27' AND day(ever) = 28 AND ever < DATE '2020-04-01'", [28, 28])])
def test_conditions_leave_few_of_all_days(condition: str, days: list[int], cursor: dpsql.Cursor) -> None:
    rows = cursor.execute(f"SELECT ever, COUNT(*) FROM (SELECT a, ever FROM people) AS p WHERE {condition} GROUP BY ever").fetchall()
    assert [row[0].day for row in rows] == days
    assert all(abs(n - (ROWS / 5 if dt.date(2020, 2, 27) <= day <= dt.date(2020, 3, 2) else 0)) < 40 for day, n in rows)
    assert not any("selected privately" in note for note in cursor.notes)


def test_days_that_are_too_many_are_selected_and_all_are_told(cursor: dpsql.Cursor, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "the declared range of ever has 3,652,059 values, more than the 2,097,152 that are listed"
    price = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6)"
    assert cursor.execute(f"SELECT {price} ever, COUNT(*) FROM people GROUP BY ever").rowcount == 5
    assert f"{told}, so only groups that are selected privately are shown" in cursor.notes
    cursor.execute(f"SELECT {price} date_trunc('month', ever), COUNT(*) FROM people GROUP BY 1")
    assert any("may be any of 3,652,425 days, and at most 10,000 are listed for an expression" in note for note in cursor.notes)
    with pytest.raises(dpsql.Error, match="no value of ever is left"):
        cursor.execute("SELECT ever, COUNT(*) FROM people WHERE ever > DATE '2020-01-02' AND ever < DATE '2020-01-01' GROUP BY ever")
    with pytest.raises(dpsql.Error, match="day has 365,243 declared values, and a workload distinguishes at most 100,000 of a column"):
        cursor.execute("SELECT day, COUNT(*) FROM people GROUP BY CUBE (day)")
    assert cli.main(["check", "--database", str(folder / "people.duckdb")]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "declared range" in line]
    assert [line.split(" values")[0] for line in notes] == [
        "note: the declared range of people.code has 100,000,000", "note: the declared range of people.ever has 3,652,059"]


def test_combinations_that_are_too_many_are_refused(cursor: dpsql.Cursor) -> None:
    with pytest.raises(dpsql.Error, match="make 1002001000 groups, more than 2097152"):
        cursor.execute("SELECT a, b, more, COUNT(*) FROM people WHERE more < 1000001 AND more IS NOT NULL AND more > 1000 - 999 - 1 AND more <= 1000 "
                       "GROUP BY a, b, more")


def test_a_long_range_takes_no_time_elsewhere(cursor: dpsql.Cursor) -> None:
    (found,), = cursor.execute("SELECT COUNT(DISTINCT code) FROM people WHERE a < 3").fetchall()
    assert abs(found - 5) < 40
    described = {row[0]: row for row in cursor.execute("DESCRIBE people").fetchall()}
    assert described["code"][2] == "0, 1, 2, 3, 4, 5, ... (100000000 values)"
    with pytest.raises(dpsql.Error, match="there is no column nothing"):
        cursor.execute("SELECT nothing FROM people")
