"""A synthetic table beside the noisy counts that it was made from: column by column, and pair by pair.

All of it is post-processing of what was released. Where several marginals tell of a column or a pair, their counts are combined
with inverse variances as weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.models.noisy_marginals import MarginalMeasurement, combined
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.released_table import KeptTable
from dpsql.trusted.cached import cached_property
from dpsql.workload.factors import Array


class MarginalComparison(Frozen):
    """Counts of some columns: as measured, with the standard error of each, and as the table has them, scaled to `total` rows."""

    columns: Columns
    measured: Array
    error: float
    drawn: Array
    total: float

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
        versions = sorted(product(*(self._versions[name] for name in pair)), reverse=True,
                          key=lambda version: math.prod(self._sizes[name] for name in version))
        return next((found for version in versions if (found := self.marginal(version)) is not None), None)

    @cached_property
    def _versions(self) -> Mapping[str, Columns]:
        """The names of each column and of its coarser versions."""
        of: dict[str, str] = {name: name for name in self.counted}
        for one in self.table.coarser:
            of[one.name] = of[one.of]
        return {name: tuple(version for version, column in of.items() if column == name) for name in self.counted}

    @cached_property
    def _sizes(self) -> Mapping[str, int]:
        return {**{name: counted.size for name, counted in self.counted.items()},
                **{one.name: one.size for one in self.table.coarser}}

    def marginal(self, columns: Columns) -> MarginalComparison | None:
        """The counts of these columns, or coarser versions, if they follow from the marginals; None otherwise."""
        domain = TableDomain(columns, tuple(self._sizes[name] for name in columns))
        told = [summed(each.measurement, columns) for each in self.table.marginals if set(columns) <= set(each.columns)]
        if not told:
            return None
        found, = combined(domain, told)
        return MarginalComparison(columns=columns, measured=np.asarray(found.values), error=math.sqrt(found.variance),
                                  drawn=self._drawn(columns, domain), total=self.table.total)

    def _drawn(self, columns: Columns, domain: TableDomain) -> Array:
        shape = domain.shape(columns)
        cells = np.ravel_multi_index(tuple(self._places[name] for name in columns), shape)
        counts = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
        return np.multiply(counts, self.table.total / self.table.rows, dtype=np.float64)

    @cached_property
    def _places(self) -> Mapping[str, NDArray[np.int64]]:
        found = {column.name: column.counted.places(column.values) for column in self.table.columns if column.counted is not None}
        for one in self.table.coarser:
            found[one.name] = np.array(one.merged, dtype=np.int64)[found[one.of]]
        return found


def summed(measured: MarginalMeasurement, columns: Columns) -> MarginalMeasurement:
    """The marginal of some of its columns, in their order: counts are summed, and their variances add up."""
    others = tuple(at for at, name in enumerate(measured.columns) if name not in columns)
    left = [name for name in measured.columns if name in columns]
    values: Array = np.asarray(measured.values).sum(axis=others)
    return MarginalMeasurement(columns=columns, values=values.transpose([left.index(name) for name in columns]),
                               variance=measured.variance * (measured.values.size / values.size))
