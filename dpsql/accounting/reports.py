"""What was spent, told as an epsilon: for reports, never for the gate. The one door to outside accountants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from dpsql.accounting.convert import MARGIN, delta_of
from dpsql.accounting.cost import NANO, Charge


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

    Where every charge is a pure epsilon, their privacy loss distributions are composed, each at its worst: that of randomized
    response (Kairouz, Oh and Viswanath 2015); otherwise each is taken as its rho of
    zCDP, and composed in Renyi divergences. None where the library is not installed. The answer must not steer spending:
    stopping when this curve is crossed is not a valid filter. Failures (`Charge.delta`) come on top of `delta`.
    """
    if not charges:
        return 0.0
    try:
        from dp_accounting import dp_event
        from dp_accounting.pld import common, privacy_loss_distribution
        from dp_accounting.rdp import rdp_privacy_accountant
    except ImportError:
        return None
    pure = [charge.epsilon for charge in charges if charge.epsilon is not None]
    found = []
    if len(pure) == len(charges):
        worst = privacy_loss_distribution.from_privacy_parameters
        losses = [worst(common.DifferentialPrivacyParameters(epsilon / NANO, 0)).self_compose(times)
                  for epsilon, times in Counter(pure).items()]
        together = losses[0]
        for loss in losses[1:]:
            together = together.compose(loss)
        found += [float(together.get_epsilon_for_delta(delta)), sum(pure) / NANO]
    renyi = rdp_privacy_accountant.RdpAccountant()
    renyi.compose(dp_event.ZCDpEvent(sum(charge.rho for charge in charges) / NANO))
    return min([*found, float(renyi.get_epsilon(delta))])
