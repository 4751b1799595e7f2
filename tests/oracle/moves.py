"""How far each kind of request moved between neighbours, beside how far it was charged for.

Every kind has two functions: what the look works out before any noise (`read`), and which distances between two such readings its
proof needs (`compare`). Exact numbers come from the looks themselves, given a source that adds nothing or that writes down what
it is asked to add to. What is charged for is told by the request, or by its cost: by epsilon, or by the root of 2 rho.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.audit.exact import Exact
from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import FREE, Cost, concentrated, pure
from dpsql.trusted.extensions.removal_distance import RemovalDistances
from dpsql.trusted.kernel.run import Kernel
from dpsql.trusted.measurements import flip_distance, select
from dpsql.trusted.measurements.above_threshold import (
    SUM_GRAIN,
    AboveThresholdOfCounts,
    AboveThresholdOfSums,
    AboveThresholdOfTests,
)
from dpsql.trusted.measurements.block_sums import Blocks
from dpsql.trusted.measurements.boxes import Tree
from dpsql.trusted.measurements.buckets import Partition
from dpsql.trusted.measurements.dependent_parents import DependentParents
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.farthest_marginal import FarthestMarginal
from dpsql.trusted.measurements.flip_distance import NoisyFlipDistance, moved, slack_of
from dpsql.trusted.measurements.frequent_keys import Keys
from dpsql.trusted.measurements.marginal_tables import marginal_tables
from dpsql.trusted.measurements.noisy_sums import NoisySums
from dpsql.trusted.measurements.online_comparisons import Comparisons, Opening
from dpsql.trusted.measurements.reading import occupied_cells, sorted_values
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.measurements.select import Select
from dpsql.trusted.measurements.several import removal_levels, sets
from dpsql.trusted.measurements.several.balanced_levels import Balance, BalancedLevel
from dpsql.trusted.measurements.several.degree_histogram import DegreeHistogram
from dpsql.trusted.measurements.several.race import Race
from dpsql.trusted.measurements.several.removal_levels import RecursiveSums, Removed
from dpsql.trusted.measurements.several.smooth_join_sum import SmoothSum
from dpsql.trusted.measurements.smooth_quantile import Smooth
from dpsql.trusted.measurements.vote import Vote
from dpsql.trusted.measurements.weighted_periods import WeightedPeriods
from dpsql.trusted.noise.choice import MOST_SCORE
from dpsql.trusted.noise.integer import DiscreteLaplace
from dpsql.trusted.noise.key_selection import TruncatedGeometric
from dpsql.trusted.noise.tree import rise
from dpsql.trusted.plan.cells import cell_of
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.operators.owner_sets import lipschitz_constant


class View(Frozen, kw_only=False):
    """A database as the kernel reads it, with any noise in place of its own."""

    kernel: Kernel

    @property
    def context(self) -> Context:
        return replace(self.kernel._context(), noise=Exact())

    def look(self, request: Any, certificates: Any, noise: Any) -> Any:
        return self.kernel._look(request, certificates, replace(self.kernel._context(), noise=noise))


CLOSE = 1 + 1e-9  # rounding of the comparisons that are made in floats


class Move(Frozen, kw_only=False):
    """How far something moved, in the unit of what was claimed for it."""

    what: str
    moved: float
    claimed: float

    @property
    def share(self) -> float:
        return self.moved / self.claimed if self.claimed else math.inf if self.moved else 0.0

    @property
    def broken(self) -> bool:
        return self.moved > self.claimed * CLOSE


class Tap(Exact):
    """Adds nothing, and writes down what it was asked to add to."""

    def __init__(self, *answers: int) -> None:
        self.drawn: list[tuple[Sequence[float], float]] = []
        self._answers = answers

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        self.drawn.append((tuple(values), scale))
        if not self._answers:
            return list(values)
        return [self._answers[min(len(self.drawn), len(self._answers)) - 1]] * len(values)

    gaussian = student = laplace

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        self.drawn.append((tuple(scores), scale))
        return 0


def spent(vector: Sequence[int], noise: Any) -> Cost:
    """What a vector's move costs under a noise."""
    if isinstance(noise, DiscreteLaplace):
        return pure(Fraction(sum(map(abs, vector))) / Fraction(noise.scale))
    return concentrated(Fraction(sum(part * part for part in vector)) / (2 * Fraction(noise.sigma) ** 2))


