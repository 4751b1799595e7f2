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

Everything compared here was told to the account before: answers that it paid for, and answers of other accounts that it was told
where the policy has analysts share them, which the finding calls shared. So nothing is charged. Answers of others that it was not
told are not compared, as a verdict would tell them without a record in the ledger (`kernel.chain`, *Told*); to ask the same
statement is free.

*Time.* A text and the answers may be chosen to take long, on a server that others use. With n letters of text, the words of all
columns are looked up together (`Phrases`), at most `MOST_PLACES` places of them are looked at, and each number looks only at the
places within `WINDOW` letters and at `MOST_COLUMNS` columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

from dpsql.agents.released_columns import MOST_WORDS, ReleasedCell, ReleasedColumn
from dpsql.agents.sentences import FoundPhrases, Sentence, TooManyPlaces
from dpsql.agents.text_numbers import MOST_TEXT, WrittenNumber, numbers_in
from dpsql.catalog.model import Catalog
from dpsql.frozen import Frozen

Verdict = Literal["supported", "contradicted", "not from here"]
VERDICTS: tuple[Verdict, ...] = ("supported", "contradicted", "not from here")
WINDOW = 1000  # letters before and after a number that are looked at


class ClaimFinding(Frozen):
    """What became of a number in a text: the verdict and, unless it is not from here, the nearest cell and its column."""

    number: WrittenNumber
    verdict: Verdict
    column: ReleasedColumn | None = None
    cell: ReleasedCell | None = None


def check_claims(text: str, columns: Sequence[ReleasedColumn], catalog: Catalog) -> tuple[list[ClaimFinding], bool]:
    """A finding for each number of a text, in order, and whether the text could be compared with `columns`, those of released
    answers: with so many words of columns in it that this would take long, nothing is found from here."""
    columns = [column for column in columns if len(column.used) <= MOST_WORDS]
    values: dict[str, set[str]] = {}
    for column in columns:
        for at, key in enumerate(column.keys):
            values.setdefault(key, set()).update(group[at] for group in column.cells)
    known = KnownWords(vocabulary=_vocabulary(catalog), values={key: frozenset(found) for key, found in values.items()})
    numbers = numbers_in(text)
    words = chain(known.vocabulary, *known.values.values(), *(column.measures | column.conditions for column in columns))
    try:
        found = FoundPhrases(text[:MOST_TEXT], frozenset(words))
    except TooManyPlaces:
        return [ClaimFinding(number=number, verdict="not from here") for number in numbers], False
    return [_finding(number, found, columns, known) for number in numbers], True


class KnownWords(Frozen):
    """Names and values of declared columns, and the values of keys in released answers, by column."""

    vocabulary: frozenset[str]
    values: Mapping[str, frozenset[str]]


def _finding(number: WrittenNumber, found: FoundPhrases, columns: Sequence[ReleasedColumn], known: KnownWords) -> ClaimFinding:
    start, end = max(number.sentence[0], number.start - WINDOW), min(number.sentence[1], number.end + WINDOW)
    sentence = Sentence(found, (start, end), number.start, number.end)
    if any(phrase in phrases for phrase in sentence.around for phrases in known.values.values()):
        return ClaimFinding(number=number, verdict="not from here")
    groups = {key: sentence.meant(phrases) for key, phrases in known.values.items()}
    told = ToldInSentence(words=sentence.words, groups=groups, named=known.vocabulary & sentence.words, values=known.values)
    meant = [(column, cell) for column in columns if column.percent == number.percent
             and (cell := told.cell_of(column)) is not None]
    if not meant:
        return ClaimFinding(number=number, verdict="not from here")
    inside = [(column, cell) for column, cell in meant if cell.low <= number.high and number.low <= cell.high]
    column, nearest = min(inside or meant, key=lambda pair: (abs(pair[1].value - number.middle), pair[0].shared))
    return ClaimFinding(number=number, verdict="supported" if inside else "contradicted", column=column, cell=nearest)


class ToldInSentence:
    """What a sentence says of columns: its `words`, the value of each key that it means, and what it names of declared ones."""

    def __init__(self, *, words: frozenset[str], groups: Mapping[str, str | None], named: frozenset[str],
                 values: Mapping[str, frozenset[str]]) -> None:
        self._words, self._groups, self._named, self._values = words, groups, named, values
        self._others: dict[tuple[str, ...], frozenset[str]] = {}

    def cell_of(self, column: ReleasedColumn) -> ReleasedCell | None:
        """The cell of a column that the number is clearly about, if there is one."""
        if column.conditions and column.conditions.isdisjoint(self._words):
            return None
        group = tuple(self._groups[key] or "" for key in column.keys)
        if column.measures.isdisjoint(self._words) and not (column.percent and any(group)):
            return None
        cell = column.cells.get(group)
        return cell if cell is not None and self._named_beside(column.keys) <= column.used else None

    def _named_beside(self, keys: tuple[str, ...]) -> frozenset[str]:
        """What the sentence names of declared columns, without the values of these keys."""
        if keys not in self._others:
            self._others[keys] = self._named.difference(*(self._values[key] for key in keys))
        return self._others[keys]


def _vocabulary(catalog: Catalog) -> frozenset[str]:
    """Names and text values of declared columns that are long enough to be no common word by chance."""
    found = set()
    for table in catalog.tables.values():
        for column in table.columns.values():
            found.add(column.name.lower().replace("_", " "))
            if column.domain is not None:
                found |= {value.lower() for value in column.domain.values[:500] if isinstance(value, str)}
    return frozenset(word for word in found if len(word) >= 3)
