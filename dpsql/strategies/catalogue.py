"""The strategies for Gaussian and for Laplace noise, in order of preference: the first that is proven to be the best wins.

All plan for a workload and, if they are given, one target for each query: without targets the total variance is to be least, with
targets the largest variance over target. Workloads should be reduced first, see `workload.reduced`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from dpsql.strategies import ca, fitness, hierarchy, oblique, p_identity, plain, residual_planner
from dpsql.strategies.base import Refusal, Strategy
from dpsql.strategies.certificate import Certificate
from dpsql.workload.factors import Array
from dpsql.workload.workload import Workload

Plan: TypeAlias = Callable[[Workload, Array | None], Strategy | Refusal]
GOOD = 1.001  # times the bound: no other strategy is worth trying


def _optimal(workload: Workload, targets: Array | None) -> Strategy | Refusal:
    return ca.plan(workload) if targets is None else fitness.plan(workload, targets)


GAUSSIAN: dict[str, Plan] = {
    "residual planner": residual_planner.plan,
    "optimal": _optimal,
    "oblique residual planner": oblique.plan,
    "noise on cells": plain.plan_cells,
    "noise on queries": plain.plan_queries,
}


LAPLACE: dict[str, Plan] = {
    "p-identity": p_identity.plan,
    "weighted hierarchy": hierarchy.plan,
    "noise on cells": partial(plain.plan_cells, noise="laplace"),
    "noise on queries": partial(plain.plan_queries, noise="laplace"),
    "hierarchy": hierarchy.plan_uniform,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one plan. `because` is empty for what was planned, and else says why it was not."""

    name: str
    strategy: Strategy | None
    because: str


def best(workload: Workload, targets: Array | None = None,
         plans: dict[str, Plan] | None = None) -> tuple[Strategy, list[Verdict]]:
    """The strategy of the least value at the unit price, and what came of all of them."""
    verdicts: list[Verdict] = []
    found: Strategy | None = None
    certificate: Certificate | None = None
    for name, plan in (GAUSSIAN if plans is None else plans).items():
        if certificate is not None and certificate.ratio <= GOOD:
            verdicts.append(Verdict(name=name, strategy=None, because="not tried, as no strategy is much better"))
            continue
        made = plan(workload, targets)
        if isinstance(made, Refusal):
            verdicts.append(Verdict(name=name, strategy=None, because=made.because))
            continue
        verdicts.append(Verdict(name=name, strategy=made, because=""))
        if made.certificate is not None and (certificate is None or made.certificate.value < certificate.value):
            found, certificate = made, made.certificate
    if found is None:
        raise ValueError("no strategy takes this workload: " + "; ".join(f"{v.name}: {v.because}" for v in verdicts))
    return found, verdicts
