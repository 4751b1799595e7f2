"""The printed plan of shares: one row for each set of names, whatever their order, type, doubles and NULLs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from support.binding import Bench, bench
from support.extensions.given import Given
from support.worlds import removals, world

from dpsql.backends.duckdb import DuckReader
from dpsql.solvers.usual import USUAL
from dpsql.trusted.measurements.several.sets import read
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Call, Literal
from dpsql.trusted.plan.node import InvalidPlan, Node, Printing, fold
from dpsql.trusted.plan.operators.owner_sets import LARGEST, OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments, Summand
from dpsql.types import Interval


def shared(rows: Sequence[tuple[Any, ...]], kind: str = "BIGINT", *, summand: Summand | None = None,
           nullable: bool = True) -> Counter[frozenset[Any]]:
    """The printed sets of rows whose last column is the value."""
    width = len(rows[0]) - 1
    owners = tuple(f"o{i}" for i in range(width))
    given = Given(columns=(*((owner, kind) for owner in owners), ("v", "BIGINT")), rows=tuple(rows), nullable=nullable)
    plan = OwnerSets(input=given, owners=owners, summand=summand or Count())  # type: ignore[arg-type]
    found = Counter[frozenset[Any]]()
    for *names, weight in duckdb.sql(fold(plan, lambda node, below: node.render(below, Printing()))).fetchall():
        assert names == sorted(names), "names are in order"
        assert None not in names
        found[frozenset(names)] += weight
    return found


WHOLE = GridSum(column="v", grid=Quantizer(low=-100, high=100, step=Fraction(1), from_low=False))


def test_a_set_is_one_row_in_whatever_order_its_names_come() -> None:
    assert shared([(1, 2, 3, 0), (3, 2, 1, 0), (2, 3, 1, 0), (1, 1, 2, 0)]) == {frozenset({1, 2, 3}): 3, frozenset({1, 2}): 1}


def test_a_null_is_nobody() -> None:
    rows = [(None, 2, 5, 0), (2, None, 5, 0), (None, None, 5, 0), (None, None, None, 0)]
    assert shared(rows) == {frozenset({2, 5}): 2, frozenset({5}): 1}


@pytest.mark.parametrize("kind, values", [
    ("VARCHAR", ["b", "a", "", "A", "ä", "a "]), ("DATE", ["2020-01-02", "1999-12-31", "0044-03-15 (BC)"]),
    ("DOUBLE", ["nan", "-0.0", "0", "inf", "1.5"]), ("BIGINT", [-(2**63), 2**63 - 1, 0, -1])])
def test_names_of_every_type(kind: str, values: list[Any]) -> None:
    found = shared([(a, b, 0) for a in values for b in values], kind)
    distinct = len(values) - 1 if kind == "DOUBLE" else len(values)  # the two zeros are one name
    assert len([one for one in found if len(one) == 1]) == distinct
    assert len(found) == distinct * (distinct + 1) // 2 and sum(found.values()) == len(values) ** 2


def test_a_summand_may_read_a_name_as_it_stood_before_the_names_were_put_in_order() -> None:
    given = Given(columns=(("a", "BIGINT"), ("b", "BIGINT")), rows=((2, 1), (1, 2), (3, None), (None, 3)), nullable=True)
    plan = OwnerSets(input=given, owners=("a", "b"), summand=Count(column="a"))
    found = duckdb.sql(fold(plan, lambda node, below: node.render(below, Printing()))).fetchall()
    assert sorted(found) == [(1, 2, 2), (3, 3, 1)]


def test_sums_are_clamped_row_by_row_and_set_by_set() -> None:
    assert shared([(1, 2, 7), (2, 1, -3), (1, 3, 1000), (3, 3, None)], summand=WHOLE) == {
        frozenset({1, 2}): 4, frozenset({1, 3}): 100, frozenset({3}): 0}
    large = GridSum(column="v", grid=Quantizer(low=0, high=2**39, step=Fraction(1), from_low=False))
    assert shared([(1, 2, 2**39)] * 5, summand=large) == {frozenset({1, 2}): LARGEST}


def test_random_rows_are_grouped_as_in_python() -> None:
    draw = random.Random(1)
    for width in (1, 2, 3, 4, 5):
        rows = [(*(draw.choice([None, 1, 2, 3, 4]) for _ in range(width)), draw.randint(-5, 5)) for _ in range(60)]
        expected = Counter[frozenset[Any]]()
        for *names, value in rows:
            expected[frozenset(names) - {None}] += value
        del expected[frozenset()]
        found = shared(rows, summand=WHOLE)
        assert {one: found[one] for one in found} == dict(expected)


def test_only_what_can_be_shared_is_shared() -> None:
    given = Given(columns=(("a", "BIGINT"), ("b", "BIGINT"), ("t", "VARCHAR"), ("v", "BIGINT")))
    grid = Quantizer(low=0, high=8, step=Fraction(1), from_low=True)
    for owners, summand in (((), Count()), (("a", "a"), Count()), (("a", "t"), Count()), (("a", "x"), Count()),
                            (("a", "b"), Count(column="x")),
                            (("a", "b"), GridSum(column="t", grid=grid))):
        with pytest.raises(InvalidPlan):
            _ = OwnerSets(input=given, owners=owners, summand=summand).fields
    with pytest.raises(InvalidPlan):
        _ = OwnerSets(input=given, owners=("a",), summand=Moments(column="v", grid=grid, degree=1)).fields  # type: ignore[arg-type]


def test_signs_are_known_from_the_plan() -> None:
    given = Given(columns=(("a", "BIGINT"), ("v", "BIGINT")))
    plain = OwnerSets(input=given, owners=("a",), summand=Count())
    assert not plain.signed and plain.fields[-1].facts.physical == Interval(0, LARGEST)
    signed = OwnerSets(input=given, owners=("a",), summand=WHOLE)
    assert signed.signed and signed.fields[-1].facts.physical == Interval(-LARGEST, LARGEST)


# -- joins of a real world


QUERIES = [
    "SELECT a.person_id, b.person_id AS q, a.age FROM people a JOIN people b USING (household_id)",
    "SELECT a.person_id, b.person_id AS q, a.age FROM visits v JOIN people a USING (person_id) JOIN people b "
    "ON a.household_id = b.household_id",
    "SELECT a.person_id, b.person_id AS q, c.person_id AS r FROM visits a JOIN visits b ON a.clinic = b.clinic JOIN visits c "
    "ON b.year = c.year",
]


@pytest.fixture
def room() -> Iterator[Bench]:
    with bench(world(seed=3, people=9, most_visits=3)) as room:
        yield room


@pytest.mark.parametrize("text", QUERIES)
def test_removing_an_entity_removes_exactly_the_sets_that_name_it(text: str, room: Bench) -> None:
    node, _, _ = room.relation(text)
    owners = stability(node, room.kernel).owners
    assert len(owners) >= 2
    plan = OwnerSets(input=node, owners=owners, summand=Count())

    def sets(full: Any) -> dict[tuple[Any, ...], int]:
        connection = duckdb.connect(":memory:")
        full.fill(connection)
        return {tuple(names): weight for *names, weight in connection.execute(
            fold(plan, lambda part, below: part.render(below, Printing(salt=7)))).fetchall()}

    whole = world(seed=3, people=9, most_visits=3)
    here = sets(whole)
    assert here
    for key, smaller in removals(whole, "person"):
        assert sets(smaller) == {names: weight for names, weight in here.items() if key not in names}


def test_the_look_reads_what_was_printed(room: Bench) -> None:
    node, _, _ = room.relation(QUERIES[0])
    owners = stability(node, room.kernel).owners
    plain = [row[:2] for row in room.plain.execute(QUERIES[0]).fetchall()]

    class Open:
        reader, noise, solvers = room.reader, Secure(), USUAL

        @staticmethod
        def query(plan: Node) -> tuple[str, tuple[()]]:
            return fold(plan, lambda part, below: part.render(below, Printing(salt=7))), ()

    ((extension,),) = read(OwnerSets(input=node, owners=owners, summand=Count()), (1, 10**6), 1, Open())  # type: ignore[arg-type]
    assert extension.value(1) == 64 * len(plain)


def test_text_names_are_read() -> None:
    connection = duckdb.connect(":memory:")
    rows = (("x", "y", 1), ("y", "x", 1), ("z", None, 1))
    given = Given(columns=(("a", "VARCHAR"), ("b", "VARCHAR"), ("v", "BIGINT")), rows=rows)

    class Open:
        reader, noise, solvers = DuckReader(connection, "v"), Secure(), USUAL

        @staticmethod
        def query(plan: Node) -> tuple[str, tuple[()]]:
            return fold(plan, lambda part, below: part.render(below, Printing())), ()

    ((extension,),) = read(OwnerSets(input=given, owners=("a", "b"), summand=Count()), (1, 2), 1, Open())  # type: ignore[arg-type]
    assert [extension.value(0), extension.value(1)] == [64 * 2, 64 * 3]


def test_every_cell_has_sets_of_its_own() -> None:
    rows = ((1, 2, 0, 5), (2, 1, 0, 6), (2, 1, 1, 7), (None, 3, 1, 8), (None, None, 1, 9))
    given = Given(columns=(("a", "BIGINT"), ("b", "BIGINT"), ("k", "BIGINT"), ("v", "BIGINT")), rows=rows)
    plan = OwnerSets(input=Settled(input=given, column="k"), owners=("a", "b"), summand=WHOLE, cell="k")
    found = duckdb.sql(fold(plan, lambda node, below: node.render(below, Printing()))).fetchall()
    assert sorted(found) == [(0, 1, 2, 11), (1, 1, 2, 7), (1, 3, 3, 8)]
    with pytest.raises(InvalidPlan, match="whole numbers"):
        _ = OwnerSets(input=given, owners=("a", "b"), summand=WHOLE, cell="k").fields  # NULL is no cell
    with pytest.raises(InvalidPlan, match="cannot be a cell"):
        _ = OwnerSets(input=Settled(input=given, column="k"), owners=("a", "k"), summand=WHOLE, cell="k").fields


def Settled(input: Node, column: str) -> Node:
    """The rows with a column that is never NULL."""
    known = input.field(column).ref
    settled = Call(function="coalesce", args=(known, Literal(value=-1, type=known.type)), type=known.type)
    return Project(input=input, columns=tuple(
        (field.id, field.name, settled if field.id == column else field.ref) for field in input.fields))