def priced(what: str, used: Cost, charged: Cost) -> Move:
    """The loss that was seen against what was charged, in epsilon where it is pure."""
    if used.epsilon is not None and charged.epsilon is not None:
        return Move(what, float(used.epsilon), float(charged.epsilon))
    return Move(what, math.sqrt(2 * used.rho), math.sqrt(2 * charged.rho))


def less(a: Sequence[int], b: Sequence[int]) -> list[int]:
    return [x - y for x, y in zip(a, b, strict=True)]


def spread(changes: Sequence[int]) -> int:
    """How far changes are apart: what an exponential mechanism loses, in units of its scale."""
    return max(changes, default=0) - min(changes, default=0)


# -- rows


def plans_of(request: Any) -> list[Any]:
    """The plans that a request is certified by, one for each certificate."""
    return [test.plan for test in request.tests] if isinstance(request, NoisyFlipDistance | AboveThresholdOfTests) else [request.plan]


def read_rows(request: Any, certificates: Sequence[Certificate], view: View) -> list[Counter[tuple[str | None, ...]]]:
    """The rows below each plan, as texts, where something is claimed of their number."""
    plans, found = plans_of(request), dict[int, Counter[tuple[str | None, ...]]]()
    for plan, certificate in zip(plans, certificates, strict=True):
        if certificate.below.rows is None:
            found[id(plan)] = Counter()
        elif id(plan) not in found:
            values = ", ".join(f'CAST(t."{field.id}" AS VARCHAR)' for field in plan.input.fields)
            text, parts = view.context.query(plan.input)
            found[id(plan)] = Counter(view.context.reader.rows(f"SELECT {values or '1'} FROM ({text}) AS t", parts))
    return [found[id(plan)] for plan in plans]


