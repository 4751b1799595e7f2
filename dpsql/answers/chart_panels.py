"""Small multiples: a picture of its own for each value of the second key, beside and below each other, all with the same axes.

So many groups can be compared with their intervals, which colours could not tell apart. The numbers themselves are in the titles
of the marks, and in the table.
"""

from __future__ import annotations

import datetime as dt

from dpsql.answers.chart_axes import ChartAxis, axis_of, day_ticks, place_of, ticks
from dpsql.answers.chart_marks import drawn_values, line_between, one_line, text_at, ticks_below, title_of_mark, whisker
from dpsql.answers.chart_texts import LINE, SIZE, text_width, wrapped
from dpsql.answers.charted import Chart, Series
from dpsql.answers.display import number

LEAST = 220  # pixels of the width of a panel
GAP, EDGE, BETWEEN = 8, 6, 24  # pixels: beside names, around a picture, and between panels
NAMES = 0.45  # of the width of a panel, at most
HEIGHT = 100  # of the part of a panel in which a line is drawn


def panels(chart: Chart, width: int) -> tuple[list[str], float]:
    """The parts of the picture, and its height."""
    across = min(max(1, (width - 2 * EDGE + BETWEEN) // (LEAST + BETWEEN)), len(chart.series))
    room = (width - 2 * EDGE - BETWEEN * (across - 1)) / across
    made, y = list[str](), float(EDGE)
    for line in wrapped(f"{chart.second}:", width - 2 * EDGE):
        made.append(text_at(EDGE, y + SIZE, line, "start", "dim"))
        y += LINE
    for first in range(0, len(chart.series), across):
        row = chart.series[first:first + across]
        heads = [wrapped(series.name, room) for series in row]
        top, bottoms = y + LINE * max(map(len, heads)) + 4, [y]
        for at, (series, head) in enumerate(zip(row, heads, strict=True)):
            left = EDGE + at * (room + BETWEEN)
            made += [text_at(left, y + SIZE + LINE * i, line) for i, line in enumerate(head)]
            drawn, bottom = (_line_panel if chart.lines else _bar_panel)(chart, first + at, series, left, left + room, top)
            made += drawn
            bottoms.append(bottom)
        y = max(bottoms) + LINE
    return made, y


def _bar_panel(chart: Chart, i: int, series: Series, left: float, right: float, y: float) -> tuple[list[str], float]:
    names = [number(key) for each in chart.series for key in each.keys]  # of all, so that bars begin at one place
    inner = left + min(max(map(text_width, names)), NAMES * (right - left)) + GAP
    axis = axis_of([0.0, *_ends(chart)], inner, right)
    made, top = list[str](), y
    for at, key in enumerate(series.keys):
        lines = wrapped(number(key), inner - GAP - left)
        height = LINE * len(lines) + 4.0
        middle = y + height / 2
        first = middle - LINE * len(lines) / 2 + SIZE
        texts = [text_at(inner - GAP, first + LINE * n, line, "end") for n, line in enumerate(lines)]
        drawn = whisker(series, at, axis, middle, "fill='var(--bar)'", bar=True)
        made.append(f"<g>{title_of_mark(chart, i, at)}{drawn}{''.join(texts)}</g>")
        y += height
    return [*ticks_below(ticks(axis, right), top, y), *made], y + LINE


def _line_panel(chart: Chart, i: int, series: Series, left: float, right: float, y: float) -> tuple[list[str], float]:
    bottom = y + HEIGHT
    upwards = axis_of(_ends(chart), bottom, y + SIZE / 2)
    beside = ticks(upwards, 1e9)[::2]
    inner = left + max((text_width(tick.text) for tick in beside), default=0.0) + GAP
    along = _along(chart, inner, right)
    made = list[str]()
    for tick in beside:
        made += [line_between(inner, tick.at, right, tick.at, "var(--line)"),
                 text_at(inner - GAP / 2, min(tick.at + 4, bottom), tick.text, "end", "dim")]
    made += [one_line(chart, i, series, along, upwards, alone=True), line_between(inner, bottom, right, bottom, "var(--dim)")]
    named = day_ticks(along, right, times=_has_times(chart)) if chart.temporal else ticks(along, right, whole=chart.whole)
    return [*made, *ticks_below(named, bottom, bottom + 4)], bottom + LINE + 4


def _along(chart: Chart, left: float, right: float) -> ChartAxis:
    places = [place_of(key) for series in chart.series for key in series.keys]
    return axis_of(places, left + 4, right - 4, around=1.0 if chart.temporal else None)


def _of_days(chart: Chart) -> bool:
    return chart.temporal


def _has_times(chart: Chart) -> bool:
    return any(isinstance(key, dt.datetime) for series in chart.series for key in series.keys)


def _ends(chart: Chart) -> list[float]:
    return [end for series in chart.series for end in drawn_values(series)]
