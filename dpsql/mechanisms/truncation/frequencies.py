"""The number of rows to keep of each value of a key, learned with the sparse vector technique.

Rows are numbered within their value (`plan.operators.numbers`). Those with a number above m are the rows that a limit of m
leaves out. A ladder of half powers of two is climbed until they are so few that their loss is no larger than the noise that goes
with the limit. One entity changes each of these counts by at most its number of rows, whatever their keys are. (Counts of keys by
their number of rows would change by twice as much: a key leaves one bin and enters another.) Only the error depends on the limit:
it is enforced, whatever it is.

A noisy histogram, as for the rows of entities (`histogram`), is worse here. An entity has one size, but a frequent value has rows
of all numbers up to its own. So the rows that a limit leaves out are spread over many bins, none of which is significant against
noise scaled to all rows of an entity, while their sum is.

Source: Kotsogiannis et al., PrivateSQL, VLDB 2019 (limits on keys by the sparse vector technique; there entities are counted).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

from dpsql.mechanisms.additive_noise import scale_of
from dpsql.mechanisms.truncation.histogram import Deviation, bin_of
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.above_threshold import AboveThresholdOfCounts, Rung
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.numbers import NUMBER, Numbers
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count

RUNGS = 40  # limits that are tried, in half octaves


def learned_frequency(side: Node, keys: tuple[str, ...], moved: int, allotted: Cost, deviation: Deviation,
                      lost: Deviation) -> Generator[Request, Any, int]:
    """A limit on the rows of each value of `keys`, where one entity moves at most `moved` rows of `side`.

    `deviation` gives the standard deviation of the noise at a limit, `lost` the rows of the result lost per row left out.
    """
    numbered = Numbers(input=side, keys=keys)
    binned = Project(input=numbered, columns=(("rung", "half power of two", bin_of(numbered.field(NUMBER).ref, RUNGS)),))
    scale = scale_of(2 * moved / allotted.as_epsilon)
    found: Rung = yield AboveThresholdOfCounts(plan=GroupedSums(input=binned, keys=("rung",), summands=(Count(),)),
                                               scale_limit=scale,
                                               scale_query=scale, limits=limits_of(scale, deviation, lost))
    return limit_at(found.rung)


def limits_of(scale: float, deviation: Deviation, lost: Deviation) -> tuple[int, ...]:
    """The number of rows that each rung may leave out: as many as add no more error than the noise at its limit.

    At least the noise scale of the search itself, so that a rung that no row exceeds is seldom passed; and a little more with
    each rung, so that a shared noise far below zero does not send the answer to the top.
    """
    ends = [limit_at(rung) for rung in range(RUNGS)]
    return tuple(math.ceil(max(scale, deviation(end) / lost(end)) + rung * scale / 6) for rung, end in enumerate(ends))


def limit_at(rung: int) -> int:
    return math.ceil(2 ** (rung / 2))
