"""The cells of a column's undeclared values, so that every row is in one cell and totals count all of them.

A query counts undeclared values too: WHERE x <> 'f' keeps every other text, and GROUP BY x // 10 counts 107 in group 10, if that
is declared. So undeclared values are distinguished exactly as far as the queries distinguish them. The text of an expression
shows where its value can change:
 - if it only compares the column with constants, it is the same for all numbers (days, moments) between two neighbouring
   constants, and for all texts that equal none of them. One value represents all of these: the engine evaluates the expression
   there;
 - any other expression becomes part of the code itself: rows are distinguished by its value.
Numbers below all declared ones, and those above, have cells of their own in any case, so that the cells of a column are the same
for most questions, and measurements for one serve others.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, pairwise

from dpsql.catalog.days import KEPT_BY_ENDS
from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, field
from dpsql.sql.binding.domains import Scratch
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, Value, children, predicate
from dpsql.types import INT64, Type

MOST_CELLS = 4096  # of the undeclared values of a column
EXACT = 2**53  # whole numbers up to here are exact in double precision
EQUALITIES = ("=", "<>", "is not distinct from", "is distinct from", "in", "is null", "is not null")
COMPARISONS = (*EQUALITIES, "<", "<=", ">", ">=")
NEVER = "no value of this key"
EPOCH = dt.datetime(1970, 1, 1)
_NUMBERS = int | float
_PLACED = int | float | dt.date


class Cell(Frozen):
    """Some undeclared values. `value` is what their rows are grouped by, `stand` is one that represents them, and `told` has the
    values of those expressions for which it does not."""

    value: Value
    stand: Value
    told: Mapping[Expr, Value] = field(default_factory=dict)


class UndeclaredCells(Frozen):
    """The cells below all declared values, and the others. `code` is what rows are grouped by: a declared value, NULL, or the
    value of a cell. `rest` is the cell of all values of `code` that are none of these."""

    code: Expr
    below: tuple[Cell, ...]
    others: tuple[Cell, ...]
    rest: Value | None


class LineSegment(Frozen):
    """The numbers strictly between `low` and `high`, or that number if both are equal. `stand` is an undeclared one of them."""

    low: float
    high: float
    stand: float


def undeclared_cells(ref: Ref, known: Facts, domain: Domain, exprs: Mapping[Expr, Sequence[Value]],
                     scratch: Scratch) -> UndeclaredCells:
    """The cells of a column's values that are neither declared nor NULL; each expression has a single value in each cell.

    Conditions are given with the value True, and keys with the values that are distinguished. A column of numbers may have no
    declared values. Raises Unsupported if there are too many cells.
    """
    line = LINES.get(ref.type)
    if line is None or (domain.values and not _is_within(line, domain)):
        return _EqualityCells(ref=ref, domain=domain, exprs=exprs, scratch=scratch).cells()
    return _Ordered(ref=ref, domain=domain, exprs=exprs, scratch=scratch, line=line, known=known).cells()


# -- where an expression can change


def cuts_of(expr: Expr, ref: Ref, functions: Sequence[str]) -> list[Value] | None:
    """The constants that an expression compares the column with; None if it uses the column in any other way."""
    if isinstance(expr, Call) and expr.function in functions and any(_is_column(arg, ref) for arg in expr.args):
        others = [arg for arg in expr.args if not _is_column(arg, ref)]
        if any(not isinstance(arg, Literal) for arg in others):
            return None
        cuts: list[Value] = [arg.value for arg in others if isinstance(arg, Literal) and arg.value is not None]
        converted = any(isinstance(arg, Cast) for arg in expr.args)
        return cuts if all(_ordinary(cut, converted) for cut in cuts) else None
    if isinstance(expr, Ref):
        return None
    found: list[Value] = []
    for child in children(expr):
        own = cuts_of(child, ref, functions)
        if own is None:
            return None
        found += own
    return found


def _is_column(expr: Expr, ref: Ref) -> bool:
    """Whether an expression is the column, or that in double precision: a monotone map, and exact where constants are small."""
    if isinstance(expr, Cast):
        return ref.type is Type.BIGINT and expr.target == "DOUBLE" and expr.type is Type.DOUBLE and _is_column(expr.input, ref)
    return isinstance(expr, Ref) and expr.column == ref.column


def _ordinary(cut: Value, converted: bool) -> bool:
    if isinstance(cut, float):
        return math.isfinite(cut) and (not converted or abs(cut) < EXACT)
    return not converted or isinstance(cut, int)


# -- cells


class _Maker(Frozen):
    """What both kinds of columns share. A `settled` expression is evaluated at the value that represents a cell; an `open` one
    distinguishes rows by its own value."""

    ref: Ref
    domain: Domain
    exprs: Mapping[Expr, Sequence[Value]]
    scratch: Scratch

    def split(self, functions: Sequence[str]) -> tuple[list[Expr], list[Expr], list[Value]]:
        """The settled expressions, the open ones, and the constants of the settled ones."""
        settled, open_, cuts = [], [], list[Value]()
        for expr in self.exprs:
            told = expr == self.ref and bool(self.domain.values)  # the column itself, by its declared values
            own: list[Value] | None = [] if told else cuts_of(expr, self.ref, functions)
            if own is None:
                open_.append(expr)
            else:
                settled.append(expr)
                cuts += own
        return settled, open_, cuts

    def signatures(self, settled: Sequence[Expr], stands: Sequence[Value]) -> list[tuple[object, ...]]:
        """The results of settled expressions at some values: whether a condition holds, and which of its values a key has."""
        asked = [expr for expr in settled if expr != self.ref]
        if not asked or not stands:
            return [()] * len(stands)
        given = {self.ref.column: (self.ref.type, stands)}
        conditions, keys = list[Expr](), list[Expr]()
        for expr in asked:
            (conditions if expr.type is Type.BOOLEAN and tuple(self.exprs[expr]) == (True,) else keys).append(expr)
        holds = map(tuple, self.scratch.truths(conditions, given).T.tolist())
        rows = self.scratch.evaluate(keys, given) if keys else [()] * len(stands)
        return [(*own, *(value if value in self.exprs[expr] else NEVER for expr, value in zip(keys, row, strict=True)))
                for own, row in zip(holds, rows, strict=True)]

    def literal(self, value: Value) -> Expr:
        return Literal(value=value, type=self.ref.type)

    def declared(self) -> Expr:
        return predicate("in", self.ref, *map(self.literal, self.domain.values))

    def leaf(self, value: Value, stand: Value, open_: Sequence[Expr], fresh: Iterator[Value],
             cells: list[Cell]) -> Expr:
        """The code of the values that `stand` represents, distinguished further by open expressions; adds their cells."""
        if not open_:
            cells.append(Cell(value=value, stand=stand))
            return self.literal(value)

        def arms(rest: Sequence[Expr], told: Mapping[Expr, Value]) -> Expr:
            if not rest:
                if len(cells) >= MOST_CELLS:
                    raise Unsupported(f"these conditions and keys distinguish more than {MOST_CELLS} kinds of undeclared values "
                                      "of this column", code="too-large", span=open_[0].span,
                                      try_="fewer of them at once, or comparisons with constants")
                cells.append(Cell(value=next(fresh), stand=stand, told=told))
                return self.literal(cells[-1].value)
            expr, *later = rest
            branches = tuple((_is(expr, value), arms(later, {**told, expr: value})) for value in self.exprs[expr])
            return Case(branches=branches, otherwise=arms(later, {**told, expr: NEVER}), type=self.ref.type)

        return arms(open_, {})

    def code(self, *branches: tuple[Expr, Expr], otherwise: Expr) -> Expr:
        missing = predicate("is null", self.ref), self.literal(None)
        return Case(branches=(missing, *branches), otherwise=otherwise, type=self.ref.type)


def _is(expr: Expr, value: Value) -> Expr:
    """The condition that an expression has this value, which may be NULL."""
    if value is None:
        return predicate("is null", expr)
    if expr.type is Type.BOOLEAN:
        return expr if value else predicate("not", expr)
    return predicate("=", expr, Literal(value=value, type=expr.type))


class _EqualityCells(_Maker):
    """Cells of values that are only compared by `=`: one for each constant that is not declared, and one for all others."""

    def cells(self) -> UndeclaredCells:
        settled, open_, cuts = self.split(EQUALITIES)
        declared = set(self.domain.values)
        points = list(dict.fromkeys(cut for cut in cuts if cut not in declared))
        fresh = _fresh(self.ref.type, {*declared, *points})
        rest = next(fresh)
        *signs, common = self.signatures(settled, [*points, rest])
        points = [point for point, sign in zip(points, signs, strict=True) if sign != common]
        cells: list[Cell] = []
        if not open_ and not self.ref.type.temporal:  # days that cannot be read are no keys
            cells = [Cell(value=point, stand=point) for point in (*points, rest)]
            return UndeclaredCells(code=self.ref, below=(), others=tuple(cells), rest=rest)
        branches = [(predicate("=", self.ref, self.literal(point)), self.leaf(point, point, open_, fresh, cells))
                    for point in points]
        otherwise = self.leaf(rest, rest, open_, fresh, cells)
        return UndeclaredCells(code=self.code((self.declared(), self.ref), *branches, otherwise=otherwise), below=(),
                               others=tuple(cells), rest=None)


class _Ordered(_Maker):
    """Cells of values on a line. (NaN is above all numbers, as it is in comparisons.)"""

    line: Line
    known: Facts

    def cells(self) -> UndeclaredCells:
        settled, open_, cuts = self.split(COMPARISONS)
        points = sorted(self.line.places(self.domain.values))
        least, most = (points[0], points[-1]) if points else (-math.inf, math.inf)
        ends = {end for cut in cuts for end in self.line.around(cut)}
        segments = self.segments(set(points), {*points[:1], *points[-1:], *ends})
        signs = self.signatures(settled, [self.line.value(segment.stand) for segment in segments])
        used = (*points[:1], *points[-1:], *(segment.stand for segment in segments))  # only the least and the largest matter
        fresh = _fresh(self.ref.type, set(map(self.line.value, used)))
        places = list(zip(segments, signs, strict=True))
        below, low = self.tree([each for each in places if each[0].high <= least], open_, fresh)
        above, high = self.tree([each for each in places if each[0].low >= most], open_, fresh)
        inside = [each for each in places if least <= each[0].low and each[0].high <= most]
        between, gaps = self.tree(inside, open_, fresh)
        branches: list[tuple[Expr, Expr]] = [(predicate(word, self.ref, self.literal(self.line.value(end))), tree)
                    for word, end, tree in (("<", least, low), (">", most, high)) if tree is not None]
        rest = None
        if gaps is not None and points and len(between) == 1:  # one cell for all values that are none of the declared ones
            rest, gaps = between[0].value, None
        if gaps is not None and points:
            branches.append((self.declared(), self.ref))
        return UndeclaredCells(code=self.code(*branches, otherwise=self.ref if gaps is None else gaps), below=tuple(below),
                               others=(*above, *between), rest=rest)

    def segments(self, declared: set[float], points: set[float]) -> list[LineSegment]:
        """The points and the intervals between them, in order: those in which an undeclared value may lie."""
        ends = [-math.inf, *sorted(points), math.inf]
        found = []
        for low, high in pairwise(ends):
            if low not in declared and math.isfinite(low):
                found.append(LineSegment(low=low, high=low, stand=low))
            stand = self.line.between(low, high, declared)
            if stand is not None and not self.impossible(low, high):
                found.append(LineSegment(low=low, high=high, stand=stand))
        return found

    def impossible(self, low: float, high: float) -> bool:
        """Whether no row can have a number there, in any database."""
        ends = self.known.returned
        return self.ref.type.numeric and (high <= ends.low or (low >= ends.high and math.isfinite(ends.high)))

    def tree(self, places: Sequence[tuple[LineSegment, tuple[object, ...]]], open_: Sequence[Expr],
             fresh: Iterator[Value]) -> tuple[list[Cell], Expr | None]:
        """The cells of some segments, one for all that no expression distinguishes, and the code of their values."""
        cells: list[Cell] = []
        leaves: dict[tuple[object, ...], Expr] = {}
        for segment, sign in places:
            if sign not in leaves:
                stand = self.line.value(segment.stand)
                leaves[sign] = self.leaf(stand, stand, open_, fresh, cells)
        if not places:
            return [], None

        def halved(first: int, last: int) -> Expr:
            if len({sign for _, sign in places[first : last + 1]}) == 1:
                return leaves[places[first][1]]
            middle = (first + last) // 2
            segment = places[middle][0]
            word = "<=" if segment.low == segment.high else "<"
            upto = predicate(word, self.ref, self.literal(self.line.value(segment.high)))
            return Case(branches=((upto, halved(first, middle)),), otherwise=halved(middle + 1, last), type=self.ref.type)

        return cells, halved(0, len(places) - 1)


# -- values on a line


class Line(Frozen):
    """The values of a type as numbers in the same order. Of whole numbers, those from `low` to `high` are values of the type."""

    place: Callable[[Value], float]
    value: Callable[[float], Value]
    low: float = -math.inf
    high: float = math.inf
    whole: bool = True

    def places(self, values: Sequence[Value]) -> Sequence[float]:
        """The positions of some values."""
        if isinstance(values, KEPT_BY_ENDS):
            return values if isinstance(values, range) else values.numbers
        if self.place is _number:
            return values  # type: ignore[return-value]
        return [self.place(value) for value in values]

    def around(self, cut: Value) -> tuple[float, ...]:
        """The position of a constant, or the two whole numbers around it."""
        place = self.place(cut)
        found = {place} if not self.whole else {math.floor(place), math.ceil(place)}
        return tuple(each for each in found if self.low <= each <= self.high)

    def between(self, low: float, high: float, declared: set[float]) -> float | None:
        """An undeclared position strictly between two others, the same one for the same two if possible; None if there is
        none."""
        if low == -math.inf and high == math.inf:
            return 0.0
        if not self.whole:
            return _number_between(low, high, declared)
        step = -1 if low == -math.inf else 1
        at = high - 1 if step < 0 else low + 1
        while low < at < high and at in declared:
            at += step
        return at if low < at < high and self.low <= at <= self.high else None


def _number_between(low: float, high: float, declared: set[float]) -> float | None:
    if low == -math.inf or high == math.inf:
        return high - max(1.0, abs(high)) if low == -math.inf else low + max(1.0, abs(low))  # none is declared there
    middle = low / 2 + high / 2
    if low < middle < high and middle not in declared:
        return middle
    at = math.nextafter(low, high)
    while at < high and at in declared:
        at = math.nextafter(at, high)
    return at if at < high else None


def _microseconds(value: Value) -> int:
    assert isinstance(value, dt.datetime)
    return (value - EPOCH) // dt.timedelta(microseconds=1)


def _whole(place: float) -> int:
    return int(place)


def _number(value: Value) -> float:
    assert isinstance(value, _NUMBERS)
    return value


def _day(value: Value) -> int:
    assert isinstance(value, dt.date)
    return value.toordinal()


LINES: dict[Type, Line] = {
    Type.BIGINT: Line(place=_number, value=_whole, low=INT64.low, high=INT64.high),
    Type.DOUBLE: Line(place=_number, value=float, whole=False),
    Type.DATE: Line(place=_day, value=lambda place: dt.date.fromordinal(int(place)), low=1, high=dt.date.max.toordinal()),
    Type.TIMESTAMP: Line(place=_microseconds, value=lambda place: EPOCH + dt.timedelta(microseconds=int(place)),
                         low=_microseconds(dt.datetime.min), high=_microseconds(dt.datetime.max)),
}


def _is_within(line: Line, domain: Domain) -> bool:
    """Whether the declared values can be put on a line: not if one is infinite, or no day is left to represent those beyond."""
    places, days = line.places(domain.values), line.low > INT64.low
    if not isinstance(places, range) and not all(map(math.isfinite, places)):
        return False
    return not (days and line.whole and not line.low < min(places) <= max(places) < line.high)


def _fresh(kind: Type, used: set[Value]) -> Iterator[Value]:
    """Values that are not in `used`; always the same for the same set."""
    line = LINES.get(kind)
    if line is None:
        yield from (text for text in map(_name, count()) if text not in used)
        return
    taken = {line.place(value) for value in used if isinstance(value, _PLACED) and value == value}
    finite = [place for place in taken if math.isfinite(place)] or [line.place(dt.datetime(2000, 1, 1)) if kind.temporal else 0]
    up, down = (math.inf, -math.inf)
    at: float = max(finite)
    while (at := at + 1 if line.whole else math.nextafter(at, up)) <= line.high and at < math.inf:
        yield line.value(at)
    at = min(finite)
    while (at := at - 1 if line.whole else math.nextafter(at, down)) >= line.low and at > -math.inf:
        yield line.value(at)


def _name(number: int) -> str:
    return "elsewhere" if not number else f"elsewhere {number}"
