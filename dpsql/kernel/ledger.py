"""The durable record of everything that was spent and answered: the file of a `chain` of events.

`chain` decides what may be recorded, by rules that do not involve files. This module provides what those rules rely on:
*turns* (`_turn`: an exclusive transaction that starts by accepting what others wrote), *durable* events and *locks*
(`running_statements`).

One SQLite file, `synchronous=FULL` in WAL mode, one row for each event, each row hashed together with the one before it. The
head of the chain is also written to a second file, the `anchor`, before an answer is released; a ledger that lacks an event in
its anchor was rolled back and is refused, as is one that is missing, damaged or replaced. Keep the anchor on another volume, so
that restoring a whole folder is detected. An administrator who changes both is out of scope.

A statement waits for the disk twice in a row: when its charge is committed, and its answer. The anchor is waited for once, while
rows are read. What each wait is for stands at the head of `anchor`.

Writers take turns by `BEGIN IMMEDIATE` with a jittered retry: SQLite's own busy handler starves writers under load. Threads of a
process share a turn (`turns`), and what was verified (`OpenTogether`). A statement waits while too many others of its account are
running, and is refused without a charge if that takes too long: running statements never close an account.

*Opening* verifies the events from a checkpoint on, and that the anchor vouches for it: `chain` says why this is as good as
reading all of them. Events before it are verified when one of them is read (`past`), and all of them by `dpsql ledger verify`.
So damage there is noticed when it matters; what it can do until then is to hide a stored answer, which is paid for again. Sums,
failures and what is kept with a charge do not depend on what can be found.

Nothing that is asked often reads all events. Reports follow from sums; lists and stored answers are found by an index, verified
one by one, and a list is whole if it has as many events as the chain counted.

*Versions.* A ledger that has no room for `reopened` or `late` events or checkpoints, or lacks an index, is converted when one of
these is written, in the same transaction: rows, hashes and the head of the chain stay unchanged, so both files are valid before
and after. A ledger without a checkpoint that states all that this version needs is read from the beginning, until there is one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsql.accounting.cost import Charge
from dpsql.accounting.privacy_filter import Limit
from dpsql.catalog.names import normal
from dpsql.errors import LedgerError
from dpsql.kernel.anchor import Anchor, Head, Unreadable
from dpsql.kernel.chain import Account as Account
from dpsql.kernel.chain import Broken, Chain, Event, genesis
from dpsql.kernel.chain import Busy as Busy
from dpsql.kernel.chain import Closed as Closed
from dpsql.kernel.chain import Refused as Refused
from dpsql.kernel.marks import MARKS
from dpsql.kernel.past import COLUMNS, LINKED, Past
from dpsql.kernel.running_statements import Running
from dpsql.kernel.turns import Step, Turns, Waiting
from dpsql.kernel.waypoint import RESUMABLE

EVENTS = """
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('charge', 'answer', 'incident', 'reopened', 'checkpoint', 'late')),
    at TEXT NOT NULL, budget TEXT NOT NULL, analyst TEXT NOT NULL, digest TEXT NOT NULL, data TEXT NOT NULL, sql TEXT NOT NULL,
    epsilon INTEGER CHECK (epsilon >= 0), rho INTEGER NOT NULL CHECK (rho >= 0), delta INTEGER NOT NULL CHECK (delta >= 0),
    answers INTEGER, body TEXT, hash TEXT NOT NULL) STRICT;
