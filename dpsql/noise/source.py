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

    def above(self, counts: Sequence[int], scale: float, reach: int) -> list[int | None]:
        """Each count plus discrete Laplace noise z, given |z| <= reach, where that is above `reach`; else None."""
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

    def above(self, counts: Sequence[int], scale: float, reach: int) -> list[int | None]:
        noisy = [count + z for count, z in zip(counts, self._within(len(counts), scale, reach), strict=True)]
        return [number if number > reach else None for number in noisy]

    def _within(self, number: int, scale: float, reach: int) -> list[int]:
        """So many draws of discrete Laplace noise z, given |z| <= reach. Where noise that wide seldom stays within, every z is
        drawn with the same chance, and taken where |z| <= y for a y of the noise: P(y >= n) is proportional to exp(-n / scale)
        for n >= 0.
        """
        found: list[int] = []
        while missing := number - len(found):
            noise = self.laplace([0] * missing, scale)
            if scale < reach:
                found += [z for z in noise if abs(z) <= reach]
            else:
                drawn = [self.below(2 * reach + 1) - reach for _ in range(missing)]
                found += [z for z, y in zip(drawn, noise, strict=True) if abs(z) <= y]
        return found
