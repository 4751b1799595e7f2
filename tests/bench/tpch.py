"""Sums over rows of one entity each, without a limit of what an entity adds: bands, learned clips, levels, and the race.

    tpchgen-cli parquet -s 1 --output-dir=tpch --tables customer,orders,lineitem,supplier,partsupp
    python tests/bench/tpch.py tpch --runs 200 --epsilon 0.8

Queries are those of the R2T paper over one private relation, reduced to the totals of entities (its Q3 is not published in
full; here it counts the lines of orders before a date). Generated totals come first; the folder may be left out. Every way is
the engine's own: scripts, printed plans, looks and noise; only the certificates are left to the tests. Errors are medians of
|answer - truth|; `aim` is twice the largest total over epsilon, twice the scale of Laplace noise if that total were known.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from bench_clock import table

from dpsql.accounting.cost import Cost, pure
from dpsql.backends.duckdb import DuckReader
from dpsql.kernel.looks import balance, measure, race, threshold
from dpsql.kernel.noise.source import Secure
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.mechanisms.base import Setting, Shared
from dpsql.mechanisms.truncation.balance import Balanced
from dpsql.mechanisms.truncation.bands import banded
from dpsql.mechanisms.truncation.race_to_the_top import RaceToTheTop
from dpsql.mechanisms.truncation.sparse_vector import learned_total
from dpsql.plan.expr.facts import Facts
from dpsql.plan.node import Field, Node, Printing, PublicFacts, Stability, fold
from dpsql.plan.operators.clip import Clip
from dpsql.plan.operators.contributions import Contributions
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.summands import Clipped, GridSum
from dpsql.plan.operators.tally import Tally
from dpsql.requests import Balance, DiscreteLaplace, Measure, Measured, Race, Threshold
from dpsql.types import Type

QUERIES = {  # name: (unit of the totals, the total of every entity)
    "Q3": (1, "SELECT o_custkey AS owner, COUNT(*) AS v FROM orders JOIN lineitem ON o_orderkey = l_orderkey "
              "WHERE o_orderdate < DATE '1995-03-15' GROUP BY ALL"),
    "Q10": (1, "SELECT o_custkey AS owner, COUNT(*) AS v FROM orders GROUP BY ALL"),
    "Q11": (1000, "SELECT ps_suppkey AS owner, SUM(ps_supplycost * ps_availqty) / 1000 AS v FROM partsupp GROUP BY ALL"),
    "Q12": (1, "SELECT l_orderkey AS owner, COUNT(*) AS v FROM lineitem GROUP BY ALL"),
    "Q18": (1, "SELECT o_custkey AS owner, SUM(l_quantity) AS v FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY ALL"),
    "Q20": (1, "SELECT ps_suppkey AS owner, COUNT(*) AS v FROM partsupp JOIN lineitem ON l_partkey = ps_partkey "
               "AND l_suppkey = ps_suppkey GROUP BY ALL"),
}
MOST = 10**6  # what one entity can add, as far as is known to everyone, in units of the query
ALONE = Setting(keys=(), cells=((),))


@dataclass(frozen=True, kw_only=True)
class Totals(Node):
    """A table of one row for each entity. Proof: it is its own."""

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(id=name, name=name, facts=Facts(type=Type.BIGINT, nullable=False)) for name in ("owner", "v"))

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        return Stability(rows=1, owners=("owner",))

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        return "SELECT owner, v FROM totals"

    def label(self) -> str:
        return "totals"


@dataclass
class Room:
    """What a look has at hand; exact results are read once."""

    connection: duckdb.DuckDBPyConnection
    noise: Any = field(default_factory=Secure)
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def reader(self) -> Any:
        return self

    @staticmethod
    def sql(plan: Node) -> str:
        return fold(plan, lambda node, below: node.render(below, Printing()))

    def rows(self, sql: str) -> Any:
        if sql not in self.known:
            self.known[sql] = DuckReader(self.connection, "").rows(sql)
        return self.known[sql]

    def arrays(self, sql: str) -> Any:
        if sql not in self.known:
            self.known[sql] = DuckReader(self.connection, "").arrays(sql)
        return self.known[sql]

    def play(self, script: Generator[Any, Any, Any]) -> Any:
        """A script's result, its requests served as the kernel does."""
        here: Any = self
        looks: dict[type, Callable[[Any, Any], Any]] = {
            Measure: measure.look, Threshold: threshold.look, Race: race.look, Balance: balance.look}
        try:
            request = next(script)
            while True:
                request = script.send(looks[type(request)](request, here))
        except StopIteration as done:
            return done.value


