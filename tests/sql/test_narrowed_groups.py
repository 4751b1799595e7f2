"""Groups by the start of a day, week, month ... are those that conditions on the moment leave: no fewer than DuckDB finds among all
moments there can be, and none that it does not find where the conditions are comparisons alone."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

import duckdb
import pytest
from support import worlds
from support.binding import Bench, bench

UNITS = ("day", "week", "month", "quarter", "year")
COLUMNS = {"born": ("people", dt.datetime(1920, 1, 1), dt.datetime(2020, 12, 31)),
           "seen": ("visits", dt.datetime(2018, 1, 1), dt.datetime(2021, 12, 31, 23, 59, 59))}


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench(worlds.world(2)) as made:
        yield made


@pytest.fixture(scope="module")
def moments() -> Iterator[duckdb.DuckDBPyConnection]:
    """Every day of a column, and of a timestamp its first and last moments and noon."""
    with duckdb.connect() as made:
        made.execute("CREATE TABLE people AS SELECT CAST(d AS DATE) AS born FROM range(DATE '1920-01-01', DATE '2021-01-01', INTERVAL 1 DAY) AS t(d) "
                     "UNION ALL SELECT NULL")
        made.execute("CREATE TABLE visits AS SELECT CAST(d + t AS TIMESTAMP) AS seen FROM range(DATE '2018-01-01', DATE '2022-01-01', INTERVAL 1 DAY) "
                     "AS a(d), (VALUES (INTERVAL 0 SECOND), (INTERVAL 12 HOUR), (INTERVAL 86399 SECOND)) AS b(t) UNION ALL SELECT NULL")
        yield made


def comparison(column: str, dice: random.Random) -> str:
    _, first, last = COLUMNS[column]
    moment = first + (last - first) * dice.uniform(-0.02, 1.02)
    moment = dice.choice([moment.replace(microsecond=0), dt.datetime(moment.year, moment.month, 1), dt.datetime(moment.year, 1, 1),
                          dt.datetime(moment.year, moment.month, moment.day)])
    literal = f"DATE '{moment:%Y-%m-%d}'" if column == "born" or moment.time() == dt.time() else f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}'"
    return f"{column} {dice.choice(['<', '<=', '>', '>=', '='])} {literal}"


def condition(column: str, dice: random.Random) -> str:
    """Comparisons, some of them with what does not bound a moment: OR, NOT, IS NULL."""
    parts = [comparison(column, dice) for _ in range(dice.randint(1, 3))]
    match dice.randrange(5):
        case 0:
            return f"({' OR '.join(parts)})"
        case 1:
            return f"NOT ({parts[0]})"
        case 2:
            return f"{parts[0]} AND ({column} IS NULL OR {' AND '.join(parts)})"
    return " AND ".join(parts)


@pytest.mark.parametrize("seed", range(60))
def test_no_group_is_missing_that_there_can_be(seed: int, a_bench: Bench, moments: duckdb.DuckDBPyConnection) -> None:
    dice = random.Random(seed)
    column, unit = dice.choice([*COLUMNS]), dice.choice(UNITS)
    where = condition(column, dice)
    text = f"SELECT date_trunc('{unit}', {column}) AS k, COUNT(*) FROM {COLUMNS[column][0]} WHERE {where} GROUP BY k"
    key, = a_bench.bind(text).keys
    there = {_moment(value) for value, _ in moments.execute(text).fetchall()}
    if key.domain is None:
        return
    listed = {_moment(value) for value in key.domain.values}
    assert there <= listed, where
    if not any(word in where for word in ("OR", "NOT", "NULL")):
        assert len(listed) == len(key.domain.values) and (listed == there or not there), where


WITHIN_DAYS = [f"date_trunc('{unit}', seen)" for unit in ("second", "minute", "hour")] + [
    f"time_bucket(INTERVAL {steps}, seen)" for steps in ("1 HOUR", "7 HOUR", "36 HOUR", "25 MINUTE", "3 DAY", "1 WEEK", "2 MONTH")] + [
    "CAST(seen AS DATE)"]


@pytest.mark.parametrize("seed", range(30))
def test_groups_within_days_are_those_that_there_can_be(seed: int, a_bench: Bench, moments: duckdb.DuckDBPyConnection) -> None:
    dice = random.Random(seed)
    key = dice.choice(WITHIN_DAYS)
    low = dt.datetime(2018, 1, 1) + dt.timedelta(seconds=dice.randrange(3 * 365 * 86400))
    high = low + dt.timedelta(minutes=dice.randrange(1, 120 if "second" in key else 5000))
    signs = dice.choice([">", ">="]), dice.choice(["<", "<="])
    where = f"seen {signs[0]} TIMESTAMP '{low}' AND seen {signs[1]} TIMESTAMP '{high}'"
    there = {value for value, in moments.execute(
        f"SELECT DISTINCT {key} FROM (SELECT unnest(generate_series(TIMESTAMP '{low}', TIMESTAMP '{high}', INTERVAL 1 SECOND)) AS seen) WHERE {where}").fetchall()}
    found, = a_bench.bind(f"SELECT {key} AS k, COUNT(*) FROM visits WHERE {where} GROUP BY k").keys
    assert found.domain is not None and {*found.domain.values} - {None} == there


def test_hours_of_too_many_days_have_no_list(a_bench: Bench) -> None:
    found, = a_bench.bind("SELECT date_trunc('hour', seen) AS k, COUNT(*) FROM visits GROUP BY k").keys
    assert found.domain is None


def _moment(value: object) -> object:
    return dt.datetime.combine(value, dt.time()) if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else value
