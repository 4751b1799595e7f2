"""What methods ask of the kernel: the noisy counts of a marginal, and the candidate that a model describes worst; and which
marginals may be asked for at all.

Both are bought for a share of the price: for a pure epsilon, Laplace noise and a choice of that epsilon; for rho, Gaussian noise
and a choice of epsilon = sqrt(8 rho), as a choice costs epsilon^2 / 8.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, combinations, islice, repeat
from operator import itemgetter
from typing import Any

import numpy as np

from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import bought, scale_of
from dpsql.models.entropy_projection import CellMeasurement
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.table_domain import Columns, TableDomain, most_numbers
from dpsql.models.table_model import TableModel
from dpsql.synthesis.method import CodedTable, SynthesisTask, versions_of
from dpsql.trusted.accounting.cost import Cost, root
from dpsql.trusted.measurements.block_sums import Axis, MergedAxis
from dpsql.trusted.measurements.farthest_count import FarCell, FarthestCount, FarthestCounts
from dpsql.trusted.measurements.farthest_marginal import Farthest, FarthestMarginal
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.choice import BLOCK_ROUNDING
from dpsql.trusted.noise.integer import DiscreteLaplace, Noise
from dpsql.workload.factors import Array

LEAST_VARIANCE = 1e-9  # of noise so small that its variance is 0 in floats
FINE = 10  # expected counts are rounded to multiples of this part of the noise at most
HOPELESS = 20  # a candidate whose score is lower by so many scales is never drawn
MOST_BLURRED = 0.2  # of all rows: where noise moves more of them in single columns, the price is too low for anything else
MOST_NOISE = 0.25  # of all rows, that noise may move to other cells of a marginal
MOST_CANDIDATES = 50_000  # larger marginals are left out where there would be more
MOST_WEIGHT = 1000  # of a candidate


def counted(table: CodedTable, columns: Columns, price: Cost) -> Generator[Request, Any, MarginalMeasurement]:
    """Measure a marginal."""
    noise = noise_for(table, price)
    release: MeasuredSums = yield NoisySums(plan=table.plan(columns), cells=table.cells(columns), noises=(noise,))
    values = np.array(release.totals[0][0], dtype=float).reshape(table.domain.shape(columns))
    return MarginalMeasurement(columns=columns, values=values, variance=max(noise.variance, LEAST_VARIANCE))


def counted_cell(table: CodedTable, columns: Columns, cell: tuple[int, ...], price: Cost) -> Generator[
        Request, Any, CellMeasurement]:
    """Measure one count of a marginal."""
    noise = noise_for(table, price)
    by_name = {each.name: each for each in table.columns}
    values = tuple(by_name[name].values[place] for name, place in zip(columns, cell, strict=True))
    release: MeasuredSums = yield NoisySums(plan=table.plan(columns), cells=(values,), noises=(noise,))
    return CellMeasurement(columns=columns, cell=cell, value=float(release.totals[0][0][0]),
                           variance=max(noise.variance, LEAST_VARIANCE))


def noise_for(table: CodedTable, price: Cost) -> Noise:
    """The noise of a marginal's counts. All rows of an entity may be in one cell, so both norms are bounded by their number."""
    return bought(table.rows, price)


def mean_size(noise: Noise) -> float:
    """The mean of |z| for noise z, which is what noise adds, for each cell, to the distance between two marginals."""
    return math.sqrt(noise.variance * (1 / 2 if isinstance(noise, DiscreteLaplace) else 2 / math.pi))


class Candidate(Frozen):
    """A marginal that may be measured next, and how much a row's distance counts in it."""

    columns: Columns
    weight: int = 1


def candidates(task: SynthesisTask, cells: int, width: int | None = None) -> list[Candidate]:
    """The marginals contained in those of the workload (its downward closure) that have at most `cells` cells and at most `width`
    columns, from few columns to many. Single columns are in all their values, pairs in these and in each coarser version, and
    more columns in the coarsest. The weight of a marginal is the number of columns that it shares with each marginal of the
    workload, added up (AIM, section 4), without a common factor. Only the ratios of weights matter, as scores grow with weights
    like the scale of their noise."""
    levels, names, place = task.table.levels.domain, task.table.domain.columns, task.table.place
    cells, versions = min(cells, most_numbers()), [*versions_of(names, task.table.coarser).values()]
    most = max(map(len, task.workload))
    found: dict[Columns, tuple[int, ...]] = {}
    for size in range(1, (most if width is None else min(width, most)) + 1):
        every = set(chain.from_iterable(map(combinations, task.workload, repeat(size))))
        parts = {tuple(sorted(map(place.__getitem__, part))) for part in every}
        more = ((version, part) for part in parts for version in _together([versions[at] for at in part])
                if levels.cells(version) <= cells)
        listed = dict(islice(more, MOST_CANDIDATES + 1 - len(found)))
        if len(found) + len(listed) > MOST_CANDIDATES:
            break
        found |= dict(sorted(listed.items(), key=itemgetter(1)))
    counts = Counter(chain.from_iterable(task.workload))
    weights = [sum(counts[names[at]] for at in part) for part in found.values()]
    unit = max(Fraction(math.gcd(*weights)), Fraction(max(weights, default=1), MOST_WEIGHT))
    return [Candidate(columns=columns, weight=max(1, round(weight / unit)))
            for columns, weight in zip(found, weights, strict=True)]


def _together(known: Sequence[Columns]) -> Iterator[Columns]:
    """A marginal of columns, given in all their versions, in versions that are about as coarse: of one column the finest, of more
    than two the coarsest."""
    most = max(map(len, known))
    for level in {1: range(1), 2: range(most)}.get(len(known), range(most - 1, most)):
        yield tuple(own[min(level, len(own) - 1)] for own in known)


