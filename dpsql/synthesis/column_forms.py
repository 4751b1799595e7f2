"""How the values of a column become a short public list, and how values are drawn again from the entries of that list.

Declared values are such a list as they are. Numbers and dates between declared bounds are cut into bins of equal width; values
beyond the bounds count in the outermost bins, as they count as the bounds in sums, and NaN counts as NULL. A value of a bin is
drawn uniformly from it: whole if the column's values are, on the grid of its declared decimals if it has one.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.synthesis.counted_values import CountedValues, number_of
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Span, Type

MOST_NUMBERS, MOST_VALUES = 100, 1000  # of a column that are listed one by one: numbers and dates; texts
WIDEST_RANGE = 2**53  # of a column in bins: whole numbers up to that are exact in floats
BINS = 32  # of a column, where neither the statement nor the policy says how many
WIDEST_IMPLIED = 2**15  # of a range that nobody states, as that of x % 10
LEVELS = 16, 8, 4  # numbers of coarser bins, in which a column is counted together with others
STEPS = 2**20  # of a bin, that the decimals of numbers without declared ones tell apart
Numbers: TypeAlias = NDArray[Any]


class ListedColumn(Frozen):
    """A column whose values are listed one by one."""

    of: ClassVar[str] = ""  # it merges no other column's values
    name: str
    type: Type

    def key(self, column: exp.Column) -> exp.Expr:
        """The expression by which rows are grouped."""
        return column

    def counted(self, listed: Sequence[Value]) -> CountedValues:
        """The values that are counted."""
        return CountedValues(listed=tuple(listed))

    def starts(self, listed: Sequence[Value]) -> list[Value]:
        """The least value of each entry of the list."""
        return list(listed)

    def values(self, listed: Sequence[Value], places: NDArray[np.int64], uniform: Numbers) -> list[Value]:
        """The values at some indices of the list."""
        return [listed[place] for place in places.tolist()]


class BinnedColumn(Frozen):
    """A column of numbers, dates or times, in bins.

    edges  the first number of each bin, and the end of the last one; days since year 1 for dates and times
    step   the distance between possible values, where it is declared
    of     for coarser bins, the name of the column whose values or bins they merge
    """

    name: str
    type: Type
    edges: tuple[float, ...]
    nullable: bool
    step: Fraction | None = None
    of: str = ""

    def key(self, column: exp.Column) -> exp.Expr:
        """The number of the bin that contains a value."""
        found = exp.Case(ifs=[], default=exp.Literal.number(len(self.edges) - 2))
        if self.nullable:
            found.append("ifs", exp.If(this=exp.Is(this=column.copy(), expression=exp.Null()), true=exp.Null()))
        if self.nullable and self.type is Type.DOUBLE:
            found.append("ifs", exp.If(this=exp.IsNan(this=column.copy()), true=exp.Null()))
        for place, edge in enumerate(self.edges[1:-1] or self.edges[1:]):  # a constant would be no key
            found.append("ifs", exp.If(this=exp.LT(this=column.copy(), expression=self._constant(edge)),
                                       true=exp.Literal.number(place)))
        return found

    def counted(self, listed: Sequence[Value]) -> CountedValues:
        """The bins that are counted, by number, perhaps with NULL."""
        return CountedValues(listed=tuple(listed), edges=self.edges)

    def starts(self, listed: Sequence[Any]) -> list[Value]:
        """The least number of each bin of the list, or NULL."""
        return [None if number is None else self.edges[number] for number in listed]

    def _constant(self, edge: float) -> exp.Expr:
        if self.type is Type.DATE:
            return exp.cast(exp.Literal.string(dt.date.fromordinal(int(edge)).isoformat()), "DATE")
        if self.type is Type.TIMESTAMP:
            return exp.cast(exp.Literal.string(_moment(edge).isoformat(" ")), "TIMESTAMP")
        number = exp.Literal.number(repr(abs(int(edge) if self.type is Type.BIGINT else edge)))
        return exp.Neg(this=number) if edge < 0 else number

    def values(self, listed: Sequence[Value], places: NDArray[np.int64], uniform: Numbers) -> list[Value]:
        """Values drawn from the bins at some indices of the list; `uniform` has a number between 0 and 1 for each."""
        numbers: list[Any] = [-1 if number is None else number for number in listed]
        bins = np.array(numbers, dtype=np.int64)[places]
        edges = np.array(self.edges)
        low, high = edges[bins], edges[bins + 1]
        if self.type in (Type.BIGINT, Type.DATE):
            drawn = np.minimum(np.floor(low + uniform * (high - low)), high - 1)  # the product may be rounded up
        elif self.step is not None:
            step = float(self.step)
            first, end = (np.round(ends / step, 6) for ends in (low, high))  # an end on the grid may be off it as a float
            least, most = np.ceil(first), np.where(high < edges[-1], np.ceil(end) - 1, np.floor(end))
            drawn = np.minimum(np.floor(least + uniform * (most - least + 1)), most) * step
            drawn = np.clip(_short(drawn, step), edges[0], edges[-1])
        else:
            drawn = np.clip(_short(low + uniform * (high - low), (edges[-1] - edges[0]) / (STEPS * len(edges))), low, high)
        return [None if place < 0 else self._value(number) for place, number in zip(bins.tolist(), drawn.tolist(), strict=True)]

    def _value(self, number: float) -> Value:
        if self.type is Type.BIGINT:
            return int(number)
        if self.type is Type.DATE:
            return dt.date.fromordinal(int(number))
        return _moment(number).replace(microsecond=0) if self.type is Type.TIMESTAMP else number


Form: TypeAlias = ListedColumn | BinnedColumn


def form_of(name: str, known: Facts, bins: int | None, span: Span | None, cuts: Sequence[float] | None = None) -> Form:
    """The form of a column with these facts, in this many bins, or between the cut points that the policy declares.

    Raises Unsupported, located, if its values cannot be listed.
    """
    ends = known.declared.within(known.returned)
    listed = len(known.domain.values) if known.domain is not None else 0
    if known.type is Type.BOOLEAN or 0 < listed <= MOST_NUMBERS:
        return ListedColumn(name=name, type=known.type)
    if known.type is Type.VARCHAR and listed > MOST_VALUES:
        raise Unsupported(f"{name} has {listed} declared values, and a synthetic column can have at most {MOST_VALUES}",
                          subject=name, code="synthesis", span=span,
                          try_=f"a coarser expression of {name}, such as substring({name}, 1, 2)")
    width = ends.high - ends.low  # of which all that a type can hold says nothing
    bounded = width < WIDEST_IMPLIED or ((known.declared.finite or known.kept.finite) and width <= WIDEST_RANGE)
    if not (known.type.numeric or known.type.temporal) or not bounded:
        return ListedColumn(name=name, type=known.type)  # an expression whose values may follow from the policy all the same
    if bins is None and cuts is not None and len(cuts) > MOST_VALUES:
        raise Unsupported(f"{name} has {len(cuts) - 1} declared bins, and a synthetic column can have at most {MOST_VALUES}",
                          subject=name, code="synthesis", span=span, try_="bins = 100 among the OPTIONS")
    whole = known.type in (Type.BIGINT, Type.DATE)
    edges = _edges(ends.low, ends.high, bins or BINS, whole=whole) if bins is not None or cuts is None else _between(
        ends.low, ends.high, cuts, whole=whole)
    return BinnedColumn(name=name, type=known.type, nullable=known.nullable, edges=edges,
                        step=known.step or (Fraction(1) if known.whole else None))


def coarser_forms(form: Form, known: Facts) -> tuple[BinnedColumn, ...]:
    """Coarser bins of a column of numbers, dates or times, in which it is counted together with others: as many values, or bins,
    in each, about. Each merges those before it."""
    if isinstance(form, BinnedColumn):
        starts, last = form.edges[:-1], form.edges[-1]
    elif known.domain is not None and (known.type.numeric or known.type.temporal):
        numbers = sorted(number_of(value) for value in known.domain.values if value is not None)
        starts, last = tuple(numbers), numbers[-1] + 1
    else:
        return ()
    found, of = [], form.name
    for bins in (bins for bins in LEVELS if bins < len(starts)):
        starts = tuple(starts[place * len(starts) // bins] for place in range(bins))
        found.append(BinnedColumn(name=f"{form.name} in {bins} bins", type=known.type, edges=(*starts, last),
                                  nullable=known.nullable, of=of))
        of = found[-1].name
    return tuple(found)


def _short(numbers: Numbers, step: float) -> Numbers:
    """The numbers with as many decimals as tell apart two that are so far from each other."""
    return np.round(numbers, max(0, 1 - math.floor(math.log10(step))))


def _edges(low: float, high: float, bins: int, *, whole: bool) -> tuple[float, ...]:
    if whole:
        first, last = math.floor(low), math.floor(high) + 1
        width = max(1, math.ceil((last - first) / bins))
        return tuple(float(edge) for edge in (*range(first, last, width), last))
    high = high if high > low else low + 1
    return (*(low + (high - low) * place / bins for place in range(bins)), high)


def _between(low: float, high: float, cuts: Sequence[float], *, whole: bool) -> tuple[float, ...]:
    """The edges of declared bins: the cut points inside the range, and its ends."""
    first, last = (math.floor(low), math.floor(high) + 1) if whole else (low, high if high > low else low + 1)
    inner = {float(math.ceil(cut)) if whole else cut for cut in cuts if cut < high}
    return (float(first), *sorted(cut for cut in inner if first < cut < last), float(last))


def _moment(days: float) -> dt.datetime:
    return dt.datetime.fromordinal(int(days)) + dt.timedelta(days=days - int(days))
