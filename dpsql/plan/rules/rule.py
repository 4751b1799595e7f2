"""What a rewrite rule is: from one plan to another that shows its columns, with rows found, kept or limited in another way.

Rules are not trusted: whatever they make of a plan, stability is derived from the plan that is executed, by the operators and
a second time by the kernel's checker. What is checked here keeps a mistake from spoiling an answer without a word.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from dpsql.plan.node import InvalidPlan, Node

P = ParamSpec("P")


def rule(rewrite: Callable[Concatenate[Node, P], Node]) -> Callable[Concatenate[Node, P], Node]:
    """A rewrite whose result is checked each time: it shows every column that was shown, of the same type.

    Raises InvalidPlan where it does not.
    """

    @functools.wraps(rewrite)
    def checked(plan: Node, /, *args: P.args, **options: P.kwargs) -> Node:
        after = rewrite(plan, *args, **options)
        if after is not plan and not _shown(plan) <= _shown(after):
            raise InvalidPlan(f"the rule {rewrite.__name__} lost a column of a plan")
        return after

    return checked


def _shown(plan: Node) -> set[tuple[str, object]]:
    return {(field.id, field.facts.type) for field in plan.fields}
