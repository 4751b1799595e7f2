"""How the values of a column become a short public list, and how values are drawn again from the entries of that list.

Declared values are such a list as they are. Numbers and dates between declared bounds are cut into bins of equal width; values
beyond the bounds count in the outermost bins, as they count as the bounds in sums, and NaN counts as NULL. Or bins follow the
rows: they are cut when noisy counts have been released (`learned_bins`). A value of a bin is drawn uniformly from it, or from its
cells, if their shares are known: whole if the column's values are, on the grid of its declared decimals if it has one; times in
whole seconds, or in milliseconds if that is the unit of their type.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.backends.dialects import MOST_DIGITS
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.synthesis.counted_values import MICROSECONDS, NOWHERE, CountedValues
from dpsql.synthesis.packed_values import EPOCH, CodedValues, NumberValues, PackedValues
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Interval, Span, Type

MOST_NUMBERS, MOST_VALUES = 100, 1000  # of a column that are listed one by one: numbers and dates; texts
WIDEST_RANGE = 2**53  # of a column in bins: whole numbers up to that are exact in floats
MOST_APART = 30  # whole numbers of a range that are listed where bins can follow the rows
BINS = 32  # of a column, where neither the statement nor the policy says how many
WIDEST_IMPLIED = 2**15  # of a range that nobody states, as that of x % 10
FINEST = 2**26  # parts of a range of reals, of which one value alone takes one
DAY = 24 * 60 * 60  # seconds
SLIGHT = 1e-6  # of a step: by so much a float may be off the grid
DECIMALS = 10**9  # parts of 1, at most, that are kept as whole numbers
STEPS = 2**20  # of a bin, that the decimals of numbers without declared ones tell apart
MILLISECONDS = 86_400_000  # of a day
DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
Numbers: TypeAlias = NDArray[Any]


class ListedColumn(Frozen):
    """A column whose values are listed one by one."""

    name: str
    type: Type
    sql_type: str = ""  # in which it is exported, if that is not the usual one of its type

    def key(self, column: exp.Column) -> exp.Expr:
        """The expression by which rows are grouped."""
        return column

    def counted(self, listed: Sequence[Value]) -> CountedValues:
        """The values that are counted."""
        return CountedValues(listed=tuple(listed))

    def bytes_of(self, size: int) -> int:
        """The size of a value in memory and in the ledger, where the list has so many."""
        return np.min_scalar_type(size).itemsize

    def values(self, listed: Sequence[Value], places: NDArray[np.int64], uniform: Numbers) -> PackedValues:
        """The values at some indices of the list."""
        return CodedValues(listed, places)


class BinnedColumn(Frozen):
    """A column of numbers, dates or times, in bins.

    edges  the first number of each bin, and the end of the last one; days since year 1 for dates and times
    step   the distance between possible values, where it is declared
    cells  the first number of each cell, where bins have several: values are drawn uniformly from cells
    shares  how many rows each cell has, about
    sql_type  the type in which it is exported, if that is not the usual one of its type
    constant  whether the first edge is the only value
    """

    name: str
    type: Type
    edges: tuple[float, ...]
    nullable: bool
    step: Fraction | None = None
    cells: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    sql_type: str = ""
    constant: bool = False

    def key(self, column: exp.Column) -> exp.Expr:
        """The number of the bin that contains a value."""
        found = exp.Case(ifs=[], default=exp.Literal.number(len(self.edges) - 2))
        if self.nullable:
            found.append("ifs", exp.If(this=exp.Is(this=column.copy(), expression=exp.Null()), true=exp.Null()))
        if self.nullable and self.type is Type.DOUBLE:
            found.append("ifs", exp.If(this=exp.IsNan(this=column.copy()), true=exp.Null()))
        for place, edge in enumerate(self.edges[1:-1] or self.edges[:1]):  # a constant would be no key
            found.append("ifs", exp.If(this=exp.LT(this=column.copy(), expression=self._constant(edge)),
                                       true=exp.Literal.number(place)))
        return found

    def counted(self, listed: Sequence[Value]) -> CountedValues:
        """The bins that are counted, by number, perhaps with NULL."""
        return CountedValues(listed=tuple(listed), edges=self.edges)

    def _constant(self, edge: float) -> exp.Expr:
        if self.type is Type.DATE:
            return exp.cast(exp.Literal.string(dt.date.fromordinal(int(edge)).isoformat()), "DATE")
        if self.type is Type.TIMESTAMP:
            return exp.cast(exp.Literal.string(_moment(edge).isoformat(" ")), "TIMESTAMP")
        number = exp.Literal.number(repr(abs(int(edge) if self.type is Type.BIGINT else edge)))
        return exp.Neg(this=number) if edge < 0 else number

    def bytes_of(self, size: int) -> int:
        """The size of a value in memory and in the ledger."""
        return _bytes_of(self.type, self.edges[0], self.edges[-1], self.step, nullable=self.nullable)

    def values(self, listed: Sequence[Value], places: NDArray[np.int64], uniform: Numbers) -> PackedValues:
        """Values drawn from the bins at some indices of the list; `uniform` has a number between 0 and 1 for each."""
        bins = np.array([NOWHERE if number is None else number for number in listed], dtype=np.int64)[places]
        missing = bins == NOWHERE
        bins[missing] = 0
        low, high, uniform = self._cells(bins, uniform)
        if self.type is Type.TIMESTAMP:
            return NumberValues(self.type, _times(self, low, high, uniform), missing)
        drawn = _drawn(self, low, high, uniform)
        if self.type is Type.DOUBLE:
            parts = _parts_of_one(self.type, self.edges[0], self.edges[-1], self.step)
            if parts is None:
                return NumberValues(self.type, drawn, missing)
            kind = _smallest(self.edges[0] * parts, self.edges[-1] * parts)
            return NumberValues(self.type, np.rint(drawn * parts).astype(kind), missing, parts)
        start = EPOCH if self.type is Type.DATE else 0
        return NumberValues(self.type, (drawn - start).astype(_smallest(self.edges[0] - start, self.edges[-1] - start)), missing)

    def _cells(self, bins: NDArray[np.int64], uniform: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """For each row the ends of the cell from which its value is drawn, and what is left of the uniform number."""
        edges = np.array(self.edges)
        if self.constant:
            return edges[bins], edges[bins], uniform
        if not self.cells:
            return edges[bins], edges[bins + 1], uniform
        starts, shares = np.array(self.cells), np.array(self.shares)
        of = np.minimum(np.searchsorted(edges, starts, side="right") - 1, len(edges) - 2)
        ends = np.append(starts[1:], edges[-1])
        whole = np.bincount(of, shares)[of]
        upto = of + np.minimum(np.cumsum(shares / whole) - of, 1.0)  # each bin's shares end at the next whole number
        chosen = np.clip(np.searchsorted(upto, bins + uniform, side="right"), 0, len(starts) - 1)
        chosen = np.where(of[chosen] == bins, chosen, np.searchsorted(of, bins, side="right") - 1)
        left = (bins + uniform - (upto - shares / whole)[chosen]) / np.maximum(shares / whole, 1e-300)[chosen]
        return starts[chosen], ends[chosen], np.clip(left, 0.0, np.nextafter(1.0, 0.0))

    def value(self, number: float) -> Value:
        """The value at a position of the axis of edges."""
        if self.type is Type.BIGINT:
            return int(number)
        if self.type is Type.DATE:
            return dt.date.fromordinal(int(number))
        return _moment(number) if self.type is Type.TIMESTAMP else number


def _drawn(form: BinnedColumn, low: Numbers, high: Numbers, uniform: Numbers) -> Numbers:
    """Numbers between these ends."""
    edges = form.edges
    if form.type in (Type.BIGINT, Type.DATE):
        drawn: Numbers = np.minimum(np.floor(low + uniform * (high - low)), high - 1)  # the product may be rounded up
        return drawn
    if form.step is not None:
        step = float(form.step)
        drawn = _on_grid(low, high, edges, uniform, step) * step
        return np.clip(_multiples(drawn, form.step), edges[0], edges[-1])
    least_apart = (edges[-1] - edges[0]) / (STEPS * len(edges))
    drawn = np.clip(_short(low + uniform * (high - low), least_apart), low, high)
    return np.where(high - low < least_apart, low, drawn)


def _times(form: BinnedColumn, low: Numbers, high: Numbers, uniform: Numbers) -> NDArray[np.int64]:
    """Times between these ends, in microseconds since 1970."""
    step = 1 if form.sql_type == "TIMESTAMP_MS" else 1000
    low, high, edges = (np.rint((ends - EPOCH) * MILLISECONDS) for ends in (low, high, np.array(form.edges)))
    drawn = _on_grid(low, high, edges, uniform, step) * step * (MICROSECONDS // MILLISECONDS)
    return drawn.astype(np.int64)


def _on_grid(low: Numbers, high: Numbers, edges: Sequence[float] | Numbers, uniform: Numbers, step: float) -> Numbers:
    """Multiples of a step between these ends, in units of the step; of ends, only the last one is a value itself."""
    first, end = (np.round(ends / step, 6) for ends in (low, high))  # an end on the grid may be off it as a float
    closed = (low == high) | ((high == edges[-1]) & (edges[-2] < edges[-1]))
    least, most = np.ceil(first), np.where(closed, np.floor(end), np.ceil(end) - 1)
    return np.asarray(np.minimum(np.floor(least + uniform * (most - least + 1)), most))


def _smallest(first: float, last: float) -> np.dtype[Any]:
    """The smallest type of signed whole numbers that holds all between the ends."""
    return np.min_scalar_type(min(math.floor(first), -1 - math.ceil(last)))


def _parts_of_one(type: Type, low: float, high: float, step: Fraction | None) -> int | None:
    """The least number by which all drawn values are whole numbers, such as 100 for two declared decimals; None where they are
    kept as floating-point numbers. A whole number divided by it is exactly the value that is drawn: both are the floating-point
    number nearest to a decimal one."""
    if type in (Type.BIGINT, Type.DATE):
        return 1
    if type is not Type.DOUBLE or step is None or DECIMALS % step.denominator:
        return None
    parts, ends = step.denominator, (low, high)
    exact = all(abs(end) * parts < WIDEST_RANGE / 8 and round(end * parts) / parts == end for end in ends)
    return parts if exact else None


def _bytes_of(type: Type, low: float, high: float, step: Fraction | None, *, nullable: bool) -> int:
    parts, start = _parts_of_one(type, low, high, step), EPOCH if type is Type.DATE else 0
    return (8 if parts is None else _smallest((low - start) * parts, (high - start) * parts).itemsize) + nullable


class UncutColumn(Frozen):
    """A column of numbers, dates or times between `low` and `high` whose bins are to follow its rows. Instead its values could be
    `listed`."""

    name: str
    type: Type
    low: float
    high: float
    nullable: bool
    step: Fraction | None = None
    listed: bool = False
    sql_type: str = ""

    def bytes_of(self, size: int) -> int:
        """The size of a value in memory and in the ledger, in any bins."""
        return _bytes_of(self.type, self.low, self.high, self.step, nullable=self.nullable)

    @property
    def whole(self) -> bool:
        return self.type in (Type.BIGINT, Type.DATE)

    @property
    def unit(self) -> float:
        """The least width of a bin."""
        if self.type is Type.TIMESTAMP:
            return 1 / DAY
        return 1.0 if self.whole else float(self.step) if self.step is not None else (self.high - self.low) / FINEST

    @property
    def most(self) -> int:
        """The number of its bins, at most: its values, if these could be listed."""
        values = self.high - self.low + 1
        return int(values) if self.whole and values <= MOST_NUMBERS else BINS

    def on_grid(self, number: float) -> float:
        """The largest possible value up to a number."""
        if self.whole:
            return float(math.floor(number))
        if self.step is None:
            return number
        return float(_multiples(np.array(math.floor(number / self.unit + SLIGHT) * self.unit), self.step))

    def key(self, column: exp.Column) -> exp.Expr:
        """The values themselves, whose bins are not known yet."""
        return column

    def equally(self, bins: int) -> BinnedColumn:
        """The column in so many bins of equal width, as far as it may have them; two at least."""
        return self.cut(_edges(self.low, self.high, max(min(bins, self.most), 2), whole=self.whole))

    def cut(self, edges: Sequence[float], cells: Sequence[float] = (), shares: Sequence[float] = ()) -> BinnedColumn:
        """The column in these bins."""
        return BinnedColumn(name=self.name, type=self.type, nullable=self.nullable, edges=tuple(edges), step=self.step,
                            cells=tuple(cells), shares=tuple(shares), sql_type=self.sql_type)


Form: TypeAlias = ListedColumn | BinnedColumn
PlannedForm: TypeAlias = Form | UncutColumn


def form_of(name: str, known: Facts, bins: int | None, span: Span | None, cuts: Sequence[float] | None = None,
            sql_type: str = "") -> PlannedForm:
    """The form of a column with these facts, in this many bins, or between the cut points that the policy declares; without
    either, a long range is uncut. `sql_type` is its type in the database, or in the query, if that is known.

    Raises Unsupported, located, if its values cannot be listed.
    """
    listed = known.domain.values if known.domain is not None else ()
    ends = known.declared.within(known.returned)
    kind = _exported(sql_type, known, ends)
    if known.type is Type.BOOLEAN or 0 < len(listed) <= MOST_NUMBERS:
        column = ListedColumn(name=name, type=known.type, sql_type=kind)
        return _uncut(column, listed, known) if bins is None and cuts is None else column
    if known.type is Type.VARCHAR and len(listed) > MOST_VALUES:
        raise Unsupported(f"{name} has {len(listed)} declared values, and a synthetic column can have at most {MOST_VALUES}",
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
    low, high = (math.floor(ends.low), math.floor(ends.high)) if whole else (ends.low, ends.high)
    constant = low == high and not whole
    high += constant  # no bin is empty
    uncut = UncutColumn(name=name, type=known.type, nullable=known.nullable, low=low, high=high, sql_type=kind,
                        step=known.step or (Fraction(1) if known.whole else None))
    if constant:
        return replace(uncut.cut((low, high)), constant=True)
    if bins is not None:
        return uncut.cut(_edges(ends.low, ends.high, bins, whole=whole))
    return uncut if cuts is None else uncut.cut(_between(ends.low, ends.high, cuts, whole=whole))


def _exported(sql_type: str, known: Facts, ends: Interval) -> str:
    """The type of a column in files: a DECIMAL with room for all values that may be drawn, or a type of times; "" for others."""
    if sql_type == "TIMESTAMP_MS":
        return sql_type
    match = DECIMAL.fullmatch(sql_type.replace(" ", ""))
    if match is None or known.type is not Type.DOUBLE:
        return ""
    width, scale = map(int, match.groups())
    values = [ends.low, ends.high, *(value for value in (known.domain.values if known.domain is not None else ())
                                     if isinstance(value, int | float))]
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0)
    width = max(width, scale + len(str(int(largest) + 1)))
    return f"DECIMAL({width},{scale})" if width <= MOST_DIGITS else ""


def _uncut(column: ListedColumn, values: Sequence[Value], known: Facts) -> PlannedForm:
    """A column of many consecutive whole numbers, whose bins could follow its rows as well; others as they are."""
    first, last = (values[0], values[-1]) if len(values) > MOST_APART else (None, None)
    if known.type is not Type.BIGINT or not isinstance(first, int) or not isinstance(last, int) or last - first >= len(values):
        return column
    return UncutColumn(name=column.name, type=column.type, nullable=known.nullable, low=first, high=last, step=Fraction(1),
                       listed=True)


def can_be_listed(form: PlannedForm) -> bool:
    """Whether the values of a column are few enough to be listed instead of cut into bins."""
    return form.listed if isinstance(form, UncutColumn) else isinstance(form, ListedColumn)


def not_learned(form: PlannedForm) -> Form:
    """An uncut column with its values listed, or else in bins of equal width; others as they are."""
    if not isinstance(form, UncutColumn):
        return form
    return ListedColumn(name=form.name, type=form.type, sql_type=form.sql_type) if form.listed else form.cut(
        _edges(form.low, form.high, BINS, whole=form.whole))


def _multiples(numbers: Numbers, step: Fraction) -> Numbers:
    """Multiples of a step without the error of a product of floating-point numbers, which those of a power of two do not have."""
    return numbers if step.denominator & (step.denominator - 1) == 0 else _short(numbers, float(step))


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
    """The nearest millisecond, as drawn times have it: 12:59:59.999997, for 13:00, would be another second."""
    return dt.datetime.fromordinal(int(days)) + dt.timedelta(milliseconds=round((days - int(days)) * MILLISECONDS))
