"""The events of a ledger in one SQLite file, with `synchronous=FULL` in WAL mode.

Writers take turns by `BEGIN IMMEDIATE` with a jittered retry: SQLite's own busy handler starves writers under load.

*Versions.* A file of an earlier version may not allow newer kinds of events, or may lack an index. It is converted when such an
event is written, in the same transaction: rows, hashes and the head of the chain stay unchanged, so the file and its anchor are
valid before and after.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

from dpsql.errors import LedgerError
from dpsql.trusted.declarations.names import normal
from dpsql.trusted.kernel.chain import KINDS, Event
from dpsql.trusted.kernel.event_store import COLUMNS, LISTS, PATIENCE, Row, StoreFault
from dpsql.trusted.kernel.marks import MARKS
from dpsql.trusted.kernel.running_statements import Running

EVENTS = f"""
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN {KINDS}),
    at TEXT NOT NULL, budget TEXT NOT NULL, analyst TEXT NOT NULL, digest TEXT NOT NULL, data TEXT NOT NULL, sql TEXT NOT NULL,
    epsilon INTEGER CHECK (epsilon >= 0), rho INTEGER NOT NULL CHECK (rho >= 0), delta INTEGER NOT NULL CHECK (delta >= 0),
    answers INTEGER, body TEXT, hash TEXT NOT NULL) STRICT;
CREATE INDEX asked ON events (digest, budget, analyst, data) WHERE kind = 'answer';
"""
INDEXES = {"listed": f"(budget, analyst) WHERE {LISTS}", **{
    f"marked_{name}": f"(budget, analyst, data) WHERE kind = 'answer' AND instr(body, '{mark}') > 0"
    for name, mark in MARKS.items()}, "told": "(budget, analyst, data) WHERE kind = 'answer' AND body IS NULL",
    "parts": "(digest) WHERE kind = 'part'",
    "stopped": "(budget, analyst) WHERE kind = 'stopped'"}
"""Those that a ledger of an earlier version does not have. Without them the same is found, by reading all events."""
SCHEMA = f"CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT; {EVENTS}"
NAMES = """WITH RECURSIVE names (name) AS (
    SELECT (SELECT MIN(analyst) FROM events WHERE {lists} AND budget = {budget}) UNION ALL
    SELECT (SELECT MIN(analyst) FROM events WHERE {lists} AND budget = {budget} AND analyst > name) FROM names
    WHERE name IS NOT NULL) SELECT name FROM names WHERE normal(name) = {analyst}"""
"""The forms of an analyst's name that events of a budget have, one look in an index for each name there is."""
MAKE_ROOM = (*(f"DROP INDEX IF EXISTS {name}" for name in ("asked", *INDEXES)), "ALTER TABLE events RENAME TO older",
             *EVENTS.strip().rstrip(";").split(";"), "INSERT INTO events SELECT * FROM older", "DROP TABLE older")
CACHE = 512  # KiB of pages that a connection holds; a server has hundreds, and the system holds the file as well
REFUSALS = "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM"
HINDRANCES = "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_NOMEM", "SQLITE_INTERRUPT"


