"""Errors, CPU seconds and memory of the methods of synthetic tables, beside published figures and other programs.

    python tests/bench/synthetic.py --tables ../shared/data --epsilons .1,1,10 --runs 3 --peers --data bench-data

Each row of a table is an entity. What a method asks is measured by the kernel, by its own requests, certificates, costs and noise,
only that nothing is charged; then as many rows are drawn as there seem to be. The error of a marginal is the total variation
distance of its shares; errors are means over all marginals of one, two and three columns, and of runs. Seconds are of measuring,
with all fits, and of the draw; memory is the most that the process has, with pandas, DuckDB and the table. Every run has a process
of its own. A price is (epsilon, delta), of which methods get the largest rho that implies it; with --pure it is a pure epsilon.

With --peers dpmm, privsyn-core and DataSynthesizer run beside, each in an environment of its own below --data, made at the first
run by pip; `synthetic_worker.py` calls them. Where one cannot be installed, or fails, or takes more than --patience seconds, the
table says so.

Tables: Adult as coded for Private-PGM (48,842 rows, 14 columns, delta = 1e-9), and the ACS of Massachusetts 2019 (7,634 rows and
the 18 columns of `MASSACHUSETTS`, delta = 1e-6), whose values are those that rows of 2018 or 2019 have.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from bench_clock import table

from dpsql.frozen import Frozen

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.coded_tables import Coded, Places, total_variation

from dpsql.budgets.convert import rho_of
from dpsql.models.table_domain import TableDomain
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.trusted.accounting.cost import concentrated, pure

MASSACHUSETTS = ("PUMA", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "DENSITY", "INDP_CAT", "EDU",
                 "PINCP_DECILE", "DVET", "DREM", "DPHY", "DEYE", "DEAR")
PUBLISHED = {
    ("adult", "1"): (("MST, mbi 2.0.0", ".0087 / .0553 / .1197", "19", "1040"),
                     ("MST, dpmm 0.1.9, 10,000 iterations", ".0094 / .0585 / .1260", "80", "230"),
                     ("AIM, dpmm 0.1.9, 28 rounds, 1 MB", ".0104 / .0441 / .0972", "43", "242"),
                     ("AIM, dpmm 0.1.9, 56 rounds, 4 MB", ".0096 / .0386 / .0863", "140", "253"),
                     ("PrivBayes with a network, dpmm 0.1.9", ".0235 / .0738 / .1396", "45", "231"),
                     ("PrivBayes, DataSynthesizer, of twice epsilon", ".0529 / .1210 / .1971", "37", "306")),
    ("adult", "1/10"): (("MST, mbi 2.0.0", ".0621 / .1689 / .2893", "", ""),),
    ("adult", "10"): (("MST, mbi 2.0.0", ".0061 / .0495 / .1115", "", ""),),
    ("acs", "1"): (("MST, played with numpy's noise", ".008 / .046 / .100", "0.8", ""),
                   ("AIM, played with numpy's noise", ".007 / .036 / .078", "30", "")),
}
PEERS = {"dpmm": ("dpmm==0.1.9", ("MST", "AIM", "PrivBayes")), "privsyn-core": ("privsyn-core==0.1.1", ("",)),
         "DataSynthesizer": ("DataSynthesizer==0.1.13", ("",))}


class BenchTable(Frozen):
    """A table of whole numbers from 0 on, and the delta of its prices."""

    name: str
    domain: TableDomain
    places: Places
    delta: Fraction


class Run(Frozen):
    """One table that was drawn: the errors of its marginals of 1, 2 and 3 columns, seconds and megabytes; or why there is none."""

    errors: tuple[float, ...] = ()
    requests: int | None = None
    fitted: float = 0.0
    drawn: float | None = None
    mb: float = 0.0
    failed: str = ""


def adult(folder: Path) -> BenchTable:
    import pandas as pd

    sizes = json.loads((folder / "adult_coded14.domain.json").read_text(encoding="utf-8"))
    rows = pd.read_parquet(folder / "adult_coded14.parquet")[list(sizes)].to_numpy(dtype=np.int64)
    return BenchTable(name="adult", domain=TableDomain(tuple(sizes), tuple(sizes.values())), places=rows, delta=Fraction(1, 10**9))


def acs(folder: Path) -> BenchTable:
    import pandas as pd

    earlier, rows = (pd.read_parquet(folder / f"acs_ma{year}.parquet") for year in (2018, 2019))
    values = {column: sorted({*earlier[column], *rows[column]}) for column in MASSACHUSETTS}
    coded = [np.searchsorted(np.array(values[column]), rows[column].to_numpy(dtype=str)) for column in MASSACHUSETTS]
    sizes = tuple(len(values[column]) for column in MASSACHUSETTS)
    return BenchTable(name="acs", domain=TableDomain(MASSACHUSETTS, sizes), places=np.stack(coded, axis=1), delta=Fraction(1, 10**6))


TABLES = {"adult": (adult, ("adult_coded14.parquet", "adult_coded14.domain.json")),
          "acs": (acs, ("acs_ma2018.parquet", "acs_ma2019.parquet"))}


def errors_of(data: BenchTable, drawn: Places) -> tuple[float, ...]:
    inside = np.clip(drawn, 0, np.array(data.domain.sizes) - 1)
    return tuple(total_variation(data.domain, data.places, inside, size) for size in range(1, min(3, len(data.domain.columns)) + 1))


def ours(data: BenchTable, method: str, epsilon: Fraction, seed: int, is_pure: bool) -> Run:
    """One run of a method, in a process of its own."""
    coded = Coded(data.domain, data.places)
    price = pure(epsilon) if is_pure else concentrated(rho_of(epsilon, data.delta))
    refusal = METHODS[method].refusal(coded.task(price))
    if refusal is not None:
        return Run(failed=f"refused: {refusal.why}")
    start = time.process_time()
    model = coded.measured(METHODS[method], price).model
    asked = time.process_time()
    drawn = model.draw(max(round(model.total), 1), np.random.default_rng(seed))
    ended = time.process_time()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Run(errors=errors_of(data, drawn), requests=len(coded.asked), fitted=asked - start, drawn=ended - asked, mb=most)


def alone(data: BenchTable, method: str, epsilon: Fraction, seed: int, is_pure: bool) -> Run:
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(ours, data, method, epsilon, seed, is_pure).result()


def environment(folder: Path, peer: str) -> Path | str:
    """The python of an environment with the other program, made where there is none; or why there cannot be one."""
    place = folder / f"peer-{peer}"
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        venv.create(place, with_pip=True, clear=True)
        ended = subprocess.run([python, "-m", "pip", "install", "--quiet", PEERS[peer][0]], capture_output=True, text=True, check=False)
        if ended.returncode:
            return "does not install here: " + (ended.stderr.strip().splitlines() or ["pip failed"])[-1][:100]
        (place / "complete").touch()
    return python


def theirs(data: BenchTable, python: Path, peer: str, method: str, epsilon: Fraction, seed: int, patience: float) -> Run:
    """One run of another program, in its own environment."""
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        rows, drawn = Path(folder, "rows.npy"), Path(folder, "drawn.npy")
        np.save(rows, data.places)
        task: dict[str, Any] = {"peer": peer, "method": method, "epsilon": float(epsilon), "delta": float(data.delta), "seed": seed,
                                "table": str(rows), "drawn": str(drawn), "sizes": dict(zip(data.domain.columns, data.domain.sizes, strict=True))}
        try:
            ended = subprocess.run([python, Path(__file__).with_name("synthetic_worker.py")], input=json.dumps(task), timeout=patience,
                                   capture_output=True, text=True, check=False)
        except subprocess.TimeoutExpired:
            return Run(failed=f"not finished in {patience:g} s")
        if ended.returncode:
            return Run(failed="failed: " + (ended.stderr.strip().splitlines() or ["no message"])[-1][:100])
        found = json.loads(ended.stdout.strip().splitlines()[-1])
        return Run(errors=errors_of(data, np.load(drawn)), fitted=found["cpu"], mb=found["mb"])


def line(name: str, runs: Sequence[Run]) -> list[str]:
    """The means of the runs of one method; of three columns the least and the largest error too."""
    failed = next((run.failed for run in runs if run.failed), "")
    if failed:
        return [name, "", failed, "", "", "", ""]
    errors = np.array([run.errors for run in runs])
    spread = f"{_short(errors[:, -1].min())} to {_short(errors[:, -1].max())}" if len(runs) > 1 else ""
    return [name, "" if runs[0].requests is None else str(round(np.mean([run.requests for run in runs if run.requests is not None]))),
            " / ".join(map(_short, errors.mean(axis=0))), spread, f"{np.mean([run.fitted for run in runs]):.1f}",
            "" if runs[0].drawn is None else f"{np.mean([run.drawn for run in runs if run.drawn is not None]):.1f}",
            f"{max(run.mb for run in runs):.0f}"]


def _short(error: float) -> str:
    return f"{error:.4f}".removeprefix("0")


def floors(data: BenchTable) -> Iterator[list[str]]:
    """What the rows themselves, drawn again, and independent columns would be off by."""
    draws = np.random.default_rng(0)
    again = data.places[draws.integers(0, len(data.places), len(data.places))]
    yield ["as many rows of the table drawn again", "", " / ".join(map(_short, errors_of(data, again))), "", "", "", ""]
    apart = np.stack([draws.permutation(column) for column in data.places.T], axis=1)
    yield ["independent columns, exact", "", " / ".join(map(_short, errors_of(data, apart))), "", "", "", ""]


def compared(data: BenchTable, epsilon: Fraction, chosen: argparse.Namespace) -> Iterator[list[str]]:
    for method in chosen.methods.split(","):
        yield line(method, [alone(data, method, epsilon, seed, chosen.pure) for seed in range(chosen.runs)])
    for peer, (_, methods) in PEERS.items() if chosen.peers else ():
        python = environment(chosen.data, peer)
        for method in methods:
            name = f"{method}, {peer}" if method else peer
            yield line(name, [Run(failed=python)] if isinstance(python, str) else [
                theirs(data, python, peer, method, epsilon, seed, chosen.patience) for seed in range(chosen.runs)])
    for name, errors, seconds, mb in PUBLISHED.get((data.name, str(epsilon)), ()):
        yield [f"published: {name}", "", errors, "", seconds, "", mb]
    yield from floors(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", type=Path, default=Path(), help="where the tables are")
    parser.add_argument("--only", default=",".join(TABLES), help="names of tables")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--pure", action="store_true", help="pure epsilons")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--peers", action="store_true", help="other programs too")
    parser.add_argument("--patience", type=float, default=300, help="seconds for one run of another program")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench", help="where environments are kept")
    chosen = parser.parse_args()
    for name in chosen.only.split(","):
        read, files = TABLES[name]
        missing = [file for file in files if not (chosen.tables / file).exists()]
        if missing:
            print(f"{name}: {missing[0]} is not in the folder\n")
            continue
        data = read(chosen.tables)
        for epsilon in map(Fraction, chosen.epsilons.split(",")):
            told = f"epsilon = {float(epsilon):g}" + (", pure" if chosen.pure else f", delta = {float(data.delta):g}")
            print(table(f"{name}: {len(data.places)} rows of {len(data.domain.columns)} columns, {told}, {chosen.runs} runs: total variation "
                        "distance of the marginals", ["", "requests", "1 / 2 / 3 columns", "3, least to most", "CPU s", "to draw", "MB"],
                        list(compared(data, epsilon, chosen))), flush=True)


if __name__ == "__main__":
    main()
