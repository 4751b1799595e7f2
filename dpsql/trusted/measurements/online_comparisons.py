"""Private multiplicative weights: many statements ask which counts are far from those of a public model, for one price in
total.

A model is opened once, for the price of a number of updates, and then asked for counts in any number of statements. Each count is
compared with what the model expects, and only where they are far apart is its noisy value released: that is an update. The
comparisons up to one update share one secret noise, which the ledger keeps between statements.
"""

from __future__ import annotations

import json
import math
from typing import Annotated

import numpy as np

from dpsql.frozen import Frozen, asdict
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.field_types import Assumptions, NumberRange, Scale
from dpsql.trusted.measurements.block_sums import LARGEST, Axis, OfCells, occupied
from dpsql.trusted.measurements.listed import are_axes
from dpsql.trusted.measurements.reading.request import Context
from dpsql.trusted.noise.choice import WholeScore, one_sided
from dpsql.trusted.noise.integer import TOO_WIDE, DiscreteGaussian, DiscreteLaplace, Noise, drawn, fits_a_word, spread_of
from dpsql.trusted.noise.source import Source
from dpsql.trusted.noise.sparse_vector import sparse_cost
from dpsql.trusted.plan.certificate import Certificate, Sensitivity
from dpsql.trusted.plan.node import Node, Summary
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count

MOST_UPDATES = 10**5
SIDES = (1, -1)  # a count is far above what is expected, or far below


class Opening(Frozen):
    """The request that opens a model and pays for all of its updates. Nothing is read.

    updates      how many counts may be found far from the model
    scale_limit  of the noise that the comparisons up to an update share
    scale_query  of the noise of each comparison
    noise        of the count that an update releases

    Cost. Let an entity change `moved` rows. The comparisons between two updates are a run of the sparse vector technique
    (`noise.sparse_vector`) with one yes and the sides as kinds: g = expected + limit - count for counts that are far above, and
    g = count + limit - expected for those far below. Expected counts and limits are public, and follow from earlier releases.
    If an entity only adds rows (or, when it leaves, only removes them), one side moves up and the other down: the z move by
    `moved` in total, and the noise of the yes by `moved`. Otherwise each side may move both ways by `moved`: twice that. So a run
    costs `moved` / scale_limit + `moved` / scale_query, or twice that; and its noisy count what `noise` costs for a sensitivity
    of `moved`. There are at most `updates` runs: the kernel starts a new one only after a yes, and counts a failed comparison as
    a yes. Which counts are asked, and with what limits, may depend on all earlier releases (adaptive composition).

    Comparisons of a run may alternate with other statements, and with runs of other models. Whatever is asked, a run is
    epsilon-DP, so that it tells no more than one bit that randomised response draws when the run begins: all of its answers can
    be drawn from that bit and the questions (Vadhan and Wang). So runs compose as if they were over at once.

    Sources: Hardt and Rothblum, A Multiplicative Weights Mechanism for Privacy-Preserving Data Analysis, FOCS 2010; Vadhan and
    Wang, Concurrent Composition of Differential Privacy, TCC 2021.
    """

    view: Node
    updates: Annotated[int, NumberRange(least=1, most=MOST_UPDATES)]
    scale_limit: Scale
    scale_query: Scale
    noise: Noise

    def assumptions(self) -> Assumptions:
        yield fits_a_word(self.noise), TOO_WIDE

    @property
    def plan(self) -> GroupedSums:
        """The number of rows: its certificate bounds how far an entity moves any count of them."""
        return GroupedSums(input=self.view, keys=(), summands=(Count(),))

    @property
    def plans(self) -> tuple[Summary, ...]:
        return (self.plan,)

    def cost(self, certificate: Certificate) -> Cost:
        moved = certificate.l1
        shifted = moved if certificate.below.owners else 2 * moved
        each = sparse_cost(shifted, shifted, self.scale_limit, self.scale_query)
        each += self.noise.cost(Sensitivity(l1=moved, l2=moved))
        epsilon = None if each.epsilon is None else each.epsilon * self.updates
        return Cost(epsilon=epsilon, rho=each.rho * self.updates)

    def release(self, context: Context, certificate: Certificate) -> None:
        """Nothing."""

    def opened(self, certificate: Certificate) -> Opened:
        """The payment for the model."""
        return Opened(moved=certificate.l1, adds=bool(certificate.below.owners), updates=self.updates, limit=self.scale_limit,
                      query=self.scale_query, gaussian=type(self.noise) is DiscreteGaussian, noise=spread_of(self.noise))


