"""Text to tokens, with caps on its size, and without what sqlglot reads otherwise than DuckDB."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.errors import SqlError, Unsupported
from dpsql.sql.text.places import CLOSING, OPENING
from dpsql.types import Span

MOST_BYTES, MOST_TOKENS, MOST_DEPTH = 64 * 1024, 8000, 40
_ODD = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # of control, and halves of a pair of code units
_ENDS_FROM = {TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.UNION,
              TokenType.SELECT, TokenType.QUALIFY, TokenType.WINDOW}
_BEFORE_LISTS = {*OPENING, TokenType.SELECT, TokenType.DISTINCT, TokenType.FROM, TokenType.WITH, TokenType.GROUP_BY,
                 TokenType.ORDER_BY, TokenType.VALUES, TokenType.PARTITION_BY}
_BEFORE_STAR = {*OPENING, TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL, TokenType.COMMA, TokenType.DOT,
                TokenType.RETURNING}
_AFTER_COMMA = {TokenType.COMMA, *CLOSING}
_NEVER_BESIDE = {(TokenType.ASC, TokenType.DESC), (TokenType.DESC, TokenType.ASC), (TokenType.STRING, TokenType.STRING),
                 (TokenType.GROUP_BY, TokenType.DISTINCT), *((TokenType.ALIAS, kind) for kind in (TokenType.COMMA, *CLOSING))}
_NEVER = {
    TokenType.SEMICOLON: ("one statement at a time", "many-statements", "to run the statements one after another"),
    TokenType.DAMP: ("&& is an operator of lists", "operator", "AND"),
    TokenType.CARET: ("^ means different things in different engines", "operator", "pow(a, b)"),
}
_WITHOUT_CONDITION = {"CROSS", "NATURAL", "POSITIONAL"}
_JOIN_WORDS = _WITHOUT_CONDITION | {"INNER", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "ASOF"}


class Words(DuckDB.Tokenizer):
    """DuckDB's tokens, without sqlglot's habits of taking the rest of a text after EXPLAIN or CALL as one word, and of reading
    `$1,$2` as a text between dollar signs and `?::DATE` as an operator, and of knowing operators of other engines."""

    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: kind for word, kind in DuckDB.Tokenizer.KEYWORDS.items() if word != "<=>" and not word.startswith("?")}
    HEREDOC_STRINGS: ClassVar[list[str | tuple[str, str]]] = []


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text. Raises SqlError if it is too large. Comments are dropped here."""
    if len(text.encode("utf-8", errors="replace")) > MOST_BYTES:
        raise SqlError(f"the statement is longer than {MOST_BYTES} bytes", code="too-long", span=Span(0, 1),
                       try_="parameters for long texts, or several statements")
    odd = _ODD.search(text)
    if odd is not None:
        raise SqlError("the statement contains a control character", code="bad-character", span=Span(*odd.span()),
                       try_="a space, or the text without it")
    fault = ""
    try:
        tokens = list(Words(dialect=DuckDB()).tokenize(" " + text[1:] if text.startswith("\ufeff") else text))
    except TokenError:
        fault = "a text, a quoted name or a comment is not closed"
    if fault:
        span = _unclosed(text)
        closing = "*/" if text[span.start : span.start + 2] == "/*" else text[span.start]
        raise SqlError(fault, code="syntax", span=span, try_=f"{closing} at its end")
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > MOST_TOKENS:
        raise SqlError(f"the statement has more than {MOST_TOKENS} words and signs", code="too-long",
                       span=place_of(tokens[MOST_TOKENS]), try_="several statements")
    _check_tokens(tokens)
    _check_templates(text, tokens)
    kinds = {token.token_type for token in tokens}
    for about, check in _CHECKS:
        if not kinds.isdisjoint(about):
            check(tokens)
    return tokens


def _check_templates(text: str, tokens: Sequence[Token]) -> None:
    """Refuse {# ... #}, which sqlglot takes for a comment."""
    texts = [token for token in tokens if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)]
    for found in re.finditer(r"\{#", text):
        if not any(token.start <= found.start() <= token.end for token in texts):
            raise SqlError("{# is not expected here", code="syntax", span=Span(*found.span()), try_="-- or /* for a comment")


