"""Averages over rows of several entities each, measured from sums of deviations from a median of all groups.

AVG(x) = c + SUM(x - c) / COUNT(x) for any c; see `planning.centred_averages`. Here this does more than reduce noise. The sum and
the count are each limited to a level of their own, so what is cut off one is not what is cut off the other, and the relative
error of their quotient may be as large as that of either. With a centre, what is cut off the count is multiplied by AVG(x) - c
only, and what is cut off the sum is a part of the deviations; those above and below c are held to the level separately, and
offset each other.

The centre c is a median, searched for over rows with at most one for each entity (a level of 1): any number near the average will
do, and with so little noise it is found for a small part of the price. It is a released number, so only the error depends on it.
If there are only a few entities, it may be anywhere in the range of x, and averages are then as uncertain as without it.

Variances, and statistics of two columns, are measured in the same way: from sums of x - c, of its squares, and of its products
with the deviation of another column. If deviations were measured from a distant number, this distance would make up nearly all of
the squares; different parts of the squares and of the number of rows would be cut off, and the variance, a small difference,
would be lost in that error.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.mechanism import SharedRanks, TaskContext
from dpsql.mechanisms.named_bounds import Bound
from dpsql.mechanisms.select.threshold_search import ThresholdSearch
from dpsql.planning.centred_averages import Average, AverageCentre, averages_of
from dpsql.questions.parts import Decomposition, Quantiles
from dpsql.questions.question import Question
from dpsql.questions.rules.squares import centre_of, distance_of, measured_columns
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count, GridSum

ROUNDS = 6  # enough for a centre, which need not be close to the median
OF_COUNTS = 0.5  # the weight of a count in an average, relative to that of the total


class Centres(Frozen):
    """The centres that were found: for averages whose sum nothing else uses, and for columns whose squares or products are
    summed."""

    averages: Sequence[AverageCentre]
    columns: Mapping[str, float]


def to_centre(question: Question, parts: Decomposition) -> list[Average]:
    """The averages that can be measured from a centre."""
    return [average for average in averages_of(question, parts) if average.alone(parts)]


def columns_to_centre(question: Question, bound: Bound) -> dict[str, str | None]:
    """The columns that can be measured from a centre because their squares or products are needed, each with a condition. There
    are none with a declared level: it assumes rows at their bounds, for which squares need the least noise from the midpoint."""
    return measured_columns(question) if bound.name != "extension" else {}


def searched_centres(question: Question, parts: Decomposition, bound: Bound, view: Node, owners: tuple[str, ...],
                     price: Cost) -> Generator[Request, Any, Centres]:
    """Search for a centre for each average and column, with equal shares of the price."""
    averages, measured = to_centre(question, parts), columns_to_centre(question, bound)
    price = price.part(Fraction(1, len(averages) + len(measured)))
    found, columns = [], {}
    for average in averages:
        summand = parts.total(average.total)
        value = yield from _searched(average.total, summand.column, summand.when, summand.grid, view, owners, price)
        found.append(AverageCentre(average=average, value=value))
    for column, when in measured.items():
        grids = {summand.column: summand.grid for summand in parts.sums.values() if isinstance(summand, GridSum)}
        distance = distance_of(column)
        moved = yield from _searched(0, distance, when, grids[distance], view, owners, price)
        columns[column] = centre_of(question.view.field(column).facts, column, {}) + moved
    return Centres(averages=found, columns=columns)


def _searched(at: int, column: str, when: str | None, grid: Quantizer, view: Node, owners: tuple[str, ...],
              price: Cost) -> Generator[Request, Any, float]:
    """Search for a number near the median of a column, on its grid."""
    middle = Quantiles(column=column, when=when, grid=replace(grid, from_low=True), fractions=(Fraction(1, 2),))
    task = SharedRanks(at=at, input=view, owners=owners, part=middle, most=1, level=1)
    (places,), = yield from ThresholdSearch(ROUNDS).run([(task, price)], TaskContext(keys=(), cells=((),)))
    value = min(max(middle.grid.value(Fraction(float(places.values[0]))), Fraction(grid.low)), Fraction(grid.high))
    return float(round(value / grid.step) * grid.step)


def weights_of(question: Question, parts: Decomposition, bound: Bound) -> list[float]:
    """The weight of each part in splitting the price, if averages and squares are measured from centres."""
    averages, measured = to_centre(question, parts), columns_to_centre(question, bound)
    counts, centred = {average.count for average in averages}, {average.call.id for average in averages}
    centred |= {call.id for call in question.aggregates if call.columns and call.columns[0] in measured}
    beside = set(map(distance_of, measured))
    counts |= {i for i, summand in parts.sums.items()
               if measured and (isinstance(summand, Count) or set(summand.columns) & beside)}
    return [sum(OF_COUNTS if i in counts and name in centred else 1.0 for name, used in parts.uses.items() if i in used)
            for i in range(len(parts.parts))]
