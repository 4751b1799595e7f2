"""CREATE SYNTHETIC TABLE, or ONLINE MODEL, <name> AS SELECT <columns> FROM ... [WHERE ...] [OPTIONS (...)], and CREATE SYNTHETIC
TABLES with several names and queries, read among the tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError
from dpsql.sql.text.border import STANDING
from dpsql.sql.text.option_clause import read_clause
from dpsql.sql.text.places import CLOSING, OPENING
from dpsql.sql.text.schemas import standing_in
from dpsql.sql.text.statement import Drop, OpenModel, Option, Query, Synthesize, SynthesizeTables
from dpsql.sql.text.tokens import place_of, shown
from dpsql.types import Span

FORM = "CREATE SYNTHETIC TABLE people_syn AS SELECT age, income FROM people OPTIONS (epsilon = 1)"
ONLINE_FORM = "CREATE ONLINE MODEL people_model AS SELECT age, sex FROM people OPTIONS (epsilon = 1)"
TABLES_FORM = ("CREATE SYNTHETIC TABLES people_syn AS SELECT id, age FROM people, visits_syn AS SELECT id, cost FROM visits "
               "OPTIONS (epsilon = 1)")
DROP_FORM = "DROP SYNTHETIC TABLE people_syn"
OF_QUERIES = ("SELECT", "WITH", "FROM")
ReadQuery = Callable[[list[Token], Token], Query]


def read_synthesis(text: str, tokens: Sequence[Token], query: ReadQuery) -> Synthesize | SynthesizeTables | OpenModel:
    """Read the statement; `query` reads the tokens of its query, given the token before them. Raises SqlError, located."""
    several = [token.text.upper() for token in tokens[1:3]] == ["SYNTHETIC", "TABLES"]
    online = tokens[1].text.upper() == "ONLINE"
    form, what = (ONLINE_FORM, "model") if online else (TABLES_FORM, "tables") if several else (FORM, "table")
    if [token.text.upper() for token in tokens[2:3]] != [what.upper()]:
        raise SqlError(f"{what.upper()} is expected here", code="synthesis", span=_place(tokens, 2), try_=form)
    end = options_at(tokens)
    options: tuple[Option, ...] = ()
    if end < len(tokens):
        after, found = read_clause(tokens, end + 1)
        options = tuple(found)
        if after < len(tokens):
            raise SqlError(f"{shown(tokens[after])} is not expected here", code="synthesis", span=_place(tokens, after),
                           try_=form)
    if several:
        starts = _names_at(tokens, end)
        parts = [named_query(tokens, start, stop, query, form, "table")
                 for start, stop in zip(starts, [*(start - 1 for start in starts[1:]), end], strict=True)]
        return SynthesizeTables(options=options, text=text, span=place_of(tokens[2]), tables=tuple(
            Synthesize(name=named.text, query=asked, text=text, span=place_of(named)) for named, asked in parts))
    named, asked = named_query(tokens, 3, end, query, form, what)
    made = OpenModel if online else Synthesize
    return made(name=named.text, query=asked, options=options, text=text, span=place_of(named))


def named_query(tokens: Sequence[Token], at: int, end: int, query: ReadQuery, form: str, what: str,
                code: str = "synthesis") -> tuple[Token, Query]:
    """<name> AS <query>, which ends before `end`."""
    if at >= len(tokens) - 1 or tokens[at].token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
        raise SqlError(f"the name of the new {what} is expected here", code=code, span=_place(tokens, at), try_=form)
    if standing_in(tokens[at].text) is not None:
        raise SqlError(f"{STANDING}.name are the numbers of a standing query", code=code, span=_place(tokens, at), try_=form)
    if tokens[at + 1].text.upper() != "AS":
        raise SqlError("AS is expected here", code=code, span=_place(tokens, at + 1), try_=form)
    asked = query(list(tokens[at + 2:end]), tokens[at + 1])
    if asked.all_options:
        raise SqlError("the options of this statement must be at its end", code="options",
                       span=asked.all_options[0].span, try_=form)
    if asked.goals:
        raise SqlError("this statement cannot have an accuracy", code="accuracy", span=asked.goals[0].span, try_=form)
    return tokens[at], asked


def _names_at(tokens: Sequence[Token], end: int) -> list[int]:
    """Where the names of tables stand: the first after TABLES, others where `, <name> AS SELECT` is outside brackets. A query in
    WITH has brackets around it, so it is not mistaken for one."""
    found, depth = [3], 0
    for at, token in enumerate(tokens[3:max(3, end - 3)], start=3):
        words = [each.text.upper() for each in tokens[at + 2:at + 4]]
        if depth == 0 and token.token_type is TokenType.COMMA and words[0] == "AS" and words[1] in OF_QUERIES:
            found.append(at + 1)
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
    return found


def read_drop(text: str, tokens: Sequence[Token]) -> Drop:
    """DROP SYNTHETIC TABLE <name>. Raises SqlError, located."""
    if [token.text.upper() for token in tokens[2:3]] != ["TABLE"]:
        raise SqlError("TABLE is expected here", code="synthesis", span=_place(tokens, 2), try_=DROP_FORM)
    if len(tokens) != 4 or tokens[3].token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
        raise SqlError("the name of one synthetic table is expected here", code="synthesis", span=_place(tokens, 3),
                       try_=DROP_FORM)
    return Drop(name=tokens[3].text, text=text, span=place_of(tokens[3]))


def options_at(tokens: Sequence[Token]) -> int:
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
