"""The main path, from text to answer. Each step is one call; `guides/architecture.md` describes the packages behind them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.answers.answer import Answer
from dpsql.answers.described_columns import DescribedColumn, as_described, showing_ends, with_ends
from dpsql.catalog.price import Price
from dpsql.engine.charging import Billed, ChargeRequest, located
from dpsql.engine.decide import decide
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters, check_parameters
from dpsql.engine.plan import Plan, Result
from dpsql.engine.session import Session
from dpsql.engine.single import SingleStatement
from dpsql.errors import ProgrammingError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.sql.text.parse import parse
from dpsql.sql.text.schemas import standing_in
from dpsql.sql.text.statement import (
    CreateStandingQuery,
    Describe,
    Drop,
    DropStandingQuery,
    Explain,
    Explained,
    OpenModel,
    Query,
    Show,
    Statement,
    Synthesize,
    SynthesizeTables,
    Validate,
)
from dpsql.trusted.accounting.cost import Charge
from dpsql.trusted.cached import cached_property

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation


MOST_PLANS = 100  # that a session keeps


class PlannedStatement(Frozen):
    """A statement that was parsed, with its plan: so that it can be priced first, and then answered as it was priced."""

    text: str
    parameters: Parameters
    statement: Statement
    plan: Plan

    @cached_property
    def sums(self) -> bool:
        """Whether the statement is a query with a sum."""
        return isinstance(self.statement, Query) and self.statement.tree.find(exp.Sum) is not None


@guarded
def answer(text: str, session: Session, parameters: Parameters = ()) -> Result:
    """Answer one statement. Raises a located `errors.Error` if anything is wrong with it.

    The plans of the last statements that were answered without a charge are kept, by their texts: dashboards ask for these again
    and again. Most statements that are charged are never asked again, and a plan takes tens of kilobytes. A plan is valid for the
    session that it was made for, as long as the data have one version: policy, price and confidence are those of the session, and
    what is kept names no other table than those of the policy. So a statement that is asked for the third time gets its stored
    answer without being planned.
    """
    version, made = session.planned.get(text, ("", None)) if type(parameters) is tuple and not parameters else ("", None)
    if made is not None and made.plan.session is session and version == session.kernel.version:
        return _answered(made)
    made = _planned(parse(text), text, session, parameters)
    found = _answered(made)
    if not parameters and type(made.plan) is SingleStatement and made.plan.session is session and _is_free(found):
        while len(session.planned) >= MOST_PLANS:
            session.planned.pop(next(iter(session.planned)), None)
        session.planned[text] = session.kernel.version, made
    return found


def _is_free(found: Result) -> bool:
    return isinstance(found, Answer) and (found.stored or not found.cost)


@guarded
def answer_parsed(statement: Statement, text: str, session: Session, parameters: Parameters = ()) -> Result:
    """The same for a parsed statement."""
    return _answered(_planned(statement, text, session, parameters))


@guarded
def planned(text: str, session: Session, parameters: Parameters = ()) -> PlannedStatement:
    """A statement with its plan; spends nothing. Raises as `answer` does."""
    return _planned(parse(text), text, session, parameters)


@guarded
def answer_planned(made: PlannedStatement, session: Session) -> Result:
    """Answer a statement that was planned for this session. Raises as `answer` does."""
    return _answered(made)


def _planned(statement: Statement, text: str, session: Session, parameters: Parameters) -> PlannedStatement:
    if not isinstance(parameters, tuple) or parameters:
        check_parameters(parameters)
    if parameters and isinstance(statement, Drop | CreateStandingQuery | DropStandingQuery | Show | Describe):
        raise ProgrammingError("this statement has no parameters", code="parameters", try_="no values")
    plan = decide(statement, session_for(session, statement), parameters)
    return PlannedStatement(text=text, parameters=parameters, statement=statement, plan=plan)


def _answered(made: PlannedStatement) -> Result:
    found, statement = made.plan.answer(), made.statement
    if not isinstance(statement, Query) or not isinstance(found, Answer):
        return found
    if made.sums:  # no others are wide
        found = as_described(found, made.plan.columns)
    return showing_ends(found, made.plan.columns) if statement.shows_ends else found


@guarded
def describe(text: str, session: Session, parameters: Parameters = ()) -> tuple[DescribedColumn, ...]:
    """The columns that the answer to a statement will have. The statement is planned but not run: nothing is charged, and no
    private row is read. Raises a located `errors.Error` if the statement is wrong."""
    statement = parse(text)
    found = decide(statement, session_for(session, statement), parameters).columns
    return with_ends(found) if isinstance(statement, Query) and statement.shows_ends else found


def session_for(session: Session, *statements: Statement) -> Session:
    """The session; if statements name tables that the policy does not have, extended by the account's synthetic tables; and with
    the periods of growing tables that are closed now, and their revisions."""
    session = _now(session)
    named = {name for statement in statements for name in tables_named(statement)}
    if all(session.catalog.table(name) is not None for name in named):
        return session
    from dpsql.engine.synthesizing import with_synthetic_tables

    known, session = session, with_synthetic_tables(session)
    for statement in statements:
        if isinstance(statement, CreateStandingQuery):
            _check_of_policy(statement, known, session)
        if names := [name for name in tables_named(statement) if standing_in(name) is not None]:
            session = _with_standing(session, statement, names)
    return session


def with_all_tables(session: Session) -> Session:
    """The session, extended by the account's synthetic tables and, without their rows, by the tables of standing queries."""
    from dpsql.engine.standing_shapes import with_all_tables as with_tables

    return with_tables(session, decide)