CREATE INDEX asked ON events (digest, budget, analyst, data) WHERE kind = 'answer';
"""
LISTS = "kind IN ('charge', 'answer')"  # as `chain.LISTED` says
INDEXES = {"listed": f"(budget, analyst) WHERE {LISTS}", **{
    f"marked_{name}": f"(budget, analyst, data) WHERE kind = 'answer' AND instr(body, '{mark}') > 0"
    for name, mark in MARKS.items()}}
"""Those that a ledger of an earlier version does not have. Without them the same is found, by reading all events."""
SCHEMA = f"CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT; {EVENTS}"
NAMES = f"""WITH RECURSIVE names (name) AS (
    SELECT (SELECT MIN(analyst) FROM events WHERE {LISTS} AND budget = :budget) UNION ALL
    SELECT (SELECT MIN(analyst) FROM events WHERE {LISTS} AND budget = :budget AND analyst > name) FROM names
    WHERE name IS NOT NULL) SELECT name FROM names WHERE normal(name) = normal(:analyst)"""
"""The forms of an analyst's name that events of a budget have, one look in an index for each name there is."""
MAKE_ROOM = (*(f"DROP INDEX IF EXISTS {name}" for name in ("asked", *INDEXES)), "ALTER TABLE events RENAME TO older",
             *EVENTS.strip().rstrip(";").split(";"), "INSERT INTO events SELECT * FROM older", "DROP TABLE older")
