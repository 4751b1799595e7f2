"""Named queries of one row, as values: after WITH m AS (SELECT AVG(price) AS p FROM sales), both `(SELECT p FROM m)` and `p` in a
query that CROSS JOINs m mean (SELECT AVG(price) FROM sales).

A query of aggregates without GROUP BY has exactly one row, so a cross join with it repeats its values in every row. They are put
where they are used if the query around them reads tables; over other named queries alone, SQL over released rows answers them.
A query of one row may be joined by any condition, which WHERE tests just as well, and may stand in FROM itself:
`FROM sales JOIN (SELECT AVG(price) AS p FROM sales) AS m ON price > m.p`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from dpsql.sql.text.places import placed, span_of

PLAIN = {"expressions", "from_", "joins", "where", "kind"}  # clauses of a query that keeps its one row


def put_values_in_place(tree: exp.Expr) -> None:
    """Changes a tree in place. A query stays if any of its uses has another form."""
    _without_names(tree)
    for nested in list(tree.find_all(exp.Subquery)):
        if isinstance(nested.parent, exp.From | exp.Join) and nested.args.get("alias") is not None:
            _perform([_changes(nested, _values(nested), _row_queries(tree))])


def _without_names(tree: exp.Expr) -> None:
    """Puts the values of queries that WITH names in place."""
    named = tree.args.get("with_")
    if named is None or named.args.get("recursive"):
        return
    for one in list(named.expressions):
        values = _values(one)
        uses = [table for table in tree.find_all(exp.Table) if _is_named(table, _name(one))]
        rows = _row_queries(tree)
        if uses and values and _perform([_changes(table, values, rows) for table in uses]):
            one.pop()
    if not named.expressions:
        tree.set("with_", None)


def _perform(found: list[Changes | None]) -> bool:
    if None in found:
        return False
    for changes in found:
        for node, made in changes or ():
            if made is None:
                node.pop()
            else:
                node.replace(made)
    return True


def _name(named: exp.Expr) -> str:
    return str(named.args["alias"].name).lower()


def _is_named(table: exp.Expr, name: str) -> bool:
    return table.args.get("db") is None and str(table.name).lower() == name


def _values(named: exp.Expr) -> dict[str, exp.Expr]:
    """A query for each value, by its name; none unless the query has one row, whose values are named aggregates."""
    query, names = named.this, [str(part.name) for part in named.args["alias"].args.get("columns") or ()]
    plain = isinstance(query, exp.Select) and not {key for key, value in query.args.items() if value} - PLAIN
    items = list(query.expressions) if plain else []
    if not items or (names and len(names) != len(items)):
        return {}
    found: dict[str, exp.Expr] = {}
    for i, item in enumerate(items):
        inner = item.this if isinstance(item, exp.Alias) else item
        name = names[i] if names else str(item.alias)
        if not name or inner.find(exp.AggFunc) is None or inner.find(exp.Window, exp.Query) is not None:
            return {}
        alone = query.copy()
        alone.set("expressions", [inner.copy()])
        found[name.lower()] = alone
    return found


Changes = list[tuple[exp.Expr, exp.Expr | None]]  # what stands where, or is left out


def _changes(use: exp.Expr, values: Mapping[str, exp.Expr], rows: Mapping[str, bool]) -> Changes | None:
    """What a use of the query in FROM becomes; None for uses of another form."""
    clause = use.parent
    select = clause.parent if clause is not None else None
    plain = not {key for key, value in use.args.items() if value} - {"this", "alias"}
    if not values or clause is None or not plain or not isinstance(select, exp.Select):
        return None
    joins = list(select.args.get("joins") or ())
    alias = str(use.alias_or_name).lower()
    if isinstance(clause, exp.From):
        if not joins:
            return _as_value(select, values, rows) if isinstance(use, exp.Table) else None
        if not _matches_all(joins[0], joins) or not _reads_rows(select, rows, without=use):
            return None
        return _as_columns([(use, joins[0].this), (joins[0], None)], joins[0], select, alias, values)
    if not _matches_all(clause, joins) or not _reads_rows(select, rows, without=use):
        return None
    return _as_columns([(clause, None)], clause, select, alias, values)


def _matches_all(join: exp.Expr, joins: Iterable[exp.Expr]) -> bool:
    """Whether a join is the product with another source, of which a condition may keep a part, as WHERE does."""
    plain = isinstance(join, exp.Join) and str(join.args.get("kind") or "").upper() in ("", "CROSS", "INNER") and not any(
        join.args.get(key) for key in ("using", "side", "method"))
    padded = any(str(other.args.get("side") or "").upper() in ("RIGHT", "FULL") for other in joins)
    return plain and (join.args.get("on") is None or not padded)


def _row_queries(tree: exp.Expr) -> dict[str, bool]:
    """The queries that WITH names, and whether each keeps the rows that it reads, or groups them."""
    found: dict[str, bool] = {}
    for named in tree.args["with_"].expressions if tree.args.get("with_") is not None else ():
        found[_name(named)] = _keeps_rows(named.this, found)
    return found


def _keeps_rows(query: exp.Expr, rows: Mapping[str, bool]) -> bool:
    single = isinstance(query, exp.Select) and query.args.get("group") is None and any(
        item.find(exp.AggFunc) for item in query.expressions)
    return isinstance(query, exp.Select) and not single and _reads_rows(query, rows)


def _reads_rows(select: exp.Expr | None, rows: Mapping[str, bool], without: exp.Expr | None = None) -> bool:
    """Whether a query reads a table, or a query that keeps its rows; and not only named aggregates."""
    if not isinstance(select, exp.Select) or select.args.get("from_") is None:
        return False
    read = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    return any(one is not without and (
        rows.get(str(one.name).lower(), True) if isinstance(one, exp.Table) and one.args.get("db") is None
        else isinstance(one, exp.Table) or (isinstance(one, exp.Subquery) and _keeps_rows(one.this, rows))) for one in read)


def _as_value(select: exp.Expr, values: Mapping[str, exp.Expr], rows: Mapping[str, bool]) -> Changes | None:
    """(SELECT p FROM m), or (SELECT p + 2 * s FROM m)"""
    brackets = select.parent
    alone = not {key for key, value in select.args.items() if value} - {"expressions", "from_"} and len(select.expressions) == 1
    is_value = isinstance(brackets, exp.Subquery) and not isinstance(brackets.parent, exp.From | exp.Join | exp.In | exp.Exists)
    if not alone or not is_value or brackets is None or not _reads_rows(brackets.find_ancestor(exp.Select), rows):
        return None
    item = select.expressions[0]
    inner = item.this if isinstance(item, exp.Alias) else item
    if isinstance(inner, exp.Star) and len(values) == 1:
        return [(select, placed(next(iter(values.values())).copy(), span_of(select)))]
    names = {str(part.name).lower() for part in inner.find_all(exp.Column)}
    if not names or not names <= values.keys() or inner.find(exp.AggFunc, exp.Query, exp.Window) is not None:
        return None
    made = values[min(names)].copy()

    def value(part: exp.Expr) -> exp.Expr:
        return exp.Paren(this=values[str(part.name).lower()].expressions[0].copy()) if isinstance(part, exp.Column) else part

    only = inner if isinstance(inner, exp.Column) else None
    shown = values[str(only.name).lower()].expressions[0].copy() if only is not None else inner.copy().transform(value)
    made.set("expressions", [shown])
    return [(select, placed(made, span_of(select)))]


def _as_columns(source: Changes, join: exp.Expr, select: exp.Expr, alias: str, values: Mapping[str, exp.Expr]) -> Changes | None:
    """FROM t CROSS JOIN m, or JOIN m ON a condition, which moves to WHERE."""
    if any(item.find(exp.Star) is not None and not item.find(exp.Count) for item in select.expressions):
        return None
    condition, where = join.args.get("on"), select.args.get("where")
    if isinstance(condition, exp.Boolean) and condition.this:
        condition = None
    if condition is not None and condition.find(exp.Query) is not None:
        return None
    changes: Changes = []
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
    if condition is not None:  # its columns are replaced first
        joined = condition if where is None else exp.And(this=exp.Paren(this=where.this), expression=exp.Paren(this=condition))
        select.set("where", placed(exp.Where(this=joined), span_of(condition)))
        join.set("on", None)
    return [*changes, *source]
