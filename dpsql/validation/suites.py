"""How several checks share one price.

independent  every check has an equal share; their noise is independent
conjunction  one question: are all of them true? The least of all slacks, at the whole price
sparse       only failures are paid for, up to a number of them that is fixed beforehand; what comes after is not tested
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from fractions import Fraction
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.requests import Failed, Failing, Request, Slack, Slackened
from dpsql.validation.deciders.base import Case, Decider, Outcome
from dpsql.validation.deciders.flip import noise_of, outcome
from dpsql.validation.forms import within

Outcomes = Generator[Request, Any, list[Outcome | None]]
Suite = Callable[[Sequence[Case], Sequence[Decider], Cost, int], Outcomes]


def independent(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost, failures: int) -> Outcomes:
    """Each case by its own decider, for an equal share."""
    share = purse.part(Fraction(1, len(cases)))
    found: list[Outcome | None] = []
    for case, decider in zip(cases, deciders, strict=True):
        found.append((yield from decider.decide(case, share)))
    return found


def conjunction(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost, failures: int) -> Outcomes:
    """The one outcome of all cases together, told for each."""
    noise = noise_of(purse)
    found: Slackened = yield Slack(tests=tuple(within(case.asked) for case in cases), noise=noise)
    return [outcome(found.slack, noise)] * len(cases)


def sparse(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost, failures: int) -> Outcomes:
    """Each check passes or fails by its noisy slack, until as many failed as may be told.

    The threshold lies between 0 and 1, where the truth changes. Its noise and that of the checks share the price as 1 to
    (2 c)^(2/3), which makes the noise of a comparison least (Lyu, Su and Li 2017, section 4.2).
    """
    epsilon, part = purse.as_epsilon, Fraction(1 / (1 + (2 * failures) ** (2 / 3))).limit_denominator(1000)
    found: Failed = yield Failing(
        tests=tuple(within(case.asked) for case in cases), most=failures, limit=0,
        scale_limit=scale_of(1 / (epsilon * part)), scale_query=scale_of(2 * failures / (epsilon * (1 - part))))
    told: list[Outcome | None] = [Outcome(within=not failed) for failed in found.failed]
    return told + [None] * (len(cases) - len(told))


SUITES: dict[str, Suite] = {"independent": independent, "conjunction": conjunction, "sparse": sparse}
