"""Which columns of a view name one entity each, so that GROUP BY of them makes a group for every entity.

Such groups are never shown, as no noise could hide who is in them; a statement that asks for them is refused before it is
charged. Nothing of privacy depends on this: columns that are not found here cost an analyst the price of an empty answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from dpsql.trusted.plan.expr.nodes import Call, Ref, conjuncts
from dpsql.trusted.plan.node import Node, bottom_up
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.union import UnionAll


def names_one_entity(view: Node, columns: Iterable[str]) -> bool:
    """Whether all rows that agree on `columns`, none of them NULL, belong to the same entity.

    They do if the columns contain a key of a private table of which each row has one owner, the owner itself, or the foreign key
    that leads to it; or columns that the statement equates with these.
    """
    if any(isinstance(node, UnionAll | SetOperation) for node in bottom_up(view)):
        return False  # what is equal in one part need not be in another
    named = _with_equal(set(columns), list(_equalities(view)))
    return any(key <= named for scan in _never_padded(view) for key in _keys_of(scan))


def _never_padded(view: Node) -> Iterator[Scan]:
    """The tables that are read, without those whose columns are NULL where a row has no partner: such rows are one group."""
    if isinstance(view, Scan):
        yield view
    elif isinstance(view, Join):
        yield from () if view.keep_right else _never_padded(view.left)
        yield from () if view.keep_left else _never_padded(view.right)
    else:
        for below in view.inputs:
            yield from _never_padded(below)


def _keys_of(scan: Scan) -> list[set[str]]:
    """Sets of columns of a table that each determine the entity of a row."""
    table = scan.table
    if table.owner is None or scan.owner is None:
        return []
    ids = {name: column for column, name in scan.columns}
    keys = [*table.unique, frozenset(table.key), *(frozenset(step.columns) for step in table.owner.steps[:1])]
    return [{scan.owner}, *({ids[name] for name in key} for key in keys if key and key <= ids.keys())]


def _equalities(view: Node) -> Iterator[tuple[str, str]]:
    """Pairs of columns that are equal in every row of the view: renamed, or equated."""
    for node in bottom_up(view):
        match node:
            case Project():
                yield from ((column, made.column) for column, _, made in node.columns if isinstance(made, Ref))
            case Join() if not node.keep_left and not node.keep_right:
                yield from node.equated
            case Filter():
                for part in conjuncts(node.condition):
                    if isinstance(part, Call) and part.function == "=":
                        yield from pairwise(arg.column for arg in part.args if isinstance(arg, Ref))


def _with_equal(columns: set[str], equalities: Sequence[tuple[str, str]]) -> set[str]:
    """The columns, and all that are equal to one of them."""
    more = {column for pair in equalities if not columns.isdisjoint(pair) for column in pair} - columns
    return _with_equal(columns | more, equalities) if more else columns
