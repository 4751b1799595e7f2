"""AIM: in each round the marginal is measured that the present model describes worst.

Candidates are the marginals within those of the workload, which has all marginals of three columns where none is named. The
weight of one is what it tells about them: how many columns it shares with each. Columns of numbers are in coarser versions too
(`coarser_versions`), so the resolution of a pair is chosen with it. After the single columns, each round draws a candidate by the
exponential mechanism, with 5 % of the round's price, or up to a quarter where that would leave it to chance, by the score

    weight * (L1 distance of its counts from those of the model - what noise alone would make of it),

measures it for the rest of the round's price, and fits the model anew, from where it was. At first there are three rounds for
each column. Where a new measurement changes its marginal by less than half of what noise would, all that can be seen at this
price is learned: from then on noise is half as large (rho is four times as large, a pure epsilon twice). The last round takes all
that is left. The cells of the model are limited, by the share of the price that is spent: what is measured first should not use
up the room.

At a low price, a round takes so much of it that its choice is more than chance, and that noise leaves something to be learned.
Where noise blurs even the single columns, or no round could be paid, all that is left is for the single columns.

Prices are fractions, and add up to the whole price exactly. Where there is one candidate only, all of a round's price is for its
measurement.

Source: McKenna, Mullins, Sheldon and Miklau, AIM: An Adaptive and Iterative Mechanism for Differentially Private Synthetic Data,
PVLDB 2022, Algorithms 2 and 3. There it is two rounds, 10 % and all of the noise, and no coarser versions. On Adult at epsilon =
1 the error of marginals of three columns is 0.0875 with these and 0.0845 as here, since a fit that stops where noise explains the
rest changes less. Candidates that cannot be drawn are left out here, by public numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpsql.frozen import AbstractFrozen, replace
from dpsql.models.junction_tree import model_cells
from dpsql.models.markov_network import MarkovNetwork
from dpsql.models.mirror_descent import fit
from dpsql.models.table_domain import Columns
from dpsql.synthesis.coarser_versions import with_levels
from dpsql.synthesis.method import CodedTable, Measured, Measuring, Method, SynthesisTask
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.marginal_requests import (
    Candidate,
    audible,
    blurred,
    candidates,
    choice_scale,
    counted,
    farthest,
    hopeful,
    mean_size,
    noise_for,
    told_of,
    unknown_columns,
)
from dpsql.synthesis.methods.stages import error_stage, singles_stage, size_stage
from dpsql.trusted.accounting.cost import Cost

MOST_CELLS = 2**17  # of the model
MOST_TRIED = 1000  # candidates of a round
CHOOSING = Fraction(1, 20), Fraction(1, 10), Fraction(1, 4)  # of a round's price: the least with which choices are sure
SURE = 0.01  # of all rows: the scale of a choice that is sure, for a candidate of weight 1
LEARNED = 0.5  # of what noise alone would change: a measurement that changes its marginal by less taught nothing
CERTAIN = 0.1  # of all rows: by so much the distances of two candidates should differ if the larger one is to be chosen
SINGLE = Fraction(9, 10)  # of a round's price, for the counts of a single column
ROUNDS = 3  # for each column, at first


class AdaptiveMarginals(AbstractFrozen, Method):
    """AIM. `cells`: of the model, at most. `rounds`: for each column, before noise is halved."""

    cells: int = MOST_CELLS
    rounds: int = ROUNDS
    name: ClassVar[str] = "aim"

    def parts(self, task: SynthesisTask) -> int:
        return 2 * len(task.columns)  # rounds become dearer

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure the single columns, then repeatedly the marginal that the model describes worst, until the price is spent."""
        price = task.price
        if not _dependent(candidates(task, self.cells, width=2)):
            return (yield from Independent().measure(task))
        share, spent = Fraction(1, self.rounds * len(task.columns)), Fraction(0)
        found = list(task.known)
        columns = unknown_columns(task, price.part(SINGLE * share))
        for column in columns:
            found.append((yield from counted(task.table, (column,), price.part(SINGLE * share))))
            spent += SINGLE * share
        network = fit(task.table.domain, told_of(task.table.domain, found), impossible=task.table.excluded)
        noise = mean_size(noise_for(task.table, price.part(SINGLE * share)))
        alone = task
        task = replace(task, table=with_levels(task.table, {one: network.marginal((one,)) for one in task.table.domain.columns}))
        possible = candidates(task, self.cells)
        needed = self._enough(task, possible, network.total, share, 1 - spent)
        if blurred(network, task.table, columns, noise) or needed is None:
            return (yield from Independent().again(replace(alone, price=price.part(1 - spent)), found[len(task.known):]))
        table, merged, share = task.table.levels, task.table.impossible, needed
        domain = table.domain
        network = fit(domain, found, impossible=merged)
        weight = max(each.weight for each in possible)
        part = next((part for part in CHOOSING if choice_scale(table, weight, price.part(part * share)) <= (
            SURE * weight * network.total)), CHOOSING[-1])
        while spent < 1:
            if 1 - spent < 2 * share:
                share = 1 - spent
            choosing, measuring = price.part(part * share), price.part((1 - part) * share)
            noise = mean_size(noise_for(table, measuring))
            room = float(self.cells * (spent + share))
            tried = self._tried(table, possible, network, [*merged, *(each.columns for each in found)], noise, room, choosing)
            chosen = yield from farthest(table, [(one, network.marginal(one.columns)) for one in tried], noise, choosing)
            found.append((yield from counted(table, chosen.columns, measuring if len(tried) > 1 else price.part(share))))
            spent += share
            before = network.marginal(chosen.columns)
            network = fit(domain, found, start=network, impossible=merged)
            if np.abs(network.marginal(chosen.columns) - before).sum() <= LEARNED * noise * before.size:
                share *= 2 if price.epsilon is not None else 4
        return Measured(marginals=tuple(found[len(task.known):]), model=network, coarser=task.table.coarser)

    def _enough(self, task: SynthesisTask, possible: Sequence[Candidate], total: float, share: Fraction, left: Fraction) -> (
            Fraction | None):
        """The share of the price that a round needs: this one, or doubled until a choice tells candidates apart and noise leaves
        something to be learned of one of them, up to all that is left; None if that is too little."""
        dependent, weight = [each for each in possible if len(each.columns) > 1], max(each.weight for each in possible)
        while True:
            share = min(share, left)
            noise = mean_size(noise_for(task.table, task.price.part((1 - CHOOSING[-1]) * share)))
            certain = choice_scale(task.table, weight, task.price.part(CHOOSING[-1] * share)) <= CERTAIN * weight * total
            if certain and any(audible(task.table.levels.domain, each, noise, total) for each in dependent):
                return share
            if share == left:
                return None
            share *= 2

    def _tried(self, table: CodedTable, possible: Sequence[Candidate], network: MarkovNetwork, taken: Sequence[Columns],
               noise: float, room: float, choosing: Cost) -> list[Candidate]:
        """The candidates for which the model has room, among those that can be drawn."""
        domain, scale = table.domain, choice_scale(table, max(each.weight for each in possible), choosing)
        hoped = sorted(hopeful(domain, possible, noise, network.total, scale), key=lambda each: domain.cells(each.columns))
        hoped = [each for each in hoped if len(each.columns) == 1 or audible(domain, each, noise, network.total)]
        tried = [each for each in hoped[:MOST_TRIED] if network.tree.holding(each.columns) or (
            domain.cells(each.columns) <= room and model_cells(domain, [*taken, each.columns]) <= room)]
        return tried or [possible[0]]

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        task = replace(task, table=with_levels(task.table, {}))
        table, price = task.table, task.price
        number, possible = len(task.columns), candidates(task, self.cells)
        if not _dependent(possible):
            return Independent().stages(task)
        each = price.part(SINGLE / (self.rounds * number))
        columns = unknown_columns(task, each)
        most = math.floor(self.rounds * number - SINGLE * len(columns))
        width = max(len(one.columns) for one in possible)
        singles = (singles_stage(table, columns, each),) if columns else ()
        return (*singles,
                f"at most {most} counts of up to {width} columns together; each time, of the columns that the model of all "
                f"earlier counts describes worst: {error_stage(table, each)} or less", size_stage(self.cells))


def _dependent(possible: Sequence[Candidate]) -> bool:
    """Whether any candidate tells how columns depend on each other."""
    return any(len(each.columns) > 1 for each in possible)
