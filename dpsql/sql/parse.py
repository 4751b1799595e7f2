"""Text to statement. sqlglot's DuckDB tokenizer and parser do the work; this module guards them.

Sizes are capped before parsing. dpsql's own words (EXPLAIN PRIVACY, the OPTIONS clause, SHOW, DESCRIBE) and parameters are
recognised among the tokens, so that every place in the tree still points into the text as it was written. Parameters become
identifiers that no text can contain; they are replaced by constants when names are bound, never by text.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError, Unsupported
from dpsql.sql.constants import is_text
from dpsql.sql.places import CLOSING, OPENING, place
from dpsql.sql.statement import PARAMETER, Describe, Explain, Option, Query, Show, Statement
from dpsql.types import Span

MOST_BYTES, MOST_TOKENS, MOST_DEPTH = 64 * 1024, 8000, 60
_QUERIES = {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.L_PAREN, TokenType.VALUES}
_FIRST_WORDS = ("SELECT", "WITH", "FROM", "EXPLAIN", "SHOW", "DESCRIBE")
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "BY", "ON", "AS", "AND", "OR", "UNION", "OFFSET",
            "USING")
_ENDS_FROM = {TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.UNION,
              TokenType.SELECT}
_WITHOUT_CONDITION = ("CROSS", "NATURAL", "POSITIONAL")


class Words(DuckDB.Tokenizer):
    """DuckDB's tokens, without sqlglot's habits of taking the rest of a text after EXPLAIN or CALL as one word, and of reading
    `$1,$2` as a text between dollar signs."""

    COMMANDS: ClassVar[set[TokenType]] = set()
    HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []


def parse(text: str) -> Statement:
    """The one statement in a text. Raises SqlError or Unsupported, located in it."""
    try:
        return _parse(text)
    except (SqlError, Unsupported) as fault:
        fault.located(text)
        raise


def _parse(text: str) -> Statement:
    tokens = _tokens(text)
    words = [token.text.upper() for token in tokens[:2]]
    if not tokens:
        raise SqlError("there is no statement", code="empty", span=Span(0, len(text)))
    if words[0] == "EXPLAIN":
        if len(words) < 2 or words[1] != "PRIVACY":
            raise Unsupported("EXPLAIN is followed by PRIVACY: it tells what a query would reveal and cost", code="explain",
                              span=_span(tokens[0]), try_="EXPLAIN PRIVACY SELECT ...")
        return Explain(query=_query(text, tokens[2:], tokens[1]))
    if words[0] == "SHOW":
        return _show(tokens)
    if words[0] in ("DESCRIBE", "DESC"):
        if len(tokens) != 2 or tokens[1].token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
            raise SqlError("DESCRIBE takes the name of one table", code="syntax", span=_span(tokens[-1]), try_="DESCRIBE people")
        return Describe(table=tokens[1].text, span=_span(tokens[1]))
    return _query(text, tokens, tokens[0])


def _tokens(text: str) -> list[Token]:
    """The tokens, after the caps on size. Comments are not tokens, so they are gone from here on."""
    if len(text.encode("utf-8", errors="replace")) > MOST_BYTES:
        raise SqlError(f"the statement is longer than {MOST_BYTES} bytes", code="too-long", span=Span(0, 1))
    odd = next((i for i, letter in enumerate(text) if (letter < " " and letter not in "\t\n\r") or not is_text(letter)), None)
    if odd is not None:
        raise SqlError("the statement contains a control character", code="bad-character", span=Span(odd, odd + 1))
    fault = ""
    try:
        tokens = list(Words(dialect=DuckDB()).tokenize(text))
    except TokenError:
        fault = "a text, a quoted name or a comment is not closed"
    if fault:
        raise SqlError(fault, code="syntax", span=_unclosed(text))
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > MOST_TOKENS:
        raise SqlError(f"the statement has more than {MOST_TOKENS} words and signs", code="too-long",
                       span=_span(tokens[MOST_TOKENS]))
    _check_tokens(tokens)
    _check_joins(tokens)
    return tokens


def _check_tokens(tokens: Sequence[Token]) -> None:
    depth = 0
    for token, following in itertools.zip_longest(tokens, tokens[1:]):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth > MOST_DEPTH:
            raise SqlError(f"brackets are nested deeper than {MOST_DEPTH}", code="too-deep", span=_span(token))
        if token.token_type is TokenType.SEMICOLON:
            raise Unsupported("one statement at a time", code="many-statements", span=_span(token),
                              try_="to run the statements one after another")
        if token.token_type is TokenType.CARET:
            raise Unsupported("^ means different things in different engines", code="operator", span=_span(token),
                              try_="pow(a, b)")
        if token.text == "$" and following is not None and following.start == token.end + 1 and following.text == "$":
            raise Unsupported("texts between dollar signs are not accepted", code="literal", span=_span(token),
                              try_="'text', with '' for a quote")
        if token.text.upper() == "U" and following is not None and following.token_type is TokenType.AMP and (
                following.start == token.end + 1):
            raise Unsupported("texts with Unicode escapes are not accepted", code="literal", span=_span(token),
                              try_="the letters themselves")


def _check_joins(tokens: Sequence[Token]) -> None:
    """Refuse a JOIN without its condition, which sqlglot reads as a cross join."""
    waiting: list[list[Token]] = [[]]  # the joins without condition, for each bracket that is open

    def end_clause() -> None:
        if waiting[-1]:
            raise SqlError("JOIN needs a condition", code="join-condition", span=_span(waiting[-1][-1]),
                           try_="JOIN t ON a.key = t.key, or JOIN t USING (key); CROSS JOIN for all pairs")

    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.token_type in OPENING:
            waiting.append([])
        elif token.token_type in CLOSING:
            end_clause()
            if len(waiting) > 1:
                waiting.pop()
        elif token.token_type is TokenType.JOIN and (before is None or before.text.upper() not in _WITHOUT_CONDITION):
            waiting[-1].append(token)
        elif token.token_type in (TokenType.ON, TokenType.USING) and waiting[-1] and token is not tokens[-1]:
            waiting[-1].pop()
        elif token.token_type in _ENDS_FROM:
            end_clause()
    end_clause()


def _show(tokens: Sequence[Token]) -> Show:
    known = {"BUDGET": "budget", "RELEASES": "releases", "TABLES": "tables"}
    word = tokens[1].text.upper() if len(tokens) == 2 else ""
    if word not in known:
        raise SqlError("SHOW takes BUDGET, RELEASES or TABLES", code="syntax", span=_span(tokens[-1]), try_="SHOW BUDGET")
    return Show(what=known[word])


def _query(text: str, tokens: Sequence[Token], before: Token) -> Query:
    if not tokens:
        raise SqlError("a query is missing here", code="syntax", span=_span(before), try_="SELECT ...")
    if tokens[0].token_type not in _QUERIES:
        raise _not_a_query(tokens[0])
    rest, options = _take_options(list(tokens))
    marked, parameters = _mark_parameters(rest)
    tree = _tree(text, marked)
    return Query(tree=tree, text=text, options=options, parameters=parameters)


def _not_a_query(first: Token) -> Unsupported:
    close = difflib.get_close_matches(first.text.upper(), _FIRST_WORDS, n=1, cutoff=0.7)
    return Unsupported("only queries are answered", code="not-a-query", span=_span(first),
                       try_=close[0] if close else "a SELECT; also EXPLAIN PRIVACY, SHOW and DESCRIBE")


def _tree(text: str, tokens: list[Token]) -> exp.Query:
    parser = DuckDB().parser(error_level=sqlglot.ErrorLevel.IMMEDIATE)
    problem: SqlError | Unsupported | None = None
    trees: list[exp.Expr | None] = []
    try:
        trees = list(parser.parse(tokens, text))
    except ParseError as fault:
        problem = _syntax_error(fault, tokens)
    except RecursionError:
        problem = SqlError("the statement is nested too deeply", code="too-deep", span=_span(tokens[0]))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # the parser itself failed on odd text
        problem = SqlError("this is not a query that can be read", code="syntax", span=Span(tokens[0].start, tokens[-1].end + 1))
    if problem is not None:
        raise problem
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise _not_a_query(tokens[0])
    place(trees[0], tokens)
    return trees[0]


def _syntax_error(fault: ParseError, tokens: Sequence[Token]) -> SqlError:
    """What the parser stumbled over: the word it was at, and a clause that a word before it may have been meant for."""
    details = fault.errors[0] if fault.errors else {}
    found = [i for i, token in enumerate(tokens) if (token.line, token.col) == (details.get("line"), details.get("col"))]
    at = found[0] if found else len(tokens) - 1
    description = str(details.get("description") or "")
    reason = f"{_shown(tokens[at])} is not expected here"
    if description.startswith("Expecting "):
        reason = f"{description[len('Expecting '):].strip('.')} is expected here"
    elif description.startswith(("Required keyword", "Expected")):
        reason = f"something is missing after {_shown(tokens[at])}"
    hint = next((hint for token in (tokens[at], *reversed(tokens[max(0, at - 2) : at])) if (hint := _clause_like(token))), "")
    if at and tokens[at - 1].text.upper() in ("GROUP", "ORDER"):
        hint = f"{tokens[at - 1].text.upper()} BY"
    return SqlError(reason, code="syntax", span=_span(tokens[at]), try_=hint)


def _shown(token: Token) -> str:
    return token.text if token.text.isprintable() and 0 < len(token.text) <= 40 else "this"


def _clause_like(token: Token) -> str:
    """A clause that a word looks like without being it."""
    word = token.text.upper()
    if token.token_type is not TokenType.VAR or word in _CLAUSES:
        return ""
    close = difflib.get_close_matches(word, _CLAUSES, n=1, cutoff=0.7)
    return close[0] if close else ""


def _take_options(tokens: list[Token]) -> tuple[list[Token], tuple[Option, ...]]:
    """Cut WITH DIFFERENTIAL_PRIVACY [OPTIONS (...)] out, right after the outermost SELECT."""
    found = [i for i, token in enumerate(tokens) if token.text.upper() == "DIFFERENTIAL_PRIVACY" and i >= 2
             and tokens[i - 1].token_type is TokenType.WITH and tokens[i - 2].token_type is TokenType.SELECT]
    if not found:
        _check_mistyped(tokens)
        return tokens, ()
    at = found[0]
    if len(found) > 1:
        raise SqlError("a statement has one clause of options", code="options", span=_span(tokens[found[1]]),
                       try_="all options after the first SELECT")
    leading = next(i for i, token in enumerate(tokens) if token.token_type is not TokenType.L_PAREN)
    if _depth(tokens[:at]) > leading:
        raise SqlError("options belong to the outermost SELECT: a statement has one price", code="options",
                       span=_span(tokens[at]), try_="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ... FROM (SELECT ...)")
    end = at + 1
    options: list[Option] = []
    if end < len(tokens) and tokens[end].text.upper() == "OPTIONS":
        end, options = _option_list(tokens, end + 1)
    return tokens[: at - 1] + tokens[end:], tuple(options)


def _check_mistyped(tokens: Sequence[Token]) -> None:
    for i, token in enumerate(tokens[2:], start=2):
        if tokens[i - 1].token_type is TokenType.WITH and tokens[i - 2].token_type is TokenType.SELECT and (
                difflib.get_close_matches(token.text.upper(), ["DIFFERENTIAL_PRIVACY"])):
            raise SqlError(f"{_shown(token)} is not expected here", code="options", span=_span(token),
                           try_="DIFFERENTIAL_PRIVACY")


def _depth(tokens: Sequence[Token]) -> int:
    return sum((token.token_type in OPENING) - (token.token_type in CLOSING) for token in tokens)


def _option_list(tokens: Sequence[Token], at: int) -> tuple[int, list[Option]]:
    """Read `(name = value, ...)` from position `at`; returns the position after it."""
    form = "OPTIONS (epsilon = 0.5, confidence = 0.9)"

    def expect(kind: TokenType | None, what: str) -> Token:
        nonlocal at
        if at >= len(tokens) or (kind is not None and tokens[at].token_type is not kind):
            raise SqlError(f"{what} is expected here", code="options", span=_span(tokens[min(at, len(tokens) - 1)]), try_=form)
        at += 1
        return tokens[at - 1]

    expect(TokenType.L_PAREN, "(")
    options: list[Option] = []
    if tokens[at : at + 1] and tokens[at].token_type is TokenType.R_PAREN:
        return at + 1, options
    while True:
        name = expect(None, "the name of an option")
        expect(TokenType.EQ, "=")
        first = expect(None, "a value")
        sign = -1 if first.token_type is TokenType.DASH else 1
        value = expect(None, "a number") if sign < 0 else first
        options.append(Option(name=name.text.lower(), value=_constant(value, sign, form), span=Span(name.start, value.end + 1)))
        closing = expect(None, ", or )")
        if closing.token_type is TokenType.R_PAREN:
            return at, options
        if closing.token_type is not TokenType.COMMA:
            raise SqlError(", or ) is expected here", code="options", span=_span(closing), try_=form)


def _constant(token: Token, sign: int, form: str) -> bool | int | float | str:
    if token.token_type is TokenType.NUMBER:
        return _number(token, sign, form)
    if sign > 0 and token.token_type is TokenType.STRING:
        return token.text
    if sign > 0 and token.token_type in (TokenType.TRUE, TokenType.FALSE):
        return token.token_type is TokenType.TRUE
    raise SqlError("the value of an option is a constant", code="options", span=_span(token), try_=form)


def _number(token: Token, sign: int, form: str) -> int | float:
    text = token.text.replace("_", "")
    try:
        return sign * (int(text) if text.isdigit() else float(text))
    except ValueError:
        pass
    raise SqlError("this is not a number", code="options", span=_span(token), try_=form)


def _mark_parameters(tokens: list[Token]) -> tuple[list[Token], tuple[str, ...]]:
    """Turn `?`, `$1`, `$name` and `:name` into marked identifiers; returns the names in order of appearance."""
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


def _span(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def _unclosed(text: str) -> Span:
    """Where what is never closed begins: the last quote of an odd number of them, or the last sign of a comment."""
    for quote in ("'", '"'):
        if text.count(quote) % 2:
            at = text.rfind(quote)
            return Span(at, at + 1)
    at = max(text.rfind("/*"), 0)
    return Span(at, at + 2)
