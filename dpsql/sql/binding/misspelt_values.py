"""Texts that a column is compared with, and that are almost, but not quite, among its declared values: they are slips of the pen,
and the statement would be charged for counting nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.errors import SqlError
from dpsql.sql.binding.typing import Env
from dpsql.sql.text.spelling import closest
from dpsql.trusted.plan.expr.nodes import Expr, Literal, Ref
from dpsql.types import Type

DIGITS = str.maketrans("", "", "0123456789")


def check_spelling(compared: Sequence[Expr], env: Env) -> None:
    """Raises SqlError, located, if a text is compared with a column one of whose declared values was probably meant.

    Texts that differ in their digits alone, as 'ward 11' from 'ward 12', are not taken for slips.
    """
    for column in (part.column for part in compared if isinstance(part, Ref) and part.type is Type.VARCHAR):
        listed = env[column].domain
        for text in (part for part in compared if isinstance(part, Literal) and isinstance(part.value, str)):
            if listed is not None and text.value not in listed.values:
                meant = _meant(str(text.value), [str(value) for value in listed.values])
                if meant:
                    raise SqlError(f"'{text.value}' is not a declared value of this column", code="undeclared-value",
                                   span=text.span, subject=str(text.value), try_="'" + meant.replace("'", "''") + "'")


def _meant(text: str, values: Sequence[str]) -> str:
    meant = closest(text.strip(), values, cutoff=0.75)
    return meant if meant.translate(DIGITS).lower() != text.translate(DIGITS).lower() or meant.lower() == text.lower() else ""
