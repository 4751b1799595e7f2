"""The most frequent value of a column, by noisy counts of its declared values: report noisy max.

Each row has one value, so that the counts of all values in all groups are together moved as one count is, and all of them have
noise of the whole price. The value with the largest noisy count is told (for Laplace noise, Dwork and Roth, The Algorithmic
Foundations of Differential Privacy, 2014, 3.3), and as it is made of counts that are released in themselves, so may be how far
it can be from the most frequent one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsql.estimates import Estimate, margin
from dpsql.plan.expr.facts import Facts
from dpsql.plan.expr.nodes import Value
from dpsql.types import Type

MOST_VALUES = 1000


def candidates(known: Facts) -> tuple[Value, ...]:
    """The declared values of a column; none where the policy does not tell them, or too many."""
    if known.domain is None:
        return (False, True) if known.type is Type.BOOLEAN else ()
    return known.domain.values if len(known.domain) <= MOST_VALUES else ()


def most_frequent(counts: Estimate, values: int) -> Estimate:
    """For each cell the place of the largest of so many noisy counts: a choice, and no number with an error."""
    table = counts.values.reshape(-1, values)
    chosen = table.argmax(axis=1).astype(np.float64)
    slopes = {name: (error, np.zeros(len(chosen))) for name, (error, _) in counts.slopes.items()}
    return replace(counts, values=chosen, slopes=slopes, linear=False)


def shortfall(counts: Estimate, values: int, confidence: float) -> float:
    """So many rows more than the value that is told has no other one, with this confidence in each cell.

    The noisy count of another one is no larger, so it has more rows by the difference of two noises at most; each of the other
    values gets the same part of the chance of an error (Bonferroni).
    """
    errors = tuple(error for error, _ in counts.slopes.values())
    return margin(errors * 2, (1.0,) * (2 * len(errors)), 1 - (1 - confidence) / max(values - 1, 1)) if values > 1 else 0.0
