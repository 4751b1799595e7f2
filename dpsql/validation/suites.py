"""How several checks share one price.

independent  every check has an equal share; their noise is independent. Checks of disjoint rows share one price
conjunction  one question: are all of them true? The least of all slacks, at the whole price
sparse       only failures are paid for, up to a number fixed beforehand; later checks are not tested
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Sequence
from fractions import Fraction
from typing import Any

from dpsql.frozen import Frozen, replace
from dpsql.mechanisms.additive_noise import bought, scale_of
from dpsql.questions.rules.flatten import Flat, flattened, gathered
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.cached import cached_property
from dpsql.trusted.measurements.above_threshold import AboveThresholdOfTests, Failed, splits
from dpsql.trusted.measurements.flip_distance import FlipDistances, NoisyFlipDistance, Test, Within, touched
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.certificate import Certificate, stability
from dpsql.trusted.plan.expr.nodes import Expr
from dpsql.trusted.plan.node import InvalidPlan, Node, PublicFacts
from dpsql.trusted.plan.operators.filter import Filter
from dpsql.trusted.plan.operators.grouped_sums import GroupedSums
from dpsql.validation.deciders.decider import Check, Decider, Outcome
from dpsql.validation.deciders.flip import FlipDistance, outcome
from dpsql.validation.forms import within

Outcomes = Generator[Request, Any, list[Outcome | None]]


class Together(Frozen):
    """Checks that are decided together: each with its decider, at this price. A sparse suite tells up to `failures` of them."""

    cases: tuple[Check, ...]
    deciders: tuple[Decider, ...]
    allotted: Cost
    failures: int
    alpha: Fraction
    public: PublicFacts

    @cached_property
    def flips(self) -> tuple[int, ...]:
        """The checks that are decided by their flip distances."""
        return tuple(i for i, decider in enumerate(self.deciders) if isinstance(decider, FlipDistance))

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """The tests of these checks, over as few scans as possible."""
        return merged([within(self.cases[i].asked) for i in self.flips], self.public)

    @cached_property
    def certificates(self) -> list[Certificate]:
        """The certificates that the kernel will derive for each test."""
        plans = {id(test.plan): test.plan for test in self.tests}
        known = {key: Certificate(below=stability(plan.input, self.public), summands=()) for key, plan in plans.items()}
        return [known[id(test.plan)] for test in self.tests]

    @cached_property
    def shares(self) -> list[Cost]:
        """The cost of each check if all are independent.

        A row adds to few of disjoint checks, which together pay for those few.
        """
        many = touched(self.tests, self.certificates) if self.flips else 1
        apart = self.allotted.part(Fraction(len(self.flips), len(self.cases) * many))
        each, flips = self.allotted.part(Fraction(1, len(self.cases))), {*self.flips}
        return [apart if i in flips else each for i in range(len(self.cases))]

    @cached_property
    def terms(self) -> Sparse:
        """The noise with which a sparse suite compares slacks: far enough from the border, the probability that any of its
        decisions is wrong is at most alpha. If entities only add rows, the two sides of an interval are tested separately."""
        split = all(splits(test, found.below) for test, found in zip(self.tests, self.certificates, strict=True))
        comparisons = len(self.tests) * (WIDER + 1) * (2 if split else 1)
        return Sparse.of(self.allotted, self.failures, split=split, rare=float(self.alpha) / comparisons)


Suite = Callable[[Together], Outcomes]


def independent(checks: Together) -> Outcomes:
    """Decide each check independently. Flip distances are requested together, so that checks of disjoint rows share a price;
    other deciders have equal shares."""
    found: list[Outcome | None] = [None] * len(checks.cases)
    if checks.flips:
        noise = bought(1, checks.shares[checks.flips[0]])
        told: FlipDistances = yield NoisyFlipDistance(tests=checks.tests, noise=noise)
        for i, slack in zip(checks.flips, told.slacks, strict=True):
            found[i] = outcome(slack, noise)
    flips = {*checks.flips}
    for i, (case, decider) in enumerate(zip(checks.cases, checks.deciders, strict=True)):
        if i not in flips:
            found[i] = yield from decider.decide(case, checks.shares[i])
    return found


def conjunction(checks: Together) -> Outcomes:
    """Decide all cases together; every case gets the same outcome."""
    noise = bought(1, checks.allotted)
    found: FlipDistances = yield NoisyFlipDistance(tests=checks.tests, noise=noise, together=True)
    return [outcome(found.slacks[0], noise)] * len(checks.cases)


def sparse(checks: Together) -> Outcomes:
    """Decide each check by its noisy slack, until the allowed number of failures is used up."""
    terms = checks.terms
    tests = tuple(replace(test, exact=False) if isinstance(test, Within) else test for test in checks.tests)
    found: Failed = yield AboveThresholdOfTests(tests=tests, most=checks.failures, limits=terms.limits,
                                                scale_limit=terms.scale_limit,
                                                scale_query=terms.scale_query, split=terms.split)
    told: list[Outcome | None] = [Outcome(within=not failed) for failed in found.failed]
    return told + [None] * (len(checks.cases) - len(told))


WIDER = 3  # how often noise is doubled, to tell clear failures for a part of the price


class Sparse(Frozen):
    """How a sparse suite compares slacks; see `above_threshold.AboveThresholdOfTests`.

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
    def of(cls, allotted: Cost, failures: int, *, split: bool, rare: float) -> Sparse:
        weight = failures if split else 2 * failures
        part = Fraction(1 / (1 + math.sqrt(weight))).limit_denominator(1000)
        return cls(split=split, rare=rare, scale_limit=scale_of(1 / (allotted.as_epsilon * part)),
                   scale_query=scale_of(weight / (allotted.as_epsilon * (1 - part))))

    def _ends(self, j: int) -> tuple[float, float]:
        """How far n - z is above 0, and below 0, with a chance of `rare` at most, n being 2^j times as wide."""
        n, z = self.scale_query * 2**j, self.scale_limit
        either = -math.expm1(-1 / n - 1 / z)  # P(n - z >= t) = (1 - exp(-1 / z)) / either * exp(-t / n) for whole t >= 0
        above, below = (-math.expm1(-1 / other) / either / self.rare for other in (z, n))
        return n * math.log(max(1.0, above)), z * math.log(max(1.0, below))

    @property
    def limits(self) -> tuple[int, ...]:
        """For each width of the noise, narrowest first, the number that is added to it."""
        above, below = self._ends(0)
        wide = (-math.ceil(self._ends(j)[0]) for j in range(1, WIDER + 1))
        return (math.floor((below - above) / 2), *wide)

    @property
    def certain(self) -> int:
        """The distance from which a check is decided wrongly with probability at most `rare` per comparison."""
        return math.ceil(sum(self._ends(0)) / 2) + 1


