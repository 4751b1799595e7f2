"""Worlds and statements thought up to break the promise, seen by the oracle: every entity is removed in turn.

Deals name two people, some of them twice, some nobody; one person has most rows, more than the policy allows; values lie at and
beyond their bounds, are no numbers, or only one person's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import cycle

import pytest
from oracle.oracle import Totals, examine
from oracle.replay import Family
from oracle.statements import Asked
from oracle.worlds import Hangs, Table, World

PEOPLE = Table(name="people", columns={"id": "BIGINT", "age": "INTEGER", "w": "DOUBLE", "town": "VARCHAR", "born": "DATE"}, key=("id",), declared={
    "id": "{}", "age": "{ bounds = [0, 30] }", "w": "{ bounds = [-10, 10] }", "town": '{ values = ["a", "b"] }', "born": "{ range = [2000-01-01, 2000-03-01] }"})
TO = Hangs(columns=("id",), table="people", references=("id",))
ENDS = tuple(Hangs(columns=(name,), table="people", references=("id",)) for name in "ab")
VALUES = {"v": "DOUBLE", "n": "INTEGER", "what": "VARCHAR"}
TOLD = {"v": "{ bounds = [-4, 9.5] }", "n": "{ bounds = [-7, 25] }", "what": "{}"}
PEOPLE_ROWS = tuple((str(i), age, w, town, born) for i, (age, w, town, born) in enumerate([
    ("0", "0.0", "'a'", "DATE '2000-01-01'"), ("30", "CAST('nan' AS DOUBLE)", "'b'", "DATE '2000-02-29'"), ("NULL", "-0.0", "NULL", "NULL"),
    ("-2147483648", "1e308", "'z'", "DATE '1999-01-01'"), ("10", "-10.0", "'a'", "DATE '2000-03-01'"), ("9", "CAST('inf' AS DOUBLE)", "'b'", "DATE '20025-01-01'")]))
BUSY = [("0", str(i % 6), v, str(n), f"'{what}'") for i, (v, n, what) in enumerate(
    (v, n, what) for v in ("9.5", "-4.0", "1e300") for n in (25, -7, 3) for what in ("x", "0", "e0", "v0"))]
ODD = [("0", "0", "2.5", "1", "'x'"), ("NULL", "1", "2.5", "1", "'x'"), ("2", "NULL", "-0.0", "NULL", "''"), ("NULL", "NULL", "1.0", "2", "'own'"),
       ("3", "4", "CAST('nan' AS DOUBLE)", "26", "NULL"), ("4", "3", "NULL", "-8", "'é'"), ("5", "5", "CAST('-inf' AS DOUBLE)", "0", "'x '"), ("1", "2", "3.0", "0", "'X'")]


@cache
def world(limit: int | None, busy: bool) -> World:
    """With so many rows of a person by the policy's word, and with one who has far more, or without."""
    limits = (f"rows_per_entity = {limit}",) if limit is not None else ()
    deals = Table(name="deals", columns={"a": "BIGINT", "b": "BIGINT", **VALUES}, declared={"a": "{}", "b": "{}", **TOLD}, hangs=ENDS, limits=limits)
    visits = Table(name="visits", columns={"id": "BIGINT", **VALUES}, declared={"id": "{}", **TOLD}, hangs=(TO,), limits=limits)
    shared = [*(BUSY if busy else BUSY[:3]), *ODD]
    return World(tables={"people": PEOPLE, "deals": deals, "visits": visits}, entities={"person": ("people", "id")}, budget="epsilon = 1000\ndelta = 0.1",
                 rows={"people": PEOPLE_ROWS, "deals": tuple(shared), "visits": tuple((row[0], *row[2:]) for row in shared)})


@cache
def family(limit: int | None, busy: bool) -> Family:
    return Family(world(limit, busy))


