"""Tables that map sqlglot's nodes to our functions: the words of the dialect."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from dpsql.questions.all_aggregates import AGGREGATES
from dpsql.trusted.plan.expr.functions import TABLE, Function
from dpsql.types import Type

# Aggregates of one of two columns over the rows where both have a value: the aggregate, and which column.
OF_ONE: dict[type[exp.Expr], tuple[str, int]] = {exp.RegrCount: ("count", 0), exp.RegrAvgy: ("avg", 0), exp.RegrAvgx: ("avg", 1)}

# Aggregates that have a syntax of their own, and what stands around aggregates.
_READ_APART = (exp.Count, exp.CountIf, exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile,
               exp.Mode, exp.WithinGroup, exp.Filter, exp.ArgMax, exp.ArgMin)

# Functions that are known only before OVER.
WINDOWED = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue,
            exp.NthValue)

# Operators, whose arguments stand in these keys of sqlglot's node, in the order of our table.
_BOTH = ("this", "expression")
_OPERATORS: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.EQ: ("=", _BOTH), exp.NEQ: ("<>", _BOTH), exp.LT: ("<", _BOTH), exp.LTE: ("<=", _BOTH), exp.GT: (">", _BOTH),
    exp.GTE: (">=", _BOTH), exp.NullSafeEQ: ("is not distinct from", _BOTH), exp.NullSafeNEQ: ("is distinct from", _BOTH),
    exp.Mul: ("*", _BOTH), exp.Div: ("/", _BOTH), exp.IntDiv: ("//", _BOTH), exp.Mod: ("%", _BOTH), exp.Pow: ("pow", _BOTH),
    exp.Glob: ("glob", _BOTH), exp.BitwiseAnd: ("&", _BOTH), exp.BitwiseOr: ("|", _BOTH),
}

# Functions that sqlglot knows by name only, and that are no row of the table.
_UNLISTED = {"date_part": "date_part", "datepart": "date_part", "bin_floor": "bin_floor",
             "date_sub": "date_sub", "datesub": "date_sub"}


_CALL = re.compile(r"(\w+)\(({0}(?:, {0})*)\)".format(r"(?:\w+|'[^',]*')"))


def calls_of(row: Function) -> list[tuple[str, int]]:
    """The ways to call a function as word(a, b) with the arguments of an overload: the word and the number of arguments."""
    found = [(call[1], call[2].count(", ") + 1) for way in row.written if (call := _CALL.fullmatch(way))]
    return [(word, count) for word, count in dict.fromkeys(found) if any(
        len(over.args) == count or (over.variadic and len(over.args) <= count) for over in row.overloads)]


def _called() -> tuple[dict[type[exp.Expr], tuple[str, tuple[str, ...]]], dict[str, str]]:
    """What sqlglot makes of the calls word(a, b) of the table: nodes, with the function and the keys of the arguments in their
    order; and the functions that it knows by name only.

    Nodes that hold anything else, such as the side of TRIM, are left out: the binder needs a method of its own for them.
    """
    calls = [(name, word, count) for name, row in TABLE.items() for word, count in calls_of(row)]
    (tree,) = DuckDB().parse("SELECT " + ", ".join(f"{word}({', '.join(_letters(count))})" for _, word, count in calls))
    nodes, names = dict[type[exp.Expr], tuple[str, tuple[str, ...]]](), dict[str, str]()
    for (name, word, count), node in zip(calls, tree.expressions if tree is not None else (), strict=True):
        keys = _keys(node, count)
        if isinstance(node, exp.Anonymous):
            names[word] = name
        elif keys is not None:
            other, longest = nodes.get(type(node), (name, keys))
            if other != name or keys[: len(longest)] != longest[:count]:
                raise ValueError(f"sqlglot reads {word}() as it reads {other}()")
            nodes[type(node)] = name, max(longest, keys, key=len)
    return nodes, names


def _letters(count: int) -> list[str]:
    return [f"a{i}" for i in range(count)]


def _keys(node: exp.Expr, count: int) -> tuple[str, ...] | None:
    """The keys of the arguments in their order; None if the node holds anything else."""
    held = {key: value for key, value in node.args.items() if value not in (None, False, [])}
    found = {value.name: key for key, value in held.items() if isinstance(value, exp.Column)}
    return tuple(found[name] for name in _letters(count)) if len(held) == len(found) == count else None


def _aggregates() -> tuple[dict[type[exp.Expr], str], dict[str, str]]:
    """What sqlglot makes of the ways to write the aggregates of the table: nodes, and names of those that it does not know."""
    ways = [(name, way) for name, row in AGGREGATES.items() for way in row.written]
    (tree,) = DuckDB().parse("SELECT " + ", ".join(way for _, way in ways))
    nodes, names = dict[type[exp.Expr], str](), dict[str, str]()
    for (name, _), node in zip(ways, tree.expressions if tree is not None else (), strict=True):
        if isinstance(node, exp.Anonymous):
            names[str(node.this).lower()] = name
        elif nodes.setdefault(type(node), name) != name:
            raise ValueError(f"sqlglot reads {name}() as it reads {nodes[type(node)]}()")
    return nodes, names


CALLS, _NAMES = _called()
AGGREGATE_NODES, NAMED_AGGREGATES = _aggregates()
ALL_AGGREGATES = (*AGGREGATE_NODES, *OF_ONE, *_READ_APART)
SIMPLE = {**CALLS, **_OPERATORS}  # functions and operators that a node says all about
NAMED = {**_NAMES, **_UNLISTED, **NAMED_AGGREGATES}

PARTS = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "week", "DAY": "day", "DOW": "dayofweek",
         "DAYOFWEEK": "dayofweek", "WEEKDAY": "dayofweek", "ISODOW": "isodow", "DOY": "dayofyear", "DAYOFYEAR": "dayofyear",
         "HOUR": "hour", "MINUTE": "minute", "SECOND": "second", "DECADE": "decade", "CENTURY": "century", "EPOCH": "epoch"}

TYPES = {"INT": "INTEGER", "BIGINT": "BIGINT", "SMALLINT": "SMALLINT", "TINYINT": "TINYINT", "UINT": "UINTEGER",
         "USMALLINT": "USMALLINT", "UTINYINT": "UTINYINT", "DOUBLE": "DOUBLE", "FLOAT": "FLOAT", "TEXT": "VARCHAR",
         "VARCHAR": "VARCHAR", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPNTZ": "TIMESTAMP", "BOOLEAN": "BOOLEAN"}


def carrier_of(target: str) -> Type:
    """The type of expressions that carries the values of a type of SQL."""
    if target.startswith("DECIMAL") or target == "FLOAT":
        return Type.DOUBLE
    return Type.BIGINT if "INT" in target else Type[target]


# Words that a query may use as functions, for hints at mistyped ones; those of the tables are added below.
_OTHERS = """
    if bin_floor count count_if median quantile mode approx_quantile quantile_cont quantile_disc percentile_cont percentile_disc
    regr_count regr_avgx regr_avgy row_number dense_rank ntile first_value last_value
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
WORDS = tuple(sorted({*_OTHERS.split(), *(
    call[1] for table in (TABLE, AGGREGATES) for row in table.values() for way in row.written
    if (call := re.match(r"(\w+)\(", way)))}))
RESERVED = frozenset(_RESERVED.split())