def _check_tokens(tokens: Sequence[Token]) -> None:
    depth = 0
    for token, following in itertools.zip_longest(tokens, tokens[1:]):
        kind, after = token.token_type, following.token_type if following is not None else None
        depth += (kind in OPENING) - (kind in CLOSING)
        if depth < 0:
            raise SqlError(f"{shown(token)} closes nothing", code="syntax", span=place_of(token), try_="nothing here")
        if depth > MOST_DEPTH:
            raise SqlError(f"brackets are nested deeper than {MOST_DEPTH}", code="too-deep", span=place_of(token),
                           try_="a CTE for an inner query, or several statements")
        if (after is TokenType.COMMA and kind in _BEFORE_LISTS) or (kind is TokenType.COMMA and after in _AFTER_COMMA) or (
                (kind, after) in _NEVER_BESIDE):
            raise SqlError(f"{shown(following)} is not expected here", code="syntax", span=place_of(following))
        if after is None and kind is TokenType.ALIAS:
            raise SqlError("a name is missing after AS", code="syntax", span=place_of(token))
        if kind in _NEVER:
            reason, code, try_ = _NEVER[kind]
            raise Unsupported(reason, code=code, span=place_of(token), try_=try_)
        if following is not None and following.start == token.end + 1:
            _check_beside(token, following)
    if depth > 0:
        raise SqlError("a bracket is not closed", code="syntax", span=_open_bracket(tokens), try_=")")


def _check_beside(token: Token, following: Token) -> None:
    """Refuse prefixes of string constants to which DuckDB gives a meaning of its own."""
    if token.text == "$" and following.text == "$":
        raise Unsupported("texts between dollar signs are not accepted", code="literal", span=place_of(token),
                          try_="'text', with '' for a quote")
    if following.token_type is TokenType.AMP and token.text.upper() == "U":
        raise Unsupported("texts with Unicode escapes are not accepted", code="literal", span=place_of(token),
                          try_="the letters themselves")


def _open_bracket(tokens: Sequence[Token]) -> Span:
    """The innermost bracket that is never closed."""
    waiting: list[Token] = []
    for token in tokens:
        if token.token_type in OPENING:
            waiting.append(token)
        elif token.token_type in CLOSING:
            waiting.pop()
    return place_of(waiting[-1])


def _check_stars(tokens: Sequence[Token]) -> None:
    """Refuse FROM people *, which sqlglot reads as other engines do."""
    for at, (before, star, after) in enumerate(zip(tokens, tokens[1:], [*tokens[2:], None], strict=False)):
        last = after is None or after.token_type in {*_ENDS_FROM, *_AFTER_COMMA, TokenType.JOIN, TokenType.ON}
        if star.token_type is TokenType.STAR and last and before.token_type not in _BEFORE_STAR and not _ends_head(tokens, at):
            raise SqlError("* is not expected here", code="syntax", span=place_of(star))


def _ends_head(tokens: Sequence[Token], at: int) -> bool:
    """Whether a SELECT list begins after this token: after DISTINCT ON (...), OPTIONS (...) or WITH DIFFERENTIAL_PRIVACY."""
    depth = 0
    for place in range(at, -1, -1):
        depth += (tokens[place].token_type in CLOSING) - (tokens[place].token_type in OPENING)
        if depth == 0:
            break
    words = [token.text.upper() for token in tokens[max(0, place - 2):place]]
    return tokens[at].text.upper() == "DIFFERENTIAL_PRIVACY" or (place < at and (
        words == ["DISTINCT", "ON"] or words == ["DIFFERENTIAL_PRIVACY", "OPTIONS"]))


def _check_limits(tokens: Sequence[Token]) -> None:
    """Refuse LIMIT 3, 4, which sqlglot reads as other engines do."""
    for word, comma in zip(tokens, tokens[2:], strict=False):
        if word.token_type is TokenType.LIMIT and comma.token_type is TokenType.COMMA:
            raise SqlError("LIMIT takes one number", code="limit", span=place_of(comma), try_="LIMIT 4 OFFSET 3")


