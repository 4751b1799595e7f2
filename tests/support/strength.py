"""What is claimed of a mechanism against what samples find, and the table of both at the end of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.audit.epsilon import lower_bound
from dpsql.audit.prepared import Batched
from dpsql.audit.rho import least_rho
from dpsql.budgets.reports import epsilon_of
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Cost

Numbers = NDArray[Any]
LIKELY = 0.999  # of what the table shows
SURE = 1 - 1e-9  # of what a test fails for: with so many tests it raises a false alarm once in ten million runs
ODDS = Fraction(1, 1000)  # the delta at which a price in rho that has a delta of its own is held


class Strength(Frozen):
    """A bound that is claimed, and two that samples found: one that is missed seldom, and one that is hardly ever missed."""

    name: str
    unit: str
    claimed: float
    likely: float
    sure: float
    samples: int
    seconds: float
    by: str

    @property
    def kept(self) -> bool:
        return self.sure <= self.claimed

    @property
    def ratio(self) -> float:
        return self.likely / self.claimed

    def line(self) -> str:
        return (f"{self.name:<46} {self.unit:<13} {self.claimed:9.4f} {self.likely:9.4f} {self.ratio:6.2f} {self.samples:>9,} "
                f"{self.seconds:7.1f}  {self.by}")


HEAD = f"{'mechanism':<46} {'unit':<13} {'claimed':>9} {'at least':>9} {'ratio':>6} {'a side':>9} {'seconds':>7}  told apart by"


def strengths(name: str, cost: Cost, first: Callable[[], Numbers], second: Callable[[], Numbers]) -> list[Strength]:
    """What a cost claims, against samples of both sides: epsilon where it is pure, rho where that is less than epsilon^2 / 2."""
    start = time.process_time()
    a, b = first(), second()
    seconds, found = time.process_time() - start, []

    def add(unit: str, claimed: float, likely: float, sure: float, by: str) -> None:
        found.append(Strength(name=name, unit=unit, claimed=claimed, likely=likely, sure=sure, samples=min(len(a), len(b)),
                              seconds=seconds, by=by))

    if cost.epsilon is not None or cost.delta:
        delta = float(cost.delta)
        claimed = float(cost.epsilon) if cost.epsilon is not None else epsilon_of(cost.rho, ODDS)
        delta += 0 if cost.epsilon is not None else float(ODDS)
        bounds = [lower_bound(a, b, delta=delta, confidence=confidence) for confidence in (LIKELY, SURE)]
        add("epsilon" + (f" {delta:.4g}" if delta else ""), claimed, bounds[0].epsilon, bounds[1].epsilon, bounds[0].event)
    if not cost.delta and (cost.epsilon is None or cost.rho < cost.epsilon**2 / 2):
        leaks = [least_rho(a, b, confidence=confidence) for confidence in (LIKELY, SURE)]
        add("rho", float(cost.rho), leaks[0].rho, leaks[1].rho, leaks[0].by)
    return found


class Halved(Batched):
    """A planted fault: all noise is half as wide."""

    part = 0.5

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        return super().laplace(values, scale * self.part)

    def gaussian(self, values: Sequence[int], sigma: float) -> list[int]:
        return super().gaussian(values, sigma * self.part)

    def student(self, values: Sequence[int], scale: float) -> list[int]:
        return super().student(values, scale * self.part)

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        return super().exponential(scores, scale * self.part)

    def flip(self, scores: Sequence[int], scale: float) -> int:
        return super().flip(scores, scale * self.part)


class FivePercentLess(Halved):
    """A planted fault: all noise is five percent narrower."""

    part = 0.95


def stacked(draw: Callable[[], Numbers], times: int) -> Numbers:
    """Samples of so many rows or some more, from looks that give many at once."""
    found = [draw()]
    found += [draw() for _ in range(-(-times // len(found[0])) - 1)]
    return np.concatenate(found)


def refuted(cost: Cost, first: Callable[[], Numbers], second: Callable[[], Numbers], times: int) -> bool:
    """Whether samples of both sides show that more is told than is claimed. An eighth of `times` is drawn, then as many again,
    until they do, or until there are four times as many: without a fault each of these looks is so seldom mistaken that one is
    enough, and with it no single one has to succeed."""
    a, b = stacked(first, times // 8), stacked(second, times // 8)
    while all(one.kept for one in strengths("", cost, lambda: a, lambda: b)):
        if len(a) >= 4 * times:
            return False
        a, b = np.concatenate([a, stacked(first, len(a))]), np.concatenate([b, stacked(second, len(b))])
    return True
