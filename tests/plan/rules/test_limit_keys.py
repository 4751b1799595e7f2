"""Keys are limited where an operator has no bound without, and nowhere else."""

from __future__ import annotations

import pytest
from support.small_tables import TOWNS, TRUE, VISITS, Meets, both, equal, literal, people, ref, scan, towns, visits

from dpsql.frozen import replace
from dpsql.questions.rules.keep_marks import keep_marks
from dpsql.questions.rules.limit_keys import Meeting, keep_keys, limit_keys
from dpsql.questions.rules.limit_rows import limit_rows
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.nodes import Call
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.window import Window, WindowFunction
from dpsql.types import Type

P, T = people(), towns()
V, W = (limit_rows(visits(name)) for name in ("v", "w"))
TOWN = equal(ref(V, "v_town"), ref(W, "w_town"))
MANY = Join(left=V, right=W, condition=TOWN)


def limited(plan: Node, rows: int = 4) -> Node:
    return limit_keys(plan, Meets(2), lambda meeting: rows)


def test_both_sides_of_a_join_are_limited() -> None:
    for plan in (MANY, replace(MANY, keep_left=True), replace(MANY, keep_left=True, keep_right=True)):
        found = limited(plan)
        assert found == replace(plan, left=keep_keys(V, ("v_town",), 4), right=keep_keys(W, ("w_town",), 4))
        assert stability(plan, Meets(2)).rows is None
        assert stability(found, Meets(2)).rows == 6 * 4 * (1 + plan.keep_right) + 6 * 4 * (1 + plan.keep_left)
    assert keep_keys(V, ("v_town",), 4) == TruncateKeys(input=V, rows=4, keys=("v_town",), order=("v_visit",))


@pytest.mark.parametrize("plan", [
    Join(left=P, right=V, condition=equal(ref(P, "p_id"), ref(V, "v_person"))),
    Join(left=V, right=T, condition=equal(ref(V, "v_town"), ref(T, "t_land"))),
    Join(left=T, right=V, condition=equal(ref(V, "v_town"), ref(T, "t_land")), keep_left=True),
    Join(left=V, right=W, condition=TRUE), Filter(input=V, condition=TRUE),
    Lookup(input=T, listed=V, keys=((ref(T, "t_land"), "v_town"),), mark="m"),
    Lookup(input=P, listed=V, keys=((ref(P, "p_id"), "v_visit"),), mark="m"),
    GroupBy(input=V, keys=("v_town",), folds=(Fold(id="n", name="n", function="count"),)),
])
def test_what_is_bounded_or_meets_by_no_column_stays(plan: Node) -> None:
    assert limited(plan) == plan


def test_only_the_side_that_needs_it_is_limited() -> None:
    """A person is met by any number of visits of an age, and a visit meets one person."""
    plan = Join(left=P, right=V, condition=equal(ref(P, "p_id"), ref(V, "v_visit")))
    assert limited(plan) == plan  # each has one partner
    plan = Join(left=P, right=V, condition=equal(ref(P, "p_age"), ref(V, "v_visit")))
    assert limited(plan) == replace(plan, left=keep_keys(P, ("p_age",), 4))
    looked = Lookup(input=V, listed=W, keys=((ref(V, "v_town"), "w_town"),), mark="m", keep=True)
    assert limited(looked) == replace(looked, input=keep_keys(V, ("v_town",), 4))
    window = Window(input=V, partition=("v_town",), order=(Term(column="v_cost"),), ties=("v_visit",), functions=(
        WindowFunction(id="n", name="n", function="rank"),))
    assert limited(window) == replace(window, input=keep_keys(V, ("v_town",), 4))


def test_all_columns_of_a_key_are_limited_together() -> None:
    plan = Join(left=V, right=W, condition=both(TOWN, equal(ref(V, "v_cost"), ref(W, "w_cost"))))
    found = limited(plan)
    assert isinstance(found, Join) and isinstance(found.left, TruncateKeys) and found.left.keys == ("v_town", "v_cost")


def test_nothing_changes_where_none_is_chosen() -> None:
    assert limit_keys(MANY, Meets(2), lambda meeting: None) == MANY


