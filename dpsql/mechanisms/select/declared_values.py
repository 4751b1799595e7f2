"""How many of some declared values occur: decided for each value, by a weighted count of the entities that have it.

*Measurement.* Each entity divides one UNIT equally among the distinct values of its rows, over all cells (for rho, so that the
squares of the shares add up to that of one UNIT). So the sums of shares by value have a sensitivity of one UNIT together, however
many rows an entity has, and noise for one entity suffices. A value that does not occur has a sum of exactly 0. One that some
dozen entities have stands out of the noise. Then the number of values is known without error, where noise on the number itself
would be as large as the number of values one entity may have. The cost is that of `measurements.NoisySums` on a plan whose
certificate says all this (`Clip`); no measurement of its own is needed, and the rest is post-processing.

*Estimate.* Sums are modelled as draws from a mixture: 0 with some probability, and otherwise a size s with a density proportional
to s^slope on the logarithmic scale, up to the largest that is seen. The result is averaged over all probabilities and slopes,
weighted by the likelihood of the released numbers. So if all values that stand out are common, few others are taken to occur; if
their sizes thin out towards the noise, more may well be there. The answer is the sum over values of the probability of not being
0, and its error the sum of the probabilities that each value is misjudged.

*Interval.* With confidence c, none of m values that do not occur has a noisy sum above w, if P(noise > w) <= (1 - c) / m; so at
least as many values occur as have one above w. At most, all m do: nothing distinguishes a value that one entity has from one that
nobody has.

*Two measurements.* Where values are rare, noise on their number may be better. If the rows of an entity are limited, a part of
the price (LOOK) is spent on shares first; these tell which of the two is expected to have the smaller error, and the rest of the
price is spent on that. The choice depends only on what was released, and the noise of the second measurement is independent of
the first. So an interval from noise on the number needs no correction; nor does one from shares of both measurements, as it holds
wherever the noise is below a bound, whatever is chosen.

Sources: for counts of values as a histogram, Dwork, McSherry, Nissim and Smith, TCC 2006; for dividing an entity's weight, Gopi,
Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin, Differentially Private Set Union, ICML 2020 (with l2 weights).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.accounting.cost import Cost
from dpsql.estimates import Ends, Estimate, NoiseTerm, margin
from dpsql.measurements import DiscreteLaplace, MeasuredSums, Noise, NoisySums, Request
from dpsql.mechanisms.additive_noise import bought, error_of, estimates
from dpsql.mechanisms.mechanism import Estimates, Linear, No, Occurrences, Script, Setting, Task, Verdict, Yes
from dpsql.plan.expr.nodes import Case, predicate, real
from dpsql.plan.node import Node
from dpsql.plan.operators.clip import Clip
from dpsql.plan.operators.contributions import Contributions
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.summands import Clipped, GridSum
from dpsql.types import Type

Reals = NDArray[np.float64]
SHARE = Quantizer(low=0, high=1, step=Fraction(1, 2**20), from_low=False)
UNIT = SHARE.largest
LOOK = Fraction(1, 4)  # of the price, where the rest can be spent on noise for the number itself
ALARM = 0.01  # the probability that some value that does not occur stands out, as EXPLAIN calls it
PLACES, BELOW = 4, 2  # grid of sizes: points in an octave; octaves below the noise
SLOPES, PARTS = np.linspace(-1.0, 3.0, 9), np.arange(1, 40) / 40


class DeclaredValues:
    """The number of declared values that occur, from noisy sums of entities' shares, with noise for one entity. Proof: `Clip`."""

    name, kind = "declared_values", Occurrences

    def judge(self, task: Task, allotted: Cost, cells: int) -> Verdict:
        if not isinstance(task, Occurrences):
            return No(because="it tells which declared values occur")
        noise = noise_of(task, allotted if task.total is None else allotted.part(LOOK))
        seen = _margin([noise], np.ones(1), len(task.values), 1 - ALARM)
        rare = f"; where many are rarer, {_told_of_total(task.total, allotted)}" if task.total is not None else ""
        return Yes(error=seen, noise=f"values with more than {seen:.3g} entities stand out{rare}")

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        found: list[Estimates] = []
        for task, allotted in tasks:
            assert isinstance(task, Occurrences)
            found.append((yield from self._one(task, allotted, setting)))
        return found

    @staticmethod
    def _one(task: Occurrences, allotted: Cost, setting: Setting) -> Generator[Request, Any, Estimates]:
        if task.total is None:
            noise = noise_of(task, allotted)
            return told(task, [(yield from looked(task, noise, setting))], [noise])
        first, rest = noise_of(task, allotted.part(LOOK)), allotted.part(1 - LOOK)
        seen = [(yield from looked(task, first, setting))]
        on_total = bought(_moved(task.total, rest), rest)
        if setting.cells and float((hidden(seen, [first], setting) ** 2).mean()) / 4 > on_total.variance:
            released: MeasuredSums = yield NoisySums(
                plan=GroupedSums(input=task.total.input, keys=setting.keys, summands=(task.total.summand,)),
                cells=setting.cells, noises=(on_total,))
            return estimates(task.at, released.totals[0], on_total)
        second = noise_of(task, rest)
        seen.append((yield from looked(task, second, setting)))
        return told(task, seen, [first, second])


