"""Charts as they are sent to browsers: every form that makes sense, bounded in size, and words where there is none."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from test_chart_svg import HOSTILE, SHAPES
from test_drawing import answer

from dpsql.answers.charted import MOST_POINTS
from dpsql.server.front.http.http_charts import MOST_LETTERS, charts_of

DAY = dt.date(2020, 1, 31)
OF_PICTURE = 6_000_000  # letters of the largest picture there can be, in three widths


def forms(names: str, rows: list[Any]) -> list[tuple[int, str, str]]:
    told = charts_of(answer(names, rows))
    assert told["undrawn"] is None
    return [(chart["number"], chart["column"], chart["form"]) for chart in told["charts"]]


@pytest.mark.parametrize(("names", "rows", "expected"), [
    ("k n mean", [("a", 1, 1.0), ("b", 2, 2.0)], [(0, "n", "bars"), (1, "mean", "bars")]), ("n", [(1,)], [(0, "n", "dot")]),
    ("year n", [(i, i) for i in range(8)], [(0, "n", "bars"), (0, "n", "lines")]),
    ("year n", [(i, i) for i in range(9)], [(0, "n", "lines"), (0, "n", "bars")]),
    ("year n mean", [(i, i, 1.0) for i in range(9)],
     [(0, "n", "lines"), (0, "n", "bars"), (1, "mean", "lines"), (1, "mean", "bars")]),
    ("year n", [(i, i) for i in range(61)], [(0, "n", "lines")]), ("day n", [(DAY, 1)], [(0, "n", "lines"), (0, "n", "bars")])])
def test_what_is_drawn_in_which_forms(names: str, rows: list[Any], expected: list[tuple[int, str, str]]) -> None:
    assert forms(names, rows) == expected


def test_what_is_not_drawn_is_said_in_words() -> None:
    nothing = {"charts": [], "undrawn": "only answers of SELECT are drawn"}
    assert charts_of(None) == nothing
    assert charts_of(answer("k b year n", [("a", True, 1, 1)]))["undrawn"] == (
        "an answer with 3 keys cannot be drawn; try GROUP BY one or two keys")
    many = charts_of(answer("year n", [(i, i) for i in range(MOST_POINTS + 1)]))
    assert many == {"charts": [], "undrawn": "2,001 rows are too many for a chart; try LIMIT 2000"}


@pytest.mark.parametrize("name", SHAPES)
def test_whatever_is_drawn_is_xml_without_styles(name: str) -> None:
    names, rows, margin = SHAPES[name]
    for chart in charts_of(answer(names, rows, margin=margin))["charts"]:
        for picture in (chart["wide"], chart["narrow"]):
            parts = [*ElementTree.fromstring(picture).iter()]
            assert not any("style" in part.tag or "style" in part.attrib for part in parts)


def test_names_of_any_letters_are_xml() -> None:
    names = [HOSTILE, "a\x00\x01\x1b\x85b", "\ufffe\uffff", "\ud800", "]]>", "&amp;", "a\nb"]
    told = charts_of(answer("k n", [(name, i) for i, name in enumerate(names)]).named(["\x02key", "n\x03"]))
    for picture in (told["charts"][0]["wide"], told["charts"][0]["narrow"]):
        ElementTree.fromstring(picture)
    json.dumps(told, allow_nan=False)


def test_the_size_is_bounded_whatever_the_names_and_numbers_are() -> None:
    """Columns have names as long as statements may be."""
    long = "x" * 200_000
    bars = charts_of(answer("k n", [(f"{i} {long}", 10**i) for i in range(20)]).named([long, long]))
    assert size(bars) < 150_000 and bars["undrawn"] is None
    lines = answer("year k n", [(i, f"{j} {long[:300]}", i) for i in range(MOST_POINTS // 10) for j in range(10)]).named([long] * 3)
    assert size(charts_of(lines)) < OF_PICTURE
    columns = answer(f"k {'n ' * 200}", [(f"{i}", *[i] * 200) for i in range(60)])
    told = charts_of(columns)
    assert size(told) < MOST_LETTERS + OF_PICTURE and 10 < len(told["charts"]) < 200
    assert told["undrawn"] == "more columns would make the answer too large; try fewer of them"


def size(told: dict[str, Any]) -> int:
    return len(json.dumps(told))
