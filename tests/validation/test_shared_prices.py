"""What tests of one suite pay together: as many as one entity moves, whatever they look like."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.neighbours import BUDGET, INF, NAN, YEARS, World, farthest, pairs, visits

KEYED = {
    "distinct values of each year": [f"SELECT COUNT(DISTINCT diag) FROM visits WHERE year = {y}" for y in YEARS],
    "rows of each year": [f"SELECT COUNT(*) FROM visits WHERE year = {y}" for y in YEARS],
    "sums of each year": [f"SELECT SUM(cost) FROM visits WHERE year = {y}" for y in YEARS],
    "averages of each year": [f"SELECT AVG(cost) FROM visits WHERE year = {y}" for y in YEARS],
    "medians of each year": [f"SELECT MEDIAN(cost) FROM visits WHERE year = {y}" for y in YEARS],
    "people of each year": [f"SELECT COUNT(DISTINCT person) FROM visits WHERE year = {y}" for y in YEARS],
    "texts of each year": [f"SELECT COUNT(DISTINCT note) FROM visits WHERE year = {y}" for y in YEARS],
    "days": [f"SELECT COUNT(DISTINCT diag) FROM visits WHERE year = {y} AND day = DATE '2020-01-{y:02}'" for y in YEARS],
    "years between": [f"SELECT COUNT(*) FROM visits WHERE year BETWEEN {y} AND {y + 1}" for y in YEARS],
    "values within a year": [f"SELECT COUNT(DISTINCT diag) FROM visits WHERE year = 2 AND diag = {d}" for d in range(5)]
    + ["SELECT COUNT(DISTINCT diag) FROM visits WHERE year = 2 AND diag > 100"],
    "two years, by value": [f"SELECT COUNT(*) FROM visits WHERE year <= 2 AND diag = {d}" for d in (0, 1, 101, 102)],
    "a year each, in both ways": [f"SELECT {what} FROM visits WHERE year = {y}" for y in (1, 2)
                                  for what in ("COUNT(*)", "COUNT(DISTINCT diag)", "SUM(diag)")],
    "conditions of an aggregate": [f"SELECT COUNT(*) FILTER (WHERE diag = {d}) FROM visits WHERE year = 1" for d in (0, 1, 101)],
    "groups": [f"SELECT year, COUNT(*) FROM visits WHERE year = {y} GROUP BY year" for y in (1, 2, 3)],
    "groups of all": ["SELECT year, COUNT(*) FROM visits WHERE year <= 5 GROUP BY year",
                      "SELECT year, COUNT(DISTINCT diag) FROM visits WHERE year <= 5 GROUP BY year"],
    "from a subquery": [f"SELECT COUNT(DISTINCT d) FROM (SELECT diag AS d, year AS y FROM visits) v WHERE y = {y}" for y in YEARS],
    "joined": [f"SELECT COUNT(*) FROM visits JOIN people ON person = id WHERE year = {y} AND age < 90" for y in YEARS],
    "joined, distinct": [f"SELECT COUNT(DISTINCT diag) FROM visits JOIN people ON person = id WHERE year = {y}" for y in YEARS],
    "negated": ["SELECT COUNT(*) FROM visits WHERE year = 1 AND NOT (diag > 3)", "SELECT COUNT(*) FROM visits WHERE year = 2 AND diag > 3"],
    "one of several years": [f"SELECT COUNT(DISTINCT cost) FROM visits WHERE year IN ({y}, {y + 5})" for y in range(1, 6)],
}


@pytest.mark.parametrize("queries", KEYED.values(), ids=KEYED.keys())
def test_rows_that_a_key_tells_apart(queries: list[str], tmp_path: Path) -> None:
    tables = ("visits", "people") if "people" in queries[0] else ("visits",)
    world = visits() if all("year =" in query for query in queries) else visits(limit=10)
    found = farthest(queries, world, tmp_path, *tables)
    assert found.l1 <= found.charged and found.l2 <= found.charged


WHAT = ["COUNT(*)", "COUNT(DISTINCT diag)", "SUM(cost)", "AVG(diag)", "COUNT(note)"]


@pytest.mark.parametrize("what, key, limit", [  # every pair of values of the three
    (what, ["", ", PRIMARY KEY (person, year)"][(i + j) % 2], limit) for i, what in enumerate(WHAT) for j, limit in enumerate((1, 2, 4))])
def test_rows_of_a_truncated_table(what: str, key: str, limit: int, tmp_path: Path) -> None:
    """Each plan has a truncation of its own, over the columns that it reads, and so keeps rows of its own."""
    queries = [f"SELECT {what} FROM visits WHERE year = {y}" for y in YEARS]
    found = farthest(queries, visits(key, limit), tmp_path, "visits")
    assert found.l1 <= found.charged and found.l2 <= found.charged


def test_disjoint_counts_over_one_truncated_table_cost_about_one(tmp_path: Path) -> None:
    queries = [f"SELECT COUNT(*) FROM visits WHERE year = {y}" for y in YEARS]
    assert farthest(queries, visits("", 1), tmp_path / "1", "visits").charged == 1
    assert farthest(queries, visits("", 3), tmp_path / "3", "visits").charged == 3
    of_one_year = [f"SELECT COUNT(*) FROM visits WHERE year = 2 AND diag = {d}" for d in range(8)]
    assert farthest(of_one_year, visits(), tmp_path / "y", "visits").charged == 1
    of_two = [*of_one_year, *(f"SELECT COUNT(*) FROM visits WHERE year = 3 AND diag = {d}" for d in range(8))]
    assert farthest(of_two, visits(), tmp_path / "z", "visits").charged == 2


UNKEYED = {
    "distinct, crosswise": ["SELECT COUNT(DISTINCT b) FROM pairs WHERE a = 1", "SELECT COUNT(DISTINCT a) FROM pairs WHERE a = 2"],
    "distinct, of others": ["SELECT COUNT(DISTINCT b) FROM pairs WHERE a = 1", "SELECT COUNT(DISTINCT c) FROM pairs WHERE a = 2"],
    "distinct, of each value": [f"SELECT COUNT(DISTINCT b) FROM pairs WHERE a = {a}" for a in range(1, 5)],
    "rows and distinct": ["SELECT COUNT(*) FROM pairs WHERE a = 1", "SELECT COUNT(DISTINCT b) FROM pairs WHERE a = 2"],
    "rows, by several columns": ["SELECT COUNT(*) FROM pairs WHERE a = 1 AND b < 5", "SELECT COUNT(*) FROM pairs WHERE a = 2 AND d"],
    "sums of others": ["SELECT SUM(b) FROM pairs WHERE a = 1", "SELECT SUM(c) FROM pairs WHERE a = 2"],
    "averages of others": ["SELECT AVG(b) FROM pairs WHERE a = 1", "SELECT AVG(c) FROM pairs WHERE a = 2"],
    "a median and a sum": ["SELECT MEDIAN(b) FROM pairs WHERE a = 1", "SELECT SUM(b) FROM pairs WHERE a = 2"],
    "groups and rows": ["SELECT b, COUNT(*) FROM pairs WHERE a = 1 GROUP BY b", "SELECT COUNT(*) FROM pairs WHERE a = 2"],
    "groups": ["SELECT b, COUNT(*) FROM pairs WHERE a = 1 GROUP BY b", "SELECT a, COUNT(*) FROM pairs WHERE a = 2 GROUP BY a"],
    "truths": ["SELECT COUNT(*) FROM pairs WHERE d", "SELECT COUNT(*) FROM pairs WHERE NOT d"],
    "truths and rows": ["SELECT COUNT(b) FROM pairs WHERE d", "SELECT COUNT(c) FROM pairs WHERE NOT d", "SELECT COUNT(*) FROM pairs"],
    "zeros": ["SELECT COUNT(*) FROM pairs WHERE c = 0.0", "SELECT COUNT(*) FROM pairs WHERE c = -0.0"],
    "zero and below": ["SELECT COUNT(*) FROM pairs WHERE c >= 0.0", "SELECT COUNT(*) FROM pairs WHERE c <= -0.0"],
    "moments": [f"SELECT COUNT(DISTINCT b) FROM pairs WHERE seen = TIMESTAMP '2020-01-01 0{h}:00:00'" for h in (1, 2)],
    "either of two": ["SELECT COUNT(*) FROM pairs WHERE a = 1 OR b = 1", "SELECT COUNT(*) FROM pairs WHERE a = 2 OR b = 2"],
    "either of two, of one": ["SELECT COUNT(*) FROM pairs WHERE a = 1 OR a = 2", "SELECT COUNT(*) FROM pairs WHERE a = 3 OR a = 4"],
    "not any of": ["SELECT COUNT(*) FROM pairs WHERE a NOT IN (1, 2)", "SELECT COUNT(*) FROM pairs WHERE a IN (3, NULL)"],
    "nothing": ["SELECT COUNT(*) FROM pairs WHERE a IN (NULL, 1)", "SELECT COUNT(*) FROM pairs WHERE a IN (NULL, 2)"],
    "not a number": ["SELECT COUNT(*) FROM pairs WHERE c > 5", "SELECT COUNT(*) FROM pairs WHERE NOT (c <= 5)"],
    "of a subquery": ["SELECT COUNT(DISTINCT y) FROM (SELECT a AS x, b AS y FROM pairs) q WHERE x = 1",
                      "SELECT COUNT(DISTINCT x) FROM (SELECT a AS x, b AS y FROM pairs) q WHERE x = 2"],
    "of columns that change places": ["SELECT COUNT(*) FROM (SELECT a AS x, b AS y FROM pairs) q WHERE x = 1",
                                      "SELECT COUNT(*) FROM (SELECT b AS x, a AS y FROM pairs) q WHERE x = 2"],
    "two limits": ["SELECT COUNT(*) FROM pairs WHERE a = 1", "SELECT COUNT(*) FROM pairs JOIN people ON person = id WHERE a = 2"],
}


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("queries", UNKEYED.values(), ids=UNKEYED.keys())
def test_tables_without_a_key(queries: list[str], limit: int, tmp_path: Path) -> None:
    tables = ("pairs", "people") if any("people" in query for query in queries) else ("pairs",)
    found = farthest(queries, pairs(limit), tmp_path, *tables, within=2)
    assert found.l1 <= found.charged and found.l2 <= found.charged


def test_each_plan_keeps_rows_of_its_own(tmp_path: Path) -> None:
    """Under one secret or another, an entity whose one row counts in either check, as either reads other columns."""
    for i in range(10):
        found = farthest(UNKEYED["distinct, crosswise"], pairs(1), tmp_path / str(i), "pairs", within=2)
        assert found.l1 <= found.charged == 2


def numbers() -> World:
    """One row for each person, of every kind of number."""
    values = [NAN, INF, -INF, 0.0, -0.0, 2.0, 5.0, 0.1, float(2**53), None]
    texts = ["", "a", "A", "á", "a ", "b", "\U0001f600", "\uffff", None, "1"]
    days = [dt.date(2020, 1, i + 1) for i in range(9)] + [None]
    rows = [(i, value, 2**53 + i - 5, text, day, i % 3 == 0 if i % 4 else None, None if day is None else dt.datetime(2020, 1, day.day))
            for i, (value, text, day) in enumerate(zip(values, texts, days, strict=True))]
    return World(
        ddl={"people": "id INTEGER PRIMARY KEY, x DOUBLE, n BIGINT, t VARCHAR, day DATE, ok BOOLEAN, seen TIMESTAMP"},
        policy="""
