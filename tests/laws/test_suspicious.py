"""Places where a claim could break unseen: names and keys that an engine takes for equal, limits of others, roundings."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from support.laws.bad_worlds import crowded
from support.laws.family import PRINTING, Family, Salt, catalog, nodes, printed
from support.laws.law import violations
from support.policies import policy_of
from support.worlds import insert

from dpsql.backends.duckdb import DuckReader
from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.model import Catalog
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.engine.opening import public_values
from dpsql.errors import PolicyError
from dpsql.frozen import Frozen, field
from dpsql.questions.labels import label
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.plan.certificate import stabilities
from dpsql.trusted.plan.expr.facts import Facts, NotTotal, facts
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.types import Interval, Type

POLICY = policy_of("people", "x = { range = [0, 9] }", """
[tables.visits]
foreign_keys = [{ columns = "person", references = "people(id)" }]
rows_per_entity = { person = 1 }
[tables.visits.columns]
person = {}
code = {}
[tables.codes]
public = true
[tables.codes.columns]
code = {}
word = {}
""", price="epsilon = 10")


class Pair(Frozen, kw_only=False):
    """A database of people, visits and public codes, and the same without the person `gone`."""

    types: Mapping[str, str]
    rows: Mapping[str, Sequence[Sequence[Any]]]
    gone: Any = None
    connections: list[duckdb.DuckDBPyConnection] = field(default_factory=list)

    def open(self) -> Pair:
        place = {"people": 0, "visits": 0, "codes": None}
        for without in (False, True):
            connection = duckdb.connect(":memory:")
            for table, columns in self.types.items():
                connection.execute(f"CREATE TABLE {table} ({columns})")
                at = place[table]
                kept = [row for row in self.rows.get(table, ()) if not (without and at is not None and row[at] == self.gone)]
                insert(connection, table, kept)
            self.connections.append(connection)
        return self

    @property
    def catalog(self) -> Catalog:
        reader = DuckReader(self.connections[0], "test")
        return fit(parse_policy(POLICY), "person", reader.schema(), public_values(reader))

    @property
    def kernel(self) -> Kernel:
        return Kernel(DuckReader(self.connections[0], "test"), Salt())  # type: ignore[arg-type]

    def view(self, text: str) -> Node:
        query = parse(text)
        assert isinstance(query, Query)
        return limit_rows(bind(query, self.catalog, self.kernel, DuckScratch(), {}).view)

    def hold(self, text: str) -> None:
        """Every claim of rows and owners in the plan of a statement is true of the pair."""
        view = self.view(text)
        known = stabilities(view, self.kernel)
        for node in nodes(view):
            before, after = (Counter(connection.execute(printed(node)).fetchall()) for connection in self.connections)
            claimed, ids = known[id(node)], [found.id for found in node.fields]
            if claimed.rows is not None:
                assert (before - after).total() + (after - before).total() <= claimed.rows, label(node)
            if claimed.owners:
                at = [ids.index(owner) for owner in claimed.owners]
                stays = Counter({row: n for row, n in before.items() if self.gone not in [row[i] for i in at]})
                assert after == stays, label(node)


TEXTS = (
    "SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM visits v JOIN people p ON v.person = p.id",
    "SELECT COUNT(*) FROM people p LEFT JOIN visits v ON v.person = p.id",
    "SELECT SUM(n) FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person) AS t",
    "SELECT COUNT(*) FROM (SELECT DISTINCT person, code FROM visits) AS t",
    "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = p.id)",
    "SELECT COUNT(*) FROM visits v JOIN codes c ON v.code = c.code",
    "SELECT COUNT(*) FROM visits WHERE code IN (SELECT code FROM codes)",
)


@pytest.mark.parametrize("gone", ["a", "A", "b"])
def test_a_collation_makes_no_two_entities_one(gone: str) -> None:
    """'a' and 'A' are two keys of a table whose text is compared without case, and two people."""
    pair = Pair(types={"people": "id VARCHAR COLLATE NOCASE PRIMARY KEY, x INTEGER",
                       "visits": "person VARCHAR COLLATE NOCASE, code VARCHAR COLLATE NOCASE",
                       "codes": "code VARCHAR COLLATE NOCASE PRIMARY KEY, word VARCHAR"}, gone=gone,
                rows={"people": [("a", 1), ("A", 2), ("b", 3)], "visits": [("a", "q"), ("A", "Q"), ("A", "r"), ("b", "q")],
                      "codes": [("q", "one"), ("Q", "two")]}).open()
    for text in TEXTS:
        pair.hold(text)


@pytest.mark.parametrize("code", ["UBIGINT", "HUGEINT", "DECIMAL(20,0)", "TIMESTAMP_NS"])
def test_a_key_that_is_not_carried_exactly_is_no_key(code: str) -> None:
    """2^53 and 2^53 + 1 are one DOUBLE, and two times a nanosecond apart are one TIMESTAMP: a row meets both."""
    times = "2020-01-01 00:00:00.000000001", "2020-01-01 00:00:00.000000002"
    one, other = times if code == "TIMESTAMP_NS" else (2**53, 2**53 + 1)
    pair = Pair(types={"people": "id INTEGER PRIMARY KEY, x INTEGER", "visits": f"person INTEGER, code {code}",
                       "codes": f"code {code} PRIMARY KEY, word VARCHAR"}, gone=1,
                rows={"people": [(1, 1), (2, 2)], "visits": [(1, one), (2, one)], "codes": [(one, "one"), (other, "two")]}).open()
    assert pair.catalog.tables["codes"].unique == ()
    for text in TEXTS:
        pair.hold(text)


def test_a_unique_column_that_may_be_null_tells_no_rows_apart() -> None:
    """UNIQUE lets NULL stand in many rows; which of them a truncation keeps must not be the engine's choice."""
    pair = Pair(types={"people": "id INTEGER PRIMARY KEY, x INTEGER", "visits": "person INTEGER, code INTEGER UNIQUE",
                       "codes": "code INTEGER UNIQUE, word VARCHAR"}, gone=1,
                rows={"people": [(1, 1), (2, 2)], "visits": [(1, None), (2, None), (2, 3), (2, None)]}).open()
    assert pair.catalog.tables["visits"].unique == pair.catalog.tables["codes"].unique == ()
    for text in TEXTS:
        pair.hold(text)


