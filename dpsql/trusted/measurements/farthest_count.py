"""The choice of single queries: the counts of a table that are farthest from a model's expectation."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Annotated

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions, NumberRange, Scale
from dpsql.trusted.matrices.matrices import Exact
from dpsql.trusted.measurements.block_sums import LARGEST, Axis, OfCells
from dpsql.trusted.measurements.marginal_tables import MarginalTables, Places, are_candidates, marginal_tables
from dpsql.trusted.measurements.reading.occupied_cells import WORDS
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.noise.choice import BLOCK_ROUNDING, MOST_SCORE, WholeScore, choice_cost, exponential
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Node

MOST_DRAWS = 1000


class FarthestCount(Frozen, OfCells):
    """Cells of several marginals whose counts are likely to be far from the expected ones: the exponential mechanism.

    marginals   for each marginal the places of its axes
    expected    for each marginal a public number for each cell, the last axis changing first
    multiplier  what counts are multiplied by: the number of expected counts added up, or what they are rounded to a part of
    draws       how many cells are drawn, independently of each other, from the same scores

    Each cell c can be drawn with the sign + and with the sign -, in each case with probability proportional to exp(s / scale):

        s(c, +) = multiplier * count(c) - expected(c),      s(c, -) = -s(c, +).

    So a cell is drawn with probability proportional to 2 cosh(s(c, +) / scale), which is about exp(|s(c, +)| / scale): MWEM takes
    the cell alone. DualQuery adds up what its rounds expected, and takes the sign as well.

    Cost. The cell of a row in a marginal is a function of the row alone, so an entity of k rows that comes raises some counts,
    each by at most k, and lowers none; if it goes, it lowers them in the same way. Scores of one sign move by 0 to D = k
    multiplier, and those of the other by -D to 0; expected numbers and the multiplier are public. So differences of scores
    change by at most 2 D, as `noise.choice` needs, and by just that if a count moves by k: with one sign alone it would be
    half of that, but not with both. Distances from the best score are cut off at a public number C: max(s, best - C) moves by
    no more than the scores do, as the best score does not either, and subtracting the best score from all of them does not
    change the draw. What is left is small enough for floats to hold it exactly. Blocks of candidates are drawn before the
    candidates in them, which adds `BLOCK_ROUNDING` (`noise.choice.exponential`). The draws are independent given the rows, so
    their costs add up.

    The cells that have rows are read once per statement, as by `FarthestMarginal`.

    Sources: Hardt, Ligett and McSherry, A simple and practical algorithm for differentially private data release, NIPS 2012;
    Gaboardi, Gallego Arias, Hsu, Roth and Wu, Dual Query, ICML 2014.
    """

    view: Node
    axes: tuple[Axis, ...]
    marginals: tuple[Places, ...]
    expected: tuple[tuple[WholeScore, ...], ...]
    scale: Scale
    multiplier: Annotated[int, NumberRange(least=1, most=MOST_SCORE)] = 1
    draws: Annotated[int, NumberRange(least=1, most=MOST_DRAWS)] = 1

    def assumptions(self) -> Assumptions:
        yield from are_candidates(self.axes, self.marginals, self.expected)
        yield sum(map(len, self.expected)) <= LARGEST, f"a choice must be among at most {LARGEST} cells"

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        each = choice_cost(2 * self.multiplier * certificate.l1, self.scale, flip=False, rounding=BLOCK_ROUNDING)
        return sum([each] * self.draws, FREE)

    def release(self, context: Context, certificate: Certificate) -> FarthestCounts:
        """Draw cells; see `FarthestCount` for the scores and their proof."""
        counted = marginal_tables(self.plan, self.axes, context)
        above = self._above(counted)
        number = len(above)
        cap = min(math.ceil(self.scale * (math.log(2 * number) + 45)), MOST_SCORE)
        best = max(int(above.max()), -int(above.min()))
        scores = -np.minimum(np.concatenate([best - above, best + above]), cap).astype(np.float64)
        firsts = np.array([0, *accumulate(map(len, self.expected))])
        found = []
        for _ in range(self.draws):
            sign, cell = divmod(exponential(scores, self.scale, context.noise), number)
            marginal = int(np.searchsorted(firsts, cell, side="right")) - 1
            found.append(FarCell(marginal=marginal, cell=cell - int(firsts[marginal]), sign=1 - 2 * sign))
        return FarthestCounts(cells=tuple(found))

    def _above(self, counted: MarginalTables) -> Exact:
        """The amount by which every multiplied count exceeds the expected number: exact integers, in 64 bits if they fit."""
        most = max(max(map(abs, numbers)) for numbers in self.expected)
        kind = np.int64 if self.multiplier * counted.filled.total + most < WORDS else object
        return np.concatenate([self.multiplier * counted.table(places).astype(kind, copy=False) - np.array(numbers, dtype=kind)
                               for places, numbers in zip(self.marginals, self.expected, strict=True)])


class FarCell(Frozen):
    """A chosen cell: the index of its marginal, its own index in it, and the sign of the score, which is 1 or -1."""

    marginal: int
    cell: int
    sign: int


class FarthestCounts(Frozen):
    """The chosen cells, one per draw."""

    cells: tuple[FarCell, ...]
