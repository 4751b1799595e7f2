"""A synthetic table beside the noisy counts that it was made from: column by column, and pair by pair.

All of it is post-processing of what was released. Where several marginals tell of a column or a pair, their counts are combined
with inverse variances as weights.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.models.noisy_marginals import MarginalMeasurement, combined
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.synthesis.computed_once import ComputedOnce
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.method import versions_of
from dpsql.synthesis.packed_numbers import unpacked_numbers
from dpsql.synthesis.packed_values import PackedValues, packed_values
from dpsql.synthesis.released_table import KeptTable, ReleasedMarginal, SyntheticColumn
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array

Z = 1.96  # standard errors from the middle to the end of a 95 % interval


class MarginalComparison(Frozen):
    """Counts of some columns: as measured, with the standard error of each, and as the table has them, scaled to `total` rows."""

    columns: Columns
    measured: Array
    error: float
    drawn: Array
    total: float

    def by(self, columns: Columns) -> MarginalComparison:
        """The counts of some of its columns: counts are summed, and their variances add up."""
        measured, drawn = _summed(self.measured, self.columns, columns), _summed(self.drawn, self.columns, columns)
        return MarginalComparison(columns=columns, measured=measured, drawn=drawn, total=self.total,
                                  error=self.error * math.sqrt(self.measured.size / measured.size))

    @property
    def distance(self) -> float:
        """The fraction of the rows that would have to change to make the counts equal: the total variation distance."""
        return float(np.abs(self.measured - self.drawn).sum()) / 2 / self.total

    @property
    def noise(self) -> float:
        """The approximate distance of the measured counts from the private ones due to noise alone, as such a fraction."""
        return min(1.0, math.sqrt(2 / math.pi) * self.error * self.measured.size / 2 / self.total)


class TableComparison(Frozen, kw_only=False):
    """Compares a table with its marginals. Columns that were never counted are left out."""

    table: KeptTable

    @cached_property
    def counted(self) -> Mapping[str, CountedValues]:
        """The values that were counted for each column."""
        return {column.name: column.counted for column in self.table.columns if column.counted is not None}

    @cached_property
    def columns(self) -> Mapping[str, MarginalComparison]:
        """The comparisons of single columns."""
        return {name: found for name in self.counted if (found := self.marginal((name,))) is not None}

    @cached_property
    def pairs(self) -> Mapping[Columns, MarginalComparison | None]:
        """All pairs of columns, in the finest versions in which they were counted together; None for a pair that never was, so
        that it depends on the model only."""
        return {pair: self._finest(pair) for pair in combinations(self.counted, 2)}

    def _finest(self, pair: Columns) -> MarginalComparison | None:
        cells = {version: math.prod(self.sizes[name] for name in version) for version in self._counted_pairs.get(pair, ())}
        return self.marginal(max(cells, key=lambda version: cells[version])) if cells else None

    @cached_property
    def _counted_pairs(self) -> Mapping[Columns, Collection[Columns]]:
        """For each pair that was counted together, the versions in which it was."""
        order, found = [*self.counted], dict[Columns, dict[Columns, None]]()
        of = {version: order.index(name) for name, own in self.versions.items() for version in own}
        for each in self.table.marginals:
            known = sorted((version for version in each.columns if version in of), key=lambda version: of[version])
            for one, two in combinations(known, 2):
                found.setdefault((order[of[one]], order[of[two]]), {})[one, two] = None
        return found

    @cached_property
    def versions(self) -> Mapping[str, Columns]:
        """The names of each column and of its coarser versions."""
        return versions_of(self.counted, self.table.coarser)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The number of entries of each column and coarser version."""
        return {**{name: counted.size for name, counted in self.counted.items()},
                **{one.name: one.size for one in self.table.coarser}}

    def marginal(self, columns: Columns) -> MarginalComparison | None:
        """The counts of these columns, or coarser versions, if they follow from the marginals; None otherwise."""
        domain = TableDomain(columns, tuple(self.sizes[name] for name in columns))
        told = [summed(each.measurement, columns) for each in self.table.marginals if set(columns) <= set(each.columns)]
        if not told:
            return None
        found, = combined(domain, told)
        return MarginalComparison(columns=columns, measured=np.asarray(found.values), error=math.sqrt(found.variance),
                                  drawn=self._drawn(columns, domain.shape(columns)), total=self.table.total)

    def of(self, each: ReleasedMarginal) -> MarginalComparison:
        """A measured marginal, whose columns all are those of the table, or coarser versions."""
        return MarginalComparison(columns=each.columns, measured=np.asarray(each.measurement.values), error=each.error,
                                  drawn=self._drawn(each.columns, each.shape), total=self.table.total)

    def drawn(self, columns: Columns) -> Array:
        """The rows of the table with each combination of values of these columns, or coarser versions, scaled."""
        return self._drawn(columns, tuple(self.sizes[name] for name in columns))

    def coarsest(self, name: str) -> str:
        """The coarsest version of a column."""
        return min(self.versions[name], key=lambda version: self.sizes[version])

    def _drawn(self, columns: Columns, shape: tuple[int, ...]) -> Array:
        return np.multiply(self._counts(columns, shape), self.table.total / self.table.rows, dtype=np.float64)

    def _counts(self, columns: Columns, shape: tuple[int, ...]) -> Array:
        """The rows of the table in each cell: as they were counted when the table was made, or as they are counted now."""
        known = [each for each in self.table.marginals if each.drawn and set(columns) <= set(each.columns)]
        if known:
            least = min(known, key=lambda each: each.cells)
            return _summed(unpacked_numbers(least.drawn, "<f8").reshape(least.shape), least.columns, columns)
        cells = np.ravel_multi_index(tuple(self.places[name] for name in columns), shape)
        return np.asarray(np.bincount(cells, minlength=math.prod(shape)).reshape(shape), dtype=np.float64)

    @cached_property
    def places(self) -> Mapping[str, NDArray[Any]]:
        """For each column and coarser version, the index of each row's entry."""
        return Places(self)

    def in_pieces(self, column: SyntheticColumn, version: str) -> Iterator[tuple[PackedValues, NDArray[Any]]]:
        """The values of a column, piece by piece, each with the indices of the rows' entries in a version of the column."""
        start, places = 0, self.places[version]
        for piece in packed_values(column.values).pieces():
            yield piece, places[start:start + len(piece)]
            start += len(piece)


