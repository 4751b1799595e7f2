"""The page about a synthetic table: what was drawn beside what was measured, from what was released alone."""

from __future__ import annotations

import datetime as dt
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from dpsql.errors import OperationalError
from dpsql.models.noisy_marginals import MarginalMeasurement
from dpsql.synthesis.counted_values import CountedValues
from dpsql.synthesis.dependence import correlations, cramers_v
from dpsql.synthesis.entry_texts import labelled
from dpsql.synthesis.released_table import SyntheticColumn, released
from dpsql.synthesis.synthetic_table import SyntheticTable, of_json
from dpsql.synthesis.table_comparison import TableComparison
from dpsql.synthesis.table_report import page
from dpsql.synthesis.table_trust import trust
from dpsql.types import Type

DAY = dt.date(2020, 1, 1).toordinal()
COLUMNS = (
    SyntheticColumn(name="sex", type=Type.VARCHAR, values=("f", "m", "f", "f"), counted=CountedValues(listed=("f", "m"))),
    SyntheticColumn(name="<age>", type=Type.BIGINT, values=(3, 12, None, 19), counted=CountedValues(listed=(0, 1, None), edges=(0, 10, 20))),
    SyntheticColumn(name="born", type=Type.DATE, values=(dt.date(2020, 1, 1),) * 3 + (dt.date(2020, 1, 3),),
                    counted=CountedValues(listed=(0, 1), edges=(DAY, DAY + 1, DAY + 4))),
    SyntheticColumn(name="key", type=Type.BIGINT, values=(1, 2, 3, 4)),
)


def measured(*columns: str, values: Any, variance: float) -> MarginalMeasurement:
    return MarginalMeasurement(columns=columns, values=np.array(values, dtype=float), variance=variance)


def table(*marginals: MarginalMeasurement, **more: Any) -> SyntheticTable:
    given: dict[str, Any] = {"name": "made", "method": "mst", "price": "ε = 1", "total": 8.0, "columns": COLUMNS, "statement": "SELECT 'a<b'"}
    return SyntheticTable(**{**given, "marginals": tuple(released(each, 1.0) for each in marginals), **more})


SEX, PAIR = measured("sex", values=[6, 2], variance=4), measured("<age>", "sex", values=[[2, 0], [1, 1], [3, 1]], variance=1)


def test_counts_that_several_marginals_tell_are_combined() -> None:
    """The pair tells of sex too: its sums over three ages have variance 3."""
    found = TableComparison(table(SEX, PAIR)).columns["sex"]
    assert found.error == pytest.approx(math.sqrt(1 / (1 / 4 + 1 / 3)))
    assert found.measured == pytest.approx((np.array([6, 2]) / 4 + np.array([6, 2]) / 3) * found.error**2)
    assert found.drawn.tolist() == [6, 2] and found.distance == pytest.approx(0)


def test_the_distance_is_the_share_of_rows_that_would_have_to_change() -> None:
    compared = TableComparison(table(measured("sex", values=[2, 6], variance=1), PAIR))
    assert TableComparison(table(measured("sex", values=[2, 6], variance=1))).columns["sex"].distance == 0.5
    pair = compared.pairs["sex", "<age>"]
    assert pair is not None and pair.drawn.tolist() == [[2, 2, 2], [0, 2, 0]]
    assert pair.distance == pytest.approx((0 + 1 + 1 + 0 + 1 + 1) / 2 / 8)


def test_noise_alone_is_as_far_off_as_is_said() -> None:
    draws = np.random.default_rng(3).normal(0, 5, (4000, 8))
    found = TableComparison(table(measured("sex", values=[6, 2], variance=25), total=1000.0)).columns["sex"]
    assert found.noise == pytest.approx(np.abs(draws[:, :2]).sum(axis=1).mean() / 2 / 1000, rel=0.03)


def test_what_was_never_counted_together_follows_from_the_model() -> None:
    compared = TableComparison(table(SEX, PAIR))
    assert compared.pairs["sex", "born"] is None and compared.pairs["<age>", "born"] is None and "born" not in compared.columns
    told = dict(trust(compared))
    assert "sex and born; <age> and born" in told["Not measured"] and told["Two columns"].startswith("1 of 3 pairs")
    assert "2 of 4 columns" in told["One column"] and "3 days in born" in told["Inside a bin"] and "10 in <age>" in told["Inside a bin"]


def test_entries_are_named() -> None:
    assert [labelled(column) for column in COLUMNS] == [
        ["f", "m"], ["0 to 9", "10 to 19", "NULL"], ["2020-01-01", "2020-01-02 to 2020-01-04"], []]
    times = SyntheticColumn(name="at", type=Type.TIMESTAMP, values=(), counted=CountedValues(listed=(0, 1), edges=(DAY, DAY + 0.5, DAY + 2)))
    assert labelled(times) == ["2020-01-01 00:00 to 2020-01-01 12:00", "2020-01-01 12:00 to 2020-01-03 00:00"]
    truths = SyntheticColumn(name="is", type=Type.BOOLEAN, values=(), counted=CountedValues(listed=(False, True, None)))
    assert labelled(truths) == ["false", "true", "NULL"]


