"""How much room texts take in a picture, before any font is known: bounds, by which names are wrapped and labels kept apart."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

SIZE = 12  # of letters, in pixels
LINE = 15  # from one line of text to the next
LONGEST = 200  # letters of a name that are shown; tables have all
_WIDTHS = {letter: width for letters, width in (
    ("iIjlJ'|", 0.36), ("tfr.,:;!()[]{}/\\-` ", 0.45), ('"*_', 0.52), ("mw", 0.98), ("MWOQG%@", 1.0), ("#+<=>~^&", 0.84),
    ("ABCDEFHKLNPRSTUVXYZ", 0.78)) for letter in letters}
"""In parts of the size. No common font without serifs has wider ones: DejaVu Sans, the widest, is a little narrower."""


def text_width(text: str) -> float:
    """A bound on the width of a text, in pixels."""
    return SIZE * sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if letter.isascii():
        return 0.66
    if unicodedata.combining(letter):
        return 0.0
    return 1.02 if letter < "\u1100" else 1.4


def shortened(text: str) -> str:
    """The text, or its beginning and dots where it has more letters than `LONGEST`."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST - 2]} …"


def wrapped(text: str, width: float) -> list[str]:
    """The text in lines of at most this width, in pixels. A word that is wider is broken; a text of more than `LONGEST` letters
    ends in dots."""
    text = shortened(" ".join(text.split()) or "''")
    lines = [""]
    for word in text.split(" "):
        for part in _broken(word, width):
            longer = f"{lines[-1]} {part}" if lines[-1] else part
            if lines[-1] and text_width(longer) > width + 0.01:
                lines.append(part)
            else:
                lines[-1] = longer
    return lines


def _broken(word: str, width: float) -> Iterator[str]:
    """The parts of a word, each no wider than this, or of one letter."""
    part = ""
    for letter in word:
        if part and text_width(part + letter) > width + 0.01:
            yield part
            part = ""
        part += letter
    yield part
