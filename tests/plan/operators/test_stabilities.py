"""How far one entity moves each operator, case by case as the docstrings have it."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

import pytest
from support.small_tables import PUBLIC, TRUE, Meets, both, equal, literal, notes, owned, people, ref, towns, visits

from dpsql.backends.row_orders import row_order
from dpsql.frozen import replace
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.functions import SAFE_INTEGERS
from dpsql.trusted.plan.expr.nodes import Call
from dpsql.trusted.plan.node import Field, Node, Norm, SplitBy, Stability
from dpsql.trusted.plan.operators.arcs import Arcs, moves
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter, has_ends
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy, fold_facts
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.largest import Largest
from dpsql.trusted.plan.operators.lookup import LISTED, Lookup
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.owner_sets import LARGEST, OwnerSets, lipschitz_constant, slack
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.statistics import Statistics
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window, WindowFunction
from dpsql.types import Interval, Span, Type

P, V, N, T, W = people(), visits(), notes(), towns(), visits("w")
NORM = Norm(order=1, bound=5, columns=("e0_0",))
N_ROWS = (Fold(id="n", name="n", function="count"),)
OWNERS = equal(ref(P, "p_id"), ref(V, "v_person"))
SELVES = equal(ref(V, "v_person"), ref(W, "w_person"))
TOWN = equal(ref(V, "v_town"), ref(T, "t_town"))
LAND = equal(ref(V, "v_town"), ref(T, "t_land"))
GIVEN = Contributions(input=V, owner="v_person", keys=("v_town",), summands=(Count(),))
ONE = Contributions(input=V, owner="v_person", keys=(), summands=(Count(),))
TWICE = Truncate(input=V, rows=2, owner="v_person", order=("v_visit",))
LANDS = TruncateKeys(input=T, rows=5, keys=("t_land",), order=("t_town",))
CAPPED = TruncateKeys(input=W, rows=5, keys=("w_town",), order=("w_visit",))
MET = Join(left=TWICE, right=CAPPED, condition=equal(ref(V, "v_town"), ref(W, "w_town")))
FEW = replace(MET, left=TruncateKeys(input=V, rows=3, keys=("v_town",), order=("v_visit",)))
OWNED = Merged(id="o", name="person", left="v_person", right="w_person")
SAME = SetOperation(kind="except", all=True, left=V, right=W, columns=(("c1", "a"), ("c2", "b"), ("c3", "c"), ("c4", "d")))
NO_KEY = UnionAll(parts=(V, W), columns=(("u1", "a"), ("u2", "b"), ("u3", "c"), ("u4", "d")))
LIMITED = [Call(function=function, args=(ref(V, column), literal(end, Type.BIGINT)), type=Type.BOOLEAN)
           for column, low, high in (("v_visit", 1, 9), ("v_person", 2, 4)) for function, end in ((">=", low), ("<=", high))]
JOIN, LOOKUP = Join(left=V, right=T, condition=TOWN), Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="c1")
BOTH = Join(left=P, right=V, condition=TRUE)
TEXTS = Join(left=T, right=towns("u"), condition=TRUE)
NUMBERS = Constants(columns=tuple(Field(id=name, name=name, facts=Facts(type=Type.DOUBLE, nullable=False)) for name in ("a", "b")),
                    rows=((1.0, 2.0),))
COSTS = Project(input=V, columns=(("c1", "t", ref(V, "v_town")), ("c2", "c", ref(V, "v_cost"))))
V2 = Project(input=V, columns=tuple((f"c{i}", field.name, field.ref) for i, field in enumerate(V.fields)))
ABS = Project(input=P, columns=(("c1", "a", ref(P, "p_id")), ("c2", "b", Call(function="abs", args=(ref(P, "p_id"),), type=Type.BIGINT))))
IDS = Project(input=P, columns=(("c1", "a", ref(P, "p_id")), ("c2", "b", ref(P, "p_age"))))
GROUPED = GroupBy(input=ABS, keys=("c1", "c2"), folds=(
    Fold(id="n", name="n", function="count"), Fold(id="d", name="d", function="count_distinct", column="c2"),
    Fold(id="s", name="s", function="sum", column="c1"), Fold(id="low", name="low", function="min", column="c1"),
    Fold(id="high", name="high", function="max", column="c2")))
PLACED = Window(input=ABS, partition=("c1",), order=(), ties=("c1",), functions=(
    WindowFunction(id="n", name="n", function="row_number"), WindowFunction(id="q", name="q", function="ntile", number=4),
    WindowFunction(id="l", name="l", function="lag", column="c1"),
    WindowFunction(id="o", name="o", function="lag", column="c1", otherwise="c2"),
    WindowFunction(id="f", name="f", function="first_value", column="c2"), WindowFunction(id="a", name="a", function="avg", column="c1")))


def says(node: Node, *below: Stability, meets: int = 7) -> tuple[int | None, str | None]:
    found = node.stability(below, Meets(meets))
    return found.rows, found.owner


CASES: dict[str, tuple[Node, tuple[Stability, ...], tuple[int | None, str | None]]] = {
    "scan: the owner is a key of the table": (P, (), (1, "p_id")),
    "scan: rows are not limited": (V, (), (None, "v_person")),
    "scan: the owner is a parent's": (N, (), (None, "n_owner")),
    "scan: public": (T, (), (0, None)),
    "filter keeps all": (Filter(input=V, condition=TRUE), (owned("v_person", 3),), (3, "v_person")),
    "filter where few rows have a name": (Filter(input=TWICE, condition=TRUE), (owned("v_person"),), (2, "v_person")),
    "filter where fewer rows have a name": (Filter(input=TWICE, condition=TRUE), (owned("v_person", 3),), (2, "v_person")),
    "filter of fewer rows than have a name": (Filter(input=TWICE, condition=TRUE), (owned("v_person", 1),), (1, "v_person")),
    "project keeps the owner under its new name": (V2, (owned("v_person", 3),), (3, "c1")),
    "project without the owner": (Project(input=V, columns=(("c1", "t", ref(V, "v_town")),)), (owned("v_person", 3),), (3, None)),
    "project that computes the owner": (
        Project(input=V, columns=(("c1", "o", Call(function="abs", args=(ref(V, "v_person"),), type=Type.BIGINT)),)),
        (owned("v_person", 3),), (3, None)),
    "lookup in a public list": (Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="c1"),
                                (owned("v_person", 3), PUBLIC), (3, "v_person")),
    "lookup among the entity's own rows": (Lookup(input=P, listed=V, keys=((ref(P, "p_id"), "v_person"),), mark="c1"),
                                           (owned("p_id", 1), owned("v_person")), (1, "p_id")),
    "lookup in a private list by another column": (Lookup(input=P, listed=V, keys=((ref(P, "p_id"), "v_visit"),), mark="c1"),
                                                   (owned("p_id", 1), owned("v_person", 3)), (7, None)),
    "lookup in a private list, one mark kept": (
        Lookup(input=P, listed=V, keys=((ref(P, "p_id"), "v_visit"),), mark="c1", keep=False),
        (owned("p_id", 1), owned("v_person", 3)), (4, None)),
    "lookup in a private list by a column of many rows": (
        Lookup(input=V, listed=W, keys=((ref(V, "v_town"), "w_town"),), mark="c1", keep=True),
        (owned("v_person", 3), owned("w_person", 3)), (None, None)),
    "lookup in a private list by a column of few rows": (
        Lookup(input=CAPPED, listed=V, keys=((ref(W, "w_town"), "v_town"),), mark="c1", keep=True),
        (Stability(rows=4), owned("v_person", 3)), (19, None)),
    "lookup of something made of the owner": (
        Lookup(input=P, listed=V, mark="c1",
               keys=((Call(function="abs", args=(ref(P, "p_id"),), type=Type.BIGINT), "v_person"),)),
        (owned("p_id", 1), owned("v_person", 3)), (None, None)),
    "lookup of public rows in a private list": (Lookup(input=T, listed=V, keys=((ref(T, "t_town"), "v_town"),), mark="c1"),
                                                (PUBLIC, owned("v_person", 3)), (6, None)),
    "lookup of public rows that share a value": (
        Lookup(input=T, listed=V, keys=((ref(T, "t_land"), "v_town"),), mark="c1", keep=True),
        (PUBLIC, owned("v_person", 3)), (21, None)),
    "lookup of public rows of which few share a value": (
        Lookup(input=LANDS, listed=V, keys=((ref(T, "t_land"), "v_town"),), mark="c1", keep=True),
        (PUBLIC, owned("v_person", 3)), (15, None)),
    "lookup of public rows by a condition": (
        Lookup(input=T, listed=V, keys=(), mark="c1", condition=equal(ref(T, "t_land"), ref(V, "v_town"))),
        (PUBLIC, owned("v_person", 3)), (42, None)),
    "lookup in a private list that nobody owns": (Lookup(input=P, listed=V, keys=((ref(P, "p_id"), "v_person"),), mark="c1"),
                                                  (owned("p_id", 1), Stability(rows=3)), (7, None)),
    "lookup of rows that nobody owns": (Lookup(input=P, listed=V, keys=((ref(P, "p_id"), "v_person"),), mark="c1"),
                                        (Stability(rows=1), owned("v_person", 3)), (7, None)),
    "join with a public key": (Join(left=V, right=T, condition=TOWN), (owned("v_person", 3), PUBLIC), (3, "v_person")),
    "join with public rows that share a value": (Join(left=V, right=T, condition=LAND), (owned("v_person", 3), PUBLIC),
                                                 (21, "v_person")),
    "join with public rows of which few share a value": (Join(left=V, right=LANDS, condition=LAND), (owned("v_person", 3), PUBLIC),
                                                         (15, "v_person")),
    "join with all public rows": (Join(left=V, right=T, condition=TRUE), (owned("v_person", 3), PUBLIC), (21, "v_person")),
    "join, public on the left": (Join(left=T, right=V, condition=LAND), (PUBLIC, owned("v_person", 3)), (21, "v_person")),
    "join of public tables": (Join(left=towns("u"), right=T, condition=TRUE), (PUBLIC, PUBLIC), (0, None)),
    "join with public rows, of unlimited rows": (Join(left=V, right=T, condition=LAND), (owned("v_person"), PUBLIC),
                                                 (None, "v_person")),
    "join with public rows, of rows that nobody owns": (Join(left=V, right=T, condition=LAND), (Stability(rows=2), PUBLIC),
                                                        (14, None)),
    "left join that keeps public rows": (Join(left=T, right=V, condition=TOWN, keep_left=True), (PUBLIC, owned("v_person", 3)),
                                         (6, None)),
    "full join that keeps public rows": (Join(left=V, right=T, condition=LAND, keep_left=True, keep_right=True),
                                         (owned("v_person", 3), PUBLIC), (42, None)),
    "right join that keeps private rows": (Join(left=T, right=V, condition=TOWN, keep_right=True), (PUBLIC, owned("v_person", 3)),
                                           (3, "v_person")),
    "join of an entity's own rows, one partner right": (Join(left=V, right=P, condition=OWNERS),
                                                        (owned("v_person", 3), owned("p_id", 1)), (3, "v_person")),
    "join of an entity's own rows, one partner left": (Join(left=P, right=V, condition=OWNERS),
                                                       (owned("p_id"), owned("v_person", 3)), (3, "p_id")),
    "join of an entity's own rows with each other": (Join(left=V, right=W, condition=SELVES),
                                                     (owned("v_person", 3), owned("w_person", 4)), (12, "v_person")),
    "join of an entity's own rows, none left": (Join(left=V, right=W, condition=SELVES), (owned("v_person", 0), owned("w_person", 4)),
                                                (0, "w_person")),
    "join of an entity's own rows, none right": (Join(left=V, right=W, condition=SELVES), (owned("v_person", 3), owned("w_person", 0)),
                                                 (0, "v_person")),
    "join of an entity's own rows, one side unlimited": (Join(left=V, right=W, condition=SELVES),
                                                         (owned("v_person", 3), owned("w_person")), (None, "v_person")),
    "left join of an entity's own rows": (Join(left=V, right=W, condition=SELVES, keep_left=True),
                                          (owned("v_person", 3), owned("w_person", 4)), (12, "v_person")),
    "left join, one partner left": (Join(left=P, right=V, condition=OWNERS, keep_left=True),
                                    (owned("p_id", 2), owned("v_person", 3)), (4, "p_id")),
    "left join, one partner left, unlimited right": (Join(left=P, right=V, condition=OWNERS, keep_left=True),
                                                     (owned("p_id", 2), owned("v_person")), (None, "p_id")),
    "left join, one partner left, two right": (
        Join(left=P, right=Truncate(input=V, rows=2, owner="v_person", order=("v_visit",)), condition=OWNERS, keep_left=True),
        (owned("p_id", 2), owned("v_person", 3)), (3, "p_id")),
    "left join, one partner right": (Join(left=V, right=P, condition=OWNERS, keep_left=True),
                                     (owned("v_person", 3), owned("p_id", 1)), (3, "v_person")),
    "join of private rows that meet by another column": (
        Join(left=V, right=W, condition=equal(ref(V, "v_town"), ref(W, "w_town"))),
        (owned("v_person", 3), owned("w_person", 3)), (None, None)),
    "join where equal owners are but one way": (
        Join(left=V, right=W, condition=Call(function="or", args=(SELVES, TRUE), type=Type.BOOLEAN)),
        (owned("v_person", 3), owned("w_person", 3)), (None, None)),
    "join of rows that nobody owns": (Join(left=V, right=W, condition=SELVES), (Stability(rows=3), owned("w_person", 3)),
                                      (None, None)),
    "join by keys of few rows": (MET, (owned("v_person", 2), Stability(rows=6)), (None, None)),
    "join by keys of few rows on both sides": (FEW, (Stability(rows=4), Stability(rows=6)), (4 * 5 + 6 * 3, None)),
    "left join by keys of few rows": (replace(FEW, keep_left=True), (Stability(rows=4), Stability(rows=6)),
                                      (4 * 5 + 6 * 2 * 3, None)),
    "right join by keys of few rows": (replace(FEW, keep_right=True), (Stability(rows=4), Stability(rows=6)),
                                       (4 * 2 * 5 + 6 * 3, None)),
    "full join by keys of few rows": (replace(FEW, keep_left=True, keep_right=True), (Stability(rows=4), Stability(rows=6)),
                                      (4 * 2 * 5 + 6 * 2 * 3, None)),
    "left join by keys of few rows, the left side alone": (
        replace(FEW, keep_left=True, bare=True), (Stability(rows=4), Stability(rows=6)), (38, None)),
    "right join by keys of few rows, the right side alone": (
        replace(FEW, keep_right=True, bare=True), (Stability(rows=4), Stability(rows=6)), (38, None)),
    "join of owners by keys of few rows": (FEW, (owned("v_person", 4), owned("w_person", 6)), (38, None)),
    "join to constants": (Join(left=V, right=Constants(columns=(T.field("t_size"),), rows=((1,), (1,))), condition=TRUE),
                          (Stability(rows=4), Stability(rows=3)), (None, None)),
    "full join of an entity's own rows": (Join(left=V, right=W, condition=SELVES, keep_left=True, keep_right=True),
                                          (owned("v_person", 3), owned("w_person", 4)), (12, None)),
    "full join of an entity's own rows, with a merged owner": (
        Join(left=V, right=W, condition=SELVES, keep_left=True, keep_right=True, merged=(OWNED,)),
        (owned("v_person", 3), owned("w_person", 4)), (12, "o")),
    "full join, with a merged owner and a merged column of one side's": (
        Join(left=V, right=W, keep_left=True, keep_right=True, condition=both(SELVES, equal(ref(V, "v_visit"), ref(W, "w_person"))),
             merged=(OWNED, Merged(id="m", name="m", left="v_visit", right="w_person"))),
        (owned("v_person", 3), owned("w_person", 4)), (7, "o")),
    "full join, one row each": (
        Join(left=V, right=W, condition=SELVES, keep_left=True, keep_right=True, merged=(OWNED,)),
        (owned("v_person", 1), owned("w_person", 1)), (2, "o")),
    "full join, one partner each": (
        Join(left=V, right=W, condition=both(SELVES, equal(ref(V, "v_visit"), ref(W, "w_visit"))), keep_left=True,
             keep_right=True, merged=(OWNED,)), (owned("v_person", 3), owned("w_person", 4)), (7, "o")),
    "right join of an entity's own rows": (Join(left=V, right=P, condition=OWNERS, keep_right=True),
                                           (owned("v_person", 3), owned("p_id", 2)), (4, "p_id")),
    "intersection with the owner": (replace(SAME, kind="intersect"), (owned("v_person", 3), owned("w_person", 2)), (2, "c2")),
    "intersection, the owner in different places": (replace(SAME, kind="intersect"), (owned("v_person", 3), owned("w_visit", 2)),
                                                    (5, None)),
    "intersection with public rows": (replace(SAME, kind="intersect"), (owned("v_person", 3), PUBLIC), (3, "c2")),
    "intersection with rows that nobody owns": (replace(SAME, kind="intersect"), (owned("v_person", 3), Stability(rows=2)),
                                                (5, None)),
    "intersection with unlimited rows": (replace(SAME, kind="intersect"), (owned("v_person", 3), owned("w_person")), (3, "c2")),
    "difference with the owner": (SAME, (owned("v_person", 3), owned("w_person", 2)), (3, "c2")),
    "difference with the owner, unlimited right": (SAME, (owned("v_person", 3), owned("w_person")), (3, "c2")),
    "difference, the owner in different places": (SAME, (owned("v_person", 3), owned("w_visit", 2)), (5, None)),
    "difference with public rows": (SAME, (owned("v_person", 3), PUBLIC), (3, "c2")),
    "difference of public rows": (SAME, (PUBLIC, owned("w_person", 2)), (2, None)),
    "difference with rows that nobody owns": (SAME, (owned("v_person", 3), Stability(rows=2)), (5, None)),
    "difference of public tables": (SAME, (PUBLIC, PUBLIC), (0, None)),
    "intersection of different rows": (replace(SAME, kind="intersect", all=False), (owned("v_person", 3), owned("w_person", 2)), (2, "c2")),
    "difference of owners": (
        SetOperation(kind="except", all=False, columns=(("c1", "o"),),
                     left=Project(input=V, columns=(("d1", "o", ref(V, "v_person")),)),
                     right=Project(input=W, columns=(("e1", "o", ref(W, "w_person")),))), (owned("d1"), owned("e1")), (1, "c1")),
    "union of private parts": (UnionAll(parts=(V, W), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"), ("c4", "d"))),
                               (owned("v_person", 3), owned("w_person", 4)), (7, "c2")),
    "union, the owner in different places": (UnionAll(parts=(V, W), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"), ("c4", "d"))),
                                             (owned("v_person", 3), owned("w_visit", 4)), (7, None)),
    "union with a public part": (UnionAll(parts=(V, W), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"), ("c4", "d"))),
                                 (owned("v_person", 3), PUBLIC), (3, None)),
    "union with an unlimited part": (UnionAll(parts=(V, W), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"), ("c4", "d"))),
                                     (owned("v_person"), owned("w_person", 3)), (None, "c2")),
    "distinct with the owner": (Distinct(input=V), (owned("v_person", 3),), (3, "v_person")),
    "distinct owners": (Distinct(input=Project(input=V, columns=(("c1", "o", ref(V, "v_person")),))), (owned("c1"),), (1, "c1")),
    "distinct owners of rows that never move": (Distinct(input=Project(input=V, columns=(("c1", "o", ref(V, "v_person")),))),
                                                (owned("c1", 0),), (0, None)),
    "distinct rows that nobody owns": (Distinct(input=V), (Stability(rows=3),), (3, None)),
    "distinct public rows": (Distinct(input=T), (PUBLIC,), (0, None)),
    "group by the owner": (GroupBy(input=V, keys=("v_person",), folds=N_ROWS), (owned("v_person"),), (1, "v_person")),
    "group by the owner and more": (GroupBy(input=V, keys=("v_town", "v_person"), folds=N_ROWS), (owned("v_person", 3),),
                                    (3, "v_person")),
    "group by the owner and more, unlimited": (GroupBy(input=V, keys=("v_town", "v_person"), folds=N_ROWS), (owned("v_person"),),
                                               (None, "v_person")),
    "group that mixes entities": (GroupBy(input=V, keys=("v_town",), folds=N_ROWS), (owned("v_person", 3),), (6, None)),
    "group that mixes entities, unlimited": (GroupBy(input=V, keys=("v_town",), folds=N_ROWS), (owned("v_person"),), (None, None)),
    "group of all rows": (GroupBy(input=V, keys=(), folds=N_ROWS), (owned("v_person"),), (2, None)),
    "group of all rows, of which few move": (GroupBy(input=V, keys=(), folds=N_ROWS), (owned("v_person", 3),), (2, None)),
    "group of rows that nobody owns": (GroupBy(input=V, keys=("v_person",), folds=N_ROWS), (Stability(rows=3),), (6, None)),
    "group of one row each": (GroupBy(input=V, keys=("v_visit",), folds=N_ROWS), (Stability(rows=3),), (3, None)),
    "group by the owner of rows that never move": (GroupBy(input=V, keys=("v_person",), folds=N_ROWS), (owned("v_person", 0),), (0, None)),
    "group of public rows": (GroupBy(input=T, keys=("t_land",), folds=N_ROWS), (PUBLIC,), (0, None)),
    "truncate": (Truncate(input=V, rows=3, owner="v_person", order=("v_visit",)), (owned("v_person"),), (3, "v_person")),
    "truncate by all columns": (Truncate(input=V, rows=3, owner="v_person", order=("v_visit", "v_town", "v_cost")),
                                (owned("v_person"),), (3, "v_person")),
    "truncate fewer rows than there are": (Truncate(input=V, rows=9, owner="v_person", order=("v_visit",)),
                                           (owned("v_person", 3),), (3, "v_person")),
    "truncate by what does not tell rows apart": (Truncate(input=V, rows=3, owner="v_person", order=("v_town",)),
                                                  (owned("v_person"),), (None, None)),
    "truncate by another owner": (Truncate(input=V, rows=3, owner="v_visit", order=("v_visit",)), (owned("v_person", 9),),
                                  (None, None)),
    "truncate public rows": (Truncate(input=T, rows=3, owner="t_town", order=()), (PUBLIC,), (0, None)),
    "truncate keys": (TruncateKeys(input=V, rows=2, keys=("v_town",), order=("v_visit",)), (owned("v_person", 3),), (6, None)),
    "truncate keys, unlimited rows": (TruncateKeys(input=V, rows=2, keys=("v_town",), order=("v_visit",)), (owned("v_person"),),
                                      (None, None)),
    "truncate keys, rows without a key that are equal": (TruncateKeys(input=COSTS, rows=2, keys=("c1",), order=("c2",)), (Stability(rows=3),),
                                                         (6, None)),
    "truncate keys, rows without a key but for zeros of two signs": (TruncateKeys(input=COSTS, rows=2, keys=("c2",), order=("c1",)),
                                                                    (Stability(rows=3),), (None, None)),
    "truncate keys of one entity each": (TruncateKeys(input=V, rows=2, keys=("v_person", "v_town"), order=("v_visit",)),
                                         (owned("v_person", 3),), (3, "v_person")),
    "truncate keys, the entity alone": (TruncateKeys(input=V, rows=2, keys=("v_person",), order=("v_visit",)),
                                        (owned("v_person"),), (2, "v_person")),
    "truncate keys, the entity alone, of more rows": (TruncateKeys(input=V, rows=2, keys=("v_person",), order=("v_visit",)),
                                                      (owned("v_person", 3),), (2, "v_person")),
    "truncate keys, the entity alone, of fewer rows": (TruncateKeys(input=V, rows=2, keys=("v_person",), order=("v_visit",)),
                                                       (owned("v_person", 1),), (1, "v_person")),
    "truncate keys of nobody": (TruncateKeys(input=V, rows=2, keys=("v_person",), order=("v_visit",)), (Stability(rows=3),),
                                (6, None)),
    "truncate keys by what does not tell rows apart": (TruncateKeys(input=V, rows=2, keys=("v_person",), order=("v_town",)),
                                                       (owned("v_person", 3),), (None, None)),
    "truncate keys of public rows": (TruncateKeys(input=T, rows=2, keys=("t_land",), order=("t_town",)), (PUBLIC,), (0, None)),
    "numbers": (Numbers(input=V, keys=("v_town",)), (owned("v_person", 3),), (3, None)),
    "numbers, unlimited": (Numbers(input=V, keys=("v_town",)), (owned("v_person"),), (None, None)),
    "numbers of public rows": (Numbers(input=T, keys=("t_land",)), (PUBLIC,), (0, None)),
    "contributions": (ONE, (owned("v_person"),), (1, "v_person")),
    "contributions by keys": (GIVEN, (owned("v_person", 3),), (3, "v_person")),
    "contributions of others": (GIVEN, (owned("v_visit", 3),), (None, None)),
    "clip": (Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=5), (owned("v_person", 3),), (3, "v_person")),
    "norms": (Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=2), (owned("v_person", 3),), (1, "v_person")),
    "norms of public rows": (Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=2), (PUBLIC,), (0, None)),
    "norms others": (Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=2), (Stability(rows=3),), (None, None)),
    "clip others": (Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=5), (Stability(rows=3),), (None, None)),
    "tally": (GroupedSums(input=V, keys=(), summands=(Count(),)), (owned("v_person", 3),), (None, None)),
    "tally of public rows": (GroupedSums(input=T, keys=(), summands=(Count(),)), (PUBLIC,), (0, None)),
    "ranks": (Ranks(input=P, keys=(), column="p_age", grid=Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True)),
              (owned("p_id", 1),), (None, None)),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_and_owner(case: str) -> None:
    node, below, expected = CASES[case]
    _ = node.fields
    assert says(node, *below) == expected


PAIR = Project(input=Join(left=V, right=W, condition=equal(ref(V, "v_town"), ref(W, "w_town"))), columns=(
    ("c1", "a", ref(V, "v_person")), ("c2", "b", ref(W, "w_person")), ("c3", "t", ref(V, "v_town"))))
TWO = Stability(rows=None, owners=("c1", "c2"))
COLUMNS = (("d1", "a"), ("d2", "b"), ("d3", "t"))


def full(left: Node, right: Node, *pairs: tuple[str, str], merged: int = 0) -> Join:
    """A full join on equal columns, of which the first pairs are merged."""
    return Join(left=left, right=right, keep_left=True, keep_right=True,
                condition=reduce(both, (equal(ref(left, a), ref(right, b)) for a, b in pairs)),
                merged=tuple(Merged(id=f"m{i}", name="m", left=a, right=b) for i, (a, b) in enumerate(pairs[:merged])))


@pytest.mark.parametrize(("node", "below", "owners"), [
    (PAIR.input, (owned("v_person", 3), owned("w_person", 3)), ("v_person", "w_person")),
    (replace(PAIR.input, keep_left=True), (owned("v_person", 3), owned("w_person", 3)), ()),
    (PAIR, (Stability(rows=None, owners=("v_person", "w_person")),), ("c1", "c2")),
    (replace(PAIR, columns=PAIR.columns[1:]), (Stability(rows=None, owners=("v_person", "w_person")),), ()),
    (Filter(input=PAIR, condition=TRUE), (TWO,), ("c1", "c2")),
    (Distinct(input=PAIR), (TWO,), ("c1", "c2")),
    (GroupBy(input=PAIR, keys=("c2", "c1"), folds=N_ROWS), (TWO,), ("c1", "c2")),
    (GroupBy(input=PAIR, keys=("c1",), folds=N_ROWS), (TWO,), ()),
    (GroupBy(input=PAIR, keys=("c1", "c3"), folds=N_ROWS), (TWO,), ()),
    (UnionAll(parts=(PAIR, PAIR), columns=COLUMNS), (TWO, TWO), ("d1", "d2")),
    (UnionAll(parts=(PAIR, PAIR), columns=COLUMNS), (TWO, replace(TWO, owners=("c2", "c1"))), ("d1", "d2")),
    (UnionAll(parts=(PAIR, PAIR), columns=COLUMNS), (TWO, replace(TWO, owners=("c1",))), ()),
    (UnionAll(parts=(PAIR, PAIR), columns=COLUMNS), (TWO, PUBLIC), ()),
    (Join(left=PAIR, right=P, condition=equal(ref(PAIR, "c1"), ref(P, "p_id"))), (TWO, owned("p_id", 1)), ("c1", "c2")),
    (Join(left=PAIR, right=P, condition=TRUE), (TWO, owned("p_id", 1)), ("c1", "c2", "p_id")),
    (Join(left=P, right=PAIR, condition=equal(ref(P, "p_id"), ref(PAIR, "c2"))), (owned("p_id", 1), TWO), ("p_id", "c1")),
    (Join(left=PAIR, right=P, keep_left=True, condition=equal(ref(PAIR, "c1"), ref(P, "p_id"))), (TWO, owned("p_id", 1)),
     ("c1", "c2")),
    (Join(left=P, right=PAIR, keep_left=True, condition=equal(ref(P, "p_id"), ref(PAIR, "c1"))), (owned("p_id", 1), TWO), ()),
    (Join(left=P, right=PAIR, keep_right=True, condition=equal(ref(P, "p_id"), ref(PAIR, "c1"))), (owned("p_id", 1), TWO), ("c1", "c2")),
    (Join(left=PAIR, right=P, keep_left=True, condition=equal(ref(PAIR, "c2"), ref(P, "p_id"))), (TWO, owned("p_id", 1)), ("c1", "c2")),
    (Join(left=PAIR, right=T, keep_left=True, condition=TRUE), (TWO, PUBLIC), ("c1", "c2")),
    (full(P, PAIR, ("p_id", "c1"), ("p_id", "c2")), (owned("p_id", 1), TWO), ()),
    (full(P, PAIR, ("p_id", "c1"), ("p_id", "c2"), merged=1), (owned("p_id", 1), TWO), ()),
    (full(PAIR, P, ("c1", "p_id"), ("c2", "p_id"), merged=1), (TWO, owned("p_id", 1)), ()),
    (full(P, PAIR, ("p_id", "c1"), merged=1), (owned("p_id", 1), TWO), ()),
    (full(P, PAIR, ("p_id", "c1"), ("p_id", "c2"), merged=2), (owned("p_id", 1), TWO), ("m0", "m1")),
    (Lookup(input=PAIR, listed=P, keys=((ref(PAIR, "c2"), "p_id"),), mark="m"), (TWO, owned("p_id", 1)), ("c1", "c2")),
    (Lookup(input=P, listed=PAIR, keys=((ref(P, "p_id"), "c1"),), mark="m"), (owned("p_id", 1), TWO), ()),
    (Lookup(input=P, listed=PAIR, keys=((ref(P, "p_id"), "c1"), (ref(P, "p_id"), "c2")), mark="m"), (owned("p_id", 1), TWO),
     ("p_id",)),
    (Truncate(input=PAIR, rows=1, owner="c1", order=("c2", "c3")), (TWO,), ()),
    (Contributions(input=PAIR, owner="c1", keys=("c2",), summands=(Count(),)), (TWO,), ()),
])
def test_rows_of_several_entities(node: Node, below: tuple[Stability, ...], owners: tuple[str, ...]) -> None:
    found = node.stability(below, Meets(7))
    assert found.owners == owners
    assert found.rows == (1 if owners == ("p_id",) else None)


def test_a_union_with_public_rows_has_them_once_and_not_once_for_each_set_of_entities() -> None:
    union = UnionAll(parts=(PAIR, PAIR), columns=COLUMNS)
    assert union.split_by((SplitBy.ENTITIES, SplitBy.ENTITIES)) is SplitBy.ENTITIES
    for other in (SplitBy.PUBLIC, SplitBy.WHOLE):
        assert union.split_by((SplitBy.ENTITIES, other)) is union.split_by((other, other)) is SplitBy.WHOLE


def test_a_row_of_two_entities_has_no_one_owner() -> None:
    assert TWO.owner is None and replace(TWO, owners=("c1",)).owner == "c1" and replace(TWO, owners=()).owner is None


def test_how_far_numbers_of_degrees_move() -> None:
    assert [moves(3, mutual=mutual) for mutual in (True, False)] == [4, 7]


def test_how_far_sums_of_shares_move() -> None:
    """By the level, in units of 1 / 64, and by what they may be above their exact value: where flows are not exact, by a unit of each."""
    small, large = 2**30 - 1, 2**30
    assert [slack(level, owners) for owners in (1, 2, 3) for level in (small, large)] == [0, 0, 0, large, small, large]
    assert [lipschitz_constant(5, owners) for owners in (1, 2, 3)] == [320, 320, 325]


def test_constants_are_public() -> None:
    assert Constants(columns=(T.field("t_size"),), rows=((1,),)).stability((), NoPublicFacts()).public


def test_public_rows_that_never_meet() -> None:
    inner, outer = (Join(left=V, right=T, condition=LAND, keep_left=keep) for keep in (False, True))
    assert says(inner, owned("v_person", 3), PUBLIC, meets=0) == (0, "v_person")
    assert says(outer, owned("v_person", 3), PUBLIC, meets=0) == (3, "v_person")


def test_a_key_beside_other_conditions_is_still_a_key() -> None:
    for condition in (both(TOWN, LAND), both(TRUE, equal(ref(T, "t_town"), ref(V, "v_town")))):
        assert says(Join(left=V, right=T, condition=condition), owned("v_person", 3), PUBLIC) == (3, "v_person")


def test_only_columns_of_both_sides_are_equated() -> None:
    within = both(equal(ref(V, "v_visit"), ref(V, "v_person")), equal(ref(T, "t_town"), ref(T, "t_land")))
    within = both(within, both(equal(ref(V, "v_visit"), literal(1, Type.BIGINT)), equal(literal(1, Type.BIGINT), ref(V, "v_visit"))))
    turned = both(equal(ref(T, "t_town"), ref(V, "v_town")), equal(ref(V, "v_town"), ref(T, "t_land")))
    assert Join(left=V, right=T, condition=both(within, turned)).equated == (("v_town", "t_town"), ("v_town", "t_land"))


@pytest.mark.parametrize("node", [FEW, CASES["group of all rows"][0], CASES["lookup in a public list"][0], PLACED])
def test_its_place_in_the_text_is_no_part_of_a_plan(node: Node) -> None:
    assert replace(node, span=Span(3, 9)) == node  # type: ignore[call-arg]


@pytest.mark.parametrize(("node", "norm"), [
    (Filter(input=GIVEN, condition=TRUE), NORM),
    (Truncate(input=GIVEN, rows=1, owner="v_person", order=("v_town",)), NORM),
    (Project(input=GIVEN, columns=(("c1", "o", ref(GIVEN, "v_person")), ("c2", "n", ref(GIVEN, "e0_0")),
                                   ("c3", "n", ref(GIVEN, "e0_0")))), Norm(order=1, bound=5, columns=("c2",))),
    (Project(input=GIVEN, columns=(("c1", "o", ref(GIVEN, "v_person")),)), None),
    (Project(input=GIVEN, columns=(("c1", "n", Call(function="abs", args=(ref(GIVEN, "e0_0"),), type=Type.BIGINT)),)), None),
    (Distinct(input=GIVEN), None),
    (GroupBy(input=GIVEN, keys=("v_person", "e0_0"), folds=N_ROWS), None),
    (Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=2, bound=3), Norm(order=2, bound=3, columns=("e0_0",))),
])
def test_norms(node: Node, norm: Norm | None) -> None:
    assert node.stability((owned("v_person", 3, NORM),), NoPublicFacts()).norm == norm


def test_what_is_known_of_sums_of_an_entity() -> None:
    clip = Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=5)
    norms = Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=2)
    for node, ends in ((GIVEN, Interval(-(2**50), 2**50)), (clip, Interval(-5, 5)), (norms, Interval(0, 2**50))):
        assert node.fields[-1].facts == Facts(type=Type.BIGINT, nullable=False, physical=ends, declared=ends, whole=True)


def test_what_is_known_of_columns_that_a_condition_limits() -> None:
    def left(column: str, *ends: tuple[str, int]) -> Facts:
        return Filter(input=V, condition=reduce(both, (Call(
            function=function, args=(ref(V, column), literal(end, Type.BIGINT)), type=Type.BOOLEAN) for function, end in ends))).env[column]

    plain = V.env["v_visit"]
    assert left("v_visit", ("<=", 9), ("<", 13), (">", 0), (">=", -3)) == replace(plain, kept=Interval(1, 9), declared=Interval(1, 9))
    assert left("v_visit", ("=", 5)) == replace(plain, kept=Interval(5, 5), declared=Interval(5, 5))
    assert left("v_visit", ("<=", 1), (">=", 5)) == plain, "no row is left"
    age = Filter(input=P, condition=Call(function="<>", args=(ref(P, "p_age"), literal(5, Type.BIGINT)), type=Type.BOOLEAN))
    assert age.env == {**P.env, "p_age": replace(P.env["p_age"], nullable=False, kept=P.env["p_age"].physical)}
    none = Call(function="and", args=tuple(Call(function=function, args=(ref(P, "p_age"), literal(end, Type.BIGINT)), type=Type.BOOLEAN)
                                           for function, end in (("<=", 1), (">=", 5))), type=Type.BOOLEAN)
    assert Filter(input=P, condition=none).env["p_age"] == replace(P.env["p_age"], nullable=False)
    maybe = Call(function="or", args=(equal(ref(P, "p_age"), literal(5, Type.BIGINT)), ref(P, "p_active")), type=Type.BOOLEAN)
    assert Filter(input=P, condition=maybe).env == P.env


def test_what_is_known_of_aggregates() -> None:
    whole, number = Facts(type=Type.BIGINT, declared=Interval(-2, 5), whole=True), Facts(type=Type.DOUBLE, declared=Interval(0, 10))
    there = replace(whole, nullable=False)
    tenths = Quantizer(low=0.0, high=10.0, step=Fraction(1, 10), from_low=True)
    for fold, below, most, empty, known in (
            ("count", None, 3, False, Facts(type=Type.BIGINT, nullable=False, physical=Interval(0, 2**50), declared=Interval(0, 3), whole=True)),
            ("count", whole, None, True, Facts(type=Type.BIGINT, nullable=False, physical=Interval(0, 2**50),
                                               declared=Interval(0, float("inf")), whole=True)),
            ("count_distinct", whole, 4, False, Facts(type=Type.BIGINT, nullable=False, physical=Interval(0, 2**50),
                                                      declared=Interval(0, 4), whole=True)),
            ("min", there, 3, False, there), ("max", there, 3, True, whole), ("max", whole, 3, False, whole),
            ("avg", there, 3, False, Facts(type=Type.DOUBLE, declared=Interval(-2, 5))),
            ("sum", there, 3, False, Facts(type=Type.BIGINT, physical=SAFE_INTEGERS, declared=Interval(-6, 15), whole=True)),
            ("sum", there, None, False, Facts(type=Type.BIGINT, physical=SAFE_INTEGERS, whole=True)),
            ("sum", number, 3, False, Facts(type=Type.DOUBLE, declared=Interval(0, 30), step=Fraction(1, 10)))):
        part = Fold(id="f", name="f", function=fold, column=None if below is None else "c", grid=tenths if below is number else None)
        assert fold_facts(part, below, most=most, empty=empty) == known
    assert fold_facts(Fold(id="f", name="f", function="sum", column="c", grid=tenths), there, most=3, empty=False).step is None
    grouped = [GroupBy(input=P, keys=keys, folds=(Fold(id="f", name="f", function="min", column="p_id"),)) for keys in (("p_age",), ())]
    assert [node.env["f"].nullable for node in grouped] == [False, True], "over no rows there is no smallest value"


def test_what_a_join_pads_may_be_null() -> None:
    def nullable(join: Join) -> list[bool]:
        return [join.env[column].nullable for column in ("p_id", "v_visit") if column in join.env]

    join = Join(left=P, right=V, condition=OWNERS)
    assert nullable(join) == [False, False]
    assert nullable(replace(join, keep_left=True)) == [False, True] and nullable(replace(join, keep_right=True)) == [True, False]
    assert nullable(replace(join, keep_left=True, keep_right=True)) == [True, True]
    assert nullable(replace(join, keep_left=True, bare=True)) == nullable(replace(join, keep_right=True, bare=True)) == [False]


def test_what_is_known_of_numbers_of_rows() -> None:
    number = Facts(type=Type.BIGINT, nullable=False, physical=Interval(1, 2**50), whole=True)
    assert Numbers(input=V, keys=("v_town",)).fields == (V.field("v_town"), Field(id="number", name="number", facts=number))


def test_weights_are_signed_if_a_value_may_be_below_zero() -> None:
    grids = [Quantizer(low=low, high=9.0, step=Fraction(1), from_low=False) for low in (-1.0, 0.0, 1.0)]
    shares = [OwnerSets(input=BOTH, owners=("p_id",), summand=GridSum(column="p_age", grid=grid)) for grid in grids]
    assert [node.signed for node in shares] == [True, False, False]
    assert [node.fields[-1].facts.physical for node in shares[:2]] == [Interval(-LARGEST, LARGEST), Interval(0, LARGEST)]


def test_a_mark_is_a_truth_value_and_never_null() -> None:
    lookup = CASES["lookup in a public list"][0]
    assert lookup.fields == (*V.fields, Field(id="c1", name=LISTED, facts=Facts(type=Type.BOOLEAN, nullable=False)))


def test_a_tally_is_conditional_if_one_of_its_sums_is() -> None:
    summands = [(Count(),), (Count(), Count(when="p_active")), (Count(when="p_active"),)]
    assert [GroupedSums(input=P, keys=(), summands=some).conditional for some in summands] == [False, True, True]


@pytest.mark.parametrize(("node", "below", "split"), [
    *((Filter(input=V, condition=TRUE), (below,), below) for below in SplitBy),
    (JOIN, (SplitBy.ENTITIES, SplitBy.PUBLIC), SplitBy.ENTITIES), (JOIN, (SplitBy.PUBLIC, SplitBy.ENTITIES), SplitBy.ENTITIES),
    (JOIN, (SplitBy.WHOLE, SplitBy.PUBLIC), SplitBy.WHOLE), (JOIN, (SplitBy.ENTITIES, SplitBy.ENTITIES), SplitBy.WHOLE),
    (replace(JOIN, keep_left=True), (SplitBy.ENTITIES, SplitBy.PUBLIC), SplitBy.ENTITIES),
    (replace(JOIN, keep_left=True), (SplitBy.PUBLIC, SplitBy.ENTITIES), SplitBy.WHOLE),
    (replace(JOIN, keep_right=True), (SplitBy.PUBLIC, SplitBy.ENTITIES), SplitBy.ENTITIES),
    (replace(JOIN, keep_right=True), (SplitBy.ENTITIES, SplitBy.PUBLIC), SplitBy.WHOLE),
    (LOOKUP, (SplitBy.ENTITIES, SplitBy.PUBLIC), SplitBy.ENTITIES), (LOOKUP, (SplitBy.WHOLE, SplitBy.PUBLIC), SplitBy.WHOLE),
    (LOOKUP, (SplitBy.ENTITIES, SplitBy.ENTITIES), SplitBy.WHOLE), (LOOKUP, (SplitBy.PUBLIC, SplitBy.ENTITIES), SplitBy.WHOLE),
])
def test_how_a_relation_is_split(node: Node, below: tuple[SplitBy, ...], split: SplitBy) -> None:
    assert node.split_by(below) is split


@pytest.mark.parametrize(("node", "names"), [
    (Arcs(input=BOTH, tail="p_id", head="v_visit"), {"p_id": Type.BIGINT, "v_visit": Type.BIGINT}),
    (Arcs(input=TEXTS, tail="t_town", head="u_town"), {"t_town": Type.VARCHAR, "u_town": Type.VARCHAR}),
    (Arcs(input=NUMBERS, tail="a", head="b"), {"a": Type.VARCHAR, "b": Type.VARCHAR}),
    (OwnerSets(input=BOTH, owners=("p_id", "v_person"), summand=Count()), {"p_id": Type.BIGINT, "v_person": Type.BIGINT}),
    (OwnerSets(input=NUMBERS, owners=("a", "b"), summand=Count()), {"a": Type.VARCHAR, "b": Type.VARCHAR}),
    (OwnerSets(input=BOTH, owners=("p_id",), summand=Count(), once="v_visit"), {"p_id": Type.VARCHAR, "v_visit": Type.VARCHAR}),
    (JoinSum(input=BOTH, summand=Count()), {}), (Multiplicities(input=V, keys=(), column="v_town"), {}),
    (GroupedSums(input=V, keys=(), summands=(Count(), Count(column="v_town"))), {}),
    (Largest(input=P, summand=GridSum(column="p_age", grid=Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True)), sign=1, most=1), {}),
])
def test_what_is_known_of_summaries(node: Node, names: dict[str, Type]) -> None:
    """Names are whole numbers or texts, the rest are whole numbers, and nothing is NULL."""
    for field in node.fields:
        assert field.facts.type is names.get(field.id, Type.BIGINT) and not field.facts.nullable
        assert field.id != "weight" or field.facts == Facts(type=Type.BIGINT, nullable=False, physical=Interval(0, LARGEST),
                                                            declared=Interval(0, LARGEST), whole=True)


def test_what_is_known_of_ranks() -> None:
    value, count = Ranks(input=P, keys=(), column="p_age", ties=4, grid=Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True)).fields
    ends = Interval(0, 10 * 2**4 - 1)
    assert value.facts == Facts(type=Type.BIGINT, nullable=False, physical=ends, declared=ends)
    assert count.facts == Facts(type=Type.BIGINT, nullable=False)


def test_which_columns_may_be_null() -> None:
    def nullable(node: Node) -> list[bool]:
        return [field.facts.nullable for field in node.fields]

    assert nullable(V) == [False, False, True, True], "rows without an owner are dropped"
    assert nullable(N) == [False, True, False], "and those without the parent that has it"
    texts = Project(input=V, columns=(("c1", "a", ref(V, "v_visit")), ("c2", "b", ref(V, "v_town"))))
    known = Project(input=W, columns=(("d1", "a", ref(W, "w_visit")), ("d2", "b", literal("x", Type.VARCHAR))))
    for kind, left, right, found in (
            ("except", texts, known, [False, True]), ("except", known, texts, [False, False]), ("except", texts, texts, [False, True]),
            ("intersect", texts, known, [False, False]), ("intersect", known, texts, [False, False]), ("intersect", texts, texts, [False, True])):
        made = SetOperation(kind=kind, all=True, left=left, right=right, columns=(("e1", "a"), ("e2", "b")))  # type: ignore[arg-type]
        assert nullable(made) == found


def test_a_norm_is_of_all_its_columns() -> None:
    below = owned("v_person", 3, replace(NORM, columns=("e0_0", "v_person")))
    for columns, kept in (((("c1", "n", ref(GIVEN, "e0_0")),), False), ((("c1", "n", ref(GIVEN, "e0_0")), ("c2", "o", ref(GIVEN, "v_person"))), True)):
        found = Project(input=GIVEN, columns=columns).stability((below,), NoPublicFacts()).norm
        assert found == (Norm(order=1, bound=5, columns=("c1", "c2")) if kept else None)


def test_norms_of_two_inputs() -> None:
    lookup = Lookup(input=GIVEN, listed=T, keys=((ref(GIVEN, "v_town"), "t_town"),), mark="c1")
    join = Join(left=GIVEN, right=T, condition=TRUE)
    assert lookup.stability((owned("v_person", 3, NORM), PUBLIC), NoPublicFacts()).norm == NORM
    assert join.stability((owned("v_person", 3, NORM), PUBLIC), Meets(2)).norm is None


UNIQUE: dict[str, tuple[Node, set[frozenset[str]]]] = {
    "scan": (V, {frozenset(["v_visit"])}),
    "scan without the key": (visits("v", "town"), set()),
    "scan with a part of the key": (
        Scan(table=replace(V.table, unique=(frozenset(["visit", "town"]),)), columns=(("v_visit", "visit"), ("v_person", "person")),
             owners=("v_person",)), set()),
    "scan, the owner beside the columns": (Scan(table=P.table, columns=(("p_x", "x"),), owners=("o",)), {frozenset(["o"])}),
    "scan, an owner of many rows beside the columns": (Scan(table=V.table, columns=(("v_visit", "visit"),), owners=("o",)),
                                                       {frozenset(["v_visit"])}),
    "difference of different rows": (replace(SAME, all=False, left=NO_KEY), {frozenset(["c1", "c2", "c3", "c4"])}),
    "difference of equal rows": (replace(SAME, left=NO_KEY), set()),
    "project": (V2, {frozenset(["c0"])}),
    "project without the key": (Project(input=V, columns=(("c1", "t", ref(V, "v_town")),)), set()),
    "project with a part of the key": (Project(input=GIVEN, columns=(("c1", "o", ref(GIVEN, "v_person")),)), set()),
    "join, one partner right": (Join(left=V, right=T, condition=TOWN), {frozenset(["v_visit"])}),
    "join, one partner left": (Join(left=T, right=V, condition=TOWN), {frozenset(["v_visit"])}),
    "join, one partner each": (Join(left=T, right=towns("u"), condition=equal(ref(T, "t_town"), ref(towns("u"), "u_town"))),
                               {frozenset(["t_town"]), frozenset(["u_town"])}),
    "join, many partners": (Join(left=V, right=T, condition=LAND), set()),
    "left join, one partner right": (Join(left=V, right=T, condition=TOWN, keep_left=True), {frozenset(["v_visit"])}),
    "left join, one partner left": (Join(left=P, right=V, condition=OWNERS, keep_left=True), set()),
    "union": (UnionAll(parts=(T, towns("u")), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"))), set()),
    "distinct": (Distinct(input=visits("v", "town")), {frozenset(["v_person", "v_town"])}),
    "group": (GroupBy(input=V, keys=("v_town",), folds=N_ROWS), {frozenset(["v_town"])}),
    "group of all rows": (GroupBy(input=V, keys=(), folds=N_ROWS), {frozenset()}),
    "truncate": (Truncate(input=V, rows=2, owner="v_person", order=("v_visit",)), {frozenset(["v_visit"])}),
    "truncate to one row": (Truncate(input=V, rows=1, owner="v_person", order=("v_visit",)),
                            {frozenset(["v_visit"]), frozenset(["v_person"])}),
    "contributions": (GIVEN, {frozenset(["v_person", "v_town"])}),
    "numbers": (Numbers(input=V, keys=("v_town",)), {frozenset(["v_town", "number"])}),
    "clip": (Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=5), {frozenset(["v_person", "v_town"])}),
    "clip what a key is made of": (
        Clip(input=GroupBy(input=GIVEN, keys=("v_person", "e0_0"), folds=()), owner="v_person", columns=("e0_0",), order=1, bound=5),
        set()),
    "constants": (Constants(columns=(T.field("t_size"),), rows=((1,), (1,))), set()),
}


@pytest.mark.parametrize(("node", "columns", "most"), [
    (TWICE, ["v_person"], 2), (TWICE, ["v_person", "v_town"], 2), (TWICE, ["v_visit"], 1), (TWICE, ["v_town"], None),
    (TWICE, [], None), (CAPPED, ["w_town"], 5),
    (Filter(input=TWICE, condition=TRUE), ["v_person"], 2),
    (Filter(input=V, condition=reduce(both, LIMITED)), [], 9), (Filter(input=V, condition=reduce(both, LIMITED[1:])), [], None),
    (Project(input=TWICE, columns=(("c1", "o", ref(V, "v_person")),)), ["c1"], 2),
    (Project(input=TWICE, columns=(("c1", "t", ref(V, "v_town")),)), ["c1"], None),
    (MET, ["v_person"], 10), (MET, ["v_visit"], 5), (MET, ["w_town"], None), (MET, ["v_town"], None),
    (FEW, ["w_visit"], 3), (FEW, ["w_town"], 15),
    (replace(MET, keep_left=True), ["v_person"], 10),
    (replace(FEW, keep_left=True), ["w_visit"], None), (replace(FEW, keep_left=True), ["v_visit"], 5),
    (replace(FEW, keep_left=True, keep_right=True), ["v_visit"], None),
    (replace(FEW, keep_left=True, bare=True), ["v_visit"], 5), (replace(FEW, keep_right=True, bare=True), ["w_visit"], 3),
    (replace(FEW, keep_left=True, keep_right=True, merged=(Merged(id="o", name="t", left="v_town", right="w_town"),)), ["o"], 15),
    (SAME, ["c1"], 1), (replace(SAME, left=TWICE, right=CAPPED), ["c2"], 2), (replace(SAME, left=TWICE, right=CAPPED), ["c3"], None),
    (replace(SAME, left=TWICE, right=CAPPED, kind="intersect"), ["c3"], 5),
    (replace(SAME, all=False, left=NO_KEY), ["c1", "c2", "c3", "c4"], 1), (replace(SAME, left=NO_KEY), ["c1", "c2", "c3", "c4"], 2),
    (UnionAll(parts=(TWICE, CAPPED), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"), ("c4", "d"))), ["c1"], 2),
    (UnionAll(parts=(TWICE, CAPPED), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"), ("c4", "d"))), ["c3"], None),
    (UnionAll(parts=(TWICE, CAPPED), columns=(("c1", "a"), ("c2", "b"), ("c3", "c"), ("c4", "d"))), ["c2", "c3"], None),
    (Distinct(input=TWICE), ["v_person"], 2),
    (GroupBy(input=TWICE, keys=("v_person", "v_town"), folds=N_ROWS), ["v_person"], 2),
    (GroupBy(input=TWICE, keys=("v_town",), folds=N_ROWS), ["v_person"], None),
    (GroupBy(input=TWICE, keys=(), folds=N_ROWS), [], 1),
    (GIVEN, ["v_person", "v_town"], 1), (Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=2), ["v_person"], 1),
    (Join(left=Constants(columns=(T.field("t_size"),), rows=((1,), (1,))), right=V, condition=TRUE), ["v_visit"], 2),
    (Join(left=V, right=W, condition=equal(ref(V, "v_visit"), ref(W, "w_visit")), keep_left=True, keep_right=True,
          merged=(Merged(id="o", name="v", left="v_visit", right="w_visit"),)), ["o"], 2),
    (Lookup(input=TWICE, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="c1"), ["v_person"], 2),
    (Constants(columns=(T.field("t_size"),), rows=((1,), (1,))), [], 2),
    (P, ["p_id"], 1), (Scan(table=P.table, columns=(("p_x", "x"),), owners=("o",)), ["o"], 1),
    (Statistics(input=T, keys=("t_land",), calls=()), ["t_land"], 1),
    (Numbers(input=CAPPED, keys=("w_town",)), ["w_town"], 5), (Numbers(input=CAPPED, keys=("w_town",)), ["w_town", "number"], 1),
    (Numbers(input=CAPPED, keys=("w_person",)), ["w_person"], None),
])
def test_how_many_rows_agree(node: Node, columns: list[str], most: int | None) -> None:
    assert node.max_frequency(columns) == most


@pytest.mark.parametrize(("node", "known"), [
    (V, {"v_visit": True}), (Numbers(input=ABS, keys=("c2",)), {"c2": False, "number": True}), (ABS, {"c1": True, "c2": False}),
    (Project(input=ABS, columns=(("d1", "a", ref(ABS, "c2")), ("d2", "b", ref(ABS, "c1")))), {"d1": False, "d2": True}),
    (Filter(input=ABS, condition=TRUE), {"c1": True, "c2": False}),
    (NUMBERS, {"a": False}), (GIVEN, {"v_person": True, "e0_0": False}),
    (Join(left=ABS, right=V, condition=TRUE), {"c1": True, "c2": False, "v_visit": True}),
    (UnionAll(parts=(IDS, IDS), columns=(("d1", "a"), ("d2", "b"))), {"d1": True, "d2": True}),
    (UnionAll(parts=(IDS, ABS), columns=(("d1", "a"), ("d2", "b"))), {"d1": True, "d2": False}),
    (SetOperation(kind="except", all=True, left=ABS, right=IDS, columns=(("d1", "a"), ("d2", "b"))), {"d1": True, "d2": False}),
    (GROUPED, {"c1": True, "c2": False, "n": True, "d": True, "s": False, "low": True, "high": False}),
    (PLACED, {"c1": True, "c2": False, "n": True, "q": False, "l": True, "o": False, "f": False, "a": False}),
])
def test_whose_ends_the_kernel_knows_too(node: Node, known: dict[str, bool]) -> None:
    """Those of columns of tables and of counts, and not those of expressions."""
    assert {column: has_ends(node, column) for column in known} == known


def test_a_filter_leaves_few_values_of_a_column_that_has_an_end() -> None:
    """Of an expression the condition tells both ends, as its own are not known to the kernel."""
    for column, low, most in (("c1", None, 5), ("c1", 0, 3), ("c2", None, None), ("c2", 0, 3), ("c2", 9, 1)):
        told = Distinct(input=Project(input=ABS, columns=((column, "a", ref(ABS, column)),)))
        high = -(2**31) + 4 if low is None and column == "c1" else 2
        ends = [Call(function="<=", args=(ref(told, column), literal(high, Type.BIGINT)), type=Type.BOOLEAN)]
        ends += [] if low is None else [Call(function=">=", args=(ref(told, column), literal(low, Type.BIGINT)), type=Type.BOOLEAN)]
        assert Filter(input=told, condition=reduce(both, ends)).max_frequency([]) == most


@pytest.mark.parametrize("case", UNIQUE)
def test_what_tells_rows_apart(case: str) -> None:
    node, expected = UNIQUE[case]
    assert set(node.unique) == expected


def test_rows_are_told_apart_by_the_smallest_key_in_the_order_of_names() -> None:
    two = Truncate(input=V, rows=1, owner="v_person", order=("v_visit",))
    assert row_order(two, "nobody") == ("v_person",)
    assert row_order(V, "v_person") == ("v_visit",)
    assert row_order(Distinct(input=visits("v", "town")), "v_person") == ("v_town",)
    assert row_order(N, "n_owner") == ("n_visit", "n_word"), "without a key, all columns"
    town = both(SELVES, equal(ref(V, "v_town"), ref(W, "w_town")))
    pairs = Join(left=GroupBy(input=V, keys=("v_person", "v_town"), folds=()), condition=town,
                 right=Truncate(input=W, rows=1, owner="w_person", order=("w_visit",)))
    assert row_order(pairs, "nobody") == ("w_person",)


def test_a_chain_of_foreign_keys_multiplies_nothing() -> None:
    """A person's visits, with notes on each: as many rows as there are notes."""
    told = Truncate(input=N, rows=5, owner="n_owner", order=("n_visit", "n_word"))
    first = Join(left=P, right=Truncate(input=V, rows=3, owner="v_person", order=("v_visit",)), condition=OWNERS)
    plan = Join(left=first, right=told, condition=both(equal(ref(V, "v_visit"), ref(N, "n_visit")),
                                                       equal(ref(P, "p_id"), ref(N, "n_owner"))))
    assert stability(plan, NoPublicFacts()).rows == 5


