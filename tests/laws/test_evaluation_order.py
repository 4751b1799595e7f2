"""No order in which an engine evaluates a plan decides on an outcome: conditions guard nothing that stands above them.

An engine moves filters over windows and into joins, works out what several expressions share, and looks at rows that a condition
leaves out. So statements whose conditions, if they came first, would keep odd values away from arithmetic, casts and dates have
the same outcome whoever is in the database.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import numpy as np
import pandas as pd
import pytest
from laws.test_outcomes import outcome
from support.laws import extremes
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.catalog.schema import carried_exactly
from dpsql.engine.session import Session
from dpsql.sql.binding import typing
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.functions import HELD
from dpsql.trusted.plan.expr.nodes import Call, Ref, whole
from dpsql.trusted.plan.expr.printing import to_sql
from dpsql.trusted.plan.node import Printing
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import INT64, Interval, Type

GUARDS = ("big BETWEEN -100 AND 100", "big <= 1000 AND big >= -1000", "big = 3", "big > -50 AND big < 50", "tiny + big < 9 AND big >= 0",
          "x BETWEEN -1e3 AND 1e3", "y > -1e3 AND y < 1e3", "day BETWEEN DATE '1999-01-01' AND DATE '2001-01-01'",
          "seen BETWEEN TIMESTAMP '1999-01-01' AND TIMESTAMP '2001-01-01'", "s IN ('1', '2', 'a')", "big IN (1, 2, 3)", "b",
          "big <> 0 AND big < 4000000000 AND big > -4000000000", "CAST(s AS BIGINT) < 100 AND CAST(s AS BIGINT) > -100")
VALUES = ("big * big * big", "big * big - big * big + 1", "-big + big * 7", "abs(big) * 2", "big // (big - 2)", "(big * big) % 7",
          "CAST(x * 1000 AS BIGINT) + 1", "CAST(s AS BIGINT) * 3", "year(day) * 400 + big", "date_diff('second', seen, seen)",
          "day - DATE '2000-01-01'", "year(day + 36500)", "week(day)", "CAST(CAST(y AS INTEGER) AS BIGINT) * big", "ln(x) + sqrt(x)",
          "CASE WHEN big BETWEEN -9 AND 9 THEN big * big END", "year(date_trunc('week', day))", "length(s || s) * big",
          "hour(seen - INTERVAL 1200 MONTH)", "CAST(huge AS BIGINT) + big", "CAST(wide AS BIGINT) * 2", "pow(x, 2) / big")
OVERS = ("MAX({v}) OVER (PARTITION BY id)", "LAG({v}, 1, 3) OVER (PARTITION BY id ORDER BY thing)", "MIN({v}) OVER (PARTITION BY id)",
         "LAST_VALUE({v}) OVER (PARTITION BY id ORDER BY day, thing)", "FIRST_VALUE({v}) OVER (PARTITION BY id ORDER BY thing DESC)")
COLUMNS = "thing, id, big, tiny, huge, wide, x, y, d, s, day, seen, b, kind"


def nested(draw: random.Random, depth: int) -> str:
    """A relation with the columns of `things`, from several copies of it."""
    if depth == 0:
        return "things"
    below, guard = nested(draw, depth - 1), draw.choice(GUARDS)
    over = draw.choice(OVERS).format(v="big")
    rest = COLUMNS.replace(" big,", "")
    match draw.randrange(8):
        case 0 | 1:
            return f"(SELECT {COLUMNS} FROM {below} t WHERE {guard})"
        case 2 | 3:
            return f"(SELECT {rest}, {over} AS big FROM {below} t)"
        case 4:
            return f"(SELECT {COLUMNS} FROM {below} t QUALIFY {over} BETWEEN -100 AND 100)"
        case 5:
            return f"(SELECT t.* FROM {below} t JOIN (SELECT thing AS other FROM things WHERE {guard}) u ON t.thing = u.other)"
        case 6:
            return f"(SELECT {COLUMNS} FROM {below} t WHERE {guard} UNION ALL SELECT {COLUMNS} FROM things WHERE {draw.choice(GUARDS)})"
        case _:
            return (f"(SELECT g.thing, g.id, m AS big, {rest.replace('thing, id, ', '')} FROM (SELECT thing AS k, MAX(big) AS m FROM "
                    f"things WHERE {guard} GROUP BY thing, id) h RIGHT JOIN {below} g ON h.k = g.thing)")


def statement(draw: random.Random) -> str:
    below = nested(draw, draw.randint(1, 4))
    guards = draw.sample(GUARDS, draw.randint(1, 2))
    first, second = draw.sample(VALUES, 2)
    kept = f"(SELECT *, {first} AS v, {second} AS w FROM {below} a WHERE {' AND '.join(guards)})"
    asked = draw.choice(("COUNT(*)", "SUM(LEAST(GREATEST(v, -5), 5))", "COUNT(*) FILTER (WHERE v > 3)", "COUNT(w), COUNT(*)",
                         "SUM(CASE WHEN v > w THEN 1 ELSE 0 END)"))
    where = draw.choice(("", " WHERE v > 0", " WHERE v > 0 OR w < 3", " WHERE v + 1 = w", f" WHERE v > 0 AND {draw.choice(GUARDS)}"))
    return f"SELECT {asked} FROM {kept} z{where}"


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    made = {name: session_of(tmp_path_factory.mktemp("ledger"), reader=extremes.database(tame=40, odd=odd), noise=Exact(),
                             policy=extremes.POLICY,
                             at={"epsilon": 0.01, "delta": 1e-9})
            for name, odd in (("others", False), ("and the odd one", True))}
    yield made
    for session in made.values():
        session.close()


WINDOWED = "SELECT COUNT(*) FROM (SELECT {value} AS b FROM (SELECT id, {over} AS a FROM {table}) q WHERE {guard}) x WHERE b > 0"
ODD = {"things": "b IS NULL OR s = ''", "people": "word <> 'w'"}


@pytest.mark.parametrize("guard", ["a <= 100 AND a >= -100", "a BETWEEN -100 AND 100", "a = 3", "a IN (1, 3) AND a < 9 AND a > -9"])
@pytest.mark.parametrize("value", ["a * a * a", "a * a * a + a * a", "(a * a * a) % 7", "abs(a * a * a) - 1", "-(a * a * a)"])
def test_a_condition_over_a_window_guards_no_arithmetic(guard: str, value: str, family: dict[str, Session]) -> None:
    for table, over in (("people", OVERS[0]), ("people", OVERS[2]), ("things", random.Random(value + guard).choice(OVERS[1:]))):
        over = over.format(v=f"CASE WHEN {ODD[table]} THEN 4000000000000000000 ELSE 3 END")
        text = WINDOWED.format(value=value, over=over, guard=guard, table=table)
        seen = {name: outcome(text, session, groups=False) for name, session in family.items()}
        assert seen["others"] == seen["and the odd one"], text
        assert seen["others"].kind == "answer", (text, seen["others"])


@pytest.mark.parametrize("seed", range(8))
def test_no_nesting_of_conditions_guards_anything(seed: int, family: dict[str, Session], effort: float) -> None:
    draw, answered = random.Random(seed), 0
    for _ in range(round(12 * effort)):
        text = statement(draw)
        seen = {name: outcome(text, session, groups=False) for name, session in family.items()}
        assert seen["others"] == seen["and the odd one"], text
        assert seen["others"].kind != "Incident", text
        answered += seen["others"].kind == "answer"
    assert answered > 2 * effort


# -- the two walls


BIG = Ref(column="big", type=Type.BIGINT)
ENV = {"big": Facts(type=Type.BIGINT, physical=INT64, kept=Interval(-100, 100), whole=True)}
ROWS = [(0,), (3,), (2**63 - 1,), (-(2**63),), (2**62,), (None,)]


def test_what_conditions_left_is_guarded_in_the_expression() -> None:
    made = typing.call("*", [BIG, BIG], ENV, None)
    assert made.type is Type.BIGINT and {part.function for part in made.args} == {HELD}  # type: ignore[attr-defined]
    assert facts(made, ENV).physical == Interval(-10000, 10000)
    bare = Call(function="*", args=(BIG, BIG), type=Type.BIGINT)
    with pytest.raises(NotTotal):
        facts(bare, ENV)


@pytest.mark.parametrize("name", ["+", "-", "*", "//", "%", "negate", "abs"])
def test_arithmetic_whose_range_were_wrong_would_give_null(name: str) -> None:
    """Also where two expressions share a part, which an engine works out beforehand."""
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE t (big BIGINT)")
    connection.executemany("INSERT INTO t VALUES (?)", ROWS)
    args = (BIG,) if name in ("negate", "abs") else (BIG, whole(-1) if name in ("//", "%") else BIG)
    one = Call(function=name, args=args, type=Type.BIGINT)
    texts = [to_sql(part, {"big": "big"}) for part in (one, *(Call(function=symbol, args=(one, whole(2)), type=Type.BIGINT)
                                                              for symbol in ("+", "*", "-")))]
    parts = ", ".join(f"SUM({text}) AS s{i}, COUNT(*) FILTER (WHERE {text} > 3)" for i, text in enumerate(texts))
    assert len(connection.execute(f"SELECT {parts} FROM t").fetchall()) == 1
    assert connection.execute(f"SELECT {', '.join(texts)} FROM t WHERE big = 3 AND {texts[1]} IS NOT NULL").fetchall()


@pytest.mark.parametrize("unit, kind", [("s", "TIMESTAMP_S"), ("ms", "TIMESTAMP_MS")])
def test_moments_that_microseconds_do_not_hold_are_missing(unit: str, kind: str) -> None:
    """A file of another program may hold any 64 bits."""
    far = pd.DataFrame({"x": np.array([5, 2**61, -(2**61)], dtype=f"datetime64[{unit}]")})
    connection = duckdb.connect(":memory:")
    connection.register("far", far)
    connection.execute("CREATE TABLE t AS SELECT x FROM far")
    assert connection.execute("SELECT typeof(x) FROM t LIMIT 1").fetchall() == [(kind,)]
    table = Table(name="t", public=True, key=(), unique=(), owners=(), columns={
        "x": Column(name="x", type=Type.TIMESTAMP, sql_type=kind)})
    text = Scan(table=table, columns=(("x", "x"),)).render((), Printing())
    assert connection.execute(f"SELECT COUNT(*), COUNT(x) FROM ({text}) AS t").fetchall() == [(3, 1)]
    assert not carried_exactly(kind)