class Opened(Frozen):
    """The payment for a model, as recorded in the ledger.

    moved     how many rows an entity may change; `adds`: and it only adds them, or only removes them
    limit     the scale of the noise that comparisons share; `query`: of the noise of each; `noise`: of an update's count
    """

    moved: int
    adds: bool
    updates: int
    limit: float
    query: float
    gaussian: bool
    noise: float

    def as_json(self) -> str:
        """The form in the ledger, which `of_json` reads."""
        return json.dumps(asdict(self))

    @property
    def noise_of_updates(self) -> Noise:
        return DiscreteGaussian(sigma=self.noise) if self.gaussian else DiscreteLaplace(scale=self.noise)


class Progress(Frozen):
    """The number of updates made or lost before a comparison, and the secret noise that it uses on each side."""

    used: int
    shared: tuple[int, int]

    def as_json(self) -> str:
        """The form in the ledger."""
        return json.dumps(asdict(self))

    def after(self, answer: str | None) -> Progress | None:
        """The progress of the next comparison, which shares the noise; None if an update was made, or may have been made."""
        return self if answer is not None and json.loads(answer)["count"] is None else None


def begun(used: int, opened: Opened, source: Source) -> Progress:
    """The progress after `used` updates, with new noise."""
    above, below = (one_sided(opened.limit, source) for _ in SIDES)
    return Progress(used=used, shared=(above, below))


class Comparisons(Frozen, OfCells):
    """Counts of groups of cells, compared one by one with a model's expectation, up to the first that is far off.

    axes      the columns of the view that groups depend on, with their values
    groups    for each cell of these axes the group that it belongs to, NOWHERE for none; the last axis changes first
    expected  for each group the count that is expected
    limit     how far a count may be off
    about     public text about these groups, which is kept with the answer

    A row is in one group at most, as its cell is a function of the row alone: so each count moves by at most as many rows as an
    entity changes. For the cost see `Opening`: comparisons are not a measurement that a script may ask for, and the kernel makes
    them only for a model that was opened.
    """

    view: Node
    axes: tuple[Axis, ...]
    groups: tuple[Annotated[int, NumberRange(least=-1, most=2**62)], ...]
    expected: tuple[WholeScore, ...]
    limit: WholeScore
    about: str = ""

    def assumptions(self) -> Assumptions:
        yield are_axes(self.axes), "axes must be different columns of the view"
        yield len(self.groups) == math.prod(axis.size for axis in self.axes) <= LARGEST, "each cell needs a group"
        yield self.expected and max(self.groups, default=-1) < len(self.expected), "each group needs an expected count"

    def check(self, certificate: Certificate, opened: Opened) -> None:
        """Raises ValueError if these counts exceed what was paid for."""
        if certificate.l1 > opened.moved or (opened.adds and not certificate.below.owners):
            raise ValueError("these counts can change more than those that were paid for")

    def release(self, context: Context, certificate: Certificate, opened: Opened, shared: tuple[int, int]) -> ComparisonResult:
        """The number of groups before the first that is far off, and the noisy count of that one."""
        filled = occupied(self.plan, self.axes, context)
        table = filled.marginal(range(len(self.axes))).reshape(-1)
        counts = np.zeros(len(self.expected) + 1, dtype=table.dtype)
        np.add.at(counts, np.array(self.groups, dtype=np.int64), table)  # -1, for none, is the last
        source = context.noise
        for near, (count, expected) in enumerate(zip(counts[:-1].tolist(), self.expected, strict=True)):
            gaps = {side: side * (expected - count) + self.limit for side in SIDES}
            if any(gaps[side] + z <= one_sided(opened.query, source) for side, z in zip(SIDES, shared, strict=True)):
                return ComparisonResult(near=near, count=count + drawn(opened.noise_of_updates, source), about=self.about)
        return ComparisonResult(near=len(self.expected), count=None, about=self.about)


class ComparisonResult(Frozen):
    """The number of groups, in order, that are near the expected counts, and the noisy count of the next one; None if there is
    none."""

    near: int
    count: int | None
    about: str

    def as_json(self) -> str:
        """The form in the ledger, which `Progress.after` reads too."""
        return json.dumps(asdict(self))
