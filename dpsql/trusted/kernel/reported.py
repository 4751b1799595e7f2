"""Data for reports on a chain of events, beyond its sums. They influence no decision, and stay small for any number of
charges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dpsql.trusted.accounting.cost import Account, Charge

MOST_PRICES = 64  # of a budget, that are told apart


class Reported:
    """For reports: how often each price was charged to a budget, the last charge of each account, and how many of its events
    lists show (charges and answers). The latter proves that a list of individually verified events is complete.

    A price is a pure epsilon in billionths, or None if a charge has none. Where there are too many different ones, all are
    rounded up to numbers of fewer binary digits, so that what is computed from them stays a bound.
    """

    def __init__(self) -> None:
        self.prices: dict[str, Counter[int | None]] = {}
        self.last: dict[Account, Charge] = {}
        self.listed: Counter[Account] = Counter()

    @property
    def size(self) -> int:
        """The number of numbers and charges in it."""
        return len(self.last) + len(self.listed) + sum(map(len, self.prices.values()))

    def count(self, account: Account, charge: Charge) -> None:
        """Count a charge."""
        self.last[account] = charge
        paid = self.prices.setdefault(account.budget, Counter())
        paid[charge.epsilon] += 1
        if len(paid) > MOST_PRICES:
            self.prices[account.budget] = _coarser(paid)

    def as_values(self) -> dict[str, Any]:
        """The same as JSON values, in an order that does not depend on the order of the events."""
        prices = {budget: sorted(map(list, paid.items()), key=str) for budget, paid in self.prices.items()}
        last = [[whose.budget, whose.analyst, charge.epsilon, charge.rho, charge.delta] for whose, charge in self.last.items()]
        listed = [[whose.budget, whose.analyst, number] for whose, number in self.listed.items()]
        return {"prices": dict(sorted(prices.items())), "last": sorted(last, key=str), "listed": sorted(listed)}

    @classmethod
    def from_values(cls, told: Mapping[str, Any]) -> Reported:
        """The inverse of `as_values`. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        made = cls()
        made.prices = {budget: Counter(dict(paid)) for budget, paid in told["prices"].items()}
        made.last = {Account(budget=budget, analyst=analyst): Charge(epsilon=epsilon, rho=rho, delta=delta)
                     for budget, analyst, epsilon, rho, delta in told["last"]}
        made.listed = Counter({Account(budget=budget, analyst=analyst): number for budget, analyst, number in told["listed"]})
        return made


def _coarser(paid: Counter[int | None]) -> Counter[int | None]:
    """The same charges at half as many different prices, or at powers of two if that is not enough."""
    coarse = paid
    for digits in range(max(price.bit_length() for price in paid if price is not None), 0, -1):
        coarse = Counter()
        for price, times in paid.items():
            coarse[None if price is None else _rounded_up(price, digits)] += times
        if len(coarse) <= MOST_PRICES // 2:
            break
    return coarse


def _rounded_up(number: int, digits: int) -> int:
    """The smallest number with this many significant binary digits that is not below the given one."""
    after = max(0, number.bit_length() - digits)
    return -(-number >> after) << after
