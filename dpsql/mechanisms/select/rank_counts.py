"""Several quantiles of a column, and the ends of their intervals, from one noisy histogram of its values.

*Counts.* The places of the grid are divided into bins of equal width, and these into blocks of about as many bins as there are
blocks. The rows of each block and of each bin are counted with noise, each at half of the price, and combined by least squares:
as the variances are equal, a block of n bins shares the difference P - sum x equally among its n counts and its own. So the
number of rows up to any edge of a bin is a sum of few noisy counts (Hay, Rastogi, Miklau and Suciu, Boosting the Accuracy of
Differentially Private Histograms Through Consistency, VLDB 2010; Cormode, Kulkarni and Srivastava, Answering Range Queries
Under Local Differential Privacy, VLDB 2019, who take quantiles from such counts). For a quantile q let g be the rows up to an
edge less q times all rows: a sum of the counts with the weight 1 - q up to the edge and -q beyond it. Its variance follows from
the weights of each piece of noise.

*Values.* A quantile is in the first bin at whose right edge g, after isotonic regression, is not negative.

*Ends.* The low end is the left edge of the first bin whose right edge is not rejected, that is, g + z s >= 0 for the standard
deviation s of g. The high end is the right edge of the last bin whose left edge has g - z s <= 0.

*Refinement.* A grid of up to 256 places has bins of one place, and the whole price is for them. Otherwise there are up to 64
bins and one more for the upper bound, at 60 % of the price (with 256 bins the error is a third larger; with 32 it is larger for
uneven values). The rest is for dividing the bins in which the values and ends of all quantiles and cells are: they are
disjoint, so each row counts once. The more rows there are in the bins, the more parts are made, as each adds noise; a bin with
hardly any rows is not divided. Large bins are divided twice if one has a quarter of the rows, as where bounds are far wider
than the values. The rows up to an edge inside a bin are those up to its left edge and the parts before, or those up to its
right edge less the parts behind: both estimates are averaged, with the weights that minimise the variance. In a part of several
places the value is interpolated: so if rows share few values on a fine grid, it may be next to them.

Proof of privacy. All requests are `NoisySums` over counts of rows, of which an entity changes at most `rows`. The kernel
derives their cost, and the costs of all requests add up to the price at most.

Proof of coverage. The true quantile is in some bin k. It is below the low end only if the right edge of k is rejected, where
the exact g is at least 0; or if the low end is in bin k, and the right edge of the part of k that it is in is rejected. The
noise of parts does not depend on which bins are divided. So bins have half of the probability of an error, and their divisions
the other half; likewise above. For Laplace noise z is `estimates.laplaces`, which holds for every sum of which no term has more
than 1 / n of the variance. (The number of parts depends on noisy counts, and so, very slightly, on g.) Ties do not matter: tied
rows are in one bin.

*Against private selection* (`quantiles`), measured for 5,900 incomes that are spread evenly, with root mean square errors and
median widths of intervals in rows: three quantiles at epsilon = 1 have an error of 3 and a width of 92 by selection, as
interval ends get a fifth of the price, and 9 and 57 by counts; nine quantiles 10 and 158 against 8 and 56. At epsilon = 0.05,
three quantiles have an error of 83 and intervals as wide as the whole range by selection, and 132 and 728 by counts. At rho =
0.5 it is 1 and 21 against 4 and 28; for nine quantiles 2 and 32 against 3 and 26. So with three quantiles or more, where errors
are tens of rows and intervals by selection therefore hundreds of rows wide, an error of the values counts about half in the
choice between mechanisms.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Generator, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import Ends, Estimate, NoiseTerm, constant, laplaces, normal
from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import bought
from dpsql.mechanisms.mechanism import Accepted, Estimates, Ordered, Rejected, Script, Task, TaskContext, Verdict
from dpsql.mechanisms.select.quantiles import on_grid
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import DiscreteLaplace, Noise
from dpsql.trusted.plan.cells import Cells, Grid
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, predicate, real, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type

Reals: TypeAlias = NDArray[np.float64]

PLACES, BINS = 2**8, 2**6 + 1  # bins of one place each, if so many suffice; bins of several, the last one for the upper bound
MOST_COUNTS = 2**21  # numbers that one request counts: with many cells, bins are wider
FLAT = 16  # up to so many bins are counted without blocks
FIRST = Fraction(3, 5)  # share of the price for bins, if they are divided further
ONE_STEP = 2**10  # bins of up to so many places are divided once
CROWDED, MANY = 0.25, 2**12  # larger bins are divided twice if one has so many of the rows, or would have so many parts
SEVERAL = 3  # quantiles from which on the mechanism is chosen without being named
FAR = 50.0  # rows: an error from which on the width of intervals matters more than that of values
NARROW = 0.47  # the weight of such an error beside those of other mechanisms, whose intervals are several times as wide
EXACT = 1e-6  # rows, by which sums of floats may be off
MOST_TERMS = 64  # a sum of more pieces of noise than this has the tails of one of so many


class RankCounts:
    """Quantiles from noisy counts of the rows in bins of values. Proof: the head of this file."""

    name, kind = "rank_counts", Ordered

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Ordered):
            return Rejected(because="it counts values up to their rank")
        if any(fraction in (0, 1) for fraction in task.part.fractions):
            return Rejected(because="noisy counts do not show an extreme")
        if task.rows == 0:
            return Rejected(because="the rows are public")
        if cells > MOST_COUNTS // FLAT:
            return Rejected(because="there are too many groups for counts of values in each")
        error = RankCounting(task=task, price=allotted, cells=max(1, cells)).error
        return Accepted(error=error if len(task.part.fractions) >= SEVERAL else math.inf, weight=NARROW if error > FAR else 1.0,
                        noise=f"ranks off by {error:.4g} rows or so")

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        found = []
        for task, allotted in tasks:
            assert isinstance(task, Ordered)
            counting = RankCounting(task=task, price=allotted, cells=len(context.cells))
            found.append((yield from _counted(counting, context)))
        return found


# -- what is counted, and at what price


class RankCounting(Frozen):
    """How the values of a task are counted over this many cells."""

    task: Ordered
    price: Cost
    cells: int

    @property
    def places(self) -> int:
        return self.task.part.grid.most + 1

    @cached_property
    def width(self) -> int:
        """The number of places of a bin: a power of two."""
        most = max(1, min(PLACES if self.places <= PLACES else BINS, MOST_COUNTS // max(1, self.cells)))
        return 1 << (-(-self.places // most) - 1).bit_length()

    @property
    def bins(self) -> int:
        return -(-self.places // self.width)

    @property
    def first_price(self) -> Cost:
        """The price of the bins."""
        return self.price if self.width == 1 else self.price.part(FIRST)

    @cached_property
    def noise(self) -> Noise:
        """The noise of each bin, and of each block."""
        share = self.first_price.part(Fraction(1, 2)) if self.bins > FLAT else self.first_price
        return bought(self.task.rows, share)

    @cached_property
    def weights(self) -> tuple[BinWeights, ...]:
        """For each quantile, the weights of the noise in its g."""
        return tuple(weights_of(self.bins, fraction) for fraction in self.task.part.fractions)

    @property
    def error(self) -> float:
        """The approximate error of a quantile, in ranks, where rows are spread evenly."""
        half = block_of(self.bins) // 2
        near = [each.variances[max(0, round(float(q) * self.bins) - half) : round(float(q) * self.bins) + half + 1]
                for q, each in zip(self.task.part.fractions, self.weights, strict=True)]
        return math.sqrt(max(float(part.mean()) for part in near) * self.noise.variance / 2)


def block_of(bins: int) -> int:
    """The number of bins in a block: a power of two near the square root."""
    return 1 << (bins - 1).bit_length() // 2


class BinWeights(Frozen):
    """For each edge of bins, the variance of g where each count has the variance 1, the largest part of it that one count has,
    and the covariance with the next edge."""

    variances: Reals
    largest: Reals
    covariances: Reals


@lru_cache(maxsize=2**8)
def weights_of(bins: int, fraction: Fraction) -> BinWeights:
    """The weights of noise at each edge for a quantile: with w the weights of bins and W their sum in a block of n, each count of
    a bin has w - W / (n + 1), and the count of the block W / (n + 1)."""
    q = float(fraction)
    weights = np.where(np.arange(bins)[None, :] < np.arange(bins + 1)[:, None], 1 - q, -q)
    if bins > FLAT:
        starts = np.arange(0, bins, block_of(bins))
        sizes = np.diff(np.append(starts, bins))
        blocks = np.add.reduceat(weights, starts, axis=1) / (sizes + 1)
        weights = np.concatenate((weights - np.repeat(blocks, sizes, axis=1), blocks), axis=1)
    squares = weights**2
    return BinWeights(variances=squares.sum(axis=1), largest=squares.max(axis=1),
                      covariances=(weights[:-1] * weights[1:]).sum(axis=1))


def combined(bins: Reals, blocks: Reals) -> Reals:
    """The counts of bins, in the last axis, adjusted to those of blocks by least squares."""
    starts = np.arange(0, bins.shape[-1], block_of(bins.shape[-1]))
    sizes = np.diff(np.append(starts, bins.shape[-1]))
    off = (blocks - np.add.reduceat(bins, starts, axis=-1)) / (sizes + 1)
    return np.asarray(bins + np.repeat(off, sizes, axis=-1), dtype=np.float64)


# -- the requests


def place_of(value: Ref, grid: Quantizer) -> Expr:
    """The place of a value on a grid; for NULL and NaN, any place."""
    least, most = whole(0), whole(grid.most)
    if value.type is Type.BIGINT and grid.step == 1 and grid.low.is_integer():
        low, high = whole(int(grid.low)), whole(int(grid.low) + grid.most)
        return _whole("-", _whole("least", _whole("greatest", value, low), high), low)
    ends: tuple[Expr, Expr]
    if value.type is Type.DATE:
        ends = _day(grid.low), _day(grid.high)
        days = _whole("days_between", value, ends[0])
        x: Expr = value
        inside = days if grid.step == 1 else _rounded(Cast(input=days, target="DOUBLE", type=Type.DOUBLE), grid)
    else:
        ends = real(grid.low), real(grid.high)
        x = value if value.type is Type.DOUBLE else Cast(input=value, target="DOUBLE", type=Type.DOUBLE)
        inside = _rounded(Call(function="-", args=(x, ends[0]), type=Type.DOUBLE), grid)
    branches = ((predicate(">=", x, ends[1]), most), (predicate("<=", x, ends[0]), least))
    return Case(branches=branches, otherwise=inside, type=Type.BIGINT)


def _day(number: float) -> Expr:
    return Literal(value=dt.date.fromordinal(int(number)), type=Type.DATE)


def _whole(function: str, *args: Expr) -> Expr:
    return Call(function=function, args=args, type=Type.BIGINT)


def _rounded(distance: Expr, grid: Quantizer) -> Expr:
    steps = Call(function="*", args=(distance, real(float(1 / grid.step))), type=Type.DOUBLE)
    return Cast(input=Call(function="round", args=(steps,), type=Type.DOUBLE), target="BIGINT", type=Type.BIGINT)


def _binned(task: Ordered, keys: Sequence[str], width: int) -> GroupedSums:
    """The number of rows in each cell and bin of this width."""
    part, view = task.part, task.input
    place = place_of(view.field(part.column).ref, part.grid)
    bin_ = _whole("//", place, whole(width)) if width > 1 else place
    kept = dict.fromkeys((*keys, part.column, *((part.when,) if part.when is not None else ())))
    passed = tuple((name, view.names[name], view.field(name).ref) for name in kept)
    name = "bin"
    while name in {each.lower() for each in kept}:
        name += "s"
    node: Node = Project(input=view, columns=(*passed, (name, name, bin_)))
    return GroupedSums(input=node, keys=(*keys, name), summands=(Count(column=part.column, when=part.when),))


def _histogram(counting: RankCounting, context: TaskContext, width: int) -> Generator[Request, Any, Reals]:
    """The noisy number of rows of each bin of this width, as an array of cells by bins."""
    numbers = range(-(-counting.places // width))
    cells: Cells = Grid((*context.cells.axes, tuple(numbers))) if isinstance(context.cells, Grid) else tuple(
        (*cell, number) for cell, number in product(context.cells, numbers))
    found: MeasuredSums = yield NoisySums(plan=_binned(counting.task, context.keys, width), cells=cells, noises=(counting.noise,))
    return np.array(found.totals[0][0], dtype=np.float64).reshape(len(context.cells), len(numbers))


class Search(Frozen):
    """The bin of one number of one cell: the value of a quantile, or the low or the high end of its interval (`end` 0, -1, 1).

    bin        its position among bins of the current width
    gs         g at both edges
    variances  of these, their covariance, and the largest variance of one count in them
    rows       the noisy number of rows in the bin
    """

    cell: int
    end: int
    quantile: int
    bin: int
    gs: tuple[float, float]
    variances: tuple[float, float, float, float]
    rows: float


def _counted(counting: RankCounting, context: TaskContext) -> Generator[Request, Any, Estimates]:
    """The quantiles of all cells."""
    fractions = counting.task.part.fractions
    if not context.cells:  # no group was selected
        return tuple(constant(np.zeros(0)) for _ in fractions)
    counts = yield from _histogram(counting, context, counting.width)
    if counting.bins > FLAT:
        counts = combined(counts, (yield from _histogram(counting, context, counting.width * block_of(counting.bins))))
    miss, width = float(1 - context.confidence), counting.width
    found = list(_first(counting, counts, 1 - miss if width == 1 else 1 - miss / 2))
    times = _times(counting, counts, found)
    for left in range(times, 0, -1):
        noise = bought(counting.task.rows, counting.price.part((1 - FIRST) / times))
        parts = _parts(found, width, noise.variance, left)
        if parts == 1:
            break
        width //= parts
        bins = list(dict.fromkeys((each.cell, each.bin) for each in found))
        cells = tuple((*context.cells[cell], at * parts + i) for cell, at in bins for i in range(parts))
        told: MeasuredSums = yield NoisySums(plan=_binned(counting.task, context.keys, width), cells=cells, noises=(noise,))
        inside = dict(zip(bins, np.array(told.totals[0][0], dtype=np.float64).reshape(len(bins), parts), strict=True))
        found = [_within(each, inside[each.cell, each.bin], noise, 1 - miss / 2 / times) for each in found]
    return tuple(_estimates(counting, context, found, width))


def _times(counting: RankCounting, counts: Reals, found: Sequence[Search]) -> int:
    """How many times bins are divided."""
    if counting.width <= ONE_STEP:
        return int(counting.width > 1)
    crowd = np.zeros(len(counts))
    for each in found:
        crowd[each.cell] = max(crowd[each.cell], each.rows)
    crowded = crowd.sum() > CROWDED * counts.sum()
    return 2 if crowded or _best_parts(found, bought(counting.task.rows, counting.price.part(1 - FIRST)).variance) > MANY else 1


def _first(counting: RankCounting, counts: Reals, sure: float) -> Iterator[Search]:
    """The bins of all values and ends."""
    size = counting.noise.variance
    totals = counts.sum(axis=1)
    below = np.concatenate((np.zeros((len(counts), 1)), np.cumsum(counts, axis=1)), axis=1)
    for i, fraction in enumerate(counting.task.part.fractions):
        weights = counting.weights[i]
        variances, largest, shared = weights.variances * size, weights.largest * size, weights.covariances * size
        away = multiples(variances, largest, counting.noise, sure) * np.sqrt(variances)
        for cell, row in enumerate(below - float(fraction) * totals[:, None]):
            for end in (0, -1, 1):
                at = _bin(row, away, end)
                yield Search(cell=cell, end=end, quantile=i, bin=at, gs=(float(row[at]), float(row[at + 1])), variances=(
                    float(variances[at]), float(variances[at + 1]), float(shared[at]), float(max(largest[at], largest[at + 1]))),
                    rows=float(counts[cell, at]))


def _bin(row: Reals, away: Reals, end: int) -> int:
    """The bin of a value or of an end, from g at all edges and how far from 0 it is rejected."""
    if end == 0:
        from scipy.optimize import isotonic_regression

        reached = np.flatnonzero(isotonic_regression(row).x[1:] >= -EXACT)
        return int(reached[0]) if len(reached) else len(row) - 2
    if end < 0:
        kept = np.flatnonzero((row + away)[1:] >= -EXACT)
        return int(kept[0]) if len(kept) else len(row) - 2
    kept = np.flatnonzero((row - away)[:-1] <= EXACT)
    return int(kept[-1]) if len(kept) else 0


def _best_parts(found: Sequence[Search], variance: float) -> float:
    """The number of parts of each bin for which edges are off by least.

    With c rows in a bin, spread evenly, n parts have c / n rows each, so that an edge is off by a variance of (c / n)^2 / 12, and
    their noise adds up to one of n v / 4 in the middle of the bin. The sum over all bins is the least possible.
    """
    rows = {(each.cell, each.bin): each.rows for each in found}
    squares = sum(max(0.0, each) ** 2 for each in rows.values())
    return float((2 * squares / (3 * len(rows) * max(variance, 1e-40))) ** (1 / 3))


def _parts(found: Sequence[Search], width: int, variance: float, left: int) -> int:
    """The number of parts into which each bin is divided, if this many divisions are left: a power of two."""
    most = min(1 << -(-(width.bit_length() - 1) // left), MOST_COUNTS // len({(each.cell, each.bin) for each in found}))
    return int(2 ** max(0, min(round(math.log2(max(_best_parts(found, variance), 1.0))), most.bit_length() - 1)))


def _within(search: Search, counts: Reals, noise: Noise, sure: float) -> Search:
    """The part of the bin, after the rows of its parts were counted."""
    v, n = noise.variance, len(counts)
    before = np.arange(n + 1) * v
    sums = np.concatenate(([0.0], np.cumsum(counts)))
    (left, right), (first, last, shared, largest) = search.gs, search.variances
    fore, back = first + before, last + before[::-1]
    both = fore + back - 2 * shared
    weight = np.clip(np.divide(back - shared, both, out=np.full(n + 1, 0.5), where=both > 0), 0.0, 1.0)
    row = weight * (left + sums) + (1 - weight) * (right - (sums[-1] - sums))
    variances = weight**2 * fore + (1 - weight) ** 2 * back + 2 * weight * (1 - weight) * shared
    most = np.full(n + 1, max(largest, v))
    at = _bin(row, multiples(variances, most, noise, sure) * np.sqrt(variances), search.end)
    a, b = weight[at], weight[at + 1]
    between = (a * b * fore[at] + a * (1 - b) * shared + (1 - a) * b * (shared - v) + (1 - a) * (1 - b) * back[at + 1])
    return Search(cell=search.cell, end=search.end, quantile=search.quantile, bin=search.bin * n + at,
                  gs=(float(row[at]), float(row[at + 1])), rows=float(row[at + 1] - row[at]),
                  variances=(float(variances[at]), float(variances[at + 1]), float(between), float(most[0])))


def multiples(variances: Reals, largest: Reals, noise: Noise, sure: float) -> Reals:
    """For sums of noise of these variances, of which one piece has at most `largest`, the multiples of the standard deviation
    that a sum exceeds, in either direction, with probability 1 - `sure` at most."""
    if not isinstance(noise, DiscreteLaplace):
        return np.full(len(variances), normal(sure))
    terms = np.divide(variances, largest, out=np.full(len(variances), float(MOST_TERMS)), where=largest > 0)
    numbers = np.clip(np.floor(terms + 1e-9), 1, MOST_TERMS).astype(np.int64)
    known = {number: laplaces(sure, number) for number in np.unique(numbers).tolist()}
    return np.array([known[number] for number in numbers.tolist()])


# -- estimates


def _estimates(counting: RankCounting, context: TaskContext, found: Sequence[Search], width: int) -> Iterator[Estimate]:
    """The values and their intervals, in places, from bins of this width."""
    task, top = counting.task, float(counting.task.part.grid.most)
    shape = len(context.cells), len(task.part.fractions)
    values, lows, highs = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for each in found:
        place = each.cell, each.quantile
        if each.end < 0:
            lows[place] = each.bin * width
        elif each.end > 0:
            highs[place] = (each.bin + 1) * width - 1
        else:
            left, right = each.gs
            part = min(max(-left / (right - left), 0.0), 1.0) if right > left else 0.5
            values[place] = each.bin * width + min(math.floor(part * width), width - 1)
    values = np.maximum.accumulate(np.clip(values, 0.0, top), axis=1)
    rounded = 0.0 if on_grid(task) else 0.5
    lows, highs = np.minimum(lows, values) - rounded, np.maximum(highs, values) + rounded
    return (_estimate(counting, context, i, values[:, i], np.maximum(lows[:, i], 0.0), np.minimum(highs[:, i], top))
            for i in range(shape[1]))


def _estimate(counting: RankCounting, context: TaskContext, i: int, values: Reals, low: Reals, high: Reals) -> Estimate:
    """Values with intervals at the confidence of the statement; for a lower confidence these are used too."""
    top = float(counting.task.part.grid.most)

    def drawn(confidence: float) -> Ends:
        return (low, high) if confidence <= float(context.confidence) else (np.zeros_like(low), np.full_like(high, top))

    error = np.maximum((high - low) / 2 / normal(float(context.confidence)), 0.5)
    return Estimate(values=values, linear=False, drawn=drawn, slopes={
        (counting.task.at, i): (NoiseTerm(kind="approximate", scale=1.0), error)})
