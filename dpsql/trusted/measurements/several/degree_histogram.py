"""The degree histogram of a graph: how many entities have how many rows, each shared with one other entity."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import numpy as np

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.extensions.bounded_degrees import ArcList as Listed
from dpsql.trusted.extensions.bounded_degrees import extended, projected
from dpsql.trusted.extensions.owned import coded
from dpsql.trusted.field_types import Assumptions, NumberRange
from dpsql.trusted.measurements.reading.request import Context, OfOnePlan
from dpsql.trusted.noise.integer import TOO_WIDE, Noise, added, fits_a_word
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.operators.arcs import MOST_DEGREE, Arcs, moves

Way: TypeAlias = Literal["projection", "flow"]


class DegreeHistogram(Frozen, OfOnePlan):
    """The number of entities of each degree 1 .. `most`, after degrees are reduced to `most` in one of two ways.

    Let c_i = n - (number of entities with a degree > i) plus independent noise, for 0 <= i <= most. The differences c_i - c_(i-1)
    are released for 1 <= i <= most; n cancels in them, so its value does not matter.

    Cost. Let n be any number that grows by one when an entity is added; it need not be known. Then an entity moves the c_i by at
    most `moves(most, mutual)` in the l1 norm, and so in the l2 norm, for either way; the proofs are in
    `extensions.bounded_degrees`. Differences are post-processing.

    Source: edge addition and cumulative histograms, Day, Li and Lyu, SIGMOD 2016; flows, Raskhodnikova and Smith, FOCS 2016.
    """

    plan: Arcs
    most: Annotated[int, NumberRange(least=1, most=MOST_DEGREE)]
    way: Way
    noise: Noise

    def assumptions(self) -> Assumptions:
        yield fits_a_word(self.noise), TOO_WIDE

    def cost(self, certificate: Certificate) -> Cost:
        if certificate.below.public:
            return FREE
        if set(certificate.below.owners) != {self.plan.tail, self.plan.head}:
            raise ValueError("the two ends of each arc must be the two entities that its row belongs to")
        moved = moves(self.most, mutual=self.plan.mutual)
        return self.noise.cost(Sensitivity(l1=moved, l2=moved))

    def release(self, context: Context, certificate: Certificate) -> Histogram:
        """See `DegreeHistogram` for the numbers and their noise."""
        arcs = read(self, context)
        counts = projected(arcs, self.most) if self.way == "projection" else extended(arcs, self.most, context.solvers)
        above = [0, *(-int(number) for number in np.cumsum(counts[::-1]))][::-1]  # c_0, ..., c_most with n = 0
        noisy = added(above, self.noise, context.noise)
        return Histogram(counts=tuple(noisy[i + 1] - noisy[i] for i in range(self.most)))


class Histogram(Frozen):
    """The noisy numbers of entities of degree 1, 2, ..."""

    counts: tuple[int, ...]


def read(request: DegreeHistogram, context: Context) -> Listed:
    """The arcs in the order of their hashes; those with equal hashes in the order of their names."""
    tails, heads, order, sizes = context.arrays(request.plan)
    ends, entities = coded([tails, heads])
    first = np.lexsort((ends[:, 1], ends[:, 0], np.asarray(order)))
    tail, head = (ends[first, at].astype(np.int64) for at in (0, 1))
    return Listed(tail, head, np.asarray(sizes, dtype=np.int64)[first], entities, request.plan.mutual)
