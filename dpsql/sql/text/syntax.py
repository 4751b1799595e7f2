"""Which of sqlglot's nodes is which function of ours: the words of the dialect, as tables."""

from __future__ import annotations

from sqlglot import exp

AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop,
              exp.StddevSamp, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.WithinGroup, exp.CountIf, exp.Filter)

# Functions that are known only before OVER.
WINDOWED = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue)

# Functions whose arguments stand in these keys of sqlglot's node, in the order of our table.
SIMPLE: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.EQ: ("=", ("this", "expression")), exp.NEQ: ("<>", ("this", "expression")),
    exp.LT: ("<", ("this", "expression")), exp.LTE: ("<=", ("this", "expression")),
    exp.GT: (">", ("this", "expression")), exp.GTE: (">=", ("this", "expression")),
    exp.NullSafeEQ: ("is not distinct from", ("this", "expression")),
    exp.NullSafeNEQ: ("is distinct from", ("this", "expression")),
    exp.Mul: ("*", ("this", "expression")), exp.Div: ("/", ("this", "expression")), exp.IntDiv: ("//", ("this", "expression")),
    exp.Mod: ("%", ("this", "expression")), exp.Pow: ("pow", ("this", "expression")),
    exp.Nullif: ("nullif", ("this", "expression")), exp.Abs: ("abs", ("this",)), exp.Sign: ("sign", ("this",)),
    exp.Floor: ("floor", ("this",)), exp.Ceil: ("ceil", ("this",)), exp.Trunc: ("trunc", ("this",)),
    exp.Round: ("round", ("this", "decimals")), exp.Sqrt: ("sqrt", ("this",)), exp.Cbrt: ("cbrt", ("this",)),
    exp.Ln: ("ln", ("this",)), exp.Exp: ("exp", ("this",)), exp.Sin: ("sin", ("this",)), exp.Cos: ("cos", ("this",)),
    exp.Tan: ("tan", ("this",)), exp.Atan: ("atan", ("this",)), exp.Radians: ("radians", ("this",)),
    exp.Degrees: ("degrees", ("this",)), exp.IsNan: ("isnan", ("this",)), exp.IsInf: ("isinf", ("this",)),
    exp.Lower: ("lower", ("this",)), exp.Upper: ("upper", ("this",)), exp.Length: ("length", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")), exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")), exp.Contains: ("contains", ("this", "expression")),
    exp.StartsWith: ("starts_with", ("this", "expression")), exp.EndsWith: ("ends_with", ("this", "expression")),
    exp.StrPosition: ("strpos", ("this", "substr")), exp.Reverse: ("reverse", ("this",)),
    exp.Year: ("year", ("this",)), exp.Quarter: ("quarter", ("this",)), exp.Month: ("month", ("this",)),
    exp.Week: ("week", ("this",)), exp.WeekOfYear: ("week", ("this",)), exp.Day: ("day", ("this",)),
    exp.DayOfMonth: ("day", ("this",)), exp.DayOfYear: ("dayofyear", ("this",)), exp.DayOfWeek: ("dayofweek", ("this",)),
    exp.DayOfWeekIso: ("isodow", ("this",)), exp.Hour: ("hour", ("this",)), exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
}

# Functions that sqlglot knows by name only.
NAMED = {"isfinite": "isfinite", "suffix": "ends_with", "prefix": "starts_with", "weekday": "dayofweek", "date_part": "date_part",
         "datepart": "date_part", "bin_floor": "bin_floor", "mean": "mean"}

PARTS = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "week", "DAY": "day", "DOW": "dayofweek",
         "DAYOFWEEK": "dayofweek", "WEEKDAY": "dayofweek", "ISODOW": "isodow", "DOY": "dayofyear", "DAYOFYEAR": "dayofyear",
         "HOUR": "hour", "MINUTE": "minute", "SECOND": "second"}

TYPES = {"INT": "INTEGER", "BIGINT": "BIGINT", "SMALLINT": "SMALLINT", "TINYINT": "TINYINT", "UINT": "UINTEGER",
         "USMALLINT": "USMALLINT", "UTINYINT": "UTINYINT", "DOUBLE": "DOUBLE", "FLOAT": "FLOAT", "TEXT": "VARCHAR",
         "VARCHAR": "VARCHAR", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPNTZ": "TIMESTAMP", "BOOLEAN": "BOOLEAN"}

# Words that a query may use as functions, for hints at mistyped ones.
_WORDS = """
    abs sign floor ceil ceiling round trunc sqrt cbrt ln log log2 log10 exp pow power mod sin cos tan atan radians degrees
    isnan isinf isfinite lower upper length substring substr left right contains starts_with ends_with prefix suffix
    strpos position instr reverse trim ltrim rtrim concat regexp_matches regexp_full_match coalesce ifnull nullif least
    greatest if year quarter month week day dayofyear dayofweek weekday isodow weekofyear dayofmonth hour minute second
    extract date_part date_trunc date_diff bin_floor count count_if sum avg mean min max median var_pop var_samp variance
    stddev stddev_pop stddev_samp quantile quantile_cont quantile_disc percentile_cont percentile_disc
    row_number dense_rank ntile first_value last_value
"""

# Words that DuckDB does not take as names unless they are quoted (or follow AS).
_RESERVED = """
    ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH BY CASE CAST CHECK COLLATE COLUMN CONSTRAINT CREATE DEFAULT
    DEFERRABLE DESC DESCRIBE DISTINCT DO ELSE END EXCEPT FALSE FETCH FILTER FOR FOREIGN FROM GROUP HAVING IN INITIALLY
    INTERSECT INTO LAMBDA LATERAL LEADING LIMIT NOT NULL OFFSET ON ONLY OR ORDER OVER PIVOT PIVOT_LONGER PIVOT_WIDER
    PLACING PRIMARY QUALIFY REFERENCES RETURNING SELECT SHOW SOME SUMMARIZE SYMMETRIC TABLE THEN TO TRAILING TRUE UNION
    UNIQUE UNPIVOT USING VARIADIC WHEN WHERE WINDOW WITH WITHIN ANTI ASOF CROSS FULL ILIKE INNER IS ISNULL JOIN LEFT LIKE
    NATURAL NOTNULL OUTER OVERLAPS POSITIONAL RIGHT SEMI SIMILAR TABLESAMPLE
"""
WORDS, RESERVED = tuple(sorted(_WORDS.split())), frozenset(_RESERVED.split())
