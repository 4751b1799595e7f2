"""Requests over listed values believe no caller: what a proof needs is checked when the kernel copies them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from bench.bench_cells import VIEW
from support.forged import tampered

from dpsql.frozen import replace
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import WIDEST
from dpsql.trusted.kernel.taken import copied_request
from dpsql.trusted.matrices.blocks import IntegerBlock
from dpsql.trusted.matrices.matrices import Sum, Unit, Written
from dpsql.trusted.measurements.above_threshold import AboveThresholdOfCounts
from dpsql.trusted.measurements.block_sums import Axis, Blocks, MergedAxis
from dpsql.trusted.measurements.boxes import Tree
from dpsql.trusted.measurements.buckets import Numbered, Partition, height
from dpsql.trusted.measurements.dependent_parents import ConvexInformation, DependentParents, ProductDistance
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.noise.choice import BLOCK_ROUNDING
from dpsql.trusted.noise.integer import DiscreteGaussian, DiscreteLaplace
from dpsql.trusted.plan.cells import Grid
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.node import Field, Stability
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments
from dpsql.types import Type


def certificate(moved: int = 1) -> Certificate:
    return Certificate(below=Stability(rows=moved), summands=(Sensitivity(l1=moved, l2=moved),))


def forged(made: Any, **fields: Any) -> Any:
    """A frozen value with other fields, of which its class was not told."""
    return tampered(replace(made), **fields)


def numbered(size: int = 4, name: str = "a0") -> Numbered:
    return Numbered(column=name, values=tuple(range(size)), numbers=tuple(range(size)))


GRID = Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True)
BLOCKS = Blocks(view=VIEW, axes=(Axis(column="a0", values=(0, 1, None)), Axis(column="a1", values=("x", "y"))), summand=Count(), noise="laplace",
                blocks=(IntegerBlock(axes=(0, 1), matrices=(Unit(3), Sum(2)), scale=2.0), IntegerBlock(axes=(), matrices=(), scale=4.0)))
BUCKETS = Partition(view=VIEW, axis=numbered(), summand=Count(), scale=3.0, log_priors=(5,) * (height(4) + 1))
TREE = Tree(view=VIEW, axes=(numbered(8), numbered(5, "a1")), scale=2.0, decay=4, leaf=DiscreteLaplace(scale=3.0))

FARTHEST = FarthestMarginal(view=VIEW, axes=BLOCKS.axes, marginals=((0,), (1, 0)), expected=((1, 2, 3), (0,) * 6), weights=(1, 4),
                            penalties=(0, -5), scale=6.0, grain=2)
FAR_COUNT = FarthestCount(view=VIEW, axes=BLOCKS.axes, marginals=((0,), (1, 0)), expected=((1, 2, 3), (0,) * 6), scale=6.0, multiplier=2, draws=5)
PARENTS = DependentParents(view=VIEW, axes=BLOCKS.axes, candidates=((0, 1), (1,)), score=ProductDistance(grain=2), offsets=(0, -5), scale=6.0)
KINKED = forged(PARENTS, score=ConvexInformation(kinks=(0, 1, 1)))


def test_what_is_whole_has_a_cost() -> None:
    assert BLOCKS.cost(certificate(3)).epsilon == 3 * Fraction(3, 4)
    assert BUCKETS.cost(certificate(3)).epsilon == 2
    assert TREE.cost(certificate()).epsilon > 0
    assert FARTHEST.cost(certificate(3)).epsilon == Fraction(2 * 3 * 4 * 2, 6)
    assert FARTHEST.cost(certificate(3)).rho == Fraction(8**2, 8)
    each = Fraction(2 * 3 * 2, 6) + BLOCK_ROUNDING
    assert FAR_COUNT.cost(certificate(3)) == Cost(epsilon=5 * each, rho=5 * each**2 / 8)
    assert PARENTS.cost(certificate(3)).epsilon == Fraction(4 * 2 * 3, 6)
    assert KINKED.cost(certificate(3)).epsilon == Fraction(3 * 3, 6)
    assert copied_request(forged(KINKED, score=ConvexInformation(kinks=(1,)))).cost(certificate(3)).epsilon == Fraction(3, 6)
    public = replace(certificate(), below=Stability(rows=0))
    assert public.below.public and BLOCKS.cost(public) == FARTHEST.cost(public) == FREE
    assert FAR_COUNT.cost(public) == PARENTS.cost(public) == FREE


class Cheap(IntegerBlock):
    pass


class Unmoved(ProductDistance):
    def apart(self) -> int:
        return 0


class Free(DiscreteLaplace):
    def cost(self, sensitivity: Sensitivity) -> Any:
        return FREE


class Small(GridSum):
    @property
    def l1(self) -> int:
        return 0


class Place(Numbered):
    pass


NAN, ZEROS = math.nan, (0.0, -0.0)
WRONG: dict[str, Callable[[], Any]] = {
    "blocks: a class of its own": lambda: forged(BLOCKS, blocks=(Cheap(axes=(0,), matrices=(Unit(3),), scale=1.0),)),
    "blocks: a list of anything": lambda: forged(BLOCKS, blocks=("block",)),
    "blocks: other sizes": lambda: forged(BLOCKS, blocks=(IntegerBlock(axes=(1,), matrices=(Unit(3),), scale=1.0),)),
    "blocks: an axis twice": lambda: forged(BLOCKS, blocks=(IntegerBlock(axes=(0, 0), matrices=(Unit(3), Unit(3)), scale=1.0),)),
    "blocks: an axis from behind": lambda: forged(BLOCKS, blocks=(IntegerBlock(axes=(-2,), matrices=(Unit(3),), scale=1.0),)),
    "blocks: no noise": lambda: forged(BLOCKS, blocks=(forged(BLOCKS.blocks[0], scale=0.0),)),
    "blocks: wide noise": lambda: forged(BLOCKS, blocks=(BLOCKS.blocks[1], forged(BLOCKS.blocks[0], scale=WIDEST * 1.01))),
    "blocks: noise that is true": lambda: forged(BLOCKS, blocks=(forged(BLOCKS.blocks[0], scale=True),)),
    "blocks: noise of NaN": lambda: forged(BLOCKS, blocks=(forged(BLOCKS.blocks[0], scale=NAN),)),
    "blocks: halves": lambda: forged(BLOCKS, blocks=(IntegerBlock(axes=(0,), matrices=(Written(1, 3, (0.5, 0.5, 0.5)),), scale=1.0),)),
    "blocks: another noise": lambda: forged(BLOCKS, noise="Laplace"),
    "blocks: no noise at all": lambda: forged(BLOCKS, noise=None),
    "blocks: a line of truths": lambda: forged(BLOCKS, line=1),
    "blocks: a column twice": lambda: forged(BLOCKS, axes=(BLOCKS.axes[0], forged(BLOCKS.axes[1], column="a0"))),
    "blocks: a value twice": lambda: forged(BLOCKS, axes=(Axis(column="a0", values=(0, 1, 0)), BLOCKS.axes[1])),
    "blocks: NaN twice": lambda: forged(BLOCKS, axes=(Axis(column="a0", values=(NAN, -NAN, 0.0)), BLOCKS.axes[1])),
    "blocks: both zeros": lambda: forged(BLOCKS, axes=(Axis(column="a0", values=(*ZEROS, 1.0)), BLOCKS.axes[1])),
    "blocks: the rest where no value is": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], rest=3), BLOCKS.axes[1])),
    "blocks: the rest from behind": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], rest=-1), BLOCKS.axes[1])),
    "blocks: the rest that is true": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], rest=True), BLOCKS.axes[1])),
    "blocks: a place twice": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], counted=(0, 1, 1)), BLOCKS.axes[1])),
    "blocks: places in another order": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], counted=(0, 2, 1)), BLOCKS.axes[1])),
    "blocks: a place of no value": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], counted=(0, 1, 3)), BLOCKS.axes[1])),
    "blocks: no places": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], counted=()), BLOCKS.axes[1])),
    "blocks: places that are true": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], counted=(0, True, 2)), BLOCKS.axes[1])),
    "blocks: a list of places": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], counted=[0, 1, 2]), BLOCKS.axes[1])),
    "blocks: fewer places": lambda: forged(BLOCKS, axes=(forged(BLOCKS.axes[0], counted=(0, 1)), BLOCKS.axes[1])),
    "buckets: the rest where no value is": lambda: forged(BUCKETS, axis=forged(BUCKETS.axis, rest=99)),
    "blocks: several numbers": lambda: forged(BLOCKS, summand=Moments(column="v", grid=GRID, degree=1)),
    "blocks: a condition": lambda: forged(BLOCKS, summand=Count(when="a0")),
    "blocks: a sum of its own": lambda: forged(BLOCKS, summand=Small(column="v", grid=GRID)),
    "blocks: a grid of its own": lambda: forged(BLOCKS, summand=forged(GridSum(column="v", grid=GRID), grid="grid")),
    "buckets: no noise": lambda: forged(BUCKETS, scale=0.0),
    "buckets: less than no noise": lambda: forged(BUCKETS, scale=-1.0),
    "buckets: endless noise": lambda: forged(BUCKETS, scale=math.inf),
    "buckets: noise of NaN": lambda: forged(BUCKETS, scale=NAN),
    "buckets: noise that is true": lambda: forged(BUCKETS, scale=True),
    "buckets: noise that is text": lambda: forged(BUCKETS, scale="3"),
    "buckets: log-priors of floats": lambda: forged(BUCKETS, log_priors=(5, 5.0, 5)),
    "buckets: log-priors of NaN": lambda: forged(BUCKETS, log_priors=(5, NAN, 5)),
    "buckets: log-priors that are true": lambda: forged(BUCKETS, log_priors=(5, True, 5)),
    "buckets: fewer log-priors": lambda: forged(BUCKETS, log_priors=(5, 5)),
    "buckets: a list of log-priors": lambda: forged(BUCKETS, log_priors=[5, 5, 5]),
    "buckets: several numbers": lambda: forged(BUCKETS, summand=Moments(column="v", grid=GRID, degree=2)),
    "buckets: a condition": lambda: forged(BUCKETS, summand=GridSum(column="v", grid=GRID, when="w")),
    "buckets: a number outside": lambda: forged(BUCKETS, axis=forged(numbered(), numbers=(0, 1, 2, -2))),
    "buckets: more places than values": lambda: forged(BUCKETS, axis=forged(numbered(), numbers=(0, 1, 2, 10**12))),
    "buckets: half a place": lambda: forged(BUCKETS, axis=forged(numbered(), numbers=(0, 1, 2, 2.5))),
    "buckets: a place that is true": lambda: forged(BUCKETS, axis=forged(numbered(), numbers=(0, True, 2, 3))),
    "buckets: fewer places": lambda: forged(BUCKETS, axis=forged(numbered(), numbers=(0, 1, 2))),
    "buckets: nothing counts": lambda: forged(BUCKETS, axis=forged(numbered(), numbers=(-1, -1, -1, -1))),
    "buckets: a value twice": lambda: forged(BUCKETS, axis=forged(numbered(), values=(0, 1, 2, 1))),
    "buckets: one value of two types": lambda: forged(BUCKETS, axis=forged(numbered(), values=(0, 1, 2, True))),
    "buckets: an axis of its own": lambda: forged(BUCKETS, axis=Place(column="a0", values=(0,), numbers=(0,))),
    "farthest: no candidates": lambda: forged(FARTHEST, marginals=(), expected=(), weights=(), penalties=()),
    "farthest: a list of candidates": lambda: forged(FARTHEST, marginals=[(0,), (1, 0)]),
    "farthest: a list of axes": lambda: forged(FARTHEST, axes=[*FARTHEST.axes]),
    "farthest: axes of no kind": lambda: forged(FARTHEST, axes=("a0", "a1")),
    "farthest: an axis of numbers": lambda: forged(FARTHEST, axes=(numbered(3), FARTHEST.axes[1])),
    "farthest: a column twice": lambda: forged(FARTHEST, axes=(FARTHEST.axes[0], forged(FARTHEST.axes[1], column="a0"))),
    "farthest: a value twice": lambda: forged(FARTHEST, axes=(Axis(column="a0", values=(0, 1, 0)), FARTHEST.axes[1])),
    "farthest: merged cells of itself": lambda: forged(FARTHEST, merged=(MergedAxis(of=2, cells=(0, 0)),)),
    "farthest: merged cells of what comes later": lambda: forged(FARTHEST, merged=(MergedAxis(of=3, cells=(0, 0)), MergedAxis(of=1, cells=(0, 0)))),
    "farthest: merged cells of another axis": lambda: forged(FARTHEST, merged=(MergedAxis(of=0, cells=(0, 0)),)),
    "farthest: a list of merged cells": lambda: forged(FARTHEST, merged=(forged(MergedAxis(of=1, cells=(0, 0)), cells=[0, 0]),)),
    "farthest: merged into a cell below zero": lambda: forged(FARTHEST, merged=(forged(MergedAxis(of=1, cells=(0, 0)), cells=(0, -1)),)),
    "farthest: merged from behind": lambda: forged(FARTHEST, merged=(forged(MergedAxis(of=1, cells=(0, 0)), of=-1),)),
    "farthest: a merged axis with too many cells": lambda: forged(FARTHEST, merged=(MergedAxis(of=1, cells=(0, 2**40)),), marginals=((0,), (2,))),
    "farthest: an axis twice": lambda: forged(FARTHEST, marginals=((0,), (1, 1)), expected=((1, 2, 3), (0,) * 4)),
    "farthest: an axis from behind": lambda: forged(FARTHEST, marginals=((0,), (-1,)), expected=((1, 2, 3), (0, 0))),
    "farthest: an axis too many": lambda: forged(FARTHEST, marginals=((0,), (2,)), expected=((1, 2, 3), (0, 0))),
    "farthest: an axis that is true": lambda: forged(FARTHEST, marginals=((0,), (True,)), expected=((1, 2, 3), (0, 0))),
    "farthest: too few counts": lambda: forged(FARTHEST, expected=((1, 2, 3), (0,) * 5)),
    "farthest: counts of too few": lambda: forged(FARTHEST, expected=((1, 2, 3),)),
    "farthest: half a count": lambda: forged(FARTHEST, expected=((1, 2.5, 3), (0,) * 6)),
    "farthest: a count that is true": lambda: forged(FARTHEST, expected=((1, True, 3), (0,) * 6)),
    "farthest: a count that no float holds": lambda: forged(FARTHEST, expected=((1, 2**60, 3), (0,) * 6)),
    "farthest: a list of counts": lambda: forged(FARTHEST, expected=((1, 2, 3), [0] * 6)),
    "farthest: no weight": lambda: forged(FARTHEST, weights=(1, 0)),
    "farthest: half a weight": lambda: forged(FARTHEST, weights=(1, 0.5)),
    "farthest: too few weights": lambda: forged(FARTHEST, weights=(4,)),
    "farthest: too few penalties": lambda: forged(FARTHEST, penalties=(4,)),
    "farthest: a penalty of NaN": lambda: forged(FARTHEST, penalties=(0, NAN)),
    "farthest: a penalty that no float holds": lambda: forged(FARTHEST, penalties=(0, -(2**60))),
    "farthest: a grain of floats": lambda: forged(FARTHEST, grain=2.0),
    "farthest: no grain": lambda: forged(FARTHEST, grain=0),
    "farthest: no noise": lambda: forged(FARTHEST, scale=0.0),
    "farthest: noise of NaN": lambda: forged(FARTHEST, scale=NAN),
    "farthest: noise that is true": lambda: forged(FARTHEST, scale=True),
    "farthest: wide noise": lambda: forged(FARTHEST, scale=WIDEST * 2),
    "far count: no candidates": lambda: forged(FAR_COUNT, marginals=(), expected=()),
    "far count: a list of axes": lambda: forged(FAR_COUNT, axes=[*FAR_COUNT.axes]),
    "far count: axes of no kind": lambda: forged(FAR_COUNT, axes=("a0", "a1")),
    "far count: a value twice": lambda: forged(FAR_COUNT, axes=(Axis(column="a0", values=(0, 1, 0)), FAR_COUNT.axes[1])),
    "far count: an axis twice": lambda: forged(FAR_COUNT, marginals=((0,), (1, 1)), expected=((1, 2, 3), (0,) * 4)),
    "far count: an axis from behind": lambda: forged(FAR_COUNT, marginals=((0,), (-1,)), expected=((1, 2, 3), (0, 0))),
    "far count: too few counts": lambda: forged(FAR_COUNT, expected=((1, 2, 3), (0,) * 5)),
    "far count: counts of too few": lambda: forged(FAR_COUNT, expected=((1, 2, 3),)),
    "far count: half a count": lambda: forged(FAR_COUNT, expected=((1, 2.5, 3), (0,) * 6)),
    "far count: a count that no float holds": lambda: forged(FAR_COUNT, expected=((1, 2**60, 3), (0,) * 6)),
    "far count: no multiplier": lambda: forged(FAR_COUNT, multiplier=0),
    "far count: a negative multiplier": lambda: forged(FAR_COUNT, multiplier=-1),
    "far count: a multiplier of floats": lambda: forged(FAR_COUNT, multiplier=2.0),
    "far count: no draw": lambda: forged(FAR_COUNT, draws=0),
    "far count: a draw that is true": lambda: forged(FAR_COUNT, draws=True),
    "far count: less than no draws": lambda: forged(FAR_COUNT, draws=-3),
    "far count: no noise": lambda: forged(FAR_COUNT, scale=0.0),
    "far count: noise of NaN": lambda: forged(FAR_COUNT, scale=NAN),
    "far count: wide noise": lambda: forged(FAR_COUNT, scale=WIDEST * 2),
    "parents: no candidates": lambda: forged(PARENTS, candidates=(), offsets=()),
    "parents: a list of candidates": lambda: forged(PARENTS, candidates=[(0, 1), (1,)]),
    "parents: a candidate without a child": lambda: forged(PARENTS, candidates=((0, 1), ())),
    "parents: a candidate that is a list": lambda: forged(PARENTS, candidates=((0, 1), [1])),
    "parents: an axis twice": lambda: forged(PARENTS, candidates=((0, 0), (1,))),
    "parents: an axis from behind": lambda: forged(PARENTS, candidates=((0, -1), (1,))),
    "parents: an axis too many": lambda: forged(PARENTS, candidates=((0, 2), (1,))),
    "parents: an axis that is true": lambda: forged(PARENTS, candidates=((0, True), (1,))),
    "parents: a list of axes": lambda: forged(PARENTS, axes=[*BLOCKS.axes]),
    "parents: an axis of numbers": lambda: forged(PARENTS, axes=(numbered(3), BLOCKS.axes[1])),
    "parents: too few offsets": lambda: forged(PARENTS, offsets=(0,)),
    "parents: half an offset": lambda: forged(PARENTS, offsets=(0, 0.5)),
    "parents: an offset that no float holds": lambda: forged(PARENTS, offsets=(0, 2**60)),
    "parents: a score that does not move": lambda: forged(PARENTS, score=Unmoved(grain=2)),
    "parents: no score": lambda: forged(PARENTS, score=None),
    "parents: no grain": lambda: forged(PARENTS, score=ProductDistance(grain=0)),
    "parents: a grain of floats": lambda: forged(PARENTS, score=ProductDistance(grain=2.0)),  # type: ignore[arg-type]
    "parents: a grain that is true": lambda: forged(PARENTS, score=ProductDistance(grain=True)),
    "parents: no kinks": lambda: forged(KINKED, score=ConvexInformation(kinks=())),
    "parents: a list of kinks": lambda: forged(KINKED, score=ConvexInformation(kinks=[0, 1])),  # type: ignore[arg-type]
    "parents: kinks out of order": lambda: forged(KINKED, score=ConvexInformation(kinks=(1, 0))),
    "parents: a kink below nought": lambda: forged(KINKED, score=ConvexInformation(kinks=(-1, 0))),
    "parents: half a kink": lambda: forged(KINKED, score=ConvexInformation(kinks=(0, 0.5))),  # type: ignore[arg-type]
    "parents: too many kinks": lambda: forged(KINKED, score=ConvexInformation(kinks=(1,) * (10**5 + 1))),
    "parents: no noise": lambda: forged(PARENTS, scale=0.0),
    "parents: noise of NaN": lambda: forged(PARENTS, scale=NAN),
    "parents: noise that is true": lambda: forged(PARENTS, scale=True),
    "parents: wide noise": lambda: forged(PARENTS, scale=WIDEST * 2),
    "tree: no axes": lambda: forged(TREE, axes=()),
    "tree: an axis twice": lambda: forged(TREE, axes=(numbered(8), numbered(5))),
    "tree: too many axes": lambda: forged(TREE, axes=tuple(numbered(5, f"a{i}") for i in range(21)), decay=10**6),
    "tree: a list of axes": lambda: forged(TREE, axes=[numbered()]),
    "tree: an axis that is forged": lambda: forged(TREE, axes=(forged(numbered(), numbers=(0, 1, 2, 9)),)),
    "tree: no noise": lambda: forged(TREE, scale=0.0),
    "tree: noise of NaN": lambda: forged(TREE, scale=NAN),
    "tree: noise that is true": lambda: forged(TREE, scale=True),
    "tree: decay of floats": lambda: forged(TREE, decay=4.0),
    "tree: decay of NaN": lambda: forged(TREE, decay=NAN),
    "tree: no decay": lambda: forged(TREE, decay=0),
    "tree: little decay": lambda: forged(TREE, decay=2),
    "tree: decay that no word holds": lambda: forged(TREE, decay=2**61),
    "tree: free leaves": lambda: forged(TREE, leaf=Free(scale=1.0)),
    "tree: leaves without noise": lambda: forged(TREE, leaf=DiscreteLaplace(scale=0.0)),
    "tree: leaves of negative noise": lambda: forged(TREE, leaf=DiscreteGaussian(sigma=-1.0)),
    "tree: leaves of wide noise": lambda: forged(TREE, leaf=DiscreteGaussian(sigma=WIDEST * 2)),
    "tree: leaves of no kind": lambda: forged(TREE, leaf=None),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("rows", [0, 1], ids=["public", "private"])
def test_what_is_wrong_has_no_cost(make: Callable[[], Any], rows: int) -> None:
    with pytest.raises((TypeError, ValueError)):
        copied_request(make()).cost(replace(certificate(), below=Stability(rows=rows)))


@pytest.mark.parametrize("values", [(1, 1), (NAN, NAN), ZEROS, ("a", "a"), (None, None), ([1],), (object(),)],
                         ids=["ones", "nans", "zeros", "texts", "nulls", "list", "object"])
def test_an_axis_is_not_made_of_equal_values(values: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        copied_request(Numbered(column="a0", values=values, numbers=tuple(range(len(values)))))


@pytest.mark.parametrize("summands", [(), (Sensitivity(l1=1, l2=1),) * 2, (Sensitivity(l1=None, l2=1),)], ids=["none", "two", "unbounded"])
@pytest.mark.parametrize("request_", [BLOCKS, BUCKETS, TREE], ids=["blocks", "buckets", "tree"])
def test_a_certificate_of_something_else_is_none(request_: Any, summands: tuple[Sensitivity, ...]) -> None:
    with pytest.raises(ValueError):
        request_.cost(Certificate(below=Stability(rows=1), summands=summands))


def test_what_would_take_long_has_no_cost() -> None:
    """Each number of an answer, and each comparison, is drawn by itself: a request of millions would keep the vault busy."""
    cells = tuple(Axis(column=f"a{i}", values=tuple(range(500))) for i in range(3))
    every = IntegerBlock(axes=(0, 1, 2), matrices=(Unit(500),) * 3, scale=2.0)
    with pytest.raises(ValueError, match="too many cells"):
        copied_request(replace(BLOCKS, axes=cells, blocks=(every,)))
    with pytest.raises(ValueError, match="too many cells"):
        copied_request(replace(BLOCKS, axes=cells, blocks=(replace(every, axes=(0, 1), matrices=every.matrices[:2]),) * 41))
    read = Constants(columns=tuple(Field(id=name, name=name, facts=Facts(type=Type.BIGINT)) for name in "nm"), rows=((1, 1),))
    sums = NoisySums(plan=GroupedSums(input=read, keys=("n", "m"), summands=(Count(),) * 2), noises=(DiscreteLaplace(scale=2.0),) * 2,
                     cells=Grid((tuple(range(2000)), tuple(range(3000)))))
    with pytest.raises(ValueError, match="too many sums"):
        copied_request(sums)
    rungs = GroupedSums(input=read, keys=("n",), summands=(Count(),))
    ladder = AboveThresholdOfCounts(plan=rungs, limits=(1,) * 2**16, scale_limit=2.0, scale_query=2.0)
    assert copied_request(ladder).cost(certificate()).epsilon == Fraction(1)
    with pytest.raises(ValueError, match="rungs at most"):
        copied_request(replace(ladder, limits=(1,) * (2**16 + 1)))
