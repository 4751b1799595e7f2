"""How much was paid for an online model and how much is left, according to the ledger; see `measurements.online_comparisons`.

The charge of the statement that opened the model carries what it paid for, and the charge of each comparison how many updates
were made before it and the secret noise that it uses. Both are written by the kernel alone, in a chain of events that cannot be
changed unnoticed.
"""

from __future__ import annotations

import contextlib
import json

from dpsql.trusted.measurements.online_comparisons import Opened, Progress, begun
from dpsql.trusted.noise.source import Source

SERIES = "comparisons of "  # with which the names of all comparisons begin, and of no other statement


def paid_for(charged: tuple[int, str | None] | None) -> tuple[str, Opened]:
    """The name of all comparisons of a model, and what was paid for them, from the charge that opened it. Raises ValueError if
    that charge opened none."""
    if charged is not None and charged[1] is not None:
        with contextlib.suppress(TypeError):  # a comparison, which opened nothing
            return f"{SERIES}{charged[0]}", Opened(**json.loads(charged[1]))
    raise ValueError("no such model was opened")


def next_progress(newest: tuple[str | None, str | None], opened: Opened, source: Source) -> Progress | None:
    """The progress for the next comparison, from the newest one and its answer; None if all updates were made.

    A comparison without an answer failed, and counts as an update: what its analyst learned from that is not known.
    """
    charged, answer = newest
    if charged is None:
        return begun(0, opened, source)
    told = json.loads(charged)
    last = Progress(used=told["used"], shared=tuple(told["shared"]))
    same = last.after(answer)
    if same is not None or last.used + 1 >= opened.updates:
        return same
    return begun(last.used + 1, opened, source)
