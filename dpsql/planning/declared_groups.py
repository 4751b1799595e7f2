"""The condition that a row is in one of the declared groups, as a plan can test it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.catalog.days import KEPT_BY_ENDS
from dpsql.questions.question import Key, Question
from dpsql.trusted.plan.expr.functions import MEMBERSHIP
from dpsql.trusted.plan.expr.nodes import Call, Expr, Literal, all_of
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
    """The condition that every key of a row has a declared value, or is NULL if that is a group. Needs `may_be_tested` and at
    least one key."""
    condition = all_of([_is_declared(rows, key) for key in keys])
    assert condition is not None
    return condition


def _is_declared(rows: Node, key: Key) -> Expr:
    column = rows.field(key.column).ref
    declared = all_of(list(_tests(column, key)))
    assert declared is not None
    if not key.nullable:
        return declared
    missing = Call(function="is null", args=(column,), type=Type.BOOLEAN)
    return Call(function="or", args=(declared, missing), type=Type.BOOLEAN)


def _tests(column: Expr, key: Key) -> Iterator[Expr]:
    """The conditions that a key has a declared value: two ends for a range, and a list otherwise."""
    assert key.domain is not None
    values = key.domain.values
    if isinstance(values, KEPT_BY_ENDS):
        for sign, end in ((">=", values[0]), ("<=", values[-1])):
            yield Call(function=sign, args=(column, Literal(value=end, type=key.type)), type=Type.BOOLEAN)
    else:
        listed = (Literal(value=value, type=key.type) for value in values)
        yield Call(function=MEMBERSHIP, args=(column, *listed), type=Type.BOOLEAN)
