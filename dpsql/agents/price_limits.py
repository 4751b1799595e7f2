"""Comparisons of the price of a statement with the most that an agent, or the policy, says it may cost."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.budgets.convert import limit
from dpsql.catalog.model import Budget
from dpsql.catalog.price import Price, price
from dpsql.errors import OptionError
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import ATTO, NANO, Charge


class Quote(Frozen):
    """The price of a statement now, as it is stated and as it is charged; None for both if the statement is free."""

    price: Price | None
    charge: Charge | None

    @property
    def is_free(self) -> bool:
        return self.charge is None

    def __str__(self) -> str:
        if self.charge is None:
            return "nothing"
        return str(self.price) if self.price is not None else str(_price_of(self.charge))


def most_in(budget: Budget, most: float | None) -> Price | None:
    """The most a statement may cost, in the unit of the budget. Raises OptionError for an impossible number."""
    if most is None:
        return None
    try:
        return price(rho=most) if budget.total.rho is not None else price(epsilon=most)
    except OptionError as fault:
        fault.source, fault.subject = "the call", "most"
        raise


def unit_of(budget: Budget) -> str:
    return "rho" if budget.total.rho is not None else "epsilon"


def exceeds(quote: Quote, most: Price | None, budget: Budget) -> bool:
    """Whether a price is above a limit. Prices in the same unit are compared as they are stated; a price in rho is compared with
    an epsilon as the budget compares them, at the delta of the limit or of the budget."""
    if most is None or quote.charge is None:
        return False
    asked = quote.price or _price_of(quote.charge)
    if most.delta and asked.delta > most.delta:
        return True
    if asked.epsilon is not None and most.epsilon is not None:
        return asked.epsilon > most.epsilon
    if most.rho is not None:
        return quote.charge.rho > math.floor(most.rho * NANO)
    allowed = limit(Price(epsilon=most.epsilon, delta=most.delta or budget.total.delta))
    return not allowed.allows(quote.charge)


def has_grown(now: Quote, before: Quote, budget: Budget) -> bool:
    """Whether a price is above what it was before."""
    if now.charge is None or before.charge is None:
        return now.charge is not None
    return exceeds(now, before.price or _price_of(before.charge), budget)


def _price_of(charge: Charge) -> Price:
    """A charge as a price."""
    delta = Fraction(charge.delta, ATTO)
    if charge.epsilon is None:
        return Price(rho=Fraction(charge.rho, NANO), delta=delta)
    return Price(epsilon=Fraction(charge.epsilon, NANO), delta=delta)
