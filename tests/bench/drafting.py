"""CPU seconds and memory of `dpsql init --yes` of large and of wide CSV files, beside DuckDB's own look at them.

    python tests/bench/drafting.py --shapes 1000000x30,5000x2000

`sniff` is what DuckDB's sniffer says of the beginning of the file, and `all rows` the same from every row (sample_size = -1), which then
are read into a table; `drafted` is the draft of the file alone, and `init` the whole command. Each is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench_clock import table

KINDS: tuple[Callable[[random.Random, int], str], ...] = (
    lambda rng, row: str(row), lambda rng, row: f"{rng.gauss(50, 20):.4f}", lambda rng, row: rng.choice(("north", "south", "east", "west")),
    lambda rng, row: str(rng.randrange(100)), lambda rng, row: f"20{rng.randrange(10, 25)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
    lambda rng, row: "" if rng.random() < 0.1 else f"{rng.random():.3f}", lambda rng, row: f"name {rng.randrange(10**6)}",
    lambda rng, row: "NA" if rng.random() < 0.1 else str(rng.randrange(1000)), lambda rng, row: rng.choice(("yes", "no")),
    lambda rng, row: f"{rng.randrange(1, 29):02}/{rng.randrange(1, 13):02}/2020 10:15")


def write(path: Path, rows: int, columns: int) -> None:
    rng = random.Random(7)
    blocks = [",".join(KINDS[place % len(KINDS)](rng, row) if place else "{}" for place in range(columns)) for row in range(min(rows, 5000))]
    with path.open("w", encoding="utf-8") as text:
        text.write(",".join(f"c{place}" for place in range(columns)) + "\n")
        for row in range(rows):
            text.write(blocks[row % len(blocks)].format(row) + "\n")


def sniff(path: Path) -> None:
    import duckdb

    duckdb.connect().execute(f"DESCRIBE FROM read_csv('{path}')").fetchall()


def all_rows(path: Path) -> None:
    import duckdb

    duckdb.connect().execute(f"CREATE TABLE t AS FROM read_csv('{path}', sample_size = -1)")


def draft_file(path: Path) -> None:
    from dpsql.backends.csv_drafts import drafted

    drafted(path, "t")


def init(path: Path) -> None:
    from dpsql.cli.entry import main

    assert main(["init", "--yes", str(path), "--to", str(path.with_suffix(".toml"))]) == 0


WAYS = {"sniff": sniff, "all rows": all_rows, "drafted": draft_file, "init": init}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", default="1000000x30,5000x2000", help="rows x columns")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        way, name = asked.worker
        WAYS[way](Path(name))
        used = resource.getrusage(resource.RUSAGE_SELF)
        print("\n" + json.dumps({"cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}))
        return
    os.environ["DPSQL_STATE"] = os.environ["DPSQL_CACHE"] = ""
    for shape in asked.shapes.split(","):
        rows, columns = map(int, shape.split("x"))
        with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
            path = Path(folder) / "t.csv"
            write(path, rows, columns)
            lines = []
            for way in WAYS:
                ended = subprocess.run([sys.executable, __file__, "--worker", way, path], check=False, capture_output=True, text=True, cwd=folder)
                if ended.returncode:
                    raise RuntimeError(ended.stderr)
                used = json.loads(ended.stdout.strip().splitlines()[-1])
                lines.append([way, f"{used['cpu']:.1f}", f"{used['mb']:.0f}"])
            print(table(f"{rows:,} rows of {columns:,} columns, {path.stat().st_size / 2**20:.0f} MB", ["", "CPU s", "MB"], lines), flush=True)


if __name__ == "__main__":
    main()
