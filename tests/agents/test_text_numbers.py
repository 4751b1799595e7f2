"""Numbers as people write them, and the values that they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.agents.text_numbers import MOST_NUMBERS, numbers_in


@pytest.mark.parametrize(("text", "low", "high", "percent"), [
    ("3,282 people", 3281.5, 3282.5, False), ("3\u202f282 people", 3281.5, 3282.5, False), ("8.4 dollars", 8.35, 8.45, False),
    ("about 3,300 people", 3250, 3350, False), ("roughly 3,000", 2500, 3500, False), ("~20", 15, 25, False), ("3,300", 3299.5, 3300.5, False),
    ("55.4 %", 55.35, 55.45, True), ("55 percent", 54.5, 55.5, True), ("1.2 million", 1_150_000, 1_250_000, False), ("3k", 2500, 3500, False),
    ("-7", -7.5, -6.5, False), ("−7.0", -7.05, -6.95, False), ("$1,200", 1199.5, 1200.5, False), ("between 3,000 and 3,500", 2999.5, 3500.5, False),
    ("from 10 to 20", 9.5, 20.5, False), ("10-20 visits", 9.5, 20.5, False), ("10–20 visits", 9.5, 20.5, False), ("12 ± 3", 11.5, 12.5, False), ("(n = 12)", 11.5, 12.5, False),
    ("a 1234567.", 1234566.5, 1234567.5, False), ("0 people", -0.5, 0.5, False)])
def test_a_number_stands_for_what_rounds_to_it(text: str, low: float, high: float, percent: bool) -> None:
    found, = numbers_in(text)
    assert (found.low, found.high, found.percent) == (pytest.approx(low), pytest.approx(high), percent)
    assert text[found.start:found.end].strip().replace("-", "–") == found.written.replace("-", "–")


@pytest.mark.parametrize("text", ["", "B12 and the 2nd", "version 1.2.3", "2024-11-30", "1. First\n2) Second", "± 12", "a/1 1/2", "no number"])
def test_what_is_no_number_is_left_out(text: str) -> None:
    assert numbers_in(text) == []


def test_numbers_joined_by_and_are_two_unless_they_are_between() -> None:
    assert [found.written for found in numbers_in("10 and 20; between 10 and 20")] == ["10", "20", "10 and 20"]


def test_sentences_end_where_they_end() -> None:
    text = "Of 10 people. Then 20 more;\n30 at last"
    assert [text[slice(*found.sentence)] for found in numbers_in(text)] == ["Of 10 people.", "Then 20 more;", "30 at last"]


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    for found in numbers_in(text):
        assert found.low <= found.high and 0 <= found.start < found.end <= len(text)


def test_a_range_has_two_ends_and_an_item_is_one_by_its_line() -> None:
    assert [found.written for found in numbers_in("1-2-3-4 sites")] == ["1–2", "3–4"]
    assert [found.written for found in numbers_in("  - 2) 17 people\n" + " " * 100 + "3) 18")] == ["17", "3", "18"]


def test_long_texts_are_read_in_part() -> None:
    assert len(numbers_in("7 " * 5000)) == MOST_NUMBERS
