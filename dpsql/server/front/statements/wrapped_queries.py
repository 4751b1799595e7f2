"""Queries as DuckDB's connector wraps them: SELECT "n" FROM (query) AS __unnamed_subquery, with LIMIT where it wants few rows.

Which columns it names, and in which order, depends on what DuckDB does with the answer afterwards. Asked as they stand, such
texts would be so many statements with a price each; and options and accuracies, which belong to the outermost SELECT, would be
refused. So the query inside is asked alone, and columns are picked from its answer, which is one answer whatever is picked.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dpsql.frozen import Frozen

_ALIAS = "__unnamed_subquery"


class WrappedQuery(Frozen):
    """The query inside is what stands from the character `start` to before `end`; `picked` are the names of the columns that are
    taken of its answer, and `most` how many rows, None for all."""

    start: int
    end: int
    picked: tuple[str, ...]
    most: int | None


def wrapped_query(tokens: Sequence[Token]) -> WrappedQuery | None:
    """The inner query that a query of these tokens wraps; None if it wraps none."""
    most: int | None = None
    if len(tokens) > 2 and tokens[-2].token_type is TokenType.LIMIT and tokens[-1].text.isdigit():
        tokens, most = tokens[:-2], int(tokens[-1].text)
    begin = next((at for at, token in enumerate(tokens) if token.token_type is TokenType.L_PAREN), 0)
    if begin < 3 or len(tokens) < begin + 5 or tokens[-1].text != _ALIAS or [token.token_type for token in tokens[-3:-1]] != [
            TokenType.R_PAREN, TokenType.ALIAS] or not _is_balanced(tokens[begin + 1:-3]):
        return None
    kinds = [token.token_type for token in tokens[:begin]]
    number = (begin - 1) // 2
    if kinds != [TokenType.SELECT, *[TokenType.IDENTIFIER, TokenType.COMMA] * (number - 1), TokenType.IDENTIFIER, TokenType.FROM]:
        return None
    return WrappedQuery(start=int(tokens[begin].end) + 1, end=int(tokens[-3].start), most=most,
                        picked=tuple(token.text for token in tokens[1:begin:2]))


def _is_balanced(tokens: Sequence[Token]) -> bool:
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth < 0:
            return False
    return depth == 0
