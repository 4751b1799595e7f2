"""The least total variance: the convex matrix mechanism, solved to a certified gap, and its weighted forms.

Sources: Yuan, Yang, Zhang and Hao, Convex Optimization for Linear Query Processing under Approximate Differential Privacy, KDD
2016; the weights for targets are the baselines of Xiao, He, Zhang and Kifer, PVLDB 2021.
"""

from __future__ import annotations

import numpy as np

from dpsql.frozen import replace
from dpsql.strategies.optimal import optimal
from dpsql.strategies.optimality_gap import OptimalityBound
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.factors import Array
from dpsql.workload.workload import Workload


def plan(workload: Workload, weights: Array | None = None, *, gap: float = 1e-4) -> Strategy | Refusal:
    """The strategy with the least weighted sum of variances; all weights are 1 if none are given."""
    total = float(workload.rows if weights is None else np.sum(weights))
    base = None if weights is None else np.asarray(weights, dtype=float) / total
    found = optimal(workload, name="convex", base=base, share=0.0, gap=gap)
    if isinstance(found, Refusal):
        return found
    variances = found.strategy.variances(workload)
    value = float(variances.sum() if weights is None else variances @ weights)
    return found.strategy.certified(OptimalityBound(objective="total variance", value=value, bound=found.lower * total,
                                                    covers="Gaussian strategies"))


def weighted(workload: Workload, targets: Array, power: int) -> Strategy | Refusal:
    """The strategy for targets turned into weights: target^-2 (power 2, "wCA-I") or target^-1 (power 1, "wCA-II")."""
    found = plan(workload, np.asarray(targets, dtype=float) ** -power)
    if isinstance(found, Refusal) or found.certificate is None:
        return found
    name = "convex-by-targets" if power == 1 else "convex-by-squared-targets"
    return replace(found, name=name, certificate=replace(found.certificate, objective="weighted total variance"))
