"""Tables fitted to noisy counts without negative cells: errors of the five methods on the histograms of the uncertainty principle.

    python tests/bench/microdata.py ../shared/data --published ../shared/facts/uncertainty_tables.json --runs 1000

31 histograms: 8 of one dimension (sum and cells), 8 and 15 of two (sum, rows, columns and cells), with the budget divided evenly
between the groups. Squared errors: of the sum, over all cells (total), and of the cell where the mean is largest (max, biased upwards
by few runs). Published: Abowd and others, NeurIPS 2021, Tables 1 and 2, where the runs that its solver did not finish are
left out. Exact: the variances of least squares; sequential fitting's sum has the variance of the noise unless it is clipped. The
noise is drawn by numpy, as nothing here is private; runs of histograms of equal shape share it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_clock import table
from two_way_tables import two_way

from dpsql.errors import Error
from dpsql.frozen import replace
from dpsql.microdata import ols
from dpsql.microdata.all_fits import METHODS, fit
from dpsql.microdata.noisy_answers import NoisyAnswers

NAMES = {"ols": "OLS", "nnls": "NNLS", "max_fit": "MaxFit", "sequential": "Seq", "reweight": "ReWeight"}  # in the published tables


def histograms(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Name -> table; those of one dimension have one row."""
    import pandas as pd

    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, cells in pd.read_csv(folder / "microdata_benchmark.csv.gz").groupby("dataset", sort=False):
        line = (cells["col"] == -1).all()
        rows, columns = (cells["row"] * 0, cells["row"]) if line else (cells["row"], cells["col"])
        found[str(name)] = np.zeros((rows.max() + 1, columns.max() + 1))
        found[str(name)][rows, columns] = cells["count"]
    return found


def queries(counts: np.ndarray[Any, Any], epsilon: float) -> NoisyAnswers:
    """The exact answers, with the variances that Laplace noise will have."""
    names = ("sum", "cells") if counts.shape[0] == 1 else ("sum", "rows", "columns", "cells")
    spread = 2 * (len(names) / epsilon) ** 2
    groups = two_way(counts, dict.fromkeys(names, spread))
    return NoisyAnswers(tuple(replace(group, noise="laplace") for group in groups))


class Errors:
    """Squared errors of one method on one histogram, of the real and of the whole numbers if these are asked for."""

    def __init__(self) -> None:
        self.sums: list[float] = []
        self.cells: Any = 0.0
        self.failures, self.seconds, self.residual, self.zeros = 0, 0.0, 0.0, 0.0

    def add(self, truth: NoisyAnswers, noisy: NoisyAnswers, method: str, whole: bool) -> None:
        begun = time.process_time()
        try:
            found = fit(noisy, method, whole=whole)
        except Error:
            self.failures += 1
            return
        self.seconds += time.process_time() - begun
        told = found.certificate
        self.residual = max(self.residual, told.slope, told.bounds, told.slackness)
        off = (found.answers - truth.answers) ** 2
        self.sums.append(float(off[truth.slices["sum"]][0]))
        self.cells = self.cells + off[truth.slices["cells"]]
        self.zeros += float((found.cells <= 1e-9).mean())

    @property
    def runs(self) -> int:
        return len(self.sums)

    @property
    def figures(self) -> dict[str, float]:
        return {"sum": float(np.mean(self.sums)), "total": float(np.sum(self.cells) / self.runs),
                "max": float(np.max(self.cells) / self.runs)}

    @property
    def standard_error(self) -> float:
        return float(np.std(self.sums) / np.sqrt(self.runs))


def measured(counts: np.ndarray[Any, Any], asked: argparse.Namespace) -> dict[str, Errors]:
    truth, found = queries(counts, asked.epsilon), {name: Errors() for name in METHODS}
    scale = np.sqrt(truth.variances / 2)
    for run in range(asked.runs):
        noisy = truth.with_answers(truth.answers + np.random.default_rng(1000 + run).laplace(0, scale))
        for name, errors in found.items():
            errors.add(truth, noisy, name, asked.whole)
    return found


