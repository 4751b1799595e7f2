"""The best of the strategies is taken, the others say why not, and all of them keep one contract."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.dense_algebra import cost, line, own_variances, products, variances

from dpsql.guides import page
from dpsql.strategies.all_strategies import BY_NAME, GAUSSIAN, LAPLACE, best
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Identity, Prefix, Ranges, Total
from dpsql.workload.workload import Product, Workload

RANDOM = np.random.default_rng(31)
WORKLOADS = {
    "marginals": products([Identity(3), Identity(4), Identity(2)], (1, 2)),
    "prefix": line(Prefix(12)),
    "product": products([Prefix(4), Identity(3)], (2,)),
    "products": products([Prefix(4), Identity(3), AllRange(3)], (0, 1, 2)),
    "few": line(Ranges(9, (0, 3), (5, 8)), Total(9)),
    "weights": line(Dense(np.array([[3, -1, 0], [1, 1, 1], [0, 2, 5]]))),
}


PLANS = [("gaussian", name) for name in GAUSSIAN] + [("laplace", name) for name in LAPLACE]
TOTAL_ONLY = {"convex", "square-root", "haar", "hierarchy", "weighted-hierarchy", "p-identity", "kronecker", "convex-kronecker", "marginals", "union",
              "matrix-mechanism"}
LEVELS = {"haar", "hierarchy", "weighted-hierarchy"}


def refused(asked: str, name: str, fitted: bool) -> bool:
    """What each strategy is not for."""
    several = len(WORKLOADS[asked].domain.attributes) > 1
    if name in TOTAL_ONLY and fitted or name.startswith("convex-by") and not fitted:
        return True
    if name in LEVELS:
        return several or asked == "weights"  # of three values
    return {"residual-planner": asked != "marginals", "square-root": asked != "prefix", "kronecker": not several,
            "convex-kronecker": not several or len(set(WORKLOADS[asked].parts)) == 1, "union": len(WORKLOADS[asked].parts) == 1}.get(name, False)


@pytest.mark.parametrize("fitted", [False, True], ids=["total", "targets"])
@pytest.mark.parametrize(("noise", "name"), PLANS)
@pytest.mark.parametrize("asked", WORKLOADS)
def test_the_contract(asked: str, noise: str, name: str, fitted: bool) -> None:
    """What is planned measures integers, costs what it says, has the variances it says, and is unbiased; its bound holds."""
    workload = WORKLOADS[asked]
    targets = np.repeat([1.0 + i % 3 for i in range(len(workload.parts))], [part.rows for part in workload.parts]) if fitted else None
    plans = GAUSSIAN if noise == "gaussian" else LAPLACE
    made = plans[name](workload, targets)
    assert isinstance(made, Refusal) == refused(asked, name, fitted)
    if isinstance(made, Refusal):
        assert made.because
        return
    assert made.noise == noise and (made.name == name or name == "input-perturbation")
    assert all(all(entry == int(entry) for entry in factor.dense().reshape(-1).tolist()) for block in made.blocks for factor in block.factors)
    assert made.sensitivity.exact and float(made.sensitivity.value) == pytest.approx(cost(made), rel=1e-9)
    explicit = own_variances(made, workload)
    assert np.allclose(made.variances(workload), explicit, rtol=1e-5)
    value = explicit.sum() if targets is None else (explicit / targets).max()
    assert made.certificate is not None and made.certificate.bound <= made.certificate.value * (1 + 1e-9)
    if made.certificate.objective in ("total variance", "largest variance over target"):
        largest = (explicit / (1 if targets is None else targets)).max() if made.certificate.objective[0] == "l" else explicit.sum()
        assert made.certificate.value == pytest.approx(largest, rel=1e-5)
    if name not in ("independent", *LEVELS):  # the others are least squares, and none is better; these may know less
        assert (explicit >= variances(made, workload) * (1 - 1e-5)).all()
    if noise == "gaussian":
        assert best(workload, targets)[0].certificate.value <= value * (1 + 2e-3)


def test_the_guide_tells_of_every_name() -> None:
    table = page("workloads").split("| strategy | noise | measures |")[1]
    for noise, plans in (("Gaussian", GAUSSIAN), ("Laplace", LAPLACE)):
        lines = [row for row in table.split("\n\n")[0].splitlines() if f"| {noise} |" in row or "| both |" in row]
        assert set(re.findall(r"`([a-z-]+)`", "".join(row.split("|")[1] for row in lines))) == set(plans)


def test_the_first_that_is_proven_best_is_taken() -> None:
    strategy, verdicts = best(WORKLOADS["marginals"])
    assert strategy.name == "residual-planner" and [verdict.name for verdict in verdicts] == list(GAUSSIAN)
    assert verdicts[0].strategy is strategy and all("not tried" in verdict.because or "only if named" in verdict.because for verdict in verdicts[1:])
    strategy, verdicts = best(WORKLOADS["products"])
    assert strategy.name == "convex" and "cells of marginals" in verdicts[0].because


def test_large_domains_get_what_fits_them() -> None:
    wide = products([Prefix(30), Prefix(30), Identity(5)], (1, 2))
    strategy, verdicts = best(wide)
    assert strategy.name == "oblique-residual-planner" and "4500" in next(v.because for v in verdicts if v.name == "convex")
    tried = {verdict.name: verdict.strategy for verdict in verdicts}
    others = [other for other in tried.values() if isinstance(other, Strategy) and other is not strategy]
    assert {other.name for other in others} == {"convex-kronecker", "identity", "workload"}
    assert all(other.certificate is not None and other.certificate.value > strategy.certificate.value for other in others)


def test_nothing_takes_what_cannot_be_measured() -> None:
    short = Workload(domain(5000), (Product((Dense(RANDOM.normal(size=(2, 5000))),)),))
    only = {name: plan for name, plan in GAUSSIAN.items() if name != "identity"}
    with pytest.raises(ValueError, match="whole numbers"):
        best(short, plans=only)
    assert best(short)[0].name == "identity"


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_names_are_words_with_hyphens_and_take_their_strategy(noise: str) -> None:
    plans = GAUSSIAN if noise == "gaussian" else LAPLACE
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in plans)
    for name, plan in plans.items():
        if not isinstance(plan(line(Prefix(8)), None), Refusal):
            found, (verdict,) = best(line(Prefix(8)), plans={name: plan})
            assert found is verdict.strategy and found.noise == noise and verdict.name == name
    assert {v.name for v in best(line(Prefix(8)), plans=plans)[1] if "only if named" in v.because} >= BY_NAME & set(plans)
