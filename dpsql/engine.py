"""The river: from text to answer. Each step is one call; the rooms behind them are told in the README's map of the house."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from dpsql.accounting.cost import Cost, concentrated, pure
from dpsql.accounting.filter import Limit, limit
from dpsql.answer import Answer, compose, of_json
from dpsql.batch.aimed import Aimed, aimed, buys, check_cap, left_of, price_of
from dpsql.batch.consistency import check as check_consistency
from dpsql.batch.explaining import explained_batch
from dpsql.batch.goals import Goals, check_public, goals_of, taken
from dpsql.batch.linear import Linear, linear
from dpsql.batch.plan import Batch, batch, cells_of, check_fitting, identity_of, least, notes_of
from dpsql.batch.plans import NAMES as STRATEGIES
from dpsql.batch.records import MARK, Record, decoded, recording, without_requests
from dpsql.batch.result import Answers
from dpsql.batch.result import of_json as answers_of
from dpsql.bounding import limited_view
from dpsql.canonical import digest
from dpsql.catalog.model import Budget, Catalog
from dpsql.catalog.price import Price
from dpsql.errors import BudgetExhausted, Error, InternalError, OptionError, ProgrammingError, Unsupported
from dpsql.explain import Explanation, explained, explained_public
from dpsql.kernel.ledger import Account, Entry, Ledger, Refused
from dpsql.kernel.run import Kernel
from dpsql.listings import Listing, described, listed_releases, listed_tables
from dpsql.mechanisms.catalogue import NAMES
from dpsql.mechanisms.select.keys import RULES
from dpsql.options import Options, read_options
from dpsql.plan.certificate import Unbounded
from dpsql.plan.expr.nodes import Value
from dpsql.plan.node import InvalidPlan, Node, Stability
from dpsql.plan.question import Question
from dpsql.program import Program, compile_question, priced
from dpsql.public import exact
from dpsql.requests import Request
from dpsql.script import Released, declared_cells, script
from dpsql.spending import Account as Spent
from dpsql.spending import Spending, exhausted, spending
from dpsql.sql.bind import bind
from dpsql.sql.domains import Scratch
from dpsql.sql.parse import parse
from dpsql.sql.places import span_of
from dpsql.sql.statement import Describe, Explain, Goal, Option, Query, Show, Validate
from dpsql.validation.deciders.catalogue import NAMES as DECIDERS
from dpsql.validation.explaining import explained_validation
from dpsql.validation.plan import Plan as ValidationPlan
from dpsql.validation.plan import planned
from dpsql.validation.prepare import Side, prepared
from dpsql.validation.result import Validation
from dpsql.validation.result import of_json as validation_of
from dpsql.validation.suites import SUITES
from dpsql.validation.synthetic import Stand, brought, declared
from dpsql.validation.terms import read_terms


@dataclass(frozen=True, kw_only=True)
class Session:
    """Who asks, of what, and on which terms: what a connection is made of."""

    catalog: Catalog
    budget: Budget
    analyst: str
    kernel: Kernel
    ledger: Ledger
    scratch: Scratch
    price: Price | None = None
    confidence: Fraction = Fraction(19, 20)
    policy: str = ""

    @property
    def account(self) -> Account:
        return Account(budget=self.budget.name, analyst=self.analyst)

    @property
    def limits(self) -> Mapping[str | None, Limit]:
        """The limits that bind this analyst; None stands for the total."""
        mine = self.budget.of(self.analyst)
        return {None: limit(self.budget.total), **({self.analyst: limit(mine)} if mine is not None else {})}

    def close(self) -> None:
        self.kernel.close()
        self.ledger.close()
        self.scratch.close()


Result: TypeAlias = Answer | Validation | Explanation | Spending | Listing
Parameters: TypeAlias = Sequence[Value] | Mapping[str, Value]


def answer(text: str, session: Session, parameters: Parameters = ()) -> Result:
    """Answer one statement. Raises a located `errors.Error` for everything that is wrong with it."""
    statement = parse(text)
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
    with _located(query.text):
        question, options = _bound(query, session, parameters)
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        if known.public and not question.scalars:
            check_public(query.goals)
            cells, aggregates = exact(question, view, session.kernel)
            return _finish(question, options, Released(cells=cells, aggregates=aggregates), session)
        if query.goals:
            return _aimed([query], [question], None, options, query.options, session)[0]
        if not _needs_workload(question, options):
            program = compiled(question, options, view, known, session)
            return _idle(program, session) if program.idle and not program.first else _charged(program, query.text, session)
        asked = _linear(query, question, options, session)
        if not question.aggregates:  # declared groups alone
            return _finish(question, options, Released(cells=cells_of(question), aggregates={}), session)
        made, chosen = _batch([asked], options, session)
    return _answered(made, chosen, query.text, session)[0]


def _needs_workload(question: Question, options: Options) -> bool:
    """Whether a statement asks for what only a workload gives."""
    return question.together or options.strategy is not None or options.consistency != "none"


def _bound(query: Query, session: Session, parameters: Parameters) -> tuple[Question, Options]:
    """What is asked and on which terms: from the text, the policy and public tables."""
    options = read_options(query.options, default=session.price, confidence=session.confidence, known=(*NAMES, *RULES),
                           strategies=STRATEGIES)
    return bind(query, session.catalog, session.kernel, session.scratch, named(parameters, query)), options


def compiled(question: Question, options: Options, view: Node, known: Stability, session: Session) -> Program:
    """What will be done for a question over private rows, and for its scalar subqueries."""
    inside = options.inside(outer_public=known.public)
    first = [(scalar, *limited_view(scalar.question, inside, session.kernel, scalar.span)) for scalar in question.scalars]
    return compile_question(question, options, session.budget, session.kernel, view, known, first)


@contextlib.contextmanager
def _located(text: str, source: str = "SQL") -> Iterator[None]:
    """Errors know the text they point into; a fault of dpsql's own planning, before any row is read, is told as one."""
    try:
        yield
    except Error as fault:
        if fault.text == text:  # binding has told the place, and does not know which of several statements it is
            fault.source = source
        raise fault.located(text, source) from None
    except (InvalidPlan, Unbounded) as fault:
        raise InternalError(f"this statement could not be planned ({fault})", code="plan").located(text, source) from None


