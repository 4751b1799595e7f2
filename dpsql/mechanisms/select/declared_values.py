"""The number of declared values that occur, estimated from the noisy weight that entities give to each value.

*Measurement.* Each entity divides one UNIT equally among the distinct values of its rows, over all cells (at rho so that the
squares add up to one). So the shares of all values together have a sensitivity of one UNIT, however many rows an entity has and
without any limit on them. A value that does not occur has a share of exactly 0; one that a few dozen entities have is
significantly above the noise. If all values are so, their number is known without error, whereas noise added to the number itself
would be as large as the number of values that one entity may have. The cost is that of `noisy_sums.NoisySums` on a plan whose
certificate states this sensitivity (`Clip`); no other measurement is needed, and what follows is post-processing.

*Estimate.* Shares are modelled as draws from a mixture: 0 with some probability, and otherwise sizes s with a density
proportional to s^slope on the logarithmic scale, up to the largest that is seen. The estimate is averaged over a grid of
probabilities and slopes, weighted by the likelihood of what was released. So if all values that stand out are common, hardly any
other occurs; if sizes thin out towards zero, more values may well occur. The answer is the sum of the posterior probabilities
that a value is not 0, and its error the sum of the probabilities that each value is misclassified.

*Interval.* If P(noise > w) <= (1 - c) / m, then with confidence c none of m values that do not occur is above w, whatever the
others are; so at least as many values occur as are above w. The upper end is m: nothing distinguishes a value that one entity
has from one that nobody has.

*Two measurements.* Where values are rare, noise added to their number can be better. If the rows of an entity are limited, a part
of the price (LOOK) pays for shares first; these decide which of the two has the smaller expected error, and the rest of the price
pays for that one. The choice depends on released numbers only, and the second noise is independent of the first, so an interval
for noise on the number needs no correction; nor does one for shares from both measurements, as it requires only that the noise
is below a bound, whichever is chosen.

Source: counts of values as a histogram, Dwork, McSherry, Nissim and Smith, TCC 2006; an entity's weight divided as
in Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin, Differentially Private Set Union, ICML 2020 (with l2 weights).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.estimates import Ends, Estimate, NoiseTerm, margin
from dpsql.mechanisms.additive_noise import bought, error_of, estimates
from dpsql.mechanisms.mechanism import Accepted, Estimates, Linear, Occurrences, Rejected, Script, Task, TaskContext, Verdict
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import DiscreteLaplace, Noise
from dpsql.trusted.plan.expr.nodes import Case, predicate, real
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Clipped, GridSum
from dpsql.types import Type

Reals = NDArray[np.float64]
SHARE = Quantizer(low=0, high=1, step=Fraction(1, 2**20), from_low=False)
UNIT = SHARE.largest
LOOK = Fraction(1, 4)  # of the price, for the first of two measurements
ALARM = 0.01  # probability that any value that does not occur is above the size at which EXPLAIN says values stand out
PLACES, BELOW = 4, 2  # grid of sizes: points per octave; octaves below the noise
SLOPES, PARTS = np.linspace(-1.0, 3.0, 9), np.arange(1, 40) / 40


class DeclaredValues:
    """The declared values that occur, distinguished from those that do not by noisy shares of entities. Proof: `Clip`."""

    name, kind = "declared_values", Occurrences

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Occurrences):
            return Rejected(because="it finds which declared values occur")
        noise = noise_of(task, allotted if task.total is None else allotted.part(LOOK))
        seen = _margin([noise], np.ones(1), len(task.values), 1 - ALARM)
        rare = f"; where many are rarer, {_told_of_total(task.total, allotted)}" if task.total is not None else ""
        return Accepted(error=seen, noise=f"values with more than {seen:.3g} entities stand out{rare}")

    def run(self, tasks: Sequence[tuple[Task, Cost]], context: TaskContext) -> Script:
        found: list[Estimates] = []
        for task, allotted in tasks:
            assert isinstance(task, Occurrences)
            found.append((yield from self._one(task, allotted, context)))
        return found

    @staticmethod
    def _one(task: Occurrences, allotted: Cost, context: TaskContext) -> Generator[Request, Any, Estimates]:
        if task.total is None:
            noise = noise_of(task, allotted)
            return estimated_numbers(task, [(yield from looked(task, noise, context))], [noise])
        first, rest = noise_of(task, allotted.part(LOOK)), allotted.part(1 - LOOK)
        seen = [(yield from looked(task, first, context))]
        on_total = bought(_moved(task.total, rest), rest)
        if context.cells and float((insignificant_values(seen, [first], context) ** 2).mean()) / 4 > on_total.variance:
            released: MeasuredSums = yield NoisySums(
                plan=GroupedSums(input=task.total.input, keys=context.keys, summands=(task.total.summand,)),
                cells=context.cells, noises=(on_total,))
            return estimates(task.at, released.totals[0], on_total)
        second = noise_of(task, rest)
        seen.append((yield from looked(task, second, context)))
        return estimated_numbers(task, seen, [first, second])


def looked(task: Occurrences, noise: Noise, context: TaskContext) -> Generator[Request, Any, Reals]:
    """The noisy shares of each cell and value, in units."""
    released: MeasuredSums = yield NoisySums(
        plan=shares_of(task, context.keys, order=1 if isinstance(noise, DiscreteLaplace) else 2), noises=(noise,),
        cells=tuple((*cell, value) for cell, value in product(context.cells, task.values)))
    return np.array(released.totals[0][0], dtype=np.float64).reshape(len(context.cells), len(task.values)) / UNIT


def shares_of(task: Occurrences, keys: tuple[str, ...], *, order: int) -> GroupedSums:
    """The sums of shares. An entity gives one UNIT to each of its values, which `Clip` scales down to one UNIT in total."""
    one = Case(branches=((predicate("is null", task.input.field(task.column).ref), real(0.0)),), otherwise=real(1.0),
               type=Type.DOUBLE)
    cells = (*keys, task.column)
    kept = tuple((name, task.input.names[name], task.input.field(name).ref) for name in (task.owner, *cells))
    marked: Node = Project(input=task.input, columns=(*kept, ("share", "share", one)))
    summed = Contributions(input=marked, owner=task.owner, keys=cells, summands=(GridSum(column="share", grid=SHARE),))
    clipped = Clip(input=summed, owner=task.owner, columns=summed.totals, order=order, bound=UNIT)
    return GroupedSums(input=clipped, keys=cells, summands=(Clipped(clipped=summed.totals),))


def noise_of(task: Occurrences, allotted: Cost) -> Noise:
    """The noise of shares. The shares of an entity have an l1 norm of one UNIT, or for rho an l2 norm of one UNIT."""
    return bought(UNIT, allotted)


def _moved(total: Linear, allotted: Cost) -> int:
    moved = total.sensitivity.l1 if allotted.epsilon is not None else total.sensitivity.l2
    assert moved is not None
    return int(moved)


def _told_of_total(total: Linear, allotted: Cost) -> str:
    rest = allotted.part(1 - LOOK)
    return f"noise of standard deviation {math.sqrt(bought(_moved(total, rest), rest).variance):.4g} on their number"


def insignificant_values(seen: Sequence[Reals], noises: Sequence[Noise], context: TaskContext) -> Reals:
    """The number of values of each cell that are not significant; the error of the answer is about half of it."""
    weights, shares = _combined(seen, noises)
    return np.asarray((shares <= _margin(noises, weights, shares.shape[1], float(context.confidence))).sum(axis=1))


def estimated_numbers(task: Occurrences, seen: Sequence[Reals], noises: Sequence[Noise]) -> Estimates:
    """The estimated number of values that occur in each cell."""
    chances, wrong, many = occurring(seen, noises), misjudged(seen, noises), len(task.values)
    weights, shares = _combined(seen, noises)

    def drawn(confidence: float) -> Ends:
        sure = (shares > _margin(noises, weights, many, confidence)).sum(axis=1)
        return sure.astype(np.float64), np.full(len(shares), float(many))

    return (Estimate(values=chances.sum(axis=1), linear=False, drawn=drawn, slopes={
        (task.at, 0): (NoiseTerm(kind="approximate", scale=1.0), wrong)}),)


def misjudged(seen: Sequence[Reals], noises: Sequence[Noise]) -> Reals:
    """For each cell, the sum of the probabilities that a value is misclassified; errors near 0 are far from independent."""
    chances = occurring(seen, noises)
    return np.asarray(np.minimum(chances, 1 - chances).sum(axis=1), dtype=np.float64)


def occurring(seen: Sequence[Reals], noises: Sequence[Noise]) -> Reals:
    """The probability that each value occurs, given its share in every measurement: a mean over all mixtures."""
    _, shares = _combined(seen, noises)
    unit = _spread(noises)
    octaves = max(1.0, math.log2(max(1.0, float(shares.max(initial=0.0)) / unit)))
    sizes = unit * 2.0 ** np.linspace(-BELOW, octaves, PLACES * (BELOW + math.ceil(octaves)) + 1)
    logs = sum((_log_density(noise, look[..., None] - np.append(sizes, 0.0)) for look, noise in zip(seen, noises, strict=True)),
               np.zeros((*shares.shape, len(sizes) + 1)))
    fits = np.exp(logs - logs.max(axis=-1, keepdims=True))
    slopes = (sizes / sizes[-1]) ** SLOPES[:, None]
    some = fits[..., :-1] @ (slopes / slopes.sum(axis=1, keepdims=True)).T  # the likelihood of each slope
    mixed = PARTS * some[..., None] + (1 - PARTS) * fits[..., -1:, None]
    logs = np.log(np.maximum(mixed, 1e-300)).sum(axis=(0, 1))
    weights = np.exp(logs - logs.max())
    return np.asarray(((PARTS * some[..., None] / np.maximum(mixed, 1e-300)) * (weights / weights.sum())).sum(axis=(-2, -1)))


def _combined(seen: Sequence[Reals], noises: Sequence[Noise]) -> tuple[Reals, Reals]:
    """The weights of the measurements with the least variance, and the weighted means of the shares."""
    weights = np.array([1 / max(noise.variance, 1e-9) for noise in noises])
    weights = weights / weights.sum()
    return weights, np.asarray(sum(weight * look for weight, look in zip(weights, seen, strict=True)))


def _spread(noises: Sequence[Noise]) -> float:
    """The standard deviation of shares from all measurements."""
    return max(1 / math.sqrt(sum(1 / max(noise.variance, 1e-9) for noise in noises)) / UNIT, 1e-9)


def _margin(noises: Sequence[Noise], weights: Reals, values: int, confidence: float) -> float:
    """The bound above which, with this confidence, none of so many shares of 0 lies; the noise is symmetric."""
    errors = tuple(error for noise in noises if (error := error_of(noise)) is not None)
    return margin(errors, tuple(map(float, weights)), max(0.0, 1 - 2 * (1 - confidence) / values)) / UNIT


def _log_density(noise: Noise, off: Reals) -> Reals:
    """The log density of noise in units, up to a constant."""
    spread = max(math.sqrt(noise.variance) / UNIT, 1e-9)
    return -np.abs(off) * math.sqrt(2) / spread if isinstance(noise, DiscreteLaplace) else -((off / spread) ** 2) / 2
