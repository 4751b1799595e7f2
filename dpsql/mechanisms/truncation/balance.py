"""Sums over rows that belong to several entities each: held to a level that balances what is cut off and the noise.

A level is drawn by how many entities are above it, then the sum held to it is told with fresh noise. Proof: `requests.Balance`.
The median error on graphs is about three times that of the best level if it were known, and an eighth of the race's
(`tests/bench/levels.py`). Settings were chosen there too:

CHOICE    of the price, for drawing the level: half of a pure epsilon; less of rho, as bounded range makes the draw cheap there
CAUTION   a level t has the prior weight t^-CAUTION: so rare that a level far too high, which is drawn with probability t^-CAUTION
          and whose noise is proportional to t, adds nothing to the expected error that grows with the ladder
CUT       what is cut off and the noise together, as a standard error, in standard errors of the noise
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.cost import Cost
from dpsql.mechanisms.additive.gaussian import sigma_of
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.mechanisms.base import Estimates, No, Script, Setting, Shared, Task, Verdict, Yes
from dpsql.mechanisms.truncation.held import bearable, held, parts
from dpsql.plan.operators.shares import UNIT, Shares, slack
from dpsql.requests import Balance, DiscreteGaussian, DiscreteLaplace, Held, Noise, score_range

CHOICE_OF_EPSILON, CHOICE_OF_RHO = Fraction(1, 2), Fraction(3, 10)
CAUTION = 1.5
CUT = 4


class Balanced:
    """A level is chosen by its expected error, then the sum held to it is told with fresh noise. Proof: `requests.Balance`."""

    name = "balance"

    def judge(self, task: Task, purse: Cost, cells: int) -> Verdict:
        if not isinstance(task, Shared):
            return No(because="it holds sums over rows of several entities to a level")
        told = _Told(task=task, price=purse.part(Fraction(1, max(1, cells))))
        return Yes(error=told.deviation(1), noise=f"a standard error of {told.deviation(1):.4g} for each unit of the level")

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        found: list[Estimates] = []
        for task, purse in tasks:
            assert isinstance(task, Shared)
            told = _Told(task=task, price=purse.part(Fraction(1, max(1, len(setting.cells)))))
            found.append(((yield from held(task, setting, told.request, told.error)),))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """One sum at one price."""

    task: Shared
    price: Cost

    @property
    def levels(self) -> tuple[int, ...]:
        return bearable((2**j for j in range(max(1, self.task.most.bit_length()))), self.noise)

    @property
    def choice(self) -> Fraction:
        """The share of the price for choosing the level."""
        return CHOICE_OF_EPSILON if self.price.epsilon is not None else CHOICE_OF_RHO

    def noise(self, level: int) -> Noise:
        moved = UNIT * level + parts(self.task) * slack(level, len(self.task.owners))
        purse = self.price.part(1 - self.choice)
        if purse.epsilon is not None:
            return DiscreteLaplace(scale=scale_of(moved / purse.epsilon))
        return DiscreteGaussian(sigma=sigma_of(Fraction(moved) ** 2 / (2 * purse.rho)))

    def deviation(self, level: int) -> float:
        """About the standard error of the sum held to this level, if it is the level that is drawn."""
        return CUT * math.sqrt(self.noise(level).variance) / UNIT

    def error(self, released: Held) -> float:
        return self.deviation(self.levels[released.levels[0] or 0])

    def request(self, plan: Shares) -> Balance:
        purse = self.price.part(self.choice)
        epsilon = purse.as_epsilon if purse.epsilon is not None else 2 * purse.as_epsilon  # rho = epsilon^2 / 8: bounded range
        scale = scale_of(max(1, score_range(self.levels, len(self.task.owners), parts(self.task))) / epsilon)
        return Balance(plan=plan, levels=self.levels, scale=scale, noises=tuple(map(self.noise, self.levels)),
                       handicaps=tuple(round(CAUTION * scale * math.log(level)) for level in self.levels))
