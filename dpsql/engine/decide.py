"""How a statement will be answered, decided from its text and the catalog; nothing is spent.

Each kind of statement has a file, which is imported when it is asked for: whoever only counts waits for no other. Each kind of
plan knows how to explain itself and how to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpsql.answers.answer import rows_shown, without_limit
from dpsql.answers.described_columns import OF_DROP, OF_STANDING_QUERIES, columns_of
from dpsql.engine.charging import located, with_minimum_frequency
from dpsql.engine.free_plans import DeclaredGroups, Explaining, Listings, Public
from dpsql.engine.parameters import Parameters
from dpsql.engine.plan import Plan
from dpsql.engine.session import Session
from dpsql.engine.single import SingleStatement, bound_to, compiled
from dpsql.errors import OptionError, ProgrammingError, SqlError, Unsupported
from dpsql.frozen import replace
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.groups import cells_declared
from dpsql.planning.options import Options
from dpsql.planning.program import Program
from dpsql.planning.script import declared_cells
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import Question
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import (
    CreateStandingQuery,
    Describe,
    Drop,
    DropStandingQuery,
    Explain,
    OpenModel,
    Query,
    Show,
    Statement,
    Synthesize,
    SynthesizeTables,
    Validate,
)
from dpsql.trusted.plan.cells import Cells
from dpsql.trusted.plan.node import Stability
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.project import Project


def decide(statement: Statement, session: Session, parameters: Parameters = ()) -> Plan:
    """The plan of a statement. Raises a located error if it is wrong."""
    return _KINDS[type(statement)](statement, session, parameters)


def _query(query: Query, session: Session, parameters: Parameters) -> Plan:
    """A query that cannot be answered as one question may still be SQL over the answers to several."""
    others = {name.lower() for name in query.tables if session.catalog.table(name) is None}
    if others:
        from dpsql.engine.online_answers import asked_online

        online = asked_online(query, others, session, parameters)
        if online is not None:
            return online
    problem: SqlError | Unsupported
    try:
        alone = _one_question(query, session, parameters)
    except (SqlError, Unsupported) as refused:
        problem = refused
    else:
        return _released_groups(alone, query, session, parameters) or alone
    if session.catalog.periods:
        from dpsql.engine.around_periods import around_periods

        if (split := around_periods(query, session, parameters, lambda asked, terms: _whole(query, asked, terms, session))):
            return split
    from dpsql.engine.around_statements import around_released

    try:
        around = around_released(query, session, parameters)
    except (SqlError, Unsupported) as refused:
        problem, around = clearer(problem, refused), None
    if around is None:
        raise problem
    return around


NEARBY = (Kind.MEAN, Kind.SPREAD, Kind.PAIR, Kind.RANK)  # whose value is about as large as those of the groups
WORTH = 100  # that many groups at epsilon = 1, for each that an entity can change: 1 % of the range of their values


def _released_groups(alone: Plan, query: Query, session: Session, parameters: Parameters) -> Plan | None:
    """A statement over the results of groups, as SQL over their released results, where that errs less; else None.

    A mean or a rank over groups that any entity can change has an error of about (groups of one entity) / (epsilon groups) of the
    range of their values, however many rows they have. Their released results are nearer to the truth the more rows a group has.
    So they are used unless declared groups are so many that the former error is below 1 %.
    """
    if not isinstance(alone, SingleStatement) or not over_groups(alone.program):
        return None
    from dpsql.engine.around_statements import AroundStatement, around_released

    try:
        around = around_released(query, session, parameters)
    except (SqlError, Unsupported):
        return None
    if not isinstance(around, AroundStatement):
        return None
    program, asked = alone.program, [table.question for table in around.around.tables.values()]
    if any(key.domain is None for question in asked for key in question.keys):
        return None
    groups = max(map(cells_declared, asked), default=0)
    return around if groups * program.cost.as_epsilon <= WORTH * (program.known.rows or 1) else None


def over_groups(program: Program) -> bool:
    """Whether a question asks, without saying how, for means and ranks over groups that are not those of single entities."""
    view = program.view
    while isinstance(view, Project | Filter):
        view = view.input
    return (isinstance(view, GroupBy) and program.known.owner is None and not program.known.public
            and program.options.bound == "auto" and not program.options.mechanisms and bool(program.question.aggregates)
            and all(call.aggregate.kind in NEARBY for call in program.question.aggregates))


def _explained(statement: Explain, session: Session, parameters: Parameters) -> Plan:
    return Explaining(plan=decide(statement.query, session, parameters))


def _validated(statement: Validate, session: Session, parameters: Parameters) -> Plan:
    from dpsql.engine.validating_by_period import checks_of

    return checks_of(statement, session, parameters)


def _synthesized(statement: Synthesize, session: Session, parameters: Parameters) -> Plan:
    from dpsql.engine.synthesizing_by_period import synthesis_of

    return synthesis_of(statement, session, parameters)


def _synthesized_together(statement: SynthesizeTables, session: Session, parameters: Parameters) -> Plan:
    from dpsql.engine.synthesizing_linked import linked_synthesis

    return linked_synthesis(statement, session, parameters)


def _opened(statement: OpenModel, session: Session, parameters: Parameters) -> Plan:
    from dpsql.engine.online_models import opening

    return opening(statement, session)


def _dropped(statement: Drop, session: Session, parameters: Parameters) -> Plan:
    from dpsql.engine.kept_tables import drop

    return Listings(listed=lambda: drop(statement, session), titles=columns_of(OF_DROP))


def _created(statement: CreateStandingQuery, session: Session, parameters: Parameters) -> Plan:
    from dpsql.engine.creating_standing import creating

    return creating(statement, session, decide)


def _not_standing(statement: DropStandingQuery, session: Session, parameters: Parameters) -> Plan:
    from dpsql.engine.standing_queries import drop

    return Listings(listed=lambda: drop(statement, session), titles=columns_of(OF_DROP))


def _shown(statement: Show, session: Session, parameters: Parameters) -> Plan:
    if statement.what == "standing queries":
        from dpsql.engine.standing_prices import listed

        return Listings(listed=lambda: listed(session, decide), titles=columns_of(OF_STANDING_QUERIES))
    from dpsql.engine.shown_lists import LISTS, tables_of

    if statement.what == "tables":
        return Listings(listed=lambda: tables_of(session, decide))
    return Listings(listed=lambda: LISTS[statement.what](session))


def _described(statement: Describe, session: Session, parameters: Parameters) -> Plan:
    from dpsql.answers.listings import table_listing

    return Listings(listed=lambda: table_listing(session.catalog, statement.table, statement.span, statement.text))


_KINDS: Mapping[type[Any], Callable[[Any, Session, Parameters], Plan]] = {
    Query: _query, Explain: _explained, Validate: _validated, Synthesize: _synthesized, SynthesizeTables: _synthesized_together,
    OpenModel: _opened, CreateStandingQuery: _created, Drop: _dropped, DropStandingQuery: _not_standing, Show: _shown,
    Describe: _described}


FORMS = ("outer-union", "window-here", "inner-limit", "scalar-subquery", "no-aggregate")


def clearer(alone: SqlError | Unsupported, around: SqlError | Unsupported) -> SqlError | Unsupported:
    """The error to report for a statement that can be answered neither as one question nor as SQL over several. It is the
    latter's if the statement does not have the form of a single question."""
    return around if alone.code in FORMS else alone


