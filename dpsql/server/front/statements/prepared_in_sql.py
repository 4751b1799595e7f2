"""Prepared statements in SQL: PREPARE and EXECUTE.

The syntax is that of PostgreSQL. It is parsed here, as sqlglot does not parse these statements. The arguments of EXECUTE are
constants, or expressions of constants; each becomes a value of its parameter's type as in an assignment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.frozen import Frozen
from dpsql.server.front.catalogue.catalog_facts import type_oids
from dpsql.server.front.statements.transaction_status import NAME, blanked, first_word, name_meant, start_of
from dpsql.server.front.terms import types_on_wire
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire

WORDS = "PREPARE", "EXECUTE"
QUERIES = "SELECT", "VALUES", "WITH", "TABLE", "FROM", ""  # the first words of what can be prepared
_IN_PARENTHESES = r"\((?P<inside>(?:[^()]|\([^()]*+\))*+)\)"
_PREPARE = re.compile(rf"PREPARE\s+{NAME}\s*+(?:{_IN_PARENTHESES}\s*+)?\bAS\b\s*+(?P<query>.+)", re.IGNORECASE | re.DOTALL)
_EXECUTE = re.compile(rf"EXECUTE\s+{NAME}\s*+(?P<given>\(.*\))?[\s;]*+", re.IGNORECASE | re.DOTALL)
_ALIASES = {"int": "integer", "decimal": "numeric", "float": "double precision", "timestamp": "timestamp without time zone",
            "string": "text"}
_OF_QUERIES = (TokenType.SELECT, TokenType.FROM, TokenType.UNION, TokenType.WITH, TokenType.TABLE, TokenType.VALUES)
_OPEN, _CLOSED = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)
_NUMBERS = ("BIGINT", "HUGEINT", "OID", "DECIMAL", "NUMERIC", "DOUBLE")
_DAYS = ("DATE", "TIMESTAMP")


class PreparedInSql(Frozen):
    """A PREPARE: the numbers of the types that it states, and its query, which begins at the character `start` of the text."""

    name: str
    oids: tuple[int, ...]
    query: str
    start: int


class ExecuteArgument(Frozen):
    """An argument of EXECUTE as it is written. `kind` is that of a constant, None of a text or NULL, which take any type; an
    expression has no `constant`."""

    text: str
    constant: bool
    value: str | None = None
    kind: str | None = None


class ExecutedInSql(Frozen):
    """An EXECUTE."""

    name: str
    arguments: tuple[ExecuteArgument, ...]


def prepared_in_sql(text: str) -> PreparedInSql:
    """What a PREPARE says. Raises RefusedOnWire for a syntax error, or an unknown type."""
    found = _PREPARE.fullmatch(blanked(text), start_of(text))
    if found is None or first_word(found["query"]) not in QUERIES:
        raise _wrong("PREPARE name (bigint) AS SELECT ... WHERE x > $1")
    start, query = found.start("query"), found["query"].rstrip()
    types = re.sub(r"\([^()]*+\)", "", found["inside"]).split(",") if found["inside"] is not None else []  # without (10, 2)
    return PreparedInSql(name=name_meant(found["name"]), oids=tuple(map(_oid, types)), query=text[start:start + len(query)],
                         start=start)


def _oid(name: str) -> int:
    """The number of a type by its name in SQL."""
    plain = " ".join(name.lower().split()).replace(" [", "[").removeprefix("pg_catalog.")
    element, known = plain.removesuffix("[]"), type_oids()
    found = known.get(_ALIASES.get(element, element) + "[]" * plain.endswith("[]"))
    if not plain:
        raise _wrong("PREPARE name (bigint) AS SELECT ... WHERE x > $1")
    if found is None:
        raise RefusedOnWire(f"type \"{name.strip()}\" does not exist", sqlstate="42704")
    return found


def executed_in_sql(text: str) -> ExecutedInSql:
    """What an EXECUTE says. Raises RefusedOnWire for a syntax error."""
    found = _EXECUTE.fullmatch(blanked(text), start_of(text))
    if found is None:
        raise _wrong("EXECUTE name (1, 'text')")
    start, end = found.span("given") if found["given"] is not None else (0, 0)
    return ExecutedInSql(name=name_meant(found["name"]), arguments=tuple(_arguments(text[start:end])))


def _arguments(text: str) -> list[ExecuteArgument]:
    """The arguments in parentheses, apart."""
    if not text:
        return []
    try:
        tokens = Postgres().tokenize(text)
    except TokenError:
        raise _wrong("EXECUTE name (1, 'text')") from None
    parts: list[list[Token]] = [[]]
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSED)
        if depth == 0 and at != len(tokens) - 1:
            raise _wrong("EXECUTE name (1, 'text')")
        if depth == 1 and token.token_type is TokenType.COMMA:
            parts.append([])
        elif 0 < at < len(tokens) - 1:
            parts[-1].append(token)
    if depth or not all(parts):
        raise _wrong("EXECUTE name (1, 'text')")
    return [_argument(part, text) for part in parts]


def _argument(tokens: Sequence[Token], text: str) -> ExecuteArgument:
    written = text[tokens[0].start:tokens[-1].end + 1]
    sign, last = [token.token_type for token in tokens[:-1]], tokens[-1]
    kind = last.token_type
    if kind is TokenType.NUMBER and sign in ([], [TokenType.DASH], [TokenType.PLUS]):
        value = f"{'-' * (TokenType.DASH in sign)}{last.text}"
        return ExecuteArgument(text=written, constant=True, value=value, kind="BIGINT" if last.text.isdigit() else "DECIMAL")
    if not sign and kind is TokenType.STRING:
        return ExecuteArgument(text=written, constant=True, value=last.text)
    if not sign and kind is TokenType.NULL:
        return ExecuteArgument(text=written, constant=True)
    if not sign and kind in (TokenType.TRUE, TokenType.FALSE):
        return ExecuteArgument(text=written, constant=True, value="t" if kind is TokenType.TRUE else "f", kind="BOOLEAN")
    if any(token.token_type in _OF_QUERIES for token in tokens):
        raise RefusedOnWire("cannot use subquery in EXECUTE parameter", sqlstate="0A000")
    return ExecuteArgument(text=written, constant=False)


def assigned(value: Any, kind: str | None, oid: int, wanted: str, place: int) -> object:
    """The value of parameter `$place`, of the type `oid` and a `wanted` kind, given a value of a kind; a text of
    kind None may be of any type. Raises RefusedOnWire."""
    if value is None:
        return None
    if kind is None:
        return types_on_wire.read(value.encode(), types_on_wire.TEXT, oid, wanted, place)
    if kind in _NUMBERS and wanted in _NUMBERS:
        value = _rounded(value, kind, place) if wanted == "BIGINT" else value
    elif kind != wanted and wanted != "VARCHAR" and not (kind in _DAYS and wanted in _DAYS):
        raise RefusedOnWire(f"parameter ${place} cannot be coerced to the expected type", sqlstate="42804",
                            hint="You will need to rewrite or cast the expression.")
    text = value.encode() if isinstance(value, str) else types_on_wire.written(value, kind, types_on_wire.TEXT)
    return types_on_wire.read(text, types_on_wire.TEXT, oid, wanted, place)


def _rounded(value: Any, kind: str, place: int) -> str:
    """A number as a whole one, as PostgreSQL rounds it: halves of doubles to the even one, of others away from zero."""
    if not Decimal(value).is_finite() or Decimal(value).adjusted() > 18:
        raise RefusedOnWire(f"parameter ${place} is out of the range of bigint", sqlstate="22003")
    if kind == "DOUBLE":
        return str(round(value))
    return str(Decimal(value).to_integral_value(ROUND_HALF_UP))


def _wrong(form: str) -> RefusedOnWire:
    return RefusedOnWire("this statement is not written as it should be", sqlstate="42601", hint=f"try {form}")
