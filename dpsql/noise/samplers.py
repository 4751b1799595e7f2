"""OpenDP's exact samplers: discrete Laplace and Gaussian noise on 64-bit integers, and the noisy maximum of scores.

It is given arrays: of a list it would check every number in Python, which takes longer than the noise.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np


def laplace(values: Sequence[int], scale: float) -> list[int]:
    """Each value plus noise z with probability proportional to exp(-|z| / scale); saturates at the ends of 64 bits."""
    return list(_sampler("laplace", scale)(_words(values)))


def gaussian(values: Sequence[int], sigma: float) -> list[int]:
    """Each value plus noise z with probability proportional to exp(-z^2 / (2 sigma^2)); saturates at the ends of 64 bits."""
    return list(_sampler("gaussian", sigma)(_words(values)))


def exponential(scores: Sequence[float], scale: float) -> int:
    """An index with probability proportional to exp(score / scale): the highest score with Gumbel noise."""
    return int(_sampler("exponential", scale)(np.asarray(array("d", scores), dtype=np.float64)))


def permute_and_flip(scores: Sequence[int], scale: float) -> int:
    """The first index, in random order, that is accepted with probability exp((score - best) / scale): the highest score with
    exponential noise."""
    return int(_sampler("permute and flip", scale)(_words(scores)))


def _words(values: Sequence[int]) -> Any:
    """Integers of 64 bits. Raises TypeError or OverflowError for anything else."""
    return np.asarray(array("q", values), dtype=np.int64)


@lru_cache(maxsize=256)
def _sampler(name: str, scale: float) -> Any:
    from opendp import domains, measurements, measures, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = domains.vector_domain(domains.atom_domain(T="i64"))
    numbers = domains.vector_domain(domains.atom_domain(T="f64", nan=False))
    match name:
        case "laplace":
            return measurements.make_laplace(integers, metrics.l1_distance(T="i64"), scale=scale)
        case "gaussian":
            return measurements.make_gaussian(integers, metrics.l2_distance(T="f64"), scale=scale)
        case "exponential":
            measure = measures.zero_concentrated_divergence()
            return measurements.make_noisy_max(numbers, metrics.linf_distance(T="f64"), measure, scale=scale)
        case "permute and flip":
            return measurements.make_noisy_max(integers, metrics.linf_distance(T="i64"), measures.max_divergence(), scale=scale)
    raise ValueError("there is no such sampler")