def _one_question(query: Query, session: Session, parameters: Parameters) -> Plan:
    with located(query.text):
        question, options = bound_to(query, session, parameters)
        if session.catalog.periods and question.together and not query.goals and _is_plain(options):
            from dpsql.engine.running_over_periods import running_over_periods

            if (totals := running_over_periods(
                    question, query.text, session, lambda asked: _of_rows(query, asked, options, session))):
                return totals
        if session.catalog.periods and question.aggregates:
            from dpsql.engine.split_by_period import period_by_period

            if (split := period_by_period(query, question, options, session, parameters,
                                          lambda asked, terms: _whole(query, asked, terms, session))):
                return split
    return _whole(query, question, options, session)


def _whole(query: Query, question: Question, options: Options, session: Session) -> Plan:
    """The plan of a question as one statement."""
    with located(query.text):
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        if known.public and not question.scalars:
            _check_no_accuracy(query)
            _check_no_sizes(options)
            return Public(question=question, options=options, view=view, text=query.text, session=session)
        if query.goals:
            from dpsql.engine.solved_price import needs_solving, solved

            if needs_solving(question, query.goals, known):
                return solved(query, question, options, known, session)
            _check_no_sizes(options)
            from dpsql.engine.accuracy import accurate

            try:
                return accurate([query], [question], None, options, query.options, session)
            except Unsupported as fault:  # conditions that compare columns with each other, for instance
                if fault.code != "workload" or question.together or any(key.domain is None for key in question.keys):
                    raise
            return solved(query, question, options, known, session)
        _check_no_sizes(options)
        if question.sets is not None and _needs_separate_sets(question, known, options):
            from dpsql.engine.set_by_set import set_by_set

            made = set_by_set(question, known, options, query.text, span_of(query.tree), session)
            return made if made.reads_rows else DeclaredGroups(
                question=question, options=options, cells=_cells_of(question), text=query.text, session=session,
                beside=lambda: made)
        if _needs_workload(question, options):
            return _workload_plan(query, question, options, session)
        if options.planning is not None:
            raise OptionError("planning is the time to search for a strategy, and this statement uses none",
                              code="workload", subject="planning", span=options.span.get("planning"),
                              try_="strategy = 'auto' beside it")
        question = with_minimum_frequency(question, known, session)
        program = compiled(without_limit(question), options, view, known, session)
    single = SingleStatement(program=program, shown=rows_shown(question.limit, question.offset), text=query.text, session=session)
    if not program.idle or program.first:
        return single
    shown = replace(program.question, limit=question.limit, offset=question.offset)
    return DeclaredGroups(question=shown, options=options, cells=declared_cells(program), text=query.text,
                          session=session, beside=lambda: single)


