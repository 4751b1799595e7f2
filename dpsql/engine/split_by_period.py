"""Which statements over growing tables are split into one statement for each period, and how their answers are put together.

Rows of single periods are shown one after another (`period_by_period`). Totals of grouping sets over the periods, DISTINCT, and
an order by what is not shown are computed from the groups of all periods (`merged_periods`). Windows over several periods are SQL
over released rows (`around_periods`).
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.engine.around_periods import around_periods
from dpsql.engine.merged_periods import is_beside, merged_periods
from dpsql.engine.parameters import Parameters
from dpsql.engine.period_by_period import PeriodByPeriod, check_order, is_order_shown, parts_of, periods_of
from dpsql.engine.plan import Plan
from dpsql.engine.session import Session
from dpsql.planning.groups import kept_keys
from dpsql.planning.options import Options
from dpsql.questions.question import Question
from dpsql.sql.text.statement import Query


def period_by_period(query: Query, question: Question, options: Options, session: Session, parameters: Parameters,
                     plan: Callable[[Question, Options], object]) -> Plan | None:
    """The plan of a question one of whose keys tells the period of the rows; None for others. `plan` makes the plan of a question
    that is answered by itself. Raises Unsupported if totals over the periods do not follow from the numbers of each."""
    if (found := periods_of(question, session)) is None or (question.scalars and not is_beside(question, query)):
        return None
    column = question.keys[found.key].column
    if any(call.over is not None and column not in call.over.within for call in question.aggregates):
        return around_periods(query, session, parameters, plan)
    merges = question.sets is not None or question.distinct or bool(question.scalars) or not is_order_shown(question)
    if merges and not query.goals and all(call.over is None for call in question.aggregates):
        return merged_periods(question, found, options, query.text, session, plan)
    if question.distinct or any(found.key not in kept for kept in kept_keys(question)):
        return None
    check_order(question)
    parts = parts_of(question, found, lambda asked: plan(asked, options))
    return None if parts is None else PeriodByPeriod(
        question=question, text=query.text, names=found.names, parts=parts, periods=found.each, session=session)
