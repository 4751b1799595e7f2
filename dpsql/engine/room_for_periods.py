"""Whether the budget has room for all charges of a statement by period, before the first one is made.

Each period is charged by itself, one after another. Without this check, the first periods would be charged and nothing would be
shown, where a later one has no room. It decides on public facts: what was charged before and what the statement costs. The kernel
checks each charge again; if others spend meanwhile, the statement can still end between two periods.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    charges = [(reads, due.cost.rounded()) for reads, due in new]
    total = functools.reduce(operator.add, (cost for _, cost in charges), NOTHING)
    in_growing = [(reads, cost) for reads, cost in charges if reads is not None]
    windows = in_windows(in_growing, session.budget.in_any_periods) if session.window_prices else {}
    refused = _refused_together(total, in_periods(in_growing), windows, session)
    if refused is not None:
        fault = refusal(refused, new[0][1], session)
        costs = "the statement costs "
        fault.reason = fault.reason.replace(costs, f"{costs}{len(new)} times ", 1)  # as answers say it
        fault.try_ = ("fewer periods, a lower price, or a statement that was answered before, which is free; SHOW PERIODS lists "
                      "what is left")
        raise fault


def in_periods(charges: Iterable[tuple[PeriodReads, Charge]]) -> dict[int, Charge]:
    """What a person in each period is charged altogether, given what statements read and what they charge in all."""
    found: defaultdict[int, Charge] = defaultdict(lambda: NOTHING)
    for reads, in_all in charges:
        for numbers, charge in reads.charges(in_all):
            for number in numbers:
                found[number] += charge
    return dict(found)


def in_windows(charges: Iterable[tuple[PeriodReads, Charge]], many: int) -> dict[int, Charge]:
    """The same for a person in `many` consecutive periods, by the first one."""
    found: defaultdict[int, Charge] = defaultdict(lambda: NOTHING)
    for reads, in_all in charges:
        for number in range(reads.periods.first - many + 1, reads.periods.last + 1):
            found[number] += charge_in_window(reads, in_all)
    return dict(found)


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
