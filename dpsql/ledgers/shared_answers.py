"""Answers that the accounts of a budget share, where the owner wants it (`share_answers`).

An account that is told an answer of another one gets an `answer` event without a text, which names the charge that paid
(`kernel.chain`, *Told*). Nothing is charged and no row is read for it, so nothing here is trusted for privacy: the total bounds
what is revealed, whoever is told. What is right or wrong here is whether all are told the same, pay once, and are recorded.

Only answers of one budget, with one digest and one version of the data are the same: the digest has the policy, the statement,
its values, its options and the content of released tables (`engine.charging`). Only what was charged is shared; comparisons with
a model, and notes about tables, are of their account.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dpsql.ledgers.ledger_reports import PaidAnswer, ReportingLedger, SharedAnswer
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge
from dpsql.trusted.kernel.chain import Event
from dpsql.trusted.kernel.ledger import Ledger, Underway
from dpsql.trusted.kernel.period_reads import START
from dpsql.trusted.kernel.run import AnsweredBefore

PAID = ("EXISTS (SELECT 1 FROM events AS paid WHERE paid.seq = events.answers AND "
        "(paid.epsilon IS NULL OR paid.epsilon > 0 OR paid.rho > 0 OR paid.delta > 0))")  # an answer to what cost something


class SharingLedger(ReportingLedger):
    """A ledger for a session whose budget shares answers."""

    def charge(self, account: Account, charge: Charge, *, digest: str, data: str, sql: str, **terms: Any) -> int:
        """See `Ledger.charge`. A statement that costs something is charged once to the budget: it waits while another account
        runs it. If the budget has the answer, records that this account receives it, and raises AnsweredBefore."""
        try:
            return super().charge(account, charge, digest=digest, data=data, sql=sql, **terms)
        except AnsweredBefore as found:
            if found.shared:
                self.tell(account, digest, data, sql)
            raise

    def _waits_for(self, account: Account, charge: Charge, digest: str, data: str) -> Callable[[Ledger], None]:
        """Decided in the turn that would write the charge, so that no two accounts can be charged."""
        def check(leader: Ledger) -> None:
            found = _first_answer(leader, account.budget, digest, data)
            if found is not None:
                raise AnsweredBefore(found.body or "", data, shared=found.account.named != account.named)
            if _is_running(leader, account.budget, digest, data):
                raise Underway

        return check if charge != NOTHING else lambda leader: None

    def stored(self, account: Account, digest: str, data: str) -> str | None:
        """The stored answer to the same statement, on the same data, that the account was told; None if there is none."""
        found = self._newest("seq", account, digest, data)
        return self._told(found).body if found else None

    def is_told(self, budget: str, digest: str, data: str) -> bool:
        """Whether any account of a budget was told an answer to this statement, on the same data."""
        self.refresh()
        return _first_answer(self, budget, digest, data) is not None

    def tell(self, account: Account, digest: str, data: str, sql: str) -> str | None:
        """The stored answer of another account of the budget to the same statement, on the same data; None if there is none. It
        is recorded first that the account, which asked `sql`, is told it."""
        self.refresh()
        found = _first_answer(self, account.budget, digest, data)
        if found is None:
            return None
        self.tell_of(account, [found.answers or 0], data, sql)
        return found.body

    def tell_of(self, account: Account, charges: Sequence[int], data: str, sql: str) -> None:
        """Record that an account, which asked `sql`, is told the answers of some charges, unless it was told them before. Raises
        ValueError if a charge has no answer on the same data, or is of another budget."""
        def step(leader: Ledger) -> int:
            found = [_shareable(leader, account.budget, charge, data) for charge in dict.fromkeys(charges)]
            added = [answer for answer in found if not _was_told(leader, account, answer)]
            if added:
                leader._store.make_room()
            for answer in added:
                charged = answer._replace(seq=answer.answers or 0, analyst=account.analyst, sql=sql)
                leader._insert(leader._chain.following(charged, "answer", None))
            return len(added)

        self._check_anchor()
        self._take(step)

    def tell_answers_to(self, account: Account, analyst: str, sql: str) -> None:
        """Record that an account is told the answers to a statement with this text that another account of the budget was told of
        periods, so that `answers_to` has them."""
        charges: dict[str, list[int]] = {}
        for answer in self._answers_to(Account(budget=account.budget, analyst=analyst), sql):
            if answer.data.startswith(START):
                charges.setdefault(answer.data, []).append(answer.answers or 0)
        for data, own in charges.items():
            self.tell_of(account, own, data, sql)

    def answers_to(self, account: Account, sql: str) -> list[PaidAnswer]:
        """See `ReportingLedger`. After these come the notes of accounts whose answers to the same text this one was told: they
        cost nothing, and what they say follows from these answers."""
        told = [answer for answer in self._answers_to(account, sql) if answer.body is None]
        makers = {self._told(answer).account.named for answer in told} - {account.named}
        notes = [paid for maker in sorted(makers, key=str) for paid in ReportingLedger.answers_to(self, maker, sql)
                 if paid.charge == NOTHING]
        return [*super().answers_to(account, sql), *notes]

    def of_others(self, account: Account, data: str, mark: str) -> list[SharedAnswer]:
        """The stored answers of other accounts of the budget that this one was not told, on the same data, whose text contains
        `mark`, oldest first."""
        own = self._events(f"kind = 'answer' AND {self._store.whose('$1', '$2')} AND data = $3", account.budget,
                           account.named.analyst, data)
        told = {event.answers for event in own}
        found = self._events(f"kind = 'answer' AND budget = $1 AND data = $2 AND {self._marked(mark)} AND {PAID} ORDER BY seq",
                             account.budget, data)
        return [SharedAnswer(charge=event.answers or 0, body=event.body or "") for event in found if event.answers not in told]

    def of_another(self, account: Account, digest: str, data: str) -> SharedAnswer | None:
        """The first stored answer to a statement, on the same data, if this account was not told it."""
        if self._newest("seq", account, digest, data) is not None:
            return None
        found = _first_answer(self, account.budget, digest, data)
        return SharedAnswer(charge=found.answers or 0, body=found.body or "") if found else None


# Facts of any ledger of the process, as one of another budget may lead the turn. They hold in the state that was read last.


def _first_answer(ledger: Ledger, budget: str, digest: str, data: str) -> Event | None:
    """The first answer to a statement that was charged to any account of a budget."""
    found = ledger._verified("seq = (SELECT MIN(seq) FROM events WHERE kind = 'answer' AND digest = $1 AND budget = $2 AND "
                             f"data = $3 AND body IS NOT NULL AND {PAID})", digest, budget, data)
    if found and (found[0].budget, found[0].digest, found[0].data) != (budget, digest, data):
        raise ledger._damaged(f" at event {found[0].seq}")
    return found[0] if found else None


def _is_running(ledger: Ledger, budget: str, digest: str, data: str) -> bool:
    """Whether a statement is running for any account of a budget."""
    sums = ledger._chain.sums
    open_ = {seq for account, pending in sums.pending.items() if account.budget == budget
             for seq in pending.difference(ledger._chain.failed(account))}
    seqs = ", ".join(map(str, sorted(open_)))
    return bool(seqs) and any((event.digest, event.data) == (digest, data) for event in ledger._verified(
        f"seq IN ({seqs}) AND kind = 'charge'"))


def _shareable(ledger: Ledger, budget: str, charge: int, data: str) -> Event:
    """The answer to a charge of a budget. Raises ValueError if it cannot be shared."""
    charged = ledger._verified("seq = $1 AND kind = 'charge' AND budget = $2", charge, budget)
    found = [answer for event in charged if event.cost != NOTHING for answer in ledger._verified(
        "kind = 'answer' AND digest = $1 AND answers = $2 AND body IS NOT NULL", event.digest, charge)]
    if not found or found[0].data != data:
        raise ValueError("this is no answer that can be shared")
    return found[0]


def _was_told(ledger: Ledger, account: Account, answer: Event) -> bool:
    whose = ledger._store.whose("$3", "$4", found=True)
    return bool(ledger._verified(f"kind = 'answer' AND digest = $1 AND answers = $2 AND {whose}", answer.digest,
                                 answer.answers or 0, account.budget, account.named.analyst))
