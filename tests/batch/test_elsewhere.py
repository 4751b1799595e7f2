"""Rows with undeclared values: a total counts them whatever it is asked with, alone, in a workload, in CUBE, from what was kept."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from support.policies import policy_of
from support.sessions import session_of
from support.worlds import insert

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.dbapi import Connection
from dpsql.errors import OptionError, Unsupported
from dpsql.trusted.measurements.block_sums import Blocks

POLICY = policy_of("people", """
word = { values = ["f", "m", "x"] }
sure = { values = ["a", "b"], nullable = false }
age = { range = [0, 20] }
even = { values = [2, 4, 6] }
level = { values = [0.0, 1.0, 2.5] }
born = { range = [2000-01-01, 2000-01-31] }
seen = { values = [2000-01-01T00:00:00, 2000-01-02T12:00:00] }
flag = {}
single = { values = [true] }
cost = { bounds = [0, 100] }
""", price="epsilon = 1000\ndelta = 0.01")
SCHEMA = ("id INTEGER PRIMARY KEY, word VARCHAR, sure VARCHAR, age INTEGER, even INTEGER, level DOUBLE, born DATE, seen TIMESTAMP, "
          "flag BOOLEAN, single BOOLEAN, cost DOUBLE")
MOMENTS = [dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 2, 12), dt.datetime(1999, 5, 1), dt.datetime(2000, 1, 1, 6), dt.datetime(2030, 1, 1)]


def rows(number: int = 400, seed: int = 3) -> list[tuple[Any, ...]]:
    draw = random.Random(seed)

    def one(*values: Any) -> Any:
        return None if draw.random() < 0.1 else draw.choice(values)

    return [(i, one("f", "m", "x", "q", "fx", "", "elsewhere", "Z"), one("a", "b", "c"), one(*range(21), -3, -14, 21, 40, 1000),
             one(1, 2, 3, 4, 5, 6, 7, 0, -2, 99), one(0.0, 1.0, 2.5, 0.5, 2.0, -1.0, 9.0, math.inf, -math.inf, math.nan),
             one(*(dt.date(2000, 1, 1) + dt.timedelta(days=days) for days in (0, 3, 15, 30, 31, 200, -1, -400)), dt.date(1, 1, 1)),
             one(*MOMENTS), one(True, False), one(True, False), float(draw.randint(0, 100))) for i in range(number)]


def filled(own: list[tuple[Any, ...]]) -> duckdb.DuckDBPyConnection:
    made = duckdb.connect(":memory:", config={"threads": 1})
    made.execute(f"CREATE TABLE people ({SCHEMA})")
    insert(made, "people", own)
    return made


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with filled(rows()) as made:
        yield made


def connected(folder: Path, own: list[tuple[Any, ...]] | None = None, *, policy: str = POLICY, **more: Any) -> Connection:
    connection = filled(rows() if own is None else own)
    lock_down(connection)
    return Connection(session_of(folder, reader=DuckReader(connection, "v1"), policy=policy, **{"noise": Exact(), **more}))


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with connected(tmp_path_factory.mktemp("exact")) as made:
        yield made


CONDITIONS = [
    "cost < 2 * 30", "cost < 30 OR cost * 2 > 100", "cost IN (10, 20, 40)", "id > 2.5", "id % 3 = 0", "abs(id) < 50",
    "word = 'f'", "word <> 'f'", "word IN ('f', 'q')", "word NOT IN ('f', 'q')", "word IS NULL", "word IS NOT NULL", "word > 'fa'",
    "word LIKE 'f%'", "NOT word LIKE '%x'", "length(word) = 1", "word = 'q'", "word = 'elsewhere'", "word IS DISTINCT FROM 'm'",
    "(word = 'f' OR word LIKE 'q%')", "sure = 'a'", "sure <> 'a'", "sure LIKE 'c%'",
    "age < 10", "age >= 5", "age BETWEEN 3 AND 30", "age > 30", "age <> 7", "age % 2 = 0", "age < -5", "age = 1000", "age + 1 > 3",
    "age // 10 = 0", "age > 2.5", "(age < 3 OR age > 18)", "abs(age) < 5", "age IN (3, 40)", "age IS NOT NULL",
    "even > 3", "even = 3", "even < 5 AND even <> 3", "even BETWEEN 3 AND 5", "even % 3 = 0",
    "level < 1", "level >= 0.7", "level BETWEEN 0.2 AND 2.2", "level > 2.5", "isfinite(level)", "level <> 1", "isinf(level)",
    "born < DATE '2000-01-10'", "born > DATE '2000-01-31'", "born = DATE '1999-12-31'", "year(born) = 2000", "month(born) = 1",
    "born BETWEEN DATE '1999-01-01' AND DATE '2000-01-02'", "seen < TIMESTAMP '2000-01-01 03:00:00'", "hour(seen) = 6",
    "flag", "NOT flag", "flag IS NULL", "single", "single IS NOT TRUE", "NOT single",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_workload_counts_what_a_statement_counts(condition: str, exact: Connection, plain: duckdb.DuckDBPyConnection) -> None:
    column = next(name for name in ("word", "sure", "age", "even", "level", "born", "seen", "flag", "single", "") if name in condition) or "flag"
    texts = [f"SELECT COUNT(*), SUM(cost) FROM people WHERE {condition}", f"SELECT COUNT(*) FILTER (WHERE {condition}), COUNT(*) FROM people",
             f"SELECT COUNT(*), SUM(cost) FROM people WHERE {condition} AND cost > 30.5"]
    for text, answer in zip(texts, exact.workload([*texts, f"SELECT {column}, COUNT(*) FROM people GROUP BY {column}"], epsilon=1),
                            strict=False):
        assert numbers(answer.rows) == numbers(plain.execute(text).fetchall()), text


def numbers(found: Any) -> list[tuple[float, ...]]:
    """Sums over no rows are 0 here, and NULL there."""
    return [tuple(0.0 if value is None else round(float(value), 6) for value in row) for row in found]


KEYS = ["word", "sure", "age", "even", "level", "born", "seen", "flag", "single", "age // 10", "age % 2", "month(born)", "word LIKE 'f%'",
        "CASE WHEN age < 8 THEN 'young' ELSE 'old' END", "coalesce(word, 'f')", "date_trunc('month', born)", "age > 12", "upper(sure)",
        "level > 1", "floor(level)", "hour(seen)", "year(born) - 2000", "floor(cost / 10) * 10", "round(cost, -1)",
        "CASE WHEN cost < 30 THEN 'less' ELSE CAST(floor(cost / 50) AS VARCHAR) END"]


@pytest.mark.parametrize("key", KEYS)
def test_groups_and_totals_are_duckdbs(key: str, exact: Connection, plain: duckdb.DuckDBPyConnection) -> None:
    two = "single" if key == "flag" else "flag"
    for text in (f"SELECT {key} AS k, {two}, GROUPING({key}, {two}) AS g, COUNT(*) AS n, SUM(cost) AS s FROM people GROUP BY CUBE(k, {two})",
                 f"SELECT {key} AS k, {two}, GROUPING({key}, {two}) AS g, COUNT(*) AS n FROM people WHERE age <> 3 GROUP BY ROLLUP(k, {two})",
                 f"SELECT {key} AS k, 0, GROUPING({key}) AS g, COUNT(*) AS n FROM people WHERE flag GROUP BY GROUPING SETS ((), (k))"):
        theirs = {row[:3]: row[3:] for row in plain.execute(text).fetchall()}
        ours = {row[:3]: row[3:] for row in exact.execute(text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)", 1))}
        assert len({where[2] for where in ours}) == len({where[2] for where in theirs})
        for where, found in ours.items():
            assert numbers([found]) == numbers([theirs.get(where, (0,) * len(found))]), (text, where)


OTHERS = ["CASE WHEN word IN ('f', 'm', 'x') THEN word ELSE 'other' END", "CASE WHEN age BETWEEN 0 AND 20 THEN age ELSE -1 END",
          "CASE WHEN word IN ('f', 'm', 'x') THEN 'declared' WHEN word IS NULL THEN 'none' ELSE 'other' END",
          "CASE even WHEN 2 THEN 'a' WHEN 4 THEN 'b' WHEN 6 THEN 'c' END"]


@pytest.mark.parametrize("key", OTHERS)
@pytest.mark.parametrize("condition", ["TRUE", "flag", "word = 'f' AND age < 9"])
def test_what_a_case_says_of_other_values_is_a_group(key: str, condition: str, exact: Connection, plain: duckdb.DuckDBPyConnection) -> None:
    """Alone and beside totals, so that groups add up to these."""
    for grouped in ("k", "ROLLUP (k)"):
        text = f"SELECT {key} AS k, COUNT(*) AS n FROM people WHERE {condition} GROUP BY {grouped}"
        theirs = plain.execute(text).fetchall()
        ours = exact.execute(text.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)", 1)).fetchall()
        assert not [row for row in theirs if row not in ours]
        assert not [row for row in ours if row not in theirs and row[1]]


@pytest.mark.slow
def test_random_workloads_are_duckdbs(exact: Connection, plain: duckdb.DuckDBPyConnection, effort: float) -> None:
    draw = random.Random(11)
    for number in range(int(30 * effort)):
        texts = []
        for _ in range(draw.randint(1, 4)):
            keys = draw.sample(KEYS, draw.randint(0, 2))
            tests = draw.sample(CONDITIONS, draw.randint(0, 3))
            texts.append(f"SELECT {''.join(f'{key}, ' for key in keys)}COUNT(*) AS n FROM people"
                         + (f" WHERE {' AND '.join(tests)}" if tests else "") + (f" GROUP BY {', '.join(keys)}" if keys else ""))
        try:
            answers = exact.workload(texts, epsilon=1 + number / 1000, strategy="identity")
        except (Unsupported, OptionError) as refused:  # or too many cells for one measurement of all
            assert refused.code in ("workload", "too-large", "group-by", "no-groups", "strategy"), refused
            continue
        for text, answer in zip(texts, answers, strict=True):
            theirs = {row[:-1]: row[-1] for row in plain.execute(text).fetchall()}
            for row in answer.rows:
                assert row[-1] == theirs.get(row[:-1], 0), (texts, text, row)


# -- four ways to ask for one total


def many(number: int = 10_000) -> list[tuple[Any, ...]]:
    """People of whom a fifth has an undeclared word, and a tenth an undeclared age."""
    return [(i, "q" if i % 5 == 0 else "fmx"[i % 3], "a", 99 if i % 10 == 1 else i % 21, 2, 0.0, dt.date(2000, 1, 1), MOMENTS[0], True,
             True, 1.0) for i in range(number)]


@pytest.mark.parametrize("account", ["epsilon", "rho"])
def test_a_total_is_the_same_in_four_ways(account: str, tmp_path: Path) -> None:
    connection, price = connected(tmp_path, many(), noise=None, at={}), {account: 1}
    clause = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({account} = 1) "
    alone = connection.execute(clause + "COUNT(*) FROM people")
    together = connection.workload(["SELECT COUNT(*) FROM people", "SELECT word, age, COUNT(*) FROM people GROUP BY word, age"], **price)
    cube = connection.execute(clause + "word, age, GROUPING(word, age) AS g, COUNT(*) FROM people GROUP BY CUBE(word, age)")
    connection.execute("SELECT word, age, COUNT(*) FROM people GROUP BY word, age STANDARD ERROR 2")
    kept = connection.execute("SELECT COUNT(*) FROM people STANDARD ERROR 2")
    whole = next((row, errors) for row, errors in zip(cube.fetchall(), cube.errors, strict=True) if row[2] == 3)
    for value, error in ((alone.fetchall()[0][0], alone.errors[0][0]), (together[0].rows[0][0], together[0].errors[0][0]),
                         (whole[0][3], whole[1][3]), (kept.fetchall()[0][0], kept.errors[0][0])):
        assert error is not None and abs(value - 10_000) <= 8 * error + 1, (value, error)


KEPT = ["SELECT COUNT(*) FROM people", "SELECT word, COUNT(*) FROM people GROUP BY word", "SELECT COUNT(*) FROM people WHERE age < 10",
        "SELECT COUNT(*) FROM people WHERE age >= 10 AND word <> 'f'", "SELECT age, COUNT(*) FROM people GROUP BY age",
        "SELECT COUNT(*) FROM people WHERE word LIKE 'q%'", "SELECT flag, COUNT(*) FROM people GROUP BY flag",
        "SELECT COUNT(*) FROM people WHERE age BETWEEN 3 AND 9", "SELECT COUNT(*) FROM people WHERE word IN ('q', 'f') AND age > 30"]


@pytest.mark.parametrize("first", ["SELECT word, age, COUNT(*) FROM people GROUP BY word, age", "SELECT word, COUNT(*) FROM people GROUP BY word",
                                   "SELECT word, age, COUNT(*) FROM people GROUP BY CUBE(word, age)",
                                   "SELECT word LIKE 'q%' AS q, COUNT(*) FROM people GROUP BY q"])
@pytest.mark.parametrize("account", [{"epsilon": 1}, {}])
def test_kept_measurements_count_every_row(first: str, account: dict[str, object], tmp_path: Path, plain: duckdb.DuckDBPyConnection) -> None:
    """Each is asked of what all before it have left."""
    connection = connected(tmp_path, at=account)
    connection.execute(f"{first} STANDARD ERROR 3")
    for text in KEPT:
        theirs = {row[:-1]: row[-1] for row in plain.execute(text).fetchall()}
        for error in (3.5, 20):
            for row in connection.execute(f"{text} STANDARD ERROR {error}").fetchall():
                assert row[-1] == theirs.get(row[:-1], 0), (text, error)


def test_cells_of_a_cube_answer_its_totals_for_nothing(tmp_path: Path) -> None:
    connection = connected(tmp_path, at={})
    connection.execute("SELECT word, age, COUNT(*) FROM people GROUP BY CUBE(word, age) STANDARD ERROR 1")
    for text in (KEPT[0], KEPT[1], KEPT[4], KEPT[7]):
        assert connection.execute(f"{text} STANDARD ERROR 40").cost == "", text


# -- the promise: a row that is elsewhere moves what is measured by no more than was paid for


@pytest.mark.parametrize("account", ["epsilon", "rho"])
@pytest.mark.parametrize("texts", [
    ["SELECT word, age, COUNT(*) FROM people GROUP BY CUBE(word, age)"],
    ["SELECT COUNT(*) FROM people WHERE word LIKE 'f%'", "SELECT word, COUNT(*) FROM people WHERE age % 2 = 0 GROUP BY word"],
    ["SELECT level, COUNT(*), SUM(cost) FROM people GROUP BY level", "SELECT SUM(cost) FROM people WHERE born < DATE '2000-01-10' AND level < 0.7"],
    ["SELECT age // 10 AS d, flag, COUNT(*) FROM people GROUP BY ROLLUP(d, flag)", "SELECT COUNT(*) FROM people WHERE age < 30"],
])
def test_no_row_moves_more_than_was_paid_for(texts: list[str], account: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, np.ndarray]] = []
    release = Blocks.release

    def recorded(self: Blocks, *given: Any) -> Any:
        found = release(self, *given)
        seen.extend((block.scale, np.array(answers, dtype=float)) for block, answers in zip(self.blocks, found.answers, strict=True))
        return found

    monkeypatch.setattr(Blocks, "release", recorded)
    own, moved = rows(60, seed=5), []
    for number, without in enumerate([None, *range(0, 60, 4)]):
        seen.clear()
        connected(tmp_path / str(number), [row for row in own if row[0] != without]).workload(texts, **{account: 1})  # type: ignore[arg-type]
        if without is None:
            whole = list(seen)
            continue
        steps = [(np.abs(one - other) / scale) for (scale, one), (_, other) in zip(whole, seen, strict=True)]
        moved.append(sum(step.sum() if account == "epsilon" else (step**2).sum() / 2 for step in steps))
    assert 0.1 < max(moved) <= 1
    assert min(moved) > 0 or not any(word in texts[0] for word in ("CUBE", "ROLLUP"))  # every row is in a cell, and is measured where totals are asked for


@pytest.mark.parametrize("strategy", ["dawa", "privtree", "identity"])
def test_all_plans_count_every_row(strategy: str, exact: Connection) -> None:
    texts = ["SELECT COUNT(*) FROM people WHERE age IS NOT NULL AND level IS NOT NULL", "SELECT COUNT(*) FROM people WHERE age < 10 AND level < 1"]
    if strategy == "dawa":
        texts = ["SELECT age, COUNT(*) FROM people GROUP BY age", "SELECT COUNT(*) FROM people"]
    answers = exact.workload(texts, epsilon=50, strategy=strategy)
    assert answers[int(strategy == "dawa")].rows[0][0] == pytest.approx(400 if strategy == "dawa" else 325, abs=40)
