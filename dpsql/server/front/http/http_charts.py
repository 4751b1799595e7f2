"""The charts of an answer as they are sent to browsers: pictures that `chart_svg` draws, in each form that makes sense.

They are made of the released answer. Their size is bounded: by how many numbers and letters `charted` and `chart_svg` let a
picture have, and by `MOST_LETTERS`.
"""

from __future__ import annotations

from itertools import zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dpsql.answers.answer import Answer
from dpsql.answers.chart_svg import BROAD, NARROW, WIDE, chart_svg, form_of
from dpsql.answers.charted import Chart, Orders, pictured
from dpsql.catalog.model import Catalog
from dpsql.errors import ProgrammingError
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.types import Type

if TYPE_CHECKING:
    from dpsql.trusted.plan.expr.nodes import Value

MOST_LETTERS = 2**21  # of the charts of an answer: with more, no other column is drawn


def orders_of(answer: Answer | None, sql: str, catalog: Catalog) -> Orders:
    """The order in which the owner declares the values of each key: `poor, fair, good` says more than alphabetical order. There
    is none for a statement with ORDER BY, nor for a key for which two declarations disagree."""
    if answer is None or not isinstance(statement := parse(sql), Query) or statement.tree.args.get("order") is not None:
        return {}
    declared = [(name.lower(), column.domain.listed or column.domain.values) for table in catalog.tables.values()
                for name, column in table.columns.items() if column.domain is not None]
    found: dict[int, tuple[Value, ...]] = {}
    for at, column in enumerate(answer.columns):
        values = {row[at] for row in answer.rows} - {None} if column.exact and column.type is Type.VARCHAR else set()
        fitting = [(name, own) for name, own in declared if values and values <= {*own}]
        named = [own for name, own in fitting if name == column.name.lower()]
        orders = {tuple(value for value in own if value in values) for own in named or [own for _, own in fitting]}
        if len(orders) == 1:
            found[at] = orders.pop()
    return found


def charts_of(answer: Answer | None, orders: Orders = MappingProxyType({})) -> dict[str, Any]:
    """The fields `charts` and `undrawn`: the pictures of an answer, and why some are missing (None if none are)."""
    if answer is None:
        return {"charts": [], "undrawn": "only answers of SELECT are drawn"}
    try:
        found = pictured(answer, orders=orders)
    except ProgrammingError as fault:
        return {"charts": [], "undrawn": f"{fault.reason}; try {fault.try_}"}
    also = _as_bars(answer, orders) if found[0].lines else []
    made: list[dict[str, Any]] = []
    letters = 0
    for number, charts in enumerate(zip_longest(found, also)):
        if letters > MOST_LETTERS:
            return {"charts": made, "undrawn": "more columns would make the answer too large; try fewer of them"}
        drawn = [_drawn(number, chart) for chart in charts if chart is not None]
        made += reversed(drawn) if found[0].few else drawn
        letters += sum(len(text) for each in drawn
                       for text in (each["caption"], each["broad"], each["wide"], each["narrow"], *each["notes"]))
    return {"charts": made, "undrawn": None}


def _as_bars(answer: Answer, orders: Orders) -> list[Chart]:
    """The charts as bars instead of lines; none if there would be too many bars."""
    try:
        return pictured(answer, bars=True, orders=orders)
    except ProgrammingError:
        return []


def _drawn(number: int, chart: Chart) -> dict[str, Any]:
    return {"number": number, "column": chart.name, "form": form_of(chart), "caption": chart.caption,
            "notes": [*chart.sentences], "broad": chart_svg(chart, BROAD), "wide": chart_svg(chart, WIDE),
            "narrow": chart_svg(chart, NARROW)}
