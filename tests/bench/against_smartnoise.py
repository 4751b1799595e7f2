"""Time and error at equal epsilon, beside smartnoise-sql, on the same DuckDB file.

    python tests/bench/against_smartnoise.py --rows 1000000 --runs 30 --data bench-data

smartnoise-sql needs older libraries, so it gets an environment of its own below --data: made at the first run, by pip. It has
no DuckDB reader; `smartnoise_worker.py` says how it reads from one. Epsilon is 1 for each query in all: smartnoise-sql spends
an epsilon for each column it measures, so each gets the part that makes the sum 1, by its own account. Three settings of it
are run: as it comes; without censoring of rare keys, which costs nothing here, as keys are declared; and with row privacy,
which leaves out the bounding by entity, as it may here, where each has one row. Each process times the plain query for itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from accuracy import Case, average, count, made, opened
from bench_clock import milliseconds, side_by_side, table
from bench_data import again

from dpsql.answers.answer import Answer
from dpsql.engine.answering import answer
from dpsql.engine.session import Session

PACKAGES = ("smartnoise-sql==1.0.10", "duckdb>=2.0,<2.1")
QUERIES = (
    Case(name="COUNT(*) where", sql="SELECT COUNT(*) AS n FROM person WHERE age >= 65 AND married", theory=count),
    Case(name="COUNT(*) by sex, educ", sql="SELECT sex, educ, COUNT(*) AS n FROM person GROUP BY sex, educ", theory=count),
    Case(name="SUM(income) by state", sql="SELECT state, SUM(income) AS s FROM person GROUP BY state",
         theory=lambda truth, incomes: 200_000 * 2**0.5),
    Case(name="AVG(income)", sql="SELECT AVG(income) AS a FROM person", theory=average),
    Case(name="COUNT(DISTINCT pid)", sql="SELECT COUNT(DISTINCT pid) AS n FROM person", theory=count),
    Case(name="COUNT(DISTINCT hid)", sql="SELECT COUNT(DISTINCT hid) AS n FROM person", theory=count),
)
SETTINGS = ("as it comes", "without key censoring", "row privacy")


def environment(folder: Path) -> Path:
    """The python of an environment with smartnoise-sql; made where there is none."""
    python = folder / "smartnoise" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "smartnoise", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def by_keys(rows: list[tuple[Any, ...]]) -> list[float]:
    """The last column, in the order of the keys as text, which both sides can tell."""
    return [float(row[-1]) for row in sorted(rows, key=lambda row: tuple(map(str, row[:-1])))]


def ours(session: Session, connection: duckdb.DuckDBPyConnection, case: Case, truth: list[float], runs: int) -> dict[str, float]:
    squares: list[float] = []

    def private(run: int) -> None:
        found = answer(case.sql, again(session, f"{case.name} {run}"))
        assert isinstance(found, Answer) and not found.stored
        squares.extend((value - true) ** 2 for value, true in zip(by_keys(list(found.rows)), truth, strict=True))

    base, took = side_by_side([lambda run: connection.cursor().execute(case.sql).fetchall(), private], runs)
    return {"rmse": statistics.fmean(squares) ** 0.5, "cpu": took.cpu, "plain": base.cpu}


def theirs(python: Path, database: Path, rows: int, runs: int, truths: dict[str, list[float]]) -> dict[str, Any]:
    task = {"database": str(database), "rows": rows, "runs": runs,
            "queries": [{"name": case.name, "sql": case.sql, "truth": truths[case.name]} for case in QUERIES]}
    ended = subprocess.run([python, Path(__file__).with_name("smartnoise_worker.py")], input=json.dumps(task),
                           capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def compared(rows: int, runs: int, python: Path, folder: Path) -> tuple[list[list[str]], list[list[str]]]:
    """A table of times and one of errors."""
    connection, session = made(rows, folder), opened(folder)
    incomes = np.sort(connection.execute("SELECT income FROM person").fetchnumpy()["income"])
    truths = {case.name: by_keys(connection.execute(case.sql).fetchall()) for case in QUERIES}
    mine = {case.name: ours(session, connection, case, truths[case.name], runs) for case in QUERIES}
    session.close()
    connection.close()
    found = theirs(python, folder / "task.plain.duckdb", rows, runs, truths)
    times, errors = [], []
    for case in QUERIES:
        own, others = mine[case.name], [found[case.name][name] for name in SETTINGS]
        times.append([case.name, milliseconds(own["plain"]), milliseconds(own["cpu"]), f"{own['cpu'] / own['plain']:.1f}"] + [
            text for other in others for text in (
                (milliseconds(other["cpu"]), f"{other['cpu'] / other['plain']:.1f}") if "cpu" in other else ("refused", ""))])
        theory = case.theory(truths[case.name][0], incomes)
        errors.append([case.name, f"{theory:.4g}", f"{own['rmse']:.4g}"] + [
            text for other in others for text in (
                (f"{other['rmse']:.4g}", f"{other['cost']:g}") if "rmse" in other else ("refused", ""))])
    return times, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench", help="where the environment is kept")
    given = parser.parse_args()
    python = environment(given.data)
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        times, errors = compared(given.rows, given.runs, python, Path(folder))
    settings = [f"smartnoise {name}" for name in SETTINGS]
    print(table(f"{given.rows} persons: CPU milliseconds, median of {given.runs}; ratios to the plain query in the same process",
                ("query", "plain", "dpsql", "ratio", *(head for name in settings for head in (name, "ratio"))), times))
    print(table(f"RMSE at epsilon = 1 in all, {given.runs} runs; `spends` is what smartnoise spends at its epsilon = 1",
                ("query", "theory", "dpsql", *(head for name in settings for head in (name, "spends"))), errors))


if __name__ == "__main__":
    main()
