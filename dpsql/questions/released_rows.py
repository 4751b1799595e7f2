"""Operators over released rows and public tables alone.

They are plain SQL: nothing is held on a grid, as nothing of it is measured. The kernel knows none of them, so no plan that has
one is ever read from private rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.frozen import replace
from dpsql.questions.all_aggregates import AGGREGATES
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.facts import Facts
from dpsql.trusted.plan.expr.functions import SAFE_INTEGERS
from dpsql.trusted.plan.expr.printing import quote
from dpsql.trusted.plan.node import Field
from dpsql.trusted.plan.operators.statistics import ExactAggregate, Statistics
from dpsql.trusted.plan.operators.window import Window, WindowFunction, over_facts
from dpsql.types import ANY_NUMBER, Interval, Type

NUMBERS = ("sum", "avg")
MOST_COUNTS = Interval(-(2**50), 2**50)  # of rows, and of entities with noise


class GroupsOfReleased(Statistics):
    """Aggregates of released rows, as a relation that other operators may stand on.

    Proof. What is released is public from then on: 0, as of every relation over public ones.
    """

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (*(self.input.field(key) for key in self.keys),
                *(Field(id=call.id, name=call.name, facts=self._facts(call)) for call in self.calls))

    def _facts(self, call: ExactAggregate) -> Facts:
        if AGGREGATES[call.function].place is not None:
            return replace(self.input.field(call.columns[0]).facts, nullable=True)
        ends = MOST_COUNTS if AGGREGATES[call.function].counts else SAFE_INTEGERS
        whole = call.type is Type.BIGINT
        return Facts(type=call.type, whole=whole, physical=ends if whole else ANY_NUMBER)


class WindowOverReleased(Window):
    """Window functions over released rows; sums and means of numbers are those of plain SQL, as are LAG and all others.

    Proof. As of `GroupsOfReleased`.
    """

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        env = self.input.env
        return (*self.input.fields, *(Field(id=part.id, name=part.name, facts=released_over(part, env, self.most_rows))
                                      for part in self.functions))

    def _printed(self, part: WindowFunction, order: list[str]) -> str:
        if not _of_numbers(part, self.input.env):
            return super()._printed(part, order)
        counted = super()._printed(replace(part, function="count"), order)  # over the same rows
        over = counted[counted.rindex(" OVER ("):]
        assert part.column is not None
        return f"{part.function.upper()}(t0.{quote(part.column)}){over}"


def released_over(part: WindowFunction, env: Mapping[str, Facts], most: int | None) -> Facts:
    """Facts about a window function over released rows. Raises InvalidPlan if it is not a valid one."""
    if not _of_numbers(part, env):
        return over_facts(part, env, most)
    part.check()
    return Facts(type=Type.DOUBLE)


def _of_numbers(part: WindowFunction, env: Mapping[str, Facts]) -> bool:
    """Whether a function adds up numbers that are not whole, which have no grid here."""
    return part.function in NUMBERS and part.column is not None and env[part.column].type is Type.DOUBLE
