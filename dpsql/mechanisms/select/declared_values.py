"""How many of some declared values occur: each value is told by the weight that entities give it.

*What is measured.* Each entity shares out one UNIT equally among the different values of its rows, over all cells (at rho so
that the squares add up to it). So all shares of all entities have the sensitivity of one UNIT, however many rows there are and
without any limit of them, and noise for one entity is enough. A value that does not occur has no share: exactly 0. One that some
dozen entities have stands out of the noise. Then the number of values is known without error, where noise on the number itself
would be as large as one entity may have values. The cost is that of `measurements.NoisySums` on a plan whose certificate says
all this (`Clip`); no look of its own is needed, and what follows is post-processing.

*What is told.* Shares are taken for draws of a mixture: with one chance for 0, and else for sizes s with a density in proportion
to s^slope on the logarithmic scale, up to the largest that is seen. Over all chances and slopes the mean is taken, each weighed
by how likely what was released is: so where all values that show are common, what does not show hardly occurs; where they thin
out, more may well be there. The answer is the sum of the chances that a value is not 0, and its error the sum of the chances that
each of them is misjudged.

*Its interval.* Of m values that do not occur, none is beyond w with the confidence c where P(noise > w) <= (1 - c) / m, whatever
the others are; so as many values as are beyond w occur, at least. At most, all m do: nothing tells a value that one entity has
from one that nobody has.

*Two looks.* Where values are rare, noise on their number can be the better way. If the rows of an entity are limited, a part of
the price (LOOK) buys shares first; these tell which of the two is expected to err less, and the rest of the price buys that. What
is chosen rests on what was released, and the noise of the second look is independent of the first, so that an interval of noise
on the number needs no correction; nor does one of shares by both looks, as it rests on noise below a bound whatever is chosen.

Source: the counts of values as those of a histogram, Dwork, McSherry, Nissim and Smith, TCC 2006; an entity's weight shared out
as in Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin, Differentially Private Set Union, ICML 2020 (with l2 weights).
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
LOOK = Fraction(1, 4)  # of the price, where noise on the number itself can be bought with the rest
ALARM = 0.01  # the chance with which any value that does not occur is beyond what EXPLAIN calls standing out
PLACES, BELOW = 4, 2  # sizes of an octave; octaves below the noise
SLOPES, PARTS = np.linspace(-1.0, 3.0, 9), np.arange(1, 40) / 40


class DeclaredValues:
    """Declared values that occur, told apart from those that do not by shares of entities with noise for one. Proof: `Clip`."""

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
    """The shares of each cell and value, with noise, in units."""
    released: MeasuredSums = yield NoisySums(
        plan=shares_of(task, setting.keys, order=1 if isinstance(noise, DiscreteLaplace) else 2), noises=(noise,),
        cells=tuple((*cell, value) for cell, value in product(setting.cells, task.values)))
    return np.array(released.totals[0][0], dtype=np.float64).reshape(len(setting.cells), len(task.values)) / UNIT


def shares_of(task: Occurrences, keys: tuple[str, ...], *, order: int) -> GroupedSums:
    """The sums of all shares. What an entity gives to its values, one UNIT each, is scaled down to one UNIT by `Clip`."""
    one = Case(branches=((predicate("is null", task.input.field(task.column).ref), real(0.0)),), otherwise=real(1.0),
               type=Type.DOUBLE)
    cells = (*keys, task.column)
    kept = tuple((name, task.input.names[name], task.input.field(name).ref) for name in (task.owner, *cells))
    marked: Node = Project(input=task.input, columns=(*kept, ("share", "share", one)))
    summed = Contributions(input=marked, owner=task.owner, keys=cells, summands=(GridSum(column="share", grid=SHARE),))
    clipped = Clip(input=summed, owner=task.owner, columns=summed.totals, order=order, bound=UNIT)
    return GroupedSums(input=clipped, keys=cells, summands=(Clipped(clipped=summed.totals),))


def noise_of(task: Occurrences, allotted: Cost) -> Noise:
    """An entity's shares have a norm of one UNIT in l1, or at rho in l2."""
    return bought(UNIT, allotted)


def _moved(total: Linear, allotted: Cost) -> int:
    moved = total.sensitivity.l1 if allotted.epsilon is not None else total.sensitivity.l2
    assert moved is not None
    return int(moved)


def _told_of_total(total: Linear, allotted: Cost) -> str:
    rest = allotted.part(1 - LOOK)
    return f"noise of standard deviation {math.sqrt(bought(_moved(total, rest), rest).variance):.4g} on their number"


def hidden(seen: Sequence[Reals], noises: Sequence[Noise], setting: Setting) -> Reals:
    """How many values of each cell do not stand out: their number may be off by half of that."""
    weights, shares = _combined(seen, noises)
    return np.asarray((shares <= _margin(noises, weights, shares.shape[1], float(setting.confidence))).sum(axis=1))


def told(task: Occurrences, seen: Sequence[Reals], noises: Sequence[Noise]) -> Estimates:
    """The number of values in each cell that occur."""
    chances, wrong, many = occurring(seen, noises), misjudged(seen, noises), len(task.values)
    weights, shares = _combined(seen, noises)

    def drawn(confidence: float) -> Ends:
        sure = (shares > _margin(noises, weights, many, confidence)).sum(axis=1)
        return sure.astype(np.float64), np.full(len(shares), float(many))

    return (Estimate(values=chances.sum(axis=1), linear=False, drawn=drawn, slopes={
        (task.at, 0): (NoiseTerm(kind="approximate", scale=1.0), wrong)}),)


def misjudged(seen: Sequence[Reals], noises: Sequence[Noise]) -> Reals:
    """For each cell the sum of the chances that a value is taken for what it is not: those near 0 stand and fall together."""
    chances = occurring(seen, noises)
    return np.asarray(np.minimum(chances, 1 - chances).sum(axis=1), dtype=np.float64)


def occurring(seen: Sequence[Reals], noises: Sequence[Noise]) -> Reals:
    """The chance of each value to occur, from what every look has shown of its share: a mean over all the mixtures."""
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
    """The weights of looks that make the least variance, and the shares by all of them."""
    weights = np.array([1 / max(noise.variance, 1e-9) for noise in noises])
    weights = weights / weights.sum()
    return weights, np.asarray(sum(weight * look for weight, look in zip(weights, seen, strict=True)))


def _spread(noises: Sequence[Noise]) -> float:
    """The standard deviation of shares by all looks."""
    return max(1 / math.sqrt(sum(1 / max(noise.variance, 1e-9) for noise in noises)) / UNIT, 1e-9)


def _margin(noises: Sequence[Noise], weights: Reals, values: int, confidence: float) -> float:
    """What none of so many shares of 0 is beyond with this confidence: noise is symmetric, so on either side half of the rest."""
    errors = tuple(error for noise in noises if (error := error_of(noise)) is not None)
    return margin(errors, tuple(map(float, weights)), max(0.0, 1 - 2 * (1 - confidence) / values)) / UNIT


def _log_density(noise: Noise, off: Reals) -> Reals:
    """Of noise in units, but for a constant."""
    spread = max(math.sqrt(noise.variance) / UNIT, 1e-9)
    return -np.abs(off) * math.sqrt(2) / spread if isinstance(noise, DiscreteLaplace) else -((off / spread) ** 2) / 2
