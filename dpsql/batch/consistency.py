"""Make the numbers of a workload look like counts, if a statement asks for that by name. This is post-processing; its bias is
described in `strategies.post_processing`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsql.batch.group import Group, Told
from dpsql.errors import OptionError
from dpsql.plan.operators.summands import Count
from dpsql.strategies.post_processing import SMALL, consistent, nonnegative
from dpsql.types import Span

_BIASED = "so small ones are too large on average; errors are only a guide"
NOTES = {"non_negative": f"no number is below zero, {_BIASED}", "integer": f"numbers are whole and not below zero, {_BIASED}"}


def fits(group: Group) -> bool:
    """Whether the sums of a group cannot be negative. Sums of values of both signs are left as they are."""
    return isinstance(group.summand, Count) or group.summand.grid.low >= 0


def check(group: Group, span: Span | None) -> None:
    """Raise OptionError if finding the nearest table would take too long."""
    size = group.smaller.workload.domain.size
    if fits(group) and size > SMALL:
        raise OptionError(f"the nearest table without negative cells can be found for {SMALL} cells at most, not for {size}",
                          code="consistency", subject="consistency", span=span, try_="the statement without it, or coarser keys")


def made_consistent(group: Group, told: Told, way: str) -> Told:
    """The answers to a group, made consistent in the way that is asked for: none, non_negative or integer."""
    if way == "none" or not fits(group):
        return told
    spread = None if np.isnan(told.variances).any() else np.maximum(told.variances / group.unit**2, 1e-12)
    act = consistent if way == "integer" and isinstance(group.summand, Count) else nonnegative
    try:
        found = act(group.smaller.workload, told.values / group.unit, spread)
    except RuntimeError:  # the search was given up; the paid answers are returned unchanged
        return replace(told, notes=(*told.notes, "the nearest table without negative cells was not found"))
    return replace(told, values=found.answers * group.unit, kind="approximate", mixed=None, notes=(*told.notes, NOTES[way]))
