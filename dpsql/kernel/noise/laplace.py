"""Discrete Laplace noise on 64-bit integers, by OpenDP's exact sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from dpsql.kernel.noise.arrays import Words, words


@lru_cache(maxsize=256)
def _mechanism(scale: float) -> Callable[[Words], list[int]]:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    mechanism: Any = make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)
    return mechanism  # type: ignore[no-any-return]


def add(values: Sequence[int], scale: float) -> list[int]:
    """Each value plus noise z with probability proportional to exp(-|z| / scale); saturates at the ends of 64 bits."""
    return list(_mechanism(scale)(words(values)))
