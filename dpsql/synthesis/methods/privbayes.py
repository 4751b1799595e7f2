"""PrivBayes: a Bayesian network is chosen node by node, then the counts of each node together with its parents are measured.

First the number of rows is told by the counts of the column of fewest values, for a little of the price. Then all single
columns are measured: for two fifths of the price, or for as much more as it takes that noise moves few rows to other values, on
average. Where that is nearly all, they get all of it, and columns are independent. Otherwise a fourth of what is left is for
the network. It begins with a pair of columns, or with those that are given; in each round one more column is linked to parents
among those before, or to none, by the exponential mechanism, with the score R or mutual information. What remains is for the
counts of each node with its parents: shares of it are as the square roots of the numbers of cells for Laplace noise, and as
their powers of 2/3 for Gaussian noise, which makes the mean size of the noise of all cells least.

The degree of the network follows from public facts and what was paid for: a node and its parents are columns of the workload's
marginals, and have at most as many cells as leave a mean count of `USEFUL` times the noise of one (the paper's theta-usefulness,
for general domains, with the number of rows as the single columns tell it).

With `fit = 'network'` the Markov engine is fitted to all that was measured, single columns and known marginals among it. With
'conditionals' the model is the paper's own: each node's noisy counts, clipped and divided by those of its parents. The cells of
the model's junction tree are limited as nodes are chosen.

Source: Zhang, Cormode, Procopiuc, Srivastava and Xiao, PrivBayes: Private Data Release via Bayesian Networks, TODS 2017. There,
theta is 4, the first column is drawn at random, 3/10 of the price are for the network, and single columns are not measured. On
Adult at a pure epsilon of 1 the error of marginals of three columns is 0.157 with these, and 0.096 as here.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpsql.frozen import AbstractFrozen, replace
from dpsql.models.bayesian_network import of_conditionals
from dpsql.models.junction_tree import model_cells
from dpsql.models.mirror_descent import fit
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.models.table_model import TableModel
from dpsql.synthesis.method import CodedTable, Measured, Measuring, Method, SynthesisTask
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.marginal_requests import candidates, choice_scale, counted, mean_size, noise_for
from dpsql.synthesis.methods.stages import size_stage
from dpsql.synthesis.table_options import FITS, SCORES
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.dependent_parents import (
    ChosenParents,
    ConvexInformation,
    DependentParents,
    ProductDistance,
    Score,
)
from dpsql.trusted.measurements.reading.request import Request

SIZE, SINGLES = Fraction(1, 50), Fraction(2, 5)  # of the price: to know the number of rows; for single columns, at least
ALL = Fraction(9, 10)  # where single columns need more of the price than this, they get all
STRUCTURE = Fraction(1, 4)  # of what is left
MOST_MOVED = 0.06  # of all rows, that the noise of single columns may move to other values
USEFUL = 2  # mean count of a cell over the mean size of its noise, at least
MOST_CELLS = 2**17  # of the model
MOST_TRIED = 1000  # candidates of a round
GRAIN = 16  # parts of a row, or of a bit, in which scores are
LARGEST_COUNT = 2**40  # up to which information is convex

Node = tuple[str, Columns]  # a column and its parents


class PrivBayes(AbstractFrozen, Method):
    """PrivBayes. `score`: one of `SCORES`. `fit`: one of `FITS`."""

    score: str = SCORES[0]
    fit: str = FITS[0]
    name: ClassVar[str] = "privbayes"

    def parts(self, task: SynthesisTask) -> int:
        return 2 * len(task.columns)

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure the single columns, the network, and the counts of its nodes."""
        table, price, sets = task.table, task.price, parent_sets(task)
        if not sets:
            return (yield from Independent().measure(task))
        fewest = min(task.columns, key=lambda name: table.domain.cells([name]))
        first = yield from counted(table, (fewest,), price.part(SIZE))
        share = singles_share(task, at_least(first))
        if share > ALL:
            return (yield from Independent().again(replace(task, price=price.part(1 - SIZE)), [first]))
        singles = yield from Independent().again(replace(task, price=price.part(share)), [first])
        found, left = list(singles.marginals), 1 - SIZE - share
        network, asked = yield from self._network(replace(task, price=price.part(left)), sets, singles.model)
        left *= 1 - STRUCTURE * Fraction(asked, rounds(task))
        linked = [node for node in network if node[1]]
        if not linked:
            return (yield from Independent().again(replace(task, price=price.part(left)), found))
        for (column, parents), part in zip(linked, shares(table.domain, linked, price), strict=True):
            found.append((yield from counted(table, table.domain.ordered((column, *parents)), price.part(left * part))))
        return Measured(marginals=tuple(found), model=self._model(task, network, found, singles.model))

    def _model(self, task: SynthesisTask, network: Sequence[Node], found: Sequence[MarginalMeasurement],
               singles: TableModel) -> TableModel:
        domain = task.table.domain
        if self.fit == "network":
            return fit(domain, [*task.known, *found], impossible=task.table.excluded)
        measured = {frozenset(each.columns): each for each in found}
        counts = []
        for column, parents in network:
            each = measured.get(frozenset((column, *parents)))
            counts.append(singles.marginal((column,)) if each is None or not parents else np.transpose(
                each.values, [each.columns.index(name) for name in (*parents, column)]))
        return of_conditionals(domain, singles.total, network, counts)

    def _network(self, task: SynthesisTask, sets: Sequence[Columns], singles: TableModel) -> Generator[
            Request, Any, tuple[list[Node], int]]:
        """The nodes, parents before their children; and how many choices were asked for."""
        table, domain, number = task.table, task.table.domain, rounds(task)
        each, noise = task.price.part(STRUCTURE / number), mean_size(noise_for(table, task.price.part((1 - STRUCTURE) / number)))
        useful = [one for one in sets if USEFUL * noise * domain.cells(one) <= singles.total]
        network: list[Node] = [(column, ()) for column in domain.columns if column in task.given]
        asked = 0
        while useful and len(network) < len(domain.columns):
            tried = self._tried(domain, useful, network, [known.columns for known in task.known])
            if not tried:
                break
            asked += len(tried) > 1
            child, parents = yield from self._chosen(table, tried, singles, each)
            network += [(parents[0], ()), (child, parents)] if not network else [(child, parents)]
        placed = [column for column, _ in network]
        return [*network, *((column, ()) for column in domain.columns if column not in placed)], asked

    def _tried(self, domain: TableDomain, useful: Sequence[Columns], network: Sequence[Node], known: Sequence[Columns]) -> list[
            Node]:
        """The nodes that may come next. The first one is a pair, and others may be without parents."""
        placed = {column for column, _ in network}
        found: list[Node]
        if not network:
            found = [(one[0], one[1:]) for one in useful if len(one) == 2]
        else:
            found = [(column, tuple(name for name in one if name != column)) for one in useful
                     for column in one if column not in placed and placed.issuperset({*one} - {column})]
        found.sort(key=lambda node: domain.cells((node[0], *node[1])))
        taken = [*known, *((column, *parents) for column, parents in network)]
        kept = [(column, parents) for column, parents in found[:MOST_TRIED]
                if model_cells(domain, [*taken, (column, *parents)]) <= MOST_CELLS]
        return [*kept, *((column, ()) for column in domain.columns if network and column not in placed)]

    def _chosen(self, table: CodedTable, tried: Sequence[Node], singles: TableModel, price: Cost) -> Generator[
            Request, Any, Node]:
        """The node whose column depends most on its parents. Nothing is asked where there is one only."""
        if len(tried) == 1:
            return tried[0]
        score, offsets = self._score(tried, singles)
        by_name = {column.name: place for place, column in enumerate(table.columns)}
        chosen: ChosenParents = yield DependentParents(
            view=table.view, axes=tuple(Axis(column=column.column, values=column.values) for column in table.columns),
            candidates=tuple(tuple(by_name[name] for name in (column, *parents)) for column, parents in tried),
            score=score, offsets=offsets, scale=choice_scale(table, Fraction(score.apart(), 2), price))
        return tried[chosen.place]

    def _score(self, tried: Sequence[Node], singles: TableModel) -> tuple[Score, tuple[int, ...]]:
        """The score of a choice, and what is public of it: for mutual information the entropies of single columns."""
        if self.score == "r":
            return ProductDistance(grain=GRAIN), (0,) * len(tried)
        entropies = {column: round(GRAIN * entropy(singles.marginal((column,)))) for column, _ in tried}
        return ConvexInformation(kinks=kinks(singles.total)), tuple(entropies[column] for column, _ in tried)

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        table, price, sets = task.table, task.price, parent_sets(task)
        if not sets:
            return Independent().stages(task)
        singles = Independent().stages(replace(task, price=price.part(SINGLES)))[:1]
        each = price.part((1 - SIZE - SINGLES) * (1 - STRUCTURE) / rounds(task))
        most, error = max(map(len, sets)) - 1, math.sqrt(noise_for(table, each).variance)
        return (*singles, f"a network in which each column has up to {most} parent{'s' * (most > 1)} that it depends on most, "
                f"by the score {self.score}",
                f"counts of each column with its parents, each off by {error:.3g} where all have equally many cells; "
                "where the rows are too few for that, more of the price is for single columns, up to all of it",
                size_stage(MOST_CELLS))


