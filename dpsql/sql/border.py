"""The allowlist at the border: which nodes of sqlglot's tree are accepted, and with which arguments.

sqlglot is no validator (its authors say so): a root SELECT can hide SELECT INTO, a data-changing CTE or a dropped FOR UPDATE.
So every node must be of a known class and may only carry known arguments; anything else is refused here, before names are
bound. Functions that are known but take part in no overload are refused later, by the binder.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.errors import Unsupported
from dpsql.sql.statement import PARAMETER
from dpsql.types import Span

_BINARY = {"this", "expression"}
_UNARY = {"this"}

ACCEPTED: dict[type[exp.Expr], set[str]] = {
    # queries
    exp.Select: {"expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "with_", "distinct"},
    exp.Union: {"this", "expression", "distinct", "with_", "order", "limit", "offset"},
    exp.Subquery: {"this", "alias", "with_"}, exp.Values: {"expressions", "alias"}, exp.Tuple: {"expressions"},
    exp.With: {"expressions"}, exp.CTE: {"this", "alias"}, exp.TableAlias: {"this", "columns"},
    exp.From: _UNARY, exp.Table: {"this", "alias"}, exp.Join: {"this", "side", "kind", "on", "using"},
    exp.Where: _UNARY, exp.Having: _UNARY, exp.Group: {"expressions", "all"},
    exp.Order: {"expressions", "this"}, exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Limit: {"expression"}, exp.Offset: {"expression"}, exp.Distinct: {"expressions"},
    exp.Alias: {"this", "alias"}, exp.Star: set(), exp.Column: {"this", "table"}, exp.Identifier: {"this", "quoted"},
    # constants
    exp.Literal: {"this", "is_string"}, exp.Boolean: _UNARY, exp.Null: set(), exp.Var: _UNARY,
    exp.Interval: {"this", "unit"}, exp.DataType: {"this", "nested", "expressions"}, exp.DataTypeParam: _UNARY,
    exp.Array: {"expressions", "value_constructor"},
    # operators
    exp.Paren: _UNARY, exp.And: _BINARY, exp.Or: _BINARY, exp.Not: _UNARY, exp.EQ: _BINARY, exp.NEQ: _BINARY, exp.LT: _BINARY,
    exp.LTE: _BINARY, exp.GT: _BINARY, exp.GTE: _BINARY, exp.NullSafeEQ: _BINARY, exp.NullSafeNEQ: _BINARY, exp.Is: _BINARY,
    exp.Between: {"this", "low", "high"}, exp.In: {"this", "expressions", "query"}, exp.Exists: _UNARY,
    exp.Like: {"this", "expression", "negate"}, exp.ILike: {"this", "expression", "negate"},
    exp.Add: _BINARY, exp.Sub: _BINARY, exp.Mul: _BINARY, exp.Div: {"this", "expression", "typed", "safe"}, exp.IntDiv: _BINARY,
    exp.Mod: _BINARY, exp.Neg: _UNARY, exp.Pow: _BINARY, exp.DPipe: {"this", "expression", "safe"},
    exp.Case: {"this", "ifs", "default"}, exp.If: {"this", "true", "false"}, exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to", "safe"}, exp.Coalesce: {"this", "expressions"}, exp.Nullif: _BINARY,
    exp.Greatest: {"this", "expressions", "ignore_nulls"}, exp.Least: {"this", "expressions", "ignore_nulls"},
    exp.Concat: {"expressions", "safe", "coalesce"},
    # functions
    exp.Abs: _UNARY, exp.Sign: _UNARY, exp.Floor: _UNARY, exp.Ceil: _UNARY, exp.Round: {"this", "decimals"}, exp.Trunc: _UNARY,
    exp.Sqrt: _UNARY, exp.Cbrt: _UNARY, exp.Ln: _UNARY, exp.Log: _BINARY, exp.Exp: _UNARY, exp.Sin: _UNARY, exp.Cos: _UNARY,
    exp.Tan: _UNARY, exp.Atan: _UNARY, exp.Radians: _UNARY, exp.Degrees: _UNARY, exp.IsNan: _UNARY, exp.IsInf: _UNARY,
    exp.Lower: _UNARY, exp.Upper: _UNARY, exp.Trim: {"this", "position"}, exp.Length: _UNARY,
    exp.Substring: {"this", "start", "length"}, exp.Left: _BINARY, exp.Right: _BINARY, exp.Contains: _BINARY,
    exp.StartsWith: _BINARY, exp.EndsWith: _BINARY, exp.StrPosition: {"this", "substr"}, exp.Reverse: _UNARY,
    exp.RegexpLike: _BINARY, exp.RegexpFullMatch: _BINARY,
    exp.Year: _UNARY, exp.Quarter: _UNARY, exp.Month: _UNARY, exp.Week: _UNARY, exp.Day: _UNARY, exp.DayOfYear: _UNARY,
    exp.DayOfWeek: _UNARY, exp.DayOfWeekIso: _UNARY, exp.Hour: _UNARY, exp.Minute: _UNARY, exp.Second: _UNARY,
    exp.DayOfMonth: _UNARY, exp.WeekOfYear: _UNARY,
    exp.Extract: _BINARY, exp.TimestampTrunc: {"this", "unit"}, exp.DateTrunc: {"this", "unit"},
    exp.DateDiff: {"this", "expression", "unit", "date_part_boundary"}, exp.Anonymous: {"this", "expressions"},
    # aggregates
    exp.Count: {"this", "big_int"}, exp.Sum: _UNARY, exp.Avg: _UNARY, exp.Min: _UNARY, exp.Max: _UNARY, exp.Median: _UNARY,
    exp.Variance: _UNARY, exp.VariancePop: _UNARY, exp.Stddev: _UNARY, exp.StddevPop: _UNARY, exp.StddevSamp: _UNARY,
    exp.PercentileCont: _BINARY, exp.PercentileDisc: _BINARY, exp.Quantile: {"this", "quantile"}, exp.WithinGroup: _BINARY,
    exp.CountIf: _UNARY, exp.Filter: _BINARY,
}

REASONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Window: ("window functions are not answered", "an aggregate with GROUP BY"),
    exp.Except: ("EXCEPT is not answered", "NOT EXISTS against a public table"),
    exp.Intersect: ("INTERSECT is not answered", "IN against a public table"),
    exp.Rollup: ("ROLLUP is not answered", "one statement for each level"),
    exp.Cube: ("CUBE is not answered", "one statement for each level"),
    exp.GroupingSets: ("GROUPING SETS are not answered", "one statement for each level"),
    exp.Escape: ("LIKE with ESCAPE is not answered", "contains, starts_with or ends_with"),
    exp.Collate: ("collations are not answered", "lower(x) = lower(y)"),
    exp.Any: ("ANY is not answered", "IN, or EXISTS"), exp.All: ("ALL is not answered", "NOT EXISTS"),
    exp.ApproxDistinct: ("approximate counts are not needed", "COUNT(DISTINCT x)"),
    exp.ApproxQuantile: ("approximate quantiles are not needed", "quantile_cont(x, 0.5)"),
    exp.Mode: ("MODE is not answered", "COUNT(*) with GROUP BY x ORDER BY 1 DESC LIMIT 1"),
    exp.AnyValue: ("a value of some row is not answered", "MIN, MAX or MEDIAN"),
    exp.First: ("a value of some row is not answered", "MIN, MAX or MEDIAN"),
    exp.Bracket: ("lists and slices are not answered", "substring(x, 1, 2)"),
    exp.BitwiseAnd: ("bit operators are not answered", ""), exp.BitwiseOr: ("bit operators are not answered", ""),
    exp.BitwiseXor: ("bit operators are not answered", ""), exp.BitwiseNot: ("bit operators are not answered", ""),
    exp.SimilarTo: ("SIMILAR TO is not answered", "regexp_full_match(x, 'pattern')"),
    exp.Pivot: ("PIVOT is not answered", "SUM(...) FILTER (WHERE ...)"),
    exp.TableSample: ("samples are not answered", "the whole table: noise already hides who is in it"),
    exp.Lock: ("FOR UPDATE is not answered", ""), exp.Into: ("a query cannot make a table", "leave INTO out"),
    exp.LimitOptions: ("LIMIT takes a number of rows", "LIMIT 10"), exp.Lambda: ("lambda functions are not answered", ""),
}

ARGUMENTS: dict[tuple[type[exp.Expr], str], tuple[str, str]] = {
    (exp.With, "recursive"): ("recursive queries have no bound", "a fixed number of joins"),
    (exp.CTE, "materialized"): ("MATERIALIZED has no meaning here", "WITH name AS (SELECT ...)"),
    (exp.Table, "db"): ("tables are named without a schema", "the table's name alone"),
    (exp.Table, "catalog"): ("tables are named without a schema", "the table's name alone"),
    (exp.Table, "sample"): ("samples are not answered", "the whole table: noise already hides who is in it"),
    (exp.Select, "qualify"): ("QUALIFY is not answered", "a limit of rows for each entity in the policy"),
    (exp.Select, "into"): ("a query cannot make a table", "leave INTO out"),
    (exp.Select, "locks"): ("FOR UPDATE is not answered", "leave it out"),
    (exp.Select, "windows"): ("window functions are not answered", "an aggregate with GROUP BY"),
    (exp.Join, "method"): ("this kind of join is not answered", "JOIN ... ON or JOIN ... USING"),
    (exp.Star, "except_"): ("EXCLUDE is not answered", "the names of the columns"),
    (exp.Star, "replace"): ("REPLACE is not answered", "the names of the columns"),
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC is not answered", "least(a, b) and greatest(a, b) as ends"),
    (exp.Distinct, "on"): ("DISTINCT ON is not answered", "GROUP BY with MIN or MAX"),
    (exp.In, "field"): ("IN takes a list or a subquery", "x IN (1, 2)"),
}


def check(tree: exp.Expr) -> None:
    """Refuse a tree that holds anything but accepted nodes with accepted arguments."""
    for node in tree.walk(bfs=False):
        kind = type(node)
        if kind not in ACCEPTED:
            reason, try_ = REASONS.get(kind, (f"{_name(node)} is not answered", ""))
            raise Unsupported(reason, code="not-accepted", span=span_of(node), try_=try_, subject=kind.__name__)
        for name, value in node.args.items():
            if value is None or value is False or value == [] or name in ACCEPTED[kind]:
                continue
            reason, try_ = ARGUMENTS.get((kind, name), (f"{name.strip('_').upper()} is not answered here", ""))
            raise Unsupported(reason, code="not-accepted", span=span_of(node), try_=try_, subject=f"{kind.__name__}.{name}")
        if isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.EQ | exp.NEQ) and isinstance(
                node.this, exp.LT | exp.LTE | exp.GT | exp.GTE | exp.EQ | exp.NEQ):
            raise Unsupported("a chain of comparisons is read differently by different engines", code="not-accepted",
                              span=span_of(node), try_="a < b AND b < c")


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name().lower()}"
    return type(node).__name__


def span_of(node: exp.Expr | None) -> Span | None:
    """The stretch of text that a node and all below it came from; that of the nearest node above where it left no trace."""
    while node is not None:
        found: Span | None = None
        for part in node.walk():
            start, end = part.meta.get("start"), part.meta.get("end")
            if start is not None and end is not None:
                found = Span(start, end + 1).join(found)
        if found is not None:
            return found
        node = node.parent
    return None


def parameter_of(node: exp.Expr) -> str | None:
    """The name of the parameter that a node stands for."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        name = str(node.this.this)
        return name[1:] if name.startswith(PARAMETER) else None
    return None
