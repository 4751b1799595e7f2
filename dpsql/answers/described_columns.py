"""The columns of an answer as they are known before it: names and types from the text and the policy alone.

OPTIONS (errors = true) shows the ends of intervals as columns of their own. Which columns have them is decided here, and so by
the statement and never by its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

from dpsql.answers.answer import Answer, AnswerColumn
from dpsql.answers.columns import ColumnData
from dpsql.frozen import Frozen, replace
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import Question
from dpsql.questions.rules.substitute import has_placeholders
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Value, columns
from dpsql.types import Interval, Type

ENDS = "low", "high"
SMALL = Interval(-(2**31), 2**31 - 1)

# the columns of what is no answer to a query, whatever it says
OF_EXPLANATION = (("explanation", Type.VARCHAR),)
OF_CHECKS = (("query", Type.VARCHAR), ("synthetic", Type.VARCHAR), ("tolerance", Type.VARCHAR), ("within", Type.VARCHAR),
             ("p_outside", Type.DOUBLE), ("p_inside", Type.DOUBLE), ("slack", Type.BIGINT), ("certain_from", Type.BIGINT),
             ("decider", Type.VARCHAR))
OF_SYNTHETIC_TABLE = (("marginal", Type.VARCHAR), ("cells", Type.BIGINT), ("error of a count", Type.DOUBLE),
                      ("off by", Type.DOUBLE))
OF_SYNTHETIC_TABLES = (("table", Type.VARCHAR), ("rows", Type.BIGINT), ("key", Type.VARCHAR), ("hangs on", Type.VARCHAR))
OF_ONLINE_MODEL = (("column", Type.VARCHAR), ("values", Type.BIGINT))
OF_DROP = (("dropped", Type.VARCHAR),)
OF_STANDING_QUERIES = tuple((title, Type.VARCHAR) for title in (
    "name", "made by", "last period", "next period", "closes", "price of a period", "year ahead, one period",
    "year ahead, in all", "has room", "statement"))


class DescribedColumn(Frozen):
    """A column that an answer will have.

    measured  it is a number or a date that is computed of aggregates, so that it may have an interval
    wide      it is a sum of whole numbers that need not be in 32 bits, so that it need not be in 64: those who show numbers in a
              fixed width should know
    """

    name: str
    type: Type
    measured: bool = False
    wide: bool = False


def columns_of(listed: Iterable[tuple[str, Type]]) -> tuple[DescribedColumn, ...]:
    """Columns that are given by their names and types."""
    return tuple(DescribedColumn(name=name, type=kind) for name, kind in listed)


def of_question(question: Question) -> tuple[DescribedColumn, ...]:
    """The columns of a question's answer; see `answer.compose`."""
    calls = {call.id for call in question.aggregates}
    wide = {call.id for call in question.aggregates if call.aggregate.kind is Kind.TOTAL and not all(
        _is_small(question.view.env[column]) for column in call.columns)}
    return tuple(DescribedColumn(
        name=output.name, type=output.expr.type, wide=output.expr.type is Type.BIGINT and bool(columns(output.expr) & wide),
        measured=has_ends(output.expr.type) and bool(columns(output.expr) & calls or has_placeholders(output.expr)))
        for output in question.outputs)


def _is_small(facts: Facts) -> bool:
    """Whether values fit into 32 bits, as declared or known: only sums of billions of them exceed 64 bits."""
    return facts.declared.inside(SMALL) or facts.physical.inside(SMALL)


def has_ends(kind: Type) -> bool:
    """Whether a noisy value of this type has an interval."""
    return kind.numeric or kind is Type.DATE


def with_ends(columns: Sequence[DescribedColumn]) -> tuple[DescribedColumn, ...]:
    """The columns, each noisy one followed by the ends of its interval."""
    return tuple(chain.from_iterable((column, *_ends_of(column)) for column in columns))


def _ends_of(column: DescribedColumn) -> tuple[DescribedColumn, ...]:
    kind = Type.DATE if column.type is Type.DATE else Type.DOUBLE
    return tuple(DescribedColumn(name=f"{column.name}_{end}", type=kind) for end in ENDS) if column.measured else ()


def as_described(answer: Answer, described: Sequence[DescribedColumn]) -> Answer:
    """The answer, with the facts about its columns that are known beforehand."""
    return replace(answer, columns=tuple(replace(column, wide=about.wide) for column, about in zip(
        answer.columns, described, strict=True)))


def showing_ends(answer: Answer, described: Sequence[DescribedColumn]) -> Answer:
    """The answer with the ends of each interval as two further columns. Both ends of an exact value are the value itself; where
    no error is known, they are NULL."""
    shown: list[AnswerColumn] = []
    data: list[ColumnData] = []
    for at, (column, about) in enumerate(zip(answer.columns, described, strict=True)):
        shown.append(column)
        data.append(answer.data[at])
        if about.measured:
            ends = [_interval(answer, row, at, exact=column.exact) for row in range(answer.size)]
            shown += [AnswerColumn(name=each.name, type=each.type, exact=True) for each in _ends_of(about)]
            data += [ColumnData(values=tuple(end[side] for end in ends)) for side in range(len(ENDS))]
    return replace(answer, columns=tuple(shown), data=tuple(data))


def _interval(answer: Answer, row: int, column: int, *, exact: bool) -> tuple[Value, Value]:
    found, value = answer.ends(row, column), answer.rows[row][column]
    if found is None:
        own = float(value) if isinstance(value, int) else value
        return (own, own) if exact else (None, None)
    low, high = found
    return (low, high) if not isinstance(low, float) or not math.isnan(low) else (None, None)
