"""The strategies for Gaussian and for Laplace noise by name, in order of preference: the first that is proven to be best wins.

Each plans for a workload and, if they are given, one target for each query: without targets it minimises the total variance, with
targets the largest ratio of variance to target. Workloads should be reduced first, see `workload.workload.reduced`. A strategy is
chosen by name with `best(workload, targets, {name: GAUSSIAN[name]})`; some are only available by name, as another one is at least
as good.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.strategies import (
    ca,
    clock,
    convex_kronecker,
    fitness,
    haar,
    hierarchy,
    kronecker,
    marginals,
    matrix_mechanism,
    oblique,
    p_identity,
    plain,
    residual_planner,
    square_root,
    unions_of_products,
)
from dpsql.strategies.cache import remembered
from dpsql.strategies.optimality_gap import OptimalityBound
from dpsql.strategies.strategy import NotMeasured, Refusal, Strategy
from dpsql.workload.factors import Array
from dpsql.workload.workload import Workload

Plan: TypeAlias = Callable[[Workload, Array | None], Strategy | Refusal]
Admit: TypeAlias = Callable[[Strategy], None]
GOOD = 1.001  # times the lower bound: near enough that no other strategy is worth trying


def _total(workload: Workload, targets: Array | None) -> Strategy | Refusal:
    return ca.plan(workload) if targets is None else Refusal("it minimises the total variance")


def _weighted(workload: Workload, targets: Array | None, *, power: int) -> Strategy | Refusal:
    return Refusal("it turns targets into weights") if targets is None else ca.weighted(workload, targets, power)


GAUSSIAN: dict[str, Plan] = {
    "residual-planner": residual_planner.plan,
    "convex": _total,
    "fitness-for-use": fitness.plan,
    "oblique-residual-planner": oblique.plan,
    "convex-kronecker": convex_kronecker.plan,
    "weighted-hierarchy": partial(hierarchy.plan, noise="gaussian"),
    "identity": plain.plan_cells,
    "workload": plain.plan_queries,
    "square-root": square_root.plan,
    "haar": partial(haar.plan, noise="gaussian"),
    "hierarchy": partial(hierarchy.plan_uniform, noise="gaussian"),
    "independent": plain.plan_independent,
    "input-perturbation": plain.plan_cells,
    "convex-by-targets": partial(_weighted, power=1),
    "convex-by-squared-targets": partial(_weighted, power=2),
    "fitness-for-use-refined": fitness.refined,
    "fitness-for-use-hybrid": partial(fitness.plan, total=0.5),
}


LAPLACE: dict[str, Plan] = {
    "p-identity": p_identity.plan,
    "kronecker": kronecker.plan,
    "marginals": marginals.plan,
    "union": unions_of_products.plan,
    "weighted-hierarchy": hierarchy.plan,
    "identity": partial(plain.plan_cells, noise="laplace"),
    "workload": partial(plain.plan_queries, noise="laplace"),
    "haar": haar.plan,
    "hierarchy": hierarchy.plan_uniform,
    "matrix-mechanism": matrix_mechanism.plan,
    "independent": partial(plain.plan_independent, noise="laplace"),
    "input-perturbation": partial(plain.plan_cells, noise="laplace"),
}

BY_NAME = frozenset({"square-root", "haar", "hierarchy", "matrix-mechanism", "independent", "input-perturbation",
                     "convex-by-targets", "convex-by-squared-targets", "fitness-for-use-refined", "fitness-for-use-hybrid"})
BY_ITS_NAME = "used only if named"
NO_TIME = "not tried, as the planning time was over"
SHARE = 0.8  # of the time that is left, for one search
TARGETED = frozenset({"fitness-for-use"})  # of these, the ones tried only if there are targets


class Verdict(Frozen):
    """The outcome of one plan. `because` says why it was not planned; empty if it was."""

    name: str
    strategy: Strategy | None
    because: str


def best(workload: Workload, targets: Array | None = None,
         plans: dict[str, Plan] | None = None, admit: Admit | None = None) -> tuple[Strategy, list[Verdict]]:
    """The strategy with the least value at the unit price, and the verdicts on all plans. A single plan means that it was
    requested by name. `admit` raises Unsupported for a strategy that cannot be used."""
    verdicts: list[Verdict] = []
    found: Strategy | None = None
    certificate: OptimalityBound | None = None
    plans = GAUSSIAN if plans is None else plans
    for name, plan in plans.items():
        if len(plans) > 1 and (name in BY_NAME or (targets is None and name in TARGETED)):
            verdicts.append(Verdict(name=name, strategy=None, because=BY_ITS_NAME))
            continue
        if certificate is not None and certificate.ratio <= GOOD:
            verdicts.append(Verdict(name=name, strategy=None, because="not tried, as no strategy can be much better"))
            continue
        if found is not None and clock.over():
            verdicts.append(Verdict(name=name, strategy=None, because=NO_TIME))
            continue
        with clock.part(SHARE):
            made = refused_for_size(name, workload, admit) or attempted(partial(remembered, name, workload, targets, plan), admit)
        if isinstance(made, Refusal):
            verdicts.append(Verdict(name=name, strategy=None, because=made.because))
            continue
        verdicts.append(Verdict(name=name, strategy=made, because=""))
        if made.certificate is not None and (certificate is None or made.certificate.value < certificate.value):
            found, certificate = made, made.certificate
    if found is None:
        reasons = "; ".join(f"{verdict.name}: {verdict.because}" for verdict in verdicts if verdict.because != BY_ITS_NAME)
        raise NoStrategy(f"no strategy takes this workload: {reasons}")
    return found, verdicts


def refused_for_size(name: str, workload: Workload, admit: Admit | None) -> Refusal | None:
    """The refusal of any result of a search, if the smallest one would be too large: there is no need to search then. A search
    for a p-Identity strategy may also end with noise on cells, which is a strategy of its own."""
    if admit is None or name != "p-identity":
        return None
    found = attempted(partial(p_identity.smallest, workload), admit)
    return found if isinstance(found, Refusal) else None


class NoStrategy(ValueError):
    """All strategies refuse a workload."""


def attempted(search: Callable[[], Strategy | Refusal], admit: Admit | None = None) -> Strategy | Refusal:
    """The result of a search; a refusal if the search would need too large an array or too much memory, or if its result does not
    answer the workload."""
    try:
        found = search()
        if isinstance(found, Strategy) and admit is not None:
            admit(found)
        return found
    except Unsupported as refused:
        return Refusal(refused.reason)
    except NotMeasured as fault:
        return Refusal(str(fault))
    except MemoryError:
        return Refusal("there is not enough memory for it")
