"""The sums over rows that must be positive for an answer to lie within its interval.

An aggregate lies strictly between l and r where two sums over the rows of its group are positive:

    COUNT       n - l and r - n
    SUM         sum(A) - l and r - sum(A), with A held to its declared bounds
    AVG         sum(A - l) and sum(r - A): no division, and no noise in a denominator
    quantile p  sum(p - [A <= l]) and sum([A < r] - p), the latter 0 or more: the ceil(p n)-th smallest value lies between

All are integers, so that "positive" is "1 or more". A row moves each by a known amount: `NoisyFlipDistance` has the rest. The
number of different values is no such sum, but how many rows must go until it has fallen is known too:
`flip_distance.DistinctWithin`. The ends of AVG are moved inwards to a grid of 2^30 steps across the bounds, so "within" is never
said of an average outside.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from fractions import Fraction

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen
from dpsql.planning.distinct_parts import distinct_values
from dpsql.planning.sum_parts import clip_of
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.chosen_grids import quantizer
from dpsql.questions.parts import Distincts
from dpsql.questions.question import AggregateCall
from dpsql.trusted.measurements.flip_distance import FARTHEST_END, DistinctWithin, ExtensionWithin, Form, Test, Within
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, Value, predicate, real, whole
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.multiplicities import Multiplicities
from dpsql.trusted.plan.operators.owner_sets import LARGEST, UNIT, OwnerSets
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum, Summand
from dpsql.types import Type
from dpsql.validation.ranges import Range

MOST_BRANCHES = 500  # groups whose intervals are printed into one expression
AVERAGE_STEPS = 2**30


class CheckedAggregate(Frozen):
    """One aggregate over the cells of a view, and the interval of each cell.

    rows    the most rows that an entity moves; None if that is not limited
    owners  the columns that name the entities of a row
    clip    the most that one entity adds, in the unit of the aggregate, where rows are not limited; None: it is learned
    """

    call: AggregateCall
    view: Node
    keys: tuple[str, ...]
    cells: Cells
    ranges: tuple[Range, ...]
    rows: int | None = 1
    owners: tuple[str, ...] = ()
    clip: Fraction | None = None

    @property
    def held(self) -> bool:
        """Whether a Lipschitz extension is needed: the rows of an entity are not limited, and the aggregate does not count
        entities."""
        counts = self.call.aggregate.kind is Kind.DISTINCT and self.call.columns == self.owners and not self.keys
        return self.rows is None and not counts


def within(asked: CheckedAggregate) -> Test:
    """The test whether all answers are within their intervals. Raises Unsupported, located, for an aggregate without such a
    test."""
    if asked.held:
        return held_to(asked, _level(asked))
    match asked.call.aggregate.kind:
        case Kind.COUNT:
            return _counted(asked, asked.view, Count(column=next(iter(asked.call.columns), None), when=asked.call.when))
        case Kind.DISTINCT:
            return _distinct(asked)
        case Kind.TOTAL:
            return _summed(asked)
        case Kind.MEAN if asked.call.aggregate.average:
            return _averaged(asked)
        case Kind.RANK if asked.call.fraction not in (None, 0, 1):
            return _ranked(asked)
    name = asked.call.text or asked.call.function.upper()
    raise Unsupported(f"{name} cannot be checked: it is not a sum over rows", code="validate", span=asked.call.span, subject=name,
                      try_="COUNT, COUNT(DISTINCT x), SUM, AVG, MEDIAN or a quantile")


def _counted(asked: CheckedAggregate, rows: Node, summand: Summand) -> Within:
    forms = (Form(at=0, sign=1, constants=tuple(1 - part.first for part in asked.ranges)),
             Form(at=0, sign=-1, constants=tuple(part.last + 1 for part in asked.ranges)))
    return Within(plan=GroupedSums(input=rows, keys=asked.keys, summands=(summand,)), cells=asked.cells, forms=forms)


def shares_of(asked: CheckedAggregate) -> OwnerSets:
    """The rows of a limited sum, by the entities that they name. Raises Unsupported, located, if the sum cannot be limited."""
    call, limit = asked.call, "OPTIONS (max_rows = 10), or rows_per_entity in the policy"
    name = call.text or call.function.upper()
    if not call.aggregate.linear:
        raise Unsupported(f"{name} can only be checked if the rows of an entity are limited, and here they are not",
                          code="no-limit", span=call.span, subject=name, try_=limit)
    if asked.keys:
        raise Unsupported("groups can only be checked if the rows of an entity are limited, and here they are not",
                          code="no-limit", span=call.span, subject=name, try_=f"a query for each group, or {limit}")
    if call.aggregate.kind is Kind.COUNT:
        return OwnerSets(input=asked.view, owners=asked.owners, summand=Count(column=next(iter(call.columns), None),
                                                                              when=call.when))
    column = column_of(asked)
    grid = bounded(column, call)
    if grid.least < 0 or grid.largest > LARGEST:
        raise Unsupported(f"{name} can only be limited to a level if values are neither negative nor very large", code="no-limit",
                          span=call.span, subject=name, try_=f"GREATEST({column.name}, 0), or {limit}")
    return OwnerSets(input=asked.view, owners=asked.owners, summand=GridSum(column=column.id, when=call.when, grid=grid))


def held_to(asked: CheckedAggregate, level: int) -> Test:
    """The test of a sum that is limited to a level, in integers of its summand."""
    plan, part = shares_of(asked), asked.ranges[0]
    unit = UNIT / (plan.summand.grid.step if isinstance(plan.summand, GridSum) else Fraction(1))
    return ExtensionWithin(plan=plan, level=level, first=math.floor(part.low * unit) + 1, last=math.ceil(part.high * unit) - 1)


def _level(asked: CheckedAggregate) -> int:
    plan = shares_of(asked)
    if asked.clip is None:
        raise Unsupported("an entity's rows are not limited here, and a limit can be learned for only one check at a "
                          "time", code="no-limit", span=asked.call.span, try_="OPTIONS (clip = 10), or suite = 'independent'")
    return min(LARGEST, clip_of(plan.summand, asked.clip))


def _distinct(asked: CheckedAggregate) -> Test:
    """Values that go with their scarcest rows; those that name entities, which are one row each, as any count."""
    column = asked.call.columns[0]
    if asked.call.columns == asked.owners:
        values = distinct_values(asked.view, Distincts(column=column, when=asked.call.when, entities=False), asked.keys)
        return _counted(asked, values, Count(column=column))
    return DistinctWithin(plan=Multiplicities(input=asked.view, keys=asked.keys, column=column, when=asked.call.when),
                          cells=asked.cells,
                          first=tuple(part.first for part in asked.ranges), last=tuple(part.last for part in asked.ranges))


def _summed(asked: CheckedAggregate) -> Within:
    column = column_of(asked)
    grid = bounded(column, asked.call)
    forms = (Form(at=0, sign=1, constants=tuple(-math.floor(part.low / grid.step) for part in asked.ranges)),
             Form(at=0, sign=-1, constants=tuple(math.ceil(part.high / grid.step) for part in asked.ranges)))
    summand = GridSum(column=column.id, when=asked.call.when, grid=grid)
    near = all(abs(constant) <= FARTHEST_END for form in forms for constant in form.constants)
    return Within(plan=GroupedSums(input=asked.view, keys=asked.keys, summands=(summand,)), cells=asked.cells, forms=forms,
                  exact=near and not asked.keys)


def column_of(asked: CheckedAggregate) -> Field:
    """The aggregated column."""
    return asked.view.field(asked.call.columns[0])


def bounded(column: Field, call: AggregateCall) -> Quantizer:
    """The grid of a summed column. Raises Unsupported if no bounds are declared."""
    grid = quantizer(column.facts, from_low=False) if column.facts.type.numeric else None
    if grid is None or not grid.largest:
        raise Unsupported(f"{column.name} has no declared bounds, so one row could change the answer without limit",
                          code="no-bounds", subject=column.name, span=call.span,
                          try_="bounds = [low, high] for the column in the policy, or LEAST(GREATEST(x, 0), 1000)")
    return grid


def with_clamped_column(view: Node, call: AggregateCall) -> Node:
    """The view with a summed or averaged column clamped to its declared bounds, as when private rows are summed."""
    if not call.aggregate.average and call.aggregate.kind is not Kind.TOTAL:
        return view
    column = view.field(call.columns[0])
    grid = bounded(column, call)
    kind = column.facts.type
    ends = [Literal(value=math.floor(end) if kind is Type.BIGINT else float(end), type=kind) for end in (grid.low, grid.high)]
    value: Expr = Case(branches=((predicate(">=", column.ref, ends[1]), ends[1]),
                                 (predicate("<=", column.ref, ends[0]), ends[0])), otherwise=column.ref, type=kind)
    if kind is Type.DOUBLE:
        value = Case(branches=((predicate("isnan", column.ref), Literal(value=None, type=kind)),), otherwise=value, type=kind)
    return Project(input=view, columns=tuple((found.id, found.name, value if found.id == column.id else found.ref)
                                             for found in view.fields))


# -- sums of expressions that differ from group to group


def _averaged(asked: CheckedAggregate) -> Within:
    column = column_of(asked)
    grid = bounded(column, asked.call)
    low, high = Fraction(grid.low), Fraction(grid.high)
    step = Fraction(2) ** math.ceil(math.log2(2 * max(abs(low), abs(high), high - low) / AVERAGE_STEPS))
    sides = (("above", 1, [max(low - step, math.ceil(part.low / step) * step) for part in asked.ranges]),
             ("below", -1, [min(high + step, math.floor(part.high / step) * step) for part in asked.ranges]))
    columns, summands = [], []
    for name, sign, ends in sides:
        end = _by_cell(asked, [real(float(value)) for value in ends])
        value: Expr = column.ref if column.facts.type is Type.DOUBLE else Cast(
            input=column.ref, target="DOUBLE", type=Type.DOUBLE)
        over = (value, end) if sign == 1 else (end, value)
        columns.append((name, name, Call(function="-", args=over, type=Type.DOUBLE)))
        least, most = (low - max(ends), high - min(ends)) if sign == 1 else (min(ends) - high, max(ends) - low)
        summands.append(GridSum(column=name, when=asked.call.when, grid=Quantizer(
            low=float(least), high=float(most), step=step, from_low=False)))
    return _of_columns(asked, columns, summands, (0, 0))


def _ranked(asked: CheckedAggregate) -> Within:
    column = column_of(asked)
    fraction = asked.call.fraction
    assert fraction is not None
    a, b = fraction.numerator, fraction.denominator
    upto = [greatest_inside(column, part.low, strict=False) for part in asked.ranges]
    before = [greatest_inside(column, part.high, strict=True) for part in asked.ranges]
    columns = [("above", "above", _step(asked, column, upto, a - b, a)),
               ("below", "below", _step(asked, column, before, b - a, -a))]
    summands = [GridSum(column=name, when=asked.call.when, grid=Quantizer(
        low=float(least), high=float(most), step=Fraction(1), from_low=False))
        for name, least, most in (("above", a - b, a), ("below", -a, b - a))]
    return _of_columns(asked, columns, summands, (0, 1))


def greatest_inside(column: Field, end: Fraction, *, strict: bool) -> Literal:
    """The greatest value v such that x <= v means x <= end, or x < end if `strict`."""
    kind = column.facts.type
    if kind is Type.DOUBLE:
        value = float(end)
        return real(math.nextafter(value, -math.inf) if strict and value >= end else value)
    whole = math.ceil(end) - 1 if strict else math.floor(end)
    if kind is Type.DATE:
        return Literal(value=dt.date.fromordinal(min(max(whole, 1), dt.date.max.toordinal())), type=Type.DATE)
    return Literal(value=min(max(whole, -(2**62)), 2**62), type=Type.BIGINT)


def _step(asked: CheckedAggregate, column: Field, ends: Sequence[Literal], inside: int, outside: int) -> Expr:
    """`inside` where a value is at most the end, `outside` where it is greater, NULL if it is missing or NaN."""
    value: Expr = column.ref
    if column.facts.type is Type.DOUBLE:
        value = Case(branches=((predicate("isnan", column.ref), Literal(value=None, type=Type.DOUBLE)),), otherwise=column.ref,
                     type=Type.DOUBLE)
    end = _by_cell(asked, ends)
    return Case(branches=((predicate("<=", value, end), whole(inside)), (predicate(">", value, end), whole(outside))),
                otherwise=Literal(value=None, type=Type.BIGINT), type=Type.BIGINT)


def _of_columns(asked: CheckedAggregate, columns: Sequence[tuple[str, str, Expr]], summands: Sequence[GridSum],
                constants: tuple[int, int]) -> Within:
    """Two sums of new columns, positive with these constants added."""
    kept = tuple((found.id, found.name, found.ref) for found in asked.view.fields)
    view = Project(input=asked.view, columns=(*kept, *columns))
    forms = tuple(Form(at=i, sign=1, constants=(constant,) * len(asked.cells)) for i, constant in enumerate(constants))
    return Within(plan=GroupedSums(input=view, keys=asked.keys, summands=tuple(summands)), cells=asked.cells, forms=forms)


def _by_cell(asked: CheckedAggregate, values: Sequence[Literal]) -> Expr:
    """The value of a row's cell; NULL elsewhere, where nothing is asked."""
    if all(value == values[0] for value in values):
        return values[0]
    if len(values) > MOST_BRANCHES:
        raise Unsupported(f"this aggregate can be checked in at most {MOST_BRANCHES} groups, and here there are {len(values)}",
                          code="too-many-groups", span=asked.call.span, try_="COUNT or SUM, or fewer groups")
    branches = tuple((_is_cell(asked, cell), value) for cell, value in zip(asked.cells, values, strict=True))
    return Case(branches=branches, otherwise=Literal(value=None, type=values[0].type), type=values[0].type)


def _is_cell(asked: CheckedAggregate, cell: tuple[Value, ...]) -> Expr:
    found: Expr | None = None
    for key, value in zip(asked.keys, cell, strict=True):
        ref: Ref = asked.view.field(key).ref
        same = predicate("is not distinct from", ref, Literal(value=value, type=ref.type))
        found = same if found is None else predicate("and", found, same)
    assert found is not None
    return found