def test_places_are_found_from_below_and_each_once() -> None:
    third = limit_rows(visits("x"))
    plan = Join(left=MANY, right=third, condition=equal(ref(MANY, "w_town"), ref(third, "x_town")))
    asked: list[Meeting] = []

    def choose(meeting: Meeting) -> int:
        asked.append(meeting)
        return 2

    found = limit_keys(plan, Meets(2), choose)
    assert [meeting.keys for meeting in asked] == [("v_town",), ("w_town",), ("x_town",)]
    assert [meeting.label for meeting in asked] == ["town"] * 3 and asked[0].at == "the join on town = town"
    assert all(stability(meeting.side, Meets(2)).rows is not None for meeting in asked)
    assert isinstance(found, Join) and found.left.max_frequency(["w_town"]) == 4  # two of each town met two


def test_declared_limits_pass_through_what_multiplies_no_rows() -> None:
    table = replace(VISITS, rows_per_value={"town": 7})
    declared = limit_rows(scan(table, "v"))
    named = Project(input=declared, columns=(("c1", "where", ref(V, "v_town")), ("c2", "visit", ref(V, "v_visit"))))
    met = Join(left=named, right=T, condition=equal(ref(named, "c1"), ref(T, "t_town")))
    many = Join(left=named, right=T, condition=equal(ref(named, "c1"), ref(T, "t_land")))
    computed = Project(input=declared, columns=(("c1", "x", Call(function="lower", args=(ref(V, "v_town"),), type=Type.VARCHAR)),))
    for side, key, most in ((named, "c1", 7), (met, "c1", 7), (many, "c1", None), (computed, "c1", None)):
        other = limit_rows(visits("w"))
        plan = Join(left=side, right=other, condition=equal(ref(side, key), ref(other, "w_town")))
        asked: list[int | None] = []
        limit_keys(plan, Meets(2), lambda meeting, asked=asked: asked.append(meeting.declared))  # type: ignore[misc]
        assert asked == [most, None]


def test_limits_of_public_tables_mean_nothing() -> None:
    assert not replace(TOWNS, rows_per_value={}).rows_per_value
    assert limited(Join(left=T, right=towns("u"), condition=equal(ref(T, "t_land"), ref(towns("u"), "u_land")))).inputs == (
        T, towns("u"))


# -- keep_marks

LOOKED = Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="m")
AGAIN = Lookup(input=LOOKED, listed=towns("u"), keys=((ref(V, "v_town"), "u_land"),), mark="n")
M, N = LOOKED.field("m").ref, AGAIN.field("n").ref
COSTLY = Call(function=">", args=(ref(visits("v"), "v_cost"), literal(1.0, Type.DOUBLE)), type=Type.BOOLEAN)


def no(part: Call | object) -> Call:
    return Call(function="not", args=(part,), type=Type.BOOLEAN)  # type: ignore[arg-type]


def test_a_condition_on_marks_becomes_part_of_the_lookups() -> None:
    kept = replace(AGAIN, input=replace(LOOKED, keep=True), keep=False)
    assert keep_marks(Filter(input=LOOKED, condition=M)) == replace(LOOKED, keep=True)
    assert keep_marks(Filter(input=LOOKED, condition=no(no(M)))) == replace(LOOKED, keep=True)
    assert keep_marks(Filter(input=AGAIN, condition=both(M, no(N)))) == kept
    assert keep_marks(Filter(input=AGAIN, condition=both(both(M, COSTLY), no(N)))) == Filter(input=kept, condition=COSTLY)


@pytest.mark.parametrize("condition", [
    COSTLY, Call(function="or", args=(M, N), type=Type.BOOLEAN), no(both(M, N)), equal(M, N)])
def test_other_conditions_stay(condition: Call) -> None:
    plan = Filter(input=AGAIN, condition=condition)
    assert keep_marks(plan) == plan


def test_a_mark_that_contradicts_itself_stays_a_condition() -> None:
    assert keep_marks(Filter(input=LOOKED, condition=both(M, no(M)))) == Filter(input=replace(LOOKED, keep=True), condition=no(M))


def test_marks_below_something_else_stay() -> None:
    plan = Filter(input=Truncate(input=LOOKED, rows=1, owner="v_person", order=("v_visit",)), condition=M)
    assert keep_marks(plan) == plan
