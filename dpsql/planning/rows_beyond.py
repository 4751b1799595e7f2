"""How the rows of a view would change if nothing were left out by the limits on rows that it contains.

The rows of a limited table are some of the rows of the whole one. Above it, an operator may keep this (a filter, an inner join),
or may show other rows or values where rows are missing below: a group's sum, the row before this one, the rows that have no
partner. A limit leaves out nothing if the database or the declared key allows no more rows, or if the policy says that its
limits hold (`limits_hold`).
"""

from __future__ import annotations

import enum

from dpsql.frozen import Frozen
from dpsql.questions.rules.limit_in_periods import is_in_periods
from dpsql.trusted.plan.expr.nodes import Expr, Ref, columns
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window

NONE = frozenset[str]()


class RowsLeft(enum.IntEnum):
    """What the rows of a relation are, beside those without limits."""

    ALL, SOME, OTHER = range(3)


class Missing(Frozen):
    """What limits do to a relation: to its rows, apart from the values in the columns `moved`, which may differ. All values of a
    column in `reached` are in some row that is left."""

    rows: RowsLeft = RowsLeft.ALL
    moved: frozenset[str] = NONE
    reached: frozenset[str] = NONE

    @property
    def nothing(self) -> bool:
        return self.rows is RowsLeft.ALL and not self.moved

    def used_by(self, *used: Expr) -> bool:
        """Whether one of these expressions may have another value."""
        return any(columns(expr) & self.moved for expr in used)


def missing(node: Node) -> Missing:
    """What the limits in a view do to its rows."""
    below = [missing(one) for one in node.inputs]
    if isinstance(node, Scan):
        return Missing(rows=RowsLeft.SOME) if _of_several(node) else Missing(reached=_columns(node))
    if isinstance(node, Truncate | TruncateKeys) and leaves_out(node):
        return _limited(below[0], frozenset([node.owner] if isinstance(node, Truncate) else node.keys))
    if all(one.nothing for one in below):
        return Missing(reached=_columns(node))
    match node:
        case Truncate() | TruncateKeys(first=()):
            return below[0]
        case Filter():
            return _filtered(node, below[0])
        case Project():
            return _projected(node, below[0])
        case Join():
            return _joined(node, below[0], below[1])
        case Lookup(keep=True):
            return _looked_up(node, below[0], below[1])
        case GroupBy():
            return _grouped(node, below[0])
        case Distinct() if not below[0].moved:
            return below[0]
        case Window():
            return Missing(rows=below[0].rows, moved=below[0].moved | (_columns(node) - _columns(node.input)),
                           reached=below[0].reached)
        case UnionAll():
            return _united(node, below)
    return Missing(rows=RowsLeft.OTHER, moved=_columns(node))


def leaves_out(node: Truncate | TruncateKeys) -> bool:
    """Whether a limit may leave out rows, as far as the policy says. The first rows that a statement asks for are no limit."""
    return not (_holds(node) if isinstance(node, Truncate) else node.first or _keys_hold(node))


def _columns(node: Node) -> frozenset[str]:
    return frozenset(field.id for field in node.fields)


def _of_several(scan: Scan) -> bool:
    """Whether a declared limit, on rows that belong to several entities each, may lower what they add."""
    return not scan.table.public and scan.owner is None and scan.table.rows is not None and not scan.table.limits_hold


def _holds(node: Truncate) -> bool:
    """Whether the policy, or a declared key, or a limit below, says that no entity has more rows than are kept."""
    below, owner = node.input, node.owner
    while isinstance(below, Project | Filter):
        made = next((expr for column, _, expr in below.columns if column == owner), None) if isinstance(below, Project) else None
        owner, below = made.column if isinstance(made, Ref) else owner, below.input
    if isinstance(below, Truncate):
        return below.owner == owner and below.rows <= node.rows
    if not isinstance(node.input, Scan):
        return False
    table = node.input.table
    keyed = len(table.owners) == 1 and not table.owners[0].steps and table.key == (table.owners[0].column,)
    return keyed or (table.limits_hold and table.rows is not None and node.rows >= table.rows)


def _keys_hold(node: TruncateKeys) -> bool:
    """The same for a limit on rows of each value: it holds where it is the declared one of a table as it is."""
    if (scan := is_in_periods(node)) is not None:
        growth = scan.table.growth
        return scan.table.limits_hold and growth is not None and growth.rows is not None and node.rows >= growth.rows
    if not isinstance(node.input, Scan) or len(node.keys) != 1:
        return False
    table, name = node.input.table, node.input.names[node.keys[0]]
    return table.limits_hold and node.rows >= table.rows_per_value.get(name, node.rows + 1)


def _limited(below: Missing, reached: frozenset[str]) -> Missing:
    return Missing(rows=max(below.rows, RowsLeft.SOME), moved=below.moved, reached=below.reached & reached)


def _filtered(node: Filter, below: Missing) -> Missing:
    rows = RowsLeft.OTHER if below.used_by(node.condition) else below.rows
    return Missing(rows=rows, moved=below.moved, reached=below.reached if rows is RowsLeft.ALL else NONE)


def _projected(node: Project, below: Missing) -> Missing:
    return Missing(rows=below.rows, moved=frozenset(column for column, _, expr in node.columns if below.used_by(expr)),
                   reached=frozenset(column for column, _, expr in node.columns
                                     if isinstance(expr, Ref) and expr.column in below.reached))


def _joined(node: Join, left: Missing, right: Missing) -> Missing:
    moved = left.moved | right.moved
    if columns(node.condition) & moved or (node.keep_left and node.keep_right):
        return Missing(rows=RowsLeft.OTHER, moved=_columns(node))
    rows = max(left.rows, right.rows)
    for kept, side, other in ((node.keep_left, node.right, right), (node.keep_right, node.left, left)):
        if kept and not other.nothing:  # a row that has lost its partners stays, with NULL in their columns
            moved |= _columns(side)
    return Missing(rows=rows, moved=moved)


def _looked_up(node: Lookup, below: Missing, listed: Missing) -> Missing:
    """Rows that agree with a listed one: fewer where listed ones are missing, unless all names that they list are there."""
    keys = frozenset(column for _, column in node.keys)
    if below.used_by(*(expr for expr, _ in node.keys)) or keys & listed.moved or node.condition is not None:
        return Missing(rows=RowsLeft.OTHER, moved=_columns(node))
    all_listed = listed.rows is not RowsLeft.OTHER and len(keys) == 1 and keys <= listed.reached
    rows = max(below.rows, RowsLeft.ALL if all_listed else listed.rows)
    return Missing(rows=rows, moved=below.moved, reached=below.reached if all_listed or rows is RowsLeft.ALL else NONE)


def _grouped(node: GroupBy, below: Missing) -> Missing:
    keys = frozenset(node.keys)
    folds = frozenset(fold.id for fold in node.folds)
    if keys & below.moved:
        return Missing(rows=RowsLeft.OTHER, moved=keys | folds)
    whole = below.rows is RowsLeft.ALL or (len(keys) <= 1 and keys <= below.reached)
    return Missing(rows=RowsLeft.ALL if whole else below.rows, moved=folds, reached=keys & below.reached)


def _united(node: UnionAll, below: list[Missing]) -> Missing:
    moved = frozenset(column for place, (column, _) in enumerate(node.columns)
                      if any(part.fields[place].id in one.moved for part, one in zip(node.parts, below, strict=True)))
    return Missing(rows=max(one.rows for one in below), moved=moved)
