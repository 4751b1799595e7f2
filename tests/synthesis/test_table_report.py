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
from dpsql.synthesis.released_table import SyntheticColumn, released
from dpsql.synthesis.synthetic_table import SyntheticTable, of_json
from dpsql.synthesis.table_comparison import TableComparison
from dpsql.synthesis.table_report import labelled, page
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
    assert [row.text for row in parts(text).iter("figcaption")] == [None] * 3 and len(list(parts(text).iter("figure"))) == 3
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
