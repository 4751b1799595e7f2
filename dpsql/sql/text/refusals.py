"""Why a piece of SQL is not accepted, and what to write instead: for kinds of node, and for arguments of accepted ones."""

from __future__ import annotations

from sqlglot import exp

_SOME_ROW = ("an aggregate that shows the value of a single row is not answered", "MIN or MAX; or, for one entity's rows, a "
                                                                                  "subquery with "
             "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1")
_NOW = ("the current time is not available in a query", "a constant, such as DATE '2020-12-31', or a parameter")
_CHANCE = ("random numbers are not answered", "nothing: the noise of the answer is drawn elsewhere")
_CHANGE = ("a statement cannot change data", "a SELECT")
_LISTS = ("lists, structs and maps are not answered", "one column for each value")
_JSON = ("JSON is not answered", "a column that the owner takes out of it")
_MAKES_ROWS = ("functions in FROM are not answered", "a table that the policy declares")
_SERIES = ("in FROM, only UNNEST of a list of constants and generate_series or range of up to 1000 constants are answered",
           "FROM UNNEST([1, 2, 3]) AS u(x), or FROM generate_series(0, 90, 10) AS s(x)")
_SAMPLE = ("samples are not answered", "the whole table; noise already protects everyone in it")
_DURATION = ("an interval is a whole number of seconds, minutes, hours, days, weeks, months or years", "INTERVAL 3 DAY")
_SHAPE = ("skewness and kurtosis are not answered", "QUANTILE_CONT(x, 0.1), MEDIAN(x), QUANTILE_CONT(x, 0.9)")
_SPREAD = ("sums of squared distances are not answered", "VAR_POP(x) * COUNT(x), over the rows in which both have values")
RELEASED_RANK = "x <= (SELECT QUANTILE_CONT(x, 0.25) FROM t)"
_RELATIVE = ("relative ranks are answered without arguments and frames", "PERCENT_RANK() OVER (PARTITION BY k ORDER BY x)")
LATERAL = ("LATERAL is answered only for expressions, or for aggregates over the rows linked to the outer row",
           "the subquery as a value: SELECT ... FROM (SELECT *, (SELECT COUNT(*) FROM t WHERE t.key = p.key) AS n FROM p) AS s")
_TOP = ("lists of values are not answered", "a SELECT of x and COUNT(*) with GROUP BY x ORDER BY 2 DESC LIMIT 3")

REASONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.IgnoreNulls: ("IGNORE NULLS is not answered", "WHERE x IS NOT NULL in a subquery"),
    exp.RespectNulls: ("RESPECT NULLS is the default", "the function without it"),
    exp.Collate: ("collations are not answered", "lower(x) = lower(y)"),
    exp.PercentRank: _RELATIVE, exp.CumeDist: _RELATIVE,
    exp.ApproxDistinct: ("approximate counts are not needed", "COUNT(DISTINCT x)"),
    exp.AnyValue: _SOME_ROW, exp.First: _SOME_ROW, exp.Last: _SOME_ROW,
    exp.ArrayAgg: ("lists of values are not answered", "COUNT(*) with GROUP BY x, which shows which values occur"),
    exp.GroupConcat: ("lists of values are not answered", "COUNT(*) with GROUP BY x, which shows which values occur"),
    exp.Skewness: _SHAPE, exp.Kurtosis: _SHAPE, exp.RegrSxx: _SPREAD, exp.RegrSyy: _SPREAD, exp.ApproxTopK: _TOP,
    exp.RegrSxy: ("sums of products of distances are not answered", "COVAR_POP(y, x) * REGR_COUNT(y, x)"),
    exp.LogicalAnd: ("BOOL_AND is answered for the rows of one entity only", "COUNT(*) FILTER (WHERE NOT x)"),
    exp.LogicalOr: ("BOOL_OR is answered for the rows of one entity only", "COUNT(*) FILTER (WHERE x)"),
    exp.Bracket: ("lists and slices are not answered", "substring(x, 1, 2)"),
    exp.Slice: ("lists and slices are not answered", "substring(x, 1, 2)"),
    exp.Struct: _LISTS, exp.List: _LISTS, exp.Map: _LISTS, exp.ToMap: _LISTS, exp.Dot: _LISTS, exp.Lambda: _LISTS,
    exp.Kwarg: _LISTS, exp.PropertyEQ: _LISTS, exp.JSONExtract: _JSON, exp.JSONExtractScalar: _JSON,
    exp.Xor: ("XOR is not answered", "xor(a, b) of whole numbers, or a <> b of conditions"),
    exp.RegexpILike: ("this form of a regular expression is not answered", "regexp_matches(lower(x), 'pattern')"),
    exp.WidthBucket: ("DuckDB has no function width_bucket", "floor(x / 10), or bin_floor(x) with declared bins"),
    exp.Pivot: ("PIVOT is not answered", "SUM(...) FILTER (WHERE ...)"),
    exp.TableSample: _SAMPLE, exp.Lock: ("FOR UPDATE is not answered", "the query without it"),
    exp.Into: ("a query cannot make a table", "the query without INTO"),
    exp.LimitOptions: ("LIMIT takes a number of rows", "LIMIT 10"),
    exp.Fetch: ("FETCH takes a number of rows, without ties", "LIMIT 10"),
    exp.Unnest: _SERIES, exp.Explode: _SERIES, exp.GenerateSeries: _SERIES,
    exp.ReadCSV: _MAKES_ROWS, exp.ReadParquet: _MAKES_ROWS,
    exp.HexString: ("bytes are not answered", "a number in digits, or a text"),
    exp.ByteString: ("texts with escapes are not answered", "the letters themselves"),
    exp.CurrentDate: _NOW, exp.CurrentTime: _NOW, exp.CurrentTimestamp: _NOW, exp.CurrentDatetime: _NOW, exp.Localtime: _NOW,
    exp.Localtimestamp: _NOW, exp.Rand: _CHANCE, exp.Randn: _CHANCE, exp.Uuid: _CHANCE,
    exp.CurrentUser: ("the user is not available in a query", "a constant or a parameter"),
    exp.AtTimeZone: ("time zones are not answered", "moments in one zone"),
    exp.ToDays: _DURATION, exp.Insert: _CHANGE, exp.Update: _CHANGE, exp.Delete: _CHANGE, exp.Merge: _CHANGE, exp.Create: _CHANGE,
    exp.Drop: _CHANGE, exp.Command: _CHANGE, exp.Copy: _CHANGE,
    exp.Parameter: ("this is not a parameter", "?, $1, $name or :name"), exp.Placeholder: ("this is not a parameter",
                                                                                         "?, $1, $name or :name"),
    exp.Columns: ("COLUMNS(...) is not answered", "the names of the columns"),
    exp.PositionalColumn: ("columns are referred to by name", "the name of the column"),
}

BY_ORDER: dict[type[exp.Expr], tuple[str, str]] = {  # aggregates that are answered for the rows of one entity only
    kind: (f"{name} shows the value of a single row, so it is answered for the rows of one entity only, in a subquery",
           f"SELECT AVG(v) FROM (SELECT k, {name}(x, y) AS v FROM t GROUP BY k) AS s, where k is the entity's key")
    for kind, name in ((exp.ArgMax, "ARG_MAX"), (exp.ArgMin, "ARG_MIN"))}
QUANTIFIED = ("ANY and ALL must be between a comparison and a list of constants, a parameter or a subquery", "x > ANY ([1, 2])")
JOINS = {
    "ASOF": "JOIN ... ON a.key = b.key AND a.x >= b.x, of which QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.x DESC) "
            "= 1 keeps the nearest",
    "POSITIONAL": "JOIN ... ON a column that says which rows belong together",
}
OTHERS = "CASE WHEN ... THEN ... END, or a function such as round(x, 1), regexp_extract(x, 'p') or date_trunc('month', d)"

# The same for functions that sqlglot knows by name only.
NAMES: dict[str, tuple[str, str]] = {
    "now": _NOW, "get_current_timestamp": _NOW, "random": _CHANCE, "setseed": _CHANCE, "gen_random_uuid": _CHANCE,
    "getenv": ("the engine's environment is not available in a query", "a constant or a parameter"),
    "current_setting": ("the engine's environment is not available in a query", "a constant or a parameter"),
    "error": ("an error on purpose would reveal that a row exists", "a condition in WHERE"),
    "mad": ("the median absolute deviation is not answered", "MEDIAN(abs(x - (SELECT MEDIAN(x) FROM t))), or STDDEV(x)"),
    "product": ("products over rows are not answered", "exp(SUM(ln(x))), of values above 0"),
    "entropy": ("the entropy of values is not answered", "a SELECT of x and COUNT(*) with GROUP BY x"), "histogram": _TOP,
    "sem": ("the standard error of a mean is not answered", "STDDEV(x) / SQRT(COUNT(x))"),
    "weighted_avg": ("weighted means are not answered", "SUM(x * w) / SUM(w)"),
    "today": _NOW, "age": (
        "age() of one date depends on the current time, which is not available in a query",
        "EXTRACT(YEAR FROM age(DATE '2020-12-31', born)), in full years"),
}