def _idle(program: Program, session: Session) -> Answer:
    """The answer of a statement that asks nothing of the kernel: declared groups alone."""
    groups = Released(cells=declared_cells(program), aggregates={})
    return _finish(program.question, program.options, groups, session)


def _charged(program: Program, text: str, session: Session) -> Answer:
    """The stored answer of the same statement, or a new one that is charged."""
    identity = digest(session.policy, program.question, program.options)
    stored = session.ledger.stored(session.account, identity, session.kernel.version)
    if stored is not None:
        return of_json(stored).named([output.name for output in program.question.outputs])
    made: Answer = _paid(_steps(program, session), program.cost, program.options, identity, text, session)
    return made


def _paid(steps: Generator[Request, Any, Any], cost: Cost, options: Options, identity: str, text: str, session: Session) -> Any:
    """What the steps return, after they are charged for."""
    try:
        return session.kernel.run(steps, cost=cost, account=session.account, sql=text, limits=session.limits, digest=identity,
                                  encode=lambda made: made.as_json())
    except Refused as refused:
        raise _refusal(refused, options, session) from None


def _steps(program: Program, session: Session) -> Generator[Request, Any, Answer]:
    released = yield from script(program, session.kernel, session.scratch)
    return _finish(program.question, program.options, released, session, price=program.options.price)


def _finish(question: Question, options: Options, released: Released, session: Session, price: Price | None = None) -> Answer:
    return compose(question, released.cells, released.aggregates, session.scratch, confidence=float(options.confidence),
                   price=price, notes=released.notes, singles=released.singles)


def _refusal(refused: Refused, options: Options, session: Session) -> BudgetExhausted:
    total = session.budget.total if refused.analyst is None else session.budget.of(refused.analyst)
    assert total is not None
    return exhausted(Spent(whose=refused.analyst, total=total, spent=refused.spent), str(options.price))


def validate(statement: Validate, session: Session, parameters: Parameters = (),
             synthetic: Mapping[str | None, Any] | None = None) -> Validation:
    """Whether synthetic tables answer queries as the private ones do. `synthetic` are files or frames by the names of the
    private tables that they stand for (None: the only one); without it, the statement names public tables.
    """
    plan = _validation(statement, session, parameters, synthetic)
    identity = digest(session.policy, *plan.identity)
    stored = session.ledger.stored(session.account, identity, session.kernel.version)
    if stored is not None:
        return validation_of(stored).named([check.finding.query for check in plan.checks])
    made: Validation = _paid(plan.steps(), plan.purse, plan.terms.options, identity, statement.text, session)
    return made