version = 1
[entities.person]
table = "people"
key = "id"
[tables.people]
key = "id"
[tables.people.columns]
id = {}
x = {}
n = {}
t = {}
day = {}
ok = {}
seen = {}
""" + BUDGET, rows={"people": rows}, named={"people": [0]})


def nans(many: int) -> list[float]:
    """Each an object of its own, as Python takes one object for equal to itself."""
    return [float("nan") for _ in range(many)]


def counted(condition: str, *found: str) -> list[str]:
    return [f"SELECT COUNT(*) FROM people WHERE {condition.format(each)}" for each in found]


VALUES: dict[str, tuple[list[str], Sequence[Any]]] = {
    "NaN in every list": (counted("x IN (?, {})", "2.0", "5.0", "0.0", "7.0"), nans(4)),
    "NaN and NaN": (counted("x {} ?", "=", "="), nans(2)),
    "NaN and more": (counted("x {}", "= ?", "> 5"), [NAN]),
    "NaN or less": (counted("x {}", "<= ?", "= 2.0"), [NAN]),
    "less than NaN": (counted("x {}", "< ?", ">= ?"), nans(2)),
    "more than infinity": (counted("x {}", "> ?", "= ?"), [INF, NAN]),
    "between NaN": (counted("x {}", "BETWEEN 2 AND ?", "BETWEEN ? AND ?"), nans(3)),
    "infinity": (counted("x {}", "= ?", ">= 5", "= ?"), [INF, -INF]),
    "lists with NULL": (counted("x IN (NULL, {})", "2.0", "5.0"), []),
    "lists of NaN and NULL": (counted("x IN (NULL, ?, {})", "2.0", "5.0"), nans(2)),
    "zeros in lists": (counted("x IN ({}, 2)", "0.0", "-0.0"), []),
    "zeros as parameters": (counted("x = {}", "?", "?"), [0.0, -0.0]),
    "whole numbers beside real ones": (counted("x {}", "= 2", "= 2.0", "IN (1, 2, 3)"), []),
    "large whole numbers": (counted("n {}", "= 9007199254740992", "= 9007199254740993", "> 9007199254740992"), []),
    "large whole numbers as real ones": (counted("n {}", "= ?", "= 9007199254740993", "> ?"), [float(2**53), float(2**53)]),
    "large constants of real numbers": (counted("x {}", "= 9007199254740992", "= 9007199254740993"), []),
    "truths as numbers": (counted("{}", "ok", "ok = TRUE", "CAST(ok AS INTEGER) = 1", "NOT ok"), []),
    "truths as parameters": (counted("ok = {}", "?", "?"), [True, False]),
    "truths that are one of": (counted("{}", "ok IN (?, ?)", "NOT ok", "ok IS TRUE"), [True, None]),
    "days as texts": (counted("day {}", "= '2020-01-02'", "= DATE '2020-01-02'", "< '2020-01-03'", ">= '2020-01-03'"), []),
    "days against moments": (counted("{}", "day = ?", "seen = ?", "day < TIMESTAMP '2020-01-02 12:00:00'"),
                             [dt.datetime(2020, 1, 2), dt.date(2020, 1, 2)]),
    "days as parameters": (counted("day {}", "= ?", "IN (?, ?)"), [dt.date(2020, 1, 2), dt.date(2020, 1, 2), dt.date(2020, 1, 3)]),
    "texts of one letter": (counted("t = {}", "'a'", "'A'", "'á'", "'a '"), []),
    "texts between": (counted("t {}", "< 'b'", ">= 'b'", "= '\U0001f600'", "> '\uffff'"), []),
    "texts that read as numbers": (counted("t {}", "= '1'", "IN ('1', 'b')"), []),
    "negated comparisons": (counted("{}", "NOT (x > 2)", "NOT (x <= 2)", "x IS NULL"), []),
    "a value and its neighbours": (counted("x {}", "<> 2", "= 2", "IS NOT DISTINCT FROM 2"), []),
    "one of two columns": (counted("({})", "x = 2 OR ok", "x = 5 OR NOT ok"), []),
    "contradictions": (counted("{}", "x = 2 AND x = 5", "x = 2", "x = 5"), []),
    "computed": (counted("{} = 2", "x + 0", "x", "ABS(x)"), []),
}


@pytest.mark.parametrize(("queries", "parameters"), VALUES.values(), ids=VALUES.keys())
def test_values_are_equal_as_the_engine_has_them(queries: list[str], parameters: Sequence[Any], tmp_path: Path) -> None:
    found = farthest(queries, numbers(), tmp_path, "people", parameters=parameters, within=2)
    assert found.l1 <= found.charged and found.l2 <= found.charged
