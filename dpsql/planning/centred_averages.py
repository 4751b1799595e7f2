"""Averages measured as distances from a centre: a number that is known to be near the average.

For any number c, AVG(x) = c + SUM(x - c) / COUNT(x). The noise of the count is then multiplied by AVG(x) - c instead of AVG(x):
if c is within a tenth of the average, it hardly matters, and nearly all of the price is left for the sum. The choice of c
affects the error only, never the privacy.

*Under learned limits* such a c is free: the histograms from which the limits of totals were learned, which are released, give
estimates of the sum over all entities and of their number of rows.

The limit for the totals of x serves for those of x - c too. None of these is further above zero; one that is further below zero
belongs to an entity with more rows of average size than make up the limit.

This is done only where values are not negative, so that the norms in the histogram are the totals; where there are no groups,
as their averages may differ; and where no SUM(x) beside the average needs the sum itself.

*With undeclared keys* whose counts are released (`mechanisms.select.shown_counts`), c is the middle of the declared bounds, so
that no value is further from it than half the width of the range. The sum then has half the error of one counted from zero;
the count costs nothing more, and half of the price goes to showing groups, so that smaller ones are shown than before. The
noise of the sum is independent of which groups are shown, so the interval of the quotient holds among these as well as that of
the count does.

Where rows belong to several entities each there is no such histogram, and a median over all groups together is searched for
instead (`planning.shared_centres`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import count

from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.truncation.histogram import LearnedLimit
from dpsql.questions.parts import Decomposition, EntityTotals, Recipe, Sums, total_of
from dpsql.questions.question import AggregateCall, Question
from dpsql.questions.rules.decompose import mean_of
from dpsql.trusted.plan.expr.nodes import Call, Cast, Expr, real
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Count
from dpsql.types import Type

UNSURE = 0.5  # the largest relative error of a centre that is used
MIDDLES = 0.1  # the relative error of taking the middle of a bin for its values, about


class Average(Frozen):
    """An average computed from two parts: a sum of values and a number of rows."""

    call: AggregateCall
    total: int
    count: int

    def alone(self, parts: Decomposition) -> bool:
        """Whether only this average uses the sum."""
        return sum(self.total in used for used in parts.uses.values()) == 1


class AverageCentre(Frozen):
    """A number near an average, on the grid of its values; `off` is about its relative error."""

    average: Average
    value: float
    off: float = UNSURE


def averages_of(question: Question, parts: Decomposition) -> list[Average]:
    """The averages computed from two parts."""
    both = [(call, parts.uses[call.id]) for call in question.aggregates if call.aggregate.average]
    return [Average(call=call, total=used[0], count=used[1]) for call, used in both if len(used) == 2]


def centres_of(question: Question, parts: Decomposition, found: Mapping[int, LearnedLimit]) -> list[AverageCentre]:
    """The averages that can be measured from a centre, each with its centre."""
    centres = []
    for average in averages_of(question, parts):
        total, rows = found[average.total], found[average.count]
        grid = parts.total(average.total).grid
        if question.keys or not average.alone(parts) or grid.least < 0 or min(total.total, rows.total) <= 0:
            continue
        off = max(total.deviation / total.total, rows.deviation / rows.total) + MIDDLES
        place = round(total.total / rows.total)
        if off <= UNSURE and 0 < place < grid.most:
            centres.append(AverageCentre(average=average, value=float(place * grid.step), off=off))
    return centres


def middles_of(question: Question, parts: Decomposition) -> list[AverageCentre]:
    """The averages computed from two parts, centred at the middle of their column's bounds."""
    found = []
    for average in averages_of(question, parts):
        grid = parts.total(average.total).grid
        found.append(AverageCentre(average=average, value=float((grid.least + grid.most) // 2 * grid.step), off=1.0))
    return found


def centred_totals(question: Question, parts: Decomposition, centres: Sequence[AverageCentre]) -> Decomposition:
    """The parts, with sums measured from centres, which follow from totals and numbers of rows of entities. A limit may be below
    the totals of some."""
    new, recipes = list(parts.parts), dict(parts.recipes)
    for centre in centres:
        average = centre.average
        total, rows = parts.total(average.total), new[average.count]
        assert isinstance(rows, Sums) and isinstance(rows.summand, Count)
        steps = round(Fraction(centre.value) / total.grid.step)
        new[average.total] = Sums(summand=total, totals=EntityTotals(total=total, count=rows.summand, centre=steps))
        recipes[average.call.id] = _from_centre(question, average, total.grid, cut=True, centre=centre.value)
    return replace(parts, parts=tuple(new), recipes=recipes)


def _from_centre(question: Question, average: Average, grid: Quantizer, *, cut: bool, centre: float) -> Recipe:
    ends = question.view.field(average.call.columns[0]).facts.declared
    return mean_of(average.total, Fraction(grid.step), average.count, ends, cut=cut, centre=centre)


def centred(question: Question, parts: Decomposition, view: Node,
            centres: Sequence[AverageCentre]) -> tuple[Decomposition, Node]:
    """The parts, with sums measured from centres, and the view extended by the summed columns."""
    columns: list[tuple[str, str, Expr]] = [(field.id, field.name, field.ref) for field in view.fields]
    new, recipes, taken = list(parts.parts), dict(parts.recipes), set(view.names)
    for number, centre in enumerate(centres):
        average = centre.average
        summand, rows = total_of(new[average.total]), new[average.count]
        assert isinstance(rows, Sums) and isinstance(rows.summand, Count)
        grid, known = summand.grid, view.field(summand.column)
        value = known.ref if known.facts.type is Type.DOUBLE else Cast(input=known.ref, target="DOUBLE", type=Type.DOUBLE)
        column = next(name for n in count(number) if (name := f"centred_{n}") not in taken)
        taken.add(column)
        columns.append((column, f"{known.name} - {centre.value:g}",
                        Call(function="-", args=(value, real(centre.value)), type=Type.DOUBLE)))
        shifted = replace(grid, low=grid.low - centre.value, high=grid.high - centre.value)
        new[average.total] = Sums(summand=replace(summand, column=column, grid=shifted))
        recipes[average.call.id] = _from_centre(question, average, grid, cut=False, centre=centre.value)
    return replace(parts, parts=tuple(new), recipes=recipes), Project(input=view, columns=tuple(columns))
