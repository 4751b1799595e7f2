"""Sums over rows that may belong to several entities each: held to a level that balances what is cut off and the noise.

A level is drawn by how many entities are above it, one for all cells of a GROUP BY; then the sums held to it are told with
fresh noise. Proof: `requests.Balance`.

The median error on graphs is about three times that of the best level if it were known, and an eighth of the race's
(`tests/bench/levels.py`). Settings were chosen there too:

CHOICE    of the price, for drawing the level: half of a pure epsilon; less of rho, as bounded range makes the draw cheap there
CAUTION   a level t has the prior weight t^-CAUTION: so rare that a level far too high, which is drawn with probability t^-CAUTION
          and whose noise is proportional to t, adds nothing to the expected error that grows with the ladder
CUT       what is cut off and the noise together, as a standard error, in standard errors of the noise
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.estimates import Estimate
from dpsql.mechanisms.additive.bought import bought
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.mechanisms.base import Script, Setting, Shared, Task, Verdict, Yes
from dpsql.mechanisms.truncation.held import answered, bearable, estimate, parts, refusal, shares
from dpsql.plan.operators.shares import UNIT, slack
from dpsql.requests import Balance, Held, Noise, Request, score_range

CHOICE_OF_EPSILON, CHOICE_OF_RHO = Fraction(1, 2), Fraction(3, 10)
CAUTION = 1.5
CUT = 4


class Balanced:
    """A level is chosen by its expected error, then the sum held to it is told with fresh noise. Proof: `requests.Balance`."""

    name = "balance"

    def judge(self, task: Task, purse: Cost, cells: int) -> Verdict:
        because = refusal(task, self.name)
        if because is not None:
            return because
        assert isinstance(task, Shared)
        error = _Told(task=task, price=purse, cells=max(1, cells)).deviation(1)
        of = f", in each of {cells} groups" if cells > 1 else ""
        return Yes(error=error, noise=f"a standard error of {error:.4g} for each unit of the level{of}")

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        return answered(tasks, setting, self._one)

    @staticmethod
    def _one(task: Shared, purse: Cost, setting: Setting) -> Generator[Request, Any, Estimate]:
        told = _Told(task=task, price=purse, cells=len(setting.cells))
        released: Held = yield told.request(setting)
        return estimate(task, released, [told.deviation(told.levels[level or 0]) for level, *_ in released.levels])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """The sums of so many cells at one price."""

    task: Shared
    price: Cost
    cells: int

    @property
    def levels(self) -> tuple[int, ...]:
        return bearable((2**j for j in range(max(1, self.task.most.bit_length()))), self.noise)

    @property
    def choice(self) -> Fraction:
        """The share of the price for choosing the level."""
        return CHOICE_OF_EPSILON if self.price.epsilon is not None else CHOICE_OF_RHO

    def noise(self, level: int) -> Noise:
        moved = UNIT * level + parts(self.task) * slack(level, len(self.task.owners))
        return bought(moved, self.price.part((1 - self.choice) / self.cells))

    def deviation(self, level: int) -> float:
        """About the standard error of a sum held to this level, if it is the level that is drawn."""
        return CUT * math.sqrt(self.noise(level).variance) / UNIT

    def request(self, setting: Setting) -> Balance:
        purse = self.price.part(self.choice)
        epsilon = purse.as_epsilon if purse.epsilon is not None else 2 * purse.as_epsilon  # rho = epsilon^2 / 8: bounded range
        moved = score_range(self.levels, len(self.task.owners), parts(self.task) * self.cells)
        scale = scale_of(max(1, moved) / epsilon)
        return Balance(plan=shares(self.task, setting), levels=self.levels, scale=scale, cells=self.cells,
                       noises=tuple(map(self.noise, self.levels)),
                       handicaps=tuple(round(CAUTION * scale * math.log(level)) for level in self.levels))
