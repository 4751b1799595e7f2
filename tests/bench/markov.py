"""Errors and CPU seconds of Markov networks fitted to noisy marginals: all marginals of one, two and three columns of a table.

    python tests/bench/markov.py --adult adult_coded14.parquet --domain adult_coded14.domain.json

Two mechanisms choose what is measured. MST: all single columns, then a spanning tree of pairs. AIM: in each round the marginal that
the present model is farthest from. Their noise is numpy's, as a simulation: the mechanisms are played on a table that is no secret.
The error of a marginal is the total variation distance of its shares; the errors printed are means over all marginals of so many
columns. Beside them are the errors of the fitted network itself, before a table is drawn from it.

Below are numbers for Adult at epsilon = 1, measured on two cores: a first version of both mechanisms, mbi 2.0.0 and dpmm 0.1.9.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from bench_clock import table

from dpsql.models.junction_tree import model_cells
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.mirror_descent import fit
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.table_domain import Columns, TableDomain

RHO = 0.014973  # of epsilon = 1 and delta = 1e-9
ROUNDS, WORD = 28, 8
PUBLISHED = [["MST, first version", "", "", "", ".0080 / .0551 / .1200", "0.8", "", "155"],
             ["MST, mbi 2.0.0", "", "", "", ".0087 / .0553 / .1197", "19", "", "1040"],
             ["MST, dpmm 0.1.9", "", "", "", ".0094 / .0585 / .1260", "80", "", "230"],
             ["AIM, 1 MB, first version", "", "", "", ".0072 / .0391 / .0906", "8", "", "170"],
             ["AIM, 1 MB, dpmm 0.1.9", "", "", "", ".0104 / .0441 / .0972", "43", "", "242"],
             ["AIM, 4 MB and 56 rounds, dpmm 0.1.9", "", "", "", ".0096 / .0386 / .0863", "140", "", "253"],
             ["independent columns, exact", "", "", "", "0 / .0761 / .1716", "", "", ""],
             ["as many rows of the table drawn again", "", "", "", ".0045 / .0146 / .0344", "", "", ""]]
Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Table:
    """The table that a mechanism is played on, and the noise that it is played with."""

    domain: TableDomain
    rows: np.ndarray[Any, np.dtype[np.int64]]
    generator: np.random.Generator

    def counts(self, columns: Columns) -> Array:
        places = [self.domain.columns.index(column) for column in columns]
        shape = self.domain.shape(columns)
        found = np.bincount(np.ravel_multi_index(tuple(self.rows[:, places].T), shape), minlength=math.prod(shape))
        return found.reshape(shape).astype(float)

    def measured(self, columns: Columns, rho: float) -> MarginalMeasurement:
        """Neighbours differ in one row, which is in one cell: the Gaussian mechanism of sensitivity 1."""
        exact = self.counts(columns)
        return MarginalMeasurement(columns=columns, values=exact + self.generator.normal(0, math.sqrt(0.5 / rho), exact.shape),
                                   variance=0.5 / rho)

    def chosen(self, scores: list[float], epsilon: float, sensitivity: float) -> int:
        """The exponential mechanism, by Gumbel noise; its rho is epsilon^2 / 8."""
        return int(np.argmax(epsilon * np.array(scores) / (2 * sensitivity) + self.generator.gumbel(size=len(scores))))


def mst(data: Table, rho: float, *, noise_counted: bool = False) -> MarkovNetwork:
    """A third of rho for single columns, a third to choose the tree, and a third to measure its pairs.

    A pair's score is its distance from independence; with `noise_counted` less that of its noise, as in AIM, so that pairs of many
    cells are not chosen where their noise hides what would be learned.
    """
    columns = data.domain.columns
    singles = [data.measured((column,), rho / 3 / len(columns)) for column in columns]
    independent, each = fit(data.domain, singles), rho / 3 / (len(columns) - 1)
    noise = math.sqrt(0.5 / each) * math.sqrt(2 / math.pi) if noise_counted else 0
    scores = {pair: float(np.abs(data.counts(pair) - independent.marginal(pair)).sum()) - noise * data.domain.cells(pair)
              for pair in combinations(columns, 2)}
    epsilon, tree = math.sqrt(8 * each), nx.Graph()
    tree.add_nodes_from(columns)
    while tree.number_of_edges() < len(columns) - 1:
        part = {column: number for number, each in enumerate(nx.connected_components(tree)) for column in each}
        left = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        tree.add_edge(*left[data.chosen([scores[pair] for pair in left], epsilon, 1)])
    return fit(data.domain, [*singles, *(data.measured(pair, each) for pair in tree.edges)])


def aim(data: Table, rho: float, *, megabytes: float = 1, rounds: int = ROUNDS) -> MarkovNetwork:
    """McKenna, Mullins, Sheldon and Miklau, AIM, PVLDB 2022, for all marginals of three columns."""
    asked = list(combinations(data.domain.columns, 3))
    weights = {part: float(sum(len({*part} & {*each}) for each in asked))
               for size in (1, 2, 3) for part in combinations(data.domain.columns, size)}
    exact = {part: data.counts(part) for part in weights if data.domain.cells(part) * WORD <= megabytes * 2**20}
    measure, choose = 0.9 * rho / rounds, 0.1 * rho / rounds
    measured = [data.measured((column,), measure) for column in data.domain.columns]
    spent = measure * len(measured)
    network = fit(data.domain, measured)
    while rho - spent > 1e-9 * rho:
        if rho - spent < 2 * (measure + choose):
            measure, choose = 0.9 * (rho - spent), 0.1 * (rho - spent)
        room = megabytes * 2**20 / WORD * (spent + measure + choose) / rho
        taken = [each.columns for each in measured]
        held = {part for part in exact if network.tree.holding(part)}
        tried = [part for part in exact if part in held or (data.domain.cells(part) <= room and model_cells(data.domain, [*taken, part]) <= room)]
        noise = math.sqrt(0.5 / measure) * math.sqrt(2 / math.pi)
        scores = [weights[part] * (float(np.abs(exact[part] - network.marginal(part)).sum()) - noise * exact[part].size) for part in tried]
        part = tried[data.chosen(scores, math.sqrt(8 * choose), max(weights[part] for part in tried))]
        measured.append(data.measured(part, measure))
        spent += measure + choose
        before = network.marginal(part)
        network = fit(data.domain, measured, start=network)
        if np.abs(network.marginal(part) - before).sum() <= noise * before.size:
            measure, choose = 4 * measure, 4 * choose
    return network


def errors(data: Table, told: Callable[[Columns], Array]) -> str:
    """Mean total variation distances over the marginals of one, two and three columns."""
    found = []
    for size in (1, 2, 3):
        each = [np.abs(data.counts(columns) / len(data.rows) - told(columns)).sum() / 2 for columns in combinations(data.domain.columns, size)]
        found.append(f"{np.mean(each):.4f}".lstrip("0"))
    return " / ".join(found)


def lines(data: Table, rho: float) -> Iterator[list[str]]:
    mechanisms = {"MST": mst, "MST, noise counted": partial(mst, noise_counted=True), "AIM, 1 MB": aim,
                  "AIM, 4 MB and 56 rounds": partial(aim, megabytes=4, rounds=56)}
    for name, mechanism in mechanisms.items():
        start = time.process_time()
        network = mechanism(data, rho)
        fitted = time.process_time()
        drawn = Table(data.domain, network.draw(round(network.total), data.generator), data.generator)
        seconds = time.process_time()
        yield [name, str(len(network.tree.cliques)), str(sum(table.size for table in network.probabilities)),
               errors(data, lambda columns: network.marginal(columns) / network.total),
               errors(data, lambda columns: drawn.counts(columns) / len(drawn.rows)), f"{fitted - start:.2f}", f"{seconds - fitted:.2f}",
               f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--adult", type=Path, default=Path("adult_coded14.parquet"))
    parser.add_argument("--domain", type=Path, default=Path("adult_coded14.domain.json"))
    parser.add_argument("--rho", type=float, default=RHO)
    parser.add_argument("--seeds", type=int, default=2)
    chosen = parser.parse_args()
    for path in (chosen.adult, chosen.domain):
        if not path.exists():
            raise SystemExit(f"{path.name} is not there")
    import pandas as pd

    sizes = json.loads(chosen.domain.read_text(encoding="utf-8"))
    domain = TableDomain(tuple(sizes), tuple(sizes.values()))
    rows = pd.read_parquet(chosen.adult)[list(sizes)].to_numpy(dtype=np.int64)
    made = [line for seed in range(chosen.seeds) for line in lines(Table(domain, rows, np.random.default_rng(seed)), chosen.rho)]
    print(table(f"{len(rows)} rows of {len(sizes)} columns, rho = {chosen.rho:g}: total variation distance of the marginals",
                ["", "cliques", "cells", "model: 1, 2, 3 columns", "drawn: 1, 2, 3 columns", "CPU s", "to draw", "MB"], [*made, *PUBLISHED]))


if __name__ == "__main__":
    main()