def summand(unit: int) -> GridSum:
    return GridSum(column="v", grid=Quantizer(low=0, high=MOST * unit, step=Fraction(1), from_low=True))


def in_bands(room: Room, price: Cost, unit: int) -> float:
    given = Contributions(input=Totals(), owner="owner", keys=(), summands=(summand(unit),))
    return float(room.play(banded(given, 1, ALONE, 0, price)).values[0])


def clipped(room: Room, price: Cost, unit: int) -> float:
    """Half for learning a clip, half for the sum."""
    given = Contributions(input=Totals(), owner="owner", keys=(), summands=(summand(unit),))

    def script() -> Generator[Any, Any, float]:
        bound = yield from learned_total(given, 1, price.part(Fraction(1, 2)))
        clip = Clip(input=given, owner="owner", columns=("e0_0",), order=1, bound=bound)
        told: Measured = yield Measure(plan=Tally(input=clip, keys=(), summands=(Clipped(clipped=("e0_0",)),)), cells=((),),
                                       noises=(DiscreteLaplace(scale=scale_of(bound / (price.as_epsilon / 2))),))
        return float(told.totals[0][0][0])

    return float(room.play(script()))


def levels(mechanism: Any) -> Callable[[Room, Cost, int], float]:
    def answer(room: Room, price: Cost, unit: int) -> float:
        task = Shared(at=0, input=Totals(), owners=("owner",), summand=summand(unit), most=MOST * unit)
        return float(room.play(mechanism.run([(task, price)], ALONE))[0][0].values[0])

    return answer


WAYS: dict[str, Callable[[Room, Cost, int], float]] = {
    "race": levels(RaceToTheTop()), "clip": clipped, "balance": levels(Balanced()), "bands": in_bands}


def generated() -> Iterator[tuple[str, int, np.ndarray[Any, Any]]]:
    draw = np.random.default_rng(1)
    for tail in (1.1, 1.5, 2.5):
        yield f"50,000 Pareto {tail}", 1, np.minimum(np.ceil(draw.pareto(tail, 50_000) + 1), MOST).astype(np.int64)
    yield "300 Pareto 1.5", 1, np.minimum(np.ceil(10 * (draw.pareto(1.5, 300) + 1)), MOST).astype(np.int64)
    yield "20,000 log-normal", 1, np.minimum(np.ceil(np.exp(draw.normal(6, 1.5, 20_000))), MOST).astype(np.int64)
    yield "100,000 of 1", 1, np.ones(100_000, dtype=np.int64)


def published(folder: Path, name: str) -> tuple[str, int, np.ndarray[Any, Any]]:
    unit, sql = QUERIES[name]
    with duckdb.connect() as connection:
        for source in ("customer", "orders", "lineitem", "supplier", "partsupp"):
            connection.execute(f"CREATE VIEW {source} AS SELECT * FROM '{folder / source}.parquet'")
        found = connection.execute(f"SELECT CAST(round(v) AS BIGINT) AS v FROM ({sql}) AS t").fetchnumpy()
    return name, unit, np.asarray(found["v"])


def measured(name: str, unit: int, totals: np.ndarray[Any, Any], runs: int, epsilon: float) -> list[str]:
    connection = duckdb.connect()
    given = {"owner": np.arange(len(totals)), "v": totals}
    connection.register("given", given)
    connection.execute("CREATE TABLE totals AS SELECT CAST(owner AS BIGINT) AS owner, CAST(v AS BIGINT) AS v FROM given")
    room, truth, price = Room(connection), float(totals.sum()), pure(Fraction(epsilon))
    shown = []
    for way in WAYS.values():
        errors = np.abs(np.array([way(room, price, unit) for _ in range(runs)]) - truth) / unit
        shown += [f"{np.median(errors):,.0f}", f"{errors.mean():,.0f}"]
    return [name, f"{truth / unit:,.0f}", f"{2 * totals.max() / unit / epsilon:,.0f}", *shown]


def main(arguments: Sequence[str] | None = None) -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path, nargs="?")
    asked.add_argument("--runs", type=int, default=100)
    asked.add_argument("--epsilon", type=float, default=0.8)
    given = asked.parse_args(arguments)
    cases = [*generated(), *((published(given.folder, name) for name in QUERIES) if given.folder else ())]
    heads = ("totals", "truth", "aim", *(head for way in WAYS for head in (way, "mean")))
    print(table(f"median and mean errors at epsilon = {given.epsilon}", heads,
                [measured(*case, given.runs, given.epsilon) for case in cases]))


if __name__ == "__main__":
    main()