def compare_rows(certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    """What is claimed of a relation holds of its rows, whatever is summed over them."""
    for certificate, here, there in zip(certificates, a, b, strict=True):
        if certificate.below.rows is not None:
            yield Move("rows", ((here - there) + (there - here)).total(), certificate.below.rows)


# -- sums


def _read_measure(request: NoisySums | WeightedPeriods, certificates: Any, view: View) -> list[list[int]]:
    found = view.look(request, certificates, Exact()).totals
    return [[value for part in parts for value in part] for parts in found]


def _compare_measure(request: NoisySums, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    parts = zip(request.plan.summands, request.noises, certificates[0].summands, a, b, strict=True)
    for summand, noise, claimed, here, there in parts:
        name = type(summand).__name__
        change = less(here, there)
        yield priced(f"{name} {'l1' if isinstance(noise, DiscreteLaplace) else 'l2'}", spent(change, noise), noise.cost(claimed))


def _compare_weighted(request: WeightedPeriods, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    """Gaussian: the sum of the squares of weighted differences, over 2 sigma^2."""
    used = sum((spent(less(here, there), noise) for noise, here, there in zip(request.noises, a, b, strict=True)), FREE)
    yield priced("weighted", used, request.cost(*certificates))


def _read_blocks(request: Blocks, certificates: Any, view: View) -> Any:
    return view.look(request, certificates, Exact()).answers


def _compare_blocks(request: Blocks, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    epsilon = rho = Fraction(0)
    for block, here, there in zip(request.blocks, a, b, strict=True):
        change = less(here, there)
        epsilon += Fraction(sum(map(abs, change))) / Fraction(block.scale)
        rho += Fraction(sum(part * part for part in change)) / (2 * Fraction(block.scale) ** 2)
    used = pure(epsilon) if request.noise == "laplace" else concentrated(rho)
    yield priced(request.noise, used, request.cost(*certificates))


def _read_cells(request: Partition | Tree, certificates: Any, view: View) -> Counter[tuple[int, ...]]:
    axes = (request.axis,) if isinstance(request, Partition) else request.axes
    filled = occupied_cells.numbered(occupied_cells.read(request.cells, [axis.values for axis in axes], view.context), [axis.numbers for axis in axes])
    found: Counter[tuple[int, ...]] = Counter()
    for *at, value in zip(*(code.tolist() for code in filled.codes), filled.sums.tolist(), strict=True):
        found[tuple(at)] += value
    return found


def _compare_cells(request: Any, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    change = sum(abs(a[key] - b[key]) for key in a.keys() | b.keys())
    charged = request.cost(*certificates)
    if isinstance(request, Partition):
        yield priced("partition", pure(2 * change / Fraction(request.scale)), charged)
        return
    yield Move("cells", change, 0 if certificates[0].below.public else certificates[0].l1)
    grown = Cost(epsilon=change * rise(request.scale, request.decay), rho=Fraction(0))
    yield priced("tree", grown + request.leaf.cost(Sensitivity(l1=change, l2=change)), charged)


def _read_degrees(request: DegreeHistogram, certificates: Any, view: View) -> list[int]:
    tap = Tap()
    view.look(request, certificates, tap)
    return [int(value) for value in tap.drawn[0][0]]


def _compare_degrees(request: DegreeHistogram, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    change = less(a, b)
    nearest = min(([part - shift for part in change] for shift in (-1, 0, 1)), key=lambda parts: sum(map(abs, parts)))
    yield priced("degrees", spent(nearest, request.noise), request.cost(*certificates))  # only differences are told


# -- choices


def _read_select(request: Select, certificates: Any, view: View) -> Any:
    found = []
    for values, segments in zip(sorted_values.read(request.plan, request.cells, view.context), request.segments, strict=True):
        for segment in segments:
            inside = values.between(segment.low, segment.high)
            starts, widths, far = select.intervals(inside, segment, select.cap_of(segment, request.scale))
            distance, _ = select.excess(far, segment, request.scale)
            logs = [-float(part) / request.scale for part in distance]
            top = max(log + math.log(width) for log, width in zip(logs, widths.tolist(), strict=True))
            total = top + math.log(sum(math.exp(log + math.log(width) - top)
                                       for log, width in zip(logs, widths.tolist(), strict=True)))
            found.append((starts.tolist(), logs, total))
    return found


def _compare_select(request: Select, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    loss = 0.0
    for (starts, logs, total), (others, theirs, their_total) in zip(a, b, strict=True):
        losses = []
        for at in sorted({*starts, *others}):
            mine = logs[int(np.searchsorted(starts, at, side="right")) - 1] - (0 if request.flip else total)
            yours = theirs[int(np.searchsorted(others, at, side="right")) - 1] - (0 if request.flip else their_total)
            losses.append(mine - yours)
        loss += 2 * max(map(abs, losses)) if request.flip else max(map(abs, losses))
    yield Move("choice", loss, float(request.cost(*certificates).epsilon or 0))


def _read_keys(request: Keys, certificates: Any, view: View) -> Counter[Any]:
    width = len(request.plan.keys)
    found: Counter[Any] = Counter()
    for row in view.context.reader.rows(*view.context.query(request.plan)):
        found[cell_of(row[:width])] += row[width]
        found[None] += found[cell_of(row[:width])] != row[width]  # a key twice
    return found


def _compare_keys(request: Keys, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    changes = [abs(a[key] - b[key]) for key in a.keys() | b.keys()]
    charged, rule = request.cost(*certificates), request.rule
    if isinstance(rule, TruncatedGeometric):
        yield Move("keys", float(sum(changes) * rule.epsilon), float(charged.epsilon or 0))
        yield Move("keys by chance", float(sum(changes) * rule.delta), float(charged.delta))
    else:
        yield Move("keys", sum(change**2 for change in changes) / (2 * rule.sigma**2), float(charged.rho))
    if certificates[0].disjoint_cells:
        yield Move("one key", max(changes, default=0), 1)


def _read_vote(request: Vote, certificates: Sequence[Certificate], view: View) -> float:
    tap = Tap()
    view.look(request, certificates, tap)
    (scores, scale), = tap.drawn
    return (scores[0] - scores[1]) / scale


def _compare_vote(request: Vote, certificates: Sequence[Certificate], a: float, b: float) -> Iterator[Move]:
    yield Move("odds", abs(a - b), float(request.cost(*certificates).epsilon or 0))


def _read_candidates(request: DependentParents | FarthestMarginal, certificates: Sequence[Certificate], view: View) -> list[float]:
    tap = Tap()
    view.look(request, certificates, tap)
    (scores, scale), = tap.drawn
    return [score / scale for score in scores]


def _compare_candidates(request: DependentParents | FarthestMarginal, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    change = [here - there for here, there in zip(a, b, strict=True)]
    yield Move("candidates", max(change) - min(change), float(request.cost(*certificates).epsilon or 0))


def _read_far_counts(request: FarthestCount, certificates: Any, view: View) -> list[float]:
    counted = marginal_tables(request.plan, request.axes, view.context)
    above = [score for places, expected in zip(request.marginals, request.expected, strict=True)
             for score in (request.multiplier * counted.table(places) - np.array(expected)).tolist()]
    return [score / request.scale for score in (*above, *(-score for score in above))]


def _compare_far_counts(request: FarthestCount, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    change = [here - there for here, there in zip(a, b, strict=True)]
    yield Move("far counts", request.draws * (max(change) - min(change)), float(request.cost(*certificates).epsilon or 0))


def _read_opening(request: Opening, certificates: Any, view: View) -> None:
    """Nothing is read."""


def _compare_opening(request: Opening, certificates: Any, a: None, b: None) -> Iterator[Move]:
    yield from ()


def _read_compared(request: Comparisons, certificates: Sequence[Certificate], view: View) -> list[int]:
    """The counts of all groups: each by itself, so far from what is expected that it is measured."""
    opened, found = Opening(view=request.view, updates=1, scale_limit=1.0, scale_query=1.0, noise=DiscreteLaplace(scale=1.0)), []
    for at in range(len(request.expected)):
        one = replace(request, groups=tuple(0 if group == at else -1 for group in request.groups), expected=(0,), limit=-MOST_SCORE)
        count = one.release(view.context, certificates[0], opened.opened(certificates[0]), (0, 0)).count
        assert count is not None
        found.append(count)
    return found


def _compare_compared(request: Comparisons, certificates: Sequence[Certificate], a: list[int], b: list[int]) -> Iterator[Move]:
    change, claimed = less(a, b), certificates[0].l1
    yield Move("count", max(map(abs, change)), claimed)
    yield Move("counts", sum(map(abs, change)), claimed)
    if certificates[0].below.owners:
        yield Move("both ways", max(0, min(max(change), -min(change))), 0)


def _read_threshold(request: AboveThresholdOfCounts, certificates: Any, view: View) -> list[int]:
    counted = Counter[int]()
    for key, rows in view.context.rows(request.plan):
        counted[-1 if key is None else key] += rows
    return [sum(rows for key, rows in counted.items() if j < key <= len(request.limits)) for j in range(len(request.limits))]


def _compare_threshold(request: AboveThresholdOfCounts, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    change = [0, *less(a, b)]
    loss = max(map(abs, change)) / request.scale_limit + spread(change) / request.scale_query
    yield Move("ladder", loss, float(request.cost(*certificates).epsilon or 0))


def _read_above(request: AboveThresholdOfSums, certificates: Sequence[Certificate], view: View) -> list[int]:
    plan = request.plan
    totals = occupied_cells.sums_in(view.context.reader.columns(*view.context.query(plan)), 0, ((),))
    rows = max(1, certificates[0].below.rows or 1)
    return [SUM_GRAIN * totals[step.at][0] // (max(1, plan.summands[step.at].l1) * rows) for step in request.steps]


def _compare_above(request: AboveThresholdOfSums, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    change = [0, *less(a, b)]
    loss = max(map(abs, change)) / request.scale_limit + spread(change) / request.scale_query
    yield Move("sums", loss, float(request.cost(*certificates).epsilon or 0))


# -- what rests on a smooth bound


def _read_smooth(request: Smooth, certificates: Sequence[Certificate], view: View) -> list[tuple[int, float, int]]:
    tap = Tap()
    view.look(request, certificates, tap)
    pairs = zip(tap.drawn[::2], tap.drawn[1::2], strict=True)
    return [(int(value[0]), scale * float(request.epsilon) / 2, int(size[0])) for (value, scale), (size, _) in pairs]


def _read_join_sum(request: SmoothSum, certificates: Any, view: View) -> list[tuple[int, float, int]]:
    tap = Tap()
    view.look(request, certificates, tap)
    ((value, scale), (size, _)) = tap.drawn
    return [(int(value[0]), scale / request.noise.scale(1.0), int(size[0]))]


def _compare_smooth(request: Smooth | SmoothSum, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    beta = request.beta if isinstance(request, Smooth) else request.noise.beta + 1e-11
    changed = [(here, there) for here, there in zip(a, b, strict=True) if here != there]
    for (value, bound, size), (other, their_bound, their_size) in changed:
        yield Move("smooth value", abs(value - other), min(bound, their_bound))
        yield Move("smooth bound", abs(math.log(bound / their_bound)), beta)
        yield Move("smooth size", abs(size - their_size), 1)
    yield Move("smooth cells", len(changed), 1)
    own = request.epsilon if isinstance(request, Smooth) else request.noise.epsilon
    yield Move("smooth price", float(own + request.epsilon_size) if changed else 0, float(request.cost(*certificates).epsilon or 0))


# -- rows of several entities


def _held(request: Any, view: View) -> list[list[list[int]]]:
    """F of each cell, part and level."""
    return [[[part.value(j) for j in range(len(request.levels))] for part in parts]
            for parts in sets.read(request.plan, request.levels, request.cells, view.context)]


def _read_race(request: Race, certificates: Any, view: View) -> Any:
    return _held(request, view)


def _compare_race(request: Race, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    total = FREE
    for cell, others in zip(a, b, strict=True):
        for part, theirs in zip(cell, others, strict=True):
            for change, level, noise in zip(less(part, theirs), request.levels, request.noises, strict=True):
                yield Move("level", abs(change), 0 if certificates[0].below.public else lipschitz_constant(level, len(request.plan.owners)))
                total += spent([change], noise)
    yield priced("race", total, request.cost(*certificates))


def _read_balance(request: Balance | BalancedLevel, certificates: Any, view: View) -> Any:
    return _held(request, view)


def _scores(held: Any, levels: Sequence[int]) -> list[int]:
    sums = [sum(part[j] for cell in held for part in cell) for j in range(len(levels))]
    return [max(0, *((sums[j] - sums[i]) // levels[j] for j in range(i, len(levels)))) for i in range(len(levels))]


def _compare_balance(request: Balance | BalancedLevel, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    loss = Fraction(spread(less(_scores(a, request.levels), _scores(b, request.levels)))) / Fraction(request.scale)
    drawn = Cost(epsilon=loss, rho=loss**2 / 8)
    if isinstance(request, BalancedLevel):
        yield priced("level", drawn, request.cost(*certificates))
    else:
        yield from _told(request, certificates, drawn, a, b)


def _told(request: Any, certificates: Sequence[Certificate], drawn: Cost, a: Any, b: Any) -> Iterator[Move]:
    """What the choice of a level has lost, and then the sums of all cells at each level that may be drawn."""
    charged = request.cost(*certificates)
    for j, noise in enumerate(request.noises):
        used = drawn
        for cell, others in zip(a, b, strict=True):
            change = sum(sign * (part[j] - theirs[j]) for sign, part, theirs in zip((1, -1), cell, others, strict=False))
            used += spent([change], noise)
        yield priced("level and sums", used, charged)


def _read_removed(request: Removed | RecursiveSums, certificates: Any, view: View) -> Any:
    columns = sets.columns_of(request.plan, view.context)
    many = RemovalDistances(sets.in_cells(columns, request.plan, request.cells), request.levels, view.context.solvers)
    return [many.value(j) for j in range(len(request.levels))], removal_levels.first(many), _held(request, view)


def _compare_removed(request: Removed | RecursiveSums, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    if isinstance(request, RecursiveSums):
        drawn = pure(Fraction(abs(a[1] - b[1])) / Fraction(request.scale))
    else:
        loss = Fraction(spread([0, *less(a[0], b[0])])) / Fraction(request.scale)
        drawn = pure(loss) if request.flip else Cost(epsilon=loss, rho=loss**2 / 8)
    yield from _told(request, certificates, drawn, a[2], b[2])


# -- slacks


def _read_slack(request: NoisyFlipDistance, certificates: Sequence[Certificate], view: View) -> list[int]:
    return list(view.look(request, certificates, Exact()).slacks)


def _compare_slack(request: NoisyFlipDistance, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    change = less(a, b)
    yield priced("together" if request.together else "slacks", spent(change, request.noise), request.cost(*certificates))
    yield Move("one slack", max(map(abs, change), default=0), 1)


def _read_failing(request: AboveThresholdOfTests, certificates: Sequence[Certificate], view: View) -> dict[tuple[int, int], int]:
    found = {}
    for i, (test, sides, certificate) in enumerate(zip(request.tests, flip_distance.read(request.tests, view.context), certificates, strict=True)):
        for way in dict.fromkeys(test.ways) if request.split else (0,):
            mine = [side for side, own in zip(sides, test.ways, strict=True) if way in (0, own)]
            found[i, way] = slack_of(mine, moved(test, certificate))
    return found


def _compare_failing(request: AboveThresholdOfTests, certificates: Sequence[Certificate], a: Any, b: Any) -> Iterator[Move]:
    change = {key: a[key] - b[key] for key in a}
    most, steps = max(map(abs, change.values()), default=0), 1 if request.split else 2
    loss = most / request.scale_limit + steps * request.most * most / request.scale_query
    yield Move("failing", loss, float(request.cost(*certificates).epsilon or 0))
    if request.split:
        directed = [way * number for (_, way), number in change.items() if number]
        yield Move("ways", spread([*directed, 0]) if directed and min(directed) < 0 < max(directed) else 0, 0)


Read = Callable[[Any, Sequence[Certificate], View], Any]
Compare = Callable[[Any, Sequence[Certificate], Any, Any], Iterator[Move]]
LAWS: dict[type, tuple[Read, Compare]] = {
    NoisySums: (_read_measure, _compare_measure), WeightedPeriods: (_read_measure, _compare_weighted), Blocks: (_read_blocks, _compare_blocks), Select: (_read_select, _compare_select),
    Partition: (_read_cells, _compare_cells), Tree: (_read_cells, _compare_cells), DegreeHistogram: (_read_degrees, _compare_degrees),
    Keys: (_read_keys, _compare_keys), Vote: (_read_vote, _compare_vote), AboveThresholdOfCounts: (_read_threshold, _compare_threshold),
    FarthestMarginal: (_read_candidates, _compare_candidates), DependentParents: (_read_candidates, _compare_candidates),
    FarthestCount: (_read_far_counts, _compare_far_counts),
    Opening: (_read_opening, _compare_opening), Comparisons: (_read_compared, _compare_compared),
    AboveThresholdOfSums: (_read_above, _compare_above), Smooth: (_read_smooth, _compare_smooth), SmoothSum: (_read_join_sum, _compare_smooth),
    Race: (_read_race, _compare_race), Balance: (_read_balance, _compare_balance), BalancedLevel: (_read_balance, _compare_balance),
    Removed: (_read_removed, _compare_removed), RecursiveSums: (_read_removed, _compare_removed),
    NoisyFlipDistance: (_read_slack, _compare_slack), AboveThresholdOfTests: (_read_failing, _compare_failing)}
