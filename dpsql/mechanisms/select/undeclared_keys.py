"""Undeclared group keys: those that enough entities have (partition selection)."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from fractions import Fraction
from typing import Any

from dpsql.frozen import Frozen
from dpsql.mechanisms.additive_noise import sigma_of
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.field_types import WIDEST
from dpsql.trusted.measurements.frequent_keys import FrequentKeys, Keys
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.noise.key_selection import GaussianThreshold, KeyRule, TruncatedGeometric
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.distinct import Distinct
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.trusted.plan.operators.project import Project
from dpsql.trusted.plan.operators.summands import Count
from dpsql.trusted.plan.operators.truncate import Truncate

RULES = ("truncated_geometric", "gaussian_threshold")
MOST_EPSILON = Fraction(20)  # for all of an entity's rows together: more makes delta smaller, but shows no more keys
MOST_ENTITIES = 400_000  # a price that needs more entities for a key is too small to select keys at all


class KeyChoice(Frozen):
    """A rule and its name."""

    name: str
    rule: KeyRule

    @property
    def half(self) -> int:
        """The least number of entities at which a key is more likely to be shown than not."""
        return self.rule.threshold


def key_choices(allotted: Cost, groups: int) -> tuple[KeyChoice, ...]:
    """The rules that this cost allows; the first one shows the smallest keys. None if the cost is too small or has no delta."""
    if not allotted.delta:
        return ()
    found = [*_geometric(allotted.as_epsilon / groups, allotted.delta / groups)]
    if allotted.epsilon is None and (sigma := sigma_of(Fraction(groups) / (2 * allotted.rho))) <= WIDEST:
        found.append(KeyChoice(name="gaussian_threshold", rule=_gaussian(sigma, allotted, groups)))
    return tuple(sorted((choice for choice in found if choice.half < MOST_ENTITIES), key=lambda choice: choice.half))


def choices_for_rows(allotted: Cost, rows: int) -> tuple[KeyChoice, ...]:
    """The same if rows depend on several entities, each of which changes the counts of all keys by at most `rows` in total."""
    if not allotted.delta:
        return ()
    epsilon = min(allotted.as_epsilon, MOST_EPSILON) / rows
    delta = allotted.delta / rows / Fraction(math.exp(float(epsilon) * (rows - 1)) * (1 + 1e-6))
    return tuple(choice for choice in _geometric(epsilon, delta) if choice.half < MOST_ENTITIES)


def _geometric(epsilon: Fraction, delta: Fraction) -> Iterator[KeyChoice]:
    """The rule, unless its noise is wider than can be drawn or its delta underflows to zero."""
    if epsilon * Fraction(WIDEST) > 2 and float(delta) > 0:
        yield KeyChoice(name="truncated_geometric", rule=TruncatedGeometric(epsilon=epsilon, delta=delta))


def _gaussian(sigma: float, allotted: Cost, groups: int) -> GaussianThreshold:
    from scipy.special import erfcinv

    threshold = math.ceil(2 + sigma * math.sqrt(2) * float(erfcinv(2 * float(allotted.delta) / groups)))
    while GaussianThreshold(sigma=sigma, threshold=threshold).cost(groups).delta > allotted.delta:
        threshold += 1
    return GaussianThreshold(sigma=sigma, threshold=threshold)


def found_keys(view: Node, owner: str | None, columns: Sequence[str], groups: int,
               rule: KeyRule) -> Generator[Request, Any, FrequentKeys]:
    """The keys that may be shown. Each entity contributes to at most `groups` keys, chosen by a keyed hash.

    Without an owner, rows are counted instead of entities, and all rows that an entity changes contribute.
    """
    names = (*columns, *([owner] if owner is not None else []))
    told: Node = Project(input=view, columns=tuple((name, view.names[name], view.field(name).ref) for name in names))
    if owner is not None:
        told = Truncate(input=Distinct(input=told), rows=groups, owner=owner, order=tuple(columns))
    found: FrequentKeys = yield Keys(plan=GroupedSums(input=told, keys=tuple(columns), summands=(Count(),)), rule=rule)
    return found
