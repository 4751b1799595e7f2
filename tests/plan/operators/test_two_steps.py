"""Sums that are printed in two steps are those of one step, whatever the rows and the conditions."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.small_tables import TRUE, people
from support.worlds import insert

from dpsql.frozen import replace
from dpsql.questions.chosen_grids import quantizer
from dpsql.trusted.plan.expr.nodes import Call, Case, Expr, Literal
from dpsql.trusted.plan.node import Node, Printing, fold
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.two_steps import FEWEST, in_two_steps
from dpsql.types import Type

PEOPLE = people()
NAMES, AGES, REALS = ["a", "b", "A", "", "ab."], [-5, 0, 17, 50, 400], [0.0, -0.0, 2.5, 11.0, float("nan"), float("inf")]
ROW = st.tuples(st.sampled_from([None, *NAMES, "z"]), st.sampled_from([None, *REALS]), st.sampled_from([None, *AGES]),
                st.sampled_from([None, True, False]))


def ref(name: str) -> Expr:
    return PEOPLE.field(f"p_{name}").ref


def constant(value: object) -> Literal:
    kinds = {str: Type.VARCHAR, int: Type.BIGINT, float: Type.DOUBLE}
    return Literal(value=value, type=kinds[type(value)])  # type: ignore[arg-type]


def truth(function: str, *args: Expr) -> Call:
    return Call(function=function, args=args, type=Type.BOOLEAN)


ATOMS: st.SearchStrategy[Expr] = st.one_of(
    st.builds(lambda function, name: truth(function, ref("name"), constant(name)), st.sampled_from(["=", "<>"]),
              st.sampled_from(NAMES)),
    st.builds(lambda name: truth("=", constant(name), ref("name")), st.sampled_from(NAMES)),
    st.builds(lambda names: truth("in", ref("name"), *map(constant, names)), st.lists(st.sampled_from(NAMES), min_size=1)),
    st.builds(lambda function, column: truth(function, ref(column)), st.sampled_from(["is null", "is not null"]),
              st.sampled_from(["name", "x", "age", "active"])),
    st.builds(lambda function, age: truth(function, ref("age"), constant(age)), st.sampled_from(["=", "<", "<=", ">", ">="]),
              st.sampled_from(AGES)),
    st.builds(lambda function, x: truth(function, ref("x"), constant(x)), st.sampled_from(["=", "<", "<=", ">"]),
              st.sampled_from(REALS[:4])),
    st.just(ref("active")))
TEXTS = st.builds(lambda pattern: truth("like", ref("name"), constant(pattern)), st.sampled_from(["a%", "_", "%"]))


def joined(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(st.builds(lambda function, a, b: truth(function, a, b), st.sampled_from(["and", "or"]), parts, parts),
                     st.builds(lambda a: truth("not", a), parts))


def conditions(atoms: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.recursive(atoms, joined, max_leaves=5)



def steps(column: str, end: object) -> Expr:
    return Case(branches=((truth("<=", ref(column), constant(end)), constant(-1)), (truth(">", ref(column), constant(end)), constant(2))),
                otherwise=Literal(value=None, type=Type.BIGINT), type=Type.BIGINT)


VALUES = st.one_of(st.none(), st.sampled_from([ref("age"), ref("x"), ref("name"), *(steps("age", age) for age in AGES),
                                               *(steps("x", x) for x in REALS[:4])]))


def tally(parts: list[tuple[Expr | None, Expr | None]]) -> GroupedSums:
    """Sums (of a number), or counts (of rows, or of texts), each under a condition."""
    columns: dict[str, Expr] = {}
    summands: list[Summand] = []
    for i, (value, when) in enumerate(parts):
        columns |= {f"v{i}": value} if value is not None else {}
        columns |= {f"w{i}": when} if when is not None else {}
        named = f"w{i}" if when is not None else None
        if value is None or value.type is Type.VARCHAR:
            summands.append(Count(column=f"v{i}" if value is not None else None, when=named))
            continue
        below = Project(input=PEOPLE, columns=(("v", "v", value),))
        grid = quantizer(below.field("v").facts, from_low=False)
        assert grid is not None
        summands.append(GridSum(column=f"v{i}", when=named, grid=grid))
    kept = tuple((name, name, expr) for name, expr in columns.items())
    return GroupedSums(input=Project(input=PEOPLE, columns=kept), keys=(), summands=tuple(summands))


@cache
def engine() -> duckdb.DuckDBPyConnection:
    """One for all examples: to start one takes longer than to look at an example."""
    return duckdb.connect(":memory:", config={"threads": 1})


def database(rows: list[tuple[object, ...]]) -> duckdb.DuckDBPyConnection:
    connection = engine()
    connection.execute("CREATE OR REPLACE TABLE people (id INTEGER, name VARCHAR, x DOUBLE, age INTEGER, active BOOLEAN, born DATE)")
    insert(connection, "people", [(i, *row, None) for i, row in enumerate(rows)])
    return connection


def both(plan: GroupedSums) -> tuple[str, str | None]:
    def printed(node: Node) -> str:
        return fold(node, lambda part, below: part.render(below, Printing()))

    assert isinstance(plan.input, Project)
    return printed(plan), in_two_steps(plan, printed(plan.input.input), Printing())


@pytest.mark.slow
@given(st.lists(ROW, max_size=14),
       st.lists(st.tuples(VALUES, st.one_of(st.none(), conditions(ATOMS))), min_size=FEWEST, max_size=9), st.booleans(), TEXTS)
def test_two_steps_give_the_sums_of_one(rows: list[tuple[object, ...]], parts: list[tuple[Expr | None, Expr | None]], other: bool,
                                        pattern: Expr) -> None:
    plain, two = both(tally([*parts, (None, pattern)] if other else parts))
    connection = database(rows)
    if two is None:
        assert not other and all(when is None for _, when in parts)
        return
    assert "GROUP BY" in two and "GROUP BY" not in plain
    assert connection.execute(two).fetchall() == connection.execute(plain).fetchall()


BY_HAND: dict[str, tuple[Expr | None, Expr | None]] = {
    "texts under a condition": (ref("name"), truth("<", ref("age"), constant(17))),
    "a number where a text is one": (ref("age"), truth("=", ref("name"), constant("a"))),
    "a number where a text is another": (ref("age"), truth("=", ref("name"), constant("b"))),
    "reals where a text is one of two": (ref("x"), truth("in", ref("name"), constant("A"), constant("ab."))),
    "steps of a number": (steps("x", 2.5), truth("<>", ref("name"), constant(""))),
    "not below": (None, truth("not", truth("<", ref("x"), constant(2.5)))),
    "neither of two": (None, truth("and", truth("not", truth("<", ref("x"), constant(2.5))), truth("not", truth("=", ref("name"), constant("a"))))),
    "one of two": (None, truth("or", truth(">", ref("x"), constant(2.5)), ref("active"))),
    "no text": (None, truth("is null", ref("name"))),
    "a text that no row is": (None, truth("=", ref("name"), constant("."))),
}


@pytest.mark.parametrize("first", [0, 1], ids=["the text itself is read", "the text is only compared"])
def test_two_steps_give_the_sums_of_one_by_hand(first: int) -> None:
    plain, two = both(tally([*BY_HAND.values()][first:]))
    assert two is not None and ('END) COLLATE "C")' in two) is (first == 1)
    rows = [(name, REALS[i % 5], AGES[i % 4], (True, False, None)[i % 3]) for i, name in enumerate([*NAMES, "z", None] * 3)]
    found, = database([*rows, ("a", None, None, True)]).execute(two).fetchall()
    assert found == database([*rows, ("a", None, None, True)]).execute(plain).fetchone() and len({*found}) > 5


def test_a_text_that_is_compared_with_more_than_constants_is_no_key() -> None:
    """Its place among constants would not tell whether they are equal."""
    either = Case(branches=((ref("active"), constant("a")),), otherwise=constant("b"), type=Type.VARCHAR)
    plain, two = both(tally([(None, truth("=", ref("name"), either))] * FEWEST))
    connection = database([(name, None, None, active) for name in (*NAMES, None) for active in (True, False, None)])
    assert two is not None and connection.execute(two).fetchall() == connection.execute(plain).fetchall() == [(3,) * FEWEST]


def test_moments_are_one_step() -> None:
    plan = tally([(ref("age"), truth("=", ref("name"), constant("a")))] * FEWEST)
    moments = Moments(column="v0", when="w0", grid=Quantizer(low=0.0, high=9.0, step=Fraction(1), from_low=True), degree=1)
    assert both(replace(plan, summands=(*plan.summands, moments)))[1] is None


def test_few_sums_and_many_tests_are_one_step() -> None:
    when = truth("=", ref("name"), constant("a"))
    assert both(tally([(None, when)] * FEWEST))[1] is not None
    assert both(tally([(None, when)] * (FEWEST - 1)))[1] is None
    assert both(tally([(ref("age"), None)] * FEWEST))[1] is None  # no condition tells rows apart
    assert both(tally([(None, TRUE)] * FEWEST))[1] is None
    wide = [(None, truth("<", ref("x"), constant(float(i)))) for i in range(30)]
    assert both(tally(wide[:20]))[1] is not None and both(tally(wide))[1] is None  # type: ignore[arg-type]
    equal = [(None, truth("=", ref("name"), constant(str(i)))) for i in range(30)]
    assert both(tally(equal))[1] is not None, "one text that is compared thirty times is one key"  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [0, 3])
def test_sums_beyond_64_bits_are_held_as_in_one_step(rows: int) -> None:
    plan = tally([(ref("age"), truth("=", ref("name"), constant("a")))] * FEWEST)
    grid = replace(plan.summands[0].grid, low=-(2.0**40), high=2.0**40)  # type: ignore[attr-defined]
    plan = replace(plan, summands=tuple(replace(part, grid=grid) for part in plan.summands))
    plain, two = both(plan)
    assert two is not None
    connection = database([("a", 1.0, 2**31 - 1, True)] * rows)
    assert connection.execute(two).fetchall() == connection.execute(plain).fetchall() == [(rows * (2**31 - 1),) * FEWEST]
