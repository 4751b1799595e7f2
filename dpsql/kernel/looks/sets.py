"""The sets of entities and their weights, shared by the looks at sums over rows of several entities."""

from __future__ import annotations

import numpy as np

from dpsql.kernel.extensions.owned import signed
from dpsql.kernel.extensions.value import Extension
from dpsql.kernel.looks.context import Context
from dpsql.plan.operators.shares import Shares


def read(plan: Shares, levels: tuple[int, ...], context: Context) -> tuple[Extension, ...]:
    """The sums held to the levels: of the positive weights and, where the plan is signed, of the negative ones."""
    *names, weights = context.reader.arrays(context.sql(plan))
    positive, negative = signed(names, np.asarray(weights, dtype=np.int64))
    if plan.signed:
        return Extension(positive, levels, len(plan.owners)), Extension(negative, levels, len(plan.owners))
    if len(negative.weights):
        raise ValueError("a weight is below zero")
    return (Extension(positive, levels, len(plan.owners)),)
