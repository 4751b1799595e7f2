"""What the released counts of a synthetic table say about its errors, without its rows.

The error of a drawn count has a mean square of at most that of the noise of the measured count plus that of the distance between
the two: the noise and the distance are correlated in one direction only, as a model that is fitted to noisy counts moves towards
them, and no further.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from dpsql.frozen import Frozen
from dpsql.models.table_domain import Columns
from dpsql.synthesis.counted_values import numbers_of
from dpsql.synthesis.released_table import KeptTable, SyntheticColumn
from dpsql.synthesis.table_comparison import MarginalComparison, TableComparison, Z, means_by_entry
from dpsql.types import Type
from dpsql.workload.factors import Array


class MeanError(Frozen):
    """About how far an average over `rows` rows may be off, with 95 % probability, because of the errors of counts by `columns`.
    It is in inverse proportion to the rows."""

    columns: Columns
    rows: int
    margin: float


class MeasuredCounts(Frozen, eq=False):
    """The measured marginals of a table, and what it has instead.

    total     the estimated number of private rows, to which both are scaled
    columns   in the order of the table, without keys
    versions  for each column and coarser version, the column
    bins      the number of bins of each column that was counted in bins
    means     for columns of numbers and their coarser versions, the mean of each entry's rows; NaN where there are none
    """

    name: str
    rows: int
    total: float
    columns: Columns
    marginals: tuple[MarginalComparison, ...]
    versions: Mapping[str, str]
    bins: Mapping[str, int]
    means: Mapping[str, Array]

    def by(self, columns: Collection[str]) -> MarginalComparison | None:
        """The counts by these columns, in the finest versions in which they were counted together; None if they never were."""
        found = dict[Columns, list[MarginalComparison]]()
        for each in self.marginals:
            version = {self.versions[name]: name for name in each.columns}
            if set(columns) <= set(version):
                names = tuple(version[column] for column in columns)
                found[names] = [*found.get(names, ()), each.by(names)]
        together = [_combined(each) for each in found.values()]
        return max(together, key=lambda each: each.measured.size, default=None)

    def error(self, found: MarginalComparison, summed: Collection[str] = ()) -> float:
        """About the largest root mean square error of a count of this table; one that adds up combinations of the columns
        `summed` has that of all of them."""
        square = found.error**2 + float(np.square(found.measured - found.drawn).mean())
        sizes = (size for name, size in zip(found.columns, found.measured.shape, strict=True) if self.versions[name] in summed)
        return math.sqrt(square * math.prod(sizes)) * self.rows / self.total

    def error_of_mean(self, value: str, columns: Sequence[str], summed: Collection[str] = ()) -> MeanError | None:
        """The error of averages of a column by others; None if they were not counted together.

        With counts c of the entries of the column, of means m, an average is a = sum(c m) / n, and errors of the counts move it
        by sum(error (m - a)) / n. That is told for the group with the largest such error, as if it had the average number
        of rows of a group.
        """
        found = self.by([*columns, value])
        if found is None or found.columns[-1] not in self.means:
            return None
        means = self.means[found.columns[-1]]
        there = ~np.isnan(means)
        counts, means = found.drawn[..., there].reshape(-1, int(there.sum())), means[there]
        counts = counts[counts.sum(axis=1) > 0]
        averages = counts @ means / counts.sum(axis=1)
        spread = float(np.sqrt(np.square(means - averages[:, None]).sum(axis=1)).max(initial=0.0))
        rows = _rounded(self.rows / max(len(counts), 1)) if columns else self.rows
        return MeanError(columns=found.columns, rows=rows, margin=Z * self.error(found, summed) * spread / rows)

    def in_bins(self, version: str) -> bool:
        """Whether an entry of a column or version may have several values."""
        return version in self.bins or version not in self.columns

    def parts(self, columns: Collection[str]) -> list[Columns]:
        """The largest sets of two or more of these columns that were counted together."""
        found = {tuple(column for column in columns if column in {self.versions[name] for name in each.columns})
                 for each in self.marginals}
        return sorted(part for part in found if len(part) > 1 and not any(set(part) < set(other) for other in found))

    def text(self, version: str) -> str:
        """A column or version with the number of its bins."""
        return f"{version} in {self.bins[version]} bins" if version in self.bins else version


def measured_counts(table: KeptTable) -> MeasuredCounts:
    """The counts of a table. Marginals with columns that it does not have are left out."""
    compared = TableComparison(table)
    versions = {version: name for name, own in compared.versions.items() for version in own}
    return MeasuredCounts(
        name=table.name, rows=table.rows, total=table.total, versions=versions,
        columns=tuple(column.name for column in table.columns if column.name not in table.keys),
        marginals=tuple(compared.of(each) for each in table.marginals if set(each.columns) <= set(versions)),
        bins={column.name: len(column.counted.edges) - 1 for column in table.columns
              if column.counted is not None and _has_wide_bins(column)},
        means=dict(_means(compared)))


def _means(compared: TableComparison) -> Iterator[tuple[str, Array]]:
    for column in compared.table.columns:
        if column.type.numeric and column.name in compared.versions:
            numbers = numbers_of(column.values)
            yield from ((version, means_by_entry(numbers, compared.places[version], compared.sizes[version]))
                        for version in compared.versions[column.name])


def _rounded(rows: float) -> int:
    """A number of rows with its first digit alone, at least 1."""
    unit = 10.0 ** math.floor(math.log10(max(rows, 1)))
    return round(max(rows, 1) // unit * unit)


def _has_wide_bins(column: SyntheticColumn) -> bool:
    """Whether a column was counted in bins, of which some have several values."""
    edges = column.counted.edges if column.counted is not None else ()
    return any(high - low > 1 or column.type not in (Type.BIGINT, Type.DATE) for low, high in pairwise(edges))


def _combined(found: list[MarginalComparison]) -> MarginalComparison:
    """Several comparisons of the same columns as one, weighted by inverse variances."""
    weights = [1 / each.error**2 for each in found]
    measured = sum(weight * each.measured for weight, each in zip(weights, found, strict=True)) / sum(weights)
    return MarginalComparison(columns=found[0].columns, measured=np.asarray(measured), error=sum(weights)**-0.5,
                              drawn=found[0].drawn, total=found[0].total)
