"""Charts for pages: bars, lines and dots as SVG, drawn twice, for wide and for narrow screens, with no name cut off.

A wide picture has the names of its bars at the left and their numbers at the right; a narrow one has both above each bar. Names
are wrapped, and of what stands along an axis as much is named as has room (`chart_texts`, `chart_axes`). Every mark has a title,
which is seen when a pointer rests on it.

A picture is self-contained XML, except for its colours, which are CSS variables of the page (`html_page`). It has the
elements and attributes that `server/console/picture.js` knows, and no style, as browsers refuse styles where a policy of content
forbids them.
"""

from __future__ import annotations

import datetime as dt
import html
import math
from collections.abc import Iterator, Sequence

from dpsql.answers.chart_axes import ChartAxis, Tick, axis_of, day_ticks, place_of, ticks
from dpsql.answers.chart_texts import LINE, SIZE, shortened, text_width, wrapped
from dpsql.answers.charted import MOST_BARS, Chart, Series
from dpsql.answers.display import number
from dpsql.answers.html_page import paragraph, picture
from dpsql.frozen import Frozen

WIDE, NARROW = 720, 300  # pixels; pictures are shown no larger
BAR, GAP, EDGE = 14, 10, 6  # pixels: thickness, between columns, and around a picture
NAMES, NUMBERS = 0.3, 0.3  # of the width, at most: for names, and for numbers beside bars
OF_GROUPS = 0.7  # how opaque their bars are, so that intervals stand out from them
HEIGHT = 260  # of a line's picture, without what stands below
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4", "4 2 1 2", "3 6", "12 3", "5 5")  # lines are told apart in print too


def chart_html(chart: Chart) -> str:
    """A chart with its title, and an explanation of its marks below."""
    told = "".join(paragraph(sentence, "dim") for sentence in chart.sentences)
    return (f"<figure class=chart><figcaption>{html.escape(chart.caption)}</figcaption>"
            f"<div class=wide-picture>{chart_svg(chart, WIDE)}</div><div class=narrow>{chart_svg(chart, NARROW)}</div>"
            f"{told}</figure>")


def chart_svg(chart: Chart, width: int) -> str:
    """The picture alone, of this width in pixels."""
    if not chart.bars:
        parts, height = [_text(EDGE, LINE, "no row to draw")], 2.0 * LINE
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
            for line in wrapped(f"{chart.key}: {number(key)}", width - 2 * EDGE):  # type: ignore[arg-type]
                made.append(_text(EDGE, y + SIZE, line))
                y += LINE
        for mark in marks:
            drawn, y = _bar(chart, mark, columns, y)
            made.append(drawn)
        y += 6 if chart.second else 0
    below = _ticks_below(ticks(columns.bars, width), 0 if columns.beside else y - 4, y)  # lines would cross the texts above bars
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
    ends = [end for series in chart.series for end in _drawn_values(series)]
    axis = axis_of(ends if not chart.key else [0.0, *ends], left, right)
    return _Columns(beside=beside, names=left - GAP, bars=axis, words=right + GAP, width=width)


def _drawn_values(series: Series) -> Iterator[float]:
    """The values that an axis must cover: numbers, and the ends of their intervals."""
    for value, below, above in zip(series.values, *series.drawn_ends, strict=True):
        if math.isfinite(value):
            yield from (value, value - below, value + above)


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
        texts = [*_stacked(mark.names, columns.names, middle, "end"), *_stacked(mark.words, columns.words, middle, "start")]
    else:
        texts, below = _above(mark, columns.width, y)
        middle, height = below + BAR / 2 + 2, below + BAR + 8 - y
    drawn = _whisker(series, mark.at, columns.bars, middle, fill, bar=bool(chart.key))
    return f"<g>{_title(chart, mark.series, mark.at)}{drawn}{''.join(texts)}</g>", y + height


