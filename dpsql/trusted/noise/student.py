"""Student's t noise with three degrees of freedom on integers, drawn exactly.

OpenDP has no noise with polynomial tails, and floating-point noise can reveal what it was added to (Mironov 2012). So integers
are drawn by rejection sampling, with exact fractions throughout; the only randomness is uniform bits from the operating
system.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

WORD = 64  # bits of a uniform number drawn at once


def add(values: Sequence[int], scale: float) -> list[int]:
    """Each value plus noise z with probability proportional to h(z) = 1 / (1 + (z / s)^2)^2, where s is the scale as an exact
    fraction; saturates at the ends of 64 bits.

    Proof. With a sign from a fair coin, an integer z >= 0 is proposed with probability g(z) = s / ((s + z)(s + z + 1)) and
    accepted with probability

        h(z) / (g(z) 3 (s + 1) / 2) = 2 s^3 (s + z)(s + z + 1) / (3 (s + 1) (s^2 + z^2)^2),

    which is a rational number, so the coin is exact. It is at most 1: (s + z + 1) / (s + z) <= (s + 1) / s, and for x = z / s,
    (1 + x) / (1 + x^2) is largest at x = sqrt(2) - 1, where its square is (3 + 2 sqrt(2)) / 4 < 3 / 2. Zero is accepted with
    only one of the two signs, so accepted numbers have probabilities proportional to h. More than a quarter of the proposals
    are accepted, for large scales half.
    """
    if not 0 < scale < math.inf:
        raise ValueError("the scale of noise must be a positive number")
    a, b = scale.as_integer_ratio()
    return [max(-(2**63), min(2**63 - 1, value + _draw(a, b))) for value in values]


def _draw(a: int, b: int) -> int:
    """Noise of scale a / b."""
    while True:
        negative, z = secrets.randbits(1), _proposal(a, b)
        weight, whole = 2 * a**3 * (a + b * z) * (a + b * z + b), 3 * (a + b) * (a * a + (b * z) ** 2) ** 2
        if secrets.randbelow(whole) < weight and (z or not negative):
            return -z if negative else z


def _proposal(a: int, b: int) -> int:
    """The whole part of s / U - s for s = a / b and U uniform in (0, 1): it is n or more where U <= s / (s + n).

    Bits of U are drawn until every U that begins with them gives the same whole part.
    """
    bits, n = WORD, secrets.randbits(WORD)
    while True:
        least = a * ((1 << bits) - n - 1) // (b * (n + 1))
        if n and least == a * ((1 << bits) - n) // (b * n):
            return least
        bits, n = bits + WORD, n << WORD | secrets.randbits(WORD)
