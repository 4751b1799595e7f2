r"""Texts of one length by a pattern, each of which has a number: the pattern P[0-9]{6} has a million, P000000 to P999999.

A pattern is written as a regular expression of characters, sets such as [A-Z_] and \d, each of which may be repeated by {n}. Any
engine can check a text against it. Packages that make texts of regular expressions draw them at random: keys would repeat, and it
is not known how many there are. Here the text of each row follows from the row's number by a permutation of all texts, so texts
are different as long as there are enough, and nothing has to be stored.
"""

from __future__ import annotations

import math
import re
import string

import numpy as np
from numpy.typing import NDArray

from dpsql.frozen import Frozen
from dpsql.trusted.cached import cached_property

LONGEST = 200  # characters of a text
TURNS = 4  # of the network that permutes numbers
WORD = 2**62  # texts whose numbers fit into a word
PART = re.compile(r"(?:\[((?:\\.|[^\]\\])+)\]|\\(.)|([^\[\]\\{}()|.*+?^$]))(?:\{(\d{1,3})\})?", re.DOTALL)
WRITTEN = r"characters, sets such as [A-Z0-9], \d, and {n}, as in "
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"  # random ones
_STEP, _FIRST, _SECOND = (np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
Words = NDArray[np.uint64]


class WrongPattern(ValueError):
    """A text that is no pattern; the message says why."""


class TextPattern(Frozen):
    """The characters that each place of a text may have."""

    places: tuple[str, ...]

    @cached_property
    def size(self) -> int:
        """The number of different texts."""
        return math.prod(map(len, self.places))

    @cached_property
    def _numbered(self) -> tuple[int, int]:
        """The last places, with as many texts as fit into a word: where they begin, and how many texts they have."""
        at, size = len(self.places), 1
        while at and size * len(self.places[at - 1]) <= WORD:
            at, size = at - 1, size * len(self.places[at - 1])
        return at, size

    def texts(self, rows: NDArray[np.int64], seed: int) -> list[str]:
        """The texts of some rows, by their numbers. Those of different numbers below `size` differ."""
        at, size = self._numbered
        numbers = _permuted(rows.astype(np.uint64) % np.uint64(size), size, seed)
        characters: list[NDArray[np.str_]] = []
        for choices in reversed(self.places[at:]):
            numbers, digit = np.divmod(numbers, np.uint64(len(choices)))
            characters.append(np.array(list(choices))[digit.astype(np.int64)])
        for place, choices in enumerate(reversed(self.places[:at])):
            digit = _mixed(rows.astype(np.uint64), _key(place, seed + 1)) % np.uint64(len(choices))
            characters.append(np.array(list(choices))[digit.astype(np.int64)])
        columns = np.stack(characters[::-1], axis=1)
        found: list[str] = columns.view(f"<U{len(self.places)}").ravel().tolist()
        return found


def pattern_of(text: str) -> TextPattern:
    """The pattern that is written as a regular expression. Raises WrongPattern."""
    found, at = list[str](), 0
    while at < len(text):
        match = PART.match(text, at)
        if match is None:
            raise WrongPattern(f"{text[at]} at character {at + 1} has no meaning in a pattern here")
        inside, escaped, plain, times = match.groups()
        choices = plain or (_set(inside) if inside is not None else _escaped(escaped))
        found += [choices] * (1 if times is None else int(times))
        if len(found) > LONGEST:
            raise WrongPattern(f"its texts have more than {LONGEST} characters")
        at = match.end()
    if not found:
        raise WrongPattern("its texts have no characters")
    return TextPattern(places=tuple(found))


def _escaped(letter: str) -> str:
    if letter == "d":
        return string.digits
    if letter.isalnum():
        raise WrongPattern(f"\\{letter} has no meaning in a pattern here")
    return letter


def _set(text: str) -> str:
    """The characters of a set, in order, each once."""
    if text.startswith("^"):
        raise WrongPattern("[^...] would be all other characters")
    items = [*re.finditer(r"\\(.)|(.)", text, re.DOTALL)]
    found, at = list[str](), 0
    while at < len(items):
        first = _escaped(items[at][1]) if items[at][1] else items[at][2]
        if at + 2 < len(items) and items[at + 1][2] == "-":
            last = items[at + 2][1] or items[at + 2][2]
            if len(first) > 1 or not first <= last:
                raise WrongPattern(f"{items[at][0]}-{last} is no range of characters")
            found += map(chr, range(ord(first), ord(last) + 1))
            at += 3
        else:
            found += first
            at += 1
    if not all(char.isprintable() for char in found):
        raise WrongPattern("it has characters that cannot be printed")
    return "".join(dict.fromkeys(found))


def _permuted(numbers: Words, size: int, seed: int) -> Words:
    """A permutation of the numbers below `size`: a Feistel network on a few more bits, applied again to what leaves the range."""
    half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    mask, shift, found = np.uint64(2**half - 1), np.uint64(half), numbers.copy()
    outside = np.ones(len(numbers), dtype=np.bool_)
    while outside.any():
        left, right = found[outside] >> shift, found[outside] & mask
        for turn in range(TURNS):
            left, right = right, left ^ (_mixed(right, _key(turn, seed)) & mask)
        found[outside] = left << shift | right
        outside = found >= np.uint64(size)
    return found


def _key(number: int, seed: int) -> int:
    return int(_mixed(np.array([number], dtype=np.uint64), seed)[0])


def _mixed(numbers: Words, key: int) -> Words:
    """Hashed words. Source: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        state = (numbers + np.uint64(key % 2**64)) * _STEP + _STEP
        state = (state ^ (state >> np.uint64(30))) * _FIRST
        state = (state ^ (state >> np.uint64(27))) * _SECOND
        return np.asarray(state ^ (state >> np.uint64(31)))
