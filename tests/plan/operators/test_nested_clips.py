"""A clip names its input `##`: clips inside each other, and tables of that name, give the rows that they give under other names."""

from __future__ import annotations

import duckdb
import pytest
from support.small_tables import VISITS, scan

from dpsql.frozen import replace
from dpsql.trusted.plan.node import Node, Printing, fold
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import TOO_LARGE, Contributions, added_squares
from dpsql.trusted.plan.operators.summands import Count
from dpsql.trusted.plan.operators.union import UnionAll


def nested(name: str, depth: int) -> Node:
    visits = scan(replace(VISITS, name=name), "v", "visit", "town")
    made: Node = Contributions(input=visits, owner="v_person", keys=("v_town",), summands=(Count(),))
    for bound in range(9, 9 - depth, -2):
        clip = Clip(input=made, owner="v_person", columns=("e0_0",), order=1 + bound % 4 // 2, bound=bound)
        made = UnionAll(parts=(clip, made), columns=tuple((field.id, field.name) for field in made.fields))
    return Clip(input=made, owner="v_person", columns=("e0_0",), order=2, bound=7)


@pytest.mark.parametrize("depth", [0, 2, 6])
def test_names_inside_do_not_meet(depth: int) -> None:
    with duckdb.connect() as connection:
        for name in ("visits", "##"):
            connection.execute(f"CREATE TABLE \"{name}\" AS SELECT i AS visit, i % 5 AS person, chr((97 + i % 3)::INTEGER) AS town "
                               "FROM range(60) AS t(i)")
        found = [sorted(connection.execute(fold(nested(name, depth), lambda node, below: node.render(below, Printing()))).fetchall())
                 for name in ("visits", "##")]
    assert found[0] == found[1] != []
    assert all(sum(row[2] ** 2 for row in found[0] if row[0] == person) <= 49 for person in range(5))


def test_squares_beyond_128_bits_are_added_up_and_leave_nothing() -> None:
    with duckdb.connect() as connection:
        def summed(value: int, rows: int) -> int:
            square = f"(CAST({value} AS HUGEINT) * CAST({value} AS HUGEINT))"
            squares = f"({' + '.join([square] * 500)})"
            (found,), = connection.execute(f"SELECT {added_squares(squares)} FROM range({rows})").fetchall()
            return int(found)

        assert [summed(3, 1), summed(2**50 - 1, 7)] == [500 * 9, 500 * 7 * (2**50 - 1) ** 2]
        assert TOO_LARGE <= summed(2**50, 360_000) < 2 * TOO_LARGE
