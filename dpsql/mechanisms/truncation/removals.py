"""Sums over rows of several entities each, at a level for which few entities would have to be removed.

A level is drawn by the number of entities that have to leave until none is above it, in fractions: what entities weigh in one
another's rows is counted once, where `balance` only sees the sums. One entity moves that number by one at most, and all levels
in one direction, so it tells levels apart at less of the price. Proof: `measurements.Removed`. Source: the sequences of
Chen and Zhou's recursive mechanism, SIGMOD 2013, with McKenna and Sheldon's permute-and-flip, NeurIPS 2020.

The most accurate of the ways here where it is feasible: on graphs its median error is two and a half times that of the best
level if it were known and cost nothing, two thirds of that of `balance` (`tests/bench/levels.py`). The number of removals
is the value of a linear program over the rows of those that are above a level: some hundred thousand rows take seconds,
some million can take long; then `balance` is what to use.

CAUTION   a level t has the prior weight t^-CAUTION, as in `balance`
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.measurements import Removed
from dpsql.mechanisms.additive_noise import scale_of
from dpsql.mechanisms.mechanism import Setting
from dpsql.mechanisms.truncation.extension_sums import shares
from dpsql.mechanisms.truncation.level_selection import LevelSelection, SumsAtLevel
from dpsql.plan.operators.owner_sets import NEAR, UNIT

CAUTION = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removals(SumsAtLevel):
    of_epsilon, of_rho, cut = Fraction(7, 20), Fraction(3, 10), 3

    def request(self, setting: Setting) -> Removed:
        allotted = self.price.part(self.choice)
        flip = allotted.epsilon is not None
        epsilon = allotted.as_epsilon if flip else 2 * allotted.as_epsilon  # rho = epsilon^2 / 8: the exponential mechanism
        scale = scale_of((UNIT + 2 * NEAR) / epsilon)
        return Removed(plan=shares(self.task, setting), levels=self.levels, scale=scale, flip=flip, cells=self.cells,
                       noises=tuple(map(self.noise, self.levels)),
                       log_priors=tuple(round(CAUTION * scale * math.log(level)) for level in self.levels))


class Removals(LevelSelection):
    """A level is chosen by how many entities have to leave for it, then the sum held to it is released with fresh noise. Proof:
    `measurements.Removed`.
    """

    name, told = "removals", _Removals
