"""The numbers of released answers, by the words with which a sentence can mean them.

What is read is bounded: reading an answer takes time for each letter of its statement and of its text, and the newest are read
first. An entry of the ledger does not change once it is answered, so what was read of it is kept for the next text.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from dpsql.agents.purposes import purpose_of
from dpsql.answers.answer import Answer, of_json
from dpsql.catalog.model import Catalog
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.ledgers.ledger_reports import Entry
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

OF_COUNTS = frozenset({"count", "number", "people", "persons", "person", "rows", "total", "n"})
OF_CALLS: Mapping[type[exp.Expression], frozenset[str]] = {
    exp.Avg: frozenset({"average", "mean", "avg"}), exp.Sum: frozenset({"sum", "total"}), exp.Median: frozenset({"median"}),
    exp.Max: frozenset({"maximum", "largest", "highest", "max"}), exp.Min: frozenset({"minimum", "smallest", "lowest", "min"}),
    exp.Stddev: frozenset({"deviation", "stddev"}), exp.Variance: frozenset({"variance"})}
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+", re.UNICODE)
MOST_CELLS, MOST_COLUMNS = 5000, 1000  # that are compared with a text: those of the newest statements
MOST_SQL, MOST_BODIES = 30_000, 2_000_000  # letters of the statements, and of the answers, that are read for it
MOST_WORDS = 200  # that a statement uses; a column of one with more is compared with nothing


class ReleasedCell(Frozen):
    """A released number with its interval."""

    label: str
    value: float
    low: float
    high: float


class ReleasedColumn(Frozen):
    """The numbers of a column of a released answer, and the words by which a sentence can mean one of them.

    measures    words of the column, of which one is needed
    conditions  words of WHERE, of which one is needed; empty if there is no condition
    used        columns and values that the statement uses, in lower case
    keys        the columns of the keys; `cells` has the numbers by the phrases for their values
    percent     they are percentages
    shared      another account paid for the answer, and this one was told it
    """

    statement: int
    sql: str
    confidence: float
    measures: frozenset[str]
    conditions: frozenset[str]
    used: frozenset[str]
    keys: tuple[str, ...]
    cells: Mapping[tuple[str, ...], ReleasedCell]
    percent: bool
    shared: bool = False


class ReadColumns:
    """The columns of the newest answers of an account. For one thread at a time."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[ReleasedColumn, ...]] = {}

    def of(self, entries: Sequence[Entry], catalog: Catalog) -> tuple[list[ReleasedColumn], bool]:
        """The columns of these statements, the newest first, and whether they are those of all. A statement that was read before
        takes no time."""
        found: list[ReleasedColumn] = []
        sql = bodies = cells = 0
        kept: dict[int, tuple[ReleasedColumn, ...]] = {}
        is_whole = True
        for entry in reversed(entries):
            if not entry.body:
                continue
            columns = self._read.get(entry.seq)
            if columns is None:
                sql, bodies = sql + len(entry.sql) + len(entry.paid_sql), bodies + len(entry.body)
                if sql > MOST_SQL or bodies > MOST_BODIES:
                    is_whole = False
                    break
                columns = tuple(columns_of(entry, catalog))
            kept[entry.seq] = columns
            found += columns
            cells += sum(len(column.cells) for column in columns)
            if cells > MOST_CELLS or len(found) > MOST_COLUMNS:
                is_whole = entry is entries[0]
                break
        self._read = kept
        return found, is_whole


def columns_of(entry: Entry, catalog: Catalog) -> Iterator[ReleasedColumn]:
    """The columns of a released answer that have intervals; a count by groups also as shares of its sum."""
    query, answer = _query_of(entry), answer_of(entry)
    if query is None or answer is None or len(query.tree.selects) != len(answer.columns):
        return
    where = query.tree.args.get("where")
    tables = frozenset(word for name in query.tables for word in _words(name))
    used = frozenset(column.name.lower().replace("_", " ") for column in query.tree.find_all(exp.Column)) | frozenset(
        str(literal.this).lower() for literal in query.tree.find_all(exp.Literal))
    keys = [j for j, column in enumerate(answer.columns) if column.exact]
    for j, (column, select) in enumerate(zip(answer.columns, query.tree.selects, strict=True)):
        if column.exact or not column.type.numeric:
            continue
        measures = frozenset(_words(column.name)) | _measure_words(select, tables, catalog)
        made = ReleasedColumn(
            statement=entry.seq, sql=purpose_of(entry.sql)[0], confidence=answer.confidence, measures=measures, used=used,
            conditions=frozenset(() if where is None else _words_of(where)), percent=False,
            keys=tuple(answer.columns[k].name.lower() for k in keys), cells=_cells(answer, j, keys),
            shared=entry.told is not None)
        yield made
        if column.range == (0.0, 1.0):
            yield replace(made, percent=True, cells={group: ReleasedCell(
                label=f"{cell.label}, in percent", value=100 * cell.value, low=100 * cell.low, high=100 * cell.high)
                for group, cell in made.cells.items()})
        if keys and "count" in measures:
            yield replace(made, percent=True, measures=measures | {"percent", "share"}, cells=_shares(answer, j, keys))


