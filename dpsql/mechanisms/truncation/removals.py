"""Sums over rows of several entities each, at a level for which few entities would have to be removed.

A level is drawn by the (fractional) number of entities that have to be removed until none is above it. This counts a row of two
heavy entities once, where `balance` only uses the sums of entities. One entity changes that number by at most one, and for all
levels in one direction, so a smaller share of the price separates levels. Proof: `removal_levels.Removed`. Source: the
sequences of Chen and Zhou's recursive mechanism, SIGMOD 2013, with McKenna and Sheldon's permute-and-flip, NeurIPS 2020.

It is the most accurate of these mechanisms where it is feasible: on graphs its median error is two and a half times that of the
best level if it were known at no cost, and two thirds of that of `balance` (`tests/bench/levels.py`). The number of removals is
the value of a linear program over the rows of the entities above a level: a few hundred thousand rows take seconds, a few
million can take long; use `balance` then.

CAUTION   a level t has the prior weight t^-CAUTION, as in `balance`
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.mechanisms.additive_noise import scale_of
from dpsql.mechanisms.mechanism import TaskContext
from dpsql.mechanisms.truncation.extension_sums import shares
from dpsql.mechanisms.truncation.level_selection import LevelSelection, SumsAtLevel
from dpsql.trusted.measurements.several.removal_levels import Removed
from dpsql.trusted.plan.operators.owner_sets import NEAR, UNIT

CAUTION = 1.5


class _Removals(SumsAtLevel):
    of_epsilon, of_rho, cut = Fraction(7, 20), Fraction(3, 10), 3

    def request(self, context: TaskContext) -> Removed:
        allotted = self.price.part(self.choice)
        flip = allotted.epsilon is not None
        epsilon = allotted.as_epsilon if flip else 2 * allotted.as_epsilon  # rho = epsilon^2 / 8: the exponential mechanism
        scale = scale_of((UNIT + 2 * NEAR) / epsilon)
        return Removed(plan=shares(self.task, context), levels=self.levels, scale=scale, flip=flip, cells=self.cells,
                       noises=tuple(map(self.noise, self.levels)),
                       log_priors=tuple(round(CAUTION * scale * math.log(level)) for level in self.levels))


class Removals(LevelSelection):
    """Chooses a level by the number of entities that have to be removed for it, then releases the sum truncated at it with fresh
    noise. Proof: `removal_levels.Removed`.
    """

    name, told = "removals", _Removals
