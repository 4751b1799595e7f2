"""Expressions in join keys become columns, so that the number of rows that agree on them can be limited."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from dpsql.frozen import replace
from dpsql.questions.shown_expressions import show
from dpsql.trusted.plan.expr.nodes import Call, Expr, Ref, all_of, columns, conjuncts
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.join import EQUALITIES, Join
from dpsql.trusted.plan.operators.lookup import Lookup
from dpsql.trusted.plan.operators.project import Project

Name = Callable[[Node, Expr], tuple[Node, Ref]]


def name_keys(node: Join | Lookup) -> Join | Lookup:
    """The operator, with each equated expression turned into a column of its inputs: ON lower(a.x) = b.y joins on a column of
    a.

    The result has these columns too, after those of their side.
    """
    taken = {column.lower() for side in node.inputs for column in side.env}
    taken |= {node.mark.lower()} if isinstance(node, Lookup) else {made.id for made in node.merged}
    fresh = (name for name in (f"k{i}" for i in itertools.count()) if name not in taken)

    def name(side: Node, expr: Expr) -> tuple[Node, Ref]:
        if isinstance(expr, Ref):
            return side, expr
        kept = tuple((field.id, field.name, field.ref) for field in side.fields)
        named = Project(input=side, columns=(*kept, (next(fresh), show(expr, side.names), expr)))
        return named, named.fields[-1].ref

    return _join(node, name) if isinstance(node, Join) else _lookup(node, name)


def _join(node: Join, name: Name) -> Join:
    left, right, parts = node.left, node.right, []
    for part in conjuncts(node.condition):
        sides = _sides(part, node)
        if sides is not None and isinstance(part, Call):
            left, ours = name(left, sides[0])
            right, theirs = name(right, sides[1])
            part = replace(part, args=(ours, theirs))
        parts.append(part)
    condition = all_of(parts)
    assert condition is not None
    return replace(node, left=left, right=right, condition=condition)


def _sides(part: Expr, node: Join) -> tuple[Expr, Expr] | None:
    """The two sides of an equality between an expression of the left input and one of the right input; None for other
    conditions."""
    if isinstance(part, Call) and part.function in EQUALITIES:
        for ours, theirs in (part.args, part.args[::-1]):
            reads = columns(ours), columns(theirs)
            if all(reads) and reads[0] <= set(node.left.env) and reads[1] <= set(node.right.env):
                return ours, theirs
    return None


def _lookup(node: Lookup, name: Name) -> Lookup:
    below, keys = node.input, []
    for expr, column in node.keys:
        below, key = name(below, expr) if columns(expr) else (below, expr)
        keys.append((key, column))
    return replace(node, input=below, keys=tuple(keys))
