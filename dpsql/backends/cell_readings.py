"""Find the types of the columns of a table of texts: for each column the first reading that all of its cells fit.

A sample of the cells rules out most readings. The others are tried on all cells, one after the other, and nearly always the first
one fits. So all rows decide, and the time grows only with their number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import duckdb

from dpsql.backends.cleaning import text_of, value_of
from dpsql.catalog.drafted_files import DraftedColumn
from dpsql.catalog.reading import CellReading
from dpsql.frozen import replace
from dpsql.trusted.plan.expr.printing import quote, text_literal

SAMPLED = "cells of a sample"
MOST, LEAST, FEW = 200_000, 20, 100  # cells of a sample; rows of it; cells of a column that the sample has none of
AT_ONCE = 100  # columns that are looked at in one query
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "inf", "-inf", "+inf", "infinity", "null", "none", "nil", "-", "--", "?", ".",
           "*", "missing")
TEXT, WHOLES, DECIMALS, TRUTHS = (CellReading(type=kind) for kind in ("VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN"))
DATES = ("", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%b %d %Y",
         "%d %B %Y", "%B %d, %Y", "%m/%d/%y", "%d/%m/%y")
TIMES = ("", "%d-%m-%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M",
         "%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M", "%m/%d/%y %H:%M", "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p")
COMMAS = replace(DECIMALS, decimal_mark=",")
READINGS = (WHOLES, DECIMALS, COMMAS, TRUTHS,
            *(CellReading(type="DATE", format=form) for form in DATES),
            *(CellReading(type="TIMESTAMP", format=form) for form in TIMES))
"""What a column may be, the first that all of its cells fit."""
COMPACT = CellReading(type="DATE", format="%Y%m%d")
OF_DAYS = re.compile(r".*(date|datum|day|dob).*", re.IGNORECASE)  # names of columns in which 19970131 is a day
SOME_DAY = r"\s*(18|19|20)[0-9]{2}(0[1-9]|1[0-2])[0-3][0-9]\s*"
NUMBERED = r"\s*0[0-9]+\s*"  # whose zero in front a number would lose
SURELY_DECIMAL = r"\s*[+-]?(0,[0-9]*|.*,([0-9]{0,2}|[0-9]{4,}))\s*"  # no comma in front of three digits, as of thousands
OF_TIME, OF_NUMBERS = ("DATE", "TIMESTAMP"), ("BIGINT", "DOUBLE")
PAIRS = {"true", "false"}, {"yes", "no"}, {"t", "f"}, {"y", "n"}


def columns_of(connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str], rows: int, *,
               commas: bool) -> dict[str, DraftedColumn]:
    """The readings of the columns of a table of texts. `commas` says that the delimiter of the file suggests decimal commas.
    Raises errors of the engine."""
    left = _left_by_sample(connection, table, names, rows)
    found: dict[str, DraftedColumn] = {}
    while left:
        batch = [*left][:AT_ONCE]
        for name, counts in zip(batch, _misfits(connection, table, {name: left[name] for name in batch}), strict=True):
            if (column := _column(connection, table, name, left[name], counts)) is None:
                left[name] = left[name][1:]
            else:
                del left[name]
                found[name] = column
    if not commas:
        found |= _unsure_commas(connection, table, [name for name in names if found[name].reading.decimal_mark == ","])
    words = {word for column in found.values() for word in column.reading.null if column.reading.type != TEXT.type}
    texts = {name: column for name, column in found.items() if column.reading.type == TEXT.type}
    found |= _texts_without(connection, table, texts, sorted(words, key=str))
    return {name: found[name] for name in names}


def _texts_without(connection: duckdb.DuckDBPyConnection, table: str, drafted: Mapping[str, DraftedColumn],
                   words: Sequence[object]) -> dict[str, DraftedColumn]:
    """The columns of texts in which words occur that stand for NULL in other columns of the file: they do so there, too."""
    found: dict[str, DraftedColumn] = {}
    listed, names = ", ".join(text_literal(str(word)) for word in words), list(drafted)
    for start in range(0, len(names) if words else 0, AT_ONCE):
        batch = names[start : start + AT_ONCE]
        texts = {name: text_of(quote(name), drafted[name].reading) for name in batch}
        asked = ", ".join(f"list(DISTINCT {text}) FILTER ({text} IN ({listed}))" for text in texts.values())
        held, = connection.execute(f"SELECT {asked} FROM {quote(table)}").fetchall()
        for name, some in ((name, sorted(some)) for name, some in zip(batch, held, strict=True) if some):
            note = "; ".join(filter(None, (drafted[name].note, _as_null(some))))
            null = dict.fromkeys((*drafted[name].reading.null, *some))
            found[name] = DraftedColumn(reading=replace(drafted[name].reading, null=tuple(null)), note=note)
    return found


def _unsure_commas(connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str]) -> dict[str, DraftedColumn]:
    """The columns whose numbers have commas in front of three digits, where no cell of the file says that decimals follow: 23,288
    is as likely 23288, and a number that is wrong is worse than a text."""
    for name in names:
        cell = quote(name)
        sure = f"SELECT 1 FROM {quote(table)} WHERE regexp_full_match({cell}, {text_literal(SURELY_DECIMAL)}) LIMIT 1"
        if connection.execute(sure).fetchall():
            return {}
    note = "numbers with commas in front of three digits; if decimals follow them: type = 'DOUBLE', decimal_mark = ','"
    return {name: DraftedColumn(reading=TEXT, note=note) for name in names}


def _as_null(words: Sequence[str]) -> str:
    return f"{', '.join(map(repr, words))} count{'s' * (len(words) == 1)} as NULL"


def _left_by_sample(connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str],
                    rows: int) -> dict[str, Sequence[CellReading]]:
    """The readings that the cells of a sample leave to each column; none to a column without a cell that says something."""
    taken = max(LEAST, MOST // len(names))
    chosen = f"SELECT * FROM {quote(table)} WHERE rowid % {max(1, rows // taken)} = 0"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote(SAMPLED)} AS SELECT DISTINCT name, cell FROM (UNPIVOT ({chosen}) "
                       f"ON COLUMNS(*) INTO NAME name VALUE cell) WHERE NOT {_is_missing('cell')}")
    seen = {name for name, in connection.execute(f"SELECT DISTINCT name FROM {quote(SAMPLED)}").fetchall()}
    for name in (name for name in names if name not in seen):
        there = f"{quote(name)} IS NOT NULL AND NOT {_is_missing(quote(name))}"
        connection.execute(f"INSERT INTO {quote(SAMPLED)} SELECT {text_literal(name)}, {quote(name)} FROM {quote(table)} "
                           f"WHERE {there} LIMIT {FEW}")
    fits = ", ".join(f"bool_and({_value('cell', reading)} IS NOT NULL)" for reading in READINGS)
    fitting = dict(connection.execute(f"SELECT name, [{fits}] FROM {quote(SAMPLED)} GROUP BY name").fetchall())
    connection.execute(f"DROP TABLE {quote(SAMPLED)}")
    return {name: [reading for reading, fit in zip(READINGS, fitting.get(name, ()), strict=False) if fit] for name in names}


def _misfits(connection: duckdb.DuckDBPyConnection, table: str, left: Mapping[str, Sequence[CellReading]]) -> Sequence[list[int]]:
    """For each column how many cells there are, how many begin with a zero, and how many do not fit the readings that are asked:
    the first that is left, and of dates all, so that the draft can name those that fit, too."""
    asked = []
    for name, readings in left.items():
        cell = quote(name)
        zeros = (f"COUNT(*) FILTER (starts_with(ltrim({cell}), '0') AND regexp_full_match({cell}, {text_literal(NUMBERED)}))"
                 if readings and readings[0].type in OF_NUMBERS else "0")
        unfit = [f"COUNT(*) FILTER ({_unfit(cell, reading)})" for reading in _tried(readings)]
        asked.append(f"[COUNT({cell}), {', '.join((zeros, *unfit))}]")
    found: Sequence[list[int]]
    found, = connection.execute(f"SELECT {', '.join(asked)} FROM {quote(table)}").fetchall()
    return found


def _tried(readings: Sequence[CellReading]) -> Sequence[CellReading]:
    return readings if readings and readings[0].type in OF_TIME else readings[:1]


def _column(connection: duckdb.DuckDBPyConnection, table: str, name: str, readings: Sequence[CellReading],
            counts: Sequence[int]) -> DraftedColumn | None:
    """The column by its first reading that is left; None if cells do not fit that, so that the next one is to be tried."""
    if not readings:
        return _text(connection, table, name, counts[0])
    (_, zeros, bad, *others), first = counts, readings[0]
    words: list[str] = []
    if bad:
        (known, missing), = connection.execute(
            f"SELECT COUNT(*) FILTER (NOT {_is_missing('x')}) = 0, list(DISTINCT x) FILTER ({_is_missing('x')}) "
            f"FROM (SELECT {quote(name)} AS x FROM {quote(table)} WHERE {_unfit(quote(name), first)})").fetchall()
        if not known:
            return None
        words = sorted(missing)
    if zeros:
        return DraftedColumn(reading=TEXT, note="some values begin with 0, so they are texts, not numbers")
    if first == WHOLES and OF_DAYS.fullmatch(name) and _holds_days(connection, table, name, bad):
        return DraftedColumn(reading=replace(COMPACT, null=tuple(words)), note=_as_null(words) if words else "")
    if first.type == "BOOLEAN" and not _says_truth(connection, table, name):
        return None
    also = [reading for reading, misfits in zip(readings[1:], others, strict=False)
            if reading.type == first.type and misfits <= bad]
    if also:
        first, *also = _most_months(connection, table, name, [first, *also])
    notes = [f"or {reading.format or '%Y-%m-%d'}: all rows fit either format" for reading in also[:1]]
    notes += [_as_null(words)] if words else []
    return DraftedColumn(reading=replace(first, null=tuple(words)), note="; ".join(notes))


def _most_months(connection: duckdb.DuckDBPyConnection, table: str, name: str,
                 readings: Sequence[CellReading]) -> list[CellReading]:
    """The readings that all days fit, first the one that puts them into most months: of monthly figures, 1/1, 2/1, 3/1 ... are
    the first days of months and not the first days of January."""
    months = ", ".join(f"COUNT(DISTINCT date_trunc('month', {_value(quote(name), reading)}))" for reading in readings)
    counts, = connection.execute(f"SELECT {months} FROM {quote(table)}").fetchall()
    return [reading for _, reading in sorted(zip(counts, readings, strict=True), key=lambda each: -each[0])]


def _text(connection: duckdb.DuckDBPyConnection, table: str, name: str, cells: int) -> DraftedColumn:
    cell = quote(name)
    told = ", ".join(f"COUNT(*) FILTER ({which})" for which in (
        f"NOT {_is_missing(cell)}", f"NOT starts_with({cell}, ' ')", f"trim({cell}) = ''"))
    (there, flush, blank), = connection.execute(f"SELECT {told} FROM {quote(table)}").fetchall() if cells else [(0, 0, 0)]
    if there and not flush:  # as where a blank follows each delimiter; what is left of a blank is no text
        reading = replace(TEXT, trim=True, null=("",) if blank else ())
        return DraftedColumn(reading=reading, note="blanks around texts are removed")
    return DraftedColumn(reading=TEXT, note="" if there else "no row has a value")


def _says_truth(connection: duckdb.DuckDBPyConnection, table: str, name: str) -> bool:
    """Whether the values are words of one pair: F alone is as likely the letter of a category."""
    cell = quote(name)
    asked = f"SELECT DISTINCT lower(trim({cell})) FROM {quote(table)} WHERE NOT {_is_missing(cell)} LIMIT 9"
    words = {word for word, in connection.execute(asked).fetchall()}
    return any(words <= pair for pair in PAIRS) and (len(words) > 1 or max(map(len, words), default=0) > 1)


def _holds_days(connection: duckdb.DuckDBPyConnection, table: str, name: str, bad: int) -> bool:
    """Whether all whole numbers are days such as 19970131."""
    cell = quote(name)
    fits = f"regexp_full_match({cell}, {text_literal(SOME_DAY)}) AND {_value(cell, COMPACT)} IS NOT NULL"
    (others,), = connection.execute(f"SELECT COUNT({cell}) - COUNT(*) FILTER ({fits}) FROM {quote(table)}").fetchall()
    return bool(others == bad)


def _value(cell: str, reading: CellReading) -> str:
    return f"({value_of(text_of(cell, reading), reading)})"


def _unfit(cell: str, reading: CellReading) -> str:
    return f"{cell} IS NOT NULL AND {_value(cell, reading)} IS NULL"


def _is_missing(cell: str) -> str:
    return f"(lower(trim({cell})) IN ({', '.join(map(text_literal, MISSING))}))"
