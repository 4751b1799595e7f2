"""CPU seconds of planning, answering and checking many conditions at once.

    python tests/bench/many_ranges.py
    python tests/bench/many_ranges.py --conditions 50 --checks 20

500 ranges of a column with 65,536 values, and 500 rectangles over 256 x 256: as one workload of 500 statements, and the ranges also
as one statement with 500 aggregates, planned at epsilon = 1 and at rho = 0.1. "before" are the seconds of a version that evaluated
every condition at every value, on the same machine (two slow cores). `sd` is the root of the mean variance that is told. At last,
checks of as many counts on a synthetic table in one VALIDATE. Nothing of the time is the import of scipy, which is done beforehand.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.linalg
import scipy.optimize
import scipy.sparse.linalg
from bench_clock import table

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

POLICY = """
version = 1
[entities.person]
table = "t"
key = "id"
[tables.t]
source = "t.parquet"
key = "id"
[tables.t.columns]
id = {}
v = { range = [0, 65535], nullable = false }
x = { range = [0, 255], nullable = false }
y = { range = [0, 255], nullable = false }
[budgets.main]
entity = "person"
"""
BUDGETS = {"epsilon": "epsilon = 1000\n", "rho": "rho = 100\n"}
BEFORE = {("ranges", "epsilon"): 22.2, ("ranges", "rho"): 24.7, ("rectangles", "epsilon"): 15.4, ("rectangles", "rho"): 5.9}
ROWS = 20_000


def ranges(values: int, number: int, seed: int) -> list[tuple[int, int]]:
    dice = random.Random(seed)
    return [(min(pair), max(pair)) for pair in ((dice.randrange(values), dice.randrange(values)) for _ in range(number))]


def conditions(number: int) -> dict[str, list[str]]:
    wide, tall = ranges(256, number, 1), ranges(256, number, 2)
    return {"ranges": [f"v BETWEEN {low} AND {high}" for low, high in ranges(65_536, number, 1)],
            "rectangles": [f"x BETWEEN {left} AND {right} AND y BETWEEN {low} AND {high}"
                           for (left, right), (low, high) in zip(wide, tall, strict=True)]}


def rows(seed: int) -> pd.DataFrame:
    dice = np.random.default_rng(seed)
    return pd.DataFrame({"id": np.arange(ROWS), "v": dice.integers(0, 65_536, ROWS), "x": dice.integers(0, 256, ROWS),
                         "y": dice.integers(0, 256, ROWS)})


@contextmanager
def opened(account: str, price: float) -> Iterator[dpsql.dbapi.Connection]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        rows(1).to_parquet(folder / "t.parquet")
        (folder / "dpsql.toml").write_text(POLICY + BUDGETS[account], encoding="utf-8")
        Ledger.create(folder / "dpsql.ledger").close()
        given = {"epsilon": price} if account == "epsilon" else {"rho": price}
        with dpsql.connect(policy=folder / "dpsql.toml", ledger=folder / "dpsql.ledger", **given) as connection:
            connection.execute("SELECT COUNT(*) FROM t")
            yield connection


def clocked(action: object) -> tuple[object, float]:
    start = time.process_time()
    return action(), time.process_time() - start  # type: ignore[operator]


def lines(number: int) -> list[list[str]]:
    found = []
    for kind, tests in conditions(number).items():
        texts = [f"SELECT COUNT(*) FILTER (WHERE {test}) FROM t" for test in tests]
        whole = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'auto') " + ", ".join(
            f"COUNT(*) FILTER (WHERE {test})" for test in tests) + " FROM t"
        for account, price in (("epsilon", 1.0), ("rho", 0.1)):
            with opened(account, price) as connection:
                _, planned = clocked(lambda texts=texts, connection=connection: connection.explain(texts))
                answers, answered = clocked(lambda texts=texts, connection=connection: connection.workload(texts))
            errors = [answer.errors[0][0] for answer in answers]  # type: ignore[attr-defined]
            before = BEFORE[kind, account] if number == 500 else 0
            found.append([f"{number} {kind}, one workload", account, f"{planned:.2f}", f"{answered:.2f}", f"{before:g}" if before else "",
                          f"{np.sqrt(np.mean(np.square(errors))):.2f}"])
            if kind == "ranges":
                with opened(account, price) as connection:
                    _, planned = clocked(lambda whole=whole, connection=connection: connection.explain(whole))
                found.append([f"{number} {kind}, one statement", account, f"{planned:.2f}", "", "", ""])
    return found


def checks(number: int) -> list[list[str]]:
    found = []
    for kind, tests in conditions(number).items():
        with opened("epsilon", 1.0) as connection:
            asked = [f"(SELECT COUNT(*) FROM t WHERE {test}) WITHIN 500" for test in tests]
            _, seconds = clocked(lambda asked=asked, connection=connection: connection.validate(
                asked, synthetic=rows(2), suite="conjunction"))
        found.append([f"{number} {kind}", f"{seconds:.2f}"])
    return found


if __name__ == "__main__":
    assert scipy.linalg and scipy.optimize and scipy.sparse.linalg
    parser = argparse.ArgumentParser()
    parser.add_argument("--conditions", type=int, default=500)
    parser.add_argument("--checks", type=int, default=1000)
    given = parser.parse_args()
    print(table("Many conditions at once", ("conditions", "price", "plan", "answer", "plan before", "sd"), lines(given.conditions)))
    print(table("Checks in one VALIDATE", ("checks", "seconds"), checks(given.checks)))
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
