"""Views that show the same rows whenever they are read: those that pick, join and filter stored tables.

The bounds of a statement count the rows of a public table once and read them again later. A view may differ between the two: by
the clock, by chance, by the order in which threads deliver rows (LIMIT), by a sequence. And it may tell of private tables without
reading one, as `duckdb_tables()` counts their rows. Whether a text can do any of this is not decided in general, so a view is
taken to be fixed only if it is made of the parts listed here, over stored tables and other fixed views.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import SqlglotError

PARTS = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Alias, exp.Star, exp.Literal, exp.Boolean,
    exp.Null, exp.Paren, exp.Where, exp.Join, exp.Distinct, exp.Union, exp.Except, exp.Intersect, exp.Subquery, exp.Order,
    exp.Ordered, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Is, exp.In, exp.Any, exp.Between, exp.Like, exp.Case, exp.If, exp.Coalesce, exp.Cast, exp.DataType, exp.DataTypeParam,
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Upper, exp.Lower)

CLOCK = ("now", "today", "tomorrow", "yesterday")  # texts that stand for a moment, where one is compared with them


def fixed_views(texts: Mapping[str, str], stored: frozenset[str]) -> frozenset[str]:
    """Those of some views, given by their defining texts, that are fixed: they read only `stored` tables, directly or through
    other fixed views. Names are in lower case."""
    reads = {name: found for name, text in texts.items() if (found := _read_by(text)) is not None}
    fixed: frozenset[str] = frozenset()
    while more := {name for name, read in reads.items() if name not in fixed and read <= stored | fixed}:
        fixed |= more
    return fixed


def _read_by(text: str) -> frozenset[str] | None:
    """The names of what the text of a view reads; None if it is not made of the parts alone."""
    try:
        (made,) = parse(text, dialect="duckdb", error_level=ErrorLevel.RAISE)
    except (SqlglotError, ValueError):
        return None
    if not isinstance(made, exp.Create) or not isinstance(made.expression, exp.Query):
        return None
    parts = list(made.expression.walk())
    if not all(type(part) in PARTS and _is_plain(part) for part in parts):
        return None
    return frozenset(part.name.lower() for part in parts if isinstance(part, exp.Table))


def _is_plain(part: exp.Expr) -> bool:
    """Whether a part is one whose result follows from the rows that it is given, in any order of them."""
    match part:
        case exp.Table():
            return isinstance(part.this, exp.Identifier) and not part.catalog and part.db in ("", "main")
        case exp.Join():
            return not part.args.get("method")
        case exp.Distinct():
            return part.args.get("on") is None
        case exp.Literal():
            return not part.is_string or part.name.strip().lower() not in CLOCK
        case exp.DataType():
            # a type that the file names may be another name of a type of moments
            return part.this not in exp.DataType.TEMPORAL_TYPES | {exp.DType.USERDEFINED}
    return True
