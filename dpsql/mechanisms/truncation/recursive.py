"""Sums over rows that may belong to several entities each: the recursive mechanism.

Chen and Zhou, Recursive mechanism: towards node differential privacy and unrestricted joins, SIGMOD 2013. The first level of a
geometric ladder that asks for no more removals than its place is found, its place is told with noise, and the sum held to that
level with fresh noise. Proof: `measurements.RecursiveSums`. Here for comparison, and for those who want a pure epsilon by that
name: with the settings of the paper (a ladder from 1 in steps of epsilon / 10, half of the price) the median error on the graphs
of `tests/bench/levels.py` is ten times and more that of the best level; with those below it is that of `balance`, and `removals`
makes more of the same numbers. It is feasible where that one is.

FIRST, PACE   where the ladder begins, and its step in units of the epsilon of the place. A place is also a number of entities
              that are given up, so a ladder of small steps from a low level cuts off too much, and one of large steps misses by
              a factor of exp(step / epsilon); it is held between a doubling and a two-hundredth of the whole ladder
AHEAD         by how many standard places the level told is above the one found, as too low costs more than too high
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpsql.measurements import RecursiveSums as Request
from dpsql.mechanisms.additive_noise import scale_of
from dpsql.mechanisms.mechanism import Setting
from dpsql.mechanisms.truncation.extension_sums import bearable, shares
from dpsql.mechanisms.truncation.level_selection import LevelSelection, SumsAtLevel

FIRST, PACE, AHEAD = 16, 0.8, 1.0
MOST_PLACES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recursive(SumsAtLevel):
    of_epsilon, of_rho, cut = Fraction(1, 5), Fraction(1, 5), 4

    @cached_property
    def levels(self) -> tuple[int, ...]:
        first, last = min(FIRST, self.task.most), self.task.most
        step = max(min(PACE / self.scale, math.log(2)), math.log(last / first) / MOST_PLACES)
        places = range(math.ceil(math.log(last / first) / step) + 1)
        return bearable(sorted({min(last, math.floor(first * math.exp(step * place))) for place in places}), self.noise)

    @cached_property
    def scale(self) -> float:
        """Of the noise of a place."""
        return scale_of(1 / self.price.part(self.choice).as_epsilon)

    def request(self, setting: Setting) -> Request:
        return Request(plan=shares(self.task, setting), levels=self.levels, scale=self.scale, cells=self.cells,
                       shift=round(AHEAD * self.scale), noises=tuple(map(self.noise, self.levels)))


class Recursive(LevelSelection):
    """The first level that asks for no more removals than its place, told with noise, and the sum held to it. Proof:
    `measurements.RecursiveSums`.
    """

    name, told = "recursive", _Recursive
