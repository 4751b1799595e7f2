"""A text with numbers in it: which phrases are where, and which of several phrases a number is about.

Phrases are found regardless of case, and as whole words. All phrases are looked up in one pass: the words of the text are listed
with their places, and a phrase is compared only where its rarest word is. So phrases that are not there take no time for each
letter of the text, and makes at most `MOST_PLACES` comparisons, however repetitive the text is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

CLAUSE_ENDS = re.compile(r";|,(?=\s)|\s(?:and|or|while|whereas|but|versus|vs\.?)\s", re.IGNORECASE)
JOINTS = re.compile(r"[\s_-]")  # of words in a phrase
WORDS = re.compile(r"[^\W_]+")
DIGIT = re.compile(r"\d")
MOST_PLACES = 500_000  # of words at which phrases are compared with a text


class TooManyPlaces(Exception):
    """It would take long to look for these phrases in this text."""


class FoundPhrases:
    """A text, and where some phrases are in it. Phrases without letters and digits are not found."""

    def __init__(self, text: str, phrases: frozenset[str]) -> None:
        """Raises TooManyPlaces."""
        self.text = JOINTS.sub(" ", "".join(low if len(low := letter.lower()) == 1 else letter for letter in text))
        words: dict[str, list[int]] = {}
        for word in WORDS.finditer(self.text):
            words.setdefault(word.group(), []).append(word.start())
        self._left = MOST_PLACES
        self._places = sorted(place for phrase in phrases for place in self._places_of(phrase, words))
        self._starts = [start for start, _, _ in self._places]

    def within(self, start: int, end: int) -> list[tuple[int, int, str]]:
        """The places of phrases in a part of the text, in order: each with its end and the phrase."""
        inside = self._places[bisect_left(self._starts, start):bisect_left(self._starts, end)]
        return [place for place in inside if place[1] <= end]

    def _places_of(self, phrase: str, words: Mapping[str, Sequence[int]]) -> Iterator[tuple[int, int, str]]:
        text, sought = self.text, JOINTS.sub(" ", phrase)
        places = [(words.get(word.group(), ()), word.start()) for word in WORDS.finditer(sought)]
        rarest, ahead = min(places, key=lambda pair: len(pair[0]), default=((), 0))
        self._left -= len(rarest)
        if self._left < 0:
            raise TooManyPlaces
        for at in rarest:
            start, end = at - ahead, at - ahead + len(sought)
            if start >= 0 and text.startswith(sought, start) and not (
                    text[max(0, start - 1):start].isalnum() or text[end:end + 1].isalnum()):
                yield start, end, phrase


class Sentence:
    """A sentence, or the `part` of a text that stands for it, in which a number is from `start` to `end`."""

    def __init__(self, found: FoundPhrases, part: tuple[int, int], start: int, end: int) -> None:
        self._start, self._places = start, found.within(*part)
        self._clause = _clause_of(found.text[slice(*part)], start - part[0])
        self._clause = self._clause[0] + part[0], self._clause[1] + part[0]
        self.words = frozenset(phrase for _, _, phrase in self._places)
        self.around = frozenset(phrase for first, last, phrase in self._places if first <= start and end <= last)
        """The phrases that the number is a part of, such as "site 3"."""

    def meant(self, phrases: frozenset[str]) -> str | None:
        """The one of these phrases that the number is about; None if that is not clear. It is the only one in the clause or, if
        there is none, the last one before the number, or else the first one after it."""
        places = [(start, phrase) for start, _, phrase in self._places if phrase in phrases]
        inside = {phrase for start, phrase in places if self._clause[0] <= start < self._clause[1]}
        if inside:
            return inside.pop() if len(inside) == 1 else None
        before = [phrase for start, phrase in places if start < self._start]
        after = [phrase for start, phrase in places if start > self._start]
        return before[-1] if before else after[0] if after else None


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
