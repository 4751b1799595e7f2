"""Errors and CPU seconds of the methods of synthetic tables, by the kernel's own requests, certificates, costs and noise.

    python tests/bench/synthetic.py --adult adult_coded14.parquet --domain adult_coded14.domain.json

Each row of the table is an entity. What a method asks is measured by the kernel, only that nothing is charged; then as many rows
are drawn as there seem to be. The error of a marginal is the total variation distance of its shares; errors are means over all
marginals of one, two and three columns. Seconds are of measuring, with all fits, and of the draw.

Below are numbers for Adult at epsilon = 1 (rho = 0.014973): what `markov.py` plays on the same table with numpy's noise, mbi 2.0.0 and
dpmm 0.1.9.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from bench_clock import table

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.coded_tables import Coded, total_variation

from dpsql.accounting.cost import Cost, concentrated, pure
from dpsql.models.table_domain import TableDomain
from dpsql.synthesis.methods.all_methods import METHODS

RHO = Fraction(14973, 10**6)  # of epsilon = 1 and delta = 1e-9
PUBLISHED = [["MST, played", "", ".0076 / .0497 / .1093", "", "", ""],
             ["AIM, played", "", ".0066 / .0377 / .0885", "3.9", "", "228"],
             ["MST, mbi 2.0.0", "", ".0087 / .0553 / .1197", "19", "", "1040"],
             ["MST, dpmm 0.1.9", "", ".0094 / .0585 / .1260", "80", "", "230"],
             ["AIM, 1 MB, dpmm 0.1.9", "", ".0104 / .0441 / .0972", "43", "", "242"],
             ["AIM, 4 MB and 56 rounds, dpmm 0.1.9", "", ".0096 / .0386 / .0863", "140", "", "253"],
             ["independent columns, exact", "", "0 / .0761 / .1716", "", "", ""],
             ["as many rows of the table drawn again", "", ".0045 / .0146 / .0344", "", "", ""]]


def lines(data: Coded, price: Cost, names: list[str], runs: int) -> Iterator[list[str]]:
    for name in names:
        for run in range(runs):
            start = time.process_time()
            measured = data.measured(METHODS[name], price)
            asked = time.process_time()
            drawn = measured.model.draw(max(round(measured.model.total), 1), np.random.default_rng(run))
            ended = time.process_time()
            errors = [total_variation(data.domain, data.places, drawn, size) for size in range(1, min(4, len(data.domain.columns) + 1))]
            yield [name, str(len(data.asked)), " / ".join(f"{error:.4f}".lstrip("0") for error in errors), f"{asked - start:.2f}",
                   f"{ended - asked:.2f}", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--adult", type=Path, default=Path("adult_coded14.parquet"))
    parser.add_argument("--domain", type=Path, default=Path("adult_coded14.domain.json"))
    parser.add_argument("--rho", type=Fraction, default=RHO)
    parser.add_argument("--epsilon", type=Fraction, help="a pure epsilon in place of rho")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS))
    chosen = parser.parse_args()
    for path in (chosen.adult, chosen.domain):
        if not path.exists():
            raise SystemExit(f"{path.name} is not there")
    import pandas as pd

    sizes = json.loads(chosen.domain.read_text(encoding="utf-8"))
    data = Coded(TableDomain(tuple(sizes), tuple(sizes.values())), pd.read_parquet(chosen.adult)[list(sizes)].to_numpy(dtype=np.int64))
    price = concentrated(chosen.rho) if chosen.epsilon is None else pure(chosen.epsilon)
    told = f"rho = {float(chosen.rho):g}" if chosen.epsilon is None else f"epsilon = {float(chosen.epsilon):g}"
    print(table(f"{len(data.places)} rows of {len(sizes)} columns, {told}: total variation distance of the marginals",
                ["", "requests", "drawn: 1, 2, 3 columns", "CPU s", "to draw", "MB"],
                [*lines(data, price, chosen.methods.split(","), chosen.runs), *PUBLISHED]))


if __name__ == "__main__":
    main()