def rounds(task: SynthesisTask) -> int:
    """The number of choices of nodes: the first choice decides two nodes, and columns that are given need none."""
    return max(len(task.columns) - (not task.given), 1)


def parent_sets(task: SynthesisTask) -> list[Columns]:
    """The possible sets of columns for a node and its parents, within the marginals of the workload."""
    return [each.columns for each in candidates(task, MOST_CELLS) if len(each.columns) > 1]


def at_least(counted: MarginalMeasurement) -> float:
    """The number of rows, less twice its standard error: with too high a number, too little would be left for single columns."""
    return max(float(counted.values.sum()) - 2 * math.sqrt(counted.variance * counted.values.size), 1.0)


def singles_share(task: SynthesisTask, rows: float) -> Fraction:
    """The share of the price for single columns of a table with this many rows: noise that adds up to 2 r over the counts of a
    column moves about r rows to other values."""
    columns = task.columns
    whole = task.price.part((1 - SIZE) / len(columns))
    moved = mean_size(noise_for(task.table, whole)) * sum(task.table.domain.shape(columns)) / (2 * rows * len(columns))
    needed = min(moved / MOST_MOVED, 1.0) ** (1 if task.price.epsilon is not None else 2)
    return max(Fraction(needed).limit_denominator(1000) * (1 - SIZE), SINGLES)


