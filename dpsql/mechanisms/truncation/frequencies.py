"""How many rows of each value of a key to keep, learned with the sparse vector technique.

Rows are numbered within their value (`plan.operators.numbers`). Those with a number above m are the rows that a limit of m leaves
out. Limits on a ladder of half powers of two are tried from below until so few rows are left out that the loss is no larger than
the noise that comes with the limit. One entity changes each of these counts by as many rows as it has, whatever keys they have.
(Keys counted by their number of rows would change by twice as much: a key leaves one bin and enters another.) Only the error
depends on the limit, privacy does not: it is enforced, whatever it is.

A noisy histogram, as for the rows of entities (`histogram`), would not do: an entity has one size, but a frequent value has rows
with all numbers up to its frequency. So what a limit leaves out is spread over many bins, none of which stands out of noise that
is scaled to all rows of an entity, while their sum does.

Source: Kotsogiannis et al., PrivateSQL, VLDB 2019 (limits of keys by the sparse vector technique; there entities are counted).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.measurements import AboveThresholdOfCounts, Request, Rung
from dpsql.mechanisms.additive_noise import scale_of
from dpsql.mechanisms.truncation.histogram import Deviation, bin_of
from dpsql.plan.node import Node
from dpsql.plan.operators.grouped_sums import GroupedSums
from dpsql.plan.operators.numbers import NUMBER, Numbers
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.summands import Count

RUNGS = 40  # limits that are tried, in half octaves


def learned_frequency(side: Node, keys: tuple[str, ...], moved: int, allotted: Cost, deviation: Deviation,
                      lost: Deviation) -> Generator[Request, Any, int]:
    """A limit on the rows of each value of `keys`, where one entity changes at most `moved` rows of `side`.

    `deviation` is the standard deviation of the noise for a limit, `lost` how many rows of the result are lost with each row that
    the limit leaves out.
    """
    numbered = Numbers(input=side, keys=keys)
    binned = Project(input=numbered, columns=(("rung", "half power of two", bin_of(numbered.field(NUMBER).ref, RUNGS)),))
    scale = scale_of(2 * moved / allotted.as_epsilon)
    found: Rung = yield AboveThresholdOfCounts(plan=GroupedSums(input=binned, keys=("rung",), summands=(Count(),)),
                                               scale_limit=scale,
                                               scale_query=scale, limits=limits_of(scale, deviation, lost))
    return limit_at(found.rung)


def limits_of(scale: float, deviation: Deviation, lost: Deviation) -> tuple[int, ...]:
    """The number of rows that may be left out at each rung: those whose loss is no larger than the noise of its limit.

    It is at least the size of the noise in the sparse vector technique itself, so that the search seldom goes beyond a rung that
    no row exceeds; and grows a little with each rung, so that a shared noise far below zero does not send the answer to the top.
    """
    ends = [limit_at(rung) for rung in range(RUNGS)]
    return tuple(math.ceil(max(scale, deviation(end) / lost(end)) + rung * scale / 6) for rung, end in enumerate(ends))


def limit_at(rung: int) -> int:
    return math.ceil(2 ** (rung / 2))
