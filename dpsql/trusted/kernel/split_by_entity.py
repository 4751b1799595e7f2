"""Whether a relation may be read in buckets of entities, derived a second time from the checker's facts."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.kernel import shapes
from dpsql.trusted.kernel.checker import Known
from dpsql.trusted.kernel.shapes import inputs


def split_by_entity(node: shapes.Node, found: Mapping[int, Known]) -> bool:
    """Whether the rows of a private relation over all entities are those that it has over disjoint sets of entities, put
    together. Over a set, the tables contain the rows of its entities only (each row has one owner), and all public rows.
    `found` is what `checker.known` derived about this relation and those below it.

    This is so if the relation has one owner, which is never NULL: remove the entities outside of a set one by one; the rows that
    are left are the relation's rows over the set, and they are the rows that name an entity of the set. Without an owner, it is
    so if each row is made of one private row and otherwise of public rows only.
    """
    below = inputs(node)
    if found[id(node)].public or not all(found[id(part)].public or split_by_entity(part, found) for part in below):
        return False
    public = [found[id(part)].public for part in below]
    if isinstance(node, shapes.Join):
        alone = any(public) and not (node.keep_left if public[0] else node.keep_right)
    elif isinstance(node, shapes.Lookup):
        alone = public[1]
    else:
        alone = isinstance(node, shapes.Filter | shapes.Project | shapes.UnionAll) and not any(public)
    return alone or len(found[id(node)].owners) == 1
