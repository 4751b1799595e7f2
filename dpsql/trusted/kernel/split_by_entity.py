"""Whether a relation may be read in buckets of entities, derived a second time from the checker's facts."""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.trusted.kernel import shapes
from dpsql.trusted.kernel.checker import Known
from dpsql.trusted.kernel.shapes import inputs


def split_by_entity(node: shapes.Node, found: Mapping[int, Known]) -> bool:
    """Whether a private relation has over all entities the rows that it has over disjoint sets of them, put together: over each
    set with its own rows, in tables whose rows have one owner each, and all public rows. `found` is what `checker.known`
    derived of it and of those below.

    With one owner, which is never NULL: take away, one by one, the entities outside of a set; what is left are the relation's
    rows over the set, and those that name an entity of it. Without: where each row is made of one private row and of public
    ones alone.
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
