"""The axes of a picture: where values are, and which of them are named below without one name touching another."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from dpsql.answers.chart_texts import text_width
from dpsql.frozen import Frozen

GAP = 8  # pixels between two names
MOST = 9  # names along an axis
STEPS = (1, 2, 5)
MONTHS, DAYS, MINUTES = (1, 3, 6), (1, 2, 7, 14), (1, 5, 15, 30, 60, 180, 360, 720)


class ChartAxis(Frozen):
    """Values from `low` to `high` are at pixels from `start` to `end`, which may be less than `start`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value. Values beyond the ends are drawn at the ends."""
        unit = max(abs(self.low), abs(self.high), 1e-300)  # differences of the largest numbers are no numbers
        low, high = self.low / unit, self.high / unit
        share = (value / unit - low) / ((high - low) or 1.0)
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)


class Tick(Frozen):
    """A value that is named: its pixel, its name, and the pixel of the middle of the name."""

    at: float
    text: str
    middle: float


def axis_of(values: Iterable[float], start: float, end: float, *, around: float | None = None) -> ChartAxis:
    """An axis that covers all finite numbers among these values. If they are all equal, the axis extends `around` on each side
    (by default, a tenth of the value)."""
    found = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(found), max(found)
    if low == high:
        around = around or abs(low) / 10 or 1.0
        low, high = low - around, high + around
    return ChartAxis(low=max(low, -1.7e308), high=min(high, 1.7e308), start=start, end=end)


def place_of(key: object) -> float:
    """The position of a key on an axis: the number itself, or a date as days since the year 1."""
    if isinstance(key, dt.datetime):
        return key.toordinal() + (key - dt.datetime.combine(key.date(), dt.time())) / dt.timedelta(days=1)
    return float(key.toordinal()) if isinstance(key, dt.date) else float(key)  # type: ignore[arg-type]


def ticks(axis: ChartAxis, width: float, *, whole: bool = False) -> list[Tick]:
    """Round numbers along an axis of this width: as many as leave room for their labels, perhaps none. Labels of whole numbers
    have no commas, like keys."""
    for most in range(MOST, 1, -1):
        values = list(_round_values(axis, most, whole=whole))
        texts = [text.replace(",", "") if whole else text for text in number_texts(values)]
        if placed := _placed([(axis.at(value), text) for value, text in zip(values, texts, strict=True)], width):
            return placed
    return _placed([(axis.at(axis.low), number_texts([axis.low])[0])], width) or []


def day_ticks(axis: ChartAxis, width: float, *, times: bool) -> list[Tick]:
    """Dates along an axis, as many as there is room for: the first days of years or months, days, or times; otherwise the two
    ends."""
    for values in _date_values(axis, times=times):
        if 1 < len(values) <= MOST and (placed := _placed([(axis.at(place_of(day)), text) for day, text in values], width)):
            return placed
    ends = [(axis.at(end), day_text(_moment(end), times=times)) for end in (axis.low, axis.high)]
    return _placed(ends, width) or _placed(ends[:1], width) or []


def _placed(found: Sequence[tuple[float, str]], width: float) -> list[Tick] | None:
    """Names in the middle below their values, but inside of the picture; None where they touch each other."""
    made: list[Tick] = []
    end = -math.inf
    for at, text in sorted(found):
        half = text_width(text) / 2
        middle = min(max(at, half), width - half)
        if middle - half < end + GAP or 2 * half > width:
            return None
        made.append(Tick(at=at, text=text, middle=middle))
        end = middle + half
    return made


def _round_values(axis: ChartAxis, most: int, *, whole: bool) -> Iterator[float]:
    """At most this many multiples of a round number between the ends."""
    half = axis.high / 2 - axis.low / 2
    if not half / most > 1e-307:
        return
    power = 10.0 ** math.floor(math.log10(half / most))
    steps = (step * times * power for times in (1, 10, 100) for step in STEPS)
    step = max(next((step for step in steps if step >= 2 * half / most), 0.0), 1.0 if whole else 0.0)
    first, last = axis.low / step, axis.high / step
    if not math.isfinite(step) or max(abs(first), abs(last)) > 2**53:  # neighbours that numbers can hardly tell apart
        return
    yield from (step * i for i in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1))


def number_texts(values: Sequence[float]) -> list[str]:
    """Labels of numbers along an axis, with as few digits as distinguish them."""
    largest = max(map(abs, values), default=0.0)
    least = min((abs(b - a) for a, b in pairwise(values)), default=largest)
    plain = largest < 1e9 and (largest == 0 or min(least, largest) >= 1e-6)
    styles = [f",.{digits}f" for digits in range(7)] if plain else [f".{digits}g" for digits in range(1, 18)]
    for style in styles:
        texts = [_unsigned_zero(format(value, style)) for value in values]
        tolerance = 1e-3 * (least or largest)
        if len(set(texts)) == len(values) and all(abs(float(text.replace(",", "")) - value) <= tolerance
                                                  for text, value in zip(texts, values, strict=True)):
            return texts
    return [f"{value:.17g}" for value in values]


def _unsigned_zero(text: str) -> str:
    return text.lstrip("-") if not text.strip("-0.,") else text


def day_text(moment: dt.datetime, *, times: bool) -> str:
    return moment.isoformat(" ", "minutes") if times else moment.date().isoformat()


def _moment(place: float) -> dt.datetime:
    """The time at a place on an axis, rounded down to the minute, as far as there are dates."""
    day = min(max(math.floor(place), 1), dt.date.max.toordinal())
    minute = min(max(math.floor((place - day) * 1440 + 1e-6), 0), 1439)
    return dt.datetime.fromordinal(day) + dt.timedelta(minutes=minute)


def _date_values(axis: ChartAxis, *, times: bool) -> Iterator[list[tuple[dt.datetime, str]]]:
    """Beginnings of ever longer times between the ends, with their names."""
    first, last = _moment(axis.low), _moment(axis.high)
    for step in MINUTES if times else ():
        yield _every(first, last, dt.timedelta(minutes=step), lambda at: at.isoformat(" ", "minutes"))
    for step in DAYS:
        yield _every(first, last, dt.timedelta(days=step), lambda at: at.date().isoformat())
    for step in MONTHS:
        months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
        starts = [dt.datetime(month // 12, month % 12 + 1, 1) for month in months if month % step == 0]
        yield [(at, f"{at:%Y-%m}" if at.year >= 1000 else at.date().isoformat()) for at in starts if first <= at <= last]
    for step in (times * power for power in (1, 10, 100, 1000) for times in STEPS):
        years = [dt.datetime(year, 1, 1) for year in range(max(first.year, 1), last.year + 1) if year % step == 0]
        yield [(at, str(at.year)) for at in years if first <= at <= last]


def _every(first: dt.datetime, last: dt.datetime, step: dt.timedelta, told: Callable[[dt.datetime], str]) -> list[
        tuple[dt.datetime, str]]:
    """The multiples of a step between two times, or none where there are too many to be named."""
    midnight = dt.datetime.combine(first.date(), dt.time())
    skipped = -(-(first - midnight) // step)
    count = (last - midnight) // step + 1 - skipped
    return [(at, told(at)) for at in (midnight + (skipped + i) * step for i in range(count))] if count <= MOST else []