PRICE = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 2"
SEVERAL = [  # of deals: each row has two owners
    "COUNT(DISTINCT what)", "COUNT(DISTINCT n), COUNT(DISTINCT v)", "COUNT(DISTINCT what) FILTER (WHERE v > 0)", "MEDIAN(v), MIN(n), MAX(n)",
    "QUANTILE_CONT(v, [0.1, 0.9]) AS q", "AVG(v), AVG(n)", "VAR_POP(v), STDDEV_SAMP(n)", "CORR(v, n), COVAR_POP(v, n)", "REGR_SLOPE(v, n), REGR_R2(n, v)",
    "SUM(v), SUM(-n), COUNT(*)", "GEOMEAN(n + 8)",
]
BOUNDS = [", bound = 'balance'", ", bound = 'extension', clip = 3", ", bound = 'r2t'", ", bound = 'removals'", ", bound = 'recursive', clip = 4"]
OF_ONE = [  # of visits, without a limit or with one that is broken
    "COUNT(DISTINCT what) FROM visits", "COUNT(DISTINCT n), COUNT(DISTINCT v) FROM visits", "COUNT(DISTINCT what || id) FROM visits",
    "town, COUNT(DISTINCT what) FROM visits JOIN people USING (id) GROUP BY town", "COUNT(DISTINCT what) FILTER (WHERE n > 0) FROM visits WHERE v > -1",
    "COUNT(DISTINCT what), COUNT(*) FROM visits", "COUNT(DISTINCT CASE WHEN n > 0 THEN what END) FROM visits", "COUNT(DISTINCT v * n) FROM visits",
    "MEDIAN(v), QUANTILE_DISC(n, 0.9) FROM visits", "floor(n / 10) * 10 AS bin, COUNT(*), SUM(v) FROM visits GROUP BY bin", "round(v, -1) AS r, COUNT(*) FROM visits GROUP BY r",
    "CAST(v AS INTEGER) // 5 * 5 AS r, COUNT(*) FROM visits GROUP BY r", "CASE WHEN n < 0 THEN 'low' ELSE 'at ' || CAST(n // 10 AS VARCHAR) END AS c, COUNT(*) FROM visits GROUP BY c",
    "floor(w / 5) * 5 AS c, town, COUNT(*) FROM people GROUP BY CUBE (c, town)", "floor(age / 7) AS c, COUNT(*) / SUM(COUNT(*)) OVER () FROM people GROUP BY c",
    "date_trunc('month', born) AS m, COUNT(*) FROM people GROUP BY m", "AVG(n) FROM (SELECT DISTINCT id, what, ROW_NUMBER() OVER (PARTITION BY id ORDER BY what) AS n FROM visits) AS t",
]
AROUND = [  # SQL over releases
    "WITH t AS (SELECT town, COUNT(*) AS n FROM people GROUP BY town) SELECT x.town, x.n - y.n FROM t AS x, t AS y WHERE x.n > y.n",
    "SELECT town, n, RANK() OVER (ORDER BY n DESC) FROM (SELECT town, COUNT(*) AS n FROM people GROUP BY town) AS t LIMIT 1",
    "SELECT MAX(n) / 0, MIN(1 / (n - n)) FROM (SELECT town, COUNT(*) AS n FROM people GROUP BY town) AS t",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM visits) AS t UNION ALL SELECT n FROM (SELECT COUNT(DISTINCT what) AS n FROM visits) AS u",
    "SELECT (SELECT COUNT(*) FROM deals), (SELECT COUNT(DISTINCT what) FROM visits), (SELECT AVG(v) FROM deals)",
    "SELECT town, CAST(n AS TINYINT), sqrt(n - 5), ln(n - 3) FROM (SELECT town, COUNT(*) AS n FROM people GROUP BY town) AS t ORDER BY n",
    "SELECT a.town, b.m FROM (SELECT town, COUNT(*) AS n FROM people GROUP BY town) a LEFT JOIN (SELECT town, AVG(w) AS m FROM people GROUP BY town) b ON a.n = b.m",
]
PAIRS = "WITH e AS (SELECT a AS p, what, n FROM deals UNION ALL SELECT b, what, n FROM deals) SELECT "
BOTH_ENDS = ["COUNT(*) FROM e", "COUNT(DISTINCT what) FROM e", "SUM(n) FROM e", "town, COUNT(*) FROM e JOIN people ON id = p GROUP BY ROLLUP (town)"]


def statements() -> Iterator[str]:
    yield from (f"SELECT {PRICE}) {some} FROM deals" for some in SEVERAL)
    yield from (f"SELECT {PRICE}{bound}) {some} FROM deals" for some, bound in zip(SEVERAL, cycle(BOUNDS), strict=False))
    yield from (f"SELECT {PRICE}) town, {some} FROM deals JOIN people ON a = id GROUP BY {keys}"
                for some, keys in zip(SEVERAL, cycle(("town", "CUBE (town)")), strict=False))
    yield from (f"SELECT {PRICE}) {some}" for some in OF_ONE)
    yield from (text.replace("SELECT", f"SELECT {PRICE})", 1) if text.startswith("SELECT") else text for text in AROUND)
    yield from (PAIRS + some for some in BOTH_ENDS)


WORLDS = [(limit, busy) for busy in (True, False) for limit in (None, 2, 16)]


@pytest.mark.parametrize(("text", "at"), [*zip(statements(), cycle(WORLDS), strict=False)])
def test_no_neighbour_is_further_than_what_is_charged(text: str, at: tuple[int | None, bool]) -> None:
    totals = Totals()
    examine(Asked(kind="alone", texts=(text,)), family(*at), totals)
    assert not totals.violations and not totals.incidents and not totals.crashed
    assert totals.answered or "bound =" in text or "ROW_NUMBER" in text  # of which some are refused
