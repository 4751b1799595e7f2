"""From (epsilon, delta) to rho: a declared budget as the limits that the kernel enforces."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dpsql.catalog.price import Price
from dpsql.trusted.accounting.cost import ATTO, NANO, ORDERS
from dpsql.trusted.accounting.privacy_filter import Limit

# Conversions are evaluated in floats, and this relative margin, far above their rounding error, is applied on the safe side.
MARGIN = 1e-9

# Shares of the delta of a budget, or of the price of a statement: for rho, for failures, and for the Renyi orders.
FOR_RHO, FOR_FAILURES, FOR_ORDERS = Fraction(1, 2), Fraction(7, 16), Fraction(1, 16)


def delta_of(rho: float, epsilon: float) -> float:
    """The least known delta for which rho-zCDP implies (epsilon, delta)-DP.

    delta = min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)^alpha.
    Source: Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, 2020, Proposition 12 with the Renyi
    divergences alpha * rho of zCDP. The bound holds for every alpha, so an inexact minimum is still a bound.
    """
    if rho <= 0:
        return 0.0
    low, high = 1e-9, 4 + 2 * epsilon / rho + 2 / math.sqrt(rho)  # alpha - 1, around (epsilon + sqrt(epsilon^2 + 8 rho)) / 4 rho

    def log_delta(a: float) -> float:  # arranged so that nothing cancels, whether a is small or large
        return a * ((1 + a) * rho - epsilon - math.log1p(1 / a)) - math.log1p(a)

    golden = (math.sqrt(5) - 1) / 2
    x, y = high - golden * (high - low), low + golden * (high - low)
    for _ in range(80):
        if log_delta(x) < log_delta(y):
            high, y = y, x
            x = high - golden * (high - low)
        else:
            low, x = x, y
            y = low + golden * (high - low)
    return min(1.0, math.exp(min(0.0, log_delta((low + high) / 2))))


@lru_cache(maxsize=256)  # statements of one connection mostly have the same price
def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho such that rho-zCDP implies (epsilon, delta)-DP, to a relative margin of 1e-9 on the safe side."""
    if delta <= 0:
        raise ValueError("no rho above zero implies a pure epsilon")
    low, high = 0.0, 2 * float(epsilon) + 1.0
    while delta_of(high, float(epsilon)) <= delta:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if delta_of(middle, float(epsilon)) <= delta:
            low = middle
        else:
            high = middle
    return Fraction(low * (1 - MARGIN))


def renyi_limit(order: int, epsilon: Fraction, delta: Fraction) -> int:
    """The largest cost at a Renyi order, in billionths, that implies (epsilon, delta)-DP; below zero if no cost does.

    It is epsilon + (log((a - 1) delta) - a log(1 - 1/a)) / (a - 1), the bound of `delta_of` solved for the divergence. The
    term added to epsilon is between -100 and 1, so the rounding error of floats is less than a thousandth of the billionth
    that is subtracted. The term is above zero for orders above 1 / delta, since pure (epsilon + delta)-DP implies (epsilon,
    delta)-DP.
    """
    added = (math.log(order - 1) + math.log(delta) - order * math.log1p(-1 / order)) / (order - 1)
    return math.floor(epsilon * NANO) + math.floor(added * NANO) - 1


def limit(total: Price) -> Limit:
    """The limit for a declared total."""
    if total.rho is not None:
        return Limit(epsilon=None, rho=math.floor(total.rho * NANO), delta=math.floor(total.delta * ATTO))
    if total.epsilon is None:
        raise ValueError("a budget must be given in epsilon or in rho")
    epsilon = math.floor(total.epsilon * NANO)
    if not total.delta:
        return Limit(epsilon=epsilon, rho=None, delta=0)
    rho, each = rho_of(total.epsilon, total.delta * FOR_RHO), total.delta * FOR_ORDERS / len(ORDERS)
    return Limit(epsilon=epsilon, rho=math.floor(rho * NANO), delta=math.floor(total.delta * FOR_FAILURES * ATTO),
                 renyi=tuple(renyi_limit(order, total.epsilon, each) for order in ORDERS))
