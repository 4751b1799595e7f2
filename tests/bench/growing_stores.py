"""Time and bytes of prepared stores of a table that grows: two years of days, to which a day is added.

    python tests/bench/growing_stores.py --rows 10000000

Visits are in a file for each day. Each line is a process of its own, and its bytes are those that it asked the system for. Opening the
data after files have changed checks all of them, whether there is a store or not, so that is a line of its own (`open`); the others find
it remembered. Statements are asked in place first, then of the store, and of the store with a day added.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_clock import table

DAYS, EACH, BEGIN = 731, 100, dt.date(2024, 1, 1)
POLICY = """\
version = 1
[store]
prepare = false
{folder}
[entities.person]
table = "people"
key = "person_id"
[tables.people]
key = "person_id"
source = "people.parquet"
[tables.people.columns]
person_id = {{}}
age = {{ range = [0, 99] }}
[tables.visits]
source = "visits"
grows_by = "visited"
period = "day"
since = 2024-01-01
foreign_keys = [{{ columns = "person_id", references = "people(person_id)" }}]
rows_per_entity_and_period = 2
[tables.visits.columns]
person_id = {{}}
visited = {{}}
clinic = {{ range = [1, 50] }}
cost = {{ bounds = [0, 500], decimals = 0 }}
[budgets.main]
entity = "person"
epsilon = 1000
per_period = {{ epsilon = 1000 }}
"""
WHERE = {"one day": "visited = DATE '2025-06-11'", "one month": "visited >= DATE '2025-06-01' AND visited < DATE '2025-07-01'", "all days": "cost >= 0"}
STATEMENTS = {"sum by clinic": "SELECT clinic, SUM(cost) FROM visits WHERE {} GROUP BY clinic", "people": "SELECT COUNT(DISTINCT person_id) FROM visits WHERE {}"}


def write_day(folder: Path, day: int, rows: int) -> None:
    import duckdb

    people = rows // EACH
    start, end = (rows * at // DAYS for at in (day, day + 1))
    duckdb.sql(f"COPY (SELECT (hash(i) % {people})::BIGINT AS person_id, DATE '{BEGIN + dt.timedelta(days=day)}' AS visited, 1 + (hash(i + 1) % 50)::BIGINT "
               f"AS clinic, (hash(i + 2) % 501)::BIGINT AS cost FROM range({start}, {end}) AS t(i)) TO '{folder}/visits/{day:04}.parquet'")


def make(folder: Path, rows: int) -> None:
    """The files of all days but the last one."""
    import duckdb

    (folder / "visits").mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY (SELECT i AS person_id, (i * 7919) % 100 AS age FROM range({rows // EACH}) AS t(i)) TO '{folder}/people.parquet'")
    for day in range(DAYS - 1):
        write_day(folder, day, rows)


def bytes_read() -> int:
    """The bytes that this process has asked the system for."""
    return int(Path("/proc/self/io").read_text(encoding="utf-8").split()[1])


def work(folder: Path, step: str) -> dict[str, float]:
    import dpsql

    def measured(done: Callable[[], object]) -> dict[str, float]:
        wall, cpu, read = time.perf_counter(), time.process_time(), bytes_read()
        done()
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "mb": (bytes_read() - read) / 1e6}

    kind, _, rest = step.partition(": ")
    policy, ledger = folder / ("files.toml" if kind.startswith("files") else "stored.toml"), folder / "bench.ledger"
    if kind == "prepare":
        return measured(lambda: dpsql.prepare(policy=policy, ledger=ledger))
    with dpsql.connect(policy=policy, ledger=ledger, epsilon=0.1, analyst=kind.replace(" ", "-")) as connection:
        statement, _, where = rest.partition(" of ")
        return measured(lambda: connection.execute(STATEMENTS[statement].format(WHERE[where])).fetchall())


def opened(folder: Path) -> dict[str, float]:
    import dpsql

    wall, cpu, read = time.perf_counter(), time.process_time(), bytes_read()
    dpsql.connect(policy=folder / "files.toml", ledger=folder / "bench.ledger", epsilon=0.1, analyst="open").close()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "mb": (bytes_read() - read) / 1e6}


def lines(folder: Path, rows: int) -> Iterator[list[str]]:
    asked = [f"{statement} of {where}" for statement in STATEMENTS for where in WHERE]
    steps = ["open: all days", "prepare: all days", *(f"files: {one}" for one in asked), *(f"store: {one}" for one in asked), "add",
             "open: after a day", "prepare: one day more", *(f"store with a day more: {one}" for one in asked)]
    for step in steps:
        if step == "add":
            write_day(folder, DAYS - 1, rows)
            continue
        ended = subprocess.run([sys.executable, __file__, "--worker", step, "--data", folder], check=False, capture_output=True, text=True)
        if ended.returncode:
            raise RuntimeError(ended.stderr)
        found = json.loads(ended.stdout.strip().splitlines()[-1])
        yield [step, f"{found['wall']:.2f}", f"{found['cpu']:.2f}", f"{found['mb']:.1f}"]


def measured_at(rows: int, folder: Path) -> str:
    from dpsql.ledgers.ledger_reports import ReportingLedger

    make(folder, rows)
    for name, more in (("stored", ""), ("files", 'folder = "none"')):
        (folder / f"{name}.toml").write_text(POLICY.format(folder=more), encoding="utf-8")
    ReportingLedger.create(folder / "bench.ledger").close()
    return table(f"{rows:,} visits of {rows // EACH:,} people on {DAYS} days", ["", "wall s", "CPU s", "MB read"], [*lines(folder, rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of visits")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        print("\n" + json.dumps(opened(chosen.data) if chosen.worker.startswith("open") else work(chosen.data, chosen.worker)))
        return
    with tempfile.TemporaryDirectory(dir=chosen.data) as folder:
        print(measured_at(chosen.rows, Path(folder)))


if __name__ == "__main__":
    main()
