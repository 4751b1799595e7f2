"""Rows a second and memory of a snapshot of a table of PostgreSQL, beside psql's COPY TO of the same columns.

    python tests/bench/snapshots.py --rows 1000000,10000000

The table has six columns: two whole numbers, a numeric, a text, a day and a moment with its time zone. Each line is a process of its
own, so that memory is the most that it took. `refresh` is all that `dpsql refresh` does: it reads the table, writes Parquet, reads that
once and looks for repeated keys; `snapshot` does not verify; `copy` is COPY TO of CSV and of binary rows, by psql, into a file. The
server, which runs beside them, is that of the tests, in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench_clock import table

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.postgres import WHY, Postgres, fresh, program

POLICY = """\
version = 1
[store]
memory = "{memory}"
[entities.person]
table = "visits"
key = "id"
[tables.visits]
key = "id"
source = "{uri}"
[tables.visits.columns]
id = {{}}
clinic = {{}}
cost = {{}}
name = {{}}
day = {{}}
seen = {{}}
[budgets.main]
entity = "person"
epsilon = 1
"""
TABLE = """
CREATE TABLE visits AS SELECT i::bigint AS id, (i % 50)::int AS clinic, ((i::bigint * 7919 % 50000)::numeric / 100)::numeric(10,2) AS cost,
'name ' || i % 1000 AS name, date '2000-01-01' + (i % 9000)::int AS day, timestamptz '2020-01-01' + i * interval '1 second' AS seen
FROM generate_series(1, {rows}) AS t(i)"""


def refreshed(folder: Path, uri: str) -> None:
    import dpsql

    dpsql.refresh(policy=folder / "dpsql.toml")


def taken(folder: Path, uri: str) -> None:
    from dpsql.backends.snapshots import take_snapshot
    from dpsql.catalog.policy import read_policy
    from dpsql.engine.refreshing import databases_of

    policy = read_policy(folder / "dpsql.toml")
    take_snapshot(folder / "snapshot", databases_of(policy), memory=policy.memory)


def copied(form: str) -> Callable[[Path, str], None]:
    def copy(folder: Path, uri: str) -> None:
        subprocess.run([program("psql") or "psql", "-q", "-c", f"\\copy visits TO '{folder / form}' WITH (FORMAT {form})", uri], check=True)

    return copy


WAYS: dict[str, Callable[[Path, str], None]] = {
    "refresh": refreshed, "snapshot": taken, "copy, csv": copied("csv"), "copy, binary": copied("binary")}


def measured(way: str, folder: Path, uri: str) -> dict[str, Any]:
    ended = subprocess.run([sys.executable, __file__, "--worker", way, "--folder", folder, "--uri", uri], check=False, capture_output=True, text=True)
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


def lines(rows: int, folder: Path, database: Postgres, runs: int) -> Iterator[list[str]]:
    found = {way: [] for way in WAYS}
    for _ in range(runs):  # by turns, so that a slow spell of the machine hits all of them
        for way in WAYS:
            found[way].append(measured(way, folder, database.uri))
    base = min(one["wall"] for one in found["copy, csv"])
    for way, made in found.items():
        best = min(made, key=lambda one: one["wall"])
        yield [way, f"{best['wall']:.2f}", f"{best['cpu']:.2f}", f"{rows / best['wall'] / 1e6:.2f}", f"{best['mb']:.0f}", f"{best['wall'] / base:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="1000000", help="several, with commas, show how it grows")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--runs", type=int, default=3, help="of which the fastest is shown")
    for name in ("worker", "folder", "uri"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        wall = time.perf_counter()
        WAYS[chosen.worker](Path(chosen.folder), chosen.uri)
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print("\n" + json.dumps({"wall": time.perf_counter() - wall, "cpu": sum(one.ru_utime + one.ru_stime for one in used),
                                 "mb": (used[1] if chosen.worker.startswith("copy") else used[0]).ru_maxrss / 1024}))
        return
    if program("initdb") is None:
        sys.exit(WHY)
    for rows in map(int, chosen.rows.split(",")):
        database = fresh()
        database.run(TABLE.format(rows=rows), "ANALYZE visits")
        with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as name:
            folder = Path(name)
            (folder / "dpsql.toml").write_text(POLICY.format(uri=database.uri, memory=chosen.memory), encoding="utf-8")
            print(table(f"{rows:,} rows of six columns, {chosen.memory}, the fastest of {chosen.runs}", ["", "wall s", "CPU s", "M rows/s", "MB", "ratio"],
                        list(lines(rows, folder, database, chosen.runs))), flush=True)


if __name__ == "__main__":
    main()
