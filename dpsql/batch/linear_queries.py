"""A statement as linear queries over the rows of a view: keys and conditional sums, one column at a time.

A cell of the view's data vector is a combination of values of a few columns. A query is linear in it if everything that
decides which rows count involves one column each: keys that are a column or computed from one, and conditions that are
conjunctions of such tests. COUNT, SUM and AVG are answered; everything else is refused, with its place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from dpsql.errors import Unsupported
from dpsql.frozen import Frozen, field
from dpsql.planning.groups import not_listed
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.chosen_grids import quantizer
from dpsql.questions.question import AggregateCall, OverGroups, Question
from dpsql.questions.rules.flatten import lowered
from dpsql.trusted.plan.expr.facts import Facts, facts
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Ref, columns, conjuncts, walk
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.types import Interval, Span

MOST_STEPS = 2**24  # of a grid, so that noise on whole multiples of a million stays in 64 bits


class LinearSum(Frozen):
    """The sum of `expr` (None: 1) over the rows that fulfil every test, times `times`. `summand` bounds what one row adds.

    over   the groups that it sums over; None: each group by itself
    """

    summand: Count | GridSum
    expr: Expr | None
    tests: tuple[Expr, ...]
    times: float = 1.0
    over: OverGroups | None = None
    span: Span | None = field(default=None, compare=False)


class Recipe(Frozen):
    """An aggregate computed from sums: the sum itself or, for a mean, the first divided by the second, clamped to its range."""

    call: AggregateCall
    sums: tuple[int, ...]
    among: Interval | None = None


class LinearStatement(Frozen):
    """A statement as sums over the rows of `source` for each combination of key values, and its aggregates computed from them."""

    question: Question
    source: Node
    keys: tuple[Expr, ...]
    sums: tuple[LinearSum, ...]
    recipes: tuple[Recipe, ...]


def linear(question: Question, view: Node) -> LinearStatement:
    """A question as linear sums over `view`, whose rows respect all limits. Raises Unsupported, located."""
    if question.scalars:
        raise _not_linear("a subquery that is released first", question.scalars[0].span)
    hidden = next((key for key in question.keys if key.domain is None), None)
    if hidden is not None:
        raise Unsupported(f"{not_listed(question, hidden)}, and a workload needs declared values",
                          code="workload", span=hidden.span, subject=hidden.name,
                          try_=f"values = [...] for {hidden.name} in the policy")
    calls = question.aggregates
    asked = [key.column for key in question.keys] + [name for call in calls for name in (*call.columns, call.when) if name]
    below = lowered(view, [view.field(name).ref for name in asked])
    exprs = dict(zip(asked, below.exprs, strict=True))
    keys = tuple(_known(exprs[key.column]) for key in question.keys)
    for key, expr in zip(question.keys, keys, strict=True):
        _one_column(expr, f"key {key.name}", key.span)
    reader = _Reader(view=view, exprs=exprs, common=below.common, env=below.source.env)
    recipes = tuple(reader.read(call) for call in calls)
    return LinearStatement(question=question, source=below.source, keys=keys, sums=tuple(reader.sums), recipes=recipes)


def _known(expr: Expr | None) -> Expr:
    assert expr is not None
    return expr


@dataclasses.dataclass
class _Reader:
    """Reads aggregates as sums; a sum needed twice is shared."""

    view: Node
    exprs: dict[str, Expr | None]
    common: Sequence[Expr]
    env: Mapping[str, Facts]
    sums: list[LinearSum] = dataclasses.field(default_factory=list)
    places: dict[LinearSum, int] = dataclasses.field(default_factory=dict)  # of the sums in that list

    def read(self, call: AggregateCall) -> Recipe:
        value = _known(self.exprs[call.columns[0]]) if call.columns else None
        if not call.aggregate.plain:
            raise _not_linear(call.text or call.function.upper(), call.span)
        if call.aggregate.kind is Kind.COUNT:
            return Recipe(call=call, sums=(self._count(call, value),))
        assert value is not None
        if call.aggregate.kind is Kind.TOTAL:
            return Recipe(call=call, sums=(self._sum(call, value),))
        ends = self.view.field(call.columns[0]).facts.declared
        return Recipe(call=call, sums=(self._sum(call, value), self._count(call, value)), among=ends)

    def _count(self, call: AggregateCall, value: Expr | None) -> int:
        """A count of rows; with a value, of those where it is not NULL."""
        if value is None or not facts(value, self.env).nullable:
            return self._add(call, Count(), None)
        chosen = _chosen(value, or_zero=False)
        if chosen is not None and not facts(chosen[1], self.env).nullable:
            return self._add(call, Count(), None, chosen[0])
        return self._add(call, Count(column="value"), value)

    def _sum(self, call: AggregateCall, value: Expr) -> int:
        """A sum of values; for a constant where a condition holds, the constant times a count of rows."""
        chosen = _chosen(value, or_zero=True)
        test, value = chosen if chosen is not None else (None, value)
        if isinstance(value, Literal) and isinstance(value.value, int | float) and math.isfinite(value.value):
            return self._add(call, Count(), None, test, times=float(value.value))
        known = facts(value, self.env) if chosen is not None else self.view.field(call.columns[0]).facts
        grid = quantizer(known, from_low=False, most_steps=MOST_STEPS) if known.type.numeric else None
        if grid is None or not grid.largest:
            name = self.view.field(call.columns[0]).name
            raise Unsupported(f"{name} has no declared bounds, so one row could change the answer without limit",
                              code="no-bounds", subject=name, span=call.span,
                              try_="bounds = [low, high] for the column in the policy, or LEAST(GREATEST(x, 0), 1000)")
        return self._add(call, GridSum(column="value", grid=grid), value, test)

    def _add(self, call: AggregateCall, summand: Count | GridSum, expr: Expr | None, *more: Expr | None, times: float = 1) -> int:
        when = conjuncts(_known(self.exprs[call.when])) if call.when is not None else ()
        conditions = (*self.common, *when, *(part for part in more if part is not None))
        tests = [test for whole in conditions for test in conjuncts(whole)]
        tests = [test for test in dict.fromkeys(tests) if not (isinstance(test, Literal) and test.value is True)]
        for test in tests:
            _one_column(test, "condition", test.span or call.span)
        found = LinearSum(summand=summand, expr=expr, tests=tuple(tests), times=times, over=call.over, span=call.span)
        at = self.places.setdefault(found, len(self.sums))
        if at == len(self.sums):
            self.sums.append(found)
        return at


def _chosen(value: Expr, *, or_zero: bool) -> tuple[Expr, Expr] | None:
    """CASE WHEN test THEN value END, with ELSE NULL (or 0) only: the test and the value."""
    if not isinstance(value, Case) or len(value.branches) != 1 or not isinstance(value.otherwise, Literal):
        return None
    otherwise = value.otherwise.value
    return value.branches[0] if otherwise is None or (or_zero and otherwise == 0) else None


def _one_column(expr: Expr, what: str, span: Span | None) -> None:
    read = columns(expr)
    if not read and what == "condition":
        raise Unsupported("this condition is the same for all rows", code="workload", span=expr.span or span,
                          try_="a condition on a column")
    if len(read) > 1:
        raise Unsupported(f"this {what} compares several columns with each other, so it is not a sum over cells", code="workload",
                          span=expr.span or span, try_="tests of one column each, joined by AND; or the statement by itself")


def _not_linear(what: str, span: Span | None) -> Unsupported:
    return Unsupported(f"{what} is not linear", code="workload", span=span, subject=what,
                       try_="COUNT, SUM and AVG, also with FILTER; other aggregates in a statement of their own")


def column_of(expr: Expr) -> Ref | None:
    """The one column that an expression reads; None for a constant."""
    return next((part for part in walk(expr) if isinstance(part, Ref)), None)
