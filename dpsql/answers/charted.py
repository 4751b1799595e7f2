"""How an answer is drawn: which columns against which keys, as bars, lines or a dot, and what the marks mean.

`chart_svg` draws it. Everything is made from released values.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from dpsql.answers.answer import Answer
from dpsql.answers.chart_texts import shortened
from dpsql.answers.display import Ends, half_width, interval_text, meaning, number, printable, shown
from dpsql.errors import ProgrammingError
from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Type

MOST_BARS, MOST_LINES = 60, 10  # more cannot be distinguished in one picture
MOST_PANELS, MOST_SMALL_BARS = 60, 600  # small pictures of an answer, and bars in all of them together
MOST_POINTS = 2000  # of the lines of a picture, which is not as many pixels wide
FEW, FEW_BARS = 3, 8  # different numbers from which on a line can be drawn; and up to which bars say as much


class Series(Frozen):
    """The rows of one column of numbers that share a value of the second key: `name` is that value, empty where there is none.

    `values`, and the ends `lows` and `highs` of their intervals, belong to `keys`; NaN is NULL, and an end may be infinite.
    `words` say what each number is.
    """

    name: str
    keys: tuple[Value, ...]
    values: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    words: tuple[str, ...]

    @property
    def drawn_ends(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """How far each interval goes below and above its value; an open end is not drawn."""
        below = tuple(_length(value - low) for value, low in zip(self.values, self.lows, strict=True))
        return below, tuple(_length(high - value) for value, high in zip(self.values, self.highs, strict=True))


class Chart(Frozen):
    """One column of numbers against the keys of an answer.

    name    of the numbers
    key     the name of what is along the axis, empty for a single number
    second  the name of what makes groups of bars or several lines, empty where there is one series
    lines   whether a line is drawn, along `key` as numbers or dates; otherwise bars, or a dot where there is no key
    whole   whether the keys are whole numbers
    intervals  which share of its intervals hold the exact numbers, such as 95 %; empty where there are none
    notes   what the marks mean, and what is not drawn
    """

    name: str
    key: str
    second: str
    lines: bool
    whole: bool
    series: tuple[Series, ...]
    intervals: str
    notes: tuple[str, ...]

    @property
    def panels(self) -> bool:
        """Whether each series has a picture of its own, because one picture would have too many series or bars."""
        return len(self.series) > MOST_LINES or (len(self.series) > 1 and not self.lines and self.bars > MOST_BARS)

    @property
    def temporal(self) -> bool:
        """Whether the keys are dates."""
        return any(isinstance(key, dt.date) for series in self.series for key in series.keys)

    @property
    def title(self) -> str:
        """The title: the number's column, then the keys."""
        return f"{self.name} by {' and '.join(filter(None, (self.key, self.second)))}" if self.key else self.name

    @property
    def caption(self) -> str:
        """The title, with a mention of the intervals."""
        return f"{self.title}, with {self.intervals} intervals" if self.intervals else self.title

    @property
    def few(self) -> bool:
        """Whether the keys are numbers, but so few that they serve as names rather than positions on an axis."""
        keys = {key for series in self.series for key in series.keys}
        return len(keys) <= FEW_BARS and not any(isinstance(key, dt.date) for key in keys)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The notes below a picture, as sentences. Small pictures have bars without numbers, so the notes refer to the table."""
        notes = self.notes if self.lines or not self.panels else (
            *(note.replace("± is", "the line across the end of a bar is") for note in self.notes), "the table has the numbers")
        return tuple(f"{note[:1].upper()}{note[1:]}." for note in notes)

    @property
    def bars(self) -> int:
        """The number of values drawn."""
        return sum(len(series.keys) for series in self.series)


Orders: TypeAlias = Mapping[int, Sequence[Value]]
"""The order in which values of keys are drawn, by the positions of their columns; values that are not listed come last."""


def charts(answer: Answer, columns: Sequence[str] = (), *, bars: bool = False,
           orders: Orders = MappingProxyType({})) -> list[Chart]:
    """The charts of columns of numbers, by their names; by default, of all. Each has the same keys.

    What is drawn depends on the keys: without any, a dot; one text or truth value, or a few numbers, bars; one number or date, a
    line in a band, or with `bars` bars as well. A second key makes groups of bars or several lines or, where these are too
    many, small pictures. Raises ProgrammingError if there is nothing to draw or too much.
    """
    numbers = _numbers(answer, columns)
    x, second = _order(answer, _keys(answer, numbers))
    continuous = x is not None and _continuous(answer, x) and not bars
    return [Chart(name=_titled(answer, column), key="" if x is None else _titled(answer, x),
                  second="" if second is None else _titled(answer, second), lines=continuous,
                  whole=x is not None and answer.columns[x].type is Type.BIGINT,
                  series=_series(answer, column, x, second, orders, continuous=continuous),
                  intervals="" if answer.columns[column].exact else f"{answer.confidence * 100:g} %",
                  notes=tuple(_notes(answer, column, x, continuous=continuous))) for column in numbers]


def pictured(answer: Answer, *, bars: bool = False, orders: Orders = MappingProxyType({})) -> list[Chart]:
    """The charts of all columns, for pages and browsers. Raises ProgrammingError as `charts` does, and at once for more rows
    than `MOST_POINTS`."""
    if answer.size > MOST_POINTS:
        raise ProgrammingError(f"{answer.size:,} rows are too many for a chart", code="plot", try_=f"LIMIT {MOST_POINTS}")
    return charts(answer, bars=bars, orders=orders)


def _titled(answer: Answer, column: int) -> str:
    return shortened(printable(answer.columns[column].name))


def _notes(answer: Answer, column: int, x: int | None, *, continuous: bool) -> list[str]:
    """What the intervals mean, and what is not drawn."""
    told = "; ".join(meaning(answer, [answer.columns[column].name]))
    lines = [told.replace("± is", "the band is") if continuous else told] if told else []
    if continuous and (widest := max((half_width(row[column]) or 0.0 for row in answer.intervals), default=0.0)):
        lines.append(f"at its widest, it spans {2 * widest:,.3g}")
    if any(math.isinf(end) for ends in (row[column] for row in answer.intervals) if ends is not None for end in ends):
        lines.append("an open interval is drawn only up to its known end")
    if continuous and any(row[column] is None for row in answer.rows):
        lines.append(f"where {answer.columns[column].name} is NULL, the line is broken")
    if continuous and x is not None and any(row[x] is None for row in answer.rows):
        lines.append(f"rows whose {answer.columns[x].name} is NULL are not drawn")
    if continuous and x is not None and any(
            row[x] is not None and not _has_place(row[x]) for row in answer.rows):
        lines.append(f"rows whose {answer.columns[x].name} is not finite are not drawn")
    return lines


def _numbers(answer: Answer, names: Sequence[str]) -> list[int]:
    """The columns to draw: the named ones, or else the noisy ones with a value, or else all numbers except a first key."""
    numeric = [j for j, column in enumerate(answer.columns) if column.type.numeric]
    if names:
        found = [j for name in names for j in numeric if answer.columns[j].name == name]
        missing = next((name for name in names if all(answer.columns[j].name != name for j in numeric)), None)
        if missing is not None:
            raise ProgrammingError(f"the answer has no column of numbers called {missing}", code="plot",
                                   try_=", ".join(answer.columns[j].name for j in numeric))
        return found
    noisy = [j for j in numeric if not answer.columns[j].exact and any(value is not None for value in answer.data[j].values)]
    found = noisy or [j for j in numeric if j > 0 or len(answer.columns) == 1]
    if not found or not answer.size:
        raise ProgrammingError("the answer has no numbers to draw", code="plot", try_="SELECT key, COUNT(*) ... GROUP BY key")
    return found


def _keys(answer: Answer, numbers: Sequence[int]) -> list[int]:
    """The key columns: the exact ones or, if all are exact, those before the numbers."""
    public = all(column.exact for column in answer.columns)
    keys = [j for j, column in enumerate(answer.columns) if (j < min(numbers) if public else column.exact and j not in numbers)]
    if len(keys) > 2:
        raise ProgrammingError(f"an answer with {len(keys)} keys cannot be drawn", code="plot", try_="GROUP BY one or two keys")
    if len({tuple(row[j] for j in keys) for row in answer.rows}) < answer.size:
        raise ProgrammingError("several rows have the same keys, so the chart could not label them", code="plot",
                               try_="the keys of GROUP BY in SELECT")
    return keys


def _order(answer: Answer, keys: Sequence[int]) -> tuple[int | None, int | None]:
    """The key along the axis, and the one that makes groups: a number or a date goes along the axis."""
    if len(keys) == 2 and _continuous(answer, keys[1]) and not _continuous(answer, keys[0]):
        return keys[1], keys[0]
    first, second = [*keys, None, None][:2]
    return first, second


def _continuous(answer: Answer, key: int) -> bool:
    kind = answer.columns[key].type
    return kind.temporal or (kind.numeric and len({row[key] for row in answer.rows} - {None}) >= FEW)


def _series(answer: Answer, column: int, x: int | None, second: int | None, orders: Orders, *,
            continuous: bool) -> tuple[Series, ...]:
    """The rows, by the second key; along a line they are in the order of the first, without NULL."""
    names = [None] if second is None else _ordered(list(dict.fromkeys(row[second] for row in answer.rows)), orders.get(second))
    if second is not None and len(names) > MOST_PANELS:
        raise ProgrammingError(f"{answer.columns[second].name} has {len(names)} values, and a chart can show {MOST_PANELS}",
                               code="plot", try_="fewer of them, by WHERE or LIMIT")
    along = {} if x is None else {key: at for at, key in enumerate(
        _ordered(list(dict.fromkeys(row[x] for row in answer.rows)), orders.get(x)))}
    found = []
    for name in names:
        rows = [i for i, row in enumerate(answer.rows) if second is None or row[second] == name]
        if x is not None and x in orders:
            rows.sort(key=lambda i: along[answer.rows[i][x]])
        if x is not None and continuous:
            rows = sorted((i for i in rows if _has_place(answer.rows[i][x])), key=lambda i: answer.rows[i][x])  # type: ignore
        found.append(_one_series(answer, column, rows, x, "" if second is None else number(name)))
    most = MOST_BARS if second is None else MOST_SMALL_BARS
    if not continuous and sum(len(series.keys) for series in found) > most:
        raise ProgrammingError(f"{answer.size} bars are too many for a chart", code="plot", try_=f"LIMIT {most}")
    return tuple(found)


def _ordered(values: list[Value], order: Sequence[Value] | None) -> list[Value]:
    """Values in an order; those that are not in it come last."""
    places = {value: at for at, value in enumerate(order or ())}
    return sorted(values, key=lambda value: places.get(value, len(places)))


def _one_series(answer: Answer, column: int, rows: Sequence[int], x: int | None, name: str) -> Series:
    values = [answer.rows[i][column] for i in rows]
    ends = [answer.intervals[i][column] for i in rows]
    plain = [math.nan if value is None else float(value) for value in values]  # type: ignore[arg-type]
    return Series(name=name, keys=tuple(None if x is None else answer.rows[i][x] for i in rows), values=tuple(plain),
                  lows=tuple(value if each is None else each[0] for value, each in zip(plain, ends, strict=True)),
                  highs=tuple(value if each is None else each[1] for value, each in zip(plain, ends, strict=True)),
                  words=tuple(_in_words(value, each, answer.columns[column].range)
                               for value, each in zip(values, ends, strict=True)))


def _in_words(value: Value, ends: Ends, possible: Ends) -> str:
    interval = interval_text(ends, value, possible)
    return f"{shown(value, ends)} {f'({interval})' if '…' in interval else interval}".strip()


def _has_place(key: Value) -> bool:
    """Whether a key has a position on an axis, as numbers and dates have."""
    return key is not None and not (isinstance(key, float) and not math.isfinite(key))


def _length(length: float) -> float:
    return max(length, 0.0) if math.isfinite(length) else 0.0
