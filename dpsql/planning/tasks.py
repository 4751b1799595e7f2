"""Tasks for mechanisms from the parts of a statement: over which relation, with which sensitivity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.mechanisms.mechanism import Linear, Occurrences, Ordered, Shared, SharedRanks, Task
from dpsql.planning.matchings import matching_task
from dpsql.questions.parts import Distincts, Matchings, Modes, Part, Quantiles, Sums
from dpsql.trusted.plan.certificate import certify, stability
from dpsql.trusted.plan.expr.nodes import Ref
from dpsql.trusted.plan.node import Node, PublicFacts
from dpsql.trusted.plan.operators.clip import Clip
from dpsql.trusted.plan.operators.contributions import MOST, Contributions
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.owner_sets import LARGEST
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.quantizer import Quantizer
from dpsql.trusted.plan.operators.summands import Clipped, Count, GridSum, Moments, Summand
from dpsql.trusted.plan.operators.truncate import Truncate
from dpsql.types import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipping:
    """The vector of what each entity adds to all cells is scaled down to an l1 or l2 norm (`order`) of `bound`, in integers."""

    owner: str
    order: int
    bound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservoir:
    """At most `groups` cells of each entity are kept, by a keyed hash, and what it adds to each is clamped to `bound`, in
    integers.

    Source: Wilson et al., Differentially Private SQL with Bounded User Contribution, PoPETs 2020.
    """

    owner: str
    groups: int
    bound: int


def task_of(at: int, part: Part, view: Node, keys: tuple[str, ...], public: PublicFacts, *,
            limit: Clipping | Reservoir | None = None, listed: bool = False) -> Task:
    """The task of a part over a view whose rows are limited. `limit`, for sums, bounds totals instead of rows; `listed` says that
    each declared value is tested for itself, which needs no limit. Raises TypeError for matchings (see `shared_task`)."""
    match part:
        case Quantiles():
            rows = stability(view, public).rows
            assert rows is not None
            return Ordered(at=at, input=view, part=part, rows=rows)
        case Distincts():
            known = stability(view, public)
            if not listed or part.values is None or known.owner is None:
                return _number_of_values(at, part, view, keys, public)
            total = _number_of_values(at, part, view, keys, public) if known.rows is not None else None
            return Occurrences(at=at, input=distinct_values(view, part, (known.owner, *keys)), owner=known.owner,
                               column=part.column, values=tuple(part.values.values), total=total)
        case Matchings():
            raise TypeError("matchings are tasks of several names for each row")
        case Modes():
            return _linear(at, view, (*keys, part.column), Count(when=part.when), public)
        case Sums(summand=summand) if isinstance(limit, Clipping):
            totals = tuple(f"e0_{j}" for j in range(summand.components))
            clipped = Clip(input=contributions(view, limit.owner, keys, summand), owner=limit.owner, columns=totals,
                           order=limit.order, bound=limit.bound)
            return _linear(at, clipped, keys, Clipped(clipped=totals), public)
        case Sums(summand=summand) if isinstance(limit, Reservoir):
            given: Node = contributions(view, limit.owner, keys, summand)
            if keys:
                given = Truncate(input=given, rows=limit.groups, owner=limit.owner, order=keys)
            clamp = Quantizer(low=-limit.bound, high=limit.bound, step=Fraction(1), from_low=False)
            return _linear(at, given, keys, GridSum(column="e0_0", grid=clamp), public)
        case Sums():
            return _linear(at, view, keys, part.summand, public)


def _number_of_values(at: int, part: Distincts, view: Node, keys: tuple[str, ...], public: PublicFacts) -> Linear:
    return _linear(at, distinct_values(view, part, keys), keys, Count(column=part.column), public)


def _linear(at: int, input_: Node, keys: tuple[str, ...], summand: Summand, public: PublicFacts) -> Linear:
    certificate = certify(GroupedSums(input=input_, keys=keys, summands=(summand,)), public)
    return Linear(at=at, input=input_, summand=summand, sensitivity=certificate.summands[0])


def shared_task(at: int, part: Part, view: Node, owners: tuple[str, ...], bound: str, most_rows: int, *,
                clip: Fraction | None = None, groups: int | None = None, keys: tuple[str, ...] = (),
                declared: bool = False) -> Shared | SharedRanks:
    """The task of a part for the mechanism of a bound. A sum is held to one level if `clip` gives it, or else, for
    bound = 'extension', to that of `most_rows` rows at their bound. `declared` says that the policy declares `most_rows`."""
    if isinstance(part, Matchings):
        return matching_task(at, part, view, owners)
    if isinstance(part, Quantiles):
        level = most_rows if declared else None if clip is None else max(1, math.ceil(clip))
        return SharedRanks(at=at, input=view, owners=owners, part=part, most=most_rows, level=level)
    summand = Count(when=part.when) if isinstance(part, Modes) else part.summand if isinstance(part, Sums) else None
    assert isinstance(summand, Count | GridSum)
    most = min(LARGEST, most_rows * summand.l1 if clip is None else clip_of(summand, clip))
    return Shared(at=at, input=view, owners=owners, summand=summand, bound=bound, groups=groups, most=most,
                  level=most if clip is not None or bound == "extension" else None)


def distinct_values(view: Node, part: Distincts, keys: Sequence[str]) -> Node:
    """The distinct values of a column in each cell."""
    kept = view if part.when is None else Filter(input=view, condition=Ref(column=part.when, type=Type.BOOLEAN))
    names = dict.fromkeys((*keys, part.column))
    return Distinct(input=Project(input=kept, columns=tuple((name, view.names[name], view.field(name).ref) for name in names)))


def contributions(view: Node, owner: str, keys: tuple[str, ...], summand: Summand) -> Contributions:
    """What each entity adds to each cell. (These are the cells of its rows, whether declared or not.)"""
    return Contributions(input=view, owner=owner, keys=keys, summands=(summand,))


def clip_of(summand: Summand, limit: Fraction) -> int:
    """A limit in the unit of the aggregate (rows for counts and moments, values for sums), as an integer of the summand."""
    size = limit / summand.grid.step if isinstance(summand, GridSum) else Fraction(base_of(summand)) * limit
    return max(1, min(MOST, math.ceil(size)))


def base_of(summand: Summand) -> int:
    """The sum of the integers that one row adds to a count or to moments."""
    return summand.total if isinstance(summand, Moments) else 1
