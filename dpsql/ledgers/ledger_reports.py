"""The ledger's reports to the owner, analysts and statements: lists, sums, failures and prices.

Nothing here writes events, and nothing that is charged depends on it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import hashlib
import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from dpsql.frozen import Frozen, replace
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge
from dpsql.trusted.kernel.chain import Chain, Event, part_digest
from dpsql.trusted.kernel.event_store import LISTS, EventStore, StoreFault
from dpsql.trusted.kernel.ledger import Ledger, Promised, Underway
from dpsql.trusted.kernel.marks import SYNTHETIC
from dpsql.trusted.kernel.period_reads import START
from dpsql.trusted.kernel.period_runs import ChargesByPeriod
from dpsql.trusted.kernel.run import AnsweredBefore


class Entry(Frozen):
    """One statement that was charged. `body` is its stored answer; None if it failed after the charge, was `stopped`, or is
    running.

    Where answers are shared, also one that was not charged, as the account was told the answer to a charge of another one, of
    which `told` is the number, and `paid_sql` the text; it is given with the answer, which may be to another statement.
    """

    seq: int
    at: str
    account: Account
    sql: str
    charge: Charge
    body: str | None
    running: bool
    told: int | None = None
    stopped: bool = False
    paid_sql: str = ""

    @property
    def outcome(self) -> str:
        if self.told is not None:
            return f"shared, as {self.told}"
        if self.running:
            return "running"
        return "stopped" if self.stopped else "failed" if self.body is None else "answered"


class Failure(Frozen):
    """A charged statement that failed, and why, as far as that is known; `forgiven` where the owner has reopened the account
    since."""

    seq: int
    at: str
    account: Account
    sql: str
    forgiven: bool
    cause: str


class Stop(Frozen):
    """A charged statement that was stopped, and why. It does not count as failed."""

    seq: int
    at: str
    account: Account
    sql: str
    cause: str


class KeptAnswer(Frozen):
    """A stored answer that an account was told. It was `shared` if another account was charged for it."""

    body: str
    shared: bool


class RecordedNote(Frozen):
    """A public text that an account had recorded at no cost, with the statement, the time and the number of the event, and the
    `data` of all answers that this account was told to a statement with the same text."""

    seq: int
    at: str
    analyst: str
    sql: str
    body: str
    data: tuple[str, ...]


class PaidAnswer(Frozen):
    """A stored answer, the number of its event, the data it is for, and what was charged for it."""

    seq: int
    data: str
    body: str
    charge: Charge


class SharedAnswer(Frozen):
    """The stored answer to a charge of another account."""

    charge: int
    body: str


ENTRIES = f"{LISTS} AND (kind = 'charge' OR body IS NULL)"
"""The condition that an event is an entry of a list: a charge, or an answer of another account that was told."""
ANSWERED = ("EXISTS (SELECT 1 FROM events AS reply WHERE reply.kind = 'answer' AND reply.digest = events.digest AND "
            "reply.budget = events.budget AND reply.answers = events.seq AND reply.body IS NOT NULL)")
"""The condition that a charge has a stored answer."""
STOPPED = ("EXISTS (SELECT 1 FROM events AS stop WHERE stop.kind = 'stopped' AND stop.budget = events.budget AND "
           "stop.answers = events.seq)")
"""The condition that a charge was stopped."""


class ListTerms(Frozen):
    """What entries of a list must fit: the analyst; a part of the statement, ignoring the case of letters of ASCII; an
    outcome, which is answered, failed, stopped, running or shared; and times, of which `since` is included and `until` is not,
    with their zone. "" and None fit all."""

    analyst: str = ""
    text: str = ""
    outcome: str = ""
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    def condition(self, store: EventStore, budget: str, failed: Collection[int]) -> tuple[str, list[str]]:
        """These terms as a condition on events, and its parameters."""
        values, made = [budget], [f"{ENTRIES} AND budget = $1"]
        if self.analyst:
            values.append(Account(budget=budget, analyst=self.analyst).named.analyst)
            made.append(store.whose("$1", f"${len(values)}"))
        if self.text:
            values.append(self.text)
            made.append(store.contains("upper(sql)", f"upper(${len(values)})"))
        for sign, moment in ((">=", self.since), ("<", self.until)):
            if moment is not None:
                values.append(_as_written(moment))
                made.append(f"at {sign} ${len(values)}")
        fails = f"seq IN ({', '.join(map(str, sorted(failed))) or '0'})"
        made += {"": [], "answered": ["kind = 'charge'", ANSWERED], "shared": ["kind = 'answer'"],
                 "failed": ["kind = 'charge'", fails], "stopped": ["kind = 'charge'", STOPPED],
                 "running": ["kind = 'charge'", f"NOT {ANSWERED}", f"NOT {STOPPED}", f"NOT {fails}"]}[self.outcome]
        return " AND ".join(made), values


def _as_written(moment: dt.datetime) -> str:
    """A moment as times of events are written, in UTC and whole seconds, and not before it: they are compared as texts."""
    whole = moment.astimezone(dt.UTC).replace(microsecond=0) + dt.timedelta(seconds=moment.microsecond > 0)
    return whole.isoformat(timespec="seconds")


class LedgerState(Frozen):
    """How large a ledger is, in events and in bytes (None if it is not a file), and which event, of what time, is its newest
    checkpoint: 0 and no time if there is none."""

    events: int
    bytes: int | None
    checkpoint: int
    checkpoint_at: str


ENDED = "process ended"
STANDING = hashlib.sha256(b"standing queries").hexdigest()
"""The digest of notes about standing queries, in all budgets: it depends neither on the data nor on the policy."""


class ReportingLedger(Ledger):
    """A ledger with its reports. Accounts do not share answers here; see `shared_answers` for a ledger in which they do."""

    @property
    def budgets(self) -> list[str]:
        """The budgets charged so far, up to the newest event this process has verified."""
        with self._reading() as chain:
            return sorted({budget for budget, _ in chain.sums.spent})

    def state(self) -> LedgerState:
        """The state up to the newest event."""
        self.refresh()
        with self._reading() as chain:
            seq = chain.checkpoint[0]
        found = self._events("seq = $1 AND kind = 'checkpoint'", seq)
        size = self.path.stat().st_size if self.path.is_file() else None
        return LedgerState(events=self.events, bytes=size, checkpoint=seq if found else 0,
                           checkpoint_at=found[0].at if found else "")

    def spent(self, budget: str, analyst: str | None = None) -> Charge:
        """What was charged to a budget in total, or by one analyst, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.spent(budget, analyst)

    def spent_in_periods(self, budget: str, analyst: str | None = None) -> ChargesByPeriod:
        """What was charged to a budget, in total or by one analyst, in each period of growing tables, by the number of the
        period, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.spent_in_periods(budget, analyst)

    def spent_in_windows(self, budget: str, analyst: str | None, periods: int) -> ChargesByPeriod:
        """The same in any so many consecutive periods, by the number of the first of them."""
        with self._reading() as chain:
            return chain.spent_in_windows(budget, analyst, periods)

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

    def spent_before(self, account: Account, day: str) -> Charge:
        """What an account was charged before the beginning of a day (UTC), which is given as 2026-11-30."""
        charged = self._events(f"{LISTS} AND kind = 'charge' AND {self._store.whose('$1', '$2')} AND at < $3", account.budget,
                               account.named.analyst, day)
        return functools.reduce(operator.add, (event.cost for event in charged), NOTHING)

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
        causes = {event.answers: event.body or "not recorded" for event in self._events(
            "kind = 'incident' AND budget = $1", budget)} if charged else {}
        return [Failure(seq=event.seq, at=event.at, account=event.account.named, sql=event.sql, forgiven=event.seq not in failed,
                        cause=causes.get(event.seq, ENDED)) for event in charged]

    def stops(self, budget: str) -> list[Stop]:
        """Every charge of a budget that was stopped, oldest first. For the owner."""
        return [Stop(seq=event.answers or 0, at=event.at, account=event.account.named, sql=event.sql, cause=event.body or "")
                for event in self._events("kind = 'stopped' AND budget = $1 ORDER BY seq", budget)]

    def entries(self, budget: str, analyst: str | None = None) -> list[Entry]:
        """Every charged statement of a budget, or of one analyst, and every answer of another account that was told, oldest
        first."""
        return self._entries(budget, analyst)

    def told_entries(self, account: Account, most: int) -> list[Entry]:
        """The newest `most` of the statements of an account, oldest first, with the answers that it was told."""
        found = self._entries(account.budget, account.analyst, most)
        return [entry if entry.told is None else self._with_told(entry, entry.told) for entry in found]

    def _with_told(self, entry: Entry, charge: int) -> Entry:
        """The entry of an answer of another account, with that answer and the statement that was charged for it."""
        own = f"budget = $1 AND {charge} IN (seq, answers)"
        told = {event.kind: event for event in self._events(f"({own}) AND ((kind = 'charge') OR (kind = 'answer' AND body IS NOT "
                                                            "NULL))", entry.account.budget)}
        if told.keys() != {"charge", "answer"}:
            raise self._damaged(f" at event {entry.seq}")
        return replace(entry, body=told["answer"].body, paid_sql=told["charge"].sql)

    def _entries(self, budget: str, analyst: str | None, most: int | None = None) -> list[Entry]:
        """The entries of a budget, or of one analyst, oldest first; with `most`, only the newest ones are read and verified, and
        that none is missing."""
        account = None if analyst is None else Account(budget=budget, analyst=analyst)
        whose, *names = ("budget = $1",) if account is None else (self._store.whose("$1", "$2"), account.named.analyst)
        with self._unchanging() as chain:
            self._check_listed(chain, budget, account, whose, *names)
            if most is not None:  # answers and ends of charges come after these
                whose += (f" AND seq >= (SELECT MIN(seq) FROM (SELECT seq FROM events WHERE {ENTRIES} AND {whose} "
                          f"ORDER BY seq DESC LIMIT {int(most)}) AS newest)")
            found = self._events(f"{LISTS} AND {whose} ORDER BY seq", budget, *names)
            with self._asking():
                running = _pending(chain, budget) - _all_failed(chain, budget)
            stopped = {event.answers for event in self._events(f"kind = 'stopped' AND {whose}", budget, *names)}
        bodies = {event.answers: event.body for event in found if event.kind == "answer" and event.body is not None}
        return [_entry(event, bodies.get(event.seq), running, stopped)
                for event in found if event.kind == "charge" or event.body is None]

    def page(self, budget: str, most: int, terms: ListTerms, before: int = 0) -> tuple[list[Entry], int]:
        """The newest `most` entries of a budget that fit `terms`, of those before the event `before` (0: all), newest first, and
        how many fit in all. A stored answer is empty here. Only these entries are verified, and that none of the budget is
        missing; so this takes little longer where there are many."""
        with self._unchanging() as chain:
            with self._asking():
                failed = _all_failed(chain, budget) | chain.sums.forgiven
            running = _pending(chain, budget) - failed
            self._check_listed(chain, budget, None, "budget = $1")
            where, values = terms.condition(self._store, budget, failed)
            rest = f"{where} AND seq < {int(before)}" if before else where
            found = self._events(f"{rest} ORDER BY seq DESC LIMIT {int(most)}", *values)
            number, = self._store.rows(f"SELECT COUNT(*) FROM events WHERE {where}", *values)
            seqs = ", ".join(str(event.seq) for event in found) or "0"
            answered, stopped = ({seq for seq, in self._store.rows(f"SELECT seq FROM events WHERE seq IN ({seqs}) AND {over}")}
                                 for over in (ANSWERED, STOPPED))
        return [_entry(event, "" if event.seq in answered else None, running, stopped) for event in found], int(number[0])

    def _check_listed(self, chain: Chain, budget: str, account: Account | None, whose: str, *names: str) -> None:
        """Raises LedgerError if the store lacks an event of a list of statements, of a budget or of one account."""
        there, = self._store.rows(f"SELECT COUNT(*) FROM events WHERE {LISTS} AND {whose}", budget, *names)
        if there[0] != _listed(chain, budget, account):
            raise self._damaged()

    def charged(self, budget: str) -> Counter[str]:
        """How many statements each analyst was charged for."""
        found = Counter[str]()
        for analyst, number in self._store.rows(f"SELECT analyst, COUNT(*) FROM events WHERE {LISTS} AND kind = 'charge' AND "
                                                "budget = $1 GROUP BY analyst", budget):
            found[Account(budget=budget, analyst=analyst).named.analyst] += number
        return found

    def texts(self, account: Account, word: str, most: int, *, of_others: bool = False) -> list[str]:
        """The distinct statements that an account was charged for, or told of, and that contain a word, ignoring case: the newest
        `most` of them, oldest first. With `of_others`, those of all accounts of the budget."""
        contains = self._store.contains("upper(sql)", "upper($2)")
        whose, *names = ("budget = $1",) if of_others else (self._store.whose("$1", "$4"), account.named.analyst)
        found = self._events(f"seq IN (SELECT MAX(seq) FROM events WHERE {ENTRIES} AND {whose} "
                             f"AND {contains} GROUP BY sql ORDER BY 1 DESC LIMIT $3) ORDER BY seq",
                             account.budget, word, most, *names)
        return [event.sql for event in found]

    def holding(self, account: Account, data: str, mark: str) -> list[KeptAnswer]:
        """The stored answers that an account was told, on the same data, whose text contains `mark`, in the order in which it
        was told them. Synthetic tables of closed periods stay, whatever the data are now, and so do notes about them."""
        kept = f"(data = $3 OR data LIKE '{START}% closed' OR data LIKE '{START}% ' || $3 OR body LIKE '{SYNTHETIC} note%')"
        same = kept if mark == SYNTHETIC else "data = $3"
        own = f"kind = 'answer' AND {self._store.whose('$1', '$2')} AND {same}"
        whose = account.budget, account.named.analyst, data
        found = {event.seq: KeptAnswer(body=event.body or "", shared=False)
                 for event in self._events(f"{own} AND {self._marked(mark)}", *whose)}
        found |= {event.seq: KeptAnswer(body=body, shared=True) for event in self._events(f"{own} AND body IS NULL", *whose)
                  if mark in (body := self._told(event).body or "")}
        return [found[seq] for seq in sorted(found)]

    def part(self, account: Account, digest: str) -> str:
        """The part with this digest of an answer that an account was told. Raises LedgerError if there is none."""
        own, others = self._store.whose("$2", "$3", found=True), self._store.whose("$2", "$3")
        told = f"SELECT 1 FROM events AS told WHERE kind = 'answer' AND body IS NULL AND {others} AND answers = events.answers"
        found = self._events("seq = (SELECT MIN(seq) FROM events WHERE kind = 'part' AND digest = $1 AND "
                             f"(({own}) OR EXISTS ({told})))", digest, account.budget, account.named.analyst)
        if not found or part_digest(found[0].body or "") != digest:
            raise self._damaged()
        return found[0].body or ""

    def is_told(self, budget: str, digest: str, data: str) -> bool:
        """Whether any account of a budget was told an answer to this statement, on the same data."""
        return False

    def tell(self, account: Account, digest: str, data: str, sql: str) -> str | None:
        """The answer of another account to a statement that this one asks as `sql`, after recording that it is told."""
        return None

    def tell_of(self, account: Account, charges: Sequence[int], data: str, sql: str) -> None:
        """Record that an account, which asked `sql`, is told the answers of some charges."""

    def of_others(self, account: Account, data: str, mark: str) -> list[SharedAnswer]:
        """The answers of other accounts whose text contains `mark`, and which this one was not told."""
        return []

    def of_another(self, account: Account, digest: str, data: str) -> SharedAnswer | None:
        """The answer of another account to a statement, which this one was not told."""
        return None

    def shared(self) -> int:
        """How many answers were told to accounts that were not charged for them, after checking that each of them is in the
        ledger. Raises LedgerError if one is not."""
        self.refresh()
        told, known = self._store.rows(
            "SELECT COUNT(*), COUNT(original.seq) FROM events AS told LEFT JOIN events AS original ON original.kind = 'answer' "
            "AND original.digest = told.digest AND original.budget = told.budget AND original.data = told.data AND "
            "original.answers = told.answers AND original.body IS NOT NULL AND original.seq < told.seq "
            "WHERE told.kind = 'answer' AND told.body IS NULL")[0]
        if told != known:
            raise self._damaged()
        return int(told)

    def answers(self, digest: str) -> list[str]:
        """The stored answers of all charges with this digest, oldest first."""
        return self._bodies("seq IN (SELECT seq FROM events WHERE kind = 'answer' AND digest = $1) AND digest = $1 AND "
                            "body IS NOT NULL ORDER BY seq", digest)

    def standing_notes(self, budget: str) -> list[RecordedNote]:
        """The notes of all accounts of a budget about standing queries, oldest first."""
        found = self._events("kind = 'answer' AND digest = $1 AND budget = $2 AND body IS NOT NULL ORDER BY seq", STANDING,
                             budget)
        return [RecordedNote(
            seq=event.seq, at=event.at, analyst=event.account.named.analyst, sql=event.sql, body=event.body or "",
            data=tuple(dict.fromkeys(answer.data for answer in self._answers_to(event.account, event.sql)))) for event in found]

    def _waits_for(self, account: Account, charge: Charge, digest: str, data: str) -> Callable[[Ledger], None]:
        """What is told of closed periods stays, so it is charged once to an account, also if a timer and a person ask at once:
        the later one waits for the answer of the first. This is decided in the turn that would write the charge."""
        def check(leader: Ledger) -> None:
            found = leader._verified("seq = (SELECT MAX(seq) FROM events WHERE kind = 'answer' AND digest = $3 AND data = $4 AND "
                                     f"body IS NOT NULL AND {leader._store.whose('$1', '$2', found=True)})", account.budget,
                                     account.named.analyst, digest, data)
            if found:
                raise AnsweredBefore(found[0].body or "", data)
            if _is_running(leader, account, digest, data):
                raise Underway

        return check if charge != NOTHING and data.startswith(START) else lambda leader: None

    def answers_to(self, account: Account, sql: str) -> list[PaidAnswer]:
        """The answers that an account was told to a statement with this text, on all data and under all policies, oldest first.
        The answer to a charge of another account says what that account was charged."""
        found = self._answers_to(account, sql)
        seqs = ", ".join(str(answer.answers) for answer in found) or "0"
        charges = {event.seq: event.cost for event in self._events(f"seq IN ({seqs}) AND kind = 'charge'")}
        return [PaidAnswer(seq=answer.seq, data=answer.data, body=self._told(answer).body or "",
                           charge=charges[answer.answers or 0]) for answer in found]

    def bodies_to(self, account: Account, sql: str) -> dict[tuple[str, str], str]:
        """The newest of the same answers to each statement on each data, by what identifies both."""
        return {(answer.digest, answer.data): self._told(answer).body or "" for answer in self._answers_to(account, sql)}

    def tell_answers_to(self, account: Account, analyst: str, sql: str) -> None:
        """Record that an account is told the answers of another one to a statement with this text, where the budget shares
        answers: here it does not, so nothing is told."""

    def _answers_to(self, account: Account, sql: str) -> list[Event]:
        return self._events(f"kind = 'answer' AND {self._store.whose('$1', '$2')} AND sql = $3 ORDER BY seq", account.budget,
                            account.named.analyst, sql)

    def promised_before(self, promise: Promised) -> Promised | None:
        """The earlier promise of a budget, if any."""
        return self._promise(self._events, promise.before) if promise.before else None

    def naming(self, account: Account, name: str, seconds: float = math.inf) -> contextlib.AbstractContextManager[None]:
        """A context in which no other process gives this name to something of the account; see `alone`."""
        told = f"{account.named.budget}\n{account.named.analyst}\n{name.lower()}"
        return self.alone(f"name-{hashlib.sha256(told.encode()).hexdigest()}", seconds)

    def _told(self, answer: Event) -> Event:
        """The same answer with its text, which may be in the event of another account."""
        if answer.body is not None:
            return answer
        found = self._events("kind = 'answer' AND digest = $1 AND answers = $2 AND body IS NOT NULL", answer.digest,
                             answer.answers or 0)
        if not found or (found[0].budget, found[0].data) != (answer.budget, answer.data):
            raise self._damaged(f" at event {answer.seq}")
        return found[0]

    def _marked(self, mark: str) -> str:
        """The condition that the text of an answer contains a mark: no parameter, which would fit no index."""
        told = mark.replace("'", "''")
        return self._store.contains("body", f"'{told}'")

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


def _is_running(ledger: Ledger, account: Account, digest: str, data: str) -> bool:
    """Whether a statement of an account is running."""
    open_ = ledger._chain.sums.pending.get(account.named, frozenset[int]()) - {*ledger._chain.failed(account)}
    seqs = ", ".join(map(str, sorted(open_)))
    return bool(seqs) and any((event.digest, event.data) == (digest, data)
                              for event in ledger._verified(f"seq IN ({seqs}) AND kind = 'charge'"))


def _pending(chain: Chain, budget: str) -> set[int]:
    """The charges of a budget of which no outcome is recorded: they run, or their processes have ended."""
    return {seq for account, pending in chain.sums.pending.items() if account.budget == budget for seq in pending}


def _entry(event: Event, body: str | None, running: Collection[int], stopped: Collection[int | None]) -> Entry:
    """The entry of a charge with this answer, or of an answer of another account that was told."""
    return Entry(seq=event.seq, at=event.at, account=event.account.named, sql=event.sql, charge=event.cost,
                 body="" if event.kind == "answer" else body, told=event.answers, running=event.seq in running,
                 stopped=event.seq in stopped)


def _listed(chain: Chain, budget: str, account: Account | None) -> int:
    """How many events of a budget, or of one account, lists of its statements show."""
    return sum(number for each, number in chain.sums.reported.listed.items()
               if each.budget == budget and (account is None or each == account.named))
