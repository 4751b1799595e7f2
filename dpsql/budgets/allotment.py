"""The amounts that one statement may spend, given its price."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.budgets.convert import FOR_FAILURES, FOR_RHO, rho_of
from dpsql.catalog.price import Price
from dpsql.trusted.accounting.cost import ATTO, NANO, Cost, pure


def allotted_budget(price: Price, *, concentrated: bool) -> Cost:
    """The amount that a statement of this price may spend: a pure epsilon or rho, and the delta of key selection.

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


def budgets_by_account(price: Price) -> list[Cost]:
    """The amounts that a statement of this price may spend, one for each account that can pay; a pure epsilon comes first.
    Amounts of zero are
    left out."""
    accounts = (True,) if price.rho is not None else (False, True) if price.delta else (False,)
    found = [allotted_budget(price, concentrated=account) for account in accounts]
    return [given for given in found if given.epsilon or given.rho]


def _down(number: Fraction, grain: int) -> Fraction:
    return Fraction(math.floor(number * grain), grain)