@pytest.mark.parametrize("key", ["DATE", "TIMESTAMP", "TIMESTAMP_NS", "DOUBLE", "UBIGINT", "DECIMAL(9,0)"])
def test_what_grouping_makes_equal_names_no_entity(key: str) -> None:
    with pytest.raises(PolicyError):
        _ = Pair(types={"people": f"id {key} PRIMARY KEY, x INTEGER", "visits": f"person {key}, code INTEGER",
                        "codes": "code INTEGER, word VARCHAR"}, rows={}).open().catalog


@pytest.mark.parametrize("key", ["SMALLINT", "VARCHAR", "UUID", "BOOLEAN"])
def test_other_types_name_entities(key: str) -> None:
    pair = Pair(types={"people": f"id {key} PRIMARY KEY, x INTEGER", "visits": f"person {key}, code INTEGER",
                       "codes": "code INTEGER, word VARCHAR"}, rows={}).open()
    assert pair.catalog.tables["people"].rows == 1


def test_what_was_counted_of_persons_is_not_believed_of_households() -> None:
    """A truncation is left out where nobody has too many rows: each kind of entity is counted for itself."""
    family = Family(crowded(1))
    for entity in ("person", "household"):
        table = catalog(entity).tables["visits"]
        scan = Scan(table=table, columns=tuple((f"c{i}", name) for i, name in enumerate(table.columns)),
                    owners=("c1" if entity == "person" else "o",))
        assert not violations([limit_rows(scan)], entity, family)
    most = [family.kernel._content.most_rows(Scan(table=catalog(entity).tables["visits"], columns=(), owners=("o",)))
            for entity in ("person", "household")]
    assert most == [5, 25]
    family.close()


# -- roundings


def _row(**values: int) -> Constants:
    limits = Interval(-(2**50), 2**50)
    known = Facts(type=Type.BIGINT, nullable=False, physical=limits, declared=limits, whole=True)
    return Constants(columns=tuple(Field(id=name, name=name, facts=known) for name in values), rows=(tuple(values.values()),))


@pytest.mark.parametrize(("bound", "vector"), [
    (5, (3, 4)), (5, (3, 5)), (2**30, (2**30, 1)), (2**50, (2**50, 1)), (2**40, (2**40, 0)), (1, (1, 1)), (3, (2**50, -(2**50))),
    (10**9, (10**9, 10**4)), (7, (0, 0))])
