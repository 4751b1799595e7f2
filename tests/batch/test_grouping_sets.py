"""CUBE, ROLLUP, GROUPING SETS and aggregates over groups: without noise they say what DuckDB says."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support import worlds
from support.golden.dense import dense
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.errors import Error, SqlError, Unsupported

POLICY = worlds.POLICY.replace("person = 3, household = 12", "person = 50, household = 50")


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    made = duckdb.connect()
    dense().fill(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with Connection(session_of(tmp_path_factory.mktemp("exact"), dense(), noise=Exact(), policy=POLICY)) as made:
        yield made


@pytest.fixture
def noisy(tmp_path: Path) -> Iterator[Connection]:
    with Connection(session_of(tmp_path, dense(), policy=POLICY)) as made:
        yield made


SETS = [
    "SELECT sex, active, COUNT(*) AS n FROM people GROUP BY CUBE(sex, active)",
    "SELECT sex, active, GROUPING(sex, active) AS g, GROUPING_ID(active) AS h, COUNT(*) AS n FROM people GROUP BY ROLLUP(sex, active)",
    "SELECT sex, age // 20 AS d, COUNT(*) AS n, SUM(income) AS s, AVG(income) AS a FROM people GROUP BY GROUPING SETS ((sex, d), (sex), ())",
    "SELECT year, clinic, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS (CUBE(year, clinic), ROLLUP(clinic), (year), year)",
    "SELECT year, clinic, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY year, ROLLUP(clinic)",
    "SELECT year, clinic, COUNT(*) AS n FROM visits WHERE year >= 2019 GROUP BY CUBE((year, clinic), clinic)",
    "SELECT sex, active, age > 50 AS old, COUNT(*) AS n FROM people GROUP BY CUBE(1, 2), ROLLUP(old)",
    "SELECT COUNT(*) AS n FROM visits GROUP BY ()",
    "SELECT COUNT(*) AS n, AVG(cost) AS a FROM visits GROUP BY GROUPING SETS ((), ())",
    "SELECT coalesce(sex, 'all') AS s, sex IS NULL AS missing, COUNT(*) AS n FROM people GROUP BY CUBE(sex) HAVING GROUPING(sex) = 1 OR n > 5",
    "SELECT DISTINCT active, COUNT(*) > 0 AS some, COUNT(*) AS n FROM people GROUP BY CUBE(active, active)",
    "SELECT year, COUNT(*) AS n, COUNT(*) FILTER (WHERE clinic = 'a') AS f, SUM(CASE WHEN clinic = 'b' THEN 2 ELSE 0 END) AS b, "
    "COUNT(CASE WHEN clinic = 'c' THEN 1 END) AS c, COUNT(cost) AS k FROM visits GROUP BY ROLLUP(year)",
    "SELECT year, year // 2 AS pair, COUNT(*) AS n FROM visits GROUP BY CUBE(year, pair)",
]
OVER = [
    "SELECT age, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age) AS run FROM people GROUP BY age",
    "SELECT age, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age DESC) AS run FROM people GROUP BY age",
    "SELECT sex, age, COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY sex ORDER BY age) AS run FROM people GROUP BY sex, age",
    "SELECT sex, age, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age) AS run FROM people GROUP BY sex, age",
    "SELECT sex, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS whole, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM people GROUP BY sex",
    "SELECT age // 10 AS d, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age // 10 ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS m FROM people "
    "GROUP BY d",
    "SELECT age // 10 AS d, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age // 10 ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) AS m FROM people "
    "GROUP BY d",
    "SELECT age, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING) AS m FROM people GROUP BY age",
    "SELECT year, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY year DESC RANGE BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) AS m FROM visits "
    "GROUP BY year",
    "SELECT year, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY year NULLS FIRST) AS m FROM visits GROUP BY year",
    "SELECT year, clinic, COUNT(*) AS n, SUM(SUM(cost)) OVER (PARTITION BY clinic ORDER BY year) AS s FROM visits GROUP BY 1, 2",
    "SELECT clinic, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY clinic ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM visits "
    "GROUP BY clinic",
    "SELECT year, clinic, COUNT(*) AS n, SUM(COUNT(*) FILTER (WHERE year > 2018)) OVER (PARTITION BY year) AS s FROM visits GROUP BY 1, 2",
    "SELECT age, age // 10 AS d, COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY age // 10 ORDER BY age) AS s FROM people GROUP BY 1, 2",
]


@pytest.mark.parametrize("text", [*SETS, *OVER])
def test_without_noise_answers_are_duckdbs(text: str, exact: Connection, plain: duckdb.DuckDBPyConnection) -> None:
    _same(text, exact, plain, "epsilon = 1, strategy = 'identity'")


@pytest.mark.parametrize("text", [SETS[0], SETS[4], OVER[0], OVER[2]])
@pytest.mark.parametrize("options", ["rho = 1", "epsilon = 1"])
def test_the_best_strategies_answer_the_same(text: str, options: str, exact: Connection, plain: duckdb.DuckDBPyConnection) -> None:
    _same(text, exact, plain, options)


@pytest.mark.slow
def test_random_grouping_sets_are_duckdbs(exact: Connection, plain: duckdb.DuckDBPyConnection, effort: float) -> None:
    draw = random.Random(7)
    for _ in range(int(40 * effort)):
        keys = draw.sample(["sex", "active", "age // 25", "(age > 40)", "CASE WHEN age < 30 THEN 'young' ELSE 'old' END"], draw.randint(1, 4))
        text = ", ".join(_part(draw, keys, 0) for _ in range(draw.randint(1, 2)))
        used = [key for key in keys if key in text]
        if not used or not any(word in text for word in ("CUBE", "ROLLUP", "SETS", "()")):
            continue
        asked = draw.sample(["SUM(income) AS s", "AVG(income) AS a", "COUNT(income) AS c", "SUM(income) FILTER (WHERE sex = 'f') AS f"],
                            draw.randint(0, 2))
        shown = ", ".join([*used, f"GROUPING({', '.join(used)}) AS g", "COUNT(*) AS n", *asked])
        _same(f"SELECT {shown} FROM people GROUP BY {text}", exact, plain, "epsilon = 1, strategy = 'identity'")


def _part(draw: random.Random, keys: list[str], depth: int) -> str:
    """A random part of GROUP BY."""
    some = draw.sample(keys, draw.randint(1, min(3, len(keys))))
    kind = draw.choice(["key", "cube", "rollup", "sets", "sets"] if depth < 2 else ["key", "brackets"])
    if kind in ("cube", "rollup"):
        return f"{kind.upper()} ({', '.join(f'({key}, {draw.choice(keys)})' if draw.random() < 0.2 else key for key in some)})"
    if kind == "sets":
        inside = [_part(draw, keys, depth + 1) if draw.random() < 0.4 else draw.choice(["()", some[0], f"({', '.join(some)})"])
                  for _ in range(draw.randint(1, 3))]
        return f"GROUPING SETS ({', '.join(inside)})"
    return f"({', '.join(some)})" if kind == "brackets" and depth else some[0]


def _same(text: str, exact: Connection, plain: duckdb.DuckDBPyConnection, options: str) -> None:
    """The rows of both, as bags, save for groups that have no rows."""
    found = exact.execute(text.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options})", 1))
    at = [column[0] for column in found.description or ()].index("n")
    other = plain.execute(text).fetchall()
    ours = [row for row in found.fetchall() if row[at] != 0]
    assert Counter(map(_rounded, ours)) == Counter(_rounded(row) for row in other if row[at] != 0), text


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums over no rows are 0 here, and NULL there."""
    return tuple(0.0 if value is None else float(f"{float(value):.6g}") if isinstance(value, int | float) and not isinstance(value, bool)
                 else value if isinstance(value, str | bool) else float(f"{float(value):.6g}") for value in row)


