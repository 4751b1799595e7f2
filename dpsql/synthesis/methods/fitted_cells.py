"""A small table, cell by cell: noisy marginals become one table of whole numbers by a method of the room `microdata`.

Measured are all marginals within those of the workload, and the one of all columns, each for an equal share of the price; the
number of rows is known from their totals. A table is fitted to them, and to what earlier statements measured, and rounded to
whole numbers. Where as many rows are drawn as it has, which is the rule, the synthetic table is exactly this one.

All after the last release is post-processing. Where no solver finds a table, it is made of the noisy cells alone: what was paid
for is not lost.

Source: Abowd and others, An Uncertainty Principle Is a Price of Privacy-Preserving Microdata, NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, islice
from typing import ClassVar

import numpy as np
import scipy

from dpsql.answers.simulation import Simulation
from dpsql.microdata import limits
from dpsql.microdata.all_fits import FAILURES, fit
from dpsql.microdata.diagnosis_lines import after, before
from dpsql.microdata.diagnostic import independent_errors
from dpsql.microdata.fitted import FittedTable
from dpsql.microdata.noisy_answers import NoisyAnswers, QueryGroup, noisy_answers, query_group
from dpsql.microdata.sparse_queries import of_product
from dpsql.models.joint_histogram import JointHistogram
from dpsql.models.noisy_marginals import LEAST_TOTAL, MarginalMeasurement, combined
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.synthesis.method import Impossible, Measured, Measuring, Method, SynthesisTask
from dpsql.synthesis.methods.marginal_requests import LEAST_VARIANCE, counted, noise_for
from dpsql.synthesis.methods.stages import error_stage
from dpsql.workload.factors import Identity, Total
from dpsql.workload.workload import Product


class FittedCells(Method):
    """What the five methods share; each differs by the name of its fit."""

    name: ClassVar[str]

    def refusal(self, task: SynthesisTask) -> Impossible | None:
        domain, wanted = task.table.domain, task.workload
        cells = domain.cells(domain.columns)
        many = limits.MOST_ENTRIES // max(cells, 1) + 1
        marginals = list(islice(_within(domain, wanted), many)) if cells <= limits.MOST_CELLS else []
        sums = sum(domain.cells(each) for each in marginals[:-1])
        why = limits.refusal(self.name, cells=cells, sums=sums, entries=cells * len(marginals))
        if why is None:
            return None
        return Impossible(why=why, try_="fewer columns, OPTIONS (bins = 8) for numbers, a workload of fewer columns together, or "
                                        "method = 'aim'")

    def parts(self, task: SynthesisTask) -> int:
        return len(marginals_within(task.table.domain, task.workload))

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure every marginal, each for an equal share of the price."""
        marginals = marginals_within(task.table.domain, task.workload)
        found = []
        for columns in marginals:
            found.append((yield from counted(task.table, columns, task.price.part(Fraction(1, len(marginals))))))
        return self._fitted(task, found)

    def _fitted(self, task: SynthesisTask, found: Sequence[MarginalMeasurement]) -> Measured:
        domain = task.table.domain
        noisy = noisy_table(domain, [*task.known, *found], _kind(task))
        try:
            table = fit(noisy, self.name, whole=True)
            notes = after(noisy, table, independent_errors(noisy, Simulation(0)), _names(noisy))
            cells = np.rint(_without_negative(table).cells)
        except FAILURES:
            notes = (f"{self.name} found no table: this one is made from the noisy cells alone",)
            cells = np.rint(np.maximum(found[-1].values, 0.0))
        if not cells.any():
            cells = np.full(cells.size, LEAST_TOTAL / cells.size)
        model = JointHistogram(domain=domain, counts=cells.reshape(domain.sizes))
        return Measured(marginals=tuple(found), model=model, notes=notes)

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        domain = task.table.domain
        marginals = marginals_within(domain, task.workload)
        each, cells = task.price.part(Fraction(1, len(marginals))), domain.cells(domain.columns)
        variance = max(noise_for(task.table, each).variance, LEAST_VARIANCE)
        noisy = noisy_table(domain, [*task.known, *(MarginalMeasurement(
            columns=columns, values=np.zeros(domain.shape(columns)), variance=variance) for columns in marginals)], _kind(task))
        return (f"counts of {len(marginals):,} marginals, those within the workload and that of all columns: "
                f"{error_stage(task.table, each)}",
                f"a table of {cells:,} cells is fitted to them by {self.name}, in whole numbers",
                *before(noisy, self.name, independent_errors(noisy, Simulation(0)), _names(noisy), None))


class LeastSquaresCells(FittedCells):
    """Least squares; then the nearest table without negative cells that has as many rows."""

    name = "ols"


class NonNegativeCells(FittedCells):
    """Non-negative least squares."""

    name = "nnls"


class MaximumFitCells(FittedCells):
    """The largest difference, in standard errors, is the least possible."""

    name = "max_fit"


class SequentialCells(FittedCells):
    """Single columns first, then pairs without changing these, and so on."""

    name = "sequential"


class ReweightedCells(FittedCells):
    """Cells that look empty count little one by one, and much as their sum."""

    name = "reweight"


def marginals_within(domain: TableDomain, workload: Sequence[Columns]) -> tuple[Columns, ...]:
    """All marginals contained in those of the workload, from few columns to many; the marginal of all columns comes last."""
    return tuple(_within(domain, workload))


def _within(domain: TableDomain, workload: Sequence[Columns]) -> Iterator[Columns]:
    wanted = list(dict.fromkeys(map(domain.ordered, workload)))
    for size in range(1, max(map(len, wanted), default=0) + 1):
        for columns in dict.fromkeys(part for each in wanted for part in combinations(each, size)):
            if columns != domain.columns:
                yield columns
    yield domain.columns


def noisy_table(domain: TableDomain, marginals: Sequence[MarginalMeasurement], noise: str) -> NoisyAnswers:
    """Marginals as queries over the cells of all columns, each marginal once. The stage of a marginal is its number of
    columns."""
    return noisy_answers(*(_group(domain, each, noise) for each in combined(domain, marginals)))


def _group(domain: TableDomain, marginal: MarginalMeasurement, noise: str) -> QueryGroup:
    factors = tuple(Identity(size) if column in marginal.columns else Total(size)
                    for column, size in zip(domain.columns, domain.sizes, strict=True))
    return query_group(", ".join(marginal.columns), of_product(Product(factors)), marginal.values.reshape(-1), marginal.variance,
                       noise, stage=len(marginal.columns))


def _names(noisy: NoisyAnswers) -> dict[str, str]:
    return {group.name: f"by {group.name}" for group in noisy.groups}


def _kind(task: SynthesisTask) -> str:
    return "laplace" if task.price.epsilon is not None else "gaussian"


def _without_negative(table: FittedTable) -> FittedTable:
    """The nearest table without negative cells that has as many rows, in whole numbers: a table of rows has no others."""
    if table.cells.min() >= 0:
        return table
    count = len(table.cells)
    rows = query_group("rows", np.ones((1, count)), [max(float(np.rint(table.cells.sum())), 0.0)], 0.0)
    return fit(noisy_answers(rows, query_group("cells", scipy.sparse.eye_array(count), table.cells, 1.0)), "nnls", whole=True)
