"""Which names of analysts are refused because they could be mistaken for others: those with invisible characters, letters of
several scripts, or Latin letters that look like others.

This cannot be complete (a name in Cyrillic letters alone may look like one in Latin): an owner who must be sure lists the
analysts.
"""

from __future__ import annotations

import unicodedata

from dpsql.trusted.declarations.names import normal

LONGEST = 100
LONGEST_GIVEN = 200  # as strangers write it: not in its normal form
SIGNS = "._@-"
UNSEEN = frozenset("\u115f\u1160\u3164\uffa0")  # letters by category, and blank
OWN = frozenset("æœøłđðþħŋ")  # Latin letters that are not an ASCII letter with an accent, and look like no other
TOGETHER = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})  # scripts that one name may mix


def fault_of(name: str) -> str | None:
    """The fault of an analyst's name, given in its normal form; None if it is valid."""
    if not name:
        return "is empty"
    if len(name) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if name != normal(name):
        return "has no normal form"
    for sign in name:
        if (wrong := _fault_of_sign(sign)) is not None:
            return wrong
    if len({_script(sign) for sign in name if sign.isalpha()}) > 1:
        return "mixes letters of several scripts, some of which look alike"
    if not any(sign.isalnum() for sign in name):
        return "has no letter and no digit"
    return None


def _fault_of_sign(sign: str) -> str | None:
    if sign in SIGNS or (sign.isascii() and sign.isalnum()):
        return None
    if unicodedata.category(sign) not in ("Ll", "Lo", "Lu", "Lt") or sign in UNSEEN:
        told = repr(sign) if sign.isprintable() and not unicodedata.combining(sign) else f"U+{ord(sign):04X}"
        return f"holds {told}, which is no letter, no digit 0 to 9 and none of {' '.join(SIGNS)}"
    base = unicodedata.normalize("NFD", sign)[0]
    if _script(sign) == "LATIN" and not base.isascii() and base not in OWN:
        return f"holds U+{ord(sign):04X}, which looks like another letter"
    return None


def _script(letter: str) -> str:
    """The script of a letter, as its Unicode name begins."""
    first = unicodedata.name(letter, "?").split()[0]
    return "CJK" if first in TOGETHER else first
