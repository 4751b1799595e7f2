"""Sums over rows that may belong to several entities each: the recursive mechanism.

Chen and Zhou, Recursive mechanism: towards node differential privacy and unrestricted joins, SIGMOD 2013. It finds the
first level of a geometric ladder that requires no more removals than its place, releases that place with noise, and then the sum
truncated at that level with fresh noise. Proof: `removal_levels.RecursiveSums`. It is here for comparison, and for those who want
this mechanism by name: with the settings of the paper (a ladder from 1 in steps of epsilon / 10, half of the price) the median
error on the graphs of `tests/bench/levels.py` is ten times that of the best level or more; with those below it equals that of
`balance`, and `removals` gets more accuracy from the same numbers. It is feasible where `removals` is.

FIRST, PACE   the start of the ladder, and its step in units of the epsilon of the place. A place is also the number of entities
              that may be removed, so a ladder of small steps from a low level cuts off too much, and one of large steps misses by
              a factor of exp(step / epsilon); the step is kept between a doubling and a two-hundredth of the whole ladder
AHEAD         how many noise scales the level used is above the one found, as too low a level costs more than too high a one
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.mechanisms.additive_noise import scale_of
from dpsql.mechanisms.mechanism import TaskContext
from dpsql.mechanisms.truncation.extension_sums import bearable, shares
from dpsql.mechanisms.truncation.level_selection import LevelSelection, SumsAtLevel
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.several.removal_levels import RecursiveSums as Request

FIRST, PACE, AHEAD = 16, 0.8, 1.0
MOST_PLACES = 200


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
        """The scale of the noise of a place."""
        return scale_of(1 / self.price.part(self.choice).as_epsilon)

    def request(self, context: TaskContext) -> Request:
        return Request(plan=shares(self.task, context), levels=self.levels, scale=self.scale, cells=self.cells,
                       shift=round(AHEAD * self.scale), noises=tuple(map(self.noise, self.levels)))


class Recursive(LevelSelection):
    """Finds the first level that requires no more removals than its place, with noise, and releases the sum truncated at it.
    Proof: `removal_levels.RecursiveSums`.
    """

    name, told = "recursive", _Recursive
