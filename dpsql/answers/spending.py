"""Amounts spent and left of a budget, also in words."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from typing import ClassVar

from dpsql.answers.bars import bars
from dpsql.answers.html_page import fragment, paragraph
from dpsql.answers.listing import Listing
from dpsql.budgets.convert import limit
from dpsql.budgets.reports import tight_epsilon
from dpsql.budgets.room_left import epsilon_left, left_in_words, rho_left, share_left, share_spent, times_left
from dpsql.budgets.room_left import percent as percent
from dpsql.catalog.price import LEAST, Price, short
from dpsql.errors import BudgetExhausted
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import ATTO, NANO, Charge
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.types import Span, Type

ALL = "all analysts"
REPORT_DELTA = 1e-6  # for reports on budgets that have no delta of their own


class BudgetLine(Frozen):
    """One limit and what was charged to it. `whose` is an analyst's name, or None for the whole budget.

    `last` is what the last statement of whoever asks was charged, None where there was none.
    """

    whose: str | None
    total: Price
    spent: Charge
    last: Charge | None = None

    @property
    def limit(self) -> Limit:
        return limit(self.total)

    @property
    def share_left(self) -> Fraction:
        """The part of the budget that is left, rounded down to a thousandth."""
        return share_left(self.limit, self.spent)

    @property
    def more(self) -> int | None:
        """How many more statements that cost as much as the last one this account can pay for."""
        return None if self.last is None else times_left(self.last, [(self.limit, self.spent)])

    def share_of_rest(self, due: Charge) -> Fraction | None:
        """The fraction of the remaining budget that a charge would take; None if the budget cannot pay for it."""
        before, after = share_spent(self.limit, self.spent), share_spent(self.limit, self.spent + due)
        return (after - before) / (1 - before) if before < 1 and self.limit.allows(self.spent + due) else None

    def left(self) -> str:
        """How much is left, in percent, and for how many more statements that may be enough."""
        return left_in_words(self.limit, self.spent, self.last)

    def part_left(self) -> str:
        """How much is left, in percent."""
        return left_in_words(self.limit, self.spent)

    def left_in_full(self) -> str:
        """What can still be spent, in the budget's own terms."""
        return self._told(f" ({percent(self.share_left)} of the budget)" if self.limit.renyi else "")

    def left_exactly(self) -> str:
        """What is left of each sum, for EXPLAIN and the like: where statements of both kinds share a budget, the fraction of the
        budget says more."""
        return self._told("")

    def _told(self, share: str) -> str:
        parts = []
        most = self.limit
        if most.epsilon is not None and self.spent.epsilon is not None:
            left = Fraction(max(0, most.epsilon - self.spent.epsilon), NANO)
            parts.append(f"ε = {short(left)} of {short(Fraction(most.epsilon, NANO))}")
        if most.rho is not None:
            left = Fraction(max(0, most.rho - self.spent.rho), NANO)
            parts.append(f"ρ = {short(left)} of {short(Fraction(most.rho, NANO))}")
        text = (" or ".join(parts) or "nothing") + share
        if most.delta:
            text += f", δ = {float(Fraction(max(0, most.delta - self.spent.delta), ATTO)):.3g} for selecting groups"
        return text

    def words(self) -> str:
        """How much is spent, how much is left, and for how many more statements that may be enough."""
        share, comma, more = self.left().partition(",")
        return f"{percent(1 - self.share_left)} spent, {share} left{comma}{more}"

    def as_dict(self) -> dict[str, object]:
        most = self.limit
        return {
            "analyst": self.whose, "total": str(self.total), "left": self.left(), "left_exactly": self.left_exactly(),
            "share_spent": float(1 - self.share_left), "share_left": float(self.share_left), "more_like_the_last": self.more,
            "spent": {"epsilon": None if self.spent.epsilon is None else self.spent.epsilon / NANO, "rho": self.spent.rho / NANO,
                      "delta": self.spent.delta / ATTO},
            "limit": {"epsilon": None if most.epsilon is None else most.epsilon / NANO,
                      "rho": None if most.rho is None else most.rho / NANO, "delta": most.delta / ATTO}}