def parts(text: str) -> ElementTree.Element:
    """The page as a tree: it is well-formed but for attributes without quotes and elements that HTML does not close."""
    body = text[text.index("<div class=dpsql>") : text.index("</body>")]
    return ElementTree.fromstring(re.sub(r"(?<= )([\w-]+)=([\w-]+)(?=[ >/])", r"\1='\2'", body))


def test_the_page_is_whole_and_fetches_nothing() -> None:
    text = page(table(SEX, PAIR, measured("born", values=[7, 1], variance=2), notes=("a note & more",), known=1))
    assert not re.search(r"(src|href)=|<script|@import|url\(", text)
    words = "".join(parts(text).itertext())
    assert all(told in words for told in ("made: a synthetic table", "SELECT 'a<b'", "ε = 1", "a note & more", "<age>", "2020-01-01", "NULL", "born (by an earlier statement)"))
    assert [row.text for row in parts(text).iter("figcaption")] == [None] * 4 and len(list(parts(text).iter("figure"))) == 4
    assert "key not counted" in words
    assert len([cell for cell in parts(text).iter("td") if cell.text == "–"]) == 2


@pytest.mark.parametrize(("kind", "size"), [(Type.VARCHAR, 60), (Type.BIGINT, 60), (Type.DOUBLE, 5)])
def test_what_is_drawn_stays_in_its_picture(kind: Type, size: int) -> None:
    dice = np.random.default_rng(1)
    listed: tuple[Any, ...] = tuple(f"v{at}" for at in range(size)) if kind is Type.VARCHAR else (*range(size - 1), None)
    column = SyntheticColumn(name="x", type=kind, values=listed * 2, counted=CountedValues(listed=listed))
    text = page(table(measured("x", values=dice.normal(2, 40, size), variance=1600), columns=(column,)))
    for picture in parts(text).iter("svg"):
        high = float(picture.get("viewBox", "").split()[-1])
        for bar in picture.iter("rect"):
            x, y, width, height = (float(bar.get(name, "")) for name in ("x", "y", "width", "height"))
            assert x >= -1e-9 and y >= -0.01 and min(width, height) >= 0 and x + width <= 100.01 and y + height <= high + 0.01
        for path in picture.iter("path"):
            assert all(-0.01 <= float(number) <= 100.01 for number in re.findall(r"[\d.-]+", path.get("d", "")))
    lines = [row for row in parts(text).iter("div") if row.get("class") == "entry"]
    assert len(lines) == (25 if kind is Type.VARCHAR else 0 if size > 12 else size)
    assert ("36 others, together" in text) == (kind is Type.VARCHAR)


def test_a_table_of_which_no_counts_were_released() -> None:
    made = table()
    assert "no counts were released" in page(made) and "no counts were released" in str(made) and made.as_dict()["marginals"] == []


def test_it_is_made_from_the_stored_form_and_written_once(tmp_path: Path) -> None:
    made = table(SEX, PAIR)
    of_json(made.as_json()).report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page(made)
    assert re.sub("</?style>", "", made._repr_html_()) in re.sub("</?style>", "", page(made))
    with pytest.raises(OperationalError, match="is not overwritten"):
        made.report(tmp_path / "page.html")
    with pytest.raises(OperationalError, match="cannot be written"):
        made.report(tmp_path / "nowhere" / "page.html")


# -- numbers


NUMBERS = (
    SyntheticColumn(name="x", type=Type.DOUBLE, values=(0.0,) * 50 + tuple(float(at) for at in range(1, 51)),
                    counted=CountedValues(listed=(0, 1, 2), edges=(0.0, 0.5, 10.0, 100.0))),
    SyntheticColumn(name="y", type=Type.BIGINT, values=tuple(range(100)), counted=CountedValues(listed=(0, 1, None), edges=(0, 50, 100))),
)
OF_NUMBERS = (measured("x", values=[48, 11, 41], variance=4), measured("x", "y", values=[[50, 1, 0], [0, 9, 0], [0, 40, 0]], variance=1))


def numbers(**more: Any) -> SyntheticTable:
    return table(*OF_NUMBERS, columns=NUMBERS, total=100.0, **more)


