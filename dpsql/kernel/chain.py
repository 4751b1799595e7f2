"""What was spent, what failed, and whether one more charge is allowed: the rules of the ledger, without its file.

A `Chain` has the verified events and the sums that follow from them, and decides what the next event is. `ledger` keeps the
events in a file, and guarantees:

  turns    while an event is made and written nobody else writes, and everything written before has been accepted here
  durable  an event is on disk before anything relies on it; one that could not be written is forgotten here too
  locks    a charge's lock is taken before the charge is written, released when its statement is over, and never taken again

*Events.* Each is hashed together with its predecessor; the first hash includes the identity of the ledger. So an event that was
changed, removed or inserted is not accepted, nor is any event after it.

*Limits.* A charge becomes an event only if every limit that applies allows the sum of all charges including it. Sums run over
accepted events, in exact integers, and nothing is ever subtracted from them.

*Incidents.* A statement that fails after its charge reveals to its analyst that it failed, which no proof covers, so an
account (a budget and an analyst) is closed after a few failures. A charge is *failed* once its incident is recorded, and also
if it has neither an answer nor an incident and no process runs it any more (`running`): its process was killed, which the
analyst sees as well. It is *running* while it has neither and its lock is held. Nothing else matters: neither what went wrong
nor how long it took.

Claim: between two acts of the owner, at most `incidents` charges of an account ever fail. Proof: a charge becomes an event
only if failed + running < incidents, in the same turn that writes it, holding its lock already; so failed + running <=
incidents just after. Later a charge leaves the sum (it is answered) or passes from running to failed, which does not change
the sum, as no lock is taken again; only another charge increases it. An account can therefore run at most `incidents` statements
at a time, too.

A `reopened` event names the failed charges that the owner forgives, never a running one, so that it cannot falsify the sum.

*Names.* An account is identified by the normal form of its analyst's name (`catalog.names`), whatever form an event holds.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dpsql.accounting.cost import NOTHING, Charge
from dpsql.accounting.privacy_filter import Limit
from dpsql.catalog.names import normal


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account a charge belongs to: an analyst's, within a budget."""

    budget: str
    analyst: str

    @property
    def named(self) -> Account:
        """The same account under its normal name, by which events are counted."""
        return Account(budget=self.budget, analyst=normal(self.analyst))


class Event(NamedTuple):
    """A row of the ledger. `answers` is the number of the charge that an answer or incident belongs to."""

    seq: int
    kind: str
    at: str
    budget: str
    analyst: str
    digest: str
    data: str
    sql: str
    epsilon: int | None
    rho: int
    delta: int
    answers: int | None
    body: str | None

    @property
    def account(self) -> Account:
        return Account(budget=self.budget, analyst=self.analyst)

    def link(self, previous: str) -> str:
        """The hash of the chain up to this event."""
        return hashlib.sha256((previous + json.dumps(self, ensure_ascii=True, separators=(",", ":"))).encode()).hexdigest()


class Refused(Exception):
    """A charge would exceed the limit of `analyst` (None: the total). `spent` is what was charged before."""

    def __init__(self, analyst: str | None, spent: Charge) -> None:
        super().__init__("limit")
        self.analyst, self.spent = analyst, spent


class Closed(Exception):
    """Too many charges of an account failed, so it is closed. `failed` holds their numbers."""

    def __init__(self, failed: Sequence[int]) -> None:
        super().__init__("closed")
        self.failed = tuple(failed)


class Busy(Exception):
    """So many statements of an account are running that it would be closed if all of them failed."""

    def __init__(self, running: int) -> None:
        super().__init__("busy")
        self.running = running


class Broken(Exception):
    """An event is not the next one of the chain."""


