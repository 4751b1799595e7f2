"""Foreign keys: the graph from each table to the tables that its rows depend on, and the columns that tie rows to entities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from dpsql.catalog.model import Policy
from dpsql.trusted.declarations.tables import ForeignKey


class Circle(ValueError):
    """Foreign keys form a cycle; `tables` has its tables, with the first one repeated at the end."""

    def __init__(self, tables: list[str]) -> None:
        super().__init__("foreign keys form a cycle")
        self.tables = tables


def parents_first(keys: Mapping[str, Iterable[ForeignKey]]) -> list[str]:
    """The tables, each after all the tables that its rows depend on. Raises Circle if foreign keys form a cycle."""
    try:
        below = {name: dict.fromkeys(key.table for key in found) for name, found in keys.items()}
        return [*TopologicalSorter(below).static_order()]
    except CycleError as fault:
        raise Circle([*reversed(fault.args[1])]) from None


def above(keys: Mapping[str, Iterable[ForeignKey]], name: str) -> set[str]:
    """A table and all tables that its rows depend on, directly or indirectly."""
    found, new = set[str](), [name]
    while new:
        table = new.pop()
        if table not in found:
            found.add(table)
            new += [key.table for key in keys.get(table, ())]
    return found


def tying_columns(policy: Policy) -> dict[str, dict[str, frozenset[tuple[str, str]]]]:
    """By private table, the columns that link its rows to entities. Each has the columns, as (table, column), that foreign keys
    compare it with: the keys of entities, and both ends of foreign keys between private tables."""
    found: dict[str, dict[str, set[tuple[str, str]]]] = {name: {} for name, table in policy.tables.items() if not table.public}
    for entity in policy.entities.values():
        found[entity.table].setdefault(entity.key, set())
    for name in found:
        for key in policy.tables[name].foreign_keys:
            for child, parent in zip(key.columns, key.references, strict=True) if key.table in found else ():
                found[name].setdefault(child, set()).add((key.table, parent))
                found[key.table].setdefault(parent, set()).add((name, child))
    return {name: {column: frozenset(others) for column, others in columns.items()} for name, columns in found.items()}
