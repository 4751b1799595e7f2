"""Climbing a concave function of probability vectors by an accelerated fixed point, until bound and value meet."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol, Self, TypeAlias, TypeVar

import numpy as np

from dpsql.strategies import clock
from dpsql.workload.factors import Array

FLOOR = 1e-13  # of a probability: an active one can come back from there
MEMORY = 10  # number of steps the acceleration looks back
RESCALE = 5  # steps between two looks at how steep the function is
BOLD = 100.0  # how much longer than plain a step may be made
PATIENCE = 8  # evaluations within which the gap should halve
FAR = 30.0  # in logarithms: from any probability to none
HOP = 2.0  # in logarithms, of a plain step; accelerated ones may be four times as long

Path: TypeAlias = list[tuple[Array, Array]]  # places, and residuals there


class LikelihoodStep(Protocol):
    """What one place says. A place holds the logarithms of probabilities; the residual is zero at the maximum."""

    @property
    def f(self) -> float: ...
    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def place(self) -> Array: ...
    @property
    def residual(self) -> Array: ...
    @property
    def steepness(self) -> Array: ...
    def moved(self, place: Array) -> Self: ...


L = TypeVar("L", bound=LikelihoodStep)


def climb(start: L, gap: float, evaluations: int) -> tuple[L, L, int]:
    """From a look to those of the best bound and of the best value, and how many were taken.

    The plain step adds the residual to the place. Components that hardly answer to their own probability would take hundreds of
    plain steps: theirs are as long as half of Newton's step along that coordinate alone. f hardly ever falls; where it does by
    more than a tenth of what is missing, the step is taken back for a plain one. Where the gap is not halved in a while, one
    query is about to lose all of its weight to another that is nearly the same; the way is then tried in ever longer steps.
    It ends where its time is over (`clock`).
    """
    now = best = tightest = start
    path: Path = []
    scales = np.ones_like(now.residual)
    done, since, then = 1, 1, best.upper / tightest.lower - 1
    while (missing := best.upper / tightest.lower - 1) > gap and done < evaluations and not clock.over():
        if done % RESCALE == 3:
            scales = np.clip(0.5 / np.maximum(now.steepness, FLOOR), 1.0, BOLD)
        if done - since >= PATIENCE:
            tried = _strides(now) if missing > then / 2 else []
            if len(tried) > 1:
                path = []
            done += len(tried)
            since, then = done, missing
            ahead = tried[-2] if len(tried) > 1 else now
        else:
            path = [*path[-MEMORY:], (now.place, now.residual)]
            ahead = now.moved(_accelerated(path, scales))
            done += 1
            if ahead.f < now.f * (1 - 0.1 * max(1e-9, missing)):
                ahead, path = now.moved(now.place + now.residual), []
                done += 1
        now = ahead
        best = min(best, now, key=lambda look: look.upper)
        tightest = max(tightest, now, key=lambda look: look.lower)
    return tightest, best, done


def _strides(now: L) -> list[L]:
    """Looks along the residual, each four times as far as the one before, up to the first that is lower than the one before."""
    tried = [now.moved(now.place + 4 * now.residual)]
    stride = 4.0
    while tried[-1].f > (tried[-2] if len(tried) > 1 else now).f * (1 + 1e-12) and not clock.over():
        stride *= 4
        tried.append(now.moved(now.place + np.clip(stride * now.residual, -FAR, FAR)))
    return tried


def _accelerated(path: Path, scales: Array) -> Array:
    """Anderson's step: the affine combination of the places so far whose residuals cancel best, moved by what is left of them.

    The least squares problem weighs by the roots of the probabilities, as it is the weighty ones that move f.
    """
    now = path[-1][0]
    steps = [np.clip(scales * residual, -HOP, HOP) for _, residual in path]
    if len(path) == 1:
        return np.asarray(now + steps[-1])
    weights = np.exp(now / 2)
    changes = np.array([b - a for a, b in pairwise(steps)])
    moves = np.array([b - a for (a, _), (b, _) in pairwise(path)])
    mix = np.linalg.lstsq((changes * weights).T, steps[-1] * weights, rcond=1e-10)[0]
    return np.asarray(now + np.clip(steps[-1] - mix @ (moves + changes), -4 * HOP, 4 * HOP))


def probabilities(logs: Array) -> Array:
    """The probability vector with these logarithms, up to a constant."""
    chances = np.exp(logs - logs.max())
    chances = np.maximum(chances / chances.sum(), FLOOR)
    return np.asarray(chances / chances.sum())


def logarithms(values: Array) -> Array:
    return np.asarray(np.log(np.maximum(values, FLOOR)))
