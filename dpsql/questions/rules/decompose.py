"""Decompose aggregates into parts that can be measured, with recipes to compute the aggregates from the parts.

COUNT, SUM, AVG, VAR and STDDEV of one column come from one set of moments; statistics of two columns from the moments of both and
the sum of their products; quantiles of one column are selected together; an aggregate that is written twice is measured once.
From exact parts the recipes compute exactly what plain SQL gives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from dpsql.errors import Unsupported
from dpsql.estimates import Estimate
from dpsql.frozen import replace
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.chosen_grids import quantizer
from dpsql.questions.parts import Decomposition, Distincts, Matchings, Modes, Part, Quantiles, Recipe, Released, Sums
from dpsql.questions.question import AggregateCall, Question
from dpsql.questions.rules import modes
from dpsql.questions.rules.one_column import MEANS, from_moments, rows_of, spread
from dpsql.questions.rules.regression import ColumnSums, statistic
from dpsql.questions.rules.squares import centre_of, distance_of, powers_of, product_of, square_of
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.owner_sets import UNIT, slack
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments
from dpsql.types import Interval, Span, Type

SLACK = slack(1, 3) / UNIT  # how far a matching may exceed its exact value
FEW_NUMBERS = 1000  # width of a range of whole numbers up to which averages use moments, though totals have limits of their own
MOST_SHARED_STEPS = 2**16  # so that the total weight of very many rows stays below the largest that is allowed
MOST_SQUARED_STEPS = 2**17  # beyond this the rounding of squares is far below any noise, and sums stay in 64 bits


def decompose(question: Question, *, owner: str | None, bounds: dict[str, Interval] | None = None,
              each: bool = False, apart: bool = False, learned: bool = False, several: bool = False,
              counted: bool = False, centres: Mapping[str, float] = MappingProxyType({})) -> Decomposition:
    """The parts of a question, and the recipes for its aggregates.

    owner     the column that names the entity of each row, if there is one
    bounds    ranges that were found privately, by column
    each      the bound limits one number of each row; COUNT, SUM and AVG are computed from such numbers
    apart     a sum and a count beside it are measured separately, as the totals of each have a limit of their own
    learned   so are the sum and the count of an average
    several   as `each`, where rows belong to several entities: quantiles and distinct values have parts of their own there
    counted   the number of rows is known without spending on it, and averages use it
    centres   the numbers that columns are measured from where `several` and squares are needed; by default the midpoints of
              their ranges

    Raises Unsupported, located, if a column has no bounds, or where an aggregate has no such parts.
    """
    decomposer = (_SeveralDecomposer if several else _EachDecomposer if each else _LearnedDecomposer if learned else
                  _ApartDecomposer if apart else _CountedDecomposer if counted else _Decomposer)
    return decomposer(question, owner, bounds or {}, centres).run()


@dataclass
class _Column:
    """The statistics needed of one column under one condition: moments up to `degree` (-1: none), a count, quantiles."""

    degree: int = -1
    counted: bool = False
    fractions: set[Fraction] = field(default_factory=set)


class _Decomposer:
    def __init__(self, question: Question, owner: str | None, bounds: dict[str, Interval], centres: Mapping[str, float]) -> None:
        self._question, self._owner, self._bounds, self._centres = question, owner, bounds, centres
        self._view: Node = question.view
        self._parts: list[Part] = []
        self._asked: dict[tuple[str, str | None], _Column] = {}

    def run(self) -> Decomposition:
        calls = self._question.aggregates
        for call in calls:
            self._collect(call)
        self._share_counts(calls)
        recipes = {call.id: self._recipe(call) for call in calls}
        uses = {name: parts for name, (_, parts) in recipes.items()}
        weights = [sum(i in parts for parts in uses.values()) for i in range(len(self._parts))]
        return Decomposition(parts=tuple(self._parts), weights=tuple(weights), uses=uses,
                             recipes={name: recipe for name, (recipe, _) in recipes.items()})

    # -- first pass: what is needed of each column

    def _collect(self, call: AggregateCall) -> None:
        if not call.columns:
            return
        for column, degree in zip(call.columns, powers_of(call), strict=False):
            asked = self._asked.setdefault((column, call.when), _Column())
            asked.degree = max(asked.degree, degree)
        if call.aggregate.kind in (Kind.COUNT, Kind.RANK):
            asked = self._asked.setdefault((call.columns[0], call.when), _Column())
            if call.aggregate.kind is Kind.COUNT:
                asked.counted = True
            else:
                asked.fractions.add(_fraction(call))

    def _share_counts(self, calls: Sequence[AggregateCall]) -> None:
        """A count beside a sum costs nothing more if both come from moments of degree one."""
        plain = {call.when for call in calls if call.aggregate.kind is Kind.COUNT and not call.columns}
        for (_, when), asked in self._asked.items():
            if asked.degree == 0 and (asked.counted or when in plain):
                asked.degree = 1

    # -- second pass: parts

    def _add(self, part: Part) -> int:
        if part not in self._parts:
            self._parts.append(part)
        return self._parts.index(part)

    def _moments(self, column: str, when: str | None) -> int:
        """The position of the part with the moments of a column; the first such part gives COUNT(*) under the same condition
        too."""
        known, degree = self._view.field(column), self._asked[column, when].degree
        grid = self._grid(known, from_low=True, most_steps=MOST_SQUARED_STEPS if degree == 2 else 2**30)
        first = next(key for key, asked in self._asked.items() if key[1] == when and asked.degree >= 1) == (column, when)
        wanted = any(call.aggregate.kind is Kind.COUNT and not call.columns and call.when == when
                     for call in self._question.aggregates)
        return self._add(Sums(summand=Moments(column=column, when=when, grid=grid, degree=max(1, degree),
                                              missing=first and wanted and known.facts.nullable)))

    def _grid(self, known: Field, *, from_low: bool, most_steps: int = 2**30) -> Quantizer:
        ends = self._ends(known)
        if not ends.finite:
            instead = ("range = [2020-01-01, 2029-12-31] for the column in the policy" if known.facts.type.temporal else
                       "bounds = [low, high] for the column in the policy, or LEAST(GREATEST(x, 0), 1000)")
            raise Unsupported(f"{known.name} has no declared bounds, so one row could change the answer without limit",
                              code="no-bounds", subject=known.name, span=self._span_of(known.id), try_=instead)
        if float(ends.low) == float(ends.high):
            ends = Interval(float(ends.low), float(ends.low))
            ends = Interval(*sorted((ends.low, _beside(ends.low, known.facts.type))))  # one value, too, needs a grid of one step
        grid = quantizer(known.facts, bounds=ends, from_low=from_low, most_steps=most_steps)
        if grid is None:
            raise Unsupported(f"the bounds of {known.name}, {ends}, are too far apart or too close to each other to compute with",
                              code="extreme-bounds", subject=known.name, span=self._span_of(known.id),
                              try_="LEAST(GREATEST(x, -1e15), 1e15), or the column times a number")
        return grid

    def _ends(self, known: Field) -> Interval:
        """The range of a column: what was found privately, or else the declared one; of days, those of the calendar."""
        ends = self._bounds.get(known.id, known.facts.declared)
        if known.facts.type is not Type.DATE or not ends.finite:
            return ends
        return Interval(*(min(max(end, dt.date.min.toordinal()), dt.date.max.toordinal()) for end in (ends.low, ends.high)))

    def _span_of(self, column: str) -> Span | None:
        return next((call.span for call in self._question.aggregates if column in call.columns), None)

    # -- recipes

    def _recipe(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        match call.aggregate.kind:
            case Kind.COUNT:
                return self._count(call)
            case Kind.DISTINCT:
                part = self._add(Distincts(column=call.columns[0], when=call.when, entities=call.columns[0] == self._owner,
                                           values=call.values))
                return _component(part, 0), (part,)
            case Kind.RANK:
                return self._place(call)
            case Kind.MODE:
                return self._mode(call)
            case Kind.PAIR:
                return self._of_two(call)
            case _:
                return self._statistic(call)

    def _count(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        column = call.columns[0] if call.columns else None
        if column is not None and not self._view.field(column).facts.nullable:
            column = None
        with_moments = [key for key, asked in self._asked.items() if asked.degree >= 1 and key[1] == call.when]
        if call.columns and (call.columns[0], call.when) in with_moments:
            part = self._moments(call.columns[0], call.when)
            return rows_of(part, self._summand(part), missing=column is None), (part,)
        if not call.columns and with_moments:
            part = self._moments(*with_moments[0])
            return rows_of(part, self._summand(part), missing=True), (part,)
        part = self._add(Sums(summand=Count(column=column, when=call.when)))
        return _component(part, 0), (part,)

    def _summand(self, part: int) -> Moments:
        found = self._parts[part]
        assert isinstance(found, Sums) and isinstance(found.summand, Moments)
        return found.summand

    def _place(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        column = call.columns[0]
        fractions = tuple(sorted(self._asked[column, call.when].fractions))
        part = self._add(Quantiles(column=column, when=call.when, fractions=fractions,
                                   grid=self._grid(self._view.field(column), from_low=True)))
        found = self._parts[part]
        assert isinstance(found, Quantiles)
        step, low, place = float(found.grid.step), float(found.grid.low), fractions.index(_fraction(call))
        ends = self._ends(self._view.field(column))  # the grid of a single value has a second one
        return (lambda released: (released[part][place] * step + low).within(float(ends.low), float(ends.high))), (part,)

    def _statistic(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        column = call.columns[0]
        if self._asked[column, call.when].degree == 0:
            grid = self._grid(self._view.field(column), from_low=False)
            part = self._add(Sums(summand=GridSum(column=column, when=call.when, grid=grid)))
            step = float(grid.step)
            return (lambda released: released[part][0] * step), (part,)
        part = self._moments(column, call.when)
        return from_moments(call.function, part, self._summand(part), self._ends(self._view.field(column))), (part,)

    def _mode(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        known = self._view.field(call.columns[0])
        values = modes.candidates(call)
        if not values:
            raise Unsupported(f"the values of {known.name} are not declared, or are more than {modes.MOST_VALUES}, and "
                              f"{call.text} "
                              "is one of them", code="no-bounds", subject=known.name, span=call.span,
                              try_="values = [...] for the column in the policy, or a SELECT of x and COUNT(*) with GROUP BY x "
                              "ORDER BY 2 DESC LIMIT 1")
        part = self._add(Modes(column=known.id, when=call.when, values=values))
        return (lambda released: modes.most_frequent(released[part][0], len(values))), (part,)

    def _of_two(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        """A statistic of two columns; the third column of the call has the products of their distances from the midpoints."""
        y, x, both = call.columns
        parts = [self._moments(column, call.when) for column in (y, x)]
        grid = self._grid(self._view.field(both), from_low=False)
        product, step = self._add(Sums(summand=GridSum(column=both, when=call.when, grid=grid))), float(grid.step)
        ends = [self._view.field(column).facts.declared for column in (y, x)]

        def recipe(released: Released) -> Estimate:
            of_y, of_x = (ColumnSums.of(self._summand(part), known, released[part])
                          for part, known in zip(parts, ends, strict=True))
            return statistic(call.function, of_y, of_x, released[product][0] * step)

        return recipe, tuple(dict.fromkeys((*parts, product)))


class _ApartDecomposer(_Decomposer):
    """A sum is not computed from moments just because of a count: in moments every row counts as much as the bound of its
    column."""

    def _share_counts(self, calls: Sequence[AggregateCall]) -> None:
        """Moments are for aggregates that need both."""


class _LearnedDecomposer(_ApartDecomposer):
    """Limits of totals are learned, one for each part. So averages are not computed from moments either, unless the range has
    few whole numbers. If values have heavy tails, totals are far below what the rows could add, and noise for the limit of totals
    is far smaller than that of moments; otherwise it is less than twice as large.
    """

    cut = True  # totals have a limit of their own, below those of some entities

    def _share_counts(self, calls: Sequence[AggregateCall]) -> None:
        self._means: set[tuple[str, str | None]] = set()
        others = {(column, call.when) for call in calls if not call.aggregate.plain for column in call.columns}
        for key, asked in self._asked.items():
            known = self._view.field(key[0]).facts
            few = known.whole and known.declared.finite and known.declared.high - known.declared.low <= FEW_NUMBERS
            if asked.degree == 1 and not few and key not in others:
                asked.degree = 0
                self._means.add(key)

    def _recipe(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        apart = call.aggregate.average and (call.columns[0], call.when) in self._means
        return self._mean(call) if apart else super()._recipe(call)

    def _mean(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        """The total divided by the number of rows that have a value.

        Where values are not negative, a limit cuts off what the largest values add: the true mean may lie any distance above.
        """
        _, (first,) = self._total(call)
        count = self._add(Sums(summand=Count(column=self._counted(call), when=call.when)))
        part = self._parts[first]
        assert isinstance(part, Sums) and isinstance(part.summand, GridSum)
        ends = self._view.field(call.columns[0]).facts.declared
        return mean_of(first, part.summand.grid.step, count, ends, cut=self.cut), (first, count)

    def _total(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        return self._statistic(replace(call, function="sum"))

    def _counted(self, call: AggregateCall) -> str | None:
        return call.columns[0] if call.columns and self._view.field(call.columns[0]).facts.nullable else None


class _CountedDecomposer(_LearnedDecomposer):
    """The number of rows is known already. So an average needs only one sum beside it, where moments are two; except where some
    rows have no value, or where the column's sum or variance is asked for too, which needs the moments.
    """

    cut = False

    def _share_counts(self, calls: Sequence[AggregateCall]) -> None:
        self._means = {(call.columns[0], None) for call in calls
                       if call.aggregate.average and call.when is None and self._is_alone(call.columns[0], calls)}
        for key in self._means:
            self._asked[key].degree = 0
        _ApartDecomposer._share_counts(self, calls)

    def _is_alone(self, column: str, calls: Sequence[AggregateCall]) -> bool:
        known = self._view.field(column).facts
        return not known.nullable and known.type.numeric and all(
            call.aggregate.average or call.aggregate.kind is Kind.COUNT for call in calls if column in call.columns)


class _EachDecomposer(_LearnedDecomposer):
    """The bound limits one number of each row: every count and every sum is a part of its own, with weights that stay small.

    Nothing is shared: moments have several components, and each would need a bound of its own.
    """

    cut = False  # sums and counts have the same level

    def _recipe(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        if call.aggregate.kind is Kind.COUNT:
            part = self._add(Sums(summand=Count(column=self._counted(call), when=call.when)))
            return _component(part, 0), (part,)
        if call.aggregate.plain:
            return self._total(call) if call.aggregate.linear else self._mean(call)
        name, tables = call.text or call.function.upper(), " and ".join(_private_tables(self._view))
        raise Unsupported(f"{name} is not answered where a row belongs to several entities, as those of {tables} do here",
                          code="several-owners", span=call.span, subject=tables,
                          try_="COUNT, SUM or AVG; or a join in which each row has one entity")

    def _total(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        part, step = self._sum(call.columns[0], call.when)
        return (lambda released: released[part][0] * step), (part,)

    def _sum(self, column: str, when: str | None) -> tuple[int, float]:
        """The position of the part that sums a column, and the step of its grid, in the unit of the column."""
        grid = self._grid(self._view.field(column), from_low=False, most_steps=MOST_SHARED_STEPS)
        return self._add(Sums(summand=GridSum(column=column, when=when, grid=grid))), float(grid.step)


class _SeveralDecomposer(_EachDecomposer):
    """Numbers of distinct values, and quantiles, have parts of their own where rows belong to several entities.

    Variances, and statistics of two columns, are computed from sums of distances from a centre, of their squares and of their
    products, which are columns of the view (`rules.squares`); an average beside a variance uses the same sum.
    """

    def _recipe(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        match call.aggregate.kind:
            case Kind.SPREAD:
                return self._spread(call)
            case Kind.PAIR:
                return self._of_two(call)
            case Kind.MEAN:
                beside = call.aggregate.average and self._asked[call.columns[0], call.when].degree == 2
                mean, parts = self._mean_beside(call) if beside else self._mean(call)
                return (lambda released: MEANS[call.function].finish(mean(released))), parts
            case Kind.DISTINCT if call.columns:
                part = self._add(Matchings(column=call.columns[0], when=call.when))
                return _component(part, 0), (part,)
            case Kind.DISTINCT:
                part = self._add(Matchings(column=None, when=None))
                return (lambda released: released[part][0] + -SLACK), (part,)
            case Kind.RANK:
                return self._place(call)
            case Kind.MODE:
                return self._mode(call)
        return super()._recipe(call)

    def _spread(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        made, parts = self._column_sums(call.columns[0], call, 2)
        return (lambda released: spread(call.function, made(released))), parts

    def _mean_beside(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        column = call.columns[0]
        _, (count, total) = self._column_sums(column, call, 1)
        known, part = self._view.field(column).facts, self._parts[total]
        assert isinstance(part, Sums) and isinstance(part.summand, GridSum)
        return mean_of(total, part.summand.grid.step, count, known.declared, cut=self.cut,
                       centre=centre_of(known, column, self._centres)), (total, count)

    def _of_two(self, call: AggregateCall) -> tuple[Recipe, tuple[int, ...]]:
        y, x, _ = call.columns
        (of_y, parts_of_y), (of_x, parts_of_x) = (self._column_sums(column, call, degree) for column, degree in zip(
            (y, x), powers_of(call), strict=True))
        product, step = self._sum(product_of(y, x), call.when)

        def recipe(released: Released) -> Estimate:
            return statistic(call.function, of_y(released), of_x(released), released[product][0] * step)

        return recipe, tuple(dict.fromkeys((*parts_of_y, *parts_of_x, product)))

    def _column_sums(self, column: str, call: AggregateCall,
                     degree: int) -> tuple[Callable[[Released], ColumnSums], tuple[int, ...]]:
        """How to compute the number of rows with a value and the sums of distances (and for degree two, of their squares) from
        released parts; and the positions of these parts."""
        known = self._view.field(column)
        self._grid(known, from_low=False)  # raises where it has no bounds
        count = self._add(Sums(summand=Count(column=column if known.facts.nullable else None, when=call.when)))
        sums = [self._sum(each, call.when) for each in (distance_of(column), square_of(column))[:degree]]
        centre = centre_of(known.facts, column, self._centres)

        def made(released: Released) -> ColumnSums:
            first, *second = (released[part][0] * step for part, step in sums)
            return ColumnSums(ends=known.facts.declared, centre=centre, rows=released[count][0], first=first,
                              second=second[0] if second else None)

        return made, (count, *(part for part, _ in sums))


def mean_of(total: int, step: Fraction, count: int, ends: Interval, *, cut: bool, centre: float = 0.0) -> Recipe:
    """The recipe for the mean of values in `ends`, from the parts with their total (in steps, measured from `centre`) and their
    count; `cut` says whether a limit may cut off a part of the total (see `_mean`)."""
    def mean(released: Released) -> Estimate:
        rows, values = released[count][0], released[total][0] * float(step)
        found = (values.over(rows) if rows.drawn is not None else values / rows) + centre
        return (found.at_least() if cut and ends.low >= 0 else found).within(ends.low, ends.high).where(rows.values > 0)

    return mean


def _fraction(call: AggregateCall) -> Fraction:
    """The place of a RANK among the values."""
    return call.fraction or call.aggregate.place or Fraction(0)


def _component(part: int, index: int) -> Recipe:
    return lambda released: released[part][index]


def _beside(end: float, kind: Type) -> float:
    """A number next to the only value of a column, for its grid: the next one, or the one before where there is no next one."""
    if kind.temporal and end + 1 > dt.date.max.toordinal():
        return end - 1
    return end + 1 if end + 1 != end else end / 2  # 1e20 + 1 is 1e20


def _private_tables(node: Node) -> list[str]:
    """The names of the private tables that a view reads."""
    if isinstance(node, Scan):
        return [] if node.table.public else [node.table.name]
    return sorted({name for below in node.inputs for name in _private_tables(below)})