def looked(task: Occurrences, noise: Noise, setting: Setting) -> Generator[Request, Any, Reals]:
    """The noisy sums of shares, in UNITs, as an array (cells, values)."""
    released: MeasuredSums = yield NoisySums(
        plan=shares_of(task, setting.keys, order=1 if isinstance(noise, DiscreteLaplace) else 2), noises=(noise,),
        cells=tuple((*cell, value) for cell, value in product(setting.cells, task.values)))
    return np.array(released.totals[0][0], dtype=np.float64).reshape(len(setting.cells), len(task.values)) / UNIT


def shares_of(task: Occurrences, keys: tuple[str, ...], *, order: int) -> GroupedSums:
    """The sums of shares by cell and value. An entity gives one UNIT to each of its values, which `Clip` scales down to one in
    all."""
    one = Case(branches=((predicate("is null", task.input.field(task.column).ref), real(0.0)),), otherwise=real(1.0),
               type=Type.DOUBLE)
    cells = (*keys, task.column)
    kept = tuple((name, task.input.names[name], task.input.field(name).ref) for name in (task.owner, *cells))
    marked: Node = Project(input=task.input, columns=(*kept, ("share", "share", one)))
    summed = Contributions(input=marked, owner=task.owner, keys=cells, summands=(GridSum(column="share", grid=SHARE),))
    clipped = Clip(input=summed, owner=task.owner, columns=summed.totals, order=order, bound=UNIT)
    return GroupedSums(input=clipped, keys=cells, summands=(Clipped(clipped=summed.totals),))


def noise_of(task: Occurrences, allotted: Cost) -> Noise:
    """The noise for shares of one entity with a norm of one UNIT: in l1 for a pure epsilon, in l2 for rho."""
    return bought(UNIT, allotted)


def _moved(total: Linear, allotted: Cost) -> int:
    moved = total.sensitivity.l1 if allotted.epsilon is not None else total.sensitivity.l2
    assert moved is not None
    return int(moved)


def _told_of_total(total: Linear, allotted: Cost) -> str:
    rest = allotted.part(1 - LOOK)
    return f"noise of standard deviation {math.sqrt(bought(_moved(total, rest), rest).variance):.4g} on their number"


def hidden(seen: Sequence[Reals], noises: Sequence[Noise], setting: Setting) -> Reals:
    """How many values of each cell do not stand out of the noise: the answer may be off by half of that."""
    weights, shares = _combined(seen, noises)
    return np.asarray((shares <= _margin(noises, weights, shares.shape[1], float(setting.confidence))).sum(axis=1))


