"""CREATE SYNTHETIC TABLE, or ONLINE MODEL, <name> AS SELECT <columns> FROM ... [WHERE ...] [OPTIONS (...)], read among the
tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError
from dpsql.sql.text.option_clause import read_clause
from dpsql.sql.text.places import CLOSING, OPENING
from dpsql.sql.text.statement import Drop, OpenModel, Option, Query, Synthesize
from dpsql.sql.text.tokens import place_of, shown
from dpsql.types import Span

FORM = "CREATE SYNTHETIC TABLE people_syn AS SELECT age, income FROM people OPTIONS (epsilon = 1)"
ONLINE_FORM = "CREATE ONLINE MODEL people_model AS SELECT age, sex FROM people OPTIONS (epsilon = 1)"
DROP_FORM = "DROP SYNTHETIC TABLE people_syn"
ReadQuery = Callable[[list[Token], Token], Query]


def read_synthesis(text: str, tokens: Sequence[Token], query: ReadQuery) -> Synthesize | OpenModel:
    """The statement; `query` reads the tokens of its query, given the token before them. Raises SqlError, located."""
    online = tokens[1].text.upper() == "ONLINE"
    made, form, what = (OpenModel, ONLINE_FORM, "model") if online else (Synthesize, FORM, "table")
    for at, word in ((2, what.upper()), (4, "AS")):
        if [token.text.upper() for token in tokens[at : at + 1]] != [word]:
            raise SqlError(f"{word} is expected here", code="synthesis", span=_place(tokens, at), try_=form)
        if at == 2 and (len(tokens) < 4 or tokens[3].token_type not in (TokenType.VAR, TokenType.IDENTIFIER)):
            raise SqlError(f"the name of the new {what} is expected here", code="synthesis", span=_place(tokens, 3), try_=form)
    end = _options_at(tokens)
    options: tuple[Option, ...] = ()
    if end < len(tokens):
        after, found = read_clause(tokens, end + 1)
        options = tuple(found)
        if after < len(tokens):
            raise SqlError(f"{shown(tokens[after])} is not expected here", code="synthesis", span=_place(tokens, after),
                           try_=form)
    asked = query(list(tokens[5:end]), tokens[4])
    if asked.options:
        raise SqlError("the options of this statement stand at its end", code="options",
                       span=asked.options[0].span, try_=form)
    if asked.goals:
        raise SqlError("no accuracy is asked of this statement", code="accuracy", span=asked.goals[0].span, try_=form)
    return made(name=tokens[3].text, query=asked, options=options, text=text, span=place_of(tokens[3]))


def read_drop(text: str, tokens: Sequence[Token]) -> Drop:
    """DROP SYNTHETIC TABLE <name>. Raises SqlError, located."""
    if [token.text.upper() for token in tokens[2:3]] != ["TABLE"]:
        raise SqlError("TABLE is expected here", code="synthesis", span=_place(tokens, 2), try_=DROP_FORM)
    if len(tokens) != 4 or tokens[3].token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
        raise SqlError("the name of one synthetic table is expected here", code="synthesis", span=_place(tokens, 3),
                       try_=DROP_FORM)
    return Drop(name=tokens[3].text, text=text, span=place_of(tokens[3]))


def _options_at(tokens: Sequence[Token]) -> int:
    """Where OPTIONS ( stands outside brackets, other than in the query; the end of the statement if it has none."""
    depth = 0
    for i, token in enumerate(tokens[:-1]):
        own = token.text.upper() == "OPTIONS" and tokens[i - 1].text.upper() != "DIFFERENTIAL_PRIVACY"
        if depth == 0 and own and tokens[i + 1].token_type is TokenType.L_PAREN:
            return i
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
    return len(tokens)


def _place(tokens: Sequence[Token], at: int) -> Span:
    return place_of(tokens[min(at, len(tokens) - 1)])
