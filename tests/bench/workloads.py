"""How good the strategies for workloads are, beside published numbers and certified optima, and how long they take to find.

    python tests/bench/workloads.py --largest 256
    python tests/bench/workloads.py --only fitness --largest 1024
    python tests/bench/workloads.py --only laplace --largest 1024

Cells of the fitness-for-use tables are the largest ratio of a variance to its target at the squared cost of the optimum, "published /
here" (there it was at the cost of SM-II, which is up to 14 % above the optimum). Times are CPU seconds of all threads; run with
OPENBLAS_NUM_THREADS=1, as small matrices gain nothing from threads.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from bench_clock import table
from workload_cases import (
    LARGEST,
    MARGINALS,
    METHODS,
    OBLIQUE,
    TOTAL,
    Case,
    count_cells,
    fitness_cases,
    laplace_cases,
    line,
    products,
)

from dpsql.strategies import all_strategies, ca, fitness, oblique, residual_planner, square_root
from dpsql.strategies.fixed_point import Solution, solve
from dpsql.strategies.strategy import Refusal, Strategy
from dpsql.workload.domain import domain
from dpsql.workload.factors import AllRange, Dense, Prefix
from dpsql.workload.workload import Workload, joined, reduced

T = TypeVar("T")
HIERARCHIES = 1100  # cells up to which the hierarchy is solved by dense algebra


def clocked(action: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    return action(), time.process_time() - start


def fitness_tables(largest: int) -> str:
    rows = []
    for case in fitness_cases(largest):
        (value, bound), seconds = clocked(lambda case=case: optimum(case))
        ratios = (*baselines(case, value), *sums(case, value))
        cells = [f"{there:.2f} / {here:.2f}" if case.published else f"{here:.2f}"
                 for there, here in zip(case.published or ratios, ratios, strict=True)]
        rows.append([f"{case.table:>2}  {case.name}", *cells, f"{case.optimum:.6f}", f"{value:.6f}", f"{value / bound - 1:.1e}",
                     f"{seconds:.3f}"])
    return table("Fitness for use: largest variance over target at the optimal squared cost, published / here",
                 ("table, workload", *METHODS, "certified cost", "cost here", "gap", "seconds"), rows)


def optimum(case: Case) -> tuple[float, float]:
    """The squared cost at which all targets are met, and its lower bound."""
    found, _ = all_strategies.best(case.small, case.targets) if whole(case) else (None, [])
    if found is not None and found.certificate is not None:
        return found.certificate.value, found.certificate.bound
    solution = solve(joined(case.workload), targets=case.targets, gap=5e-5)
    return float((explicit(solution, case) / case.targets).max()), solution.lower


def whole(case: Case) -> bool:
    return not any(isinstance(factor, Dense) and factor.matrix.dtype.kind == "f" for part in case.workload.parts for factor in part.factors)


def explicit(solution: Solution, case: Case) -> np.ndarray:
    """The variances at squared cost 1 by the definition: W R^+ for the matrix R that is measured."""
    answers = case.workload.dense() @ np.linalg.pinv(solution.matrix)
    return (answers**2).sum(axis=1) * (solution.matrix**2).sum(axis=0).max()


def baselines(case: Case, cost: float) -> tuple[float, float]:
    """Noise on cells, and the hierarchy of the paper's program: root, floor(sqrt d) blocks, cells, charged as three levels."""
    cells = float((case.workload.row_norms2() / case.targets).max()) / cost
    d = case.workload.domain.size
    if d > HIERARCHIES:
        return cells, math.nan
    width = math.isqrt(d)
    blocks = np.kron(np.eye(width), np.ones(width))
    tree = np.vstack([np.ones(d), np.pad(blocks, ((0, 0), (0, d - width**2))), np.eye(d)]) if d > 2 else np.vstack([np.ones(d), np.eye(d)])
    covariance = 3 * np.linalg.inv(tree.T @ tree)
    return cells, float((joined(case.workload).quadratic(covariance) / case.targets).max()) / cost


def sums(case: Case, cost: float) -> tuple[float, float, float]:
    """The least total variance, and weighted by the targets in two ways."""
    def ratio(power: int) -> float:
        weights = case.targets**-power
        if whole(case):
            made = residual_planner.plan(case.small) if np.ptp(case.targets) == 0 else Refusal("")
            made = ca.plan(case.small, weights) if isinstance(made, Refusal) else made
            assert isinstance(made, Strategy)
            return float((made.variances(case.small) / case.targets).max()) / cost
        solution = solve(joined(case.workload), base=weights / weights.sum(), share=0.0)
        return float((explicit(solution, case) / case.targets).max()) / cost

    first = ratio(0)
    return (first, first, first) if np.ptp(case.targets) == 0 else (first, ratio(2), ratio(1))


def marginal_table() -> str:
    rows = []
    for name, sizes, ways, most, published in MARGINALS:
        made, seconds = clocked(lambda sizes=sizes, ways=ways, most=most: residual_planner.plan_ways(domain(*sizes), ways, largest=most))
        assert made.certificate is not None
        count = count_cells(sizes, ways)
        rows.append([name, str(count), f"{published:.12g}", f"{made.certificate.value:.12g}",
                     "" if most else f"{math.sqrt(made.certificate.value / count):.6f}", f"{made.certificate.ratio - 1:.1e}", f"{1000 * seconds:.1f}"])
    return table("Marginals: total or largest variance at squared cost 1", ("marginals", "cells", "published", "here", "RMSE", "gap", "ms"), rows)


