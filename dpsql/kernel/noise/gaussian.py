"""Discrete Gaussian noise on 64-bit integers, by OpenDP's exact sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from dpsql.kernel.noise.arrays import Words, words


@lru_cache(maxsize=256)
def _mechanism(sigma: float) -> Callable[[Words], list[int]]:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    mechanism: Any = make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=sigma)
    return mechanism  # type: ignore[no-any-return]


def add(values: Sequence[int], sigma: float) -> list[int]:
    """Each value plus noise z with probability proportional to exp(-z^2 / (2 sigma^2)); saturates at the ends of 64 bits."""
    return list(_mechanism(sigma)(words(values)))
