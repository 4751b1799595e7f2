"""What the kernel derives of small relations, against what was worked out by hand: `test_checker` compares it with what operators claim."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from datetime import date, datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import duckdb
import pytest
from support.forged import fields_of, made_of, tampered
from support.small_tables import NOTES, PEOPLE, TRUE, VISITS, both, equal, literal, owned, people, scan, towns, visits

from dpsql.backends.duckdb import DuckReader
from dpsql.errors import OperationalError
from dpsql.frozen import replace
from dpsql.questions.labels import label
from dpsql.questions.no_public_facts import NoPublicFacts
from dpsql.trusted.kernel import checker, claims, plan_size, shapes
from dpsql.trusted.kernel.checker import Checked, Known
from dpsql.trusted.kernel.claims import Claims, Disagreement
from dpsql.trusted.kernel.shapes import ColumnShape, Malformed, columns_of, reach
from dpsql.trusted.kernel.split_by_entity import split_by_entity
from dpsql.trusted.plan.certificate import Certificate, Sensitivity, certify
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Placeholder, Ref
from dpsql.trusted.plan.node import Node, Norm, Printing, SplitBy, Stability
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import Fold, GroupBy
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.norms import Norms
from dpsql.trusted.plan.operators.numbers import Numbers
from dpsql.trusted.plan.operators.ordering import Term
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.ranks import Ranks
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.statistics import ExactAggregate, Statistics
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Frame, Window, WindowFunction
from dpsql.types import Type

P, V, T = people("p", "age"), visits(), towns("t", "size")
NUMBER, TEXT = ColumnShape(type=Type.BIGINT), ColumnShape(type=Type.VARCHAR)
PAIR = MappingProxyType({"a": NUMBER, "b": NUMBER})
NO_FREQUENCY: Mapping[frozenset[str], float] = MappingProxyType({})


def two(rows: float, *owners: str, public: bool = False) -> Known:
    """A relation with columns a and b."""
    return Known(columns=PAIR, rows=rows, owners=frozenset(owners), frequencies=NO_FREQUENCY, public=public)


def derived(node: Node) -> dict[int, Known]:
    found: dict[int, Known] = {}
    checker.known(node, lambda *_: 2, found)
    return found


# -- what holds for every relation


def test_what_reads_public_tables_alone_is_public_and_does_not_move() -> None:
    every = towns("t")
    constants = Constants(columns=(P.field("p_id"),), rows=((1,), (2,)))
    for node in (every, constants, Filter(input=every, condition=TRUE), GroupBy(input=every, keys=("t_land",), folds=()),
                 Join(left=every, right=constants, condition=TRUE), UnionAll(parts=(constants, constants), columns=(("x", "x"),))):
        found = derived(node)[id(node)]
        assert (found.public, found.rows, found.owners, found.norm) == (True, 0, frozenset(), None), label(node)
    for node in (P, Join(left=every, right=P, condition=TRUE), Join(left=V, right=constants, condition=TRUE, keep_left=True)):
        assert not derived(node)[id(node)].public


def test_a_private_relation_moves_by_a_row_and_by_no_more_than_name_an_entity() -> None:
    found: dict[int, Known] = {}
    met = Join(left=V, right=towns("t"), condition=equal(V.field("v_town").ref, towns("t").field("t_land").ref))
    kept = Truncate(input=V, rows=4, owner="v_person", order=("v_visit",))
    for node, rows in ((P, 1), (V, math.inf), (kept, 4), (replace(met, left=kept), 1), (replace(met, left=P, condition=TRUE), 1)):
        assert checker.known(node, lambda *_: 0, found).rows == rows, "public rows that meet nothing do not make it public"


# -- relations that are put together


@pytest.mark.parametrize("left, right, rows, owners", [
    (two(3, "a"), two(2, "a"), 3, {"a"}),
    (two(3, "a", "b"), two(2, "a"), 3, {"a", "b"}),
    (two(3, "a"), two(0, public=True), 3, {"a"}),
    (two(3, "a"), two(2, "b"), 5, set()),
    (two(3, "a"), two(2, "a", "b"), 5, set()),
    (two(3, "a"), two(2), 5, set()),
    (two(3), two(2, "a"), 5, set()),
    (two(0, public=True), two(2, "a"), 2, set())])
def test_a_difference_has_the_owners_of_its_left_side_where_the_right_one_names_no_others(
        left: Known, right: Known, rows: int, owners: set[str]) -> None:
    """If somebody goes who removed a row of another entity, that row appears."""
    node = SetOperation(kind="except", all=False, left=P, right=P, columns=(("a", "a"), ("b", "b")))
    found = checker.RULES[SetOperation](node, PAIR, left, right)
    assert (found.rows, found.owners) == (rows, owners)


@pytest.mark.parametrize("parts, owners", [
    ((two(3, "a"), two(2, "a")), {"a"}), ((two(3, "a"), two(2, "b")), set()), ((two(3, "a"), two(2, "a", "b")), set()),
    ((two(3, "a"), two(2)), set()), ((two(3), two(2)), set())])
def test_a_union_has_the_owners_that_all_parts_have_in_the_same_places(parts: tuple[Known, ...], owners: set[str]) -> None:
    node = UnionAll(parts=(P, P), columns=(("a", "a"), ("b", "b")))
    found = checker.RULES[UnionAll](node, PAIR, *parts)
    assert (found.rows, found.owners) == (5, owners)


@pytest.mark.parametrize("left, right, rows, owners", [
    (two(3, "a"), two(2, "a"), 2, {"a"}), (two(2, "a"), two(3, "a"), 2, {"a"}), (two(3, "a"), two(2, "b"), 5, {"a", "b"}),
    (two(3, "a", "b"), two(2, "b"), 3, {"a", "b"}), (two(3, "a"), two(0, public=True), 3, {"a"}), (two(0, public=True), two(2, "b"), 2, {"b"}),
    (two(3, "a"), two(2), 5, set()), (two(3), two(2, "a"), 5, set())])
def test_common_rows_have_the_owners_of_both_sides(left: Known, right: Known, rows: int, owners: set[str]) -> None:
    node = SetOperation(kind="intersect", all=False, left=P, right=P, columns=(("a", "a"), ("b", "b")))
    found = checker.RULES[SetOperation](node, PAIR, left, right)
    assert (found.rows, found.owners) == (rows, owners)


@pytest.mark.parametrize("kind, every, agree", [
    ("intersect", False, {"a": 2, "b": 3, "ab": 1}), ("intersect", True, {"a": 2, "b": 3}), ("except", False, {"a": 2, "ab": 1}),
    ("except", True, {"a": 2})])
def test_how_many_rows_of_a_set_operation_agree(kind: Any, every: bool, agree: dict[str, int]) -> None:
    """Rows of a difference agree as on the left side, common ones as on both."""
    node = SetOperation(kind=kind, all=every, left=P, right=P, columns=(("a", "a"), ("b", "b")))
    sides = (replace(two(3), frequencies={frozenset(name): rows}) for name, rows in (("a", 2), ("b", 3)))
    assert checker.RULES[SetOperation](node, PAIR, *sides).frequencies == {frozenset(names): rows for names, rows in agree.items()}


FIRST, SECOND = (Merged(id=f"{left}{right}", name="m", left=left, right=right) for left, right in ("ac", "bd"))
A, AB, C, CD = ("a",), ("a", "b"), ("c",), ("c", "d")


@pytest.mark.parametrize("left, right, same, given, owners", [
    (two(1, *A), two(1, *C), {("a", "c")}, {}, {"a"}),
    (two(1, *A), two(1, *C), set(), {}, {"a", "c"}),
    (two(1, *A), two(1, *CD), {("a", "c")}, {}, {"a", "d"}),
    (two(1, *A), two(1), set(), {}, set()), (two(1), two(1, *C), set(), {}, set()),
    (two(1, *A), two(1, *C), {("a", "c")}, {"keep_left": True}, {"a"}),
    (two(1, *A), two(1, *C), set(), {"keep_left": True}, set()),
    (two(1, *A), two(1, *CD), {("a", "c")}, {"keep_left": True}, set()),
    (two(1, *AB), two(1, *C), {("a", "c")}, {"keep_left": True}, {"a", "b"}),
    (two(1, *A), two(1, *C), {("a", "c")}, {"keep_right": True}, {"c"}),
    (two(1, *AB), two(1, *C), {("a", "c")}, {"keep_right": True}, set()),
    (two(1, *A), two(1, *C), {("a", "c")}, {"keep_left": True, "keep_right": True}, set()),
    (two(1, *A), two(1, *C), {("a", "c")}, {"keep_left": True, "keep_right": True, "merged": (FIRST,)}, {"ac"}),
    (two(1, *A), two(1, *C), {("a", "c")}, {"keep_left": True, "keep_right": True, "merged": (SECOND,)}, set()),
    (two(1, *AB), two(1, *C), {("a", "c"), ("b", "c")}, {"keep_left": True, "keep_right": True, "merged": (FIRST,)}, set()),
    (two(1, *A), two(1, *CD), {("a", "c"), ("a", "d")}, {"keep_left": True, "keep_right": True, "merged": (FIRST,)}, set()),
    (two(1, *AB), two(1, *CD), {("a", "c"), ("b", "d")}, {"keep_left": True, "keep_right": True, "merged": (FIRST, SECOND)}, {"ac", "bd"}),
    (two(1, *AB), two(1, *CD), {("a", "c"), ("b", "d")}, {"keep_left": True, "keep_right": True, "merged": (
        replace(FIRST, right="d"), replace(SECOND, right="c"))}, set()),
    (two(0, public=True), two(1, *C), set(), {}, {"c"}), (two(0, public=True), two(1, *C), set(), {"keep_right": True}, {"c"}),
    (two(0, public=True), two(1, *C), set(), {"keep_left": True}, set()),
    (two(1, *A), two(0, public=True), set(), {}, {"a"}), (two(1, *A), two(0, public=True), set(), {"keep_left": True}, {"a"}),
    (two(1, *A), two(0, public=True), set(), {"keep_right": True}, set())])
def test_whose_the_rows_of_a_join_are(left: Known, right: Known, same: set[tuple[str, str]], given: dict[str, Any], owners: set[str]) -> None:
    """`same` are owners that are equal in all pairs. A row that is padded appears as its partners go."""
    node = Join(left=P, right=V, condition=TRUE, **given)
    assert checker._owners(node, left, right, same) == owners


MEET, SAME = (Call(function=name, args=(Ref(column="a", type=Type.BIGINT), Ref(column="c", type=Type.BIGINT)), type=Type.BOOLEAN)
              for name in ("=", "is not distinct from"))


def side(column: str, rows: float, agree: float, public: bool = False) -> Known:
    """A relation of one column, of whose rows so many agree."""
    return Known(columns={column: NUMBER}, rows=rows, frequencies={frozenset(column): agree}, public=public)


@pytest.mark.parametrize("given, rows", [
    ({}, 3 * 5 + 2 * 4), ({"keep_left": True}, 3 * 5 + 2 * 8), ({"keep_right": True}, 3 * 10 + 2 * 4),
    ({"keep_left": True, "keep_right": True}, 3 * 10 + 2 * 8), ({"keep_left": True, "bare": True}, 3 * 5 + 2 * 4)])
def test_how_far_joins_move(given: dict[str, Any], rows: int) -> None:
    """Five right rows meet a left one, and four left rows a right one."""
    found = checker.RULES[Join](Join(left=P, right=V, condition=MEET, **given), {"a": NUMBER, "c": NUMBER}, side("a", 3, 4), side("c", 2, 5), None)
    assert found.rows == rows


@pytest.mark.parametrize("given, columns, agree", [
    ({}, "ac", {"a": 4 * 5, "c": 5 * 4}), ({"keep_left": True}, "ac", {"a": 4 * 5}), ({"keep_right": True}, "ac", {"c": 5 * 4}),
    ({"keep_left": True, "keep_right": True}, "ac", {}), ({"keep_left": True, "bare": True}, "a", {"a": 4 * 5}),
    ({"keep_right": True, "bare": True}, "c", {"c": 5 * 4})])
def test_how_many_rows_of_a_join_agree(given: dict[str, Any], columns: str, agree: dict[str, int]) -> None:
    """The columns of a padded row are NULL in any number of rows."""
    node = Join(left=P, right=V, condition=MEET, **given)
    found = checker.RULES[Join](node, dict.fromkeys(columns, NUMBER), side("a", 3, 4), side("c", 2, 5), None)
    assert found.frequencies == {frozenset(name): rows for name, rows in agree.items()}


@pytest.mark.parametrize("x, y, agree", [(4, 5, 20), (1, 1, 2), (1, 5, 6), (math.inf, 2, math.inf)])
def test_how_many_rows_agree_on_merged_columns(x: float, y: float, agree: float) -> None:
    """All of them meet, or none does and all are padded."""
    node = Join(left=P, right=V, condition=MEET, keep_left=True, keep_right=True, merged=(FIRST,))
    found = checker.RULES[Join](node, dict.fromkeys(["a", "c", "ac"], NUMBER), side("a", 3, x), side("c", 2, y), None)
    assert found.frequencies == {frozenset(["ac"]): agree}


@pytest.mark.parametrize("left, right, rows, owners", [
    (("a",), ("c",), 2, {"a"}), (("b",), ("c",), 8, {"b", "c"}), (("a",), ("d",), 8, {"a", "d"}), (("a", "b"), ("c",), 8, {"a", "b"}),
    (("a",), ("c", "d"), 8, {"a", "d"}), (("a",), (), 8, set()), ((), ("c",), 8, set())])
def test_rows_of_an_entity_meet_its_own_alone_where_its_name_is_compared(left: tuple[str, ...], right: tuple[str, ...], rows: int,
                                                                         owners: set[str]) -> None:
    """3 left rows that meet 2 others each, and 2 right rows that meet one: 8 pairs, or 2 where both rows are its own."""
    node, agree = Join(left=P, right=V, condition=MEET), {frozenset("a"): 1, frozenset("c"): 2}
    ours = Known(columns=PAIR, rows=3, owners=frozenset(left), frequencies=agree)
    theirs = Known(columns={"c": NUMBER, "d": NUMBER}, rows=2, owners=frozenset(right), frequencies=agree)
    found = checker.RULES[Join](node, dict.fromkeys("abcd", NUMBER), ours, theirs, None)
    assert (found.rows, found.owners) == (rows, owners)


@pytest.mark.parametrize("condition, present", [(MEET, {"c"}), (SAME, set())])
@pytest.mark.parametrize("agree, counted, rows", [(5, 2, 3 * 2), (5, 9, 3 * 5), (1, 2, 3), (math.inf, 7, 3 * 7)])
def test_public_rows_that_meet_are_counted(condition: Call, present: set[str], agree: float, counted: int, rows: int) -> None:
    """Those with a NULL meet nothing by `=`, and each other otherwise."""
    asked = list[tuple[Node, tuple[str, ...], frozenset[str]]]()

    def meets(*given: Any) -> int:
        asked.append(given)
        return counted

    node, columns = Join(left=P, right=V, condition=condition), {"a": NUMBER, "c": NUMBER}
    assert checker.RULES[Join](node, columns, side("a", 3, math.inf), side("c", 0, agree, public=True), meets).rows == rows
    assert checker.RULES[Join](node, columns, side("a", 0, agree, public=True), side("c", 3, math.inf), meets).rows == rows
    assert asked == ([] if agree == 1 else [(V, ("c",), present), (P, ("a",), {"a"} if present else set())])


def test_what_a_filter_leaves_of_a_column_tells_how_many_rows_agree_on_the_others() -> None:
    a = Ref(column="a", type=Type.BIGINT)
    least, most = (Call(function=name, args=(a, literal(number, Type.BIGINT)), type=Type.BOOLEAN) for name, number in ((">=", 2), ("<=", 4)))
    below = replace(two(3, "b"), frequencies={frozenset("ab"): 2})
    found = checker.RULES[Filter](Filter(input=P, condition=both(least, most)), PAIR, below)
    assert (found.rows, found.owners, found.frequencies) == (3, {"b"}, {frozenset("ab"): 2, frozenset("b"): 6})
    none = Filter(input=P, condition=both(compared("<", a, literal(2, Type.BIGINT)), least))
    assert checker.RULES[Filter](none, PAIR, below).frequencies == {frozenset("ab"): 2, frozenset("b"): 2}
    for half in (least, most):
        assert checker.RULES[Filter](Filter(input=P, condition=half), PAIR, below).frequencies == below.frequencies


def test_what_is_computed_keeps_nothing_that_was_known() -> None:
    a, b = (Ref(column=name, type=Type.BIGINT) for name in "ab")
    node = Project(input=P, columns=(("x", "x", a), ("y", "y", Call(function="-", args=(b,), type=Type.BIGINT))))
    for column, owners, columns in (("a", {"x"}, ("x",)), ("b", set(), None)):
        below = Known(columns=PAIR, rows=3, owners=frozenset(column), frequencies={frozenset(column): 1}, norm=Norm(order=1, bound=6, columns=(column,)))
        found = checker.RULES[Project](node, {"x": NUMBER, "y": NUMBER}, below)
        assert (found.rows, found.owners, found.frequencies) == (3, owners, {frozenset(owners): 1} if owners else {})
        assert (found.norm and found.norm.columns) == columns


def test_how_many_rows_of_a_join_are_of_one_entity() -> None:
    """P pairs of a and b rows that have m and n partners at most, and rows that have none."""
    for a, b, m, n in itertools.product(range(1, 5), range(1, 5), range(1, 6), range(1, 6)):
        partners = min(m, b), min(n, a)
        pairs = range(min(a * partners[0], b * partners[1]) + 1)
        for left, right in itertools.product((0, 1), repeat=2):
            most = max(p + left * (a - Fraction(p, partners[0])) + right * (b - Fraction(p, partners[1])) for p in pairs)
            assert checker._own(a, b, m, n, left, right) == math.floor(most)
    assert checker._own(math.inf, 2, math.inf, math.inf, 0, 0) == math.inf


@pytest.mark.parametrize("below, listed, keep, rows, owners", [
    (("p_id",), ("v_person",), None, 4, {"p_id"}), (("p_id",), ("v_person",), False, 4, {"p_id"}),
    (("p_age",), ("v_person",), None, 4 + 2 * 3, set()), (("p_age",), ("v_person",), True, 4 + 3, set()),
    (("p_id",), ("v_person", "v_visit"), None, 4 + 2 * 3, set()), (("p_id",), ("v_visit",), None, 4 + 2 * 3, set()),
    (("p_id",), (), None, 4 + 2 * 3, set()), ((), ("v_person",), None, 4 + 2 * 3, set())])
def test_a_mark_is_of_an_entity_where_the_listed_rows_are_of_the_same(
        below: tuple[str, ...], listed: tuple[str, ...], keep: bool | None, rows: int, owners: set[str]) -> None:
    node = Lookup(input=P, listed=V, keys=((P.field("p_id").ref, "v_person"),), mark="mark", keep=keep)
    first, second = (replace(derived(part)[id(part)], rows=rows, owners=frozenset(owners))
                     for part, rows, owners in ((P, 4, below), (V, 3, listed)))
    found = checker.RULES[Lookup](node, first.columns, first, second, meets=None)
    assert (found.rows, found.owners) == (rows, owners)


def test_a_computed_key_names_no_entity() -> None:
    negated = Call(function="-", args=(P.field("p_id").ref,), type=Type.BIGINT)
    first, second = replace(derived(P)[id(P)], rows=4), replace(derived(V)[id(V)], rows=3)
    for keys, rows, owners in (((), 4 + 2 * 3, set()), (((P.field("p_id").ref, "v_person"),), 4, {"p_id"})):
        node = Lookup(input=P, listed=V, keys=((negated, "v_visit"), *keys), mark="mark")
        found = checker.RULES[Lookup](node, first.columns, replace(first, frequencies={frozenset(): 1}), second, meets=None)
        assert (found.rows, found.owners) == (rows, owners)


@pytest.mark.parametrize("agree, counted, rows", [(5, 2, 2 * 3 * 2), (5, 9, 2 * 3 * 5), (1, 2, 2 * 3), (math.inf, 7, 2 * 3 * 7)])
def test_public_rows_whose_marks_change_are_counted(agree: float, counted: int, rows: int) -> None:
    """Those with a NULL in a key have no partner."""
    asked = list[tuple[Node, tuple[str, ...], frozenset[str]]]()

    def meets(*given: Any) -> int:
        asked.append(given)
        return counted

    node = Lookup(input=P, listed=V, keys=((Ref(column="a", type=Type.BIGINT), "c"),), mark="mark")
    found = checker.RULES[Lookup](node, {"a": NUMBER}, side("a", 0, agree, public=True), side("c", 3, math.inf), meets)
    assert found.rows == rows
    assert asked == ([] if agree == 1 else [(P, ("a",), {"a"})])


@pytest.mark.parametrize("owners, frequencies, keys, folds, rows, left", [
    (("a",), {}, ("a",), True, 3, {"a"}), (("a",), {}, ("a", "b"), True, 3, {"a"}), (("a",), {}, ("b",), True, 6, set()),
    (("a",), {}, ("b",), False, 3, set()), (("a", "b"), {}, ("a",), True, 6, set()), ((), {}, ("a",), True, 6, set()),
    (("a",), {frozenset("b"): 1}, ("b",), True, 3, set()), (("a",), {frozenset("b"): 2}, ("b",), True, 6, set()),
    (("a",), {frozenset("a"): 1}, ("b",), True, 6, set()), (("a",), {}, (), True, 2, set())])
def test_how_far_groups_move(owners: tuple[str, ...], frequencies: dict[frozenset[str], float], keys: tuple[str, ...], folds: bool,
                             rows: int, left: set[str]) -> None:
    counted = (Fold(id="n", name="n", function="count"),) if folds else ()
    node = GroupBy(input=P, keys=keys, folds=counted)
    columns = dict.fromkeys((*keys, *(fold.id for fold in counted)), NUMBER)
    found = checker.RULES[GroupBy](node, columns, replace(two(3, *owners), frequencies=frequencies))
    assert (found.rows, found.owners) == (rows, left) and found.frequencies[frozenset(keys)] == 1


@pytest.mark.parametrize("node, names", [
    (Contributions(input=P, owner="a", keys=(), summands=(Count(),)), ("a", "e0_0")), (Norms(input=P, owner="a", columns=("b",), order=1), ("a", "size"))])
@pytest.mark.parametrize("owners, rows, left", [(("a",), 3, {"a"}), (("b",), 6, set()), (("a", "b"), 6, set()), ((), 6, set())])
def test_what_each_entity_adds_moves_as_groups_do(node: Contributions | Norms, names: tuple[str, ...], owners: tuple[str, ...], rows: int,
                                                  left: set[str]) -> None:
    """A row of another entity replaces a group by another one."""
    found = checker.RULES[type(node)](node, dict.fromkeys(names, NUMBER), two(3, *owners))
    assert (found.rows, found.owners, found.frequencies) == (rows, left, {frozenset("a"): 1})


def test_numbered_rows_move_as_those_below_and_belong_to_nobody() -> None:
    node = Numbers(input=P, keys=("a",))
    below = replace(two(3, "a"), frequencies={frozenset("a"): 4, frozenset("b"): 2})
    found = checker.RULES[Numbers](node, {"a": NUMBER, "number": NUMBER}, below)
    assert (found.rows, found.owners) == (3, set())
    assert found.frequencies == {frozenset("a"): 4, frozenset(["a", "number"]): 1}


# -- columns


def test_what_values_counts_and_clipped_sums_can_have() -> None:
    """A filter on a column with few values leaves few rows that agree."""
    counted = columns_of(GroupBy(input=P, keys=("p_age",), folds=(Fold(id="n", name="n", function="count"),)), [columns_of(P, [])])
    assert (counted["n"].low, counted["n"].high) == (0, math.inf)
    sums = Contributions(input=P, owner="p_id", keys=(), summands=(Count(),))
    added = columns_of(sums, [columns_of(P, [])])[sums.totals[0]]
    assert (added.low, added.high) == (-(2**50), 2**50)
    clipped = Clip(input=sums, owner="p_id", columns=sums.totals, order=1, bound=6)
    found = derived(clipped)[id(clipped)].columns[sums.totals[0]]
    assert (found.low, found.high) == (-6, 6)


def test_what_was_known_of_columns_before_they_were_clipped_is_not_known_after() -> None:
    node = Clip(input=P, owner="a", columns=("b",), order=1, bound=6)
    found = checker.RULES[Clip](node, PAIR, replace(two(3, "a"), frequencies={frozenset("a"): 2, frozenset("b"): 1}))
    assert (found.rows, found.owners, found.frequencies, found.norm) == (3, {"a"}, {frozenset("a"): 2}, Norm(order=1, bound=6, columns=("b",)))
    assert checker.RULES[Clip](node, PAIR, two(3, "a", "b")).norm is None


def test_constants_are_of_the_types_of_their_columns() -> None:
    fields = {field.facts.type: field for field in (*people("p").fields, *visits("v").fields)}
    whole, text, truth, day, real = (fields[kind] for kind in (Type.BIGINT, Type.VARCHAR, Type.BOOLEAN, Type.DATE, Type.DOUBLE))
    right = Constants(columns=(whole, text, truth, day, real), rows=((1, "a", True, date(2020, 1, 1), 0.5), (None,) * 5, (2, "b", False, None, 3)))
    assert [kind.type for kind in columns_of(right, []).values()] == [Type.BIGINT, Type.VARCHAR, Type.BOOLEAN, Type.DATE, Type.DOUBLE]
    for rows in ((), ((1,) * 4,), ((1, "a", True, None, None), (1,)), *((tuple(wrong if i == at else None for i in range(5)),) for at, wrong in (
            (0, 1.0), (0, True), (0, "1"), (1, 1), (2, 1), (3, "2020-01-01"), (3, datetime(2020, 1, 1)), (4, True), (4, Fraction(1))))):
        for given in (rows, (*rows, (None,) * 5) if rows else ()):
            with pytest.raises(Malformed):
                columns_of(replace(right, rows=given), [])  # type: ignore[arg-type]
                pytest.fail(repr(given))


def test_rows_are_kept_ordered_and_added_up_by_columns_that_exist() -> None:
    below = {"a": NUMBER, "b": NUMBER}
    first = TruncateKeys(input=P, rows=1, keys=("a",), order=("b",), first=(Term(column="b"),))
    kept = Truncate(input=P, rows=1, owner="a", order=("b",))
    window = Window(input=P, partition=("a",), order=(Term(column="b"),), ties=("a", "b"), functions=(NUMBERED,))
    added = Contributions(input=P, owner="a", keys=("b",), summands=(Count(),))
    for node in (first, kept, window, added):
        assert columns_of(node, [below])
    nowhere = (Term(column="nowhere"),)
    for wrong in (replace(first, rows=0), replace(first, keys=("nowhere",)), replace(first, order=("nowhere",)), replace(first, first=nowhere),
                  replace(kept, rows=0), replace(kept, owner="nowhere"), replace(kept, order=("nowhere",)), replace(window, partition=("nowhere",)),
                  replace(window, order=nowhere), replace(window, ties=("nowhere",)), replace(added, summands=()), replace(added, owner="nowhere"),
                  replace(added, keys=("nowhere",)), replace(added, summands=(Count(), Count(column="nowhere"))),
                  replace(added, summands=(Count(when="a"),)), Join(left=P, right=P, condition=Ref(column="nowhere", type=Type.BOOLEAN))):
        with pytest.raises(Malformed):
            columns_of(wrong, [below, {"c": NUMBER}][:len(wrong.inputs)])
            pytest.fail(repr(wrong))


def test_aggregates_have_the_types_and_ranges_of_their_columns() -> None:
    narrow, text = replace(NUMBER, low=-3, high=5), ColumnShape(type=Type.VARCHAR)
    for function, column, shape in (
            ("count", None, shapes.COUNTED), ("count", "t", shapes.COUNTED), ("count_distinct", "t", shapes.COUNTED), ("min", "a", narrow), ("max", "t", text),
            ("sum", "a", NUMBER), ("avg", "a", ColumnShape(type=Type.DOUBLE))):
        fold = Fold(id="n", name="n", function=function, column=column, grid=grid(0, 9))  # type: ignore[arg-type]
        assert columns_of(GroupBy(input=P, keys=(), folds=(fold,)), [{"a": narrow, "t": text}])["n"] == shape, function
    upside_down = tampered(grid(0, 9), low=10)
    fold = Fold(id="n", name="n", function="sum", column="a", grid=grid(0, 9))
    for wrong in ({"function": "count_distinct", "column": None}, {"function": "median"}, {"column": "nowhere"}, {"column": None}, {"grid": upside_down}):
        with pytest.raises(Malformed):
            columns_of(GroupBy(input=P, keys=(), folds=(replace(fold, **wrong),)), [{"a": narrow, "t": text}])  # type: ignore[arg-type]


def test_columns_of_both_sides_are_equated_where_a_condition_says_so_of_them_alone() -> None:
    left, right = {"a": NUMBER, "b": NUMBER}, {"c": NUMBER, "d": NUMBER}
    a, b, c, d = (Ref(column=name, type=Type.BIGINT) for name in "abcd")
    for condition, pairs in (
            (compared("=", a, c), {("a", "c"): True}), (compared("=", c, a), {("a", "c"): True}), (SAME, {("a", "c"): False}),
            (both(SAME, MEET), {("a", "c"): True}), (both(MEET, SAME), {("a", "c"): True}), (both(MEET, compared("=", d, b)), {("a", "c"): True, ("b", "d"): True}),
            (compared("=", a, b), {}), (compared("=", c, d), {}), (compared("<", a, c), {}), (compared("or", MEET, MEET), {}), (TRUE, {}),
            (compared("=", a, literal(1, Type.BIGINT)), {}), (compared("=", literal(1, Type.BIGINT), c), {})):
        assert shapes.equated(condition, left, right) == pairs


def test_values_that_differ_stay_different_in_groups() -> None:
    columns = {name: ColumnShape(type=kind) for name, kind in zip("abcdef", Type, strict=False)}
    assert shapes.told_apart(columns, columns) == {name: name for name in columns}
    assert shapes.grouping(Distinct(input=P), columns) == (tuple(columns), False)
    assert shapes.grouping(GroupBy(input=P, keys=("a",), folds=()), columns) == (("a",), False)


def test_exact_statistics_are_of_known_functions_and_columns() -> None:
    below = {"a": NUMBER, "b": NUMBER, "t": ColumnShape(type=Type.BOOLEAN)}
    call = ExactAggregate(id="n", function="sum", columns=("a",), type=Type.BIGINT)
    node = Statistics(input=P, keys=("b",), calls=(call,))
    half = replace(call, function="quantile", fraction=Fraction(1, 2))
    for calls in ((call,), (replace(call, when="t"),), (call, half), (replace(call, function="corr", columns=("a", "b"), when="t"),)):
        assert shapes.check_statistics(replace(node, calls=calls), below) == {}
    for wrong in (replace(call, function="sleep"), replace(call, columns=("nowhere",)), replace(call, when="nowhere"), replace(half, fraction=0.5)):
        with pytest.raises(Malformed):
            shapes.check_statistics(replace(node, calls=(call, wrong)), below)
    with pytest.raises(Malformed):
        shapes.check_statistics(replace(node, keys=("nowhere",)), below)


def test_keys_that_an_engine_reads_alone_are_not_shown() -> None:
    """A client could read two of them as one."""
    plan = GroupedSums(input=V, keys=("v_town",), summands=(Count(),))
    checker.check(plan, lambda *_: 2)
    with pytest.raises(Malformed):
        checker.check(replace(plan, in_engine=True), lambda *_: 2)


def forged(value: Any) -> Any:
    """The same of a class of its own."""
    return made_of(type("Forged", (type(value),), {}), fields_of(value))


def test_no_part_of_a_relation_is_of_a_class_of_its_own() -> None:
    below, fold = {"a": NUMBER, "b": NUMBER}, Fold(id="n", name="n", function="count")
    term, a = Term(column="b"), Ref(column="a", type=Type.BIGINT)
    for node, name, part in (
            (GroupBy(input=P, keys=("a",), folds=(fold,)), "folds", fold),
            (Window(input=P, partition=(), order=(term,), ties=(), functions=(NUMBERED,)), "order", term),
            (TruncateKeys(input=P, rows=1, keys=("a",), order=("b",), first=(term,)), "first", term),
            (Window(input=P, partition=(), order=(), ties=(), functions=(NUMBERED,)), "functions", NUMBERED),
            (Constants(columns=(P.field("p_id"),), rows=((1,),)), "columns", P.field("p_id")),
            (Contributions(input=P, owner="a", keys=(), summands=(Count(),)), "summands", Count())):
        assert columns_of(node, [below])
        with pytest.raises(Malformed):
            columns_of(replace(node, **{name: (forged(part),)}), [below])
            pytest.fail(name)
    for wrong in (forged(a), Call(function="-", args=(forged(a),), type=Type.BIGINT), forged(literal(1, Type.BIGINT))):
        with pytest.raises(Malformed):
            shapes.typed(wrong, below)
    with pytest.raises(Malformed):
        columns_of(forged(Distinct(input=P)), [below])


def test_columns_of_different_types_are_not_put_together() -> None:
    whole, text = (Project(input=V, columns=(("x", "x", V.field(name).ref),)) for name in ("v_visit", "v_town"))
    for parts in ((whole, text), (text, whole)):
        with pytest.raises(Malformed):
            derived(UnionAll(parts=parts, columns=(("x", "x"),)))


def test_a_column_of_several_holds_the_values_of_all() -> None:
    low, high = (ColumnShape(type=Type.BIGINT, low=low, high=high) for low, high in ((-2, 5), (0, 9)))
    for parts in ([low, high], [high, low]):
        assert shapes._hull(parts) == ColumnShape(type=Type.BIGINT, low=-2, high=9)


def test_a_key_is_none_where_it_can_be_null() -> None:
    assert [*shapes.keys_of(V)] == [{"v_visit"}]
    assert [*shapes.keys_of(people("p", "id"))] == [{"p_id"}] * 2, "an owner by which a table has one row is a key"
    assert [*shapes.keys_of(replace(P, columns=(("p_age", "age"),)))] == [{"p_id"}]
    assert [*shapes.keys_of(scan(replace(NOTES, unique=(frozenset(["person"]),)), "n"))] == [], "that is a column of another table"
    for columns in (["town"], ["town", "visit"]):
        assert [*shapes.keys_of(scan(replace(VISITS, unique=(frozenset(columns),)), "v"))] == []


def test_a_sum_is_one_of_a_column() -> None:
    with pytest.raises(Malformed):
        derived(GroupBy(input=V, keys=("v_town",), folds=(Fold(id="n", name="n", function="sum"),)))


def test_a_limit_is_a_positive_whole_number() -> None:
    assert [value for value in (-1, 0, 1, 2**62, 2**62 + 1, True, 1.0, None) if shapes.is_limit(value)] == [1, 2**62]
    assert not shapes.is_limit(True)


@pytest.mark.parametrize("node", [
    Clip(input=P, owner="a", columns=("b",), order=1, bound=6), Norms(input=P, owner="a", columns=("b",), order=1)])
def test_a_norm_is_one_of_bounded_whole_numbers(node: Clip | Norms) -> None:
    most = ColumnShape(type=Type.BIGINT, low=-(2**50), high=2**50)
    below = {"a": NUMBER, "b": most}
    for order in (1, 2):
        assert columns_of(replace(node, order=order), [below])
    if isinstance(node, Clip):
        assert columns_of(replace(node, bound=2**50), [below])["b"] == most
        for bound in (0, 2**50 + 1, True, 1.0):
            with pytest.raises(Malformed):
                columns_of(replace(node, bound=bound), [below])  # type: ignore[arg-type]
    for wrong in ({"order": 3}, {"order": True}, {"columns": ()}, {"columns": ("a", "b")}, {"columns": ("nowhere",)}, {"owner": "nowhere"}):
        with pytest.raises(Malformed):
            columns_of(replace(node, **wrong), [below])
    for other in (NUMBER, replace(most, low=most.low - 1), replace(most, high=most.high + 1), replace(most, type=Type.DOUBLE)):
        with pytest.raises(Malformed):
            columns_of(node, [{**below, "b": other}])


def test_columns_are_merged_where_unmatched_rows_of_both_sides_are_kept() -> None:
    left, right = {"a": NUMBER, "b": NUMBER}, {"c": NUMBER, "d": NUMBER}
    node = Join(left=P, right=V, condition=MEET, keep_left=True, keep_right=True, merged=(FIRST,))
    assert [*columns_of(node, [left, right])] == ["a", "b", "c", "d", "ac"]
    for wrong in ({"keep_left": False}, {"keep_right": False}, {"bare": True}, {"merged": (SECOND,)}, {"keep_left": 1}):
        with pytest.raises(Malformed):
            columns_of(replace(node, **wrong), [left, right])
    with pytest.raises(Malformed):
        columns_of(node, [left, {**right, "a": NUMBER}])


@pytest.mark.parametrize("kept, columns", [("keep_left", ["a", "b"]), ("keep_right", ["c", "d"])])
def test_a_join_shows_one_side_alone_where_it_is_bare(kept: str, columns: list[str]) -> None:
    node = Join(left=P, right=V, condition=MEET, bare=True, **{kept: True})
    sides: list[Mapping[str, ColumnShape]] = [{"a": NUMBER, "b": NUMBER}, {"c": NUMBER, "d": NUMBER}]
    assert [*columns_of(node, sides)] == columns
    for wrong in ({"keep_left": True, "keep_right": True}, {"keep_left": False, "keep_right": False}):
        with pytest.raises(Malformed):
            columns_of(replace(node, **wrong), sides)


def test_a_lookup_compares_columns_of_one_type() -> None:
    a = Ref(column="a", type=Type.BIGINT)
    below, listed = {"a": NUMBER}, {"c": NUMBER, "t": ColumnShape(type=Type.VARCHAR)}
    node = Lookup(input=P, listed=V, keys=((a, "c"),), mark="mark", keep=True)
    for right in (node, replace(node, keep=None), replace(node, keys=(), condition=MEET), replace(node, condition=MEET)):
        assert [*columns_of(right, [below, listed])] == ["a", "mark"]
    for wrong in ({"keep": 1}, {"keys": ()}, {"keys": ((a, "t"),)}, {"keys": ((a, "nowhere"),)}, {"mark": "c"}, {"mark": "a"}, {"condition": a}):
        with pytest.raises(Malformed):
            columns_of(replace(node, **wrong), [below, listed])
    with pytest.raises(Malformed):
        columns_of(replace(node, condition=MEET), [below, {**listed, "a": NUMBER}])


def test_a_relation_has_columns() -> None:
    for node in (GroupBy(input=P, keys=(), folds=()), Project(input=P, columns=()), Numbers(input=P, keys=()),
                 Window(input=P, partition=(), order=(), ties=(), functions=())):
        with pytest.raises(Malformed):
            columns_of(node, [columns_of(P, [])])


def test_columns_have_plain_names_that_differ() -> None:
    for names in (["x", "x"], ["x", "X"], ['a"b'], ["a b"], ["1a"], [""], ["é"], ["a\n"], ["p_id", 'p") FROM secrets --']):
        with pytest.raises(Malformed):
            columns_of(Project(input=P, columns=tuple((name, name, TRUE) for name in names)), [columns_of(P, [])])


def test_a_table_is_read_by_the_names_of_its_columns_and_owners() -> None:
    assert [*columns_of(P, [])] == ["p_id", "p_age"]
    assert [*columns_of(replace(P, columns=(("p_age", "age"),)), [])] == ["p_age", "p_id"], "an owner is read in any case"
    way, = P.table.owners
    for wrong in ({"columns": (("x", "nowhere"),)}, {"columns": (("p_id", "age"),)}, {"owners": ()}, {"owners": ("p_id", "p_id")},
                  *({"table": replace(P.table, owners=(other,))} for other in (replace(way, kinds=2), replace(way, steps=NOTES.owners[0].steps))),
                  *({"table": replace(P.table, public=public)} for public in (True, 0, None))):
        with pytest.raises(Malformed):
            columns_of(replace(P, **wrong), [])  # type: ignore[arg-type]
            pytest.fail(repr(wrong))


def test_parts_that_are_put_together_are_several_and_have_as_many_columns() -> None:
    wide, narrow = ({"a": ColumnShape(type=Type.BIGINT, low=low, high=high)} for low, high in ((-9, 9), (0, 3)))
    union = UnionAll(parts=(P, P), columns=(("u", "u"),))
    differs = SetOperation(kind="except", all=False, left=P, right=P, columns=(("u", "u"),))
    for first, second in ((wide, narrow), (narrow, wide)):
        assert columns_of(union, [first, second])["u"] == wide["a"]
        assert columns_of(differs, [first, second])["u"] == first["a"], "the rows are those of the left side"
    for node, sides in ((union, [wide]), (union, [wide, {}]), (union, [{**wide, "b": NUMBER}] * 2), (replace(union, columns=()), [{}, {}]),
                        (replace(differs, kind="union"), [wide, wide]), (replace(differs, all=1), [wide, wide])):  # type: ignore[arg-type, type-var]
        with pytest.raises(Malformed):
            columns_of(node, sides)


def test_every_part_of_an_expression_has_the_type_that_it_says() -> None:
    below = {"a": NUMBER, "t": ColumnShape(type=Type.BOOLEAN)}
    a, t = Ref(column="a", type=Type.BIGINT), Ref(column="t", type=Type.BOOLEAN)
    case, cast = Case(type=Type.BIGINT, branches=((t, a),), otherwise=a), Cast(type=Type.BIGINT, input=t, target="INTEGER")
    for right in (a, case, cast, compared("<", a, a), literal(None, Type.DATE), Cast(type=Type.DOUBLE, input=a, target="DECIMAL(9,2)")):
        assert shapes.typed(right, below).type is right.type
    for wrong in (Ref(column="a", type=Type.BOOLEAN), Ref(column="nowhere", type=Type.BIGINT), replace(case, branches=((a, a),)),
                  replace(case, branches=((t, t),)), replace(case, otherwise=t), replace(case, type=Type.DOUBLE), replace(cast, type=Type.BOOLEAN),
                  compared("<", a, t), replace(compared("<", a, a), type=Type.BIGINT), compared("sleep", a, a), literal("a", Type.BIGINT),
                  literal(True, Type.BIGINT), both(t, literal(1, Type.BOOLEAN))):
        with pytest.raises(Malformed):
            shapes.typed(wrong, below)
            pytest.fail(repr(wrong))
    with pytest.raises(Malformed):
        columns_of(Filter(input=P, condition=a), [below])


def compared(function: str, a: Expr, b: Expr) -> Call:
    return Call(function=function, args=(a, b), type=Type.BOOLEAN)


@pytest.mark.parametrize("function, mirrored, low, high", [
    ("<=", ">=", -math.inf, 5), ("<", ">", -math.inf, 4), (">=", "<=", 5, math.inf), (">", "<", 6, math.inf), ("=", "=", 5, 5)])
def test_which_whole_numbers_a_comparison_leaves(function: str, mirrored: str, low: float, high: float) -> None:
    a, five = Ref(column="a", type=Type.BIGINT), literal(5, Type.BIGINT)
    shown = {"a": replace(NUMBER, low=low, high=high)}
    for condition in (compared(function, a, five), compared(mirrored, five, a)):
        assert shapes.limited(condition, {"a": NUMBER}) == shown
        assert shapes.limited(both(condition, condition), {"a": NUMBER}) == shown
    narrow = replace(NUMBER, low=-1, high=9)
    assert shapes.limited(compared(function, a, five), {"a": narrow})["a"] == replace(NUMBER, low=max(low, -1), high=min(high, 9))


def test_other_comparisons_leave_every_number() -> None:
    a, x = Ref(column="a", type=Type.BIGINT), Ref(column="x", type=Type.DOUBLE)
    below = {"a": NUMBER, "x": ColumnShape(type=Type.DOUBLE)}
    for condition in (compared("<>", a, literal(5, Type.BIGINT)), compared("<", a, a), compared("<", x, literal(5.0, Type.DOUBLE)), TRUE,
                      compared("or", *[compared("<", a, literal(5, Type.BIGINT))] * 2)):
        assert shapes.limited(condition, below) == {}


TOTAL = WindowFunction(id="s", name="s", function="sum", column="v_visit")
NUMBERED = WindowFunction(id="n", name="n", function="row_number")


@pytest.mark.parametrize("function, rows", [
    (replace(TOTAL, frame=Frame(rows=True, start=-2, end=1)), (2, 1)), (replace(TOTAL, frame=Frame(rows=True, start=-3, end=-2)), (3, 0)),
    (replace(TOTAL, frame=Frame(rows=True, start=1, end=2)), (0, 2)), (replace(TOTAL, frame=Frame(rows=True, start=0, end=0)), (0, 0)),
    (replace(TOTAL, frame=Frame(rows=True, start=-4)), (4, math.inf)), (replace(TOTAL, frame=Frame(rows=True, end=4)), (math.inf, 4)),
    (replace(TOTAL, frame=Frame(start=0, end=0)), (math.inf, math.inf)), (replace(TOTAL, function="lag", number=3), (3, 0)),
    (replace(TOTAL, function="lead", number=3), (0, 3)), (WindowFunction(id="n", name="n", function="row_number"), (math.inf, math.inf))])
def test_how_many_rows_before_and_after_a_window_function_reads(function: WindowFunction, rows: tuple[float, float]) -> None:
    assert reach(function) == rows


def test_a_window_function_has_a_frame_and_reads_columns_that_exist() -> None:
    below = {"v_visit": NUMBER, "v_town": ColumnShape(type=Type.VARCHAR)}

    def shown(function: WindowFunction) -> ColumnShape:
        return columns_of(Window(input=V, partition=(), order=(), ties=(), functions=(function,)), [below])[function.id]

    shift, tile = replace(TOTAL, function="lag", number=0), replace(NUMBERED, function="ntile", number=1)
    for right in (TOTAL, replace(TOTAL, frame=Frame(rows=True, start=-1, end=-1)), replace(TOTAL, frame=Frame(rows=True, end=2)), shift,
                  replace(shift, otherwise="v_visit")):
        assert shown(right).type is Type.BIGINT
    assert (shown(NUMBERED), shown(tile)) == (shapes.PLACE, shapes.PLACE)
    for wrong in (replace(TOTAL, frame=Frame(rows=True, start=0, end=-1)), replace(TOTAL, frame=Frame(rows=1)),  # type: ignore[arg-type]
                  replace(TOTAL, frame=Frame(rows=True, start=0.0)), replace(TOTAL, frame=Frame(rows=True, end=True)),  # type: ignore[arg-type]
                  replace(shift, number=-1), replace(shift, number=1.0), replace(tile, number=0),  # type: ignore[arg-type]
                  replace(TOTAL, column="nowhere"), replace(TOTAL, column=None), replace(TOTAL, function="median"),
                  replace(TOTAL, frame=type("Further", (Frame,), {})()),
                  replace(shift, column="nowhere"), replace(shift, column=None), replace(shift, otherwise="nowhere"),
                  replace(shift, otherwise="v_town")):
        with pytest.raises(Malformed):
            shown(wrong)
            pytest.fail(repr(wrong))


CAPPED = TruncateKeys(input=V, rows=4, keys=("v_town",), order=("v_visit",))
BEFORE, AFTER = (WindowFunction(id=name, name=name, function=name, column="v_visit") for name in ("lag", "lead"))


@pytest.mark.parametrize("node, partition, functions, ties, rows, owners", [
    (V, ("v_person",), (NUMBERED,), ("v_visit",), 3, {"v_person"}), (V, ("v_town", "v_person"), (BEFORE,), ("v_visit",), 3, {"v_person"}),
    (V, ("v_visit",), (NUMBERED,), (), 3, {"v_person"}), (V, ("v_town",), (NUMBERED,), ("v_visit",), math.inf, set()),
    (V, (), (BEFORE,), ("v_visit",), 3 * 3, set()), (V, (), (replace(BEFORE, number=2),), ("v_visit",), 3 * 5, set()),
    (V, (), (BEFORE, AFTER), ("v_visit",), 3 * 5, set()), (V, (), (replace(BEFORE, number=0),), ("v_visit",), 3, set()),
    (CAPPED, ("v_town",), (NUMBERED,), ("v_visit",), 3 * 7, set()), (CAPPED, ("v_town",), (BEFORE,), ("v_visit",), 3 * 3, set()),
    (V, ("v_person",), (NUMBERED,), ("v_town",), math.inf, set())])
def test_how_far_windows_move(node: Node, partition: tuple[str, ...], functions: tuple[WindowFunction, ...], ties: tuple[str, ...],
                              rows: float, owners: set[str]) -> None:
    window = Window(input=node, partition=partition, order=(), ties=ties, functions=functions)
    below = replace(derived(node)[id(node)], rows=3, owners=frozenset(["v_person"]))
    found = checker.RULES[Window](window, columns_of(window, [below.columns]), below)
    assert (found.rows, found.owners) == (rows, owners)


def test_rows_of_a_partition_differ_in_their_row_numbers_alone() -> None:
    for functions, agree in (((NUMBERED,), {("v_town", "n"): 1}), ((BEFORE,), {}), ((replace(NUMBERED, function="rank"),), {}),
                             ((replace(NUMBERED, id="m"), NUMBERED), {("v_town", "m"): 1, ("v_town", "n"): 1})):
        window = Window(input=V, partition=("v_town",), order=(), ties=("v_visit",), functions=functions)
        below = replace(derived(V)[id(V)], rows=3, frequencies={frozenset(["v_visit"]): 1})
        found = checker.RULES[Window](window, columns_of(window, [below.columns]), below)
        assert found.frequencies == {frozenset(["v_visit"]): 1, **{frozenset(names): rows for names, rows in agree.items()}}


@pytest.mark.parametrize("order, groups, settles", [
    ("v_visit v_person v_town v_cost", "", True), ("v_visit v_person v_town", "", False), ("v_visit v_person v_town", "v_cost", False),
    ("v_visit v_person v_cost", "v_town", True), ("", "v_visit v_person v_town v_cost", False), ("v_cost", "v_visit v_person v_town", True)])
def test_rows_that_tie_are_equal_where_all_columns_are_compared(order: str, groups: str, settles: bool) -> None:
    """Zeros of a group may differ in their sign, and those of one order do not."""
    below = replace(derived(V)[id(V)], frequencies=NO_FREQUENCY)
    assert checker._in_order(below, order.split(), groups.split()) is settles
    assert checker._in_order(replace(below, frequencies={frozenset(["v_town"]): 1}), ["v_town"], [])


@pytest.mark.parametrize("node, owners, rows, left", [
    (CAPPED, ("v_person",), 6, set()), (replace(CAPPED, keys=("v_person",)), ("v_person",), 3, {"v_person"}),
    (replace(CAPPED, keys=("v_person",)), ("v_person", "v_visit"), 6, set()), (replace(CAPPED, keys=("v_person",)), (), 6, set()),
    (replace(CAPPED, order=("v_town",)), ("v_person",), math.inf, set()),
    (Truncate(input=V, rows=4, owner="v_person", order=("v_visit",)), ("v_person",), 3, {"v_person"}),
    (Truncate(input=V, rows=4, owner="v_person", order=("v_visit",)), ("v_visit",), math.inf, set()),
    (Truncate(input=V, rows=4, owner="v_person", order=("v_town",)), ("v_person",), math.inf, set())])
def test_how_far_rows_move_of_which_few_are_kept(node: Truncate | TruncateKeys, owners: tuple[str, ...], rows: float, left: set[str]) -> None:
    below = replace(derived(V)[id(V)], rows=3, owners=frozenset(owners))
    found = checker.RULES[type(node)](node, below.columns, below)
    keys = node.keys if isinstance(node, TruncateKeys) else (node.owner,)
    assert (found.rows, found.owners, found.frequencies[frozenset(keys)]) == (rows, left, 4)


# -- sums


@pytest.mark.parametrize("rows", range(1, 40))
def test_rows_in_different_cells_move_sums_by_the_root_of_their_number(rows: int) -> None:
    """Rounded up to a whole number; all of them in the l1 norm, and where they can be in one cell."""
    assert checker._moved(Count(), two(rows), True) == (rows, math.ceil(math.sqrt(rows)))
    assert checker._moved(Count(), two(rows), False) == (rows, rows)


def test_each_row_moves_a_sum_by_its_largest_value() -> None:
    part = GridSum(column="a", grid=Quantizer(low=-7, high=5, step=Fraction(1), from_low=False))
    assert checker._moved(part, two(3), True) == (21, 13), "13 is the square root of 3 * 49, rounded up"
    assert checker._moved(part, two(3), False) == (21, 21)


def test_any_number_of_rows_moves_sums_without_bound() -> None:
    for apart in (True, False):
        assert checker._moved(Count(), two(math.inf), apart) == (math.inf, math.inf)


@pytest.mark.parametrize("owners, keys, apart", [
    (("v_person",), ("v_visit",), True), (("v_person",), ("v_town", "v_visit"), True), (("v_person",), ("v_town",), False), (("v_person",), (), False),
    ((), ("v_visit",), False), (("v_person", "v_visit"), ("v_visit",), False)])
def test_rows_of_one_owner_are_in_different_cells_where_a_key_says_so(owners: tuple[str, ...], keys: tuple[str, ...], apart: bool) -> None:
    plan = GroupedSums(input=V, keys=keys, summands=(Count(),))
    below = replace(derived(V)[id(V)], rows=9, owners=frozenset(owners))
    found = checker.check(plan, lambda *_: 2, {id(V): below})
    assert (found.disjoint_cells, found.sums) == (apart, ((9, 3 if apart else 9),))


@pytest.mark.parametrize("order, apart, expected", [(1, True, (6, 6)), (1, False, (6, 6)), (2, True, (math.inf, 6)), (2, False, (math.inf, math.inf))])
def test_clipped_columns_move_sums_by_the_bound_of_their_norm(order: int, apart: bool, expected: tuple[float, float]) -> None:
    """Entries of one cell that add up can have a larger l2 norm than they had apart."""
    below = replace(two(3, "a"), norm=Norm(order=order, bound=6, columns=("b",)))
    assert checker._moved(Clipped(clipped=("b",)), below, apart) == expected
    assert checker._moved(Clipped(clipped=("a",)), below, apart) == (math.inf, math.inf)


def test_a_row_adds_one_to_a_count_where_a_truth_value_says_so() -> None:
    columns = {"n": NUMBER, "t": ColumnShape(type=Type.BOOLEAN)}
    assert [shapes.size(part, columns) for part in (Count(), Count(column="n"), Count(when="t"))] == [1, 1, 1]
    for wrong in (Count(when="n"), Count(when="nowhere"), Count(column="nowhere")):
        with pytest.raises(Malformed):
            shapes.size(wrong, columns)


def grid(low: float, high: float, step: Fraction = Fraction(1), *, from_low: bool = False) -> Quantizer:
    return Quantizer(low=low, high=high, step=step, from_low=from_low)


def test_a_grid_has_finite_ends_in_order_and_a_positive_step() -> None:
    for field, value in (("low", math.nan), ("low", -math.inf), ("high", math.inf), ("high", True), ("high", Fraction(7)), ("low", 8), ("step", Fraction(0)),
                         ("step", Fraction(-1)), ("step", 1.0), ("step", 1), ("from_low", 1), ("from_low", None)):
        wrong = tampered(grid(-2, 7), **{field: value})
        with pytest.raises(Malformed):
            shapes.ends_of(wrong)
            pytest.fail(f"{field} {value}")

    class Wider(Quantizer):
        pass

    with pytest.raises(Malformed):
        shapes.ends_of(Wider(low=-2, high=7, step=Fraction(1), from_low=False))


def test_sums_have_as_many_numbers_as_they_need() -> None:
    moments = Moments(column="n", grid=grid(-3, 7, from_low=True), degree=2)
    parts = (Count(), GridSum(column="n", grid=grid(0, 1)), replace(moments, degree=1), moments, replace(moments, missing=True), Clipped(clipped=("a", "b")))
    assert [shapes.components(part) for part in parts] == [part.components for part in parts] == [1, 1, 2, 3, 4, 2]


@pytest.mark.parametrize("made, ends", [
    (grid(-2, 7), (-2, 7)), (grid(-2.5, 7.5), (-3, 8)), (grid(2.5, 2.5), (2, 3)), (grid(2.5, 2.5, from_low=True), (0, 0)),
    (grid(-2, 7, from_low=True), (0, 9)), (grid(3, 7, Fraction(2), from_low=True), (0, 2)), (grid(3, 7, Fraction(2)), (1, 4)),
    (grid(-0.25, 1, Fraction(1, 10)), (-3, 10))])
def test_the_ends_of_a_grid_are_rounded_away_from_each_other(made: Quantizer, ends: tuple[int, int]) -> None:
    assert shapes.ends_of(made) == ends


def test_a_row_adds_at_most_the_farther_end_of_a_grid_or_a_power_of_its_range() -> None:
    columns = {"n": NUMBER}
    for made, most in ((grid(-2, 7), 7), (grid(-9, 7), 9), (grid(-9, 7, from_low=True), 16)):
        assert shapes.size(GridSum(column="n", grid=made), columns) == most
    moments = Moments(column="n", grid=grid(-3, 7, from_low=True), degree=2)
    assert [shapes.size(replace(moments, degree=degree), columns) for degree in (1, 2)] == [10, 100]
    with pytest.raises(Malformed):
        shapes.size(GridSum(column="nowhere", grid=grid(-2, 7)), columns)
    for field, value in (("column", "nowhere"), ("grid", grid(-3, 7)), ("grid", grid(7, 7, from_low=True)), ("degree", 0), ("degree", 3),
                         ("degree", True), ("missing", 1), ("when", "n")):
        wrong = tampered(replace(moments), **{field: value})  # the class refuses some of these itself
        with pytest.raises(Malformed):
            shapes.size(wrong, columns)
            pytest.fail(f"{field} {value}")


def test_a_clipped_column_is_added_once_and_on_no_condition() -> None:
    """Twice the same column has twice the norm."""
    given = Contributions(input=P, owner="p_id", keys=("p_age",), summands=(Count(),))
    clipped = Clip(input=given, owner="p_id", columns=given.totals, order=1, bound=6)
    column, = given.totals

    def check(part: Clipped) -> Checked:
        return checker.check(GroupedSums(input=clipped, keys=("p_age",), summands=(part,)), lambda *_: 2)

    assert check(Clipped(clipped=(column,))).sums == ((6, 6),)
    for wrong in (Clipped(clipped=(column, column)), Clipped(clipped=()), Clipped(clipped=("nowhere",)),
                  Clipped(clipped=(column,), when="p_age")):
        with pytest.raises(Malformed):
            check(wrong)


def test_a_summary_is_of_grids_and_columns_that_exist() -> None:
    right = Ranks(input=V, keys=("v_town",), column="v_visit", grid=grid(0, 9))
    checker.check(right, lambda *_: 2)
    upside_down = tampered(grid(0, 9), low=10)
    for wrong in ({"grid": upside_down}, {"keys": ("nowhere",)}, {"column": "nowhere"}, {"when": "v_town"}, {"when": "nowhere"}):
        with pytest.raises(Malformed):
            checker.check(replace(right, **wrong), lambda *_: 2)  # type: ignore[arg-type]


SHOWN = replace(two(3, "a"), norm=Norm(order=1, bound=6, columns=("b",)))
CLAIMED = owned("a", 3, Norm(order=1, bound=6, columns=("b",)))


@pytest.mark.parametrize("given", [{}, {"rows": 4}, {"rows": None}, {"owners": ()}, {"norm": None}, {"norm": Norm(order=1, bound=7, columns=("b",))}])
def test_what_is_derived_or_less_may_be_claimed(given: dict[str, Any]) -> None:
    assert [*claims._stronger(replace(CLAIMED, **given), SHOWN)] == []


@pytest.mark.parametrize("given", [
    {"rows": 2}, {"rows": 0}, {"owners": ("b",)}, {"owners": ("a", "b")}, {"norm": Norm(order=1, bound=5, columns=("b",))},
    {"norm": Norm(order=2, bound=6, columns=("b",))}, {"norm": Norm(order=1, bound=6, columns=("a",))},
    {"norm": Norm(order=1, bound=6, columns=("a", "b"))}])
def test_more_than_is_derived_may_not_be_claimed(given: dict[str, Any]) -> None:
    assert [*claims._stronger(replace(CLAIMED, **given), SHOWN)]
    assert [*claims._stronger(Stability(rows=0), replace(SHOWN, rows=0))] and not [*claims._stronger(Stability(rows=0), two(0, public=True))]
    assert [*claims._stronger(CLAIMED, replace(SHOWN, norm=None))] and [*claims._stronger(CLAIMED, replace(SHOWN, owners=frozenset()))]


def test_columns_and_rows_that_agree_are_claimed_as_they_are_derived() -> None:
    scanned, claimed = people("p"), owned("p_id", 1)
    right = derived(scanned)[id(scanned)]

    def told(known: Known, node: Node = scanned) -> list[str]:
        return [*claims.disagreements(node, {id(node): claimed}, {id(node): known})]

    assert not told(right)
    assert told(replace(right, frequencies={frozenset(["p_id"]): 2})) == ["Scan: 1 rows agree on ['p_id'], derived 2"]
    assert told(replace(right, rows=2)) == ["Scan: 1 rows, derived 2"]
    for columns in ({name: kind for name, kind in right.columns.items() if name != "p_age"}, {**right.columns, "p_age": TEXT},
                    dict(reversed(right.columns.items())), {**right.columns, "more": NUMBER}):
        assert "Scan: columns" in told(replace(right, columns=columns))
    narrow = people("p", "id")
    assert not told(derived(narrow)[id(narrow)], narrow), "a key may be all columns"


def test_summands_and_grids_add_no_more_than_they_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    below = replace(two(3, "a"), norm=Norm(order=1, bound=6, columns=("b",)))
    least, moments = GridSum(column="a", grid=grid(-2, 7)), Moments(column="a", grid=grid(-2, 7, from_low=True), degree=2)

    def told(*summands: Summand) -> int:
        return len([*claims._smaller(GroupedSums(input=P, keys=(), summands=summands), below)])

    assert told(least, moments, Count(), Clipped(clipped=("b",))) == 0
    for kind, name, value, wrong in ((GridSum, "l1", 6, least), (Moments, "l1", 80, moments), (Moments, "components", 2, moments),
                                     (Count, "l1", 0, Count()), (Clipped, "components", 2, Clipped(clipped=("b",))), (Quantizer, "most", 6, least),
                                     (Quantizer, "least", -1, least)):
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, property(lambda self, value=value: value))
            assert told(wrong), f"{kind.__name__} {name}"
    rank = Ranks(input=P, keys=(), column="a", grid=grid(-2, 7))
    assert not [*claims._smaller(rank, below)]
    monkeypatch.setattr(Quantizer, "most", property(lambda self: 6))
    assert len([*claims._smaller(rank, below)]) == 1


def test_smaller_sums_than_are_derived_may_not_be_claimed() -> None:
    of = Checked(below=two(3, "a"), relations={}, sums=((6, 4),))

    def told(*sums: tuple[int | None, int]) -> list[str]:
        return [*claims._tighter(Certificate(below=owned("a", 3), summands=tuple(Sensitivity(l1=l1, l2=l2) for l1, l2 in sums)), of)]

    assert not any(told(sums) for sums in ((6, 4), (7, 4), (6, 5), (None, 4)))
    assert all(told(*sums) for sums in (((5, 4),), ((6, 3),), ((None, 3),), (), ((6, 4), (6, 4))))


def test_rows_that_are_said_to_be_apart_and_are_not_are_a_disagreement() -> None:
    claimed = Certificate(below=owned("a", 3), summands=(Sensitivity(l1=3, l2=3),), disjoint_cells=True)
    of = Checked(below=two(3, "a"), relations={}, sums=((3, 3),), disjoint_cells=True)
    assert not [*claims._tighter(claimed, of)]
    assert [*claims._tighter(claimed, replace(of, disjoint_cells=False))] == ["disjoint_cells"]
    assert not [*claims._tighter(replace(claimed, disjoint_cells=False), of)]


# -- public rows


def test_public_rows_that_agree_are_counted_as_a_join_meets_them() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE towns (town VARCHAR, land VARCHAR, size INTEGER)")
    connection.execute("INSERT INTO towns VALUES ('a', NULL, 1), ('b', NULL, 1), ('c', NULL, 1), ('d', 'x', 1), ('e', 'x', 2), ('f', 'y', NULL)")
    meets, rows = claims.Meets(DuckReader(connection, "v"), Printing()), towns("t")

    def asked(*columns: str, present: str = "") -> int:
        return meets(rows, columns, frozenset(present.split()))

    assert (asked("t_land"), asked("t_land", present="t_land"), asked(), asked(present="t_land")) == (3, 2, 6, 3)
    assert (asked("t_land", "t_size"), asked("t_land", "t_size", present="t_land t_size")) == (3, 1)
    connection.execute("INSERT INTO towns VALUES ('g', 'x', 2)")
    assert asked("t_land", present="t_land") == 2
    meets.forget()
    assert asked("t_land", present="t_land") == 3
    connection.execute("DELETE FROM towns")
    meets.forget()
    assert (asked("t_land"), asked()) == (0, 0)


def test_public_rows_that_cannot_be_read_are_no_fault_of_a_plan() -> None:
    with pytest.raises(OperationalError, match="a public table cannot be read"):
        claims.Meets(DuckReader(duckdb.connect(), "v"), Printing())(towns("t"), ("t_land",), frozenset())


# -- what is refused


NAMED = people("p", "name")


def summed(made: Claims, condition: Expr) -> None:
    """Compare the claims of a count of the people for whom a condition is true."""
    plan = GroupedSums(input=Filter(input=NAMED, condition=condition), keys=(), summands=(Count(),))
    made.summary(plan, certify(plan, NoPublicFacts()))


def test_a_plan_that_is_too_large_is_not_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_size, "MOST_RELATIONS", 1)
    plan = Filter(input=NAMED, condition=TRUE)
    for compare in (lambda made: made.size(plan), lambda made: made.relation(plan), lambda made: summed(made, TRUE)):
        with pytest.raises(OperationalError, match="too large"):
            compare(Claims(DuckReader(duckdb.connect(), "v"), NoPublicFacts(), Printing()))


def test_a_plan_of_which_nothing_can_be_derived_is_a_disagreement() -> None:
    made = Claims(DuckReader(duckdb.connect(), "v"), NoPublicFacts(), Printing())
    with pytest.raises(Disagreement, match="could not confirm the bounds"):
        made.relation(Project(input=P, columns=(("x", "x", Ref(column="nowhere", type=Type.BIGINT)),)))


def test_a_summary_is_compared_with_its_certificate_and_all_relations_below(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Claims(DuckReader(duckdb.connect(), "v"), NoPublicFacts(), Printing())
    plan = GroupedSums(input=Filter(input=NAMED, condition=TRUE), keys=(), summands=(Count(),))
    right = certify(plan, NoPublicFacts())
    made.summary(plan, right)
    for wrong in (replace(right, summands=(Sensitivity(l1=0, l2=1),)), replace(right, summands=()), replace(
            right, below=replace(right.below, rows=0))):
        with pytest.raises(Disagreement):
            made.summary(plan, wrong)
            pytest.fail(repr(wrong))
    made.begin()
    monkeypatch.setattr(Filter, "max_frequencies", property(lambda self: {frozenset(["p_name"]): 1}))
    with pytest.raises(Disagreement):
        made.summary(plan, right)


def test_a_relation_of_which_more_rows_move_than_is_said_is_a_disagreement() -> None:
    made = Claims(DuckReader(duckdb.connect(), "v"), NoPublicFacts(), Printing())
    kept = Truncate(input=V, rows=3, owner="v_person", order=("v_visit",))
    for rows in (None, 3, 4):
        made.relation(kept, rows=rows)
    with pytest.raises(Disagreement):
        made.relation(kept, rows=2)


def test_an_expression_that_no_engine_reads_is_refused() -> None:
    made = Claims(DuckReader(duckdb.connect(), "v"), NoPublicFacts(), Printing())
    name, limits = NAMED.field("p_name").ref, NAMED.field("p_id").facts.physical

    def matches(*args: Expr) -> Call:
        return Call(function="regexp_matches", args=args, type=Type.BOOLEAN)

    for pattern in ("a.*", "^[a-z]{2,3}$", "a.*"):
        summed(made, matches(name, literal(pattern, Type.VARCHAR)))
    awaited = Placeholder(id="q", type=Type.BOOLEAN, physical=limits, declared=limits)
    for condition in (matches(name, literal("(", Type.VARCHAR)), matches(literal("a", Type.VARCHAR), literal("[", Type.VARCHAR)),
                      both(TRUE, matches(name, literal("(", Type.VARCHAR))), awaited):
        with pytest.raises(Disagreement):
            summed(made, condition)
            pytest.fail(repr(condition))


# -- parts by entity


def test_what_is_above_a_relation_that_is_not_split_by_entity_is_not_either() -> None:
    towns_of_all = Distinct(input=Project(input=V, columns=(("c", "c", V.field("v_town").ref),)))
    for node, split in ((V, True), (scan(replace(VISITS, owners=(*VISITS.owners, *PEOPLE.owners)), "v"), False), (Filter(input=V, condition=TRUE), True), (towns_of_all, False),
                        (Filter(input=towns_of_all, condition=TRUE), False), (T, False), (Filter(input=T, condition=TRUE), False)):
        assert split_by_entity(node, derived(node)) is split, label(node)


def test_rows_that_show_no_owner_are_split_where_each_is_made_of_one_private_row() -> None:
    town = V.field("v_town").ref
    private = Project(input=V, columns=(("c", "c", town),))
    shown, marked = Ref(column="c", type=town.type), Ref(column="t_town", type=town.type)
    every = towns("t")
    public = Project(input=every, columns=(("d", "d", marked),))
    joined = Join(left=private, right=every, condition=equal(shown, marked))
    looked = Lookup(input=private, listed=every, keys=((shown, "t_town"),), mark="mark")
    for node, split in (
            (private, True), (joined, True), (replace(joined, keep_left=True), True), (replace(joined, keep_right=True), False),
            (replace(joined, left=every, right=private), True), (replace(joined, left=every, right=private, keep_left=True), False),
            (replace(joined, right=Project(input=V, columns=(("t_town", "c", town),))), False),
            (looked, True), (Lookup(input=every, listed=V, keys=((marked, "v_town"),), mark="mark"), False),
            (replace(looked, listed=Project(input=V, columns=(("t_town", "c", town),))), False),
            (UnionAll(parts=(private, private), columns=(("c", "u"),)), True), (UnionAll(parts=(private, public), columns=(("c", "u"),)), False),
            (GroupBy(input=private, keys=("c",), folds=()), False), (GroupBy(input=V, keys=("v_person",), folds=()), True)):
        assert split_by_entity(node, derived(node)) is split, label(node)


def test_a_relation_that_only_claims_to_be_split_by_entity_is_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Claims(DuckReader(duckdb.connect(), "v"), NoPublicFacts(), Printing())
    plan = Distinct(input=Project(input=V, columns=(("c", "c", V.field("v_town").ref),)))
    made.size(plan)
    assert made.split_parts(plan) == (plan.input,)
    made.begin()
    made.size(plan)
    monkeypatch.setattr(Distinct, "split_by", lambda self, below: SplitBy.ENTITIES)
    with pytest.raises(Disagreement):
        made.split_parts(plan)
