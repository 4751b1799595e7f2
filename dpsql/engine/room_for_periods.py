"""Whether the budget has room for all charges of a statement by period, before the first one is made.

Each period is charged by itself, one after another. Without this check, the first periods would be charged and nothing would be
shown, where a later one has no room. It decides on public facts: what was charged before and what the statement costs. The kernel
checks each charge again; if others spend meanwhile, the statement can still end between two periods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from dpsql.engine.charging import ChargeRequest, refusal
from dpsql.engine.session import Session
from dpsql.trusted.accounting.cost import NOTHING, Charge
from dpsql.trusted.kernel.ledger import Refused
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.period_sums import charge_in_window


class ChargedPart(Protocol):
    """A part of a statement that is charged by itself."""

    @property
    def reads(self) -> PeriodReads | None: ...

    def dues(self) -> Iterator[ChargeRequest]: ...


def check_room(parts: Sequence[ChargedPart], session: Session) -> None:
    """Check, before the first part of a statement is charged, that the budget has room for all of its parts together. Raises
    BudgetExhausted."""
    new = [(part.reads, due) for part in parts for due in part.dues()]
    if len(new) < 2:  # the charge itself is checked
        return
    session.ledger.refresh()
    total: Charge = NOTHING
    periods: defaultdict[int, Charge] = defaultdict(lambda: NOTHING)
    windows: defaultdict[int, Charge] = defaultdict(lambda: NOTHING)
    many = session.budget.in_any_periods
    for reads, due in new:
        cost = due.cost.rounded()
        total += cost
        for numbers, charge in reads.charges(cost) if reads is not None else ():
            for number in numbers:
                periods[number] += charge
        if reads is not None and session.window_prices:
            for number in range(reads.periods.first - many + 1, reads.periods.last + 1):
                windows[number] += charge_in_window(reads, cost)
    refused = _refused_together(total, periods, windows, session)
    if refused is not None:
        fault = refusal(refused, new[0][1], session)
        costs = "the statement costs "
        fault.reason = fault.reason.replace(costs, f"{costs}{len(new)} times ", 1)  # as answers say it
        fault.try_ = ("fewer periods, a lower price, or a statement that was answered before, which is free; SHOW PERIODS lists "
                      "what is left")
        raise fault


def _refused_together(total: Charge, periods: Mapping[int, Charge], windows: Mapping[int, Charge],
                      session: Session) -> Refused | None:
    """The first limit that does not allow these charges beside those that were made: in all, in a period, or in some consecutive
    ones."""
    ledger, budget, many = session.ledger, session.budget.name, session.budget.in_any_periods
    for whose, limit in session.limits.items():
        if not limit.allows((spent := ledger.spent(budget, whose)) + total):
            return Refused(whose, spent)
    for whose, limit in session.period_limits.items():
        each = ledger.spent_in_periods(budget, whose)
        for number in sorted(periods):
            if not limit.allows((spent := each.get(number, NOTHING)) + periods[number]):
                return Refused(whose, spent, number)
    for whose, limit in session.window_limits.limits.items():
        each = ledger.spent_in_windows(budget, whose, many)
        for number in sorted(windows):
            if not limit.allows((spent := each.get(number, NOTHING)) + windows[number]):
                return Refused(whose, spent, number, many)
    return None
