"""The events of a ledger in a PostgreSQL database that several servers share: tables `meta` and `events` in one schema.

*Turns.* A transaction takes an advisory lock first, which ends with it, and reads after that (READ COMMITTED: each statement sees
what was committed before it began). Commits wait for the disk (`synchronous_commit`), whatever the default of a role is, and what
others see is on disk already. At the begin of each turn the server says that it is a primary with `fsync` and `full_page_writes`,
that this is still the same ledger, and that it is talked to directly.

*Locks* of statements are advisory locks of the session: they end when it does, so when this process dies, or is cut off and the
server notices (by TCP keepalives, within half a minute; until then the statement counts as running). A connection that broke is
replaced by another session, which has none of them. So `check` is asked, in the turn that would write an answer, whether the
lock is still held; `chain` says why that is enough. A pooler may give the session to others, and keep locks of the dead: the
process that serves us is not the one that answered our login then, and nothing is written.

*A commit whose outcome is unknown*, as the connection broke, may have been made: it is a fault, and nothing that follows from
the events is believed before they were read again (`ledger`). So is one that a standby did not confirm in a minute.

The turn's lock and those of `alone` are of numbers of 64 bits, those of statements of two of 32; the former and the first are
derived from the ledger's identity. Numbers that happen to be the same make somebody wait or be refused, and grant nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from dpsql.errors import LedgerError
from dpsql.trusted.kernel import chain
from dpsql.trusted.kernel.chain import Event, genesis
from dpsql.trusted.kernel.event_store import COLUMNS, LISTS, PATIENCE, Row, StoreFault
from dpsql.trusted.kernel.marks import MARKS

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import TransactionStatus
except ImportError:
    raise LedgerError("a ledger in PostgreSQL needs the package psycopg, which is not installed", code="extra", subject="psycopg",
                      try_="pip install 'dpsql[ledger]'") from None

USUAL_SCHEMA = "dpsql_ledger"
KINDS_CHECK = "events_kind_check"  # as PostgreSQL calls the constraint by itself
KNOWN_KINDS = f"CHECK (kind IN {chain.KINDS})"
UNKNOWN_KIND = "23514"  # the SQLSTATE of a constraint that is violated: of those here, only by events of a kind that is new
PARTS = "CREATE INDEX {}parts ON events (digest) WHERE kind = 'part'"
TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"""CREATE TABLE events (
    seq BIGINT PRIMARY KEY,
    kind TEXT NOT NULL {KNOWN_KINDS},
    at TEXT NOT NULL, budget TEXT COLLATE "C" NOT NULL, analyst TEXT COLLATE "C" NOT NULL, digest TEXT COLLATE "C" NOT NULL,
    data TEXT COLLATE "C" NOT NULL, sql TEXT NOT NULL, epsilon BIGINT CHECK (epsilon >= 0),
    rho BIGINT NOT NULL CHECK (rho >= 0), delta BIGINT NOT NULL CHECK (delta >= 0), answers BIGINT, body TEXT,
    hash TEXT NOT NULL)""",
    "CREATE INDEX asked ON events (digest, budget, analyst, data) WHERE kind = 'answer'",
    f"CREATE INDEX listed ON events (budget, analyst) WHERE {LISTS}",
    "CREATE INDEX checkpoints ON events (seq) WHERE kind = 'checkpoint'",
    "CREATE INDEX told ON events (budget, analyst, data) WHERE kind = 'answer' AND body IS NULL",
    PARTS.format(""),
    "CREATE INDEX stopped ON events (budget, analyst) WHERE kind = 'stopped'",
    *(f"CREATE INDEX marked_{name} ON events (budget, analyst, data) WHERE kind = 'answer' AND strpos(body, '{mark}') > 0"
      for name, mark in MARKS.items()))
REACHED = {  # how soon a connection that was cut off is noticed here, unless the URI says otherwise
    "connect_timeout": "10", "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3",
    "tcp_user_timeout": "30000", "application_name": "dpsql ledger", "client_encoding": "utf8"}
SESSION = {"lock_timeout": f"{PATIENCE:.0f}s", "statement_timeout": "0", "idle_session_timeout": "0",
           "idle_in_transaction_session_timeout": "0", "transaction_timeout": "0",
           "standard_conforming_strings": "on", "tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5",
           "tcp_keepalives_count": "3", "tcp_user_timeout": "30000"}  # and there
DURABLE = "current_setting('fsync')::bool AND current_setting('full_page_writes')::bool AND NOT pg_is_in_recovery()"
HINDRANCES = "40", "53", "55", "57"  # classes of SQLSTATE: a deadlock, no room, a lock that others have, an end on request
BATCH = 2000  # events that are read at once
COMMITTED = PATIENCE  # seconds a commit waits for a standby, which no timeout of the server ends
LEFT = 5.0  # seconds until a lock is free that was left by a charge which was not committed


class PostgresStore:
    """See `event_store.EventStore`. Names of analysts are in their normal form, as all are that `Ledger` writes."""

    def __init__(self, uri: str) -> None:
        """`uri` holds no password. Raises LedgerError if it is none of libpq."""
        self._uri, self.running = uri, SessionLocks(self)
        self._connection: psycopg.Connection[Row] | None = None
        self._is_open = self._warned = False
        try:
            told = conninfo_to_dict(uri)
        except psycopg.Error:
            raise LedgerError("this is not the URI of a PostgreSQL database", code="ledger-access",
                              try_="postgresql://host/database") from None
        self._told = {name: str(value) for name, value in told.items()}
        named = re.search(r"search_path(?:=|%3D)(\w+)", self._told.get("options", ""))
        self.schema = named[1] if named else USUAL_SCHEMA
        self.identity = self._named = ""
        where = f"service {self._told['service']}" if "service" in told else self._told.get("host", "localhost")
        self.place = f"in schema {self.schema} of {self._told.get('dbname', 'the database')} at {where}"

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def mark(self) -> object:
        return self._uri

    @property
    def in_transaction(self) -> bool:
        return self._connection is not None and self._connection.info.transaction_status == TransactionStatus.INTRANS

    @property
    def is_lost(self) -> bool:
        """Whether the connection is known to be broken. Only what has already arrived is checked, without waiting."""
        if self._connection is None:
            return self._is_open
        with contextlib.suppress(psycopg.Error):
            for _ in range(2 if self._connection.info.transaction_status == TransactionStatus.IDLE else 0):
                self._connection.pgconn.consume_input()  # a last message, and the end
        return bool(self._connection.closed)

    def open(self) -> None:
        """Open the ledger. Raises LedgerError if there is none, or if its database is not reliable."""
        self._is_open = True
        self._connect()
        there, whole, public, served = self.rows(
            f"SELECT to_regclass('meta') IS NOT NULL AND to_regclass('events') IS NOT NULL, {DURABLE} AND "
            "current_setting('server_encoding') = 'UTF8', to_regclass('meta') IS NOT NULL AND "
            "(has_table_privilege('public', to_regclass('meta'), 'SELECT') OR "
            "has_table_privilege('public', to_regclass('events'), 'SELECT')), pg_backend_pid()")[0]
        self._require_direct(served)
        if not there:
            raise LedgerError(f"there is no ledger {self.place}", code="ledger-missing",
                              try_="dpsql budget --create, once, to start one")
        if not whole:
            raise self._unfit()
        if public:
            raise LedgerError(f"everyone who may connect can read the ledger {self.place}, which contains a secret",
                              code="ledger-access", try_="REVOKE ALL ON meta, events FROM PUBLIC")
        meta = self.meta()
        self.identity, self._named = genesis(meta), meta["identity"]
        with contextlib.suppress(StoreFault):  # once the owner has opened it, other users can write events of all kinds
            self.make_room()

    def close(self) -> None:
        self._is_open = False
        self.hang_up()

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def let_go_of_inherited(self) -> None:
        """Drop the parent's session in a forked child. The parent still uses it, so nothing is sent, and its number must not be
        used here."""
        if self._connection is not None:
            with contextlib.suppress(OSError, psycopg.Error):
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, self._connection.fileno())
                os.close(nothing)
            self._connection = None

    def is_in_place(self) -> bool:
        return True  # each turn looks

    def exists(self) -> bool:
        """Whether there is a ledger. Raises LedgerError if the database is unreachable."""
        self._connect()
        found = self.rows("SELECT to_regclass('meta') IS NOT NULL OR to_regclass('events') IS NOT NULL")[0][0]
        self.close()
        return bool(found)

    @contextlib.contextmanager
    def creating(self, meta: Mapping[str, str]) -> Iterator[None]:
        self._connect()
        try:
            whole, served = self.rows(f"SELECT {DURABLE} AND current_setting('server_encoding') = 'UTF8', pg_backend_pid()")[0]
            self._require_direct(served)
            if not whole:
                raise self._unfit()
            with self._faults():
                self._opened.execute("BEGIN")
                self._opened.execute("SET LOCAL synchronous_commit = on")
            if not self.rows("SELECT to_regnamespace($1) IS NOT NULL", self.schema)[0][0]:
                self.rows_of(f'CREATE SCHEMA "{self.schema}"')
            for step in TABLES:
                self.rows_of(step)
            for key, value in meta.items():
                self.rows_of("INSERT INTO meta VALUES ($1, $2)", key, value)
            yield
            self.commit()
        finally:
            self.close()

    def meta(self) -> dict[str, str]:
        return dict(self.rows("SELECT key, value FROM meta"))

    def is_sound(self) -> bool:
        return True

    def rows(self, sql: str, *values: str | int) -> list[Row]:
        with self._faults():
            return self._execute(sql, *values).fetchall()

    def rows_of(self, sql: str, *values: str | int) -> None:
        """Execute a statement that returns no rows."""
        with self._faults():
            self._execute(sql, *values)

    def events_from(self, seq: int) -> Generator[Row]:
        while True:
            found = self.rows(f"SELECT {COLUMNS}, hash FROM events WHERE seq >= $1 ORDER BY seq LIMIT {BATCH}", seq)
            yield from found
            if len(found) < BATCH:
                return
            seq = found[-1][0] + 1

    def begin(self) -> None:
        with self._faults(), self._opened.pipeline():
            self._execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            self._execute("SET LOCAL synchronous_commit = on")
            self._execute("SELECT pg_advisory_xact_lock($1)", self.number("turn"))
            found = self._execute(f"SELECT {DURABLE}, (SELECT value FROM meta WHERE key = 'identity'), pg_backend_pid()")
        with self._faults():
            (durable, named, served), = found.fetchall()
        self._require_direct(served)
        if not durable:
            raise self._unfit()
        if named != self._named:
            raise LedgerError(f"the ledger {self.place} was replaced while it was open", code="ledger-missing",
                              try_="the newest copy of the ledger and of its anchor")

    def begin_reading(self) -> None:
        self.rows_of("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def commit(self) -> None:
        """Commit the transaction. If the server had to roll back, it reports that instead of failing. If it no longer waits for a
        standby, it warns: the data stay written, but are lost if that standby takes over."""
        self._warned, enough = False, threading.Timer(COMMITTED, self._opened.cancel)
        enough.daemon = True
        enough.start()
        with self._faults(), _ended(enough):
            if self._execute("COMMIT").statusmessage != "COMMIT":
                raise StoreFault
        if self._warned:
            raise StoreFault(hindered=True)

    def rollback(self) -> None:
        if self._connection is not None and self._connection.info.transaction_status != TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                self._execute("ROLLBACK")

    def insert(self, event: Event, link: str) -> None:
        if not self.in_transaction:
            raise StoreFault(lost=self.is_lost)
        marks = ", ".join(f"${number}" for number in range(1, 15))
        try:
            with self._faults(), self._opened.pipeline():
                self._execute("SAVEPOINT event")
                made = self._execute(f"INSERT INTO events ({COLUMNS}, hash) VALUES ({marks})", *event, link)
                self._execute("RELEASE event")
            if made.rowcount != 1:  # as a trigger can have it
                raise StoreFault
        except (StoreFault, LedgerError):
            if self._opened.info.transaction_status == TransactionStatus.INERROR:
                self.rows_of("ROLLBACK TO event")
            raise

    def make_room(self) -> None:
        """Allow new kinds of events in the table, if this user may: a server need not be the owner of the tables."""
        missing = " OR ".join(f"strpos(pg_get_constraintdef(pg_constraint.oid), '''{kind}''') = 0" for kind in chain.KINDS)
        if self.rows("SELECT EXISTS (SELECT FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid WHERE conname = $1 AND "
                     f"conrelid = to_regclass('events') AND ({missing}) AND pg_has_role(relowner, 'USAGE'))", KINDS_CHECK)[0][0]:
            self.rows_of(f"ALTER TABLE events DROP CONSTRAINT {KINDS_CHECK}, ADD CONSTRAINT {KINDS_CHECK} {KNOWN_KINDS}")
            self.rows_of(PARTS.format("IF NOT EXISTS "))

    def contains(self, text: str, part: str) -> str:
        return f"strpos({text}, {part}) > 0"

    def whose(self, budget: str, analyst: str, *, found: bool = False) -> str:
        return f"budget = {budget} AND analyst = {analyst}"

    @property
    def backend(self) -> int:
        """The number of the server process that answered our login."""
        return self._opened.info.backend_pid

    def number(self, name: str) -> int:
        """The number of a lock."""
        return int.from_bytes(hashlib.sha256(f"{name} of {self.identity}".encode()).digest()[:8], "big", signed=True)

    # -- the connection

    def _connect(self) -> None:
        self.hang_up()
        self.running.forget()
        try:  # none is prepared: psycopg takes those of a pipeline that failed for prepared
            self._connection = psycopg.connect(make_conninfo(**(REACHED | self._told)), autocommit=True, prepare_threshold=None,
                                               cursor_factory=psycopg.RawCursor)
            self._connection.add_notice_handler(self._heard)
            with self._opened.pipeline():
                for name, value in (SESSION | {"search_path": f'"{self.schema}", pg_temp'}).items():
                    self._execute("SELECT set_config(name, $2, false) FROM pg_settings WHERE name = $1", name, value)
        except psycopg.Error:
            self.hang_up()
            raise LedgerError(f"the database of the ledger {self.place} cannot be reached", code="ledger-access",
                              try_="psql with the same URI; the password in ~/.pgpass or PGPASSWORD") from None

    def _heard(self, notice: psycopg.errors.Diagnostic) -> None:
        self._warned |= notice.severity_nonlocalized == "WARNING"

    @property
    def _opened(self) -> psycopg.Connection[Row]:
        if self._connection is None:
            raise StoreFault(lost=True)
        return self._connection

    def _execute(self, sql: str, *values: Any) -> psycopg.Cursor[Row]:
        return self._opened.execute(sql, values)

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        state = None
        try:
            yield
        except psycopg.Error as fault:
            state = fault.sqlstate or ""
        if state == UNKNOWN_KIND:
            raise LedgerError(f"the ledger {self.place} was made by an earlier version, and has no room for this event",
                              code="ledger-version", try_="dpsql budget, once, by the owner of its tables")
        if state is not None:
            raise StoreFault(refused=state == "42501", hindered=state.startswith(HINDRANCES), lost=self.is_lost)

    def _require_direct(self, served: int) -> None:
        """Raises LedgerError if another process serves us than the one that answered our login."""
        if served != self._opened.info.backend_pid:
            raise LedgerError(f"the ledger {self.place} is reached through a connection pooler, which loses locks",
                              code="ledger-access", try_="host and port of the database itself")

    def _unfit(self) -> LedgerError:
        return LedgerError(f"the database of the ledger {self.place} does not store data durably, or is a standby",
                           code="ledger-access", try_="a primary in UTF8, with fsync and full_page_writes on")


@contextlib.contextmanager
def _ended(timer: threading.Timer) -> Iterator[None]:
    """A context after which a timer does nothing."""
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


class SessionLocks:
    """See `running_statements`: the same by advisory locks of the store's session."""

    def __init__(self, store: PostgresStore) -> None:
        self._store, self._mine = store, set[int]()

    def begin(self, seq: int) -> None:
        """Lock a statement's number. Only the process whose turn it is calls this, so a lock of another session is left over from
        a charge that was not committed, and will soon be released."""
        deadline = time.monotonic() + LEFT
        while not self._of_statement("pg_try_advisory_lock", seq):
            if time.monotonic() > deadline:
                raise StoreFault
            time.sleep(0.005)
        self._mine.add(seq)

    def end(self, seq: int) -> None:
        if seq in self._mine:
            self._mine.discard(seq)
            with contextlib.suppress(StoreFault):  # the session is over, and so is the lock
                self._of_statement("pg_advisory_unlock", seq)

    abandon = end

    def check(self, seq: int) -> None:
        """Raises StoreFault if the lock of a statement was not held without interruption since the statement began."""
        if seq not in self._mine or not self._found(seq, f"AND pid = pg_backend_pid() AND pid = {self._store.backend}"):
            raise StoreFault(lost=True)

    def is_running(self, seq: int) -> bool:
        return self._found(seq)

    def end_all(self) -> None:
        for seq in list(self._mine):
            self.end(seq)

    @contextlib.contextmanager
    def alone(self, name: str, seconds: float) -> Iterator[None]:
        number, end = self._store.number(f"alone {name}"), time.monotonic() + seconds
        while not self._store.rows("SELECT pg_try_advisory_lock($1)", number)[0][0]:
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.05)
        try:
            yield
        finally:
            with contextlib.suppress(StoreFault):
                self._store.rows("SELECT pg_advisory_unlock($1)", number)

    def let_go_of_inherited(self) -> None:
        self._mine = set()

    forget = let_go_of_inherited

    @property
    def _group(self) -> int:
        return self._store.number("statements") >> 32

    def _of_statement(self, function: str, seq: int) -> bool:
        return bool(self._store.rows(f"SELECT {function}($1::int, $2::int)", self._group, seq)[0][0])

    def _found(self, seq: int, whose: str = "") -> bool:
        return bool(self._store.rows(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database()) AND classid::bigint = $1 AND objid::bigint = $2 "
            f"{whose})", self._group % 2**32, seq)[0][0])
