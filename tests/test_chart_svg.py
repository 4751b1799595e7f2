"""Charts of pages: every mark is there and labelled, no label is cut off or touches another, whatever is drawn."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import shutil
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

import pytest
from test_drawing import answer

from dpsql.answers.chart_axes import axis_of, day_ticks, number_texts, place_of, ticks
from dpsql.answers.chart_svg import NARROW, WIDE, chart_html, chart_svg
from dpsql.answers.chart_texts import SIZE, text_width, wrapped
from dpsql.answers.charted import Chart, charts
from dpsql.answers.html_page import SVG, document

LONG = "a name that goes on and on, as those of diagnoses do, with (brackets), commas & <signs> " * 3
WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
HOSTILE = "</svg><script>alert('x')</script>\"'&"
DAY = dt.date(2020, 1, 31)


def shapes() -> Iterator[tuple[str, str, list[Any], float]]:
    """Answers of many shapes: a name, the columns, the rows, and half the width of the intervals."""
    for count in (1, 2, 7, 31, 60):
        yield f"{count} bars", "k n", [(f"value {i}", (i * 37) % 101 - 20) for i in range(count)], 15
        yield f"{count} long names", "k n", [(f"{i} {LONG}", 10**i) for i in range(min(count, 12))], 3
    yield "one long word", "k mean", [(WORD, 1.5), (WORD[::-1], -2.5)], 0.5
    yield "hostile", "k n", [(HOSTILE, 5), ("漢字" * 30, 6), ("🙂" * 40, 7), ("", 8), (None, 9)], 1
    for power in (-300, -12, -3, 0, 6, 15, 300):
        yield f"magnitude {power}", "k mean", [("a", 1.25 * 10.0**power), ("b", -0.5 * 10.0**power)], 10.0**(power - 1)
        yield f"line of magnitude {power}", "year mean", [(i, (i - 2) * 10.0**power) for i in range(9)], 10.0**(power - 1)
    yield "open ends", "k mean", [("a", 5.0), ("b", None)], math.inf
    yield "far ends", "k mean", [("a", 5.0), ("b", 7.0)], 1e200
    yield "no interval", "k mean", [("a", 5.0), ("b", 0.0)], 0.0
    yield "not finite", "k mean", [("a", math.inf), ("b", math.nan), ("c", 2.0)], 1
    yield "the largest numbers", "k mean", [("a", 1.7e308), ("b", -1.7e308)], 1
    yield "groups", "k b n", [(k, b, 10) for k in ("x", LONG, None) for b in (True, False, None)], 20
    yield "ten groups", "b k n", [(b, f"{i} {LONG[:40]}", i) for b in (True, False) for i in range(10)], 2
    yield "small bars", "b k n", [(f"key {b} {LONG[:10 * b]}", f"{i} {LONG[:7 * i]}", i * b - 20) for b in range(6) for i in range(18)], 4
    yield "many small bars", "k b n", [(f"{k}", b, k * 10**7) for k in range(31) for b in (True, False, None)], 3
    yield "small lines", "year k mean", [(i, f"{j} {LONG[:9 * j]}", i * j * 1.0) for i in range(5) for j in range(13)], 2
    yield "small lines of days", "day k n", [(DAY + dt.timedelta(days=i), f"{j}", i * j) for i in range(40) for j in range(11)], 2
    yield "a dot", "mean", [(12.5,)], 5
    yield "a large dot", "mean", [(1.23456789e12,)], 5e11
    yield "a dot without a number", "mean", [(None,)], 5
    yield "two points", "day n", [(DAY, 5)], 5
    for step, count in ((1, 3), (1, 30), (30, 14), (365, 40), (9000, 300)):
        yield f"{count} days, every {step}", "day n", [(DAY + dt.timedelta(days=i * step), i % 13) for i in range(count)], 4
    yield "all days there are", "day mean", [(dt.date.min, 1.0), (DAY, 2.0), (dt.date.max, 3.0)], 1
    for first, count in ((0, 200), (-5, 11), (10**15, 5), (-10**18, 3)):
        yield f"{count} keys from {first}", "year n", [(first + i, (i * i) % 17) for i in range(count)], 3
    yield "lines", "year k mean", [(i, f"{j} {LONG[:30 * j]}", i * j * 1.0) for i in range(5) for j in range(10)], 2
    yield "a broken line", "year mean", [(1, 1.0), (2, None), (3, 3.0), (4, 4.0), (None, 5.0), (6, math.inf)], 1
    yield "all the same", "year n", [(i, 7) for i in range(6)], 0


SHAPES = {name: (columns, rows, margin) for name, columns, rows, margin in shapes()}


def charts_of(name: str) -> list[Chart]:
    columns, rows, margin = SHAPES[name]
    made = answer(columns, rows, margin=margin)
    return charts(made)


def drawn(chart: Chart, width: int) -> Any:
    """The picture, as XML whose names are without the namespace."""
    picture = ElementTree.fromstring(chart_svg(chart, width))
    for part in picture.iter():
        space, part.tag = part.tag[1:].split("}")
        assert space == SVG
    return picture


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_label_is_whole_and_alone(name: str, width: int) -> None:
    for chart in charts_of(name):
        picture = drawn(chart, width)
        _, _, right, bottom = map(float, picture.get("viewBox", "").split())
        assert right == width
        boxes = [box_of(text) for text in picture.iter("text")]
        assert boxes
        for left, top, end, low, text in boxes:
            assert left >= -0.1 and end <= right + 0.1 and top >= -0.1 and low <= bottom + 0.1, (text, left, end, top, low, bottom)
        for one, other in itertools.combinations(boxes, 2):
            apart = one[2] <= other[0] + 0.1 or other[2] <= one[0] + 0.1 or one[3] <= other[1] + 0.1 or other[3] <= one[1] + 0.1
            assert apart, (one, other)
        for number in numbers_of(picture):
            assert math.isfinite(number) and -0.1 <= number <= max(width, bottom) + 0.1


def box_of(text: Any) -> tuple[float, float, float, float, str]:
    """Where a text is: left, top, right and bottom, by the bound on its width."""
    shown = text.text or ""
    x, y, wide = float(text.get("x")), float(text.get("y")), text_width(shown)
    left = {"start": x, "middle": x - wide / 2, "end": x - wide}[text.get("text-anchor")]
    return left, y - 0.95 * SIZE, left + wide, y + 0.25 * SIZE, shown


def numbers_of(picture: Any) -> Iterator[float]:
    """All coordinates."""
    for part in picture.iter():
        yield from (float(value) for name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height")
                    if (value := part.get(name)) is not None and part.tag != "svg")
        yield from (float(value) for point in part.get("points", "").split() for value in point.split(","))


@pytest.mark.parametrize("name", SHAPES)
def test_every_number_has_its_mark_and_its_words(name: str) -> None:
    for chart in charts_of(name):
        for width in (WIDE, NARROW):
            picture = drawn(chart, width)
            titles = ["".join(title.itertext()) for title in picture.iter("title")]
            told = [words for series in chart.series for words, value in zip(series.words, series.values, strict=True)
                     if not chart.lines or math.isfinite(value)]
            assert sorted(title.rpartition(f"{chart.name}: ")[2] for title in titles) == sorted(told)
            finite = [value for series in chart.series for value in series.values if math.isfinite(value)]
            marks = [*picture.iter("circle")] if chart.lines or not chart.key else [*picture.iter("rect")]
            assert len(marks) == len(finite)
            if not chart.lines and not chart.panels:
                texts = "".join("".join(text.itertext()) for text in picture.iter("text")).replace(" ", "")
                assert all(words.replace(" ", "") in texts for words in told)


def test_bars_and_intervals_are_where_their_numbers_are() -> None:
    (chart,) = charts(answer("k n", [("a", 100), ("b", 50), ("c", -25)], margin=10))
    picture = drawn(chart, WIDE)
    bars = [(float(bar.get("x", "")), float(bar.get("width", ""))) for bar in picture.iter("rect")]
    per_unit = bars[0][1] / 100
    assert [round(wide / per_unit) for _, wide in bars] == [100, 50, 25]
    zero = bars[0][0]
    assert abs(bars[2][0] + bars[2][1] - zero) < 0.2
    whiskers = [line for line in picture.iter("line") if line.get("stroke") == "var(--mark)" and line.get("y1") == line.get("y2")]
    assert [[round((float(line.get(end, "")) - zero) / per_unit) for end in ("x1", "x2")] for line in whiskers] == [
        [90, 110], [40, 60], [-35, -15]]


def test_an_end_that_is_open_is_not_drawn_and_said() -> None:
    (chart,) = charts(answer("k mean", [("a", 5.0)], margin=math.inf))
    page = chart_html(chart)
    assert "An open interval is drawn only up to its known end" in page and "5 of any error" in page
    assert not [line for line in drawn(chart, WIDE).iter("line") if line.get("stroke") == "var(--mark)"]


def test_hostile_names_stay_texts() -> None:
    for width in (WIDE, NARROW):
        (chart,) = charts_of("hostile")
        picture = chart_svg(chart, width)
        assert "<script" not in picture
        assert HOSTILE in "".join(ElementTree.fromstring(picture).itertext())


@pytest.mark.parametrize("values", [[0, 1], [0.1, 0.2, 0.3], [1e15, 1e15 + 1], [-1e300, 1e300], [1e-12, 2e-12], [0.0], [999.5, 1000]])
def test_names_of_numbers_tell_them_apart(values: Sequence[float]) -> None:
    assert len(set(number_texts(values))) == len(values)


@pytest.mark.parametrize(("ends", "named"), [
    ((dt.date(2020, 1, 1), dt.date(2020, 1, 5)), [f"2020-01-0{day}" for day in range(1, 6)]),
    ((dt.date(2020, 1, 1), dt.date(2020, 12, 31)), ["2020-01", "2020-04", "2020-07", "2020-10"]),
    ((dt.date(2000, 1, 1), dt.date(2020, 1, 1)), ["2000", "2005", "2010", "2015", "2020"])])
def test_dates_are_named_by_beginnings(ends: tuple[dt.date, dt.date], named: list[str]) -> None:
    axis = axis_of(map(place_of, ends), 40, 460)
    assert [tick.text for tick in day_ticks(axis, 500, times=False)] == named


def test_whole_numbers_are_named_as_keys_are() -> None:
    assert [tick.text for tick in ticks(axis_of([2019, 2021], 0, 400), 400, whole=True)] == ["2019", "2020", "2021"]


def test_a_wrapped_text_loses_no_letter() -> None:
    for text in (LONG[:190], WORD, "漢字" * 30):
        lines = wrapped(text, 100)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "") and all(text_width(line) <= 100.1 for line in lines)
    assert wrapped("x" * 300, 1e9)[-1].endswith("…")


LABELS_IN_A_BROWSER = """() => [...document.querySelectorAll('svg')].flatMap(picture => {
  const room = picture.viewBox.baseVal, boxes = [...picture.querySelectorAll('text')].map(text => text.getBBox());
  const out = boxes.filter(b => b.x < -.5 || b.x + b.width > room.width + .5 || b.y < -.5 || b.y + b.height > room.height + .5);
  const touching = boxes.filter((a, i) => boxes.slice(i + 1).some(b =>
    Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x) > .5 &&
    Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 1.5));
  return [...out, ...touching].map(b => picture.getAttribute('aria-label'));
})"""


@pytest.mark.slow
def test_labels_are_whole_and_alone_in_a_browser_too() -> None:
    """The bounds on widths hold for the fonts that there are."""
    playwright = pytest.importorskip("playwright.sync_api", reason="a browser")
    found = shutil.which("chromium") or shutil.which("google-chrome") or pytest.skip("there is no browser")
    pictures = [chart_svg(chart, width) for name in SHAPES for chart in charts_of(name) for width in (WIDE, NARROW)]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for font in ("system-ui, sans-serif", "'DejaVu Sans'", "'Liberation Sans'", "serif"):
            page = browser.new_page()
            page.set_content(document("charts", [f"<style>.dpsql {{ font-family: {font}; }}</style>", *pictures]))
            assert page.evaluate(LABELS_IN_A_BROWSER) == []
        browser.close()
