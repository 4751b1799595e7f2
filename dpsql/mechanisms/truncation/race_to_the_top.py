"""Sums over rows that belong to several entities each: the highest of many noisy underestimates (R2T).

Dong, Fang, Yi, Tao and Machanavajjhala, R2T: Instance-optimal truncation for differentially private query evaluation with
foreign keys, SIGMOD 2022. Every level of the ladder is paid for, and each is lowered by what its noise seldom exceeds: the
answer is seldom above the truth, but below it by about ln(L / BETA) times the noise of the best of L levels. `balance` pays for
two looks whatever the number of levels; this one is here for comparison, and for those who want an underestimate.
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
from dpsql.plan.operators.shares import UNIT, Shares, pull
from dpsql.requests import DiscreteGaussian, DiscreteLaplace, Held, Noise, Race

BASE = 5.5  # from one level to the next; the paper proves 2, and its experiments use 5.5
BETA = 0.1  # chance that the answer is above the truth


class RaceToTheTop:
    """Noisy sums held to every level of a ladder, lowered, and the highest of them. Proof: `requests.Race`."""

    name = "race_to_the_top"

    def judge(self, task: Task, purse: Cost, cells: int) -> Verdict:
        if not isinstance(task, Shared):
            return No(because="it holds sums over rows of several entities to a level")
        runner = _Runner(task=task, price=purse.part(Fraction(1, max(1, cells))))
        error = runner.penalty(1) / UNIT
        return Yes(error=error, noise=f"about {error:.4g} too low for each unit of the level")

    def run(self, tasks: Sequence[tuple[Task, Cost]], setting: Setting) -> Script:
        found: list[Estimates] = []
        for task, purse in tasks:
            assert isinstance(task, Shared)
            runner = _Runner(task=task, price=purse.part(Fraction(1, max(1, len(setting.cells)))))
            found.append(((yield from held(task, setting, runner.request, runner.error)),))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    """One sum at one price."""

    task: Shared
    price: Cost

    @property
    def steps(self) -> int:
        return max(1, math.floor(math.log(max(self.task.most, 1), BASE) + 1e-9))

    @property
    def levels(self) -> tuple[int, ...]:
        return bearable((math.floor(BASE**j) for j in range(1, 1 + self.steps)), self.noise)

    def noise(self, level: int) -> Noise:
        purse = self.price.part(Fraction(1, self.steps * parts(self.task)))
        moved = pull(level, len(self.task.owners))
        if purse.epsilon is not None:
            return DiscreteLaplace(scale=scale_of(moved / purse.epsilon))
        return DiscreteGaussian(sigma=sigma_of(Fraction(moved) ** 2 / (2 * purse.rho)))

    def penalty(self, level: int) -> int:
        """What the noise of a level exceeds with probability BETA / L at most."""
        rare = math.log(self.steps / BETA)
        match self.noise(level):
            case DiscreteLaplace(scale=scale):
                return math.ceil(scale * rare)
            case DiscreteGaussian(sigma=sigma):
                return math.ceil(sigma * math.sqrt(2 * rare))

    def error(self, released: Held) -> float:
        """The penalty of the winners, which is most of what the answer is too low by; of the lowest level where none won."""
        return math.hypot(*(self.penalty(self.levels[place or 0]) for place in released.levels)) / UNIT

    def request(self, plan: Shares) -> Race:
        return Race(plan=plan, levels=self.levels, noises=tuple(map(self.noise, self.levels)),
                    penalties=tuple(map(self.penalty, self.levels)))
