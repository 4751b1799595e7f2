"""MWEM, MWEM+PUB and DualQuery beside what was published or measured of them: the largest error of a workload's shares.

    python tests/bench/mwem.py --data shared/data [--runs 2] [--parts pub,states,plain,dual] [--epsilons .1,.25,.5,1]

Neighbours. The reference figures are for tables in which one row is replaced, whose number of rows is public. Here a row is added or
removed, and the number of rows is private. So each figure stands there twice: at the same rho, and `replaced`, at the price at which
all requests together cost that rho where a row is replaced. A replaced row moves the counts of a marginal as a removed and an added
one do, by sqrt(2) in all, and costs twice as much; a single count moves by one row at most, as before; and a choice of counts costs
the same, as some scores rise by one row's weight and some fall, as before. The second figure is the one to compare.

Rho of epsilon is for delta = 1 / N^2, as in the reference. Every column is measured by the kernel's own requests, costs and noise.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from bench_clock import table

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.coded_tables import Coded, Places, counts_of

from dpsql.models.table_domain import Columns, TableDomain
from dpsql.models.table_model import TableModel
from dpsql.synthesis.method import marginals_of
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.trusted.accounting.cost import concentrated
from dpsql.trusted.measurements.farthest_count import FarthestCount
from dpsql.trusted.measurements.noisy_sums import NoisySums

PUBLISHED = {  # of MWEM+PUB on Adult by how much females are too few: public rows alone, then by epsilon the best that is known
    0.0: {"alone": ".014", 0.1: ".0142", 0.25: ".0136", 0.5: ".0129", 1.0: ".0097"},
    0.1: {"alone": ".089", 0.1: ".029", 0.25: ".024", 0.5: ".014", 1.0: ".012"},
    0.3: {"alone": ".272", 0.1: ".034", 0.25: ".023", 0.5: ".023", 1.0: ".016"},
}
GAUSSIAN = {0.1: ".131 / .100", 0.25: ".054 / .041", 0.5: ".028 / .021", 1.0: ".014 / .011"}  # each marginal clipped / best strategy
DUAL = {0.1: ".274", 0.25: ".119", 0.5: "", 1.0: ".064"}
PLAIN = {1.0: "single .018 / .151, marginals .010 / .053, all .0044 / .125", 0.25: "single .034 / .236, marginals .026 / .117"}
STATES = {1.0: ".0227 - .0245; Gaussian .133", 4.0: ".0146; Gaussian .036"}  # the public table alone: .0251
SEVEN = ("sex", "income>50K", "race", "relationship", "marital-status", "education-num", "hours-per-week")
STATE_COLUMNS = ("PUMA", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "INDP_CAT", "EDU", "PINCP_DECILE", "DVET",
                 "DREM", "DPHY", "DEYE", "DEAR", "AGEP")
AGES = 10  # years in a class


def rho_of(epsilon: float, delta: float) -> float:
    """The rho with this epsilon at this delta, by the conversion of Canonne, Kamath and Steinke, from below."""
    def at(rho: float) -> float:
        orders = 1 + np.exp(np.linspace(math.log(1e-3), math.log(1e5), 20_000))
        return float(np.min(rho * orders + np.log1p(-1 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)))

    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at(middle) <= epsilon else (low, middle)
    return low


def largest(model: TableModel, data: Coded, workload: tuple[Columns, ...]) -> tuple[float, float]:
    """The largest error of a share in these marginals, and their mean total variation distance."""
    off = [np.abs(model.marginal(columns) / model.total - data.counts(columns) / len(data.places)) for columns in workload]
    return max(float(each.max()) for each in off), float(np.mean([each.sum() / 2 for each in off]))


def biased(public: Places, share: float, less: float, generator: np.random.Generator) -> Places:
    """The public rows with fewer females (value 0 of the first column): by so much less than their share of the private rows."""
    if not less:
        return public
    females, others = public[public[:, 0] == 0], public[public[:, 0] != 0]
    kept = max(share - less, 0.0) / (1 - max(share - less, 0.0)) * len(others)
    return np.concatenate([females[generator.permutation(len(females))[:round(kept)]], others])


def figures(data: Coded, name: str, rho: float, workload: tuple[Columns, ...], runs: int, shown: Callable[[float, float], str],
            **more: Any) -> Iterator[str]:
    """The mean errors at this rho, and at the price at which replaced rows cost it; then seconds of one run."""
    seconds, price = 0.0, rho
    for _ in range(2):
        found = []
        for _ in range(runs):
            start = time.process_time()
            model = data.measured(METHODS[name], concentrated(Fraction(price)), workload=workload, **more).model
            seconds += time.process_time() - start
            found.append(largest(model, data, workload))
        yield shown(*np.mean(found, axis=0))
        price = rho * price / replaced(data)
    yield f"{seconds / 2 / runs:.1f}"


def replaced(data: Coded) -> float:
    """The rho of what was asked last, where a row is replaced."""
    return float(sum(cost.rho * (2 if isinstance(request, NoisySums) and len(request.cells) > 1 else 1) for request, cost in data.asked
                     if isinstance(request, NoisySums | FarthestCount)))


def maximum(error: float, _: float) -> str:
    return f"{error:.4f}".lstrip("0")


def both(error: float, variation: float) -> str:
    return f"{error:.4f} / {variation:.3f}"


def adult(folder: Path) -> tuple[TableDomain, Places, Places, tuple[Columns, ...]]:
    """Thirteen columns of Adult, private and public rows, and the 256 marginals of the published workload."""
    import pandas as pd

    told = json.loads((folder / "adult_mwempub13.meta.json").read_text(encoding="utf-8"))
    domain = TableDomain(tuple(told["domain"]), tuple(told["domain"].values()))
    frame = pd.read_parquet(folder / "adult_mwempub13.parquet")
    private, public = (frame[frame.private == kind][list(domain.columns)].to_numpy(dtype=np.int64) for kind in (1, 0))
    return domain, private, public, tuple(map(tuple, told["workload_3way_256"]))


def public_lines(folder: Path, epsilons: list[float], runs: int) -> Iterator[list[str]]:
    domain, private, public, workload = adult(folder)
    for less in PUBLISHED:
        rows = biased(public, float((private[:, 0] == 0).mean()), less, np.random.default_rng(0))
        data = Coded(domain, private, public=rows)
        for epsilon in epsilons:
            rho = rho_of(epsilon, len(private)**-2)
            yield [f"{less:g}", str(len(rows)), f"{epsilon:g}", *figures(data, "mwem_pub", rho, workload, runs, maximum),
                   PUBLISHED[less].get(epsilon, ""), GAUSSIAN.get(epsilon, "")]


def dual_lines(folder: Path, epsilons: list[float], runs: int) -> Iterator[list[str]]:
    domain, private, _, workload = adult(folder)
    data = Coded(domain, private)
    for epsilon in epsilons:
        rho = rho_of(epsilon, len(private)**-2)
        yield [f"{epsilon:g}", *figures(data, "dualquery", rho, workload, runs, maximum), DUAL.get(epsilon, "")]


def plain_lines(folder: Path, epsilons: list[float], runs: int) -> Iterator[list[str]]:
    whole, private, _, _ = adult(folder)
    domain = whole.project(SEVEN)
    data = Coded(domain, private[:, [whole.columns.index(column) for column in SEVEN]])
    workload = marginals_of(domain)
    for epsilon in epsilons:
        rho = rho_of(epsilon, len(private)**-2)
        for single in (False, True):
            yield [f"{epsilon:g}", "single counts" if single else "marginals",
                   *figures(data, "mwem", rho, workload, runs, both, single=single), PLAIN.get(epsilon, "")]


def state_lines(folder: Path, epsilons: list[float], runs: int) -> Iterator[list[str]]:
    """Massachusetts: people of 2019 are private, and those of 2018 public. Ages are in classes; values are those of either year."""
    import pandas as pd

    years = [pd.read_parquet(folder / f"acs_ma{year}.parquet")[list(STATE_COLUMNS)] for year in (2018, 2019)]
    for frame in years:
        frame["AGEP"] = (frame["AGEP"].astype(int) // AGES).astype(str)
    values = {column: sorted({*years[0][column], *years[1][column]}) for column in STATE_COLUMNS}
    public, private = (np.stack([frame[column].map({value: at for at, value in enumerate(values[column])}).to_numpy(dtype=np.int64)
                                 for column in STATE_COLUMNS], axis=1) for frame in years)
    domain = TableDomain(STATE_COLUMNS, tuple(len(values[column]) for column in STATE_COLUMNS))
    data, workload = Coded(domain, private, public=public), marginals_of(domain)
    alone = max(float(np.abs(counts_of(domain, public, columns) / len(public) - data.counts(columns) / len(private)).max()) for columns in workload)
    yield ["", "the public table alone", maximum(alone, 0), "", "", ".0251"]
    for epsilon in epsilons:
        rho = rho_of(epsilon, len(private)**-2)
        yield [f"{epsilon:g}", f"{len(workload)} marginals, {sum(map(domain.cells, workload)):,} counts",
               *figures(data, "mwem_pub", rho, workload, runs, maximum), STATES.get(epsilon, "")]


TOLD = {
    "pub": ("MWEM+PUB on Adult, 256 marginals of three of 13 columns: the largest error", public_lines,
            ["fewer females by", "public rows", "epsilon", "same rho", "replaced", "CPU s", "published, best", "Gaussian, each / best strategy"]),
    "states": ("MWEM+PUB, Massachusetts 2018 for 2019, all marginals of three of 18 columns: the largest error", state_lines,
               ["epsilon", "", "same rho", "replaced", "CPU s", "published"]),
    "plain": ("MWEM on Adult, marginals of three of seven columns: the largest error / mean total variation distance", plain_lines,
              ["epsilon", "in a round", "same rho", "replaced", "CPU s", "measured before"]),
    "dual": ("DualQuery on Adult, 256 marginals of three of 13 columns: the largest error", dual_lines,
             ["epsilon", "same rho", "replaced", "CPU s", "measured before"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("."))
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--parts", default=",".join(TOLD))
    parser.add_argument("--epsilons", default=".1,.25,.5,1")
    chosen = parser.parse_args()
    for name in ("adult_mwempub13.parquet", "adult_mwempub13.meta.json", "acs_ma2018.parquet", "acs_ma2019.parquet"):
        if not (chosen.data / name).exists():
            raise SystemExit(f"{name} is not there")
    for part in chosen.parts.split(","):
        title, lines, header = TOLD[part]
        print(table(title, header, list(lines(chosen.data, list(map(float, chosen.epsilons.split(","))), chosen.runs))), flush=True)


if __name__ == "__main__":
    main()