def test_groups_come_in_the_order_of_their_sets(noisy: Connection) -> None:
    rows = noisy.execute("SELECT sex, active, GROUPING(sex, active), COUNT(*) FROM people GROUP BY CUBE(sex, active)").fetchall()
    assert [row[:3] for row in rows[:5]] == [(None, None, 3), ("f", None, 1), ("m", None, 1), (None, None, 1), ("f", False, 0)]
    assert len(rows) == 16
    kept = noisy.execute("SELECT sex, COUNT(*) AS n FROM people GROUP BY ROLLUP(sex) HAVING n > 100 ORDER BY n DESC LIMIT 1").fetchall()
    assert len(kept) == 1 and kept[0][0] is None


def test_declared_groups_alone_are_free(noisy: Connection) -> None:
    cursor = noisy.execute("SELECT sex, active FROM people GROUP BY CUBE(sex, active)")
    assert cursor.rowcount == 16 and cursor.cost == "" and not noisy.session.ledger.entries("person")


def test_totals_agree_with_their_parts(noisy: Connection) -> None:
    rows = noisy.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.5) sex, active, COUNT(*) FROM people GROUP BY CUBE(sex, active)")
    found = rows.fetchall()
    total, inner = found[0][2], [row[2] for row in found if row[0] in ("f", "m")]
    assert abs(sum(inner[2:]) - sum(inner[:2])) <= 6  # each is rounded
    assert abs(sum(row[2] for row in found[-3:]) - total) <= 3  # every row is active, or not, or NULL; its sex may be another


