"""Names of tables that begin with the database's, as dbt writes them: "study"."public"."people".

A connection is to one database, so its name says nothing. Blanks take its place, and every other character stays where it is, so
that places in errors are those of the text that was sent.
"""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.sql.text.border import SCHEMAS
from dpsql.sql.text.tokens import MOST_BYTES, Words


def without_database(text: str, database: str) -> str:
    """The statement without the name of `database` wherever a schema and another name follow it; other names stay."""
    lowered = text.lower()
    if not database or database.lower() not in lowered or len(text) > MOST_BYTES or not any(
            name in lowered for name in SCHEMAS):
        return text
    try:
        tokens = list(Words(dialect=DuckDB()).tokenize(text))
    except TokenError:  # which is refused where the statement is read
        return text
    for at in range(len(tokens) - 4):
        start, end = tokens[at].start, tokens[at + 2].start
        if _is_qualified(tokens[at:at + 5], database) and (at == 0 or tokens[at - 1].token_type is not TokenType.DOT):
            text = text[:start] + " " * (end - start) + text[end:]
    return text


def _is_qualified(tokens: list[Token], database: str) -> bool:
    """Whether these are the database, a dot, a schema of tables, a dot and a name."""
    first, dot, schema, other, _ = tokens
    return (first.token_type is not TokenType.STRING and first.text.lower() == database.lower()
            and dot.token_type is other.token_type is TokenType.DOT and schema.text.lower() in SCHEMAS)
