"""The allowlist at the border: which nodes of sqlglot's tree are accepted, and with which arguments.

sqlglot is no validator (its authors say so): a root SELECT can hide SELECT INTO, a data-changing CTE or a dropped FOR UPDATE.
So every node must be of a known class and may only carry known arguments; anything else is refused here, before names are
bound. Functions that are known but take part in no overload are refused later, by the binder.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import SqlError, Unsupported
from dpsql.questions.all_aggregates import AGGREGATES, Kind
from dpsql.sql.text.places import span_of
from dpsql.sql.text.refusals import ARGUMENTS, OTHERS, REASONS
from dpsql.sql.text.statement import PARAMETER
from dpsql.sql.text.syntax import AGGREGATE_NODES, CALLS, OF_ONE, RESERVED
from dpsql.types import Span

_BINARY = {"this", "expression"}
_UNARY = {"this"}
_SET_OPERATION = {"this", "expression", "distinct", "with_", "order", "limit", "offset"}

ACCEPTED: dict[type[exp.Expr], set[str]] = {
    # queries
    exp.Select: {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_", "distinct",
                 "qualify", "windows"},
    exp.Union: _SET_OPERATION, exp.Intersect: _SET_OPERATION, exp.Except: _SET_OPERATION,
    exp.Subquery: {"this", "alias", "joins"}, exp.Values: {"expressions", "alias"}, exp.Tuple: {"expressions"},
    exp.Lateral: {"this", "alias"},
    exp.With: {"expressions"}, exp.CTE: {"this", "alias"}, exp.TableAlias: {"this", "columns"},
    exp.From: _UNARY, exp.Table: {"this", "alias", "joins", "db"}, exp.Join: {"this", "side", "kind", "on", "using", "method"},
    exp.Where: _UNARY, exp.Having: _UNARY, exp.Qualify: _UNARY, exp.Group: {"expressions", "all"},
    exp.Cube: {"expressions"}, exp.Rollup: {"expressions"}, exp.GroupingSets: {"expressions"}, exp.Grouping: {"expressions"},
    exp.GroupingId: {"expressions"},
    exp.Order: {"expressions"}, exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Limit: {"expression"}, exp.Offset: {"expression"}, exp.Distinct: {"expressions"},
    exp.Alias: {"this", "alias"}, exp.Star: {"except_", "replace", "rename"},
    exp.Column: {"this", "table", "db"}, exp.Identifier: {"this", "quoted"},
    # constants
    exp.Literal: {"this", "is_string"}, exp.Boolean: _UNARY, exp.Null: set(), exp.Var: _UNARY,
    exp.Interval: {"this", "unit"}, exp.DataType: {"this", "expressions"}, exp.DataTypeParam: _UNARY,
    exp.Array: {"expressions"}, exp.Any: _UNARY, exp.All: _UNARY,
    # operators
    exp.Paren: _UNARY, exp.And: _BINARY, exp.Or: _BINARY, exp.Not: _UNARY, exp.EQ: _BINARY, exp.NEQ: _BINARY, exp.LT: _BINARY,
    exp.LTE: _BINARY, exp.GT: _BINARY, exp.GTE: _BINARY, exp.NullSafeEQ: _BINARY, exp.NullSafeNEQ: _BINARY, exp.Is: _BINARY,
    exp.Between: {"this", "low", "high"}, exp.In: {"this", "expressions", "query", "unnest"}, exp.Exists: _UNARY,
    exp.Like: {"this", "expression", "negate"}, exp.ILike: {"this", "expression", "negate"}, exp.Escape: _BINARY,
    exp.Add: _BINARY, exp.Sub: _BINARY, exp.Mul: _BINARY, exp.Div: _BINARY, exp.IntDiv: _BINARY,
    exp.BitwiseAnd: _BINARY, exp.BitwiseOr: _BINARY, exp.BitwiseXor: _BINARY, exp.BitwiseNot: _UNARY,
    exp.BitwiseLeftShift: _BINARY, exp.BitwiseRightShift: _BINARY,
    exp.Mod: _BINARY, exp.Neg: _UNARY, exp.Pow: _BINARY, exp.DPipe: {"this", "expression", "safe"},
    exp.Case: {"this", "ifs", "default"}, exp.If: {"this", "true", "false"}, exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to", "safe"}, exp.Coalesce: {"this", "expressions"},
    exp.Greatest: {"this", "expressions", "ignore_nulls"}, exp.Least: {"this", "expressions", "ignore_nulls"},
    exp.Concat: {"expressions", "safe", "coalesce"},
    # functions that need more than their arguments in order; the others of the table are added below
    exp.Log: _BINARY, exp.Trim: {"this", "position", "expression"}, exp.DateBin: _BINARY,
    exp.Pad: {"this", "expression", "fill_pattern", "is_left"}, exp.ConcatWs: {"expressions", "safe", "coalesce"},
    exp.Glob: _BINARY, exp.RegexpExtract: {"this", "expression", "group", "null_if_pos_overflow"},
    exp.RegexpReplace: {"this", "expression", "replacement", "modifiers", "single_replace"},
    exp.RegexpLike: {"this", "expression", "flag"}, exp.RegexpFullMatch: _BINARY, exp.Extract: _BINARY,
    exp.TimestampTrunc: {"this", "unit"}, exp.DateTrunc: {"this", "unit"},
    exp.DateDiff: {"this", "expression", "unit", "date_part_boundary"}, exp.Anonymous: {"this", "expressions"},
    # aggregates that have a syntax of their own; the others of the table are added below
    exp.Count: {"this", "big_int"}, exp.Median: _UNARY, exp.PercentileCont: _BINARY,
    exp.PercentileDisc: _BINARY, exp.Quantile: {"this", "quantile"},
    exp.ApproxQuantile: {"this", "quantile"}, exp.WithinGroup: _BINARY,
    exp.CountIf: _UNARY, exp.ArgMax: _BINARY, exp.ArgMin: _BINARY, exp.Mode: _UNARY, exp.Filter: _BINARY,
    # window functions
    exp.Window: {"this", "partition_by", "order", "spec", "alias", "over"},
    exp.WindowSpec: {"kind", "start", "start_side", "end", "end_side"}, exp.RowNumber: set(), exp.Rank: set(),
    exp.DenseRank: set(), exp.Ntile: _UNARY, exp.Lag: {"this", "offset", "default"}, exp.Lead: {"this", "offset", "default"},
    exp.FirstValue: _UNARY, exp.LastValue: _UNARY, exp.NthValue: {"this", "offset"},
}

ACCEPTED[exp.Union] = _SET_OPERATION | {"by_name"}
ACCEPTED |= {kind: set(keys) for kind, (_, keys) in CALLS.items() if kind not in ACCEPTED}
ACCEPTED |= {kind: _BINARY if AGGREGATES[name].kind is Kind.PAIR else _UNARY for kind, name in AGGREGATE_NODES.items()}
ACCEPTED |= dict.fromkeys(OF_ONE, _BINARY)

MAIN, PUBLIC = "main", "public"  # the schema that every table of a policy is in, as DuckDB and as PostgreSQL call it
STANDING = "standing"  # that of the numbers of standing queries
SCHEMAS = MAIN, PUBLIC, STANDING

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Neg)
_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)


def check(tree: exp.Expr, text: str) -> None:
    """Refuse a tree that contains anything but accepted nodes with accepted arguments."""
    for node in tree.walk(bfs=False):
        kind = type(node)
        if kind not in ACCEPTED:
            raise _refused(node, text)
        for name, value in node.args.items():
            if value is None or value is False or value == [] or name in ACCEPTED[kind]:
                continue
            raise _refused_argument(node, name, value)
        if kind in _PARTED:
            _check_whole(node)
        elif isinstance(node, exp.Identifier):
            _check_name(node, text)


def _check_whole(node: exp.Expr) -> None:
    """Refuse what sqlglot's parser lets pass: missing parts, and chained comparisons."""
    if isinstance(node, _COMPARISONS) and isinstance(node.this, _COMPARISONS):
        raise Unsupported("engines read a chain of comparisons differently", code="not-accepted",
                          span=span_of(node), try_="a < b AND b < c")
    if isinstance(node, exp.BitwiseNot) and isinstance(node.parent, _ARITHMETIC):
        raise Unsupported("engines read ~ next to this operator differently", code="not-accepted",
                          span=span_of(node), try_="brackets: (~x) + 1")
    if isinstance(node, exp.Select) and node.args.get("joins") and node.args.get("from_") is None:
        raise SqlError("FROM is missing before JOIN", code="syntax", span=span_of(node.args["joins"][0]), try_="FROM a JOIN b")
    if isinstance(node, exp.Group) and node.args.get("all") and node.expressions:
        raise SqlError("GROUP BY ALL takes no keys", code="group-by", span=span_of(node.expressions[0]), try_="GROUP BY ALL")
    if isinstance(node, exp.Window) and node.args.get("over") not in (None, "OVER"):
        raise Unsupported("only OVER may follow a window function", code="not-accepted", span=span_of(node),
                          try_="OVER (...)")
    if isinstance(node, exp.In) and isinstance(node.args.get("unnest"), exp.Unnest):  # only a parameter is, after ANY or ALL
        raise Unsupported("IN takes a list or a subquery", code="not-accepted", span=span_of(node.args["unnest"]),
                          subject="In.unnest", try_="x IN (1, 2)")
    schema = node.args.get("db") if isinstance(node, exp.Table | exp.Column) else None
    if schema is not None and str(schema.this).lower() not in SCHEMAS:
        raise Unsupported(f"the policy's tables are in the schema {MAIN}", code="not-accepted", span=span_of(schema),
                          try_="the name alone", subject=_subject(node))
    if isinstance(node, exp.Star) and any(node.args.values()):
        _check_star(node)
    if isinstance(node, exp.Tuple) and isinstance(node.parent, exp.Group | exp.GroupingSets):
        return  # () is the set of no keys
    names, what, try_ = _NEEDED.get(type(node), ((), "", ""))
    if names and not any(node.args.get(name) for name in names):
        raise SqlError(f"{what} is missing here", code="syntax", span=span_of(node), try_=try_)


