"""How near linked synthetic tables come to real ones, within tables, across them and from row to row.

    python tests/bench/linked.py --people 10000 --epsilons .8,1,3.2 --runs 3
    tpchgen-cli parquet -s 0.05 --output-dir=tpch --tables customer,orders,lineitem
    python tests/bench/linked.py --people 0 --tpch tpch

Lives are generated: costs and kinds of visits are like those of the visit before, and depend on the person. Bounds of costs are
declared close to the largest one, and then much too wide. Customers, orders and lines are those of TPC-H: -s 0.05 has 7,500
customers. `linked_measures.py` says what is measured. The statement of each of --ways is run so many times; cells are means. For
comparison, at no price and without privacy: as many real customers, with all of their rows, drawn again with replacement; and each
column by itself, exactly, under the real keys. The last columns are the ratios of the first way to both; below 1 is better.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from bench_clock import ratio
from bench_clock import table as printed
from linked_measures import Measurer, numbers_of_lives
from linked_worlds import Frames, World, apart, drawn_again, lives, tpch

import dpsql
from dpsql.trusted.kernel.ledger import Ledger

WAYS = {"auto": {}, "equal bins": {"bins": 32}, "mst": {"method": "mst"}, "independent": {"method": "independent"}}
SECONDS = "CPU s"
Numbers = Mapping[str, float]


def drawn(world: World, way: str, epsilon: float, delta: float) -> tuple[Frames, float]:
    """The tables of one statement, and the CPU seconds that it took."""
    with tempfile.TemporaryDirectory(prefix="dpsql-bench-") as folder:
        policy = world.written(Path(folder), epsilon, delta)
        Ledger.create(Path(folder, "dpsql.ledger")).close()
        start = time.process_time()
        with dpsql.connect(policy=policy, budget="main", analyst="bench") as connection:
            made = connection.synthesize(world.queries, epsilon=epsilon, delta=delta, **WAYS[way])  # type: ignore[arg-type]
            found = {table.name: made.table(f"{table.name}_syn").df() for table in world.tables}
        return found, time.process_time() - start


def means(found: Sequence[Numbers]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def compared(world: World, measures: Callable[[Frames], Numbers], ways: Mapping[str, Sequence[tuple[Frames, float]]]) -> dict[str, Numbers]:
    """The means of the measures of each way, and of both comparisons."""
    found: dict[str, Numbers] = {}
    for way, runs in ways.items():
        found[way] = {**means([measures(frames) for frames, _ in runs]), SECONDS: float(np.mean([seconds for _, seconds in runs]))}
    draws = np.random.default_rng(0)
    again, columns = ([measures(make(world, draws)) for _ in range(3)] for make in (drawn_again, apart))
    return {**found, "drawn again": means(again), "columns apart": means(columns)}


def shown(title: str, found: Mapping[str, Numbers], decimals: int) -> str:
    """The measures, line by line, with the ratios of the first way."""
    first, again, columns = next(iter(found.values())), found["drawn again"], found["columns apart"]
    rows = [[name, *(f"{numbers[name]:.{decimals}f}" if name in numbers else "" for numbers in found.values()),
             *(ratio(first[name], base[name]) if name in base else "" for base in (again, columns))] for name in first]
    return printed(title, ["", *found, "ratio to again", "to apart"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--people", type=int, default=10_000, help="number of generated lives; 0: none")
    parser.add_argument("--most", default="400,10000", help="the declared bounds of their costs, of which the largest is 400")
    parser.add_argument("--tpch", type=Path, help="the folder of the Parquet files of TPC-H")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--ways", default="auto,equal bins", help=f"some of {', '.join(WAYS)}")
    chosen = parser.parse_args(arguments)
    people = [lives(chosen.people, most) for most in map(int, chosen.most.split(",")) if chosen.people]
    worlds = [*people, *([tpch(chosen.tpch)] if chosen.tpch else [])]
    for world in worlds:
        measurer = Measurer(world)
        for epsilon in map(float, chosen.epsilons.split(",")):
            ways = {way: [drawn(world, way, epsilon, chosen.delta) for _ in range(chosen.runs)] for way in chosen.ways.split(",")}
            title = f"{world.name} at {epsilon:g}: {world.about}, delta = {chosen.delta:g}, {chosen.runs} runs"
            print(shown(title, compared(world, measurer.measured, ways), 4), flush=True)
            if world.entity == "person":
                found = {"real": numbers_of_lives(world.frames), **compared(world, numbers_of_lives, ways)}
                heads = ["", *found]
                print(printed("numbers of lives", heads, [[name, *(f"{numbers[name]:.2f}" for numbers in found.values())]
                                                          for name in found["real"]]), flush=True)


if __name__ == "__main__":
    main()
