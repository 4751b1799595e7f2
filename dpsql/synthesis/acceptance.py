"""What was found when drawn tables were compared with the criteria of acceptance, in words and in its stored form."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, asdict
from dpsql.trusted.kernel.marks import SYNTHETIC
from dpsql.trusted.plan.expr.nodes import Value

REFUSED = f'{SYNTHETIC} refused": '  # with which the stored form begins where no candidate was accepted
NAME = "not-accepted"


class JudgedAnswer(Frozen):
    """One number of a criterion.

    group      the values of its keys, as text
    drawn      its value in the drawn table; None for an average of no rows
    low, high  the ends of the 95 % interval of the private value; None if it is not known
    tolerance  the distance allowed
    """

    group: str
    drawn: float | None
    low: float | None
    high: float | None
    tolerance: float

    @property
    def distance(self) -> float:
        """The largest distance between the drawn value and the private one, with 95 % confidence."""
        if self.drawn is None or self.low is None or self.high is None:
            return math.inf
        return max(self.high - self.drawn, self.drawn - self.low)

    @property
    def holds(self) -> bool:
        return self.distance < self.tolerance

    @property
    def figures(self) -> tuple[str, str, str]:
        """The answer of the table, the interval of the private one, and the tolerance, as text."""
        private = "unknown" if self.low is None or self.high is None else f"{_number(self.low)} to {_number(self.high)}"
        return "NULL" if self.drawn is None else _number(self.drawn), private, _number(self.tolerance)

    def __str__(self) -> str:
        drawn, private, tolerance = self.figures
        group = f"{self.group}: " if self.group else ""
        return f"{group}{drawn} in the table, {private} in the private rows, tolerance {tolerance}"


class JudgedCriterion(Frozen):
    """A criterion with its answers, one for each group; it holds if all of them are within the tolerance."""

    query: str
    answers: tuple[JudgedAnswer, ...]

    @property
    def holds(self) -> bool:
        return all(answer.holds for answer in self.answers)

    @property
    def worst(self) -> JudgedAnswer:
        """The answer that is farthest from the private one, relative to its tolerance."""
        return max(self.answers, key=lambda answer: answer.distance / answer.tolerance if answer.tolerance else math.inf)

    @property
    def shortfall(self) -> float:
        """The largest distance, divided by its tolerance: below 1 if the criterion holds."""
        worst = self.worst
        return worst.distance / worst.tolerance if worst.tolerance else math.inf

    def __str__(self) -> str:
        more = f"; {len(self.answers):,} groups, this one is farthest" if len(self.answers) > 1 else ""
        return f"{self.query}: {'yes' if self.holds else 'no'} ({self.worst}{more})"


class Acceptance(Frozen):
    """The criteria of one drawn table: the last of `made` candidates, of which there could be `candidates`; `weighted` if its
    rows were chosen to agree with the criteria."""

    candidates: int
    made: int
    weighted: bool
    criteria: tuple[JudgedCriterion, ...]

    @property
    def holds(self) -> bool:
        return all(criterion.holds for criterion in self.criteria)

    @property
    def shortfall(self) -> float:
        """See `JudgedCriterion.shortfall`: of the criterion that is missed most."""
        return max(criterion.shortfall for criterion in self.criteria)

    @property
    def first_line(self) -> str:
        """How many candidates were made, and which one was accepted."""
        weighted = "; its rows were chosen to agree with the criteria" if self.weighted else ""
        return f"candidate {self.made} of at most {self.candidates} was accepted{weighted}"

    def lines(self) -> Iterator[str]:
        """The criteria, a line each."""
        yield from map(str, self.criteria)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


def acceptance_of(told: dict[str, Any] | None) -> Acceptance | None:
    """The result in its stored form."""
    if told is None:
        return None
    return Acceptance(candidates=told["candidates"], made=told["made"], weighted=told["weighted"], criteria=tuple(
        JudgedCriterion(query=one["query"], answers=tuple(JudgedAnswer(**answer) for answer in one["answers"]))
        for one in told["criteria"]))


class RefusedTable(Frozen):
    """The answer where no candidate was accepted: no table. `closest` tells of the one that came closest, and `records` are the
    measurements, which later statements may reuse."""

    name: str
    price: str
    closest: Acceptance
    records: tuple[object, ...] = ()

    def as_json(self) -> str:
        """The stored form."""
        return f"{REFUSED}{json.dumps(self.name)}, " + json.dumps(
            {"price": self.price, "closest": self.closest.as_dict(), "measured": self.records})[1:]

    @property
    def error(self) -> OperationalError:
        """The error that the statement raises."""
        missed = [f"\n  {one}" for one in self.closest.criteria if not one.holds]
        many = self.closest.made
        return OperationalError(
            f"no table was made, and {self.price} was spent: "
            f"{'the only candidate was' if many == 1 else f'none of {many} candidates was'} accepted; the closest one missed"
            f"{''.join(missed)}", code=NAME, subject=self.name,
            try_="a wider tolerance, a larger price, or the statement without accept; it reuses the counts that were measured")


def refused_of_json(stored: str) -> RefusedTable:
    told = json.loads(stored)
    closest = acceptance_of(told["closest"])
    assert closest is not None
    return RefusedTable(name=told["synthetic table refused"], price=told["price"], closest=closest,
                        records=tuple(told["measured"]))


def group_text(values: Sequence[Value]) -> str:
    """The values of a group, as text for people."""
    return ", ".join("NULL" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
                     for value in values)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:,.4g}"
