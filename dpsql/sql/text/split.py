"""A script as its statements."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dpsql.sql.text.tokens import Words


def split(text: str) -> list[str]:
    """The statements of a text, which semicolons part; comments and quoted semicolons do not. Empty ones are left out."""
    try:
        tokens = Words(dialect=DuckDB()).tokenize(text)
    except TokenError:
        return [text]  # the parser says what is wrong with it
    parts, start = [], 0
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            parts.append((start, token.start))
            start = token.end + 1
    parts.append((start, len(text)))
    return [text[first:last].strip() for first, last in parts if any(
        first <= token.start < last and token.token_type is not TokenType.SEMICOLON for token in tokens)]
