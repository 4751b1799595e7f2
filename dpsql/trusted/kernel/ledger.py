"""The durable record of everything that was spent and answered: a `chain` of events in a store.

`chain` decides what may be recorded, by rules that do not involve files. This module provides what those rules rely on:
*turns* (`_turn`: an exclusive transaction that starts by accepting what others wrote), *durable* events and *locks*
(`running_statements`). Where the events are is the business of a store (`event_store`): one SQLite file (`sqlite_store`), or the
one that the ledger is given, such as a PostgreSQL database for several servers (`postgres_store`).

There is one row for each event, each hashed together with the one before it. The head of the chain is also written to a file of
its own, the `anchor`, before an answer is released; a ledger that lacks an event in its anchor was rolled back and is refused, as
is one that is missing, damaged or replaced. Keep the anchor on another volume, so that restoring a whole folder is detected. An
administrator who changes both is out of scope.

*Several anchors.* Each server has its own. Once a server has seen an event, because it wrote it or read it, it refuses every
state of the ledger that lacks this event or has another one in its place. It cannot notice that events are missing that only
other servers have seen: if a database is rolled back, servers that had seen less continue with sums that lack the charges of
others, until one of those others looks at the ledger.

*A lost connection* (`_reconnect`) is replaced when nothing is going on: what this process has accepted and what the anchor has
seen must be there again. What was not committed for certain is forgotten and read again first (`OpenTogether.uncertain`).

A statement waits for the disk twice, one after the other: when its charge is committed, and when its answer is. It waits for
the anchor once, while rows are read. The docstring of `anchor` says what each wait is for.

Threads of a process share a turn (`turns`), and what was verified (`OpenTogether`). A statement waits while too many others of
its account are running, and is refused without a charge if that takes too long: running statements never close an account.

*Opening* verifies the events from a checkpoint on, and that the anchor vouches for it: `chain` says why this is as good as
reading all of them. Events before it are verified when one of them is read (`past`), and all of them by `dpsql ledger verify`.
So damage there is noticed when it matters; what it can do until then is to hide a stored answer, which is paid for again. Sums,
failures and what is kept with a charge do not depend on what can be found.

Nothing that is asked often reads all events. Reports (`ledger_reports`) follow from sums; lists and stored answers are found by
an index, verified one by one, and a list is whole if it has as many events as the chain counted.

A ledger without a checkpoint that states all that this version needs is read from the beginning, until there is one.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import random
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from dpsql.errors import LedgerError, OperationalError
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Account, Charge
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.declarations.names import normal
from dpsql.trusted.kernel.anchor import Anchor, Head, Unreadable
from dpsql.trusted.kernel.chain import CHANGED, NO_LIMITS, NO_WINDOWS, Broken, Chain, Event, InParts, Outdated, genesis
from dpsql.trusted.kernel.chain import Busy as Busy
from dpsql.trusted.kernel.chain import Closed as Closed
from dpsql.trusted.kernel.chain import Refused as Refused
from dpsql.trusted.kernel.event_store import LINKED, EventStore, StatementLocks, StoreFault
from dpsql.trusted.kernel.past import Past
from dpsql.trusted.kernel.period_sums import WindowLimits
from dpsql.trusted.kernel.revisions import Revision, TimeState
from dpsql.trusted.kernel.sqlite_store import SqliteStore
from dpsql.trusted.kernel.turns import Step, Turns, Waiting
from dpsql.trusted.kernel.waypoint import RESUMABLE
from dpsql.trusted.stopping import go_on

PATIENCE = 60.0  # seconds a statement waits for others of its account before it gives up
PUT_BACK = "the newest copy of the ledger and of its anchor; a new ledger forgets what was spent, so only the owner may start one"
UNWRITABLE = "permission to write to it, space on its disk, and no other program that locks it"


class Underway(Exception):
    """A statement has to wait for another one before it is charged."""


class Promised(Frozen):
    """A recorded promise of charges, from some event on. `changed`: it did not merely extend the promise in event `before` (0 for
    none)."""

    at: str
    text: str
    changed: bool
    before: int


class Ledger:
    """An open ledger. Safe with many processes, forked ones too; each thread needs its own."""

    def __init__(self, path: str | Path, anchor: str | Path | None = None, store: EventStore | None = None, *,
                 whole: bool = False) -> None:
        """Open the ledger in a file or, if one is given, in a `store`; its other files are next to `path` in both cases.

        Open and verify: from the newest checkpoint on that the anchor vouches for or, with `whole`, from the beginning, every
        page of the file and every record of the anchor. Raises LedgerError if the ledger is missing, damaged or older than its
        anchor."""
        self.path = Path(path)
        self.anchor = Path(anchor) if anchor is not None else anchor_beside(self.path)
        self._store = store or SqliteStore(self.path)
        self._running = self._store.running
        self._pid, self._held, self._alone = os.getpid(), 0, 0
        self._promises: dict[str, int] = {}  # by budget, the change of its promise that whoever uses this relies on
        self._connect(whole)
        _OPENED.add(self)

    @classmethod
    def create(cls, path: str | Path, anchor: str | Path | None = None, store: EventStore | None = None) -> Self:
        """Create an empty ledger; only the owner does this, explicitly. Raises LedgerError if the ledger or its anchor exists."""
        path, anchor = Path(path), Path(anchor) if anchor is not None else anchor_beside(Path(path))
        store = store or SqliteStore(path)
        for place, exists in ((store.place, store.exists), (anchor, anchor.exists)):
            if exists():
                raise LedgerError(f"{place} exists; a ledger is never overwritten", code="ledger-exists",
                                  try_="another name, unless it is already this policy's ledger")
        meta = {"identity": secrets.token_hex(16), "salt": secrets.token_hex(8), "version": "1"}
        try:
            anchor.parent.mkdir(parents=True, exist_ok=True)
            with store.creating(meta):
                Anchor(anchor).create((0, genesis(meta)))
        except (OSError, StoreFault):
            raise LedgerError(f"no ledger can be created at {store.place}, or no anchor at {anchor}", code="ledger-access",
                              try_="files in folders, or a database, that you may write to") from None
        return cls(path, anchor, store)

    def close(self) -> None:
        if self._store.is_open and os.getpid() == self._pid:
            self._running.end_all()
        self._store.close()

    @property
    def place(self) -> str:
        """The ledger's location for messages, without a user."""
        return self._store.place

    @property
    def identity(self) -> str:
        """Identifies this ledger, wherever its file is. Not a secret."""
        return hashlib.sha256(f"identity {self._chain.genesis}".encode()).hexdigest()[:32]

    @property
    def events(self) -> int:
        """The number of events covered by verification or by a verified checkpoint."""
        with self._reading() as chain:
            return chain.head[0]

    @property
    def salt(self) -> int:
        """The secret that orders rows for truncation; fixed for the life of the ledger."""
        return self._salt

    def charge(self, account: Account, charge: Charge, *, digest: str, data: str, sql: str,
               allows: Mapping[str | None, Limit], incidents: int | None = None, body: str | None = None,
               in_periods: Mapping[str | None, Limit] = NO_LIMITS, in_any: WindowLimits = NO_WINDOWS) -> int:
        """Record a charge durably if the limits allow it. Returns the number of the event.

        `allows` maps an analyst's name, and None for the total, to the limit that applies, `in_periods` to the one in each period
        that `data` states, and `in_any` those in any so many consecutive ones; `incidents` is how many charges of the account may
        fail, None for any number; `body` is kept with the charge, for the kernel alone. Raises, having recorded nothing, Refused
        where a limit would be exceeded, Closed where too many failed, Busy where too many of the account run for too long,
        OperationalError where the promise of the budget was changed since `rely_on`; and as `stopping.go_on` does.
        """
        self._check_anchor()
        self._ready()
        self._running.end_all()  # a ledger object serves one statement at a time, so the previous one is over
        try:
            return self._in_turn(lambda: self._charge(lambda leader: leader._chain.charge(
                account, charge, digest=digest, data=data, sql=sql, allows=allows, incidents=incidents, body=body,
                promise=self._promises.get(account.budget), in_periods=in_periods, in_any=in_any),
                self._waits_for(account, charge, digest, data)))
        except Outdated:
            raise OperationalError(f"the owner changed what the budget {account.budget} protects, so nothing is charged",
                                   code="promise-outdated", subject=account.budget, try_="connecting again") from None

    def _waits_for(self, account: Account, charge: Charge, digest: str, data: str) -> Callable[[Any], None]:
        """What is done before a charge, in its turn, by the ledger that has the turn: here nothing. Underway makes it wait."""
        return lambda leader: None

    def rely_on(self, budget: str, decide: Callable[[Mapping[str, Promised]], Mapping[str, tuple[str, bool]]]) -> None:
        """Rely on the promise of a budget from now on, after recording what `decide` returns: by budget, a text, and whether it
        changes the promise. `decide` gets the newest promise of each budget. It is called more than once, the last time in the
        turn that records the result. If it raises an exception, nothing is recorded."""
        def step(leader: Ledger) -> int:
            for name, (text, changed) in decide(leader._promised(leader._verified)).items():
                leader._store.make_room()
                leader._insert(leader._chain.promise(name, text, changed=changed))
            return leader._chain.promised[budget][0]

        self.refresh()
        with self._reading() as chain:
            relied_on = chain.promised.get(budget, (0, 0))[0]  # if it is changed before the texts are read, charges are refused
        if decide(self.promised()):
            self._check_anchor()
            relied_on = self._take(step)
        self._promises[budget] = relied_on

    def promised(self) -> dict[str, Promised]:
        """The recorded promise of each budget's charges."""
        self.refresh()
        return self._promised(self._events)

    def _promised(self, events: Callable[..., list[Event]]) -> dict[str, Promised]:
        with self._reading() as chain:
            newest = {budget: seq for budget, (_, seq) in chain.promised.items()}
        return {budget: self._promise(events, seq) for budget, seq in newest.items()}

    def _promise(self, events: Callable[..., list[Event]], seq: int) -> Promised:
        for event in events("seq = $1 AND kind = 'promise'", seq):
            return Promised(at=event.at, text=event.body or "", changed=event.digest == CHANGED, before=int(event.data))
        raise self._damaged(f" at event {seq}")

    def answer(self, charged: int, body: str | InParts, late: int = 0, *, crowded: bool = False) -> None:
        """Record the answer to a charged statement durably, and the step at which it leaves if that is a `late` one."""
        self._follow_up(charged, "answer", body, late, crowded)

    def incident(self, charged: int, late: int = 0, *, crowded: bool = False, cause: str | None = None) -> None:
        """Record that a charged statement failed, when, and for the owner why. If that cannot be recorded, it still counts as
        failed."""
        self._follow_up(charged, "incident", cause, late, crowded)

    def stopped(self, charged: int, cause: str, late: int = 0, *, crowded: bool = False) -> None:
        """Record that a charged statement was stopped, and when. If that cannot be recorded, it counts as failed."""
        self._follow_up(charged, "stopped", cause, late, crowded)

    def first_step(self, account: Account, late: int, *, crowded: bool = False) -> int:
        """The first step at which the outcome of the statement charged last by this ledger may leave, if `late` outcomes may be
        late and the statement is `crowded` or not (`chain`)."""
        with self._reading() as chain:
            return chain.first_step(account, late, crowded=crowded)

    def failed(self, account: Account) -> list[int]:
        """The charges of an account that failed and are not forgiven, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.failed(account)

    def reopen(self, account: Account) -> int:
        """Forgive the failed charges and the late outcomes of an account; only the owner does this, explicitly. Returns their
        number."""
        self._check_anchor()
        return self._take(lambda leader: leader._reopen(account))

    def revise(self, revisions: Sequence[Revision]) -> None:
        """Record that the owner has revised periods of tables. Only the owner does this, explicitly; it may be repeated."""
        def step(leader: Ledger) -> int:
            for revision in revisions:
                leader._store.make_room()
                leader._insert(leader._chain.revised(revision))
            return leader._chain.head[0]

        self._check_anchor()
        self._take(step)

    def correct_clock(self) -> None:
        """Record that this machine's clock is right, and an earlier one was ahead. Only the owner does this, explicitly."""
        def step(leader: Ledger) -> int:
            leader._store.make_room()
            leader._insert(leader._chain.clock())
            return leader._chain.head[0]

        self._check_anchor()
        self._take(step)

    def time_state(self) -> TimeState:
        """The revisions of periods, and how far this machine's clock is behind, after reading what other processes have
        written."""
        self.refresh()
        with self._reading() as chain:
            return TimeState(days_behind=chain.days_behind, revised=tuple(chain.sums.revised))

    def stored(self, account: Account, digest: str, data: str) -> str | None:
        """The stored answer to the same statement, on the same data, for the same account; None if there is none."""
        found = self._newest("seq", account, digest, data)
        return found.body if found else None

    def answered(self, account: Account, digest: str, data: str) -> tuple[int, str | None] | None:
        """The number of the newest charge of a statement whose answer the account was told, and the data that the kernel keeps
        with it."""
        found = self._newest("answers", account, digest, data)
        if found is None:
            return None
        for event in self._events("seq = $1 AND kind = 'charge'", found.answers or 0):
            if (event.budget, event.digest, event.data) == (account.budget, digest, data):
                return event.seq, event.body
        raise self._damaged(f" at event {found.seq}")

    def newest(self, digest: str) -> tuple[str | None, str | None]:
        """The data that the kernel stored with the newest charge of this name, and its answer; each is None if there is none."""
        self.refresh()
        with self._reading() as chain:
            seq = chain.kept(digest)
        if seq is None:
            return None, None
        kept = self._bodies("seq = $1 AND kind = 'charge'", seq)
        if not kept:
            raise self._damaged(f" at event {seq}")
        answers = self._bodies("kind = 'answer' AND digest = $1 AND answers = $2 AND body IS NOT NULL", digest, seq)
        return kept[0], answers[0] if answers else None

    @contextlib.contextmanager
    def alone(self, name: str, seconds: float = math.inf) -> Iterator[None]:
        """A context that only one thread of one process can be in at a time; others wait. Raises LedgerError if that is
        impossible, and TimeoutError if others stay in it for more than `seconds`.

        What is charged inside is committed by the session that keeps others out, or not at all: so it is there before another one
        gets in, also where the session ends in between.
        """
        self._ready()
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._running.alone(name, seconds))
            except TimeoutError:
                raise
            except OSError:
                raise self._no_file() from None
            except StoreFault as fault:
                raise self._unwritable(fault) from None
            self._held, self._alone = self._held + 1, self._alone + 1
            try:
                yield
            finally:
                self._held, self._alone = self._held - 1, self._alone - 1

    def refresh(self) -> None:
        """Read what other processes have written."""
        self._ready()
        self._catch_up()

    # -- the file, its chain and its anchor

    def _connect(self, whole: bool = False) -> EventStore:
        try:
            self._store.open()
            self._open(whole)
        except (StoreFault, KeyError, ValueError, OSError) as fault:
            self._store.close()
            if fault.refused if isinstance(fault, StoreFault) else isinstance(fault, PermissionError):
                raise self._out_of_reach() from None
            raise self._unreadable(fault) from None
        except BaseException:
            self._store.close()
            raise
        self._pid = os.getpid()
        return self._store

    def _open(self, whole: bool) -> None:
        """Read the chain, and compare it with the anchor."""
        meta = self._store.meta()
        self._salt = int(meta["salt"], 16)
        self._join(genesis(meta), whole)

    def _join(self, first: str, whole: bool) -> None:
        """Verify the chain, and share it from now on with the other open ledgers of this process that agree with it."""
        key, anchor = (os.getpid(), self._store.mark, first, self.anchor.absolute()), Anchor(self.anchor)
        known = _SHARED.get(key)
        recorded = 0 if known is None else known.anchor.newest
        seen = self._anchored(anchor, whole)  # read before the chain: whatever the anchor has seen was committed by then
        asked = AskedLocks(self._running)
        chain, past = self._begun(first, 0 if whole else max(seen)[0], asked)
        self._shared = OpenTogether(anchor, chain, past, asked)
        self._catch_up()
        self._compare(seen)
        if known is not None and recorded <= max(seen)[0] and known.agrees(chain):
            self._shared = known
        else:
            if known is not None:  # the anchor was put back, or its disk failed
                anchor.doubt()
            _SHARED[key] = self._shared
        self._settle(chain.head[0])

    def _begun(self, first: str, vouched: int, asked: AskedLocks) -> tuple[Chain, Past]:
        """A chain that begins at the newest usable checkpoint not after an event that is known to be right; otherwise at the
        first event, and then every page of the file is checked too."""
        chain = Chain(first, asked.is_running)
        resumable = f"kind = 'checkpoint' AND seq <= $1 AND {self._store.contains('body', '$2')} ORDER BY seq DESC LIMIT 1"
        found = self._store.rows(f"SELECT {LINKED} FROM events WHERE {resumable}", vouched, RESUMABLE) if vouched else []
        if not found:
            if not self._store.is_sound():
                raise self._damaged()
        else:
            *values, link, previous = found[0]
            event = Event(*values)
            try:
                chain.resume(event, link, previous or "")
            except Broken:
                raise self._damaged(f" at event {event.seq}") from None
        return chain, Past(chain.checkpoint, first)

    @property
    def _chain(self) -> Chain:
        return self._shared.chain

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Chain]:
        """A context in which no event is added to the chain."""
        if self._store.is_open and os.getpid() != self._pid:
            self._ready()  # a forked child would wait for a thread of its parent
        with self._shared.lock:
            if self._shared.uncertain is not None:
                self._ready()
                self._catch_up()
            try:
                with self._asking():
                    yield self._chain
            except StoreFault as fault:
                raise self._unwritable(fault) from None

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """A context in which the chain uses this ledger's store to find out which statements are running. The caller holds the
        lock on the shared state."""
        before, self._shared.asked.running = self._shared.asked.running, self._running
        try:
            yield
        finally:
            self._shared.asked.running = before

    def _damaged(self, where: str = "") -> LedgerError:
        return LedgerError(f"the ledger {self._store.place} is damaged{where}", code="ledger-damaged", try_=PUT_BACK)

    def _out_of_reach(self) -> LedgerError:
        return LedgerError(f"the ledger {self._store.place} cannot be opened for writing", code="ledger-access",
                           try_=f"permission to write to it, to {self.anchor}, and to their folders")

    def _ready(self) -> EventStore:
        """The store, after checking that it still is the ledger's: same file, same process."""
        if not self._store.is_open:
            raise LedgerError("the ledger is closed", code="ledger-closed", try_="dpsql.connect(...)")
        if os.getpid() != self._pid:
            self._running.let_go_of_inherited()
            _let_go_of_inherited()
            return self._connect()
        if not self._store.is_in_place():
            raise LedgerError(f"the ledger {self._store.place} was removed or replaced while it was open", code="ledger-missing",
                              try_=PUT_BACK)
        if self._store.is_lost:
            self._reconnect()
        return self._store

    def _reconnect(self) -> None:
        """Continue on a new connection, after finding again everything that was accepted here and everything that the anchor has
        seen. Raises LedgerError if something is missing, or in the middle of work that depends on the lost connection."""
        if self._held:
            raise self._unreachable()
        try:
            seen = self._anchored(Anchor(self.anchor), False)
            self._store.open()
            if genesis(self._store.meta()) != self._chain.genesis:
                raise self._another()
            with self._shared.lock:
                self._catch_up()
                self._compare(seen)
        except BaseException as fault:
            self._store.hang_up()
            if isinstance(fault, StoreFault | KeyError):
                raise self._unreachable() from None
            raise

    @contextlib.contextmanager
    def _turn(self) -> Iterator[EventStore]:
        """An exclusive transaction on the newest state, committed if the body returns."""
        store = self._ready()
        self._held += 1
        try:
            store.begin()
            with self._shared.lock, self._asking():
                before = None
                try:
                    self._catch_up()
                    before = self._chain.head
                    yield store
                    if self._chain.head != before:
                        self._write_checkpoint()
                    store.commit()
                except BaseException:
                    store.rollback()
                    if before is not None and self._chain.head != before:
                        self._shared.uncertain = before
                        with contextlib.suppress(StoreFault):
                            self._forget_uncommitted()
                    raise
        except StoreFault as fault:
            raise self._unwritable(fault) from None
        finally:  # interrupted between the two
            self._held -= 1
            store.rollback()

    def _in_turn(self, attempt: Callable[[], int]) -> int:
        """Retry until the running statements of the account leave room, and nothing is underway that this statement waits for, or
        until it must stop; no lock is held between attempts."""
        deadline, pause = time.monotonic() + PATIENCE, 0.005
        while True:
            go_on()
            try:
                return attempt()
            except Busy:
                if time.monotonic() > deadline:
                    raise
            except Underway:
                deadline = time.monotonic() + PATIENCE
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - a pause, not a secret
            pause = min(1.5 * pause, 0.25)

    def _charge(self, allowed: Callable[[Ledger], Event], first: Callable[[Ledger], None]) -> int:
        begun = 0

        def step(leader: Ledger) -> int:
            nonlocal begun
            first(leader)
            event = allowed(leader)
            self._begin(event.seq)
            begun = event.seq
            try:
                leader._insert(event)
            except BaseException:
                self._running.abandon(event.seq)  # at once, as the next step may be of this number
                raise
            return event.seq

        try:
            seq = self._take(step)
        except BaseException as fault:
            committed = isinstance(fault, LedgerError) and fault.code == "ledger-anchor"
            (self._running.end if committed else self._running.abandon)(begun)
            raise
        self._shared.anchor.settle_soon(seq, self._shared.certain)
        return seq

    def _take(self, step: Step) -> int:
        """The outcome of a step that writes, executed in a turn that is shared with other threads."""
        self._ready()
        mine = Waiting(step)
        with self._shared.turns.turn(mine, alone=self._alone > 0) as waiting:
            if waiting:
                self._lead(waiting)
        return mine.outcome.result()

    def _lead(self, waiting: Sequence[Waiting]) -> None:
        """Run the steps of all waiting threads in one transaction, and write its head to the anchor."""
        made: list[tuple[Waiting, int]] = []
        fault: BaseException | None = None
        try:
            with self._turn() as store:
                before = self._chain.head
                for one in waiting:
                    with self._own_faults(one, store):
                        made.append((one, one.step(self)))
            if self._chain.head != before:
                self._publish()
        except BaseException as caught:
            fault = caught
        for one, seq in made:
            if fault is None:
                one.outcome.set_result(seq)
        for one in waiting:
            if not one.outcome.done():
                one.outcome.set_exception(fault if isinstance(fault, Exception) else self._unwritable())
        if fault is not None and not isinstance(fault, Exception):
            raise fault

    @contextlib.contextmanager
    def _own_faults(self, one: Waiting, store: EventStore) -> Iterator[None]:
        """A context in which an error concerns only one step, as long as the transaction continues. Each step writes one event,
        or none; or it first writes a late event, which may stay without the other one: then more outcomes are counted as late
        than were; or several that say what an account is told, some of which may stay: it then counts as told more; or several
        revisions, some of which may stay: statements are then charged anew that need not be; or
        parts of an answer, some of which may stay without it: nothing names them."""
        try:
            yield
        except Exception as fault:
            if not store.in_transaction:
                raise
            one.outcome.set_exception(self._unwritable(fault) if isinstance(fault, StoreFault) else fault)

    def _begin(self, seq: int) -> None:
        try:
            self._running.begin(seq)
        except OSError:
            raise self._no_file() from None

    def _no_file(self) -> LedgerError:
        return LedgerError(f"no file can be created beside the ledger {self._store.place}, so nothing is charged",
                           code="ledger-access", try_="permission to write to its folder, and space on its disk")

    def _insert(self, event: Event) -> None:
        event = event._replace(analyst=normal(event.analyst))
        link = event.link(self._chain.head[1])
        self._store.insert(event, link)
        self._chain.accept(event, link)

    def _write_checkpoint(self) -> None:
        event = self._chain.checkpoint_due()
        if event is not None:
            self._store.make_room()
            self._insert(event)

    def _reopen(self, account: Account) -> int:
        failed, late = len(self.failed(account)), self._chain.number_late(account)
        if failed or late:
            self._store.make_room()
        if failed:
            self._insert(self._chain.reopened(account))
        if late:
            self._insert(self._chain.on_time(account))
        return failed + late

    def _follow_up(self, charged: int, kind: str, body: str | InParts | None, late: int, crowded: bool) -> None:
        text, parts = body if isinstance(body, InParts) else (body, ())

        def step(leader: Ledger) -> int:
            self._running.check(charged)
            charge, = leader._verified("seq = $1 AND kind = 'charge'", charged)
            if late or parts or kind == "stopped":
                leader._store.make_room()
            if late:
                leader._insert(leader._chain.following(charge, "crowded" if crowded else "late", str(late)))
            for part in parts:
                leader._insert(leader._chain.part(charge, part))
            leader._insert(leader._chain.following(charge, kind, text))
            return charged

        try:
            self._take(step)
        finally:
            self._running.end(charged)
        self._settle(charged)

    def _newest(self, column: str, account: Account, digest: str, data: str) -> Event | None:
        """The answer with the largest number in a column, of those to a statement that an account was told. The row is found
        through an index, which may be damaged, so the row itself is checked again."""
        whose = self._store.whose("$1", "$2", found=True)
        found = self._events(f"seq = (SELECT seq FROM events WHERE kind = 'answer' AND digest = $3 AND {whose} AND data = $4 "
                             f"ORDER BY {column} DESC LIMIT 1)", account.budget, account.named.analyst, digest, data)
        if found and (found[0].account.named, found[0].digest, found[0].data) != (account.named, digest, data):
            raise self._damaged(f" at event {found[0].seq}")
        return found[0] if found else None

    def _bodies(self, where: str, *values: str | int) -> list[str]:
        return [event.body or "" for event in self._events(where, *values)]

    def _events(self, where: str, *values: str | int) -> list[Event]:
        """The events that satisfy a condition, in a verified state of the ledger. Before answers are returned, the anchor has
        their charges on disk."""
        self._ready()
        self._catch_up()
        return self._verified(where, *values)

    def _verified(self, where: str, *values: str | int) -> list[Event]:
        """The same, if nothing was written since the chain was caught up, as in a turn."""
        store = self._store
        try:
            rows = [(Event(*row), link, previous) for *row, link, previous in store.rows(
                f"SELECT {LINKED} FROM events WHERE {where}", *values)]
            found = [event for event, _, _ in rows]
            with self._shared.lock:
                if found and max(event.seq for event in found) > self._chain.head[0]:  # written since, by another process
                    self._catch_up()
                self._shared.past.verify(store, rows)
        except (StoreFault, Broken) as fault:
            raise self._unreadable(fault) from None
        answered = [event.answers or 0 for event in found if event.kind == "answer"]
        if answered:
            self._settle(max(answered))
        return found

    def _catch_up(self) -> None:
        """Verify the new part of the chain, and add it to the sums. Raises LedgerError if the chain is broken."""
        try:
            with self._shared.lock:
                if self._shared.uncertain is not None:
                    self._forget_uncommitted()
                else:
                    self._read_on()
        except StoreFault as fault:
            raise self._unreadable(fault) from None

    def _read_on(self) -> None:
        seq, link = self._chain.head
        with contextlib.closing(self._store.events_from(seq or 1)) as rows:  # or a fault would keep the file open
            newest = next(rows, None) if seq else None
            if not seq or (newest is not None and (newest[0], newest[-1]) == (seq, link)):
                self._accept(rows)
                return
        if self._store.rows("SELECT COALESCE(MAX(seq), 0) FROM events")[0][0] < seq:
            raise LedgerError(f"the ledger {self._store.place} was rolled back", code="ledger-rolled-back", try_=PUT_BACK)
        raise LedgerError(f"the ledger {self._store.place} was changed", code="ledger-damaged", try_=PUT_BACK)

    def _accept(self, rows: Iterator[tuple[Any, ...]]) -> None:
        for *row, link in rows:
            try:
                self._chain.accept(Event(*row), link)
            except Broken:
                raise self._damaged(f" at event {row[0]}") from None

    def _forget_uncommitted(self) -> None:
        """After a turn that failed, compute the sums again from the store, starting from a verified head."""
        before = self._shared.certain
        self._shared.chain, self._shared.past = self._begun(self._chain.genesis, before[0], self._shared.asked)
        self._read_on()
        self._compare([before])
        self._shared.uncertain = None

    def _publish(self) -> None:
        """Write the newest event to the anchor before anyone learns of it."""
        try:
            self._shared.anchor.record(self._chain.head)
        except OSError:
            raise self._not_anchored() from None

    def _settle(self, seq: int) -> None:
        """Wait until the anchor has an event on disk, before anything is shown that the event paid for."""
        if self._shared.anchor.has_settled(seq):
            return
        with self._shared.lock:
            head = self._shared.certain
        try:
            self._shared.anchor.settle(seq, head)
        except OSError:
            raise self._not_anchored() from None

    def _not_anchored(self) -> LedgerError:
        return LedgerError(f"the anchor {self.anchor} cannot be written; what was charged stays charged", code="ledger-anchor",
                           try_="permission to write to it, and space on its disk")

    def _unreadable(self, fault: Exception) -> LedgerError:
        return self._unwritable(fault) if isinstance(fault, StoreFault) and (fault.lost or fault.hindered) else self._damaged()

    def _unreachable(self) -> LedgerError:
        return LedgerError(f"the connection to the ledger {self._store.place} was lost; a statement that was being charged may "
                           "have been charged", code="ledger-access", try_="the same statement again; what was recorded is read "
                                                                           "first")

    def _another(self) -> LedgerError:
        return LedgerError(f"the ledger {self._store.place} is not the one that its anchor records", code="ledger-rolled-back",
                           try_=PUT_BACK)

    def _unwritable(self, fault: StoreFault | None = None) -> LedgerError:
        if fault is not None and fault.lost:
            return self._unreachable()
        if fault is not None and fault.hindered:
            return LedgerError(f"the ledger {self._store.place} cannot be used at present", code="ledger-access", try_=UNWRITABLE)
        return LedgerError(f"the ledger {self._store.place} cannot be written", code="ledger-damaged", try_=UNWRITABLE)

    def _check_anchor(self) -> None:
        """Refuse before the charge if the anchor could not record it."""
        try:
            self._shared.anchor.check()
        except OSError:
            raise LedgerError(f"the anchor {self.anchor} cannot be written, so nothing is charged", code="ledger-anchor",
                              try_="permission to write to it") from None

    def _anchored(self, anchor: Anchor, whole: bool) -> list[Head]:
        """The newest heads of the chain that the anchor has seen, or all of them."""
        try:
            return anchor.heads(whole)
        except Unreadable as fault:
            state = str(fault)
        except OSError as fault:
            state = "cannot be read" if isinstance(fault, PermissionError) else "is missing"
        raise LedgerError(f"the anchor {self.anchor} of the ledger {state}", code="ledger-anchor", try_=PUT_BACK)

    def _compare(self, seen: Sequence[Head]) -> None:
        for seq, link in seen:
            if seq > self._chain.head[0]:
                raise LedgerError(f"the ledger {self._store.place} was rolled back: its anchor records event {seq}",
                                  code="ledger-rolled-back", try_=PUT_BACK)
            known = self._chain.hashes.get(seq)
            if known is None:  # of the past, for which the newest of these heads vouches
                rows = self._store.rows("SELECT hash FROM events WHERE seq = $1", seq)
                known = self._chain.genesis if seq == 0 else rows[0][0] if rows else None
            if known != link:
                raise self._another()


