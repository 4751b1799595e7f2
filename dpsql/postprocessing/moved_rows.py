"""Error bars of SQL over released rows: how its answer changes when their numbers are moved, or when their noise is drawn again
(a parametric bootstrap).

The rows are loaded in many versions, of which version 0 is what was released. First come *probes*, unless the noisy numbers are
very many: they move each number by some of its standard errors, which tells whether an answer is a linear function of them.
Only if some answer is not, the noise is *drawn*: DRAWS versions have further noise like theirs, each second half the reflection
of the first. Some more move all numbers to the *ends* of intervals that hold all of them: all up, all down, towards each other
and apart, and where they are few, each up while the others go down.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpsql.answers.simulation import Simulation
from dpsql.estimates import Estimate, NoiseTerm, Numbers
from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Interval, Type

DRAWS, LEAST_DRAWS = 400, 60
DRAWS_ONE_BY_ONE = 120  # where the SQL is bound anew for each of them
MOST_VALUES = 600_000  # of all draws of all rows
MOST_PROBED = 1_100  # noisy numbers: three years of days
MOST_ONE_BY_ONE = 160  # the same, where the SQL is bound anew for each probe, or each number has versions of its own
DIRECTIONS = 4  # in which all numbers are moved
SPARE, REACH = 24, 4.0  # probes more than numbers; how many standard errors they reach


class LoadedColumn(Frozen):
    """A column of released rows. `estimate` knows the errors of its numbers; None if it has none, or is no number. Pieces of
    noise that are named in `shared` are the same in all rows, others differ from row to row."""

    type: Type
    values: Sequence[Value]
    noisy: bool
    estimate: Estimate | None
    physical: Interval
    shared: frozenset[tuple[int, ...]] = frozenset()

    @property
    def moves(self) -> bool:
        return self.estimate is not None and bool(self.estimate.slopes)


class Number(Frozen, kw_only=False):
    """The released table, column and row of one noisy number."""

    table: str
    column: str
    row: int


class MovedRows(Frozen):
    """All versions of the noisy columns of released tables, as versions x rows. All but the first are probes."""

    columns: Mapping[tuple[str, str], Numbers]
    numbers: tuple[Number, ...]
    versions: int

    def of(self, number: Number) -> Numbers:
        return np.asarray(self.columns[number.table, number.column][:, number.row])


class RedrawnRows(MovedRows):
    """Versions that are draws, followed by those with all numbers at ends of intervals."""

    draws: range
    ends: range


def probed_rows(tables: Mapping[str, Mapping[str, LoadedColumn]], seed: int, most: int = MOST_PROBED) -> MovedRows:
    """Probes of released tables; none if there are no noisy numbers, or more than `most`. The same seed gives the same ones."""
    simulation, moving = Simulation(seed), _moving(tables)
    numbers = _numbers(moving)
    probes, found = len(numbers) + SPARE if 0 < len(numbers) <= most else 0, {}
    for key, column in moving.items():
        base, estimate = as_floats(column.values), column.estimate
        assert estimate is not None
        found[key] = _versions(base, column, (2 * simulation.uniform((probes, len(base))) - 1) * REACH * _reach(column, estimate))
    return MovedRows(columns=found, numbers=numbers, versions=1 + probes)


def redrawn_rows(tables: Mapping[str, Mapping[str, LoadedColumn]], seed: int, confidence: float,
                 most: int = DRAWS) -> RedrawnRows:
    """Versions of released tables, with `most` draws at most. The same seed gives the same ones."""
    simulation, moving = Simulation(seed), _moving(tables)
    numbers = _numbers(moving)
    size = sum(len(columns) * max((len(column.values) for column in columns.values()), default=0) for columns in tables.values())
    half = min(most, max(LEAST_DRAWS, MOST_VALUES // max(1, size))) // 2 if numbers else 0
    ends = (DIRECTIONS + 2 * len(numbers) * (len(numbers) <= MOST_ONE_BY_ONE)) if numbers else 0
    noises, found, first = _Noises(simulation, half), {}, 0
    for key, column in moving.items():
        base, estimate = as_floats(column.values), column.estimate
        assert estimate is not None
        drawn = noises.of(estimate, key[0], column.shared, len(base))
        found[key] = _versions(base, column, drawn, -drawn, _to_ends(
            base, estimate, 1 - (1 - confidence) / max(1, len(numbers)), ends, first))
        first += int(np.isfinite(base).sum())
    return RedrawnRows(columns=found, numbers=numbers, versions=1 + 2 * half + ends, draws=range(1, 1 + 2 * half),
                     ends=range(1 + 2 * half, 1 + 2 * half + ends))


def _moving(tables: Mapping[str, Mapping[str, LoadedColumn]]) -> dict[tuple[str, str], LoadedColumn]:
    return {(table, name): column for table, columns in tables.items() for name, column in columns.items() if column.moves}


def _numbers(moving: Mapping[tuple[str, str], LoadedColumn]) -> tuple[Number, ...]:
    return tuple(Number(table, name, row) for (table, name), column in moving.items()
                 for row in np.flatnonzero(np.isfinite(as_floats(column.values))).tolist())


def _versions(base: Numbers, column: LoadedColumn, *moved: Numbers) -> Numbers:
    return np.concatenate([base[None, :], *(fitted_to_column(base[None, :] + part, column) for part in moved)])


def _reach(column: LoadedColumn, estimate: Estimate) -> Numbers:
    """How far probes go, in standard errors of which there are REACH: whole numbers move at least by one of them."""
    return np.maximum(np.nan_to_num(estimate.deviations, nan=1.0, posinf=1.0), 1e-9 if column.type is Type.DOUBLE else 1.0)


def _to_ends(base: Numbers, estimate: Estimate, confidence: float, versions: int, first: int) -> Numbers:
    """The numbers of a column at the ends of their intervals: versions x rows. `first` is the position of its first number among
    all numbers, which determines the two versions in which each number is moved."""
    lows, highs = estimate.ends(confidence)
    wide = 6 * np.nan_to_num(estimate.deviations, nan=0.0, posinf=0.0)
    down, up = (np.where(np.isfinite(end - base), end - base, side * wide) for end, side in ((lows, -1), (highs, 1)))
    centre = np.nanmean(base) if np.isfinite(base).any() else 0.0
    towards = np.clip(centre - base, down, up)
    apart = np.where(base < centre, down, up)
    found = np.zeros((versions, len(base)))
    if not versions:
        return found
    found[:DIRECTIONS] = [up, down, towards, apart]
    if versions > DIRECTIONS:
        own = np.flatnonzero(np.isfinite(base))
        found[DIRECTIONS::2], found[DIRECTIONS + 1 :: 2] = down, up
        rows = DIRECTIONS + 2 * (first + np.arange(len(own)))
        found[rows, own], found[rows + 1, own] = up[own], down[own]
    return found


class _Noises:
    """Draws of a statement's noise; noise that is shared by several numbers is drawn once."""

    def __init__(self, simulation: Simulation, draws: int) -> None:
        self._simulation, self._draws = simulation, draws
        self._known: dict[tuple[str, tuple[int, ...] | int], dict[int, Numbers]] = {}

    def of(self, estimate: Estimate, table: str, shared: frozenset[tuple[int, ...]], rows: int) -> Numbers:
        """How far the numbers of a column are moved, to first order: draws x rows."""
        total = np.zeros((self._draws, rows))
        for name, (term, slope) in estimate.slopes.items():
            key = term.together if term.together is not None else name
            unit = math.sqrt(term.variance) if term.together is not None else 1.0
            steps = np.broadcast_to(np.abs(slope) * unit if term.together is not None else slope, rows)
            there = np.flatnonzero(steps)  # of a table of many periods, the noise of one of them moves few rows
            moved = self._drawn((table, key), term, there.tolist(), once=name in shared) * steps[there]
            total[:, there] += np.nan_to_num(moved, nan=0.0, posinf=0.0, neginf=0.0)
        return total

    def _drawn(self, key: tuple[str, tuple[int, ...] | int], term: NoiseTerm, rows: list[int], *, once: bool) -> Numbers:
        """The draws of a term for some rows; `once` if they are the same for all rows."""
        known = self._known.setdefault(key, {})
        places = [0] if once else rows
        if new := [row for row in places if row not in known]:
            known.update(zip(new, self._simulation.noise(term, (self._draws, len(new))).T, strict=True))
        return np.array([known[row] for row in places]).reshape(len(places), self._draws).T


def fitted_to_column(numbers: Numbers, column: LoadedColumn) -> Numbers:
    """Numbers converted to the column's type and range."""
    if column.type is Type.DOUBLE:
        return numbers
    low, high = (1.0, float(dt.date.max.toordinal())) if column.type is Type.DATE else (column.physical.low, column.physical.high)
    return np.asarray(np.clip(np.rint(numbers), low, high))


def as_floats(values: Sequence[Value]) -> Numbers:
    return np.array([math.nan if value is None or isinstance(value, str) else value.toordinal() if isinstance(value, dt.date)
                     else float(value) for value in values], dtype=np.float64)