def test_running_totals_are_measured_and_not_added_up(noisy: Connection) -> None:
    """Sums of 101 noisy counts would have up to ten times the error of one."""
    cursor = noisy.execute("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.5) age, SUM(COUNT(*)) OVER (ORDER BY age) FROM people GROUP BY age")
    errors = [row[1] for row in cursor.errors]
    assert max(error for error in errors if error is not None) < 3 and len(errors) == 101
    assert math.sqrt(101) > 10


def test_public_tables_take_grouping_sets(noisy: Connection, plain: duckdb.DuckDBPyConnection) -> None:
    text = "SELECT city, beds > 5 AS big, GROUPING(city, big), COUNT(*), AVG(beds) FROM clinics GROUP BY CUBE(city, big)"
    assert Counter(noisy.execute(text).fetchall()) == Counter(plain.execute(text.replace("GROUPING(city, big)", "GROUPING(city, beds > 5)")).fetchall())


WRONG: list[tuple[str, type[Error], str, str]] = [
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, strategy = 'auto') MEDIAN(age) FROM people GROUP BY CUBE(sex)", Unsupported,
     "MEDIAN(age) is not linear", "MEDIAN(age)"),
    ("SELECT COUNT(DISTINCT sex) FROM people GROUP BY ROLLUP(active) ERROR WITHIN 3", Unsupported, "an accuracy of several grouping sets", "COUNT(DISTINCT"),
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, consistency = 'nnls') nickname, COUNT(*) FROM people GROUP BY CUBE(nickname)",
     Unsupported, "the values of nickname are not declared", "nickname)"),
    ("SELECT COUNT(*) FROM people GROUP BY sex WITH ROLLUP", Unsupported, "WITH ROLLUP is not answered", ""),
    ("SELECT GROUPING(age), COUNT(*) FROM people GROUP BY CUBE(sex)", SqlError, "this is not a key of GROUP BY", "age)"),
    ("SELECT COUNT(*) FROM people WHERE GROUPING(sex) = 1 GROUP BY CUBE(sex)", SqlError, "GROUPING is known only after rows are grouped", "GROUPING(sex) = 1"),
    ("SELECT age, COUNT(*) FROM people GROUP BY CUBE(sex)", SqlError, "age is neither a key", "age, "),
    ("SELECT COUNT(*) FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY CUBE(sex)) AS t", Unsupported, "grouping sets inside", ""),
    ("SELECT sex, SUM(COUNT(*)) OVER () FROM people GROUP BY CUBE(sex)", Unsupported, "an aggregate over groups of several", "SUM(COUNT"),
    ("SELECT sex, SUM(COUNT(*)) OVER (ORDER BY age) FROM people GROUP BY sex", SqlError, "this is not a key of GROUP BY", "age)"),
    ("SELECT sex, SUM(COUNT(*)) OVER (ORDER BY sex RANGE 3 PRECEDING) FROM people GROUP BY sex", Unsupported, "RANGE with a distance", ""),
    ("SELECT age, SUM(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN 1 FOLLOWING AND 2 PRECEDING) FROM people GROUP BY age", SqlError, "this frame", ""),
    ("SELECT COUNT(*) FROM people GROUP BY CUBE(" + ", ".join(f"(age > {i})" for i in range(14)) + ")", Unsupported, "there are more than", ""),
]


@pytest.mark.parametrize(("text", "kind", "reason", "place"), WRONG, ids=[case[2] + str(i) for i, case in enumerate(WRONG)])
def test_what_is_not_answered_is_told(text: str, kind: type[Error], reason: str, place: str, noisy: Connection) -> None:
    with pytest.raises(kind) as caught:
        noisy.execute(text)
    assert caught.value.reason.startswith(reason), caught.value
    assert caught.value.span is not None and text[caught.value.span.start:].startswith(place), caught.value
    assert not noisy.session.ledger.entries("person")
