"""The main path, from text to answer. Each step is one call; `guides/architecture.md` describes the packages behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from dpsql.accounting.cost import Charge
from dpsql.answers.answer import Answer
from dpsql.answers.described_columns import as_described, showing_ends
from dpsql.answers.listings import Listing, described, listed_releases, listed_tables
from dpsql.answers.spending import Spending
from dpsql.engine.accounts import budget_of, releases_of
from dpsql.engine.charging import Bill, Charged
from dpsql.engine.decide import Plan, decide
from dpsql.engine.guard import guarded
from dpsql.engine.kept_tables import drop
from dpsql.engine.parameters import Parameters, check_parameters
from dpsql.engine.session import Session
from dpsql.engine.stored_models import models
from dpsql.engine.synthesizing import beside
from dpsql.errors import ProgrammingError
from dpsql.planning.explain import Explanation
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import (
    Describe,
    Drop,
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
from dpsql.synthesis.online_model import OnlineModel
from dpsql.synthesis.released_database import ReleasedDatabase
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.validation.findings import Validation

Result: TypeAlias = Answer | Validation | SyntheticTable | ReleasedDatabase | OnlineModel | Explanation | Spending | Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStatement:
    """A statement that was parsed, with the plan of a query, and of what is explained: so that it can be priced first, and then
    answered as it was priced."""

    text: str
    parameters: Parameters
    statement: Statement
    session: Session
    plan: Plan | None


@guarded
def answer(text: str, session: Session, parameters: Parameters = ()) -> Result:
    """Answer one statement. Raises a located `errors.Error` if anything is wrong with it."""
    return _answered(_planned(parse(text), text, session, parameters))


@guarded
def answer_parsed(statement: Statement, text: str, session: Session, parameters: Parameters = ()) -> Result:
    """The same of what a text was parsed to."""
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
    if parameters and isinstance(statement, Drop | Show | Describe):
        raise ProgrammingError("this statement has no parameters", code="parameters", try_="no values")
    session = seen_by(session, statement)
    asked = statement.query if isinstance(statement, Explain) else statement
    plan = None if isinstance(asked, Drop | Show | Describe) else decide(asked, session, parameters)
    return PlannedStatement(text=text, parameters=parameters, statement=statement, session=session, plan=plan)


def _answered(made: PlannedStatement) -> Result:
    plan, session = made.plan, made.session
    match made.statement:
        case Explain() if plan is not None:
            return plan.explain()
        case Query(shows_ends=shows_ends, tree=tree) if plan is not None:
            found = plan.answer()
            if not isinstance(found, Answer):
                return found
            found = as_described(found, plan.columns) if tree.find(exp.Sum) else found  # no others are wide
            return showing_ends(found, plan.columns) if shows_ends else found
        case _ if plan is not None:
            return plan.answer()
        case Drop() as statement:
            return drop(statement, session)
        case Show(what="budget"):
            return budget_of(session)
        case Show(what="releases"):
            return listed_releases(releases_of(session))
        case Show():
            return listed_tables(beside(session).catalog, {name: made.domain.columns for name, made in models(session).items()})
        case Describe(table=table, span=span):
            return described(session.catalog, table, span, made.text)
    raise TypeError("there is no such statement")


def seen_by(session: Session, *statements: Statement) -> Session:
    """The session, with the account's synthetic tables beside the policy's where statements name tables that the policy does not
    have."""
    named = {name for statement in statements for name in tables_named(statement)}
    return session if all(session.catalog.table(name) is not None for name in named) else beside(session)


def tables_named(statement: Statement) -> list[str]:
    """The tables that a statement names, without those that it makes in WITH."""
    match statement:
        case Explain(query=query) | Synthesize(query=query) | OpenModel(query=query):
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
    return decide(query, seen_by(session, query), parameters).explain()


@guarded
def priced(query: Explained, session: Session, parameters: Parameters = ()) -> tuple[Explanation, Charge | None]:
    """What a statement would do and cost, and what it would be charged now, None where it is free; planned once."""
    plan = decide(query, seen_by(session, query), parameters)
    return plan.explain(), _due(plan)


def charge_of(made: PlannedStatement) -> Charge | None:
    """What a statement would be charged now; None where it is free. Spends nothing."""
    return None if isinstance(made.statement, Explain) else _due(made.plan)


def _due(plan: Plan | None) -> Charge | None:
    if not isinstance(plan, Charged) or plan.is_stored:
        return None
    due = plan.bill()
    return due.cost.rounded() if isinstance(due, Bill) else None
