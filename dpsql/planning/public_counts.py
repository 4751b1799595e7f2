"""Exact answers to many questions over one public table, read by few queries."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.errors import Error
from dpsql.estimates import Estimate
from dpsql.frozen import replace
from dpsql.planning.public import exact, numbers
from dpsql.questions.question import AggregateCall, Question
from dpsql.questions.rules.flatten import Lowered, lowered
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, all_of, whole
from dpsql.trusted.plan.node import InvalidPlan, Node
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.statistics import Statistics
from dpsql.types import Type

MOST = 100  # answers of one query: an engine's work grows faster than their number
ANY_ORDER = ("count", "count_distinct")  # aggregates that do not depend on the order of rows, for values of any type
Answer = tuple[Cells, dict[str, Estimate]]


def exact_answers(asked: Sequence[tuple[Question, Node]], public: PublicTables) -> list[Answer]:
    """The same as `public.exact` of each question and its view. Questions of one aggregate without groups over one table are
    read together, if their conditions may be evaluated for all rows of the table."""
    found: dict[int, Answer] = {}
    alike: dict[str, list[tuple[int, AggregateCall, Lowered]]] = {}
    for i, (question, view) in enumerate(asked):
        below = _lowered(question, view)
        if below is not None and isinstance(below.source, Scan):
            alike.setdefault(below.source.table.name, []).append((i, question.aggregates[0], below))
    for own in alike.values():
        for first in range(0, len(own), MOST):
            found |= _together(own[first:first + MOST], public)
    return [found[i] if i in found else exact(question, view, public) for i, (question, view) in enumerate(asked)]


def _lowered(question: Question, view: Node) -> Lowered | None:
    """The argument and the condition of a question's only aggregate, over a table; None if other rows could not be ignored, or
    their place among all rows could change the last digits."""
    if question.keys or question.sets is not None or len(question.aggregates) != 1:
        return None
    call = question.aggregates[0]
    if call.over is not None or len(call.columns) > 1 or (call.function not in ANY_ORDER and not (
            call.function in ("sum", "avg") and view.field(call.columns[0]).facts.type is Type.BIGINT)):
        return None
    return lowered(view, [*(view.field(column).ref for column in call.columns),
                          *([view.field(call.when).ref] if call.when is not None else [])])


def _together(own: Sequence[tuple[int, AggregateCall, Lowered]], public: PublicTables) -> dict[int, Answer]:
    """The answers over one table, by the numbers of their questions; none if they cannot be read together."""
    if len(own) < 2:
        return {}
    columns = [(f"e{i}", f"e{i}", _argument(call, below)) for i, call, below in own]
    calls = [replace(call, id=f"a{i}", columns=(f"e{i}",), when=None).exact for i, call, _ in own]
    try:
        plan = Statistics(input=Project(input=own[0][2].source, columns=tuple(columns)), keys=(), calls=tuple(calls))
        _ = plan.input.fields, plan.fields
        (row,) = public.public_rows(plan)
    except (InvalidPlan, Error):  # of rows that their filters leave out, an expression may not be known to be safe
        return {}
    return {i: (((),), {call.id: numbers([value])}) for (i, call, _), value in zip(own, row, strict=True)}


def _argument(call: AggregateCall, below: Lowered) -> Expr:
    """The argument of an aggregate, or 1 for every row; NULL, which all of these aggregates ignore, for rows that do not fulfil
    all conditions."""
    exprs = [expr for expr in below.exprs if expr is not None]
    value = exprs[0] if call.columns else whole(1)
    condition = all_of([*below.common, *exprs[len(call.columns):]])
    if condition is None:
        return value
    return Case(branches=((condition, value),), otherwise=Literal(value=None, type=value.type), type=value.type)
