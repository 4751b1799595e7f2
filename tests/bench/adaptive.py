"""Strategies that follow the data: their real errors beside those of the best fixed strategy, and beside published numbers.

    python tests/bench/adaptive.py --runs 5 --adult adult.parquet

DAWA: RMSE of all prefixes of 4096 values. Published: the reference program (with its unproved floor of noisy costs) on data of the same
name and number of rows; ours is made from the capital losses of UCI Adult, or like the name. PrivTree: RMSE of 2000 rectangles in
256 x 256 cells, and the mean relative error (of counts at least a thousandth of the rows); published: a prototype on other data.
The fixed strategies are the weighted hierarchy, and noise on cells.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from bench_cells import Cells, group, told
from bench_clock import table

from dpsql.batch import dawa, privtree
from dpsql.strategies import hierarchy
from dpsql.strategies.strategy import Strategy
from dpsql.trusted.accounting.cost import pure
from dpsql.workload.domain import domain
from dpsql.workload.factors import Identity, Prefix, Ranges
from dpsql.workload.workload import Product, Workload

SIZE, SIDE = 4096, 256
PUBLISHED = {("capital loss", 0.01): 867.6, ("capital loss", 0.1): 100.4, ("capital loss", 1.0): 13.57,
             ("like NETTRACE", 0.01): 614.0, ("like NETTRACE", 0.1): 71.37, ("like NETTRACE", 1.0): 10.38,
             ("like HEPTH", 0.01): 1840.0, ("like HEPTH", 0.1): 395.4, ("like HEPTH", 1.0): 37.55}
BOXES = {("like taxis", 0.1): "127.8 / 0.0509", ("like taxis", 1.0): "30.07 / 0.0069", ("like check-ins", 0.1): "691.3 / 0.0042",
         ("like check-ins", 1.0): "94.12 / 0.0006"}


def lines(runs: int, rows: int | None, adult: Path | None) -> Iterator[list[str]]:
    plan = dawa.plan(group(Workload(domain(SIZE), (Product((Prefix(SIZE),)),))))
    fixed = hierarchy.plan(plan.group.workload)
    assert isinstance(fixed, Strategy)
    for name, counts in histograms(rows, adult).items():
        truth = np.cumsum(counts)
        for epsilon in (0.01, 0.1, 1.0):
            price, errors, promised, sizes, start = pure(Fraction(str(epsilon))), [], [], [], time.perf_counter()
            for _ in range(runs):
                found = told(plan, price, Cells(counts))
                errors.append(float(np.mean((found.values - truth) ** 2)))
                promised.append(float(np.mean(found.variances)))
                sizes.append(int(found.notes[0].split()[0]))
            seconds = (time.perf_counter() - start) / runs
            best = math.sqrt(fixed.variances(plan.group.workload, epsilon).mean())
            yield [name, f"{int(counts.sum())}", f"{epsilon:g}", f"{math.sqrt(np.mean(errors)):.4g}", f"{math.sqrt(np.mean(promised)):.4g}",
                   f"{PUBLISHED.get((name, epsilon), math.nan) if rows is None else math.nan:.4g}", f"{best:.4g}", f"{64.008 / epsilon:.4g}", f"{np.mean(sizes):.0f}",
                   f"{seconds:.2f}"]


def histograms(rows: int | None, adult: Path | None) -> dict[str, np.ndarray[Any, Any]]:
    """Data like those of the published table, of as many rows."""
    draw = np.random.RandomState(1)
    found: dict[str, np.ndarray[Any, Any]] = {}
    if adult is not None:
        import pandas as pd

        losses = draw.permutation(pd.read_parquet(adult)["capital_loss"].to_numpy(dtype=np.int64))[: rows or 17_665]
        found["capital loss"] = np.bincount(losses[losses < SIZE], minlength=SIZE)
    few = np.zeros(SIZE, dtype=np.int64)
    few[draw.choice(SIZE, 140, replace=False)] = draw.multinomial(rows or 25_714, 1 / np.arange(1, 141) / (1 / np.arange(1, 141)).sum())
    found["like NETTRACE"] = few
    many = (1 + np.arange(SIZE)) ** -0.6 * draw.gamma(4, size=SIZE)
    found["like HEPTH"] = draw.multinomial(rows or 347_414, many / many.sum())
    steps = np.repeat(draw.gamma(1, size=64), SIZE // 64)
    found["steps"] = draw.multinomial(rows or 400_000, steps / steps.sum())
    return found


def boxes(runs: int, rows: int | None) -> Iterator[list[str]]:
    draw = np.random.RandomState(9001)
    ends = np.sort(draw.randint(0, SIDE, (2000, 2, 2)), axis=2)
    parts = tuple(Product(tuple(Ranges(SIDE, (int(low),), (int(high),)) for low, high in ends_of)) for ends_of in ends)
    parts += (Product((Identity(SIDE), Identity(SIDE))),)
    plan = privtree.plan(group(Workload(domain(SIDE, SIDE), parts)))
    for name, counts in maps(rows).items():
        upto = np.pad(counts.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        (a, b), (c, d) = ends[:, 0].T, ends[:, 1].T
        truth = upto[b + 1, d + 1] - upto[a, d + 1] - upto[b + 1, c] + upto[a, c]
        area = ((b - a + 1) * (d - c + 1)).mean()
        for epsilon in (0.1, 1.0):
            price, errors, relative, sizes, start = pure(Fraction(str(epsilon))), [], [], [], time.perf_counter()
            for _ in range(runs):
                found = told(plan, price, Cells(counts))
                off = np.abs(found.values[:2000] - truth)
                errors.append(float(np.mean(off**2)))
                relative.append(float(np.mean(off / np.maximum(truth, counts.sum() / 1000))))
                sizes.append(int(found.notes[0].split()[3]))
            yield [name, f"{int(counts.sum())}", f"{epsilon:g}", f"{math.sqrt(np.mean(errors)):.4g} / {np.mean(relative):.4f}",
                   BOXES.get((name, epsilon), "-") if rows is None else "-", f"{math.sqrt(2 * area) / epsilon:.4g}", f"{np.mean(sizes):.0f}",
                   f"{(time.perf_counter() - start) / runs:.2f}"]


def maps(rows: int | None) -> dict[str, np.ndarray[Any, Any]]:
    """Places: one city with a few centres, many cities, and evenly spread."""
    draw = np.random.RandomState(2)

    def around(centres: int, width: float, count: int) -> np.ndarray[Any, Any]:
        middle, weight = draw.uniform(20, SIDE - 20, (centres, 2)), draw.gamma(0.5, size=centres)
        chosen = draw.choice(centres, count, p=weight / weight.sum())
        at = np.clip(middle[chosen] + width * draw.standard_normal((count, 2)) * draw.exponential(size=(count, 1)), 0, SIDE - 1).astype(int)
        return np.bincount(at[:, 0] * SIDE + at[:, 1], minlength=SIDE * SIDE).reshape(SIDE, SIDE)

    return {"like taxis": around(4, 1.5, rows or 464_041), "like check-ins": around(300, 3, rows or 2_000_000),
            "evenly": draw.multinomial(rows or 100_000, np.full(SIDE * SIDE, SIDE**-2.0)).reshape(SIDE, SIDE)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=None, help="in place of the numbers of rows of the published tables")
    parser.add_argument("--adult", type=Path, default=None, help="a Parquet file of UCI Adult with a column capital_loss")
    asked = parser.parse_args()
    print(table("DAWA: RMSE of prefixes of 4096 values", ("data", "rows", "epsilon", "DAWA", "said", "published", "hierarchy", "cells",
                                                          "buckets", "seconds"), list(lines(asked.runs, asked.rows, asked.adult))), flush=True)
    print(table("PrivTree: RMSE / relative error of 2000 rectangles of 256 x 256 cells",
                ("data", "rows", "epsilon", "PrivTree", "published", "cells", "leaves", "seconds"), list(boxes(asked.runs, asked.rows))), flush=True)


if __name__ == "__main__":
    main()
