"""Sums over rows of several entities each, at a level that balances what is cut off against the noise.

A level is drawn by how many entities are above it, one for all cells of a GROUP BY; then the sums held to it are told with
fresh noise. Proof: `Balance`.

The median error on graphs is about three and a half times that of the best level if it were known, and an eighth of the race's
(`tests/bench/levels.py`). Settings were chosen there too: half of a pure epsilon goes to drawing the level, less of rho, as
bounded range makes the draw cheap there.

CAUTION   a level t has the prior weight t^-CAUTION: so rare that a level far too high, which is drawn with probability t^-CAUTION
          and whose noise is proportional to t, adds nothing to the expected error that grows with the ladder

Where values are counted as far as entities vouch for them, low levels are nearly always right, as few of an entity's values are
its own. So high levels are rarer there, such that they add nothing to the mean squared error either, and the choice gets less of
the price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpsql.measurements import Balance, score_range
from dpsql.mechanisms.additive_noise import scale_of
from dpsql.mechanisms.mechanism import Setting
from dpsql.mechanisms.truncation.extension_sums import parts, shares
from dpsql.mechanisms.truncation.level_selection import LevelSelection, SumsAtLevel

CAUTION = 1.5
CAUTION_OF_VALUES = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Balance(SumsAtLevel):
    of_epsilon, of_rho, cut = Fraction(1, 2), Fraction(3, 10), 4

    def request(self, setting: Setting) -> Balance:
        allotted = self.price.part(self.choice)
        # rho = epsilon^2 / 8: bounded range
        epsilon = allotted.as_epsilon if allotted.epsilon is not None else 2 * allotted.as_epsilon
        moved = score_range(self.levels, self.task.width, parts(self.task) * self.cells)
        scale = scale_of(max(1, moved) / epsilon)
        caution = CAUTION if self.task.once is None else CAUTION_OF_VALUES
        return Balance(plan=shares(self.task, setting), levels=self.levels, scale=scale, cells=self.cells,
                       noises=tuple(map(self.noise, self.levels)),
                       log_priors=tuple(round(caution * scale * math.log(level)) for level in self.levels))


class Balanced(LevelSelection):
    """A level is chosen by its expected error, then the sum held to it is released with fresh noise. Proof: `Balance`."""

    name, told = "balance", _Balance
