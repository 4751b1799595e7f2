"""How many rows an account already knows that there are, at least: from its earlier counts of the same rows on the same data.

Answers of other analysts are not used, even where the budget shares them: a price is shown before the charge and depends on these
numbers, which the account has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from dpsql.answers.answer import Answer
from dpsql.batch.accuracy_plan import basis
from dpsql.batch.linear_queries import linear
from dpsql.batch.workload_plan import batch
from dpsql.engine.kept_measurements import kept_records
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import AggregateCall, Question
from dpsql.questions.rules.flatten import lowered
from dpsql.trusted.accounting.cost import pure
from dpsql.trusted.plan.certificate import Unbounded
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.node import InvalidPlan, Node

MOST_TRIED = 100  # statements, the newest ones


class EarlierAnswer(Frozen):
    """The stored answer to a statement, with what was asked of which rows."""

    question: Question
    view: Node
    answer: Answer


def least_rows(question: Question, view: Node, call: AggregateCall, session: Session,
               answered: Callable[[str], EarlierAnswer | None]) -> float | None:
    """A lower bound on the rows that an aggregate uses in each group; None if no earlier count tells. Each bound is the lower end
    of an interval, so it holds with the confidence of that interval. `answered` finds the answer to an earlier text."""
    rows = AggregateCall(id="rows", function="count", columns=_counted(view, call), when=call.when)
    found = [*_measured(question, view, rows, session), *_answered(_identity(question, view, rows), session, answered)]
    return max(found, default=None)


def _counted(view: Node, call: AggregateCall) -> tuple[str, ...]:
    """The column whose values an aggregate uses, if some rows have none."""
    return tuple(column for column in call.columns[:1] if view.field(column).facts.nullable)


def _identity(question: Question, view: Node, call: AggregateCall) -> tuple[object, ...]:
    """What identifies a count of rows by groups: the rows, the conditions, the groups and what is counted."""
    names = [*(key.column for key in question.keys), *_counted(view, call), *([call.when] if call.when is not None else [])]
    below = lowered(view, [view.field(name).ref for name in names])
    return (below.source, tuple(below.exprs), tuple(below.common), tuple(key.values for key in question.keys),
            len(_counted(view, call)), call.when is not None)


def _measured(question: Question, view: Node, rows: AggregateCall, session: Session) -> Iterator[float]:
    """From workloads, and statements with an accuracy."""
    plain = replace(question, aggregates=(rows,), outputs=(), having=None, ordering=(), limit=None, offset=0, distinct=False,
                    minimum=None)
    try:
        made = batch([linear(plain, view)], pure(Fraction(1)), session.kernel, session.scratch)
    except (Error, InvalidPlan, Unbounded):  # conditions compare columns, or rows belong to several entities each
        return
    (place,), = made.places
    known = basis(made.groups[place.group], kept_records(session))
    if known is None or not known.records or not known.before.small:
        return
    told = place.estimate(known.combined_answers("laplaces"), 0)
    least = told.least(float(session.confidence))
    if len(least) and np.isfinite(least).all():
        yield float(least.min())


def _answered(identity: tuple[object, ...], session: Session,
              answered: Callable[[str], EarlierAnswer | None]) -> Iterator[float]:
    """From other statements."""
    for text in session.ledger.texts(session.account, "COUNT", MOST_TRIED):
        earlier = answered(text)
        if earlier is None:
            continue
        question = earlier.question
        shown = {output.expr.column: at for at, output in enumerate(question.outputs) if isinstance(output.expr, Ref)}
        for call in question.aggregates:
            if call.aggregate.kind is not Kind.COUNT or call.over is not None or call.id not in shown or not _whole(question):
                continue
            ends = [row[shown[call.id]] for row in earlier.answer.intervals]
            if ends and None not in ends and _identity(question, earlier.view, call) == identity:
                yield float(min(end[0] for end in ends if end is not None))


def _whole(question: Question) -> bool:
    """Whether the answer has a row for each group."""
    return (question.sets is None and question.having is None and question.limit is None and not question.offset
            and not question.distinct and question.minimum is None)
