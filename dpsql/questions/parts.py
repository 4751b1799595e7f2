"""The parts of a statement that are measured over one view, and the recipes that turn their releases into its aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from dpsql.estimates import Estimate
from dpsql.frozen import Frozen
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum, Summand


class EntityTotals(Frozen):
    """What the sums of a part follow from, entity by entity: a total of values, the number of rows that have one, and a centre
    from which the values of a total are measured, in steps of its grid."""

    total: GridSum
    count: Count
    centre: int = 0


class Sums(Frozen):
    """Linear: the sums of a summand over the cells. Releases one estimate, in integers, for each component.

    Where they are computed from `totals` of entities, the summand is this total, or moments of the same values.
    """

    summand: Summand
    totals: EntityTotals | None = None


class Distincts(Frozen):
    """The number of distinct values of a column in each cell; `entities` says that the column names the protected entity.
    `values` lists all possible values; None if they are not declared.
    """

    column: str
    when: str | None
    entities: bool
    values: Domain | None = None


class Quantiles(Frozen):
    """Places in the order of a column: fractions 0 (the least value) to 1, in rising order. Releases one estimate for each."""

    column: str
    when: str | None
    grid: Quantizer
    fractions: tuple[Fraction, ...]


class Modes(Frozen):
    """The most frequent one of the declared values of a column. Releases one estimate: for each cell the rows with each value."""

    column: str
    when: str | None
    values: tuple[Value, ...]


class Matchings(Frozen):
    """The most rows of each cell that can be kept, in fractions, where every entity that they name has one of them at most, and
    so has every value of `column`. Releases one estimate.

    It is no more than the number of entities, nor than that of values: each row that is kept takes up one of each.
    """

    column: str | None
    when: str | None


Part: TypeAlias = Sums | Distincts | Quantiles | Modes | Matchings
Released: TypeAlias = Mapping[int, Sequence[Estimate]]
"""For each part, by its position, the estimates of its components."""

Recipe: TypeAlias = Callable[[Released], Estimate]


class Decomposition(Frozen):
    """Parts, how many aggregates rest on each, and the recipe of every aggregate by its identifier."""

    parts: tuple[Part, ...]
    weights: tuple[int, ...]
    recipes: Mapping[str, Recipe]
    uses: Mapping[str, tuple[int, ...]]

    @property
    def sums(self) -> dict[int, Summand]:
        """The summands of the parts that are sums, by their position."""
        return {i: part.summand for i, part in enumerate(self.parts) if isinstance(part, Sums)}

    def total(self, at: int) -> GridSum:
        """The summand of a part that is a sum of values."""
        return total_of(self.parts[at])


def total_of(part: Part) -> GridSum:
    """The summand of a part that is a sum of values."""
    assert isinstance(part, Sums) and isinstance(part.summand, GridSum)
    return part.summand
