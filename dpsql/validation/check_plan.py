"""How a VALIDATE will be decided, made from public facts; and the requests it makes of the kernel."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any

from dpsql.budgets.reports import amount
from dpsql.catalog.model import Budget
from dpsql.catalog.price import Price
from dpsql.errors import OptionError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.planning.choose import budgets_by_account, price_charged
from dpsql.planning.program import priced
from dpsql.sql.text.places import span_of
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.measurements.flip_distance import MOST_TESTS
from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.plan.node import PublicFacts
from dpsql.validation.deciders.all_deciders import DECIDERS
from dpsql.validation.deciders.decider import Decider
from dpsql.validation.findings import Finding, Validation, decided
from dpsql.validation.forms import within
from dpsql.validation.prepare import PreparedCheck, located
from dpsql.validation.suites import SUITES, Together
from dpsql.validation.terms import ValidationTerms

FARTHEST = 2**40  # in entities: beyond this no decision is called certain


class CheckPlan(Frozen):
    """The checks, how they are decided together, and on which terms."""

    checks: tuple[PreparedCheck, ...]
    terms: ValidationTerms
    suite: str
    together: Together

    @property
    def price(self) -> Price:
        price = price_charged(self.terms.options.price, self.allotted)
        assert price is not None
        return price

    @property
    def identity(self) -> tuple[object, ...]:
        """Identifies this validation: the queries, their intervals, the account, and the terms."""
        return ("validate", list(self.together.cases), [decider.name for decider in self.together.deciders], self.suite,
                self.allotted, self.terms.alpha, self.terms.failures)

    @property
    def read_later(self) -> list[PreparedCheck]:
        """The checks whose rows the first request, which decides all that have a flip distance, does not read."""
        first = {*self.together.flips}
        return [check for i, check in enumerate(self.checks) if i not in first]

    @property
    def allotted(self) -> Cost:
        """The total cost of the validation."""
        return self.together.allotted

    @property
    def shares(self) -> list[Cost]:
        """The cost of each check."""
        return self.together.shares if self.suite == "independent" else [self.allotted] * len(self.checks)

    def findings(self) -> tuple[Finding, ...]:
        """The checks before they are decided: with their deciders, and the distance from the border at which these are
        reliable."""
        deciders = self.together.deciders
        found = [replace(check.finding, decider=decider.name) for check, decider in zip(self.checks, deciders, strict=True)]
        if self.suite == "sparse":  # which has no share for each
            return tuple(replace(finding, certain=self.together.terms.certain) for finding in found)
        return tuple(self._reliable(finding, check, decider, share)
                     for finding, check, decider, share in zip(found, self.checks, deciders, self.shares, strict=True))

    def _reliable(self, finding: Finding, check: PreparedCheck, decider: Decider, share: Cost) -> Finding:
        """The finding with the chances of a wrong decision: at distances 1, 2, 4, ..., up to the effectiveness threshold."""
        certain = self._certain(check, decider, share)
        distances = [] if certain is None else [*(1 << i for i in range(certain.bit_length()) if 1 << i < certain), certain]
        chances = [(distance, decider.wrong(check.case, share, distance)) for distance in distances]
        return replace(finding, certain=certain, price=amount(share),
                       mistakes=tuple((distance, chance) for distance, chance in chances if chance is not None))

    def _certain(self, check: PreparedCheck, decider: Decider, share: Cost) -> int | None:
        """The least distance whose chance of a wrong decision is at most alpha: the effectiveness threshold."""
        def bad(distance: int) -> bool:
            chance = decider.wrong(check.case, share, distance)
            return chance is None or chance > self.terms.alpha

        high = 1
        while bad(high):
            high *= 2
            if high > FARTHEST:
                return None
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if bad(middle) else (low, middle)
        return high

    def steps(self) -> Generator[Request, Any, Validation]:
        """Make the requests and decide the checks."""
        outcomes = yield from SUITES[self.suite](self.together)
        findings = decided(self.findings(), outcomes, self.terms.alpha)
        return Validation(findings=findings, suite=self.suite, alpha=float(self.terms.alpha), cost=str(self.price),
                          notes=self._notes())

    def _notes(self) -> tuple[str, ...]:
        if self.suite == "conjunction" and len(self.checks) > 1:
            return ("one decision for all checks together: yes means that every one of them holds",)
        if self.suite == "sparse":
            many = f"{self.together.failures} failures are" if self.together.failures > 1 else "1 failure is"
            return (f"at most {many} are reported, or more if they are clear; after these nothing is tested",)
        return ()


def planned(checks: Sequence[PreparedCheck], terms: ValidationTerms, budget: Budget, public: PublicFacts) -> CheckPlan:
    """Plan the checks. Raises a located OptionError or Unsupported if the price is not possible or a decider cannot do a
    check."""
    price = priced(terms.options.price, budget, terms.options.span)
    suite = "independent" if terms.suite == "auto" else terms.suite
    together = Together(cases=tuple(check.case for check in checks), deciders=tuple(_decider(check, terms) for check in checks),
                        allotted=_purse(price, len(checks), suite), alpha=terms.alpha, public=public,
                        failures=terms.failures or max(1, -(-len(checks) // 12)))
    if suite != "independent" and terms.decider not in ("auto", "flip_distance"):
        raise OptionError(f"suite = '{suite}' is decided by flip_distance, not by {terms.decider}", subject="decider")
    if suite != "independent":
        for check in checks:
            with located(check.query):
                within(check.case.asked)
    if suite != "sparse" and len(together.flips) > MOST_TESTS:
        raise Unsupported(f"a suite can have at most {MOST_TESTS} checks, unless it is sparse", code="validate",
                          try_="suite = 'sparse', or several suites")
    if suite != "sparse" and terms.failures is not None:
        raise OptionError("failures needs suite = 'sparse'", subject="failures", try_="suite = 'sparse'")
    terms = replace(terms, options=replace(terms.options, price=price))
    return CheckPlan(checks=tuple(checks), terms=terms, suite=suite, together=together)


def _decider(check: PreparedCheck, terms: ValidationTerms) -> Decider:
    """The named decider, or the first one that can decide the check."""
    reasons = {}
    for decider in DECIDERS:
        if terms.decider not in ("auto", decider.name):
            continue
        with located(check.query):
            reason = decider.judge(check.case)
        if reason is None:
            return decider
        reasons[decider.name] = reason
    raise Unsupported("; ".join(f"{name}: {reason}" for name, reason in reasons.items()), code="decider",
                      span=span_of(check.query.tree), text=check.query.text, try_="decider = 'auto'")


def _purse(price: Price, checks: int, suite: str) -> Cost:
    """The account in which slacks get the least noise: over many checks rho, where the budget allows a delta."""
    many = checks if suite == "independent" else 1
    return replace(min(budgets_by_account(price), key=lambda given: _variance(given, many)), delta=Fraction(0))


def _variance(given: Cost, checks: int) -> float:
    if given.epsilon is not None:
        return 2 * (checks / float(given.epsilon)) ** 2
    return checks / (2 * float(given.rho))
