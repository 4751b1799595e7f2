"""A sentence with a number in it: which words are there, and which of several the number is about."""

from __future__ import annotations

import re
from collections.abc import Iterator

CLAUSE_ENDS = re.compile(r";|,(?=\s)|\s(?:and|or|while|whereas|but|versus|vs\.?)\s", re.IGNORECASE)
JOINTS = re.compile(r"[\s_-]")  # of words in a phrase
DIGIT = re.compile(r"\d")


class Sentence:
    """A sentence, in which a number is from `start` to `end`. Words are found regardless of case, and as whole words."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text, self._start, self._end = JOINTS.sub(" ", text.lower() if len(text.lower()) == len(text) else text), start, end
        self._clause = _clause_of(self._text, start)
        self._found: dict[str, list[tuple[int, int]]] = {}

    def has(self, phrase: str) -> bool:
        return bool(self._places(phrase))

    def is_part_of(self, phrase: str) -> bool:
        """Whether the number is a part of a phrase, such as of "site 3"."""
        return any(start <= self._start and self._end <= end for start, end in self._places(phrase))

    def meant(self, phrases: frozenset[str]) -> str | None:
        """The one of these phrases that the number is about; None if that is not clear. It is the only one in the clause or, if
        there is none, the last one before the number, or else the first one after it."""
        places = sorted((start, end, phrase) for phrase in phrases for start, end in self._places(phrase))
        inside = {phrase for start, _, phrase in places if self._clause[0] <= start < self._clause[1]}
        if inside:
            return inside.pop() if len(inside) == 1 else None
        before = [phrase for start, _, phrase in places if start < self._start]
        after = [phrase for start, _, phrase in places if start > self._start]
        return before[-1] if before else after[0] if after else None

    def _places(self, phrase: str) -> list[tuple[int, int]]:
        if phrase not in self._found:
            self._found[phrase] = [*_whole(phrase, self._text)] if phrase and phrase in self._text else []
        return self._found[phrase]


def _whole(phrase: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a phrase is in a text as whole words."""
    at = text.find(phrase)
    while at >= 0:
        end = at + len(phrase)
        if not text[at - 1:at].isalnum() and not text[end:end + 1].isalnum():
            yield at, end
        at = text.find(phrase, at + 1)


def _clause_of(text: str, place: int) -> tuple[int, int]:
    """The clause around a place. A part without digits belongs to the next part, and the last ones to the part before: so "With
    poor health, income is 12,000" is one clause, and so is "excellent or good health: 5,300"."""
    ends = [match.span() for match in CLAUSE_ENDS.finditer(text)]
    starts, stops = [0, *(end for _, end in ends)], [*(start for start, _ in ends), len(text)]
    parts: list[tuple[int, int]] = []
    begun: int | None = None
    for start, stop in zip(starts, stops, strict=True):
        begun = start if begun is None else begun
        if DIGIT.search(text, start, stop):
            parts.append((begun, stop))
            begun = None
    if begun is not None and parts:
        parts[-1] = parts[-1][0], len(text)
    return next((part for part in parts if part[0] <= place <= part[1]), (0, len(text)))
