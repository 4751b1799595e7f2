"""The public list of values of a key, derived from what the owner declares of the columns it is made of."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Protocol

from dpsql.catalog.model import Domain
from dpsql.plan.expr.facts import Facts, facts
from dpsql.plan.expr.nodes import Case, Expr, Literal, Ref, columns, predicate
from dpsql.plan.rules.substitute import has_placeholders
from dpsql.types import Type

MOST_COMBINATIONS, MOST_NUMBERS = 100_000, 10_000


class Scratch(Protocol):
    """Evaluates expressions over public values, with the semantics of the engine."""

    def evaluate(self, exprs: Sequence[Expr], columns: Mapping[str, tuple[Type, Sequence[Any]]]) -> list[tuple[Any, ...]]:
        """The values of expressions over rows given column by column."""
        ...

    def compiles(self, pattern: str) -> bool:
        """Whether the engine accepts a regular expression, so that it cannot fail on a row."""
        ...

    def close(self) -> None: ...


def domain_of(expr: Expr, env: Mapping[str, Facts], scratch: Scratch) -> tuple[Domain | None, bool]:
    """All values an expression can take, None where the policy does not tell; and whether NULL is one of them.

    Known are declared columns, truth values, CASE over constants, expressions over columns with declared domains (evaluated
    over all their combinations), whole numbers in a declared range, such as floor(income / 1000), and columns of whole numbers
    that a condition holds in a range: WHERE n BETWEEN 1 AND 20.
    """
    known = facts(expr, env)
    if isinstance(expr, Ref):
        held = known.domain is None and known.returned == known.declared
        return (_whole_numbers(known) if held else known.domain), known.nullable
    if isinstance(expr, Literal):
        return Domain(() if expr.value is None else (expr.value,)), expr.value is None
    evaluated = _over_combinations(expr, env, scratch)
    if evaluated is not None:
        return evaluated
    if known.type is Type.BOOLEAN:
        return Domain((False, True)), known.nullable
    if isinstance(expr, Case):
        outcomes = [*(then for _, then in expr.branches), expr.otherwise]
        if all(isinstance(outcome, Literal) for outcome in outcomes):
            values = {outcome.value for outcome in outcomes if isinstance(outcome, Literal) and outcome.value is not None}
            return Domain(tuple(sorted(values))), known.nullable
    return _whole_numbers(known), known.nullable


def _whole_numbers(known: Facts) -> Domain | None:
    """The whole numbers of a declared range, if these are not too many."""
    ends = known.declared.within(known.returned)
    if not (known.whole and known.type.numeric and ends.finite and ends.high - ends.low <= MOST_NUMBERS):
        return None
    numbers = range(math.ceil(ends.low), math.floor(ends.high) + 1)
    return Domain(tuple(numbers) if known.type is Type.BIGINT else tuple(float(n) for n in numbers))


def _over_combinations(expr: Expr, env: Mapping[str, Facts], scratch: Scratch) -> tuple[Domain, bool] | None:
    """The values over all combinations of the columns' own values; None where these are not declared or too many, or where the
    expression waits for a value."""
    if has_placeholders(expr):
        return None
    read = sorted(columns(expr))
    lists = []
    for column in read:
        domain = env[column].domain
        if domain is None:
            return None
        lists.append([*domain.values, *([None] if env[column].nullable else [])])
    if not read or math.prod(len(values) for values in lists) > MOST_COMBINATIONS:
        return None
    rows = list(product(*lists))
    given = {column: (env[column].type, [row[i] for row in rows]) for i, column in enumerate(read)}
    found = {value for value, inside in scratch.evaluate([expr, _readable(expr)], given) if inside is not False}
    values = [value for value in found if value is not None and value == value]
    return Domain(tuple(sorted(values))), None in found


def _readable(expr: Expr) -> Expr:
    """Whether Python can hold a value: groups of days outside the years 1 to 9999 are not shown."""
    if not expr.type.temporal:
        return Literal(value=True, type=Type.BOOLEAN)
    kind = dt.date if expr.type is Type.DATE else dt.datetime
    first, last = (Literal(value=end, type=expr.type) for end in (kind.min, kind.max))
    return predicate("and", predicate(">=", expr, first), predicate("<=", expr, last))