def test_bins_of_unequal_width_are_to_scale() -> None:
    """Areas are rows, over the range of the drawn values; a value that many rows share is marked."""
    figure = next(parts(page(numbers())).iter("figure"))
    single, *bars = sorted(figure.iter("rect"), key=lambda bar: bar.get("fill") != "var(--c1)")
    assert single.get("fill") == "var(--c1)" and float(single.get("height", "")) == 100
    widths, heights = ([float(bar.get(name, "")) for bar in bars] for name in ("width", "height"))
    assert widths == pytest.approx([0.94 * 100 * 9.5 / 50, 0.94 * 100 * 40 / 50], abs=0.01)
    assert widths[0] * heights[0] / (widths[1] * heights[1]) == pytest.approx(9 / 41, rel=0.01)
    assert "single values, not to scale: 0: 50, measured" in "".join(figure.itertext())


def test_correlations_are_those_of_rows_and_of_counts() -> None:
    found, = correlations(TableComparison(numbers()))
    x, y = (np.array(column.values, dtype=float) for column in NUMBERS)
    assert found.pair == ("x", "y") and found.rows == pytest.approx(np.corrcoef(x, y)[0, 1])
    parts_of = np.searchsorted([0.5, 10], x, side="right")
    means = [np.array([own[places == at].mean() for at in range(places.max() + 1)])[places] for own, places in ((x, parts_of), (y, np.arange(100) // 50))]
    assert found.binned == pytest.approx(np.corrcoef(*means)[0, 1])
    assert found.cells.measured.tolist() == [[50, 1], [0, 9], [0, 40]] and abs(found.measured - found.binned) < 4 * found.error


def test_the_error_of_a_correlation_is_that_of_the_noise() -> None:
    dice, truth, z = np.random.default_rng(5), np.array([[50.0, 1, 0], [0, 9, 0], [0, 40, 0]]) * 20, []
    exact, = correlations(TableComparison(table(measured("x", "y", values=truth, variance=1), columns=NUMBERS, total=2000.0)))
    for _ in range(200):
        noisy = measured("x", "y", values=truth + dice.normal(0, 20, truth.shape), variance=400)
        found, = correlations(TableComparison(table(noisy, columns=NUMBERS, total=2000.0)))
        z.append((found.measured - exact.measured) / found.error)
    assert np.std(z) == pytest.approx(1, abs=0.2) and abs(np.mean(z)) < 0.3


def test_correlations_that_noise_hides_are_not_known() -> None:
    hidden = measured("x", "y", values=[[-50, 1, 0], [0, -9, 0], [0, -40, 0]], variance=900)
    found, = correlations(TableComparison(table(hidden, columns=NUMBERS, total=100.0)))
    assert math.isnan(found.measured) and "not known" in page(table(hidden, columns=NUMBERS, total=100.0))


def test_dependence_is_0_of_independent_columns_and_1_of_equal_ones() -> None:
    assert cramers_v(np.full((4, 4), 25.0), 400) == 0 and cramers_v(np.eye(4) * 100, 400) == pytest.approx(1, abs=0.01)
    noisy = np.random.default_rng(2).multinomial(400, np.full(64, 1 / 64)).reshape(8, 8).astype(float)
    assert cramers_v(noisy, 400) < 0.1 and cramers_v(np.array([[5.0]]), 5) == 0


def test_pairs_that_were_not_measured_are_listed_by_their_strength() -> None:
    text = "".join(parts(page(numbers(marginals=(released(OF_NUMBERS[0], 1.0),)))).itertext())
    assert "Strongest of those that were not measured" in text and "x and y" in text
    alike = tuple(SyntheticColumn(name=name, type=Type.BIGINT, values=values, counted=CountedValues(listed=(0, 1)))
                  for name, values in (("p", (0, 0, 1, 1) * 9), ("q", (0, 1, 0, 1) * 9)))
    assert "Strongest" not in page(table(columns=alike))
    assert "Numbers against numbers" not in text and "Numbers against numbers" in page(numbers())


def test_the_page_of_many_columns_is_bounded() -> None:
    dice, columns, measurements = np.random.default_rng(1), list[SyntheticColumn](), list[MarginalMeasurement]()
    for at in range(100):
        edges = (0.0, *np.sort(dice.uniform(0, 100, 31)).tolist(), 100.0)
        columns.append(SyntheticColumn(name=f"c{at}", type=Type.DOUBLE, values=tuple(dice.uniform(0, 100, 300).tolist()),
                                       counted=CountedValues(listed=tuple(range(32)), edges=edges)))
        measurements.append(measured(f"c{at}", values=dice.normal(10, 3, 32), variance=9))
        if at:
            measurements.append(measured(f"c{at - 1}", f"c{at}", values=dice.normal(1, 3, (32, 32)), variance=9))
    text = page(table(*measurements, columns=tuple(columns), total=300.0))
    assert len(text) < 1_000_000 and text.count("<div class=twins>") == 12
    assert "Of 100 columns, the 40 that were most often counted with others." in text
