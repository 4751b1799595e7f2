"""The most rows that name one entity, where rows belong to several entities each, as declared in the policy.

Levels are set to it. Levels are enforced, so that privacy does not depend on the declaration: an owner who declares too few
loses rows, as with every limit.
"""

from __future__ import annotations

from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.union import UnionAll


def declared_rows(view: Node) -> int | None:
    """The most rows that name one entity, from `rows_per_entity` of the table that the rows come from; None if it is not
    declared, or if the joins make it unknown."""
    match view:
        case Scan():
            return view.table.rows
        case Filter() | Project():
            return declared_rows(view.input)
        case UnionAll():
            parts = [declared_rows(part) for part in view.inputs]
            return sum(part for part in parts if part is not None) if None not in parts else None
        case Join():
            return _of_join(view)
    return None


def _of_join(join: Join) -> int | None:
    """That of the side whose rows match at most one row of the other each."""
    left, right = ([pair[at] for pair in join.equated] for at in (0, 1))
    if join.right.max_frequency(right) == 1 and not join.keep_right:
        return declared_rows(join.left)
    if join.left.max_frequency(left) == 1 and not join.keep_left:
        return declared_rows(join.right)
    return None