def merged(tests: Sequence[Test], public: PublicFacts) -> tuple[Test, ...]:
    """Tests with the same meaning, where those over the same rows become summands of one plan: they need one scan, and those
    that share no row have one price.

    They are only put together where an entity moves no more rows of what they share than of each test's own plan: more rows
    would coarsen every slack. Sums are then as far from a change as their largest possible value says, as each would have to
    list its own values.
    """
    found = list(tests)
    for alike in _alike(tests, public):
        plan, start = _one_plan(alike, public), 0
        for i, (test, flat) in alike.tests.items() if plan is not None else ():
            forms = tuple(replace(form, at=start + form.at) for form in test.forms)
            found[i] = replace(test, plan=plan or test.plan, exact=False, forms=forms)
            start += len(flat.parts)
    return tuple(found)


class Alike(Frozen):
    """Tests over one source, by their places, of each of which an entity moves so many rows; and the conditions that all of their
    rows fulfil, without which it would move more."""

    source: Node
    rows: int
    kept: tuple[Expr, ...]
    tests: dict[int, tuple[Within, Flat]]


def _alike(tests: Sequence[Test], public: PublicFacts) -> list[Alike]:
    """The tests that can be put together, in groups."""
    found: list[Alike] = []
    limits = _Limits(public)
    for i, test in enumerate(tests):
        flat = flattened(test.plan) if isinstance(test, Within) else None
        rows = stability(test.plan.input, public).rows
        if not isinstance(test, Within) or flat is None or rows is None:
            continue
        kept = limits.kept(flat, rows)
        same = next((own for own in found if own.rows == rows and own.kept == kept and own.source == flat.source), None)
        if same is None:
            found.append(Alike(source=flat.source, rows=rows, kept=kept, tests={i: (test, flat)}))
        else:
            same.tests[i] = test, flat
    return found


class _Limits:
    """How many rows of a source an entity moves under some conditions; each is computed once."""

    def __init__(self, public: PublicFacts) -> None:
        self._public, self._known = public, list[tuple[Node, Expr | None, int | None]]()

    def kept(self, flat: Flat, rows: int) -> tuple[Expr, ...]:
        """The conditions without which an entity would move more rows: none, one, or else all of them."""
        for only in (None, *flat.common):
            if self._rows(flat.source, only) == rows:
                return () if only is None else (only,)
        return flat.common

    def _rows(self, source: Node, condition: Expr | None) -> int | None:
        for known, only, rows in self._known:
            if only == condition and known == source:
                return rows
        plan = source if condition is None else Filter(input=source, condition=condition)
        found = None
        with contextlib.suppress(InvalidPlan):  # a condition may be safe only under another one
            found = stability(plan, self._public).rows
        self._known.append((source, condition, found))
        return found


def _one_plan(alike: Alike, public: PublicFacts) -> GroupedSums | None:
    """The plan that is all of these; None where there is but one, or where they cannot be one at no loss."""
    if len(alike.tests) == 1:
        return None
    plan = gathered([flat for _, flat in alike.tests.values()], alike.kept)
    try:  # of rows that their filters left out, an expression may not be known to be safe
        _ = plan.fields
        rows = stability(plan.input, public).rows
    except InvalidPlan:
        return None
    return plan if rows == alike.rows else None


SUITES: dict[str, Suite] = {"independent": independent, "conjunction": conjunction, "sparse": sparse}
