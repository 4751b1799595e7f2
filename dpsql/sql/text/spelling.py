"""Advice about names that were mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def closest(name: str, known: Sequence[str], *, cutoff: float = 0.6) -> str:
    """The known name that is most similar to a mistyped one; "" if none is."""
    lowered = {item.lower(): item for item in known}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=cutoff)
    return lowered[close[0]] if close else ""


def mistyped(name: str, words: Sequence[str]) -> str:
    """The function whose name was mistyped; "" if none is similar enough, as similar names may be different functions (MAD,
    mod)."""
    swapped = next((word for word in words if word != name.lower() and sorted(word) == sorted(name.lower())), "")
    return swapped or closest(name, words, cutoff=0.8)


def one_of(known: Sequence[str]) -> str:
    """A hint that lists names; "" if there are none."""
    names = sorted(set(known))
    return "one of " + ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") if names else ""


def for_a_text(name: str, otherwise: str) -> str:
    """The advice to put a name in single quotes, if it was meant as a text."""
    text = name.replace("'", "''")
    return f"'{text}' for a text" + (f", or {otherwise}" if otherwise else "")
