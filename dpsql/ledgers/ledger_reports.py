"""The ledger's reports to the owner, analysts and statements: lists, sums, failures and prices.

Nothing here writes events, and nothing that is charged depends on it.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections import Counter
from collections.abc import Iterator

from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Account, Charge
from dpsql.trusted.kernel.chain import Chain
from dpsql.trusted.kernel.event_store import LISTS, StoreFault
from dpsql.trusted.kernel.ledger import Ledger, Promised


class Entry(Frozen):
    """One statement that was charged. `body` is its stored answer; None if it failed after the charge, or is running."""

    seq: int
    at: str
    account: Account
    sql: str
    charge: Charge
    body: str | None
    running: bool

    @property
    def outcome(self) -> str:
        return "running" if self.running else "failed" if self.body is None else "answered"


class Failure(Frozen):
    """A charged statement that failed; `forgiven` where the owner has reopened the account since."""

    seq: int
    at: str
    account: Account
    sql: str
    forgiven: bool


class ReportingLedger(Ledger):
    """A ledger with its reports."""

    @property
    def budgets(self) -> list[str]:
        """The budgets charged so far, up to the newest event this process has verified."""
        with self._reading() as chain:
            return sorted({budget for budget, _ in chain.sums.spent})

    def spent(self, budget: str, analyst: str | None = None) -> Charge:
        """What was charged to a budget in total, or by one analyst, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.spent(budget, analyst)

    def prices(self, budget: str) -> tuple[tuple[int | None, int], ...]:
        """How often each price was charged to a budget, up to the newest event this process has verified. A price is a pure
        epsilon in billionths, or None for charges without one; if there are many different prices, they are rounded up
        (`kernel.reported`)."""
        with self._reading() as chain:
            return tuple(sorted(chain.sums.reported.prices.get(budget, Counter()).items(), key=str))

    def last(self, account: Account) -> Charge | None:
        """The last charge of an account that was not zero, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.sums.reported.last.get(account.named)

    def now(self, account: Account, late: int) -> tuple[Charge, Charge, Charge | None, int]:
        """The amounts `spent` in total and by an account, its `last` charge and its `first_step`, all at the same moment."""
        with self._reading() as chain:
            return (chain.spent(account.budget), chain.spent(account.budget, account.analyst),
                    chain.sums.reported.last.get(account.named), chain.first_step(account, late))

    def late(self, budget: str) -> list[tuple[str, int, int]]:
        """The analysts of a budget whose outcomes left late, at which steps, and how many. For the owner."""
        self.refresh()
        with self._reading() as chain:
            late = chain.sums.late_ones()
        return sorted((analyst, step, number) for named, analyst, step, number in late if named == budget)

    def failures(self, budget: str) -> list[Failure]:
        """Every charge of a budget that failed, oldest first. For the owner."""
        self.refresh()
        with self._reading() as chain:
            failed = _all_failed(chain, budget)
            seqs = sorted(failed | chain.sums.forgiven)
        charged = [event for seq in seqs for event in self._events("seq = $1 AND kind = 'charge' AND budget = $2", seq, budget)]
        return [Failure(seq=event.seq, at=event.at, account=event.account.named, sql=event.sql, forgiven=event.seq not in failed)
                for event in charged]

    def entries(self, budget: str, analyst: str | None = None) -> list[Entry]:
        """Every charged statement of a budget, or of one analyst, oldest first."""
        account = None if analyst is None else Account(budget=budget, analyst=analyst)
        whose, *names = ("budget = $1",) if account is None else (self._store.whose("$1", "$2"), account.named.analyst)
        with self._unchanging() as chain:
            found = self._events(f"{LISTS} AND {whose} ORDER BY seq", budget, *names)
            if len(found) != _listed(chain, budget, account):
                raise self._damaged()
            with self._asking():
                over = {event.answers for event in found if event.kind == "answer"}
                over |= _all_failed(chain, budget) | chain.sums.forgiven
        bodies = {event.answers: event.body for event in found if event.kind == "answer"}
        return [Entry(seq=event.seq, at=event.at, account=event.account.named, sql=event.sql, charge=event.cost,
                      body=bodies.get(event.seq), running=event.seq not in over) for event in found if event.kind == "charge"]

    def texts(self, account: Account, word: str, most: int) -> list[str]:
        """The distinct statements that an account was charged for and that contain a word, ignoring case: the newest `most` of
        them, oldest first."""
        whose, contains = self._store.whose("$1", "$2"), self._store.contains("upper(sql)", "upper($3)")
        found = self._events(f"seq IN (SELECT MAX(seq) FROM events WHERE {LISTS} AND kind = 'charge' AND {whose} AND {contains} "
                             "GROUP BY sql ORDER BY 1 DESC LIMIT $4) ORDER BY seq",
                             account.budget, account.named.analyst, word, most)
        return [event.sql for event in found]

    def holding(self, account: Account, data: str, mark: str) -> list[str]:
        """The stored answers of an account, on the same data, whose text contains `mark`, oldest first."""
        told = mark.replace("'", "''")  # no parameter, which would fit no index
        whose, contains = self._store.whose("$1", "$2"), self._store.contains("body", f"'{told}'")
        return self._bodies(f"kind = 'answer' AND {whose} AND data = $3 AND {contains} ORDER BY seq",
                            account.budget, account.named.analyst, data)

    def answers(self, digest: str) -> list[str]:
        """The stored answers of all charges with this digest, oldest first."""
        return self._bodies("seq IN (SELECT seq FROM events WHERE kind = 'answer' AND digest = $1) AND digest = $1 ORDER BY seq",
                            digest)

    def promised_before(self, promise: Promised) -> Promised | None:
        """The earlier promise of a budget, if any."""
        return self._promise(self._events, promise.before) if promise.before else None

    def naming(self, account: Account, name: str, seconds: float = math.inf) -> contextlib.AbstractContextManager[None]:
        """A context in which no other process gives this name to something of the account; see `alone`."""
        told = f"{account.named.budget}\n{account.named.analyst}\n{name.lower()}"
        return self.alone(f"name-{hashlib.sha256(told.encode()).hexdigest()}", seconds)

    @contextlib.contextmanager
    def _unchanging(self) -> Iterator[Chain]:
        """A context in which the store has the events of the chain, and no others."""
        store = self._ready()
        with self._shared.lock:
            self._held += 1
            try:
                store.begin_reading()
                self._catch_up()
                yield self._chain
            except StoreFault as fault:
                raise self._unreadable(fault) from None
            finally:
                self._held -= 1
                store.rollback()


def _all_failed(chain: Chain, budget: str) -> set[int]:
    """The charges of a budget that failed and are not forgiven."""
    accounts = {*chain.sums.pending, *chain.sums.failed}
    return {seq for account in accounts if account.budget == budget for seq in chain.failed(account)}


def _listed(chain: Chain, budget: str, account: Account | None) -> int:
    """How many events of a budget, or of one account, lists of its statements show."""
    return sum(number for each, number in chain.sums.reported.listed.items()
               if each.budget == budget and (account is None or each == account.named))
