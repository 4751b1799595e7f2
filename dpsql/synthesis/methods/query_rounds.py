"""Rounds of multiplicative weights, as MWEM and MWEM+PUB share them: what the model is worst at is measured, and the model moved.

A share of the price is for the counts of all single columns, and so for the number of rows. The rest is for the marginals of the
workload. Where measuring all of them at once leaves less noise than the model would err by anyway, that is done: choices would be
wasted. Else there are rounds, each of which draws one count, by the exponential mechanism, that the model is far from, and
measures all counts of its marginal: that costs no more than the one count, as a row is in one cell only. After each the model is
projected on everything that was measured (`models.entropy_projection`). The last model is the result: the average of all
models, of which the theorem speaks, errs more.

Sources: Hardt, Ligett and McSherry, NIPS 2012; Liu, Vietri, Steinke, Ullman and Wu, Leveraging Public Data for Practical Private
Query Release, ICML 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from fractions import Fraction
from typing import Any, Generic

import numpy as np

from dpsql.frozen import Frozen
from dpsql.models.entropy_projection import CellMeasurement, Tilted, projected
from dpsql.models.noisy_marginals import MarginalMeasurement, estimated_total
from dpsql.models.table_domain import Columns, most_numbers
from dpsql.synthesis.method import CodedTable, Impossible, Measured, Measuring, SynthesisTask
from dpsql.synthesis.methods.marginal_requests import counted, counted_cell, farthest_cells, noise_for
from dpsql.synthesis.methods.stages import error_stage, singles_stage
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request

SINGLES = Fraction(3, 10)  # of the price
CHOOSING = Fraction(1, 2)  # of a round's price
MOST_COUNTS = 2**24  # of all marginals of a workload
FINE = 10  # expected counts are rounded to multiples of this part of a row


class Start(Frozen, Generic[Tilted], kw_only=False):
    """The model that is moved, and how many rows it is worth."""

    model: Tilted
    worth: float


class QueryRounds(Frozen, Generic[Tilted]):
    """What the two methods differ in.

    start   the first model, from the counts of single columns and the number of rows
    worth   how many rows it is worth, by the model that has been fitted to the single columns
    sharp   the noise, as a share of all rows, below which all marginals are measured at once
    rounds  how many there are else; if there are fewer marginals, all are measured at once
    single  whether one count is measured in each round, and never all at once
    """

    start: Callable[[Sequence[MarginalMeasurement], float], Tilted]
    worth: Callable[[Tilted], float]
    sharp: float
    rounds: int
    single: bool = False

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure the single columns, and then the workload's marginals of several columns."""
        table, price, wanted = task.table, task.price, wanted_marginals(task)
        columns = table.domain.columns
        first = SINGLES if wanted else Fraction(1)
        found: list[MarginalMeasurement] = []
        for column in columns:
            found.append((yield from counted(table, (column,), price.part(first / len(columns)))))
        total = max(estimated_total([*task.known, *found]), 1.0)
        begun = self.start(found, total)
        singles = projected(begun, [*task.known, *found], worth=self.worth(begun), total=total)
        start = Start(begun, self.worth(singles))
        rest = price.part(1 - first)
        cells: list[CellMeasurement] = []
        if self.single and wanted:
            cells = yield from self._counts(task, start, found, total, wanted, rest)
        elif wanted and (len(wanted) <= self.rounds or self._noise(table, rest, len(wanted)) <= self.sharp * total):
            for each in wanted:
                found.append((yield from counted(table, each, rest.part(Fraction(1, len(wanted))))))
        elif wanted:
            yield from self._marginals(task, start, found, total, wanted, rest)
        return Measured(marginals=tuple(found), model=self._model(task, start, [*found, *cells], total))

    def _noise(self, table: CodedTable, price: Cost, many: int) -> float:
        return math.sqrt(noise_for(table, price.part(Fraction(1, many))).variance)

    def _model(self, task: SynthesisTask, start: Start[Tilted], found: Sequence[MarginalMeasurement | CellMeasurement],
               total: float) -> Tilted:
        marginals = [each for each in (*task.known, *found) if isinstance(each, MarginalMeasurement)]
        total = max(estimated_total(marginals), total * 1e-3)
        return projected(start.model, [*task.known, *found], worth=start.worth, total=total)

    def _marginals(self, task: SynthesisTask, start: Start[Tilted], found: list[MarginalMeasurement], total: float,
                   wanted: Sequence[Columns], price: Cost) -> Generator[Request, Any, None]:
        table, each = task.table, price.part(Fraction(1, self.rounds))
        left = list(wanted)
        for _ in range(self.rounds):
            model = self._model(task, start, found, total)
            cell, = yield from farthest_cells(table, _expected(model, left), each.part(CHOOSING), multiplier=FINE)
            found.append((yield from counted(table, left.pop(cell.marginal), each.part(1 - CHOOSING))))

    def _counts(self, task: SynthesisTask, start: Start[Tilted], found: Sequence[MarginalMeasurement], total: float,
                wanted: Sequence[Columns], price: Cost) -> Generator[Request, Any, list[CellMeasurement]]:
        table, each, cells = task.table, price.part(Fraction(1, self.rounds)), list[CellMeasurement]()
        for _ in range(self.rounds):
            model = self._model(task, start, [*found, *cells], total)
            far, = yield from farthest_cells(table, _expected(model, wanted), each.part(Fraction(1, 2)), multiplier=FINE)
            columns = wanted[far.marginal]
            place = tuple(int(at) for at in np.unravel_index(far.cell, table.domain.shape(columns)))
            cells.append((yield from counted_cell(table, columns, place, each.part(Fraction(1, 2)))))
        return cells

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        """The stages, as lines for EXPLAIN, from public facts."""
        table, price, wanted = task.table, task.price, wanted_marginals(task)
        first, number = SINGLES if wanted else Fraction(1), len(table.columns)
        told = [singles_stage(table, table.domain.columns, price.part(first / number))]
        rest = price.part(1 - first)
        if not wanted:
            return tuple(told)
        whole = error_stage(table, rest.part(Fraction(1, len(wanted))))
        each = rest.part(Fraction(1, self.rounds))
        if self.single:
            half = error_stage(table, each.part(Fraction(1, 2)))
            return (*told, f"{self.rounds} single counts, always one of those farthest from the model: {half}")
        if len(wanted) <= self.rounds:
            return (*told, f"counts of all {len(wanted)} marginals of the workload: {whole}")
        least = math.ceil(self._noise(table, rest, len(wanted)) / self.sharp)
        one = math.sqrt(noise_for(table, each.part(1 - CHOOSING)).variance)
        return (*told, f"with about {least:,} rows or more, counts of all {len(wanted)} marginals of the workload at once, each "
                f"± {self._noise(table, rest, len(wanted)):.3g}; with fewer, {self.rounds} of them, each time one of those that "
                f"the model is farthest from, each ± {one:.3g}")


def wanted_marginals(task: SynthesisTask) -> tuple[Columns, ...]:
    """The marginals of the workload with several columns, each once."""
    return tuple(dict.fromkeys(columns for columns in map(task.table.domain.ordered, task.workload) if len(columns) > 1))




def too_many_counts(task: SynthesisTask) -> Impossible | None:
    """Why the workload's marginals have too many counts, all of which are computed in every round; None if they do not."""
    domain = task.table.domain
    counts = [domain.cells(columns) for columns in wanted_marginals(task)]
    if sum(counts) <= MOST_COUNTS and max(counts, default=0) <= most_numbers():
        return None
    return Impossible(why=f"its marginals have {sum(counts):,} counts, and the method computes all of them in every round: "
                          f"at most {MOST_COUNTS:,}", try_="fewer columns, fewer bins, a workload of fewer columns together, or "
                                                           "method = 'aim'")


def _expected(model: Tilted, wanted: Sequence[Columns]) -> list[tuple[Columns, Any]]:
    return [(columns, FINE * model.marginal(columns)) for columns in wanted]
