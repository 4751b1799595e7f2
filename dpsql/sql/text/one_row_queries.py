"""Named queries of one row, as values: after WITH m AS (SELECT AVG(price) AS p FROM sales), both `(SELECT p FROM m)` and `p` in a
query that CROSS JOINs m mean (SELECT AVG(price) FROM sales).

A query of aggregates without GROUP BY has exactly one row, so a cross join with it repeats its values in every row. They are put
where they are used if the query around them reads tables; over other named queries alone, SQL over released rows answers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from dpsql.sql.text.places import placed, span_of

PLAIN = {"expressions", "from_", "joins", "where", "kind"}  # clauses of a query that keeps its one row


def put_values_in_place(tree: exp.Expr) -> None:
    """Changes a tree in place. A named query stays if any of its uses has another form."""
    named = tree.args.get("with_")
    if named is None or named.args.get("recursive"):
        return
    names = {_name(one) for one in named.expressions}
    for one in list(named.expressions):
        values = _values(one)
        uses = [table for table in tree.find_all(exp.Table) if _is_named(table, _name(one))]
        found = [_changes(table, values, names) for table in uses] if values else []
        if found and None not in found:
            for changes in found:
                for node, made in changes or ():
                    if made is None:
                        node.pop()
                    else:
                        node.replace(made)
            one.pop()
    if not named.expressions:
        tree.set("with_", None)


def _name(named: exp.Expr) -> str:
    return str(named.args["alias"].name).lower()


def _is_named(table: exp.Expr, name: str) -> bool:
    return table.args.get("db") is None and str(table.name).lower() == name


def _values(named: exp.Expr) -> dict[str, exp.Expr]:
    """A query for each value, by its name; none unless the query has one row, whose values are named aggregates."""
    query = named.this
    plain = isinstance(query, exp.Select) and not {key for key, value in query.args.items() if value} - PLAIN
    if not plain or named.args["alias"].columns or not all(
            isinstance(item, exp.Alias) and item.find(exp.AggFunc) is not None and item.find(exp.Window, exp.Query) is None
            for item in query.expressions):
        return {}
    found = {}
    for item in query.expressions:
        alone = query.copy()
        alone.set("expressions", [item.this.copy()])
        found[str(item.alias).lower()] = alone
    return found


Changes = list[tuple[exp.Expr, exp.Expr | None]]  # what stands where, or is left out


def _changes(table: exp.Expr, values: Mapping[str, exp.Expr], names: Iterable[str]) -> Changes | None:
    """What a use of the query becomes; None for uses of another form."""
    clause = table.parent
    select = clause.parent if clause is not None else None
    plain = not {key for key, value in table.args.items() if value} - {"this", "alias"}
    if clause is None or not plain or not isinstance(select, exp.Select):
        return None
    if isinstance(clause, exp.From):
        return _as_value(select, values, names)
    crossed = isinstance(clause, exp.Join) and str(clause.args.get("kind") or "CROSS").upper() == "CROSS" and not any(
        clause.args.get(key) for key in ("on", "using", "side", "method"))
    if not crossed or not _reads_tables(select, names):
        return None
    return _as_columns(clause, select, str(table.alias_or_name).lower(), values)


def _reads_tables(select: exp.Expr | None, names: Iterable[str]) -> bool:
    """Whether a query reads a table itself, and not only named queries."""
    if not isinstance(select, exp.Select) or select.args.get("from_") is None:
        return False
    read = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    return any(isinstance(one, exp.Table) and not any(_is_named(one, name) for name in names) for one in read)


def _as_value(select: exp.Expr, values: Mapping[str, exp.Expr], names: Iterable[str]) -> Changes | None:
    """(SELECT p FROM m)"""
    brackets, item = select.parent, select.expressions[0]
    alone = not {key for key, value in select.args.items() if value} - {"expressions", "from_"} and len(select.expressions) == 1
    is_value = isinstance(brackets, exp.Subquery) and not isinstance(brackets.parent, exp.From | exp.Join | exp.In | exp.Exists)
    if not alone or not is_value or brackets is None:
        return None
    made = values.get(str(item.name).lower()) if isinstance(item, exp.Column) else None
    if made is None or not _reads_tables(brackets.find_ancestor(exp.Select), names):
        return None
    return [(select, placed(made.copy(), span_of(select)))]


def _as_columns(join: exp.Expr, select: exp.Expr, alias: str, values: Mapping[str, exp.Expr]) -> Changes | None:
    """FROM t CROSS JOIN m"""
    if any(item.find(exp.Star) is not None and not item.find(exp.Count) for item in select.expressions):
        return None
    changes: Changes = [(join, None)]
    for column in select.find_all(exp.Column):
        table, name = str(column.table).lower(), str(column.name).lower()
        if table != alias and (table or name not in values or column.find_ancestor(exp.Select) is not select):
            continue
        if name not in values:
            return None
        span = span_of(column)
        made: exp.Expr = placed(exp.Subquery(this=placed(values[name].copy(), span)), span)
        if column.parent is select and column.arg_key == "expressions":
            made = placed(exp.Alias(this=made, alias=column.this.copy()), span)
        changes.append((column, made))
    return changes
