"""Kinds of values as PostgreSQL has them: numbers of types, and values as text and in binary, both ways.

Dates and timestamps are Python's, and beyond what Python has, texts as PostgreSQL writes them: ``infinity``, ``10000-01-01``,
``0044-03-15 BC``. So they are in both directions: `written` takes such texts, and `read` gives them.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.terms.lists_on_wire import ELEMENTS, LIST_OIDS, in_binary, list_binary, list_text
from dpsql.sql.text.array_texts import MOST_ELEMENTS, LongList, in_text
from dpsql.sql.text.durations import Duration, duration_of, read_duration
from dpsql.types import read_boolean

TEXT, BINARY = 0, 1
OIDS = {"BIGINT": 20, "OID": 26, "HUGEINT": 1700, "DECIMAL": 1700, "DOUBLE": 701, "BOOLEAN": 16, "VARCHAR": 25, "DATE": 1082,
        "TIMESTAMP": 1114, **LIST_OIDS, "NUMERIC[]": 1231, "INTERVAL": 1186}
SIZES = {"BIGINT": 8, "DOUBLE": 8, "BOOLEAN": 1, "DATE": 4, "TIMESTAMP": 8}  # bytes; others are of variable length

_INT2, _INT4, _INT8, _FLOAT4, _FLOAT8, _NUMERIC = 21, 23, 20, 700, 701, 1700
UNKNOWN, _MOMENT, _UUID, _DURATION = 705, 1184, 2950, 1186
_TEXTS = (25, 1043, 1042, 19)  # text, varchar, bpchar, name
GIVEN: dict[int, str | None] = {0: None, UNKNOWN: None, _INT2: "BIGINT", _INT4: "BIGINT", _INT8: "BIGINT", _FLOAT4: "DOUBLE",
                                _FLOAT8: "DOUBLE", _NUMERIC: "NUMERIC", 16: "BOOLEAN", 1082: "DATE", 1114: "TIMESTAMP",
                                _MOMENT: "TIMESTAMP", _UUID: "VARCHAR", 26: "BIGINT", _DURATION: "INTERVAL",
                                **dict.fromkeys(_TEXTS, "VARCHAR")}
"""The kinds that clients' types of parameters state. NUMERIC is one of parameters alone: a whole number or a double. A moment
with a time zone is one of UTC, which is the time zone of all answers."""
_ELEMENTS: dict[int, int] = {1005: _INT2, 1007: _INT4, 1016: _INT8, 1021: _FLOAT4, 1022: _FLOAT8, 1231: _NUMERIC, 1000: 16,
                             1182: 1082, 1115: 1114, 1185: _MOMENT, 2951: _UUID, 1028: 26,
                             **dict(zip((1009, 1015, 1014, 1003), _TEXTS, strict=True))}
"""The types of elements by those of arrays, which are the values of parameters alone."""
GIVEN.update({array: f"{GIVEN[element]}[]" for array, element in _ELEMENTS.items()})

_EPOCH = dt.datetime(2000, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_DAY = 86_400_000_000  # microseconds
_DATE_ENDS = {2**31 - 1: "infinity", -(2**31): "-infinity"}
_TIME_ENDS = {2**63 - 1: "infinity", -(2**63): "-infinity"}
_FIRST_DAY, _LAST_DAY = -2_451_545, 2_145_031_948  # days since 2000 of PostgreSQL's first and last date
_FIRST_MOMENT, _LAST_MOMENT = -211_813_488_000_000_000, 9_223_371_331_200_000_000 - 1
_LONGEST_NUMBER = 400  # characters; a double in full has fewer than 330 before its point
_HUGE = 2**127  # HUGEINT lies below
_RANGES = {"HUGEINT": range(1 - _HUGE, _HUGE), "BIGINT": range(-(2**63), 2**63), "OID": range(2**32)}
_LENGTHS = {_INT2: 2, _INT4: 4, _INT8: 8, _FLOAT4: 4, _FLOAT8: 8, 16: 1, 1082: 4, 1114: 8, _MOMENT: 8, _UUID: 16, 26: 4,
            _DURATION: 16}
"""Bytes that values take in binary, by the number of their type."""
MOST_DIGITS = 38  # of a decimal, before its point and after it


class _Malformed(Exception):
    """A value that is none of its type; never leaves this file."""


# -- from the client


def kinds_given(oids: list[int]) -> list[str | None]:
    """The types that a client states for parameters. Raises RefusedOnWire for an unsupported type."""
    for place, oid in enumerate(oids, start=1):
        if oid not in GIVEN:
            raise RefusedOnWire(f"parameter ${place} is of a type that is not accepted (its number is {oid})", sqlstate="0A000",
                                hint="numbers, booleans, texts, dates, timestamps, intervals, uuids, and arrays of most of these")
    return [GIVEN[oid] for oid in oids]


def read(value: bytes | None, form: int, oid: int, kind: str, place: int) -> object:
    """The Python value of parameter `$place`, converted from the client's type `oid` to a column type.

    Raises RefusedOnWire: 22P02 (22007 of moments) for malformed text, 22P03 for malformed binary, 22003 or 22008 for what the
    kind does not hold.
    """
    if value is None:
        return None
    written_as = OIDS[kind] if oid in (0, UNKNOWN) else oid
    if kind.endswith("[]"):
        return _read_list(value, form, written_as, kind, place)
    try:
        if form == TEXT:
            found = _of_text(value, written_as)
        else:
            found = _OF_BINARY[written_as](value)
        return _in_kind(found, kind, place)
    except (_Malformed, struct.error, UnicodeDecodeError):
        if form == BINARY and len(value) < _LENGTHS.get(written_as, 0):
            raise RefusedOnWire(f"parameter ${place} is too short for its type", sqlstate="08P01") from None
        raise _malformed(form, place, _state_of_moment(value) if form == TEXT and kind in _MOMENTS else "") from None


_MOMENTS = ("DATE", "TIMESTAMP", "INTERVAL")


def _state_of_moment(value: bytes) -> str:
    """The SQLSTATE of PostgreSQL for a text that is no moment: one has its form, but names a day or time that there is not."""
    text = value.decode("utf-8", "replace").strip()
    return "22008" if _DATE.fullmatch(text) or _TIME.fullmatch(text) else "22007"


def _read_list(value: bytes, form: int, oid: int, kind: str, place: int) -> tuple[object, ...]:
    """A list, whose elements are read one by one."""
    element = _ELEMENTS.get(oid)
    elements: Sequence[bytes | None]
    try:
        if form == TEXT:
            elements = [None if each is None else each.encode() for each in in_text(value.decode("utf-8"))]
        else:
            told, elements = in_binary(value)
            element = told if elements and told in _ELEMENTS.values() else element
    except LongList:
        raise RefusedOnWire(f"parameter ${place} is a list of more than {MOST_ELEMENTS:,} values", sqlstate="54000") from None
    except (ValueError, struct.error):
        raise _malformed(form, place) from None
    if element is None:
        raise RefusedOnWire(f"parameter ${place} is no list", sqlstate="42804")
    return tuple(read(each, form, element, kind.removesuffix("[]"), place) for each in elements)


def _malformed(form: int, place: int, sqlstate: str = "") -> RefusedOnWire:
    return RefusedOnWire(f"parameter ${place} is malformed: it is no {'text' if form == TEXT else 'binary'} of its type",
                         sqlstate=sqlstate or ("22P02" if form == TEXT else "22P03"))


def _in_kind(value: Any, kind: str, place: int) -> object:
    """A value that was read, as its kind has it: whole numbers from decimals, doubles from numbers."""
    match kind:
        case "BIGINT" | "HUGEINT" | "OID":
            whole = _whole(value)
            if whole is not None and whole in _RANGES[kind]:
                return whole
            raise RefusedOnWire(f"parameter ${place} is no whole number in the range of {kind.lower()}", sqlstate="22003")
        case "DECIMAL" if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            number = Decimal(value)
            if not number.is_finite() or number.adjusted() >= MOST_DIGITS or int(number.as_tuple().exponent) < -MOST_DIGITS:
                raise RefusedOnWire(f"parameter ${place} is not finite, or has more than {MOST_DIGITS} digits", sqlstate="22003",
                                    hint="send a double")
            return number
        case "NUMERIC" if (whole := _whole(value)) is not None and whole in _RANGES["BIGINT"]:
            return whole
        case "DOUBLE" | "NUMERIC" if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise RefusedOnWire(f"parameter ${place} is out of range", sqlstate="22003") from None
        case "BOOLEAN" if isinstance(value, bool):
            return value
        case "VARCHAR":
            return value if isinstance(value, str) else str(value)
        case "DATE":
            if isinstance(value, dt.datetime):
                return value.date()
            if isinstance(value, dt.date):
                return value
            if isinstance(value, str):
                return _date_of_text(value)
        case "TIMESTAMP":
            if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
                return dt.datetime(value.year, value.month, value.day)
            if isinstance(value, dt.datetime):
                return value
            if isinstance(value, str):
                return _time_of_text(value)
        case "INTERVAL":
            found = duration_of(value)
            if found is None:
                raise _Malformed
            return found
    raise RefusedOnWire(f"parameter ${place} is no {kind.lower()}", sqlstate="42804")


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < 40 and value == value.to_integral_value():
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < _HUGE:
        return int(value)
    return None


def _of_text(value: bytes, oid: int) -> object:
    text = value.decode("utf-8")
    if "\0" in text:
        raise _Malformed
    if oid in _TEXTS:
        return text
    return _OF_TEXT[oid](text.strip())


def _int_of_text(text: str) -> int:
    if len(text) > _LONGEST_NUMBER or not re.fullmatch(r"[+-]?[0-9]+", text):
        raise _Malformed
    return int(text)


_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,6})?")
_NOT_FINITE = {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "+infinity": math.inf, "+inf": math.inf,
               "-infinity": -math.inf, "-inf": -math.inf}


def _float_of_text(text: str) -> float:
    if (special := _NOT_FINITE.get(text.lower())) is not None:
        return special
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        raise _Malformed
    return float(text)


def _decimal_of_text(text: str) -> Decimal | float:
    if (special := _NOT_FINITE.get(text.lower())) is not None:
        return special
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        raise _Malformed
    return Decimal(text)


def _bool_of_text(text: str) -> bool:
    found = read_boolean(text)
    if found is None:
        raise _Malformed
    return found


_ZONE = r"( ?[+-][0-9]{2}(:?[0-9]{2}){0,2}| ?Z)?"  # PostgreSQL ignores it where a type has no zone; drivers write it
_SHIFT = re.compile(r":[0-9]{2}(?:\.[0-9]+)? ?(Z|([+-])([0-9]{2}):?([0-9]{2})?:?([0-9]{2})?)(?: BC)?$")
_DATE = re.compile(rf"([0-9]{{4,7}})-([0-9]{{1,2}})-([0-9]{{1,2}}){_ZONE}( BC)?")
_TIME = re.compile(rf"([0-9]{{4,7}})-([0-9]{{1,2}})-([0-9]{{1,2}})"
                   rf"([ T]([0-9]{{1,2}}):([0-9]{{2}})(:([0-9]{{2}})(\.[0-9]{{1,6}})?)?)?{_ZONE}( BC)?")


def _date_of_text(text: str) -> dt.date | str:
    if text.lower() in ("infinity", "-infinity"):
        return text.lower()
    found = _DATE.fullmatch(text) or _TIME.fullmatch(text)
    if found is None:
        raise _Malformed
    return _date_of_days(_days(int(found[1]), int(found[2]), int(found[3]), bc=text.endswith(" BC")))


def _time_of_text(text: str) -> dt.datetime | str:
    if text.lower() in ("infinity", "-infinity"):
        return text.lower()
    found = _TIME.fullmatch(text)
    if found is None:
        raise _Malformed
    days = _days(int(found[1]), int(found[2]), int(found[3]), bc=text.endswith(" BC"))
    hours, minutes, seconds = (int(found[i] or 0) for i in (5, 6, 8))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise _Malformed
    parts = int((found[9] or ".0")[1:].ljust(6, "0"))
    return _time_of_microseconds(days * _DAY + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + parts)


def _moment_of_text(text: str) -> dt.datetime | str:
    """A moment in UTC, which a text without a zone is in already."""
    found = _SHIFT.search(text)
    moment = _time_of_text(text)
    if found is None or found[1] == "Z" or isinstance(moment, str):
        return moment
    hours, minutes, seconds = (int(part or 0) for part in found.group(3, 4, 5))
    shift = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    try:
        return moment - shift if found[2] == "+" else moment + shift
    except OverflowError:
        raise _Malformed from None


def _uuid_of_text(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise _Malformed from None


def _duration_of_text(text: str) -> Duration:
    found = read_duration(text)
    if found is None:
        raise _Malformed
    return found


def _duration_of_binary(value: bytes) -> Duration:
    microseconds, days, months = struct.unpack("!qii", value)
    return Duration(months=months, days=days, microseconds=microseconds)


def _uuid_of_binary(value: bytes) -> str:
    if len(value) != 16:
        raise _Malformed
    return str(uuid.UUID(bytes=value))


def _exactly(form: struct.Struct) -> Callable[[bytes], Any]:
    return lambda value: form.unpack(value)[0]  # which raises struct.error for another length


def _bool_of_binary(value: bytes) -> bool:
    if len(value) != 1 or value[0] > 1:
        raise _Malformed
    return value[0] == 1


def _time_of_binary(value: bytes) -> dt.datetime | str:
    return _time_of_microseconds(struct.unpack("!q", value)[0])


def _text_of_binary(value: bytes) -> str:
    text = value.decode("utf-8")
    if "\0" in text:
        raise _Malformed
    return text


def _numeric_of_binary(value: bytes) -> Decimal | float:
    """Digits of base 10,000: their number, the weight of the first one, the sign, how many decimals are shown, the digits."""
    count, weight, sign, scale = struct.unpack_from("!HhHH", value)
    if (special := {0xC000: math.nan, 0xD000: math.inf, 0xF000: -math.inf}.get(sign)) is not None:
        return special
    if sign not in (0, 0x4000) or count > _LONGEST_NUMBER or len(value) != 8 + 2 * count or scale > 0x3FFF:
        raise _Malformed
    digits = struct.unpack_from(f"!{count}H", value, 8)
    if any(digit > 9999 for digit in digits):
        raise _Malformed
    whole, exponent = "".join(f"{digit:04d}" for digit in digits) or "0", 4 * (weight - count + 1)
    while exponent < -scale and whole.endswith("0") and len(whole) > 1:  # zeros of the last group, which are not shown
        whole, exponent = whole[:-1], exponent + 1
    return Decimal(f"{'-' if sign else ''}{whole}E{exponent}")  # exactly: arithmetic would round to 28 digits


_OF_TEXT: dict[int, Callable[[str], object]] = {
    _INT2: _int_of_text, _INT4: _int_of_text, _INT8: _int_of_text, _FLOAT4: _float_of_text, _FLOAT8: _float_of_text,
    _NUMERIC: _decimal_of_text, 16: _bool_of_text, 1082: _date_of_text, 1114: _time_of_text,
    _MOMENT: _moment_of_text, _UUID: _uuid_of_text, 26: _int_of_text, _DURATION: _duration_of_text,
}
_OF_BINARY: dict[int, Callable[[bytes], object]] = {
    _INT2: _exactly(struct.Struct("!h")), _INT4: _exactly(struct.Struct("!i")), _INT8: _exactly(struct.Struct("!q")),
    _FLOAT4: _exactly(struct.Struct("!f")), _FLOAT8: _exactly(struct.Struct("!d")), _NUMERIC: _numeric_of_binary,
    16: _bool_of_binary, 1082: lambda value: _date_of_days(struct.unpack("!i", value)[0]),
    1114: _time_of_binary, 26: _exactly(struct.Struct("!I")),
    _MOMENT: _time_of_binary, _UUID: _uuid_of_binary, _DURATION: _duration_of_binary,
    **dict.fromkeys(_TEXTS, _text_of_binary),
}


# -- days and moments since 2000


def _days(year: int, month: int, day: int, *, bc: bool) -> int:
    """Days since 2000-01-01 in the Gregorian calendar, in any year. Raises _Malformed for a day that is none."""
    if year == 0:
        raise _Malformed
    counted = 1 - year if bc else year  # the year before 1 is 0
    cycles, within = divmod(counted - 1, 400)  # the calendar repeats itself after 400 years
    try:
        return dt.date(within + 1, month, day).toordinal() + cycles * 146_097 - _EPOCH_DAY
    except ValueError:
        raise _Malformed from None


def _date_of_days(days: int) -> dt.date | str:
    if days in _DATE_ENDS:
        return _DATE_ENDS[days]
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise RefusedOnWire("date out of range", sqlstate="22008")
    if 1 <= days + _EPOCH_DAY <= dt.date.max.toordinal():
        return dt.date.fromordinal(days + _EPOCH_DAY)
    return "".join(_date_parts(days))


def _date_parts(days: int) -> tuple[str, str]:
    """A day in text, and the era after it; of years that Python lacks."""
    cycles, within = divmod(days + _EPOCH_DAY - 1, 146_097)
    day = dt.date.fromordinal(within + 1)
    year = day.year + 400 * cycles
    return f"{year if year > 0 else 1 - year:04d}-{day.month:02d}-{day.day:02d}", "" if year > 0 else " BC"


def _time_of_microseconds(moment: int) -> dt.datetime | str:
    if moment in _TIME_ENDS:
        return _TIME_ENDS[moment]
    if not _FIRST_MOMENT <= moment <= _LAST_MOMENT:
        raise RefusedOnWire("timestamp out of range", sqlstate="22008")
    days, within = divmod(moment, _DAY)
    if 1 <= days + _EPOCH_DAY <= dt.date.max.toordinal():
        return _EPOCH + dt.timedelta(days=days, microseconds=within)
    day, era = _date_parts(days)
    return f"{day} {_clock(dt.timedelta(microseconds=within))}{era}"


def _clock(within: dt.timedelta) -> str:
    return (dt.datetime.min + within).time().isoformat().rstrip("0") if within.microseconds else \
        (dt.datetime.min + within).time().isoformat()


# -- to the client


def written(value: object, kind: str, form: int) -> bytes | None:
    """A value of a column in one of the two formats; None is NULL. Raises ValueError or TypeError for a value of another type."""
    if value is None:
        return None
    return _TO_TEXT[kind](value).encode("utf-8", "replace") if form == TEXT else _TO_BINARY[kind](value)


def _whole_text(value: Any) -> str:
    if isinstance(value, bool) or int(value) != value:
        raise ValueError("no whole number")
    return str(int(value))


def _float_text(value: Any) -> str:
    number = float(value)
    if 1e15 <= abs(number) < 1e16:  # PostgreSQL begins to write exponents there, and Python does at the end
        digits = repr(abs(number)).replace(".", "").rstrip("0")
        return f"{'-' if number < 0 else ''}{digits[0]}{'.' * (len(digits) > 1)}{digits[1:]}e+15"
    if math.isfinite(number):
        return repr(number).removesuffix(".0")
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _bool_text(value: Any) -> str:
    if value is not True and value is not False:
        raise ValueError("no boolean")
    return "t" if value else "f"


def _date_text(value: Any) -> str:
    if isinstance(value, str):
        return str(_date_of_text(value))
    return str((value.date() if isinstance(value, dt.datetime) else value).isoformat())


def _time_text(value: Any) -> str:
    if isinstance(value, str):
        value = _time_of_text(value)
        if isinstance(value, str):
            return value
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    within = dt.timedelta(hours=moment.hour, minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond)
    return f"{moment.date().isoformat()} {_clock(within)}"


def _date_binary(value: Any) -> bytes:
    if isinstance(value, str):
        read_again = _date_of_text(value)
        if isinstance(read_again, str):
            ends = {text: number for number, text in _DATE_ENDS.items()}
            return struct.pack("!i", ends[read_again] if read_again in ends else _days_of(read_again))
        value = read_again
    return struct.pack("!i", value.toordinal() - _EPOCH_DAY)


def _days_of(text: str) -> int:
    year, month, day = text.removesuffix(" BC")[:-6], text.removesuffix(" BC")[-5:-3], text.removesuffix(" BC")[-2:]
    return _days(int(year), int(month), int(day), bc=text.endswith(" BC"))


def _time_binary(value: Any) -> bytes:
    if isinstance(value, str):
        read_again = _time_of_text(value)
        if isinstance(read_again, str):
            ends = {text: number for number, text in _TIME_ENDS.items()}
            return struct.pack("!q", ends[read_again] if read_again in ends else _moment_of(read_again))
        value = read_again
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    return struct.pack("!q", (moment - _EPOCH) // dt.timedelta(microseconds=1))


def _moment_of(text: str) -> int:
    day, clock, *era = text.split(" ")
    time = dt.time.fromisoformat(clock + "0" * (15 - len(clock)) if "." in clock else clock)
    within = ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond
    return _days_of(" ".join([day, *era])) * _DAY + within


def _hugeint_binary(value: Any) -> bytes:
    return _numeric_binary(Decimal(_whole_text(value)))


def _decimal_text(value: Any) -> str:
    number = Decimal(value)
    return format(number, "f") if number.is_finite() else _float_text(float(number))


def _numeric_binary(value: Any) -> bytes:
    """Digits of base 10,000, without zeros at their end."""
    number = Decimal(value)
    if not number.is_finite():
        return struct.pack("!HhHH", 0, 0, 0xC000 if number.is_nan() else 0xD000 if number > 0 else 0xF000, 0)
    whole, _, part = format(number.copy_abs(), "f").partition(".")
    text = whole.rjust(-(-len(whole) // 4) * 4, "0") + part.ljust(-(-len(part) // 4) * 4, "0")
    digits = [int(text[at:at + 4]) for at in range(0, len(text), 4)]
    weight = -(-len(whole) // 4) - 1
    while digits and digits[0] == 0:
        digits.pop(0)
        weight -= 1
    while digits and digits[-1] == 0:
        digits.pop()
    sign = 0x4000 if number < 0 else 0
    return struct.pack(f"!HhHH{len(digits)}H", len(digits), weight if digits else 0, sign, len(part), *digits)


def _int8_binary(value: Any) -> bytes:
    try:
        return struct.pack("!q", int(_whole_text(value)))
    except struct.error:
        raise ValueError("out of the range of bigint") from None


_TO_TEXT: dict[str, Callable[[Any], str]] = {
    "BIGINT": _whole_text, "HUGEINT": _whole_text, "DOUBLE": _float_text, "BOOLEAN": _bool_text, "VARCHAR": str,
    "DATE": _date_text, "TIMESTAMP": _time_text, "DECIMAL": _decimal_text, "OID": _whole_text,
}
_TO_TEXT.update({kind: list_text(kind, _TO_TEXT[ELEMENTS[kind]]) for kind in LIST_OIDS})
_TO_BINARY: dict[str, Callable[[Any], bytes]] = {
    "BIGINT": _int8_binary, "HUGEINT": _hugeint_binary, "DECIMAL": _numeric_binary,
    "DOUBLE": lambda value: struct.pack("!d", float(value)),
    "BOOLEAN": lambda value: b"\1" if _bool_text(value) == "t" else b"\0",
    "VARCHAR": lambda value: str(value).encode("utf-8", "replace"), "DATE": _date_binary, "TIMESTAMP": _time_binary,
    "OID": lambda value: struct.pack("!I", value),
}
_TO_BINARY.update({kind: list_binary(kind, _TO_BINARY[ELEMENTS[kind]]) for kind in LIST_OIDS})
