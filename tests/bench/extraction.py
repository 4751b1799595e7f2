"""How long it takes to read the marginals of a workload, beside the plain DuckDB query that groups by all columns at once.

    python tests/bench/extraction.py --rows 1000000

`read` is what the kernel does before noise: cells with rows as codes, then every marginal. Wall seconds, the best of a few runs.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from itertools import combinations

import duckdb
from bench_clock import ratio, table

from dpsql.backends.duckdb import DuckReader
from dpsql.catalog.policy import parse_policy
from dpsql.catalog.schema import fit
from dpsql.kernel.publics import Publics
from dpsql.measurements.reading.content import Content
from dpsql.measurements.reading.occupied_cells import read
from dpsql.measurements.reading.request import Context
from dpsql.noise.source import Secure
from dpsql.plan.node import Printing
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.summands import Count

ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)  # the values of the columns of UCI Adult, coded
POLICY = '[entities.row]\ntable = "t"\nkey = "id"\n[tables.t]\nkey = "id"\n[tables.t.columns]\nid = {{}}\n{}\n[budgets.main]\nentity = "row"\nepsilon = 1\n'


def made(rows: int, sizes: Sequence[int], text: Sequence[int] = ()) -> duckdb.DuckDBPyConnection:
    """Columns of so many values, low ones more often, rising together a little; those in `text` as strings."""
    connection = duckdb.connect(":memory:")
    columns = [f"CAST(floor({size} * ((hash(i * 31 + {at}) % 1000) / 1000.0) ** 2 * (hash(i) % 100) / 100.0) AS BIGINT)"
               for at, size in enumerate(sizes)]
    shown = [f"'value ' || {column} AS c{at}" if at in text else f"{column} AS c{at}" for at, column in enumerate(columns)]
    connection.execute(f"CREATE TABLE t AS SELECT i AS id, {', '.join(shown)} FROM range({rows}) r(i)")
    return connection


def best(action: Callable[[], object], runs: int) -> float:
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken)


def line(name: str, connection: duckdb.DuckDBPyConnection, sizes: Sequence[int], text: Sequence[int], ways: int, runs: int) -> list[str]:
    names = [f"c{at}" for at in range(len(sizes))]
    reader = DuckReader(connection, "v1")
    catalog = fit(parse_policy("version = 1\n" + POLICY.format("\n".join(f"{name} = {{}}" for name in names))), "main", reader.schema(),
                  lambda *_: [])
    view = Scan(table=catalog.tables["t"], columns=tuple((name, name) for name in names), owners=("owner",))
    cells = GroupedSums(input=view, keys=tuple(names), summands=(Count(),))
    axes = [[f"value {value}" for value in range(size)] if at in text else list(range(size)) for at, size in enumerate(sizes)]
    context = Context(reader=reader, noise=Secure(), printing=Printing(), content=Content(reader), public=Publics(reader))
    asked = list(combinations(range(len(sizes)), ways))

    def extracted() -> None:
        filled = read(cells, axes, context)
        for marginal in asked:
            filled.marginal(marginal)

    plain = f"SELECT {', '.join(names)}, COUNT(*) FROM t GROUP BY ALL"
    ours, theirs = best(extracted, runs), best(lambda: connection.execute(plain).fetchall(), runs)
    numbers = sum(math.prod(sizes[axis] for axis in marginal) for marginal in asked)
    return [name, f"{len(asked)}", f"{numbers:,}", f"{math.prod(sizes):.1e}", f"{ours:.3f}", f"{theirs:.3f}", ratio(ours, theirs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the larger table; the one like Adult has 48,842 at most")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    adult = made(min(asked.rows, 48_842), ADULT)
    rows = [line(f"like Adult, {ways}-way", adult, ADULT, (), ways, asked.runs) for ways in (1, 2, 3)]
    sizes, text = (20, 15, 30, 12, 12), (0, 4)
    large = made(asked.rows, sizes, text)
    rows += [line(f"{asked.rows} rows, {ways}-way", large, sizes, text, ways, asked.runs) for ways in (2, 3)]
    print(table("Reading marginals", ("table", "marginals", "numbers", "cells", "read", "plain", "ratio"), rows), flush=True)


if __name__ == "__main__":
    main()