def told(task: Occurrences, seen: Sequence[Reals], noises: Sequence[Noise]) -> Estimates:
    """The estimated number of values that occur in each cell, with its interval."""
    chances, wrong, many = occurring(seen, noises), misjudged(seen, noises), len(task.values)
    weights, shares = _combined(seen, noises)

    def drawn(confidence: float) -> Ends:
        sure = (shares > _margin(noises, weights, many, confidence)).sum(axis=1)
        return sure.astype(np.float64), np.full(len(shares), float(many))

    return (Estimate(values=chances.sum(axis=1), linear=False, drawn=drawn, slopes={
        (task.at, 0): (NoiseTerm(kind="approximate", scale=1.0), wrong)}),)


def misjudged(seen: Sequence[Reals], noises: Sequence[Noise]) -> Reals:
    """For each cell the sum over values of the probability of being misjudged. It serves as a standard error: values near 0 are
    misjudged together, so their errors add up."""
    chances = occurring(seen, noises)
    return np.asarray(np.minimum(chances, 1 - chances).sum(axis=1), dtype=np.float64)


def occurring(seen: Sequence[Reals], noises: Sequence[Noise]) -> Reals:
    """The probability that each value occurs, given its noisy sums in all measurements: a mean over the mixtures."""
    _, shares = _combined(seen, noises)
    unit = _spread(noises)
    octaves = max(1.0, math.log2(max(1.0, float(shares.max(initial=0.0)) / unit)))
    sizes = unit * 2.0 ** np.linspace(-BELOW, octaves, PLACES * (BELOW + math.ceil(octaves)) + 1)
    logs = sum((_log_density(noise, look[..., None] - np.append(sizes, 0.0)) for look, noise in zip(seen, noises, strict=True)),
               np.zeros((*shares.shape, len(sizes) + 1)))
    fits = np.exp(logs - logs.max(axis=-1, keepdims=True))
    slopes = (sizes / sizes[-1]) ** SLOPES[:, None]
    some = fits[..., :-1] @ (slopes / slopes.sum(axis=1, keepdims=True)).T  # for each slope how likely what is seen is
    mixed = PARTS * some[..., None] + (1 - PARTS) * fits[..., -1:, None]
    logs = np.log(np.maximum(mixed, 1e-300)).sum(axis=(0, 1))
    weights = np.exp(logs - logs.max())
    return np.asarray(((PARTS * some[..., None] / np.maximum(mixed, 1e-300)) * (weights / weights.sum())).sum(axis=(-2, -1)))


def _combined(seen: Sequence[Reals], noises: Sequence[Noise]) -> tuple[Reals, Reals]:
    """The weights of the measurements that minimise the variance, and the weighted mean of their sums."""
    weights = np.array([1 / max(noise.variance, 1e-9) for noise in noises])
    weights = weights / weights.sum()
    return weights, np.asarray(sum(weight * look for weight, look in zip(weights, seen, strict=True)))


def _spread(noises: Sequence[Noise]) -> float:
    """The standard deviation of the noise in the weighted mean of all measurements."""
    return max(1 / math.sqrt(sum(1 / max(noise.variance, 1e-9) for noise in noises)) / UNIT, 1e-9)


def _margin(noises: Sequence[Noise], weights: Reals, values: int, confidence: float) -> float:
    """A number that, with this confidence, none of so many sums of 0 exceeds (by the union bound; the noise is symmetric)."""
    errors = tuple(error for noise in noises if (error := error_of(noise)) is not None)
    return margin(errors, tuple(map(float, weights)), max(0.0, 1 - 2 * (1 - confidence) / values)) / UNIT


def _log_density(noise: Noise, off: Reals) -> Reals:
    """The log density of the noise, in UNITs, up to a constant."""
    spread = max(math.sqrt(noise.variance) / UNIT, 1e-9)
    return -np.abs(off) * math.sqrt(2) / spread if isinstance(noise, DiscreteLaplace) else -((off / spread) ** 2) / 2
