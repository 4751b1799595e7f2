"""The undo of `decompose`: from exact sums the recipes give exactly what DuckDB says of the same rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from support.laws.asked import question_of, view_of
from support.laws.bad_worlds import small, tame
from support.laws.family import Family, Row, printed

from dpsql.errors import Unsupported
from dpsql.estimates import constant
from dpsql.questions.parts import Decomposition, Distincts, Quantiles, Sums
from dpsql.questions.question import AggregateCall, Question
from dpsql.questions.rules.decompose import decompose
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments
from dpsql.types import Interval

EVERYTHING = "COUNT(*), COUNT({0}), SUM({0}), AVG({0}), VAR_POP({0}), VAR_SAMP({0}), STDDEV_POP({0}), STDDEV_SAMP({0})"
TEXTS = [
    *(f"SELECT {EVERYTHING.format(x)} FROM {source}" for x, source in (
        ("cost", "visits"), ("year", "visits"), ("age", "people"), ("points", "scores"), ("age * 2 - 7", "people"),
        ("cost", "visits v JOIN people p ON v.person_id = p.person_id WHERE age > 50"), ("cost", "visits WHERE year = 1900"))),
    f"SELECT clinic, {EVERYTHING.format('cost')} FROM visits GROUP BY clinic",
    f"SELECT sex, active, {EVERYTHING.format('age')} FROM people GROUP BY sex, active",
    "SELECT clinic, COUNT(*), SUM(cost) FROM visits GROUP BY clinic",
    "SELECT clinic, SUM(cost), SUM(year) FROM visits GROUP BY clinic",
    "SELECT clinic, COUNT(note), SUM(cost) FROM visits GROUP BY clinic",
    "SELECT sex, COUNT(*), AVG(age) FROM people GROUP BY sex",
    "SELECT sex, COUNT(*), AVG(age), SUM(age) FILTER (WHERE active) FROM people GROUP BY sex",
    "SELECT AVG(age) FILTER (WHERE active), AVG(age) FILTER (WHERE NOT active), COUNT(*) FILTER (WHERE active), COUNT(*) "
    "FROM people",
    "SELECT AVG(cost), AVG(year), COUNT(*) FROM visits",
    "SELECT AVG(cost), VAR_SAMP(year), COUNT(cost), COUNT(year), COUNT(*) FROM visits",
    "SELECT SUM(points), SUM(points), COUNT(*) FROM scores",
    "SELECT COUNT(*) FROM people", "SELECT COUNT(age), COUNT(sex) FROM people", "SELECT SUM(5), AVG(5), COUNT(5) FROM people",
]
TEXTS += [  # whole numbers, whose squares and products are on the grids
    "SELECT active, CORR(id, age), REGR_R2(id, age), COVAR_POP(age, id), COVAR_SAMP(age, id), REGR_COUNT(id, age) FROM (SELECT age % 7 AS id, age, active "
    "FROM people) AS t GROUP BY active",
    "SELECT clinic, REGR_SLOPE(points, year), REGR_INTERCEPT(points, year) FROM visits v JOIN scores s "
    "ON v.person_id = s.person_id GROUP BY clinic",
    "SELECT CORR(year, year), REGR_AVGX(cost, year), REGR_AVGY(cost, year), COVAR_POP(year, year), AVG(year) FROM visits",
]
PLAIN = {"avg": "AVG", "var_pop": "VAR_POP", "var_samp": "VAR_SAMP", "stddev_pop": "STDDEV_POP", "stddev_samp": "STDDEV_SAMP"}


@pytest.fixture(scope="module")
def families() -> Iterator[list[Family]]:
    made = [Family(tame(seed), entities=()) for seed in range(3)]
    yield made
    for family in made:
        family.close()


def from_parts(question: Question, view: Node, parts: Decomposition, family: Family) -> dict[Row, list[float]]:
    """The aggregates of each cell, from exact sums."""
    keys = tuple(key.column for key in question.keys)
    sums = {i: part.summand for i, part in enumerate(parts.parts) if isinstance(part, Sums)}
    rows = family.rows(printed(GroupedSums(input=view, keys=keys, summands=tuple(sums.values()))))
    table = np.array([row[len(keys):] for row in rows], dtype=np.float64)
    columns, released = iter(table.T), {}
    for i, summand in sums.items():
        released[i] = [constant(next(columns)) for _ in range(summand.components)]
    values = [parts.recipes[call.id](released).values for call in question.aggregates]
    return {row[: len(keys)]: [float(column[at]) for column in values] for at, row in enumerate(rows)}


def plainly(call: AggregateCall) -> str:
    argument = quote(call.columns[0]) if call.columns else "*"
    when = f" FILTER (WHERE {quote(call.when)})" if call.when is not None else ""
    if call.function == "sum":
        return f"COALESCE(SUM({argument}){when}, 0)"  # an empty sum is 0 before noise
    if len(call.columns) == 3:
        return f"{call.function}({argument}, {quote(call.columns[1])}){when}"
    return f"{PLAIN.get(call.function, 'COUNT')}({argument}){when}"


def by_duckdb(question: Question, view: Node, family: Family) -> dict[Row, list[float]]:
    keys = [quote(key.column) for key in question.keys]
    calls = [plainly(call) for call in question.aggregates]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    rows = family.rows(f"SELECT {', '.join([*keys, *calls])} FROM ({printed(view)}) AS t{group}")
    return {row[: len(keys)]: [math.nan if value is None else float(value) for value in row[len(keys):]] for row in rows}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_recipes_give_what_duckdb_gives(text: str, learned: bool, families: list[Family]) -> None:
    for family in families:
        question = question_of(text, "person", family)
        view = view_of(question)
        ours = from_parts(question, view, decompose(question, owner=None, apart=learned, learned=learned), family)
        theirs = by_duckdb(question, view, family)
        assert ours.keys() == theirs.keys()
        for cell, values in ours.items():
            for call, value, wanted in zip(question.aggregates, values, theirs[cell], strict=True):
                # A root of a difference that should be 0 is as small as the root of its rounding.
                slack = 1e-4 if call.function.startswith("stddev") and wanted == 0 else 1e-8
                assert math.isnan(value) == math.isnan(wanted), (cell, call.function)
                assert math.isnan(value) or math.isclose(value, wanted, rel_tol=1e-8, abs_tol=slack), (cell, call.function)


def parts_of(text: str, family: Family) -> Decomposition:
    return decompose(question_of(text, "person", family), owner=None, bounds=None)


def summands(found: Decomposition) -> list[tuple[type, int]]:
    return [(type(part.summand), part.summand.components) for part in found.parts if isinstance(part, Sums)]


@pytest.mark.parametrize(("aggregates", "wanted"), [
    ("COUNT(*), COUNT(*)", [(Count, 1)]),
    ("SUM(age), SUM(age)", [(GridSum, 1)]),
    ("SUM(age), COUNT(*)", [(Moments, 2)]),
    ("SUM(age), AVG(age), COUNT(age), COUNT(*)", [(Moments, 2)]),
    ("SUM(age), AVG(age), VAR_SAMP(age), STDDEV_POP(age), COUNT(*)", [(Moments, 3)]),
    ("SUM(born - DATE '1900-01-01'), AVG(age)", [(GridSum, 1), (Moments, 2)]),
    ("AVG(age), COUNT(*) FILTER (WHERE active)", [(Moments, 2), (Count, 1)]),
])
def test_one_column_is_measured_once(aggregates: str, wanted: list[tuple[type, int]], families: list[Family]) -> None:
    assert summands(parts_of(f"SELECT {aggregates} FROM people", families[0])) == wanted


@pytest.mark.parametrize(("aggregates", "wanted"), [
    ("SUM(cost), COUNT(*)", [(GridSum, 1), (Count, 1)]),
    ("AVG(cost), SUM(cost), COUNT(cost)", [(GridSum, 1), (Count, 1)]),
    ("AVG(cost), VAR_POP(cost)", [(Moments, 3)]),
    ("AVG(year), SUM(cost)", [(Moments, 2), (GridSum, 1)]),
])
def test_means_of_wide_ranges_are_totals_and_counts_where_limits_are_learned(
        aggregates: str, wanted: list[tuple[type, int]], families: list[Family]) -> None:
    question = question_of(f"SELECT {aggregates} FROM visits", "person", families[0])
    assert summands(decompose(question, owner=None, apart=True, learned=True)) == wanted


def test_a_count_of_all_rows_rests_on_one_column_with_its_missing_values(families: list[Family]) -> None:
    found = parts_of("SELECT COUNT(*), AVG(cost), AVG(year) FROM visits", families[0])
    assert summands(found) == [(Moments, 3), (Moments, 2)]
    assert found.weights == (2, 1)


def test_quantiles_of_one_column_are_chosen_together(families: list[Family]) -> None:
    found = parts_of("SELECT MIN(cost), MEDIAN(cost), MAX(cost), MEDIAN(year) FROM visits", families[0])
    assert [len(part.fractions) for part in found.parts if isinstance(part, Quantiles)] == [3, 1]
    assert found.weights == (3, 1)


def test_distinct_entities_are_told_from_other_values(families: list[Family]) -> None:
    question = question_of("SELECT COUNT(DISTINCT person_id), COUNT(DISTINCT clinic) FROM visits", "person", families[0])
    found = decompose(question, owner=question.aggregates[0].columns[0])
    assert [part.entities for part in found.parts if isinstance(part, Distincts)] == [True, False]


def test_bounds_that_were_found_stand_for_declared_ones() -> None:
    family = Family(small(1), entities=())
    question = question_of("SELECT SUM(weight) FROM people", "person", family)
    with pytest.raises(Unsupported) as refusal:
        decompose(question, owner=None)
    assert refusal.value.code == "no-bounds"
    (part,) = decompose(question, owner=None, bounds={question.aggregates[0].columns[0]: Interval(0, 64)}).parts
    assert isinstance(part, Sums) and isinstance(part.summand, GridSum) and part.summand.grid.high == 64
    family.close()
