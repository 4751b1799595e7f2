"""A tree of pairs of columns: the maximum spanning tree, chosen edge by edge, of the pairs that are farthest from independence.

A third of the price is for the counts of all single columns, to which a model of independent columns is fitted; a third is to
choose the tree; and a third for the counts of its pairs. As in Kruskal's algorithm, each round adds one of the edges that join
two parts, by the exponential mechanism. The score of a pair is the L1 distance of its true counts from those of independent
columns, less what the noise of its measurement would add to it (as AIM counts noise). On Adult at epsilon = 1 that lowers the
error of marginals of three columns from 0.117 to 0.109: a pair of many cells is not chosen where noise hides what would be
learned. Of columns of numbers there are coarser versions (`coarser_versions`), among which the score chooses for each pair. Where
noise blurs even the single columns, the rest of the price is for these.

Source: McKenna, Miklau and Sheldon, Winning the NIST contest: a scalable and general approach to differentially private synthetic
data, Journal of Privacy and Confidentiality 2021.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from dpsql.frozen import replace
from dpsql.models.junction_tree import model_cells
from dpsql.models.mirror_descent import fit
from dpsql.models.table_domain import Columns
from dpsql.models.table_model import TableModel
from dpsql.synthesis.coarser_versions import with_levels
from dpsql.synthesis.method import Measured, Measuring, Method, SynthesisTask, columns_of_versions
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.marginal_requests import (
    Candidate,
    blurred,
    candidates,
    choice_scale,
    counted,
    farthest,
    hopeful,
    mean_size,
    noise_for,
)
from dpsql.synthesis.methods.stages import error_stage, size_stage
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.workload.factors import Array

THIRD = Fraction(1, 3)
MOST_CELLS = 2**17  # of a pair; columns that only larger pairs link stay independent
MOST_MODEL = 2**22  # cells of a model in which rules link columns, too


class SpanningTree(Method):
    """MST. Tables without pairs that matter are independent columns, and one pair needs no choice.

    Pairs that no marginal of the workload has are not chosen. Columns that are linked by known marginals are linked already.
    """

    name = "mst"

    def parts(self, task: SynthesisTask) -> int:
        return 2 * len(task.columns)

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure the single columns, then the pairs of a spanning tree."""
        table, price, possible = task.table, task.price, pairs(task)
        edges = len(_links(task, possible))
        if not edges:
            return (yield from Independent().measure(task))
        singles = yield from Independent().measure(replace(task, price=price.part(THIRD)))
        found, each = list(singles.marginals), price.part(THIRD / len(singles.marginals))
        columns = [column for one in found for column in one.columns]
        leveled = with_levels(table, {one: singles.model.marginal((one,)) for one in table.domain.columns})
        if blurred(singles.model, leveled, columns, mean_size(noise_for(table, each))):
            return (yield from Independent().again(replace(task, price=price.part(2 * THIRD)), found))
        task = replace(task, table=leveled)
        table, merged, possible = task.table.levels, task.table.impossible, pairs(task)
        edges = len(_links(task, possible))
        tree, choices = yield from self._tree(task, possible, fit(table.domain, [*task.known, *found], impossible=merged), edges)
        left = 2 * THIRD - choices * THIRD / edges
        for pair in tree:
            found.append((yield from counted(table, pair, price.part(left / edges))))
        return Measured(marginals=tuple(found), model=fit(table.domain, [*task.known, *found], impossible=merged),
                        coarser=task.table.coarser)

    def _each(self, task: SynthesisTask, edges: int) -> Cost:
        """The price of one pair's counts. With one pair nothing is chosen."""
        return task.price.part((THIRD if len(pairs(task)) > 1 else 2 * THIRD) / edges)

    def _tree(self, task: SynthesisTask, possible: Sequence[Candidate], model: TableModel, edges: int) -> Generator[
            Request, Any, tuple[list[Columns], int]]:
        """The pairs of the tree, and how many choices it took: the last pair may be the only one left."""
        table, each = task.table.levels, task.price.part(THIRD / edges)
        noise = mean_size(noise_for(table, self._each(task, edges)))
        scale, part = choice_scale(table, max(each.weight for each in possible), each), _parts(task)
        expected: dict[Candidate, Array] = {}
        tree: list[Columns] = []
        choices = 0
        while left := [one for one in possible if part[one.columns[0]] != part[one.columns[1]] and _has_room(task, tree, one)]:
            tried = hopeful(table.domain, left, noise, model.total, scale)
            expected |= {one: model.marginal(one.columns) for one in tried if one not in expected}
            chosen = yield from farthest(table, [(one, expected[one]) for one in tried], noise, each)
            tree.append(chosen.columns)
            choices += len(tried) > 1
            part = _joined(part, chosen.columns)
        return tree, choices

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        task = replace(task, table=with_levels(task.table, {}))
        table, possible = task.table.levels, pairs(task)
        edges = len(_links(task, possible))
        if not edges:
            return Independent().stages(task)
        singles = Independent().stages(replace(task, price=task.price.part(THIRD)))[:1]
        cells = sorted(table.domain.cells(each.columns) for each in possible)[-edges:]
        size = size_stage(sum(cells) + sum(known.values.size for known in task.known) + sum(table.domain.sizes))
        error = error_stage(table, self._each(task, edges))
        if len(possible) == 1:
            return *singles, f"counts of the pair of columns: {error}", size
        return (*singles, f"the {edges} pairs of columns, linked as a tree, that are farthest from independence",
                f"counts of these pairs: {error}", size)


def _has_room(task: SynthesisTask, tree: Sequence[Columns], pair: Candidate) -> bool:
    """Whether a model with one more pair stays small. Pairs of a tree always do, unless combinations of values are excluded,
    which link columns, too."""
    table = task.table
    return not table.excluded or model_cells(table.levels.domain, [*table.impossible, *tree, pair.columns]) <= MOST_MODEL


def pairs(task: SynthesisTask) -> list[Candidate]:
    """The pairs of columns that may be measured."""
    return [each for each in candidates(task, MOST_CELLS, width=2) if len(each.columns) == 2]


Parts = dict[str, int]  # for each column the number of the part of the tree that it is in


def _parts(task: SynthesisTask) -> Parts:
    """Each column by itself with its coarser versions, but for those that known marginals link."""
    columns = task.table.domain.columns
    apart = {column: at for at, column in enumerate(columns)}
    apart |= {version: apart[column] for version, column in columns_of_versions(task.table.coarser).items()}
    return reduce(_joined, (known.columns for known in task.known), apart)


def _joined(part: Parts, columns: Columns) -> Parts:
    gone = {part[column] for column in columns}
    return {column: min(gone) if place in gone else place for column, place in part.items()}


def _links(task: SynthesisTask, possible: Sequence[Candidate]) -> list[Columns]:
    """Some tree of possible pairs: every tree that is chosen has as many."""
    part, found = _parts(task), []
    for one in possible:
        if part[one.columns[0]] != part[one.columns[1]]:
            found.append(one.columns)
            part = _joined(part, one.columns)
    return found
