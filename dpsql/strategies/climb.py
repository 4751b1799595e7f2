"""Maximise a concave function of probability vectors by an accelerated fixed-point iteration, until bound and value meet."""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol, Self, TypeAlias, TypeVar

import numpy as np

from dpsql.strategies import clock
from dpsql.workload.factors import Array

FLOOR = 1e-13  # smallest probability; an active one can still recover from it
MEMORY = 10  # number of earlier steps that the acceleration uses
RESCALE = 5  # steps between two evaluations of the steepness
BOLD = 100.0  # the largest factor by which a plain step is lengthened
PATIENCE = 8  # evaluations within which the gap should halve
FAR = 30.0  # in logarithms: from any probability to a negligible one
HOP = 2.0  # longest plain step, in logarithms; accelerated ones may be four times as long

Path: TypeAlias = list[tuple[Array, Array]]  # points, and residuals at them


class LikelihoodStep(Protocol):
    """The evaluation at one point. A point (`place`) is a vector of logarithms of probabilities; its residual is zero at the
    maximum."""

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
    """The evaluations with the best bound and with the best value reached from `start`, and the number of evaluations.

    The plain step adds the residual to the point. Components that hardly depend on their own probability would need hundreds of
    plain steps: theirs are lengthened to half of Newton's step along that coordinate alone. f rarely decreases; if it does by
    more than a tenth of the gap, the step is replaced by a plain one. If the gap is not halved for a while, one query is about to
    lose all of its weight to another that is nearly the same; then ever longer steps in the same direction are tried. The search
    ends at the relative `gap`, after so many `evaluations`, or when its time is over (`clock`).
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
    """Evaluations along the residual, each four times as far as the one before, up to the first whose value is lower."""
    tried = [now.moved(now.place + 4 * now.residual)]
    stride = 4.0
    while tried[-1].f > (tried[-2] if len(tried) > 1 else now).f * (1 + 1e-12) and not clock.over():
        stride *= 4
        tried.append(now.moved(now.place + np.clip(stride * now.residual, -FAR, FAR)))
    return tried


def _accelerated(path: Path, scales: Array) -> Array:
    """Anderson's step: the affine combination of the last points whose residuals cancel best, plus the remaining residual.

    The least-squares problem is weighted by the roots of the probabilities, as f depends mostly on the large ones.
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
