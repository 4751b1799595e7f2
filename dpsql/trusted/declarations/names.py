"""The normal form of analysts' names, so that nobody gets a second account by spelling a name differently.

The normal form is Unicode NFKC, without spaces around it, case-folded, and NFKC again, as folding can undo it. `eve`, `EVE`,
` Eve ` and full-width letters are one name, and so are a letter with its accent and the two written one after the other. Names
that could be mistaken for others are refused before (`name_faults`).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache


@lru_cache(maxsize=1000)  # a statement asks several times for the name of its account
def normal(name: str) -> str:
    """The normal form of any text, whether or not it is a valid name."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).strip().casefold())
    return folded.strip()
