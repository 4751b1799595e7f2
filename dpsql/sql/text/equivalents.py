"""Replaces syntax by other syntax of the same meaning as soon as a text is parsed, so that nothing else needs to know it.

    (a, b) IN ((1, 2), (3, 4))   the parts are compared one by one; as in DuckDB, NULL is equal to NULL there
    x = ANY ([1, 2])             x IN (1, 2); with <> ALL, x NOT IN (1, 2). NULL in the list is like nothing, as in DuckDB
    x = ANY ('{1,2}'::int8[])    x IN (1, 2); and with ARRAY[1, 2]::int8[], each element is cast
    x = ANY ($1)                 x IN UNNEST($1): in what a list holds that is the value of a parameter
    x SIMILAR TO 'p'             regexp_full_match(x, 'p')
    MIN(DISTINCT x)              MIN(x), and MAX likewise
    ANY_VALUE(x)                 MIN(x), of the rows of one entity
    BOOL_OR(c), BOOL_AND(c)      MAX or MIN of 1 where c is true and 0 where it is false, compared with 1
    PERCENT_RANK() OVER (...)    (RANK() OVER (...) - 1) / (COUNT(*) OVER (... all rows) - 1), and CUME_DIST() likewise
    FROM UNNEST([1, 2]) AS u(x)  FROM (VALUES (1), (2)) AS u(x), and other functions of constants in FROM, see `constant_rows`
    DISTINCT ON (k) ... ORDER BY x   QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1
    quantile_cont(x, [0.1, 0.9]) AS q   quantile_cont(x, 0.1) AS "q[1]", quantile_cont(x, 0.9) AS "q[2]", with an interval each
    date_add(x, INTERVAL 1 DAY)  x + INTERVAL 1 DAY
    TO_DATE('2020-01-02', 'YYYY-MM-DD')   DATE '2020-01-02', and TO_TIMESTAMP a TIMESTAMP, of constants in the forms of `_FORMS`
    FETCH FIRST 3 ROWS ONLY      LIMIT 3
    WITH m AS (SELECT AVG(x) AS p FROM t) ... (SELECT p FROM m)   (SELECT AVG(x) FROM t), see `one_row_queries`
    AS MATERIALIZED              nothing: how an engine works is not a part of the question

Anything that has none of these forms stays unchanged, and is refused by the border or the binder.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from dpsql.sql.text.array_texts import constants_of, element_type
from dpsql.sql.text.border import parameter_of
from dpsql.sql.text.literals import whole_number
from dpsql.sql.text.one_row_queries import put_values_in_place
from dpsql.sql.text.places import nodes_of, placed, span_of

WRITTEN = "written"  # in `meta`: the aggregate that stood where another one does


def rewrite_equivalents(nodes: Sequence[exp.Expr]) -> None:
    """Rewrite a tree, given by its nodes in breadth-first order, from the inside out; they have their positions."""
    if any(isinstance(node, exp.With | exp.Subquery) for node in nodes[1:]):
        put_values_in_place(nodes[0])
        nodes = nodes_of(nodes[0])
    for node in reversed(nodes):
        rule = _RULES.get(type(node))
        made = rule(node) if rule is not None else None
        if made is not None:
            node.replace(placed(made, span_of(node)))


# -- several values in brackets


def _tuples_listed(node: exp.Expr) -> exp.Expr | None:
    rows = node.expressions
    if not isinstance(node.this, exp.Tuple) or not rows:
        return None
    compared = [_parts_equal(node.this, row) for row in rows]
    return _joined(exp.Or, [part for part in compared if part is not None]) if None not in compared else None


def _tuples_equal(node: exp.Expr) -> exp.Expr | None:
    equal = _parts_equal(node.this, node.expression)
    return exp.Not(this=exp.Paren(this=equal)) if equal is not None and isinstance(node, exp.NEQ) else equal


def _parts_equal(left: exp.Expr, right: exp.Expr) -> exp.Expr | None:
    """The condition that tuples are equal part by part; None where they are none, or of different lengths."""
    if not isinstance(left, exp.Tuple) or not isinstance(right, exp.Tuple) or len(left.expressions) != len(right.expressions):
        return None
    return _joined(exp.And, [exp.NullSafeEQ(this=a.copy(), expression=b.copy())
                             for a, b in zip(left.expressions, right.expressions, strict=True)])


def _joined(kind: type[exp.Expr], parts: Iterable[exp.Expr]) -> exp.Expr | None:
    joined: exp.Expr | None = None
    for part in parts:
        joined = part if joined is None else kind(this=joined, expression=part)
    return exp.Paren(this=joined) if joined is not None else None


# -- ANY and ALL


def _equality(node: exp.Expr) -> exp.Expr | None:
    quantified = _among(node.this, node.expression, exp.Any, "ANY")
    return quantified if quantified is not None else _tuples_equal(node)


def _inequality(node: exp.Expr) -> exp.Expr | None:
    quantified = _among(node.this, node.expression, exp.All, "ALL")
    return exp.Not(this=quantified) if quantified is not None else _tuples_equal(node)


def _among(subject: exp.Expr, quantified: exp.Expr, kind: type[exp.Expr], word: str) -> exp.Expr | None:
    """subject IN what stands after ANY or ALL; None if that is neither a list nor a subquery nor a parameter."""
    inner: exp.Expr | None = quantified.this if isinstance(quantified, kind) else None
    if isinstance(quantified, exp.Anonymous) and str(quantified.this).upper() == word and len(quantified.expressions) == 1:
        inner = quantified.expressions[0]
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Query):
        return exp.In(this=subject, query=inner if isinstance(inner, exp.Subquery) else placed(
            exp.Subquery(this=inner), span_of(inner)))
    if inner is not None and parameter_of(inner) is not None:
        return exp.In(this=subject, unnest=inner)
    if inner is not None and (element := element_type(inner)) is not None and parameter_of(inner.this) is not None:
        each = placed(exp.Cast(this=inner.this, to=element.copy()), span_of(inner))
        return exp.In(this=subject, unnest=each)
    found = constants_of(inner) if inner is not None else None
    values = [value for value in found or () if not isinstance(value, exp.Null)]
    return exp.In(this=subject, expressions=values) if values else None


# -- aggregates of truth values


def _of_truth(node: exp.Expr) -> exp.Expr | None:
    """The aggregate is known by `WRITTEN`: where it would be released, COUNT says more at the same price, so it is refused."""
    kind, span = exp.Max if isinstance(node, exp.LogicalOr) else exp.Min, span_of(node)
    ones = exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1)),
                         exp.If(this=exp.Not(this=node.this.copy()), true=exp.Literal.number(0))])
    made = placed(kind(this=placed(ones, span)), span)
    made.meta[WRITTEN] = type(node)
    top = node
    while (isinstance(top.parent, exp.Filter | exp.Window)) and top.parent.this is top:
        top = top.parent
    if top is node:
        return exp.Paren(this=exp.EQ(this=made, expression=exp.Literal.number(1)))
    node.replace(made)
    compared = exp.Paren(this=exp.EQ(this=top.copy(), expression=exp.Literal.number(1)))
    top.replace(placed(compared, span_of(top)))
    return None


def _undoubled(node: exp.Expr) -> None:
    """Values that are repeated change no extreme."""
    if isinstance(node.this, exp.Distinct) and len(node.this.expressions) == 1:
        node.set("this", node.this.expressions[0])


def _any_value(node: exp.Expr) -> exp.Expr | None:
    """The least value is any value. It is answered of the rows of one entity, see `_of_truth`."""
    if not isinstance(node.this, exp.AnyValue):
        return None
    made = placed(exp.Min(this=node.this.this), span_of(node))
    made.meta[WRITTEN] = exp.AnyValue
    return made


# -- relative ranks


def _relative_rank(node: exp.Expr) -> exp.Expr | None:
    """The quotient of two counts, in the range from 0 to 1; 0 in a partition of one row, whose PERCENT_RANK divides by 0."""
    called = node.this
    if not isinstance(called, exp.PercentRank | exp.CumeDist) or called.args.get("expressions") or node.args.get("spec"):
        return None

    def over(function: exp.Expr, spec: exp.Expr | None = None) -> exp.Expr:
        made = node.copy()
        made.set("this", function)
        made.set("spec", spec)
        return made

    every = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="UNBOUNDED", end_side="FOLLOWING")
    one, among = exp.Literal.number(1), over(exp.Count(this=exp.Star()), every)
    if isinstance(called, exp.CumeDist):
        share: exp.Expr = exp.Div(this=over(exp.Count(this=exp.Star())), expression=among)
    else:
        share = exp.Div(this=exp.Paren(this=exp.Sub(this=over(exp.Rank()), expression=one)),
                        expression=exp.Paren(this=exp.Sub(this=among, expression=one.copy())))
    zero = exp.Literal.number(0)
    return exp.Least(this=exp.Greatest(this=share, expressions=[zero]), expressions=[exp.Literal.number(1)])


# -- SELECT


def _unnested(node: exp.Expr) -> exp.Expr | None:
    from dpsql.sql.text.constant_rows import of_list

    return of_list(node) if isinstance(node.parent, exp.From | exp.Join) else None


def _series(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node.this, exp.GenerateSeries):
        return None
    from dpsql.sql.text.constant_rows import of_series

    return of_series(node)


def _select(node: exp.Expr) -> exp.Expr | None:
    if not any(item.find(exp.Explode) for item in node.expressions):
        return _first_of_each(node)
    from dpsql.sql.text.constant_rows import of_selected

    return of_selected(node)


# -- DISTINCT ON


def _first_of_each(node: exp.Expr) -> exp.Expr | None:
    """Changes a SELECT in place, unless it also groups, limits or qualifies its rows."""
    distinct = node.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    outermost = node.parent is None
    beside = ("qualify",) if outermost else ("group", "having", "qualify", "limit", "offset")
    if on is None or any(node.args.get(key) is not None for key in beside):
        return None
    keys = on.expressions if isinstance(on, exp.Tuple) else [on]
    order = node.args.get("order")
    sorted_by = order.expressions if order is not None else []
    terms = [_item_meant(key, node) for key in keys], [_item_meant(term.this, node) for term in sorted_by]
    if any(term is None for part in terms for term in part):
        return None
    window = exp.Window(this=exp.RowNumber(), partition_by=terms[0], over="OVER")
    if order is not None:
        for term, meant in zip(sorted_by, terms[1], strict=True):
            term.set("this", meant)
        window.set("order", order.copy())
    node.set("order", order if outermost else None)
    node.set("distinct", None)
    first = exp.EQ(this=window, expression=exp.Literal.number(1))
    node.set("qualify", placed(exp.Qualify(this=first), span_of(on) or span_of(node)))
    return None


def _item_meant(term: exp.Expr, select: exp.Expr) -> exp.Expr | None:
    """What a term of ORDER BY means: an item of the SELECT list by its number or alias, or itself; None if it is unclear."""
    named: dict[str, exp.Expr] = {str(item.args["alias"].this).lower(): item.this
                                  for item in select.expressions if isinstance(item, exp.Alias)}
    if isinstance(term, exp.Literal) and not term.args.get("is_string"):
        number, starred = whole_number(str(term.this)), any(item.find(exp.Star) is not None for item in select.expressions)
        if number is None or starred or not 1 <= number <= len(select.expressions):
            return None
        item: exp.Expr = select.expressions[number - 1]
        meant: exp.Expr = item.this if isinstance(item, exp.Alias) else item
        return meant.copy()
    if isinstance(term, exp.Column) and term.args.get("table") is None and str(term.name).lower() in named:
        return named[str(term.name).lower()].copy()
    if isinstance(term, exp.Var) or any(column.args.get("table") is None and str(column.name).lower() in named
                                        for column in term.find_all(exp.Column)):
        return None
    return term.copy()


# -- lists of quantiles


def _one_by_one(node: exp.Expr) -> None:
    """Replaces a list of quantiles in a SELECT list by one item for each, named as an element of DuckDB's list is written."""
    call = node.parent
    if not isinstance(call, exp.Quantile | exp.ApproxQuantile | exp.PercentileCont | exp.PercentileDisc) or not node.expressions:
        return
    item: exp.Expr = call
    while isinstance(item.parent, exp.WithinGroup | exp.Filter | exp.Alias) and item.parent.this is item:
        item = item.parent
    select, key = item.parent, "quantile" if call.args.get("quantile") is node else "expression" if (
        call.args.get("expression") is node) else "this"
    if not isinstance(select, exp.Select) or item.arg_key != "expressions":
        return
    inner = item.this if isinstance(item, exp.Alias) else item
    name = str(item.args["alias"].this) if isinstance(item, exp.Alias) else inner.sql("duckdb").lower()
    items = []
    for number, place in enumerate(list(node.expressions), 1):
        call.set(key, place.copy())
        items.append(placed(exp.Alias(this=inner.copy(), alias=exp.to_identifier(f"{name[:56]}[{number}]", quoted=True)),
                            span_of(item)))
    at = next((i for i, other in enumerate(select.expressions) if other is item), None)
    if at is None:  # its place was taken by those of another list
        return
    select.set("expressions", [*select.expressions[:at], *items, *select.expressions[at + 1 :]])
    _moved_up(select, at + 1, len(items) - 1)


