"""Keys of groups: the public list of cells of an answer, and their canonical order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

from dpsql.plan.expr.nodes import Value
from dpsql.plan.question import Question

Cells: TypeAlias = tuple[tuple[Value, ...], ...]
"""The public list of key values of an answer, in order; one empty key where there is no GROUP BY. What GROUPING says of a group
follows its key."""


def cells_over(values: Sequence[Sequence[Value]], question: Question) -> Cells:
    """All combinations of values of the keys of a question; for each of its grouping sets in turn, if it has some."""
    found: list[tuple[Value, ...]] = []
    for kept in kept_keys(question):
        level = levels_of(question, kept)
        found += [(*key, *level) for key in product(*(own if i in kept else (None,) for i, own in enumerate(values)))]
    return tuple(found)


def kept_keys(question: Question) -> tuple[tuple[int, ...], ...]:
    """The grouping sets, as positions of the keys that are not summed out."""
    return (tuple(range(len(question.keys))),) if question.sets is None else question.sets


def levels_of(question: Question, kept: Sequence[int]) -> tuple[int, ...]:
    """What GROUPING says in one grouping set."""
    here = {question.keys[i].column for i in kept}
    return tuple(sum((key not in here) << i for i, key in enumerate(reversed(level.keys))) for level in question.levels)


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