class Places(ComputedOnce[NDArray[Any]]):
    """The index of each row's entry, for each column and coarser version, in as few bytes as possible."""

    def __init__(self, compared: TableComparison) -> None:
        self._columns = {column.name: column for column in compared.table.columns if column.counted is not None}
        self._coarser = {one.name: one for one in compared.table.coarser}
        super().__init__([*self._columns, *self._coarser])

    def compute(self, name: str) -> NDArray[Any]:
        """The indices for a column, or for a coarser version, from those of the version that it merges."""
        if name in self._coarser:
            one = self._coarser[name]
            return np.asarray(np.array(one.merged, dtype=np.min_scalar_type(one.size))[self[one.of]])
        column = self._columns[name]
        assert column.counted is not None
        kind = np.min_scalar_type(column.counted.size)
        return np.concatenate([column.counted.places(piece).astype(kind) for piece in packed_values(column.values).pieces()])


def summed(measured: MarginalMeasurement, columns: Columns) -> MarginalMeasurement:
    """The marginal of some of its columns, in their order: counts are summed, and their variances add up."""
    values = _summed(np.asarray(measured.values), measured.columns, columns)
    return MarginalMeasurement(columns=columns, values=values, variance=measured.variance * (measured.values.size / values.size))


def _summed(values: Array, names: Columns, columns: Columns) -> Array:
    """An array with an axis for each name, summed to one with an axis for each of these columns."""
    others = tuple(at for at, name in enumerate(names) if name not in columns)
    left = [name for name in names if name in columns]
    found: Array = np.asarray(values.sum(axis=others)).transpose([left.index(name) for name in columns])
    return found


def means_by_entry(numbers: Iterable[tuple[Array, NDArray[Any]]], size: int) -> Array:
    """The mean of the rows of each entry; NaN where there is none. Numbers and places come piece by piece."""
    sums, counts = np.zeros(size), np.zeros(size, dtype=np.int64)
    for own, places in numbers:
        there = ~np.isnan(own)
        sums += np.bincount(places[there], own[there], minlength=size)
        counts += np.bincount(places[there], minlength=size)
    found: Array = np.divide(sums, counts, out=np.full(size, math.nan), where=counts > 0)
    return found