def _above(mark: _Mark, width: int, y: float) -> tuple[list[str], float]:
    """Name and number above a bar, in one line where there is room, and where they end."""
    one = len(mark.names) == len(mark.words) == 1 and (
        text_width(mark.names[0]) + GAP + text_width(mark.words[0]) <= width - 2 * EDGE)
    names = [_text(EDGE, y + SIZE + LINE * i, line) for i, line in enumerate(mark.names)]
    first = y if one else y + LINE * len(mark.names)
    words = [_text(width - EDGE, first + SIZE + LINE * i, line, "end") for i, line in enumerate(mark.words)]
    return [*names, *words], first + LINE * len(mark.words)


def _stacked(lines: Sequence[str], x: float, middle: float, anchor: str) -> list[str]:
    top = middle - LINE * len(lines) / 2
    return [_text(x, top + SIZE + LINE * i, line, anchor) for i, line in enumerate(lines)]


def _whisker(series: Series, at: int, axis: ChartAxis, y: float, fill: str, *, bar: bool) -> str:
    """A bar from zero, or a dot, with its interval; nothing for NULL."""
    value, (below, above) = series.values[at], series.drawn_ends
    if not math.isfinite(value):
        return ""
    zero, x = axis.at(0.0), axis.at(value)
    drawn = f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' class='mark' fill='var(--mark)'/>"
    if bar:
        drawn = (f"<rect x='{min(zero, x):.1f}' width='{abs(x - zero):.1f}' y='{y - BAR / 2:.1f}' height='{BAR}' "
                 f"class='mark' {fill}/>{_line(zero, y - 9, zero, y + 9, 'var(--dim)')}")
    low, high = axis.at(value - below[at]), axis.at(value + above[at])
    if not below[at] and not above[at]:
        return drawn
    caps = "".join(_line(end, y - 4, end, y + 4, "var(--mark)")
                   for end, length in ((low, below[at]), (high, above[at])) if length)
    return f"{drawn}<g class='interval'>{_line(low, y, high, y, 'var(--mark)')}{caps}</g>"


# -- lines


def _lines(chart: Chart, width: int) -> tuple[list[str], float]:
    named = wrapped(chart.name, width - 2 * EDGE)
    top = EDGE + LINE * len(named) + 10.0
    upwards = axis_of((end for series in chart.series for end in _drawn_values(series)), top + HEIGHT, top)
    beside = ticks(upwards, 1e9)
    left = EDGE + max((text_width(tick.text) for tick in beside), default=0.0) + 6
    places = [place_of(key) for series in chart.series for key in series.keys]
    days = [key for series in chart.series for key in series.keys if isinstance(key, dt.date)]
    along = axis_of(places, left + 4, width - EDGE - 4, around=1.0 if days else None)
    parts = [_text(EDGE, EDGE + SIZE + LINE * i, line) for i, line in enumerate(named)]
    for tick in beside:
        parts += [_line(left, tick.at, width - EDGE, tick.at, "var(--line)"),
                  _text(left - 5, min(tick.at + 4, top + HEIGHT), tick.text, "end", "dim")]
    for i, series in enumerate(chart.series):
        parts.append(_one_line(chart, i, series, along, upwards))
    times = any(isinstance(day, dt.datetime) for day in days)
    below = day_ticks(along, width, times=times) if days else ticks(along, width, whole=chart.whole)
    y = top + HEIGHT
    parts += [_line(left, y, width - EDGE, y, "var(--dim)"), *_ticks_below(below, y, y + 4)]
    y += LINE + 10
    for line in wrapped(chart.key, width - left - EDGE):
        parts.append(_text((left + width - EDGE) / 2, y + SIZE, line, "middle", "dim"))
        y += LINE
    entries, bottom = _entries(chart, width, y + 4)
    return [*parts, *entries], bottom + EDGE


