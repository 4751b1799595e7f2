"""A distribution moved as little as possible to agree with noisy counts, as far as their noise lets them be believed.

Of all distributions w with N rows, the one is sought that makes

    sum over i of trust_i (y_i - counts_i of w)^2 / (2 variance_i)  +  worth / N * KL(w || start)

least. Its log density differs from the start's by one number for each measured cell, so it is found by block coordinate
ascent of the dual: for one measurement after the other, its cells get the numbers that are best given all others. In a cell
whose count would be m0 without its own number, the new count m solves

    m exp((m - y) / (k variance)) = m0,         k = worth / (N trust).

Without noise that is m = y: iterative proportional fitting, an exact I-projection (Csiszar 1975). With noise, m lies between y
and m0; it is never negative. `worth` says how many rows the start is worth: as many as it was counted from, where it is a
sample.

Where the start is no sample of the same rows, it is worth less in some directions. So the fit begins with full worth, and while
the residuals of some measurement are larger than noise explains in any of them (Laurent and Massart 2000, lemma 1), the worst one
is trusted `MORE` times more. Where that does not help, as no weights can explain it, it stays as it is.

Multiplicative weights take half a step towards the newest count instead, and forget the others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.models.table_domain import Columns
from dpsql.models.table_model import TableModel
from dpsql.trusted.stopping import go_on
from dpsql.workload.factors import Array

MORE = 4.0
MOST_RAISED = 16  # measurements that are trusted more, one after the other
FIRST_SWEEPS, SWEEPS = 6, 3  # through all measurements: at first, and after one is trusted more
CLOSE = 0.05  # standard deviations of the noise: no count moves by more in a sweep that is the last
TAIL = 2.0  # noise exceeds what is taken to be explained by it with chance exp(-TAIL) at most
HELPED = 0.9  # of what was unexplained is left, at most, where more trust helps
MOST_LOG = 40.0  # of a factor
NEWTON, EXACT = 50, 1e-6
FLOOR = -700.0  # log of a count that is 0


class Tiltable(TableModel, Protocol):
    """A model that can be multiplied by a factor for each cell of a marginal."""

    def tilted(self: Tilted, columns: Columns, factors: Array) -> Tilted: ...


Tilted = TypeVar("Tilted", bound=Tiltable)


class CellMeasurement(Frozen, eq=False):
    """The noisy count of one cell of a marginal: the place of each of its values."""

    columns: Columns
    cell: tuple[int, ...]
    value: float
    variance: float


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Fitted:
    """The measured cells of one marginal, as places in it, and the log factors that they have so far."""

    columns: Columns
    cells: NDArray[np.int64]
    values: Array
    variance: float
    logs: Array = dataclasses.field(init=False)
    trust: float = 1.0

    def __post_init__(self) -> None:
        self.logs = np.zeros(len(self.cells))

    def unexplained(self, model: TableModel, tail: float) -> float:
        """By how much the squared residuals exceed what noise explains, but for a chance of exp(-tail)."""
        number = len(self.cells)
        squares = float(((self.values - model.marginal(self.columns).ravel()[self.cells])**2).sum()) / self.variance
        return squares - number - 2 * math.sqrt(number * tail) - 2 * tail


def projected(start: Tilted, measurements: Sequence[MarginalMeasurement | CellMeasurement], *, worth: float,
              total: float) -> Tilted:
    """The distribution with `total` rows; `start` counts as `worth` rows. Raises ValueError unless both are positive."""
    if not (0 < worth < math.inf and 0 < total < math.inf):
        raise ValueError("the numbers of rows must be positive and finite")
    parts = [_part(start, each) for each in measurements]
    model = _swept(_with_total(start, total), parts, worth, FIRST_SWEEPS)
    tail, open_ = TAIL + math.log(max(len(parts), 1)), list(parts)
    for _ in range(MOST_RAISED):
        excess = [part.unexplained(model, tail) for part in open_]
        if max(excess, default=0) <= 0:
            break
        worst = int(np.argmax(excess))
        part = open_[worst]
        part.trust *= MORE
        model = _swept(model, parts, worth, SWEEPS)
        if part.unexplained(model, tail) > HELPED * excess[worst]:
            part.trust /= MORE
            open_.pop(worst)
    return model


def _part(start: TableModel, each: MarginalMeasurement | CellMeasurement) -> _Fitted:
    shape = start.domain.shape(each.columns)
    if isinstance(each, CellMeasurement):
        cells, values = np.array([np.ravel_multi_index(each.cell, shape)], dtype=np.int64), np.array([each.value])
    else:
        cells, values = np.arange(start.domain.cells(each.columns)), np.asarray(each.values, dtype=float).ravel()
    return _Fitted(columns=each.columns, cells=cells, values=values, variance=each.variance)


def _with_total(model: Tilted, total: float) -> Tilted:
    return model.tilted((), np.array(total / model.total))


def _swept(model: Tilted, parts: Sequence[_Fitted], worth: float, sweeps: int) -> Tilted:
    """Every measurement in turn, several times. The number of rows stays."""
    total = model.total
    for _ in range(sweeps):
        moved = 0.0
        for part in parts:
            go_on()
            counts = model.marginal(part.columns)
            before = counts.ravel()[part.cells]
            there = before > 0
            without = np.where(there, np.log(np.where(there, before, 1.0)) - part.logs, FLOOR)
            logs = np.where(there, np.clip(_solved(without, part.values, worth / total / part.trust * part.variance) - without,
                                           -MOST_LOG, MOST_LOG), 0.0)
            after = np.where(there, np.exp(without + logs), 0.0)
            factors = np.ones(counts.size)
            factors[part.cells] = np.exp(logs - part.logs)
            factors *= total / (total - before.sum() + after.sum())
            part.logs = logs
            model = model.tilted(part.columns, factors.reshape(counts.shape))
            moved = max(moved, float(np.abs(after - before).max(initial=0)) / part.variance**0.5)
        if moved <= CLOSE:
            break
    return model


def _solved(without: Array, values: Array, width: float) -> Array:
    """The log of the m that solves m exp((m - y) / width) = m0 for each y, by Newton's method, which climbs from below after one
    step, as the function is convex in log m. `without` has the logs of m0."""
    x = np.where(values > 0, np.maximum(np.log(np.maximum(values, 1e-9)), np.minimum(without, 0)), without)
    for _ in range(NEWTON):
        m = np.exp(np.minimum(x, MOST_LOG))
        step = (x + (m - values) / width - without) / (1 + m / width)
        x = x - np.clip(step, -5, 5)
        if np.abs(step).max(initial=0) < EXACT:
            break
    return x
