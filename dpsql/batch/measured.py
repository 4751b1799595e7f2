"""A group that is measured with a strategy: integer queries with independent noise, and least squares."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Generator, Hashable, Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.simulation import Simulation
from dpsql.batch.group import Group, Kind, Told, too_small
from dpsql.errors import Unsupported
from dpsql.estimates import NoiseTerm
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.additive_noise import scale_of, sigma_of
from dpsql.strategies import clock
from dpsql.strategies.all_strategies import NoStrategy, Verdict, best
from dpsql.strategies.all_strategies import Plan as Search
from dpsql.strategies.cache import ENDED, NEARLY
from dpsql.strategies.optimality_gap import Noise
from dpsql.strategies.strategy import Block, Strategy
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.field_types import WIDEST
from dpsql.trusted.measurements.block_sums import Blocked, Blocks
from dpsql.workload.domain import room, too_large
from dpsql.workload.factor_blocks import integer_blocks
from dpsql.workload.factors import Array, Dense, Factor, Identity, Intervals, Ranges, Total
from dpsql.workload.workload import ReducedWorkload, Workload

KINDS: dict[Noise, Kind] = {"gaussian": "normal", "laplace": "laplaces"}
"""The distribution of sums of each kind of independent noise."""
MOST_CELLS, MOST_ANSWERS = 2**26, 10**7  # of a marginal that is read; of all answers that get noise
MOST_KEPT = 16  # workloads, with their strategies, in memory
MOST_MIXED, MIXED = 256, 2**20  # most noise terms, and weights, that are computed for the correlation of answers
SLACK = 1 + 1e-9  # relative margin of scales, so that rounding never makes a measurement cost more than its share


class MeasuredGroup(Frozen):
    """The plan of a fixed strategy: everything is known before anything is spent."""

    group: Group
    strategy: Strategy
    verdicts: tuple[Verdict, ...]

    @property
    def name(self) -> str:
        """The name of the strategy in the catalogue."""
        return next(verdict.name for verdict in self.verdicts if verdict.strategy is self.strategy)

    @property
    def note(self) -> str:
        known = self.strategy.certificate
        sure = f", {known}" if known is not None and known.bound > 0 else ""
        return f"{self.group.size} by the strategy '{self.name}'{sure}"

    def noise(self, price: Cost) -> str:
        scales = self._scales(price)
        numbers = sum(block.rows for block in self.strategy.blocks)
        least, most = min(scales), max(scales)
        told = f"{least:.4g}" if math.isclose(least, most, rel_tol=1e-3) else f"{least:.4g} to {most:.4g}"
        word = "standard deviation" if self.strategy.noise == "gaussian" else "scale"
        return f"discrete {self.strategy.noise.capitalize()} noise of {word} {told} on {numbers} integer queries"

    def variances(self, price: Cost) -> Array:
        return variances_at(self.group, self.group.smaller.workload, self.strategy, price)

    def steps(self, price: Cost) -> Generator[Blocks, Blocked, Told]:
        request, variances = self.request(price), self.variances(price)  # which may be too large to be computed
        answered = yield request
        given = [np.array(part, dtype=float) for part in answered.answers]
        values = self.strategy.reconstruct(given, self.group.smaller.workload) * self.group.unit
        rows = sum(block.rows for block in request.blocks)
        few = rows <= MOST_MIXED and rows * len(values) <= MIXED
        return Told(values=values, variances=variances, kind=KINDS[self.strategy.noise],
                    mixed=cache(partial(self._mixed, request)) if few else None)

    def simulated_errors(self, price: Cost, draw: Simulation) -> Callable[[], Array]:
        """A source of simulated errors of all answers at a price, in the unit of the aggregate and with their dependence. The
        draws are public. Reconstruction is linear, so it is applied to the noise alone."""
        request, workload = self.request(price), self.group.smaller.workload

        def errors() -> Array:
            noise = [draw.noise(NoiseTerm(kind=request.noise, scale=block.scale), (1, block.rows))[0] for block in request.blocks]
            return self.strategy.reconstruct(noise, workload) * self.group.unit
        return errors

    def _mixed(self, request: Blocks) -> Array:
        """The weight of each noise term in every answer, (answers, terms), for terms of variance 1: reconstruction is linear."""
        rows = [block.rows for block in request.blocks]
        found = []
        for at, block in enumerate(request.blocks):
            deviation = block.scale * (math.sqrt(2) if request.noise == "laplace" else 1)
            for row in range(block.rows):
                given = [np.zeros(size) for size in rows]
                given[at][row] = deviation
                found.append(self.strategy.reconstruct(given, self.group.smaller.workload))
        return np.stack(found, axis=1) * self.group.unit

    def check(self, price: Cost) -> None:
        if any(not scale <= WIDEST for scale in self._scales(price)):  # its noise does not fit into 64 bits
            raise too_small()

    def _scales(self, price: Cost) -> list[float]:
        """The scale of the noise of each block at a price, without the matrices over all values."""
        stretch = stretch_at(self.group, self.strategy, price)
        return [float(block.scale * stretch) for block in self.strategy.blocks]

    def request(self, price: Cost) -> Blocks:
        """The request for the strategy's blocks over the view, with the noise scales that this price pays for."""
        return blocks_of(self.group, self.group.smaller, self.strategy, price)


