"""Which keys of a GROUP BY may be shown."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from decimal import Context as Precision
from fractions import Fraction
from functools import lru_cache

from dpsql.cells import sort_key
from dpsql.kernel.looks.context import Context
from dpsql.requests import Found, GaussianThreshold, Keys, TruncatedGeometric

BITS = 128
MOST_WEIGHTS = 10**6


def look(request: Keys, context: Context) -> Found:
    """Keep each key that the rule lets pass, and show the kept ones in canonical order."""
    width = len(request.plan.keys)
    rows = context.reader.rows(context.sql(request.plan))
    match request.rule:
        case GaussianThreshold(sigma=sigma, threshold=threshold):
            noisy = context.noise.gaussian([row[width] for row in rows], sigma)
            kept = [row[:width] for row, count in zip(rows, noisy, strict=True) if row[width] > 0 and count >= threshold]
        case TruncatedGeometric(epsilon=epsilon, delta=delta):
            weights = selection_weights(epsilon, delta)
            kept = [row[:width] for row in rows
                    if row[width] > 0 and context.noise.coin(weights[min(row[width], len(weights) - 1)], BITS)]
    return Found(keys=tuple(sorted(kept, key=sort_key)))


@lru_cache(maxsize=32)
def selection_weights(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """p[n] * 2^128: the probabilities with which a key of n entities is kept, up to the first that is 1.

    p[0] = 0, p[n + 1] = min(e^eps p[n] + delta, 1 - e^-eps (1 - p[n] - delta), 1): the largest that (eps, delta)-DP allows
    (Desfontaines et al. 2022, Theorem 1). Here in integers with e^eps replaced by a fraction that is not above it and every
    rounding downwards. Both inequalities between p[n] and p[n + 1] that the theorem needs still hold: p[n + 1] <= r p[n] +
    delta, and 1 - p[n + 1] >= (1 - p[n] - delta) / r, for r <= e^eps; the other two hold as p does not fall.
    """
    one, scale = 1 << BITS, 10**30
    digits = Precision(prec=60, rounding=ROUND_FLOOR)
    exponent = digits.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    # The factor, far above the rounding error of sixty digits, keeps r below e^eps.
    below = digits.subtract(Decimal(1), Decimal(10) ** -50)
    r = int(digits.multiply(digits.multiply(digits.exp(exponent), Decimal(scale)), below))
    d = int(delta * one)
    weights = [0]
    while weights[-1] < one:
        p = weights[-1]
        rest = max(0, one - p - d)
        following = min(p * r // scale + d, one - -(-rest * scale // r), one)
        if following <= p or len(weights) > MOST_WEIGHTS:
            raise ValueError("epsilon or delta is too small to select keys")
        weights.append(following)
    return tuple(weights)