def _check_over(tokens: Sequence[Token]) -> None:
    """Refuse OVER without its window, which sqlglot reads as OVER ()."""
    for before, word, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        if word.token_type is TokenType.OVER and before.token_type in CLOSING and (
                after is None or after.token_type not in (TokenType.L_PAREN, TokenType.VAR, TokenType.IDENTIFIER)):
            raise SqlError("OVER is followed by a window", code="syntax", span=place_of(word),
                           try_="OVER (PARTITION BY k ORDER BY x)")


def _check_joins(tokens: Sequence[Token]) -> None:
    """Refuse a JOIN without its condition, which sqlglot reads as a cross join."""
    waiting: list[list[Token]] = [[]]  # the joins without condition, for each bracket that is open
    words: list[str] = []  # the words right before a JOIN that tell its kind

    def end_clause() -> None:
        if waiting[-1]:
            raise SqlError("JOIN needs a condition", code="join-condition", span=place_of(waiting[-1][-1]),
                           try_="JOIN t ON a.key = t.key, or JOIN t USING (key); CROSS JOIN for all pairs")

    for token, after, last in zip(tokens, [*tokens[1:], None], [*tokens[2:], None, None], strict=False):
        if token.token_type in OPENING:
            waiting.append([])
        elif token.token_type in CLOSING:
            end_clause()
            if len(waiting) > 1:
                waiting.pop()
        elif token.token_type is TokenType.JOIN and not _WITHOUT_CONDITION & set(words):
            waiting[-1].append(token)
        elif token.token_type in (TokenType.ON, TokenType.USING) and waiting[-1]:
            empty = after is None or (token.token_type is TokenType.USING and last is not None and last.token_type in CLOSING)
            if not empty:
                waiting[-1].pop()
        elif token.token_type in _ENDS_FROM:
            end_clause()
        words = [*words, token.text.upper()] if token.text.upper() in _JOIN_WORDS else []
    end_clause()


def _check_cases(tokens: Sequence[Token]) -> None:
    """Refuse WHEN without THEN, and WITH without AS, which sqlglot reads as if they stood there."""
    waiting: list[Token | None] = [None]  # the WHEN that has no THEN yet, for each bracket that is open
    for i, token in enumerate(tokens):
        if token.token_type in OPENING:
            waiting.append(None)
            if i >= 2 and tokens[i - 2].token_type is TokenType.WITH and tokens[i + 1].token_type in (
                    TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.VALUES):
                raise SqlError("AS is missing here", code="syntax", span=place_of(token),
                               try_=f"{tokens[i - 1].text} AS (SELECT ...)")
        elif token.token_type in CLOSING:
            waiting.pop()
        elif token.token_type is TokenType.THEN:
            waiting[-1] = None
        if token.token_type in (TokenType.WHEN, TokenType.ELSE, TokenType.END):
            if waiting[-1] is not None:
                raise SqlError("WHEN needs THEN", code="syntax", span=place_of(token),
                               try_="CASE WHEN x > 1 THEN 'a' ELSE 'b' END")
            waiting[-1] = token if token.token_type is TokenType.WHEN else None


_CHECKS: tuple[tuple[set[TokenType], Callable[[Sequence[Token]], None]], ...] = (  # with the tokens that each is about
    ({TokenType.STAR}, _check_stars), ({TokenType.LIMIT}, _check_limits), ({TokenType.JOIN}, _check_joins),
    ({TokenType.WHEN, TokenType.WITH}, _check_cases), ({TokenType.OVER}, _check_over),
)


def place_of(token: Token) -> Span:
    return Span(token.start, token.end + 1)


def shown(token: Token) -> str:
    return token.text if token.text.isprintable() and 0 < len(token.text) <= 40 else "this"


def _unclosed(text: str) -> Span:
    """Where something that is never closed begins: the last of an odd number of quotes, or the last opening of a comment."""
    for quote in ("'", '"'):
        if text.count(quote) % 2:
            at = text.rfind(quote)
            return Span(at, at + 1)
    at = max(text.rfind("/*"), 0)
    return Span(at, at + 2)