def _moved_up(select: exp.Select, after: int, by: int) -> None:
    """Adjust positions in GROUP BY and ORDER BY so that they still mean the same items."""
    group, order = select.args.get("group"), select.args.get("order")
    terms = [*(group.expressions if group is not None else []), *(part.this for part in (order.expressions if order else []))]
    for term in terms:
        number = whole_number(str(term.this)) if isinstance(term, exp.Literal) and not term.args.get("is_string") else None
        if number is not None and number > after:
            term.set("this", str(number + by))


# -- words


def _similar(node: exp.Expr) -> exp.Expr:
    return exp.RegexpFullMatch(this=node.this, expression=node.expression)


def _added(node: exp.Expr) -> exp.Expr | None:
    later = node.expression
    return exp.Paren(this=exp.Add(this=node.this, expression=later)) if isinstance(later, exp.Interval) else None


_FORMS: Mapping[str, str] = {  # of constants of time, as PostgreSQL writes them and as Python does
    "YYYY-MM-DD": "%Y-%m-%d", "YYYY-MM-DD HH24:MI:SS": "%Y-%m-%d %H:%M:%S", "YYYY-MM-DD HH24:MI:SS.US": "%Y-%m-%d %H:%M:%S.%f"}


def _named(node: exp.Expr) -> exp.Expr | None:
    """EVERY(c) is BOOL_AND(c); and a constant of time."""
    if str(node.this).upper() != "EVERY" or len(node.expressions) != 1:
        return _time_read(node)
    every = placed(exp.LogicalAnd(this=node.expressions[0]), span_of(node))
    node.replace(every)
    made = _of_truth(every)
    if made is not None:
        every.replace(placed(made, span_of(every)))
    return None


