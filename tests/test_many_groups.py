"""Very many declared groups: a million in one answer, and what is said where they are too many."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import duckdb
import numpy as np
import pytest
from support.policies import policy_of

import dpsql
from dpsql.kernel.ledger import Ledger

COLUMNS = """
a = { range = [0, 999] }
b = { range = [0, 999] }
code = { range = [0, 99999999] }
more = { range = [1, 1000000] }
"""
SIZE = 1001**2  # NULL is a group too
ROWS = 3000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("cells")
    with duckdb.connect(str(found / "people.duckdb")) as made:
        made.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, a BIGINT, b BIGINT, code BIGINT, more BIGINT)")
        made.execute(f"INSERT INTO people SELECT i, i % 7, CASE WHEN i % 3 > 0 THEN 999 END, i % 5, 1000000 FROM range({ROWS}) AS t(i)")
    (found / "dpsql.toml").write_text(policy_of("people", COLUMNS, price="epsilon = 1000\ndelta = 0.1"), encoding="utf-8")
    Ledger.create(found / "dpsql.ledger").close()
    return found


@pytest.fixture
def cursor(folder: Path, request: pytest.FixtureRequest) -> dpsql.Cursor:
    made = dpsql.connect(folder / "people.duckdb", budget="person", analyst=request.node.name, epsilon=1)
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
    told = "code // 1000 may be any of 100,000 whole numbers, more than the 10,000 that are listed of an expression"
    cursor.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2, delta = 1e-6) code // 1000, COUNT(*) FROM people GROUP BY 1")
    assert f"{told}, so only groups that are selected privately are shown" in cursor.notes


def test_conditions_leave_few_of_very_many(cursor: dpsql.Cursor) -> None:
    rows = cursor.execute("SELECT code, COUNT(*) FROM people WHERE code BETWEEN 3 AND 7 GROUP BY code").fetchall()
    assert [row[0] for row in rows] == [3, 4, 5, 6, 7] and abs(rows[0][1] - ROWS / 5) < 40
    assert cursor.execute("SELECT code, COUNT(*) FROM people WHERE code < 1000 AND code % 500 = 1 GROUP BY code").fetchall()[1][0] == 501


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
