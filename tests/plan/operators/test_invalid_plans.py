"""What is not a plan, whoever put it together: unknown columns, wrong types, clashing names, sums that could raise."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import pytest
from support.small_tables import PEOPLE, TOWNS, TRUE, VISITS, Meets, equal, literal, people, ref, towns, visits

from dpsql.frozen import replace
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, Ref, Value
from dpsql.trusted.plan.node import Field, InvalidPlan, Node
from dpsql.trusted.plan.operators.arcs import Arcs
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.largest import Largest
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.owner_sets import OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.statistics import ExactAggregate, Statistics
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.types import Interval, Type

P, V, T = people(), visits(), towns()
GRID = Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True)
GIVEN = Contributions(input=V, owner="v_person", keys=("v_town",), summands=(Count(),))
WIDE = Constants(columns=tuple(Field(id=name, name=name, facts=Facts(type=Type.BIGINT, nullable=False, physical=Interval(-9, high)))
                              for name, high in (("c1", 9), ("c2", 2**50 + 1))), rows=((1, 1),))
UNKNOWN = Ref(column="q", type=Type.BIGINT)
BIG = Call(function="*", type=Type.BIGINT, args=(ref(P, "p_id"), Call(
    function="*", type=Type.BIGINT, args=(ref(P, "p_id"), ref(P, "p_id")))))


def _field(name: str, kind: Type = Type.BIGINT, *, nullable: bool = True, physical: Interval | None = None) -> Field:
    facts = Facts(type=kind, nullable=nullable)
    return Field(id=name, name=name, facts=facts if physical is None else replace(facts, physical=physical))


def _constants(value: Value, field: Field) -> Constants:
    return Constants(columns=(field,), rows=((value,),))


def _project(*columns: tuple[str, Expr]) -> Project:
    return Project(input=P, columns=tuple((name, name, expr) for name, expr in columns))


def _joined(left: Node, right: Node) -> Join:
    return Join(left=left, right=right, condition=TRUE)


def _group(**fold: object) -> GroupBy:
    return GroupBy(input=P, keys=("p_id",), folds=(Fold(id="c1", name="x", **fold),))  # type: ignore[arg-type]


INVALID: dict[str, Node] = {
    "scan: an undeclared column": Scan(table=TOWNS, columns=(("c1", "nowhere"),)),
    "scan: a private table without its owner": Scan(table=PEOPLE, columns=(("c1", "id"),)),
    "scan: another column as the owner": Scan(table=VISITS, columns=(("c1", "visit"),), owners=("c1",)),
    "scan: an owner of a public table": Scan(table=TOWNS, columns=(("c1", "town"),), owners=("c2",)),
    "scan: two columns of one name": Scan(table=TOWNS, columns=(("c1", "town"), ("c1", "land"))),
    "scan: names that differ in case only": Scan(table=TOWNS, columns=(("c1", "town"), ("C1", "land"))),
    "scan: a name with a quote": Scan(table=TOWNS, columns=(('c"1', "town"),)),
    "scan: a name of ours": Scan(table=TOWNS, columns=(("#", "town"),)),
    "constants: no rows": Constants(columns=(_field("c1"),), rows=()),
    "constants: rows of two lengths": Constants(columns=(_field("c1"),), rows=((1,), (1, 2))),
    "constants: NULL where there is none": _constants(None, _field("c1", nullable=False)),
    "constants: beyond its range": _constants(2**40, _field("c1", physical=Interval(0, 10))),
    "constants: one beyond its range": Constants(columns=(_field("c1", physical=Interval(0, 10)),), rows=((3,), (2**40,))),
    "filter: an unknown column": Filter(input=P, condition=equal(UNKNOWN, literal(1, Type.BIGINT))),
    "filter: not a truth value": Filter(input=P, condition=ref(P, "p_age")),
    "filter: a lie about a type": Filter(input=P, condition=Ref(column="p_age", type=Type.BOOLEAN)),
    "filter: no such function": Filter(input=P, condition=Call(function="sleep", args=(), type=Type.BOOLEAN)),
    "project: an unknown column": _project(("c1", UNKNOWN)),
    "project: could overflow": _project(("c1", BIG)),
    "project: two columns of one name": _project(("c1", ref(P, "p_id")), ("c1", ref(P, "p_age"))),
    "project: a number made of text": _project(("c1", Ref(column="p_name", type=Type.BIGINT))),
    "join: columns of both sides": Join(left=V, right=V, condition=TRUE),
    "join: columns of both sides, of which one is shown": Join(left=V, right=V, condition=TRUE, keep_left=True, bare=True),
    "join: an unknown column": Join(left=P, right=V, condition=equal(UNKNOWN, ref(P, "p_id"))),
    "join: not a truth value": Join(left=P, right=V, condition=ref(P, "p_id")),
    "join: types that differ": Join(left=P, right=V, condition=equal(ref(P, "p_id"), ref(V, "v_town"))),
    "join: one side alone of an inner join": Join(left=P, right=V, condition=TRUE, bare=True),
    "join: columns are merged that are not equated": Join(left=P, right=V, condition=TRUE, keep_left=True, keep_right=True,
                                                          merged=(Merged(id="m", name="m", left="p_id", right="v_person"),)),
    "join: columns are merged where a side is not kept": Join(left=P, right=V, condition=equal(ref(P, "p_id"), ref(V, "v_person")),
                                                              merged=(Merged(id="m", name="m", left="p_id", right="v_person"),)),
    "join: columns are merged where one side is kept": Join(left=P, right=V, keep_left=True,
                                                            condition=equal(ref(P, "p_id"), ref(V, "v_person")),
                                                            merged=(Merged(id="m", name="m", left="p_id", right="v_person"),)),
    "lookup: a column of both sides": Lookup(input=V, listed=V, keys=(), mark="c1", condition=TRUE),
    "lookup: a condition that is no truth value": Lookup(input=V, listed=T, keys=(), mark="c1", condition=ref(V, "v_visit")),
    "lookup: a condition on an unknown column": Lookup(input=V, listed=T, keys=(), mark="c1",
                                                       condition=equal(UNKNOWN, ref(V, "v_visit"))),
    "set operation: too few columns": SetOperation(kind="except", all=True, left=V, right=T, columns=(("c1", "a"),)),
    "set operation: no columns": SetOperation(kind="except", all=True, left=_project(), right=_project(), columns=()),
    "set operation: types that differ": SetOperation(
        kind="intersect", all=False, left=_project(("c1", literal(1, Type.BIGINT))), right=_project(("c2", literal("a", Type.VARCHAR))),
        columns=(("c3", "a"),)),
    "truncate keys: no rows": TruncateKeys(input=V, rows=0, keys=("v_town",), order=("v_visit",)),
    "truncate keys: an unknown column": TruncateKeys(input=V, rows=1, keys=("t_town",), order=("v_visit",)),
    "truncate keys: no order": TruncateKeys(input=V, rows=1, keys=(), order=()),
    "numbers: a column of the number's name": Numbers(input=_project(("number", ref(P, "p_id")), ("c1", ref(P, "p_age"))), keys=("c1",)),
    "numbers: no keys": Numbers(input=V, keys=()),
    "numbers: an unknown column": Numbers(input=V, keys=("t_town",)),
    "lookup: no keys": Lookup(input=V, listed=T, keys=(), mark="c1"),
    "lookup: a mark that is there": Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="v_cost"),
    "lookup: an unknown column": Lookup(input=V, listed=T, keys=((UNKNOWN, "t_size"),), mark="c1"),
    "lookup: an unknown column of the list": Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_nothing"),), mark="c1"),
    "lookup: types that differ": Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_size"),), mark="c1"),
    "lookup: a mark that the list has": Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="t_town"),
    "union: one part": UnionAll(parts=(T,), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"))),
    "union: parts of two widths": UnionAll(parts=(T, towns("u", "town")), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"))),
    "union: parts of two types": UnionAll(parts=(towns("t", "town"), towns("u", "size")), columns=(("c1", "a"),)),
    "union: two columns of one name": UnionAll(parts=(T, towns("u")), columns=(("c1", "a"), ("c1", "b"), ("c3", "c"))),
    "distinct: over what is none": Distinct(input=_project(("c1", UNKNOWN))),
    "group: an unknown key": GroupBy(input=P, keys=("q",), folds=()),
    "group: nothing": GroupBy(input=P, keys=(), folds=()),
    "group: an unknown column": _group(function="count", column="q"),
    "group: distinct of nothing": _group(function="count_distinct"),
    "group: a sum of nothing": _group(function="sum"),
    "group: a sum of text": _group(function="sum", column="p_name"),
    "group: a sum of numbers off a grid": _group(function="sum", column="p_x"),
    "group: an unknown function": _group(function="median", column="p_age"),
    "group: a result named as a key": GroupBy(input=P, keys=("p_id",), folds=(Fold(id="p_id", name="n", function="count"),)),
    "truncate: no rows": Truncate(input=V, rows=0, owner="v_person", order=()),
    "truncate: a truth value of rows": Truncate(input=V, rows=True, owner="v_person", order=()),
    "truncate: an unknown owner": Truncate(input=V, rows=1, owner="q", order=()),
    "truncate: an unknown order": Truncate(input=V, rows=1, owner="v_person", order=("q",)),
    "contributions: an unknown owner": Contributions(input=V, owner="q", keys=(), summands=(Count(),)),
    "contributions: the owner as a key": Contributions(input=V, owner="v_person", keys=("v_person",), summands=(Count(),)),
    "contributions: nothing": Contributions(input=V, owner="v_person", keys=(), summands=()),
    "contributions: an unknown key": Contributions(input=V, owner="v_person", keys=("q",), summands=(Count(),)),
    "contributions: a sum of text": Contributions(input=V, owner="v_person", keys=(),
                                                  summands=(GridSum(column="v_town", grid=GRID),)),
    "clip: an order of three": Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=3, bound=5),
    "clip: a bound of nothing": Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=0),
    "clip: a bound beyond what can be squared": Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=2**51),
    "clip: no columns": Clip(input=GIVEN, owner="v_person", columns=(), order=1, bound=5),
    "clip: an unknown column": Clip(input=GIVEN, owner="v_person", columns=("q",), order=1, bound=5),
    "clip: text": Clip(input=GIVEN, owner="v_person", columns=("v_town",), order=1, bound=5),
    "clip: what may be NULL": Clip(input=P, owner="p_id", columns=("p_age",), order=1, bound=5),
    "clip: the name of the entity": Clip(input=P, owner="p_id", columns=("p_id",), order=1, bound=5),
    "clip: whole numbers beyond 2^50": Clip(input=WIDE, owner="c1", columns=("c2",), order=1, bound=5),
    "norms: whole numbers beyond 2^50": Norms(input=WIDE, owner="c1", columns=("c2",), order=1),
    "norms: an order of three": Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=3),
    "norms: no columns": Norms(input=GIVEN, owner="v_person", columns=(), order=1),
    "norms: an unknown column": Norms(input=GIVEN, owner="v_person", columns=("q",), order=1),
    "norms: an unknown owner": Norms(input=GIVEN, owner="q", columns=("e0_0",), order=1),
    "norms: text": Norms(input=GIVEN, owner="v_person", columns=("v_town",), order=1),
    "norms: what may be NULL": Norms(input=P, owner="p_id", columns=("p_age",), order=1),
    "norms: the name of the entity": Norms(input=P, owner="p_id", columns=("p_id",), order=1),
    "largest: no sign": Largest(input=P, summand=GridSum(column="p_x", grid=GRID), sign=0, most=1),
    "largest: none of them": Largest(input=P, summand=GridSum(column="p_x", grid=GRID), sign=1, most=0),
    "sum of a join: two numbers of a row": JoinSum(input=P, summand=Moments(column="p_x", grid=GRID, degree=1)),  # type: ignore[arg-type]
    "sum of a join: text": JoinSum(input=P, summand=GridSum(column="p_name", grid=GRID)),
    "largest: text": Largest(input=P, summand=GridSum(column="p_name", grid=GRID), sign=1, most=1),
    "arcs: a name twice": Arcs(input=_joined(P, V), tail="p_id", head="p_id"),
    "arcs: names of two types": Arcs(input=_joined(P, T), tail="p_id", head="t_town"),
    "arcs: a name that may be NULL": Arcs(input=_joined(P, V), tail="v_visit", head="p_age"),
    "arcs: a tail that may be NULL": Arcs(input=_joined(P, V), tail="p_age", head="v_visit"),
    "shares: two numbers of a row": OwnerSets(input=P, owners=("p_id",), summand=Moments(  # type: ignore[arg-type]
        column="p_x", grid=GRID, degree=1)),
    "shares: nobody": OwnerSets(input=P, owners=(), summand=Count()),
    "shares: an owner twice": OwnerSets(input=P, owners=("p_id", "p_id"), summand=Count()),
    "shares: names of two types": OwnerSets(input=_joined(P, V), owners=("p_id", "v_town"), summand=Count()),
    "shares: a sum of text": OwnerSets(input=P, owners=("p_id",), summand=GridSum(column="p_name", grid=GRID)),
    "shares: a cell that is an owner": OwnerSets(input=_joined(P, V), owners=("p_id",), summand=Count(), cell="p_id"),
    "shares: a cell that is a value with room for one row": OwnerSets(
        input=_joined(P, V), owners=("p_id",), summand=Count(), cell="v_visit", once="v_visit"),
    "shares: a cell that may be NULL": OwnerSets(input=P, owners=("p_id",), summand=Count(), cell="p_age"),
    "shares: a cell that is text": OwnerSets(input=_joined(P, T), owners=("p_id",), summand=Count(), cell="t_town"),
    "shares: values with room for one row, which are summed": OwnerSets(
        input=_joined(P, V), owners=("p_id",), summand=GridSum(column="v_cost", grid=GRID), once="v_visit"),
    "shares: values with room for one row, which may be NULL": OwnerSets(input=_joined(P, V), owners=("p_id",), summand=Count(), once="v_town"),
    "shares: an owner with room for one row": OwnerSets(input=_joined(P, V), owners=("p_id",), summand=Count(), once="p_id"),
    "multiplicities: an unknown column": Multiplicities(input=V, keys=(), column="q"),
    "multiplicities: a condition that is a number": Multiplicities(input=V, keys=(), column="v_town", when="v_visit"),
    "multiplicities: a key named as a result": Multiplicities(
        input=_project(("times", ref(P, "p_x")), ("c1", ref(P, "p_id"))), keys=("times",), column="c1"),
    "tally: nothing": GroupedSums(input=V, keys=(), summands=()),
    "tally: an unknown key": GroupedSums(input=V, keys=("q",), summands=(Count(),)),
    "tally: the same key twice": GroupedSums(input=V, keys=("v_town", "v_town"), summands=(Count(),)),
    "tally: an unknown column": GroupedSums(input=V, keys=(), summands=(Count(column="q"),)),
    "tally: an unknown condition": GroupedSums(input=V, keys=(), summands=(Count(when="q"),)),
    "tally: a condition that is a number": GroupedSums(input=V, keys=(), summands=(Count(when="v_cost"),)),
    "tally: a sum of text": GroupedSums(input=V, keys=(), summands=(GridSum(column="v_town", grid=GRID),)),
    "tally: moments of truth values": GroupedSums(input=P, keys=(), summands=(Moments(column="p_active", grid=GRID, degree=1),)),
    "tally: dates on a grid of numbers": GroupedSums(input=P, keys=(), summands=(
        GridSum(column="p_born", grid=Quantizer(low=0.5, high=9.5, step=Fraction(1), from_low=True)),)),
    "tally: clipped text": GroupedSums(input=GIVEN, keys=(), summands=(Clipped(clipped=("v_town",)),)),
    "tally: clipped text beside a number": GroupedSums(input=GIVEN, keys=(), summands=(Clipped(clipped=("e0_0", "v_town")),)),
    "tally: clipped under a condition": GroupedSums(input=P, keys=(), summands=(Clipped(clipped=("p_id",), when="p_active"),)),
    "ranks: text": Ranks(input=P, keys=(), column="p_name", grid=GRID),
    "ranks: a grid from zero": Ranks(input=P, keys=(), column="p_x", grid=replace(GRID, from_low=False)),
    "ranks: an unknown key": Ranks(input=P, keys=("q",), column="p_x", grid=GRID),
    "ranks: a condition that is a number": Ranks(input=P, keys=(), column="p_x", grid=GRID, when="p_age"),
    "ranks: ties of more bits than there are": Ranks(input=P, keys=(), column="p_x", grid=GRID, ties=21),
    "ranks: ties of fewer bits than none": Ranks(input=P, keys=(), column="p_x", grid=GRID, ties=-1),
    "statistics: an unknown column": Statistics(input=T, keys=(), calls=(ExactAggregate(id="c1", function="sum", columns=("q",)),)),
    "statistics: an unknown condition": Statistics(input=T, keys=(), calls=(ExactAggregate(id="c1", function="count", when="q"),)),
    "ranks: a key named as a result": Ranks(
        input=_project(("value", ref(P, "p_x")), ("c1", ref(P, "p_id"))), keys=("value",), column="c1", grid=GRID),
}


@pytest.mark.parametrize("case", INVALID)
def test_it_is_not_a_plan(case: str) -> None:
    with pytest.raises(InvalidPlan):
        stability(INVALID[case], Meets(2))


@pytest.mark.parametrize("node", [
    _constants(3, _field("c1", physical=Interval(0, 10))), _constants(dt.date(2020, 1, 1), _field("c1", Type.DATE)),
    _constants("x", _field("c1", Type.VARCHAR, nullable=False)), _constants(float("nan"), _field("c1", Type.DOUBLE)),
    Join(left=V, right=T, condition=Literal(value=None, type=Type.BOOLEAN)), _group(function="min", column="p_name"),
    GroupBy(input=P, keys=("p_name",), folds=()), Arcs(input=_joined(P, V), tail="p_id", head="v_visit"),
    *(Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=bound) for bound in (1, 2**50)),
    *(Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=order) for order in (1, 2)),
    OwnerSets(input=_joined(P, V), owners=("p_id", "v_person"), summand=GridSum(column="v_cost", grid=GRID), cell="v_visit"),
    OwnerSets(input=_joined(P, V), owners=("p_id",), summand=Count(), once="v_visit"),
    Numbers(input=V, keys=tuple(V.env)), GroupedSums(input=_project(("c1", ref(P, "p_age"))), keys=(), summands=(Count(column="c1"),)), Largest(input=P, summand=GridSum(column="p_x", grid=GRID), sign=-1, most=1),
    GroupedSums(input=P, keys=("p_name", "p_x"), summands=(Count(when="p_active"), Moments(column="p_age", grid=GRID, degree=2))),
    GroupedSums(input=GIVEN, keys=(), summands=(Clipped(clipped=("e0_0",)),)),
    Ranks(input=P, keys=(), column="p_x", grid=GRID, ties=20), Statistics(
        input=towns("t", "size"), keys=(), calls=(ExactAggregate(id="c1", function="sum", columns=("t_size",), type=Type.BIGINT),)),
])
def test_it_is_one(node: Node) -> None:
    stability(node, Meets(2))


def test_moments_are_the_first_two_over_a_grid_that_can_be_squared() -> None:
    wide = replace(GRID, high=2.0**21)
    assert Moments(column="p_x", grid=wide, degree=2).l1 == 2**42 and Moments(column="p_x", grid=replace(GRID, high=1.0), degree=1).l1 == 1
    for grid, degree in ((GRID, 0), (GRID, 3), (replace(GRID, from_low=False), 1), (replace(GRID, high=0.0), 1), (replace(wide, high=2.0**21 + 1), 2)):
        with pytest.raises(ValueError, match="moments"):
            Moments(column="p_x", grid=grid, degree=degree)
