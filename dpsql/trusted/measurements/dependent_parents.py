"""The choice of the next node of a Bayesian network: the column that depends most on some others, together with these."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, TypeAlias

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.field_types import Assumptions, NumberRange, Scale
from dpsql.trusted.matrices.matrices import Exact
from dpsql.trusted.measurements.block_sums import Axis, OfCells
from dpsql.trusted.measurements.listed import are_axes
from dpsql.trusted.measurements.marginal_tables import Places, are_places, marginal_tables
from dpsql.trusted.measurements.reading.occupied_cells import WORDS
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.noise.choice import MOST_SCORE, WholeScore, choice_cost, likely_best
from dpsql.trusted.plan.certificate import Certificate
from dpsql.trusted.plan.node import Node

MOST_KINKS = 10**5


class ProductDistance(Frozen):
    """The score R in rows: half the L1 distance of the counts from those of a child that is independent of its parents,

        n R = 1/2 sum over x and p of |c(x, p) - c(x) c(p) / n|,

    in units of 1 / grain rows, rounded down; 0 where there are no rows.

    Bound. Let M be the matrix of c(x, p) - c(x) c(p) / n, for n > 0, with u = c(x) / n and v = c(p) / n the vectors of the shares
    of children and of parents. Another row of the child x0 and the parents p0, with unit vectors e and f, makes it

        M' = M + e f^T - [(n u + e) (n v + f)^T / (n + 1) - n u v^T] = M + n / (n + 1) (e - u) (f - v)^T,

    and |e - u|_1 = 2 (1 - u(x0)), |f - v|_1 = 2 (1 - v(p0)). By the triangle inequality n R changes by at most half of
    n / (n + 1) 4 (1 - u(x0)) (1 - v(p0)), which is less than 2, in either direction; the first row does not change it, as it is
    0 for one row. The bound is approached: upwards by a first row of a new child and new parents in a table without dependence,
    downwards by a first row of two rare values that are never together. So k rows change grain n R by less than 2 k grain. That
    is a whole number, so it bounds what is rounded down too: floor(a + b) = floor(a) + b for whole b. n is private, and is in no
    cost.

    Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao, PrivBayes, TODS 2017, section 5.3, where it has sensitivity
    3 / n + 2 / n^2, for neighbours of one known size n.
    """

    grain: Annotated[int, NumberRange(least=1, most=MOST_SCORE)]

    def apart(self) -> int:
        """The length of the range within which a row moves every score."""
        return 4 * self.grain

    def of(self, counts: Exact) -> int:
        """The score of a matrix with a row for each value of the child, and a column for each combination of its parents."""
        total = int(counts.sum())
        if total == 0:
            return 0
        exact = counts if 4 * total**2 < WORDS else counts.astype(object)
        twice = int(np.abs(total * exact - np.outer(exact.sum(axis=1), exact.sum(axis=0))).sum())
        return self.grain * twice // (2 * total)


class ConvexInformation(Frozen):
    """The information of parents about their child, measured by a convex function f of counts:

        sum over x and p of f(c(x, p)) - sum over p of f(c(p)),    f(c) = sum over the kinks t of max(c - t, 0).

    With f(c) near g c log2(c) this is -n H(child | parents), in units of 1 / g bits; adding n H(child), which may be estimated
    from noisy counts as `offsets`, makes it n times the mutual information. Whatever the kinks are, the bound holds, and all of
    it is in whole numbers.

    Bound. Kinks are whole numbers, none negative. So f(c + 1) - f(c) is the number of kinks that are at most c: it does not fall
    with c, and lies between 0 and the number J of kinks. Another row of x0 and p0 adds [number of kinks up to c(x0, p0)] -
    [number of kinks up to c(p0)]; as c(x0, p0) <= c(p0), that is between -J and 0. So k rows move all scores within
    [-k J, 0], and it is the length of this range that the choice depends on: half of what |change| <= k J would give, and half of
    what mutual information itself would, which has two more sums, of f(c(x)) and f(n): it moves by up to J to
    either side. J is about g (log2 K + log2 e) for counts up to K; beyond the last kink f is a straight line. K is public, and a
    wrong K costs accuracy alone.

    Source: mutual information as score is by Zhang, Cormode, Procopiuc, Srivastava and Xiao, PrivBayes, TODS 2017, section 4,
    for neighbours of one known size.
    """

    kinks: tuple[Annotated[int, NumberRange(least=0, most=MOST_SCORE)], ...]

    def assumptions(self) -> Assumptions:
        yield 1 <= len(self.kinks) <= MOST_KINKS, f"a convex function must have 1 to {MOST_KINKS} kinks"
        yield all(before <= later for before, later in pairwise(self.kinks)), "kinks must be in order"

    def apart(self) -> int:
        """The length of the range within which a row moves every score."""
        return len(self.kinks)

    def of(self, counts: Exact) -> int:
        """The score of a matrix with a row for each value of the child, and a column for each combination of its parents."""
        return self._sum(counts) - self._sum(counts.sum(axis=0))

    def _sum(self, counts: Exact) -> int:
        """The sum of f over all counts. With j kinks below c, f(c) is j c less the sum of these kinks."""
        present = counts[counts > 0]
        if not len(present):
            return 0
        kind = np.int64 if len(self.kinks) * sum(present.tolist()) < WORDS else object
        present = present.astype(kind, copy=False)
        most = max(present.tolist())
        kinks = np.array([kink for kink in self.kinks if kink < most], dtype=kind)
        sums = np.array([0, *kinks.cumsum()], dtype=kind)
        below = kinks.searchsorted(present)
        return int((below * present - sums[below]).sum())


Score: TypeAlias = ProductDistance | ConvexInformation


class DependentParents(Frozen, OfCells):
    """The place of one of several candidates, likely one whose child depends much on its parents: the exponential mechanism.

    candidates  for each the places of its axes, that of the child first, then those of its parents, if any
    score       of the counts of a candidate's axes
    offsets     of each candidate: what is public of its score, in the same units

    Candidate i is drawn with probability proportional to exp((score_i + offsets[i]) / scale).

    Cost. The cell of a row in a marginal is a function of the row alone, so an entity of k rows adds k rows, one after the other,
    to the counts of each candidate, or takes them away. Then the score of every candidate moves within the same range, whose
    length D the score gives and proves, so differences of scores change by at most D, as `noise.choice` needs. Candidates,
    offsets, grain and kinks are public.

    The cells that have rows are read once per statement, see `marginal_tables`.
    """

    view: Node
    axes: tuple[Axis, ...]
    candidates: tuple[Places, ...]
    score: Score
    offsets: tuple[WholeScore, ...]
    scale: Scale

    def assumptions(self) -> Assumptions:
        yield are_axes(self.axes), "axes must be different columns of the view"
        sizes = [axis.size for axis in self.axes]
        yield all(sizes), "every axis needs a value"
        yield len(self.candidates) == len(self.offsets) > 0, "every candidate needs an offset"
        for places in self.candidates:
            yield places and are_places(places, sizes), "a candidate is a child and its parents: different axes"

    def cost(self, certificate: Certificate) -> Cost:
        return FREE if certificate.below.public else choice_cost(self.score.apart() * certificate.l1, self.scale, flip=False)

    def release(self, context: Context, certificate: Certificate) -> ChosenParents:
        """Draw a candidate; see `DependentParents` for the score and its proof."""
        counted = marginal_tables(self.plan, self.axes, context)
        scores = [self.score.of(counted.table(places).reshape(self.axes[places[0]].size, -1)) + offset
                  for places, offset in zip(self.candidates, self.offsets, strict=True)]
        return ChosenParents(place=likely_best(scores, self.scale, context.noise))


class ChosenParents(Frozen):
    """The place of the chosen candidate."""

    place: int
