"""How near sums over rows of several entities come, by the way in which the level is chosen: counts of patterns in graphs.

    python tests/bench/levels.py ../shared/data/graphs --runs 60 --epsilon 0.8

Entities are nodes, rows are occurrences of a pattern, extracted by DuckDB from the list of edges. `balance` and `race` are the
engine's own mechanisms, from their scripts to the looks, with the engine's noise; the others are simulated on the same values:

best      the level with the least median error, if it were known and cost nothing: all of epsilon for the sum
half      a race at half of epsilon chooses the level, the other half tells the sum there
general   the generalised exponential mechanism with its own normalisation (Raskhodnikova and Smith, 2016), half and half
optsja    DPSQL's OptSJA: sparse vector on the number of entities that can stay, a third of epsilon for each of its three draws

Errors are medians of |answer - truth|. Seconds are those of the first answer: extraction, sets of entities, all that is solved.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import highspy
import numpy as np
from bench_clock import table

from dpsql.accounting.convert import rho_of
from dpsql.accounting.cost import Cost, concentrated, pure
from dpsql.kernel.extensions.linear import Unsolved
from dpsql.kernel.extensions.merging import heavy_sets
from dpsql.kernel.extensions.owned import NOBODY, Owned, loads, owned
from dpsql.kernel.extensions.value import Extension
from dpsql.kernel.looks import balance, race
from dpsql.kernel.noise.source import Secure
from dpsql.mechanisms.base import Mechanism, Setting, Shared
from dpsql.mechanisms.truncation.balance import Balanced
from dpsql.mechanisms.truncation.race_to_the_top import RaceToTheTop
from dpsql.plan.operators.shares import UNIT
from dpsql.plan.operators.summands import Count
from dpsql.requests import Balance, Held, Race

WEDGES = "SELECT x.v AS a, x.u AS b, y.v AS c FROM d AS x JOIN d AS y ON x.u = y.u AND x.v < y.v"
PATTERNS = {
    "edges": "SELECT u AS a, v AS b FROM e",
    "triangles": "SELECT x.u AS a, x.v AS b, y.v AS c FROM e AS x JOIN e AS y ON x.v = y.u JOIN e AS z ON z.u = x.u AND z.v = y.v",
    "wedges": WEDGES,
    "squares": f"SELECT p.a, p.b, p.c, q.b AS d FROM ({WEDGES}) AS p JOIN ({WEDGES}) AS q "
               "ON p.a = q.a AND p.c = q.c AND p.b < q.b AND p.a < p.b",
}
CASES = [("deezer_HU", "edges"), ("musae_facebook", "edges"), ("ca-AstroPh", "edges"), ("lastfm_asia", "edges"),
         ("deezer_HU", "triangles"), ("musae_facebook", "triangles"), ("ca-AstroPh", "triangles"), ("lastfm_asia", "triangles"),
         ("deezer_HU", "wedges"), ("lastfm_asia", "wedges"), ("deezer_HU", "squares"), ("lastfm_asia", "squares")]
MOST = 2**20  # what one node can add, as far as is known to everyone
LARGEST_PROGRAM = 300_000  # variables; a level with more is not one that OptSJA could stop at


def extracted(folder: Path, graph: str, pattern: str) -> Owned:
    with duckdb.connect() as connection:
        source = f"'{folder / graph}.parquet'"
        connection.execute(f"CREATE TABLE e AS SELECT CAST(u AS BIGINT) AS u, CAST(v AS BIGINT) AS v FROM {source}")
        connection.execute("CREATE TABLE d AS SELECT u, v FROM e UNION ALL SELECT v, u FROM e")
        columns = list(connection.execute(PATTERNS[pattern]).fetchnumpy().values())
    return owned(columns, np.ones(len(columns[0]), dtype=np.int64))


@dataclass
class Graph:
    """The rows of one pattern, the values worked out so far, and a context in which looks find them."""

    rows: Owned
    owners: int
    noise: Any = field(default_factory=Secure)
    known: dict[tuple[int, ...], Extension] = field(default_factory=dict)

    def extension(self, levels: tuple[int, ...]) -> Extension:
        if levels not in self.known:
            self.known[levels] = Extension(self.rows, levels, self.owners)
        return self.known[levels]

    def answers(self, mechanism: Mechanism, price: Cost) -> Iterator[float]:
        """The answers of a mechanism, one after another."""
        task = Shared(at=0, input=None, owners=tuple("abcd"[: self.owners]), summand=Count(), most=MOST)  # type: ignore[arg-type]
        while True:
            running = mechanism.run([(task, price)], Setting(keys=(), cells=((),)))
            request = next(running)
            try:
                running.send(self.look(request))
            except StopIteration as done:
                yield float(done.value[0][0].values[0])

    def look(self, request: Any) -> Held:
        here: Any = self
        match request:
            case Race():
                race.read = lambda plan, levels, context: (self.extension(levels),)
                return race.look(request, here)
            case Balance():
                balance.read = lambda plan, levels, context: (self.extension(levels),)
                return balance.look(request, here)
        raise TypeError


# -- simulated on values of a ladder


@dataclass(frozen=True)
class Ladder:
    """Values at all levels, in the middle of their bounds where they are too hard and far from the best."""

    levels: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    stay: np.ndarray[Any, Any]
    truth: int


def ladder(graph: Graph) -> Ladder:
    levels = tuple(2**j for j in range(MOST.bit_length()))
    extension, values, leave = graph.extension(levels), [], []
    totals = loads(graph.rows.owners, graph.rows.weights, graph.rows.entities)
    for j in reversed(range(len(levels))):
        if not extension.exact(j):
            extension.refine(j)
        hard = not extension.exact(j) and len(extension.left(j).weights) > LARGEST_PROGRAM
        values.append((extension.low[j] + extension.high[j]) / 2 / UNIT if hard else extension.value(j) / UNIT)
        leave.append(math.inf if leave and leave[-1] > 200 else leaving(graph.rows, totals, levels[j]))
    return Ladder(np.array(levels, dtype=float), np.array(values[::-1]), np.array(leave[::-1]), graph.rows.total)


def leaving(rows: Owned, totals: Any, level: int) -> float:
    """The least number of (fractions of) entities above the level that must leave until none is above it."""
    heavy = totals > level
    count = int(heavy.sum())
    if not count:
        return 0.0
    owners, weights, _ = heavy_sets(rows.owners, rows.weights, heavy, count)
    if len(weights) > LARGEST_PROGRAM:
        return math.inf
    lp = highspy.HighsLp()
    sets = len(weights)
    lp.num_col_, lp.num_row_ = count + sets, sets + count
    lp.col_cost_ = np.concatenate((np.ones(count), np.zeros(sets)))
    lp.col_lower_, lp.col_upper_ = np.zeros(count + sets), np.ones(count + sets)
    lp.row_lower_ = np.concatenate((np.ones(sets), np.full(count, -highspy.kHighsInf)))
    lp.row_upper_ = np.concatenate((np.full(sets, highspy.kHighsInf), np.full(count, float(level))))
    there = owners != NOBODY
    row, column = np.repeat(np.arange(sets), there.sum(axis=1)), owners[there]
    from scipy.sparse import coo_array, csc_array

    matrix = csc_array(coo_array((
        np.concatenate((np.ones(len(row)), np.ones(sets), weights[row].astype(float))),
        (np.concatenate((row, np.arange(sets), sets + column)), np.concatenate((column, count + np.arange(sets), count + row))))))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    solver: Any = highspy.Highs()
    for option, value in {"output_flag": False, "threads": 1, "solver": "hipdlp", "pdlp_optimality_tolerance": 1e-3,
                          "time_limit": 30.0}.items():
        solver.setOptionValue(option, value)
    solver.passModel(lp)
    solver.run()
    return float(solver.getInfo().objective_function_value)


def median_error(answers: np.ndarray[Any, Any], truth: int) -> float:
    return float(np.median(np.abs(answers - truth)))


def best(at: Ladder, epsilon: float, runs: int, draw: np.random.Generator) -> float:
    return min(median_error(value + draw.laplace(size=2000) * level / epsilon, at.truth)
               for level, value in zip(at.levels, at.values, strict=True))


def half(at: Ladder, epsilon: float, runs: int, draw: np.random.Generator) -> float:
    scale = at.levels * len(at.levels) * 2 / epsilon
    chosen = (at.values + draw.laplace(size=(runs, len(scale))) * scale - scale * math.log(len(scale) / 0.1)).argmax(axis=1)
    return median_error(at.values[chosen] + draw.laplace(size=runs) * at.levels[chosen] * 2 / epsilon, at.truth)


def general(at: Ladder, epsilon: float, runs: int, draw: np.random.Generator) -> float:
    expected = 8 / epsilon * at.levels - at.values
    scores = ((expected[:, None] - expected) / (at.levels[:, None] + at.levels)).max(axis=1)
    chosen = (scores - draw.exponential(size=(runs, len(scores))) * 4 / epsilon).argmin(axis=1)
    return median_error(at.values[chosen] + draw.laplace(size=runs) * at.levels[chosen] * 2 / epsilon, at.truth)


def optsja(at: Ladder, epsilon: float, runs: int, draw: np.random.Generator) -> float:
    answers = []
    for _ in range(runs):
        limit = 6 / epsilon * math.log(10) + draw.laplace() * 3 / epsilon
        j = next((j for j, stay in enumerate(at.stay) if stay + draw.laplace() * 6 / epsilon <= limit), len(at.stay) - 1)
        answers.append(at.values[j] + draw.laplace() * 3 * at.levels[j] / epsilon)
    return median_error(np.array(answers), at.truth)


SIMULATED: dict[str, Callable[[Ladder, float, int, np.random.Generator], float]] = {
    "best": best, "half": half, "general": general, "optsja": optsja}
HEADS = ("graph", "pattern", "rows", "race", "balance", *SIMULATED, "race, rho", "balance, rho", "race s", "balance s", "memory GB")


def measured(folder: Path, graph: str, pattern: str, runs: int, epsilon: float) -> list[str]:
    price, rho = pure(Fraction(epsilon)), concentrated(rho_of(Fraction(epsilon), Fraction(1, 10**6)))
    errors, seconds = {}, {}
    for mechanism in (RaceToTheTop(), Balanced()):
        began = time.perf_counter()
        here = Graph(extracted(folder, graph, pattern), len(PATTERNS_OWNERS[pattern]))
        answers = here.answers(mechanism, price)
        first = next(answers)
        seconds[mechanism.name] = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        truth = here.rows.total
        errors[mechanism.name] = median_error(np.array([first, *(next(answers) for _ in range(runs - 1))]), truth)
        answers = here.answers(mechanism, rho)
        errors[mechanism.name + " rho"] = median_error(np.array([next(answers) for _ in range(runs)]), truth)
    try:
        at = ladder(here)
        simulated = [f"{way(at, epsilon, 10 * runs, np.random.default_rng(1)):,.0f}" for way in SIMULATED.values()]
    except Unsolved:
        simulated = ["-"] * len(SIMULATED)
    shown = [f"{errors[name]:,.0f}" for name in ("race_to_the_top", "balance")]
    return [graph, pattern, f"{truth:,}", *shown, *simulated,
            *(f"{errors[name + ' rho']:,.0f}" for name in ("race_to_the_top", "balance")),
            *(f"{seconds[name]:.1f}" for name in ("race_to_the_top", "balance")), f"{memory:.2f}"]


PATTERNS_OWNERS = {"edges": "ab", "triangles": "abc", "wedges": "abc", "squares": "abcd"}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--runs", type=int, default=60)
    asked.add_argument("--epsilon", type=float, default=0.8)
    asked.add_argument("--only", default="", help="part of 'graph pattern'")
    given = asked.parse_args()
    lines = [measured(given.folder, graph, pattern, given.runs, given.epsilon)
             for graph, pattern in CASES if given.only in f"{graph} {pattern}"]
    print(table(f"median errors at epsilon = {given.epsilon}", HEADS, lines))


if __name__ == "__main__":
    main()
