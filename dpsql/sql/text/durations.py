"""Durations as PostgreSQL's type interval has them: the values of parameters that are added to dates and timestamps."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping

from dpsql.frozen import Frozen

_SECOND = 1_000_000  # microseconds
_MONTHS: Mapping[str, int] = {"year": 12, "mon": 1, "decade": 120, "century": 1200}
_DAYS: Mapping[str, int] = {"day": 1, "week": 7}
_MICROSECONDS: Mapping[str, int] = {"hour": 3600 * _SECOND, "min": 60 * _SECOND, "sec": _SECOND}
_UNITS: Mapping[str, str] = {
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), "year"), **dict.fromkeys(("mon", "mons", "month", "months"), "mon"),
    **dict.fromkeys(("w", "week", "weeks"), "week"), **dict.fromkeys(("d", "day", "days"), "day"),
    **dict.fromkeys(("decade", "decades"), "decade"), **dict.fromkeys(("century", "centuries"), "century"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "hour"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "sec")}
_PART = re.compile(r"([+-]?[0-9]{1,9})(\.[0-9]{1,9})?\s*([a-z]+)(?:\s+|$)"
                   r"|([+-]?)([0-9]{1,7}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,6})?)?(?:\s+|$)")
_ISO = re.compile(r"p(?:(-?\d{1,9})y)?(?:(-?\d{1,9})m)?(?:(-?\d{1,9})w)?(?:(-?\d{1,9})d)?"
                  r"(?:t(?:(-?\d{1,9})h)?(?:(-?\d{1,9})m)?(?:(-?\d{1,9})(\.\d{1,6})?s)?)?")


class Duration(Frozen):
    """Months, days and microseconds, which are added in this order, as in PostgreSQL: a month has no fixed number of days."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def __str__(self) -> str:
        return f"{self.months} months {self.days} days {self.microseconds} microseconds"

    def steps(self, most: int) -> Iterator[tuple[str, int]]:
        """The units that are added and their numbers, each at most `most`; the largest unit that is whole is preferred, as in
        INTERVAL 1 YEAR. Raises ValueError for a fraction of a second."""
        if self.microseconds % _SECOND:
            raise ValueError("a fraction of a second")
        seconds = self.microseconds // _SECOND
        yield from _in_parts(*(("month", self.months) if self.months % 12 else ("year", self.months // 12)), most)
        if self.days or not (self.months or seconds):
            yield from _in_parts("day", self.days, most) if self.days else [("day", 0)]
        whole = next((each for each in _CLOCK if seconds % each[1] == 0 and abs(seconds) <= most * each[1]), None)
        if whole is not None:
            yield from _in_parts(whole[0], seconds // whole[1], most)
        else:
            sign, left = -1 if seconds < 0 else 1, abs(seconds)
            for unit, size in _CLOCK:
                yield from _in_parts(unit, sign * (left // size), most)
                left %= size


_CLOCK = ("hour", 3600), ("minute", 60), ("second", 1)


def _in_parts(unit: str, number: int, most: int) -> Iterator[tuple[str, int]]:
    """A number of units in parts of at most `most`."""
    sign, left = -1 if number < 0 else 1, abs(number)
    while left:
        yield unit, sign * min(left, most)
        left -= min(left, most)


def duration_of(value: object) -> Duration | None:
    """The duration that a value of a parameter is; None for another one. A text is read as PostgreSQL reads it."""
    match value:
        case Duration():
            return value
        case dt.timedelta():
            return Duration(days=value.days, microseconds=value.seconds * _SECOND + value.microseconds)
        case str():
            return read_duration(value)
    return None


def read_duration(text: str) -> Duration | None:
    """The duration of a text such as '1 year 2 mons -3 days 04:05:06', '1 day ago' or 'P1DT2H'; None for other texts."""
    plain = text.strip().lower()
    found = _ISO.fullmatch(plain)
    if found is not None and plain not in ("p", "t") and not plain.endswith("t"):
        years, months, weeks, days, hours, minutes, seconds, part = found.groups()
        sign = -1 if (seconds or "").startswith("-") else 1
        return Duration(months=12 * int(years or 0) + int(months or 0), days=7 * int(weeks or 0) + int(days or 0),
                        microseconds=((int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)) * _SECOND
                        + sign * _fraction(part))
    plain = plain.removeprefix("@").strip()
    turned = -1 if plain.endswith(" ago") else 1
    plain, at = plain.removesuffix(" ago").strip(), 0
    total = {"months": 0, "days": 0, "microseconds": 0}
    while at < len(plain) or not at:
        part = _PART.match(plain, at)
        added = _added(part) if part is not None else None
        if part is None or added is None:
            return None
        total[added[0]] += turned * added[1]
        at = part.end()
    return Duration(**total)


def _added(part: re.Match[str]) -> tuple[str, int] | None:
    """What a part of a text adds; None for an unknown unit, or for a fraction of anything but seconds."""
    number, fraction, word, sign, hours, minutes, seconds, rest = part.groups()
    if word is None:
        within = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)) * _SECOND + _fraction(rest)
        return ("microseconds", -within if sign == "-" else within) if int(minutes) < 60 and int(seconds or 0) < 60 else None
    unit = _UNITS.get(word)
    if unit == "sec":
        within = abs(int(number)) * _SECOND + _fraction(fraction)
        return "microseconds", -within if number.startswith("-") else within
    if unit is None or (fraction is not None and fraction.strip(".0")):
        return None
    for name, units in (("months", _MONTHS), ("days", _DAYS), ("microseconds", _MICROSECONDS)):
        if unit in units:
            return name, int(number) * units[unit]
    return None


def _fraction(digits: str | None) -> int:
    """A fraction of a second in microseconds, rounded."""
    return round(float(f"0{digits or '.0'}") * _SECOND)