def _check_star(node: exp.Star) -> None:
    """EXCLUDE, REPLACE and RENAME stand in a SELECT list, and name columns without their table."""
    item = node.parent if isinstance(node.parent, exp.Column) else node
    if not isinstance(item.parent, exp.Select):
        raise Unsupported("EXCLUDE, REPLACE and RENAME may only follow * in a SELECT list", code="star", span=span_of(item),
                          try_="COUNT(*), or SELECT * EXCLUDE (x) in a subquery")
    excluded = node.args.get("except_") or ()
    named = next((part for part in excluded if not isinstance(part, exp.Column) or part.args.get("table")), None)
    if named is not None:
        raise Unsupported("EXCLUDE takes names of columns", code="star", span=span_of(named), try_="t.* EXCLUDE (x)")


_NEEDED: dict[type[exp.Expr], tuple[tuple[str, ...], str, str]] = {
    exp.Select: (("expressions",), "what to SELECT", "SELECT COUNT(*)"),
    exp.Group: (("expressions", "all", "rollup", "cube", "grouping_sets"), "a key", "GROUP BY a, b"),
    exp.Cube: (("expressions",), "a key", "CUBE (a, b)"), exp.Rollup: (("expressions",), "a key", "ROLLUP (a, b)"),
    exp.GroupingSets: (("expressions",), "a set of keys", "GROUPING SETS ((a, b), (a), ())"),
    exp.Grouping: (("expressions",), "a key", "GROUPING(a)"), exp.GroupingId: (("expressions",), "a key", "GROUPING_ID(a, b)"),
    exp.Order: (("expressions",), "what to ORDER BY", "ORDER BY 1"),
    exp.In: (("expressions", "query", "unnest", "field"), "the list of IN", "IN (1, 2)"),
    exp.TableAlias: (("this",), "a name", "(SELECT ...) AS name"),
    exp.Tuple: (("expressions",), "a condition in parentheses", "(a, b)"),
    exp.Case: (("ifs",), "WHEN", "CASE WHEN x > 1 THEN 'a' ELSE 'b' END"),
}

