"""What each operator prints, to the letter: `prints.sql`. Inputs are printed as <0>, <1>.

After a change of printing, `PYTHONPATH=.:tests python tests/plan/operators/test_prints.py` writes it anew, for review.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path

import pytest
from support.small_tables import TRUE, VISITS, both, equal, literal, notes, people, ref, towns, visits

from dpsql.frozen import replace
from dpsql.questions.labels import label as shown
from dpsql.trusted.declarations.tables import OwnerPath, OwnerStep
from dpsql.trusted.kernel.shapes import RELATIONS, SUMMARIES
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Call
from dpsql.trusted.plan.node import Field, Node, Printing
from dpsql.trusted.plan.operators.arcs import Arcs
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums, clamped_total
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.trusted.plan.operators.join_sum import JoinSum
from dpsql.trusted.plan.operators.largest import Largest
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.owner_sets import OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Frame, Window, WindowFunction
from dpsql.types import Type

GOLDEN = Path(__file__).parent / "prints.sql"
P, V, N, T = people("p", "id", "x", "active"), visits("v", "visit", "town"), notes("n", "word"), towns("t", "town")
Q, U = people("q", "id", "x", "active"), towns("u", "town")
TENTHS = Quantizer(low=0.0, high=10.0, step=Fraction(1, 10), from_low=True)
WHOLE = Quantizer(low=-5.0, high=5.0, step=Fraction(1), from_low=False)
GIVEN = Contributions(input=V, owner="v_person", keys=("v_town",), summands=(Count(),))
ONE = Contributions(input=V, owner="v_person", keys=(), summands=(Count(),))
TWO = Contributions(input=P, owner="p_id", keys=(), summands=(Moments(column="p_x", grid=TENTHS, degree=1),))
TWO_KINDS = (OwnerPath(steps=(), column="person", type=Type.BIGINT, kind=1, kinds=2),
             OwnerPath(steps=(), column="town", type=Type.VARCHAR, kind=1, kinds=2))
FIVE = Constants(columns=tuple(Field(id=f"c{i}", name=f"c{i}", facts=Facts(type=Type.BIGINT, nullable=False)) for i in range(5)),
                 rows=((1, 2, 3, 4, 5),))
BARE = Project(input=GIVEN, columns=tuple((name, name, ref(GIVEN, name)) for name in ("v_person", "e0_0")))
BORN = people("b", "born")
GRANDPARENT = OwnerPath(column="household", type=Type.BIGINT, beside=("country",), steps=(
    OwnerStep(columns=("visit", "day"), table="visits", references=("visit", "day"), types=(Type.BIGINT, Type.DATE)),
    OwnerStep(columns=("person",), table="people", references=("id",), types=(Type.BIGINT,))))

PLANS: dict[str, Node] = {
    "scan": P,
    "scan, owner may be NULL": V,
    "scan, owner in a parent": N,
    "scan, public": T,
    "scan, entities of two kinds": Scan(table=replace(VISITS, owners=TWO_KINDS), columns=(("v_visit", "visit"),), owners=("o1", "o2")),
    "scan, owner two steps away": Scan(table=replace(N.table, owners=(GRANDPARENT,)), columns=(("n_word", "word"),), owners=("o",)),
    "constants": Constants(columns=(Field(id="c1", name="a", facts=Facts(type=Type.VARCHAR)),
                                    Field(id="c2", name="b", facts=Facts(type=Type.DATE))),
                           rows=(("it's", dt.date(2020, 2, 29)), (None, None))),
    "filter": Filter(input=P, condition=Call(function=">", args=(ref(P, "p_x"), literal(1.5, Type.DOUBLE)), type=Type.BOOLEAN)),
    "filter, of no table": Filter(input=Distinct(input=T), condition=TRUE),
    "project": Project(input=P, columns=(("c1", "id", ref(P, "p_id")), ("c2", "one", literal(1, Type.BIGINT)))),
    "join": Join(left=V, right=T, condition=equal(ref(V, "v_town"), ref(T, "t_town"))),
    "join, left rows kept": Join(left=P, right=V, keep_left=True,
                                 condition=both(equal(ref(P, "p_id"), ref(V, "v_person")), TRUE)),
    "join, right rows kept": Join(left=P, right=V, keep_right=True, condition=equal(ref(P, "p_id"), ref(V, "v_person"))),
    "join, the side that is kept alone": Join(left=P, right=V, keep_right=True, bare=True,
                                              condition=equal(ref(P, "p_id"), ref(V, "v_person"))),
    "join, all rows kept": Join(left=P, right=V, keep_left=True, keep_right=True,
                                condition=equal(ref(P, "p_id"), ref(V, "v_person")),
                                merged=(Merged(id="c1", name="id", left="p_id", right="v_person"),)),
    "lookup": Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="c1"),
    "lookup, own rows": Lookup(input=P, listed=V, keys=((ref(P, "p_id"), "v_person"), (ref(P, "p_id"), "v_visit")), mark="c1"),
    "lookup, rows of one mark": Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="c1", keep=True),
    "lookup, rows of the other mark": Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="c1", keep=False),
    "lookup by a condition": Lookup(input=V, listed=T, keys=((ref(V, "v_town"), "t_town"),), mark="c1",
                                    condition=equal(ref(T, "t_town"), ref(V, "v_town"))),
    "lookup by a condition, rows of one mark": Lookup(input=V, listed=T, keys=(), mark="c1", keep=False,
                                                      condition=equal(ref(T, "t_town"), ref(V, "v_town"))),
    "intersect": SetOperation(kind="intersect", all=False, left=P, right=Q, columns=(("c1", "a"), ("c2", "b"), ("c3", "c"))),
    "except all": SetOperation(kind="except", all=True, left=P, right=Q, columns=(("c1", "a"), ("c2", "b"), ("c3", "c"))),
    "union": UnionAll(parts=(T, Project(input=V, columns=(("c1", "town", ref(V, "v_town")),))), columns=(("c2", "town"),)),
    "distinct": Distinct(input=P),
    "group": GroupBy(input=V, keys=("v_person", "v_town"), folds=(
        Fold(id="c1", name="n", function="count"), Fold(id="c2", name="m", function="count_distinct", column="v_visit"),
        Fold(id="c3", name="s", function="sum", column="v_visit"), Fold(id="c4", name="a", function="avg", column="v_visit"),
        Fold(id="c5", name="low", function="min", column="v_town"))),
    "group, numbers": GroupBy(input=P, keys=("p_id",), folds=(
        Fold(id="c1", name="s", function="sum", column="p_x", grid=TENTHS),
        Fold(id="c2", name="m", function="max", column="p_x"))),
    "group, no keys": GroupBy(input=T, keys=(), folds=(Fold(id="c1", name="n", function="count", column="t_town"),)),
    "truncate": Truncate(input=V, rows=3, owner="v_person", order=("v_visit",)),
    "truncate, by all columns": Truncate(input=N, rows=2, owner="n_owner", order=("n_word",)),
    "truncate, a number in the order": Truncate(input=P, rows=1, owner="p_id", order=("p_x", "p_active")),
    "truncate, names only": Truncate(input=Project(input=V, columns=(("c1", "o", ref(V, "v_person")),)), rows=2, owner="c1",
                                     order=()),
    "truncate keys": TruncateKeys(input=V, rows=2, keys=("v_town",), order=("v_visit",)),
    "truncate keys, by all columns": TruncateKeys(input=P, rows=2, keys=("p_x", "p_active"), order=("p_id",)),
    "truncate keys, without a key": TruncateKeys(input=N, rows=1, keys=("n_word",), order=("n_owner",)),
    "truncate keys, in all": TruncateKeys(input=V, rows=5, keys=(), order=("v_visit", "v_person", "v_town")),
    "numbers": Numbers(input=P, keys=("p_x", "p_active")),
    "truncate keys, the first by a column": TruncateKeys(
        input=V, rows=2, keys=("v_town",), order=("v_visit",), first=(Term(column="v_person", descending=True),)),
    "window": Window(input=V, partition=("v_person",), order=(Term(column="v_town", nulls_first=True),), ties=("v_visit",), functions=(
        WindowFunction(id="c1", name="n", function="row_number"), WindowFunction(id="c2", name="r", function="rank"),
        WindowFunction(id="c3", name="l", function="lag", column="v_town", number=2, otherwise="v_town"),
        WindowFunction(id="c4", name="m", function="max", column="v_town"),
        WindowFunction(id="c5", name="s", function="sum", column="v_visit", frame=Frame(rows=True, start=-1, end=0)))),
    "window, ends of peers": Window(input=V, partition=(), order=(Term(column="v_town"),), ties=("v_visit",), functions=(
        WindowFunction(id="c1", name="f", function="first_value", column="v_visit", frame=Frame(end=0)),
        WindowFunction(id="c2", name="l", function="last_value", column="v_visit", frame=Frame(end=0)))),
    "window, without a key": Window(input=N, partition=("n_owner",), order=(), ties=("n_word",), functions=(
        WindowFunction(id="c1", name="n", function="ntile", number=3),
        WindowFunction(id="c2", name="c", function="count", frame=Frame(rows=True, end=-1)))),
    "window, numbers": Window(input=P, partition=("p_x",), order=(Term(column="p_x", descending=True),), ties=("p_id",), functions=(
        WindowFunction(id="c1", name="a", function="avg", column="p_x", grid=TENTHS, frame=Frame(end=0)),)),
    "contributions": GIVEN,
    "clip": Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=2, bound=5),
    "clip, one number": Clip(input=ONE, owner="v_person", columns=("e0_0",), order=1, bound=5),
    "clip, one row": Clip(input=TWO, owner="p_id", columns=("e0_0", "e0_1"), order=1, bound=8),
    "clip, added up": Clip(input=GIVEN, owner="v_person", columns=("e0_0",), order=1, bound=5),
    "clip, rows that no key tells apart": Clip(input=BARE, owner="v_person", columns=("e0_0",), order=1, bound=5),
    "norms, rows that no key tells apart": Norms(input=BARE, owner="v_person", columns=("e0_0",), order=1),
    "norms, added up": Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=1),
    "norms": Norms(input=GIVEN, owner="v_person", columns=("e0_0",), order=2),
    "norms, one number": Norms(input=ONE, owner="v_person", columns=("e0_0",), order=1),
    "arcs": Arcs(input=Join(left=P, right=V, condition=TRUE), tail="p_id", head="v_visit", mutual=True),
    "arcs of texts": Arcs(input=Join(left=T, right=U, condition=TRUE), tail="t_town", head="u_town"),
    "arcs of numbers": Arcs(input=Join(left=P, right=Q, condition=TRUE), tail="p_x", head="q_x"),
    "join sum": JoinSum(input=Join(left=V, right=P, condition=TRUE), summand=GridSum(column="p_x", grid=WHOLE, when="p_active")),
    "multiplicities": Multiplicities(input=V, keys=(), column="v_town"),
    "multiplicities by keys": Multiplicities(input=P, keys=("p_x", "p_active"), column="p_x", when="p_active"),
    "shares": OwnerSets(input=Join(left=P, right=V, condition=TRUE), owners=("p_id", "v_person"), summand=Count()),
    "shares of texts, in cells": OwnerSets(input=Join(left=T, right=P, condition=TRUE), owners=("t_town",), cell="p_id",
                                           summand=GridSum(column="p_x", grid=WHOLE)),
    "shares, names may be NULL": OwnerSets(input=Join(left=P, right=V, keep_left=True, keep_right=True, condition=TRUE),
                                           owners=("p_id", "v_person", "v_visit"), summand=Count(column="v_town")),
    "shares of five": OwnerSets(input=FIVE, owners=tuple(FIVE.env), summand=Count()),
    "shares, values with room for one row": OwnerSets(input=Join(left=P, right=V, condition=TRUE), owners=("p_id",), summand=Count(),
                                                      once="v_visit"),
    "largest": Largest(input=P, summand=GridSum(column="p_x", grid=TENTHS), sign=1, most=9),
    "largest, negated": Largest(input=P, summand=GridSum(column="p_x", grid=WHOLE, when="p_active"), sign=-1, most=9),
    "tally": GroupedSums(input=P, keys=(), summands=(Count(when="p_active"), Count(column="p_x"),
                                              GridSum(column="p_x", grid=WHOLE, when="p_active"))),
    "tally, moments": GroupedSums(input=P, keys=("p_active",), summands=(Moments(column="p_x", grid=TENTHS, degree=2, missing=True),)),
    "tally, clipped": GroupedSums(input=GIVEN, keys=("v_town",), summands=(Clipped(clipped=("e0_0",)),)),
    "tally, a number is the key": GroupedSums(input=P, keys=("p_x",), summands=(Count(),)),
    "tally, a day is the key": GroupedSums(input=BORN, keys=("b_born",), summands=(Count(),)),
    "tally, a day is the key in the engine": GroupedSums(input=BORN, keys=("b_born",), summands=(Count(),), in_engine=True),
    "ranks": Ranks(input=P, keys=("p_active",), column="p_x", grid=TENTHS, when="p_active"),
    "ranks, ties": Ranks(input=P, keys=(), column="p_id", ties=4,
                         grid=Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True)),
}


def text_of(plan: Node) -> str:
    return plan.render(tuple(f"<{i}>" for i in range(len(plan.inputs))), Printing(salt=255))


def read() -> dict[str, str]:
    blocks = GOLDEN.read_text().split("-- ")[1:]
    return {name: text.strip() for name, _, text in (block.partition("\n") for block in blocks)}


@pytest.mark.parametrize("name", PLANS)
def test_an_operator_prints_what_was_reviewed(name: str) -> None:
    assert text_of(PLANS[name]) == read()[name]


def test_sums_of_parts_are_held_and_added_up_by_cell() -> None:
    """2^16 parts can be added up in 128 bits; what they are together is held within 64."""
    part = f"CAST(LEAST(GREATEST(COALESCE(x, 0), -{2**110}), {2**110}) AS HUGEINT)"
    whole = f"CAST(LEAST(GREATEST(COALESCE(SUM(t0.\"m0_0\"), 0), -{2**62}), {2**62}) AS BIGINT)"
    assert clamped_total("x", Printing(hold=False)) == part and 2**110 * 2**16 < 2**127
    cells, alone = (GroupedSums(input=V, keys=keys, summands=(Count(),)) for keys in (("v_town",), ()))
    assert alone.merge_sql("p") == f'SELECT {whole} AS "m0_0" FROM p AS t0'
    assert cells.merge_sql("p") == f'SELECT t0."v_town", {whole} AS "m0_0" FROM p AS t0 GROUP BY t0."v_town"'
    assert cells.combine_sql("p") == 'SELECT t0."v_town", CAST(SUM(t0."m0_0") AS HUGEINT) AS "m0_0" FROM p AS t0 GROUP BY t0."v_town"'
    assert PLANS["largest"].merge_sql("p") == 'SELECT t0."size" FROM p AS t0 ORDER BY t0."size" DESC LIMIT 9'  # type: ignore[attr-defined]


def test_a_long_salt_is_shortened_to_a_whole_number() -> None:
    assert "CAST(5 AS UBIGINT)" in PLANS["arcs"].render(("<0>",), Printing(salt=2**63 * 9 + 5))


def test_nothing_else_was_reviewed() -> None:
    assert list(read()) == list(PLANS)


@pytest.mark.parametrize(("name", "label"), [
    ("scan, public", "Scan towns (public)"), ("filter", "Filter x > 1.5"), ("join, left rows kept", "Left join on (id = person) AND TRUE"),
    ("lookup, own rows", "Look up id in person and id in visit"), ("lookup, rows of one mark", "Keep rows with town in town"),
    ("lookup by a condition, rows of one mark", "Keep rows without a row where town = town"), ("except all", "Except all of a, b, c"),
    ("group", "Group count(*), count_distinct(visit), sum(visit), avg(visit), min(town) by person, town"),
    ("group, no keys", "Group count(town)"), ("truncate", "Keep at most 3 rows of each person"),
    ("truncate, a number in the order", "Keep at most 1 row of each id"), ("truncate keys", "Keep at most 2 rows of each town"),
    ("truncate keys, without a key", "Keep at most 1 row of each word"),
    ("truncate keys, the first by a column", "Keep the first 2 rows of each town by person desc"),
    ("window", "Window row_number(), rank(), lag(town, 2), max(town), sum(visit) rows between 1 preceding and current row by person "
               "ordered by town"),
    ("window, without a key", "Window ntile(3), count(*) rows between unbounded preceding and 1 preceding by (owner)"),
    ("window, numbers", "Window avg(x) range between unbounded preceding and current row by x ordered by x desc"),
    ("clip", "Clip each person to an l2 norm of 5"), ("arcs", "Arcs between id and visit"), ("largest", "List the largest x in [0, 10]"),
    ("largest, negated", "List the largest negated x in [-5, 5] where active"),
    ("join sum", "Sum x in [-5, 5] where active"), ("multiplicities", "Count how often values of town occur"),
    ("multiplicities by keys", "Count how often values of x occur by x, active"), ("shares", "Share rows among id, person"),
    ("arcs of texts", "Arcs from town to town"), ("norms", "Size of what each person adds"), ("numbers", "Number the rows of each x and active"),
    ("tally", "Tally rows where active; rows with x; x in [-5, 5] where active"), ("ranks", "Rank x in [0, 10] by active"),
])
def test_an_operator_is_named_in_words(name: str, label: str) -> None:
    assert shown(PLANS[name]) == label


def test_every_operator_is_named_in_words() -> None:
    assert {*RELATIONS, *SUMMARIES} <= shown.registry.keys()


if __name__ == "__main__":
    GOLDEN.write_text("\n".join(f"-- {name}\n{text_of(plan)}\n" for name, plan in PLANS.items()))
