"""What a look has at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpsql.backends.reader import Reader
from dpsql.kernel.looks.elide import MostRows
from dpsql.kernel.noise.source import Source
from dpsql.plan.expr.nodes import Value
from dpsql.plan.node import Node, Printing, fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The reader of private rows, the source of noise, the secret of truncation, and which truncations change nothing."""

    reader: Reader
    noise: Source
    printing: Printing
    most_rows: MostRows

    def sql(self, plan: Node) -> str:
        """The plan as it is executed."""
        return fold(self.most_rows.elide(plan), lambda node, below: node.render(below, self.printing))


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
