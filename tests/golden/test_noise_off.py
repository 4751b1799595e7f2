"""Without noise, and where no limit bites, every statement has DuckDB's own answer to the same text.

Counts, keys and texts are equal; numbers with a fraction agree to a relative 1e-6, as sums run over a grid; quantiles lie between
the neighbours in rank of what DuckDB says. Declared groups are all shown, so the world has a row for each.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

import pytest
from support.golden.comparison import FOLDER, PLENTY, compare, released, short, texts
from support.golden.dense import dense
from support.sessions import reader_of, session_of

from dpsql.audit.exact import Exact
from dpsql.engine.session import Session
from dpsql.mechanisms.truncation.histogram import LearnedLimit
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query
from dpsql.trusted.plan.operators.quantizer import Quantizer

ACCEPTED = FOLDER.parents[1] / "grammar" / "accepted.sql"

# (rows that are ranked, the column, its grid step, the aggregate over them, the fraction, how many ranks it may be off)
QUANTILES = [
    ("people", "age", 1, "MEDIAN(age)", 0.5, 1),
    ("people", "age", 1, "quantile_disc(age, 0.9)", 0.9, 1),
    ("people", "age", 1, "MIN(age)", 0.0, 2),
    ("people", "age", 1, "MAX(age)", 1.0, 2),
    ("people", "age", 1, "approx_quantile(age, 0.25)", 0.25, 1),
    ("people", "income", 1e-3, "MEDIAN(income)", 0.5, 1),
    ("people", "income", 1e-3, "quantile_cont(income, 0.05)", 0.05, 1),
    ("people WHERE sex = 'f'", "income", 1e-3, "percentile_cont(0.75) WITHIN GROUP (ORDER BY income)", 0.75, 1),
    ("people", "weight", 1e-3, "MEDIAN(weight)", 0.5, 1),
    ("visits", "cost", 0.01, "MEDIAN(cost)", 0.5, 1),
    ("visits", "cost", 0.01, "MAX(cost)", 1.0, 2),
    ("visits WHERE year = 2020", "cost", 0.01, "quantile(cost, 0.3)", 0.3, 1),
    ("scores", "points", 1, "MEDIAN(points)", 0.5, 1),
    ("people", "born", 1, "quantile_disc(born, 0.5)", 0.5, 1),
    ("people", "born", 1, "MIN(born)", 0.0, 2),
]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Session]]:
    reader = reader_of(dense())
    made = {budget: session_of(tmp_path_factory.mktemp(budget), reader=reader, noise=Exact(), budget=budget, at=PLENTY)
            for budget in ("person", "household")}
    yield made
    made["person"].close()


@pytest.mark.parametrize("text", texts(FOLDER / "answers.sql"), ids=short)
def test_an_answer_without_noise_is_duckdbs(text: str, sessions: dict[str, Session]) -> None:
    assert compare(text, sessions["person"]) == "", text


@pytest.mark.parametrize("text", texts(FOLDER / "answers_of_households.sql"), ids=short)
def test_an_answer_about_another_entity_is_duckdbs(text: str, sessions: dict[str, Session]) -> None:
    assert compare(text, sessions["household"]) == "", text


def test_there_are_enough_statements() -> None:
    found = texts(FOLDER / "answers.sql")
    assert len(found) == len(set(found)) >= 120


@pytest.mark.parametrize(("rows", "column", "step", "call", "fraction", "off"), QUANTILES)
def test_a_quantile_lies_between_its_neighbours_in_rank(rows: str, column: str, step: float, call: str, fraction: float, off: int,
                                                        sessions: dict[str, Session]) -> None:
    made, _ = released(f"SELECT {call} FROM {rows}", sessions["person"])
    ((value,),) = made.rows
    source, _, condition = rows.partition(" WHERE ")
    where = f"({condition or 'TRUE'}) AND {column} IS NOT NULL"
    ordered = [day(found) for found, in sessions["person"].kernel._reader.rows(
        f"SELECT {column} FROM {source} WHERE {where} ORDER BY {column}")]
    place = fraction * len(ordered)
    low, high = max(0, math.floor(place) - off), min(len(ordered) - 1, math.ceil(place) + off)
    assert ordered[low] - step <= day(value) <= ordered[high] + step


def day(value: Any) -> float:
    return float(value.toordinal() if isinstance(value, dt.date) else value)


def test_several_quantiles_of_one_column_are_in_order_and_in_place(sessions: dict[str, Session]) -> None:
    fractions = [0.05, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 0.95]
    session = sessions["person"]
    made, _ = released("SELECT " + ", ".join(f"quantile_cont(income, {f})" for f in fractions) + " FROM people", session)
    (values,) = made.rows
    ordered = sorted(value for value, in session.kernel._reader.rows("SELECT income FROM people WHERE income IS NOT NULL"))
    for value, fraction in zip(values, fractions, strict=True):
        assert isinstance(value, float)
        assert bisect_left(ordered, value - 1e-3) - 2 <= fraction * len(ordered) <= bisect_right(ordered, value + 1e-3) + 2
    assert list(values) == sorted(values)  # type: ignore[type-var]


def test_declared_groups_without_rows_are_shown_with_zeros(sessions: dict[str, Session]) -> None:
    made, _ = released("SELECT year, active, COUNT(*), SUM(cost), AVG(cost), COUNT(DISTINCT person_id) FROM visits "
                       "JOIN people USING (person_id) WHERE year = 2020 AND active OR cost < -100 GROUP BY year, active",
                       sessions["person"])
    assert [row[:2] for row in made.rows] == [
        (year, active) for year in (2018, 2019, 2020, 2021, None) for active in (False, True, None)]  # by what is certain
    for year, active, n, total, mean, entities in made.rows:
        if (year, active) == (2020, True):
            assert isinstance(n, int) and n > 5
        else:
            assert (n, total, mean, entities) == (0, 0, None, 0)


def test_aggregates_of_no_rows(sessions: dict[str, Session]) -> None:
    made, _ = released("SELECT COUNT(*), SUM(age), AVG(age), STDDEV(age), COUNT(DISTINCT sex) FROM people WHERE FALSE",
                       sessions["person"])
    assert made.rows == ((0, 0, None, None, 0),)


def test_a_null_that_becomes_a_bound_would_be_found(sessions: dict[str, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    to_sql = Quantizer.to_sql
    monkeypatch.setattr(Quantizer, "to_sql", lambda self, *given: f"COALESCE({to_sql(self, *given)}, {self.least})")
    assert compare("SELECT COUNT(income), AVG(income) FROM people", sessions["person"]) != ""
    assert compare("SELECT SUM(points), COUNT(points) FROM scores", sessions["person"]) != ""


def test_a_limit_that_bites_would_be_found(sessions: dict[str, Session], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.planning.script.learned", too_few)
    assert compare("SELECT COUNT(*) FROM scores", sessions["person"]) != ""


def too_few(*given: Any) -> Iterator[Any]:
    """Learns a limit of two rows, asking nothing."""
    yield from ()
    return LearnedLimit(limit=2, total=2.0, deviation=1.0)


LEFT_OUT = re.compile(r"\b(max_rows|clip|max_groups|bands|LIMIT|OFFSET|EXPLAIN|SHOW|DESCRIBE|bin_floor)\b"
                      r"|ROW_NUMBER\(\) OVER \(\)|OVER \(ORDER BY (sex, age|age ROWS 3)"  # groups without rows are rows of what is released
                      r"|_CONT\((age, )?\["  # columns here, lists there
                      r"|, total = \d+\)", re.IGNORECASE)  # a public number of rows, which is not that of these tables


def accepted() -> list[str]:
    """The statements of the grammar that show all their rows and limit nobody's, and hold no parameter: those are tried above."""
    chosen = [text for text in texts(ACCEPTED) if not LEFT_OUT.search(text)]
    return [text for text in chosen if isinstance(query := parse(text), Query) and not query.parameters]


@pytest.mark.parametrize("text", accepted(), ids=short)
def test_what_the_grammar_accepts_means_what_duckdb_says(text: str, sessions: dict[str, Session]) -> None:
    assert compare(text, sessions["person"]) == "", text
