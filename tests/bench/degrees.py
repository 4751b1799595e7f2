"""How near degree histograms come where nodes are protected, by the way in which degrees are brought down to a limit.

    python tests/bench/degrees.py ../shared/data/graphs --runs 20 --epsilon 1

The statement is plain SQL, with both directions of each edge by UNION ALL. Errors are sums of |answer - truth| over all degrees, the
mean of so many answers; degrees above the limit count as answered with nobody. `plain` adds the noise of 2 * limit + 1 to the
counts of the projection themselves, `cut` of them is lost to the limit alone, `learned` pays for its limit from the same
price and most often takes the one beside it. `edges` is the general algebra where it is edges that are protected, at the
largest limit. `covered` is how many of the intervals (95 %) of `flow` hold what it was told of. Seconds are those of the first answer.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
from bench_clock import table

from dpsql.audit.prepared import PreparedStatement, Remembering
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.session import Session
from dpsql.planning.script import Released
from dpsql.solvers.usual import USUAL
from dpsql.trusted.extensions.bounded_degrees import ArcList, extended, projected
from dpsql.trusted.kernel.ledger import Ledger

POLICY = """
version = 1
[entities.node]
table = "nodes"
key = "node"
[entities.edge]
table = "edges"
key = "edge"
[tables.nodes]
key = "node"
[tables.nodes.columns]
node = {}
[tables.edges]
key = "edge"
foreign_keys = [{ columns = "u", references = "nodes(node)" }, { columns = "v", references = "nodes(node)" }]
[tables.edges.columns]
edge = {}
u = {}
v = {}
[budgets.nodes]
entity = "node"
epsilon = 1000
[budgets.edges]
entity = "edge"
epsilon = 1000
"""
DEGREES = "(SELECT x, COUNT(*) AS degree FROM (SELECT u AS x FROM edges UNION ALL SELECT v FROM edges) AS e GROUP BY x) AS d"
GRAPHS = ("lastfm_asia", "deezer_RO", "musae_facebook", "email-enron", "us_power")
LIMITS = (8, 16, 32, 64, 128)
HEADS = ("graph", "nodes", "edges", "most", "limit", "cut", "plain", "projection", "cut", "flow", "learned", "its limit", "edges",
         "covered", "projection s", "flow s")
Reals = np.ndarray[tuple[int], np.dtype[np.float64]]


def opened(folder: Path, graphs: Path, graph: str, budget: str) -> Session:
    data = folder / "graph.duckdb"
    if not data.exists():
        with duckdb.connect(str(data)) as made:
            made.execute(f"CREATE TABLE edges AS SELECT row_number() OVER () AS edge, u, v FROM '{graphs / graph}.parquet'")
            made.execute("CREATE TABLE nodes AS SELECT DISTINCT x AS node FROM (SELECT u AS x FROM edges UNION ALL SELECT v FROM edges)")
            for name, key in (("nodes", "node"), ("edges", "edge")):
                made.execute(f"ALTER TABLE {name} ADD PRIMARY KEY ({key})")
        (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
        Ledger.create(folder / "policy.ledger").close()
    terms = ConnectionTerms(analyst="bench", budget=budget)
    session = open_session(data, folder / "policy.toml", folder / "policy.ledger", terms)
    session.kernel._reader = Remembering(session.kernel._reader)
    return session


def told(session: Session, options: str, runs: int, where: str = "") -> tuple[list[Released], float]:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}) degree, COUNT(*) FROM {DEGREES}{where} GROUP BY degree"
    statement, began = PreparedStatement(text, session), time.perf_counter()
    found = [statement.measure()]
    seconds = time.perf_counter() - began
    return [*found, *(statement.measure() for _ in range(runs - 1))], seconds


def values(released: Released) -> Reals:
    (estimate,) = released.aggregates.values()
    return np.asarray(estimate.values)


def error(counts: Sequence[float] | Reals, truth: Reals) -> float:
    """The sum of all errors, of degrees beyond the limit too."""
    both = np.zeros((2, max(len(counts), len(truth))))
    both[0, : len(counts)], both[1, : len(truth)] = counts, truth
    return float(np.abs(both[0] - both[1]).sum())


def mean(found: Sequence[Released], truth: Reals) -> float:
    return float(np.mean([error(values(released), truth) for released in found]))


def covered(found: Sequence[Released], counts: Reals) -> float:
    """How often an interval holds the number of those who have the degree at this limit."""
    hits = [np.abs(values(released) - counts) <= next(iter(released.aggregates.values())).margins(0.95) for released in found]
    return float(np.mean(hits))


def measured(graphs: Path, graph: str, runs: int, epsilon: float) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as name:
        other = opened(Path(name), graphs, graph, "edges")
        by_edges, _ = told(other, f"epsilon = {epsilon}", 3, f" WHERE degree BETWEEN 1 AND {LIMITS[-1]}")
        other.close()  # one process has a file open once
        session = opened(Path(name), graphs, graph, "nodes")
        reader = session.kernel._reader
        own = dict(reader.rows(f"SELECT degree, COUNT(*) FROM {DEGREES} GROUP BY degree"))
        truth = np.array([own.get(degree, 0) for degree in range(1, max(own) + 1)], dtype=np.float64)
        ends = np.array(reader.rows("SELECT u, v FROM edges ORDER BY hash(u, v)"), dtype=np.int64)
        arcs = ArcList(ends[:, 0], ends[:, 1], np.ones(len(ends), dtype=np.int64), int(ends.max()) + 1, True)
        chosen, _ = told(session, f"epsilon = {epsilon}", runs)
        limit = Counter(len(released.cells) for released in chosen).most_common(1)[0][0]
        draw, lines = np.random.default_rng(1), []
        for most in LIMITS:
            kept = [way.astype(np.float64) for way in (projected(arcs, most), extended(arcs, most, USUAL))]
            plain = [np.maximum(0, kept[0] + draw.laplace(size=most) * (2 * most + 1) / epsilon) for _ in range(runs)]
            ways = [told(session, f"epsilon = {epsilon}, max_rows = {most}, bound = '{way}'", runs) for way in ("projection", "flow")]
            here = most == limit
            lines.append([graph, f"{int(truth.sum()):,}", f"{len(ends):,}", str(max(own)), str(most), f"{error(kept[0], truth):,.0f}",
                          f"{np.mean([error(counts, truth) for counts in plain]):,.0f}", f"{mean(ways[0][0], truth):,.0f}",
                          f"{error(kept[1], truth):,.0f}", f"{mean(ways[1][0], truth):,.0f}",
                          f"{mean(chosen, truth):,.0f}" if here else "", str(limit) if here else "",
                          f"{mean(by_edges, truth):,.0f}" if most == LIMITS[-1] else "", f"{covered(ways[1][0], kept[1]):.2f}",
                          *(f"{seconds:.2f}" for _, seconds in ways)])
        session.close()
    return lines


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--runs", type=int, default=20)
    asked.add_argument("--epsilon", type=float, default=1.0)
    asked.add_argument("--only", default="", help="a graph")
    given = asked.parse_args()
    lines = [line for graph in GRAPHS if given.only in graph for line in measured(given.folder, graph, given.runs, given.epsilon)]
    print(table(f"sums of errors at epsilon = {given.epsilon}", HEADS, lines))


if __name__ == "__main__":
    main()
