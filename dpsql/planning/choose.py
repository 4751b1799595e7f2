"""Which mechanism answers a task, and how the price is shared out: from public facts only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpsql.budgets.convert import FOR_FAILURES, FOR_RHO, rho_of
from dpsql.catalog.price import Price
from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.all_mechanisms import MECHANISMS
from dpsql.mechanisms.mechanism import Accepted, Mechanism, Ordered, SharedRanks, Task, Verdict
from dpsql.trusted.accounting.cost import ATTO, NANO, Cost, pure

LEAST_WEIGHT = 1e-3  # of a part whose error hardly matters, as far as is known


class Choice(Frozen):
    """The mechanism for a task, what it may spend, and the verdict of every mechanism of its kind."""

    task: Task
    allotted: Cost
    cells: int
    mechanism: Mechanism
    asked: Mapping[str, Verdict]

    @property
    def yes(self) -> Accepted:
        verdict = self.asked[self.mechanism.name]
        assert isinstance(verdict, Accepted)
        return verdict

    @property
    def compared(self) -> float:
        """The error by which mechanisms and accounts are compared."""
        return self.yes.error * self.yes.weight

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The verdict of each mechanism on the task, by its public name."""
        return {mechanism.name: self.asked.get(mechanism.name) or mechanism.judge(self.task, self.allotted, self.cells)
                for mechanism in MECHANISMS}


def choose(task: Task, allotted: Cost, cells: int, named: Sequence[str]) -> Choice | None:
    """The mechanism with the least expected error, among those named if any; None if no mechanism can do the task."""
    asked = {mechanism.name: mechanism.judge(task, allotted, cells) for mechanism in MECHANISMS if mechanism.kind is type(task)}
    errors = {name: verdict.error * verdict.weight for name, verdict in asked.items() if isinstance(verdict, Accepted)}
    preferred = [name for name in named if name in errors] or [name for name in errors if math.isfinite(errors[name])]
    if not preferred:
        return None
    best = min(preferred, key=errors.__getitem__)
    return Choice(task=task, allotted=allotted, cells=cells, asked=asked, mechanism=next(m for m in MECHANISMS if m.name == best))


def split_budget(weights: Sequence[float], *, pure: bool) -> list[Fraction]:
    """Shares of a price that minimise the weighted sum of variances, where each variance is proportional to 1 / epsilon^2, or
    to 1 / rho.

    The minimum of sum w_i / e_i^2 over sum e_i = 1 has e_i proportional to w_i^(1/3); of sum w_i / r_i to w_i^(1/2).
    Rounded down, so that they add up to one at most.
    """
    powers = [weight ** (1 / 3 if pure else 1 / 2) for weight in weights]
    if len(powers) == 1:
        return [Fraction(1)]
    total = sum(powers)
    return [Fraction(math.floor(power / total * 2**40 * (1 - 1e-12)), 2**40) for power in powers]


def weight_of(task: Task, uses: float) -> float:
    """The weight of a task: the number of aggregates computed from it, or of the choices it makes one after another."""
    return float(len(task.part.fractions) if isinstance(task, Ordered | SharedRanks) else uses)


def shares_of_averages(averages: Sequence[tuple[int, int, float]], uses: Sequence[float],
                       parts: Mapping[int, float]) -> list[float]:
    """Weights of parts by their share in the error of averages, which are given as (total, count, factor of the count's error).

    The relative error of an average is made of that of its total and that of its count, which `parts` holds at equal prices. If
    both mattered alike, each would have a weight of one; here they are weighted by their squares. With heavy tails nearly all of
    the weight goes to the total, as the noise of a count is only a few rows of many.
    """
    weights = [float(number) for number in uses]
    for total, count, matters in averages:
        ours, theirs = parts[total] ** 2, (matters * parts[count]) ** 2
        weights[total] += ours / (ours + theirs) - 1
        weights[count] += theirs / (ours + theirs) - 1
    return [max(weight, LEAST_WEIGHT) for weight in weights]


def allotted_budget(price: Price, *, concentrated: bool) -> Cost:
    """The cost that a statement of this price may spend: a pure epsilon, or rho; and the delta of key selection.

    A price of (epsilon, delta) allows what a budget of (epsilon, delta) allows, so one such statement exhausts one such budget
    exactly: both are rounded down to the units of the ledger.
    """
    if price.rho is not None:
        return Cost(epsilon=None, rho=_down(price.rho, NANO), delta=_down(price.delta, ATTO))
    assert price.epsilon is not None
    delta = _down(price.delta * FOR_FAILURES, ATTO)
    if concentrated:
        return Cost(epsilon=None, rho=_down(rho_of(price.epsilon, price.delta * FOR_RHO), NANO), delta=delta)
    return pure(_down(price.epsilon, NANO), delta)


def price_charged(price: Price | None, cost: Cost) -> Price | None:
    """The price of a statement as far as its cost charges it: without a delta that nothing uses. Where an (epsilon, delta) is
    spent as rho, its delta is a part of what is promised and stays."""
    if price is None or (price.epsilon is not None and cost.epsilon is None):
        return price
    return replace(price, delta=cost.delta)


def budgets_by_account(price: Price) -> list[Cost]:
    """The cost that a statement of this price may spend in each account it can be charged to, a pure epsilon first. Amounts of
    zero are left out."""
    accounts = (True,) if price.rho is not None else (False, True) if price.delta else (False,)
    found = [allotted_budget(price, concentrated=account) for account in accounts]
    return [given for given in found if given.epsilon or given.rho]


def _down(number: Fraction, grain: int) -> Fraction:
    return Fraction(math.floor(number * grain), grain)
