"""A rewrite rule: a function from a plan to one with the same columns, whose rows are found, kept or limited differently.

Rules are not trusted: whatever they make of a plan, stability is derived from the plan that is executed, by the operators and
a second time by the kernel's checker. The check here keeps a mistake in a rule from silently spoiling an answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from dpsql.trusted.plan.node import InvalidPlan, Node, bottom_up

P = ParamSpec("P")


def rule_about(*operators: type[Node]) -> Callable[[Callable[Concatenate[Node, P], Node]], Callable[Concatenate[Node, P], Node]]:
    """A decorator for rewrites of plans that contain one of these operators, or of all plans if none is named. Other plans are
    returned unchanged.

    The result is checked each time: it must have every column of the plan, with the same type. Raises InvalidPlan otherwise.
    """
    def checked_rule(rewrite: Callable[Concatenate[Node, P], Node]) -> Callable[Concatenate[Node, P], Node]:
        @functools.wraps(rewrite)
        def checked(plan: Node, /, *args: P.args, **options: P.kwargs) -> Node:
            if operators and not any(isinstance(node, operators) for node in bottom_up(plan)):
                return plan
            after = rewrite(plan, *args, **options)
            if after is not plan and not _shown(plan) <= _shown(after):
                raise InvalidPlan(f"the rule {rewrite.__name__} lost a column of a plan")
            return after

        return checked

    return checked_rule


def rule(rewrite: Callable[Concatenate[Node, P], Node]) -> Callable[Concatenate[Node, P], Node]:
    """A rewrite of any plan; see `rule_about`."""
    return rule_about()(rewrite)


def _shown(plan: Node) -> set[tuple[str, object]]:
    return {(field.id, field.facts.type) for field in plan.fields}