def stretch_at(group: Group, strategy: Strategy, price: Cost) -> float:
    """The factor for the scales of a strategy's blocks at which measuring them costs this price."""
    unit, worst = price.epsilon if strategy.noise == "laplace" else price.rho, strategy.sensitivity.value
    assert unit is not None
    if strategy.noise == "laplace":
        return scale_of(worst * group.moved / unit) * SLACK
    return sigma_of(worst * group.moved**2 / (2 * unit)) * SLACK


def blocks_of(group: Group, smaller: ReducedWorkload, strategy: Strategy, price: Cost) -> Blocks:
    """The request for a strategy's queries for a reduced workload of a group, with the noise that this price pays for."""
    stretch = stretch_at(group, strategy, price)
    line = not group.columns or strategy.domain.shape != smaller.workload.domain.shape  # all cells are one attribute there
    classes = [numbers[numbers >= 0] for numbers in smaller.classes]  # values that no query counts have no cells
    places = [in_line(classes, smaller.workload.domain.shape)] if line else classes
    blocks = integer_blocks(Block(axes=block.axes, scale=block.scale * stretch, factors=tuple(
        widened(own, places[axis]) for axis, own in zip(block.axes, block.factors, strict=True)))
        for block in strategy.blocks)
    axes = tuple(axis if len(own) == len(numbers) else replace(axis, counted=tuple(np.flatnonzero(numbers >= 0).tolist()))
                 for axis, own, numbers in zip(group.axes, classes, smaller.classes, strict=False))
    return Blocks(view=group.view, axes=axes, summand=group.summand, blocks=blocks, noise=strategy.noise, line=line)


def check_room(smaller: ReducedWorkload, strategy: Strategy) -> None:
    """Raise Unsupported if a marginal over all values, a matrix over them, or the number of all answers is too large. Values that
    a workload does not distinguish are merged for planning, but not when rows are read."""
    line = strategy.domain.shape != smaller.workload.domain.shape
    counted = [int((numbers >= 0).sum()) for numbers in smaller.classes]
    sizes = [math.prod(counted)] if line else counted
    answers = 0
    for block in strategy.blocks:
        answers, cells = answers + block.rows, math.prod(sizes[axis] for axis in block.axes)
        if cells > MOST_CELLS:
            raise too_large("a measurement", cells, MOST_CELLS)
        if answers > MOST_ANSWERS:
            raise too_large("a draw of noise", answers, MOST_ANSWERS)
        for axis, factor in zip(block.axes, block.factors, strict=True):
            if not isinstance(factor, Identity | Total | Intervals) and factor.n != sizes[axis]:
                room("a matrix of queries over all values", factor.rows, sizes[axis])


