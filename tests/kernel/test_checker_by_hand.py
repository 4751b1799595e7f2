"""What the kernel derives of small relations, against what was worked out by hand: `test_checker` compares it with what operators claim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import duckdb
import pytest
from support.small_tables import TRUE, owned, people, towns, visits

from dpsql.backends.duckdb import DuckReader
from dpsql.kernel import checker, claims
from dpsql.kernel.checker import Checked, Known
from dpsql.kernel.claims import Claims, Disagreement
from dpsql.kernel.shapes import ColumnShape, Malformed, columns_of, reach
from dpsql.kernel.split_by_entity import split_by_entity
from dpsql.plan.certificate import Certificate, Sensitivity
from dpsql.plan.node import Node, NoPublicFacts, Printing, SplitBy
from dpsql.plan.operators.clip import Clip
from dpsql.plan.operators.contributions import Contributions
from dpsql.plan.operators.distinct import Distinct
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.groupby import Fold, GroupBy
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.set_operation import SetOperation
from dpsql.plan.operators.summands import Clipped, Count
from dpsql.plan.operators.union import UnionAll
from dpsql.plan.operators.window import Frame, WindowFunction
from dpsql.types import Type

P, V, T = people("p", "age"), visits(), towns("t", "size")
NUMBER = ColumnShape(type=Type.BIGINT)
PAIR = MappingProxyType({"a": NUMBER, "b": NUMBER})
NO_FREQUENCY: Mapping[frozenset[str], float] = MappingProxyType({})


def two(rows: float, *owners: str, public: bool = False) -> Known:
    """A relation with columns a and b."""
    return Known(columns=PAIR, rows=rows, owners=frozenset(owners), frequencies=NO_FREQUENCY, public=public)


def derived(node: Node) -> dict[int, Known]:
    found: dict[int, Known] = {}
    checker.known(node, lambda *_: 2, found)
    return found


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


# -- columns


def test_what_values_counts_and_clipped_sums_can_have() -> None:
    """A filter on a column with few values leaves few rows that agree."""
    counted = columns_of(GroupBy(input=P, keys=("p_age",), folds=(Fold(id="n", name="n", function="count"),)), [columns_of(P, [])])
    assert (counted["n"].low, counted["n"].high) == (0, math.inf)
    sums = Contributions(input=P, owner="p_id", keys=(), summands=(Count(),))
    clipped = Clip(input=sums, owner="p_id", columns=sums.totals, order=1, bound=6)
    found = derived(clipped)[id(clipped)].columns[sums.totals[0]]
    assert (found.low, found.high) == (-6, 6)


def test_columns_of_different_types_are_not_put_together() -> None:
    whole, text = (Project(input=V, columns=(("x", "x", V.field(name).ref),)) for name in ("v_visit", "v_town"))
    for parts in ((whole, text), (text, whole)):
        with pytest.raises(Malformed):
            derived(UnionAll(parts=parts, columns=(("x", "x"),)))


def test_a_sum_is_one_of_a_column() -> None:
    with pytest.raises(Malformed):
        derived(GroupBy(input=V, keys=("v_town",), folds=(Fold(id="n", name="n", function="sum"),)))


TOTAL = WindowFunction(id="s", name="s", function="sum", column="v_visit")


@pytest.mark.parametrize("function, rows", [
    (replace(TOTAL, frame=Frame(rows=True, start=-2, end=1)), (2, 1)), (replace(TOTAL, frame=Frame(rows=True, start=-3, end=-2)), (3, 0)),
    (replace(TOTAL, frame=Frame(rows=True, start=1, end=2)), (0, 2)), (replace(TOTAL, frame=Frame(rows=True, start=0, end=0)), (0, 0)),
    (replace(TOTAL, frame=Frame(rows=True, start=-4)), (4, math.inf)), (replace(TOTAL, frame=Frame(rows=True, end=4)), (math.inf, 4)),
    (replace(TOTAL, frame=Frame(start=0, end=0)), (math.inf, math.inf)), (replace(TOTAL, function="lag", number=3), (3, 0)),
    (replace(TOTAL, function="lead", number=3), (0, 3)), (WindowFunction(id="n", name="n", function="row_number"), (math.inf, math.inf))])
def test_how_many_rows_before_and_after_a_window_function_reads(function: WindowFunction, rows: tuple[float, float]) -> None:
    assert reach(function) == rows


# -- sums


@pytest.mark.parametrize("rows", range(1, 40))
def test_rows_in_different_cells_move_sums_by_the_root_of_their_number(rows: int) -> None:
    """Rounded up to a whole number; all of them in the l1 norm, and where they can be in one cell."""
    assert checker._moved(Count(), two(rows), True) == (rows, math.ceil(math.sqrt(rows)))
    assert checker._moved(Count(), two(rows), False) == (rows, rows)


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


def test_rows_that_are_said_to_be_apart_and_are_not_are_a_disagreement() -> None:
    claimed = Certificate(below=owned("a", 3), summands=(Sensitivity(l1=3, l2=3),), disjoint_cells=True)
    of = Checked(below=two(3, "a"), relations={}, sums=((3, 3),), disjoint_cells=True)
    assert not [*claims._tighter(claimed, of)]
    assert [*claims._tighter(claimed, replace(of, disjoint_cells=False))] == ["disjoint_cells"]
    assert not [*claims._tighter(replace(claimed, disjoint_cells=False), of)]


# -- parts by entity


def test_what_is_above_a_relation_that_is_not_split_by_entity_is_not_either() -> None:
    towns_of_all = Distinct(input=Project(input=V, columns=(("c", "c", V.field("v_town").ref),)))
    for node, split in ((V, True), (Filter(input=V, condition=TRUE), True), (towns_of_all, False),
                        (Filter(input=towns_of_all, condition=TRUE), False), (T, False), (Filter(input=T, condition=TRUE), False)):
        assert split_by_entity(node, derived(node)) is split, node.label()


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
