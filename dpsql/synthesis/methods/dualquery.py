"""DualQuery: rows that answer, one after the other, counts on which the rows before them were wrong.

In round t a few counts are drawn, with probability proportional to exp(eta * sum over the rows x so far of (q(D) - q(x))), for
shares q(D) of the private rows D, and their negatives; the next row is one with which many of them agree. The rows found are the
table. Nothing is ever measured but the number of rows: that is why the method needs little memory, and why it errs more than
others at the same price. Finding the row is hard in general. Here columns are improved one by one, from several starts: that
spoils accuracy where it fails, never privacy.

With T rounds of s draws, in counts: each draw of round t is a choice among scores (t - 1) * count - expected, at a scale n / eta,
and costs epsilon_t = 2 (t - 1) k eta / n, for k rows of an entity: epsilon = k eta s T (T - 1) / n in all, or rho = sum s
epsilon_t^2 / 8, about k^2 s eta^2 T^3 / (6 n^2). Here s epsilon_t, or s rho_t, are the shares of the price in these proportions.

T and s, with s = T / `ROUNDS_FOR_DRAW`, are such that eta is about `ETA`, as far as the noisy number of rows tells n: with many
rounds for a low price the rows follow noise, and with few for a high one there are too few of them. On Adult the largest error
over 256 marginals is 0.17 at epsilon = 0.1, and 0.06 at epsilon = 1.

Source: Gaboardi, Gallego Arias, Hsu, Roth and Wu, Dual Query: Practical Private Query Release for High Dimensional Data,
ICML 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsql.answers.simulation import Simulation
from dpsql.frozen import AbstractFrozen
from dpsql.models.sampling import Places
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.models.weighted_rows import counted_rows
from dpsql.synthesis.method import Impossible, Measured, Measuring, Method, SynthesisTask
from dpsql.synthesis.methods.independent import Independent
from dpsql.synthesis.methods.marginal_requests import counted, farthest_cells
from dpsql.synthesis.methods.query_rounds import too_many_counts, wanted_marginals
from dpsql.synthesis.methods.stages import error_stage
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.farthest_count import FarCell

COUNTING = Fraction(1, 20)  # of the price, for the number of rows
ETA = 2.5
ROUNDS_FOR_DRAW = 3
LEAST_ROUNDS, MOST_ROUNDS = 10, 150
STARTS, PASSES = 24, 10


class DualQuery(AbstractFrozen, Method):
    """`rounds`, if given: also the number of different rows, at most; then `draws` are the counts in each round."""

    rounds: int | None = None
    draws: int = 1
    name: ClassVar[str] = "dualquery"

    def refusal(self, task: SynthesisTask) -> Impossible | None:
        return too_many_counts(task)

    def measure(self, task: SynthesisTask) -> Measuring:
        """Measure the number of rows, from the column with the fewest values; then only choose cells."""
        table, domain, wanted = task.table, task.table.domain, wanted_marginals(task)
        if not wanted:
            return (yield from Independent().measure(task))
        column = min(domain.columns, key=lambda each: domain.cells([each]))
        first = yield from counted(table, (column,), task.price.part(COUNTING))
        total, draws = max(float(first.values.sum()), 1.0), Simulation(0)
        rows = np.stack([np.floor(draws.random(1) * size).astype(np.int64) for size in domain.sizes], axis=1)
        rounds, many = self._schedule(task.price, total / table.rows)
        for number in range(1, rounds):
            made = counted_rows(domain, rows, np.full(len(rows), total))
            expected = [(columns, made.marginal(columns)) for columns in wanted]
            share = (1 - COUNTING) * _share(number, rounds, pure=task.price.epsilon is not None)
            cells = yield from farthest_cells(table, expected, task.price.part(share), multiplier=number, draws=many)
            rows = np.concatenate([rows, best_row(domain, wanted, cells, draws)])
        return Measured(marginals=(first,), model=counted_rows(domain, rows, np.full(len(rows), total / len(rows))))

    def _schedule(self, price: Cost, total: float) -> tuple[int, int]:
        """The number of rounds and of draws in each, for so many entities."""
        if self.rounds is not None:
            return self.rounds, self.draws
        many = (float(price.epsilon) * total / ETA * ROUNDS_FOR_DRAW)**(1 / 3) if price.epsilon is not None else (
            6 * float(price.rho) * (total / ETA)**2 * ROUNDS_FOR_DRAW)**(1 / 4)
        rounds = min(max(round(many), LEAST_ROUNDS), MOST_ROUNDS)
        return rounds, max(1, round(rounds / ROUNDS_FOR_DRAW))

    def stages(self, task: SynthesisTask) -> tuple[str, ...]:
        if not wanted_marginals(task):
            return Independent().stages(task)
        domain = task.table.domain
        column = min(domain.columns, key=lambda each: domain.cells([each]))
        return (f"counts of the values of {column}: {domain.cells([column]):,} cells, "
                f"{error_stage(task.table, task.price.part(COUNTING))}",
                f"no other count: {LEAST_ROUNDS} to {MOST_ROUNDS} rounds, more for a higher price and for more rows; in each, "
                "counts are drawn that the rows found so far answer wrongly, and a row is added that answers them")


def _share(number: int, rounds: int, *, pure: bool) -> Fraction:
    """Of the draws after so many rows: epsilon grows as their number, and rho as its square."""
    power = 1 if pure else 2
    return Fraction(number**power, sum(each**power for each in range(1, rounds)))


def best_row(domain: TableDomain, wanted: Sequence[Columns], cells: Sequence[FarCell], draws: Simulation) -> Places:
    """A row that is in many of the cells with the sign +, and in few of the others. It starts at random, except for the values of
    a cell with the sign +; then each column in turn gets its best value, until nothing changes."""
    codes = np.full((len(cells), len(domain.columns)), -1, dtype=np.int64)
    for at, cell in enumerate(cells):
        columns = wanted[cell.marginal]
        places = [domain.columns.index(column) for column in columns]
        codes[at, places] = np.unravel_index(cell.cell, domain.shape(columns))
    signs = np.array([cell.sign for cell in cells], dtype=np.float64)
    rows = np.stack([np.floor(draws.random(STARTS) * size).astype(np.int64) for size in domain.sizes], axis=1)
    good = np.flatnonzero(signs > 0)
    for at in range(min(STARTS - 1, len(good))):
        rows[at] = np.where(codes[good[at]] >= 0, codes[good[at]], rows[at])
    inside = _inside(rows, codes)
    for _ in range(PASSES):
        before = rows.copy()
        for column, size in enumerate(domain.sizes):
            others = inside.sum(axis=2) - inside[:, :, column] == len(domain.columns) - 1
            asked = codes[:, column] >= 0
            valued = (codes[asked, column][:, None] == np.arange(size)) * signs[asked][:, None]
            gains = others[:, asked] @ valued
            here = gains[np.arange(STARTS), rows[:, column]]
            rows[:, column] = np.where(gains.max(axis=1) > here, gains.argmax(axis=1), rows[:, column])
            inside[:, :, column] = _inside(rows[:, [column]], codes[:, [column]])[:, :, 0]
        if (rows == before).all():
            break
    scores = inside.all(axis=2) @ signs
    return rows[[int(np.argmax(scores))]]


def _inside(rows: Places, codes: Places) -> NDArray[np.bool_]:
    """Whether each row has the value that each cell asks for in each column."""
    return np.asarray((codes[None] < 0) | (rows[:, None] == codes[None]))