class DayShare(Frozen):
    """What an account may spend on this day (UTC), and when its share is whole again."""

    line: BudgetLine
    renews: dt.datetime

    @property
    def name(self) -> str:
        return f"{self.line.whose}, today"

    @property
    def total(self) -> str:
        """The share, and when it renews."""
        return f"{self.line.total} a day, renewed at {self.renews:%H:%M} UTC"

    def words(self) -> str:
        """How much of it is spent and left, and when it renews."""
        return f"{self.line.words()}; the share of {self.line.total} renews at {self.renews:%H:%M} UTC"

    def as_dict(self) -> dict[str, object]:
        return {**self.line.as_dict(), "renews": self.renews.isoformat(timespec="seconds")}


class FullestWindow(Frozen):
    """The consecutive periods, as many as a budget limits together, in which the least is left of such a limit. `length` names
    how many, such as "12 months", and `periods` which ones."""

    line: BudgetLine
    length: str
    periods: str

    @property
    def name(self) -> str:
        return f"{self.line.whose or ALL}, {self.periods}"

    @property
    def total(self) -> str:
        """The limit, and in how many periods it holds."""
        return f"{self.line.total} in any {self.length}"

    def words(self) -> str:
        """How much is spent and left there."""
        return f"{self.line.words()}, of {self.total}"

    def as_dict(self) -> dict[str, object]:
        return {**self.line.as_dict(), "in_any": self.length, "periods": self.periods}


def share_of_rest(accounts: Iterable[BudgetLine], due: Charge) -> Fraction | None:
    """The largest fraction of the remaining budget, over all accounts, that a charge would take; None if an account cannot pay
    for it."""
    shares = [account.share_of_rest(due) for account in accounts]
    return None if None in shares else max([share for share in shares if share is not None], default=Fraction(0))


def accounts_in_words(accounts: Iterable[BudgetLine], everybody: str = ALL) -> str:
    """What is left in each account, by its owner's name."""
    return "; ".join(f"{account.whose or everybody}: {account.left()}" for account in accounts)


def counted(statements: int) -> str:
    return f"{statements} statement{'' if statements == 1 else 's'}"


class Spending(Frozen):
    """A budget with its accounts: the whole, and the analyst's own where there is one. `windows` are those of the consecutive
    periods in which the least is left, if the budget limits them, and `today` is the analyst's share of this day, if they have
    one.

    `spent` is what was charged in all, and `prices` how often each price was, without charges of nothing (`tight_epsilon`). The
    account is closed once `failed`, the number of statements that failed after their charge, reaches `incidents`.
    """

    budget: str
    entity: str
    accounts: tuple[BudgetLine, ...]
    spent: Charge
    prices: tuple[tuple[int | None, int], ...]
    at: float
    analyst: str
    failed: int
    incidents: int
    today: DayShare | None = None
    windows: tuple[FullestWindow, ...] = ()
    FIELD: ClassVar[str] = ""

    def as_table(self) -> Listing:
        """The accounts as a table: the fraction spent, the fraction left, and how many more answers like the last one can be paid
        for; then those of consecutive periods, and the share of this day, if there are such."""
        named = [(account.whose or "all", str(account.total), account) for account in self.accounts]
        named += [(window.name, window.total, window.line) for window in self.windows]
        named += [] if self.today is None else [(self.today.name, self.today.total, self.today.line)]
        rows = []
        for name, total, account in named:
            share, _, more = account.left().partition(", ")
            rows.append((name, total, percent(1 - account.share_left), share, more))
        rows.append((self.analyst, f"{self.incidents} incidents", str(self.failed), str(self.incidents_left), ""))
        titles = "analyst", "budget", "spent", "left", "enough for"
        return Listing(columns=tuple((title, Type.VARCHAR) for title in titles), rows=tuple(rows))

    @property
    def statements(self) -> int:
        """How many statements were charged."""
        return sum(times for _, times in self.prices)

    @property
    def tight(self) -> float | None:
        """The least epsilon known for everything released so far, at the delta `at`. It is for information only; the budget is
        not checked against it. It is computed on first use, which takes a moment."""
        return tight_epsilon(self.spent, self.prices, self.at)

    @property
    def incidents_left(self) -> int:
        return max(0, self.incidents - self.failed)

    def __repr__(self) -> str:
        return "\n".join([self.about, *(f"{name}: {words}" for name, _, words in self._told())])

    def _repr_html_(self) -> str:
        """For notebooks."""
        return fragment([self.as_html()], "bars")

    def as_html(self) -> str:
        """A bar for each account, as a part of a page with the style of bars."""
        return paragraph(self.about) + bars(self._told())

    def _told(self) -> list[tuple[str, float, str]]:
        """The name of each account, the part that is spent, and both parts in words; then of the others that `as_table` has."""
        told = [(account.whose or ALL, float(1 - account.share_left), account.words()) for account in self.accounts]
        told += [(window.name, float(1 - window.line.share_left), window.words()) for window in self.windows]
        if self.today is not None:
            told.append((self.today.name, float(1 - self.today.line.share_left), self.today.words()))
        return told

    @property
    def about(self) -> str:
        """The budget's name, the number of statements, and how many failures may still follow before the account closes."""
        failed = "" if not self.failed else (f" Of {self.analyst}, {counted(self.failed)} failed after the charge; the account "
                                             f"is closed after {self.incidents}.")
        return (f"Budget {self.budget} protects each {self.entity}. {self.analyst} asks; {counted(self.statements)} "
                f"{'was' if self.statements == 1 else 'were'} charged so far, across all analysts.{failed}")

    def as_dict(self, *, tight: bool = True) -> dict[str, object]:
        """For JSON; without `tight`, ``epsilon_so_far`` is null."""
        return {"budget": self.budget, "entity": self.entity, "statements": self.statements,
                "epsilon_so_far": self.tight if tight else None,
                "at_delta": self.at, "accounts": [account.as_dict() for account in self.accounts],
                "windows": [window.as_dict() for window in self.windows],
                "today": None if self.today is None else self.today.as_dict(),
                "incidents": {"analyst": self.analyst, "failed": self.failed, "limit": self.incidents,
                              "left": self.incidents_left}}