ARGUMENTS: dict[tuple[type[exp.Expr], str], tuple[str, str]] = {
    (exp.With, "recursive"): ("recursive queries have no bound", "a fixed number of joins"),
    (exp.CTE, "key_expressions"): ("USING KEY is not answered", "WITH name AS (SELECT ...)"),
    (exp.Table, "catalog"): ("tables are named without a schema", "the table's name alone"),
    (exp.Column, "catalog"): ("columns are named by table and column only", "table.column"),
    (exp.Table, "sample"): _SAMPLE, (exp.Select, "sample"): _SAMPLE, (exp.Subquery, "sample"): _SAMPLE,
    (exp.Table, "pivots"): REASONS[exp.Pivot], (exp.Subquery, "pivots"): REASONS[exp.Pivot],
    (exp.Table, "ordinality"): _MAKES_ROWS, (exp.Table, "when"): ("earlier versions of a table are not available", "the table's "
                                                                                                                   "name alone"),
    (exp.Select, "into"): REASONS[exp.Into], (exp.Select, "locks"): REASONS[exp.Lock], (exp.Subquery, "locks"): REASONS[exp.Lock],
    (exp.WindowSpec, "exclude"): ("EXCLUDE is not answered", "a frame of the rows before, such as ROWS BETWEEN 2 PRECEDING AND "
                                  "1 PRECEDING"),
    (exp.Select, "kind"): _LISTS, (exp.Select, "hint"): ("hints are not answered", ""),
    (exp.Select, "laterals"): LATERAL,
    (exp.Select, "distribute"): ("this clause is not answered", ""), (exp.Select, "cluster"): ("this clause is not answered", ""),
    (exp.Select, "sort"): ("this clause is not answered", "ORDER BY"),
    (exp.Subquery, "limit"): ("LIMIT after brackets is not answered", "LIMIT inside them"),
    (exp.Subquery, "offset"): ("OFFSET after brackets is not answered", "OFFSET inside them"),
    (exp.Subquery, "order"): ("ORDER BY after brackets is not answered", "ORDER BY inside them"),
    **{(kind, "by_name"): ("BY NAME is not answered", "the columns of both queries in one order")
       for kind in (exp.Intersect, exp.Except)},
    (exp.Between, "symmetric"): ("BETWEEN SYMMETRIC is not answered", "x BETWEEN least(a, b) AND greatest(a, b)"),
    (exp.Distinct, "on"): ("DISTINCT ON is answered in a subquery of rows, without GROUP BY, QUALIFY or LIMIT beside it",
                           "SELECT ... FROM (SELECT ... QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1) AS t"),
    (exp.In, "field"): ("IN takes a list or a subquery", "x IN (1, 2)"),
    (exp.Limit, "expressions"): ("LIMIT takes a number of rows", "LIMIT 10"),
    (exp.Limit, "offset"): ("LIMIT takes a number of rows", "LIMIT 10 OFFSET 5"),
    (exp.Limit, "limit_options"): ("LIMIT takes a number of rows", "LIMIT 10"),
    (exp.Group, "rollup"): ("WITH ROLLUP is not answered", "GROUP BY ROLLUP (a, b)"),
    (exp.Group, "cube"): ("WITH CUBE is not answered", "GROUP BY CUBE (a, b)"),
    (exp.Group, "totals"): ("WITH TOTALS is not answered", "GROUP BY GROUPING SETS ((a), ())"),
    (exp.Count, "expressions"): ("COUNT takes one expression", "COUNT(*), or COUNT(x)"),
    (exp.Trim, "collation"): REASONS[exp.Collate],
    (exp.Trunc, "decimals"): ("trunc takes one number", "floor(x * 100) / 100"),
    (exp.Cast, "format"): ("casts with a format are not answered", "CAST(x AS DATE)"),
    (exp.Order, "this"): ("ORDER BY inside an aggregate is not answered", "the aggregate without it"),
    (exp.DataType, "nested"): _LISTS,
    (exp.Ordered, "with_fill"): ("WITH FILL is not answered", "a GROUP BY over a declared domain, which shows every group"),
}
