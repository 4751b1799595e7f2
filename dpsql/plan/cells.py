"""Keys of groups: the public list of cells of an answer, and their canonical order."""

from __future__ import annotations

from typing import Any, TypeAlias

from dpsql.plan.expr.nodes import Value

Cells: TypeAlias = tuple[tuple[Value, ...], ...]
"""The public list of key values of an answer, in order; one empty key where there is no GROUP BY. What GROUPING says of a group
follows its key."""


def cell_of(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key as it is looked up among the listed cells: NaN stands for itself."""
    return tuple("NaN" if isinstance(part, float) and part != part else part for part in key)


def sort_key(key: tuple[Value, ...]) -> tuple[tuple[int, Any], ...]:
    """Canonical order of keys: by value, NaN after numbers, NULL last."""
    parts: list[tuple[int, Any]] = []
    for part in key:
        if part is None:
            parts.append((2, 0))
        elif isinstance(part, float) and part != part:
            parts.append((1, 0))
        else:
            parts.append((0, part))
    return tuple(parts)