class AskedLocks:
    """The locks, as seen by the ledger that is reading the shared chain: each open ledger has its own connection."""

    def __init__(self, running: StatementLocks) -> None:
        self.running = running

    def is_running(self, seq: int) -> bool:
        return self.running.is_running(seq)


class OpenTogether:
    """State shared by all open ledgers of one file and anchor in a process; each has its own connection.

    The lock is held by whoever reads or extends the chain, and throughout a turn; so nobody sees an event that is not on disk.
    Where a turn failed and its events could not be forgotten yet, `uncertain` is the head before it.
    """

    def __init__(self, anchor: Anchor, chain: Chain, past: Past, asked: AskedLocks) -> None:
        self.turns, self.lock = Turns(), threading.RLock()
        self.anchor, self.chain, self.past, self.asked = anchor, chain, past, asked
        self.uncertain: Head | None = None

    @property
    def certain(self) -> Head:
        """The newest head whose events are known to be on disk."""
        with self.lock:
            return self.uncertain or self.chain.head

    def agrees(self, chain: Chain) -> bool:
        """Whether a newly verified chain is the same as this one, up to the end of the shorter one."""
        with self.lock:
            (ours, link), (seq, other) = self.chain.head, chain.head
            same = self.chain.hashes.get(seq) == other or chain.hashes.get(ours) == link
            return same and not self.anchor.failed


_SHARED: weakref.WeakValueDictionary[tuple[object, ...], OpenTogether] = weakref.WeakValueDictionary()
"""By process, as a forked one has no part in the locks of its parent's threads; by the file and the first hash of its chain, as
the number of a file may be given to another one later; and by the anchor."""


def anchor_beside(path: Path) -> Path:
    return path.with_name(path.name + ".anchor")


_OPENED: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _let_go_of_inherited() -> None:
    """After a fork, abandon every connection that the parent opened; a child that used one would disturb its parent."""
    for ledger in list(_OPENED):
        if ledger._pid != os.getpid():
            ledger._store.let_go_of_inherited()
