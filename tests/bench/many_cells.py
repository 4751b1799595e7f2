"""Seconds to release very many declared groups: a statement, its rows, the same statement again, and a workload.

    python tests/bench/many_cells.py
    python tests/bench/many_cells.py --side 300 --rows 100000

A table has two columns of `side` whole numbers each, and all of their combinations are released. The plain query of the same text,
which shows only groups that have rows, runs beside.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from functools import partial
from pathlib import Path

import duckdb
from bench_clock import timed
from bench_results import Figure, Line, add_arguments, conclude, shown

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

POLICY = """
version = 1
database = "cells.duckdb"
[entities.person]
table = "person"
key = "pid"
[tables.person]
key = "pid"
[tables.person.columns]
pid = {{}}
a = {{ range = [1, {side}], nullable = false }}
b = {{ range = [1, {side}], nullable = false }}
x = {{ bounds = [0, 100], decimals = 0 }}
[budgets.person]
entity = "person"
epsilon = 1000
delta = 0.1
"""
STATEMENTS = {
    "COUNT(*)": "SELECT a, b, COUNT(*) AS n FROM person GROUP BY a, b",
    "COUNT(*), the hundred largest": "SELECT a, b, COUNT(*) AS n FROM person GROUP BY a, b ORDER BY n DESC LIMIT 100",
    "COUNT(*), SUM, AVG": "SELECT a, b, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM person GROUP BY a, b",
}


def made(folder: Path, side: int, rows: int) -> None:
    with duckdb.connect(str(folder / "cells.duckdb")) as connection:
        connection.execute("CREATE TABLE person (pid INTEGER PRIMARY KEY, a BIGINT, b BIGINT, x DOUBLE)")
        connection.execute(f"INSERT INTO person SELECT i, 1 + i * 7919 % {side}, 1 + (i * 104729 + i // {side}) % {side}, i % 101 "
                           f"FROM range({rows}) AS t(i)")
    (folder / "dpsql.toml").write_text(POLICY.format(side=side), encoding="utf-8")
    Ledger.create(folder / "dpsql.ledger").close()


def measured(folder: Path) -> list[Line]:
    ledger, lines = folder / "dpsql.ledger", []
    shutil.copy(folder / "cells.duckdb", folder / "plain.duckdb")
    plain = duckdb.connect(str(folder / "plain.duckdb"))
    with plain, dpsql.connect(folder / "cells.duckdb", budget="person", analyst="ada", epsilon=1) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT COUNT(*) FROM person")  # what is learned of a database once
        count, *_ = STATEMENTS.values()
        asked = [(name, text, partial(cursor.execute, text), cursor.fetchall) for name, text in STATEMENTS.items()]
        asked.append(("COUNT(*), as a workload", count, partial(connection.workload, [count]),
                      lambda: connection.workload([count])[0].rows))
        for name, text, execute, fetch in asked:
            before, found = ledger.stat().st_size, list[object]()
            times = [timed(lambda text=text: plain.execute(text).fetchall()), timed(execute),
                     timed(lambda fetch=fetch, found=found: found.extend(fetch())), timed(execute)]
            lines.append(Line([name, f"{len(found):,}", *(f"{time.cpu:.2f}" for time in times),
                               f"{(ledger.stat().st_size - before) / 1e6:.1f}"],
                              tuple(Figure(line=f"{name}: {what}", ours=time, base=times[0])
                                    for what, time in zip(("execute", "rows", "again"), times[1:], strict=True))))
    return lines


def report(side: int, rows: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        made(Path(folder), side, rows)
        return shown(f"{rows:,} rows: CPU seconds", ["statement", "groups", "plain", "execute", "rows", "again", "MB stored"],
                     measured(Path(folder)))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--side", type=int, default=1000, help="values of each of the two columns")
    asked.add_argument("--rows", type=int, default=500_000)
    add_arguments(asked)
    args = asked.parse_args()
    conclude(lambda: report(args.side, args.rows), "many_cells", args.rows, args)


if __name__ == "__main__":
    main()
