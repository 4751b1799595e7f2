"""How a statement will be answered, decided from its text and the catalog; nothing is spent.

Each kind of plan has its own file, and knows how to explain itself and how to answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from dpsql.answers.answer import Answer, rows_shown, whole
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.batch.goals import check_public
from dpsql.batch.workload_plan import cells_of
from dpsql.engine.accuracy import accurate
from dpsql.engine.around_statements import around_released
from dpsql.engine.batches import WorkloadStatement, batch_of, linear_of
from dpsql.engine.charging import finished, guarding_few, located
from dpsql.engine.online_answers import asked_online
from dpsql.engine.online_models import opening
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.engine.set_by_set import apart, set_by_set
from dpsql.engine.single import SingleStatement, bound_to, compiled
from dpsql.engine.synthesizing import synthesis
from dpsql.engine.synthesizing_linked import linked_synthesis
from dpsql.engine.validating import Checks, validation
from dpsql.errors import OptionError, SqlError, Unsupported
from dpsql.plan.cells import Cells
from dpsql.plan.node import Node
from dpsql.plan.question import Question
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.explain import Explanation, explained_public
from dpsql.planning.options import Options
from dpsql.planning.public import exact
from dpsql.planning.script import Released, declared_cells
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Explained, OpenModel, Query, Synthesize, SynthesizeTables, Validate
from dpsql.synthesis.online_model import OnlineModel
from dpsql.synthesis.released_database import ReleasedDatabase
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.validation.findings import Validation


class Plan(Protocol):
    """What will be done for a statement."""

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        """The columns that the answer will have."""
        ...

    def explain(self) -> Explanation:
        """What it would do and cost; spends nothing."""
        ...

    def answer(self) -> Answer | Validation | SyntheticTable | ReleasedDatabase | OnlineModel:
        """The answer, stored or paid for."""
        ...


def decide(query: Explained, session: Session, parameters: Parameters = ()) -> Plan:
    """The plan of a query, a validation, synthetic tables or an online model. Raises a located error if it is wrong.

    A query that cannot be answered as one question may still be SQL over the answers to several.
    """
    if isinstance(query, Validate):
        return Checks(plan=validation(query, session, parameters, None), text=query.text, session=session)
    if isinstance(query, Synthesize):
        return synthesis(query, session, parameters)
    if isinstance(query, SynthesizeTables):
        return linked_synthesis(query, session, parameters)
    if isinstance(query, OpenModel):
        return opening(query, session)
    others = {name.lower() for name in query.tables if session.catalog.table(name) is None}
    online = asked_online(query, others, session, parameters) if others else None
    if online is not None:
        return online
    problem: SqlError | Unsupported
    try:
        return _one_question(query, session, parameters)
    except (SqlError, Unsupported) as refused:
        problem = refused
    try:
        around = around_released(query, session, parameters)
    except (SqlError, Unsupported) as refused:
        problem, around = clearer(problem, refused), None
    if around is None:
        raise problem
    return around


FORMS = ("outer-union", "window-here", "inner-limit", "scalar-subquery", "no-aggregate")


def clearer(alone: SqlError | Unsupported, around: SqlError | Unsupported) -> SqlError | Unsupported:
    """The error to report for a statement that can be answered neither as one question nor as SQL over several: the latter's, if
    no single question has its form."""
    return around if alone.code in FORMS else alone


def _one_question(query: Query, session: Session, parameters: Parameters) -> Plan:
    with located(query.text):
        question, options = bound_to(query, session, parameters)
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        if known.public and not question.scalars:
            check_public(query.goals)
            return Public(question=question, options=options, view=view, text=query.text, session=session)
        if query.goals:
            return accurate([query], [question], None, options, query.options, session)
        if question.sets is not None and apart(question, known, options):
            made = set_by_set(question, known, options, query.text, span_of(query.tree), session)
            return made if question.aggregates else DeclaredGroups(
                question=question, options=options, cells=cells_of(question), text=query.text, session=session,
                beside=lambda: made)
        if _needs_workload(question, options):
            return _weighed(query, question, options, session)
        if options.planning is not None:
            raise OptionError("planning is the time to look for a strategy, and this statement is answered without one",
                              code="workload", subject="planning", span=options.span.get("planning"),
                              try_="strategy = 'auto' beside it")
        question = guarding_few(question, known, session)
        program = compiled(whole(question), options, view, known, session)
    single = SingleStatement(program=program, shown=rows_shown(question.limit, question.offset), text=query.text, session=session)
    if not program.idle or program.first:
        return single
    shown = replace(program.question, limit=question.limit, offset=question.offset)
    return DeclaredGroups(question=shown, options=options, cells=declared_cells(program), text=query.text,
                          session=session, beside=lambda: single)


def _needs_workload(question: Question, options: Options) -> bool:
    """Whether a statement asks for something that only a workload gives."""
    return question.together or options.strategy is not None or options.consistency != "none"


def _weighed(query: Query, question: Question, options: Options, session: Session) -> Plan:
    """The plan of a statement that forms a workload by itself."""
    asked = linear_of(query, question, options, session)

    def weighed() -> WorkloadStatement:
        with located(query.text):
            made, chosen = batch_of([asked], options, session)
        return WorkloadStatement(made=made, options=chosen, text=query.text, session=session)

    if question.aggregates:
        return weighed()
    return DeclaredGroups(question=question, options=options, cells=cells_of(question), text=query.text, session=session,
                          beside=weighed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """A statement over public tables: it is free and exact."""

    question: Question
    options: Options
    view: Node
    text: str
    session: Session

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explain(self) -> Explanation:
        with located(self.text):
            return explained_public(self.question, self.view, self.session.kernel, entity=self.session.catalog.entity.name)

    def answer(self) -> Answer:
        with located(self.text):
            cells, aggregates = exact(self.question, self.view, self.session.kernel)
            return finished(self.question, self.options, Released(cells=cells, aggregates=aggregates), self.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredGroups:
    """A statement that shows declared groups and no aggregate, so that it reads no private rows.

    `beside` makes the plan that would answer aggregates of these groups; EXPLAIN shows that plan.
    """

    question: Question
    options: Options
    cells: Cells
    text: str
    session: Session
    beside: Callable[[], Plan]

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.question)

    def explain(self) -> Explanation:
        return self.beside().explain()

    def answer(self) -> Answer:
        with located(self.text):
            return finished(self.question, self.options, Released(cells=self.cells, aggregates={}), self.session)
