"""Answers as drawings: the kind follows from the keys, intervals are drawn, every mark is labelled, and nothing is hidden."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import dpsql
from dpsql.answers.answer import Answer, AnswerColumn
from dpsql.answers.charted import Chart, Series
from dpsql.answers.columns import of_rows
from dpsql.answers.drawing import drawing
from dpsql.batch.workload_answers import Answers
from dpsql.types import Type

KINDS = {"k": Type.VARCHAR, "b": Type.BOOLEAN, "year": Type.BIGINT, "day": Type.DATE, "n": Type.BIGINT, "mean": Type.DOUBLE}


def answer(names: str, rows: Sequence[Sequence[Any]], *, margin: float = 5.0, public: bool = False) -> Answer:
    """Rows of columns with these names, of which those called n and mean are noisy."""
    columns = tuple(AnswerColumn(name=name, type=KINDS[name], exact=public or name not in ("n", "mean")) for name in names.split())
    ends = [[None if column.exact or value is None else (value - margin, value + margin)
             for column, value in zip(columns, row, strict=True)] for row in rows]
    errors = [[None if each is None else margin / 2 for each in row] for row in ends]
    return Answer(columns=columns, data=of_rows(rows, errors, ends, len(columns)), confidence=0.95, cost="ε = 1")


def only(names: str, rows: Sequence[Sequence[Any]], **how: Any) -> tuple[Chart, Series]:
    """The only chart of an answer, and its first series."""
    (chart,) = drawing(answer(names, rows, **how)).charts
    return chart, chart.series[0]


def test_a_text_makes_bars_with_the_numbers_behind_them() -> None:
    chart, series = only("k n", [("a", 100), ("a longer name", 50), (None, -3)])
    assert not chart.lines and series.keys == ("a", "a longer name", None)
    assert series.values == (100, 50, -3) and series.words == ("100 ± 5", "50 ± 5", "-3 ± 5")
    assert series.lows == (95, 45, -8) and series.highs == (105, 55, 2)
    assert "95 % interval" in chart.notes[0]


def test_a_number_or_a_date_makes_a_line_in_a_band() -> None:
    chart, series = only("year n", [(2021, 7), (2019, 9), (None, 4), (2020, 8)])
    assert chart.lines and list(zip(series.keys, series.values, strict=True)) == [(2019, 9), (2020, 8), (2021, 7)]
    notes = "; ".join(chart.notes)
    assert "rows whose year is NULL are not drawn" in notes and "the band is the 95 % interval" in notes and "it spans 10" in notes
    assert only("day mean", [(dt.date(2020, month, 1), 2.5 * month) for month in range(1, 13)])[0].lines


def test_few_numbers_are_bars() -> None:
    chart, series = only("year n", [(0, 7), (1, 9)])
    assert not chart.lines and len(series.values) == 2


def test_a_second_key_makes_groups() -> None:
    bars, _ = only("k b n", [(k, b, 10) for k in "xyz" for b in (True, False)])
    assert bars.bars == 6 and [series.name for series in bars.series] == ["true", "false"]
    assert bars.second == "b" and bars.title == "n by k and b"
    for names in ("k year n", "year k n"):
        rows = [(k, year, 10) if names.startswith("k") else (year, k, 10) for k in "xy" for year in (1, 2, 3)]
        lines, _ = only(names, rows)
        assert lines.lines and [series.name for series in lines.series] == ["x", "y"]


def test_no_key_is_a_dot() -> None:
    chart, series = only("mean", [(12.5,)])
    assert series.words == ("12.5 ± 5.0",) and not chart.key and not chart.lines


def test_several_numbers_have_charts_of_their_own() -> None:
    several = answer("k n mean", [("a", 1, 2.0), ("b", 3, 4.0)])
    assert [chart.title for chart in drawing(several).charts] == ["n by k", "mean by k"]
    assert [chart.title for chart in drawing(several, ["mean"]).charts] == ["mean by k"]


def test_a_notebook_shows_charts_and_cost() -> None:
    shown = drawing(answer("k n mean", [("<b>", 1, 2.0), ("b", 3, 4.0)]))._repr_html_()
    assert shown.count("<figure") == 2 and "&lt;b&gt;" in shown and "<b>" not in shown
    assert shown.count("cost ε = 1") == 1 and shown.count("95 % interval") >= 2


def test_one_chart_is_saved_as_svg_and_all_as_a_page(tmp_path: Path) -> None:
    several = answer("k n mean", [("a", 1, 2.0), ("b", 3, 4.0)])
    drawing(several, ["n"]).save(tmp_path / "n.svg")
    picture = ElementTree.fromstring((tmp_path / "n.svg").read_text(encoding="utf-8"))
    assert picture.tag.endswith("svg") and "1 ± 5" in "".join(picture.itertext())
    assert "var(" not in (tmp_path / "n.svg").read_text(encoding="utf-8")
    drawing(several).save(tmp_path / "both.html")
    assert (tmp_path / "both.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(dpsql.ProgrammingError, match="there are 2 charts"):
        drawing(several).save(tmp_path / "both.svg")
    with pytest.raises(dpsql.OperationalError):
        drawing(several).save(tmp_path / "both.html")


def test_a_workload_is_drawn_together() -> None:
    """With the numbers of its statements; what cannot be drawn is told in its place, and the cost once, as it is of all."""
    answers = (answer("k n mean", [("a", 1, 2.0), ("b", 3, 4.0)]), answer("k b year n", [("a", True, 1, 1)]),
               answer("year n", [(i, i) for i in range(9)]), answer("k b n", [(k, b, 10) for k in "xyz" for b in (True, False)]))
    made = Answers(answers=answers, cost="ε = 1").plot()
    assert [chart.title for chart in made.charts] == ["n by k", "mean by k", "n by year", "n by k and b"]
    shown = made._repr_html_()
    assert re.findall(r"<h3>(.*?)</h3>", shown) == ["1. n, mean by k", "2. n by k, b, year", "3. n by year", "4. n by k, b"]
    assert "No chart: an answer with 3 keys" in shown.split("<h3>2.")[1].split("<h3>3.")[0]
    assert re.findall(r"cost ε = 1[^<]*", shown) == ["cost ε = 1, for all together"]


def test_a_workload_that_cannot_be_drawn_is_refused() -> None:
    for answers in ((answer("k b year n", [("a", True, 1, 1)]),), (answer("n", [(1,)]),) * 31):
        with pytest.raises(dpsql.ProgrammingError) as caught:
            Answers(answers=answers, cost="ε = 1").plot()
        assert caught.value.code == "plot" and caught.value.try_


def test_numbers_of_public_tables_are_drawn() -> None:
    chart, _ = only("year mean", [(1, 1.0), (2, 2.0), (3, 3.0)], public=True)
    assert chart.lines and chart.key == "year" and not chart.intervals
    two = drawing(answer("year b n", [(year, b, 1) for year in (1, 2, 3) for b in (True, False)], public=True), ["n"])
    assert len(two.charts[0].series) == 2


def test_open_ends_and_missing_numbers_are_told() -> None:
    chart, series = only("k mean", [("a", 5.0), ("b", None)], margin=math.inf)
    assert series.words == ("5 of any error", "NULL") and any("an open interval" in note for note in chart.notes)


@pytest.mark.parametrize(("names", "rows"), [
    ("k n", [(str(i), i) for i in range(61)]), ("year k n", [(i, str(i), 1) for i in range(61)]), ("k", [("a",)]), ("k n", []),
    ("k b year n", [("a", True, 1, 1)]), ("n", [(1,), (2,)]), ("k n", [("a", 1), ("a", 2)])])
def test_what_cannot_be_told_apart_is_refused(names: str, rows: list[Any]) -> None:
    with pytest.raises(dpsql.ProgrammingError) as caught:
        drawing(answer(names, rows))
    assert caught.value.code == "plot" and caught.value.try_


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(dpsql.ProgrammingError, match="no column of numbers called k"):
        drawing(answer("k n", [("a", 1)]), ["k"])
