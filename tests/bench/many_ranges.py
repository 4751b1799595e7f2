"""CPU seconds of planning, answering and checking many conditions at once.

    python tests/bench/many_ranges.py
    python tests/bench/many_ranges.py --conditions 50 --checks 20

500 ranges of a column with 65,536 values, and 500 rectangles over 256 x 256: as one workload of 500 statements, and the ranges also
as one statement with 500 aggregates, planned at epsilon = 1 and at rho = 0.1. "before" are the seconds of a version that evaluated
every condition at every value, on the same machine (two slow cores). `sd` is the root of the mean variance that is told. At last,
checks of as many counts on a synthetic table in one VALIDATE. `plain` is DuckDB by itself, which answers the same statements one by
one. Nothing of the time is the import of scipy, which is done beforehand.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import scipy.linalg
import scipy.optimize
import scipy.sparse.linalg
from bench_clock import Time, timed
from bench_results import Figure, Line, add_arguments, conclude, shown

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


def medians(runs: int, once: Callable[[], Sequence[Time]]) -> list[Time]:
    """The median of each of the times that several runs take."""
    return [Time(cpu=statistics.median(time.cpu for time in times), wall=statistics.median(time.wall for time in times))
            for times in zip(*(once() for _ in range(runs)), strict=True)]


def plainly(texts: Sequence[str]) -> Time:
    """What DuckDB takes for the same statements, one by one."""
    t = rows(1)
    with duckdb.connect() as connection:
        connection.register("given", t)
        connection.execute("CREATE TABLE t AS FROM given")
        return timed(lambda: [connection.execute(text).fetchall() for text in texts])


def workload(texts: Sequence[str], account: str, price: float, errors: list[float]) -> list[Time]:
    """Of DuckDB, of planning, and of answering. The told errors are added to a list."""
    with opened(account, price) as connection:
        planned = timed(lambda: connection.explain(texts))
        return [plainly(texts), planned, timed(lambda: errors.extend(answer.errors[0][0] for answer in connection.workload(texts)))]


def statement(text: str, account: str, price: float) -> list[Time]:
    with opened(account, price) as connection:
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (strategy = 'auto')"
        return [plainly([text]), timed(lambda: connection.explain(text.replace("SELECT", clause, 1)))]


def validated(tests: Sequence[str]) -> list[Time]:
    counts = [f"SELECT COUNT(*) FROM t WHERE {test}" for test in tests]
    with opened("epsilon", 1.0) as connection:
        asked = [f"({count}) WITHIN 500" for count in counts]
        return [plainly(counts), timed(lambda: connection.validate(asked, synthetic=rows(2), suite="conjunction"))]


def lines(number: int, runs: int) -> Iterator[Line]:
    for kind, tests in conditions(number).items():
        texts = [f"SELECT COUNT(*) FILTER (WHERE {test}) FROM t" for test in tests]
        whole = "SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE {test})" for test in tests) + " FROM t"
        for account, price in (("epsilon", 1.0), ("rho", 0.1)):
            errors: list[float] = []
            name = f"{number} {kind}, one workload"
            base, planned, answered = medians(runs, lambda: workload(texts, account, price, errors))
            before = BEFORE[kind, account] if number == 500 else 0
            yield Line([name, account, f"{planned.cpu:.2f}", f"{answered.cpu:.2f}", f"{base.cpu:.2f}", f"{before:g}" if before else "",
                        f"{np.sqrt(np.mean(np.square(errors))):.2f}"],
                       (Figure(line=f"{name}, {account}: plan", ours=planned, base=base),
                        Figure(line=f"{name}, {account}: answer", ours=answered, base=base)))
            if kind == "ranges":
                name = f"{number} {kind}, one statement"
                base, planned = medians(runs, lambda: statement(whole, account, price))
                yield Line([name, account, f"{planned.cpu:.2f}", "", f"{base.cpu:.2f}", "", ""],
                           (Figure(line=f"{name}, {account}: plan", ours=planned, base=base),))


def checks(number: int, runs: int) -> Iterator[Line]:
    for kind, tests in conditions(number).items():
        base, seconds = medians(runs, lambda: validated(tests))
        name = f"{number} {kind}"
        yield Line([name, f"{seconds.cpu:.2f}", f"{base.cpu:.2f}"], (Figure(line=f"{name} checked", ours=seconds, base=base),))


if __name__ == "__main__":
    assert scipy.linalg and scipy.optimize and scipy.sparse.linalg
    parser = argparse.ArgumentParser()
    parser.add_argument("--conditions", type=int, default=500)
    parser.add_argument("--checks", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1)
    add_arguments(parser)
    given = parser.parse_args()
    conclude(lambda: [
        *shown("Many conditions at once", ("conditions", "price", "plan", "answer", "plain", "plan before", "sd"),
               lines(given.conditions, given.runs)),
        *shown("Checks in one VALIDATE", ("checks", "seconds", "plain"), checks(given.checks, given.runs)),
    ], "many_ranges", given.conditions, given)
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")
