"""Statements that are short, and that an engine would take much memory for, are refused before the charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path

import pytest
from support.sessions import open_ledger, session_of

from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import OperationalError
from dpsql.kernel.plan_size import MOST_EQUATED, check_size
from dpsql.plan.expr.nodes import Call, Expr, Ref, predicate, whole
from dpsql.plan.node import Node
from dpsql.plan.operators.filter import Filter
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.scan import Scan
from dpsql.plan.operators.union import UnionAll
from dpsql.types import Type


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = session_of(tmp_path, ledger=open_ledger(tmp_path))
    yield made
    made.close()


def doubling(column: str, change: str, times: int) -> str:
    steps = "".join(f", c{i} AS (SELECT {change} AS x FROM c{i - 1})" for i in range(1, times + 1))
    return f"WITH c0 AS (SELECT {column} AS x FROM people){steps} SELECT COUNT(*) FROM c{times} WHERE x"


LARGE = [doubling("active", "(x AND x)", 12), doubling("age = age", "(x AND x)", 9), doubling("active", "CASE WHEN x THEN x ELSE NOT x END", 15),
         "SELECT COUNT(*) FROM people WHERE " + " AND ".join(f"(age + {i} = age + {i + 1})" for i in range(MOST_EQUATED + 1))]


FROM_LARGE = LARGE[0].replace("COUNT(*)", "{}")
OF_KINDS = [FROM_LARGE.format("SUM(CASE WHEN x THEN 1 ELSE 0 END)"), FROM_LARGE.format("x, COUNT(*)") + " GROUP BY x",
            "SELECT COUNT(*) * 2 + MAX(n) FROM (SELECT COUNT(*) AS n FROM (" + LARGE[0] + "))",
            "CREATE SYNTHETIC TABLE drawn AS " + FROM_LARGE.format("x")]


@pytest.mark.parametrize("text", [*LARGE, *OF_KINDS])
def test_a_statement_that_grows_in_the_engine_is_not_charged_and_has_no_price(text: str, session: Session) -> None:
    with pytest.raises(OperationalError, match="too large") as refused:
        answer(text, session)
    assert session.ledger.entries("person") == []
    with pytest.raises(OperationalError) as told:
        answer(f"EXPLAIN PRIVACY {text}", session)
    assert (told.value.code, told.value.reason, told.value.try_) == (
        refused.value.code, refused.value.reason, refused.value.try_)


@pytest.mark.parametrize("text", [
    doubling("active", "(x OR x)", 6), "SELECT COUNT(*) FROM people WHERE " + " AND ".join(f"age <> {i}" for i in range(100)),
    "SELECT COUNT(*) FROM people WHERE age IN (" + ", ".join(map(str, range(500))) + ")"])
def test_what_is_written_out_is_answered(text: str, session: Session) -> None:
    assert answer(text, session).rows


AGE = Ref(column="a", type=Type.BIGINT)


def times(made: Node | Expr, change: Callable[[object], Node | Expr], count: int) -> Node | Expr:
    return reduce(lambda last, _: change(last), range(count), made)


def union(rows: Node) -> Node:
    return UnionAll(parts=(rows, rows), columns=(("p", "p"), ("a", "a")))


def summed(rows: Node) -> Node:
    return Project(input=rows, columns=(("a", "a", Call(function="+", args=(AGE, AGE), type=Type.BIGINT)),))


def test_what_is_one_value_counts_as_often_as_it_is_printed(session: Session) -> None:
    people = Scan(table=session.catalog.tables["people"], columns=(("p", "person_id"), ("a", "age")), owners=("p",))
    above = predicate(">", AGE, whole(3))
    both = times(above, lambda last: predicate("and", last, last), 100)
    equal = predicate("=", AGE, AGE)
    for plan in (times(people, union, 200), times(people, summed, 200), Filter(input=people, condition=both),
                 Filter(input=union(people), condition=times(equal, lambda last: predicate("and", last, last), 8))):
        with pytest.raises(OperationalError, match="too large"):
            check_size(plan)
    check_size(union(union(Filter(input=people, condition=predicate("and", above, equal)))))
    check_size(times(people, summed, 10))
