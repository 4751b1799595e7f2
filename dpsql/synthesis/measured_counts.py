"""What the released counts of a synthetic table say about its errors, without its rows.

The error of a drawn count has a mean square of at most that of the noise of the measured count plus that of the distance between
the two: the noise and the distance are correlated in one direction only, as a model that is fitted to noisy counts moves towards
them, and no further.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import numpy as np

from dpsql.frozen import Frozen
from dpsql.models.table_domain import Columns
from dpsql.synthesis.computed_once import ComputedOnce
from dpsql.synthesis.counted_values import CountedValues, number_of, numbers_of
from dpsql.synthesis.released_table import CoarserColumn, KeptTable, SyntheticColumn
from dpsql.synthesis.table_comparison import MarginalComparison, TableComparison, means_by_entry
from dpsql.types import Type
from dpsql.workload.factors import Array


class EntryNumbers(Frozen, eq=False):
    """The numbers in each entry of a column or of a coarser version; NaN for the entry of NULL.

    means, variances  of the drawn rows; without such rows the middle, and 0
    lows, highs       the least and the largest possible number
    """

    means: Array
    variances: Array
    lows: Array
    highs: Array

    @property
    def reach(self) -> Array:
        """How far a number may be from the mean of its entry; 0 for NULL."""
        return np.nan_to_num(np.maximum(np.maximum(self.means - self.lows, self.highs - self.means), 0))


class MeasuredCounts(Frozen, eq=False):
    """The measured marginals of a table, and what it has instead.

    total     the estimated number of private rows, to which both are scaled
    columns   in the order of the table, without keys
    versions  for each column and coarser version, the column
    bins      the number of bins of each column that was counted in bins
    numbers   for columns of numbers and their coarser versions
    known     how many of the marginals, at the end, earlier statements had measured: their errors may be correlated
    """

    name: str
    rows: int
    total: float
    columns: Columns
    marginals: tuple[MarginalComparison, ...]
    versions: Mapping[str, str]
    bins: Mapping[str, int]
    numbers: Mapping[str, EntryNumbers]
    known: int = 0

    def by(self, columns: Collection[str], among: Sequence[MarginalComparison] | None = None) -> MarginalComparison | None:
        """The counts by these columns, in the finest versions in which they were counted together; None if they never were.
        They follow from all marginals, or from some `among` them."""
        found = dict[Columns, list[MarginalComparison]]()
        for each in self.marginals if among is None else among:
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
    measured = [(each, at >= len(table.marginals) - table.known) for at, each in enumerate(table.marginals)
                if set(each.columns) <= set(versions)]
    return MeasuredCounts(
        name=table.name, rows=table.rows, total=table.total, versions=versions,
        columns=tuple(column.name for column in table.columns if column.name not in table.keys),
        marginals=tuple(compared.of(each) for each, _ in measured), known=sum(known for _, known in measured),
        bins={column.name: len(column.counted.edges) - 1 for column in table.columns
              if column.counted is not None and _has_wide_bins(column)},
        numbers=_Numbers(compared))


class _Numbers(ComputedOnce[EntryNumbers]):
    """The numbers in the entries of columns and versions, for which all rows are read."""

    def __init__(self, compared: TableComparison) -> None:
        self._compared = compared
        self._coarser = {one.name: one for one in compared.table.coarser}
        self._columns = {version: column for column in compared.table.columns
                         if column.type.numeric and column.counted is not None for version in compared.versions[column.name]}
        super().__init__(self._columns)

    def compute(self, name: str) -> EntryNumbers:
        """The numbers in the entries of one version."""
        column = self._columns[name]
        return _entries(self._compared, column, name, *self._ends(name, column))

    def _ends(self, version: str, column: SyntheticColumn) -> tuple[Array, Array]:
        if version in self._coarser:
            one = self._coarser[version]
            return _merged(self._ends(one.of, column), one)
        assert column.counted is not None
        return _ends(column.counted, whole=column.type is Type.BIGINT)


def _ends(counted: CountedValues, *, whole: bool) -> tuple[Array, Array]:
    """The least and the largest number of each entry; NaN for NULL."""
    listed, edges = counted.listed, counted.edges
    if not edges:
        values = np.array([np.nan if value is None else number_of(value) for value in listed])
        return values, values
    bins = [number if isinstance(number, int) else None for number in listed]
    return (np.array([np.nan if number is None else edges[number] for number in bins]),
            np.array([np.nan if number is None else edges[number + 1] - whole for number in bins]))


def _merged(ends: tuple[Array, Array], into: CoarserColumn) -> tuple[Array, Array]:
    lows, highs = np.full(into.size, np.nan), np.full(into.size, np.nan)
    np.fmin.at(lows, list(into.merged), ends[0])
    np.fmax.at(highs, list(into.merged), ends[1])
    return lows, highs


def _entries(compared: TableComparison, column: SyntheticColumn, version: str, lows: Array, highs: Array) -> EntryNumbers:
    means = means_by_entry(((numbers_of(piece), places) for piece, places in compared.in_pieces(column, version)), len(lows))
    squares = means_by_entry(((np.square(numbers_of(piece) - means[places]), places)
                              for piece, places in compared.in_pieces(column, version)), len(lows))
    return EntryNumbers(means=np.where(np.isnan(means), (lows + highs) / 2, means), lows=lows, highs=highs,
                        variances=np.where(np.isnan(lows), np.nan, np.nan_to_num(squares)))


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
