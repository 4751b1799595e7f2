"""The aggregates that are asked over a relation."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql.trusted.declarations.tables import Domain
from dpsql.types import Span, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class OverGroups:
    """Which groups an aggregate is added up over: those with the same values of the keys `within` whose value of the key `order`,
    if there is one, lies in a frame.

    rows         ends count groups in this order, and else distances from the group's own value, where 0 is that value
    start, end   of the frame, after the group itself; None for no end
    mean         divided by the number of these groups
    """

    within: tuple[str, ...]
    order: str | None = None
    descending: bool = False
    nulls_first: bool = False
    rows: bool = False
    start: float | None = None
    end: float | None = None
    mean: bool = False

    @property
    def by_number(self) -> bool:
        """Whether an end of the frame is so many groups away. It then depends on which groups there are, and all combinations of
        the values of keys are groups."""
        return self.rows and bool(self.start or self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateCall:
    """One aggregate over the view, named `id` in outputs. `column` and `when` name columns of the view.

    function   count, count_distinct, sum, avg, var_pop, var_samp, stddev_pop, stddev_samp, min, max or quantile; geomean; mode;
               corr, covar_pop, covar_samp, regr_slope, regr_intercept or regr_r2
    columns    the arguments; none for COUNT(*); of two columns, the product of their distances from the middles too; logarithms
               for a geomean
    fraction   of a quantile
    discrete   a quantile is one of the values
    values     of count_distinct and mode: all values that there can be, but for NULL; None if the policy does not tell
    over       the groups that it is added up over; None: its own
    """

    id: str
    function: str
    columns: tuple[str, ...] = ()
    when: str | None = None
    fraction: Fraction | None = None
    discrete: bool = False
    values: Domain | None = None
    over: OverGroups | None = None
    type: Type = Type.DOUBLE
    span: Span | None = None
    text: str = ""
