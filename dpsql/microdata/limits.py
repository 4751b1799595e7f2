"""How large a table may be to be fitted in seconds. Sizes are public, so this is told before anything is charged."""

from __future__ import annotations

MOST_CELLS = 100_000
MOST_ENTRIES = 2**22  # cells that queries count, added up over all queries
MOST_SUMS = 1500  # sums of several cells, with which the work of Newton's method grows
FEW = 1024  # cells up to which there may be more sums, for methods that do not hold sums between bounds
HOLDING = ("max_fit", "sequential")


def refusal(method: str, *, cells: int, sums: int, entries: int) -> str | None:
    """Why a table is too large for a method; None if it is not. `sums` are queries about several cells; `entries` is the number
    of cells that all queries count, with repetitions."""
    if cells > MOST_CELLS:
        return f"it fits at most {MOST_CELLS:,} cells, and here there are {cells:,}"
    if entries > MOST_ENTRIES:
        return f"its numbers may count at most {MOST_ENTRIES:,} cells in total, with repetitions, and here they count more"
    if sums > MOST_SUMS and (cells > FEW or method in HOLDING):
        return f"it fits at most {MOST_SUMS:,} sums of several cells, and here there are {sums:,} over {cells:,} cells"
    return None
