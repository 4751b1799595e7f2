"""Which equalities say that two rows belong to one entity.

The stability of a join or a lookup rests on an equality of owners that is printed. Where the text implies it, by a key that
names the entity or by a foreign key, it is added here; a mistake could change the meaning of a query, not its privacy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dpsql.catalog.model import Catalog, ForeignKey, Table
from dpsql.plan.expr.nodes import Call, Ref
from dpsql.plan.operators.join import Join
from dpsql.plan.rules.push_equalities import all_of
from dpsql.sql.scope import Origin
from dpsql.sql.world import World
from dpsql.types import Type


def say_owners(join: Join, origins: Mapping[str, Origin], world: World) -> Join:
    """The join with the equality of the owners in its condition, where the other equalities there imply it."""
    pairs = [(origins[a], origins[b]) for a, b in join.equated if a in origins and b in origins]
    if not same_owner(pairs, world):
        return join
    owners = world.owners(join.left), world.owners(join.right)
    if len(owners[0]) != 1 or len(owners[1]) != 1 or (owners[0][0], owners[1][0]) in join.equated:
        return join
    (ours,), (theirs,) = owners
    kinds = join.left.env[ours].type, join.right.env[theirs].type
    equal = Call(function="=", type=Type.BOOLEAN, args=(Ref(column=ours, type=kinds[0]), Ref(column=theirs, type=kinds[1])))
    condition = all_of([join.condition, equal]) if kinds[0] is kinds[1] else None
    return join if condition is None else replace(join, condition=condition)


def same_owner(pairs: Sequence[tuple[Origin, Origin]], world: World) -> bool:
    """Whether rows that agree on these pairs of columns belong to one entity.

    Both columns name the entity of their row; or they make up a foreign key, and child and parent hang on the same entity; or
    they make up foreign keys to one parent.
    """
    if any(world.names_owner(a) and world.names_owner(b) for a, b in pairs):
        return True
    return any(_parent_of(left, world.catalog) & _parent_of(right, world.catalog) for left, right in _readings(pairs))


def parent_keys(table: Table, catalog: Catalog) -> Iterator[tuple[ForeignKey, Table]]:
    """The foreign keys of a table to a parent that has one owner, and that they name uniquely."""
    for key in table.foreign_keys:
        target = catalog.table(key.table)
        if target is not None and target.owner is not None and any(unique <= set(key.references) for unique in target.unique):
            yield key, target


Rows = tuple[str, dict[str, int]]  # a table, and for some of its columns the number of the pair that each is in


def _readings(pairs: Sequence[tuple[Origin, Origin]]) -> Iterator[tuple[Rows, Rows]]:
    """The pairs by the two readings of tables that they link."""
    linked: dict[tuple[int, int], tuple[Rows, Rows]] = {}
    for i, (a, b) in enumerate(pairs):
        left, right = linked.setdefault((a.scan, b.scan), ((a.table, {}), (b.table, {})))
        left[1][a.column] = i
        right[1][b.column] = i
    yield from linked.values()


def _parent_of(rows: Rows, catalog: Catalog) -> set[tuple[str, frozenset[tuple[str, int]]]]:
    """The rows that are named by columns that are in pairs: the row itself, by a key, and parents, by foreign keys."""
    name, linked = rows
    table = catalog.table(name)
    if table is None or table.owner is None:
        return set()
    found = {(table.name, frozenset((column, linked[column]) for column in unique))
             for unique in table.unique if unique <= set(linked)}
    for key, target in parent_keys(table, catalog):
        if set(key.columns) <= set(linked):
            numbers = {there: linked[here] for here, there in zip(key.columns, key.references, strict=True)}
            found |= {(target.name, frozenset((column, numbers[column]) for column in unique))
                      for unique in target.unique if unique <= set(numbers)}
    return found
