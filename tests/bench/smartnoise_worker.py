"""Runs the queries of `against_smartnoise.py` with smartnoise-sql, in an environment of its own, and prints JSON.

smartnoise-sql knows no DuckDB. Its Postgres reader is given a DuckDB connection through a shim, which leaves out transactions
and moves RANDOM() out of the window that DuckDB refuses it in; the SQL is otherwise what smartnoise-sql prints for Postgres.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

warnings.filterwarnings("ignore")

import duckdb  # noqa: E402
from snsql import Privacy, from_connection  # noqa: E402

RANDOM = re.compile(r"ORDER BY RANDOM \( \) \) AS row_num FROM \( SELECT")
SETTINGS = {"as it comes": (False, True), "without key censoring": (False, False), "row privacy": (True, False)}


class Shim:
    """A DuckDB connection as a Postgres driver would look."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def cursor(self) -> Shim:
        self._cursor = self._connection.cursor()
        return self

    def execute(self, sql: str) -> None:
        self._cursor.execute(RANDOM.sub("ORDER BY r_ ) AS row_num FROM ( SELECT RANDOM() AS r_,", sql))

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    @property
    def description(self) -> Any:
        return self._cursor.description

    def __iter__(self) -> Any:
        return iter(self._cursor.fetchall())


def metadata(row_privacy: bool, censor: bool, rows: int) -> dict[str, Any]:
    columns = {"pid": {"type": "int", "private_id": not row_privacy}, "hid": {"type": "int"},
               "age": {"type": "int", "lower": 0, "upper": 100}, "sex": {"type": "string"},
               "educ": {"type": "int", "lower": 1, "upper": 16}, "income": {"type": "float", "lower": 0, "upper": 200_000},
               "state": {"type": "int", "lower": 1, "upper": 50}, "married": {"type": "boolean"}}
    return {"": {"main": {"person": {"rows": rows, "max_ids": 1, "row_privacy": row_privacy, "censor_dims": censor, **columns}}}}


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    made = action()
    return made, time.process_time() - start


def measured(connection: Any, rows: int, setting: tuple[bool, bool], sql: str, truth: list[float], runs: int) -> dict[str, Any]:
    """RMSE and CPU seconds where the whole query costs epsilon = 1, and the CPU seconds of the plain query beside it."""
    given, printed = metadata(*setting, rows), sql.replace("FROM person", "FROM main.person")

    def reader(epsilon: float) -> Any:
        return from_connection(Shim(connection), engine="postgres", metadata=given, privacy=Privacy(epsilon=epsilon, delta=1e-6))

    cost = float(reader(1.0).get_privacy_cost(printed)[0])
    squares, ours, plain = [], [], []
    for run in range(runs + 1):
        private = reader(1 / cost)
        found, took = timed(lambda: private.execute(printed))
        _, base = timed(lambda: connection.cursor().execute(sql).fetchall())
        if run:
            ours.append(took)
            plain.append(base)
            values = [float(row[-1]) for row in sorted(found[1:], key=lambda row: tuple(map(str, row[:-1])))]
            squares += [(value - true) ** 2 for value, true in zip(values, truth)]  # noqa: B905 - keys may be censored
    return {"rmse": statistics.fmean(squares) ** 0.5, "cpu": statistics.median(ours), "plain": statistics.median(plain), "cost": cost}


def main() -> None:
    task = json.load(sys.stdin)
    connection = duckdb.connect(task["database"], read_only=True)
    results: dict[str, dict[str, Any]] = {}
    for name, setting in SETTINGS.items():
        for query in task["queries"]:
            try:
                found = measured(connection, task["rows"], setting, query["sql"], query["truth"], task["runs"])
            except Exception as fault:
                found = {"refused": f"{type(fault).__name__}: {fault}"[:80]}
            results.setdefault(query["name"], {})[name] = found
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
