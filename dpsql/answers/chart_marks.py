"""The marks of a picture: bars and dots with their intervals, lines in their bands, texts, and the labels of its axes."""

from __future__ import annotations

import datetime as dt
import html
import math
from collections.abc import Iterator, Sequence

from dpsql.answers.chart_axes import ChartAxis, Tick, axis_of, day_ticks, place_of, ticks
from dpsql.answers.chart_texts import LINE, SIZE, shortened
from dpsql.answers.charted import MOST_BARS, Chart, Series
from dpsql.answers.display import number

BAR = 14  # pixels: the thickness of a bar
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4", "10 4", "4 2 1 2", "3 6", "12 3", "5 5")  # distinguish lines in black and white


def drawn_values(chart: Chart) -> list[float]:
    """The values that the axis of numbers must cover: the numbers, and the ends of their intervals."""
    return [end for series in chart.series for value, below, above in zip(series.values, *series.drawn_ends, strict=True)
            if math.isfinite(value) for end in (value, value - below, value + above)]


def axis_of_keys(chart: Chart, left: float, right: float) -> ChartAxis:
    """The axis along which the lines of a chart are drawn."""
    places = [place_of(key) for series in chart.series for key in series.keys]
    return axis_of(places, left, right, around=1.0 if chart.temporal else None)


def whisker(series: Series, at: int, axis: ChartAxis, y: float, fill: str, *, bar: bool) -> str:
    """A bar from zero, or a dot, with its interval; nothing for NULL."""
    value, (below, above) = series.values[at], series.drawn_ends
    if not math.isfinite(value):
        return ""
    zero, x = axis.at(0.0), axis.at(value)
    drawn = f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' class='mark' fill='var(--mark)'/>"
    if bar:
        drawn = (f"<rect x='{min(zero, x):.1f}' width='{abs(x - zero):.1f}' y='{y - BAR / 2:.1f}' height='{BAR}' "
                 f"class='mark' {fill}/>{line_between(zero, y - 9, zero, y + 9, 'var(--dim)')}")
    low, high = axis.at(value - below[at]), axis.at(value + above[at])
    if not below[at] and not above[at]:
        return drawn
    caps = "".join(line_between(end, y - 4, end, y + 4, "var(--mark)")
                   for end, length in ((low, below[at]), (high, above[at])) if length)
    return f"{drawn}<g class='interval'>{line_between(low, y, high, y, 'var(--mark)')}{caps}</g>"


def one_line(chart: Chart, i: int, series: Series, along: ChartAxis, upwards: ChartAxis, *, alone: bool = False) -> str:
    """A line in its band, broken where there is no number, and a point with a title for each number. One that has a
    picture `alone` looks like the first."""
    like = 0 if alone else i
    colour, parts = f"var(--c{like % len(DASHES)})", list[str]()
    below, above = series.drawn_ends
    for run in _runs(series):
        xs = [along.at(place_of(series.keys[at])) for at in run]
        ys, highs, lows = ([upwards.at(series.values[at] + far) for at, far in zip(run, fars, strict=True)] for fars in (
            [0.0] * len(run), [above[at] for at in run], [-below[at] for at in run]))
        if len(run) > 1:
            parts.append(f"<polygon points='{_points([*xs, *reversed(xs)], [*highs, *reversed(lows)])}' fill='{colour}' "
                         "fill-opacity='.2'/>")
            parts.append(f"<polyline points='{_points(xs, ys)}' fill='none' stroke='{colour}' stroke-width='1.5'{dashes(like)}/>")
        if len(run) == 1 or chart.bars <= MOST_BARS:  # more of them would hide the band
            parts += [f"<g class='interval' stroke-opacity='.6'>{line_between(x, high, x, low, colour)}</g>"
                      for x, high, low in zip(xs, highs, lows, strict=True) if high != low]
        parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5' class='mark' fill='{colour}'>{title_of_mark(chart, i, at)}</circle>"
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


def dashes(i: int) -> str:
    """How the line of a series is broken; the first is not."""
    return f" stroke-dasharray='{DASHES[i % len(DASHES)]}'" if i % len(DASHES) else ""


def ticks_of_keys(chart: Chart, along: ChartAxis, width: float) -> list[Tick]:
    """The keys that are named along an axis of lines, in a picture of this width."""
    if chart.temporal:
        times = any(isinstance(key, dt.datetime) for series in chart.series for key in series.keys)
        return day_ticks(along, width, times=times)
    return ticks(along, width, whole=chart.whole)


def ticks_beside(found: Sequence[Tick], left: float, right: float, bottom: float, gap: float) -> Iterator[str]:
    """Labels of an upright axis, `gap` pixels to the left of it, each with a line from `left` to `right`."""
    for tick in found:
        yield line_between(left, tick.at, right, tick.at, "var(--line)")
        yield text_at(left - gap, min(tick.at + 4, bottom), tick.text, "end", "dim")


def ticks_below(found: Sequence[Tick], top: float, y: float) -> Iterator[str]:
    """Labels below an axis that ends at `y`, each with a thin line from `top`."""
    for tick in found:
        yield f"<line x1='{tick.at:.1f}' x2='{tick.at:.1f}' y1='{top:.1f}' y2='{y:.1f}' stroke='var(--line)' stroke-width='.7'/>"
        yield text_at(tick.middle, y + SIZE + 1, tick.text, "middle", "dim")


def title_of_mark(chart: Chart, i: int, at: int) -> str:
    series = chart.series[i]
    of = [(chart.key, number(series.keys[at]))] if chart.key else []
    of += [(chart.second, series.name)] if chart.second else []
    told = [f"{name}: {shortened(text)}" for name, text in (*of, (chart.name, series.words[at]))]
    return f"<title>{html.escape(', '.join(told))}</title>"


def text_at(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    shown = f" class='{kind}'" if kind else ""
    return (f"<text x='{x:.1f}' y='{y:.1f}' font-size='{SIZE}' text-anchor='{anchor}'{shown}>{html.escape(text)}</text>")


def texts_at(x: float, top: float, lines: Sequence[str], anchor: str = "start", kind: str = "") -> list[str]:
    """Lines of text, one below another, from `top` on."""
    return [text_at(x, top + SIZE + LINE * i, line, anchor, kind) for i, line in enumerate(lines)]


def texts_around(x: float, middle: float, lines: Sequence[str], anchor: str) -> list[str]:
    """Lines of text, one below another, centred on `middle`."""
    return texts_at(x, middle - LINE * len(lines) / 2, lines, anchor)


def line_between(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f"<line x1='{x1:.1f}' x2='{x2:.1f}' y1='{y1:.1f}' y2='{y2:.1f}' stroke='{colour}'/>"
