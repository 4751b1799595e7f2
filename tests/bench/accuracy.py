"""How far answers at epsilon = 1 are off, beside what theory promises: many runs of one task.

    python tests/bench/accuracy.py --rows 1000000 --runs 200

The task: one row for each person, one public table of households, the usual counts, sums, averages and quantiles. `RMSE` is
over runs, and over the cells of a GROUP BY; `own` the standard error that the answers state of themselves; `theory` the error
of the best noise known for the query (discrete Laplace for counts and sums; for an average Laplace on both halves of the range;
for a quantile ranks off by 1 / epsilon); `covered` how many of the 95 % intervals hold the truth.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
from bench_clock import Time, table, timed
from bench_data import again

from dpsql.answers.answer import Answer
from dpsql.engine.answering import answer
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.session import Session
from dpsql.frozen import Frozen
from dpsql.trusted.kernel.ledger import Ledger

POLICY = """
version = 1
[entities.person]
table = "person"
key = "pid"
[tables.person]
key = "pid"
[tables.person.columns]
pid = {}
hid = { nullable = false }
age = { range = [0, 100], nullable = false }
sex = { values = ["f", "m"], nullable = false }
educ = { range = [1, 16], nullable = false }
income = { bounds = [0, 200000], nullable = false }
state = { range = [1, 50], nullable = false }
married = { nullable = false }
[tables.household]
public = true
key = "hid"
[tables.household.columns]
hid = {}
region = { values = [1, 2, 3, 4], nullable = false }
[budgets.person]
entity = "person"
rho = 1000
delta = 0.1
"""
HIGH = 200_000

TABLES = """
CREATE TABLE household (hid INTEGER PRIMARY KEY, region INTEGER NOT NULL);
INSERT INTO household SELECT i, CAST(1 + floor(random() * 4) AS INTEGER) FROM range({homes}) t(i);
CREATE TABLE person (pid INTEGER PRIMARY KEY, hid INTEGER NOT NULL, age INTEGER NOT NULL, sex VARCHAR NOT NULL,
    educ INTEGER NOT NULL, income DOUBLE NOT NULL, state INTEGER NOT NULL, married BOOLEAN NOT NULL);
INSERT INTO person SELECT i, CAST(floor(random() * {homes}) AS INTEGER), CAST(floor(random() * 101) AS INTEGER),
    CASE WHEN random() < 0.5 THEN 'f' ELSE 'm' END, CAST(1 + floor(random() * 16) AS INTEGER),
    least(200000, exp(10.4 + 0.85 * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()))),
    CAST(1 + floor(random() * 50) AS INTEGER), random() < 0.5 FROM range({rows}) t(i);
"""

LAPLACE = math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1))  # of discrete Laplace noise at epsilon = 1


class Case(Frozen):
    """A query; `column` is the one that is looked at, `theory` its error, from the true answers and incomes in order."""

    name: str
    sql: str
    theory: Callable[[float, np.ndarray], float | None]
    column: int = -1


def count(truth: float, incomes: np.ndarray) -> float:
    return LAPLACE


def average(truth: float, incomes: np.ndarray) -> float:
    """Laplace noise on the sums of x / w and 1 - x / w, each row adding 1 to their total."""
    place = truth / HIGH
    return HIGH / len(incomes) * math.sqrt(2) * math.hypot(place, 1 - place)


def median(truth: float, incomes: np.ndarray) -> float:
    """The distance of the incomes that are one rank's scale, 1 / epsilon, above and below."""
    at = np.searchsorted(incomes, truth)
    around = 50
    return float(incomes[min(at + around, len(incomes) - 1)] - incomes[max(at - around, 0)]) / (2 * around) * math.sqrt(2)


def unknown(truth: float, incomes: np.ndarray) -> None:
    return None