def oblique_table() -> str:
    rows = []
    for name, factors, ways, exact, notes, other in OBLIQUE:
        workload = products(factors, ways)
        made, seconds = clocked(lambda workload=workload: oblique.plan(workload))
        assert isinstance(made, Strategy) and made.certificate is not None
        rmse = math.sqrt(made.certificate.value / workload.rows)
        rows.append([name, str(workload.rows), f"{exact:.5f}" if exact else "", f"{math.sqrt(made.certificate.bound / workload.rows):.4f}",
                     f"{rmse:.5f}", f"{notes:.5g}", f"{other:.5g}", f"{rmse / other:.4f}", f"{seconds:.2f}"])
    return table("Products over many attributes: RMSE at squared cost 1",
                 ("workload", "queries", "optimum", "bound", "here", "notes", "others' best", "here / others", "seconds"), rows)


SHOWN = ("identity", "hierarchy", "haar", "weighted-hierarchy", "p-identity", "kronecker", "marginals", "union")


def laplace_table(largest: int) -> str:
    rows = []
    for name, asked, known in laplace_cases():
        if max(asked.domain.shape) > largest:
            continue
        small = reduced(asked).workload
        found = [clocked(lambda small=small, method=method: all_strategies.LAPLACE[method](small, None)) for method in SHOWN]
        cells = ["" if isinstance(made, Refusal) else f"{rmse(made, asked):.3f}" for made, _ in found]
        cells[:3] = [cell + (f" ({there:g})" if there and cell else "") for cell, there in zip(cells[:3], known[:3], strict=True)]
        best = min((rmse(made, asked), seconds, method) for method, (made, seconds) in zip(SHOWN, found, strict=True)
                   if isinstance(made, Strategy))
        bound = max(math.sqrt(made.certificate.bound / asked.rows) for made, _ in found if isinstance(made, Strategy) and made.certificate)
        rows.append([name, str(asked.rows), *cells, f"{known[3]:g}", f"{best[0] / known[3]:.4f}", best[2], f"{bound:.3f}", f"{best[1]:.2f}"])
    return table("Pure epsilon: RMSE at epsilon = 1 (published in brackets)",
                 ("workload", "queries", *SHOWN, "HDMM published", "best / HDMM", "best", "bound", "seconds"), rows)


def rmse(made: Strategy, asked: Workload) -> float:
    assert made.certificate is not None
    return math.sqrt(made.certificate.value / asked.rows)


def size_table(largest: int) -> str:
    rows = []
    kinds = {"prefix": Prefix, "ranges": AllRange}
    for kind, known in LARGEST.items():
        for size, value in known.items():
            made, seconds = clocked(lambda kind=kind, size=size: fitness.plan(line(kinds[kind](size))))
            assert isinstance(made, Strategy) and made.certificate is not None
            rows.append([f"{kind} {size}, squared cost", f"{value:.6f}", f"{made.certificate.value:.6f}",
                         f"{made.certificate.ratio - 1:.1e}", f"{seconds:.3f}"])
    for kind, known in TOTAL.items():
        for size, value in known.items():
            if size <= largest:
                made, seconds = clocked(lambda kind=kind, size=size: ca.plan(line(kinds[kind](size)), gap=1e-5))
                assert isinstance(made, Strategy) and made.certificate is not None
                rmse = math.sqrt(made.certificate.value / kinds[kind](size).rows)
                rows.append([f"{kind} {size}, RMSE", f"{value:.6f}", f"{rmse:.6f}", f"{made.certificate.ratio - 1:.1e}", f"{seconds:.3f}"])
    for size in (64, 256, 1024, 65536):
        made, seconds = clocked(lambda size=size: square_root.plan(line(Prefix(size))))
        assert isinstance(made, Strategy) and made.certificate is not None
        rows.append([f"prefix {size} by the square root, RMSE", f"{TOTAL['prefix'].get(size, math.nan):.6f}",
                     f"{math.sqrt(made.certificate.value / size):.6f}", f"{made.certificate.ratio - 1:.1e}", f"{seconds:.3f}"])
    return table("Prefixes and all ranges of one attribute", ("workload", "certified", "here", "gap", "seconds"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--largest", type=int, default=256, help="cells of the largest workloads of one attribute")
    parser.add_argument("--only", choices=("fitness", "laplace", "marginals", "oblique", "sizes"), default=None)
    asked = parser.parse_args()
    tables: dict[str, Callable[[], str]] = {"fitness": lambda: fitness_tables(asked.largest),
                                            "laplace": lambda: laplace_table(asked.largest), "marginals": marginal_table, "oblique": oblique_table, "sizes": lambda: size_table(asked.largest)}
    for name, made in tables.items():
        if asked.only in (None, name):
            print(made(), flush=True)


if __name__ == "__main__":
    main()
