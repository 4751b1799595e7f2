"""How near counts of patterns in graphs come where edges are protected, by the way in which what an edge changes is limited.

    python tests/bench/joins.py ../shared/data/graphs --runs 30 --epsilon 0.8

Each edge is a row of one table, from its lesser node to its greater one; a pattern is a self-join. `elastic` and `residual` are
told with and without the guarantee of the database that a pair of nodes has one edge (`key`). Errors are medians of
|answer - truth|. `LS` is the most occurrences that one edge is in; `95 %` is the median half width of the intervals of `residual`
with the key, and `covered` how many of all intervals, but for those of `balance`, hold the truth. Seconds are those of the first
answer.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from bench_clock import table

from dpsql.audit.prepared import PreparedStatement, Remembering
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.kernel.ledger import Ledger

POLICY = """
version = 1
[entities.edge]
table = "edges"
key = "edge"
[tables.edges]
key = "edge"
[tables.edges.columns]
edge = {}
u = {}
v = {}
[budgets.edge]
entity = "edge"
epsilon = 1000
"""
PATTERNS = {
    "triangles": "FROM edges x JOIN edges y ON x.v = y.u JOIN edges z ON z.u = x.u AND z.v = y.v",
    "paths": "FROM edges x JOIN edges y ON x.v = y.u",
}
CASES = [("lastfm_asia", "triangles"), ("deezer_HU", "triangles"), ("ca-AstroPh", "triangles"), ("musae_facebook", "triangles"),
         ("lastfm_asia", "paths"), ("deezer_HU", "paths")]
WAYS = (("elastic", False), ("residual", False), ("elastic", True), ("residual", True), ("balance", False))
HEADS = ("graph", "pattern", "rows", "LS", *(f"{way}{', key' if key else ''}" for way, key in WAYS), "95 %", "covered",
         "elastic s", "residual s", "balance s")
Reals = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Told:
    """The answers of one way, their half widths, and the seconds of the first."""

    values: Reals
    margins: Reals
    seconds: float


class Graph:
    """A session over the edges of a graph, with or without the guarantee that a pair of nodes has one edge."""

    def __init__(self, folder: Path, graph: str, *, key: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        here = Path(self._folder.name)
        with duckdb.connect(str(here / "edges.duckdb")) as made:
            made.execute(f"CREATE TABLE edges (edge INTEGER PRIMARY KEY, u INTEGER NOT NULL, v INTEGER NOT NULL{', UNIQUE (u, v)' if key else ''})")
            made.execute(f"INSERT INTO edges SELECT row_number() OVER (), u, v FROM '{folder / graph}.parquet'")
        (here / "policy.toml").write_text(POLICY, encoding="utf-8")
        Ledger.create(here / "policy.ledger").close()
        self._session = open_session(here / "edges.duckdb", here / "policy.toml", here / "policy.ledger", ConnectionTerms(analyst="bench"))
        self.reader = Remembering(self._session.kernel._reader)
        self._session.kernel._reader = self.reader

    def told(self, pattern: str, way: str, runs: int, epsilon: float) -> Told:
        text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {epsilon}, bound = '{way}') COUNT(*) {PATTERNS[pattern]}"
        statement, began = PreparedStatement(text, self._session), time.perf_counter()
        answers = [statement.measure()]
        seconds = time.perf_counter() - began
        answers += [statement.measure() for _ in range(runs - 1)]
        found = [next(iter(answer.aggregates.values())) for answer in answers]
        return Told(values=np.array([estimate.values[0] for estimate in found]), seconds=seconds,
                    margins=np.array([estimate.margins(0.95)[0] for estimate in found]))

    def close(self) -> None:
        self._session.close()
        self._folder.cleanup()


def most(graph: Graph, pattern: str) -> tuple[int, int]:
    """The number of occurrences, and the most that one edge is in."""
    aliases = [alias for alias in "xyz" if f"edges {alias}" in PATTERNS[pattern]]
    rows = " UNION ALL ".join(f"SELECT {alias}.edge AS edge {PATTERNS[pattern]}" for alias in aliases)
    (count,), = graph.reader.rows(f"SELECT COUNT(*) {PATTERNS[pattern]}")
    (largest,), = graph.reader.rows(f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM ({rows}) GROUP BY edge)")
    return count, largest


def measured(folder: Path, graph: str, pattern: str, runs: int, epsilon: float) -> list[str]:
    graphs = {key: Graph(folder, graph, key=key) for key in (False, True)}
    count, largest = most(graphs[True], pattern)
    found = {(way, key): graphs[key].told(pattern, way, runs, epsilon) for way, key in WAYS}
    errors = [float(np.median(np.abs(told.values - count))) for told in found.values()]
    best = found["residual", True]
    covered = np.mean([np.mean(np.abs(told.values - count) <= told.margins) for (way, _), told in found.items() if way != "balance"])
    for made in graphs.values():
        made.close()
    return [graph, pattern, f"{count:,}", f"{largest:,}", *(f"{error:,.0f}" for error in errors),
            f"{np.median(best.margins):,.0f}", f"{covered:.2f}",
            *(f"{found[way, way != 'balance'].seconds:.1f}" for way in ("elastic", "residual", "balance"))]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--runs", type=int, default=30)
    asked.add_argument("--epsilon", type=float, default=0.8)
    asked.add_argument("--only", default="", help="part of 'graph pattern'")
    given = asked.parse_args()
    lines = [measured(given.folder, graph, pattern, given.runs, given.epsilon)
             for graph, pattern in CASES if given.only in f"{graph} {pattern}"]
    print(table(f"median errors at epsilon = {given.epsilon}", HEADS, lines))


if __name__ == "__main__":
    main()