def _cells(answer: Answer, j: int, keys: Sequence[int]) -> dict[tuple[str, ...], ReleasedCell]:
    found = {}
    for i, row in enumerate(answer.rows):
        ends, group = answer.intervals[i][j], _groups(answer, row, keys)
        if ends is not None and row[j] is not None and group is not None:
            found[group] = ReleasedCell(label=_label(answer, j, row, keys), value=_real(row[j]), low=ends[0], high=ends[1])
    return found


def _shares(answer: Answer, j: int, keys: Sequence[int]) -> dict[tuple[str, ...], ReleasedCell]:
    """Each number of a column in percent of their sum, with the ends that follow from the ends of all intervals."""
    ends = [interval or (_real(value), _real(value))
            for value, interval in zip(answer.data[j].values, answer.data[j].told_intervals(), strict=True)]
    lows, highs = [max(0.0, low) for low, _ in ends], [max(0.0, high) for _, high in ends]
    values = [max(0.0, _real(value)) for value in answer.data[j].values]
    low_sum, high_sum, whole, found = sum(lows), sum(highs), sum(values), {}
    for row, value, low, high in zip(answer.rows, values, lows, highs, strict=True):
        group = _groups(answer, row, keys)
        least, most = low + high_sum - high, high + low_sum - low
        if group is not None and whole and math.isfinite(high_sum):
            found[group] = ReleasedCell(label=f"share of {_label(answer, j, row, keys)} in all rows of the answer",
                                        value=100 * value / whole, low=100 * low / least if least else 0.0,
                                        high=100 * high / most if most else 100.0)
    return found


def _label(answer: Answer, j: int, row: Sequence[object], keys: Sequence[int]) -> str:
    return ", ".join([answer.columns[j].name, *(f"{answer.columns[k].name} = {row[k]}" for k in keys)])


def _groups(answer: Answer, row: Sequence[object], keys: Sequence[int]) -> tuple[str, ...] | None:
    """The phrases for the values of the keys in a row; None if one of them has none."""
    found = [_group(answer.columns[k].name, row[k]) for k in keys]
    return None if None in found else tuple(phrase or "" for phrase in found)


def _real(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def answer_of(entry: Entry) -> Answer | None:
    """The released answer of a statement; None for other results, such as validations, and for statements without one. An answer
    of another account is one to the statement only if both asked the same: it may have been a part of what a different statement
    was answered with."""
    if not entry.body or (entry.told is not None and not _is_same(entry.sql, entry.paid_sql)):
        return None
    try:
        told = json.loads(entry.body)
        return of_json(entry.body) if isinstance(told, dict) and {"columns", "confidence"} <= told.keys() else None
    except (ValueError, KeyError, TypeError):
        return None


def _is_same(sql: str, other: str) -> bool:
    """Whether two texts are the same query, apart from spaces, comments and stated purposes."""
    if purpose_of(sql)[0] == purpose_of(other)[0]:
        return True
    found, others = _parsed(sql), _parsed(other)
    return found is not None and others is not None and found.tree == others.tree


def _query_of(entry: Entry) -> Query | None:
    return _parsed(entry.sql)


def _parsed(sql: str) -> Query | None:
    try:
        found = parse(sql)
    except Error:
        return None
    return found if isinstance(found, Query) and isinstance(found.tree, exp.Select) else None


def _measure_words(select: exp.Expr, tables: frozenset[str], catalog: Catalog) -> frozenset[str]:
    found = {word for column in select.find_all(exp.Column) for word in _words(column.name)}
    for call, words in OF_CALLS.items():
        if select.find(call) is not None:
            found |= words
    if select.find(exp.Count) is not None:
        found |= OF_COUNTS | tables | set(_words(catalog.entity.name))
    return frozenset(found)


def _group(column: str, value: object) -> str | None:
    """The phrase by which a sentence means a value of a key; None if there is none."""
    if isinstance(value, bool):
        return column.lower().replace("_", " ") if value else None
    if isinstance(value, int):
        return f"{column.lower().replace('_', ' ')} {value}"
    return str(value).lower() if isinstance(value, str | dt.date) and str(value) else None


def _words_of(part: exp.Expr) -> Iterator[str]:
    for column in part.find_all(exp.Column):
        yield from _words(column.name)
    for literal in part.find_all(exp.Literal):
        yield str(literal.this).lower()


def _words(name: str) -> Iterator[str]:
    yield from (word.lower() for word in WORD.findall(name.replace("_", " ")) if not word.isdigit())
