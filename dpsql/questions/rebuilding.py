"""Make trees of operators from others: what rules and binding do, before anything is trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpsql.frozen import field_names, replace
from dpsql.trusted.plan.node import Node

Kind = TypeVar("Kind", bound=Node)


def updated(node: Kind, **changes: object) -> Kind:
    """The node with new values in some fields; the same object, with its cached results, if nothing differs."""
    old = {name: getattr(node, name) for name in changes}
    same = all(new is old[name] or (not isinstance(new, Node) and new == old[name]) for name, new in changes.items())
    return node if same else replace(node, **changes)


def rebuild(plan: Node, change: Callable[[Node], Node]) -> Node:
    """The same tree with `change` applied to every node, inputs first. Unchanged parts stay the same objects."""
    updates: dict[str, object] = {}
    for name in field_names(type(plan)):
        value = getattr(plan, name)
        if isinstance(value, Node):
            if (made := rebuild(value, change)) is not value:
                updates[name] = made
        elif isinstance(value, tuple) and value and all(isinstance(part, Node) for part in value):
            parts = tuple(rebuild(part, change) for part in value)
            if any(new is not old for new, old in zip(parts, value, strict=True)):
                updates[name] = parts
    return change(replace(plan, **updates) if updates else plan)
