"""A list of quantiles is a column for each of its places, wherever else columns are named by numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.binding import Bench, bench

from dpsql.errors import Unsupported
from dpsql.questions.identity import canonical
from dpsql.questions.question import Question


@pytest.fixture(scope="module")
def a_bench() -> Iterator[Bench]:
    with bench() as made:
        yield made


def bound(a_bench: Bench, text: str) -> tuple[str, list[str]]:
    question = a_bench.bind(text)
    assert isinstance(question, Question)
    return canonical(question), [output.name for output in question.outputs]


@pytest.mark.parametrize(("listed", "apart", "names"), [
    ("quantile_cont(age, [0.1, 0.9]) AS q", "quantile_cont(age, 0.1), quantile_cont(age, 0.9)", ["q[1]", "q[2]"]),
    ("percentile_disc([0.5, 0.9]) WITHIN GROUP (ORDER BY age) FILTER (WHERE active) AS q",
     "percentile_disc(0.5) WITHIN GROUP (ORDER BY age) FILTER (WHERE active), "
     "percentile_disc(0.9) WITHIN GROUP (ORDER BY age) FILTER (WHERE active)", ["q[1]", "q[2]"]),
    ("approx_quantile(age + 1, [0.5])", "approx_quantile(age + 1, 0.5)", ["approx_quantile(age + 1, [0.5])[1]"])])
def test_a_list_is_a_column_for_each_place(a_bench: Bench, listed: str, apart: str, names: list[str]) -> None:
    found, shown = bound(a_bench, f"SELECT {listed} FROM people")
    assert found == bound(a_bench, f"SELECT {apart} FROM people")[0] and shown == names


def test_numbers_of_items_mean_what_they_meant(a_bench: Bench) -> None:
    found, _ = bound(a_bench, "SELECT quantile_cont(age, [0.1, 0.9]) AS q, sex, COUNT(*) FROM people GROUP BY 2 ORDER BY 3, 1")
    assert found == bound(a_bench, "SELECT quantile_cont(age, 0.1), quantile_cont(age, 0.9), sex, COUNT(*) FROM people "
                          "GROUP BY 3 ORDER BY 4, 1")[0]


@pytest.mark.parametrize("text", ["SELECT quantile_cont(age, [0.1, 0.9]) + 1 FROM people",
                                  "SELECT COUNT(*) FROM people HAVING quantile_cont(age, [0.1]) > 3"])
def test_a_list_is_no_part_of_an_expression(a_bench: Bench, text: str) -> None:
    with pytest.raises(Unsupported, match="a list of quantiles is not answered"):
        a_bench.bind(text)
