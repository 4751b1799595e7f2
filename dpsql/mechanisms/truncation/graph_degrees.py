"""Degree distributions of a graph under node privacy: the number of entities by their number of rows with others.

Degrees are limited, in one of two ways (`extensions.bounded_degrees`). `projection` adds rows in a fixed order as long as both
entities are below the limit (Day, Li and Lyu, SIGMOD 2016); it takes seconds for millions of rows. `flow` keeps as many rows as
possible, as evenly as possible (Raskhodnikova and Smith, FOCS 2016); it cuts off less, and its maximum flows take a minute for a
million rows. Both are released with the same noise, as cumulative counts. The true counts are monotone, so the noisy ones are
made so (isotonic regression), which removes most of the noise at degrees that few entities have (`tests/bench/degrees.py`).

The limit is `max_rows`. If it is not given, it is drawn by the number of entities above it, as in `balanced_levels.Balance`; TOLD
is the weight of the noise of a limit against that number, chosen so that the expected error over all counts is nearly least.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import Estimate, NoiseTerm
from dpsql.mechanisms.additive_noise import bought, scale_of
from dpsql.mechanisms.mechanism import Accepted, DegreeSums, Rejected, Script, Task, TaskContext, Verdict
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.measurements.several.balanced_levels import BalancedLevel, score_range
from dpsql.trusted.measurements.several.degree_histogram import DegreeHistogram as Asked
from dpsql.trusted.measurements.several.degree_histogram import Histogram, Way
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.noise.integer import Noise
from dpsql.trusted.plan.cells import cell_of
from dpsql.trusted.plan.operators.arcs import Arcs, moves
from dpsql.trusted.plan.operators.owner_sets import UNIT, OwnerSets
from dpsql.trusted.plan.operators.summands import Count

TOLD = 100
LEVELS: tuple[int, ...] = tuple(2**j for j in range(11))

Reals = NDArray[np.float64]


class DegreeCounts:
    """Noisy counts of degrees, limited in one of the two ways. Proof: `degree_histogram.DegreeHistogram`."""

    kind = DegreeSums

    def __init__(self, way: Way) -> None:
        self._way = way

    @property
    def name(self) -> str:
        return self._way

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, DegreeSums):
            return Rejected(because="it counts entities by the number of rows that they share with others")
        if task.bound != self.name:
            return Rejected(because=f"bound = '{self.name}' asks for it")
        noise = _noise(task, allotted)
        return Accepted(error=math.sqrt(2 * noise.variance), noise=f"a standard error of {math.sqrt(2 * noise.variance):.4g} for "
                        f"each degree up to {task.most}, less for degrees that few entities have")

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        """Answer all tasks of a statement by one release, at the sum of their prices."""
        given = [task for task, _ in tasks if isinstance(task, DegreeSums)]
        if not context.cells:
            return [(Estimate(values=np.zeros(0)),) for _ in given]
        noise = _noise(given[0], reduce(add, (allotted for _, allotted in tasks)))
        released: Histogram = yield Asked(plan=given[0].arcs, most=given[0].most, way=self._way, noise=noise)
        counts = risen(released.counts)
        return [(_estimate(task, context, counts, math.sqrt(noise.variance)),) for task in given]


def _noise(task: DegreeSums, allotted: Cost) -> Noise:
    return bought(moves(task.most, mutual=task.arcs.mutual), allotted)


def risen(counts: Sequence[int]) -> Reals:
    """The counts whose cumulative sums do not decrease and are nearest to the noisy ones in least squares."""
    from scipy.optimize import isotonic_regression

    return np.diff(isotonic_regression(np.concatenate(([0.0], np.cumsum(np.array(counts, dtype=np.float64))))).x)


def _estimate(task: DegreeSums, context: TaskContext, counts: Reals, spread: float) -> Estimate:
    """The sum over the entities of all degrees in each cell. The error reported is that before isotonic regression.

    If an entity of degree i adds a_i (and a_0 = a_(most + 1) = 0), the noise of a cell is the sum of Z_i (a_i - a_(i+1)).
    """
    place = {cell_of(cell): i for i, cell in enumerate(context.cells)}
    values, steps = np.zeros(len(context.cells)), np.zeros(len(context.cells))
    last = dict.fromkeys(range(len(context.cells)), (-1, 0.0))  # each cell's last degree and what it adds
    for degree, (cell, adds) in enumerate(task.table):
        at = None if cell is None else place.get(cell_of(cell))
        if at is None:
            continue
        values[at] += adds * counts[degree]
        before, added = last[at]
        steps[at] += (added - adds) ** 2 if before == degree - 1 else added**2 + adds**2
        last[at] = degree, adds
    for at, (_, added) in last.items():
        steps[at] += added**2
    return Estimate(values=values, linear=False, slopes={(task.at, 0): (NoiseTerm(kind="approximate", scale=1.0),
                                                                       spread * np.sqrt(steps))})


def learned_degree(arcs: Arcs, allotted: Cost, told: Cost) -> Generator[Request, Any, int]:
    """A limit on degrees that balances what is cut off against the noise of counts released at the cost `told`."""
    # an exponential mechanism: see `Balance`
    epsilon = allotted.as_epsilon if allotted.epsilon is not None else 2 * allotted.as_epsilon
    weight = UNIT * TOLD / math.sqrt(told.as_epsilon)
    plan = OwnerSets(input=arcs.input, owners=(arcs.tail, arcs.head), summand=Count())
    released: ExtensionSums = yield BalancedLevel(plan=plan, levels=LEVELS, scale=scale_of(score_range(LEVELS, 2, 1) / epsilon),
                                                  log_priors=tuple(round(weight * math.log(level)) for level in LEVELS))
    return LEVELS[released.levels[0][0] or 0]