def _time_read(node: exp.Expr) -> exp.Expr | None:
    """The constant that is read from a text in a form of `_FORMS`; None for any other text or form."""
    if isinstance(node, exp.UnixToTime):
        parts, kind = [node.this, node.args.get("scale")], "TIMESTAMP"
    elif str(node.this).upper() == "TO_DATE":
        parts, kind = list(node.expressions), "DATE"
    else:
        return None
    if len(parts) != 2 or not all(isinstance(part, exp.Literal) and part.is_string for part in parts):
        return None
    text, form = (str(part.this) for part in parts)
    try:
        read = dt.datetime.strptime(text, _FORMS[form])
    except (KeyError, ValueError):
        return None
    if not text.isascii() or len(text) < len("YYYY-MM-DD"):
        return None
    shown = read.isoformat(" ") if kind == "TIMESTAMP" else read.date().isoformat()
    return exp.Cast(this=placed(exp.Literal.string(shown), span_of(node)), to=exp.DataType.build(kind, dialect="duckdb"))


def _fetched(node: exp.Expr) -> exp.Expr | None:
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return None
    return exp.Limit(expression=node.args.get("count") or placed(exp.Literal.number(1), span_of(node)))


def _materialized(node: exp.Expr) -> None:
    node.set("materialized", None)


_RULES: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr | None]] = {
    exp.In: _tuples_listed, exp.EQ: _equality, exp.NEQ: _inequality, exp.LogicalOr: _of_truth, exp.LogicalAnd: _of_truth,
    exp.Select: _select, exp.Window: _relative_rank, exp.Min: _undoubled, exp.Max: _undoubled, exp.Unnest: _unnested,
    exp.Table: _series, exp.SimilarTo: _similar, exp.CTE: _materialized, exp.DateAdd: _added, exp.Array: _one_by_one,
    exp.UnixToTime: _time_read, exp.Anonymous: _named, exp.IgnoreNulls: _any_value, exp.Fetch: _fetched,
}
_EVERYWHERE = {exp.Select, exp.Table, exp.Window, exp.Min, exp.Max}  # which are rewritten where they hold one of the others
WRITTEN_WITH = (_RULES.keys() - _EVERYWHERE) | {  # a tree without any of these holds nothing to rewrite
    exp.CumeDist, exp.Distinct, exp.Explode, exp.GenerateSeries, exp.PercentRank, exp.Subquery}
