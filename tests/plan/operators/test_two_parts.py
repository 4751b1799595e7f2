"""Clipped sums that are printed in two parts are those of one, whatever the rows and the bound."""

from __future__ import annotations

from functools import cache

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_tables import ref, visits
from support.worlds import insert

from dpsql.questions.chosen_grids import quantizer
from dpsql.trusted.plan.node import Node, Printing, fold
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import Contributions
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.two_parts import clipped, in_two_parts
from dpsql.types import Interval, Type

VISITS = visits("v")
ROWS = Project(input=VISITS, columns=tuple((f"c{i}", name, ref(VISITS, f"v_{name}"))
                                           for i, name in enumerate(("person", "town", "visit", "cost"))))
COSTS = quantizer(ROWS.env["c3"], bounds=Interval(-2.0, 5.0), from_low=False)
SCALED = quantizer(ROWS.env["c3"], bounds=Interval(-2.0, 5.0), from_low=True, most_steps=8)
assert COSTS is not None and SCALED is not None
SUMMANDS: list[Summand] = [Count(), Count(column="c3"), GridSum(column="c3", grid=COSTS),
                           *(Moments(column="c3", grid=SCALED, degree=degree, missing=missing)
                             for degree in (1, 2) for missing in (False, True))]
ROW = st.tuples(st.sampled_from([None, 1, 1, 1, 2, 2, 3]), st.sampled_from([None, "a", "b", "c"]),
                st.sampled_from([None, -9.0, -1.5, 0.0, 0.25, 3.0, 77.0]))


def tally(summands: tuple[Summand, ...], order: int, bound: int) -> GroupedSums:
    given = Contributions(input=ROWS, owner="c0", keys=("c1",), summands=summands)
    clip = Clip(input=given, owner="c0", columns=given.totals, order=order, bound=bound)
    return GroupedSums(input=clip, keys=("c1",), summands=(Clipped(clipped=given.totals),))


def keeps_all(node: Truncate) -> bool:
    return True


@cache
def engine() -> duckdb.DuckDBPyConnection:
    """One for all examples: to start one takes longer than to look at an example."""
    return duckdb.connect(":memory:", config={"threads": 1})


@pytest.mark.slow
@given(st.lists(ROW, max_size=40), st.lists(st.sampled_from(SUMMANDS), min_size=1, max_size=2, unique=True),
       st.sampled_from([1, 2]), st.sampled_from([1, 3, 7, 20, 200, 10**6]))
def test_sums_are_the_same(rows: list[tuple[int | None, str | None, float | None]], summands: list[Summand], order: int,
                           bound: int) -> None:
    plan = tally(tuple(summands), order, bound)
    with engine().cursor() as connection:
        connection.execute("CREATE OR REPLACE TABLE visits (visit INTEGER PRIMARY KEY, person INTEGER, town VARCHAR, cost DECIMAL(9,2))")
        insert(connection, "visits", [(i, *row) for i, row in enumerate(rows)])

        def render(node: Node) -> str:
            return fold(node, lambda part, below: part.render(below, Printing()))

        given = clipped(plan, keeps_all)
        assert given is not None
        parts = in_two_parts(plan, render(given.input), Printing())
        columns = ", ".join(f"CAST(t.\"{name}\" AS VARCHAR)" for name in ("c1", *plan.totals))
        one, two = (sorted(connection.execute(f"SELECT {columns} FROM ({text}) AS t").fetchall(), key=repr)
                    for text in (render(plan), parts))
        assert one == two


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("summand", SUMMANDS, ids=lambda one: type(one).__name__)
def test_rows_without_an_owner_are_not_added_up_without_a_bound(summand: Summand, order: int) -> None:
    """Scans leave such rows out. The bound must not rest on that alone."""
    plan = tally((summand,), order, 5)
    rows = "SELECT NULL::BIGINT AS c0, 'a' AS c1, i AS c2, 3.0 AS c3 FROM range(1000) AS t(i) UNION ALL SELECT 1, 'a', 1, 3.0"
    clip, given = plan.input, plan.input.inputs[0]
    whole = plan.render((clip.render((given.render((rows,), Printing()),), Printing()),), Printing())
    with engine().cursor() as connection:
        one, two = (connection.execute(f"SELECT * FROM ({text}) AS t").fetchall() for text in (whole, in_two_parts(plan, rows, Printing())))
    assert one == two


def test_rows_that_are_dear_to_read_are_read_once() -> None:
    plan = tally((Count(),), 1, 5)
    assert isinstance(plan.input, Clip) and isinstance(given := plan.input.input, Contributions)
    limited = Truncate(input=ROWS, rows=3, owner="c0", order=("c1", "c2", "c3"))
    above = Contributions(input=limited, owner="c0", keys=("c1",), summands=given.summands)
    clip = Clip(input=above, owner="c0", columns=above.totals, order=1, bound=5)
    limited_tally = GroupedSums(input=clip, keys=("c1",), summands=plan.summands)
    assert clipped(limited_tally, lambda node: False) is None
    assert clipped(limited_tally, keeps_all) == above, "a limit that no entity reaches is not in the text"
    assert clipped(GroupedSums(input=given, keys=("c1",), summands=(Clipped(clipped=given.totals),)), keeps_all) is None
    assert ROWS.env["c1"].type is Type.VARCHAR
