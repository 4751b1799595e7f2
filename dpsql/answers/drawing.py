"""The charts of an answer, or of a workload's answers, as one drawing: shown by notebooks, and saved as SVG or as a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpsql.answers.answer import Answer
from dpsql.answers.answer_page import title_of
from dpsql.answers.chart_svg import WIDE, chart_html, chart_svg
from dpsql.answers.charted import Chart, charts
from dpsql.answers.display import charged
from dpsql.answers.html_page import PAPER, document, fragment, heading, paragraph
from dpsql.answers.new_files import save
from dpsql.errors import ProgrammingError
from dpsql.frozen import Frozen

MOST_CHARTS = 30  # of a workload


class Drawing(Frozen):
    """Charts with their intervals. A notebook shows them.

    title   of a page with them
    charts  in order
    parts   the charts as HTML, with what is said beside them
    """

    title: str
    charts: tuple[Chart, ...]
    parts: tuple[str, ...]

    def _repr_html_(self) -> str:
        return fragment(self.parts, "charts")

    @property
    def svgs(self) -> list[str]:
        """Each chart as an SVG file, in the colours of paper."""
        return [_alone(chart_svg(chart, WIDE)) for chart in self.charts]

    def save(self, target: str | Path) -> None:
        """Write a new file: the SVG of a single chart where the name ends in `.svg`, and otherwise an HTML page with all charts.

        Raises OperationalError if the file exists, or cannot be written, and ProgrammingError where one SVG is not enough.
        """
        if Path(target).suffix != ".svg":
            save(document(self.title, self.parts, "charts"), target)
            return
        if len(self.charts) > 1:
            raise ProgrammingError(f"there are {len(self.charts)} charts, and an SVG file holds one", code="plot",
                                   try_=f"plot({self.charts[0].name!r}).save(...)")
        save(self.svgs[0], target)


def drawing(answer: Answer, columns: Sequence[str] = ()) -> Drawing:
    """The charts of columns of numbers, by their names; by default, of all. See `charted.charts` for what is drawn.

    Raises ProgrammingError if there is nothing to draw or too much.
    """
    made = charts(answer, columns)
    cost = paragraph(charged(answer), "dim")
    return Drawing(title=title_of(answer), charts=tuple(made), parts=(*map(chart_html, made), cost))


def drawing_together(answers: Sequence[Answer], cost: str) -> Drawing:
    """The charts of a workload's answers, under the number of their statement. For an answer that cannot be drawn, the reason is
    given instead. `cost` is what all cost together, in words.

    Raises ProgrammingError if no answer can be drawn, or there are more than `MOST_CHARTS` charts.
    """
    found = [_charts_or_reason(answer) for answer in answers]
    made = tuple(chart for each in found if not isinstance(each, str) for chart in each)
    if not made:
        raise ProgrammingError("none of the answers can be drawn", code="plot", try_="GROUP BY one or two keys")
    if len(made) > MOST_CHARTS:
        raise ProgrammingError(f"{len(made)} charts are too many for one drawing", code="plot", try_="answers[0].plot()")
    return Drawing(title=f"{len(answers)} statements, answered together", charts=made,
                   parts=(*_numbered(answers, found), paragraph(cost, "dim")))


def _charts_or_reason(answer: Answer) -> list[Chart] | str:
    try:
        return charts(answer)
    except ProgrammingError as fault:
        return fault.reason


def _numbered(answers: Sequence[Answer], found: Sequence[list[Chart] | str]) -> Iterator[str]:
    for i, (answer, each) in enumerate(zip(answers, found, strict=True), start=1):
        yield heading(3, f"{i}. {title_of(answer)}")
        if isinstance(each, str):
            yield paragraph(f"No chart: {each}.", "dim")
        else:
            yield from map(chart_html, each)


def _alone(svg: str) -> str:
    """A picture with its own colours and fonts, for use outside a page."""
    coloured = re.sub(r"var\(--(\w+)\)", lambda name: PAPER[name[1]], svg)
    return coloured.replace("<svg ", "<svg font-family='sans-serif' ", 1)