def _validation(statement: Validate, session: Session, parameters: Parameters,
                synthetic: Mapping[str | None, Any] | None) -> ValidationPlan:
    with _located(statement.text):
        terms = read_terms(statement.options, default=session.price, deciders=DECIDERS, suites=tuple(SUITES))
        queries = [check.query for check in statement.checks]
        side = Side(catalog=session.catalog, public=session.kernel, scratch=session.scratch, options=terms.options)

        def stand(checked: Sequence[Query]) -> Stand:
            if synthetic is not None:
                return brought(synthetic, checked, session.catalog, session.kernel)
            return declared(statement.standing, checked, session.catalog, session.kernel)

        checks = prepared(statement.checks, side, stand, shared_out(parameters, queries))
        return planned(checks, terms, session.budget, session.kernel)


def workload(queries: Sequence[Query], session: Session, options: Sequence[Option] = (), parameters: Parameters = ()) -> Answers:
    """Answer linear statements together: measured once, for one price, with consistent answers."""
    options, general = taken(options)
    if general is not None or any(query.goals for query in queries):
        chosen, questions = _all_bound(queries, session, options, parameters)
        return _aimed(queries, questions, general, chosen, options, session)
    made, chosen = batched(queries, session, options, parameters)
    return _answered(made, chosen, ";\n".join(query.text for query in queries), session)


def batched(queries: Sequence[Query], session: Session, options: Sequence[Option] = (),
            parameters: Parameters = ()) -> tuple[Batch, Options]:
    """What statements ask as workloads, and on which terms; nothing is spent. Raises what is wrong with one of them, located."""
    chosen, questions = _all_bound(queries, session, options, parameters)
    asked = _all_linear(queries, questions, chosen, session)
    with _located(queries[0].text):
        return _batch(asked, chosen, session)


def _all_bound(queries: Sequence[Query], session: Session, options: Sequence[Option],
               parameters: Parameters) -> tuple[Options, list[Question]]:
    chosen = read_options(options, default=session.price, confidence=session.confidence, known=(), strategies=STRATEGIES)
    questions = []
    for number, (query, given) in enumerate(zip(queries, shared_out(parameters, queries), strict=True)):
        with _located(query.text, _which(number, queries)):
            if query.options:
                raise OptionError("the options of a workload are given once, for all of its statements", code="options",
                                  span=query.options[0].span, try_="con.workload([...], epsilon=0.5)")
            questions.append(bind(query, session.catalog, session.kernel, session.scratch, given))
    if not questions:
        raise ProgrammingError("there is no statement", code="empty", try_="con.workload([\"SELECT COUNT(*) FROM people\"])")
    return chosen, questions


def _all_linear(queries: Sequence[Query], questions: Sequence[Question], options: Options, session: Session) -> list[Linear]:
    found = []
    for number, (query, question) in enumerate(zip(queries, questions, strict=True)):
        with _located(query.text, _which(number, queries)):
            found.append(_linear(query, question, options, session))
    return found


def explain_workload(queries: Sequence[Query], session: Session, options: Sequence[Option] = (),
                     parameters: Parameters = ()) -> Explanation:
    """What a workload would do and cost; spends nothing."""
    options, general = taken(options)
    if general is not None or any(query.goals for query in queries):
        chosen, questions = _all_bound(queries, session, options, parameters)
        return _explained_aim(queries, questions, general, chosen, options, session)
    made, chosen = batched(queries, session, options, parameters)
    return explained_batch(made, session.kernel, entity=session.catalog.entity.name, price=str(chosen.price), left=_left(session))


def _which(number: int, queries: Sequence[Query]) -> str:
    """The name of a statement's text in errors."""
    return f"statement {number + 1}" if len(queries) > 1 else "SQL"


def _linear(query: Query, question: Question, options: Options, session: Session) -> Linear:
    """What a statement asks of its view, if that is linear."""
    view, known = limited_view(question, options, session.kernel, span_of(query.tree))
    if known.public or known.rows is None:
        raise Unsupported("a workload is over private rows with a limit for each entity", code="workload",
                          span=span_of(query.tree), try_="the statement by itself" if known.public else
                          "max_rows = 10, or rows_per_entity in the policy")
    return linear(question, view)


def _batch(asked: Sequence[Linear], options: Options, session: Session) -> tuple[Batch, Options]:
    """Linear questions as workloads, on the terms of a statement or of all of them."""
    price = priced(options.price, session.budget)
    check_fitting(options)
    made = least(asked, price, session.kernel, session.scratch, strategy=options.strategy or "auto",
                 span=options.span.get("strategy"))
    if options.consistency != "none":
        for group in made.groups:
            check_consistency(group, options.span.get("consistency"))
    return replace(made, consistency=options.consistency), replace(options, price=price, strategy=options.strategy or "auto")


