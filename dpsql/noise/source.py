"""Where randomness comes from. The kernel is given one source when it is made; a user cannot choose it or seed it.

`Source` is the only thing a test may replace: `audit` has one that adds nothing, to compare with plain SQL.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Protocol

from dpsql.noise import samplers, student


class Source(Protocol):
    """Draws that the proofs of measurements name. All arguments and results are exact integers, except selection weights."""

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        """Each value plus independent discrete Laplace noise."""
        ...

    def gaussian(self, values: Sequence[int], sigma: float) -> list[int]:
        """Each value plus independent discrete Gaussian noise."""
        ...

    def student(self, values: Sequence[int], scale: float) -> list[int]:
        """Each value plus independent discrete noise of Student's t with three degrees of freedom."""
        ...

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        """An index, drawn with probability proportional to exp(score / scale)."""
        ...

    def flip(self, scores: Sequence[int], scale: float) -> int:
        """An index, drawn by permute-and-flip with acceptance exp((score - best) / scale)."""
        ...

    def below(self, end: int) -> int:
        """A whole number 0 <= n < end, each as likely."""
        ...

    def coin(self, weight: int, bits: int) -> bool:
        """True with probability weight / 2^bits."""
        ...


class Secure:
    """The source of every answer: exact samplers, OpenDP's where it has one, on the operating system's randomness.

    Fork-safe; no seed.
    """

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        return samplers.laplace(values, scale)

    def gaussian(self, values: Sequence[int], sigma: float) -> list[int]:
        return samplers.gaussian(values, sigma)

    def student(self, values: Sequence[int], scale: float) -> list[int]:
        return student.add(values, scale)

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        return samplers.exponential(scores, scale)

    def flip(self, scores: Sequence[int], scale: float) -> int:
        return samplers.permute_and_flip(scores, scale)

    def below(self, end: int) -> int:
        return secrets.randbelow(end)

    def coin(self, weight: int, bits: int) -> bool:
        return secrets.randbits(bits) < weight
