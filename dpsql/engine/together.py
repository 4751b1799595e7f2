"""Workloads: many statements for one price, or for one accuracy."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.batch.goals import split_goal
from dpsql.batch.workload_answers import Answers
from dpsql.batch.workload_plan import Batch
from dpsql.engine.accuracy import Accurate, accurate
from dpsql.engine.batches import WorkloadStatement, all_bound, all_linear, batch_of
from dpsql.engine.charging import located
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.planning.explain import Explanation
from dpsql.planning.options import Options
from dpsql.sql.text.statement import Option, Query


@guarded
def workload(queries: Sequence[Query], session: Session, options: Sequence[Option] = (), parameters: Parameters = ()) -> Answers:
    """Answer linear statements together: they are measured once, for one price, and their answers are consistent."""
    return _decide(queries, session, options, parameters).answers()


@guarded
def explain_workload(queries: Sequence[Query], session: Session, options: Sequence[Option] = (),
                     parameters: Parameters = ()) -> Explanation:
    """What a workload would do and cost; spends nothing. Raises a located error if one of its statements is wrong."""
    return _decide(queries, session, options, parameters).explain()


def _decide(queries: Sequence[Query], session: Session, options: Sequence[Option],
            parameters: Parameters) -> WorkloadStatement | Accurate:
    """The plan of a workload. Raises a located error if one of its statements is wrong."""
    options, general = split_goal(options)
    if general is not None or any(query.goals for query in queries):
        chosen, questions = all_bound(queries, session, options, parameters)
        return accurate(queries, questions, general, chosen, options, session)
    made, chosen = batched(queries, session, options, parameters)
    return WorkloadStatement(made=made, options=chosen, text=";\n".join(query.text for query in queries), session=session)


def batched(queries: Sequence[Query], session: Session, options: Sequence[Option] = (),
            parameters: Parameters = ()) -> tuple[Batch, Options]:
    """Statements as workloads, with their options; spends nothing. Raises a located error if one of them is wrong."""
    chosen, questions = all_bound(queries, session, options, parameters)
    asked = all_linear(queries, questions, chosen, session)
    with located(queries[0].text):
        return batch_of(asked, chosen, session)
