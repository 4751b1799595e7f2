"""The river: from text to answer. Each step is one call; the rooms behind them are told in the guide to the architecture."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from dpsql.answers.answer import Answer
from dpsql.answers.listings import Listing, described, listed_releases, listed_tables
from dpsql.answers.spending import Spending
from dpsql.batch.explain_workload import explained_batch
from dpsql.batch.goals import check_public
from dpsql.batch.workload_plan import cells_of
from dpsql.engine.accounts import budget_of, is_stored, left_in_budget, releases_of
from dpsql.engine.accuracy import answered_accurately, explained_accurately
from dpsql.engine.batches import answered, batch_of, identity_of_batch, linear_of
from dpsql.engine.charging import finished, located
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters, check_parameters
from dpsql.engine.session import Session
from dpsql.engine.single import bound_to, charged, compiled, identity_of, idle
from dpsql.engine.validating import validate, validation
from dpsql.errors import ProgrammingError
from dpsql.plan.identity import digest
from dpsql.plan.question import Question
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.explain import Explanation, explained, explained_public
from dpsql.planning.options import Options
from dpsql.planning.public import exact
from dpsql.planning.script import Released
from dpsql.sql.text.parse import parse
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Describe, Explain, Query, Show, Validate
from dpsql.validation.explain_checks import explained_validation
from dpsql.validation.findings import Validation

Result: TypeAlias = Answer | Validation | Explanation | Spending | Listing


@guarded
def answer(text: str, session: Session, parameters: Parameters = ()) -> Result:
    """Answer one statement. Raises a located `errors.Error` for everything that is wrong with it."""
    statement = parse(text)
    check_parameters(parameters)
    if parameters and isinstance(statement, Show | Describe):
        raise ProgrammingError("this statement has no parameters", code="parameters", try_="no values")
    match statement:
        case Query():
            return _answer_query(statement, session, parameters)
        case Validate():
            return validate(statement, session, parameters)
        case Explain(query=query):
            return explain(query, session, parameters)
        case Show(what="budget"):
            return budget_of(session)
        case Show(what="releases"):
            return listed_releases(releases_of(session))
        case Show():
            return listed_tables(session.catalog)
        case Describe(table=table, span=span):
            return described(session.catalog, table, span, text)


def _answer_query(query: Query, session: Session, parameters: Parameters) -> Answer:
    with located(query.text):
        question, options = bound_to(query, session, parameters)
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        if known.public and not question.scalars:
            check_public(query.goals)
            cells, aggregates = exact(question, view, session.kernel)
            return finished(question, options, Released(cells=cells, aggregates=aggregates), session)
        if query.goals:
            return answered_accurately([query], [question], None, options, query.options, session)[0]
        if not _needs_workload(question, options):
            program = compiled(question, options, view, known, session)
            return idle(program, session) if program.idle and not program.first else charged(program, query.text, session)
        asked = linear_of(query, question, options, session)
        if not question.aggregates:  # declared groups alone
            return finished(question, options, Released(cells=cells_of(question), aggregates={}), session)
        made, chosen = batch_of([asked], options, session)
    return answered(made, chosen, query.text, session)[0]


def _needs_workload(question: Question, options: Options) -> bool:
    """Whether a statement asks for what only a workload gives."""
    return question.together or options.strategy is not None or options.consistency != "none"


@guarded
def explain(query: Query | Validate, session: Session, parameters: Parameters = ()) -> Explanation:
    """What a query or a validation would do and cost; spends nothing."""
    if isinstance(query, Validate):
        plan = validation(query, session, parameters, None)
        told = explained_validation(plan, session.kernel, entity=session.catalog.entity.name, left=left_in_budget(session))
        return replace(told, stored=is_stored(digest(session.policy, *plan.identity), session))
    with located(query.text):
        question, options = bound_to(query, session, parameters)
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        entity = session.catalog.entity.name
        if known.public and not question.scalars:
            check_public(query.goals)
            return explained_public(question, view, session.kernel, entity=entity)
        if query.goals:
            return explained_accurately([query], [question], None, options, query.options, session)
        if _needs_workload(question, options):
            made, chosen = batch_of([linear_of(query, question, options, session)], options, session)
            told = explained_batch(made, session.kernel, entity=entity, price=str(chosen.price), left=left_in_budget(session))
            return replace(told, stored=is_stored(identity_of_batch(made, chosen, session), session))
        program = compiled(question, options, view, known, session)
    told = explained(program, session.kernel, entity=entity, left=left_in_budget(session))
    return replace(told, stored=is_stored(identity_of(program, session), session))
