"""Answers as pictures: bars, points and lines, each number with its interval. Everything drawn is made from released values."""

from __future__ import annotations

import datetime as dt
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from dpsql.answers.answer import Answer
from dpsql.answers.display import half_width, interval_text, legend, number, shown
from dpsql.errors import ProgrammingError
from dpsql.extras import extra
from dpsql.plan.expr.nodes import Value
from dpsql.types import Type

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS, MOST_LINES = 60, 10  # more cannot be told apart
FEW = 3  # different numbers from which on a line says more than bars
LONGEST_NAME, LINE = 60, 24  # letters: of a name, and of each of its lines
WIDTH, BESIDE, HEIGHT, PER_BAR = 6.4, 1.6, 4.0, 0.32  # inches; BESIDE is for a legend


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
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


def plot(answer: Answer, columns: Sequence[str] = (), ax: Axes | None = None) -> Axes | list[Axes]:
    """Draws columns of numbers against the keys of an answer, each on axes of its own, and returns these: a list where there are
    several.

    columns   their names; by default, all
    ax        where to draw a single one; by default, on a new figure

    What is drawn depends on the keys: without any, a dot; one text or truth value, or a few numbers, bars; one number or date, a
    line in a band. A second key makes groups of bars or several lines. Raises ProgrammingError where there is nothing to draw or
    too much, and InterfaceError where matplotlib is not installed.
    """
    numbers = _numbers(answer, columns)
    keys = _keys(answer, numbers)
    if ax is not None and len(numbers) > 1:
        raise ProgrammingError(f"there are {len(numbers)} columns of numbers, and one place for them", code="plot",
                               try_=f"plot({answer.columns[numbers[0]].name!r}, ax=ax)")
    x, second = _order(answer, keys)
    continuous = x is not None and _continuous(answer, x)
    all_series = [_series(answer, column, x, second, continuous=continuous) for column in numbers]
    places = _places(len(numbers), all_series[0], continuous) if ax is None else [ax]
    for at, column, series in zip(places, numbers, all_series, strict=True):
        draw = _draw_lines if continuous else _draw_bars if x is not None else _draw_dot
        draw(at, series)
        _label(at, answer, column, x, second, upright=continuous)
    return places[0] if len(places) == 1 else places


def _numbers(answer: Answer, names: Sequence[str]) -> list[int]:
    """The columns that are drawn: those that are named, or else those with noise, or else all numbers but a first key."""
    numeric = [j for j, column in enumerate(answer.columns) if column.type.numeric]
    if names:
        found = [j for name in names for j in numeric if answer.columns[j].name == name]
        missing = next((name for name in names if all(answer.columns[j].name != name for j in numeric)), None)
        if missing is not None:
            raise ProgrammingError(f"the answer has no column of numbers called {missing}", code="plot",
                                   try_=", ".join(answer.columns[j].name for j in numeric))
        return found
    noisy = [j for j in numeric if not answer.columns[j].exact]
    found = noisy or [j for j in numeric if j > 0 or len(answer.columns) == 1]
    if not found or not answer.size:
        raise ProgrammingError("there is no number to draw", code="plot", try_="SELECT key, COUNT(*) ... GROUP BY key")
    return found


