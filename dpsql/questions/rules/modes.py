"""The most frequent value of a column or an expression, by noisy counts of its declared values: report noisy max.

Each row has one value, so one entity changes the counts of all values in all groups together by no more than a single count, and
each of them gets noise at the whole price. The value with the largest noisy count is released (for Laplace noise, see Dwork and
Roth, The Algorithmic Foundations of Differential Privacy, 2014, section 3.3). The noisy counts are private themselves, so a bound
on how many more rows another value may have follows by post-processing.
"""

from __future__ import annotations

import numpy as np

from dpsql.estimates import Estimate, margin
from dpsql.frozen import replace
from dpsql.questions.question import AggregateCall
from dpsql.trusted.plan.expr.nodes import Value

MOST_VALUES = 1000


def candidates(call: AggregateCall) -> tuple[Value, ...]:
    """The possible most frequent values; empty if the policy does not declare them, or declares more than MOST_VALUES."""
    return tuple(call.values.values) if call.values is not None and len(call.values) <= MOST_VALUES else ()


def most_frequent(counts: Estimate, values: int) -> Estimate:
    """For each cell, the position of the largest of its noisy counts; `counts` has `values` consecutive counts per cell. A
    position has no standard error."""
    table = counts.values.reshape(-1, values)
    chosen = table.argmax(axis=1).astype(np.float64)
    slopes = {name: (error, np.zeros(len(chosen))) for name, (error, _) in counts.slopes.items()}
    return replace(counts, values=chosen, slopes=slopes, linear=False)


def shortfall(counts: Estimate, values: int, confidence: float) -> float:
    """A number of rows m: with this confidence in each cell, no other value occurs in more than m rows more than the released
    one.

    The noisy count of another value is no larger, so its exact count exceeds that of the released value by at most the difference
    of their two noises. The probability of an error is split evenly among the other values (Bonferroni).
    """
    errors = tuple(error for error, _ in counts.slopes.values())
    return margin(errors * 2, (1.0,) * (2 * len(errors)), 1 - (1 - confidence) / max(values - 1, 1)) if values > 1 else 0.0
