"""Names for the columns of a file: different ones, as the engine ignores their case, and without characters that do not show."""

from __future__ import annotations

from collections.abc import Sequence


def distinct_names(names: Sequence[str]) -> list[str]:
    """A distinct name for every column: columns without a name are numbered, and repeated names get a number at the end."""
    taken, found = {name.lower() for name in names}, list[str]()
    seen = set[str]()
    for place, name in enumerate(names, start=1):
        shown = "".join(char if char.isprintable() else " " for char in name).strip() or f"column{place}"
        number, free = 2, shown
        while free.lower() in seen or (free != name and free.lower() in taken):
            free, number = f"{shown}_{number}", number + 1
        seen.add(free.lower())
        found.append(free)
    return found
