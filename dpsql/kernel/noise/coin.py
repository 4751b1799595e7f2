"""Uniform integers and coins of an exact rational bias, from the operating system's randomness.

OpenDP's interface has no sampler for either; both are one call of the standard library's `secrets`.
"""

from __future__ import annotations

import secrets


def below(end: int) -> int:
    """A whole number 0 <= n < end, each as likely."""
    return secrets.randbelow(end)


def flip(weight: int, bits: int) -> bool:
    """True with probability weight / 2^bits, exactly."""
    return secrets.randbits(bits) < weight
