"""The charts of an answer as they are sent to browsers: pictures that `chart_svg` draws, in each form that makes sense.

They are made of the released answer. Their size is bounded: by how many numbers and letters `charted` and `chart_svg` let a
picture have, and by `MOST_LETTERS`.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from dpsql.answers.answer import Answer
from dpsql.answers.chart_svg import NARROW, WIDE, chart_svg, form_of
from dpsql.answers.charted import Chart, pictured
from dpsql.errors import ProgrammingError

MOST_LETTERS = 2**21  # of the charts of an answer: with more, no other column is drawn


def charts_of(answer: Answer | None) -> dict[str, Any]:
    """The fields `charts` and `undrawn`: the pictures of an answer, and why some are missing (None if none are)."""
    if answer is None:
        return {"charts": [], "undrawn": "only answers of SELECT are drawn"}
    try:
        found = pictured(answer)
    except ProgrammingError as fault:
        return {"charts": [], "undrawn": f"{fault.reason}; try {fault.try_}"}
    also = _as_bars(answer) if found[0].lines else []
    made: list[dict[str, Any]] = []
    letters = 0
    for number, charts in enumerate(zip_longest(found, also)):
        if letters > MOST_LETTERS:
            return {"charts": made, "undrawn": "more columns would make the answer too large; try fewer of them"}
        drawn = [_drawn(number, chart) for chart in charts if chart is not None]
        made += reversed(drawn) if found[0].few else drawn
        letters += sum(len(text) for each in drawn for text in (each["caption"], each["wide"], each["narrow"], *each["notes"]))
    return {"charts": made, "undrawn": None}


def _as_bars(answer: Answer) -> list[Chart]:
    """What is drawn as lines once more as bars, where these are not too many."""
    try:
        return pictured(answer, bars=True)
    except ProgrammingError:
        return []


def _drawn(number: int, chart: Chart) -> dict[str, Any]:
    return {"number": number, "column": chart.name, "form": form_of(chart), "caption": chart.caption,
            "notes": [*chart.sentences], "wide": chart_svg(chart, WIDE), "narrow": chart_svg(chart, NARROW)}
