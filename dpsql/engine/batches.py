"""Statements that are measured together, as one batch of workloads."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from dpsql.answers.answer import Answer
from dpsql.answers.described_columns import DescribedColumn, of_question
from dpsql.batch.accuracy_plan import AccuracyPlan
from dpsql.batch.consistency import check as check_consistency
from dpsql.batch.explain_workload import explained_batch
from dpsql.batch.linear_queries import LinearStatement, linear
from dpsql.batch.plan_choice import KINDS as ADAPTIVE
from dpsql.batch.records import Record, recording
from dpsql.batch.workload_answers import Answers, of_json
from dpsql.batch.workload_plan import Batch, check_fitting, identity_of, least, left_out_of, notes_of
from dpsql.engine.accounts import left_in_budget
from dpsql.engine.charging import Charged, ChargeRequest, compose_answer, located, with_minimum_frequency
from dpsql.engine.kept_measurements import policy_of_records
from dpsql.engine.parameters import Parameters, shared_out
from dpsql.engine.session import Session
from dpsql.engine.single import fits, strategies
from dpsql.errors import OptionError, ProgrammingError, Unsupported
from dpsql.estimates import Estimate
from dpsql.frozen import replace
from dpsql.planning.bounded_view import limited_view
from dpsql.planning.choose import price_charged
from dpsql.planning.cut_off import beyond_limits, with_values_beyond
from dpsql.planning.explain import Explanation
from dpsql.planning.options import Options, read_options
from dpsql.planning.program import priced
from dpsql.planning.rows_beyond import missing
from dpsql.planning.script import Released
from dpsql.questions.identity import digest
from dpsql.questions.question import Question
from dpsql.sql.binding.bind import bind
from dpsql.sql.text.places import span_of
from dpsql.sql.text.statement import Option, Query
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.certificate import stability
from dpsql.trusted.plan.node import Node

LIMITS = "max_rows = 10, or rows_per_entity in the policy"


def all_bound(queries: Sequence[Query], session: Session, options: Sequence[Option],
              parameters: Parameters) -> tuple[Options, list[Question]]:
    """The options of a workload, and the question of each statement. Raises a located error if a statement is wrong."""
    chosen = read_options(options, default=session.price, confidence=session.confidence, known=(), strategies=strategies,
                          fits=fits)
    questions = []
    for number, (query, given) in enumerate(zip(queries, shared_out(parameters, queries), strict=True)):
        with located(query.text, which(number, queries)):
            if query.all_options:
                raise OptionError("the options of a workload are given once, for all of its statements", code="options",
                                  span=query.all_options[0].span, try_="con.workload([...], epsilon=0.5)")
            questions.append(bind(query, session.catalog, session.kernel, session.scratch, given))
    if not questions:
        raise ProgrammingError("there is no statement", code="empty", try_="con.workload([\"SELECT COUNT(*) FROM people\"])")
    return chosen, questions


def all_linear(queries: Sequence[Query], questions: Sequence[Question], options: Options,
               session: Session) -> list[LinearStatement]:
    """The statements as linear queries over their views. Raises a located error for one that is not linear."""
    found = []
    for number, (query, question) in enumerate(zip(queries, questions, strict=True)):
        with located(query.text, which(number, queries)):
            found.append(linear_of(query, question, options, session))
    return found


def which(number: int, queries: Sequence[Query]) -> str:
    """The name of a statement in errors."""
    return f"statement {number + 1}" if len(queries) > 1 else "SQL"


def linear_of(query: Query, question: Question, options: Options, session: Session) -> LinearStatement:
    """A statement as linear queries over its view. Raises Unsupported, located, if it is not linear or its rows have no limit."""
    view, known = limited_view(question, options, session.kernel, span_of(query.tree))
    if known.public or known.rows is None:
        raise _unlimited(query, _single(query, options) if known.public or known.owners else LIMITS)
    one = linear(with_minimum_frequency(question, known, session, linear=True), view)
    if stability(one.source, session.kernel).rows is None:  # conditions select cells in a workload, and do not limit rows
        raise _unlimited(query, LIMITS)
    return one


def _single(query: Query, options: Options) -> str:
    """The advice for a statement that a workload cannot answer."""
    if query.goals:
        return "a price in place of the accuracy: OPTIONS (epsilon = 0.5)"
    if options.strategy is not None or options.consistency != "none":
        return f"the statement without {'strategy' if options.strategy is not None else 'consistency'}"
    return "the statement by itself"


def _unlimited(query: Query, instead: str) -> Unsupported:
    """The error for rows that are public, or have no limit for each entity."""
    return Unsupported("a workload needs private rows with a limit for each entity", code="workload", span=span_of(query.tree),
                       try_=instead)


def batch_of(asked: Sequence[LinearStatement], options: Options, session: Session) -> tuple[Batch, Options]:
    """The workloads of linear statements, and their options with the price and the strategy filled in.

    Raises OptionError or Unsupported, with a span, if an option does not fit or something is too large.
    """
    options = replace(options, price=priced(options.price, session.budget, options.span), strategy=options.strategy or "auto")
    check_fitting(options)
    _check_minimum(asked, options)
    made = least(asked, options, session.kernel, session.scratch)
    if made.consistency is not None:
        check_consistency(made.groups, made.consistency, made.strategy, options.span, adaptive=made.strategy in ADAPTIVE)
    return made, options


def _check_minimum(asked: Sequence[LinearStatement], options: Options) -> None:
    """Raise OptionError if small groups would be withheld by counts whose bias no interval covers."""
    rule = next((one.question.minimum for one in asked if one.question.minimum is not None), None)
    biased = "strategy" if options.strategy in ADAPTIVE else "consistency" if options.consistency != "none" else None
    if rule is not None and biased is not None:
        raise OptionError(f"{rule}, decided by counts whose error is known; {biased} = "
                          f"'{getattr(options, biased)}' gives them an unknown bias", code="minimum-frequency", subject=biased,
                          span=options.span.get(biased), try_="strategy = 'auto'" if biased == "strategy" else
                          "the statement without it")


class WorkloadStatement(Charged[Answers]):
    """Statements that are measured together."""

    made: Batch
    options: Options

    @property
    def identity(self) -> str:
        return digest(self.session.policy, "workload", identity_of(self.made.asked), self.made.allotted,
                      replace(self.options, planning=None))

    @property
    def columns(self) -> tuple[DescribedColumn, ...]:
        return of_question(self.made.asked[0].question)

    def explanation(self) -> Explanation:
        told = explained_batch(self.made, self.session.kernel, entity=self.session.catalog.entity.name,
                               price=str(price_charged(self.options.price, self.made.allotted)),
                               left=left_in_budget(self.session))
        return replace(told, notes=(*self.notes_on_periods(self.made.allotted), *left_out_of(self.made, self.session.catalog)))

    def queried(self) -> tuple[Sequence[Node], Cost]:
        return [group.view for group in self.made.groups], self.made.allotted

    def answer(self) -> Answer:
        return self.answers()[0]

    def answers(self) -> Answers:
        """The answers to all statements, in order."""
        return self.stored_or_paid()

    def read(self, stored: str) -> Answers:
        return answers_read(stored, self.made.asked)

    def bill(self) -> ChargeRequest:
        views, cost = self.queried()
        return ChargeRequest(steps=batch_steps(self.made, self.options, self.session, self.notes_on_periods(cost)), cost=cost,
                             options=self.options, views=views)


def answers_read(stored: str, asked: Sequence[LinearStatement]) -> Answers:
    """Stored answers, with the columns named as in these statements."""
    return of_json(stored).named([[output.name for output in one.question.outputs] for one in asked])


def batch_steps(made: Batch, options: Options, session: Session,
                on_periods: tuple[str, ...] = ()) -> Generator[Request, Any, Answers]:
    """The requests of a batch, and the answers made from them, with notes `on_periods`. What the answers leave out is determined
    at once, before any charge."""
    return _steps(made, options, session, (*on_periods, *left_out_of(made, session.catalog)))


def _open(one: LinearStatement, aggregates: Mapping[str, Estimate]) -> Mapping[str, Estimate]:
    """The aggregates of a statement; their intervals are open where a limit on rows cuts off an unknown part."""
    lost = missing(one.source)
    return {call.id: aggregates[call.id].beyond(*beyond_limits(one.question, call, lost)) for call in one.question.aggregates}


def _steps(made: Batch, options: Options, session: Session, left_out: tuple[str, ...]) -> Generator[Request, Any, Answers]:
    records: list[Record] = []
    found = yield from recording(made.steps(), records)
    notes = (*([made.goals_and_price] if isinstance(made, AccuracyPlan) else []), *notes_of(made), *found.notes, *left_out)
    told, price = notes if len(made.asked) == 1 else (), price_charged(options.price, made.allotted)
    answers = tuple(compose_answer(
        with_values_beyond(one.question, missing(one.source)), options,
        Released(cells=cells, aggregates=_open(one, aggregates), notes=told), session, price=price)
        for one, (cells, aggregates) in zip(made.asked, found.statements, strict=True))
    cost = str(price) if price is not None else ""
    return Answers(answers=answers, cost=cost, notes=notes,
                   records=tuple(replace(record, policy=policy_of_records(session)) for record in records))