class SqliteStore:
    """See `event_store.EventStore`. Names may be in any form, as earlier versions wrote them."""

    is_lost = False

    def __init__(self, path: Path) -> None:
        self.path, self.place, self.running = path, str(path), Running(path)
        self.connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        return self.connection is not None

    @property
    def mark(self) -> object:
        return self._file

    @property
    def in_transaction(self) -> bool:
        return self.connection is not None and self.connection.in_transaction

    def open(self) -> None:
        """Open the file. Raises LedgerError if there is none."""
        if not self.path.exists():
            raise LedgerError(f"there is no ledger at {self.path}", code="ledger-missing",
                              try_="dpsql budget --create, once, to start one")
        with _faults():
            self.connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None,
                                              timeout=0, check_same_thread=False)
            self.connection.create_function("normal", 1, lambda name: None if name is None else normal(name), deterministic=True)
            self._patiently("PRAGMA synchronous=FULL")
            self._patiently(f"PRAGMA cache_size=-{CACHE}")
        self._file = _identity_of(self.path)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def hang_up(self) -> None:
        pass

    def exists(self) -> bool:
        return self.path.exists()

    def let_go_of_inherited(self) -> None:
        """SQLite tracks file locks per process. A child that kept the parent's connections would assume locks that only the
        parent holds, and the parent, on closing, would remove the log that the child writes to."""
        if self.connection is not None:
            self.connection.close()

    def is_in_place(self) -> bool:
        return _identity_of(self.path) == self._file

    @contextlib.contextmanager
    def creating(self, meta: Mapping[str, str]) -> Iterator[None]:
        made = False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # it holds a secret and every answer
            made = True
            with _faults(), contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.executescript(SCHEMA)
                connection.executescript("".join(f"CREATE INDEX {name} ON events {what};" for name, what in INDEXES.items()))
                connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            yield
        except (OSError, StoreFault):
            if made:  # an incomplete file, which cannot be opened, would block another attempt
                for name in ("", "-wal", "-shm"):
                    self.path.with_name(self.path.name + name).unlink(missing_ok=True)
            raise

    def meta(self) -> dict[str, str]:
        return dict(self.rows("SELECT key, value FROM meta"))

    def is_sound(self) -> bool:
        return self.rows("PRAGMA integrity_check") == [("ok",)]

    def rows(self, sql: str, *values: str | int) -> list[Row]:
        with _faults():
            return self._patiently(sql, *values).fetchall()

    def events_from(self, seq: int) -> Generator[Row]:
        with _faults(), contextlib.closing(self._patiently(
                f"SELECT {COLUMNS}, hash FROM events WHERE seq >= $1 ORDER BY seq", seq)) as found:
            yield from found

    def begin(self) -> None:
        with _faults():
            self._patiently("BEGIN IMMEDIATE")

    def begin_reading(self) -> None:
        with _faults():
            self._opened.execute("BEGIN")

    def commit(self) -> None:
        with _faults():
            self._opened.execute("COMMIT")

    def rollback(self) -> None:
        if self.in_transaction:
            self._opened.execute("ROLLBACK")

    def insert(self, event: Event, link: str) -> None:
        with _faults():
            self._opened.execute(f"INSERT INTO events ({COLUMNS}, hash) VALUES ({', '.join('?' * 14)})", (*event, link))

    def make_room(self) -> None:
        with _faults():
            (made,) = self._opened.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'events'").fetchone()
            if any(f"'{kind}'" not in made for kind in KINDS):
                self._convert()
            for name, what in INDEXES.items():
                self._opened.execute(f"CREATE INDEX IF NOT EXISTS {name} ON events {what}")

    def _convert(self) -> None:
        self._opened.execute("SAVEPOINT room")
        try:
            for step in MAKE_ROOM:
                self._opened.execute(step)
        except sqlite3.Error:
            self._opened.execute("ROLLBACK TO room")
            raise
        self._opened.execute("RELEASE room")

    def contains(self, text: str, part: str) -> str:
        return f"instr({text}, {part}) > 0"

    def whose(self, budget: str, analyst: str, *, found: bool = False) -> str:
        names = f"IN ({NAMES.format(lists=LISTS, budget=budget, analyst=analyst)})"
        return f"budget = {budget} AND {f'normal(analyst) = {analyst}' if found else f'analyst {names}'}"

    @property
    def _opened(self) -> sqlite3.Connection:
        if self.connection is None:
            raise StoreFault
        return self.connection

    def _patiently(self, sql: str, *values: str | int) -> sqlite3.Cursor:
        """Execute a statement as soon as the lock is free, with random pauses so that no process starves."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._opened.execute(sql, {str(number): value for number, value in enumerate(values, 1)})
            except sqlite3.OperationalError as fault:
                busy = "locked" in str(fault) or "busy" in str(fault)
                if not busy or time.monotonic() > deadline:
                    raise
            time.sleep(random.uniform(0.0005, 0.004))  # noqa: S311 - a pause, not a secret


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    name = None
    try:
        yield
    except sqlite3.Error as fault:
        name = str(getattr(fault, "sqlite_errorname", ""))
    if name is not None:
        raise StoreFault(refused=name.startswith(REFUSALS), hindered=name.startswith(HINDRANCES))


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
