"""Averages over rows of several entities each, measured by how far rows are from a median of all groups.

AVG(x) = c + SUM(x - c) / COUNT(x) for any c; see `planning.centred_averages`. Here it does more than save noise. The sum and the
count are each held to a level of its own, so that what is cut off one is not what is cut off the other, and their quotient may be
off by as large a part as either. What is cut off the count is multiplied by AVG(x) - c, and what is cut off the sum is that of
distances, of which those above and below c are held apart and make up for each other.

The c is a median that is searched for over rows of which each entity has one only (a level of 1): any number will do, and there
little noise finds it for a small part of the price. It is a number that was released, so nothing rests on it but the error. Where
there are a few entities only it may be anywhere in the range of x, and then averages are as unsure as without it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.measurements import Request
from dpsql.mechanisms.mechanism import Setting, SharedRanks
from dpsql.mechanisms.select.threshold_search import ThresholdSearch
from dpsql.plan.node import Node
from dpsql.plan.operators.summands import GridSum
from dpsql.plan.parts import Decomposition, Quantiles, Sums
from dpsql.plan.question import Question
from dpsql.planning.centred_averages import Average, AverageCentre, averages_of

ROUNDS = 6  # a centre is wanted, not a median
OF_COUNTS = 0.5  # how much the error of a number of rows matters for an average, beside that of the total


def to_centre(question: Question, parts: Decomposition) -> list[Average]:
    """The averages that can be measured from a centre."""
    return [average for average in averages_of(question, parts) if average.alone(parts)]


def searched_centres(question: Question, parts: Decomposition, view: Node, owners: tuple[str, ...],
                     price: Cost) -> Generator[Request, Any, list[AverageCentre]]:
    """A centre for each of them."""
    averages, found = to_centre(question, parts), []
    for average in averages:
        part = parts.parts[average.total]
        assert isinstance(part, Sums) and isinstance(part.summand, GridSum)
        grid = part.summand.grid
        middle = Quantiles(column=part.summand.column, when=part.summand.when, grid=replace(grid, from_low=True),
                           fractions=(Fraction(1, 2),))
        task = SharedRanks(at=average.total, input=view, owners=owners, part=middle, most=1, level=1)
        (places,), = yield from ThresholdSearch(ROUNDS).run([(task, price.part(Fraction(1, len(averages))))],
                                                            Setting(keys=(), cells=((),)))
        value = min(max(middle.grid.value(Fraction(float(places.values[0]))), Fraction(grid.low)), Fraction(grid.high))
        found.append(AverageCentre(average=average, value=float(round(value / grid.step) * grid.step)))
    return found


def weights_of(question: Question, parts: Decomposition) -> list[float]:
    """How much each part matters, where averages are measured from centres."""
    averages = to_centre(question, parts)
    counts, centred = {average.count for average in averages}, {average.call.id for average in averages}
    return [sum(OF_COUNTS if i in counts and name in centred else 1.0 for name, used in parts.uses.items() if i in used)
            for i in range(len(parts.parts))]
