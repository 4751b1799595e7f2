"""Trees of expressions: walking, replacing, and taking conditions apart."""

from __future__ import annotations

import itertools
import math

from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, Ref, children, columns, conjuncts, rewrite, walk
from dpsql.trusted.plan.expr.printing import to_sql
from dpsql.types import Span, Type


def ref(name: str) -> Ref:
    return Ref(column=name, type=Type.BOOLEAN)


def both(*args: Expr) -> Call:
    return Call(function="and", args=args, type=Type.BOOLEAN)


A, B, C, D = map(ref, "abcd")
TEXT = Cast(input=C, target="VARCHAR", type=Type.VARCHAR)
TREE = Case(branches=((both(A, B), TEXT),), otherwise=Literal(value="x", type=Type.VARCHAR), type=Type.VARCHAR)


def test_places_in_the_text_do_not_matter() -> None:
    assert Ref(column="a", type=Type.BOOLEAN, span=Span(1, 2)) == A
    assert hash(Ref(column="a", type=Type.BOOLEAN, span=Span(1, 2))) == hash(A)
    assert Ref(column="a", type=Type.BIGINT) != A


def test_children_come_in_the_order_of_printing() -> None:
    assert children(TREE) == (both(A, B), TEXT, Literal(value="x", type=Type.VARCHAR))
    assert children(A) == () and children(both(A, B)) == (A, B)


def test_walking_meets_every_part_once() -> None:
    assert [type(part).__name__ for part in walk(TREE)] == ["Case", "Call", "Ref", "Ref", "Cast", "Ref", "Literal"]
    assert columns(TREE) == {"a", "b", "c"} and columns(Literal(value=1, type=Type.BIGINT)) == set()


def test_replacing_goes_from_the_top_and_stops_at_what_was_replaced() -> None:
    assert rewrite(TREE, lambda part: None) == TREE
    assert rewrite(TREE, lambda part: D if part == A else None) == Case(
        branches=((both(D, B), TREE.branches[0][1]),), otherwise=TREE.otherwise, type=Type.VARCHAR)
    assert rewrite(both(A, A), lambda part: both(A, B) if part == A else None) == both(both(A, B), both(A, B))
    assert rewrite(TREE, lambda part: D if isinstance(part, Case) else None) == D
    doubled = rewrite(TREE, lambda part: ref(part.column * 2) if isinstance(part, Ref) else None)
    assert columns(doubled) == {"aa", "bb", "cc"}


def test_conditions_are_taken_apart_at_every_and() -> None:
    assert conjuncts(None) == () and conjuncts(A) == (A,)
    assert conjuncts(both(both(A, B), both(C, D))) == (A, B, C, D)
    either = Call(function="or", args=(both(A, B), C), type=Type.BOOLEAN)
    assert conjuncts(both(either, D)) == (either, D)
    negated = Call(function="not", args=(both(A, B),), type=Type.BOOLEAN)
    assert conjuncts(negated) == (negated,)


def test_constants_are_equal_where_they_are_printed_alike() -> None:
    """Python finds -0.0 equal to 0.0, NaN unequal to itself, and True equal to 1."""
    reals = [Literal(value=value, type=Type.DOUBLE) for value in (0.0, -0.0, math.nan, -float("nan"), 1.0, math.inf, -math.inf, None)]
    others = [Literal(value=value, type=kind) for value, kind in (
        (True, Type.BOOLEAN), (1, Type.BIGINT), (0, Type.BIGINT), (False, Type.BOOLEAN), (None, Type.BIGINT), ("nan", Type.VARCHAR))]
    for a, b in itertools.product([*reals, *others], repeat=2):
        assert (a == b) is (to_sql(a, {}) == to_sql(b, {})), (a, b)
        assert a != b or hash(a) == hash(b)
    assert reals[0] == reals[1] and reals[2] == reals[3]
    assert len({Call(function="in", args=(ref("x"), real), type=Type.BOOLEAN) for real in reals}) == 6
