"""Rows with further columns: for each, in which part of its range the value of another column lies.

Parts may follow from numbers that were released: the expression is made where they are known, above rows whose limits and owners
are proved, and the kernel certifies it like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpsql.frozen import Frozen
from dpsql.trusted.plan.expr.nodes import Case, Expr, Literal, Ref, Value, predicate, whole
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.project import Project
from dpsql.types import Type

IN = "_in_"  # in identifiers, between the column and a number


class ColumnParts(Frozen):
    """Consecutive parts of a column's range: the first value of each, from low to high. Values below the first are in the first
    part, and NULL and NaN in none."""

    column: str
    starts: tuple[Value, ...]


def with_parts(view: Node, parts: Iterable[ColumnParts]) -> tuple[Node, tuple[str, ...]]:
    """The rows with a column for each of these parts, and the new columns."""
    own = tuple((field.id, field.name, field.ref) for field in view.fields)
    made = tuple((f"{one.column}{IN}{number}", "", _number(view.field(one.column).ref, one.starts))
                 for number, one in enumerate(parts, len(own)))
    return Project(input=view, columns=(*own, *made)), tuple(column for column, _, _ in made)


def source_of(column: str) -> str:
    """The column of the rows from which a column with parts was made; other columns are themselves."""
    return column.split(IN)[0]


def _number(column: Ref, starts: Sequence[Value]) -> Expr:
    """The number of the part that contains a value."""
    missing = predicate("is null", column)
    if column.type is Type.DOUBLE:
        missing = predicate("or", missing, predicate("isnan", column))
    below = ((predicate("<", column, Literal(value=start, type=column.type)), whole(number))
             for number, start in enumerate(starts[1:]))
    return Case(branches=((missing, Literal(value=None, type=Type.BIGINT)), *below), otherwise=whole(len(starts) - 1),
                type=Type.BIGINT)
