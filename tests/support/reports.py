"""Reports of charges, as a ledger tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from dpsql.budgets.reports import tight_epsilon
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge
from dpsql.trusted.kernel.reported import Reported


def report_of(charges: Sequence[Charge], delta: float) -> float | None:
    """The least epsilon known for charges that one account made."""
    reported, account = Reported(), Account(budget="b", analyst="a")
    for charge in charges:
        reported.count(account, charge)
    spent = reduce(Charge.__add__, charges, NOTHING)
    return tight_epsilon(spent, tuple(reported.prices.get("b", {}).items()), delta)
