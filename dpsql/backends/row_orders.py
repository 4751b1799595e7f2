"""Choose columns that order rows, so that every reading orders them alike."""

from __future__ import annotations

from collections.abc import Collection

from dpsql.trusted.plan.node import Node
from dpsql.types import Type


def tie_breaks(node: Node, told: Collection[str]) -> tuple[str, ...]:
    """Columns that, together with those already `told`, determine the order of all rows: the rest of the smallest key, or all
    columns.

    Rows that still tie are equal in every column.
    """
    keys = sorted((sorted(key - set(told)) for key in node.unique), key=len)
    if keys:
        return tuple(keys[0])
    return tuple(field.id for field in node.fields if field.id not in told or field.facts.type is Type.DOUBLE)


def row_order(node: Node, owner: str) -> tuple[str, ...]:
    """Columns that identify a row among the rows of one owner: the smallest key that the database guarantees, with its columns in
    the order of their names, so that all statements keep the same rows; or else all columns."""
    keys = [sorted((node.names[column], column) for column in key - {owner}) for key in node.unique]
    first = min(keys, key=lambda key: (len(key), key), default=[])
    if first:
        return tuple(column for _, column in first)
    return tuple(field.id for field in node.fields if field.id != owner or field.facts.type is Type.DOUBLE)
