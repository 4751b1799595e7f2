"""Time and memory of statements over large Parquet files, beside the engine's own answer to the same question.

    python tests/bench/scale.py --rows 10000000,50000000 --memory 2GB [--in-place]

People have about ten visits each, spread at random over files of ten million rows. Each line is a process of its own, so that memory
is the most that this line took; the first one opens the files for the first time, which reads them once and looks for repeated keys,
and the others find that remembered. Then a store is prepared, from which the others are read, unless they are to be read `--in-place`.
`plain` is the same question asked of DuckDB by itself, over the same files, with as much memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench_clock import Time
from bench_results import Figure, Line, add_arguments, conclude, shown

EACH, FILE = 10, 10_000_000  # visits of a person, and rows of a file
POLICY = """\
version = 1
[store]
memory = "{memory}"
prepare = false
folder = "store{name}"
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
{key}
source = "visits"
foreign_keys = [{{ columns = "person_id", references = "people(person_id)" }}]
rows_per_entity = {limit}
[tables.visits.columns]
visit_id = {{}}
person_id = {{}}
clinic = {{ range = [1, 50] }}
cost = {{ bounds = [0, 500], decimals = 0 }}
[budgets.main]
entity = "person"
epsilon = 1000
"""
LINES = {
    "open for the first time": (EACH * 10, "SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM (SELECT person_id FROM people GROUP BY 1)"),
    "prepare": (5, "", "SELECT COUNT(*) FROM (SELECT person_id FROM people GROUP BY 1)"),
    "prepare, with a key": (5, "", "SELECT COUNT(*) FROM (SELECT person_id FROM people GROUP BY 1)"),
    "open again, count of people": (EACH * 10, "SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM people"),
    "sum, limit does not bite": (EACH * 10, "SELECT SUM(cost) FROM visits", "SELECT SUM(cost) FROM visits"),
    "sum, five rows of each": (5, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'rows') SUM(cost) FROM visits", "SELECT SUM(s) FROM (SELECT person_id, SUM(cost) AS s FROM visits GROUP BY 1)"),
    "the same, with a key": (5, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'rows') SUM(cost) FROM visits", "SELECT SUM(s) FROM (SELECT person_id, SUM(cost) AS s FROM visits GROUP BY 1)"),
    "sum, clip of totals": (EACH * 10, "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (bound = 'clip') SUM(cost) FROM visits", "SELECT SUM(s) FROM (SELECT person_id, SUM(cost) AS s FROM visits GROUP BY 1)"),
    "people with visits": (EACH * 10, "SELECT COUNT(DISTINCT person_id) FROM visits", "SELECT COUNT(DISTINCT person_id) FROM visits"),
    "median": (EACH * 10, "SELECT MEDIAN(cost) FROM visits", "SELECT MEDIAN(cost) FROM visits"),
    "average by clinic": (EACH * 10, "SELECT clinic, AVG(cost) FROM visits GROUP BY clinic", "SELECT clinic, AVG(cost) FROM visits GROUP BY 1"),
}


def make(folder: Path, rows: int) -> None:
    """The files, unless they are there."""
    import duckdb

    (folder / "visits").mkdir(parents=True, exist_ok=True)
    people = rows // EACH
    with duckdb.connect() as connection:
        for target, query in [
                (folder / "people.parquet", f"SELECT i AS person_id, (i * 7919) % 100 AS age FROM range({people}) AS t(i)"),
                *((folder / f"visits/{part:03}.parquet", f"SELECT i AS visit_id, (hash(i) % {people})::BIGINT AS person_id, 1 + (hash(i + 1) % 50)::BIGINT AS clinic, "
                   f"(hash(i + 2) % 501)::BIGINT AS cost FROM range({start}, {min(start + FILE, rows)}) AS t(i)")
                  for part, start in enumerate(range(0, rows, FILE)))]:
            if not target.exists():
                connection.execute(f"COPY ({query}) TO '{target}' (FORMAT PARQUET)")


def ours(folder: Path, name: str) -> None:
    import dpsql

    limit, text, _ = LINES[name]
    key = "-key" * ("key" in name)  # another key is another promise, and so needs a ledger of its own
    policy, ledger = folder / f"limit{limit}{key}.toml", folder / f"bench{key}.ledger"
    if name.startswith("prepare"):
        dpsql.prepare(policy=policy, ledger=ledger)
        return
    with dpsql.connect(policy=policy, ledger=ledger, epsilon=1, analyst="bench") as connection:
        connection.execute(text).fetchall()


def plain(folder: Path, name: str, memory: str) -> None:
    import duckdb

    with duckdb.connect(config={"memory_limit": memory, "temp_directory": str(folder / "spill")}) as connection:
        connection.execute(f"CREATE VIEW people AS FROM '{folder}/people.parquet'; CREATE VIEW visits AS FROM '{folder}/visits/*.parquet'")
        connection.execute(LINES[name][2]).fetchall()


def measured(folder: Path, who: str, name: str, memory: str) -> dict[str, float] | None:
    """What a line took; nothing where the engine by itself has not enough memory."""
    ended = subprocess.run([sys.executable, __file__, "--worker", who, "--name", name, "--data", folder, "--memory", memory], check=False,
                           capture_output=True, text=True)
    if who == "plain" and "OutOfMemoryException" in ended.stderr:
        return None
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    found: dict[str, float] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


def lines(folder: Path, memory: str, in_place: bool) -> Iterator[Line]:
    for name in LINES:
        if name.startswith("prepare") and in_place:
            continue
        made, base = (measured(folder, who, name, memory) for who in ("ours", "plain"))
        figures = [Figure(line=name, ours=taken(made), base=taken(base))] if made and base else []
        yield Line([name, *cells(made), *cells(base), f"{made['wall'] / base['wall']:.1f}" if made and base else ""], tuple(figures))


def taken(found: dict[str, float]) -> Time:
    return Time(cpu=found["cpu"], wall=found["wall"])


def cells(found: dict[str, float] | None) -> list[str]:
    return ["memory", "", ""] if found is None else [f"{found['wall']:.1f}", f"{found['cpu']:.1f}", f"{found['mb']:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", default="10000000", help="of visits; several, with commas, show how it grows")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsql-bench")
    add_arguments(parser)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        wall, cpu = time.perf_counter(), time.process_time()
        ours(chosen.data, chosen.name) if chosen.worker == "ours" else plain(chosen.data, chosen.name, chosen.memory)
        print("\n" + json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
                                 "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    for rows in map(int, chosen.rows.split(",")):
        conclude(lambda rows=rows: measured_at(rows, chosen.data / f"visits-{rows}", chosen.memory, chosen.in_place),
                 "scale in place" if chosen.in_place else "scale", rows, chosen)


def measured_at(rows: int, folder: Path, memory: str, in_place: bool) -> list[Figure]:
    from dpsql.trusted.kernel.ledger import Ledger

    make(folder, rows)
    for limit in {limit for limit, _, _ in LINES.values()}:
        for name, key in (("", ""), ("-key", 'key = "visit_id"')):
            (folder / f"limit{limit}{name}.toml").write_text(POLICY.format(limit=limit, memory=memory, key=key, name=name), encoding="utf-8")
    for file in folder.glob("bench*.ledger*"):
        if file.is_file():
            file.unlink()
    for key in ("", "-key"):
        Ledger.create(folder / f"bench{key}.ledger").close()
    return shown(f"{rows:,} visits of {rows // EACH:,} people, {memory}", ["", "wall s", "CPU s", "MB", "plain", "CPU s", "MB", "ratio"],
                 lines(folder, memory, in_place))


if __name__ == "__main__":
    main()
