"""Answers questions about sqlglot's trees: what an item of a SELECT list is, and what it contains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.sql.text.border import parameter_of
from dpsql.sql.text.literals import whole_number
from dpsql.sql.text.places import nodes_of, span_of
from dpsql.sql.text.refusals import RELEASED_RANK
from dpsql.sql.text.syntax import ALL_AGGREGATES, NAMED_AGGREGATES
from dpsql.types import Span


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate, with its FILTER if it has one."""
    return isinstance(node, ALL_AGGREGATES) or (isinstance(node, exp.Anonymous) and str(node.this).lower() in NAMED_AGGREGATES)


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an expression contains an aggregate (without OVER) outside of subqueries."""
    return any(is_aggregate(part) and not _is_windowed(part) and _outside(part, node) for part in nodes_of(node))


def contains(tree: exp.Expr, kind: type[exp.Expr]) -> bool:
    """Whether a tree has a node of this kind."""
    return any(isinstance(part, kind) for part in nodes_of(tree))


def has_window(node: exp.Expr) -> bool:
    """Whether an expression contains a window function outside of subqueries."""
    return any(isinstance(part, exp.Window) and _outside(part, node) for part in nodes_of(node))


def refuse_windows(select: exp.Expr) -> None:
    """Raise Unsupported if a SELECT that is not one of rows has QUALIFY or WINDOW."""
    for key, word in (("qualify", "QUALIFY"), ("windows", "WINDOW")):
        clause = select.args.get(key)
        if clause:
            raise Unsupported(f"{word} is answered only in a subquery of rows", code="window-here",
                              span=span_of(clause[0] if isinstance(clause, list) else clause),
                              try_="SELECT ... FROM (SELECT ... QUALIFY ...) AS t")


def not_here(node: exp.Expr) -> Unsupported:
    """The error for a window function in a place without single rows."""
    parts = isinstance(node, exp.Window) and isinstance(node.this, exp.Ntile) and not node.args.get("partition_by")
    return Unsupported("a window function is answered in the SELECT list of a subquery of rows only", code="window-here",
                       span=span_of(node), try_=f"CASE WHEN {RELEASED_RANK} THEN 1 ... END" if parts else
                       "SELECT ... FROM (SELECT *, LAG(x) OVER (...) AS y FROM t) AS u")


def _is_windowed(part: exp.Expr) -> bool:
    """Whether an aggregate has an OVER clause."""
    above = part.parent
    if isinstance(above, exp.Filter) and above.this is part:
        part, above = above, above.parent
    return isinstance(above, exp.Window) and above.this is part


def _outside(part: exp.Expr, node: exp.Expr) -> bool:
    """Whether a part of an expression stands outside of its subqueries."""
    while part is not node and part.parent is not None:
        part = part.parent
        if isinstance(part, exp.Query):
            return False
    return True


def operands(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The parts joined by AND (or OR), in order, looking through parentheses; the node itself if it is of another kind."""
    parts: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        inner = part
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, kind):
            waiting += [inner.args["expression"], inner.args["this"]]
        else:
            parts.append(part)
    return parts


def position_of(part: exp.Expr, items: Sequence[exp.Expr]) -> int:
    """The index of the item of a SELECT list that a number refers to."""
    text = str(part.this)
    number = whole_number(text)
    if number is None or not 1 <= number <= len(items):
        raise SqlError(f"there is no item {text} in the SELECT list", code="position", span=span_of(part),
                       try_=f"a number from 1 to {len(items)}" if len(items) > 1 else "1")
    return number - 1


def inner_of(item: exp.Expr) -> exp.Expr:
    """An item of a SELECT list without its alias."""
    return item.this if isinstance(item, exp.Alias) else item


def aliases_of(select: exp.Expr) -> dict[str, exp.Expr]:
    """The expression that each alias of a SELECT list names; for equal aliases, the first."""
    found: dict[str, exp.Expr] = {}
    for item in select.expressions:
        if isinstance(item, exp.Alias):
            found.setdefault(item_name(item).lower(), item.this)
    return found


def is_star(node: exp.Expr) -> bool:
    """Whether a node is * or t.*"""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def item_name(item: exp.Expr) -> str:
    """The name of an item: its alias or the column's own name; empty if it has none."""
    if isinstance(item, exp.Alias):
        return str(item.args["alias"].this)
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Identifier) and parameter_of(item) is None:
        return str(item.this.this)
    return ""


def is_grouping_set(part: exp.Expr) -> bool:
    """Whether a part of GROUP BY denotes grouping sets: CUBE, ROLLUP, GROUPING SETS, or (), the set of no keys."""
    return isinstance(part, exp.Cube | exp.Rollup | exp.GroupingSets) or (isinstance(part, exp.Tuple) and not part.expressions)


def kept_lists(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The subqueries of IN (SELECT ...) tests that are combined only by AND and OR, where rows are kept only if the test is
    true."""
    for part in operands(condition, exp.And):
        choices = operands(part, exp.Or)
        if len(choices) > 1:
            for choice in choices:
                yield from kept_lists(choice)
        elif isinstance(inner := _in_brackets(part), exp.In) and inner.args.get("query") is not None:
            yield inner.args["query"]


def _in_brackets(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_plain(query: exp.Expr) -> TypeGuard[exp.Select]:
    """Whether a query is a SELECT of all its rows."""
    return isinstance(query, exp.Select) and not any(
        query.args.get(key) for key in ("group", "having", "limit", "offset")) and not any(map(has_aggregate, query.expressions))


def plain_select(query: exp.Expr, span: Span | None) -> exp.Select:
    """The SELECT of EXISTS. Raises Unsupported if it is more than SELECT, FROM and WHERE."""
    select = query
    while isinstance(select, exp.Subquery):
        select = select.this
    if not is_plain(select):
        raise Unsupported("EXISTS takes a plain SELECT", code="exists", span=span_of(query) or span,
                          try_="EXISTS (SELECT 1 FROM t WHERE ...)")
    return select
