"""Charts for pages: bars, lines and dots as SVG, drawn twice, for wide and for narrow screens, with no name cut off.

A wide picture has the names of its bars at the left and their numbers at the right; a narrow one has both above each bar. Names
are wrapped, and of what stands along an axis as much is named as has room (`chart_texts`, `chart_axes`). Every mark has a title,
which is seen when a pointer rests on it.

A picture is self-contained XML, except for its colours, which are CSS variables of the page (`html_page`). It has the
elements and attributes that `server/console/picture.js` knows, and no style, as browsers refuse styles where a policy of content
forbids them.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

from dpsql.answers.chart_axes import ChartAxis, axis_of, ticks
from dpsql.answers.chart_marks import (
    BAR,
    DASHES,
    axis_of_keys,
    dashes,
    drawn_values,
    line_between,
    one_line,
    text_at,
    texts_around,
    texts_at,
    ticks_below,
    ticks_beside,
    ticks_of_keys,
    title_of_mark,
    whisker,
)
from dpsql.answers.chart_panels import panels
from dpsql.answers.chart_texts import LINE, text_width, wrapped
from dpsql.answers.charted import Chart, Series
from dpsql.answers.display import number
from dpsql.answers.html_page import paragraph, picture
from dpsql.frozen import Frozen

BROAD, WIDE, NARROW = 1120, 720, 300  # pixels; pictures are shown no larger
GAP, EDGE = 10, 6  # pixels: between columns, and around a picture
NAMES, NUMBERS = 0.3, 0.3  # of the width, at most: for names, and for numbers beside bars
OF_GROUPS = 0.7  # how opaque their bars are, so that intervals stand out from them
HEIGHT = 260  # of the part of a picture in which lines are drawn


def chart_html(chart: Chart) -> str:
    """A chart with its title, and an explanation of its marks below."""
    told = "".join(paragraph(sentence, "dim") for sentence in chart.sentences)
    return (f"<figure class=chart><figcaption>{html.escape(chart.caption)}</figcaption>"
            f"<div class=wide-picture>{chart_svg(chart, WIDE)}</div><div class=narrow>{chart_svg(chart, NARROW)}</div>"
            f"{told}</figure>")


def chart_svg(chart: Chart, width: int) -> str:
    """The picture alone, of this width in pixels."""
    if not chart.bars:
        parts, height = [text_at(EDGE, LINE, "no row to draw")], 2.0 * LINE
    elif chart.panels:
        parts, height = panels(chart, width)
    elif chart.lines:
        parts, height = _lines(chart, width)
    else:
        parts, height = _bars(chart, width)
    return picture(parts, width, math.ceil(height), f"{form_of(chart)} of {chart.caption}")


def form_of(chart: Chart) -> str:
    """The kind of a chart: lines, bars or a dot."""
    return "lines" if chart.lines else "bars" if chart.key else "dot"


# -- bars


class _Mark(Frozen):
    """One number: the series and the place in it, with the lines of its texts."""

    series: int
    at: int
    names: list[str]
    words: list[str]


class _Columns(Frozen):
    """Where bars and texts are. `beside` says whether texts stand beside the bars, or above them."""

    beside: bool
    names: float
    bars: ChartAxis
    words: float
    width: int


def _bars(chart: Chart, width: int) -> tuple[list[str], float]:
    columns = _columns(chart, width)
    made, y = [], float(EDGE)
    for key, marks in _groups(chart, columns):
        if chart.second:
            head = wrapped(f"{chart.key}: {number(key)}", width - 2 * EDGE)  # type: ignore[arg-type]
            made += texts_at(EDGE, y, head)
            y += LINE * len(head)
        for mark in marks:
            drawn, y = _bar(chart, mark, columns, y)
            made.append(drawn)
        y += 6 if chart.second else 0
    below = ticks_below(ticks(columns.bars, width), 0 if columns.beside else y - 4, y)  # lines would cross the texts above bars
    return [*below, *made], y + LINE + EDGE


def _columns(chart: Chart, width: int) -> _Columns:
    """The widths for names and numbers: as much as they need, up to a share of the picture."""
    names = [number(key) for series in chart.series for key in series.keys] if not chart.second else [
        _series_name(chart, series) for series in chart.series]
    room = width - 2 * EDGE
    beside = width >= WIDE
    left = EDGE + (min(max(map(text_width, names)), NAMES * room) + GAP if beside and chart.key else 0.0)
    right = width - EDGE - (min(max(text_width(words) for series in chart.series for words in series.words), NUMBERS * room) + GAP
                            if beside else 0.0)
    ends = drawn_values(chart)
    axis = axis_of(ends if not chart.key else [0.0, *ends], left, right)
    return _Columns(beside=beside, names=left - GAP, bars=axis, words=right + GAP, width=width)


def _groups(chart: Chart, columns: _Columns) -> Iterator[tuple[object, list[_Mark]]]:
    """The numbers of each key, which are one where there is no second key."""
    for key in dict.fromkeys(key for series in chart.series for key in series.keys):
        yield key, [_mark(chart, i, series.keys.index(key), columns) for i, series in enumerate(chart.series)
                    if key in series.keys]


def _mark(chart: Chart, i: int, at: int, columns: _Columns) -> _Mark:
    series = chart.series[i]
    name = _series_name(chart, series) if chart.second else number(series.keys[at]) if chart.key else ""
    room = columns.width - 2 * EDGE
    names = wrapped(name, columns.names - EDGE if columns.beside else room) if chart.key else []
    return _Mark(series=i, at=at, names=names,
                 words=wrapped(series.words[at], columns.width - EDGE - columns.words if columns.beside else room))


def _series_name(chart: Chart, series: Series) -> str:
    """A label that is understood by itself."""
    return f"{chart.second}: {series.name}" if series.name in ("true", "false", "NULL") else series.name


def _bar(chart: Chart, mark: _Mark, columns: _Columns, y: float) -> tuple[str, float]:
    """A bar with its texts, from `y` on, and where it ends."""
    series = chart.series[mark.series]
    fill = f"fill='var(--c{mark.series % len(DASHES)})' fill-opacity='{OF_GROUPS}'" if chart.second else "fill='var(--bar)'"
    if columns.beside:
        height = max(len(mark.names), len(mark.words), 1) * LINE + 4.0
        middle = y + height / 2
        texts = [*texts_around(columns.names, middle, mark.names, "end"),
                 *texts_around(columns.words, middle, mark.words, "start")]
    else:
        texts, below = _above(mark, columns.width, y)
        middle, height = below + BAR / 2 + 2, below + BAR + 8 - y
    drawn = whisker(series, mark.at, columns.bars, middle, fill, bar=bool(chart.key))
    return f"<g>{title_of_mark(chart, mark.series, mark.at)}{drawn}{''.join(texts)}</g>", y + height


def _above(mark: _Mark, width: int, y: float) -> tuple[list[str], float]:
    """Name and number above a bar, in one line where there is room, and where they end."""
    one = len(mark.names) == len(mark.words) == 1 and (
        text_width(mark.names[0]) + GAP + text_width(mark.words[0]) <= width - 2 * EDGE)
    names = texts_at(EDGE, y, mark.names)
    first = y if one else y + LINE * len(mark.names)
    words = texts_at(width - EDGE, first, mark.words, "end")
    return [*names, *words], first + LINE * len(mark.words)


# -- lines


def _lines(chart: Chart, width: int) -> tuple[list[str], float]:
    named = wrapped(chart.name, width - 2 * EDGE)
    top = EDGE + LINE * len(named) + 10.0
    upwards = axis_of(drawn_values(chart), top + HEIGHT, top)
    beside = ticks(upwards, 1e9)
    left = EDGE + max((text_width(tick.text) for tick in beside), default=0.0) + 6
    along = axis_of_keys(chart, left + 4, width - EDGE - 4)
    parts = [*texts_at(EDGE, EDGE, named), *ticks_beside(beside, left, width - EDGE, top + HEIGHT, 5)]
    for i, series in enumerate(chart.series):
        parts.append(one_line(chart, i, series, along, upwards))
    y = top + HEIGHT
    parts += [line_between(left, y, width - EDGE, y, "var(--dim)"), *ticks_below(ticks_of_keys(chart, along, width), y, y + 4)]
    y += LINE + 10
    below = wrapped(chart.key, width - left - EDGE)
    parts += texts_at((left + width - EDGE) / 2, y, below, "middle", "dim")
    entries, bottom = _entries(chart, width, y + LINE * len(below) + 4)
    return [*parts, *entries], bottom + EDGE


def _entries(chart: Chart, width: int, y: float) -> tuple[list[str], float]:
    """The legend of the lines, below the picture; long names are wrapped."""
    parts: list[str] = []
    row, x = 0.0, float(EDGE)
    if chart.second:
        head = wrapped(f"{chart.second}:", width - 2 * EDGE)
        parts += texts_at(EDGE, y, head, "start", "dim")
        y += LINE * len(head)
    for i, series in enumerate(chart.series if chart.second else ()):
        lines = wrapped(series.name, width - 2 * EDGE - 34)
        wide = 34 + max(map(text_width, lines)) + 2 * GAP
        if x > EDGE and x + wide - 2 * GAP > width - EDGE:
            x, y, row = float(EDGE), y + row, 0.0
        parts.append(f"<line x1='{x:.1f}' x2='{x + 26:.1f}' y1='{y + 8:.1f}' y2='{y + 8:.1f}' stroke='var(--c{i % len(DASHES)})' "
                     f"stroke-width='2'{dashes(i)}/>")
        parts += texts_at(x + 34, y, lines)
        x, row = x + wide, max(row, LINE * len(lines))
    return parts, y + row
