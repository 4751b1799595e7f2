"""Columns of deviations from a centre, of their squares and of their products, for bounds on one number of each row.

Where rows belong to one entity each, all moments of a column come from one measurement (`summands.Moments`). A bound on one
number of each row needs each power as a column of its own. Values are clamped to their declared range first, as they are where
they are summed. They are measured from its midpoint, so that no square is larger than a quarter of the squared width of the
range, or from a number near them. A square is written as the product of two absolute values, so it is known not to be negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from dpsql.frozen import replace
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.question import AggregateCall, Question
from dpsql.questions.rules.regression import PAIRS, middle
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.nodes import Call, Case, Cast, Expr, Literal, has_value, real
from dpsql.trusted.plan.node import Field, Node
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Type

POWERS = {Kind.TOTAL: (0,), Kind.MEAN: (1,), Kind.SPREAD: (2,)}


def powers_of(call: AggregateCall) -> tuple[int, ...]:
    """For each column of an aggregate, the highest power of its values that is summed, in addition to the number of rows."""
    if call.aggregate.kind is Kind.PAIR:
        return PAIRS[call.function].powers
    return POWERS.get(call.aggregate.kind, ())


def distance_of(column: str) -> str:
    """The name of the column with the deviations of another column from its centre."""
    return f"distance_{column}"


def square_of(column: str) -> str:
    """The name of the column with the squares of another column's deviations."""
    return f"square_{column}"


def product_of(y: str, x: str) -> str:
    """The name of the column with the products of two columns' deviations."""
    return f"product_{y}_{x}"


def measured_columns(question: Question) -> dict[str, str | None]:
    """The columns whose deviations are needed, each with the condition of the first aggregate that needs them."""
    found: dict[str, str | None] = {}
    for call in question.aggregates:
        for column in call.columns[:2] if call.aggregate.squared else ():  # the third is their product
            if question.view.field(column).facts.declared.finite:
                found.setdefault(column, call.when)
    return found


def centre_of(known: Facts, column: str, centres: Mapping[str, float]) -> float:
    """The number from which a column is measured: the midpoint of its range, unless `centres` has another one."""
    return centres.get(column, middle(known.declared))


def with_squares(question: Question, view: Node, centres: Mapping[str, float] = MappingProxyType({})) -> tuple[Question, Node]:
    """A question and its limited view, with columns of squares and products for the aggregates that need them; earlier ones are
    replaced."""
    if not measured_columns(question):
        return question, view
    return replace(question, view=_extended(question.view, question, centres)), _extended(view, question, centres)


def _extended(view: Node, question: Question, centres: Mapping[str, float]) -> Project:
    distances, squares = {}, []
    for column in measured_columns(question):
        known = view.field(column)
        name, distance = _distance(known, centre_of(known.facts, column, centres))
        distances[column] = distance_of(column), name, _where_present([known], distance)
        size = Call(function="abs", args=(distance,), type=Type.DOUBLE)
        squares.append((square_of(column), f"({name}) squared", _where_present([known], _times(size, size))))
    pairs = sorted({(call.columns[0], call.columns[1]) for call in question.aggregates if call.aggregate.kind is Kind.PAIR})
    products = [_product(view.field(y), view.field(x), centres) for y, x in pairs if {y, x} <= set(distances)]
    added = [*distances.values(), *squares, *products]
    kept = [field for field in view.fields if field.id not in {column for column, _, _ in added}]
    return Project(input=view, columns=(*((field.id, field.name, field.ref) for field in kept), *added))


def _product(y: Field, x: Field, centres: Mapping[str, float]) -> tuple[str, str, Expr]:
    (of_y, above), (of_x, beside) = (_distance(each, centre_of(each.facts, each.id, centres)) for each in (y, x))
    return product_of(y.id, x.id), f"({of_y}) * ({of_x})", _where_present([y, x], _times(above, beside))


def _distance(known: Field, centre: float) -> tuple[str, Expr]:
    """The display name and the expression of a deviation from a centre; where the column is NULL, it need not be."""
    return f"{known.name} - {centre:g}", Call(function="-", args=(_held(known), real(centre)), type=Type.DOUBLE)


def _times(a: Expr, b: Expr) -> Expr:
    return Call(function="*", args=(a, b), type=Type.DOUBLE)


def _held(known: Field) -> Expr:
    """A number, clamped to its declared range."""
    number: Expr = known.ref if known.facts.type is Type.DOUBLE else Cast(input=known.ref, target="DOUBLE", type=Type.DOUBLE)
    for function, end in (("greatest", known.facts.declared.low), ("least", known.facts.declared.high)):
        number = Call(function=function, args=(number, real(float(end))), type=Type.DOUBLE)
    return number


def _where_present(columns: Sequence[Field], value: Expr) -> Expr:
    """A value, and NULL if a column has none: GREATEST and LEAST would turn NULL and NaN into numbers."""
    for known in columns:
        if known.facts.nullable:
            nothing = Literal(value=None, type=Type.DOUBLE)
            value = Case(branches=((has_value(known.ref), value),), otherwise=nothing, type=Type.DOUBLE)
    return value
