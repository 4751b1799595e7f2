"""The columns of a statement before it is asked, and what is no answer to a query as rows. Nothing is charged, and no private row
is read: a statement is bound and planned, as for EXPLAIN."""

from __future__ import annotations

from dpsql.answers.answer import Answer
from dpsql.answers.described_columns import (
    OF_DROP,
    OF_EXPLANATION,
    OF_ONLINE_MODEL,
    OF_SYNTHETIC_TABLE,
    OF_SYNTHETIC_TABLES,
    DescribedColumn,
    columns_of,
    with_ends,
)
from dpsql.answers.listings import Listing, listed_spending
from dpsql.answers.spending import Spending
from dpsql.engine.answering import Result, answer, seen_by
from dpsql.engine.decide import decide
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.planning.explain import Explanation
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Describe, Drop, Explain, Query, Show
from dpsql.synthesis.released_database import ReleasedDatabase
from dpsql.synthesis.synthetic_table import SyntheticTable
from dpsql.validation.findings import Validation


@guarded
def describe(text: str, session: Session, parameters: Parameters = ()) -> tuple[DescribedColumn, ...]:
    """The names and types that the answer of a statement will have. Raises a located `errors.Error` if the statement is wrong."""
    statement = parse(text)
    session = seen_by(session, statement)
    match statement:
        case Explain(query=query):
            decide(query, session, parameters)
            return columns_of(OF_EXPLANATION)
        case Drop():
            return columns_of(OF_DROP)
        case Show() | Describe():
            listed = as_rows(answer(text, session, parameters))
            return columns_of(listed.columns) if isinstance(listed, Listing) else ()
        case _:
            found = decide(statement, session, parameters).columns
            return with_ends(found) if isinstance(statement, Query) and statement.shows_ends else found


def as_rows(result: Result) -> Answer | Listing:
    """What a statement gave, as rows under names."""
    match result:
        case Answer() | Listing():
            return result
        case Validation():
            return result.table()
        case Explanation():
            return Listing(columns=OF_EXPLANATION, rows=tuple((line,) for line in str(result).splitlines()))
        case SyntheticTable():
            return Listing(columns=OF_SYNTHETIC_TABLE, rows=tuple(
                (", ".join(each.columns), each.cells, each.error, each.off) for each in result.marginals))
        case ReleasedDatabase():
            return Listing(columns=OF_SYNTHETIC_TABLES, rows=tuple(
                (each.name, each.rows, ", ".join(each.key), "" if each.parent is None else each.parent.table)
                for each in result.tables))
        case Spending():
            return listed_spending(result)
        case _:
            return Listing(columns=OF_ONLINE_MODEL, rows=tuple((each.name, len(each.values)) for each in result.columns))
