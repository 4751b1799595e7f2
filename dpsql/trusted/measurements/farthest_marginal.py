"""The choice of the next marginal to measure: the one that is farthest from a model's expectation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions, NumberRange, Scale
from dpsql.trusted.matrices.matrices import Exact
from dpsql.trusted.measurements.block_sums import Axis, MergedAxis, OfCells
from dpsql.trusted.measurements.marginal_tables import Places, are_candidates, marginal_tables
from dpsql.trusted.measurements.reading.occupied_cells import WORDS
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.noise.choice import MOST_SCORE, WholeScore, choice_cost, likely_best
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Node


class FarthestMarginal(Frozen, OfCells):
    """The index of one of several marginals whose counts are likely to be far from the expected ones: the exponential
    mechanism.

    merged     further axes, numbered after `axes`, each of which merges the cells of an earlier axis
    marginals  for each candidate the places of its axes
    expected   for each candidate the expected count of each cell, the last axis changing first; in units of 1 / grain rows
    weights    of each candidate; with a negative one a candidate is likely whose counts are near the expected ones
    penalties  of each candidate, in the same units: for instance the distance that noise alone would make

    Candidate i is drawn with probability proportional to exp(s_i / scale), for the score

        s_i = weights[i] * (sum over its cells of |grain * count - expected| - penalties[i]).

    Cost. The cell of a row in a marginal is a function of the row alone, also on a merged axis, as which cells are merged is
    public. So one row moves one count of each marginal by 1 at most. An entity of k rows moves the sum of distances by at most
    grain k (triangle inequality), and each score by at most D = grain k max(|weights|); expected counts, weights and penalties
    are public. So differences of scores change by at most 2 D, as `noise.choice` needs.

    The cells that have rows are read once per statement, and asked again with other expectations as long as view and axes stay
    the same: see `marginal_tables`.

    Source: McKenna, Mullins, Sheldon and Miklau, AIM: An Adaptive and Iterative Mechanism, PVLDB 2022.
    """

    view: Node
    axes: tuple[Axis, ...]
    marginals: tuple[Places, ...]
    expected: tuple[tuple[WholeScore, ...], ...]
    weights: tuple[WholeScore, ...]
    penalties: tuple[WholeScore, ...]
    scale: Scale
    grain: Annotated[int, NumberRange(least=1, most=MOST_SCORE)] = 1
    merged: tuple[MergedAxis, ...] = ()

    def assumptions(self) -> Assumptions:
        yield from are_candidates(self.axes, self.marginals, self.expected, self.merged)
        yield 0 not in self.weights, "the weight of a candidate must not be 0"
        yield len(self.marginals) == len(self.weights) == len(self.penalties), "every candidate needs a weight and a penalty"

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        return choice_cost(2 * self.grain * certificate.l1 * max(map(abs, self.weights)), self.scale, flip=False)

    def release(self, context: Context, certificate: Certificate) -> Farthest:
        """Draw a candidate; see `FarthestMarginal` for the score and its proof."""
        counted = marginal_tables(self.plan, self.axes, context, self.merged)
        distances = [distance(counted.table(places), expected, self.grain, counted.filled.total)
                     for places, expected in zip(self.marginals, self.expected, strict=True)]
        scores = [weight * (far - penalty) for weight, far, penalty in zip(self.weights, distances, self.penalties, strict=True)]
        return Farthest(place=likely_best(scores, self.scale, context.noise))


class Farthest(Frozen):
    """The index of the chosen marginal among the candidates."""

    place: int


def distance(counts: Exact, expected: Sequence[int], grain: int, total: int) -> int:
    """The sum of all |grain * count - expected|, for counts that add up to at most `total`."""
    small = grain * total + sum(map(abs, expected)) < WORDS
    kind = np.int64 if small else object
    return int(np.abs(grain * counts.astype(kind, copy=False) - np.array(expected, dtype=kind)).sum())
