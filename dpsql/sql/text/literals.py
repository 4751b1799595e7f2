"""Turns Python values and texts into typed constants."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TypeAlias

import numpy as np

from dpsql.errors import DataError
from dpsql.sql.text.durations import Duration
from dpsql.trusted.plan.expr.nodes import Literal, Value
from dpsql.types import INT64, Span, Type, read_boolean

ParameterValue: TypeAlias = Value | tuple[Value, ...] | dt.timedelta | Duration
"""What is given for a parameter: a value, a list of values for ANY and ALL, or a duration that is added to a date."""

_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_MOMENT = re.compile(_DATE.pattern + r"[ T]([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?")


def constant(value: Value | Decimal | np.generic, span: Span | None = None) -> Literal:
    """A Python value as a typed constant. Raises DataError if that is impossible.

    A subclass may override anything, so what is kept, and later printed, is a value of the plain type.
    """
    match value:
        case None:
            return Literal(value=None, type=Type.VARCHAR, span=span)
        case bool():
            return Literal(value=value, type=Type.BOOLEAN, span=span)
        case int():
            number = int.__int__(value)
            if not INT64.low <= number <= INT64.high:
                raise DataError("a parameter does not fit into 64 bits", span=span, try_="a float")
            return Literal(value=number, type=Type.BIGINT, span=span)
        case np.bool_() | np.integer():
            return constant(value.item(), span)
        case float():
            return Literal(value=float.__float__(value), type=Type.DOUBLE, span=span)
        case np.floating():
            return Literal(value=float(value), type=Type.DOUBLE, span=span)
        case Decimal() if not value.is_snan():
            return Literal(value=float(value), type=Type.DOUBLE, span=span)
        case str():
            text = str.__str__(value)
            if not is_text(text):
                raise DataError("a parameter contains an impossible character", span=span, try_="the text without it")
            return Literal(value=text, type=Type.VARCHAR, span=span)
        case dt.datetime():
            if value != value:  # pandas' NaT
                return constant(None, span)
            if value.tzinfo is not None:
                raise DataError("a parameter has a time zone, but columns have none", span=span,
                                try_="moment.astimezone(zone).replace(tzinfo=None)")
            return Literal(value=dt.datetime.combine(value.date(), value.time()), type=Type.TIMESTAMP, span=span)
        case dt.date():
            return Literal(value=dt.date(value.year, value.month, value.day), type=Type.DATE, span=span)
        case other:
            raise DataError(f"a parameter cannot be of type {type(other).__name__}", span=span,
                            try_="None, or a bool, int, float, Decimal, str, date or datetime")


def is_text(value: str) -> bool:
    """Whether a string can be sent to an engine: it contains no NUL and no unpaired surrogate."""
    return "\x00" not in value and not any("\ud800" <= letter <= "\udfff" for letter in value)


def whole_number(text: str) -> int | None:
    """The number that digits represent, None for other texts. Beyond 64 bits, some large number is returned, as Python does not
    read very long ones."""
    if re.fullmatch("[0-9]+", text) is None:
        return None
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= len(str(INT64.high)) else 10 ** len(str(INT64.high))


def read_text(text: str, wanted: Type) -> Value:
    """A text constant converted to another type, as in born >= '2020-01-01'; None if it is not a value of that type."""
    text = text.strip()
    try:
        match wanted:
            case Type.BIGINT if _WHOLE.fullmatch(text):
                number = int(text)
                return number if INT64.low <= number <= INT64.high else None
            case Type.DOUBLE if _REAL.fullmatch(text):
                return float(text)
            case Type.DATE if found := _DATE.fullmatch(text):
                return dt.date(*map(int, found.groups()))
            case Type.TIMESTAMP if found := _DATE.fullmatch(text) or _MOMENT.fullmatch(text):
                year, month, day, *rest = (part or "0" for part in found.groups())
                hour, minute, second, fraction = rest or ["0"] * 4
                return dt.datetime(int(year), int(month), int(day), int(hour), int(minute), int(second),
                                   int(fraction.ljust(6, "0")))
            case Type.BOOLEAN:
                return read_boolean(text)
    except ValueError:  # no such day
        pass
    return None
