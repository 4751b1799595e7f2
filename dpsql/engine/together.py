"""Workloads: many statements for one price, or for one accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.batch.explain_workload import explained_batch
from dpsql.batch.goals import taken
from dpsql.batch.workload_answers import Answers
from dpsql.batch.workload_plan import Batch
from dpsql.engine.accounts import is_stored, left_in_budget
from dpsql.engine.accuracy import answered_accurately, explained_accurately
from dpsql.engine.batches import all_bound, all_linear, answered, batch_of, identity_of_batch
from dpsql.engine.charging import located
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.planning.explain import Explanation
from dpsql.planning.options import Options
from dpsql.sql.text.statement import Option, Query


@guarded
def workload(queries: Sequence[Query], session: Session, options: Sequence[Option] = (), parameters: Parameters = ()) -> Answers:
    """Answer linear statements together: measured once, for one price, with consistent answers."""
    options, general = taken(options)
    if general is not None or any(query.goals for query in queries):
        chosen, questions = all_bound(queries, session, options, parameters)
        return answered_accurately(queries, questions, general, chosen, options, session)
    made, chosen = batched(queries, session, options, parameters)
    return answered(made, chosen, ";\n".join(query.text for query in queries), session)


def batched(queries: Sequence[Query], session: Session, options: Sequence[Option] = (),
            parameters: Parameters = ()) -> tuple[Batch, Options]:
    """What statements ask as workloads, and on which terms; nothing is spent. Raises what is wrong with one of them, located."""
    chosen, questions = all_bound(queries, session, options, parameters)
    asked = all_linear(queries, questions, chosen, session)
    with located(queries[0].text):
        return batch_of(asked, chosen, session)


@guarded
def explain_workload(queries: Sequence[Query], session: Session, options: Sequence[Option] = (),
                     parameters: Parameters = ()) -> Explanation:
    """What a workload would do and cost; spends nothing."""
    options, general = taken(options)
    if general is not None or any(query.goals for query in queries):
        chosen, questions = all_bound(queries, session, options, parameters)
        return explained_accurately(queries, questions, general, chosen, options, session)
    made, chosen = batched(queries, session, options, parameters)
    told = explained_batch(made, session.kernel, entity=session.catalog.entity.name, price=str(chosen.price),
                           left=left_in_budget(session))
    return replace(told, stored=is_stored(identity_of_batch(made, chosen, session), session))
