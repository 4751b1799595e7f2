"""Between (epsilon, delta) and rho, and the one door to outside accountants."""

from __future__ import annotations

import math
from fractions import Fraction

# Conversions are evaluated in floats; this margin, far above their rounding error, is always taken on the safe side.
MARGIN = 1e-9


def delta_of(rho: float, epsilon: float) -> float:
    """The least known delta for which rho-zCDP implies (epsilon, delta)-DP.

    delta = min over alpha > 1 of exp((alpha - 1)(alpha rho - epsilon)) / (alpha - 1) * (1 - 1/alpha)^alpha.
    Source: Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy, 2020, Proposition 12 with the Renyi
    divergences alpha * rho of zCDP. The bound holds for every alpha, so an inexact minimum is still a bound.
    """
    if rho <= 0:
        return 0.0
    low, high = 1e-9, max(2.0, (epsilon / rho + 2) * 2)  # alpha - 1

    def log_delta(a: float) -> float:
        alpha = 1 + a
        return a * (alpha * rho - epsilon) - math.log(a) + alpha * math.log1p(-1 / alpha)

    golden = (math.sqrt(5) - 1) / 2
    x, y = high - golden * (high - low), low + golden * (high - low)
    for _ in range(200):
        if log_delta(x) < log_delta(y):
            high, y = y, x
            x = high - golden * (high - low)
        else:
            low, x = x, y
            y = low + golden * (high - low)
    return min(1.0, math.exp(min(0.0, log_delta((low + high) / 2))))


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho such that rho-zCDP implies (epsilon, delta)-DP, to a relative margin of 1e-9 on the safe side."""
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


def tight_epsilon(gaussians: list[float], laplaces: list[float], delta: float) -> float | None:
    """The epsilon at `delta` of a set of releases, by dp-accounting's privacy loss distributions; for reports only.

    `gaussians` are noise multipliers sigma / sensitivity, `laplaces` scales / sensitivity. None where the library is not
    installed. The answer must not steer spending: stopping when this curve is crossed is not a valid filter.
    """
    try:
        from dp_accounting import dp_event
        from dp_accounting.pld import pld_privacy_accountant
    except ImportError:
        return None
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-3)
    for sigma in gaussians:
        accountant.compose(dp_event.GaussianDpEvent(sigma))
    for scale in laplaces:
        accountant.compose(dp_event.LaplaceDpEvent(scale))
    return float(accountant.get_epsilon(delta))