def _keys(answer: Answer, numbers: Sequence[int]) -> list[int]:
    """The columns that say what a row is about: the exact ones; where all are, those before the numbers."""
    public = all(column.exact for column in answer.columns)
    keys = [j for j, column in enumerate(answer.columns) if (j < min(numbers) if public else column.exact and j not in numbers)]
    if len(keys) > 2:
        raise ProgrammingError(f"an answer with {len(keys)} keys is not drawn", code="plot", try_="GROUP BY one or two keys")
    if len({tuple(row[j] for j in keys) for row in answer.rows}) < answer.size:
        raise ProgrammingError("several rows have the same keys, so nothing would say which is which", code="plot",
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


def _series(answer: Answer, column: int, x: int | None, second: int | None, *, continuous: bool) -> list[Series]:
    """The rows, by the second key; along a line they are in the order of the first, without NULL."""
    names = list(dict.fromkeys(row[second] for row in answer.rows)) if second is not None else [None]
    most = MOST_LINES if second is not None else 1
    if len(names) > most:
        assert second is not None
        raise ProgrammingError(f"{answer.columns[second].name} has {len(names)} values, and {most} can be told apart",
                               code="plot", try_="fewer of them, by WHERE or LIMIT")
    found = []
    for name in names:
        rows = [i for i, row in enumerate(answer.rows) if second is None or row[second] == name]
        if x is not None and continuous:
            rows = sorted((i for i in rows if answer.rows[i][x] is not None), key=lambda i: answer.rows[i][x])  # type: ignore
        found.append(_one_series(answer, column, rows, x, "" if second is None else _named(name)))
    if not continuous and sum(len(series.keys) for series in found) > MOST_BARS:
        raise ProgrammingError(f"{answer.size} bars cannot be told apart", code="plot", try_=f"LIMIT {MOST_BARS}")
    return found


def _one_series(answer: Answer, column: int, rows: Sequence[int], x: int | None, name: str) -> Series:
    values = [answer.rows[i][column] for i in rows]
    ends = [answer.intervals[i][column] for i in rows]
    plain = [math.nan if value is None else float(value) for value in values]  # type: ignore[arg-type]
    return Series(name=name, keys=tuple(None if x is None else answer.rows[i][x] for i in rows), values=tuple(plain),
                  lows=tuple(value if each is None else each[0] for value, each in zip(plain, ends, strict=True)),
                  highs=tuple(value if each is None else each[1] for value, each in zip(plain, ends, strict=True)),
                  words=tuple(f"{shown(value, each)} {interval_text(each, value)}".strip()
                              for value, each in zip(values, ends, strict=True)))


def _places(count: int, series: Sequence[Series], continuous: bool) -> list[Axes]:
    """A new figure with axes one below another."""
    pyplot = extra("matplotlib.pyplot", "plot")
    bars = sum(len(each.keys) for each in series)
    height = HEIGHT if continuous else 1.4 + PER_BAR * max(bars, 2)
    width = WIDTH + (BESIDE if len(series) > 1 else 0.0)
    _, made = pyplot.subplots(count, 1, figsize=(width, height * count), layout="constrained", squeeze=False)
    return list(made[:, 0])


def _draw_dot(ax: Axes, series: Sequence[Series]) -> None:
    (one,) = series
    ax.errorbar(one.values, [0], xerr=_bars_of(one), fmt="o", capsize=4)
    ax.annotate(one.words[0], (one.values[0], 0), xytext=(0, 9), textcoords="offset points", ha="center")
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.margins(x=0.6, y=0.6)


def _draw_bars(ax: Axes, series: Sequence[Series]) -> None:
    """Bars that lie, so that names of any length can be read, with the number behind each."""
    keys = list(dict.fromkeys(key for one in series for key in one.keys))
    thick = 0.8 / len(series)
    for place, one in enumerate(series):
        heights = [keys.index(key) + (place - (len(series) - 1) / 2) * thick for key in one.keys]
        ax.barh(heights, one.values, height=0.9 * thick, label=one.name, alpha=0.75)
        ax.errorbar(one.values, heights, xerr=_bars_of(one), fmt="none", ecolor="black", capsize=3)
        for height, value, far, words in zip(heights, one.values, one.drawn_ends[1], one.words, strict=True):
            end = 0.0 if math.isnan(value) else max(value + far, 0.0)
            ax.annotate(words, (end, height), xytext=(5, 0), textcoords="offset points", va="center", fontsize="small")
    ax.set_yticks(range(len(keys)), [_named(key) for key in keys])
    ax.set_ylim(len(keys) - 0.4, -0.6)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.margins(x=0.35)


def _draw_lines(ax: Axes, series: Sequence[Series]) -> None:
    """A line through the numbers, with their intervals as a band."""
    for one in series:
        (below, above), keys = one.drawn_ends, cast("Sequence[float]", one.keys)  # or days, which matplotlib takes as well
        (line,) = ax.plot(keys, one.values, marker="o", markersize=3, linewidth=1.2, label=one.name)
        ax.fill_between(keys, [value - far for value, far in zip(one.values, below, strict=True)],
                        [value + far for value, far in zip(one.values, above, strict=True)], color=line.get_color(),
                        alpha=0.25 if len(series) == 1 else 0.15, linewidth=0)
    if any(isinstance(key, dt.date) for one in series for key in one.keys):
        ax.tick_params(axis="x", rotation=30)


def _label(ax: Axes, answer: Answer, column: int, x: int | None, second: int | None, *, upright: bool) -> None:
    """What is along each axis, what the colours are, and below what the intervals mean."""
    name = answer.columns[column].name
    key = "" if x is None else answer.columns[x].name
    by = [answer.columns[j].name for j in (x, second) if j is not None]
    ax.set_title(_plain(f"{name} by {' and '.join(by)}" if by else name), loc="left")
    lines = [legend(answer).replace("± is", "the band is") if upright else legend(answer)]
    if upright and (widest := max((half_width(row[column]) or 0.0 for row in answer.intervals), default=0.0)):
        lines.append(f"at its widest, it spans {2 * widest:,.3g}")
    if any(math.isinf(end) for ends in (row[column] for row in answer.intervals) if ends is not None for end in ends):
        lines.append("an interval without an end is drawn on its other side only")
    if upright and x is not None and any(row[x] is None for row in answer.rows):
        lines.append(f"rows whose {key} is NULL are not drawn")
    below = "\n".join(textwrap.fill(line, 90) for line in lines)
    ax.set_xlabel(_plain(f"{key if upright else name}\n{below}"), fontsize="small")
    ax.set_ylabel(_plain(name if upright else key))
    ax.spines[["top", "right"]].set_visible(False)
    if upright and x is not None and answer.columns[x].type is Type.BIGINT:
        ax.locator_params(axis="x", integer=True)
    if second is not None:
        ax.legend(title=_plain(answer.columns[second].name), loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _bars_of(series: Series) -> Any:
    return None if all(not any(ends) for ends in series.drawn_ends) else series.drawn_ends


def _length(length: float) -> float:
    return max(length, 0.0) if math.isfinite(length) else 0.0


def _named(value: Value) -> str:
    """The name of a bar or a line: what begins with an underscore would have no place in a legend."""
    name = number(value).replace("\n", " ")
    name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME - 4]} ..."
    return _plain("\n".join(textwrap.wrap(f" {name}" if name.startswith("_") else name, LINE, drop_whitespace=False)))


def _plain(text: str) -> str:
    """A text that is not taken for a formula."""
    return text.replace("$", r"\$")
