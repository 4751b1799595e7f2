"""How many rows of each value of a key to keep, learned from a noisy histogram of the numbers of rows.

Rows are numbered within their value (`plan.operators.numbers`). Those with a number above m are the rows that a limit of m leaves
out, so from the counts of rows whose number is in each bin the limit is taken for which what is left out and the noise are
smallest together. One entity moves as many of the counts as it moves rows, whatever keys they have: so all bins cost as much as
one count of its rows. (Counts of keys by their number of rows would move twice as far: a key leaves one bin and enters another.)
Nothing rests on the limit but the error: it is enforced, whatever it is.

Source of the idea: Kotsogiannis et al., PrivateSQL, VLDB 2019, who learn limits of keys with the sparse vector technique; for
bins against that technique see `histogram`.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from dpsql.accounting.cost import Cost
from dpsql.mechanisms.additive.bought import bought
from dpsql.mechanisms.truncation.histogram import Deviation, bin_of
from dpsql.mechanisms.truncation.standing import Reals, highest
from dpsql.plan.node import Node
from dpsql.plan.operators.numbers import NUMBER, Numbers
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.summands import Count
from dpsql.plan.operators.tally import Tally
from dpsql.requests import Measure, Measured, Request

OCTAVES = 20  # of limits that are tried

def learned_frequency(side: Node, keys: tuple[str, ...], moved: int, purse: Cost,
                      deviation: Deviation) -> Generator[Request, Any, int]:
    """A limit on the rows of each value of `keys`, where one entity moves so many rows of `side`."""
    bins, noise = 2 * OCTAVES, bought(moved, purse)
    numbered = Numbers(input=side, keys=keys)
    binned = Project(input=numbered, columns=(("bin", "half power of two", bin_of(numbered.field(NUMBER).ref, bins)),))
    told: Measured = yield Measure(plan=Tally(input=binned, keys=("bin",), summands=(Count(),)), noises=(noise,),
                                   cells=tuple((place,) for place in range(bins + 1)))
    counts = np.array(told.totals[0][0], dtype=np.float64)
    top = highest(counts, noise, usual=0, steps=2)
    return math.ceil(2 ** (best(counts[: top + 1], deviation) / 2)) if top >= 0 else 1


def best(counts: Reals, deviation: Deviation) -> int:
    """The bin at whose upper end to cut."""
    left_out = np.maximum(counts, 0)[::-1].cumsum()[::-1]
    errors = [math.hypot(float(left_out[place + 1]) if place + 1 < len(counts) else 0.0, deviation(2.0 ** (place / 2)))
              for place in range(len(counts))]
    return int(np.argmin(errors))