PATIENCE = 60.0  # seconds a writer waits for its turn, or a statement for others of its account, before it gives up
PUT_BACK = "the newest copy of the ledger and of its anchor; a new ledger forgets what was spent, so only the owner may start one"
UNWRITABLE = "the right to write it, room on its disk, and no other program that locks it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One statement that was charged. `body` is its stored answer, None where it failed after the charge."""

    seq: int
    at: str
    account: Account
    sql: str
    charge: Charge
    body: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A charged statement that failed; `forgiven` where the owner has reopened the account since."""

    seq: int
    at: str
    account: Account
    sql: str
    forgiven: bool


class Ledger:
    """An open ledger. Safe with many processes, forked ones too; each thread needs its own."""

    def __init__(self, path: str | Path, anchor: str | Path | None = None, *, whole: bool = False) -> None:
        """Open and verify: from the newest checkpoint on that the anchor vouches for or, with `whole`, from the beginning, every
        page of the file and every record of the anchor. Raises LedgerError where the ledger is missing, damaged or older than its
        anchor."""
        self.path = Path(path)
        self.anchor = Path(anchor) if anchor is not None else anchor_beside(self.path)
        self._connection: sqlite3.Connection | None = None
        self._running = Running(self.path)
        self._connect(whole)
        _OPENED.add(self)

    @classmethod
    def create(cls, path: str | Path, anchor: str | Path | None = None) -> Ledger:
        """A new, empty ledger: an explicit act of the owner. Raises LedgerError where one, or its anchor, exists."""
        path, anchor = Path(path), Path(anchor) if anchor is not None else anchor_beside(Path(path))
        for file in (path, anchor):
            if file.exists():
                raise LedgerError(f"{file} exists; a ledger is never overwritten", code="ledger-exists",
                                  try_="nothing, if it is the ledger of this policy; otherwise another name")
        meta = {"identity": secrets.token_hex(16), "salt": secrets.token_hex(8), "version": "1"}
        made = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            anchor.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # it holds a secret and every answer
            made = True
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.executescript(SCHEMA)
                connection.executescript("".join(f"CREATE INDEX {name} ON events {what};" for name, what in INDEXES.items()))
                connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            Anchor(anchor).create((0, genesis(meta)))
        except (OSError, sqlite3.Error):
            if made:  # an incomplete file, which cannot be opened, would block another attempt
                for name in ("", "-wal", "-shm"):
                    path.with_name(path.name + name).unlink(missing_ok=True)
            raise LedgerError(f"no ledger can be created at {path}, or no anchor at {anchor}", code="ledger-access",
                              try_="files in folders that you may write to") from None
        return cls(path, anchor)

    def close(self) -> None:
        if self._connection is not None and os.getpid() == self._pid:
            self._running.end_all()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def identity(self) -> str:
        """Identifies this ledger, wherever its file is. Not a secret."""
        return hashlib.sha256(f"identity {self._chain.genesis}".encode()).hexdigest()[:32]

    @property
    def events(self) -> int:
        """How many events were verified, or are vouched for by a checkpoint that was."""
        with self._reading() as chain:
            return chain.head[0]

    @property
    def budgets(self) -> list[str]:
        """The budgets charged so far, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.budgets

    @property
    def salt(self) -> int:
        """The secret that orders rows for truncation; fixed for the life of the ledger."""
        return self._salt

    def charge(self, account: Account, charge: Charge, *, digest: str, data: str, sql: str,
               allows: Mapping[str | None, Limit], incidents: int | None = None, body: str | None = None) -> int:
        """Record a charge durably if the limits allow it. Returns the number of the event.

        `allows` maps an analyst's name, and None for the total, to the limit that applies; `incidents` is how many charges of
        the account may fail, None for any number; `body` is kept with the charge, for the kernel alone. Raises, having
        recorded nothing, Refused where a limit would be exceeded, Closed where too many failed, Busy where too many of the
        account run for too long.
        """
        self._check_anchor()
        self._ready()
        self._running.end_all()  # a ledger object serves one statement at a time, so the previous one is over
        return self._in_turn(lambda: self._charge(lambda chain: chain.charge(
            account, charge, digest=digest, data=data, sql=sql, allows=allows, incidents=incidents, body=body)))

    def answer(self, charged: int, body: str, late: int = 0) -> None:
        """Record the answer to a charged statement, durably; and the step at which it leaves, if that is a `late` one."""
        self._follow_up(charged, "answer", body, late)

    def incident(self, charged: int, late: int = 0) -> None:
        """Record that a charged statement failed, and when. If that cannot be recorded, it counts as failed all the same."""
        self._follow_up(charged, "incident", None, late)

    def late(self, budget: str) -> list[tuple[str, int, int]]:
        """The analysts of a budget to whom outcomes left late, at which steps, and how many: for the owner."""
        self.refresh()
        with self._reading() as chain:
            return chain.late(budget)

    def failed(self, account: Account) -> list[int]:
        """The charges of an account that failed and are not forgiven, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.failed(account)

    def failures(self, budget: str) -> list[Failure]:
        """Every charge of a budget that failed, oldest first: for the owner."""
        self.refresh()
        with self._reading() as chain:
            failed = chain.all_failed(budget)
            seqs = sorted(failed | chain.forgiven)
        charged = [event for seq in seqs for event in self._events("seq = ? AND kind = 'charge' AND budget = ?", seq, budget)]
        return [Failure(seq=event.seq, at=event.at, account=event.account.named, sql=event.sql, forgiven=event.seq not in failed)
                for event in charged]

    def reopen(self, account: Account) -> int:
        """Forgive the failed charges of an account: an explicit act of the owner. Returns their number."""
        self._check_anchor()
        return self._take(lambda leader: leader._reopen(account))

    def stored(self, account: Account, digest: str, data: str) -> str | None:
        """The stored answer to the same statement, on the same data, for the same account; None if there is none."""
        found = self._newest("seq", account, digest, data)
        return found.body if found else None

    def holding(self, account: Account, data: str, mark: str) -> list[str]:
        """The stored answers of an account, on the same data, whose text contains `mark`, oldest first."""
        told = mark.replace("'", "''")  # no parameter, which would fit no index
        return self._bodies(f"kind = 'answer' AND budget = :budget AND analyst IN ({NAMES}) AND data = :data AND "
                            f"instr(body, '{told}') > 0 ORDER BY seq", budget=account.budget, analyst=account.analyst, data=data)

    def answered(self, account: Account, digest: str, data: str) -> tuple[int, str | None] | None:
        """The newest answered charge of a statement, by its number, and what the kernel keeps with it."""
        found = self._newest("answers", account, digest, data)
        return (found.seq, found.body) if found else None

    def newest(self, digest: str) -> tuple[str | None, str | None]:
        """What the kernel keeps with the newest charge of this name, and its answer; None for what there is not."""
        self.refresh()
        with self._reading() as chain:
            seq = chain.kept(digest)
        if seq is None:
            return None, None
        kept = self._bodies("seq = ? AND kind = 'charge'", seq)
        if not kept:
            raise self._damaged(f" at event {seq}")
        answers = self._bodies("kind = 'answer' AND digest = ? AND answers = ?", digest, seq)
        return kept[0], answers[0] if answers else None

    def answers(self, digest: str) -> list[str]:
        """The stored answers of all charges of this name, oldest first."""
        return self._bodies("seq IN (SELECT seq FROM events WHERE kind = 'answer' AND digest = ?) AND digest = ? ORDER BY seq",
                            digest, digest)

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """A context that one process, and one thread, is in at a time: others wait. Raises LedgerError where that cannot be."""
        try:
            lock = self._running.alone(name)
        except OSError:
            raise self._no_file() from None
        try:
            yield
        finally:
            os.close(lock)

    def naming(self, account: Account, name: str) -> contextlib.AbstractContextManager[None]:
        """A context in which nobody else gives something of an account this name; see `alone`."""
        told = f"{account.named.budget}\n{account.named.analyst}\n{name.lower()}"
        return self.alone(f"name-{hashlib.sha256(told.encode()).hexdigest()}")

    def spent(self, budget: str, analyst: str | None = None) -> Charge:
        """What was charged to a budget in total, or by one analyst, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.spent(budget, analyst)

    def prices(self, budget: str) -> tuple[tuple[int | None, int], ...]:
        """How often each price was charged to a budget, up to the newest event this process has verified: a pure epsilon in
        billionths, or None for charges without one; rounded up where there are many (`kernel.reported`)."""
        with self._reading() as chain:
            return chain.prices(budget)

    def last(self, account: Account) -> Charge | None:
        """The last charge of an account that was not of nothing, up to the newest event this process has verified."""
        with self._reading() as chain:
            return chain.last(account)

    def refresh(self) -> None:
        """Read what other processes have written."""
        self._catch_up(self._ready())

    def entries(self, budget: str, analyst: str | None = None) -> list[Entry]:
        """Every charged statement of a budget, or of one analyst, oldest first."""
        account = None if analyst is None else Account(budget=budget, analyst=analyst)
        whose = "" if account is None else f" AND analyst IN ({NAMES})"
        with self._unchanging() as chain:
            found = self._events(f"{LISTS} AND budget = :budget{whose} ORDER BY seq", budget=budget, analyst=analyst)
            if len(found) != chain.listed(budget, account):
                raise self._damaged()
        bodies = {event.answers: event.body for event in found if event.kind == "answer"}
        return [Entry(seq=event.seq, at=event.at, account=event.account.named, sql=event.sql, charge=event.cost,
                      body=bodies.get(event.seq)) for event in found if event.kind == "charge"]

    def texts(self, account: Account, word: str, most: int) -> list[str]:
        """The different statements with a word, in letters of either case, that an account was charged for: the newest ones,
        oldest first."""
        found = self._events(f"seq IN (SELECT MAX(seq) FROM events WHERE {LISTS} AND kind = 'charge' AND budget = :budget AND "
                             f"analyst IN ({NAMES}) AND instr(upper(sql), upper(:word)) > 0 GROUP BY sql ORDER BY 1 DESC "
                             "LIMIT :most) ORDER BY seq", budget=account.budget, analyst=account.analyst, word=word, most=most)
        return [event.sql for event in found]

    # -- the file, its chain and its anchor

    def _connect(self, whole: bool = False) -> sqlite3.Connection:
        if not self.path.exists():
            raise LedgerError(f"there is no ledger at {self.path}", code="ledger-missing",
                              try_="dpsql budget --create, once, to start one")
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0,
                                         check_same_thread=False)
            self._open(connection, whole)
        except (sqlite3.Error, KeyError, ValueError, OSError) as fault:
            self._leave(connection)
            wrong = self._out_of_reach() if _is_refusal(fault) else self._damaged()
            raise wrong from None
        except BaseException:
            self._leave(connection)
            raise
        self._connection, self._pid = connection, os.getpid()
        return connection

    def _open(self, connection: sqlite3.Connection, whole: bool) -> None:
        """Read the chain, and compare it with the anchor."""
        connection.create_function("normal", 1, lambda name: None if name is None else normal(name), deterministic=True)
        self._patiently(lambda: connection.execute("PRAGMA synchronous=FULL"))
        meta = dict(self._patiently(lambda: connection.execute("SELECT key, value FROM meta").fetchall()))
        self._salt, self._file = int(meta["salt"], 16), _identity_of(self.path)
        self._join(connection, genesis(meta), whole)

    def _join(self, connection: sqlite3.Connection, first: str, whole: bool) -> None:
        """Verify the chain, and share it from then on with other open ledgers of this process that agree with it."""
        key, anchor = (os.getpid(), self._file, first, self.anchor.absolute()), Anchor(self.anchor)
        known = _SHARED.get(key)
        recorded = 0 if known is None else known.anchor.newest
        seen = self._anchored(anchor, whole)  # read before the chain: whatever the anchor has seen was committed by then
        chain, past = self._patiently(lambda: self._begun(connection, first, 0 if whole else max(seen)[0]))
        self._shared = OpenTogether(anchor, chain, past)
        self._catch_up(connection)
        self._compare(connection, seen)
        if known is not None and recorded <= max(seen)[0] and known.agrees(chain):
            self._shared = known
        else:
            if known is not None:  # the anchor was put back, or its disk failed
                anchor.doubt()
            _SHARED[key] = self._shared
        self._settle(chain.head[0])

    def _begun(self, connection: sqlite3.Connection, first: str, vouched: int) -> tuple[Chain, Past]:
        """A chain that begins at the newest checkpoint from which one can and that is no later than an event that is known to be
        right, or at the first event; then every page of the file is checked too."""
        chain = Chain(first, Running(self.path).is_running)
        row = connection.execute(f"SELECT {LINKED} FROM events WHERE kind = 'checkpoint' AND seq <= ? AND instr(body, ?) > 0 "
                                 "ORDER BY seq DESC LIMIT 1", (vouched, RESUMABLE)).fetchone() if vouched else None
        if row is None:
            if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                raise self._damaged()
        else:
            *values, link, previous = row
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
        if self._connection is not None and os.getpid() != self._pid:
            self._ready()  # a forked child would wait for a thread of its parent
        with self._shared.lock:
            yield self._chain

    def _leave(self, connection: sqlite3.Connection | None) -> None:
        self._connection = None
        if connection is not None:
            connection.close()

    def _damaged(self, where: str = "") -> LedgerError:
        return LedgerError(f"the ledger {self.path} is damaged{where}", code="ledger-damaged", try_=PUT_BACK)

    def _out_of_reach(self) -> LedgerError:
        return LedgerError(f"the ledger {self.path} cannot be opened for writing", code="ledger-access",
                           try_=f"the right to write it, {self.anchor} and the folder of each")

    def _ready(self) -> sqlite3.Connection:
        """The connection, after checking that it still is the ledger's: same file, same process."""
        if self._connection is None:
            raise LedgerError("the ledger is closed", code="ledger-closed", try_="dpsql.connect(...)")
        if os.getpid() != self._pid:
            self._running.let_go_of_inherited()
            _let_go_of_inherited()
            return self._connect()
        if _identity_of(self.path) != self._file:
            raise LedgerError(f"the ledger {self.path} was removed or replaced while it was open", code="ledger-missing",
                              try_=PUT_BACK)
        return self._connection

    @contextlib.contextmanager
    def _turn(self) -> Iterator[sqlite3.Connection]:
        """An exclusive transaction on the newest state, committed if the body returns."""
        connection = self._ready()
        try:
            self._patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
            with self._shared.lock:
                before = None
                try:
                    self._catch_up(connection)
                    before = self._chain.head
                    yield connection
                    if self._chain.head != before:
                        self._write_checkpoint()
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    if before is not None and self._chain.head != before:
                        self._forget_uncommitted(connection, before)
                    raise
        except sqlite3.Error:
            raise self._unwritable() from None
        finally:  # interrupted between the two
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _patiently(self, attempt: Any) -> Any:
        """Retry until the lock is free, with random pauses so that no process is starved."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as fault:
                busy = "locked" in str(fault) or "busy" in str(fault)
                if not busy or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.0005, 0.004))  # noqa: S311 - a pause, not a secret

    def _in_turn(self, attempt: Callable[[], int]) -> int:
        """Retry until running statements of the account leave room; between attempts, no lock is held."""
        deadline, pause = time.monotonic() + PATIENCE, 0.005
        while True:
            try:
                return attempt()
            except Busy:
                if time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - a pause, not a secret
            pause = min(1.5 * pause, 0.25)

    def _charge(self, allowed: Callable[[Chain], Event]) -> int:
        begun = 0

        def step(leader: Ledger) -> int:
            nonlocal begun
            event = allowed(leader._chain)
            self._begin(event.seq)
            begun = event.seq
            leader._insert(event)
            return event.seq

        try:
            seq = self._take(step)
        except BaseException as fault:
            committed = isinstance(fault, LedgerError) and fault.code == "ledger-anchor"
            (self._running.end if committed else self._running.abandon)(begun)
            raise
        with self._shared.lock:
            head = self._chain.head
        self._shared.anchor.settle_soon(seq, head)
        return seq

    def _take(self, step: Step) -> int:
        """The outcome of a step that writes, in a turn that is shared with other threads."""
        self._ready()
        mine = Waiting(step)
        with self._shared.turns.turn(mine) as waiting:
            if waiting:
                self._lead(waiting)
        return mine.outcome.result()

    def _lead(self, waiting: Sequence[Waiting]) -> None:
        """Run the steps of all threads that wait, in one transaction, and write its head to the anchor."""
        made: list[tuple[Waiting, int]] = []
        fault: BaseException | None = None
        try:
            with self._turn() as connection:
                before = self._chain.head
                for one in waiting:
                    with self._own_faults(one, connection):
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
    def _own_faults(self, one: Waiting, connection: sqlite3.Connection) -> Iterator[None]:
        """A context whose faults concern one step, as long as the transaction goes on. Each writes one event, or none; or a late
        one first, which may stay without the other: then more is counted as late than was."""
        try:
            yield
        except Exception as fault:
            if not connection.in_transaction:
                raise
            one.outcome.set_exception(self._unwritable() if isinstance(fault, sqlite3.Error) else fault)

    def _begin(self, seq: int) -> None:
        try:
            self._running.begin(seq)
        except OSError:
            raise self._no_file() from None

    def _no_file(self) -> LedgerError:
        return LedgerError(f"no file can be made beside the ledger {self.path}, so nothing is charged", code="ledger-access",
                           try_="the right to write its folder, and room on its disk")

    def _make_room(self) -> None:
        """Convert an older ledger so that it accepts the current kinds of events and has all indexes; its rows stay unchanged."""
        connection = self._ready()
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'events'").fetchone()
        if "'late'" not in made:
            connection.execute("SAVEPOINT room")
            try:
                for step in MAKE_ROOM:
                    connection.execute(step)
            except sqlite3.Error:
                connection.execute("ROLLBACK TO room")
                raise
            connection.execute("RELEASE room")
        for name, what in INDEXES.items():
            connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON events {what}")

    def _insert(self, event: Event) -> None:
        event = event._replace(analyst=normal(event.analyst))
        link = event.link(self._chain.head[1])
        self._ready().execute(f"INSERT INTO events ({COLUMNS}, hash) VALUES ({', '.join('?' * 14)})", (*event, link))
        self._chain.accept(event, link)

    def _write_checkpoint(self) -> None:
        event = self._chain.checkpoint_due()
        if event is not None:
            self._make_room()
            self._insert(event)

    def _reopen(self, account: Account) -> int:
        forgiven = self.failed(account)
        if forgiven:
            self._make_room()
            self._insert(self._chain.reopened(account))
        return len(forgiven)

    def _follow_up(self, charged: int, kind: str, body: str | None, late: int) -> None:
        def step(leader: Ledger) -> int:
            charge, = leader._events("seq = ? AND kind = 'charge'", charged)
            if late:
                leader._make_room()
                leader._insert(leader._chain.following(charge, "late", str(late)))
            leader._insert(leader._chain.following(charge, kind, body))
            return charged

        try:
            self._take(step)
        finally:
            self._running.end(charged)
        self._settle(charged)

    def _newest(self, column: str, account: Account, digest: str, data: str) -> Event | None:
        """The event with the largest number in a column of a statement's answers. A row is found by an index, which may be
        damaged, and so is looked at again."""
        found = self._events(f"seq = (SELECT MAX({column}) FROM events WHERE kind = 'answer' AND digest = ? AND budget = ? AND "
                             "normal(analyst) = ? AND data = ?)", digest, account.budget, account.named.analyst, data)
        if found and (found[0].account.named, found[0].digest, found[0].data) != (account.named, digest, data):
            raise self._damaged(f" at event {found[0].seq}")
        return found[0] if found else None

    def _bodies(self, where: str, *values: str | int, **named: str) -> list[str]:
        return [event.body or "" for event in self._events(where, *values, **named)]

    @contextlib.contextmanager
    def _unchanging(self) -> Iterator[Chain]:
        """A context in which the file has the events of the chain, and no others."""
        connection = self._ready()
        with self._shared.lock:
            connection.execute("BEGIN")
            try:
                self._catch_up(connection)
                yield self._chain
            finally:
                connection.execute("ROLLBACK")

    def _events(self, where: str, *values: str | int, **named: str | int | None) -> list[Event]:
        """The events for which a condition holds, in a verified state of the ledger. Before answers are given away, the anchor
        has their charges on disk."""
        connection = self._ready()
        self._catch_up(connection)
        try:
            rows = [(Event(*row), link, previous) for *row, link, previous in self._patiently(
                lambda: connection.execute(f"SELECT {LINKED} FROM events WHERE {where}", named or values).fetchall())]
            found = [event for event, _, _ in rows]
            with self._shared.lock:
                if found and max(event.seq for event in found) > self._chain.head[0]:  # written since, by another process
                    self._catch_up(connection)
                self._shared.past.verify(connection, rows)
        except (sqlite3.Error, Broken):
            raise self._damaged() from None
        answered = [event.answers or 0 for event in found if event.kind == "answer"]
        if answered:
            self._settle(max(answered))
        return found

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Verify the new part of the chain, and add it to the sums. Raises LedgerError if the chain is broken."""
        try:
            with self._shared.lock:
                self._patiently(lambda: self._read_on(connection))
        except sqlite3.Error:
            raise self._damaged() from None

    def _read_on(self, connection: sqlite3.Connection) -> None:
        seq, _ = self._chain.head
        read = connection.execute(f"SELECT {COLUMNS}, hash FROM events WHERE seq >= ? ORDER BY seq", (seq or 1,))
        with contextlib.closing(read) as rows:  # or a fault would keep the file open
            self._accept(connection, rows)

    def _accept(self, connection: sqlite3.Connection, rows: sqlite3.Cursor) -> None:
        seq, link = self._chain.head
        newest = rows.fetchone() if seq else None
        if seq and (newest is None or (newest[0], newest[-1]) != (seq, link)):
            if connection.execute("SELECT COALESCE(MAX(seq), 0) FROM events").fetchone()[0] < seq:
                raise LedgerError(f"the ledger {self.path} was rolled back", code="ledger-rolled-back", try_=PUT_BACK)
            raise LedgerError(f"the ledger {self.path} was changed", code="ledger-damaged", try_=PUT_BACK)
        for *row, link in rows:
            try:
                self._chain.accept(Event(*row), link)
            except Broken:
                raise self._damaged(f" at event {row[0]}") from None

    def _forget_uncommitted(self, connection: sqlite3.Connection, before: Head) -> None:
        """After a rollback, compute the sums again from the file: up to a head that was verified."""
        self._shared.chain, self._shared.past = self._begun(connection, self._chain.genesis, before[0])
        self._catch_up(connection)
        self._compare(connection, [before])

    def _publish(self) -> None:
        """Write the newest event to the anchor, before anyone hears of it."""
        try:
            self._shared.anchor.record(self._chain.head)
        except OSError:
            raise self._not_anchored() from None

    def _settle(self, seq: int) -> None:
        """Wait until the anchor has an event on disk, before anything is shown that was paid for with it."""
        if self._shared.anchor.has_settled(seq):
            return
        with self._shared.lock:
            head = self._chain.head
        try:
            self._shared.anchor.settle(seq, head)
        except OSError:
            raise self._not_anchored() from None

    def _not_anchored(self) -> LedgerError:
        return LedgerError(f"the anchor {self.anchor} cannot be written; what was charged stays charged", code="ledger-anchor",
                           try_="the right to write it, and room on its disk")

    def _unwritable(self) -> LedgerError:
        return LedgerError(f"the ledger {self.path} cannot be written", code="ledger-damaged", try_=UNWRITABLE)

    def _check_anchor(self) -> None:
        """Refuse before the charge if the anchor could not record it."""
        try:
            self._shared.anchor.check()
        except OSError:
            raise LedgerError(f"the anchor {self.anchor} cannot be written, so nothing is charged", code="ledger-anchor",
                              try_="the right to write it") from None

    def _anchored(self, anchor: Anchor, whole: bool) -> list[Head]:
        """The newest heads of the chain that the anchor has seen, or all of them."""
        try:
            return anchor.heads(whole)
        except Unreadable as fault:
            state = str(fault)
        except OSError as fault:
            state = "cannot be read" if isinstance(fault, PermissionError) else "is missing"
        raise LedgerError(f"the anchor {self.anchor} of the ledger {state}", code="ledger-anchor", try_=PUT_BACK)

    def _compare(self, connection: sqlite3.Connection, seen: Sequence[Head]) -> None:
        for seq, link in seen:
            if seq > self._chain.head[0]:
                raise LedgerError(f"the ledger {self.path} was rolled back: its anchor has seen event {seq}",
                                  code="ledger-rolled-back", try_=PUT_BACK)
            known = self._chain.hashes.get(seq)
            if known is None:  # of the past, for which the newest of these heads vouches
                row = connection.execute("SELECT hash FROM events WHERE seq = ?", (seq,)).fetchone()
                known = self._chain.genesis if seq == 0 else row and row[0]
            if known != link:
                raise LedgerError(f"the ledger {self.path} is not the one its anchor has seen", code="ledger-rolled-back",
                                  try_=PUT_BACK)


