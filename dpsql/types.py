"""Small values used everywhere: positions in text, SQL types, intervals."""

from __future__ import annotations

import enum
import math
import struct
import unicodedata

from dpsql.frozen import Frozen


class Span(Frozen, kw_only=False):
    """A stretch of text: characters `start` up to, not including, `end`."""

    start: int
    end: int

    def join(self, other: Span | None) -> Span:
        return self if other is None else Span(min(self.start, other.start), max(self.end, other.end))

    def place(self, text: str) -> tuple[int, int]:
        """Line and column of the first character, counted from one."""
        before = text[: self.start]
        return before.count("\n") + 1, self.start - (before.rfind("\n") + 1) + 1

    def underline(self, text: str, *, note: str = "", width: int = 100) -> str:
        """The line of `text` that contains the span, with carets under it and `note` below."""
        begin = text.rfind("\n", 0, self.start) + 1
        stop = text.find("\n", self.start)
        stop = len(text) if stop < 0 else stop
        skip = max(0, self.start - begin - width // 2)
        shown = "".join(char if char.isprintable() else " " for char in text[begin + skip : stop][:width])
        at = self.start - begin - skip
        carets = "^" * max(1, _cells(shown[at : self.end - begin - skip]))
        lines = [f"    {shown}", "    " + " " * _cells(shown[:at]) + carets]
        if note:
            first, *rest = note.split("\n")
            lines += [f"    try {first}", *(f"        {line}" for line in rest)]
        return "\n".join(line.rstrip() for line in lines)


def _cells(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters take two, combining marks none."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1 for char in text)


class Type(enum.Enum):
    """The types of expressions. Narrower types of a database are widened when a table is scanned."""

    BOOLEAN = "BOOLEAN"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    VARCHAR = "VARCHAR"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"

    __hash__ = object.__hash__  # equal members are one object; that of Enum takes a call of Python each time

    @property
    def numeric(self) -> bool:
        return self in (Type.BIGINT, Type.DOUBLE)

    @property
    def temporal(self) -> bool:
        return self in (Type.DATE, Type.TIMESTAMP)


class Interval(Frozen, kw_only=False):
    """A closed interval of numbers; an infinite end means that no bound is known.

    Ends are Python numbers, `int` for ranges of integers, so that no end is rounded. Raises ValueError for NaN or low > high.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high) or self.low > self.high:
            raise ValueError(f"not an interval: {self.low}..{self.high}")

    @property
    def finite(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def largest(self) -> float:
        """The largest absolute value in the range."""
        return max(abs(self.low), abs(self.high))

    def hull(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def inside(self, other: Interval) -> bool:
        return other.low <= self.low and self.high <= other.high

    def within(self, other: Interval) -> Interval:
        """The intersection with another interval; this one unchanged if they are disjoint."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else self

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]"


ANY_NUMBER = Interval(-math.inf, math.inf)
INT64 = Interval(-(2**63), 2**63 - 1)


def single(x: float) -> float:
    """The nearest single-precision number, or an infinity."""
    try:
        return float(struct.unpack("f", struct.pack("f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


_BOOLEANS = {**dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
             **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False)}


def read_boolean(text: str) -> bool | None:
    """A boolean as PostgreSQL reads it, in any case: true, yes, on, 1, their opposites, unique beginnings; None for others."""
    return _BOOLEANS.get(text.strip().lower())
