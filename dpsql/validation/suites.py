"""How several checks share one price.

independent  every check has an equal share; their noise is independent. Checks of disjoint rows share one price
conjunction  one question: are all of them true? The least of all slacks, at the whole price
sparse       only failures are paid for, up to a number of them that is fixed beforehand; what comes after is not tested
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.plan.node import Node
from dpsql.plan.rules.flatten import Flat, flattened, gathered
from dpsql.requests import Failed, Failing, Request, Slack, Slackened, Within
from dpsql.requests.slack import touched
from dpsql.validation.deciders.base import Case, Decider, Outcome
from dpsql.validation.deciders.flip import FlipDistance, noise_of, outcome
from dpsql.validation.forms import within

Outcomes = Generator[Request, Any, list[Outcome | None]]


@dataclass(frozen=True, kw_only=True)
class Together:
    """Checks that are decided together: each with its decider, at this price, up to so many failures that are told."""

    cases: tuple[Case, ...]
    deciders: tuple[Decider, ...]
    purse: Cost
    failures: int

    @cached_property
    def flips(self) -> tuple[int, ...]:
        """Which checks are decided by their flip distances."""
        return tuple(i for i, decider in enumerate(self.deciders) if isinstance(decider, FlipDistance))

    @cached_property
    def tests(self) -> tuple[Within, ...]:
        """The tests of these, over as few scans as possible."""
        return merged([within(self.cases[i].asked) for i in self.flips])

    @cached_property
    def shares(self) -> list[Cost]:
        """What each check spends where all are independent.

        A row adds to few of disjoint checks, which together pay for those few.
        """
        many = touched(self.tests, max(self.cases[i].rows for i in self.flips)) if self.flips else 1
        apart = self.purse.part(Fraction(len(self.flips), len(self.cases) * many))
        return [apart if i in self.flips else self.purse.part(Fraction(1, len(self.cases))) for i in range(len(self.cases))]


Suite = Callable[[Together], Outcomes]


def independent(checks: Together) -> Outcomes:
    """Flip distances are asked for together, so that checks of disjoint rows share a price; other deciders have equal shares."""
    found: list[Outcome | None] = [None] * len(checks.cases)
    if checks.flips:
        noise = noise_of(checks.shares[checks.flips[0]])
        told: Slackened = yield Slack(tests=checks.tests, noise=noise)
        for i, slack in zip(checks.flips, told.slacks, strict=True):
            found[i] = outcome(slack, noise)
    for i, (case, decider) in enumerate(zip(checks.cases, checks.deciders, strict=True)):
        if i not in checks.flips:
            found[i] = yield from decider.decide(case, checks.shares[i])
    return found


def conjunction(checks: Together) -> Outcomes:
    """The one outcome of all cases together, told for each."""
    noise = noise_of(checks.purse)
    found: Slackened = yield Slack(tests=checks.tests, noise=noise, together=True)
    return [outcome(found.slacks[0], noise)] * len(checks.cases)


def sparse(checks: Together) -> Outcomes:
    """Each check passes or fails by its noisy slack, until as many failed as may be told.

    The threshold lies between 0 and 1, where the truth changes. Its noise and that of the checks share the price as 1 to
    (2 c)^(2/3), which makes the noise of a comparison least (Lyu, Su and Li 2017, section 4.2).
    """
    epsilon, many = checks.purse.as_epsilon, checks.failures
    part = Fraction(1 / (1 + (2 * many) ** (2 / 3))).limit_denominator(1000)
    found: Failed = yield Failing(tests=checks.tests, most=many, limit=0, scale_limit=scale_of(1 / (epsilon * part)),
                                  scale_query=scale_of(2 * many / (epsilon * (1 - part))))
    told: list[Outcome | None] = [Outcome(within=not failed) for failed in found.failed]
    return told + [None] * (len(checks.cases) - len(told))


def merged(tests: Sequence[Within]) -> tuple[Within, ...]:
    """Tests with the same meaning and the same sensitivity, of which those over the same rows share a plan: one scan for all."""
    flats = [flattened(test.plan) for test in tests]
    found = list(tests)
    waiting = [i for i, flat in enumerate(flats) if flat is not None]
    while waiting:
        same = [i for i in waiting if _source(flats[i]) == _source(flats[waiting[0]])]
        waiting = [i for i in waiting if i not in same]
        if len(same) > 1:
            plan, start = gathered([flat for i in same if (flat := flats[i]) is not None]), 0
            for i in same:
                found[i] = replace(tests[i], plan=plan, forms=tuple(replace(form, at=start + form.at) for form in tests[i].forms))
                start += len(tests[i].plan.summands)
    return tuple(found)


def _source(flat: Flat | None) -> Node | None:
    return None if flat is None else flat.source


SUITES: dict[str, Suite] = {"independent": independent, "conjunction": conjunction, "sparse": sparse}