def exhausted(account: BudgetLine, price: Price | None, span: Span | None = None, *,
              others: Sequence[BudgetLine] = ()) -> BudgetExhausted:
    """The error for a statement that costs more than is left in an account. `span` is where the statement gives its price.

    `others` are accounts that would have to pay for it too.
    """
    whose = f"the budget of {account.whose}" if account.whose is not None else "the budget"
    return BudgetExhausted(f"the statement costs {price}, and {whose} has left: {account.part_left()}", span=span,
                           subject=account.whose or "all", try_=affordable((account, *others), price)
                           + "a statement that was answered before, which is free")


def used_up_today(share: BudgetLine, price: Price | None, span: Span | None = None) -> BudgetExhausted:
    """The error for a statement that costs more than is left of an account's share for this day."""
    return BudgetExhausted(f"the statement costs {price}, and the share of {share.whose} for today has left: {share.part_left()}",
                           code="day-share", span=span, subject=share.whose or "", try_=affordable((share,), price)
                           + "the same after midnight (UTC), or a statement that was answered before, which is free")


def closed(budget: str, analyst: str, failed: int) -> BudgetExhausted:
    """The error for a statement of a closed account."""
    many = f"{failed} statements of {analyst} have" if failed != 1 else f"a statement of {analyst} has"
    return BudgetExhausted(f"{many} failed after the charge, so this account is closed",
                           code="account-closed", subject=analyst, try_="the owner of the data, who can reopen it with dpsql "
                                                                        "budget "
                           f"--budget {budget} --reopen {analyst}; statements that were answered before stay free, and EXPLAIN "
                           "PRIVACY too")


def busy(analyst: str, running: int) -> BudgetExhausted:
    """The error for a statement that waited too long for other statements of its account."""
    return BudgetExhausted(f"{running} statements of {analyst} are running, which is the limit, and this one waited too long for "
                           "its turn, or too many are waiting already; nothing was charged",
                           code="account-busy", subject=analyst,
                           try_="again when some of them have ended; `incidents` in the policy limits how many may run at a time")


def affordable(accounts: Sequence[BudgetLine], price: Price | None) -> str:
    """The largest price that all these accounts can pay, if any; the first account is the one that cannot pay."""
    in_rho = price is not None and price.rho is not None
    left = min(_left(account, in_rho=in_rho) for account in accounts)
    asked = price and (price.rho if in_rho else price.epsilon)
    if asked and asked <= _left(accounts[0], in_rho=in_rho) and price and price.delta:
        return "a smaller delta, or "
    shown = Decimal(math.floor(left * NANO)).scaleb(-9).normalize(Context(prec=4, rounding=ROUND_DOWN))
    return f"OPTIONS ({'rho' if in_rho else 'epsilon'} = {shown:f}), or " if left >= LEAST else ""


def _left(account: BudgetLine, *, in_rho: bool) -> Fraction:
    """The largest rho or epsilon that an account can still pay for one statement."""
    return (rho_left if in_rho else epsilon_left)(account.limit, account.spent)
