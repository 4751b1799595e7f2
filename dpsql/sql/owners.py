"""Which equalities say that two rows belong to one entity.

The stability of a join or a lookup rests on an equality of owners that is printed. Where the text implies it, by a key that
names the entity or by a foreign key, it is added here; a mistake could change the meaning of a query, not its privacy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpsql.catalog.model import Catalog, ForeignKey
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

    Both columns name the entity of their row, or they make up a foreign key: its parent is unique, and child and parent hang
    on the same entity.
    """
    swapped = [(b, a) for a, b in pairs]
    return any(world.names_owner(a) and world.names_owner(b) for a, b in pairs) or any(
        _foreign_key(way, world.catalog) for way in (pairs, swapped))


def _foreign_key(pairs: Sequence[tuple[Origin, Origin]], catalog: Catalog) -> bool:
    """Whether equal (child, parent) columns cover a foreign key to a parent of which the database says it is unique."""
    for child, parent in pairs:
        table, target = catalog.table(child.table), catalog.table(parent.table)
        if table is None or target is None or table.owner is None or target.owner is None:
            continue
        for key in table.foreign_keys:
            if _covers(key, child.scan, parent.scan, pairs) and key.table == target.name and any(
                    unique <= set(key.references) for unique in target.unique):
                return True
    return False


def _covers(key: ForeignKey, child: int, parent: int, pairs: Sequence[tuple[Origin, Origin]]) -> bool:
    equal = {(a.column, b.column) for a, b in pairs if a.scan == child and b.scan == parent and b.table == key.table}
    return all(pair in equal for pair in zip(key.columns, key.references, strict=True))
