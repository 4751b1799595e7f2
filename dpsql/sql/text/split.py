"""Splits a script into statements."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dpsql.sql.text.tokens import Words


def ends_whole(text: str) -> bool:
    """Whether a text ends, apart from comments, with a semicolon outside quotes, so that it is complete."""
    try:
        tokens = Words(dialect=DuckDB()).tokenize(text)
    except TokenError:
        return False
    return bool(tokens) and tokens[-1].token_type is TokenType.SEMICOLON


def split(text: str) -> list[str]:
    """The statements of a text, separated by semicolons outside comments and quotes. Empty ones are left out."""
    if ";" not in text and text.strip()[:1].isalpha():  # one for sure, whose words need not be told apart for that
        return [text.strip()]
    try:
        tokens = Words(dialect=DuckDB()).tokenize(text)
    except TokenError:
        return [text]  # the parser says what is wrong with it
    parts, start, empty = [], 0, True
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            empty = False
            continue
        if not empty:
            parts.append(text[start : token.start])
        start, empty = token.end + 1, True
    return [part.strip() for part in (parts if empty else [*parts, text[start:]])]