def published(path: Path | None) -> dict[tuple[str, str, str], float]:
    """(histogram, method, quantity) -> figure, at epsilon = 0.5."""
    if path is None:
        return {}
    told = json.loads(path.read_text(encoding="utf-8"))
    found: dict[tuple[str, str, str], float] = {}
    for number, row in told["table1_sum_query_paper"].items():
        for method, short in NAMES.items():
            found[row["name"], method, "sum"] = row[short]
            for quantity in ("total", "max"):
                found[row["name"], method, quantity] = told["table2_identity_query_paper"][number][short][quantity]
    return found


def exact(truth: NoisyAnswers, method: str, quantity: str) -> float | None:
    """The figure in closed form, where there is one."""
    if method == "sequential" and quantity == "sum":
        return float(truth.variances[0])
    if method != "ols":
        return None
    spread = ols.variances(truth)
    return {"sum": spread[0], "total": spread[truth.slices["cells"]].sum(), "max": spread[truth.slices["cells"]].max()}[quantity]


def lines(name: str, counts: np.ndarray[Any, Any], found: dict[str, Errors], known: dict[tuple[str, str, str], float],
          epsilon: float) -> Iterator[list[str]]:
    truth = queries(counts, epsilon)
    for quantity in ("sum", "total", "max"):
        for method, errors in found.items():
            ours, theirs = errors.figures[quantity], known.get((name, method, quantity))
            sure = exact(truth, method, quantity)
            yield [name, quantity, method, f"{ours:.1f}", f"{errors.standard_error:.1f}" if quantity == "sum" else "-",
                   "-" if theirs is None else f"{theirs:.1f}", "-" if theirs is None else f"{ours / theirs:.3f}",
                   "-" if sure is None else f"{sure:.3f}", "-" if sure is None else f"{ours / sure:.3f}"]


def work(found: dict[str, dict[str, Errors]]) -> Iterator[list[str]]:
    for method in METHODS:
        errors = [each[method] for each in found.values()]
        runs = sum(each.runs for each in errors)
        yield [method, f"{runs}", f"{sum(each.failures for each in errors)}", f"{max(each.residual for each in errors):.1e}",
               f"{1000 * sum(each.seconds for each in errors) / max(runs, 1):.2f}",
               f"{sum(each.zeros for each in errors) / max(runs, 1):.3f}"]


def ratios(found: dict[str, dict[str, Errors]], known: dict[tuple[str, str, str], float]) -> Iterator[list[str]]:
    """Ours over the published figures: the median over the histograms, the least and the largest."""
    for quantity in ("sum", "total", "max"):
        for method in METHODS:
            all_ = [each[method].figures[quantity] / known[name, method, quantity] for name, each in found.items()
                    if (name, method, quantity) in known]
            if all_:
                yield [quantity, method, f"{len(all_)}", f"{np.median(all_):.3f}", f"{min(all_):.3f}", f"{max(all_):.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="a folder with microdata_benchmark.csv.gz")
    parser.add_argument("--published", type=Path, default=None, help="a JSON file with the published tables")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--only", default="", help="histograms whose name holds this")
    parser.add_argument("--whole", action="store_true", help="round the tables to whole numbers")
    asked = parser.parse_args()
    known = published(asked.published) if asked.epsilon == 0.5 else {}
    counts = {name: each for name, each in histograms(asked.data).items() if asked.only in name}
    found = {name: measured(each, asked) for name, each in counts.items()}
    print(table(f"squared errors at epsilon = {asked.epsilon:g}, {asked.runs} runs", ("histogram", "of", "method", "ours", "error", "published", "ratio", "exact", "ratio"),
                [line for name in found for line in lines(name, counts[name], found[name], known, asked.epsilon)]))
    if known:
        print(table("ours over published", ("of", "method", "histograms", "median", "least", "largest"), list(ratios(found, known))))
    print(table("the work", ("method", "runs", "failed", "residual", "milliseconds", "cells at zero"), list(work(found))))


if __name__ == "__main__":
    main()
