"""Which mechanism answers a task, and how the price is shared out: from public facts only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.accounting.cost import Cost
from dpsql.mechanisms.all_mechanisms import MECHANISMS
from dpsql.mechanisms.mechanism import Mechanism, Ordered, SharedRanks, Task, Verdict, Yes

LEAST_WEIGHT = 1e-3  # of a part whose error hardly matters, so far as that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The mechanism of a task, what it may spend, and what the mechanisms of its kind said of the task."""

    task: Task
    allotted: Cost
    cells: int
    mechanism: Mechanism
    asked: Mapping[str, Verdict]

    @property
    def yes(self) -> Yes:
        verdict = self.asked[self.mechanism.name]
        assert isinstance(verdict, Yes)
        return verdict

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """What every mechanism says of the task, for people."""
        return {mechanism.name: self.asked.get(mechanism.name) or mechanism.judge(self.task, self.allotted, self.cells)
                for mechanism in MECHANISMS}


def choose(task: Task, allotted: Cost, cells: int, named: Sequence[str]) -> Choice | None:
    """The mechanism with the least error; one that was named goes before. None where none can do the task."""
    asked = {mechanism.name: mechanism.judge(task, allotted, cells) for mechanism in MECHANISMS if mechanism.kind is type(task)}
    errors = {name: verdict.error for name, verdict in asked.items() if isinstance(verdict, Yes)}
    preferred = [name for name in named if name in errors] or [name for name in errors if math.isfinite(errors[name])]
    if not preferred:
        return None
    best = min(preferred, key=errors.__getitem__)
    return Choice(task=task, allotted=allotted, cells=cells, asked=asked, mechanism=next(m for m in MECHANISMS if m.name == best))


def split_budget(weights: Sequence[float], *, pure: bool) -> list[Fraction]:
    """Shares of a price that minimise the weighted sum of variances, each falling as 1 / epsilon^2 or as 1 / rho.

    The minimum of sum w_i / e_i^2 over sum e_i = 1 has e_i proportional to w_i^(1/3); of sum w_i / r_i to w_i^(1/2).
    Rounded down, so that they add up to one at most.
    """
    powers = [weight ** (1 / 3 if pure else 1 / 2) for weight in weights]
    if len(powers) == 1:
        return [Fraction(1)]
    total = sum(powers)
    return [Fraction(math.floor(power / total * 2**40 * (1 - 1e-12)), 2**40) for power in powers]


def weight_of(task: Task, uses: float) -> float:
    """How much a task matters: how many aggregates rest on it, or how many choices one after another it needs."""
    return float(len(task.part.fractions) if isinstance(task, Ordered | SharedRanks) else uses)


def shares_of_averages(averages: Sequence[tuple[int, int, float]], uses: Sequence[float],
                       parts: Mapping[int, float]) -> list[float]:
    """Weights of parts by how much each adds to the error of averages: their total, count, and how much its error matters.

    An average errs by its total's relative error and its count's, which `parts` has at equal prices. Used alike, both have a
    weight of one; here the two are shared out by their squares. For heavy tails that is nearly all of it for the total, as the
    noise of a count is a few rows of many.
    """
    weights = [float(number) for number in uses]
    for total, count, matters in averages:
        ours, theirs = parts[total] ** 2, (matters * parts[count]) ** 2
        weights[total] += ours / (ours + theirs) - 1
        weights[count] += theirs / (ours + theirs) - 1
    return [max(weight, LEAST_WEIGHT) for weight in weights]