def _answered(made: Batch, options: Options, text: str, session: Session) -> Answers:
    """The stored answers of the same questions, or new ones that are charged for."""
    identity = digest(session.policy, "workload", identity_of(made.asked), made.purse, options)
    stored = session.ledger.stored(session.account, identity, session.kernel.version)
    if stored is not None:
        return answers_of(stored).named([[output.name for output in one.question.outputs] for one in made.asked])
    found: Answers = _paid(_batch_steps(made, options, session), made.purse, options, identity, text, session)
    return found


def _batch_steps(made: Batch, options: Options, session: Session) -> Generator[Request, Any, Answers]:
    records: list[Record] = []
    found = yield from recording(made.steps(), records)
    notes = (*([made.told] if isinstance(made, Aimed) else []), *notes_of(made), *found.notes)
    told = notes if len(made.asked) == 1 else ()
    answers = tuple(_finish(one.question, options, Released(cells=cells, aggregates=aggregates, notes=told), session,
                            price=options.price)
                    for one, (cells, aggregates) in zip(made.asked, found.statements, strict=True))
    cost = str(options.price) if options.price is not None else ""
    return Answers(answers=answers, cost=cost, notes=notes, records=tuple(records))


# -- accuracy as the question


def _aimed(queries: Sequence[Query], questions: Sequence[Question], general: Goal | None, options: Options,
           given: Sequence[Option], session: Session) -> Answers:
    """The stored answers of the same questions with the same goals, or the cheapest that meet the goals."""
    asked, goals = _goals(queries, questions, general, options, session)
    options = replace(options, price=None)
    identity = digest(session.policy, "accuracy", identity_of(asked), goals, _account(given, session),
                      options)
    stored = session.ledger.stored(session.account, identity, session.kernel.version)
    if stored is not None:
        return answers_of(stored).named([[output.name for output in one.question.outputs] for one in asked])
    made = _cheapest(queries, asked, goals, given, session)
    steps = _batch_steps(made, replace(options, price=price_of(made)), session)
    found: Answers
    if made.free:
        found = without_requests(steps)
        return found
    text = ";\n".join(query.text for query in queries)
    try:
        found = session.kernel.run(steps, cost=made.purse, account=session.account, limits=session.limits, digest=identity,
                                   sql=text, encode=lambda told: told.as_json())
    except Refused as refused:
        left = min(left_of(made, most, session.ledger.spent(session.budget.name, name)) for name, most in session.limits.items())
        fault = _refusal(refused, replace(options, price=price_of(made)), session)
        fault.try_ = buys(made, left) or fault.try_
        raise fault from None
    return found


def _goals(queries: Sequence[Query], questions: Sequence[Question], general: Goal | None, options: Options,
           session: Session) -> tuple[list[Linear], Goals]:
    """What is asked, and how accurate it has to be. Raises what is wrong with either, located."""
    if options.consistency != "none":
        raise OptionError("numbers that are made to look like counts are biased, so no accuracy can be promised",
                          code="consistency", subject="consistency", span=options.span.get("consistency"), try_="one of the two")
    each = []
    for number, (query, question) in enumerate(zip(queries, questions, strict=True)):
        with _located(query.text, _which(number, queries)):
            check_fitting(options)
            if options.strategy is not None:
                raise OptionError("an accuracy chooses its strategy", code="accuracy", span=options.span.get("strategy"),
                                  subject="strategy", try_="the price, or the accuracy without a strategy")
            each.append(goals_of(question, query.goals, general))
    return _all_linear(queries, questions, options, session), Goals(each=tuple(each), confidence=options.confidence)


def _explained_aim(queries: Sequence[Query], questions: Sequence[Question], general: Goal | None, options: Options,
                   given: Sequence[Option], session: Session) -> Explanation:
    asked, goals = _goals(queries, questions, general, options, session)
    made = _cheapest(queries, asked, goals, given, session)
    told = explained_batch(made, session.kernel, entity=session.catalog.entity.name, price=str(price_of(made) or "nothing"),
                           left=_left(session))
    return replace(told, first_line=made.told)


def _account(given: Sequence[Option], session: Session) -> Price:
    """The price that is given, which is a cap; or that of the budget, whose account is used."""
    own = read_options([option for option in given if option.name in ("epsilon", "delta", "rho")], default=None,
                       confidence=session.confidence, known=())
    if own.price is not None:
        return priced(own.price, session.budget)
    mine = session.budget.of(session.analyst)
    return mine if mine is not None and mine.epsilon is not None and not mine.delta else session.budget.total


