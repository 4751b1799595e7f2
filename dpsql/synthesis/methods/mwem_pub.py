"""MWEM+PUB: the rows of a public table get weights, moved in rounds towards what they describe worst.

The model has the distinct rows of the public table, and with a tenth of the weight rows made of them: each value of a row is
exchanged, with a chance of 15 %, for the one of another row. These give combinations of values a place that only the private
rows have, at no price. See `query_rounds` for the rounds: all marginals of the workload are measured at once where noise is well
below what public rows, were they a sample, tell of shares: 1 / sqrt(their number). The public rows are believed as such a sample
is, as long as what is measured does not contradict them (`models.entropy_projection`): one in which some rows count more, where
single columns show that they are too few.

On Adult, with the published workload and public rows among which females are too few by 30 points, the largest error at epsilon =
1 is 0.011 with mixed rows, and was about 0.018 without them.

Source: Liu, Vietri, Steinke, Ullman and Wu, Leveraging Public Data for Practical Private Query Release, ICML 2021.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from dpsql.answers.simulation import Simulation
from dpsql.models.sampling import Places
from dpsql.models.table_domain import TableDomain
from dpsql.models.weighted_rows import WeightedRows, counted_rows, design_effect
from dpsql.synthesis.method import Impossible, Measuring, Method, SynthesisTask
from dpsql.synthesis.methods.query_rounds import QueryRounds, too_many_counts

ROUNDS = 3
SHARP = 0.75
EXCHANGED = 0.15
MIXED = 0.1  # of the weight
TIMES = 10  # as many rows with exchanged values as public ones
MOST_MIXED = 100_000
NEEDED = "it weights the rows of a public table"


class WeightedPublicRows(Method):
    """MWEM+PUB."""

    name: ClassVar[str] = "mwem_pub"

    def refusal(self, task: SynthesisTask) -> Impossible | None:
        """Why the public rows cannot be used: there are none, or none with values of the private rows."""
        if task.public is None:
            return Impossible(why=NEEDED, try_="public = 'a table that the policy declares public' among the OPTIONS")
        if not len(task.public):
            return Impossible(why=f"{NEEDED}, and no row of this one has listed values in all columns",
                              try_="another public table, or method = 'aim'")
        return too_many_counts(task)

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure the single columns, then marginals of the workload."""
        return self._rounds(task).measure(task)

    def _rounds(self, task: SynthesisTask) -> QueryRounds[WeightedRows]:
        public = task.public
        if public is None:
            raise ValueError("there is no public table")
        start = support(task.table.domain, public)
        return QueryRounds(start=lambda found, total: start.tilted((), np.array(total / start.total)),
                           sharp=SHARP / math.sqrt(len(public)), rounds=ROUNDS,
                           worth=lambda model: min(float(len(public)), model.total) / design_effect(start, model))

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        public = () if task.public is None else task.public
        return (*self._rounds(task).stages(task), f"weights of {len(public):,} public rows, and of rows mixed from them")


def support(domain: TableDomain, public: Places) -> WeightedRows:
    """The public rows, and further rows in which some of their values are exchanged. These draws are public."""
    draws, number = Simulation(0), len(public)
    mixed = []
    for _ in range(max(1, min(TIMES, MOST_MIXED // number))):
        others = np.stack([column[np.argsort(draws.random(number))] for column in public.T], axis=1)
        mixed.append(np.where(draws.uniform(public.shape) < EXCHANGED, others, public))
    weights = np.concatenate([np.full(number, 1 - MIXED), np.full(number * len(mixed), MIXED / len(mixed))])
    return counted_rows(domain, np.concatenate([public, *mixed]), weights)
