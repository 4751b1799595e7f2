"""Sums over rows of several entities each, truncated at a level that balances what is cut off against the noise.

One level for all cells of a GROUP BY is drawn by the number of entities above it; then the sums truncated there are released with
fresh noise. Proof: `balanced_levels.Balance`.

On graphs the median error is about three and a half times that of the best level if it were known, and an eighth of that of the
race (`tests/bench/levels.py`). The settings were chosen there too: half of a pure epsilon goes to drawing the level, but less of
rho, where bounded range makes the draw cheaper.

CAUTION   a level t has the prior weight t^-CAUTION. A level far too high is drawn with about that probability, and its noise is
          proportional to t; with this weight its part in the expected error does not grow with the ladder

Where values are counted as far as entities vouch for them, low levels are nearly always right, as few of an entity's values are
its own. So high levels are rarer there, such that their part in the mean squared error does not grow with the ladder either, and
the choice gets less of the price.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.mechanisms.additive_noise import scale_of
from dpsql.mechanisms.mechanism import TaskContext
from dpsql.mechanisms.truncation.extension_sums import parts, shares
from dpsql.mechanisms.truncation.level_selection import LevelSelection, SumsAtLevel
from dpsql.trusted.measurements.several.balanced_levels import Balance, score_range

CAUTION = 1.5
CAUTION_OF_VALUES = 3.0


class _Balance(SumsAtLevel):
    of_epsilon, of_rho, cut = Fraction(1, 2), Fraction(3, 10), 4

    def request(self, context: TaskContext) -> Balance:
        allotted = self.price.part(self.choice)
        # rho = epsilon^2 / 8: bounded range
        epsilon = allotted.as_epsilon if allotted.epsilon is not None else 2 * allotted.as_epsilon
        moved = score_range(self.levels, self.task.width, parts(self.task) * self.cells)
        scale = scale_of(max(1, moved) / epsilon)
        caution = CAUTION if self.task.once is None else CAUTION_OF_VALUES
        return Balance(plan=shares(self.task, context), levels=self.levels, scale=scale, cells=self.cells,
                       noises=tuple(map(self.noise, self.levels)),
                       log_priors=tuple(round(caution * scale * math.log(level)) for level in self.levels))


class Balanced(LevelSelection):
    """Chooses a level by its expected error, then releases the sum truncated at it. Proof: `balanced_levels.Balance`."""

    name, told = "balance", _Balance