def _check_of_policy(statement: CreateStandingQuery, known: Session, session: Session) -> None:
    """Raises a located error if a standing query reads the numbers of another one, or a synthetic table: these change or may be
    dropped, and are of one account, so whoever publishes the query could not answer it. `known` has the tables of the policy."""
    with located(statement.text):
        for name in tables_named(statement):
            what = "the numbers of standing queries" if standing_in(name) is not None else (
                f"the synthetic table {name}" if session.catalog.table(name) is not None else "")
            if what and known.catalog.table(name) is None:
                raise Unsupported(f"a standing query cannot read {what}", code="standing", span=statement.query.place_of(name),
                                  try_="a query that reads them when it is asked")


def _with_standing(session: Session, statement: Statement, names: Sequence[str]) -> Session:
    """The session, extended by the tables of standing queries that a statement names."""
    if isinstance(statement, Describe):
        return with_all_tables(session)
    from dpsql.engine.standing_tables import with_standing_tables  # loaded only where they are asked for

    query = statement.query if isinstance(statement, Explain) else statement
    if not isinstance(query, Query):
        return with_standing_tables(session, [(name, None) for name in names])
    with located(query.text):
        return with_standing_tables(session, [(name, query.place_of(name)) for name in names])


def _now(session: Session) -> Session:
    if not session.catalog.grows:
        return session
    from dpsql.catalog import growing

    told = session.ledger.time_state()
    today = session.today_by(told)
    if today not in session.grown:
        session.grown.clear()
        session.grown[today] = growing.on_day(session.catalog, today)
    return replace(session, catalog=session.grown[today], revised=told.revised)


def tables_named(statement: Statement) -> list[str]:
    """The tables that a statement names, without those that it defines in WITH."""
    match statement:
        case Explain(query=query) | Synthesize(query=query) | OpenModel(query=query) | CreateStandingQuery(query=query):
            return tables_named(query)
        case SynthesizeTables(tables=tables):
            return [name for table in tables for name in tables_named(table)]
        case Query(tables=tables):
            return [*tables]
        case Validate(checks=checks, standing=standing):
            return [*(stand.table for stand in standing), *(name for check in checks for name in tables_named(check.query))]
        case Describe(table=table):
            return [table]
    return []


@guarded
def explain(query: Explained, session: Session, parameters: Parameters = ()) -> Explanation:
    """What a statement would do and cost; spends nothing. Raises a located error if it is wrong."""
    return decide(query, session_for(session, query), parameters).explain()


@guarded
def priced(query: Explained, session: Session, parameters: Parameters = ()) -> tuple[Explanation, Charge | None]:
    """The explanation of a statement, and what it would be charged now (None if it is free), from a single planning."""
    plan = decide(query, session_for(session, query), parameters)
    return plan.explain(), _charge(_bills(plan))


def charge_of(made: PlannedStatement) -> Charge | None:
    """What a statement would be charged now; None if it is free. Spends nothing."""
    return _charge(_bills(made.plan))


def quoted(made: PlannedStatement) -> tuple[Price | None, Charge | None]:
    """The price of a statement as it is stated, or as it was found for an accuracy, and what it would be charged now; None for
    what is free. Spends nothing."""
    bills = _bills(made.plan)
    return bills[0].options.price if bills else None, _charge(bills)


def _bills(plan: Plan) -> list[ChargeRequest]:
    """The bills for a statement now: one for each period if it is answered period by period, and none if it is free."""
    return [*plan.dues()] if isinstance(plan, Billed) else []


def _charge(bills: Sequence[ChargeRequest]) -> Charge | None:
    return functools.reduce(operator.add, (due.cost.rounded() for due in bills)) if bills else None
