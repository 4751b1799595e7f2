"""What a rewrite rule is: from one plan to another that shows its columns, with rows found, kept or limited in another way.

Rules are not trusted: whatever they make of a plan, stability is derived from the plan that is executed, by the operators and
a second time by the kernel's checker. What is checked here keeps a mistake from spoiling an answer without a word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from dpsql.plan.node import InvalidPlan, Node, bottom_up

P = ParamSpec("P")


def rule_about(*operators: type[Node]) -> Callable[[Callable[Concatenate[Node, P], Node]], Callable[Concatenate[Node, P], Node]]:
    """A rewrite of plans that have one of these operators, or of any plan where none is named; it leaves others as they are.

    Its result is checked each time: it shows every column that was shown, of the same type. Raises InvalidPlan where it does not.
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