def shares(domain: TableDomain, nodes: Sequence[Node], price: Cost) -> list[Fraction]:
    """The shares of one price for the counts of these nodes, which add up to at most 1. With noise of mean size 1 / share, or of
    its root, the sum of cells times noise is least for these powers of the numbers of cells."""
    power = 1 / 2 if price.epsilon is not None else 2 / 3
    weights = [Fraction(domain.cells((column, *parents)) ** power).limit_denominator(1000) for column, parents in nodes]
    return [weight / sum(weights) for weight in weights]


def entropy(counts: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The entropy in bits of the distribution of the rows, times their number."""
    total, present = float(counts.sum()), counts[counts > 0]
    return float(present @ np.log2(total / present)) if total > 0 else 0.0


def kinks(rows: float) -> tuple[int, ...]:
    """The kinks of a convex function near GRAIN c log2(c), for counts up to about `rows`: the counts at which its rounded rise
    from c to c + 1 reaches another whole number."""
    def rise(counts: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.asarray(GRAIN * ((counts + 1) * np.log2(counts + 1) - counts * np.log2(np.maximum(counts, 1))))

    most = min(max(rows, 2.0), LARGEST_COUNT)
    wanted = np.arange(1, math.floor(float(rise(np.array([most]))[0]) + 0.5) + 1) - 0.5
    low, high = np.zeros(len(wanted)), np.full(len(wanted), math.ceil(most))
    while (low < high).any():  # the least count whose rise is as much
        middle = np.floor((low + high) / 2)
        enough = rise(middle) >= wanted
        low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
    return tuple(np.maximum.accumulate(high).astype(np.int64).tolist())
