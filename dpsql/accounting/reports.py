"""What was spent, for reports; nothing here decides whether a statement is answered. The only user of outside accountants.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial

from dpsql.accounting.convert import MARGIN, delta_of
from dpsql.accounting.cost import NANO, ORDERS, Charge, Cost
from dpsql.catalog.price import short

# For privacy loss distributions: the finest step, the approximate number of steps, the most that are composed one by one, and the
# largest epsilon of one.
FINE, PLACES, CLASSES, WIDE = 1e-4, 2**16, 16, 40.0


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


def tight_epsilon(charges: Sequence[Charge], delta: float) -> float | None:
    """The least epsilon at `delta` that dp-accounting derives for a sequence of charges; for reports only.

    Where every charge is a pure epsilon, their worst-case privacy loss distributions are composed: those of randomized
    response (Kairouz, Oh and Viswanath 2015). Otherwise their costs at the Renyi orders of the ledger are added up, or their
    rhos of zCDP are, whichever gives less. None where the library is not installed. The answer must not steer
    spending: stopping when this curve is crossed is not a valid filter. Failures (`Charge.delta`) come on top of `delta`.

    Users wait for this number, so its running time is limited whatever was charged: distributions have `PLACES` points, with
    losses rounded up; many different prices are rounded up to `CLASSES` of them; and above `WIDE`, where a distribution gives no
    smaller epsilon than the sum does, none is used.
    """
    if not charges:
        return 0.0
    try:
        from dp_accounting import dp_event
        from dp_accounting.pld import common, privacy_loss_distribution
        from dp_accounting.rdp import rdp_privacy_accountant
    except ImportError:
        return None
    pure = [charge.epsilon / NANO for charge in charges if charge.epsilon is not None]
    found = []
    if len(pure) == len(charges):
        found.append(sum(pure))
    if len(pure) == len(charges) and max(pure) <= WIDE:
        worst = partial(privacy_loss_distribution.from_privacy_parameters,
                        value_discretization_interval=max(FINE, sum(pure) / PLACES))
        losses = [worst(common.DifferentialPrivacyParameters(epsilon, 0)).self_compose(times)
                  for epsilon, times in _classes(pure).items()]
        together = losses[0]
        for loss in losses[1:]:
            together = together.compose(loss)
        found.append(float(together.get_epsilon_for_delta(delta)))
    renyi = rdp_privacy_accountant.RdpAccountant()
    renyi.compose(dp_event.ZCDpEvent(sum(charge.rho for charge in charges) / NANO))
    at_orders, _ = rdp_privacy_accountant.compute_epsilon(ORDERS, _renyi(charges), delta)
    return min([*found, float(renyi.get_epsilon(delta)), float(at_orders)])


def _renyi(charges: Sequence[Charge]) -> list[float]:
    """The total cost of charges at each order, computed once for equal charges."""
    counted = [[times * cost for cost in charge.renyi] for charge, times in Counter(charges).items()]
    return [sum(costs) / NANO for costs in zip(*counted, strict=True)]


def _classes(epsilons: Sequence[float]) -> Mapping[float, int]:
    """How often each price was paid. If there are too many different prices, they are rounded up to powers of a number just
    above 1, or of its square, or of the square of that, and so on."""
    found, base = Counter(epsilons), 2 ** (1 / 16)
    while len(found) > CLASSES:
        found = Counter(base ** math.ceil(math.log(epsilon, base)) * (1 + MARGIN) if epsilon > 0 else 0.0 for epsilon in epsilons)
        base *= base
    return found
