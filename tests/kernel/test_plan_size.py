"""Statements that are short, and that an engine would take much memory for, are refused before the charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path

import pytest
from support import small_tables
from support.sessions import open_ledger, session_of
from support.small_tables import TRUE

from dpsql.engine.answering import answer
from dpsql.engine.session import Session
from dpsql.errors import OperationalError
from dpsql.questions.labels import label
from dpsql.trusted.kernel import plan_size
from dpsql.trusted.kernel.plan_size import MOST_EQUATED, ExprSize, _relation, check_size
from dpsql.trusted.plan.expr.functions import MEMBERSHIP
from dpsql.trusted.plan.expr.nodes import Call, Case, Expr, Ref, predicate, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.constants import Constants
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join, Merged
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.union import UnionAll
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


# -- sizes by hand


PEOPLE, X = small_tables.people("p", "age"), Ref(column="x", type=Type.BOOLEAN)
ABOVE, EQUAL = (predicate(name, PEOPLE.field("p_age").ref, other) for name, other in ((">", whole(3)), ("=", PEOPLE.field("p_id").ref)))
BOTH = predicate("and", ABOVE, EQUAL)
OF_BOTH = ExprSize(parts=7, conjuncts=2, equated=1)


def shown(expr: Expr, name: str = "x", below: Node = PEOPLE) -> Project:
    return Project(input=below, columns=((name, name, expr),))


def test_the_parts_of_an_expression_are_those_that_are_printed() -> None:
    listed = Call(function=MEMBERSHIP, args=(whole(0), *map(whole, range(5))), type=Type.BOOLEAN)
    case = Case(type=Type.BOOLEAN, branches=((ABOVE, EQUAL),), otherwise=ABOVE)
    for expr, size in ((ABOVE, ExprSize(parts=3)), (EQUAL, ExprSize(parts=3, equated=1)), (BOTH, OF_BOTH), (listed, ExprSize(parts=7)),
                       (predicate("and", BOTH, BOTH), ExprSize(parts=15, conjuncts=4, equated=2)), (case, ExprSize(parts=10)),
                       (predicate("or", BOTH, BOTH), ExprSize(parts=15)), (predicate("=", whole(1), whole(2)), ExprSize(parts=3)),
                       (predicate("is not distinct from", *EQUAL.args), ExprSize(parts=3, equated=1))):
        assert _relation(shown(expr), {}).columns == {"x": size}, expr


def test_conditions_add_up_and_columns_count_as_what_they_stand_for() -> None:
    left, right = Filter(input=shown(BOTH), condition=X), Filter(input=shown(ABOVE, "y"), condition=TRUE)
    joined = Join(left=left, right=right, condition=predicate("=", X, X), keep_left=True, keep_right=True,
                  merged=(Merged(id="m", name="m", left="x", right="y"),))
    united = UnionAll(parts=(left, left, right), columns=(("u", "u"),))
    for node, relations, conjuncts, equated, columns in (
            (PEOPLE, 1, 0, 0, {}), (shown(BOTH), 2, 0, 0, {"x": OF_BOTH}), (left, 3, 2, 1, {"x": OF_BOTH}),
            (right, 3, 1, 0, {"y": ExprSize(parts=3)}), (Filter(input=PEOPLE, condition=BOTH), 2, 2, 1, {}),
            (joined, 7, 4, 2, {"x": OF_BOTH, "y": ExprSize(parts=3), "m": ExprSize(parts=15, conjuncts=2, equated=1)}),
            (united, 10, 2, 1, {"u": ExprSize(parts=9, conjuncts=2, equated=1)}),
            (UnionAll(parts=(PEOPLE, PEOPLE), columns=(("u", "u"),)), 3, 0, 0, {"u": ExprSize(parts=2)}),
            (SetOperation(kind="except", all=True, left=left, right=right, columns=(("u", "u"),)), 7, 2, 1,
             {"u": ExprSize(parts=8, conjuncts=2, equated=1)})):
        found = _relation(node, {})
        assert (found.relations, found.conjuncts, found.equated, found.columns) == (relations, conjuncts, equated, columns), label(node)


@pytest.mark.parametrize("name, plan, size", [
    ("MOST_RELATIONS", Filter(input=PEOPLE, condition=TRUE), 2), ("MOST_CONJUNCTS", Filter(input=PEOPLE, condition=BOTH), 2),
    ("MOST_EQUATED", Filter(input=PEOPLE, condition=predicate("and", EQUAL, EQUAL)), 2), ("MOST_PARTS", shown(BOTH), 7),
    ("MOST_LISTED", Project(input=PEOPLE, columns=tuple((name, name, ABOVE) for name in "abc")), 3),
    ("MOST_CONSTANTS", Constants(columns=(PEOPLE.field("p_id"),), rows=((1,), (2,), (3,))), 3)])
def test_a_plan_may_be_as_large_as_a_limit_says(name: str, plan: Node, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_size, name, size)
    check_size(plan)
    monkeypatch.setattr(plan_size, name, size - 1)
    with pytest.raises(OperationalError, match="too large"):
        check_size(plan)


def test_columns_of_one_name_in_several_parts_count_as_the_largest() -> None:
    """Otherwise a small part would hide how often the large one is written out."""
    def doubled(rows: Node) -> Node:
        return UnionAll(parts=(shown(predicate("and", X, X), below=rows), shown(ABOVE)), columns=(("x", "x"),))

    with pytest.raises(OperationalError, match="too large"):
        check_size(Filter(input=times(shown(ABOVE), doubled, 12), condition=X))
    for lookup in (Lookup(input=shown(BOTH), listed=shown(ABOVE), keys=((X, "x"),), mark="m"),
                   Lookup(input=shown(ABOVE), listed=shown(BOTH), keys=((X, "x"),), mark="m")):
        assert _relation(lookup, {}).columns == {"x": ExprSize(parts=8, conjuncts=2, equated=1)}
