"""The table of aggregates: how each is written, how it is measured, and the type of its value.

To add an aggregate of kind MEAN, SPREAD or PAIR, add

* a row of `AGGREGATES`, under its name in SQL,
* its name to `EXACT` in `plan/operators/statistics.py`, or its SQL if the engine has no such function: the kernel runs that over
  public rows, so it is trusted, and this table is not,
* a line with its mathematics: to `plan/rules/one_column.py`, which computes it from the number of rows, the mean and the
  variance, or to `plan/rules/regression.py`, which computes it from the sums of two columns.

Then run `python -m tests.support.function_table`, which writes its words into `grammar/expr.lark`. Everything else follows from
the row: the parser accepts every way to write it, the binder binds it, and it is bounded, measured and described like the others
of its kind. `tests/plan/test_all_aggregates.py` compares every row with the engine. The other kinds are parsed and measured by
code of their own.
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from dpsql.frozen import Frozen
from dpsql.types import Type


class Kind(Enum):
    """How an aggregate is measured.

    COUNT     a number of rows
    DISTINCT  a number of different values
    TOTAL     a sum of values
    MEAN      computed from a sum and a count
    SPREAD    computed from a sum, a count and a sum of squares
    PAIR      computed from the sums, squares and products of two columns
    RANK      the value at a place in the order of the values
    MODE      the value that most rows have
    RELEASED  not measured: the value of a subquery that is released first
    """

    COUNT, DISTINCT, TOTAL, MEAN, SPREAD, PAIR, RANK, MODE, RELEASED = range(9)


class Aggregate(Frozen):
    """A row of the table.

    written     the ways to write it as word(x) or word(y, x); none if it has a syntax of its own, or cannot be written
    result      the type of the value; None: that of the argument
    place       of MIN and MAX, the fraction of values below
    logarithms  the argument is the logarithm of the number that is written, which therefore needs bounds above 0
    """

    kind: Kind
    written: tuple[str, ...] = ()
    result: Type | None = Type.DOUBLE
    place: Fraction | None = None
    logarithms: bool = False

    @property
    def counts(self) -> bool:
        """Whether it counts rows or values."""
        return self.kind in (Kind.COUNT, Kind.DISTINCT)

    @property
    def bounded(self) -> bool:
        """Whether the values of its arguments need bounds."""
        return not self.counts and self.kind is not Kind.MODE

    @property
    def linear(self) -> bool:
        """Whether it is a sum of one number for each row."""
        return self.kind in (Kind.COUNT, Kind.TOTAL)

    @property
    def average(self) -> bool:
        """Whether it is the mean of the untransformed values."""
        return self.kind is Kind.MEAN and not self.logarithms

    @property
    def plain(self) -> bool:
        """Whether it is a sum of one number for each row, or the quotient of two."""
        return self.linear or self.average

    @property
    def summed(self) -> bool:
        """Whether it is computed from sums over one column, or from the number of rows."""
        return self.linear or self.kind in (Kind.MEAN, Kind.SPREAD)

    @property
    def squared(self) -> bool:
        """Whether it needs sums of squares or products."""
        return self.kind in (Kind.SPREAD, Kind.PAIR)

    @property
    def rising(self) -> int:
        """1 if no additional row can lower the value, -1 if none can raise it, 0 if both are possible."""
        return 1 if self.counts or self.place == 1 else -1 if self.place == 0 else 0


AGGREGATES = {
    "count": Aggregate(kind=Kind.COUNT, result=Type.BIGINT),
    "count_distinct": Aggregate(kind=Kind.DISTINCT, result=Type.BIGINT),
    "count_entities": Aggregate(kind=Kind.DISTINCT, result=Type.BIGINT),  # asked by the policy only
    "sum": Aggregate(kind=Kind.TOTAL, written=("sum(x)",), result=None),
    "avg": Aggregate(kind=Kind.MEAN, written=("avg(x)", "mean(x)")),
    "geomean": Aggregate(kind=Kind.MEAN, written=("geomean(x)", "geometric_mean(x)"), logarithms=True),
    "var_pop": Aggregate(kind=Kind.SPREAD, written=("var_pop(x)",)),
    "var_samp": Aggregate(kind=Kind.SPREAD, written=("var_samp(x)", "variance(x)")),
    "stddev_pop": Aggregate(kind=Kind.SPREAD, written=("stddev_pop(x)",)),
    "stddev_samp": Aggregate(kind=Kind.SPREAD, written=("stddev_samp(x)", "stddev(x)")),
    "corr": Aggregate(kind=Kind.PAIR, written=("corr(y, x)",)),
    "covar_pop": Aggregate(kind=Kind.PAIR, written=("covar_pop(y, x)",)),
    "covar_samp": Aggregate(kind=Kind.PAIR, written=("covar_samp(y, x)",)),
    "regr_slope": Aggregate(kind=Kind.PAIR, written=("regr_slope(y, x)",)),
    "regr_intercept": Aggregate(kind=Kind.PAIR, written=("regr_intercept(y, x)",)),
    "regr_r2": Aggregate(kind=Kind.PAIR, written=("regr_r2(y, x)",)),
    "min": Aggregate(kind=Kind.RANK, written=("min(x)",), result=None, place=Fraction(0)),
    "max": Aggregate(kind=Kind.RANK, written=("max(x)",), result=None, place=Fraction(1)),
    "quantile": Aggregate(kind=Kind.RANK),
    "mode": Aggregate(kind=Kind.MODE, result=None),
    "scalar": Aggregate(kind=Kind.RELEASED, result=None),
}
