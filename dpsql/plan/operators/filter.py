"""WHERE."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from dpsql.plan.expr.facts import Facts
from dpsql.plan.expr.limits import Limit, limit_of
from dpsql.plan.expr.nodes import Call, Expr, Ref, conjuncts, predicate
from dpsql.plan.expr.printing import show, to_sql
from dpsql.plan.node import Field, Node, Printing, PublicFacts, Stability, columns_of, known, least
from dpsql.plan.operators.scan import Scan
from dpsql.types import Interval, Type

MOST_VALUES = 100  # more of them say little of an entity's rows, whose number is learned better
TRUE_OF_VALUES = ("is not null", "=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, kw_only=True)
class Filter(Node):
    """The rows on which a condition is true. Columns of which it is never true while they are NULL are not NULL here, and
    whole numbers that it compares with constants are within these: that is said of the rows (`Facts.kept`), and of no
    evaluation (`Facts.physical`), as an engine may work out what stands above a filter before it filters.

    Proof. Whether a row stays depends on that row alone, so at most as many rows change as below, they keep their owner, and
    a bound on the norm of what an entity contributes still holds for fewer rows. Of a whole number n that the condition leaves
    w values, rows that agree on a set of columns differ in n in at most w ways, so they are at most w times those that agree
    on n too: WHERE n <= 3 keeps 3 rows where n tells rows apart. An entity has at most as many rows as agree on its name.
    """

    input: Node
    condition: Expr

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        known(self.condition, self.input, kind=Type.BOOLEAN)
        there = {arg.column for part in conjuncts(self.condition) if isinstance(part, Call) and part.function in TRUE_OF_VALUES
                 for arg in part.args if isinstance(arg, Ref)} | {
                     part.column for part in conjuncts(self.condition) if isinstance(part, Ref)}
        return tuple(replace(field, facts=_compared(field.id, replace(field.facts, nullable=False), self.condition))
                     if field.id in there else field for field in self.input.fields)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def caps(self) -> Mapping[frozenset[str], int]:
        found = dict(self.input.caps)
        for column, ways in self._values.items():
            found = least(found, {agreed - {column}: rows * ways for agreed, rows in found.items() if column in agreed})
        return found

    @property
    def _values(self) -> Mapping[str, int]:
        """How many values the condition leaves of the whole numbers that it limits, where these are few."""
        sizes = {limit.column: self.env[limit.column].returned for limit in _limits(self.condition)}
        return {column: int(ends.high - ends.low) + 1 for column, ends in sizes.items() if ends.high - ends.low < MOST_VALUES}

    def stability(self, below: tuple[Stability, ...], public: PublicFacts) -> Stability:
        most = self.cap([below[0].owner]) if below[0].owner is not None else None
        if most is not None and not below[0].public and (below[0].rows is None or most < below[0].rows):
            return replace(below[0], rows=most, because=f"{most} row{'s' if most > 1 else ''} of each entity are left")
        return replace(below[0], because="a filter looks at one row at a time")

    def render(self, below: tuple[str, ...], printing: Printing) -> str:
        if isinstance(self.input, Scan):  # an engine compares columns faster where it sees that they are columns
            return self.input.rows_where(self.condition)
        return f"SELECT * FROM ({below[0]}) AS t0 WHERE {to_sql(self.condition, columns_of('t0', self.input))}"

    def label(self) -> str:
        return f"Filter {show(self.condition, self.input.names)}"


def without_null(node: Node, columns: Iterable[str]) -> Node:
    """The rows in which none of some columns is NULL: those that can meet others by `=`."""
    for column in dict.fromkeys(columns):
        node = Filter(input=node, condition=predicate("is not null", node.field(column).ref))
    return node


def _limits(condition: Expr) -> list[Limit]:
    return [limit for limit in map(limit_of, conjuncts(condition)) if limit is not None]


def _compared(column: str, known: Facts, condition: Expr) -> Facts:
    """What is known of a whole number where the condition is true; as before where it can never be."""
    limits = [limit for limit in _limits(condition) if limit.column == column]
    low = max((limit.low for limit in limits if limit.low is not None), default=-math.inf)
    high = min((limit.high for limit in limits if limit.high is not None), default=math.inf)
    if low > high:
        return known
    return replace(known, kept=known.returned.within(Interval(low, high)), declared=known.declared.within(Interval(low, high)))
