"""Window functions beside aggregates: SELECT k, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) FROM t GROUP BY k.

They are computed over groups, and so over their released values. This is the same as a SELECT of rows around a SELECT of groups.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.sql.text.places import placed, span_of
from dpsql.sql.text.trees import has_aggregate, has_window, inner_of, is_aggregate, item_name, position_of


def split_windows(select: exp.Select) -> tuple[exp.Select, exp.Select]:
    """Split a grouped SELECT with window functions into a SELECT of rows and, inside it, a SELECT of groups (returned second),
    which shows the keys and aggregates that the first needs."""
    keys = _keys(select)
    inner = exp.Select(**{key: select.args.get(key) for key in ("from_", "joins", "where", "having") if select.args.get(key)})
    named: dict[exp.Expr, exp.Expr] = {}
    for item, key in keys:
        column = item_name(item) or (f"key {len(named) + 1}")
        named.setdefault(key, exp.column(exp.to_identifier(column, quoted=True)))
    if keys:
        inner.set("group", exp.Group(expressions=[key.copy() for key in named]))
    around = exp.Select(expressions=[_over(item, named) for item in select.expressions])
    for part in ("qualify", "order", "limit", "offset", "windows", "distinct"):
        found = select.args.get(part)
        if found:
            around.set(part, [_over(one, named) for one in found] if isinstance(found, list) else _over(found, named))
    inner.set("expressions", [placed(exp.Alias(this=expr.copy(), alias=column.this.copy()), span_of(expr))
                              for expr, column in named.items()])
    around.set("from_", exp.From(this=exp.Subquery(this=inner)))
    placed(inner, span_of(select))
    placed(around, span_of(select))
    return around, inner


def _keys(select: exp.Select) -> list[tuple[exp.Expr, exp.Expr]]:
    """The keys of GROUP BY as unnamed items of a SELECT list."""
    group, items = select.args.get("group"), select.expressions
    if group is None:
        return []
    if group.args.get("all"):
        return [(item, inner_of(item)) for item in items if not has_aggregate(item) and not has_window(item)]
    found = []
    aliases = {item_name(item).lower(): item for item in items if isinstance(item, exp.Alias)}
    for part in group.expressions:
        item = items[position_of(part, items)] if isinstance(part, exp.Literal) and not part.args.get("is_string") else part
        if isinstance(item, exp.Column) and item.args.get("table") is None:
            item = aliases.get(str(item.name).lower(), item)
        found.append((item, inner_of(item)))
    return found


def _over(node: exp.Expr, named: dict[exp.Expr, exp.Expr]) -> exp.Expr:
    """Turn an expression over groups into one over the rows that show them; aggregates that it needs get names."""
    node = node.copy()
    holder, stack = exp.Paren(this=node), [node]  # so that the whole expression can be replaced, too
    while stack:
        part = stack.pop()
        plain = is_aggregate(part) and not (isinstance(part.parent, exp.Window) or (
            isinstance(part.parent, exp.Filter) and isinstance(part.parent.parent, exp.Window)))
        if plain and part not in named:
            named[part.copy()] = exp.column(exp.to_identifier(f"aggregate {len(named) + 1}", quoted=True))
        if part in named:
            name = item_name(part)
            column = placed(named[part].copy(), span_of(part))
            whole = part.parent is not None and isinstance(part.parent, exp.Select | exp.Paren) and part is node
            part.replace(placed(exp.alias_(column, name, quoted=True), span_of(part)) if whole and name else column)
        elif not isinstance(part, exp.Query):
            stack += list(part.iter_expressions())
    made: exp.Expr = holder.this
    return made
