"""Text to statement. sqlglot's DuckDB tokenizer and parser do the work; this module guards them.

Sizes are capped before parsing. dpsql's own words (EXPLAIN PRIVACY, the OPTIONS clause, SHOW, DESCRIBE) and parameters are
recognised among the tokens, so that every place in the tree still points into the text as it was written. Parameters become
identifiers that no text can contain; they are replaced by constants when names are bound, never by text.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError, Unsupported
from dpsql.sql.text.accuracy_clause import FIRST_WORDS as OF_ACCURACY
from dpsql.sql.text.accuracy_clause import take_goals
from dpsql.sql.text.border import STANDING
from dpsql.sql.text.equivalents import WRITTEN_WITH, rewrite_equivalents
from dpsql.sql.text.option_clause import take_errors, take_options
from dpsql.sql.text.places import CLOSING, nodes_of, place
from dpsql.sql.text.schemas import name_of_standing, name_whole
from dpsql.sql.text.statement import PARAMETER, CheckedQuery, Describe, Explain, Explained, Query, Show, Statement
from dpsql.sql.text.synthesis_clause import read_drop, read_synthesis
from dpsql.sql.text.tokens import place_of, shown, tokens_of
from dpsql.sql.text.validate_clause import read_check, read_criterion, read_validation
from dpsql.types import Span

_FOLLOWS = {"WHERE": "a condition, such as age > 18", "HAVING": "a condition, such as COUNT(*) > 100",
            "FROM": "the name of a table", "JOIN": "the name of a table", "ON": "a.key = b.key",
            "ERROR": "ERROR WITHIN 50, or STANDARD ERROR 20",
            **dict.fromkeys(("=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "THEN", "ELSE"), "a value")}
_QUERIES = {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN, TokenType.VALUES}
_OF_PARAMETERS = {TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON}
_FIRST_WORDS = ("SELECT", "WITH", "FROM", "EXPLAIN", "SHOW", "DESCRIBE", "VALIDATE", "CREATE SYNTHETIC TABLE",
                "CREATE SYNTHETIC TABLES", "CREATE ONLINE MODEL", "CREATE STANDING QUERY", "DROP SYNTHETIC TABLE",
                "DROP STANDING QUERY")
_EXAMPLE = "SELECT COUNT(*) FROM ..."
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "BY", "ON", "AS", "AND", "OR", "UNION", "OFFSET",
            "USING")


def parse(text: str) -> Statement:
    """The one statement in a text. Raises SqlError or Unsupported, located in it."""
    try:
        return _parse(text)
    except (SqlError, Unsupported) as fault:
        fault.located(text)
        raise


def parse_check(text: str) -> CheckedQuery:
    """One query of a suite: SELECT ..., or (SELECT ...) WITHIN 5 PERCENT. Raises SqlError or Unsupported, located in it."""
    try:
        tokens = _tokens_of_query(text)
        if tokens[0].text.upper() == "VALIDATE":
            raise SqlError("give only the query here, and tables and tolerance as other arguments", code="validate",
                           span=place_of(tokens[0]), try_="SELECT ..., or (SELECT ...) WITHIN 5 PERCENT")
        return read_check(tokens, lambda part, last: _query(text, part, last))
    except (SqlError, Unsupported) as fault:
        fault.located(text)
        raise


def parse_criterion(text: str) -> CheckedQuery:
    """A criterion of acceptance: SELECT ... WITHIN 5 PERCENT. Raises SqlError or Unsupported, located in it."""
    try:
        return read_criterion(_tokens_of_query(text), lambda part, last: _query(text, part, last))
    except (SqlError, Unsupported) as fault:
        fault.located(text)
        raise


def _tokens_of_query(text: str) -> list[Token]:
    tokens = tokens_of(text)
    if not tokens:
        raise SqlError("there is no query", code="empty", span=Span(0, len(text)), try_=_EXAMPLE)
    return tokens


def _parse(text: str) -> Statement:
    tokens = tokens_of(text)
    words = [token.text.upper() for token in tokens[:2]]
    if not tokens:
        raise SqlError("there is no statement", code="empty", span=Span(0, len(text)), text=text, try_=_EXAMPLE)
    if words[0] == "EXPLAIN":
        if len(words) < 2 or words[1] != "PRIVACY":
            raise Unsupported("EXPLAIN must be followed by PRIVACY: it shows what a query would reveal and cost", code="explain",
                              span=place_of(tokens[0]), try_="EXPLAIN PRIVACY SELECT ...")
        return Explain(query=_asked(text, tokens[2:], tokens[1]))
    if words[0] == "SHOW":
        return _show(tokens)
    if words == ["DROP", "SYNTHETIC"]:
        return read_drop(text, tokens)
    if words == ["DROP", "STANDING"]:
        from dpsql.sql.text.standing_clause import read_standing_drop  # loaded only where tables grow

        return read_standing_drop(text, tokens)
    if words[0] in ("DESCRIBE", "DESC"):
        named = tokens[3:] if _in_schema(tokens) else tokens[1:]
        if len(named) != 1 or (named[0].token_type is not TokenType.IDENTIFIER and not named[0].text.isidentifier()):
            raise SqlError("DESCRIBE takes the name of one table", code="syntax", span=place_of(tokens[-1]),
                           try_="SHOW TABLES, which lists them")
        name = named[0].text
        return Describe(table=name_of_standing(name) if _in_schema(tokens) else name, span=place_of(named[0]), text=text)
    return _asked(text, tokens, tokens[0])


def _in_schema(tokens: Sequence[Token]) -> bool:
    """Whether a table of the schema of standing queries is described."""
    return len(tokens) == 4 and tokens[1].text.lower() == STANDING and tokens[2].token_type is TokenType.DOT


def _asked(text: str, tokens: Sequence[Token], before: Token) -> Explained:
    """A query, VALIDATE, or CREATE: the statements that can be explained."""
    if [token.text.upper() for token in tokens[:2]] == ["CREATE", "STANDING"]:
        from dpsql.sql.text.standing_clause import read_standing

        return read_standing(text, tokens, lambda part, last: _query(text, part, last))
    if [token.text.upper() for token in tokens[:2]] in (["CREATE", "SYNTHETIC"], ["CREATE", "ONLINE"]):
        return read_synthesis(text, tokens, lambda part, last: _query(text, part, last))
    if tokens and tokens[0].text.upper() == "VALIDATE":
        return read_validation(text, tokens, lambda part, last: _query(text, part, last))
    return _query(text, tokens, before)


def _show(tokens: Sequence[Token]) -> Show:
    known = {"BUDGET": "budget", "PERIODS": "periods", "RELEASES": "releases", "STANDING QUERIES": "standing queries",
             "TABLES": "tables"}
    words = " ".join(token.text.upper() for token in tokens[1:3]) if len(tokens) <= 3 else ""
    if words not in known:
        close = difflib.get_close_matches(words, known, n=1, cutoff=0.7)
        raise SqlError("SHOW takes BUDGET, PERIODS, RELEASES, STANDING QUERIES or TABLES", code="syntax",
                       span=place_of(tokens[-1]), try_=f"SHOW {close[0] if close else 'BUDGET'}; DESCRIBE and a table for its "
                                                      "columns")
    return Show(what=known[words])


def _query(text: str, tokens: Sequence[Token], before: Token) -> Query:
    if not tokens:
        raise SqlError("a query is missing here", code="syntax", span=place_of(before), try_="SELECT ...")
    if tokens[0].token_type not in _QUERIES:
        raise _not_a_query(tokens)
    rest, given = take_options(list(tokens))
    options, errors = take_errors(given)
    rest, goals = (rest, ()) if OF_ACCURACY.isdisjoint(token.text.upper() for token in rest) else take_goals(rest)
    marked, parameters = _mark_parameters(rest)
    tree = _tree(text, marked)
    return Query(tree=tree, text=text, options=options, parameters=parameters, goals=goals, errors=errors)


def _not_a_query(tokens: Sequence[Token]) -> Unsupported:
    first = [token.text.upper() for token in tokens[:3]]
    close = difflib.get_close_matches(" ".join(first), _FIRST_WORDS, n=1, cutoff=0.85) or difflib.get_close_matches(
        first[0], _FIRST_WORDS, n=1, cutoff=0.7)
    return Unsupported("only queries are answered", code="not-a-query", span=place_of(tokens[0]),
                       try_=close[0] if close else "a SELECT; also EXPLAIN PRIVACY, VALIDATE, CREATE SYNTHETIC TABLE, CREATE "
                       "STANDING QUERY, SHOW and DESCRIBE")


def _tree(text: str, tokens: list[Token]) -> exp.Query:
    parser = DuckDB().parser(error_level=sqlglot.ErrorLevel.IMMEDIATE)
    problem: SqlError | Unsupported | None = None
    trees: list[exp.Expr | None] = []
    try:
        trees = list(parser.parse(tokens, text))
    except ParseError as fault:
        problem = _syntax_error(fault, tokens)
    except RecursionError:
        problem = SqlError("the statement is nested too deeply", code="too-deep", span=place_of(tokens[0]),
                           try_="fewer operators in a chain, or several statements")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # the parser itself failed on odd text
        problem = SqlError("this query cannot be parsed", code="syntax", span=Span(tokens[0].start, tokens[-1].end + 1))
    if problem is not None:
        raise problem
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise _not_a_query(tokens)
    nodes = nodes_of(trees[0])
    place(nodes, tokens)
    name_whole(nodes)
    if not WRITTEN_WITH.isdisjoint(map(type, nodes)):
        rewrite_equivalents(nodes)
    return trees[0]


def _syntax_error(fault: ParseError, tokens: Sequence[Token]) -> SqlError:
    """The error for a syntax mistake: the word where the parser stopped, and the clause that an earlier word may have meant."""
    details = fault.errors[0] if fault.errors else {}
    found = [i for i, token in enumerate(tokens) if (token.line, token.col) == (details.get("line"), details.get("col"))]
    at = found[0] if found else len(tokens) - 1
    description = str(details.get("description") or "")
    reason, awaiting = f"{shown(tokens[at])} is not expected here", at
    if description.startswith("Expecting "):
        reason = f"{description[len('Expecting '):].strip('.')} is expected here"
    elif description.startswith(("Required keyword", "Expected")):
        # the parser names what follows; where nothing does, and of some words, what it read
        ended = at == len(tokens) - 1 and tokens[at].token_type not in CLOSING
        read = ended or description.startswith(("Expected END", "Expected FROM"))
        wanted = word[1] if (word := re.match(r"Expected (END|AS)\b", description)) else "something"
        reason = f"{wanted} is missing {'after' if read else 'before'} {shown(tokens[at])}"
        awaiting = at if read else at - 1
    hint = next((hint for token in (tokens[at], *reversed(tokens[max(0, at - 2) : at])) if (hint := _clause_like(token))),
                _FOLLOWS.get(tokens[awaiting].text.upper(), ""))
    before = [token.text.upper() for token in tokens[max(0, at - 2) : at]]
    if before[-1:] in (["GROUP"], ["ORDER"]):
        hint = f"{before[-1]} BY"
    if before[-1:] == ["TOP"]:
        hint = "LIMIT, at the end"
    if before[-1:] == ["BETWEEN"]:
        hint = "BETWEEN low AND high"
    if any(token.token_type is TokenType.MOD and after.start == token.end + 1 and after.text in ("s", "(")
           for token, after in itertools.pairwise(tokens[max(0, at - 4) : at + 1])):
        hint = "? for a parameter, or :name"
    return SqlError(reason, code="syntax", span=place_of(tokens[at]), try_=hint)


def _clause_like(token: Token) -> str:
    """The clause whose name a word resembles."""
    word = token.text.upper()
    if token.token_type is not TokenType.VAR or word in _CLAUSES:
        return ""
    close = difflib.get_close_matches(word, [name for name in _CLAUSES if len(name) > 2], n=1, cutoff=0.7)  # acs is not AS
    return close[0] if close else ""


def _mark_parameters(tokens: list[Token]) -> tuple[list[Token], tuple[str, ...]]:
    """Turn `?`, `$1`, `$name` and `:name` into marked identifiers; returns the names in order of appearance."""
    if not any(token.token_type in _OF_PARAMETERS for token in tokens):
        return tokens, ()
    marked: list[Token] = []
    names: list[str] = []
    at = 0
    while at < len(tokens):
        token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else None
        adjacent = following is not None and following.start == token.end + 1
        name = None
        if token.token_type is TokenType.PLACEHOLDER:
            name, width = f"?{len([known for known in names if known.startswith('?')]) + 1}", 1
        elif adjacent and following is not None and token.token_type in (TokenType.PARAMETER, TokenType.COLON) and (
                following.text.isidentifier() or (token.token_type is TokenType.PARAMETER and following.text.isdigit())):
            name, width = following.text, 2
        if name is None:
            marked.append(token)
            at += 1
            continue
        names.append(name)
        end = tokens[at + width - 1].end
        marked.append(Token(TokenType.VAR, PARAMETER + name, token.line, token.col, token.start, end))
        at += width
    return marked, tuple(names)
