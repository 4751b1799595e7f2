"""Grouped sums without their filters and projections: sums of expressions under conditions, over the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.backends.row_orders import row_order
from dpsql.frozen import Frozen, replace
from dpsql.trusted.plan.expr.nodes import Expr, Ref, all_of, conjuncts, rewrite
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.scan import Scan
from dpsql.trusted.plan.operators.summands import Count, GridSum
from dpsql.trusted.plan.operators.truncate import Truncate


class FlatSummand(Frozen):
    """A summand over the source: the expression that it adds up (None: it counts rows), and its own condition (None: all
    rows)."""

    summand: Count | GridSum
    expr: Expr | None
    when: Expr | None


class Flat(Frozen):
    """Summands over the rows of `source`, each under its own condition and all of those in `common`."""

    source: Node
    parts: tuple[FlatSummand, ...]
    common: tuple[Expr, ...]


def flattened(plan: GroupedSums) -> Flat | None:
    """The sums over the rows below all filters and projections; None if there are groups, or summands of other kinds."""
    if plan.keys or not all(isinstance(summand, Count | GridSum) for summand in plan.summands):
        return None
    summands = [summand for summand in plan.summands if isinstance(summand, Count | GridSum)]

    def ref(column: str | None) -> Expr | None:
        return None if column is None else plan.input.field(column).ref

    below = lowered(plan.input, [ref(column) for summand in summands for column in (summand.column, summand.when)])
    exprs = iter(below.exprs)
    parts = tuple(FlatSummand(summand=summand, expr=next(exprs), when=next(exprs)) for summand in summands)
    return Flat(source=below.source, parts=parts, common=below.common)


class Lowered(Frozen):
    """Expressions over the rows of `source`, and the conditions (`common`) that filters have imposed on these rows."""

    source: Node
    exprs: tuple[Expr | None, ...]
    common: tuple[Expr, ...]


def lowered(node: Node, exprs: Sequence[Expr | None]) -> Lowered:
    """Expressions over a relation, rewritten over the rows below its filters and projections.

    The columns of a table, truncated or not, get canonical identifiers, so that parts of different statements compare equal if
    they mean the same.
    """
    common: list[Expr] = []
    while isinstance(node, Project | Filter):
        if isinstance(node, Filter):
            common += conjuncts(node.condition)
        else:
            below = {column: expr for column, _, expr in node.columns}
            exprs = [_under(expr, below) for expr in exprs]
            common = [part for expr in common if (part := _under(expr, below)) is not None]
        node = node.input
    source, names = _canonical(node)
    return Lowered(source=source, exprs=tuple(_under(expr, names) for expr in exprs),
                   common=tuple(part for expr in common if (part := _under(expr, names)) is not None))


def _under(expr: Expr | None, below: dict[str, Expr]) -> Expr | None:
    """The expression with its columns replaced by the expressions in `below`."""
    if expr is None:
        return None
    return rewrite(expr, lambda part: below.get(part.column) if isinstance(part, Ref) else None)


def _canonical(node: Node) -> tuple[Node, dict[str, Expr]]:
    """A table with all of its columns, identified by their positions, and the new expression for each old identifier."""
    scan = node.input if isinstance(node, Truncate) else node
    if not isinstance(scan, Scan):
        return node, {}
    places = {name: f"k{i}" for i, name in enumerate(scan.table.columns)}
    ids = {column: places[name] for column, name in scan.columns}
    ids |= {owner: f"o{i}" for i, owner in enumerate(scan.owners) if owner not in ids}
    whole = Scan(table=scan.table, columns=tuple((place, name) for name, place in places.items()),
                 owners=tuple(ids[owner] for owner in scan.owners), periods=scan.periods)
    names: dict[str, Expr] = {old: Ref(column=new, type=scan.env[old].type) for old, new in ids.items()}
    if not isinstance(node, Truncate):
        return whole, names
    owner = ids[node.owner]
    return replace(node, input=whole, owner=owner, order=row_order(whole, owner)), names


def _owners(source: Node) -> tuple[str, ...]:
    """The columns that name the entities of a table's rows."""
    while isinstance(source, Truncate | Filter):
        source = source.input
    return source.owners if isinstance(source, Scan) else ()


def gathered(flat: Sequence[Flat], kept: Sequence[Expr] = ()) -> GroupedSums:
    """One plan for all summands of `flat`, which have the same source: in order, each under all of its conditions. Conditions
    in `kept`, which must be common to all of `flat`, become a filter of the source.

    The sums do not change: a row that a condition leaves out adds 0 to a sum under that condition, as it did when it was filtered
    out. One entity may change more rows of the source than of a part of it; the sensitivity of the plan follows from its own
    certificate. Raises ValueError for a sum without an expression.
    """
    source = flat[0].source
    condition = all_of(list(kept))
    if condition is not None:
        source = Filter(input=source, condition=condition)
    shown: dict[Expr, str] = {}

    def named(expr: Expr | None) -> str | None:
        return None if expr is None else shown.setdefault(expr, f"e{len(shown)}")

    summands: list[Count | GridSum] = []
    for one in flat:
        for part in one.parts:
            conditions = [*one.common, *([] if part.when is None else [part.when])]
            when = named(all_of([condition for condition in conditions if condition not in kept]))
            column = named(part.expr)
            if isinstance(part.summand, Count):
                summands.append(replace(part.summand, column=column, when=when))
            else:
                if column is None:
                    raise ValueError("a sum is one of values")
                summands.append(replace(part.summand, column=column, when=when))
    if not shown:
        return GroupedSums(input=source, keys=(), summands=tuple(summands))
    owners = tuple((owner, owner, source.field(owner).ref) for owner in _owners(source))
    view = Project(input=source, columns=(*owners, *((name, name, expr) for expr, name in shown.items())))
    return GroupedSums(input=view, keys=(), summands=tuple(summands))
