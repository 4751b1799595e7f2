"""The SQL by which a cell becomes a value: total functions of that cell alone.

A cell that is not of its type is NULL. Where a cast of the engine would change a value in silence, the cell is not of its type
either: 4.6 is no BIGINT, a time is no DATE, and 1_000 is no number.

A cell that is kept as another type than it is declared to have is read by its text, as one of a CSV file is. So 1.0 is the text
1, and the number 20240131 a date by the format %Y%m%d.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dpsql.catalog.reading import USUAL_CELL, CellReading
from dpsql.catalog.schema import carried_as
from dpsql.trusted.plan.expr.printing import quote, text_literal

BLANKS = " \t\r\n\f\v\u00a0"
WHOLE = r"\s*[+-]?[0-9]+(\.0*)?\s*"
NUMBER = r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*"
DAY = r"\s*[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}"
OFFSET = r"\s*(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
TIME = rf"{DAY}([T ]\s*[0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]+)?)?({OFFSET})?)?\s*"
WITH_OFFSET = rf".*:.*{OFFSET}\s*"
NUMBERS = "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U", "FLOAT", "DOUBLE", "DECIMAL"
LARGE = "1e15"  # whole numbers below are written with all of their digits
TRUTH = r"\s*(?i:true|false|t|f|yes|no|y|n|0|1)\s*"


def text_of(cell: str, how: CellReading) -> str:
    """The SQL for a text `cell` after cleaning, before it is converted to its type. `cell` is SQL too."""
    text = f"trim({cell}, {text_literal(BLANKS)})" if how.trim else cell
    if how.null:
        words = ", ".join(text_literal(str(word)) for word in how.null)
        text = f"CASE WHEN {text} NOT IN ({words}) THEN {text} END"
    if how.case:
        text = f"{how.case}({text})"
    if how.aliases:
        whens = " ".join(f"WHEN {text_literal(other)} THEN {text_literal(meant)}" for other, meant in how.aliases.items())
        text = f"CASE {text} {whens} ELSE {text} END"
    if how.decimal_mark != "." and how.type in ("BIGINT", "DOUBLE"):
        sign = re.escape(how.decimal_mark)
        whole = rf"\s*[+-]?([0-9]+|[0-9]{{1,3}}(\.[0-9]{{3}})+)({sign}[0-9]*)?\s*"
        text = _matching(text, whole, f"replace(replace({text}, '.', ''), {text_literal(how.decimal_mark)}, '.')")
    return text


def value_of(text: str, how: CellReading) -> str:
    """The SQL that converts the result of `text_of`, a column called `text`, to its type. The value is NULL if the conversion
    fails."""
    kind = how.type or "VARCHAR"
    if how.format and kind in ("DATE", "TIMESTAMP"):
        return f"CAST(try_strptime({text}, {text_literal(how.format)}) AS {kind})"
    match kind:
        case "VARCHAR":
            return text
        case "BIGINT":
            return _matching(text, WHOLE, f"TRY_CAST({text} AS BIGINT)")
        case "DOUBLE":
            number = f"TRY_CAST({text} AS DOUBLE)"
            return _matching(text, NUMBER, f"NULLIF(abs({number}), 'inf'::DOUBLE) * 0 + {number}")  # infinities are NULL
        case "DATE":
            return _matching(text, rf"{DAY}\s*", f"TRY_CAST({text} AS DATE)")
        case "BOOLEAN":
            return _matching(text, TRUTH, f"TRY_CAST(trim({text}) AS BOOLEAN)")
    there = f"timezone({text_literal(how.zone)}, TRY_CAST(replace({text}, 'Z', '+00') AS TIMESTAMPTZ))"
    return _matching(text, TIME, f"CASE WHEN regexp_full_match({text}, {text_literal(WITH_OFFSET)}) THEN {there} "
                                 f"ELSE TRY_CAST({text} AS TIMESTAMP) END")


def values_of_texts(table: str, cells: Mapping[str, CellReading], *more: str) -> str:
    """The query that converts a table of texts to values, column by column, and computes `more` expressions of these texts."""
    texts = ", ".join(f"{text_of(quote(name), how)} AS {quote(name)}" for name, how in cells.items())
    values = [f"{value_of(quote(name), how)} AS {quote(name)}" for name, how in cells.items()]
    return f"SELECT {', '.join([*values, *more])} FROM (SELECT {texts} FROM {quote(table)}) AS t"


def cleaned(column: str, sql_type: str, how: CellReading) -> str:
    """The SQL that cleans a column which is stored with a type, and converts it if another type is declared. It raises no error
    for any value."""
    if is_retyped(sql_type, how):
        return _retyped(column, sql_type, how)
    if sql_type == "VARCHAR":
        return text_of(column, how)
    if sql_type == "TIMESTAMP WITH TIME ZONE":
        return f"timezone({text_literal(how.zone)}, {column})"
    if sql_type == "TIMESTAMP" and how.zone != USUAL_CELL.zone:  # a moment in UTC, as those of other databases are
        return f"timezone({text_literal(how.zone)}, timezone('UTC', {column}))"
    return _without(column, sql_type, how)


def is_retyped(sql_type: str, how: CellReading) -> bool:
    """Whether a column is read as another type than the one it is stored as."""
    kept = carried_as(sql_type)
    wanted = carried_as(how.type or "")
    return kept is not None and wanted is not None and kept[0] is not wanted[0]


def text_kept(column: str, sql_type: str, how: CellReading) -> str:
    """The text of a cell after cleaning, before it is converted to its type."""
    if sql_type not in ("DOUBLE", "FLOAT"):
        return text_of(column if sql_type == "VARCHAR" else f"CAST({column} AS VARCHAR)", how)
    number = _without(column, sql_type, how)
    whole, digits = f"{column} = trunc({column}) AND abs({column}) < {LARGE}", f"CAST(TRY_CAST({number} AS BIGINT) AS VARCHAR)"
    return text_of(f"CASE WHEN {whole} THEN {digits} ELSE CAST({number} AS VARCHAR) END", how)


def _retyped(column: str, sql_type: str, how: CellReading) -> str:
    if sql_type in ("DOUBLE", "FLOAT") and how.type == "BIGINT":
        return f"CASE WHEN {column} = trunc({column}) THEN TRY_CAST({_without(column, sql_type, how)} AS BIGINT) END"
    return value_of(text_kept(column, sql_type, how), how)


def _without(column: str, sql_type: str, how: CellReading) -> str:
    """A number without those that stand for NULL; any other value as it is."""
    words = [f"CAST({word!r} AS DOUBLE)" for word in how.null if isinstance(word, int | float)]
    if not words or not sql_type.upper().startswith(NUMBERS):
        return column
    return f"CASE WHEN CAST({column} AS DOUBLE) NOT IN ({', '.join(words)}) THEN {column} END"


def _matching(text: str, pattern: str, value: str) -> str:
    return f"CASE WHEN regexp_full_match({text}, {text_literal(pattern)}) THEN {value} END"
