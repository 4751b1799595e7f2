"""Answers as pictures: bars, points and lines, each number with its interval, drawn with matplotlib."""

from __future__ import annotations

import datetime as dt
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from dpsql.answers.answer import Answer
from dpsql.answers.charted import Chart, Series, charts
from dpsql.answers.display import number
from dpsql.errors import ProgrammingError
from dpsql.extras import extra
from dpsql.plan.expr.nodes import Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST_NAME, LINE = 60, 24  # letters: of a name, and of each of its lines
WIDTH, BESIDE, HEIGHT, PER_BAR = 6.4, 1.6, 4.0, 0.32  # inches; BESIDE is for a legend
ACROSS, MOST_AXES = 2, 30  # charts beside each other, and in a figure, of a workload


def plot(answer: Answer, columns: Sequence[str] = (), ax: Axes | None = None) -> Axes | list[Axes]:
    """Draws columns of numbers against the keys of an answer, each on axes of its own, and returns these: a list where there are
    several. See `charted.charts` for what is drawn.

    columns   their names; by default, all
    ax        where to draw a single one; by default, on a new figure

    Raises ProgrammingError where there is nothing to draw or too much, and InterfaceError where matplotlib is not installed.
    """
    made = charts(answer, columns)
    if ax is not None and len(made) > 1:
        raise ProgrammingError(f"there are {len(made)} columns of numbers, and one place for them", code="plot",
                               try_=f"plot({made[0].name!r}, ax=ax)")
    places = _places(made) if ax is None else [ax]
    for at, chart in zip(places, made, strict=True):
        _draw(at, chart)
    return places[0] if len(places) == 1 else places


def plot_together(answers: Sequence[Answer], cost: str) -> list[list[Axes]]:
    """Draws the answers of a workload in a grid on a new figure, each column of numbers on axes of its own, titled with the
    number of its statement. Returns the axes of each answer: none where it cannot be drawn, and the reason stands in its place.
    `cost` is what all cost together, in words.

    Raises ProgrammingError where no answer can be drawn, or there are more than `MOST_AXES` charts, and InterfaceError where
    matplotlib is not installed.
    """
    made = [_charts_or_reason(answer) for answer in answers]
    cells = [(i, cell) for i, found in enumerate(made) for cell in found]
    if all(isinstance(cell, str) for _, cell in cells):
        raise ProgrammingError("none of the answers can be drawn", code="plot", try_="GROUP BY one or two keys")
    if len(cells) > MOST_AXES:
        raise ProgrammingError(f"{len(cells)} charts are too many for one figure", code="plot", try_="plots.plot(made[0])")
    drawn: list[list[Axes]] = [[] for _ in answers]
    for at, (i, cell) in zip(_grid([cell for _, cell in cells], cost), cells, strict=True):
        if isinstance(cell, str):
            at.set_axis_off()
            at.text(0, 1, textwrap.fill(f"{i + 1}. no chart: {cell}", LINE * 2), va="top", transform=at.transAxes)
        else:
            _draw(at, cell)
            at.set_title(f"{i + 1}. {at.get_title(loc='left')}", loc="left")
            drawn[i].append(at)
    return drawn


def _charts_or_reason(answer: Answer) -> Sequence[Chart | str]:
    """The charts without the cost, which is of all answers together; or why there are none."""
    try:
        return [replace(chart, cost="") for chart in charts(answer)]
    except ProgrammingError as fault:
        return [fault.reason]


def _grid(cells: Sequence[Chart | str], cost: str) -> list[Axes]:
    """A new figure with places for these, row by row, each as high as it needs."""
    pyplot = extra("matplotlib.pyplot", "plot")
    heights = [max(map(_height, cells[i:i + ACROSS])) for i in range(0, len(cells), ACROSS)]
    across = min(len(cells), ACROSS)
    figure, axes = pyplot.subplots(len(heights), across, figsize=((WIDTH + BESIDE) * across, sum(heights)), squeeze=False,
                                   layout="constrained", height_ratios=heights)
    figure.supxlabel(_plain(cost), fontsize="small")
    places = list(axes.flat)
    for unused in places[len(cells):]:
        unused.set_axis_off()
    return places[:len(cells)]


def _height(cell: Chart | str) -> float:
    if isinstance(cell, str):
        return 1.0
    return HEIGHT if cell.lines else 1.4 + PER_BAR * max(cell.bars, 2)


def _draw(ax: Axes, chart: Chart) -> None:
    draw = _draw_lines if chart.lines else _draw_bars if chart.key else _draw_dot
    draw(ax, chart.series)
    _label(ax, chart)


def _places(made: Sequence[Chart]) -> list[Axes]:
    """A new figure with axes one below another."""
    pyplot = extra("matplotlib.pyplot", "plot")
    width = WIDTH + (BESIDE if len(made[0].series) > 1 else 0.0)
    _, axes = pyplot.subplots(len(made), 1, figsize=(width, _height(made[0]) * len(made)), layout="constrained", squeeze=False)
    return list(axes[:, 0])


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
        ax.barh(heights, one.values, height=0.9 * thick, label=_named(one.name), alpha=0.75)
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
        (line,) = ax.plot(keys, one.values, marker="o", markersize=3, linewidth=1.2, label=_named(one.name))
        ax.fill_between(keys, [value - far for value, far in zip(one.values, below, strict=True)],
                        [value + far for value, far in zip(one.values, above, strict=True)], color=line.get_color(),
                        alpha=0.25 if len(series) == 1 else 0.15, linewidth=0)
    if any(isinstance(key, dt.date) for one in series for key in one.keys):
        ax.tick_params(axis="x", rotation=30)


def _label(ax: Axes, chart: Chart) -> None:
    """What is along each axis, what the colours are, and below what the intervals mean."""
    ax.set_title(_plain(chart.title), loc="left")
    below = "\n".join(textwrap.fill(line, 90) for line in filter(None, (*chart.notes, chart.cost)))
    ax.set_xlabel(_plain(f"{chart.key if chart.lines else chart.name}\n{below}"), fontsize="small")
    ax.set_ylabel(_plain(chart.name if chart.lines else chart.key))
    ax.spines[["top", "right"]].set_visible(False)
    if chart.lines and chart.whole:
        ax.locator_params(axis="x", integer=True)
    if chart.second:
        ax.legend(title=_plain(chart.second), loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _bars_of(series: Series) -> Any:
    return None if all(not any(ends) for ends in series.drawn_ends) else series.drawn_ends


def _named(value: Value) -> str:
    """The name of a bar or a line: what begins with an underscore would have no place in a legend."""
    name = number(value).replace("\n", " ")
    name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME - 4]} ..."
    return _plain("\n".join(textwrap.wrap(f" {name}" if name.startswith("_") else name, LINE, drop_whitespace=False)))


def _plain(text: str) -> str:
    """A text that is not taken for a formula."""
    return text.replace("$", r"\$")
