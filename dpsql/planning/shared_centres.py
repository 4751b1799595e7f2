"""Averages over rows of several entities each, measured by how far rows are from a median of all groups.

AVG(x) = c + SUM(x - c) / COUNT(x) for any c; see `planning.centred_averages`. Here it does more than save noise. The sum and the
count are each held to a level of its own, so that what is cut off one is not what is cut off the other, and their quotient may be
off by as large a part as either. What is cut off the count is multiplied by AVG(x) - c, and what is cut off the sum is that of
distances, of which those above and below c are held apart and make up for each other.

The c is a median that is searched for over rows of which each entity has one only (a level of 1): any number will do, and there
little noise finds it for a small part of the price. It is a number that was released, so nothing rests on it but the error. Where
there are a few entities only it may be anywhere in the range of x, and then averages are as unsure as without it.

Variances, and statistics of two columns, are measured so too: from sums of x - c, of its squares, and of its products with that
of another column. Of squares counted from far away nearly all would be that distance, which is cut off the squares and the
number of rows to different parts, and a variance is what is left of their quotient.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.measurements import Request
from dpsql.mechanisms.mechanism import Setting, SharedRanks
from dpsql.mechanisms.named_bounds import Bound
from dpsql.mechanisms.select.threshold_search import ThresholdSearch
from dpsql.plan.node import Node
from dpsql.plan.operators.quantizer import Quantizer
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.plan.parts import Decomposition, Quantiles, Sums
from dpsql.plan.question import Question
from dpsql.plan.rules.squares import centre_of, distance_of, measured_columns
from dpsql.planning.centred_averages import Average, AverageCentre, averages_of

ROUNDS = 6  # a centre is wanted, not a median
OF_COUNTS = 0.5  # how much the error of a number of rows matters for an average, beside that of the total


@dataclass(frozen=True, slots=True, kw_only=True)
class Centres:
    """What was found: a centre for each average alone, and for each column whose squares or products are summed."""

    averages: Sequence[AverageCentre]
    columns: Mapping[str, float]


def to_centre(question: Question, parts: Decomposition) -> list[Average]:
    """The averages that can be measured from a centre."""
    return [average for average in averages_of(question, parts) if average.alone(parts)]


def columns_to_centre(question: Question, bound: Bound) -> dict[str, str | None]:
    """The columns that can be measured from a centre where squares or products are asked for, with a condition. At a level that
    is declared, of rows at their bounds, squares need the least noise from the middle."""
    return measured_columns(question) if bound.name != "extension" else {}


def searched_centres(question: Question, parts: Decomposition, bound: Bound, view: Node, owners: tuple[str, ...],
                     price: Cost) -> Generator[Request, Any, Centres]:
    """A centre for each of them."""
    averages, measured = to_centre(question, parts), columns_to_centre(question, bound)
    price = price.part(Fraction(1, len(averages) + len(measured)))
    found, columns = [], {}
    for average in averages:
        part = parts.parts[average.total]
        assert isinstance(part, Sums) and isinstance(part.summand, GridSum)
        grid = part.summand.grid
        value = yield from _searched(average.total, part.summand.column, part.summand.when, grid, view, owners, price)
        found.append(AverageCentre(average=average, value=value))
    for column, when in measured.items():
        grids = {part.summand.column: part.summand.grid for part in parts.parts
                 if isinstance(part, Sums) and isinstance(part.summand, GridSum)}
        distance = distance_of(column)
        moved = yield from _searched(0, distance, when, grids[distance], view, owners, price)
        columns[column] = centre_of(question.view.field(column).facts, column, {}) + moved
    return Centres(averages=found, columns=columns)


def _searched(at: int, column: str, when: str | None, grid: Quantizer, view: Node, owners: tuple[str, ...],
              price: Cost) -> Generator[Request, Any, float]:
    """A number near the median of a column, on its grid."""
    middle = Quantiles(column=column, when=when, grid=replace(grid, from_low=True), fractions=(Fraction(1, 2),))
    task = SharedRanks(at=at, input=view, owners=owners, part=middle, most=1, level=1)
    (places,), = yield from ThresholdSearch(ROUNDS).run([(task, price)], Setting(keys=(), cells=((),)))
    value = min(max(middle.grid.value(Fraction(float(places.values[0]))), Fraction(grid.low)), Fraction(grid.high))
    return float(round(value / grid.step) * grid.step)


def weights_of(question: Question, parts: Decomposition, bound: Bound) -> list[float]:
    """How much each part matters, where averages and squares are measured from centres."""
    averages, measured = to_centre(question, parts), columns_to_centre(question, bound)
    counts, centred = {average.count for average in averages}, {average.call.id for average in averages}
    centred |= {call.id for call in question.aggregates if call.columns and call.columns[0] in measured}
    beside = set(map(distance_of, measured))
    for i, part in enumerate(parts.parts):
        if isinstance(part, Sums) and measured and (isinstance(part.summand, Count) or set(part.summand.columns) & beside):
            counts.add(i)
    return [sum(OF_COUNTS if i in counts and name in centred else 1.0 for name, used in parts.uses.items() if i in used)
            for i in range(len(parts.parts))]
