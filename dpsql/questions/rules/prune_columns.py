"""Drop columns that nothing reads."""

from __future__ import annotations

from dpsql.backends.row_orders import tie_breaks
from dpsql.questions.rebuilding import updated
from dpsql.questions.rules.rule import rule
from dpsql.trusted.plan.expr.nodes import columns
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.groupby import GroupBy
from dpsql.trusted.plan.operators.join import Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.set_operation import SetOperation
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.trusted.plan.operators.truncate_keys import TruncateKeys
from dpsql.trusted.plan.operators.union import UnionAll
from dpsql.trusted.plan.operators.window import Window


@rule
def prune_columns(plan: Node) -> Node:
    """The same relation, reading only the columns that are needed. Owners are kept, as stability depends on them."""
    return _prune(plan, frozenset(field.id for field in plan.fields))


def _prune(node: Node, needed: frozenset[str]) -> Node:
    if not needed & node.env.keys():
        # Only the rows of a relation may be needed, but it must have a column; an outer join, one of the side that is kept.
        last = isinstance(node, Join) and node.keep_right and not node.keep_left
        needed = frozenset([node.fields[-1 if last else 0].id])
    match node:
        case Scan():
            keys: frozenset[str] = frozenset()
            if needed & node.env.keys() - set(node.owners):  # if only their owners are read, rows need no key
                keys = frozenset(name for key in node.table.unique for name in key) | frozenset(node.table.key)
            return updated(node, columns=tuple((column, name) for column, name in node.columns
                                               if column in needed or column in node.owners or name in keys))
        case Filter():
            return updated(node, input=_prune(node.input, needed | columns(node.condition)))
        case Project():
            kept = tuple(part for part in node.columns if part[0] in needed)
            below = frozenset(column for _, _, expr in kept for column in columns(expr))
            return updated(node, input=_prune(node.input, below), columns=kept)
        case Join():
            merged = tuple(made for made in node.merged if made.id in needed)
            below = needed | columns(node.condition) | {column for made in merged for column in (made.left, made.right)}
            others = {False: node.right, True: node.left}[node.keep_right]
            bare = node.keep_left is not node.keep_right and not needed & others.env.keys()
            return updated(node, left=_prune(node.left, below), right=_prune(node.right, below), merged=merged, bare=bare)
        case Lookup():
            tested = columns(node.condition) if node.condition is not None else frozenset()
            below = needed | tested | frozenset(column for expr, _ in node.keys for column in columns(expr))
            return updated(node, input=_prune(node.input, below),
                           listed=_prune(node.listed, tested | frozenset(column for _, column in node.keys)))
        case UnionAll():
            kept_at = [i for i, (column, _) in enumerate(node.columns) if column in needed]
            parts = tuple(_prune(part, frozenset(part.fields[i].id for i in kept_at)) for part in node.parts)
            if any([field.id for field in part.fields] != [old.fields[i].id for i in kept_at]
                   for part, old in zip(parts, node.parts, strict=True)):
                return node  # a part that cannot drop exactly the same columns keeps all
            return updated(node, parts=parts, columns=tuple(node.columns[i] for i in kept_at))
        case GroupBy():
            folds = tuple(part for part in node.folds if part.id in needed)
            below = frozenset(node.keys) | frozenset(part.column for part in folds if part.column is not None)
            return updated(node, input=_prune(node.input, below), folds=folds)
        case Truncate():
            return updated(node, input=_prune(node.input, needed | {node.owner, *node.order}))
        case TruncateKeys():
            ordered = {*node.order, *(term.column for term in node.first)}
            return updated(node, input=_prune(node.input, needed | {*node.keys, *ordered}))
        case Window():
            return _prune_window(node, needed)
        case Distinct():
            return updated(node, input=_prune(node.input, frozenset(node.env)))
        case SetOperation():
            return updated(node, left=_prune(node.left, frozenset(node.left.env)),
                           right=_prune(node.right, frozenset(node.right.env)))
        case _:
            return node


def _prune_window(node: Window, needed: frozenset[str]) -> Node:
    functions = tuple(part for part in node.functions if part.id in needed)
    read = needed & node.input.env.keys()
    if not functions:
        return _prune(node.input, read)
    kept = updated(node, functions=functions)
    below = _prune(node.input, read | kept.used | (frozenset(node.ties) if node.keyed else frozenset()))
    return updated(kept, input=below, ties=node.ties if node.keyed else tie_breaks(below, kept.told))