def test_an_entity_of_a_clipped_sum_needs_no_limit_of_rows() -> None:
    plan = Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=5)
    assert stability(plan, NoPublicFacts()) == Stability(rows=None, owners=("v_person",), norm=NORM,
                                                         because="each entity's vector is scaled to an l1 norm of 5")


def test_reasons_are_told() -> None:
    for node, below, _ in CASES.values():
        assert node.stability(below, Meets(2)).because


@pytest.mark.parametrize(("node", "below", "why"), [
    (Join(left=V, right=T, condition=LAND), (owned("v_person", 3), PUBLIC), "each row matches at most 7 public rows"),
    (Join(left=T, right=V, condition=TOWN, keep_left=True), (PUBLIC, owned("v_person", 3)),
     "each row matches at most one public row, and public rows are kept, which belong to no entity"),
    (Join(left=V, right=W, condition=SELVES), (owned("v_person", 3), owned("w_person", 4)), "an entity's rows match only each other"),
    (FEW, (owned("v_person", 3), owned("w_person", 4)), "each row belongs to the entities of both sides"),
    (FEW, (Stability(rows=4), Stability(rows=6)), "a row matches at most 5 on the right and 3 on the left"),
    (FEW, (owned("v_person", 3), Stability(rows=6)), "a row matches at most 5 on the right and 3 on the left"),
    (MET, (Stability(rows=4), Stability(rows=6)), "the number of matching rows is not limited"),
    (replace(FEW, right=W), (Stability(rows=4), Stability(rows=6)), "the number of matching rows is not limited")])
def test_reasons_of_joins(node: Node, below: tuple[Stability, ...], why: str) -> None:
    assert node.stability(below, Meets(7)).because == why
