"""Small multiples: a picture for each value of the second key, in rows, all with the same axes.

They show more groups with their intervals than colours could distinguish. The numbers themselves are in the titles of the marks
and in the table.
"""

from __future__ import annotations

from functools import partial

from dpsql.answers.chart_axes import ChartAxis, axis_of, ticks
from dpsql.answers.chart_marks import (
    axis_of_keys,
    drawn_values,
    line_between,
    one_line,
    texts_around,
    texts_at,
    ticks_below,
    ticks_beside,
    ticks_of_keys,
    title_of_mark,
    whisker,
)
from dpsql.answers.chart_texts import LINE, SIZE, text_width, wrapped
from dpsql.answers.charted import Chart
from dpsql.answers.display import number
from dpsql.frozen import replace

LEAST = 220  # pixels of the width of a panel
GAP, EDGE, BETWEEN = 8, 6, 24  # pixels: beside names, around a picture, and between panels
NAMES = 0.45  # of the width of a panel, at most
HEIGHT = 100  # of the part of a panel in which a line is drawn


def panels(chart: Chart, width: int) -> tuple[list[str], float]:
    """The parts of the picture, and its height."""
    across = min(max(1, (width - 2 * EDGE + BETWEEN) // (LEAST + BETWEEN)), len(chart.series))
    room = (width - 2 * EDGE - BETWEEN * (across - 1)) / across
    numbers = drawn_values(chart)
    panel = partial(_line_panel, chart, axis_of(numbers, 0, 1), axis_of_keys(chart, 0, 1)) if chart.lines else partial(
        _bar_panel, chart, axis_of([0.0, *numbers], 0, 1), _widest_name(chart))
    title = wrapped(f"{chart.second}:", width - 2 * EDGE)
    made, y = texts_at(EDGE, EDGE, title, "start", "dim"), float(EDGE + LINE * len(title))
    for first in range(0, len(chart.series), across):
        heads = [wrapped(series.name, room) for series in chart.series[first:first + across]]
        top, bottoms = y + LINE * max(map(len, heads)) + 4, [y]
        for at, head in enumerate(heads):
            left = EDGE + at * (room + BETWEEN)
            drawn, bottom = panel(first + at, left, left + room, top)
            made += [*texts_at(left, y, head), *drawn]
            bottoms.append(bottom)
        y = max(bottoms) + LINE
    return made, y


def _widest_name(chart: Chart) -> float:
    return max(text_width(number(key)) for series in chart.series for key in series.keys)


def _bar_panel(chart: Chart, numbers: ChartAxis, widest: float, i: int, left: float, right: float,
               y: float) -> tuple[list[str], float]:
    """The bars of one series, and where they end. `numbers` is the axis of all panels, which is placed here; `widest` is the
    width of their widest name."""
    inner = left + min(widest, NAMES * (right - left)) + GAP
    axis, series = replace(numbers, start=inner, end=right), chart.series[i]
    made, top = list[str](), y
    for at, key in enumerate(series.keys):
        lines = wrapped(number(key), inner - GAP - left)
        height = LINE * len(lines) + 4.0
        middle = y + height / 2
        drawn = whisker(series, at, axis, middle, "fill='var(--bar)'", bar=True)
        texts = texts_around(inner - GAP, middle, lines, "end")
        made.append(f"<g>{title_of_mark(chart, i, at)}{drawn}{''.join(texts)}</g>")
        y += height
    return [*ticks_below(ticks(axis, right), top, y), *made], y + LINE


def _line_panel(chart: Chart, numbers: ChartAxis, keys: ChartAxis, i: int, left: float, right: float,
                y: float) -> tuple[list[str], float]:
    """The line of one series, and where it ends. The axes are those of all panels, and are placed here."""
    bottom = y + HEIGHT
    upwards = replace(numbers, start=bottom, end=y + SIZE / 2)
    beside = ticks(upwards, 1e9)[::2]
    inner = left + max((text_width(tick.text) for tick in beside), default=0.0) + GAP
    along = replace(keys, start=inner + 4, end=right - 4)
    made = [*ticks_beside(beside, inner, right, bottom, GAP / 2),
            one_line(chart, i, chart.series[i], along, upwards, alone=True),
            line_between(inner, bottom, right, bottom, "var(--dim)"),
            *ticks_below(ticks_of_keys(chart, along, right), bottom, bottom + 4)]
    return made, bottom + LINE + 4