def _one_line(chart: Chart, i: int, series: Series, along: ChartAxis, upwards: ChartAxis) -> str:
    """A line in its band, broken where there is no number, and a point with a title for each number."""
    colour, parts = f"var(--c{i % len(DASHES)})", []
    below, above = series.drawn_ends
    for run in _runs(series):
        xs = [along.at(place_of(series.keys[at])) for at in run]
        ys, highs, lows = ([upwards.at(series.values[at] + far) for at, far in zip(run, fars, strict=True)] for fars in (
            [0.0] * len(run), [above[at] for at in run], [-below[at] for at in run]))
        if len(run) > 1:
            parts.append(f"<polygon points='{_points([*xs, *reversed(xs)], [*highs, *reversed(lows)])}' fill='{colour}' "
                         "fill-opacity='.2'/>")
            parts.append(f"<polyline points='{_points(xs, ys)}' fill='none' stroke='{colour}' stroke-width='1.5'{_dashes(i)}/>")
        if len(run) == 1 or chart.bars <= MOST_BARS:  # more of them would hide the band
            parts += [f"<g class='interval' stroke-opacity='.6'>{_line(x, high, x, low, colour)}</g>"
                      for x, high, low in zip(xs, highs, lows, strict=True) if high != low]
        parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5' class='mark' fill='{colour}'>{_title(chart, i, at)}</circle>"
                  for x, y, at in zip(xs, ys, run, strict=True)]
    return f"<g>{''.join(parts)}</g>"


def _points(xs: Sequence[float], ys: Sequence[float]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def _runs(series: Series) -> Iterator[list[int]]:
    """The positions of consecutive numbers without NULL between them."""
    run: list[int] = []
    for at, value in enumerate(series.values):
        if math.isfinite(value):
            run.append(at)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _entries(chart: Chart, width: int, y: float) -> tuple[list[str], float]:
    """The legend of the lines, below the picture; long names are wrapped."""
    parts: list[str] = []
    row, x = 0.0, float(EDGE)
    if chart.second:
        for line in wrapped(f"{chart.second}:", width - 2 * EDGE):
            parts.append(_text(EDGE, y + SIZE, line, "start", "dim"))
            y += LINE
    for i, series in enumerate(chart.series if chart.second else ()):
        lines = wrapped(series.name, width - 2 * EDGE - 34)
        wide = 34 + max(map(text_width, lines)) + 2 * GAP
        if x > EDGE and x + wide - 2 * GAP > width - EDGE:
            x, y, row = float(EDGE), y + row, 0.0
        parts.append(f"<line x1='{x:.1f}' x2='{x + 26:.1f}' y1='{y + 8:.1f}' y2='{y + 8:.1f}' stroke='var(--c{i % len(DASHES)})' "
                     f"stroke-width='2'{_dashes(i)}/>")
        parts += [_text(x + 34, y + SIZE + LINE * at, line) for at, line in enumerate(lines)]
        x, row = x + wide, max(row, LINE * len(lines))
    return parts, y + row


def _dashes(i: int) -> str:
    """How the line of a series is broken; the first is not."""
    return f" stroke-dasharray='{DASHES[i % len(DASHES)]}'" if i % len(DASHES) else ""


# -- what all have


def _ticks_below(found: Sequence[Tick], top: float, y: float) -> Iterator[str]:
    """Names below an axis that ends at `y`, each with a thin line from `top`."""
    for tick in found:
        yield f"<line x1='{tick.at:.1f}' x2='{tick.at:.1f}' y1='{top:.1f}' y2='{y:.1f}' stroke='var(--line)' stroke-width='.7'/>"
        yield _text(tick.middle, y + SIZE + 1, tick.text, "middle", "dim")


def _title(chart: Chart, i: int, at: int) -> str:
    series = chart.series[i]
    of = [(chart.key, number(series.keys[at]))] if chart.key else []
    of += [(chart.second, series.name)] if chart.second else []
    told = [f"{name}: {shortened(text)}" for name, text in (*of, (chart.name, series.words[at]))]
    return f"<title>{html.escape(', '.join(told))}</title>"


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    shown = f" class='{kind}'" if kind else ""
    return (f"<text x='{x:.1f}' y='{y:.1f}' font-size='{SIZE}' text-anchor='{anchor}'{shown}>{html.escape(text)}</text>")


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f"<line x1='{x1:.1f}' x2='{x2:.1f}' y1='{y1:.1f}' y2='{y2:.1f}' stroke='{colour}'/>"
