"""What the numbers of an answer are worth: intervals that tell nothing, with what would make them narrower, and ranks that are
sure.

All of it is computed from the released numbers and their noise, so it is free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dpsql.catalog.price import Price
from dpsql.estimates import Estimate
from dpsql.frozen import Frozen

QUARTER = 0.25  # of the range of what is possible: an interval of this half width tells something
MOST_TIMES = 1e6  # a price that is so many times as large is no advice
MOST_RANKED = 100_000  # rows whose ranks are judged


class Possible(Frozen):
    """The range of an aggregate, which follows from the policy and not from the rows, and its noisy estimate.

    name   the column of the answer that shows it
    noise  the estimate before the range narrows it
    """

    name: str
    low: float
    high: float
    noise: Estimate


def tells_nothing(ends: tuple[float, float] | None, range_: tuple[float, float] | None) -> bool:
    """Whether an interval is all that is possible."""
    if ends is None:
        return False
    low, high = range_ if range_ is not None else (-math.inf, math.inf)
    return ends[0] <= low and ends[1] >= high


def nothing_told(numbers: Sequence[Possible], kept: Sequence[int], confidence: float, price: Price | None) -> Iterator[str]:
    """A note on each column with intervals that are all that is possible: in how many rows, and what would make them narrower."""
    for number in numbers:
        if number.low == number.high:  # nothing else is possible, so it is known
            continue
        lows, highs = (each[list(kept)] for each in number.noise.known(number.low, number.high).ends(confidence))
        here = (lows <= number.low) & (highs >= number.high) & ~np.isnan(number.noise.values[list(kept)])
        if not here.any():
            continue
        where = "" if len(kept) == 1 else f" in {int(here.sum()):,} of {len(kept):,} rows"
        yield f"{number.name} tells nothing{where}: its interval is all that is possible; {_way_out(number, kept, here, price)}"


def _way_out(number: Possible, kept: Sequence[int], here: np.ndarray[tuple[int], np.dtype[np.bool_]], price: Price | None) -> str:
    rows = np.asarray(kept)[here]
    below, above = (np.broadcast_to(side, number.noise.values.shape)[rows] for side in (number.noise.below, number.noise.above))
    if np.isinf(below).any() or np.isinf(above).any():
        return "a limit leaves out an unknown part, so a larger price does not help, but a limit that holds does"
    width = QUARTER * (number.high - number.low)
    times = float(np.median(2 * number.noise.deviations[rows] / np.float64(width)))  # infinite or NaN where that is no number
    if price is None or not 1 < times < MOST_TIMES:
        return "more rows in each group, or a larger price, make it narrower"
    if price.epsilon is not None:
        larger = f"about epsilon = {_rounded(float(price.epsilon) * times)}"
    else:
        larger = f"about rho = {_rounded(float(price.rho or 0) * times**2)}"
    return f"{larger}, or groups with {_rounded(times)} times as many rows, would make it half of that"


def _rounded(number: float) -> str:
    """Two digits, rounded up."""
    place = 10.0 ** (math.floor(math.log10(number)) - 1)
    return f"{math.ceil(number / place - 1e-9) * place:.6g}"


def sure_ranks(estimate: Estimate, kept: Sequence[int], confidence: float) -> str | None:
    """A note on which of the rows, ordered by these numbers, have their true rank among those shown; None if it cannot be told.

    A row surely has its rank if its interval lies between those of all rows before and of all after it. All intervals together
    hold the truth with this confidence, as each misses it with a probability of (1 - confidence) / rows at most (Bonferroni).
    """
    rows = list(kept)
    if not 1 < len(rows) <= MOST_RANKED:
        return None
    lows, highs = (each[rows] for each in estimate.ends(1 - (1 - confidence) / len(rows)))
    if np.isnan(lows).any() or np.isnan(highs).any():
        return None
    if estimate.values[rows[0]] < estimate.values[rows[-1]]:
        lows, highs = -highs, -lows
    before = np.concatenate([[math.inf], np.minimum.accumulate(lows)[:-1]])
    after = np.concatenate([np.maximum.accumulate(highs[::-1])[::-1][1:], [-math.inf]])
    sure = ((highs < before) & (lows > after)).tolist()
    among = f"with {confidence * 100:g} % confidence"
    if all(sure):
        return f"all ranks are sure {among}"
    if not any(sure):
        return f"no rank is sure {among}: the differences are within the noise"
    told = _listed([i + 1 for i, one in enumerate(sure) if one])
    return f"of the ranks, {told} {'is' if sum(sure) == 1 else 'are'} sure {among}"


def _listed(numbers: Sequence[int]) -> str:
    """Numbers as text, runs of them by their ends: 1 to 3, 7 and 9."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    told = [f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    shown = told if len(told) <= 6 else [*told[:5], f"{len(told) - 5} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
