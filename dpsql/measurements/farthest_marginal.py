"""The marginal of a table that is farthest from what a model expects of it: the choice of what to measure next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpsql.accounting.cost import FREE, Cost
from dpsql.measurements.block_sums import LARGEST, Axis, occupied
from dpsql.measurements.listed import check_columns, whole
from dpsql.measurements.reading.occupied_cells import WORDS, Filled
from dpsql.measurements.reading.request import Context
from dpsql.noise.choice import MOST_SCORE, choice_cost
from dpsql.noise.integer import check_scale
from dpsql.plan.certificate import Certificate
from dpsql.plan.node import Node, Summary
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.plan.operators.summands import Count
from dpsql.workload.factors import Exact


@dataclass(frozen=True, slots=True, kw_only=True)
class FarthestMarginal:
    """The place of one of several marginals, likely one whose counts are far from the expected ones: the exponential mechanism.

    marginals  for each candidate the places of its axes
    expected   for each candidate the expected count of each cell, the last axis changing first; in units of 1 / grain rows
    weights    of each candidate; with a negative one a candidate is likely whose counts are near the expected ones
    penalties  of each candidate, in the same units: for instance the distance that noise alone would make

    Candidate i is drawn with probability proportional to exp(s_i / scale), for the score

        s_i = weights[i] * (sum over its cells of |grain * count - expected| - penalties[i]).

    Cost. The cell of a row in a marginal is a function of the row alone, so one row moves one count of each marginal by 1 at
    most. An entity of k rows moves the sum of distances by at most grain k (triangle inequality), and each score by at most D =
    grain k max(|weights|); expected counts, weights and penalties are public. So differences of scores change by at most 2 D, as
    `noise.choice` needs. Distances from the best score are cut off at a public number C: max(s_i, best - C) moves by at most D
    too, as the best score does, and subtracting the best score from all of them does not change the draw. What is left is small
    enough for floats to hold it exactly.

    The cells that have rows are read once per statement, and asked again with other expectations as long as view and axes stay
    the same: `Last` keeps them.

    Source: McKenna, Mullins, Sheldon and Miklau, AIM: An Adaptive and Iterative Mechanism, PVLDB 2022.
    """

    view: Node
    axes: tuple[Axis, ...]
    marginals: tuple[tuple[int, ...], ...]
    expected: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    penalties: tuple[int, ...]
    scale: float
    grain: int = 1

    @property
    def plan(self) -> GroupedSums:
        """The number of rows in each cell that has rows."""
        return GroupedSums(input=self.view, keys=tuple(axis.column for axis in self.axes), summands=(Count(),))

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.plan,)

    def cost(self, certificate: Certificate) -> Cost:
        """Raises ValueError where an assumption of the proof does not hold."""
        check_candidates(self.axes, self.marginals, self.expected)
        check_scale(self.scale)
        whole(self.grain, 1, MOST_SCORE, "the grain of scores")
        for numbers in (self.weights, self.penalties):
            _all_whole(numbers, -MOST_SCORE)
        if 0 in self.weights:
            raise ValueError("a candidate without a weight has no score")
        if not len(self.marginals) == len(self.weights) == len(self.penalties):
            raise ValueError("every candidate needs expected counts, a weight and a penalty")
        if certificate.below.public:
            return FREE
        return choice_cost(2 * self.grain * certificate.l1 * max(map(abs, self.weights)), self.scale, flip=False)

    def release(self, context: Context, certificate: Certificate) -> Farthest:
        """Draw a candidate; see `FarthestMarginal` for the score and its proof."""
        counted = counted_cells(self.plan, self.axes, context)
        distances = [distance(counted.table(places), expected, self.grain, counted.filled.total)
                     for places, expected in zip(self.marginals, self.expected, strict=True)]
        scores = [weight * (far - penalty) for weight, far, penalty in zip(self.weights, distances, self.penalties, strict=True)]
        best, cap = max(scores), min(math.ceil(self.scale * (math.log(len(scores)) + 45)), MOST_SCORE)
        return Farthest(place=context.noise.exponential([-float(min(best - score, cap)) for score in scores], self.scale))

@dataclass(frozen=True, slots=True, kw_only=True)
class Farthest:
    """The place of the chosen marginal among the candidates."""

    place: int


@dataclass(frozen=True, slots=True)
class Counted:
    """The cells that have rows, and the marginals that were asked for so far."""

    filled: Filled
    tables: dict[tuple[int, ...], Exact] = field(default_factory=dict)

    def table(self, places: tuple[int, ...]) -> Exact:
        """The counts of a marginal, as a vector."""
        if places not in self.tables:
            self.tables[places] = self.filled.marginal(places).reshape(-1)
        return self.tables[places]


def counted_cells(plan: GroupedSums, axes: tuple[Axis, ...], context: Context) -> Counted:
    """The exact counts, read anew only where another view or other axes were asked for last."""
    if context.last.asked != (plan, axes):
        context.last.found = Counted(occupied(plan, axes, context))
        context.last.asked = plan, axes
    found: Counted = context.last.found
    return found


def check_candidates(axes: object, marginals: object, expected: object) -> None:
    """Raise ValueError for anything but different axes, and marginals of them with an expected number for each cell."""
    if any(type(given) is not tuple for given in (axes, marginals, expected)) or not marginals:
        raise ValueError("a choice needs tuples of axes, of candidates, and of what is expected of each")
    assert isinstance(axes, tuple) and isinstance(marginals, tuple) and isinstance(expected, tuple)
    for axis in axes:
        Axis.check(axis)
    check_columns([axis.column for axis in axes])
    if len(marginals) != len(expected):
        raise ValueError("every candidate needs expected counts")
    for places, counts in zip(marginals, expected, strict=True):
        _all_whole(places, 0)
        _all_whole(counts, -MOST_SCORE)
        if len(set(places)) != len(places) or max(places, default=0) >= len(axes):
            raise ValueError("a candidate is a list of different axes")
        if not len(counts) == math.prod(axes[place].size for place in places) <= LARGEST:
            raise ValueError(f"a count is expected of every cell of a candidate, which has at most {LARGEST}")


def distance(counts: Exact, expected: Sequence[int], grain: int, total: int) -> int:
    """The sum of all |grain * count - expected|, for counts that add up to at most `total`."""
    small = grain * total + sum(map(abs, expected)) < WORDS
    kind = np.int64 if small else object
    return int(np.abs(grain * counts.astype(kind, copy=False) - np.array(expected, dtype=kind)).sum())


def _all_whole(numbers: object, least: int) -> None:
    """Raise ValueError for anything but a tuple of whole numbers, none less than `least` or too large for floats."""
    if type(numbers) is not tuple or not {type(number) for number in numbers} <= {int}:
        raise ValueError("expected counts, weights, penalties and places are whole numbers")
    if min(numbers, default=least) < least or max(numbers, default=least) > MOST_SCORE:
        raise ValueError(f"these numbers must lie between {least} and {MOST_SCORE}")
