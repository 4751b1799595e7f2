"""Runs the statements of `census.py` one by one with smartnoise-sql, in an environment of its own, and prints their rows as JSON."""

from __future__ import annotations

import json
import sys
import time

import duckdb
from smartnoise_worker import Shim
from snsql import Privacy, from_connection


def main() -> None:
    task = json.load(sys.stdin)
    connection = duckdb.connect(task["database"], read_only=True)
    columns = {name: {"type": "int", "lower": 0, "upper": size - 1} for name, size in task["sizes"].items()}
    given = {"": {"main": {"person": {"rows": task["rows"], "row_privacy": True, "censor_dims": False, "pid": {"type": "int"}, **columns}}}}
    start, rows = time.perf_counter(), []
    for sql in task["queries"] * task["runs"]:
        private = from_connection(Shim(connection), engine="postgres", metadata=given, privacy=Privacy(epsilon=task["epsilon"], delta=1e-9))
        rows.append([[str(part) for part in row] for row in private.execute(sql.replace("FROM person", "FROM main.person"))[1:]])
    json.dump({"rows": rows, "seconds": (time.perf_counter() - start) / task["runs"]}, sys.stdout)


if __name__ == "__main__":
    main()