CASES = (
    Case(name="a  COUNT(*) where", sql="SELECT COUNT(*) FROM person WHERE age >= 65 AND married", theory=count),
    Case(name="b  COUNT(*) by sex, educ", sql="SELECT sex, educ, COUNT(*) FROM person GROUP BY sex, educ", theory=count),
    Case(name="c  SUM(income) by state", sql="SELECT state, SUM(income) FROM person GROUP BY state",
         theory=lambda truth, incomes: HIGH * math.sqrt(2)),
    Case(name="d  AVG(income)", sql="SELECT AVG(income) FROM person", theory=average),
    Case(name="d  AVG(income) with COUNT, SUM", sql="SELECT COUNT(*), SUM(income), AVG(income) FROM person", theory=average),
    Case(name="   its COUNT(*)", sql="SELECT COUNT(*), SUM(income), AVG(income) FROM person", column=0, theory=unknown),
    Case(name="   its SUM(income)", sql="SELECT COUNT(*), SUM(income), AVG(income) FROM person", column=1, theory=unknown),
    Case(name="e  MEDIAN(income)", sql="SELECT MEDIAN(income) FROM person", theory=median),
    Case(name="f  COUNT(*) by region, joined", sql="SELECT region, COUNT(*) FROM person JOIN household USING (hid) GROUP BY region",
         theory=count),
    Case(name="g  COUNT(DISTINCT pid)", sql="SELECT COUNT(DISTINCT pid) FROM person", theory=count),
    Case(name="g2 COUNT(DISTINCT hid)", sql="SELECT COUNT(DISTINCT hid) FROM person", theory=count),
    Case(name="h  VAR_SAMP(income)", sql="SELECT VAR_SAMP(income) FROM person", theory=unknown),
    Case(name="i  STDDEV(age)", sql="SELECT STDDEV(age) FROM person", theory=unknown),
)


def made(rows: int, folder: Path) -> duckdb.DuckDBPyConnection:
    """The data of the task in a folder, with a policy; returns the plain database."""
    path, twin = folder / "task.duckdb", folder / "task.plain.duckdb"
    connection = duckdb.connect(str(path))
    connection.execute("SELECT setseed(0.25)")
    connection.execute(TABLES.format(rows=rows, homes=max(1, rows * 2 // 5)))
    connection.close()
    shutil.copy(path, twin)
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    return duckdb.connect(str(twin), read_only=True)


def opened(folder: Path) -> Session:
    """A session with a new ledger that asks at epsilon = 1."""
    ledger = folder / f"{uuid.uuid4().hex}.ledger"
    Ledger.create(ledger).close()
    return open_session(folder / "task.duckdb", folder / "policy.toml", ledger, ConnectionTerms(analyst="bench", epsilon=1))


def measured(case: Case, session: Session, truth: list[float], incomes: np.ndarray, runs: int) -> list[str]:
    errors: list[list[float]] = []
    own: list[list[float]] = []
    covered: list[bool] = []
    times: list[Time] = []
    for run in range(runs):
        answers: list[Answer] = []
        times.append(timed(lambda run=run, answers=answers: answers.append(answer(case.sql, again(session, run)))))
        rows = answers[0].rows
        assert len(rows) == len(truth) and not answers[0].stored
        values = [float(row[case.column]) for row in rows]
        errors.append([value - true for value, true in zip(values, truth, strict=True)])
        own.append([row[case.column] or 0.0 for row in answers[0].errors])
        intervals = [row[case.column] or (true, true) for row, true in zip(answers[0].intervals, truth, strict=True)]
        covered += [low <= true <= high for (low, high), true in zip(intervals, truth, strict=True)]
    off, stated = np.array(errors), np.array(own)
    rmse, theory = math.sqrt((off**2).mean()), case.theory(truth[0], incomes)
    return [case.name, f"{truth[0]:.6g}", f"{rmse:.4g}", f"{off.mean():.2g}", f"{math.sqrt((stated**2).mean()):.4g}",
            f"{theory:.4g}" if theory else "", f"{rmse / theory:.3f}" if theory else "", f"{100 * np.mean(covered):.1f} %",
            f"{1000 * np.median([time.cpu for time in times]):.1f}", f"{1000 * np.median([time.wall for time in times]):.1f}"]


HEADS = ("query", "truth", "RMSE", "bias", "own", "theory", "RMSE / theory", "covered", "CPU ms", "wall ms")


def report(rows: int, runs: int, folder: Path, only: str = "") -> list[list[str]]:
    connection = made(rows, folder)
    incomes = np.sort(connection.execute("SELECT income FROM person").fetchnumpy()["income"])
    lines = []
    for case in CASES:
        if only in case.name:
            session = opened(folder)  # for each case, as the ledger of one would not pay for all
            lines.append(measured(case, session, truth_of(case, connection), incomes, runs))
            session.close()
    connection.close()
    return lines


def truth_of(case: Case, connection: duckdb.DuckDBPyConnection) -> list[float]:
    """The column of the case by plain SQL, in the order of dpsql's groups."""
    keys = case.sql.count(",", 0, case.sql.index("FROM")) if "GROUP BY" in case.sql else 0
    order = " ORDER BY " + ", ".join(str(i + 1) for i in range(keys)) if keys else ""
    return [float(row[case.column]) for row in connection.execute(case.sql + order).fetchall()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", default="", help="only the queries whose name holds this")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        lines = report(given.rows, given.runs, Path(folder), given.only)
    print(table(f"{given.rows} persons, epsilon = 1 for each query, {given.runs} runs", HEADS, lines))


if __name__ == "__main__":
    main()
