"""Columns as short public lists: which entry each value counts in, and that values are drawn from the entry they counted in."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest
from sqlglot import exp

from dpsql.errors import Unsupported
from dpsql.synthesis.column_forms import BinnedColumn, ListedColumn, form_of
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.types import Interval, Type


def known(kind: Type, low: float = -math.inf, high: float = math.inf, **more: Any) -> Facts:
    return Facts(type=kind, declared=Interval(low, high), **more)


def counted(form: BinnedColumn, values: Sequence[Any]) -> list[int | None]:
    """The bin in which DuckDB counts each value."""
    key = form.key(exp.column("x")).sql("duckdb")
    rows = duckdb.sql(f"SELECT i, {key} FROM (SELECT unnest(range({len(values)})) AS i, unnest(?::{form.type.value}[]) AS x) ORDER BY i",
                      params=[list(values)]).fetchall()
    return [place for _, place in rows]


YEAR, LAST = dt.date(2020, 1, 1).toordinal(), dt.date.max.toordinal()
FORMS = {
    "whole": (known(Type.BIGINT, 0, 1000), [-5, 0, 31, 32, 999, 1000, 7000, None]),
    "few whole": (known(Type.BIGINT, -3, 3), [-9, -3, 0, 3, 4, None]),
    "numbers": (known(Type.DOUBLE, -10, 90.5), [-math.inf, -10.0, -6.9, 0.0, 33.3, 90.5, math.inf, math.nan, None]),
    "decimals": (known(Type.DOUBLE, 0, 25, step=Fraction(1, 10)), [0.0, 0.1, 12.3, 24.9, 25.0, 99.0]),
    "parts of 1024": (known(Type.DOUBLE, 0, 0.25, step=Fraction(1, 1024)), [0.0, 0.125, 0.25, 7.0]),
    "one number": (known(Type.DOUBLE, -0.1234567891, -0.1234567891), [-3.0, -0.1234567891, 0.0, None]),
    "one decimal": (known(Type.DOUBLE, 0.3, 0.3, step=Fraction(1, 10)), [0.0, 0.3, 9.0, None]),
    "one time": (known(Type.TIMESTAMP, YEAR, YEAR), [dt.datetime(2020, 1, 1), dt.datetime(2031, 1, 1)]),
    "dates": (known(Type.DATE, YEAR, YEAR + 365), [dt.date(2019, 1, 1), dt.date(2020, 1, 1), dt.date(2020, 7, 9), dt.date(2021, 3, 1), None]),
    "last dates": (known(Type.DATE, LAST - 30, LAST), [dt.date(2020, 1, 1), dt.date(9999, 12, 31), None]),
    "last time": (known(Type.TIMESTAMP, LAST, LAST), [dt.datetime(2020, 1, 1), dt.datetime(9999, 12, 31), None]),
    "times": (known(Type.TIMESTAMP, YEAR, YEAR + 10), [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 5, 13, 14), dt.datetime(2031, 1, 1)]),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("bins", [1, 7, 32])
def test_values_count_in_the_bin_they_are_drawn_from(name: str, bins: int) -> None:
    facts, values = FORMS[name]
    form = form_of("x", facts, bins, None)
    assert isinstance(form, BinnedColumn) and len(form.edges) - 1 <= bins and list(form.edges) == sorted(set(form.edges))
    listed = [*range(len(form.edges) - 1), None]
    places = np.repeat(np.arange(len(listed)), 50)
    drawn = form.values(listed, places, np.random.default_rng(4).random(len(places)))
    back = counted(form, drawn)
    assert back == [listed[place] for place in places]
    assert form.counted(listed).places(drawn).tolist() == places.tolist()
    assert set(counted(form, values)) <= set(listed)
    assert counted(form, values)[0] == 0  # the least value, and what lies below


@pytest.mark.parametrize("name", FORMS)
def test_every_value_drawn_is_within_the_bounds(name: str) -> None:
    facts, _ = FORMS[name]
    form = form_of("x", facts, 5, None)
    places = np.arange(len(form.edges) - 1).repeat(2)
    ends = np.tile([0.0, np.nextafter(1.0, 0)], len(form.edges) - 1)
    drawn = form.values(list(range(len(form.edges) - 1)), places, ends)
    numbers = [value.toordinal() if isinstance(value, dt.date) else value for value in drawn]
    assert min(numbers) == math.floor(facts.declared.low) if facts.type.temporal else min(numbers) == facts.declared.low
    assert facts.declared.low <= min(numbers) and max(numbers) <= facts.declared.high


def test_numbers_beyond_the_bounds_and_nan_count_like_in_sums() -> None:
    form = form_of("x", known(Type.DOUBLE, 0, 10), 10, None)
    assert isinstance(form, BinnedColumn)
    assert counted(form, [-3.0, 0.0, 0.99, 1.0, 9.99, 10.0, 55.0, math.nan, None]) == [0, 0, 0, 1, 9, 9, 9, None, None]


def test_decimals_are_kept() -> None:
    form = form_of("x", FORMS["decimals"][0], 8, None)
    drawn = form.values(list(range(8)), np.arange(8).repeat(100), np.random.default_rng(1).random(800))
    assert {round(value * 10) / 10 for value in drawn} == set(drawn)


@pytest.mark.parametrize("power", [3, 10, 20])
def test_multiples_of_a_power_of_two_are_exact(power: int) -> None:
    form = form_of("x", known(Type.DOUBLE, -1, 2, step=Fraction(1, 2**power)), 3, None)
    drawn = form.values([0, 1, 2], np.arange(3).repeat(100), np.random.default_rng(1).random(300))
    assert all((value * 2**power).is_integer() for value in drawn)


@pytest.mark.parametrize("facts", [known(Type.BOOLEAN), known(Type.VARCHAR, domain=Domain(("a", "b"))),
                                   known(Type.BIGINT, 1, 9, domain=Domain(tuple(range(1, 10)))), known(Type.VARCHAR)])
def test_declared_values_are_listed_as_they_are(facts: Facts) -> None:
    form = form_of("x", facts, 32, None)
    assert isinstance(form, ListedColumn)
    assert form.values(["b", None, "a"], np.array([2, 0, 1, 1]), np.zeros(4)) == ["a", "b", None, None]
    assert form.counted(["b", None, "a"]).places(["a", "b", None, None]).tolist() == [2, 0, 1, 1]


def test_many_declared_numbers_are_cut_into_bins() -> None:
    facts = known(Type.BIGINT, 1, 500, domain=Domain(tuple(range(1, 501))))
    form = form_of("x", facts, 32, None)
    assert isinstance(form, BinnedColumn) and len(form.edges) == 33


def test_bins_of_the_policy_are_those_of_the_column() -> None:
    """Between the ends of the range, where neither the statement nor a list of values says otherwise."""
    def edges(kind: Type, low: float, high: float, cuts: list[float], bins: int | None = None) -> tuple[float, ...]:
        form = form_of("x", known(kind, low, high), bins, None, cuts)
        assert isinstance(form, BinnedColumn)
        return form.edges

    assert edges(Type.DOUBLE, 0, 25, [0, 8, 12, 16, 25]) == (0, 8, 12, 16, 25)
    assert edges(Type.DOUBLE, -5, 25, [0, 8, 40]) == (-5, 0, 8, 25)
    assert edges(Type.BIGINT, 0, 40, [0, 1, 2, 5.5, 40]) == (0, 1, 2, 6, 41)
    assert edges(Type.BIGINT, 0, 40, [0, 1, 2, 5.5, 40], bins=2) == (0, 21, 41)
    with pytest.raises(Unsupported, match="x has 2000 declared bins") as told:
        form_of("x", known(Type.DOUBLE, 0, 2000), None, None, list(range(2001)))
    assert "bins = " in told.value.try_


def test_texts_with_too_many_values_are_refused() -> None:
    with pytest.raises(Unsupported, match="has 1001 declared values") as told:
        form_of("note", known(Type.VARCHAR, domain=Domain(tuple(f"{n:04}" for n in range(1001)))), 32, None)
    assert "substring(note" in told.value.try_
