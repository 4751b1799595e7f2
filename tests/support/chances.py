"""Tests of chance that do not fail by chance: exact, however few samples and however rare the event.

What is tested is drawn without a seed, so each test says beforehand how seldom it fails where nothing is wrong: at most once in
10^8, so that a hundred of them together fail once in a million runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import binom

ALARM = 1e-8


def too_few(hits: int, times: int, chance: float) -> bool:
    """An event that happens with at least this chance is seen so seldom once in 10^8 tests."""
    return bool(binom.cdf(hits, times, chance) < ALARM)


def too_many(hits: int, times: int, chance: float) -> bool:
    """An event that happens with at most this chance is seen so often once in 10^8 tests."""
    return bool(binom.sf(hits - 1, times, chance) < ALARM)


def p_value(draws: Sequence[int], mass: Mapping[int, float]) -> float:
    """How likely draws from these probabilities are to have a value, or values up to one, as seldom or as often as these have.

    Each value, and each half-line of values, is a coin whose exact two-sided chance is taken times the number of coins: no more
    than the truth by the union bound, also where little is expected. What `mass` does not list is one value above all others.
    """
    found, n = Counter(draws), len(draws)
    values = sorted(mass)
    hits = np.array([found[value] for value in values] + [n - sum(found[value] for value in values)])
    chances = np.array([mass[value] for value in values] + [1 - sum(mass.values())])
    seen = np.concatenate((hits, np.cumsum(hits)))
    expected = np.clip(np.concatenate((chances, np.cumsum(chances))), 1e-15, 1.0)  # as floats do not add up to one
    least = min(binom.cdf(seen, n, expected).min(), binom.sf(seen - 1, n, expected).min())
    return float(min(1.0, 2 * len(seen) * least))
