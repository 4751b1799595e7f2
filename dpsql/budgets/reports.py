"""Reports on what was spent. Nothing here decides whether a statement is answered. The only user of outside accountants.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial

from dpsql.budgets.convert import MARGIN, delta_of
from dpsql.catalog.price import short
from dpsql.trusted.accounting.cost import NANO, ORDERS, Charge, Cost

# For privacy loss distributions: the finest step, the approximate number of steps, and the largest epsilon of one.
FINE, PLACES, WIDE = 1e-4, 2**16, 40.0


def amount(cost: Cost) -> str:
    """A cost as text for people, in its own account."""
    text = f"ε = {short(cost.epsilon)}" if cost.epsilon is not None else f"ρ = {short(cost.rho)}"
    return text + (f", δ = {float(cost.delta):.3g}" if cost.delta else "")


def epsilon_of(rho: Fraction, delta: Fraction) -> float:
    """The least known epsilon such that rho-zCDP implies (epsilon, delta)-DP, for reports."""
    if rho == 0:
        return 0.0
    low, high = 0.0, float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / float(delta)))
    for _ in range(100):
        middle = (low + high) / 2
        if delta_of(float(rho), middle) <= delta:
            high = middle
        else:
            low = middle
    return high * (1 + MARGIN)


def tight_epsilon(spent: Charge, prices: tuple[tuple[int | None, int], ...], delta: float) -> float | None:
    """The least epsilon at `delta` that dp-accounting derives for charges that are `spent` together; for reports only.

    `prices` are the pure epsilons in billionths, None for charges that have none, and how often each was charged; they may be
    rounded up. Where every charge is a pure epsilon, their worst-case privacy loss distributions are composed: those of
    randomized response (Kairouz, Oh and Viswanath 2015). Otherwise their costs at the Renyi orders of the ledger, or their
    rhos of zCDP, are used, whichever give less. None if the library is not installed. The answer must not steer
    spending: stopping when this curve is crossed is not a valid filter. Failures (`Charge.delta`) come on top of `delta`.

    Users wait for this number, so its running time is limited: distributions have `PLACES` points, with losses rounded up, one
    for each price; and above `WIDE`, where a distribution gives no smaller epsilon than the sum does, none is used.
    """
    return _tight_epsilon(spent.epsilon, spent.rho, spent.renyi, prices, delta) if prices else 0.0


@lru_cache(maxsize=64)  # until something more is charged
def _tight_epsilon(epsilon: int | None, rho: int, renyi: tuple[int, ...], prices: tuple[tuple[int | None, int], ...],
                   delta: float) -> float | None:
    """The same, by the sums of the charges: those at the orders do not follow from the others."""
    try:
        from dp_accounting import dp_event
        from dp_accounting.pld import common, privacy_loss_distribution
        from dp_accounting.rdp import rdp_privacy_accountant
    except ImportError:
        return None
    pure = {price / NANO: times for price, times in prices if price is not None}
    found = []
    if epsilon is not None:
        found.append(epsilon / NANO)
    if epsilon is not None and max(pure) <= WIDE:
        step = max(FINE, sum(price * times for price, times in pure.items()) / PLACES)
        worst = partial(privacy_loss_distribution.from_privacy_parameters, value_discretization_interval=step)
        losses = [worst(common.DifferentialPrivacyParameters(price, 0)).self_compose(times) for price, times in pure.items()]
        together = losses[0]
        for loss in losses[1:]:
            together = together.compose(loss)
        found.append(float(together.get_epsilon_for_delta(delta)))
    accountant = rdp_privacy_accountant.RdpAccountant()
    accountant.compose(dp_event.ZCDpEvent(rho / NANO))
    at_orders, _ = rdp_privacy_accountant.compute_epsilon(ORDERS, [cost / NANO for cost in renyi], delta)
    return min([*found, float(accountant.get_epsilon(delta)), float(at_orders)])
