"""How several checks share one price.

independent  every check has an equal share; their noise is independent. Checks of disjoint rows share one price
conjunction  one question: are all of them true? The least of all slacks, at the whole price
sparse       only failures are paid for, up to a number of them that is fixed beforehand; what comes after is not tested
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpsql.accounting.cost import Cost
from dpsql.mechanisms.additive.bought import bought
from dpsql.mechanisms.additive.laplace import scale_of
from dpsql.plan.certificate import stability
from dpsql.plan.node import Node, PublicFacts
from dpsql.plan.rules.flatten import Flat, flattened, gathered
from dpsql.requests import Failed, Failing, Request, Slack, Slackened, Test, Within, splits
from dpsql.requests.slack import touched
from dpsql.validation.deciders.base import Case, Decider, Outcome
from dpsql.validation.deciders.flip import FlipDistance, outcome
from dpsql.validation.forms import within

Outcomes = Generator[Request, Any, list[Outcome | None]]


@dataclass(frozen=True, kw_only=True)
class Together:
    """Checks that are decided together: each with its decider, at this price. A sparse suite tells up to `failures` of them."""

    cases: tuple[Case, ...]
    deciders: tuple[Decider, ...]
    purse: Cost
    failures: int
    alpha: Fraction
    public: PublicFacts

    @cached_property
    def flips(self) -> tuple[int, ...]:
        """Which checks are decided by their flip distances."""
        return tuple(i for i, decider in enumerate(self.deciders) if isinstance(decider, FlipDistance))

    @cached_property
    def tests(self) -> tuple[Test, ...]:
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

    @cached_property
    def terms(self) -> Sparse:
        """How a sparse suite compares slacks: so that of all its decisions one is wrong, far enough from the border, with a
        chance of alpha at most. Where entities only bring rows, either side of an interval is asked about by itself."""
        plans = {id(test.plan): test.plan for test in self.tests}
        below = {key: stability(plan.input, self.public) for key, plan in plans.items()}
        split = all(splits(test, below[id(test.plan)]) for test in self.tests)
        comparisons = len(self.tests) * (WIDER + 1) * (2 if split else 1)
        return Sparse.of(self.purse, self.failures, split=split, rare=float(self.alpha) / comparisons)


Suite = Callable[[Together], Outcomes]


def independent(checks: Together) -> Outcomes:
    """Flip distances are asked for together, so that checks of disjoint rows share a price; other deciders have equal shares."""
    found: list[Outcome | None] = [None] * len(checks.cases)
    if checks.flips:
        noise = bought(1, checks.shares[checks.flips[0]])
        told: Slackened = yield Slack(tests=checks.tests, noise=noise)
        for i, slack in zip(checks.flips, told.slacks, strict=True):
            found[i] = outcome(slack, noise)
    for i, (case, decider) in enumerate(zip(checks.cases, checks.deciders, strict=True)):
        if i not in checks.flips:
            found[i] = yield from decider.decide(case, checks.shares[i])
    return found


def conjunction(checks: Together) -> Outcomes:
    """The one outcome of all cases together, told for each."""
    noise = bought(1, checks.purse)
    found: Slackened = yield Slack(tests=checks.tests, noise=noise, together=True)
    return [outcome(found.slacks[0], noise)] * len(checks.cases)


def sparse(checks: Together) -> Outcomes:
    """Each check passes or fails by its noisy slack, as long as failures may be told."""
    terms = checks.terms
    tests = tuple(replace(test, exact=False) if isinstance(test, Within) else test for test in checks.tests)
    found: Failed = yield Failing(tests=tests, most=checks.failures, limits=terms.limits, scale_limit=terms.scale_limit,
                                  scale_query=terms.scale_query, split=terms.split)
    told: list[Outcome | None] = [Outcome(within=not failed) for failed in found.failed]
    return told + [None] * (len(checks.cases) - len(told))


WIDER = 3  # how often noise is doubled, to tell clear failures for a part of the price


@dataclass(frozen=True, kw_only=True)
class Sparse:
    """How a sparse suite compares slacks; see `requests.Failing`.

    A check with a slack s is told as a failure where n - z >= s - limit, n and z being the noise of the check and of the limit.
    So the ends of n - z, beyond which it is with a chance of `rare` each, say how far from the border decisions are reliable;
    the limit is in their middle. The sum of the two scales is least where these are as 1 to the root of what failures cost.
    Wider noise tells only what is that far from passing, so that it adds no false failures.
    """

    split: bool
    scale_limit: float
    scale_query: float
    rare: float

    @classmethod
    def of(cls, purse: Cost, failures: int, *, split: bool, rare: float) -> Sparse:
        weight = failures if split else 2 * failures
        part = Fraction(1 / (1 + math.sqrt(weight))).limit_denominator(1000)
        return cls(split=split, rare=rare, scale_limit=scale_of(1 / (purse.as_epsilon * part)),
                   scale_query=scale_of(weight / (purse.as_epsilon * (1 - part))))

    def _ends(self, j: int) -> tuple[float, float]:
        """How far n - z is above 0, and below 0, with a chance of `rare` at most, n being 2^j times as wide."""
        n, z = self.scale_query * 2**j, self.scale_limit
        either = -math.expm1(-1 / n - 1 / z)  # P(n - z >= t) = (1 - exp(-1 / z)) / either * exp(-t / n) for whole t >= 0
        above, below = (-math.expm1(-1 / other) / either / self.rare for other in (z, n))
        return n * math.log(max(1.0, above)), z * math.log(max(1.0, below))

    @property
    def limits(self) -> tuple[int, ...]:
        """For each width of the noise what is added to it, the narrowest first."""
        above, below = self._ends(0)
        wide = (-math.ceil(self._ends(j)[0]) for j in range(1, WIDER + 1))
        return (math.floor((below - above) / 2), *wide)

    @property
    def certain(self) -> int:
        """The distance from which a check that is asked is decided wrongly with a chance of `rare` for each comparison."""
        return math.ceil(sum(self._ends(0)) / 2) + 1


def merged(tests: Sequence[Test]) -> tuple[Test, ...]:
    """Tests with the same meaning and the same sensitivity, of which those over the same rows share a plan: one scan for all.

    Sums are then as far from a change as their largest possible value says, as each would have to list its own values.
    """
    flats = [flattened(test.plan) if isinstance(test, Within) else None for test in tests]
    found = list(tests)
    waiting = [i for i, flat in enumerate(flats) if flat is not None]
    while waiting:
        same = [i for i in waiting if _source(flats[i]) == _source(flats[waiting[0]])]
        waiting = [i for i in waiting if i not in same]
        if len(same) > 1:
            plan, start = gathered([flat for i in same if (flat := flats[i]) is not None]), 0
            for i in same:
                test = tests[i]
                assert isinstance(test, Within)
                forms = tuple(replace(form, at=start + form.at) for form in test.forms)
                found[i] = replace(test, plan=plan, exact=False, forms=forms)
                start += len(test.plan.summands)
    return tuple(found)


def _source(flat: Flat | None) -> Node | None:
    return None if flat is None else flat.source


SUITES: dict[str, Suite] = {"independent": independent, "conjunction": conjunction, "sparse": sparse}
