"""EXPLAIN PRIVACY VALIDATE: what will be asked, by whom it is decided, and how far from the border that is reliable."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.budgets.reports import amount
from dpsql.planning.explain import Expected, Explanation, Measurement, steps
from dpsql.trusted.plan.certificate import stabilities
from dpsql.trusted.plan.node import PublicFacts
from dpsql.validation.check_plan import CheckPlan
from dpsql.validation.deciders.all_deciders import DECIDERS
from dpsql.validation.findings import Finding
from dpsql.validation.prepare import PreparedCheck


def explained_validation(plan: CheckPlan, public: PublicFacts, *, entity: str, left: Sequence[str]) -> Explanation:
    """The explanation of a validation; nothing is spent."""
    found = plan.findings()
    trees = [step for check in plan.checks for step in steps(
        check.case.asked.view, stabilities(check.case.asked.view, public), 0, entity)]
    measured = [Measurement(what=f"{finding.query} within {finding.tolerance} of the synthetic answer", aggregates=("within",),
                            price=finding.price or amount(plan.allotted), mechanism=finding.decider,
                            noise=_reliable(finding, plan, entity) + _held(finding, check),
                            against={decider.name: "only by its name" for decider in DECIDERS if decider.name != finding.decider})
                for finding, check in zip(found, plan.checks, strict=True)]
    shared = f"{plan.suite}: {len(found)} checks" if len(found) > 1 else ""
    return Explanation(
        entity=entity, steps=tuple(trees), rewrites=(), stages=(shared,) if shared else (), measurements=tuple(measured),
        expected=tuple(Expected(aggregate=finding.query, error=None, named="yes, no or inconclusive") for finding in found),
        groups="all groups of a check are decided together, for one price", cost=str(plan.price), left=tuple(left))


def _held(finding: Finding, check: PreparedCheck) -> str:
    if not check.case.asked.held:
        return ""
    level = "a level that is learned first" if finding.held is None else f"{finding.held:,.6g}"
    return f"; what each of them adds is limited to {level}"


def _reliable(finding: Finding, plan: CheckPlan, entity: str) -> str:
    if finding.certain is None:
        return "no bound on wrong decisions"
    curve = f" ({finding.chances})" if len(finding.mistakes) > 1 else ""
    return (f"wrong with probability {float(plan.terms.alpha):g} at most where {finding.certain} or more entities "
            f"({entity}) would have to be added or removed to change the truth{curve}")