def _is_plain(options: Options) -> bool:
    """Whether no option of a statement needs a workload."""
    return (options.strategy, options.consistency, options.planning, options.bound) == (None, "none", None, "auto")


def _of_rows(query: Query, question: Question, options: Options, session: Session) -> Program:
    """The program of a question of which each entity adds a limited number of rows, none of them learned."""
    options = replace(options, bound="rows")
    view, known = limited_view(question, options, session.kernel, span_of(query.tree))
    return compiled(question, options, view, known, session)


def _check_no_sizes(options: Options) -> None:
    for name in ("rows", "spread"):
        if name in options.span:
            raise OptionError(f"only an accuracy of averages, quantiles and the like rests on {name}", code="accuracy",
                              subject=name, span=options.span[name], try_="the statement without it")


def _check_no_accuracy(query: Query) -> None:
    if query.goals:
        raise ProgrammingError("this statement reads no private rows, so its answer is exact", code="accuracy",
                               span=query.goals[0].span, try_="the statement without the clause")


def _cells_of(question: Question) -> Cells:
    from dpsql.batch.workload_plan import cells_of

    return cells_of(question)


def _needs_separate_sets(question: Question, known: Stability, options: Options) -> bool:
    """Whether a question with grouping sets is to be released set by set."""
    several = known.rows is None and known.owner is None and bool(known.owners)
    undeclared = any(key.domain is None for key in question.keys)
    by_itself = several or undeclared or not question.aggregates or any(
        not call.aggregate.plain for call in question.aggregates)
    plain = options.strategy is None and options.consistency == "none" and all(call.over is None for call in question.aggregates)
    return by_itself and plain and not known.public


def _needs_workload(question: Question, options: Options) -> bool:
    """Whether a statement asks for something that only a workload gives."""
    return question.together or options.strategy is not None or options.consistency != "none"


def _workload_plan(query: Query, question: Question, options: Options, session: Session) -> Plan:
    """The plan of a statement that forms a workload by itself."""
    from dpsql.engine.batches import WorkloadStatement, batch_of, linear_of

    asked = linear_of(query, question, options, session)

    def weighed() -> WorkloadStatement:
        with located(query.text):
            made, chosen = batch_of([asked], options, session)
        return WorkloadStatement(made=made, options=chosen, text=query.text, session=session)

    if question.aggregates:
        return weighed()
    return DeclaredGroups(question=question, options=options, cells=_cells_of(question), text=query.text, session=session,
                          beside=weighed)
