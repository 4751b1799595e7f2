"""One equality in the whole plan: groups, joins, caps, keys and what is apart all mean that of `=`, with NULL equal to NULL in groups.

Statements that would move further than they claim if two of them meant another one: over days that Python does not know, NULLs and
copies on a public side, zeros of either sign and NaN. Each is read exactly with everybody, and without each person in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from support.laws.asked import plans_of, view_of
from support.laws.family import Salt
from support.laws.law import longer
from support.policies import policy_of
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.backends.duckdb import DuckReader, lock_down
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import Error, Incident
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.parse import parse
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.plan.certificate import Unbounded, certify
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums

POLICY = policy_of("people", """
k = {}
sex = { values = ["f", "m"] }
""", """
[tables.stays]
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = 30
[tables.stays.columns]
stay = {}
id = {}
day = {}
seen = {}
x = {}
k = {}
cost = { range = [0, 30] }
[tables.days]
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = 30
[tables.days.columns]
id = {}
day = {}
cost = { range = [0, 30] }
[tables.moments]
foreign_keys = [{ columns = "id", references = "people(id)" }]
rows_per_entity = 30
[tables.moments.columns]
id = {}
s = {}
ns = {}
d = {}
h = {}
[tables.pub]
public = true
[tables.pub.columns]
z = {}
d = {}
t = {}
x = {}
w = {}
""", price="epsilon = 1000\ndelta = 0.01")
SCHEMA = {
    "people": "id INTEGER PRIMARY KEY, k INTEGER, sex VARCHAR",
    "stays": "stay INTEGER PRIMARY KEY, id INTEGER NOT NULL, day DATE, seen TIMESTAMP, x DOUBLE, k INTEGER, cost INTEGER",
    "days": "id INTEGER, day DATE, cost INTEGER, PRIMARY KEY (id, day)",
    "moments": "id INTEGER, s TIMESTAMP_S, ns TIMESTAMP_NS, d DECIMAL(38,10), h HUGEINT, "
               "UNIQUE (id, s), UNIQUE (id, ns), UNIQUE (id, d), UNIQUE (id, h)",
    "pub": "z INTEGER, d DATE, t TIMESTAMP, x DOUBLE, w VARCHAR",
}
FAR = ["'infinity'", "'-infinity'", "'9999-12-31'", "'0001-01-01'", "'0044-03-15 (BC)'", "'0045-03-15 (BC)'",
       *(f"'{year}-01-01'" for year in range(10001, 10012)), *(f"'{year}-06-01'" for year in range(20025, 20032)), "'2020-01-01'"]
PEOPLE = 4
PUB = [("NULL",) * 5] * 40 + [("1", "'infinity'", "'infinity'", "0.0", "'a'")] * 3 + [
    ("1", "'10001-01-01'", "'10001-01-01'", "-0.0", "'A'")] * 2 + [("2", "'10002-01-01'", "'20025-06-01'", "'nan'", "'é'")] * 3 + [
    ("3", "'9999-12-31'", "'9999-12-31 23:59:59.999999'", "-'nan'::DOUBLE", "'e\u0301'")]


def database(missing: int | None = None) -> DuckReader:
    """Four people, of whom the first have all far days, NULLs and odd numbers; perhaps without one."""
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for table, columns in SCHEMA.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
    rows = ", ".join(f"({', '.join(row)})" for row in PUB)
    connection.execute(f"INSERT INTO pub VALUES {rows}")
    for person in range(PEOPLE):
        if person == missing:
            continue
        connection.execute(f"INSERT INTO people VALUES ({person}, {'NULL' if person < 2 else person}, 'f')")
        for i, day in enumerate(FAR if person < 2 else FAR[-3:]):
            x = ("0.0", "-0.0", "'nan'", "-'nan'::DOUBLE", "NULL", "1.5")[i % 6]
            k = "NULL" if person == 0 else str(i % 3)
            connection.execute(f"INSERT INTO stays VALUES ({100 * person + i}, {person}, {day}, {day}, {x}, {k}, {i})")
            connection.execute(f"INSERT INTO days VALUES ({person}, {day}, {i})")
            connection.execute(
                f"INSERT INTO moments VALUES ({person}, make_timestamp({i} * 1000000), make_timestamp_ns(1000 + {i}), "
                f"1000000000000000000000000000.0000000001 + {i} * 0.0000000001, 170141183460469231731687303715884105000 + {i})")
    lock_down(connection)
    return DuckReader(connection, "v1")


class Neighbours:
    """The database with everybody, and without each person."""

    def __init__(self) -> None:
        self.readers = [database(), *(database(person) for person in range(PEOPLE))]
        self.kernels = [Kernel(reader, Salt()) for reader in self.readers]  # type: ignore[arg-type]
        self.catalog: Catalog = fit(parse_policy(POLICY), "person", self.readers[0].schema(), lambda *_: [])
        self.scratch = DuckScratch()

    def plans(self, text: str) -> list[Node]:
        question = bind(parse(text), self.catalog, self.kernels[0], self.scratch, {})  # type: ignore[arg-type]
        return list(plans_of(question, SimpleNamespace(kernel=self.kernels[0]), view_of(question)))  # type: ignore[arg-type]

    def cells(self, plan: GroupedSums) -> list[dict[tuple[Any, ...], Sequence[int]]]:
        """The sums of every cell, in each database."""
        width, found = len(plan.keys), []
        names = [f't."{field.id}"' for field in plan.fields]
        shown = [f"CAST({name} AS VARCHAR)" for name in names[:width]] + names[width:]
        for kernel, reader in zip(self.kernels, self.readers, strict=True):
            rows = reader.rows(f"SELECT {', '.join(shown)} FROM ({kernel._context().query(plan)[0]}) AS t")
            assert len({row[:width] for row in rows}) == len(rows)
            found.append({row[:width]: row[width:] for row in rows})
        return found

    def check(self, text: str) -> int:
        """How many tallies of a statement were bounded; none of them moved further."""
        bounded = 0
        for plan in self.plans(text):
            if not isinstance(plan, GroupedSums):
                continue
            try:
                certificate = certify(plan, self.kernels[0])
            except Unbounded:
                continue
            bounded += 1
            everybody, *others = self.cells(plan)
            nothing = (0,) * len(plan.totals)
            for person, cells in enumerate(others):
                at = 0
                for summand, claimed in zip(plan.summands, certificate.summands, strict=True):
                    part = slice(at, at + summand.components)
                    at += summand.components
                    moved = [a - b for cell in everybody.keys() | cells.keys() for a, b in zip(
                        everybody.get(cell, nothing)[part], cells.get(cell, nothing)[part], strict=True)]
                    assert claimed.l1 is None or not longer(moved, 1, claimed.l1), (text, person, sum(map(abs, moved)), claimed)
                    assert not longer(moved, 2, claimed.l2), (text, person, moved, claimed)
        return bounded


@pytest.fixture(scope="module")
def neighbours() -> Iterator[Neighbours]:
    made = Neighbours()
    yield made
    for reader in made.readers:
        reader.close()


# -- days

ONE = """WITH one AS (SELECT DISTINCT id, d, cost FROM (SELECT id, d, cost, ROW_NUMBER() OVER (PARTITION BY id, d ORDER BY stay) AS rn,
LAG(cost) OVER (PARTITION BY id, d ORDER BY stay) AS before FROM (SELECT stay, id, cost, {made} AS d FROM stays) t) u
WHERE rn = 1 AND before IS NULL) """
MADE = ("CAST(CAST(10001 + cost AS VARCHAR) || '-01-01' AS DATE)", "day", "seen", "CAST(day AS TIMESTAMP)", "x",
        "CAST(CAST(20025 + cost AS VARCHAR) || '-01-01' AS TIMESTAMP)", "CASE WHEN cost > 3 THEN day END")
DAYS = [
    *(ONE.format(made=made) + rest for made in MADE for rest in (
        "SELECT COUNT(*) FROM one a JOIN one b ON a.id = b.id AND a.d = b.d",
        "SELECT COUNT(*) FROM one a JOIN one b ON a.id = b.id AND a.d IS NOT DISTINCT FROM b.d",
        "SELECT COUNT(*) FROM (SELECT id, d FROM one INTERSECT ALL SELECT id, d FROM one) t JOIN one b USING (id, d)",
        "SELECT COUNT(*) FROM (SELECT id, d, MAX(cost) AS m FROM one GROUP BY id, d) a JOIN one b USING (id, d)",
    )),
    *("SELECT " + rest for rest in (
        "COUNT(*) FROM days a JOIN days b USING (id, day)",
        "COUNT(*) FROM days a JOIN (SELECT DISTINCT id, day FROM days) b USING (id, day)",
        "COUNT(*) FROM days a LEFT JOIN (SELECT id, day, COUNT(*) AS c FROM days GROUP BY id, day) b USING (id, day)",
        "COUNT(*) FROM (SELECT id, day FROM days EXCEPT ALL SELECT id, day FROM days WHERE cost > 5) a JOIN days b USING (id, day)",
        "day, SUM(cost) FROM days GROUP BY day",
        "SUM(c) FROM (SELECT day, COUNT(*) AS c FROM days GROUP BY day) t WHERE c < 4",
        "COUNT(DISTINCT day) FROM days",
        "COUNT(*) FROM (SELECT day, LAG(cost) OVER (PARTITION BY id, day ORDER BY cost) AS l FROM days) t WHERE l IS NULL",
        "COUNT(*) FROM days a WHERE EXISTS (SELECT 1 FROM days b WHERE b.id = a.id AND a.day = b.day)",
        "COUNT(*) FROM (SELECT id, day, ROW_NUMBER() OVER (PARTITION BY id, day ORDER BY cost) AS n FROM days) t WHERE n = 1",
        "COUNT(*) FROM (SELECT id, day FROM days UNION SELECT id, day FROM days) a JOIN days b USING (id, day)",
        "seen, COUNT(*), SUM(cost) FROM stays GROUP BY seen",
        "x, COUNT(*), SUM(cost) FROM stays GROUP BY x",
        "COUNT(*) FROM (SELECT DISTINCT id, x FROM stays) a JOIN (SELECT DISTINCT id, x FROM stays) b USING (id, x)",
    )),
    # carried as types that merge values: no key is inherited
    *(f"SELECT COUNT(*) FROM moments a JOIN moments b ON a.id = b.id AND a.{c} = b.{c}" for c in ("s", "ns", "d", "h")),
    *(f"SELECT COUNT(*) FROM moments a JOIN moments b ON a.id = b.id AND a.{c} IS NOT DISTINCT FROM b.{c}"
      for c in ("s", "ns", "d", "h")),
]


@pytest.mark.parametrize("text", DAYS)
def test_days_are_equal_where_the_engine_says_so(text: str, neighbours: Neighbours) -> None:
    assert neighbours.check(text) > 0


def test_a_key_of_moments_in_another_unit_is_none(neighbours: Neighbours) -> None:
    assert not neighbours.catalog.tables["moments"].unique
    assert neighbours.catalog.tables["days"].unique


# -- NULLs and copies on a public side

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
NULLS = "(VALUES " + ", ".join(["(NULL, 1)"] * 50 + ["(1, 2)", "(1, 3)"]) + ") AS v(z, n)"
PUBLIC = [
    *(f"SELECT COUNT(*) FROM stays a {kind} pub b ON a.{mine} {op} b.{theirs}" for kind in KINDS
      for op in ("=", "IS NOT DISTINCT FROM") for mine, theirs in (("k", "z"), ("day", "d"), ("seen", "t"), ("x", "x"))),
    *(f"SELECT COUNT(*) FROM stays a {kind} {NULLS} ON a.k {op} v.z" for kind in KINDS for op in ("=", "IS NOT DISTINCT FROM")),
    *(f"SELECT COUNT(*) FROM pub b {kind} people a ON a.k {op} b.z" for kind in KINDS for op in ("=", "IS NOT DISTINCT FROM")),
    *(f"SELECT COUNT(*) FROM people a {kind} pub b ON a.k IS NOT DISTINCT FROM b.z AND {more}" for kind in KINDS[:2]
      for more in ("a.k = b.z", "a.sex IS NOT DISTINCT FROM b.w", "b.z IS NULL", "b.x IS NOT DISTINCT FROM b.x")),
    *(f"SELECT COUNT(*) FROM (SELECT k AS z FROM people) a {kind} pub b {how}" for kind, how in (
        ("JOIN", "USING (z)"), ("LEFT JOIN", "USING (z)"), ("FULL JOIN", "USING (z)"), ("NATURAL JOIN", ""))),
    "SELECT COUNT(*) FROM people a, pub b WHERE a.k = b.z",
    "SELECT COUNT(*) FROM people a, pub b WHERE a.k IS NOT DISTINCT FROM b.z",
    "SELECT COUNT(*) FROM people a WHERE k IN (SELECT z FROM pub)",
    "SELECT COUNT(*) FROM pub b WHERE z IN (SELECT k FROM people)",
    "SELECT COUNT(*) FROM pub b WHERE NOT EXISTS (SELECT 1 FROM people a WHERE a.k = b.z)",
    "SELECT COUNT(*) FROM pub b WHERE EXISTS (SELECT 1 FROM people a WHERE a.k IS NOT DISTINCT FROM b.z)",
    "SELECT COUNT(*) FROM people a LEFT JOIN stays s ON a.id = s.id AND s.cost > 99 JOIN pub b ON s.k IS NOT DISTINCT FROM b.z",
    "SELECT COUNT(*) FROM (SELECT id, MAX(k) AS m FROM stays GROUP BY id) a JOIN pub b ON a.m IS NOT DISTINCT FROM b.z",
    "SELECT COUNT(*) FROM people a JOIN (SELECT z, x FROM pub UNION ALL SELECT z, x FROM pub) b ON a.k IS NOT DISTINCT FROM b.z",
    "SELECT COUNT(*) FROM people a JOIN (SELECT DISTINCT z, w FROM pub) b ON a.k IS NOT DISTINCT FROM b.z",
    "SELECT b.w, COUNT(*) FROM people a JOIN pub b ON a.k IS NOT DISTINCT FROM b.z GROUP BY b.w",
    "SELECT COUNT(*) FROM people a LEFT JOIN pub b ON a.k IS NOT DISTINCT FROM b.z LEFT JOIN pub c ON b.x IS NOT DISTINCT FROM c.x",
    "SELECT COUNT(*) FROM people a SEMI JOIN pub b ON a.k IS NOT DISTINCT FROM b.z",
    "SELECT COUNT(*) FROM pub b ANTI JOIN people a ON a.k IS NOT DISTINCT FROM b.z",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_null_and_copies_on_a_public_side_count(text: str, neighbours: Neighbours) -> None:
    try:
        neighbours.check(text)
    except Error as fault:
        assert not isinstance(fault, Incident), text


def test_null_that_no_row_meets_costs_nothing(neighbours: Neighbours) -> None:
    rows = [certify(plan, neighbours.kernels[0]).below.rows for op in ("=", "IS NOT DISTINCT FROM")
            for plan in neighbours.plans(f"SELECT COUNT(*) FROM people a JOIN pub b ON a.k {op} b.z")[:1] if isinstance(plan, GroupedSums)]
    assert rows == [5, 40]


# -- what leaves the engine

SHOWN = ["day, COUNT(*) FROM days GROUP BY day", "seen, COUNT(*), MEDIAN(cost) FROM stays GROUP BY seen", "x, COUNT(*) FROM stays GROUP BY x",
         "day, COUNT(DISTINCT cost) FROM days GROUP BY day", "MIN(day) AS m, COUNT(*) FROM days GROUP BY ALL",
         "d, COUNT(*) FROM pub GROUP BY d", "t, x, COUNT(*), MIN(d), MAX(t) FROM pub GROUP BY t, x", "MIN(d), MAX(d), MAX(t) FROM pub",
         "COUNT(*) FROM stays WHERE day = (SELECT MAX(d) FROM pub)", "COUNT(*) FROM stays WHERE day IN (SELECT d FROM pub)",
         "COUNT(*) FROM stays WHERE day > (SELECT d FROM pub WHERE z = 3)", "b.d, COUNT(*) FROM people a JOIN pub b ON a.k = b.z GROUP BY b.d",
         "CAST(CAST(10001 + cost AS VARCHAR) || '-01-01' AS DATE) AS d, COUNT(*) FROM stays GROUP BY d", "DISTINCT day FROM days",
         "COUNT(*) FROM stays a JOIN stays b ON a.day = b.day", "s, ns, COUNT(*) FROM moments GROUP BY s, ns"]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    made = [session_of(tmp_path_factory.mktemp("ledger"), reader=database(person), noise=Exact(), policy=POLICY,
                       at={"epsilon": 1, "delta": 1e-5}) for person in (None, 0, 1)]
    yield made
    for session in made:
        session.close()


@pytest.mark.parametrize("rest", SHOWN)
def test_no_day_that_cannot_be_read_leaves_the_engine(rest: str, sessions: list[Session]) -> None:
    for session in sessions:
        try:
            made = answer(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups = 30) {rest}" if "pub GROUP" not in rest
                          and "FROM pub" not in rest.split("WHERE")[0] and "GROUP" in rest else f"SELECT {rest}", session)
        except Incident:
            raise
        except Error:
            continue
        for row in made.rows:  # type: ignore[union-attr]
            assert not any(isinstance(value, str) and value[:1].isdigit() for value in row), row
