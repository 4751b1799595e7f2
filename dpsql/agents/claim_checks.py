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
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from sqlglot import exp

from dpsql.agents.purposes import purpose_of
from dpsql.agents.sentences import Sentence
from dpsql.agents.text_numbers import WrittenNumber, numbers_in
from dpsql.answers.answer import Answer, of_json
from dpsql.catalog.model import Catalog
from dpsql.errors import Error
from dpsql.frozen import Frozen
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
MOST_CELLS = 20_000  # that are compared with a text: those of the newest statements


class ReleasedCell(Frozen):
    """A released number with its interval, and the words by which a sentence can mean it.

    groups      the values of the keys in its row, by column
    measures    words of its column
    conditions  words of WHERE, of which one is needed; empty if there is no condition
    used        columns and values that the statement uses, in lower case
    """

    statement: int
    sql: str
    label: str
    value: float
    low: float
    high: float
    confidence: float
    groups: Mapping[str, str]
    measures: frozenset[str]
    conditions: frozenset[str]
    used: frozenset[str]
    percent: bool


class ClaimFinding(Frozen):
    """What became of a number in a text: the verdict and, unless it is not from here, the nearest cell."""

    number: WrittenNumber
    verdict: Verdict
    cell: ReleasedCell | None = None


def check_claims(text: str, entries: Sequence[Entry], catalog: Catalog) -> list[ClaimFinding]:
    """A finding for each number of a text, in order; `entries` are the released statements of the account."""
    cells = list(itertools.islice((cell for entry in reversed(entries) for cell in cells_of(entry, catalog)), MOST_CELLS))
    vocabulary, values = _vocabulary(catalog), _values_by_column(cells)
    return [_finding(number, text, cells, vocabulary, values) for number in numbers_in(text)]


def _finding(number: WrittenNumber, text: str, cells: Sequence[ReleasedCell], vocabulary: frozenset[str],
             values: Mapping[str, frozenset[str]]) -> ClaimFinding:
    start, end = number.sentence
    sentence = Sentence(text[start:end], number.start - start, number.end - start)
    if any(sentence.is_part_of(phrase) for phrases in values.values() for phrase in phrases):
        return ClaimFinding(number=number, verdict="not from here")
    named = frozenset(word for word in vocabulary if sentence.has(word))
    meant = [cell for cell in cells if cell.percent == number.percent and _is_meant(cell, sentence, named, values)]
    if not meant:
        return ClaimFinding(number=number, verdict="not from here")
    inside = [cell for cell in meant if cell.low <= number.high and number.low <= cell.high]
    nearest = min(inside or meant, key=lambda cell: abs(cell.value - number.middle))
    return ClaimFinding(number=number, verdict="supported" if inside else "contradicted", cell=nearest)


def _is_meant(cell: ReleasedCell, sentence: Sentence, named: frozenset[str], values: Mapping[str, frozenset[str]]) -> bool:
    if not any(sentence.has(word) for word in cell.measures):
        return False
    if cell.conditions and not any(sentence.has(word) for word in cell.conditions):
        return False
    for column, value in cell.groups.items():
        if sentence.meant(values[column]) != value:
            return False
    others = frozenset(value for column in cell.groups for value in values[column])
    return not any(word not in cell.used and word not in others for word in named)


def cells_of(entry: Entry, catalog: Catalog) -> Iterator[ReleasedCell]:
    """The cells of a released answer that have an interval."""
    query, answer = _query_of(entry), answer_of(entry)
    if query is None or answer is None:
        return
    selects = query.tree.selects
    if len(selects) != len(answer.columns):
        return
    where = query.tree.args.get("where")
    conditions = frozenset(() if where is None else _words_of(where))
    tables = frozenset(word for name in query.tables for word in _words(name))
    used = frozenset(column.name.lower().replace("_", " ") for column in query.tree.find_all(exp.Column)) | frozenset(
        value.lower() for literal in query.tree.find_all(exp.Literal) for value in [str(literal.this)])
    keys = [j for j, column in enumerate(answer.columns) if column.exact]
    for j, column in enumerate(answer.columns):
        if column.exact or not column.type.numeric:
            continue
        measures = frozenset(_words(column.name)) | _measure_words(selects[j], tables, catalog)
        yield from _cells(entry, answer, j, keys, measures, conditions, used)


def _cells(entry: Entry, answer: Answer, j: int, keys: Sequence[int], measures: frozenset[str], conditions: frozenset[str],
           used: frozenset[str]) -> Iterator[ReleasedCell]:
    shares = list(_shares(answer, j)) if keys and "count" in measures else []
    for i, row in enumerate(answer.rows):
        ends = answer.intervals[i][j]
        names = [answer.columns[k].name for k in keys]
        groups = {name.lower(): group for name, k in zip(names, keys, strict=True) if (group := _group(name, row[k])) is not None}
        if ends is None or row[j] is None or len(groups) < len(keys):
            continue
        value = _real(row[j])
        label = ", ".join([answer.columns[j].name, *(f"{name} = {row[k]}" for name, k in zip(names, keys, strict=True))])
        common: dict[str, Any] = {"statement": entry.seq, "sql": purpose_of(entry.sql)[0], "confidence": answer.confidence,
                                  "groups": groups,
                  "conditions": conditions, "used": used}
        yield ReleasedCell(label=label, value=value, low=ends[0], high=ends[1], measures=measures, percent=False, **common)
        if answer.columns[j].range == (0.0, 1.0):
            yield ReleasedCell(label=f"{label}, in percent", value=100 * value, low=100 * ends[0], high=100 * ends[1],
                               measures=measures, percent=True, **common)
        if shares:
            share, low, high = shares[i]
            yield ReleasedCell(label=f"share of {label} in all rows of the answer", value=share, low=low, high=high,
                               measures=measures | {"%", "percent", "share"} | frozenset(groups.values()), percent=True, **common)


def _shares(answer: Answer, j: int) -> Iterator[tuple[float, float, float]]:
    """Each number of a column in percent of their sum, with the ends that follow from the ends of all intervals."""
    ends = [interval or (_real(value), _real(value))
            for value, interval in zip(answer.data[j].values, answer.data[j].told_intervals(), strict=True)]
    lows, highs = [max(0.0, low) for low, _ in ends], [max(0.0, high) for _, high in ends]
    values = [max(0.0, _real(value)) for value in answer.data[j].values]
    for i, value in enumerate(values):
        least, most = lows[i] + sum(highs) - highs[i], highs[i] + sum(lows) - lows[i]
        yield (100 * value / sum(values) if sum(values) else math.nan, 100 * lows[i] / least if least else 0.0,
               100 * highs[i] / most if most else 100.0)


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


def _values_by_column(cells: Sequence[ReleasedCell]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for cell in cells:
        for column, value in cell.groups.items():
            found.setdefault(column, set()).add(value)
    return {column: frozenset(values) for column, values in found.items()}


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
