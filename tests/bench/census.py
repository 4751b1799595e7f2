"""Tables, ranges and pyramids as workloads, beside the same questions one by one, and beside smartnoise-sql, at equal prices.

    python tests/bench/census.py --adult ../shared/data/adult_coded14.parquet --rows 1000000 --data bench-data

A cube over five columns (3,780 numbers in 32 tables), 500 random ranges of ages, and a pyramid of ages by sex with running totals,
over Adult and over generated rows. One by one, statements share the price evenly; running totals are added up from noisy counts.
smartnoise-sql gets the same statements one by one, without bounding (each entity has one row) and without censoring, where its
environment is below --data (`against_smartnoise.py` makes it). It tells no groups without rows: those count as told exactly.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from bench_clock import table

import dpsql
from dpsql.kernel.ledger import Ledger

SIZES = {"sex": 2, "race": 5, "relationship": 6, "workclass": 9, "income": 2, "age": 85}
CUBE = ("sex", "race", "relationship", "workclass", "income")
POLICY = """
version = 1
database = "people.duckdb"
[entities.person]
table = "person"
key = "pid"
[tables.person]
key = "pid"
[tables.person.columns]
pid = {}
""" + "\n".join(f"{name} = {{ range = [0, {size - 1}], nullable = false }}" for name, size in SIZES.items()) + """
[budgets.pure]
entity = "person"
epsilon = 1000
[budgets.concentrated]
entity = "person"
rho = 1000
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Statements as a workload, the same one by one, and what the numbers of either are, with the sizes of their keys."""

    name: str
    together: list[str]
    alone: list[tuple[str, tuple[int, ...]]]
    truth: np.ndarray
    gathered: Callable[[list[np.ndarray]], np.ndarray] = lambda parts: np.concatenate(parts)


def subsets(keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """In the order of CUBE."""
    return [(), *((key, *rest) for at, key in enumerate(keys) for rest in subsets(keys[at + 1:]))]


def cases(values: dict[str, np.ndarray]) -> list[Case]:
    def counts(keys: tuple[str, ...]) -> np.ndarray:
        codes = np.zeros(len(values["age"]), dtype=np.int64)
        for key in keys:
            codes = codes * SIZES[key] + values[key]
        return np.bincount(codes, minlength=int(np.prod([SIZES[key] for key in keys])))

    sets = subsets(CUBE)
    grouped = [(f"SELECT {', '.join([*keys, 'COUNT(*) AS n'])} FROM person" + (f" GROUP BY {', '.join(keys)}" if keys else ""),
                tuple(SIZES[key] for key in keys)) for keys in sets]
    draw, ages = np.random.default_rng(9001), np.concatenate([[0], np.cumsum(counts(("age",)))])
    ends = np.sort(draw.integers(0, SIZES["age"], (500, 2)), axis=1)
    ranges = [f"SELECT COUNT(*) AS n FROM person WHERE age BETWEEN {low} AND {high}" for low, high in ends]
    pyramid = counts(("sex", "age")).reshape(2, -1)
    return [
        Case(name="cube over 5 columns", together=[f"SELECT COUNT(*) FROM person GROUP BY CUBE ({', '.join(CUBE)})"], alone=grouped,
             truth=np.concatenate([counts(keys) for keys in sets])),
        Case(name="500 ranges of ages", together=ranges, alone=[(text, ()) for text in ranges], truth=ages[ends[:, 1] + 1] - ages[ends[:, 0]]),
        Case(name="pyramid, running totals", truth=pyramid.cumsum(axis=1).reshape(-1),
             together=["SELECT SUM(COUNT(*)) OVER (PARTITION BY sex ORDER BY age) FROM person GROUP BY sex, age"],
             alone=[("SELECT sex, age, COUNT(*) AS n FROM person GROUP BY sex, age", (2, SIZES["age"]))],
             gathered=lambda parts: parts[0].reshape(2, -1).cumsum(axis=1).reshape(-1)),
    ]


def measured(action: Callable[[int], np.ndarray], case: Case, runs: int) -> tuple[float, float]:
    """RMSE over all numbers and runs, and the seconds of a run."""
    start, squares = time.perf_counter(), []
    for run in range(runs):
        squares.append((action(run) - case.truth) ** 2.0)
    return float(np.sqrt(np.mean(squares))), (time.perf_counter() - start) / runs


def ours(folder: Path, case: Case, price: str, amount: float, runs: int) -> list[str]:
    budget = "pure" if price == "epsilon" else "concentrated"
    who = re.sub("[^a-z0-9]+", "-", case.name.lower())

    def last(rows: Any) -> np.ndarray:
        return np.array([row[-1] for row in rows], dtype=float)

    def together(run: int) -> np.ndarray:
        with dpsql.connect(policy=folder / "dpsql.toml", budget=budget, analyst=f"{who}-{run}") as con:
            made = con.workload(case.together, **{price: amount})
            return np.concatenate([last(answer.rows) for answer in made])

    def alone(run: int) -> np.ndarray:
        with dpsql.connect(policy=folder / "dpsql.toml", budget=budget, analyst=f"{who}-alone-{run}",
                           **{price: amount / len(case.alone)}) as con:
            return case.gathered([last(con.execute(text).fetchall()) for text, _ in case.alone])

    first, seconds = measured(together, case, runs)
    one_by_one, longer = measured(alone, case, runs)
    return [f"{first:.4g}", f"{seconds:.1f}", f"{one_by_one:.4g}", f"{longer:.1f}", f"{one_by_one / first:.2f}"]


def theirs(python: Path, folder: Path, rows: int, case: Case, epsilon: float, runs: int) -> list[str]:
    if not python.exists():
        return ["", "", ""]
    task = {"database": str(folder / "people.duckdb"), "rows": rows, "sizes": SIZES, "epsilon": epsilon / len(case.alone),
            "queries": [text for text, _ in case.alone], "runs": runs}
    ended = subprocess.run([python, Path(__file__).with_name("census_worker.py")], input=json.dumps(task), capture_output=True,
                           text=True, check=False)
    if ended.returncode:
        return ["failed", ended.stderr.strip().splitlines()[-1][:60], ""]
    told = json.loads(ended.stdout)
    squares, missing = [], []
    for run in range(runs):
        parts = []
        for found, (_, sizes) in zip(told["rows"][run * len(case.alone):], case.alone, strict=False):
            own = np.full(int(np.prod(sizes)), np.nan)
            for row in found:
                own[int(np.ravel_multi_index([int(float(part)) for part in row[:-1]], sizes)) if sizes else 0] = float(row[-1])
            parts.append(own)
        squares.append((case.gathered([np.nan_to_num(part) for part in parts]) - case.truth) ** 2.0)
        missing.append(np.mean(np.isnan(np.concatenate(parts))))
    return [f"{float(np.sqrt(np.mean(squares))):.4g}", f"{told['seconds']:.1f}", f"{np.mean(missing):.0%}"]


def generated(rows: int) -> dict[str, np.ndarray]:
    """Skewed columns, drawn by themselves."""
    draw = np.random.default_rng(1)
    return {name: np.minimum(draw.geometric(2.5 / (size + 2), rows) - 1, size - 1) for name, size in SIZES.items()}


def adult(path: Path) -> dict[str, np.ndarray]:
    found = duckdb.execute(f"SELECT * REPLACE (\"income>50K\" AS \"income>50K\") FROM '{path}'").fetchnumpy()
    return {name: np.asarray(found["income>50K" if name == "income" else name], dtype=np.int64) for name in SIZES}


def filled(folder: Path, values: dict[str, np.ndarray]) -> None:
    import pandas as pd

    frame = pd.DataFrame({"pid": np.arange(len(values["age"])), **values})
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("frame", frame)
        connection.execute("CREATE TABLE person AS SELECT * FROM frame")
        connection.execute("ALTER TABLE person ADD PRIMARY KEY (pid)")
    (folder / "dpsql.toml").write_text(POLICY)
    Ledger.create(folder / "dpsql.ledger").close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--only", default="", help="a part of the name of the questions")
    parser.add_argument("--price", nargs="*", default=["epsilon", "rho"], help="epsilon, rho or both")
    parser.add_argument("--adult", type=Path, help="adult_coded14.parquet")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench", help="where the environment is kept")
    given = parser.parse_args()
    sources = {f"generated, {given.rows} rows": lambda: generated(given.rows)}
    if given.adult is not None:
        sources = {"Adult": lambda: adult(given.adult), **sources}
    for name, source in sources.items():
        with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as made:
            values = source()
            filled(Path(made), values)
            lines = []
            for case in (case for case in cases(values) if given.only in case.name):
                for price, amount in ((price, amount) for price, amount in (("epsilon", 1.0), ("rho", 0.05)) if price in given.price):
                    other = theirs(given.data / "smartnoise" / "bin" / "python", Path(made), len(values["age"]), case, amount, given.runs) if (
                        price == "epsilon") else ["", "", ""]
                    lines.append([case.name, f"{price} = {amount:g}", *ours(Path(made), case, price, amount, given.runs), *other])
            print(table(f"{name}: RMSE over all numbers, and seconds of a run ({given.runs} runs)",
                        ("questions", "price", "workload", "s", "one by one", "s", "ratio", "smartnoise", "s", "not told"), lines), flush=True)


if __name__ == "__main__":
    main()
