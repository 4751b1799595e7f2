"""Statements over public tables only: they are answered exactly, at no cost."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable

import numpy as np

from dpsql.errors import Unsupported
from dpsql.estimates import Estimate, constant
from dpsql.planning.groups import kept_keys, levels_of
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import Question
from dpsql.sql.binding.binding_context import PublicTables
from dpsql.trusted.plan.cells import Cells, sort_key
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.statistics import Statistics


def exact(question: Question, view: Node, public: PublicTables) -> tuple[Cells, dict[str, Estimate]]:
    """The groups of a public view, and the exact values of each aggregate by group. Raises Unsupported as `check_exact` does."""
    check_exact(question)
    calls = tuple(call.exact for call in question.aggregates)
    keys, cells, rows = tuple(key.column for key in question.keys), list[tuple[Value, ...]](), list[tuple[Value, ...]]()
    for kept in kept_keys(question):
        here = public.public_rows(Statistics(input=view, keys=tuple(keys[i] for i in kept), calls=calls))
        here.sort(key=lambda row, size=len(kept): sort_key(row[:size]))  # type: ignore[misc]
        for row in here:
            own = dict(zip(kept, row, strict=False))
            cells.append((*(own.get(i) for i in range(len(keys))), *levels_of(question, kept)))
            rows.append(row[len(kept):])
    return tuple(cells), {call.id: numbers([row[i] for row in rows]) for i, call in enumerate(question.aggregates)}


def check_exact(question: Question) -> None:
    """Raises Unsupported, located, for an aggregate that is not available over public tables."""
    for call in question.aggregates:
        if call.over is not None:
            raise Unsupported("aggregates over groups are for private tables only", code="window-here", span=call.span,
                              try_="the aggregate without OVER")
        if call.aggregate.kind is Kind.MODE:
            raise Unsupported(f"{call.text} is for private tables only", code="no-bounds", span=call.span,
                              try_="a SELECT of x and COUNT(*) with GROUP BY x ORDER BY 2 DESC LIMIT 1")


def numbers(values: Iterable[object]) -> Estimate:
    """The values of an aggregate, as the engine returned them."""
    return constant(np.array([_number(value) for value in values], dtype=np.float64))


def _number(value: object) -> float:
    if isinstance(value, dt.date):
        return value.toordinal()
    return float(value) if isinstance(value, int | float) else math.nan
