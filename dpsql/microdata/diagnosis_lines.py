"""A diagnosis in words, for EXPLAIN and for the notes of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpsql.microdata.diagnostic import (
    Diagnosis,
    Errors,
    GroupDiagnosis,
    can_be_simulated,
    clipping_bias,
    diagnosed,
    shapes,
    zeroed,
)
from dpsql.microdata.fitted import FittedTable
from dpsql.microdata.noisy_answers import NoisyAnswers

MOST_SHOWN = 6  # groups that are told one by one
EXACT = 1e-9  # ratio of squared errors below which numbers are exact: they are public, or follow from such numbers


def before(noisy: NoisyAnswers, method: str, errors: Errors | None, names: Mapping[str, str],
           total: float | None) -> tuple[str, ...]:
    """The predicted effect of a method on tables of public shapes, a line for each: all that is known before anything is
    released. The values of the answers in `noisy` are not used; `names` has the groups in words."""
    if errors is None or not can_be_simulated(noisy):
        return ()
    found = [(shape, diagnosed(noisy, noisy.matrix @ cells, method, errors)) for shape, cells in shapes(noisy, total)]
    return tuple(f"{method} if there are {shape}: {_told(each, names)}" for shape, each in found)


def after(noisy: NoisyAnswers, found: FittedTable, errors: Errors | None, names: Mapping[str, str]) -> tuple[str, ...]:
    """The effect of a method, as far as released numbers show it: how many cells are fitted at zero, and its errors if the fitted
    table is taken as the truth. If the table is too large for a simulation, only how much clipping would raise the largest
    sum."""
    empty = f"{100 * zeroed(found):.0f} % of {noisy.cells:,} cells are fitted at 0"
    if errors is not None and can_be_simulated(noisy):
        return (f"{found.method}: {empty}. If the fitted table is the truth: "
                f"{_told(diagnosed(noisy, found.answers, found.method, errors), names)}",)
    if found.method == "ols":
        return (f"ols: {empty}",)
    raised = float(np.max(clipping_bias(noisy, found), initial=0.0)) / 2
    return (f"{found.method}: {empty}. Clipping as many raises their sum by about {raised:,.3g}, but for what the sums that are "
            "measured correct",)


def _told(found: Diagnosis, names: Mapping[str, str]) -> str:
    known = [group for group in found.groups if not np.isnan(group.ratio)]
    shown = ", ".join(_group(group, names) for group in known[:MOST_SHOWN])
    more = f", {len(known) - MOST_SHOWN} more" if len(known) > MOST_SHOWN else ""
    return f"squared errors of {shown}{more} times those of the unprocessed numbers; best for all: {_either(found.best)}"


def _group(group: GroupDiagnosis, names: Mapping[str, str]) -> str:
    name = names.get(group.name, group.name)
    if group.ratio < EXACT:
        return f"{name} 0"
    worse = f", {group.worse} worse than by least squares" if group.worse else ""
    return f"{name} {group.ratio:.2g} (bias {_rounded(group.bias)}{worse}, best by {group.best[0]})"


def _rounded(bias: float) -> str:
    return f"{bias:+,.0f}" if abs(bias) >= 10 else f"{bias:+.2g}"


def _either(methods: Sequence[str]) -> str:
    return methods[0] if len(methods) == 1 else f"{', '.join(methods[:-1])} or {methods[-1]}"
