"""Enforce limits on the rows of each entity: those that the policy declares, and those of a statement."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.backends.row_orders import row_order
from dpsql.frozen import replace
from dpsql.questions.rebuilding import rebuild
from dpsql.questions.rules.rule import rule
from dpsql.trusted.plan.expr.nodes import Ref, columns, conjuncts
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate


@rule
def limit_rows(plan: Node, most: Callable[[Scan], int | None] = lambda scan: None) -> Node:
    """Put a truncation above every scan of a private table with a declared limit, or for which `most` returns one.

    A declared limit is never trusted: rows beyond it are dropped before anything else is done with the table. (No truncation is
    needed where the database itself guarantees one row for each entity. Where the kernel has counted that no entity has more,
    the truncation is not executed.)
    """

    limited = {id(node): kept for node in bottom_up(plan) if (kept := _limited(node, most)) is not None}
    return rebuild(plan, lambda node: limited.get(id(node), node)) if limited else plan


def _limited(node: Node, most: Callable[[Scan], int | None]) -> Node | None:
    """What replaces the scan of a table with a limit; None for other nodes."""
    if not isinstance(node, Scan) or node.owner is None:
        return None
    by_period, further = _in_periods(node, node.owner), most(node)
    if node.one_row:
        return by_period
    limits = [limit for limit in (None if by_period is not None else node.table.rows, further) if limit is not None]
    if not limits:
        return by_period
    return Truncate(input=by_period or node, rows=min(limits), owner=node.owner, order=row_order(node, node.owner))


def _in_periods(scan: Scan, owner: str) -> Node | None:
    """A growing table with a limit on the rows in each period; None for other tables."""
    if scan.periods is None:
        return None
    from dpsql.questions.rules.limit_in_periods import limited_in_periods  # loaded only where tables grow

    return limited_in_periods(scan, owner)


def below_projections(view: Node, owner: str) -> tuple[Node, str]:
    """The relation of whose rows a view's projections compute columns, and the column of it that names the entity."""
    while isinstance(view, Project):
        inner = next(expr for column, _, expr in view.columns if column == owner)
        if not isinstance(inner, Ref):
            break
        view, owner = view.input, inner.column
    return view, owner


@rule
def keep_rows(view: Node, rows: int, owner: str) -> Node:
    """The view with at most `rows` rows of each entity.

    The truncation is pushed down as far as the same rows are kept: below computed columns, where the table's key still orders the
    rows; and below joins and filters that either all rows of an entity pass or none. (Limiting a table takes much less time than
    limiting a join, and none where the kernel has counted that nobody has more rows.)
    """
    match view:
        case Project():
            inner = next(expr for column, _, expr in view.columns if column == owner)
            if isinstance(inner, Ref):
                return replace(view, input=keep_rows(view.input, rows, inner.column))
        case Filter() if columns(view.condition) <= alike(view.input, owner):
            return replace(view, input=keep_rows(view.input, rows, owner))
        case Join() if (below := _looking_up(view, owner)) is not None:
            side, column = below
            limited = keep_rows(getattr(view, side), rows, column)
            return replace(view, left=limited) if side == "left" else replace(view, right=limited)
    return Truncate(input=view, rows=rows, owner=owner, order=row_order(view, owner))


def alike(node: Node, owner: str) -> frozenset[str]:
    """Columns on which all rows of an entity agree, as far as the plan implies this."""
    if node.max_frequency([owner]) == 1:
        return frozenset(field.id for field in node.fields)
    if isinstance(node, Filter):
        return alike(node.input, owner)
    if isinstance(node, Join) and (below := _looking_up(node, owner)) is not None:
        side, column = below
        other = node.right if side == "left" else node.left
        return alike(getattr(node, side), column) | frozenset(field.id for field in other.fields)
    return frozenset([owner])


def _looking_up(join: Join, owner: str) -> tuple[str, str] | None:
    """The side of a join whose rows match at most one row of the other side each, the same one for all rows of an entity; and the
    column of that side that names the entity. None if there is no such side."""
    if join.merged or join.bare or len(conjuncts(join.condition)) != len(join.equated):
        return None
    for place, (name, side, other, other_kept) in enumerate((("left", join.left, join.right, join.keep_right),
                                                             ("right", join.right, join.left, join.keep_left))):
        mine, theirs = ([pair[at] for pair in join.equated] for at in (place, 1 - place))
        column = owner if owner in side.env else dict(zip(theirs, mine, strict=True)).get(owner)
        own = owner in side.env or not (join.keep_left or join.keep_right)  # a padded row names nobody
        if column is not None and own and not other_kept and other.max_frequency(theirs) == 1 and set(mine) <= alike(side,
                                                                                                                     column):
            return name, column
    return None
