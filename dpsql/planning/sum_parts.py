"""Sums and numbers of rows: limited by rows, by the totals of each entity, or by the mechanism of a bound."""

from __future__ import annotations

import math
from fractions import Fraction

from dpsql.errors import OptionError
from dpsql.mechanisms.mechanism import Linear, Shared
from dpsql.planning.contribution_bound import BoundedQuestion
from dpsql.planning.entity_totals import contributions_of
from dpsql.planning.part_kind import LimitedRows, PartKind, Reach, linear_task, reach_of
from dpsql.questions.all_aggregates import Kind
from dpsql.questions.labels import summand_label
from dpsql.questions.parts import Sums
from dpsql.questions.question import Question
from dpsql.trusted.plan.certificate import Sensitivity
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import MOST, Contributions
from dpsql.trusted.plan.operators.owner_sets import LARGEST
from dpsql.trusted.plan.operators.quantizer import MOST_STEPS, Quantizer
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate

ROWS = Sums(summand=Count())


class SumsKind(PartKind[Sums]):
    """Sums of a summand."""

    def task(self, at: int, part: Sums, asked: BoundedQuestion, rows: LimitedRows) -> Linear:
        match asked.bound.name:
            case "clip":
                return _clipped(at, part, asked, rows)
            case "reservoir":
                return _sampled(at, part.summand, asked, rows)
        return linear_task(at, rows.view, asked.keys, part.summand, rows.public)

    def shared_task(self, at: int, part: Sums, asked: BoundedQuestion, view: Node, reach: Reach | None = None) -> Shared:
        assert isinstance(part.summand, Count | GridSum)
        return level_task(at, part.summand, asked, view, reach)

    def sample(self, at: int, part: Sums, asked: BoundedQuestion) -> Linear:
        return sample_sum(at, part.summand, asked)

    def words(self, part: Sums, asked: BoundedQuestion) -> str:
        summed = summand_label(part.summand, dict(asked.view.names))
        if isinstance(part.summand, GridSum) and part.summand.column in _products(asked.question):
            return f"sums of products of {summed} (of deviations from the midpoints of ranges)"
        return f"sums of {summed}"

    def told_by_keys(self, part: Sums, *, rows: bool, entities: bool) -> bool:
        return rows and part == ROWS


def _products(question: Question) -> frozenset[str]:
    """The columns that are products of two others."""
    return frozenset(call.columns[2] for call in question.aggregates if call.aggregate.kind is Kind.PAIR)


def _clipped(at: int, part: Sums, asked: BoundedQuestion, rows: LimitedRows) -> Linear:
    """The vector of what each entity adds to all cells is scaled down to the l1 or l2 norm of the limit, in integers."""
    given: Node
    if rows.together:
        given, totals = contributions_of(rows.view, asked.owner, asked.keys, part, rows.together)
    else:
        given = contributions(rows.view, asked.owner, asked.keys, part.summand)
        totals = given.totals
    clipped = Clip(input=given, owner=asked.owner, columns=totals, order=rows.order, bound=_total(part.summand, asked, rows))
    return linear_task(at, clipped, asked.keys, Clipped(clipped=totals), rows.public)


def _sampled(at: int, summand: Summand, asked: BoundedQuestion, rows: LimitedRows) -> Linear:
    """At most `groups` cells of each entity are used, chosen by a keyed hash, and what it adds to each is clamped to the limit,
    in integers.

    Source: Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs 2020.
    """
    total = _total(summand, asked, rows)
    if total > MOST_STEPS:
        raise OptionError("clip is too large for the grid that values are summed on", code="bound", subject="clip",
                          span=asked.options.span.get("clip"), try_="bound = 'reservoir', clip = 1000, or coarser values")
    given: Node = contributions(rows.view, asked.owner, asked.keys, summand)
    if asked.keys:
        given = Truncate(input=given, rows=asked.groups, owner=asked.owner, order=asked.keys)
    clamp = Quantizer(low=-total, high=total, step=Fraction(1), from_low=False)
    return linear_task(at, given, asked.keys, GridSum(column="e0_0", grid=clamp), rows.public)


def _total(summand: Summand, asked: BoundedQuestion, rows: LimitedRows) -> int:
    """The limit on what an entity adds, in integers: as it was learned, or as the statement gives it."""
    if rows.total is not None:
        return rows.total
    assert asked.options.clip is not None
    return clip_of(summand, asked.options.clip)


def level_task(at: int, summand: Count | GridSum, asked: BoundedQuestion, view: Node, reach: Reach | None) -> Shared:
    """The task of a sum for the mechanism of a bound. It is limited to one level if `clip` gives it, or for bound = 'extension'
    to the level of the most rows at their bound."""
    extension, clip = asked.bound.name == "extension", asked.options.clip
    reach = reach or reach_of(asked, view, derived=extension)
    most = min(LARGEST, reach.rows * summand.l1 if clip is None else clip_of(summand, clip))
    return Shared(at=at, input=view, owners=asked.known.owners, summand=summand, bound=asked.bound.name, groups=reach.groups,
                  most=most, level=most if clip is not None or extension else None)


def sample_sum(at: int, summand: Summand, asked: BoundedQuestion) -> Linear:
    """A sum that one entity changes by 1, as a stand-in for any sum."""
    return Linear(at=at, input=asked.view, summand=summand, sensitivity=Sensitivity(l1=1, l2=1))


def contributions(view: Node, owner: str, keys: tuple[str, ...], *summands: Summand) -> Contributions:
    """The contribution of each entity to each cell. These are the cells of its rows, whether declared or not."""
    return Contributions(input=view, owner=owner, keys=keys, summands=summands)


def clip_of(summand: Summand, limit: Fraction) -> int:
    """A limit in the unit of the aggregate (rows for counts and moments, values for sums), as an integer of the summand."""
    size = limit / summand.grid.step if isinstance(summand, GridSum) else Fraction(base_of(summand)) * limit
    return max(1, min(MOST, math.ceil(size)))


def base_of(summand: Summand) -> int:
    """The sum of the integers that one row adds to a count or to moments."""
    return summand.total if isinstance(summand, Moments) else 1
