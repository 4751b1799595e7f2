"""Aggregates of one entity's rows that depend on an order, and other words for known ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.binding import Bench, bench

from dpsql.errors import Error
from dpsql.questions.identity import canonical
from dpsql.questions.question import Question
from dpsql.trusted.plan.certificate import stability

OF_PEOPLE = "SELECT AVG(m) FROM (SELECT person_id, {} AS m FROM visits GROUP BY person_id) AS t"


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made


def question(a_bench: Bench, text: str) -> Question:
    made = a_bench.bind(text)
    assert isinstance(made, Question)
    return made


@pytest.mark.parametrize("aggregate", ["MEDIAN(cost)", "QUANTILE_CONT(cost, 0.3)", "QUANTILE_DISC(cost, 0.3)", "ARG_MAX(cost, seen)",
                                       "MIN_BY(year, cost)", "ANY_VALUE(cost)"])
def test_a_person_has_one_row_and_values_within_bounds(a_bench: Bench, aggregate: str) -> None:
    made = question(a_bench, OF_PEOPLE.format(aggregate))
    known = stability(made.view, a_bench.kernel)
    assert known.rows == 1 and known.owner is not None
    (call,) = made.aggregates
    declared = made.view.field(call.columns[0]).facts.declared
    assert (declared.low, declared.high) == ((2018, 2021) if "year" in aggregate else (0, 500))


@pytest.mark.parametrize(("text", "other"), [
    ("EVERY(cost > 3)", "BOOL_AND(cost > 3)"), ("EVERY(cost > 3) FILTER (WHERE year = 2019)", "BOOL_AND(cost > 3) FILTER (WHERE year = 2019)")])
def test_every_is_bool_and(a_bench: Bench, text: str, other: str) -> None:
    asked = "SELECT COUNT(*) FROM (SELECT person_id, {} AS m FROM visits GROUP BY person_id) AS t WHERE m"
    assert canonical(question(a_bench, asked.format(text))) == canonical(question(a_bench, asked.format(other)))


@pytest.mark.parametrize("aggregate", ["MEDIAN(cost)", "ARG_MAX(cost, seen)"])
def test_groups_of_many_people_are_refused(a_bench: Bench, aggregate: str) -> None:
    with pytest.raises(Error, match="for the rows of one entity only"):
        a_bench.relation(f"SELECT clinic, {aggregate} AS m FROM visits GROUP BY clinic")