@pytest.mark.parametrize("order", [1, 2])
def test_a_clipped_vector_is_never_longer_than_its_bound(order: int, bound: int, vector: tuple[int, int]) -> None:
    """In integers: the square of the norm may exceed that of the bound by one, which no DOUBLE would show."""
    clip = Clip(input=_row(o=1, a=vector[0], b=vector[1]), owner="o", columns=("a", "b"), order=order, bound=bound)
    ((_, a, b),) = duckdb.connect(":memory:").execute(printed(clip)).fetchall()
    size, before = (abs(p) + abs(q) if order == 1 else p * p + q * q for p, q in ((a, b), vector))
    assert size <= bound**order
    if before <= bound**order:
        assert (a, b) == vector
    else:
        assert bound < 4 or size >= (bound * (1 - Fraction(1, 2**39)) - 2) ** order  # and hardly shorter than it may be


@pytest.mark.parametrize("vector", [(3, 4), (3, -5), (0, 0), (2**50, -(2**50)), (2**26, 1), (10**9, 10**4)])
@pytest.mark.parametrize("order", [1, 2])
def test_a_norm_is_rounded_up_and_held(order: int, vector: tuple[int, int]) -> None:
    norms = Norms(input=_row(o=1, a=vector[0], b=vector[1]), owner="o", columns=("a", "b"), order=order)
    ((_, size),) = duckdb.connect(":memory:").execute(printed(norms)).fetchall()
    exact = sum(abs(part) for part in vector) if order == 1 else math.isqrt(sum(part**2 for part in vector) - 1) + 1 if any(vector) else 0
    assert abs(size - min(exact, 2**50)) <= exact * 2**-50 + (order == 2), "up to the rounding of a root"


@pytest.mark.parametrize("step", [1, 2, 7, 30])
def test_dates_stay_on_their_grid(step: int) -> None:
    low, high = dt.date(1920, 1, 1), dt.date(2020, 12, 31)
    grid = Quantizer(low=float(low.toordinal()), high=float(high.toordinal()), step=Fraction(step), from_low=True)
    days = [low + dt.timedelta(days=i) for i in range(-3, 37_000, 11)]
    texts = [f"DATE '{day}'" for day in days] + ["DATE 'infinity'", "DATE '-infinity'", "DATE '9999-12-31'", "CAST(NULL AS DATE)"]
    sql = f"SELECT d, {grid.to_sql('d', Type.DATE)} FROM (VALUES {', '.join(f'({text})' for text in texts)}) AS t(d)"
    found = duckdb.connect(":memory:").execute(sql).fetchall()
    assert [n for _, n in found[-4:]] == [grid.most, 0, grid.most, None]
    for day, n in found[:-4]:
        assert 0 <= n <= grid.most
        wanted = min(max(day, low), high).toordinal()
        assert abs(grid.value(n) - wanted) <= (Fraction(step) if n == grid.most else Fraction(step, 2))


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day", "hour", "minute", "second"])
def test_differences_of_dates_lie_in_their_range(unit: str) -> None:
    connection = duckdb.connect(":memory:")
    times = [dt.datetime(1900, 1, 1), dt.datetime(1999, 12, 31, 23, 59, 59), dt.datetime(2000, 1, 1),
             dt.datetime(2000, 2, 29, 12), dt.datetime(2000, 3, 1), dt.datetime(2400, 12, 31, 0, 0, 1)]
    for a in times:
        for b in times:
            call = Call(function=f"date_diff_{unit}", type=Type.BIGINT, args=(
                Literal(value=a, type=Type.TIMESTAMP), Literal(value=b, type=Type.TIMESTAMP)))
            ((found,),) = connection.execute(f"SELECT date_diff('{unit}', ?, ?)", [a, b]).fetchall()
            known = facts(call, {})
            assert known.declared.low <= found <= known.declared.high
            assert known.physical.low <= found <= known.physical.high


def test_the_word_of_the_policy_is_no_proof() -> None:
    """LEAST skips NULL, so it may exceed a column that is declared free of NULL and is not: the product could overflow."""
    small, large = (Ref(column=name, type=Type.BIGINT) for name in "ab")
    env = {"a": Facts(type=Type.BIGINT, nullable=False, physical=Interval(0, 127)),
           "b": Facts(type=Type.BIGINT, physical=Interval(0, 2**32))}

    def square(*args: Expr) -> Call:
        least = Call(function="least", args=args, type=Type.BIGINT)
        return Call(function="*", args=(least, least), type=Type.BIGINT)

    assert facts(square(large, Literal(value=9, type=Type.BIGINT)), env).physical == Interval(0, 81)
    with pytest.raises(NotTotal):
        facts(square(small, large), env)


def test_the_salt_is_the_one_that_laws_are_held_with() -> None:
    assert Salt().salt == PRINTING.salt