class OpenTogether:
    """What all open ledgers of one file and anchor share in a process, each with a connection of its own.

    The lock is held by whoever reads or extends the chain, and throughout a turn; so nobody sees an event that is not on disk.
    """

    def __init__(self, anchor: Anchor, chain: Chain, past: Past) -> None:
        self.turns, self.lock = Turns(), threading.RLock()
        self.anchor, self.chain, self.past = anchor, chain, past

    def agrees(self, chain: Chain) -> bool:
        """Whether a chain that was just verified is the same up to where one of them ends."""
        with self.lock:
            (ours, link), (seq, other) = self.chain.head, chain.head
            same = self.chain.hashes.get(seq) == other or chain.hashes.get(ours) == link
            return same and not self.anchor.failed


_SHARED: weakref.WeakValueDictionary[tuple[object, ...], OpenTogether] = weakref.WeakValueDictionary()
"""By process, as a forked one has no part in the locks of its parent's threads; by the file and the first hash of its chain, as
the number of a file may be given to another one later; and by the anchor."""


def _is_refusal(fault: Exception) -> bool:
    """Whether the fault is that this user may not open or write a file, which says nothing about its contents."""
    name = str(getattr(fault, "sqlite_errorname", ""))
    return isinstance(fault, PermissionError) or name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"))


def anchor_beside(path: Path) -> Path:
    return path.with_name(path.name + ".anchor")


_OPENED: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _let_go_of_inherited() -> None:
    """After a fork, close every connection that the parent opened.

    SQLite tracks file locks per process. A child that kept the parent's connections would assume locks that only the parent
    holds, and the parent, on closing, would remove the log that the child writes to.
    """
    for ledger in list(_OPENED):
        if ledger._connection is not None and ledger._pid != os.getpid():
            ledger._connection.close()


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
