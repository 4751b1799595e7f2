"""The names that PostgreSQL chooses for columns without an alias: ``count`` for COUNT(*), ``?column?`` for a + 1.

The rules are those of FigureColname in PostgreSQL's parse_target.c: the name of a column or a function, or of the type of a cast
unless its operand has a name, and so on. Clients of PostgreSQL find their columns by these names. Elsewhere, dpsql names such a
column by its text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

NO_NAME = "?column?"
_TYPES = {
    "BIGINT": "int8", "INT": "int4", "INTEGER": "int4", "SMALLINT": "int2", "DOUBLE": "float8", "DOUBLE PRECISION": "float8",
    "FLOAT": "float8", "REAL": "float4", "DECIMAL": "numeric", "NUMERIC": "numeric", "TEXT": "text", "VARCHAR": "varchar",
    "CHAR": "bpchar", "BOOLEAN": "bool", "BOOL": "bool", "DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamptz",
    "INTERVAL": "interval", "TIME": "time", "HUGEINT": "numeric", "TINYINT": "int2"}
_CALLED = re.compile(r"(?:\w+\s*\.\s*)?(\w+)\s*\(")
_BY_CLASS: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Coalesce, "coalesce"), (exp.Nullif, "nullif"), (exp.Greatest, "greatest"), (exp.Least, "least"), (exp.Exists, "exists"),
    (exp.Array, "array"), (exp.CurrentDate, "current_date"), (exp.Extract, "extract"), (exp.AtTimeZone, "timezone"),
    (exp.Interval, "interval"))
_OPERATORS = (exp.Connector, exp.Predicate, exp.Not, exp.Neg, exp.DPipe, exp.Concat, exp.Div, exp.IntDiv, exp.Mod)
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}
_TO_VARCHAR = re.compile(r"(?:::|\bAS\b)\s*(?:varchar|character\s+varying)\b[\s\d()]*$", re.IGNORECASE)


def names_on_wire(tree: exp.Query, text: str, names: Sequence[str]) -> tuple[str, ...]:
    """PostgreSQL's names for the columns of a query's answer, given dpsql's `names`. The columns of a confidence interval keep
    their endings, _low and _high."""
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    items = first.selects if isinstance(first, exp.Select) else []
    found, left = list(names), list(range(len(names)))
    for item in items:  # from the left up to a star, which stands for an unknown number of columns
        if item.is_star:
            break
        left = left[_take(item, text, found, left):]
    else:
        return tuple(found)
    for item in reversed(items):
        if item.is_star or not left:
            break
        if not isinstance(item, exp.Alias):
            found[left[-1]] = name_of(item, text)
        left.pop()
    return tuple(found)


def _take(item: exp.Expr, text: str, found: list[str], left: Sequence[int]) -> int:
    """Name the first of the columns `left`, and those of its confidence interval if they follow. Returns the number of these
    columns."""
    if not left:
        return 0
    own = found[left[0]]
    number = 3 if [found[at] for at in left[1:3]] == [f"{own}_low", f"{own}_high"] else 1
    if not isinstance(item, exp.Alias):
        name = name_of(item, text)
        for at in left[:number]:
            found[at] = name + found[at].removeprefix(own)
    return number


def name_of(item: exp.Expr, text: str = "") -> str:
    """The name of an item of a SELECT without an alias; `text` is the text of the statement, from which functions are named."""
    return _figured(item, text)[0]


def _figured(item: exp.Expr, text: str) -> tuple[str, int]:
    """A name and its strength, as in PostgreSQL: 0 for no name, 1 for one that any other replaces, 2 for all others."""
    match item:
        case exp.Column() | exp.Identifier():
            return item.name, 2
        case exp.Alias():
            return item.alias, 2
        case exp.Filter() | exp.Window() | exp.WithinGroup() | exp.Collate() | exp.Bracket():
            return _figured(item.this, text)
        case exp.Cast(this=inner):
            name, strength = _figured(inner, text)
            return (name, strength) if strength == 2 else (_cast_name(item, text), 1)
        case exp.Case():
            default = item.args.get("default")
            name, strength = _figured(default, text) if default is not None else ("", 0)
            return (name, 2) if strength == 2 else ("case", 1)
        case exp.Subquery(this=exp.Select(selects=[inner, *_])):
            return _figured(inner, text)
        case exp.Trim():
            return _TRIMS.get(str(item.args.get("position") or "").upper(), "btrim"), 2
    for kind, name in _BY_CLASS:
        if isinstance(item, kind):
            return name, 2
    if isinstance(item, exp.Paren | exp.Func | exp.Mod) and (called := _called(item, text)):
        return called.lower(), 2
    if isinstance(item, exp.Paren):
        return _figured(item.this, text)
    if isinstance(item, exp.Func) and not isinstance(item, _OPERATORS):
        return (str(item.this) if isinstance(item, exp.Anonymous) else item.sql_name()).lower(), 2
    return NO_NAME, 0


def _called(item: exp.Expr, text: str) -> str:
    """The name of the function, as the statement writes it, if the whole item is one call; otherwise empty."""
    written = _written(item, text)
    found = _CALLED.match(written)
    if found is None or not written.endswith(")"):
        return ""
    depth = 1
    for letter in written[found.end():-1]:
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return ""
    return found[1]


def _written(item: exp.Expr, text: str) -> str:
    """The text of an item, where its place is known."""
    place = item.meta.get("place")
    return text[place.start:place.end] if place is not None else ""


def _cast_name(item: exp.Cast, text: str) -> str:
    return "varchar" if _TO_VARCHAR.search(_written(item, text).rstrip(") ")) else type_name(item.to)


def type_name(kind: exp.Expr) -> str:
    """PostgreSQL's own name of a type, such as int8 for BIGINT."""
    if isinstance(kind, exp.DataType) and kind.this is exp.DType.ARRAY and kind.expressions:
        return type_name(kind.expressions[0])
    return own_name(kind.sql(dialect="duckdb"))


def own_name(written: str) -> str:
    """PostgreSQL's own name of a type that is written in any way."""
    plain = written.split("(")[0].strip()
    return _TYPES.get(plain.upper(), plain.lower())
