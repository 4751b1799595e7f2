"""Answers as pictures: the kind follows from the keys, intervals are drawn, every mark is labelled, and nothing is cut off."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import dpsql
from dpsql.answers.answer import Answer, AnswerColumn
from dpsql.answers.columns import of_rows
from dpsql.answers.plots import plot
from dpsql.batch.workload_answers import Answers
from dpsql.types import Type

matplotlib = pytest.importorskip("matplotlib", reason="an extra")
KINDS = {"k": Type.VARCHAR, "b": Type.BOOLEAN, "year": Type.BIGINT, "day": Type.DATE, "n": Type.BIGINT, "mean": Type.DOUBLE}


@pytest.fixture(autouse=True)
def _backend() -> Iterator[None]:
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def answer(names: str, rows: Sequence[Sequence[Any]], *, margin: float = 5.0, public: bool = False) -> Answer:
    """Rows of columns with these names, of which those called n and mean are noisy."""
    columns = tuple(AnswerColumn(name=name, type=KINDS[name], exact=public or name not in ("n", "mean")) for name in names.split())
    ends = [[None if column.exact or value is None else (value - margin, value + margin)
             for column, value in zip(columns, row, strict=True)] for row in rows]
    errors = [[None if each is None else margin / 2 for each in row] for row in ends]
    return Answer(columns=columns, data=of_rows(rows, errors, ends, len(columns)), confidence=0.95, cost="ε = 1")


def texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def labelled(ax: Any) -> None:
    """Both axes say what they show, the intervals are explained, and all text is inside the figure."""
    figure = ax.figure
    figure.canvas.draw()
    assert "95 % interval" in ax.get_xlabel() and ax.get_title(loc="left")
    frame = figure.bbox
    ticks = [tick for axis in (ax.xaxis, ax.yaxis) for tick, place in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True)
             if min(axis.get_view_interval()) <= place <= max(axis.get_view_interval())]
    for text in (*ax.texts, ax.xaxis.label, ax.yaxis.label, *ticks):
        box = text.get_window_extent()
        if text.get_text():
            assert box.x0 >= frame.x0 - 1 and box.x1 <= frame.x1 + 1 and box.y0 >= frame.y0 - 1 and box.y1 <= frame.y1 + 1, text


def test_a_text_makes_bars_with_the_numbers_behind_them() -> None:
    ax: Any = plot(answer("k n", [("a", 100), ("a longer name", 50), (None, -3)]))
    assert [patch.get_width() for patch in ax.patches] == [100, 50, -3] and texts(ax) == ["100 ± 5", "50 ± 5", "-3 ± 5"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "a longer name", "NULL"]
    (whiskers,) = ax.collections
    assert [segment[:, 0].tolist() for segment in whiskers.get_segments()] == [[95, 105], [45, 55], [-8, 2]]
    labelled(ax)


def test_a_number_or_a_date_makes_a_line_in_a_band() -> None:
    ax: Any = plot(answer("year n", [(2021, 7), (2019, 9), (None, 4), (2020, 8)]))
    assert ax.lines[0].get_xydata().tolist() == [[2019, 9], [2020, 8], [2021, 7]] and len(ax.collections) == 1
    assert "rows whose year is NULL are not drawn" in ax.get_xlabel() and "the band is the 95 % interval" in ax.get_xlabel()
    assert "at its widest, it spans 10" in ax.get_xlabel()
    labelled(ax)
    labelled(plot(answer("day mean", [(dt.date(2020, month, 1), 2.5 * month) for month in range(1, 13)])))


def test_few_numbers_are_bars() -> None:
    ax: Any = plot(answer("year n", [(0, 7), (1, 9)]))
    assert len(ax.patches) == 2


def test_a_second_key_makes_groups() -> None:
    bars: Any = plot(answer("k b n", [(k, b, 10) for k in "xyz" for b in (True, False)]))
    assert len(bars.patches) == 6 and [text.get_text() for text in bars.get_legend().get_texts()] == ["true", "false"]
    assert bars.get_legend().get_title().get_text() == "b" and bars.get_title(loc="left") == "n by k and b"
    labelled(bars)
    for names in ("k year n", "year k n"):
        rows = [(k, year, 10) if names.startswith("k") else (year, k, 10) for k in "xy" for year in (1, 2, 3)]
        lines: Any = plot(answer(names, rows))
        assert len(lines.lines) == 2 and [text.get_text() for text in lines.get_legend().get_texts()] == ["x", "y"]


def test_no_key_is_a_dot() -> None:
    ax: Any = plot(answer("mean", [(12.5,)]))
    assert texts(ax) == ["12.5 ± 5.0"] and not ax.patches
    labelled(ax)


def test_several_numbers_have_axes_of_their_own() -> None:
    made: Any = plot(answer("k n mean", [("a", 1, 2.0), ("b", 3, 4.0)]))
    assert [ax.get_title(loc="left") for ax in made] == ["n by k", "mean by k"]
    one: Any = plot(answer("k n mean", [("a", 1, 2.0), ("b", 3, 4.0)]), ["mean"])
    assert one.get_title(loc="left") == "mean by k"
    with pytest.raises(dpsql.ProgrammingError):
        plot(answer("k n mean", [("a", 1, 2.0)]), ax=one)
    assert plot(answer("k n", [("a", 1)]), ax=one) is one


def test_a_workload_is_drawn_in_a_grid() -> None:
    """With the numbers of its statements; what cannot be drawn is told in its place, and the cost once, as it is of all."""
    answers = (answer("k n mean", [("a", 1, 2.0), ("b", 3, 4.0)]), answer("k b year n", [("a", True, 1, 1)]),
               answer("year n", [(i, i) for i in range(9)]), answer("k b n", [(k, b, 10) for k in "xyz" for b in (True, False)]))
    made: Any = Answers(answers=answers, cost="ε = 1").plot()
    assert [[ax.get_title(loc="left") for ax in row] for row in made] == [
        ["1. n by k", "1. mean by k"], [], ["3. n by year"], ["4. n by k and b"]]
    figure = made[0][0].figure
    assert len(figure.axes) == 6 and figure.get_supxlabel() == "cost ε = 1, for all together"
    assert any("2. no chart: an answer with 3 keys" in text for ax in figure.axes for text in texts(ax))
    for row in made:
        for ax in row:
            labelled(ax)
            assert "cost" not in ax.get_xlabel()
    boxes = [ax.get_tightbbox() for row in made for ax in row]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_a_workload_that_cannot_be_drawn_is_refused() -> None:
    for answers in ((answer("k b year n", [("a", True, 1, 1)]),), (answer("n", [(1,)]),) * 31):
        with pytest.raises(dpsql.ProgrammingError) as caught:
            Answers(answers=answers, cost="ε = 1").plot()
        assert caught.value.code == "plot" and caught.value.try_


def test_numbers_of_public_tables_are_drawn() -> None:
    ax: Any = plot(answer("year mean", [(1, 1.0), (2, 2.0), (3, 3.0)], public=True))
    assert len(ax.lines) == 1 and "year" in ax.get_xlabel()
    two: Any = plot(answer("year b n", [(year, b, 1) for year in (1, 2, 3) for b in (True, False)], public=True), ["n"])
    assert len(two.lines) == 2


def test_open_ends_and_missing_numbers_are_told() -> None:
    ax: Any = plot(answer("k mean", [("a", 5.0), ("b", None)], margin=math.inf))
    assert texts(ax) == ["5 of any error", "NULL"] and "without an end" in ax.get_xlabel()
    labelled(ax)


def test_names_are_no_formulas_and_stay_in_the_legend() -> None:
    ax: Any = plot(answer("k b n", [("$a_b$ $\\frac", True, 1), ("_y", False, 2), ("x" * 90, True, 4)]))
    labelled(ax)
    named: Any = plot(answer("year k n", [(1, "_y", 1), (2, "_y", 1), (3, "_y", 1)]))
    assert [text.get_text().strip() for text in named.get_legend().get_texts()] == ["_y"]


@pytest.mark.parametrize(("names", "rows"), [
    ("k n", [(str(i), i) for i in range(61)]), ("year k n", [(i, str(i), 1) for i in range(11)]), ("k", [("a",)]), ("k n", []),
    ("k b year n", [("a", True, 1, 1)]), ("n", [(1,), (2,)]), ("k n", [("a", 1), ("a", 2)])])
def test_what_cannot_be_told_apart_is_refused(names: str, rows: list[Any]) -> None:
    with pytest.raises(dpsql.ProgrammingError) as caught:
        plot(answer(names, rows))
    assert caught.value.code == "plot" and caught.value.try_


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(dpsql.ProgrammingError, match="no column of numbers called k"):
        plot(answer("k n", [("a", 1)]), ["k"])
