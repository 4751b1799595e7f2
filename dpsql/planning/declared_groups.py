"""The condition that a row is in one of the declared groups, as a plan can test it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from dpsql.catalog.days import KEPT_BY_ENDS
from dpsql.questions.question import Key, Question
from dpsql.trusted.plan.expr.functions import MEMBERSHIP
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal
from dpsql.trusted.plan.node import Node
from dpsql.types import Type

MOST_LISTED = 1000  # values that a condition lists


def may_be_tested(question: Question) -> bool:
    """Whether the groups are all combinations of short lists or ranges of declared values."""
    domains = [key.domain for key in question.keys]
    return not question.combinations and all(
        domain is not None and len(domain) and (isinstance(domain.values, KEPT_BY_ENDS) or len(domain) <= MOST_LISTED)
        for domain in domains)


def in_declared_groups(rows: Node, keys: Sequence[Key]) -> Expr:
    """The condition that every key of a row has a declared value, or is NULL if that is a group. Needs `may_be_tested`."""
    return reduce(lambda one, other: _joined("and", one, other), (_is_declared(rows, key) for key in keys))


def _is_declared(rows: Node, key: Key) -> Expr:
    assert key.domain is not None
    column, values = rows.field(key.column).ref, key.domain.values
    if isinstance(values, KEPT_BY_ENDS):
        ends = [Literal(value=value, type=key.type) for value in (values[0], values[-1])]
        declared: Expr = _joined("and", *(Call(function=sign, args=(column, end), type=Type.BOOLEAN)
                                                  for sign, end in zip((">=", "<="), ends, strict=True)))
    else:
        listed = (Literal(value=value, type=key.type) for value in values)
        declared = Call(function=MEMBERSHIP, args=(column, *listed), type=Type.BOOLEAN)
    if not key.nullable:
        return declared
    return _joined("or", declared, Call(function="is null", args=(column,), type=Type.BOOLEAN))


def _joined(name: str, one: Expr, other: Expr) -> Expr:
    return Call(function=name, args=(one, other), type=Type.BOOLEAN)
