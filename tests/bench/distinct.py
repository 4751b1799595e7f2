"""How far COUNT(DISTINCT x) is off: values told one by one or vouched for by entities, beside noise on their number.

    python tests/bench/distinct.py --entities 2000 --runs 60

Entities have many rows, few of them very many. Some values are common, some have few entities, some none, and those of `own` have
one each. Of each column but this one it is known which values it may have; then again as if it were not. `laplace` is noise on the
number (with the limit that the policy declares, or one that is learned); `chosen` is what is chosen where none is named. RMSE is
over runs; `covered` how many 95 % intervals hold the truth, and `width` their median width, to their lower end where they are open
above.
"""

from __future__ import annotations

import argparse
import math
import re
import tempfile
from pathlib import Path

import duckdb
import numpy as np
from bench_clock import table
from bench_data import answers_of

POLICY = """
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {{}}
sector = {{ range = [1, 20], nullable = false }}
[tables.visits]
foreign_keys = [{{ columns = "id", references = "people(id)" }}]
{limit}
[tables.visits.columns]
id = {{}}
few = {{ range = [1, 20], nullable = false }}
common = {{ range = [1, 100], nullable = false }}
zipf = {{ range = [1, 200], nullable = false }}
rare = {{ range = [1, 600], nullable = false }}
own = {{}}
[budgets.person]
entity = "person"
rho = 1000
delta = 0.1
"""
LIMIT = 30
HEADS = ("column", "rows of an entity", "truth", "laplace RMSE", "chosen RMSE", "bias", "told", "covered", "width",
         "laplace width")


def made(entities: int, folder: Path, *, seed: int = 1) -> duckdb.DuckDBPyConnection:
    """People with 1 to LIMIT visits, mostly few. `few` has 14 of 20 values, `common` all, `zipf` a long tail, `rare` a value for
    every fourth entity."""
    draw = np.random.default_rng(seed)
    rows = np.minimum(LIMIT, 1 + draw.geometric(0.25, entities) + (draw.random(entities) < 0.05) * 20)
    owners = np.repeat(np.arange(entities), rows)
    many = len(owners)
    weights = 1 / np.arange(1, 201) ** 1.6
    columns = {"id": owners, "few": draw.integers(1, 15, many), "common": draw.integers(1, 101, many),
               "zipf": draw.choice(200, many, p=weights / weights.sum()) + 1,
               "rare": np.where(draw.random(many) < 0.02, draw.integers(2, 601, many), 1),
               "own": np.arange(many)}
    path = folder / "distinct.duckdb"
    connection = duckdb.connect(str(path))
    types = ", ".join(f"CAST({name} AS INTEGER) AS {name}" for name in columns)
    people = {"id": np.arange(entities), "sector": np.minimum(14, 1 + np.floor(draw.exponential(3, entities)))}
    for name, held in (("visits", columns), ("people", people)):
        parts = ", ".join(f"CAST({column} AS INTEGER) AS {column}" for column in held) if name == "people" else types
        given = {column: np.asarray(values) for column, values in held.items()}
        connection.register("given", _frame(given))
        connection.execute(f"CREATE TABLE {name} AS SELECT {parts} FROM given")
        connection.unregister("given")
    return connection


def _frame(columns: dict[str, np.ndarray]) -> object:
    import pandas as pd
    return pd.DataFrame(columns)


def measured(sql: str, folder: Path, policy: str, runs: int, truth: float) -> tuple[float, ...]:
    """RMSE, bias, the median error told, coverage and median width."""
    found = answers_of(sql, folder / "distinct.duckdb", policy, runs)
    off = np.array([float(one.rows[0][0]) for one in found]) - truth
    ends = np.array([one.intervals[0][0] for one in found], dtype=float)
    covered = float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
    widths = np.where(np.isfinite(ends[:, 1]), ends[:, 1] - ends[:, 0], [float(one.rows[0][0]) for one in found] - ends[:, 0])
    return (math.sqrt((off**2).mean()), float(off.mean()), float(np.median([one.errors[0][0] for one in found])), covered,
            float(np.median(widths)))


def report(entities: int, runs: int, folder: Path) -> list[list[str]]:
    connection = made(entities, folder)
    limits = ((f"{LIMIT}", POLICY.format(limit=f"rows_per_entity = {LIMIT}")), ("not declared", POLICY.format(limit="")))
    cases = [(f"visits.{column}", name, policy) for column in ("few", "common", "zipf", "rare") for name, policy in limits]
    cases.append(("people.sector", "1", limits[1][1]))
    cases += [(f"visits.{column}, no list", name, re.sub("range = .*?, nullable", "nullable", policy))
              for column in ("few", "common", "zipf", "rare", "own") for name, policy in limits]
    truths = {column: connection.execute("SELECT COUNT(DISTINCT {1}) FROM {0}".format(*column.split(",")[0].split("."))).fetchall()[0][0]
              for column, _, _ in cases}
    connection.close()
    lines = []
    for column, name, limit in cases:
        source, what = column.split(",")[0].split(".")
        plain = measured(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'laplace') COUNT(DISTINCT {what}) FROM {source}",
                         folder, limit, runs, truths[column])
        best = measured(f"SELECT COUNT(DISTINCT {what}) FROM {source}", folder, limit, runs, truths[column])
        lines.append([column, name, f"{truths[column]}", f"{plain[0]:.2f}", f"{best[0]:.2f}", f"{best[1]:.2f}",
                      f"{best[2]:.2f}", f"{100 * best[3]:.0f} %", f"{best[4]:.1f}", f"{plain[4]:.1f}"])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        lines = report(given.entities, given.runs, Path(folder))
    print(table(f"{given.entities} entities, epsilon = 1, {given.runs} runs", HEADS, lines))


if __name__ == "__main__":
    main()