def chosen(group: Group, targets: Array | None, plans: dict[str, Search]) -> tuple[Strategy, tuple[Verdict, ...]]:
    """The best of several strategies. A recent result for the same workload is reused if its search had as much time. Raises
    Unsupported if no strategy is suitable."""
    workload, limit = group.smaller.workload, clock.remaining()
    key = (workload.fingerprint, workload.domain, None if targets is None else targets.tobytes(), tuple(plans.items()))
    known = _LATELY.get(key)
    if known is not None and known.sought * NEARLY >= min(limit, ENDED):
        with contextlib.suppress(Unsupported):  # more values may be merged here than in the earlier group
            check_room(group.smaller, known.strategy)
            return known.strategy, known.verdicts
    try:
        strategy, verdicts = best(workload, targets, plans, partial(check_room, group.smaller))
    except NoStrategy as refused:
        raise Unsupported(str(refused), code="too-large", try_="fewer keys, coarser keys, or the statements one by one") from None
    _keep(key, FoundStrategy(strategy=strategy, verdicts=tuple(verdicts), sought=limit if clock.cut_short() else ENDED))
    return strategy, tuple(verdicts)


class FoundStrategy(Frozen):
    """The best strategy of a workload, the verdicts on the others, and how many seconds the search took."""

    strategy: Strategy
    verdicts: tuple[Verdict, ...]
    sought: float


_LATELY: dict[Hashable, FoundStrategy] = {}


def _keep(key: Hashable, found: FoundStrategy) -> None:
    """Keep the strategies of the last few workloads. They contain nothing of the data, like the files of `strategies.cache`."""
    _LATELY[key] = found
    while len(_LATELY) > MOST_KEPT:
        _LATELY.pop(next(iter(_LATELY)), None)


def variances_at(group: Group, workload: Workload, strategy: Strategy, price: Cost) -> Array:
    """The variances of a workload's answers by a strategy at a price, in the unit of the aggregate."""
    amount = float(price.epsilon if strategy.noise == "laplace" and price.epsilon is not None else price.rho)
    return strategy.variances(workload, amount) * (group.moved * group.unit) ** 2


def in_line(numbers: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """The numbers of all cells in a flat order, the last attribute changing fastest, from the numbers of each attribute's values;
    -1 for a cell with a negative number."""
    found = np.zeros(1, dtype=np.int64)
    for own, size in zip(numbers, sizes, strict=True):
        both = found[:, None] * size + own[None, :]
        found = np.where((found[:, None] >= 0) & (own[None, :] >= 0), both, -1).reshape(-1)
    return found


def widened(own: Factor, numbers: NDArray[np.int64]) -> Factor:
    """A factor over merged values, expanded to all values, given the number of each: merged values get equal columns, and values
    with a negative number get zeros."""
    compact = widened_compactly(own, numbers)
    if compact is not None:
        return compact
    dense = own.dense()
    room("a matrix of queries over all values", dense.shape[0], len(numbers))
    padded = np.concatenate([dense, np.zeros((len(dense), 1), dtype=dense.dtype)], axis=1)  # whose last column is number -1
    places = np.where(numbers < 0, dense.shape[1], numbers)
    if dense.dtype != np.int64:
        wide = padded[:, places]
        wide.flags.writeable = False
        return Dense(wide)
    rows = io.BytesIO()  # row by row, and in the form in which the kernel takes it: there is only one copy of a large matrix
    for row in padded:
        rows.write(row[places])
    return Dense(np.frombuffer(rows.getvalue(), dtype=np.int64).reshape(len(dense), len(places)))


def widened_compactly(own: Factor, numbers: NDArray[np.int64]) -> Factor | None:
    """The same without writing the matrix out; None if that is not possible."""
    if len(numbers) == own.n and (numbers == np.arange(own.n)).all():
        return own
    return _widened_intervals(own, numbers) if isinstance(own, Identity | Total | Intervals) else None


def _widened_intervals(own: Identity | Total | Intervals, numbers: NDArray[np.int64]) -> Factor | None:
    """The same for intervals, if only neighbours are merged and no value within an interval is left out; None otherwise."""
    told = np.flatnonzero(numbers >= 0)
    if isinstance(own, Total) and len(told) == len(numbers):
        return Total(len(numbers))
    if (np.diff(numbers[told]) < 0).any():
        return None
    first, after = own.ends
    starts = np.searchsorted(numbers[told], np.arange(own.n + 1))
    begins, ends = starts[first], starts[after]
    if (ends <= begins).any():
        return None
    low, high = told[begins], told[ends - 1]
    return Ranges(len(numbers), tuple(low.tolist()), tuple(high.tolist())) if (high - low == ends - begins - 1).all() else None
