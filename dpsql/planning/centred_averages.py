"""Averages that are measured by how far their rows are from about where the average is.

For any number c, AVG(x) = c + SUM(x - c) / COUNT(x). The noise of the count is multiplied by AVG(x) - c then, in place of AVG(x):
with c within a tenth of the average it hardly matters, and nearly all of the price is left for the sum. Nothing rests on c but
the error.

*Under learned limits* a c is known for nothing: the histograms that the limits of totals were learned from say about how much
all entities add, and how many rows they have. It is a number that was released.

The limit of the totals of x is kept for those of x - c, of which none is further above zero, and one that is further below has
as many rows as the limit has of average size.

Only where values are not negative, so that the norms in the histogram are the totals; where there are no groups, whose averages
may differ; and where no SUM(x) beside the average needs the sum itself.

*With undeclared keys* whose counts are told (`mechanisms.select.shown_counts`), c is the middle of the declared bounds: no value
is further off than half of their distance. So the sum errs half as much as one from zero; the count costs nothing more, and half
of the price shows groups, smaller ones than before. The noise of the sum is independent of which groups are shown, so the
interval of the quotient holds among these as that of the count does.

Where rows belong to several entities each there is no such histogram: a median is searched for then, over all groups together
(`planning.shared_centres`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

from dpsql.mechanisms.truncation.histogram import LearnedLimit
from dpsql.plan.expr.nodes import Call, Cast, Expr, real
from dpsql.plan.node import Node
from dpsql.plan.operators.project import Project
from dpsql.plan.operators.summands import Count, GridSum
from dpsql.plan.parts import Decomposition, Sums
from dpsql.plan.question import AggregateCall, Question
from dpsql.plan.rules.decompose import mean_of
from dpsql.types import Type

UNSURE = 0.5  # the most that a centre may be off, as a part of it
MIDDLES = 0.1  # by about as much the middles of bins are off the values there


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """An average that rests on two parts: a sum of values and a number of rows."""

    call: AggregateCall
    total: int
    count: int

    def alone(self, parts: Decomposition) -> bool:
        """Whether nothing else rests on the sum."""
        return sum(self.total in used for used in parts.uses.values()) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AverageCentre:
    """A number near an average, on the grid of its values, and about how far off it is, as a part of it."""

    average: Average
    value: float
    off: float = UNSURE


def averages_of(question: Question, parts: Decomposition) -> list[Average]:
    """The averages that rest on two parts."""
    both = [(call, parts.uses[call.id]) for call in question.aggregates if call.function == "avg"]
    return [Average(call=call, total=used[0], count=used[1]) for call, used in both if len(used) == 2]


def centres_of(question: Question, parts: Decomposition, found: Mapping[int, LearnedLimit]) -> list[AverageCentre]:
    """The averages that can be counted from a centre, and that centre."""
    centres = []
    for average in averages_of(question, parts):
        total, rows = found[average.total], found[average.count]
        part = parts.parts[average.total]
        assert isinstance(part, Sums) and isinstance(part.summand, GridSum)
        if question.keys or not average.alone(parts) or part.summand.grid.least < 0 or min(total.total, rows.total) <= 0:
            continue
        off = max(total.deviation / total.total, rows.deviation / rows.total) + MIDDLES
        place = round(total.total / rows.total)
        if off <= UNSURE and 0 < place < part.summand.grid.most:
            centres.append(AverageCentre(average=average, value=float(place * part.summand.grid.step), off=off))
    return centres


def middles_of(question: Question, parts: Decomposition) -> list[AverageCentre]:
    """The averages that rest on two parts, with the middles of the bounds of their columns."""
    found = []
    for average in averages_of(question, parts):
        part = parts.parts[average.total]
        assert isinstance(part, Sums) and isinstance(part.summand, GridSum)
        grid = part.summand.grid
        found.append(AverageCentre(average=average, value=float((grid.least + grid.most) // 2 * grid.step), off=1.0))
    return found


def centred(question: Question, parts: Decomposition, view: Node, centres: Sequence[AverageCentre], *,
            cut: bool) -> tuple[Decomposition, Node]:
    """The parts with sums counted from centres, and the view with the columns that these are sums of. `cut` says whether totals
    have a limit below those of some entities."""
    columns: list[tuple[str, str, Expr]] = [(field.id, field.name, field.ref) for field in view.fields]
    new, recipes, taken = list(parts.parts), dict(parts.recipes), set(view.names)
    for number, centre in enumerate(centres):
        average = centre.average
        part, rows = new[average.total], new[average.count]
        assert isinstance(part, Sums) and isinstance(part.summand, GridSum)
        assert isinstance(rows, Sums) and isinstance(rows.summand, Count)
        grid, known = part.summand.grid, view.field(part.summand.column)
        value = known.ref if known.facts.type is Type.DOUBLE else Cast(input=known.ref, target="DOUBLE", type=Type.DOUBLE)
        column = next(name for n in count(number) if (name := f"centred_{n}") not in taken)
        taken.add(column)
        columns.append((column, f"{known.name} - {centre.value:g}",
                        Call(function="-", args=(value, real(centre.value)), type=Type.DOUBLE)))
        shifted = replace(grid, low=grid.low - centre.value, high=grid.high - centre.value)
        new[average.total] = Sums(summand=replace(part.summand, column=column, grid=shifted))
        ends = question.view.field(average.call.columns[0]).facts.declared
        recipes[average.call.id] = mean_of(average.total, Fraction(grid.step), average.count, ends, cut=cut, centre=centre.value)
    return replace(parts, parts=tuple(new), recipes=recipes), Project(input=view, columns=tuple(columns))