def unknown_columns(task: SynthesisTask, each: Cost) -> list[str]:
    """The columns whose counts are known less accurately than from a measurement at this price."""
    domain, variance = task.table.domain, noise_for(task.table, each).variance
    precisions = dict.fromkeys(domain.columns, 0.0)
    for known in task.known:
        for column in precisions.keys() & set(known.columns):
            precisions[column] += domain.cells([column]) / (known.variance * known.values.size)
    return [column for column in task.columns if precisions[column] * variance < 1]


def told_of(domain: TableDomain, marginals: Iterable[MarginalMeasurement]) -> list[MarginalMeasurement]:
    """The marginals over columns of this domain, without those over coarser versions of columns that it lacks."""
    return [each for each in marginals if set(each.columns) <= set(domain.columns)]


def farthest(table: CodedTable, candidates: Sequence[tuple[Candidate, Array]], noise: float, price: Cost) -> Generator[
        Request, Any, Candidate]:
    """A candidate with about the largest weight * (distance of its counts from the expected ones - `noise` for each cell).

    Nothing is asked where there is one candidate only.
    """
    if len(candidates) == 1:
        return candidates[0][0]
    grain = max(1, math.ceil(FINE / max(noise, 1 / FINE)))
    weights = tuple(candidate.weight for candidate, _ in candidates)
    chosen: Farthest = yield FarthestMarginal(
        view=table.view, axes=_axes(table), merged=_merged(table),
        marginals=tuple(_places(table, candidate.columns) for candidate, _ in candidates),
        expected=tuple(tuple(np.rint(grain * counts).astype(np.int64).ravel().tolist()) for _, counts in candidates),
        weights=weights, penalties=tuple(round(grain * noise * counts.size) for _, counts in candidates),
        scale=grain * choice_scale(table, max(weights), price), grain=grain)
    return candidates[chosen.place][0]


def farthest_cells(table: CodedTable, expected: Sequence[tuple[Columns, Array]], price: Cost, *, multiplier: int = 1,
                   draws: int = 1) -> Generator[Request, Any, tuple[FarCell, ...]]:
    """Cells of these marginals whose multiplied counts are far from the expected numbers, each chosen for an equal share of the
    price."""
    scale = cells_scale(table, multiplier, price.part(Fraction(1, draws)))
    chosen: FarthestCounts = yield FarthestCount(
        view=table.view, axes=_axes(table), marginals=tuple(_places(table, columns) for columns, _ in expected),
        expected=tuple(tuple(np.rint(numbers).astype(np.int64).ravel().tolist()) for _, numbers in expected),
        scale=scale, multiplier=multiplier, draws=draws)
    return chosen.cells


def cells_scale(table: CodedTable, multiplier: int, price: Cost) -> float:
    """The scale for choosing one cell, whose counts are multiplied."""
    epsilon = price.epsilon if price.epsilon is not None else root(8 * price.rho)
    return scale_of(Fraction(2 * table.rows * multiplier) / max(epsilon - BLOCK_ROUNDING, epsilon / 2))


def _axes(table: CodedTable) -> tuple[Axis, ...]:
    return tuple(Axis(column=column.column, values=column.values) for column in table.columns if not column.of)


def _merged(table: CodedTable) -> tuple[MergedAxis, ...]:
    """The coarser versions, which come after all columns."""
    return tuple(MergedAxis(of=table.place[column.of], cells=column.merged) for column in table.columns if column.of)


def _places(table: CodedTable, columns: Columns) -> tuple[int, ...]:
    return tuple(table.place[name] for name in columns)


def choice_scale(table: CodedTable, weight: int | Fraction, price: Cost) -> float:
    """The scale for a choice among scores, each of which a row changes by at most this weight."""
    epsilon = price.epsilon if price.epsilon is not None else root(8 * price.rho)
    return scale_of(Fraction(2 * table.rows * weight) / epsilon)


def blurred(model: TableModel, table: CodedTable, columns: Sequence[str], noise: float) -> bool:
    """Whether noise of this mean size in each count of these columns would move more than the fraction `MOST_BLURRED` of all rows
    to other values, on average over all columns, each in its coarsest version. A count smaller than the noise is off by about its
    own size, as no count is negative in a model."""
    versions, moved = versions_of(table.domain.columns, table.coarser), 0.0
    groups = {each.name: each.merged for each in table.coarser}
    for column in columns:
        counts = model.marginal((column,))
        together = np.ones(len(counts))
        for version in versions[column][1:]:
            counts, together = (np.asarray(np.bincount(groups[version], weights), dtype=np.float64) for weights in (
                counts, together))
        moved += float(np.minimum(counts, noise * np.sqrt(together)).sum())
    return moved > 2 * MOST_BLURRED * model.total * len(model.domain.columns)


def audible(domain: TableDomain, candidate: Candidate, noise: float, total: float) -> bool:
    """Whether noise of this mean size in each cell leaves anything to be learned: it would move less than the fraction
    `MOST_NOISE` of all rows to other cells."""
    return noise * domain.cells(candidate.columns) / 2 <= MOST_NOISE * total


def hopeful(domain: TableDomain, candidates: Sequence[Candidate], noise: float, total: float, scale: float) -> list[Candidate]:
    """The candidates that could be chosen: no distance exceeds the size of both tables together, and the best of the others are
    not below their penalty. Large marginals, in which noise would hide everything, are excluded before anything is computed."""
    least = max((-each.weight * noise * domain.cells(each.columns) for each in candidates), default=0.0)
    return [each for each in candidates
            if each.weight * (3 * total - noise * domain.cells(each.columns)) + HOPELESS * scale >= least]
