"""The main path, from text to answer. Each step is one call; `guides/architecture.md` describes the packages behind them."""

from __future__ import annotations

from typing import TypeAlias

from dpsql.answers.answer import Answer
from dpsql.answers.listings import Listing, described, listed_releases, listed_tables
from dpsql.answers.spending import Spending
from dpsql.engine.accounts import budget_of, releases_of
from dpsql.engine.decide import decide
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters, check_parameters
from dpsql.engine.session import Session
from dpsql.errors import ProgrammingError
from dpsql.planning.explain import Explanation
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Describe, Explain, Query, Show, Validate
from dpsql.validation.findings import Validation

Result: TypeAlias = Answer | Validation | Explanation | Spending | Listing


@guarded
def answer(text: str, session: Session, parameters: Parameters = ()) -> Result:
    """Answer one statement. Raises a located `errors.Error` if anything is wrong with it."""
    statement = parse(text)
    if not isinstance(parameters, tuple) or parameters:
        check_parameters(parameters)
    if parameters and isinstance(statement, Show | Describe):
        raise ProgrammingError("this statement has no parameters", code="parameters", try_="no values")
    match statement:
        case Query() | Validate():
            return decide(statement, session, parameters).answer()
        case Explain(query=query):
            return decide(query, session, parameters).explain()
        case Show(what="budget"):
            return budget_of(session)
        case Show(what="releases"):
            return listed_releases(releases_of(session))
        case Show():
            return listed_tables(session.catalog)
        case Describe(table=table, span=span):
            return described(session.catalog, table, span, text)


@guarded
def explain(query: Query | Validate, session: Session, parameters: Parameters = ()) -> Explanation:
    """What a query or a validation would do and cost; spends nothing. Raises a located error if it is wrong."""
    return decide(query, session, parameters).explain()
