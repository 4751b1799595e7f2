"""The interface of deciders, which decide from few measurements whether the private answers lie within their intervals."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.reading.request import Request
from dpsql.validation.forms import CheckedAggregate

CONFIDENCE = 0.95  # of the intervals of slacks


class Check(Frozen):
    """One check: what is asked of the private rows, and how many of them one entity moves."""

    asked: CheckedAggregate
    rows: int


class Outcome(Frozen):
    """What a decider found.

    within     its decision
    p_outside  the probability of a result as good as this, or better, if the truth were "outside"; None if it tells none
    p_inside   the same for "within" and a result as bad
    slack      the noisy number of entities until the truth changes (1 or more: within), where the method tells one
    spread     the standard deviation of that noise
    margin     half the width of its 95 % interval
    held       the limit on each entity's contribution, in the unit of the aggregate, where there was one
    """

    within: bool
    p_outside: float | None = None
    p_inside: float | None = None
    slack: int | None = None
    spread: float | None = None
    margin: float | None = None
    held: float | None = None


Decision = Generator[Request, Any, Outcome]


class Decider(Protocol):
    """One way to decide."""

    @property
    def name(self) -> str: ...

    def judge(self, case: Check) -> str | None:
        """Why it cannot decide this case; None if it can."""
        ...

    def decide(self, case: Check, allotted: Cost) -> Decision:
        """Decide the case at this cost."""
        ...

    def wrong(self, case: Check, allotted: Cost, distance: int) -> float | None:
        """The largest probability of a wrong decision if `distance` entities (1 or more) must be added or removed to change the
        truth; None if there is no such bound."""
        ...
