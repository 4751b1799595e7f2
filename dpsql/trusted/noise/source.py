"""The sources of randomness. The kernel is given one source when it is created; a user can neither choose nor seed it.

`Source` is the only part that a test may replace: `audit` has one that adds no noise, to compare with plain SQL.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsql.trusted.noise import inverse_cdf, student

MANY = 256  # values from which on the sampler for many is faster, its tables included


class Source(Protocol):
    """The draws to which the proofs of measurements refer. All arguments and results are exact integers, except selection
    weights."""

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
        """An integer 0 <= n < end, uniformly distributed."""
        ...

    def above(self, counts: Sequence[int], scale: float, reach: int) -> list[int | None]:
        """Each count plus discrete Laplace noise z, conditioned on |z| <= reach, if the sum exceeds `reach`; else None."""
        ...


class Secure:
    """The source of noise of every answer: exact samplers that use the operating system's randomness. They are OpenDP's if it
    has one, and `inverse_cdf` for many values at once.

    Fork-safe; no seed.
    """

    def laplace(self, values: Sequence[int], scale: float) -> list[int]:
        return laplace(values, scale)

    def gaussian(self, values: Sequence[int], sigma: float) -> list[int]:
        return gaussian(values, sigma)

    def student(self, values: Sequence[int], scale: float) -> list[int]:
        return student.add(values, scale)

    def exponential(self, scores: Sequence[float], scale: float) -> int:
        return exponential(scores, scale)

    def flip(self, scores: Sequence[int], scale: float) -> int:
        return permute_and_flip(scores, scale)

    def below(self, end: int) -> int:
        return secrets.randbelow(end)

    def above(self, counts: Sequence[int], scale: float, reach: int) -> list[int | None]:
        """Noise is drawn until it is within the reach. If the noise is so wide that this is rare, z is drawn uniformly within
        the reach and accepted if |z| <= y, for a draw y of the noise: P(y >= n) is proportional to exp(-n / scale) for n >= 0.
        """
        wide, kept = scale >= reach, list[int]()
        while missing := len(counts) - len(kept):
            noise = self.laplace([0] * missing, scale)
            drawn = [self.below(2 * reach + 1) - reach for _ in noise] if wide else noise
            kept += [z for z, y in zip(drawn, noise, strict=True) if abs(z) <= (y if wide else reach)]
        return [count + z if count + z > reach else None for count, z in zip(counts, kept, strict=True)]


# -- the sampler for many values, and OpenDP's. They are called with arrays: OpenDP checks the numbers of a list one by one


def laplace(values: Sequence[int], scale: float) -> list[int]:
    """Each value plus noise z with probability proportional to exp(-|z| / scale); saturates at the ends of 64 bits."""
    exact = _words(values)
    return list(inverse_cdf.laplace(exact, scale).tolist() if _many(exact, scale) else _sampler("laplace", scale)(exact))


def gaussian(values: Sequence[int], sigma: float) -> list[int]:
    """Each value plus noise z with probability proportional to exp(-z^2 / (2 sigma^2)); saturates at the ends of 64 bits."""
    exact = _words(values)
    return list(inverse_cdf.gaussian(exact, sigma).tolist() if _many(exact, sigma) else _sampler("gaussian", sigma)(exact))


def exponential(scores: Sequence[float], scale: float) -> int:
    """An index with probability proportional to exp(score / scale): the highest score with Gumbel noise."""
    return int(_sampler("exponential", scale)(np.asarray(array("d", scores), dtype=np.float64)))


def permute_and_flip(scores: Sequence[int], scale: float) -> int:
    """The first index, in random order, that is accepted with probability exp((score - best) / scale): the highest score with
    exponential noise."""
    return int(_sampler("permute and flip", scale)(_words(scores)))


def _many(values: NDArray[np.int64], scale: float) -> bool:
    return len(values) >= MANY and 0 < scale <= inverse_cdf.LARGEST


def _words(values: Sequence[int]) -> NDArray[np.int64]:
    """Values as 64-bit integers. Raises TypeError or OverflowError for anything else."""
    return np.asarray(array("q", values), dtype=np.int64)


@lru_cache(maxsize=256)
def _sampler(name: str, scale: float) -> Any:
    from opendp import measurements, measures

    match name:
        case "laplace":
            return measurements.make_laplace(*_space("i64", "l1"), scale=scale)
        case "gaussian":
            return measurements.make_gaussian(*_space("i64", "l2"), scale=scale)
        case "exponential":
            return measurements.make_noisy_max(*_space("f64", "linf"), measures.zero_concentrated_divergence(), scale=scale)
        case "permute and flip":
            return measurements.make_noisy_max(*_space("i64", "linf"), measures.max_divergence(), scale=scale)
    raise ValueError("this sampler does not exist")


@lru_cache(maxsize=4)
def _space(kind: str, norm: str) -> tuple[Any, Any]:
    """The domain and metric of the arrays given to OpenDP, which are the same for every scale."""
    from opendp import domains, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    numbers = domains.atom_domain(T=kind) if kind == "i64" else domains.atom_domain(T=kind, nan=False)
    distance = {"l1": metrics.l1_distance, "l2": metrics.l2_distance, "linf": metrics.linf_distance}[norm]
    return domains.vector_domain(numbers), distance(T="f64" if norm == "l2" else kind)
