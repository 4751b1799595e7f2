"""How many rows of each value of a key to keep, learned with the sparse vector technique.

Rows are numbered within their value (`plan.operators.numbers`). Those with a number above m are the rows that a limit of m
leaves out: the ladder of half powers of two is climbed until they are so few that what is lost with them weighs no more than the
noise that the limit brings. One entity moves each of these counts by as many rows as it has, whatever keys they have. (Keys
counted by their number of rows would move twice as far: a key leaves one bin and enters another.) Nothing rests on the limit but
the error: it is enforced, whatever it is.

Why not a noisy histogram, as for the rows of entities (`histogram`): of an entity there is one size, but a frequent value has
rows of all numbers up to its own. So what a limit leaves out is spread over many bins, none of which stands out of noise that is
as wide as all rows of an entity, while their sum does.

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

RUNGS = 40  # half octaves of limits that are tried


def learned_frequency(side: Node, keys: tuple[str, ...], moved: int, allotted: Cost, deviation: Deviation,
                      lost: Deviation) -> Generator[Request, Any, int]:
    """A limit on the rows of each value of `keys`, where one entity moves so many rows of `side`.

    `deviation` is that of the noise for a limit, `lost` how many rows of the result go with each row that it leaves out.
    """
    numbered = Numbers(input=side, keys=keys)
    binned = Project(input=numbered, columns=(("rung", "half power of two", bin_of(numbered.field(NUMBER).ref, RUNGS)),))
    scale = scale_of(2 * moved / allotted.as_epsilon)
    found: Rung = yield AboveThresholdOfCounts(plan=GroupedSums(input=binned, keys=("rung",), summands=(Count(),)),
                                               scale_limit=scale,
                                               scale_query=scale, limits=limits_of(scale, deviation, lost))
    return limit_at(found.rung)


def limits_of(scale: float, deviation: Deviation, lost: Deviation) -> tuple[int, ...]:
    """How many rows may be left out at each rung: as many as weigh no more than the noise of its limit.

    But as many as the noise of the ladder itself, so that a rung that no row exceeds is seldom passed; and a little more with
    each rung, so that one shared noise far below zero does not send the answer to the top.
    """
    ends = [limit_at(rung) for rung in range(RUNGS)]
    return tuple(math.ceil(max(scale, deviation(end) / lost(end)) + rung * scale / 6) for rung, end in enumerate(ends))


def limit_at(rung: int) -> int:
    return math.ceil(2 ** (rung / 2))
