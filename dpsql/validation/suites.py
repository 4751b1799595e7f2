"""How several checks share one price.

independent  every check has an equal share; their noise is independent
conjunction  one question: are all of them true? The least of all slacks, at the whole price
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from fractions import Fraction
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.requests import Request, Slack, Slackened
from dpsql.validation.deciders.base import Case, Decider, Outcome
from dpsql.validation.deciders.flip import noise_of, outcome
from dpsql.validation.forms import within

Outcomes = Generator[Request, Any, list[Outcome | None]]
Suite = Callable[[Sequence[Case], Sequence[Decider], Cost], Outcomes]


def independent(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost) -> Outcomes:
    """Each case by its own decider, for an equal share."""
    share = purse.part(Fraction(1, len(cases)))
    found: list[Outcome | None] = []
    for case, decider in zip(cases, deciders, strict=True):
        found.append((yield from decider.decide(case, share)))
    return found


def conjunction(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost) -> Outcomes:
    """The one outcome of all cases together, told for each."""
    noise = noise_of(purse)
    found: Slackened = yield Slack(tests=tuple(within(case.asked) for case in cases), noise=noise)
    return [outcome(found.slack, noise)] * len(cases)


SUITES: dict[str, Suite] = {"independent": independent, "conjunction": conjunction}
