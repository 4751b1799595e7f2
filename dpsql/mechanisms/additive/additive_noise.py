"""Sums with noise: all tasks over one relation are read in one scan."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.estimates import NoiseTerm, constant, released
from dpsql.measurements import DiscreteGaussian, DiscreteLaplace, MeasuredSums, Noise, NoisySums
from dpsql.mechanisms.mechanism import Estimates, Linear, Script, Setting
from dpsql.plan.node import Node
from dpsql.plan.operators.grouped_sums import GroupedSums


def measured(tasks: Sequence[tuple[Linear, Noise]], setting: Setting) -> Script:
    """One `NoisySums` for each relation that is summed; estimates of each task in the given order."""
    groups: list[tuple[Node, list[int]]] = []
    for i, (task, _) in enumerate(tasks):
        known = next((places for node, places in groups if node == task.input), None)
        if known is None:
            groups.append((task.input, [i]))
        else:
            known.append(i)
    found: dict[int, Estimates] = {}
    for node, places in groups:
        release: MeasuredSums = yield NoisySums(
            plan=GroupedSums(input=node, keys=setting.keys, summands=tuple(tasks[i][0].summand for i in places)),
            cells=setting.cells, noises=tuple(tasks[i][1] for i in places))
        for i, totals in zip(places, release.totals, strict=True):
            found[i] = estimates(tasks[i][0].at, totals, tasks[i][1])
    return [found[i] for i in range(len(tasks))]


def estimates(at: int, totals: Sequence[Sequence[int]], noise: Noise) -> Estimates:
    """Noisy integers as estimates that know their noise."""
    values = [np.array(total, dtype=np.float64) for total in totals]
    error = error_of(noise)
    if error is None:
        return tuple(constant(value) for value in values)
    return tuple(released((at, i), value, error) for i, value in enumerate(values))


def error_of(noise: Noise) -> NoiseTerm | None:
    """The error that a noise makes; None for no noise, which only public relations get."""
    match noise:
        case DiscreteLaplace(scale=scale):
            return NoiseTerm(kind="laplace", scale=scale) if scale > 0 else None
        case DiscreteGaussian(sigma=sigma):
            return NoiseTerm(kind="gaussian", scale=sigma) if sigma > 0 else None
