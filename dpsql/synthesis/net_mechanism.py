"""The net mechanism: of all tables with a few rows, one whose counts are near those of the private rows.

For a class of counts there is always a small table that answers all of them nearly as the private one does, so that it is enough
to choose among small tables, by the exponential mechanism. All tables of m rows over a domain of D combinations of values are
candidates, C(m + D - 1, m) of them, so D must be tiny; m is as large as the number of candidates allows. The score of a candidate
is the L1 distance of its counts, scaled to as many rows as there seem to be, from the private ones: no count of any group is
farther off than that.

Accuracy. Each share of the private rows is rounded down or up to a multiple of 1 / m so that shares add up to 1; so the best
candidate is within N D / (2 m) of N shares. What is chosen is farther off by at most scale * log(candidates / beta), except with
probability beta, as for every exponential mechanism.

Source: Blum, Ligett and Roth, A Learning Theory Approach to Non-Interactive Database Privacy, STOC 2008.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from dpsql.frozen import Frozen
from dpsql.planning.choose import price_charged
from dpsql.planning.explain import Expected
from dpsql.synthesis.column_forms import Form
from dpsql.synthesis.method import CodedTable
from dpsql.synthesis.methods.marginal_requests import choice_scale, noise_for
from dpsql.synthesis.online_model import OnlineModel, shown_columns
from dpsql.synthesis.online_options import OnlineTerms
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.block_sums import Axis
from dpsql.trusted.measurements.farthest_marginal import Farthest, FarthestMarginal
from dpsql.trusted.measurements.noisy_sums import MeasuredSums, NoisySums
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.integer import Noise

MOST_CANDIDATES = 5000
MOST_TABLE = 200  # rows of a candidate
COUNTING = Fraction(1, 10)  # of the price, for the number of rows
BETA = 0.025  # the chance that the choice, and that the number of rows, is farther off than is told


def candidates(cells: int, rows: int) -> int:
    """The number of tables with this many rows."""
    return math.comb(rows + cells - 1, rows)


class NetPlan(Frozen):
    """What a model by the net mechanism will cost, and what its answers will be worth."""

    name: str
    table: CodedTable
    forms: tuple[Form, ...]
    terms: OnlineTerms
    allotted: Cost
    statement: str
    notes: tuple[str, ...] = ()
    method: str = "net"

    @property
    def cells(self) -> int:
        """The number of combinations of values."""
        return self.table.domain.cells(self.table.domain.columns)

    @cached_property
    def rows(self) -> int:
        """The number of rows of each candidate: as many as keep the number of candidates small enough; 1 if even tables of two
        rows are too many."""
        return max(rows for rows in range(1, MOST_TABLE + 1) if rows == 1 or candidates(self.cells, rows) <= MOST_CANDIDATES)

    @property
    def _scale(self) -> float:
        return choice_scale(self.table, 1, self._choosing)

    @property
    def _noise(self) -> Noise:
        return noise_for(self.table, self.allotted.part(COUNTING))

    @property
    def _choosing(self) -> Cost:
        return self.allotted.part(1 - COUNTING)

    def reach(self, total: float) -> float:
        """The largest error of any count, with 95 % probability, for about this many rows."""
        chosen = self._scale * math.log(candidates(self.cells, self.rows) / BETA)
        return total * self.cells / (2 * self.rows) + chosen + 2.5 * math.sqrt(self._noise.variance)

    @property
    def stages(self) -> tuple[str, ...]:
        """The lines of EXPLAIN about its answers."""
        return (f"one of the {candidates(self.cells, self.rows):,} tables of {self.rows} rows, with counts near the private ones",
                f"every count: within {self.reach(0):,.4g}, and {self.reach(1) - self.reach(0):.2g} of all rows, which its "
                "few rows cannot distinguish")

    @property
    def expected(self) -> Expected:
        """The errors that are known before anything is measured."""
        return Expected(aggregate="COUNT(*)", error=None, named="the number of rows")

    def steps(self, identity: str) -> Generator[Request, Any, OnlineModel]:
        """Measure the number of rows, and choose a table."""
        number: MeasuredSums = yield NoisySums(plan=self.table.plan(()), cells=((),), noises=(self._noise,))
        total = max(number.totals[0][0][0], 1)
        shares = _compositions(self.cells, self.rows)
        places = tuple(range(len(self.table.columns)))
        chosen: Farthest = yield FarthestMarginal(
            view=self.table.view, axes=tuple(Axis(column=column.column, values=column.values) for column in self.table.columns),
            marginals=(places,) * len(shares), weights=(-1,) * len(shares), penalties=(0,) * len(shares),
            expected=tuple(tuple(row) for row in np.rint(shares * (total / self.rows)).astype(np.int64).tolist()),
            scale=self._scale)
        counts = shares[chosen.place] * (total / self.rows)
        return OnlineModel(
            name=self.name, price=str(price_charged(self.terms.options.price, self.allotted)),
            columns=shown_columns(self.table, self.forms),
            total=float(total),
            limit=math.ceil(self.reach(total)), singles=(), cells=tuple(counts.tolist()), shared=0.0, gaussian=True, scale=0.0,
            updates=0, queries=self.terms.queries, identity=identity, notes=self.notes, statement=self.statement)


def _compositions(cells: int, rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """All ways to put so many rows into cells, one way in each row of the array."""
    bars = np.array([*combinations(range(rows + cells - 1), cells - 1)], dtype=np.int64)
    ends = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), rows + cells - 1)], axis=1)
    return np.diff(ends, axis=1) - 1
