"""`workload` of synthetic tables: from its text to marginals, and what methods make of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.coded_tables import Coded

from dpsql.audit.exact import Exact
from dpsql.errors import Error, OptionError
from dpsql.frozen import replace
from dpsql.models.table_domain import Columns, TableDomain
from dpsql.sql.text.statement import Option
from dpsql.synthesis.method import marginals_of
from dpsql.synthesis.method_choice import MANY_COLUMNS, chosen
from dpsql.synthesis.methods.aim import AdaptiveMarginals
from dpsql.synthesis.methods.all_methods import METHODS
from dpsql.synthesis.methods.marginal_requests import MOST_WEIGHT, candidates
from dpsql.synthesis.methods.mst import SpanningTree
from dpsql.synthesis.named_workload import MOST_MARGINALS, read_workload
from dpsql.trusted.accounting.cost import concentrated
from dpsql.trusted.plan.expr.nodes import Value

DOMAIN = TableDomain(("age", "sex", "health", "income"), (5, 2, 4, 6))


def read(text: Value, domain: TableDomain = DOMAIN) -> tuple[Columns, ...]:
    return read_workload(Option(name="workload", value=text, span=None), "made", domain)


def test_all_marginals_of_some_columns() -> None:
    assert read("all 2-way") == marginals_of(DOMAIN, 2) and len(read("ALL 4 way")) == 1
    assert read("all 1-way, all 3-way") == (*marginals_of(DOMAIN, 1), *marginals_of(DOMAIN, 3))
    assert read_workload(None, "made", DOMAIN) == marginals_of(DOMAIN, 3)


def test_statements_stand_for_the_columns_that_they_read() -> None:
    assert read("SELECT income, COUNT(*) FROM made WHERE sex = 1 GROUP BY income") == (("sex", "income"),)
    assert read("SELECT health AS h, AVG(income) AS a FROM MADE m WHERE m.age < 3 GROUP BY h HAVING COUNT(*) > 3 ORDER BY a") == (
        ("age", "health", "income"),)
    assert read("SELECT COUNT(*) FILTER (WHERE SEX = 1) FROM made; all 1-way; select sum(age) from made") == (
        ("sex",), *marginals_of(DOMAIN, 1), ("age",))


MISTAKES = {
    "": "this workload is empty",
    "all 5-way": "no marginal of 5",
    "all 0-way": "no marginal of 0",
    "every 3-way": "only queries",
    "SELECT helth, COUNT(*) FROM made GROUP BY helth": "no column helth",
    "SELECT COUNT(*) FROM people WHERE age = 3": "not people",
    "SELECT COUNT(*) FROM made": "reads no column",
    "SELECT age FROM made": "may only count rows of the table, or sum columns",
    "SELECT MEDIAN(age) FROM made": "may only count rows of the table, or sum columns",
    "SELECT COUNT(DISTINCT age) FROM made": "may only count rows of the table, or sum columns",
    "SELECT COUNT(*) FROM made a JOIN made b ON a.age = b.age": "may only count rows of the table, or sum columns",
    "SELECT COUNT(*) FROM made WHERE age IN (SELECT age FROM made)": "may only count rows of the table, or sum columns",
    "SELECT COUNT(*) FROM made WHERE age = 1 UNION ALL SELECT COUNT(*) FROM made WHERE age = 2": "may only count rows of the table, or sum columns",
    "SHOW TABLES": "consists of queries",
    "all 2-way; SELECT sex COUNT(*) FROM made": "COUNT|expected|read",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_located(text: str) -> None:
    with pytest.raises(Error, match=MISTAKES[text]) as told:
        read(text)
    assert told.value.try_ or told.value.span
    assert isinstance(told.value, OptionError) or told.value.source == f"part {2 if ';' in text else 1} of the workload"


def test_other_values_and_too_many_marginals() -> None:
    with pytest.raises(OptionError, match="must be a text"):
        read(3)
    wide = TableDomain(tuple(f"c{at}" for at in range(30)), (2,) * 30)
    with pytest.raises(OptionError, match="142,506 marginals of 5"):
        read("all 5-way", wide)
    many = "; ".join(["all 3-way"] * (MOST_MARGINALS // 4060 + 1))
    with pytest.raises(OptionError, match="at most"):
        read(many, wide)


# -- what methods make of it


def data(workload: str, columns: int = 6) -> tuple[Coded, dict[str, object]]:
    """Columns that all follow the first one."""
    draws = np.random.default_rng(2)
    first = draws.integers(0, 3, 3000)
    places = np.stack([np.where(draws.random(3000) < 0.7, first, draws.integers(0, 3, 3000)) for _ in range(columns)], axis=1)
    domain = TableDomain(tuple(f"c{at}" for at in range(columns)), (3,) * columns)
    return Coded(domain, places, noise=Exact()), {"workload": read(workload, domain)}


def test_candidates_are_the_downward_closure_with_the_overlap_as_weight() -> None:
    table, named = data("SELECT c0, c1, c2, COUNT(*) FROM made GROUP BY ALL; SELECT c1, c2, COUNT(*) FROM made GROUP BY ALL;"
                        "SELECT c1, c2, COUNT(*) FROM made GROUP BY ALL")
    found = {each.columns: each.weight for each in candidates(table.task(concentrated(Fraction(1)), **named), 10**6)}
    assert found == {("c0",): 1, ("c1",): 3, ("c2",): 3, ("c0", "c1"): 4, ("c0", "c2"): 4, ("c1", "c2"): 6, ("c0", "c1", "c2"): 7}
    table, named = data("all 3-way")
    found = {each.columns: each.weight for each in candidates(table.task(concentrated(Fraction(1)), **named), 10)}
    assert set(map(len, found)) == {1, 2} and all(weight == len(columns) for columns, weight in found.items())
    heavy = "; ".join(["SELECT SUM(c0) FROM made"] * 1500 + ["SELECT SUM(c1) FROM made"])
    weights = {each.columns: each.weight for each in candidates(table.task(concentrated(Fraction(1)), **data(heavy)[1]), 10)}
    assert weights == {("c0",): MOST_WEIGHT, ("c1",): 1}


@pytest.mark.parametrize("workload", ["all 3-way", "all 2-way; SELECT SUM(c0) FROM made; SELECT c1, c3, c5, COUNT(*) FROM made GROUP BY ALL"])
def test_candidates_of_few_columns_are_the_first_with_the_same_weights(workload: str) -> None:
    table, named = data(workload)
    task = table.task(concentrated(Fraction(1)), **named)
    every = candidates(task, 10**6)
    assert max(len(each.columns) for each in every) == 3
    for width in (1, 2, 3, 4):
        assert candidates(task, 10**6, width) == [each for each in every if len(each.columns) <= width]
    turned = replace(task, workload=tuple(columns[::-1] for columns in task.workload))
    assert candidates(turned, 10**6) == every


@pytest.mark.parametrize("name", ["aim", "mst"])
def test_only_what_the_workload_names_is_measured_together(name: str) -> None:
    table, named = data("SELECT c1, c4, COUNT(*) FROM made GROUP BY ALL; SELECT c3, c5, COUNT(*) FROM made GROUP BY ALL; all 1-way")
    found = table.measured(METHODS[name], concentrated(Fraction(1)), **named)
    together = {each.columns for each in found.marginals if len(each.columns) > 1}
    assert together == {("c1", "c4"), ("c3", "c5")}
    assert sum(cost.rho for _, cost in table.asked) > 0.999
    told = METHODS[name].stages(table.task(concentrated(Fraction(1)), **named))
    assert "2 pairs" in told[1] if name == "mst" else "up to 2 columns" in told[1]
    table, named = data("all 1-way")
    assert {len(each.columns) for each in table.measured(METHODS[name], concentrated(Fraction(1)), **named).marginals} == {1}


def test_the_method_is_chosen_by_public_facts_and_why() -> None:
    table, named = data("all 1-way")
    choice = chosen(table.task(concentrated(Fraction(1)), **named), "auto", METHODS)
    assert choice.method.name == "independent" and "contains no combination of columns" in choice.against["aim"]
    choice = chosen(table.task(concentrated(Fraction(1))), "auto", METHODS)
    assert isinstance(choice.method, AdaptiveMarginals) and set(choice.against) == set(METHODS) - {"aim"}
    wide = data("all 2-way", MANY_COLUMNS + 1)
    choice = chosen(wide[0].task(concentrated(Fraction(1)), **wide[1]), "auto", METHODS)
    assert isinstance(choice.method, SpanningTree) and "minutes" in choice.against["aim"]
    assert not chosen(table.task(concentrated(Fraction(1))), "mst", METHODS).against
