"""The main path, from text to answer. Each step is one call; `guides/architecture.md` describes the packages behind them."""

from __future__ import annotations

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


@guarded
def answer(text: str, session: Session, parameters: Parameters = ()) -> Result:
    """Answer one statement. Raises a located `errors.Error` if anything is wrong with it."""
    return _answered(parse(text), text, session, parameters)


@guarded
def answer_parsed(statement: Statement, text: str, session: Session, parameters: Parameters = ()) -> Result:
    """The same of what a text was parsed to."""
    return _answered(statement, text, session, parameters)


def _answered(statement: Statement, text: str, session: Session, parameters: Parameters) -> Result:
    if not isinstance(parameters, tuple) or parameters:
        check_parameters(parameters)
    if parameters and isinstance(statement, Drop | Show | Describe):
        raise ProgrammingError("this statement has no parameters", code="parameters", try_="no values")
    session = seen_by(session, statement)
    match statement:
        case Query(shows_ends=shows_ends):
            plan = decide(statement, session, parameters)
            made = plan.answer()
            if not isinstance(made, Answer):
                return made
            made = as_described(made, plan.columns) if statement.tree.find(exp.Sum) else made  # no others are wide
            return showing_ends(made, plan.columns) if shows_ends else made
        case Validate() | Synthesize() | SynthesizeTables() | OpenModel():
            return decide(statement, session, parameters).answer()
        case Explain(query=query):
            return decide(query, session, parameters).explain()
        case Drop():
            return drop(statement, session)
        case Show(what="budget"):
            return budget_of(session)
        case Show(what="releases"):
            return listed_releases(releases_of(session))
        case Show():
            return listed_tables(beside(session).catalog, {name: made.domain.columns for name, made in models(session).items()})
        case Describe(table=table, span=span):
            return described(session.catalog, table, span, text)


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
    """What a statement would do and cost, and what it would be charged now, as `charge_of` tells it; planned once."""
    plan = decide(query, seen_by(session, query), parameters)
    return plan.explain(), _due(plan)


@guarded
def charge_of(text: str, session: Session) -> Charge | None:
    """What a statement would be charged now; None where it is free. Spends nothing. Raises a located error if it is wrong."""
    statement = parse(text)
    if not isinstance(statement, Query | Validate | Synthesize | SynthesizeTables | OpenModel):
        return None
    return _due(decide(statement, seen_by(session, statement)))


def _due(plan: Plan) -> Charge | None:
    if not isinstance(plan, Charged) or plan.is_stored:
        return None
    due = plan.bill()
    return due.cost.rounded() if isinstance(due, Bill) else None
