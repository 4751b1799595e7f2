"""CREATE STANDING QUERY <name> AS SELECT ... [OPTIONS (...)] and DROP STANDING QUERY <name>, read among the tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError
from dpsql.frozen import replace
from dpsql.sql.text.option_clause import read_clause, take_errors
from dpsql.sql.text.statement import CreateStandingQuery, DropStandingQuery
from dpsql.sql.text.synthesis_clause import ReadQuery, named_query, options_at
from dpsql.sql.text.tokens import place_of, shown

FORM = ("CREATE STANDING QUERY visits_by_month AS SELECT date_trunc('month', visited_on) AS month, COUNT(*) FROM visits GROUP BY "
        "month OPTIONS (epsilon = 0.1)")
DROP_FORM = "DROP STANDING QUERY visits_by_month"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
OF_FILES = ("index",)  # names of files that hold no query


def read_standing(text: str, tokens: Sequence[Token], query: ReadQuery) -> CreateStandingQuery:
    """Read the statement; `query` reads the tokens of its query, given the token before them. Raises SqlError, located."""
    _expect_query(tokens, FORM)
    end = options_at(tokens)
    after, given = read_clause(tokens, end + 1) if end < len(tokens) else (end, [])
    if after < len(tokens):
        raise SqlError(f"{shown(tokens[after])} is not expected here", code="standing", span=place_of(tokens[after]), try_=FORM)
    named, asked = named_query(tokens, 3, end, query, FORM, "standing query", "standing")
    check_name(named)
    options, errors = take_errors(given)
    return CreateStandingQuery(name=named.text, query=replace(asked, errors=errors), options=options, text=text,
                               span=place_of(named))


def read_standing_drop(text: str, tokens: Sequence[Token]) -> DropStandingQuery:
    """Read the statement. Raises SqlError, located."""
    _expect_query(tokens, DROP_FORM)
    if len(tokens) != 4 or tokens[3].token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
        raise SqlError("the name of one standing query is expected here", code="standing",
                       span=place_of(tokens[min(3, len(tokens) - 1)]), try_=DROP_FORM)
    return DropStandingQuery(name=tokens[3].text, text=text, span=place_of(tokens[3]))


def is_name(name: str) -> bool:
    """Whether a standing query can have this name, which is also that of its files."""
    return NAME.fullmatch(name) is not None and name.lower() not in OF_FILES


def check_name(named: Token) -> None:
    """Raises SqlError, located, if a standing query cannot have this name."""
    if not is_name(named.text):
        raise SqlError("files will have this name, so it must consist of at most 63 letters without accents, digits and _, and "
                       "must not be index", code="standing", span=place_of(named), subject=named.text, try_="visits_by_month")


def _expect_query(tokens: Sequence[Token], form: str) -> None:
    if [token.text.upper() for token in tokens[2:3]] != ["QUERY"]:
        raise SqlError("QUERY is expected here", code="standing", span=place_of(tokens[min(2, len(tokens) - 1)]), try_=form)