class Chain:
    """The accepted events, represented by their hashes, and the sums that follow from them."""

    def __init__(self, genesis: str, is_running: Callable[[int], bool]) -> None:
        self.hashes, self._is_running = [genesis], is_running
        self._spent: dict[tuple[str, str | None], Charge] = {}
        self._pending: dict[Account, set[int]] = {}
        self._failed: dict[Account, set[int]] = {}
        self.forgiven: set[int] = set()

    @property
    def head(self) -> tuple[int, str]:
        """The number of the newest event (0 if there is none) and the hash up to it."""
        return len(self.hashes) - 1, self.hashes[-1]

    @property
    def budgets(self) -> list[str]:
        return sorted({budget for budget, analyst in self._spent if analyst is None})

    def spent(self, budget: str, analyst: str | None = None) -> Charge:
        """What was charged to a budget in total, or by one analyst."""
        return self._spent.get((budget, None if analyst is None else normal(analyst)), NOTHING)

    def failed(self, account: Account) -> list[int]:
        """The charges of an account that failed and are not forgiven."""
        lost = [seq for seq in self._pending.get(account.named, ()) if not self._is_running(seq)]
        return sorted({*self._failed.get(account.named, ()), *lost})

    # -- the next event

    def charge(self, account: Account, charge: Charge, *, digest: str, data: str, sql: str, allows: Mapping[str | None, Limit],
               incidents: int | None, body: str | None) -> Event:
        """The event of a charge, if it is allowed; `body` is what the kernel keeps with it. Raises Closed or Busy where too many
        charges of its account failed or are running, Refused where a limit would be exceeded."""
        if incidents is not None:
            self._check_open(account, incidents)
        for analyst, limit in allows.items():
            spent = self.spent(account.budget, analyst)
            if not limit.allows(spent + charge):
                raise Refused(analyst, spent)
        return self._next("charge", account, digest=digest, data=data, sql=sql, charge=charge, body=body)

    def following(self, charged: Event, kind: str, body: str | None) -> Event:
        """The event of a charge's answer or incident."""
        return self._next(kind, charged.account, digest=charged.digest, data=charged.data, sql=charged.sql, answers=charged.seq,
                          body=body)

    def reopened(self, account: Account) -> Event:
        """The event by which the owner forgives the failed charges of an account."""
        return self._next("reopened", account, body=json.dumps(self.failed(account)))

    def _check_open(self, account: Account, incidents: int) -> None:
        failed = self.failed(account)
        if len(failed) >= incidents:
            raise Closed(failed)
        running = len(self._pending.get(account.named, set()).difference(failed))
        if len(failed) + running >= incidents:
            raise Busy(running)

    def _next(self, kind: str, account: Account, *, digest: str = "", data: str = "", sql: str = "", charge: Charge = NOTHING,
              answers: int | None = None, body: str | None = None) -> Event:
        return Event(seq=len(self.hashes), kind=kind, at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                     budget=account.budget, analyst=account.analyst, digest=digest, data=data, sql=sql, epsilon=charge.epsilon,
                     rho=charge.rho, delta=charge.delta, answers=answers, body=body)

    # -- events that were written

    def accept(self, event: Event, link: str) -> None:
        """Count an event that is in the file. Raises Broken if it is not the next one, exactly as it was made."""
        if event.seq != len(self.hashes) or event.link(self.hashes[-1]) != link:
            raise Broken
        account, charge = event.account.named, Charge(epsilon=event.epsilon, rho=event.rho, delta=event.delta)
        self._follow(event, self._pending.setdefault(account, set()), self._failed.setdefault(account, set()))
        for key in ((account.budget, None), (account.budget, account.analyst)):
            self._spent[key] = self._spent.get(key, NOTHING) + charge
        self.hashes.append(link)

    def _follow(self, event: Event, pending: set[int], failed: set[int]) -> None:
        """Update which charges of an account have no answer yet, and which have failed."""
        match event.kind, event.answers:
            case "charge", None:
                pending.add(event.seq)
            case "answer", int(charged):
                pending.discard(charged)
            case "incident", int(charged):
                pending.discard(charged)
                failed.add(charged)
            case "reopened", None:
                forgiven = json.loads(event.body or "[]")
                pending.difference_update(forgiven)
                failed.difference_update(forgiven)
                self.forgiven.update(forgiven)
            case _:
                raise Broken


def genesis(meta: Mapping[str, str]) -> str:
    """The head of an empty chain: it binds the identity, the salt and the version."""
    return hashlib.sha256(f"dpsql ledger {json.dumps(dict(meta), sort_keys=True)}".encode()).hexdigest()
