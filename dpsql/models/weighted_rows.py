"""A model whose rows are given: a public list of rows, each with a weight, its expected number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen, field, replace
from dpsql.models.conditional_draws import NOTHING_MORE, Allowed, grouped
from dpsql.models.sampling import Places, UniformDraws, conditional
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.workload.domain import room
from dpsql.workload.factors import Array


class WeightedRows(Frozen, eq=False):
    """Rows as places in the lists of values, one column for each of the domain, and their weights, which are not negative.

    Combinations of values that no row has, have a probability of 0.
    """

    domain: TableDomain
    places: Places
    weights: Array
    _cells: dict[Columns, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.places.shape != (len(self.weights), len(self.domain.columns)) or not len(self.weights):
            raise ValueError("each row has a value in every column, and a weight; there is one row or more")
        if not (np.isfinite(self.weights).all() and self.weights.min() >= 0 and self.weights.sum() > 0):
            raise ValueError("weights are finite, not negative, and not all 0")

    @property
    def total(self) -> float:
        """The number of rows."""
        return float(self.weights.sum())

    def marginal(self, columns: Columns) -> Array:
        """The expected counts of all combinations of values of these columns, with one axis per column in this order.

        Raises ValueError if a column stands twice, and Unsupported where there are too many combinations.
        """
        room("a marginal of the model", *self.domain.shape(columns))
        counts = np.bincount(self._at(columns), weights=self.weights, minlength=self.domain.cells(columns))
        return np.asarray(counts.reshape(self.domain.shape(columns)), dtype=np.float64)

    def tilted(self, columns: Columns, factors: Array) -> WeightedRows:
        """The rows, with each weight multiplied by the factor of the row's cell."""
        return replace(self, weights=self.weights * factors.ravel()[self._at(columns)])

    def draw(self, rows: int, generator: UniformDraws) -> Places:
        """A table of this many rows, in random order: an array with one row for each, and one column for each of the domain. Each
        row has its expected number, rounded down or up. Raises ValueError if the number of rows is negative."""
        if rows < 0:
            raise ValueError("the number of rows is not negative")
        return self.places[conditional(self.weights.reshape(1, -1), np.zeros(rows, dtype=np.int64), generator)]

    def draw_given(self, rows: int, given: Mapping[str, Places], generator: UniformDraws,
                   allowed: Mapping[str, Allowed] = NOTHING_MORE) -> Places:
        """This many rows with given values in some columns; see `table_model.TableModel.draw_given`.

        Where no row of the model has the given values, or what is allowed, as much of it as some row has is looked at, column by
        column; columns in which only forbidden values are left get allowed ones, all alike.
        """
        first, group = grouped(self.domain, rows, given, allowed)
        made = np.zeros((rows, len(self.domain.columns)), dtype=np.int64)
        if not rows:
            return made
        order = np.argsort(group, kind="stable")
        for one, here in zip(first, np.split(order, np.searchsorted(group[order], np.arange(1, len(first)))), strict=True):
            sets = {column: each.patterns[each.at[one]] for column, each in allowed.items()}
            chances = self.weights
            for at, column in enumerate(self.domain.columns):
                if column in given or column in sets:
                    fits = self.places[:, at] == given[column][one] if column in given else sets[column][self.places[:, at]]
                    chances = chances * fits if (chances * fits).sum() > 0 else chances
            made[here] = self.places[conditional(chances.reshape(1, -1), np.zeros(len(here), dtype=np.int64), generator)]
            for column, set_ in sets.items():
                at = self.domain.columns.index(column)
                wrong = here[~set_[made[here, at]]]
                made[wrong, at] = conditional(set_.astype(float).reshape(1, -1), np.zeros(len(wrong), dtype=np.int64), generator)
        for column, values in given.items():
            made[:, self.domain.columns.index(column)] = values
        return made

    def _at(self, columns: Columns) -> NDArray[np.int64]:
        """The cell of each row in a marginal."""
        if columns not in self._cells:
            if len(set(columns)) != len(columns):
                raise ValueError("a marginal cannot contain a column twice")
            found = np.zeros(len(self.places), dtype=np.int64)
            for column, size in zip(columns, self.domain.shape(columns), strict=True):
                found = found * size + self.places[:, self.domain.columns.index(column)]
            self._cells[columns] = found
        return self._cells[columns]


def design_effect(before: WeightedRows, after: WeightedRows) -> float:
    """The factor by which the effective sample size shrinks when the weights are changed: 1 + the squared relative spread of the
    factors, over the rows with their earlier weights. Source: Kish, Survey Sampling, 1965, section 11.7."""
    there = before.weights > 0
    shares = before.weights[there] / before.weights[there].sum()
    factors = after.weights[there] / before.weights[there]
    return float(shares @ factors**2 / (shares @ factors)**2)


def counted_rows(domain: TableDomain, places: Places, weights: Array | None = None) -> WeightedRows:
    """The distinct rows, each with its number of occurrences, or with the sum of its weights. Raises ValueError if there are no
    rows."""
    if not len(places):
        raise ValueError("there is no row")
    distinct, at = np.unique(places, axis=0, return_inverse=True)
    return WeightedRows(domain=domain, places=distinct, weights=np.bincount(at.ravel(), weights=weights).astype(float))