_PARTED = {*_COMPARISONS, *_NEEDED, exp.BitwiseNot, exp.Select, exp.Group, exp.Window, exp.Table, exp.Column,
           exp.Star}  # see `_check_whole`


def _check_name(node: exp.Identifier, text: str) -> None:
    """Refuse parameters, and words of SQL that are not quoted, where names are expected."""
    name, above, span = str(node.this), node.parent, span_of(node)
    if name.startswith(PARAMETER):
        if above is None or parameter_of(above) is None:
            raise SqlError("a parameter can be a value, not a name", code="parameter", span=span,
                           try_="the name itself, or a comma before the parameter")
    elif isinstance(above, exp.TableAlias) and span is not None and text.startswith(f"'{name}", span.start):
        raise SqlError("a name needs double quotes", code="syntax", span=span, try_='"name"')
    elif name.upper() in RESERVED and not node.args.get("quoted") and isinstance(above, exp.Alias | exp.TableAlias):
        before = text[: span.start].split() if span is not None else []
        if isinstance(above, exp.TableAlias) or not before or before[-1].upper() != "AS":
            raise SqlError(f"{name} is an SQL keyword, not a name", code="syntax", span=span, try_=f'"{name}"')


def _refused(node: exp.Expr, text: str) -> Unsupported:
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls) and type(node.this) in REASONS:
        node = node.this  # ANY_VALUE, which ignores them unasked
    for kind in type(node).__mro__:
        if kind in REASONS:
            reason, try_ = REASONS[kind]
            return Unsupported(reason, code="not-accepted", span=span_of(node), try_=try_, subject=_subject(node))
    span = span_of(node)
    if isinstance(node, exp.Func):
        word = _word(text, span)
        what = "aggregate" if isinstance(node, exp.AggFunc) else "function"
        others = "COUNT, SUM, AVG, STDDEV, MIN, MAX, MEDIAN, a quantile, MODE or CORR" if what == "aggregate" else OTHERS
        return Unsupported(f"the {what} {word} is not answered", code="unknown-function", span=span, subject=word,
                           try_=others)
    return Unsupported(f"{type(node).__name__} is not answered", code="not-accepted", span=span, subject=_subject(node))


