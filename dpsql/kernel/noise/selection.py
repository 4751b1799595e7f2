"""Choosing one of several candidates by their scores, by OpenDP's noisy maximum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from dpsql.kernel.noise.arrays import reals, words


@lru_cache(maxsize=64)
def _mechanism(kind: str, scale: float) -> Callable[[Any], int]:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_max
    from opendp.measures import max_divergence, zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    mechanism: Any
    if kind == "exponential":  # Gumbel noise: the exponential mechanism
        mechanism = make_noisy_max(vector_domain(atom_domain(T="f64", nan=False)), linf_distance(T="f64"),
                                   zero_concentrated_divergence(), scale=scale)
    else:  # exponential noise: permute-and-flip
        mechanism = make_noisy_max(vector_domain(atom_domain(T="i64")), linf_distance(T="i64"), max_divergence(), scale=scale)
    return mechanism  # type: ignore[no-any-return]


def exponential(scores: Sequence[float], scale: float) -> int:
    """An index with probability proportional to exp(score / scale)."""
    return int(_mechanism("exponential", scale)(reals(scores)))


def permute_and_flip(scores: Sequence[int], scale: float) -> int:
    """The first index, in random order, that is accepted with probability exp((score - best) / scale)."""
    return int(_mechanism("flip", scale)(words(scores)))