def _cheapest(queries: Sequence[Query], asked: Sequence[Linear], goals: Goals, given: Sequence[Option],
              session: Session) -> Aimed:
    """The plans of least price, within the one that is given."""
    account = _account(given, session)
    unit = pure(Fraction(1)) if account.epsilon is not None and not account.delta else concentrated(Fraction(1))
    kept = [record for body in session.ledger.holding(session.account, session.kernel.version, MARK) for record in decoded(body)]
    with _located(queries[0].text):
        made = aimed(batch(asked, unit, session.kernel, session.scratch), goals, kept)
        caps = [option for option in given if option.name in ("epsilon", "rho")]
        check_cap(made, account if caps else None, caps[0].span if caps else None)
        for i, plan in enumerate(made.plans):
            plan.check(made.price(i))
    return made


def explain(query: Query | Validate, session: Session, parameters: Parameters = ()) -> Explanation:
    """What a query or a validation would do and cost; spends nothing."""
    if isinstance(query, Validate):
        return explained_validation(_validation(query, session, parameters, None), session.kernel,
                                    entity=session.catalog.entity.name, left=_left(session))
    with _located(query.text):
        question, options = _bound(query, session, parameters)
        view, known = limited_view(question, options, session.kernel, span_of(query.tree))
        entity = session.catalog.entity.name
        if known.public and not question.scalars:
            check_public(query.goals)
            return explained_public(question, view, session.kernel, entity=entity)
        if query.goals:
            return _explained_aim([query], [question], None, options, query.options, session)
        if _needs_workload(question, options):
            made, chosen = _batch([_linear(query, question, options, session)], options, session)
            return explained_batch(made, session.kernel, entity=entity, price=str(chosen.price), left=_left(session))
        program = compiled(question, options, view, known, session)
    return explained(program, session.kernel, entity=entity, left=_left(session))


def _left(session: Session) -> list[str]:
    return [f"{account.left()} ({account.whose or 'all'})" for account in budget_of(session).accounts]


def budget_of(session: Session) -> Spending:
    """What was spent and what is left."""
    session.ledger.refresh()
    names = (None, session.analyst)
    entries = session.ledger.entries(session.budget.name)
    return spending(session.budget, session.analyst, {name: session.ledger.spent(session.budget.name, name) for name in names},
                    [entry.charge for entry in entries])


def releases_of(session: Session) -> list[Entry]:
    """The statements this analyst was charged for, with their answers."""
    return session.ledger.entries(session.budget.name, session.analyst)


def named(parameters: Parameters, query: Query) -> dict[str, Value]:
    """Values by the names that parameters have in the text. Raises ProgrammingError where they do not fit."""
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
        raise ProgrammingError("parameters are a sequence of values, or a mapping of names to values", code="parameters")
    wanted = dict.fromkeys(query.parameters)
    if isinstance(parameters, Mapping):
        given = {str(name): value for name, value in parameters.items()}
    else:
        marks = [name for name in wanted if name.startswith("?")]
        given = {f"?{i + 1}": value for i, value in enumerate(parameters)} if marks or not wanted else {
            str(i + 1): value for i, value in enumerate(parameters)}
    _no_unused(given, wanted, isinstance(parameters, Mapping))
    return given


def shared_out(parameters: Parameters, queries: Sequence[Query]) -> list[dict[str, Value]]:
    """The values of each of several queries: by name, or one after the other."""
    if isinstance(parameters, Mapping):
        wanted = dict.fromkeys(name for query in queries for name in query.parameters)
        _no_unused({str(name): value for name, value in parameters.items()}, wanted, True)
        return [named({name: parameters[name] for name in dict.fromkeys(query.parameters) if name in parameters}, query)
                for query in queries]
    found, rest = [], list(parameters)
    for query in queries:
        count = len(dict.fromkeys(query.parameters))
        found.append(named(rest[:count], query))
        rest = rest[count:]
    if rest:
        raise ProgrammingError(f"{len(rest)} values are given for no parameter", code="parameters")
    return found


def _no_unused(given: Mapping[str, Value], wanted: Mapping[str, None], by_name: bool) -> None:
    unused = [name for name in given if name not in wanted]
    if unused:
        counted = f"{len(given)} values are given for {len(wanted)} parameters"
        raise ProgrammingError(f"the statement has no parameter {unused[0]}" if by_name else counted, code="parameters")
