"""Compares the numbers of a text with what was released to an account: supported, contradicted, or not from here.

A number is compared with a cell of a released answer only if its sentence says clearly which one it is about:

* *Groups.* For each key of the answer, the value of the row must be in the clause of the number. If the clause has none of this
  key, it must be the last one before the number, or else the first after it. Several in one clause are not clear. A key of truth
  values is meant by the name of its column, and a whole number by this name and the number ("site 3"), which is no claim itself.
* *Measure.* A word of the column must be there: of its name, of the columns in it, or "average" for AVG, "people" for a count.
* *Conditions.* Of a statement with WHERE, a word of the condition must be there.
* *Nothing else.* If the sentence has the name or the value of a declared column that the statement does not use, the number is
  about something else.

Then it is *supported* if a value that it stands for is in the interval of a cell, *contradicted* if it is in none, and *not from
here* if there is no such cell. A percentage is also compared with the share of a count in the sum of its column: the ends of that
interval follow from the ends of all intervals, so it holds where they all do.

Everything compared here was released to the account before, so nothing is charged.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from sqlglot import exp

from dpsql.agents.purposes import purpose_of
from dpsql.agents.sentences import Sentence
from dpsql.agents.text_numbers import WrittenNumber, numbers_in
from dpsql.answers.answer import Answer, of_json
from dpsql.catalog.model import Catalog
from dpsql.errors import Error
from dpsql.frozen import Frozen, replace
from dpsql.ledgers.ledger_reports import Entry
from dpsql.sql.text.parse import parse
from dpsql.sql.text.statement import Query

Verdict = Literal["supported", "contradicted", "not from here"]
VERDICTS: tuple[Verdict, ...] = ("supported", "contradicted", "not from here")
OF_COUNTS = frozenset({"count", "number", "people", "persons", "person", "rows", "total", "n"})
OF_CALLS: Mapping[type[exp.Expression], frozenset[str]] = {
    exp.Avg: frozenset({"average", "mean", "avg"}), exp.Sum: frozenset({"sum", "total"}), exp.Median: frozenset({"median"}),
    exp.Max: frozenset({"maximum", "largest", "highest", "max"}), exp.Min: frozenset({"minimum", "smallest", "lowest", "min"}),
    exp.Stddev: frozenset({"deviation", "stddev"}), exp.Variance: frozenset({"variance"})}
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+", re.UNICODE)
MOST_CELLS = 5000  # that are compared with a text: those of the newest statements
WINDOW = 1000  # letters before and after a number that are looked at


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


class ClaimFinding(Frozen):
    """What became of a number in a text: the verdict and, unless it is not from here, the nearest cell and its column."""

    number: WrittenNumber
    verdict: Verdict
    column: ReleasedColumn | None = None
    cell: ReleasedCell | None = None


def check_claims(text: str, entries: Sequence[Entry], catalog: Catalog) -> list[ClaimFinding]:
    """A finding for each number of a text, in order; `entries` are the released statements of the account."""
    columns: list[ReleasedColumn] = []
    for entry in reversed(entries):
        columns += columns_of(entry, catalog)
        if sum(len(column.cells) for column in columns) > MOST_CELLS:
            break
    values: dict[str, set[str]] = {}
    for column in columns:
        for at, key in enumerate(column.keys):
            values.setdefault(key, set()).update(group[at] for group in column.cells)
    known = KnownWords(vocabulary=_vocabulary(catalog), values={key: frozenset(found) for key, found in values.items()})
    return [_finding(number, text, columns, known) for number in numbers_in(text)]


class KnownWords(Frozen):
    """Names and values of declared columns, and the values of keys in released answers, by column."""

    vocabulary: frozenset[str]
    values: Mapping[str, frozenset[str]]


def _finding(number: WrittenNumber, text: str, columns: Sequence[ReleasedColumn], known: KnownWords) -> ClaimFinding:
    start, end = max(number.sentence[0], number.start - WINDOW), min(number.sentence[1], number.end + WINDOW)
    sentence = Sentence(text[start:end], number.start - start, number.end - start)
    if any(sentence.is_part_of(phrase) for phrases in known.values.values() for phrase in phrases):
        return ClaimFinding(number=number, verdict="not from here")
    groups = {key: sentence.meant(phrases) for key, phrases in known.values.items()}
    named = frozenset(word for word in known.vocabulary if sentence.has(word))
    meant = [(column, cell) for column in columns if column.percent == number.percent
             and (cell := _cell_meant(column, sentence, named, groups, known)) is not None]
    if not meant:
        return ClaimFinding(number=number, verdict="not from here")
    inside = [(column, cell) for column, cell in meant if cell.low <= number.high and number.low <= cell.high]
    column, nearest = min(inside or meant, key=lambda pair: abs(pair[1].value - number.middle))
    return ClaimFinding(number=number, verdict="supported" if inside else "contradicted", column=column, cell=nearest)


def _cell_meant(column: ReleasedColumn, sentence: Sentence, named: frozenset[str], groups: Mapping[str, str | None],
                known: KnownWords) -> ReleasedCell | None:
    """The cell of a column that a number is clearly about, if there is one."""
    if column.conditions and not any(map(sentence.has, column.conditions)):
        return None
    group = tuple(groups[key] or "" for key in column.keys)
    if not any(map(sentence.has, column.measures)) and not (column.percent and any(group)):
        return None
    is_told = all(word in column.used or any(word in known.values[key] for key in column.keys) for word in named)
    return column.cells.get(group) if is_told else None


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
            keys=tuple(answer.columns[k].name.lower() for k in keys), cells=_cells(answer, j, keys))
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
    """The released answer of a statement; None for other results, such as validations, and for statements without one."""
    if not entry.body:
        return None
    try:
        told = json.loads(entry.body)
        return of_json(entry.body) if isinstance(told, dict) and {"columns", "confidence"} <= told.keys() else None
    except (ValueError, KeyError, TypeError):
        return None


def _query_of(entry: Entry) -> Query | None:
    try:
        found = parse(entry.sql)
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


def _vocabulary(catalog: Catalog) -> frozenset[str]:
    """Names and text values of declared columns that are long enough to be no common word by chance."""
    found = set()
    for table in catalog.tables.values():
        for column in table.columns.values():
            found.add(column.name.lower().replace("_", " "))
            if column.domain is not None:
                found |= {value.lower() for value in column.domain.values[:500] if isinstance(value, str)}
    return frozenset(word for word in found if len(word) >= 3)


def _words_of(part: exp.Expr) -> Iterator[str]:
    for column in part.find_all(exp.Column):
        yield from _words(column.name)
    for literal in part.find_all(exp.Literal):
        yield str(literal.this).lower()


def _words(name: str) -> Iterator[str]:
    yield from (word.lower() for word in WORD.findall(name.replace("_", " ")) if not word.isdigit())
