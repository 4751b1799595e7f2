"""What was spent and what failed, and whether one more charge may be: the rules of the ledger, without its file.

A `Chain` holds the events that were verified, the sums that follow from them, and decides what the next event is. `ledger` keeps
the events in a file, and promises in turn:

  turns    while an event is made and written nobody else writes, and all that was written before has been accepted here
  durable  an event that was made is on disk before anything rests on it; one that is not written is forgotten here too
  locks    a charge's lock is held before it is written; it is let go of when its statement is over, and never taken again

*Events.* Each is hashed together with the one before it; the first of these hashes binds the identity of the ledger. So an event
that was changed, left out or put in is not accepted, nor is one after it.

*Limits.* A charge is an event only where every limit that binds allows the sum of all charges so far with it. Sums are made of
what was accepted, in exact integers, and nothing is ever subtracted from them.

*Incidents.* A statement that fails after its charge tells its analyst that it failed, which no proof covers, so an account (a
budget and an analyst) is closed after a few. A charge is *failed* once its incident is recorded, and also where it has neither an
answer nor an incident and nobody runs it any more (`running`): its process was killed, and that is seen as well. It is *running*
while it has neither and its lock is held. Nothing else of it counts: not what went wrong, not how long it took.

Claim: between two acts of the owner, at most `incidents` charges of an account ever fail. Proof: a charge is an event only where
failed + running < incidents, in the same turn that writes it, holding its lock already; so failed + running <= incidents just
after. Later a charge leaves the sum (it is answered) or passes from running to failed, which leaves the sum as it is, as no lock
is taken again; only another charge makes it grow. So many statements are also the most that an account runs at a time.

A `reopened` event names the failed charges that the owner forgives, never one that runs, so that it cannot make the sum wrong.

*Names.* An account is known by the normal form of its analyst's name (`catalog.names`), in whatever form an event holds it.
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
    """Whose spending a charge is: an analyst's, within a budget."""

    budget: str
    analyst: str

    @property
    def named(self) -> Account:
        """The same account under its normal name: what events are counted by."""
        return Account(budget=self.budget, analyst=normal(self.analyst))


class Event(NamedTuple):
    """A row of the ledger. `answers` is the number of the charge that an answer or an incident follows."""

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
    """A charge would pass the limit of `analyst` (None: of the total). `spent` is what was charged before."""

    def __init__(self, analyst: str | None, spent: Charge) -> None:
        super().__init__("limit")
        self.analyst, self.spent = analyst, spent


class Closed(Exception):
    """So many charges of an account failed that it gets no other. `failed` are their numbers."""

    def __init__(self, failed: Sequence[int]) -> None:
        super().__init__("closed")
        self.failed = tuple(failed)


class Busy(Exception):
    """So many statements of an account run that, if they all failed, it would be closed."""

    def __init__(self, running: int) -> None:
        super().__init__("busy")
        self.running = running


class Broken(Exception):
    """An event is not the one that comes next."""


class Chain:
    """The events that were accepted, by their hashes, and what follows from them."""

    def __init__(self, genesis: str, is_running: Callable[[int], bool]) -> None:
        self.hashes, self._is_running = [genesis], is_running
        self._spent: dict[tuple[str, str | None], Charge] = {}
        self._pending: dict[Account, set[int]] = {}
        self._failed: dict[Account, set[int]] = {}
        self.forgiven: set[int] = set()

    @property
    def head(self) -> tuple[int, str]:
        """The number of the newest event, 0 where there is none, and the hash up to it."""
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
               incidents: int | None) -> Event:
        """A charge, if it may be. Raises Closed or Busy where too many of its account failed or run, Refused at a limit."""
        if incidents is not None:
            self._check_open(account, incidents)
        for analyst, limit in allows.items():
            spent = self.spent(account.budget, analyst)
            if not limit.allows(spent + charge):
                raise Refused(analyst, spent)
        return self._next("charge", account, digest=digest, data=data, sql=sql, charge=charge)

    def following(self, charged: Event, kind: str, body: str | None) -> Event:
        """The answer, or the incident, of a charge."""
        return self._next(kind, charged.account, digest=charged.digest, data=charged.data, sql=charged.sql, answers=charged.seq,
                          body=body)

    def reopened(self, account: Account) -> Event:
        """That the owner forgives the charges of an account that have failed."""
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
        """Count an event that is in the file. Raises Broken where it is not the next one, as it was made."""
        if event.seq != len(self.hashes) or event.link(self.hashes[-1]) != link:
            raise Broken
        account, charge = event.account.named, Charge(epsilon=event.epsilon, rho=event.rho, delta=event.delta)
        self._follow(event, self._pending.setdefault(account, set()), self._failed.setdefault(account, set()))
        for key in ((account.budget, None), (account.budget, account.analyst)):
            self._spent[key] = self._spent.get(key, NOTHING) + charge
        self.hashes.append(link)

    def _follow(self, event: Event, pending: set[int], failed: set[int]) -> None:
        """Keep which charges of an account have no answer yet, and which have failed."""
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
