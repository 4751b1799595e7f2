"""How near sums over rows of several entities come, by the way in which the level is chosen: counts of patterns in graphs.

    python tests/bench/levels.py ../shared/data/graphs --runs 60 --epsilon 0.8

Entities are nodes, rows are occurrences of a pattern, extracted by DuckDB from the list of edges. `r2t`, `balance`, `removals`
and `recursive` are the engine's own mechanisms, from their scripts to the looks, with the engine's noise; the others are
simulated on the same values:

best      the level with the least median error, if it were known and cost nothing: all of epsilon for the sum
known     the same with half of epsilon for the sum
half      a race at half of epsilon chooses the level, the other half tells the sum there
general   the generalised exponential mechanism with its own normalisation (Raskhodnikova and Smith, 2016), half and half
optsja    DPSQL's OptSJA: sparse vector on the number of entities that can stay, a third of epsilon for each of its three draws

Errors are medians of |answer - truth|.
Seconds are those of the first answer: extraction, sets of entities, all that is solved.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
from bench_clock import table

from dpsql.budgets.convert import rho_of
from dpsql.frozen import Frozen
from dpsql.mechanisms.mechanism import Mechanism, Shared, TaskContext
from dpsql.mechanisms.truncation.balance import Balanced
from dpsql.mechanisms.truncation.race_to_the_top import RaceToTheTop
from dpsql.mechanisms.truncation.recursive import Recursive
from dpsql.mechanisms.truncation.removals import Removals as ByRemovals
from dpsql.solvers.usual import USUAL
from dpsql.trusted.accounting.cost import Cost, concentrated, pure
from dpsql.trusted.extensions.lipschitz_extension import LipschitzExtension
from dpsql.trusted.extensions.owned import Owned, owned
from dpsql.trusted.extensions.removal_distance import RemovalDistances, Sets, sets_of
from dpsql.trusted.measurements.several import balanced_levels, race, removal_levels
from dpsql.trusted.measurements.several.levels import ExtensionSums
from dpsql.trusted.noise.source import Secure
from dpsql.trusted.plan.operators.owner_sets import UNIT
from dpsql.trusted.plan.operators.summands import Count

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
         ("gemsec_tvshow", "triangles"), ("ca-GrQc", "triangles"), ("us_power", "triangles"), ("us_power", "edges"),
         ("deezer_HU", "wedges"), ("lastfm_asia", "wedges"), ("deezer_HU", "squares"), ("lastfm_asia", "squares")]
MOST = 2**20  # what one node can add, as far as is known to everyone
LARGEST_PROGRAM = 300_000  # variables; a level with more is not one that OptSJA could stop at
OURS = (RaceToTheTop(), Balanced(), ByRemovals(), Recursive())
AT_RHO = (RaceToTheTop(), Balanced(), ByRemovals())


def extracted(folder: Path, graph: str, pattern: str) -> tuple[Owned, Sets]:
    with duckdb.connect() as connection:
        source = f"'{folder / graph}.parquet'"
        connection.execute(f"CREATE TABLE e AS SELECT CAST(u AS BIGINT) AS u, CAST(v AS BIGINT) AS v FROM {source}")
        connection.execute("CREATE TABLE d AS SELECT u, v FROM e UNION ALL SELECT v, u FROM e")
        columns = list(connection.execute(PATTERNS[pattern]).fetchnumpy().values())
    ones = np.ones(len(columns[0]), dtype=np.int64)
    return owned(columns, ones), sets_of(columns, ones, 0 * ones)


@dataclasses.dataclass
class Graph:
    """The rows of one pattern, the values worked out so far, and a context in which looks find them."""

    rows: Owned
    sets: Sets
    owners: int
    noise: Any = dataclasses.field(default_factory=Secure)
    solvers: Any = USUAL
    known: dict[tuple[int, ...], LipschitzExtension] = dataclasses.field(default_factory=dict)
    leaving: dict[tuple[int, ...], RemovalDistances] = dataclasses.field(default_factory=dict)

    def extension(self, levels: tuple[int, ...]) -> LipschitzExtension:
        if levels not in self.known:
            self.known[levels] = LipschitzExtension(self.rows, levels, self.owners, USUAL)
        return self.known[levels]

    def removals(self, levels: tuple[int, ...]) -> RemovalDistances:
        if levels not in self.leaving:
            self.leaving[levels] = RemovalDistances(self.sets, levels, USUAL)
        return self.leaving[levels]

    def answers(self, mechanism: Mechanism, price: Cost) -> Iterator[float]:
        """The answers of a mechanism, one after another."""
        task = Shared(at=0, input=None, owners=tuple("abcd"[: self.owners]), summand=Count(), most=MOST,  # type: ignore[arg-type]
                      bound=mechanism.name)
        while True:
            running = mechanism.run([(task, price)], TaskContext(keys=(), cells=((),)))
            request = next(running)
            try:
                running.send(self.look(request))
            except StopIteration as done:
                yield float(done.value[0][0].values[0])

    def look(self, request: Any) -> ExtensionSums:
        with ExitStack() as known:
            for module, parts in self._worked_out().items():
                known.enter_context(patch.multiple(module, **parts))
            return request.release(self, None)  # type: ignore[no-any-return]

    def _worked_out(self) -> dict[ModuleType, dict[str, Any]]:
        """What stands in the place of reading and solving, for as long as a request is looked at."""
        read = {"read": lambda plan, levels, cells, context: [(self.extension(levels),)]}
        return {race: read, balanced_levels: read, removal_levels: {
            "columns_of": lambda *given: [], "in_cells": lambda *given: [],
            "RemovalDistances": lambda rows, levels, solvers: self.removals(levels),
            "in_memory": lambda columns, plan, levels, cells, solvers: [(self.extension(levels),)]}}


# -- simulated on values of a ladder


class Ladder(Frozen, kw_only=False):
    """Values at all levels, in the middle of their bounds where they are too hard and far from the best."""

    levels: np.ndarray[Any, Any]
    values: np.ndarray[Any, Any]
    stay: np.ndarray[Any, Any]
    truth: int


def ladder(graph: Graph) -> Ladder:
    levels = tuple(2**j for j in range(MOST.bit_length()))
    extension, numbers, values, leave = graph.extension(levels), graph.removals(levels), [], []
    for j in reversed(range(len(levels))):
        if not extension.exact(j):
            extension.refine(j)
        hard = not extension.exact(j) and len(extension.left(j).weights) > LARGEST_PROGRAM
        values.append((extension.low[j] + extension.high[j]) / 2 / UNIT if hard else extension.value(j) / UNIT)
        leave.append(math.inf if leave and leave[-1] > 200 else numbers.value(j) / UNIT)
    return Ladder(np.array(levels, dtype=float), np.array(values[::-1]), np.array(leave[::-1]), graph.rows.total)


def median_error(answers: np.ndarray[Any, Any], truth: int) -> float:
    return float(np.median(np.abs(answers - truth)))


def best(at: Ladder, epsilon: float, runs: int, draw: np.random.Generator) -> float:
    return min(median_error(value + draw.laplace(size=2000) * level / epsilon, at.truth)
               for level, value in zip(at.levels, at.values, strict=True))


def known(at: Ladder, epsilon: float, runs: int, draw: np.random.Generator) -> float:
    return best(at, epsilon / 2, runs, draw)


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
    "best": best, "known": known, "half": half, "general": general, "optsja": optsja}
HEADS = ("graph", "pattern", "rows", *(m.name for m in OURS), *SIMULATED, *(f"{m.name}, rho" for m in AT_RHO),
         *(f"{m.name} s" for m in OURS), "memory GB")


def measured(folder: Path, graph: str, pattern: str, runs: int, epsilon: float) -> list[str]:
    price, rho = pure(Fraction(epsilon)), concentrated(rho_of(Fraction(epsilon), Fraction(1, 10**6)))
    errors, seconds, found = [], [], extracted(folder, graph, pattern)
    for mechanism in OURS:
        began = time.perf_counter()
        here = Graph(*extracted(folder, graph, pattern), len(PATTERNS_OWNERS[pattern]))
        errors.append(error(here, mechanism, price, 1))
        seconds.append(f"{time.perf_counter() - began:.1f}")
        errors[-1] = error(here, mechanism, price, runs)
    here = Graph(*found, len(PATTERNS_OWNERS[pattern]))
    at_rho = [error(here, mechanism, rho, runs) for mechanism in AT_RHO]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    at = ladder(here)
    simulated = [f"{way(at, epsilon, 10 * runs, np.random.default_rng(1)):,.0f}" for way in SIMULATED.values()]
    return [graph, pattern, f"{here.rows.total:,}", *errors, *simulated, *at_rho, *seconds, f"{memory:.2f}"]


def error(here: Graph, mechanism: Mechanism, price: Cost, runs: int) -> str:
    answers = here.answers(mechanism, price)
    return f"{median_error(np.array([next(answers) for _ in range(runs)]), here.rows.total):,.0f}"


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