def _refused_argument(node: exp.Expr, name: str, value: object) -> Unsupported:
    parts = value if isinstance(value, list) else [value]
    inner = next((part for part in parts if isinstance(part, exp.Expr)), None)
    subject = _subject(node) if isinstance(node, exp.Table | exp.Join) else f"{type(node).__name__}.{name}"
    default = (f"{name.strip('_').replace('_', ' ').upper()} is not answered here", "")
    if isinstance(node, exp.Func):
        default = ("this function is not answered with these arguments", "")
    reason, try_ = ARGUMENTS.get((type(node), name), default)
    return Unsupported(reason, code="not-accepted", span=span_of(inner or node), try_=try_, subject=subject)


def _subject(node: exp.Expr) -> str:
    """The table that is read or joined there; for other nodes, the kind of syntax."""
    table = node.this if isinstance(node, exp.Join) else node
    return str(table.alias_or_name) if isinstance(table, exp.Table) and table.alias_or_name else type(node).__name__


def _word(text: str, span: Span | None) -> str:
    """The name of a function as it is written."""
    written = text[span.start : span.end].split("(")[0].strip() if span is not None else ""
    return written.lower() or "here"


def parameter_of(node: exp.Expr) -> str | None:
    """The name of the parameter that a node represents; None for other nodes."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.args.get("table") is None:
        name = str(node.this.this)
        return name[1:] if name.startswith(PARAMETER) else None
    return None
