"""Arrays that are written as a text, as in PostgreSQL: '{1,2}', '{a,"b c",NULL}'."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from sqlglot import exp

from dpsql.errors import SqlError
from dpsql.sql.text.literals import read_text
from dpsql.sql.text.places import placed, span_of
from dpsql.sql.text.syntax import TYPES
from dpsql.types import Interval, Type

MOST_ELEMENTS = 10_000  # of a list that a client writes: no statement holds as many constants
_BLANKS = " \t\n\r\v\f"  # of PostgreSQL; others are letters of an element
_TOKEN = re.compile(
    rf"""[{_BLANKS}]*+(?:("(?:[^"\\]++|\\.)*+")[{_BLANKS}]*+|((?:[^"\\{{}},]++|\\.)++))([,}}])""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def constants_of(node: exp.Expr) -> list[exp.Expr] | None:
    """The elements of an array of constants, which may be a text, and may be cast to an array of a type: then each is a constant
    of that type. None for other expressions. Raises SqlError, located, for a text that is no such array."""
    match node:
        case exp.Array():
            return list(node.expressions)
        case exp.Literal() if node.is_string:
            return [_text(each, node) for each in _elements(node)]
        case exp.Cast(this=exp.Array() as inner) if (kind := element_type(node)) is not None:
            return [placed(exp.Cast(this=each, to=kind.copy()), span_of(each)) for each in inner.expressions]
        case exp.Cast(this=exp.Literal() as inner) if inner.is_string and (kind := element_type(node)) is not None:
            return [_of_type(each, kind, inner) for each in _elements(inner)]
    return None


def element_type(node: exp.Expr) -> exp.DataType | None:
    """The type of the elements of a cast to an array; None for other expressions."""
    kind = node.args.get("to") if isinstance(node, exp.Cast) else None
    if isinstance(kind, exp.DataType) and kind.this is exp.DType.ARRAY and len(kind.expressions) == 1 and isinstance(
            element := kind.expressions[0], exp.DataType) and element.this is not exp.DType.ARRAY:
        return element
    return None


def _elements(node: exp.Literal) -> list[str | None]:
    try:
        return in_text(node.name)
    except ValueError:
        raise SqlError("this text is no array", code="type", span=span_of(node), try_="'{1,2}'") from None


def _text(value: str | None, node: exp.Expr) -> exp.Expr:
    return placed(exp.Null() if value is None else exp.Literal.string(value), span_of(node))


_RANGES: Mapping[str, Interval] = {name: Interval(-(2**bits), 2**bits - 1)
                                   for name, bits in {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}.items()}


def _of_type(value: str | None, kind: exp.DataType, node: exp.Expr) -> exp.Expr:
    """An element as a constant of a type, which is written as a constant of this type is, so that both are one question."""
    target = TYPES.get(kind.this.name, "") if not kind.expressions else ""
    if value is None or target == "VARCHAR":
        return _text(value, node)
    if target in _RANGES:
        number = read_text(value, Type.BIGINT)
        if isinstance(number, int) and _RANGES[target].low <= number <= _RANGES[target].high:
            return placed(_number(number), span_of(node))
    elif target == "BOOLEAN" and isinstance(truth := read_text(value, Type.BOOLEAN), bool):
        return placed(exp.Boolean(this=truth), span_of(node))
    elif (target in ("DOUBLE", "FLOAT") or kind.this is exp.DType.DECIMAL) and isinstance(
            real := read_text(value, Type.DOUBLE), float) and math.isfinite(real):
        is_exact = kind.this is exp.DType.DECIMAL and not kind.expressions  # numeric, which rounds nothing
        return placed(_number(real) if is_exact else exp.Cast(this=_number(real), to=kind.copy()), span_of(node))
    elif target in ("DATE", "TIMESTAMP") and read_text(value, Type[target]) is not None:
        return placed(exp.Cast(this=_text(value, node), to=kind.copy()), span_of(node))
    raise SqlError(f"this text is no array of {target or kind.this.name}", code="type", span=span_of(node), try_="ARRAY[1, 2]")


def _number(value: float) -> exp.Expr:
    made = exp.Literal.number(repr(abs(value)))
    return exp.Neg(this=made) if value < 0 else made


class LongList(ValueError):
    """A list with more than `MOST_ELEMENTS` elements."""


def in_text(text: str) -> list[str | None]:
    """The elements of a one-dimensional {a,"b c",NULL}, in time linear in the length of the text. Raises ValueError for any other
    text."""
    inside = text.strip(_BLANKS)
    if not inside.startswith("{"):
        raise ValueError("no list")
    if re.fullmatch(rf"\{{[{_BLANKS}]*\}}", inside):
        return []
    found: list[str | None] = []
    at, ended = 1, ","
    while ended == ",":
        token = _TOKEN.match(inside, at)
        if token is None:
            raise ValueError("no element")
        if len(found) == MOST_ELEMENTS:
            raise LongList
        quoted, plain, ended = token.groups()
        found.append(_ESCAPED.sub(r"\1", quoted[1:-1]) if quoted is not None else _plain_meant(plain))
        at = token.end()
    if at != len(inside):
        raise ValueError("more than a list")
    return found


def _plain_meant(plain: str) -> str | None:
    """An element without quotes. Blanks at its end are none of it, unless a backslash is before them."""
    kept = plain.rstrip(_BLANKS)
    escapes = len(kept) - len(kept.rstrip("\\"))
    kept = plain[:len(kept) + escapes % 2]
    return None if kept.upper() == "NULL" else _ESCAPED.sub(r"\1", kept)
