"""Counts by GROUP BY that an account was told before, or may be told as answers are shared, as marginals: a statement is bound
again from the text of its charge, and used only if the ledger has an answer to just this question, of the same version of the
data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from dpsql.answers.answer import ALL_ROWS, Answer, without_limit
from dpsql.batch.counted_keys import CountedKeys, counted_keys
from dpsql.engine.session import Session
from dpsql.engine.single import SingleStatement, bound_to, compiled
from dpsql.errors import Error
from dpsql.frozen import Frozen
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.planning.bounded_view import limited_view
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import Question
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Query
from dpsql.trusted.plan.expr.nodes import Expr, Ref

MOST_BOUND = 100  # statements, the newest ones


class AnsweredGroups(Frozen):
    """A question that counts rows by keys, and its answer. `identity` identifies the statement, and `charge` is as in
    `records.Record`."""

    question: Question
    keys: CountedKeys
    answer: Answer
    identity: str
    charge: int


def group_marginals(counted: CountedKeys, names: Mapping[str, str], session: Session) -> Iterator[tuple[
        MarginalMeasurement, int]]:
    """The marginals of these keys, under these names, from earlier counts by groups of the same rows, and the charge of each."""
    used: set[str] = set()  # accounts may ask the same in other words
    for text in session.ledger.texts(session.account, "GROUP", MOST_BOUND, of_others=session.budget.share_answers):
        found = _answered(text, session)
        marginal = _marginal(found, counted, names) if found is not None and found.keys.rows == counted.rows else None
        if marginal is not None and found is not None and found.identity not in used:
            used.add(found.identity)
            yield marginal, found.charge


def _answered(text: str, session: Session) -> AnsweredGroups | None:
    """The statement of a charge with its answer; None if it is another kind of statement, or was answered otherwise."""
    try:
        query = parse(text)
        if not isinstance(query, Query) or query.goals or query.parameters:
            return None
        question, options = bound_to(query, session, ())
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        if known.public or not question.keys or question.scalars or not _whole(question):
            return None
        made = SingleStatement(program=compiled(without_limit(question), options, view, known, session), shown=ALL_ROWS,
                               text=text, session=session)
    except Error:  # such as a table that is not there any more
        return None
    identity, data, charge = made.identity, made.data, 0
    stored = session.ledger.stored(session.account, identity, data)
    if stored is None and session.budget.share_answers:
        other = session.ledger.of_another(session.account, identity, data)
        stored, charge = (other.body, other.charge) if other is not None else (None, 0)
    keys = counted_keys(view, question.keys, session.kernel, session.scratch) if stored is not None else None
    return AnsweredGroups(question=question, keys=keys, answer=made.read(stored), identity=identity,
                          charge=charge) if stored is not None and keys else None


def _whole(question: Question) -> bool:
    """Whether the answer has a row for each combination of declared values."""
    return (question.sets is None and question.having is None and question.limit is None and not question.offset
            and not question.distinct and question.minimum is None and all(key.domain is not None for key in question.keys))


def _marginal(found: AnsweredGroups, counted: CountedKeys, names: Mapping[str, str]) -> MarginalMeasurement | None:
    question, answer = found.question, found.answer
    shown = {output.expr: at for at, output in enumerate(question.outputs)}
    counts = [call.id for call in question.aggregates if call.aggregate.kind is Kind.COUNT and not call.columns
              and call.when is None and call.over is None]
    at = next((at for expr, at in shown.items() if _named(expr) in counts), None)
    places = [next((at for expr, at in shown.items() if _named(expr) == key.column), None) for key in question.keys]
    mine = [next((name for name, own in counted.keys.items() if own == found.keys.keys.get(key.column)), None)
            for key in question.keys]
    if at is None or None in places or None in mine or len(set(mine)) < len(mine):
        return None
    cells = {tuple(row[place] for place in places if place is not None): number for number, row in enumerate(answer.rows)}
    wanted = [cells.get(cell) for cell in product(*(key.values for key in question.keys))]
    if None in wanted:
        return None
    numbers = [number for number in wanted if number is not None]
    counted_rows, errors = [answer.rows[number][at] for number in numbers], {answer.errors[number][at] for number in numbers}
    error = errors.pop() if len(errors) == 1 else None
    if error is None or not all(isinstance(count, int) for count in counted_rows):
        return None
    return MarginalMeasurement(columns=tuple(names[name] for name in mine if name is not None), variance=error**2,
                               values=np.array(counted_rows, dtype=float).reshape([len(key.values) for key in question.keys]))


def _named(expr: Expr) -> str:
    return expr.column if isinstance(expr, Ref) else ""
