"""What was spent, what is left, and on which statements."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsql.answers.asked import Asked
from dpsql.answers.spending import ALL, REPORT_DELTA, BudgetLine, DayShare, FullestWindow, Spending, accounts_in_words
from dpsql.engine.session import Session
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import Entry
from dpsql.trusted.accounting.cost import Charge

if TYPE_CHECKING:
    from dpsql.planning.explain import Explanation

MOST_TOLD = 1000  # statements returned at once with their answers


def budget_of(session: Session) -> Spending:
    """The state of the session's budget, from the ledger's current contents."""
    ledger, budget = session.ledger, session.budget
    return Spending(budget=budget.name, entity=budget.entity, accounts=accounts_of(session), spent=ledger.spent(budget.name),
                    prices=ledger.prices(budget.name), at=float(budget.total.delta / 2) or REPORT_DELTA,
                    analyst=session.analyst, failed=len(ledger.failed(session.account)), incidents=budget.incidents,
                    today=_share_of_today(session), windows=windows_of(session))


def accounts_of(session: Session) -> tuple[BudgetLine, ...]:
    """The accounts of the session's budget, from the ledger's current contents: the whole, and the analyst's own if there is
    one."""
    ledger, budget, analyst = session.ledger, session.budget, session.analyst
    ledger.refresh()
    totals = {None: budget.total, analyst: budget.of(analyst)}
    return tuple(BudgetLine(whose=whose, total=total, spent=ledger.spent(budget.name, whose), last=ledger.last(session.account))
                 for whose, total in totals.items() if total is not None)


def windows_of(session: Session) -> tuple[FullestWindow, ...]:
    """Where the least is left in consecutive periods, as `accounts_of`; none if the budget does not limit them."""
    if not session.window_prices:
        return ()
    from dpsql.engine.period_accounts import fullest_windows  # loaded only where tables grow

    return fullest_windows(session)


def account_of_today(session: Session, spent: Charge | None = None) -> BudgetLine | None:
    """The share of the analyst for this day (UTC), if the policy gives them one; `spent` is what they were charged so far, if
    that is known."""
    share = session.share_per_day
    if share is None:
        return None
    from dpsql.budgets.day_shares import spent_since

    if spent is None:
        session.ledger.refresh()
        spent = session.ledger.spent(session.budget.name, session.analyst)
    return BudgetLine(whose=session.analyst, total=share, spent=spent_since(spent, session.spent_before_today()))


def _share_of_today(session: Session) -> DayShare | None:
    """The same with how many more statements like the last it can pay for, and with the next midnight (UTC), when it renews."""
    tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1)
    line = account_of_today(session)
    return None if line is None else DayShare(line=replace(line, last=session.ledger.last(session.account)),
                                              renews=dt.datetime.combine(tomorrow, dt.time(), dt.UTC))


def left_if_known(session: Session, everybody: str = ALL) -> str:
    """What is left in each account, in words; "" if it cannot be determined now: a failure must not spoil an answer that is
    already paid for."""
    with contextlib.suppress(Exception):
        told = [accounts_in_words(accounts_of(session), everybody)]
        told += [f"{window.line.whose or everybody}, in {window.periods}: {window.line.part_left()}"
                 for window in windows_of(session)]
        return "; ".join(told)
    return ""


def asked_of(session: Session, statements: Sequence[str], told: Explanation | None = None, *, values: str = "",
             about: Sequence[tuple[str, str]] = ()) -> Asked:
    """The facts that a page shows about these statements besides their answers; `told` explains the statements."""
    return Asked(statements=tuple(statements), spending=budget_of(session), policy=session.policy, at=dt.datetime.now(dt.UTC),
                 values=values, plan="" if told is None else str(told), about=tuple(about),
                 expected=() if told is None else tuple(each.error for each in told.expected))


def left_in_budget(session: Session) -> list[str]:
    """What is left of the total, of this analyst's share, and in the fullest consecutive periods, as text."""
    return [*(f"{account.left_in_full()} ({account.whose or 'all'})" for account in accounts_of(session)),
            *(f"{window.line.left_in_full()} ({window.line.whose or 'all'}, in {window.periods})"
              for window in windows_of(session))]


def answers_of(session: Session) -> list[Entry]:
    """The newest statements of this analyst, with their answers."""
    return session.ledger.told_entries(session.account, MOST_TOLD)


def releases_of(session: Session) -> list[Entry]:
    """The statements this analyst was charged for."""
    return session.ledger.entries(session.budget.name, session.analyst)
