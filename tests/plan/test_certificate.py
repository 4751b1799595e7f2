"""Sensitivities of what is summed, and the place where a bound was lost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from support.laws.family import nodes
from support.small_tables import TRUE, both, equal, people, ref, towns, visits

from dpsql.frozen import replace
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.plan.certificate import Sensitivity, Unbounded, certify, first_unbounded, stabilities
from dpsql.trusted.plan.node import InvalidPlan, Node
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.union import UnionAll

P, V, T, W = people(), visits(), towns(), visits("w")
THREE = Truncate(input=V, rows=3, owner="v_person", order=("v_visit",))
TENTHS = Quantizer(low=-3.0, high=10.0, step=Fraction(1, 10), from_low=False)
FROM_LOW = replace(TENTHS, from_low=True)
GIVEN = Contributions(input=V, owner="v_person", keys=("v_town",), summands=(Count(), Count(column="v_cost")))
CLIP = Clip(input=GIVEN, owner="v_person", columns=("e0_0", "e1_0"), order=2, bound=5)


def sums(plan: GroupedSums) -> list[tuple[int | None, int]]:
    return [(found.l1, found.l2) for found in certify(plan, NoPublicFacts()).summands]


@pytest.mark.parametrize(("summand", "row"), [
    (Count(), 1), (Count(column="v_town", when=None), 1),
    (GridSum(column="v_cost", grid=TENTHS), 100), (GridSum(column="v_cost", grid=replace(TENTHS, low=-30.0)), 300),
    (Moments(column="v_cost", grid=FROM_LOW, degree=1), 130), (Moments(column="v_cost", grid=FROM_LOW, degree=2), 130**2),
    (Moments(column="v_cost", grid=FROM_LOW, degree=2, missing=True), 130**2),
])
def test_a_sum_moves_by_the_rows_of_an_entity(summand: Summand, row: int) -> None:
    assert sums(GroupedSums(input=THREE, keys=(), summands=(summand,))) == [(3 * row, 3 * row)]
    assert sums(GroupedSums(input=THREE, keys=("v_town",), summands=(summand, Count()))) == [(3 * row, 3 * row), (3, 3)]
    assert sums(GroupedSums(input=people(), keys=(), summands=(Count(),))) == [(1, 1)]


def test_public_sums_do_not_move() -> None:
    assert sums(GroupedSums(input=T, keys=("t_land",), summands=(Count(),))) == [(0, 0)]


class EmptyPublicTables:
    """All public tables have no rows."""

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        return 0


@pytest.mark.parametrize("plan", [
    Join(left=P, right=T, condition=TRUE), Join(left=T, right=THREE, condition=equal(ref(T, "t_land"), ref(THREE, "v_town"))),
    Distinct(input=Join(left=P, right=T, condition=TRUE)),
    GroupBy(input=Join(left=P, right=T, condition=TRUE), keys=(), folds=(Fold(id="n", name="n", function="count"),)),
    Lookup(input=T, listed=P, keys=((ref(T, "t_town"), "p_name"),), mark="m"),
])
def test_what_is_public_is_not_decided_by_rows(plan: Node) -> None:
    """A join with an empty public table moves with nobody, and is private all the same: nothing that reads private rows is free."""
    known = stabilities(plan, EmptyPublicTables())
    assert not known[id(plan)].public
    for node, found in ((node, known[id(node)]) for node in nodes(plan)):
        assert found.public == (not any(isinstance(part, Scan) and not part.table.public for part in nodes(node)))
    if known[id(plan)].rows is not None:
        assert all(part.l2 > 0 for part in certify(GroupedSums(input=plan, keys=(), summands=(Count(),)), EmptyPublicTables()).summands)


def test_clipped_sums_move_by_their_bound() -> None:
    both_columns = Clipped(clipped=("e0_0", "e1_0"))
    assert sums(GroupedSums(input=CLIP, keys=("v_town",), summands=(both_columns,))) == [(None, 5)]
    assert sums(GroupedSums(input=replace(CLIP, order=1), keys=("v_town",), summands=(both_columns,))) == [(5, 5)]
    assert sums(GroupedSums(input=CLIP, keys=("v_town",), summands=(Clipped(clipped=("e1_0",)),))) == [(None, 5)]


def test_an_l1_norm_may_be_added_up_in_a_cell_and_an_l2_norm_may_not() -> None:
    """Four ones in four towns have an l2 norm of two, and add up to four."""
    summand = Clipped(clipped=("e0_0", "e1_0"))
    assert sums(GroupedSums(input=replace(CLIP, order=1), keys=(), summands=(summand,))) == [(5, 5)]
    with pytest.raises(InvalidPlan):
        certify(GroupedSums(input=CLIP, keys=(), summands=(summand,)), NoPublicFacts())
    one = Clip(input=replace(GIVEN, keys=()), owner="v_person", columns=("e0_0", "e1_0"), order=2, bound=5)
    assert sums(GroupedSums(input=one, keys=(), summands=(summand,))) == [(None, 5)]


@pytest.mark.parametrize("plan", [
    GroupedSums(input=GIVEN, keys=("v_town",), summands=(Clipped(clipped=("e0_0",)),)),
    GroupedSums(input=replace(CLIP, columns=("e0_0",)), keys=("v_town",), summands=(Clipped(clipped=("e0_0", "e1_0")),)),
    GroupedSums(input=CLIP, keys=("v_town",), summands=(Clipped(clipped=("e0_0", "e0_0")),)),
    GroupedSums(input=CLIP, keys=("v_town",), summands=(Clipped(clipped=("e0_0",), when="e0_0"),)),
    GroupedSums(input=Distinct(input=CLIP), keys=("v_town",), summands=(Clipped(clipped=("e0_0",)),)),
    GroupedSums(input=Clip(input=GIVEN, owner="v_town", columns=("e0_0",), order=1, bound=5), keys=("v_town",),
                summands=(Clipped(clipped=("e0_0",)),)),
    GroupedSums(input=UnionAll(parts=(replace(CLIP, order=1), replace(CLIP, order=1)),
                               columns=(("c1", "a"), ("c2", "b"), ("e0_0", "c"), ("e1_0", "d"))),
                keys=(), summands=(Clipped(clipped=("e0_0",)),)),
    GroupedSums(input=Project(input=CLIP, columns=(("c1", "o", ref(CLIP, "v_person")), ("e0_0", "t", ref(CLIP, "e1_0")))), keys=(),
                summands=(Clipped(clipped=("e0_0",)),)),
], ids=["not clipped", "clipped apart", "one column twice", "a condition", "after DISTINCT", "clipped by another owner",
        "clipped twice", "one of the clipped columns under the name of another"])
def test_what_was_not_clipped_is_not_summed_as_clipped(plan: GroupedSums) -> None:
    with pytest.raises(InvalidPlan):
        certify(plan, NoPublicFacts())


@pytest.mark.parametrize(("plan", "apart"), [
    (GroupedSums(input=Distinct(input=Project(input=V, columns=(("c1", "o", ref(V, "v_person")), ("c2", "t", ref(V, "v_town"))))),
                 keys=("c2",), summands=(Count(),)), True),
    (GroupedSums(input=CLIP, keys=("v_town",), summands=(Clipped(clipped=("e0_0",)),)), True),
    (GroupedSums(input=people(), keys=(), summands=(Count(),)), True),
    (GroupedSums(input=people(), keys=("p_name",), summands=(Count(),)), True),
    (GroupedSums(input=THREE, keys=("v_town",), summands=(Count(),)), False),
    (GroupedSums(input=THREE, keys=("v_visit",), summands=(Count(),)), True),
    (GroupedSums(input=T, keys=("t_town",), summands=(Count(),)), False),
])
def test_whether_rows_of_an_entity_fall_into_different_cells(plan: GroupedSums, apart: bool) -> None:
    limited = replace(plan, input=Truncate(input=plan.input, rows=9, owner="c1", order=("c2",))) if (
        "c1" in plan.input.env) else plan
    assert certify(limited, NoPublicFacts()).disjoint_cells is apart


def test_rows_in_different_cells_add_up_as_the_sides_of_a_right_angle() -> None:
    apart = GroupedSums(input=replace(THREE, rows=5), keys=("v_visit",), summands=(Count(),))
    assert certify(apart, NoPublicFacts()).summands == (Sensitivity(l1=5, l2=3),)  # 3 is the square root of 5, rounded up
    assert certify(replace(apart, input=replace(THREE, rows=9)), NoPublicFacts()).summands == (Sensitivity(l1=9, l2=3),)
    assert certify(replace(apart, keys=("v_town",), input=replace(THREE, rows=9)), NoPublicFacts()).summands == (Sensitivity(l1=9, l2=9),)


# -- where a bound was lost

MEET = equal(ref(V, "v_town"), ref(W, "w_town"))
LOST = Join(left=V, right=W, condition=MEET)
MIXED = GroupBy(input=V, keys=("v_town",), folds=(Fold(id="n", name="n", function="count"),))
KEPT = Join(left=T, right=V, keep_left=True, condition=equal(ref(T, "t_town"), ref(V, "v_town")))


@pytest.mark.parametrize(("plan", "lost", "because"), [
    (LOST, LOST, "each row belongs to the entities of both sides"),
    (Distinct(input=Filter(input=LOST, condition=TRUE)), None, "a value disappears only with the last row that has it"),
    (MIXED, MIXED, "a group mixes the rows of many entities"),
    (Filter(input=MIXED, condition=TRUE), MIXED, "a group mixes the rows of many entities"),
    (KEPT, KEPT, "each row matches at most one public row, and public rows are kept, which belong to no entity"),
    (V, V, "owned by visits.person; rows per entity not yet limited"),
    (Join(left=P, right=LOST, condition=TRUE), None, "each row belongs to the entities of both sides"),
    (Join(left=P, right=V, condition=both(equal(ref(P, "p_id"), ref(V, "v_visit")), TRUE)), None,
     "each row belongs to the entities of both sides"),
])
def test_the_lowest_operator_that_lost_a_bound(plan: Node, lost: Node | None, because: str) -> None:
    known = stabilities(plan, NoPublicFacts())
    node, stability = first_unbounded(plan, known)
    assert node is (lost or plan)
    assert stability.because == because
    with pytest.raises(Unbounded) as fault:
        certify(GroupedSums(input=plan, keys=(), summands=(Count(),)), NoPublicFacts())
    assert (fault.value.node, str(fault.value)) == (lost or plan, because)
