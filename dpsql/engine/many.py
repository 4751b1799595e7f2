"""Many executions of one statement, whose cost is added up before the first one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from dpsql.answers.spending import closed
from dpsql.engine.accounts import budget_of
from dpsql.engine.answering import answer
from dpsql.engine.guard import guarded
from dpsql.engine.parameters import Parameters
from dpsql.engine.session import Session
from dpsql.errors import BudgetExhausted
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NOTHING, Account, Cost
from dpsql.trusted.kernel.run import AnsweredBefore, Kernel


@guarded
def check_all(text: str, sets: Sequence[Parameters], session: Session) -> None:
    """Raise the error that a statement has for any of the sets of values, or BudgetExhausted if the budget cannot pay for all.

    Nothing is charged or read. What other connections spend in the meantime can still make a later one too expensive.
    """
    told = cast(ReportingLedger, _Untold(session.ledger))
    asking: Session = replace(session, kernel=cast(Kernel, _Asking(session)), ledger=told)
    costs: dict[str, Cost] = {}
    for given in sets:
        try:
            answer(text, asking, given)
        except _Asked as asked:
            if asked.cost is not None:
                costs[asked.digest] = asked.cost
    total = sum((cost.rounded() for cost in costs.values()), NOTHING)
    state = budget_of(session)
    if costs and not state.incidents_left:
        raise closed(session.budget.name, session.analyst, state.failed).located(text)
    for account in state.accounts:
        if costs and not account.limit.allows(account.spent + total):
            whose = f"the budget of {account.whose}" if account.whose is not None else "the budget"
            raise BudgetExhausted(f"the {len(costs)} statements cost more together than {whose} has left, {account.part_left()}; "
                                  "none was run", subject=account.whose or "all", text=text,
                                  try_="fewer sets of values, or a lower price for each")


class _Asked(BaseException):
    """Raised when a statement reaches its charge, or where it would be told the answer of another account, at no cost. Not an
    Exception, so that nothing on the way handles it as an error."""

    def __init__(self, cost: Cost | None, digest: str) -> None:
        super().__init__("asked")
        self.cost, self.digest = cost, digest


class _Asking:
    """A kernel that answers nothing and reports the cost of what it is asked; public tables are read by the real one."""

    def __init__(self, session: Session) -> None:
        self._kernel, self._ledger, self._share = session.kernel, session.ledger, session.budget.share_answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def run(self, script: Any, *, cost: Cost, account: Account, digest: str, unless_stored: bool = False,
            data: str | None = None, **terms: Any) -> Any:
        stated = self._kernel.version if data is None else data
        if unless_stored and (body := self._ledger.stored(account, digest, stated)) is not None:
            raise AnsweredBefore(body, stated)
        if self._share and self._ledger.is_told(account.budget, digest, stated):
            raise _Asked(None, digest)
        raise _Asked(cost, digest)


class _Untold:
    """A ledger that records nothing of what would be told."""

    def __init__(self, ledger: ReportingLedger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def tell(self, account: Account, digest: str, data: str, sql: str) -> None:
        if self._ledger.is_told(account.budget, digest, data):
            raise _Asked(None, digest)

    def tell_of(self, account: Account, charges: Sequence[int], data: str, sql: str) -> None:
        """Do nothing: nothing is answered here."""
