"""How several checks share one price.

independent  every check has an equal share; their noise is independent. Checks of disjoint rows share one price
conjunction  one question: are all of them true? The least of all slacks, at the whole price
sparse       only failures are paid for, up to a number of them that is fixed beforehand; what comes after is not tested
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from fractions import Fraction
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
Suite = Callable[[Sequence[Case], Sequence[Decider], Cost, int], Outcomes]


def independent(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost, failures: int) -> Outcomes:
    """Flip distances are asked for together, so that checks of disjoint rows share a price; other deciders have equal shares."""
    flips = [i for i, decider in enumerate(deciders) if isinstance(decider, FlipDistance)]
    found: list[Outcome | None] = [None] * len(cases)
    share = shares(cases, deciders, purse)
    if flips:
        noise = noise_of(share[flips[0]])
        told: Slackened = yield Slack(tests=merged([within(cases[i].asked) for i in flips]), noise=noise)
        for i, slack in zip(flips, told.slacks, strict=True):
            found[i] = outcome(slack, noise)
    for i, (case, decider) in enumerate(zip(cases, deciders, strict=True)):
        if i not in flips:
            found[i] = yield from decider.decide(case, share[i])
    return found


def shares(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost) -> list[Cost]:
    """What each case spends in an independent suite. A row adds to few of disjoint checks, which together pay for those few."""
    flips = [i for i, decider in enumerate(deciders) if isinstance(decider, FlipDistance)]
    tests = merged([within(cases[i].asked) for i in flips])
    many = touched(tests, max((cases[i].rows for i in flips), default=1)) if flips else 1
    apart = purse.part(Fraction(len(flips), len(cases) * many))
    return [apart if i in flips else purse.part(Fraction(1, len(cases))) for i in range(len(cases))]


def conjunction(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost, failures: int) -> Outcomes:
    """The one outcome of all cases together, told for each."""
    noise = noise_of(purse)
    found: Slackened = yield Slack(tests=merged([within(case.asked) for case in cases]), noise=noise, together=True)
    return [outcome(found.slacks[0], noise)] * len(cases)


def sparse(cases: Sequence[Case], deciders: Sequence[Decider], purse: Cost, failures: int) -> Outcomes:
    """Each check passes or fails by its noisy slack, until as many failed as may be told.

    The threshold lies between 0 and 1, where the truth changes. Its noise and that of the checks share the price as 1 to
    (2 c)^(2/3), which makes the noise of a comparison least (Lyu, Su and Li 2017, section 4.2).
    """
    epsilon, part = purse.as_epsilon, Fraction(1 / (1 + (2 * failures) ** (2 / 3))).limit_denominator(1000)
    found: Failed = yield Failing(
        tests=merged([within(case.asked) for case in cases]), most=failures, limit=0,
        scale_limit=scale_of(1 / (epsilon * part)), scale_query=scale_of(2 * failures / (epsilon * (1 - part))))
    told: list[Outcome | None] = [Outcome(within=not failed) for failed in found.failed]
    return told + [None] * (len(cases) - len(told))


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
