"""Window functions: how far they move, what is known of their columns, and that they do not depend on the order of rows."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache
from typing import Any

import duckdb
import pytest
from support.small_tables import PUBLIC, Meets, owned, people, ref, towns, visits

from dpsql.backends.row_orders import tie_breaks
from dpsql.frozen import replace
from dpsql.questions.chosen_grids import quantizer
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.node import Field, InvalidPlan, Node, Printing, Stability, fold
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.groupby import MOST_ROWS
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.window import Frame, Window, WindowFunction
from dpsql.types import ANY_NUMBER, Interval, Type

P, V, T = people(), visits(), towns()
CAPPED = TruncateKeys(input=V, rows=4, keys=("v_town",), order=("v_visit",))
KEYLESS = Project(input=V, columns=(("c1", "person", ref(V, "v_person")), ("c2", "town", ref(V, "v_town")), ("c3", "cost", ref(V, "v_cost"))))
NUMBER = WindowFunction(id="n", name="n", function="row_number")
BEFORE = WindowFunction(id="b", name="b", function="lag", column="v_visit")
NEXT = WindowFunction(id="x", name="x", function="lead", column="v_visit")
TOTAL = WindowFunction(id="s", name="s", function="sum", column="v_visit", frame=Frame(rows=True, start=-2, end=1))


def window(node: Node, partition: tuple[str, ...], *functions: WindowFunction, ties: tuple[str, ...] | None = None, **given: Any) -> Window:
    order = given.pop("order", ())
    chosen = tie_breaks(node, {*partition, *(term.column for term in order)}) if ties is None else ties
    return Window(input=node, partition=partition, order=order, ties=chosen, functions=functions, **given)


MOVES: dict[str, tuple[Window, Stability, tuple[int | None, str | None]]] = {
    "of one entity": (window(V, ("v_person",), NUMBER, BEFORE), owned("v_person", 3), (3, "v_person")),
    "of one entity, by more": (window(V, ("v_town", "v_person"), TOTAL), owned("v_person", 3), (3, "v_person")),
    "of one entity, unlimited": (window(V, ("v_person",), NUMBER), owned("v_person"), (None, "v_person")),
    "of others": (window(V, ("v_town",), NUMBER), owned("v_person", 3), (None, None)),
    "of all": (window(V, (), NUMBER), owned("v_person", 3), (None, None)),
    "of two entities, by one": (window(V, ("v_person",), NUMBER), Stability(rows=3, owners=("v_person", "v_visit")), (None, None)),
    "of two entities, by both": (window(V, ("v_person", "v_visit"), NUMBER), Stability(rows=3, owners=("v_person", "v_visit")),
                                 (3, None)),
    "of few rows": (window(CAPPED, ("v_town",), NUMBER), owned("v_person", 3), (3 * 7, None)),
    "of few rows, by more": (window(CAPPED, ("v_town", "v_cost"), NUMBER), Stability(rows=6), (6 * 7, None)),
    "of few rows, by less": (window(CAPPED, ("v_cost",), NUMBER), Stability(rows=6), (None, None)),
    "of few rows, unlimited below": (window(CAPPED, ("v_town",), NUMBER), Stability(rows=None), (None, None)),
    "of one row each": (window(V, ("v_visit",), NUMBER), owned("v_person", 3), (3, "v_person")),
    "the row before": (window(V, (), BEFORE), owned("v_person", 3), (9, None)),
    "the row before, of few": (window(CAPPED, ("v_town",), BEFORE), Stability(rows=6), (18, None)),
    "two rows before": (window(V, (), replace(BEFORE, number=2)), owned("v_person", 3), (15, None)),
    "the rows before and after": (window(V, (), BEFORE, NEXT), owned("v_person", 3), (15, None)),
    "the row after": (window(V, (), NEXT), owned("v_person", 3), (9, None)),
    "the row before, and rows after": (window(V, (), BEFORE, replace(TOTAL, frame=Frame(rows=True, start=1, end=2))), owned("v_person", 3),
                                       (3 * 7, None)),
    "the row after, and rows before": (window(V, (), NEXT, replace(TOTAL, frame=Frame(rows=True, start=-2, end=-1))), owned("v_person", 3),
                                       (3 * 7, None)),
    "the row itself": (window(V, (), replace(BEFORE, number=0)), owned("v_person", 3), (3, None)),
    "a frame of rows": (window(V, ("v_town",), TOTAL), owned("v_person", 3), (3 * 7, None)),
    "a frame of rows before": (window(V, (), replace(TOTAL, frame=Frame(rows=True, start=-3, end=-2))), owned("v_person", 3),
                               (3 * 7, None)),
    "a frame of rows after": (window(V, (), replace(TOTAL, frame=Frame(rows=True, start=1, end=2))), owned("v_person", 3),
                              (3 * 5, None)),
    "a frame without end": (window(V, (), replace(TOTAL, frame=Frame(rows=True, start=0))), owned("v_person", 3), (None, None)),
    "a frame of peers": (window(V, (), replace(TOTAL, frame=Frame(start=0, end=0))), owned("v_person", 3), (None, None)),
    "a frame and a number": (window(V, (), TOTAL, NUMBER), owned("v_person", 3), (None, None)),
    "by what does not tell rows apart": (window(V, ("v_person",), NUMBER, ties=("v_town",)), owned("v_person", 3), (None, None)),
    "by all columns, without a key": (window(KEYLESS, ("c1",), NUMBER, order=(Term(column="c3"),), ties=("c2", "c3")), owned("c1", 3),
                                      (3, "c1")),
    "by all columns, but zeros of two signs tie": (window(KEYLESS, ("c1",), NUMBER, order=(Term(column="c3"),), ties=("c2",)),
                                                   owned("c1", 3), (None, None)),
    "of public rows": (window(T, (), WindowFunction(id="n", name="n", function="row_number")), PUBLIC, (0, None)),
}


@pytest.mark.parametrize("case", MOVES)
def test_how_far_one_entity_moves_it(case: str) -> None:
    node, below, expected = MOVES[case]
    known = node.stability((below,), Meets(2))
    assert (known.rows, known.owner) == expected
    assert node.fields


def facts(*functions: WindowFunction, node: Node = V, partition: tuple[str, ...] = ("v_person",), most: int | None = None) -> Facts:
    return window(node, partition, *functions, most_rows=most).fields[-1].facts


def test_what_is_known_of_places() -> None:
    assert facts(NUMBER) == Facts(type=Type.BIGINT, nullable=False, physical=Interval(1, MOST_ROWS), whole=True,
                                  declared=Interval(1, math.inf))
    assert facts(NUMBER, most=3).declared == Interval(1, 3) and facts(NUMBER, most=3).domain == Domain((1, 2, 3))
    assert facts(NUMBER, most=1000).declared == Interval(1, 1000) and facts(NUMBER, most=1000).domain is None
    assert facts(replace(NUMBER, function="dense_rank"), most=3).declared == Interval(1, 3)
    parts = facts(replace(NUMBER, function="ntile", number=4), most=9)
    assert (parts.physical, parts.declared, parts.nullable) == (Interval(1, 4), Interval(1, 4), False)


def test_what_is_known_of_values_of_other_rows() -> None:
    below = V.field("v_visit").facts
    assert not below.nullable and facts(BEFORE) == replace(below, nullable=True)
    assert facts(replace(BEFORE, otherwise="v_visit")) == below
    mixed = facts(replace(BEFORE, otherwise="v_person"))
    assert (mixed.nullable, mixed.physical) == (V.field("v_person").facts.nullable, below.physical)
    first = WindowFunction(id="f", name="f", function="first_value", column="v_visit")
    assert facts(first) == below
    assert facts(replace(first, frame=Frame(rows=True, start=1, end=2))).nullable


def test_what_is_known_of_sums() -> None:
    assert facts(TOTAL).declared == ANY_NUMBER  # of keys without a declared range
    grid = quantizer(P.field("p_x").facts, from_low=False)
    total = WindowFunction(id="s", name="s", function="sum", column="p_x", grid=grid)
    assert facts(total, node=P, partition=("p_id",), most=3).declared == Interval(0, 30)
    narrow = replace(total, frame=Frame(rows=True, start=-1, end=0))
    assert facts(narrow, node=P, partition=("p_id",), most=3).declared == Interval(0, 20)
    assert facts(replace(total, function="count", grid=None), node=P, partition=("p_id",), most=3).declared == Interval(0, 3)
    assert facts(replace(narrow, function="min", frame=Frame(rows=True, start=-1, end=-1)), node=P, partition=("p_id",)).nullable


def test_row_numbers_tell_rows_of_a_partition_apart() -> None:
    assert window(V, ("v_town",), NUMBER).max_frequency(["v_town", "n"]) == 1
    assert window(V, ("v_town",), NUMBER).max_frequency(["n"]) is None
    assert window(V, (), NUMBER).max_frequency(["n"]) == 1
    assert window(V, ("v_town",), replace(NUMBER, function="rank")).max_frequency(["v_town", "n"]) is None
    assert window(CAPPED, ("v_town",), BEFORE).max_frequency(["v_town"]) == 4


INVALID = {
    "no functions": window(V, ("v_person",)),
    "an unknown partition": window(V, ("q",), NUMBER, ties=("v_visit",)),
    "an unknown order": window(V, (), NUMBER, order=(Term(column="q"),), ties=("v_visit",)),
    "unknown ties": window(V, (), NUMBER, ties=("q",)),
    "an unknown column": window(V, (), replace(BEFORE, column="q")),
    "an unknown function": window(V, (), replace(NUMBER, function="percent_rank")),
    "an unknown function of a column": window(V, (), replace(BEFORE, function="nth_value")),
    "the row before of nothing": window(V, (), replace(BEFORE, column=None)),
    "the first of nothing": window(V, (), WindowFunction(id="f", name="f", function="first_value")),
    "a sum of nothing": window(V, (), replace(TOTAL, column=None)),
    "a sum of text": window(V, (), replace(TOTAL, column="v_town")),
    "a sum of numbers off a grid": window(V, (), replace(TOTAL, column="v_cost")),
    "another type where there is no row": window(V, (), replace(BEFORE, otherwise="v_town")),
    "no parts": window(V, (), replace(NUMBER, function="ntile", number=0)),
    "a row after, as one before": window(V, (), replace(BEFORE, number=-1)),
    "a row too far before": window(V, (), replace(BEFORE, number=2**31 + 1)),
    "a frame that reaches too far": window(V, (), replace(TOTAL, frame=Frame(rows=True, start=-(2**31) - 1, end=0))),
    "a frame that ends before it begins": window(V, (), replace(TOTAL, frame=Frame(rows=True, start=1, end=0))),
    "a frame of peers at a distance": window(V, (), replace(TOTAL, frame=Frame(start=-1, end=0))),
    "a column that is there": window(V, (), replace(NUMBER, id="v_town")),
}


@pytest.mark.parametrize("case", INVALID)
def test_it_is_not_a_plan(case: str) -> None:
    with pytest.raises(InvalidPlan):
        stability(INVALID[case], Meets(2))


def test_rows_may_be_as_far_away_as_this() -> None:
    far = replace(TOTAL, frame=Frame(rows=True, start=-(2**31), end=2**31))
    assert window(V, (), replace(BEFORE, number=2**31), far).stability((owned("v_person", 3),), Meets(2)).rows == 3 * (1 + 2 * 2**32)
    assert window(V, (), replace(BEFORE, number=2**31), far).fields


# -- what is computed does not depend on the order in which rows come

NAN = float("nan")
ROWS = [(1, 0.0, "a"), (1, -0.0, "a"), (1, NAN, "b"), (1, NAN, "b"), (1, None, "b"), (1, 2.0, None), (2, 0.0, "a"), (2, 0.0, "a")]
FIELDS = (Field(id="k", name="k", facts=Facts(type=Type.BIGINT)), Field(id="x", name="x", facts=Facts(type=Type.DOUBLE)),
          Field(id="t", name="t", facts=Facts(type=Type.VARCHAR)))
GIVEN = Constants(columns=FIELDS, rows=tuple(ROWS))
FUNCTIONS = [
    NUMBER, replace(NUMBER, id="r", function="rank"), replace(NUMBER, id="t4", function="ntile", number=4),
    WindowFunction(id="l", name="l", function="lag", column="x"), WindowFunction(id="d", name="d", function="lead", column="t", number=2, otherwise="t"),
    WindowFunction(id="f", name="f", function="first_value", column="x", frame=Frame(rows=True, start=-1, end=1)),
    WindowFunction(id="g", name="g", function="last_value", column="x", frame=Frame(end=0)),
    WindowFunction(id="h", name="h", function="first_value", column="t", frame=Frame(start=0)),
    WindowFunction(id="c", name="c", function="count", column="x", frame=Frame(rows=True, end=0)),
    WindowFunction(id="m", name="m", function="max", column="x", frame=Frame(rows=True, start=-1, end=-1)),
]


@cache
def engine() -> duckdb.DuckDBPyConnection:
    """Without a table, as the rows are in the text: to start one takes longer than to read them."""
    return duckdb.connect(":memory:", config={"threads": 1})


def shown(node: Node) -> Counter[tuple[str, ...]]:
    text = fold(node, lambda part, below: part.render(below, Printing(salt=3)))
    columns = ", ".join(f'CAST(t."{field.id}" AS VARCHAR)' for field in node.fields)
    return Counter(engine().execute(f"SELECT {columns} FROM ({text}) AS t").fetchall())


@pytest.mark.parametrize("order", [(), (Term(column="x"),), (Term(column="t", descending=True, nulls_first=True),)], ids=str)
@pytest.mark.parametrize("functions", [[part] for part in FUNCTIONS] + [FUNCTIONS, FUNCTIONS[:4]], ids=lambda found: found[0].function)
def test_the_order_in_which_rows_come_makes_no_difference(functions: list[WindowFunction], order: tuple[Term, ...]) -> None:
    expected = None
    for turn in range(len(ROWS)):
        for rows in (ROWS[turn:] + ROWS[:turn], (ROWS[turn:] + ROWS[:turn])[::-1]):
            found = shown(window(replace(GIVEN, rows=tuple(rows)), ("k",), *functions, order=order))
            expected = expected or found
            assert found == expected


def test_equal_rows_are_numbered_once_for_all_functions() -> None:
    """A row number beside a sum up to the row: of equal rows, the one that comes first has the smaller of both."""
    same = replace(GIVEN, rows=((1, 1.0, "a"),) * 5)
    total = WindowFunction(id="s", name="s", function="count", frame=Frame(rows=True, end=0))
    pairs = [row[-2:] for row in shown(window(same, ("k",), NUMBER, total)).elements()]
    assert sorted(pairs) == [(str(i), str(i)) for i in range(1, 6)]
    text = window(same, ("k",), NUMBER, total).render(("<0>",), Printing())
    assert text.count('ORDER BY t0."#"') == 2 and text.count("ROW_NUMBER() OVER (PARTITION BY t1.") == 1


def test_a_key_breaks_ties_alone() -> None:
    assert tie_breaks(V, {"v_person"}) == ("v_visit",)
    assert tie_breaks(V, {"v_visit"}) == ()
    assert tie_breaks(GIVEN, {"k", "x"}) == ("x", "t")  # 0.0 and -0.0 are equal, and not the same
    bare = Project(input=V, columns=(("a", "a", ref(V, "v_town")), ("b", "b", Ref(column="v_person", type=Type.BIGINT))))
    assert tie_breaks(bare, {"b"}) == ("a",)


def test_values_that_frames_hold_agree_with_a_count_by_hand() -> None:
    rows = tuple((1, float(i), None) for i in range(6))
    for start, end in itertools.product([None, -2, 0, 1], [None, -1, 0, 2]):
        if start is not None and end is not None and start > end:
            continue
        part = WindowFunction(id="c", name="c", function="count", frame=Frame(rows=True, start=start, end=end))
        found = shown(window(replace(GIVEN, rows=rows), ("k",), part, order=(Term(column="x"),)))
        counts = {int(float(row[1])): int(row[-1]) for row in found}
        low, high = (-10 if start is None else start), (10 if end is None else end)
        assert counts == {i: sum(low <= j - i <= high for j in range(6)) for i in range(6)}


@pytest.mark.parametrize(("frame", "first", "last"), [
    (Frame(rows=True, start=-1, end=1), "001234", "123455"), (Frame(rows=True, start=1, end=2), "12345-", "23455-"),
    (Frame(rows=True, end=-1), "-00000", "-01234"), (Frame(rows=True, start=0), "012345", "555555"), (Frame(), "000000", "555555")])
def test_the_first_and_the_last_value_are_those_of_the_frame(frame: Frame, first: str, last: str) -> None:
    """Of more rows than the frame has, they would depend on rows that its reach does not count."""
    given = replace(GIVEN, rows=tuple((1, float(i), str(i)) for i in range(6)))
    ends = [WindowFunction(id=name[0], name=name, function=name, column="t", frame=frame) for name in ("first_value", "last_value")]
    found = sorted(shown(window(given, ("k",), *ends, order=(Term(column="x"),))).elements(), key=lambda row: row[1])
    assert [tuple(row[-2:]) for row in found] == [tuple(None if end == "-" else end for end in pair) for pair in zip(first, last, strict=True)]
