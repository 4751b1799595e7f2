"""Errors of online models beside those of noise for each count, over a stream of counts that nobody could have foreseen.

    python tests/bench/online.py --adult adult_mwempub13.parquet

Adult with six attributes of 22,400 combinations; the counts are of single cells of marginals of three columns, or of products of
random sets of values of three columns. Each is asked of the kernel, with a ledger, as a statement by itself. Errors are shares of
the rows. Beside them stand a standard error and a largest error of independent Gaussian noise for the same price, and what was
measured for a textbook version (half steps, 200 updates) and one with projections (60 updates), both of which began with equal
counts in all cells, and hid which row stands in place of another. With --replace this is hidden here too: comparisons have twice
the noise, as a count may move both ways, and the columns one by one cost twice as much, as two of their counts move.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from bench_clock import table

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.coded_online import Online

from dpsql.accounting.cost import concentrated
from dpsql.synthesis.online_model import START

COLUMNS = "sex", "income>50K", "race", "marital-status", "education-num", "age_10"
RHO = {1.0: Fraction(14973, 10**6), 0.1: Fraction(167, 10**6)}  # for delta = 1e-9, and what the reference spent
REFERENCE = {("cells", 1000, 1.0): (".197 / .0205", ".049 / .0081 (50)"), ("cells", 10000, 1.0): (".172 / .030", ".052 / .0081 (54)"),
             ("cells", 10000, 0.1): (".35 / .058", ".216 / .025"), ("sets", 1000, 1.0): (".299 / .026", ".082 / .013"),
             ("sets", 10000, 1.0): (".365 / .033", ".106 / .011"), ("sets", 10000, 0.1): (".675 / .083", ".255 / .025")}


def masks(kind: str, sizes: tuple[int, ...], draw: np.random.Generator) -> Iterator[tuple[tuple[int, ...], np.ndarray[Any, np.dtype[np.bool_]]]]:
    """Three columns and the cells of their marginal that count, for ever."""
    while True:
        places = tuple(sorted(draw.choice(len(sizes), 3, replace=False).tolist()))
        shape = tuple(sizes[place] for place in places)
        if kind == "cells":
            inside = np.zeros(shape, dtype=bool)
            inside[tuple(draw.integers(0, shape))] = True
        else:
            one, two, three = (draw.random(size) < 0.5 for size in shape)
            inside = one[:, None, None] & two[None, :, None] & three[None, None, :]
        yield places, inside


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--adult", type=Path, default=Path("adult_mwempub13.parquet"))
    parser.add_argument("--queries", type=int, nargs="*", default=[1000, 10000])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 0.1])
    parser.add_argument("--updates", type=int, nargs="*", default=[0])
    parser.add_argument("--kinds", nargs="*", default=["cells", "sets"])
    parser.add_argument("--replace", action="store_true", help="hide which row stands in place of another")
    chosen = parser.parse_args()
    if not chosen.adult.exists():
        raise SystemExit(f"{chosen.adult.name} is not there")
    import pandas as pd

    places = pd.read_parquet(chosen.adult)[list(COLUMNS)].to_numpy(dtype=np.int64)
    sizes = (2, 2, 5, 7, 16, 10)
    rows = []
    for kind in chosen.kinds:
        for epsilon in chosen.epsilon:
            for queries in chosen.queries:
                for updates in chosen.updates:
                    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
                        rho = RHO[epsilon] / (1 + START) if chosen.replace else RHO[epsilon]
                        online = Online(COLUMNS, sizes, places, Path(folder) / "x.ledger", concentrated(rho), queries, updates or None,
                                        adds=not chosen.replace)
                        start, stream = time.process_time(), masks(kind, sizes, np.random.default_rng(7))
                        errors = np.array([abs(online.count(*next(stream))) for _ in range(queries)]) / len(places)
                        spent = time.process_time() - start
                    alone = math.sqrt(queries / (2 * float(RHO[epsilon]))) / len(places)
                    rows.append([kind, f"{queries:,}", f"{epsilon:g}", str(online.plan.updates), f"{online.used}",
                                 f"{errors.max():.3f} / {errors.mean():.4f}", f"{online.plan.reach(0.95) / len(places):.3f}",
                                 f"{alone:.4f} / {alone * math.sqrt(2 * math.log(queries)):.3f}",
                                 *REFERENCE.get((kind, queries, epsilon), ("", "")), f"{spent:.0f}"])
    print(table("Adult, six attributes: largest / mean error of the counts, as shares of the rows",
                ["counts", "number", "epsilon", "updates", "used", "model", "told", "noise: sd / largest", "half steps, 200", "projections",
                 "CPU s"], rows))


if __name__ == "__main__":
    main()
