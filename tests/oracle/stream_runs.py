"""A stream in the whole engine: files, connections, statements, kernel and ledger, with the noise replaced, and everything written
down that analysts see, what was charged, and what was asked of the rows.

A second run over other rows is given the releases of the first one. So its analysts see the same answers and ask the same, as long
as each request is the same; where one differs, the run says so in place of the answer.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from oracle.replay import Loud
from oracle.stream_events import Ask, Changed, Day, Prepare, Revise, RightClock, Stream
from oracle.stream_statements import ANSWER
from oracle.stream_worlds import State, StreamWorld

import dpsql
from dpsql.catalog import growing
from dpsql.dbapi import Connection
from dpsql.engine.preparing import prepare
from dpsql.engine.revising import correct_clock, revise
from dpsql.errors import Error, OptionError
from dpsql.frozen import Frozen, replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.trusted.accounting.cost import NOTHING, Charge
from dpsql.trusted.kernel import chain
from dpsql.trusted.kernel.period_reads import PeriodReads
from dpsql.trusted.kernel.revisions import Revision
from dpsql.trusted.plan.certificate import Certificate

BUDGET = "study"
PLACE = Path("/dev/shm")


class Looked(Frozen, kw_only=False):
    """A request as the kernel served it, and what it released with the noise of a number."""

    request: Any
    certificates: tuple[Certificate, ...]
    release: Any
    noise: int


class Paid:
    """A charge: what the ledger's accounts grew by, in all, in each period and in each window, which is named by its first period;
    which rows there were; and the requests that were served for it."""

    def __init__(self, ask: int, state: int, stated: str, in_all: Charge, in_periods: Mapping[int, Charge],
                 in_windows: Mapping[int, Charge]) -> None:
        self.ask, self.state, self.stated, self.in_all = ask, state, stated, in_all
        self.in_periods, self.in_windows = in_periods, in_windows
        self.looked: list[Looked] = []

    @property
    def reads(self) -> PeriodReads | None:
        """The periods that the statement states."""
        return PeriodReads.from_text(self.stated)

    def told(self, among: Sequence[str]) -> str:
        """The charge in words; the version of the data is told by its place among all versions."""
        stated = self.stated
        for at, version in enumerate(among):
            stated = stated.replace(version, f"version {at}")
        return f"{stated}: {self.in_all}, {dict(self.in_periods)}, {dict(self.in_windows)}"


class Seen(Frozen, kw_only=False):
    """What an analyst saw of a statement: an answer or an error, in words; and whether the answer was stored before. `day` is the one
    by which periods are closed: a clock that is set back closes none again after something was recorded on a later day, and none
    is read that has closed since the connection was opened."""

    ask: Ask
    day: dt.date
    state: int
    text: str
    told: str
    is_answered: bool
    is_stored: bool
    code: str


class Run:
    """What happened in a stream, over the rows of `only` states, and with the releases of an `earlier` run if that is given."""

    def __init__(self, stream: Stream, states: Sequence[State], salted: Path, earlier: Run | None = None) -> None:
        self.stream, self.states, self.earlier = stream, states, earlier
        self.seen: list[Seen] = []
        self.paid: list[Paid] = []
        self.planned: dict[tuple[int, str, str], None] = {}  # what was read of which rows where no statement was served
        self.released: list[Looked] = []
        self.versions: list[str] = []
        self.faults: list[BaseException] = []
        self.revised: list[tuple[int, Revision]] = []  # with the number of statements before
        self.spent, self.spent_in_periods, self.spent_in_windows = NOTHING, dict[int, Charge](), dict[int, Charge]()
        self.prepared = 0
        self._asks, self._state, self._serving, self._last = 0, -1, False, 3
        self._open: dict[str, Connection] = {}
        self._read_on: dict[str, dt.date] = {}  # the day on which each connection was opened
        self._day = self._newest = dt.date(2021, 1, 1)
        self._events = 0
        self._folder = Path(tempfile.mkdtemp(dir=PLACE if PLACE.is_dir() else None))
        self._patch = pytest.MonkeyPatch()
        try:
            shutil.copytree(salted, self._folder, dirs_exist_ok=True)
            (self._folder / "dpsql.toml").write_text(stream.world.policy)
            self._patch.setattr(growing, "today", lambda: self._day)
            self._patch.setattr(chain, "dt", _days_by(lambda: self._day))
            with warnings.catch_warnings(), contextlib.closing(ReportingLedger(self._folder / "dpsql.ledger")) as self._book:
                warnings.simplefilter("ignore")
                self._all()
        finally:
            self._disconnect()
            self._patch.undo()
            shutil.rmtree(self._folder)

    def _all(self) -> None:
        for event in self.stream.events:
            match event:
                case Day():
                    self._day = event.day
                case Changed():
                    self._disconnect()
                    self._state += 1
                    self._write(self.states[self._state])
                case Revise():
                    self.revised += [(self._asks, one) for one in self._declared(event)]
                case RightClock():
                    if correct_clock(policy=self._folder / "dpsql.toml"):
                        self._newest = self._day
                case Prepare():
                    self._disconnect()
                    self._prepare()
                case Ask():
                    self._ask(event)
                    self._asks += 1
            self._note_day()
        self.spent, self.spent_in_periods, self.spent_in_windows = self._accounts(self._book)

    def _accounts(self, ledger: ReportingLedger) -> tuple[Charge, dict[int, Charge], dict[int, Charge]]:
        """What was charged to everybody: in all, by period, and by window."""
        windows = ledger.spent_in_windows(BUDGET, None, self.stream.world.window)
        return ledger.spent(BUDGET), dict(ledger.spent_in_periods(BUDGET)), dict(windows)

    def _note_day(self) -> None:
        """If something was recorded, time is as late as it is now."""
        self._book.refresh()
        if self._book.events > self._events:
            self._events, self._newest = self._book.events, max(self._newest, self._day)

    def _declared(self, event: Revise) -> list[Revision]:
        """The revisions that were recorded: none where a period is not closed."""
        first, last = (None if day is None else day.isoformat() for day in (event.first, event.last))
        try:
            return revise(event.table, period=first, to=last, policy=self._folder / "dpsql.toml", reason="audit")
        except OptionError:
            return []

    def _prepare(self) -> None:
        try:
            prepare(policy=self._folder / "dpsql.toml")
            self.prepared += 1
        except Error as fault:
            self.faults.append(fault)

    def _write(self, state: State) -> None:
        """The file is another one whatever has changed: that the owner has changed something is public."""
        with duckdb.connect(self._folder / "data.duckdb") as connection:
            connection.execute("BEGIN")
            for statement in inserted(self.stream.world, state):
                connection.execute(statement)
            connection.execute("COMMIT")

    # -- asking

    def _ask(self, ask: Ask) -> None:
        text = ask.asked.text.replace(ANSWER, str(self._last))
        is_answered = is_stored = False
        code, today = "", max(self._day, self._newest)
        if ask.analyst not in self._open:
            self._read_on[ask.analyst] = today
        day = min(today, self._read_on[ask.analyst])
        try:
            cursor = self._connection(ask.analyst).execute(text)
            told, is_answered = _told(cursor), True
            is_stored = cursor.answer is not None and cursor.answer.stored
            self._last = next((int(abs(value)) % 10 for row in (cursor.answer.rows if cursor.answer else ()) for value in row
                               if isinstance(value, int | float) and abs(value) < 1e15), self._last)
        except Error as fault:
            code, told = str(fault.code), f"{type(fault).__name__} {fault.code} {fault.span}: {fault}"
        except Exception as fault:
            code, told = "crash", f"!{type(fault).__name__}: {fault}"
        self.seen.append(Seen(ask, day, self._state, text, told, is_answered, is_stored, code))

    def _connection(self, analyst: str) -> Connection:
        if analyst not in self._open:
            made = dpsql.connect(policy=self._folder / "dpsql.toml", budget=BUDGET, analyst=analyst, **self.stream.world.price)
            self._open[analyst] = made
            self.versions += [made.session.kernel.version] * (made.session.kernel.version not in self.versions)
            self._listen(made)
        return self._open[analyst]

    def _disconnect(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    # -- listening

    def _listen(self, connection: Connection) -> None:
        kernel: Any = connection.session.kernel
        look, answered, charge = kernel._look, kernel._answered, kernel._ledger.charge
        ledger = connection.session.ledger

        def heard(request: Any, certificates: Any, context: Any) -> Any:
            return self._heard(look, request, certificates, context)

        def served(seq: int, account: Any, serve: Callable[[], Any], *rest: Any) -> Any:
            def noting() -> Any:
                try:
                    return serve()
                except BaseException as fault:
                    self.faults.append(fault)
                    raise

            self._serving = True
            try:
                return answered(seq, account, noting, *rest)
            finally:
                self._serving = False

        def charged(account: Any, cost: Charge, **terms: Any) -> int:
            before = self._accounts(ledger)
            seq: int = charge(account, cost, **terms)
            after = self._accounts(ledger)
            self.paid.append(Paid(self._asks, self._state, terms["data"], _less(after[0], before[0]) or NOTHING,
                                  _grown(after[1], before[1]), _grown(after[2], before[2])))
            return seq

        kernel._look, kernel._answered, kernel._ledger.charge = heard, served, charged
        for how in ("rows", "arrays", "columns"):
            self._note(kernel._reader, how)

    def _note(self, reader: Any, how: str) -> None:
        """Write down what is read while no statement is served."""
        read = getattr(reader, how)

        def noted(sql: str, parts: Any = ()) -> Any:
            if not self._serving:
                self.planned[self._state, how, sql] = None
            return read(sql, parts)

        setattr(reader, how, noted)

    def _heard(self, look: Callable[..., Any], request: Any, certificates: Any, context: Any) -> Any:
        """Serve a request; with an earlier run, as it was released there."""
        at = len(self.released)
        seed = random.Random(f"{self.stream.seed} {at}").randrange(2**60)
        release = look(request, certificates, replace(context, noise=Loud(seed)))
        if self.earlier is not None:
            there = self.earlier.released[at] if at < len(self.earlier.released) else None
            if there is None or there.request != request:
                raise ValueError("another request than on the other rows")
            release = there.release
        self.released.append(Looked(request, certificates, release, seed))
        self.paid[-1].looked.append(self.released[-1])
        return release


@contextlib.contextmanager
def salted() -> Iterator[Path]:
    """A folder with a new ledger, whose secret all runs of a stream share: it decides which rows are kept."""
    with tempfile.TemporaryDirectory(dir=PLACE if PLACE.is_dir() else None) as folder:
        ReportingLedger.create(Path(folder) / "dpsql.ledger").close()
        yield Path(folder)


def inserted(world: StreamWorld, state: State) -> Iterator[str]:
    """The statements that make the tables of a state."""
    for name, rows in state.items():
        yield world.tables[name].created()
        if rows:
            values = ", ".join(f"({', '.join(map(_constant, row))})" for row in rows)
            yield f"INSERT INTO {name} VALUES {values}"


def salt_of(folder: Path) -> int:
    with contextlib.closing(ReportingLedger(folder / "dpsql.ledger")) as ledger:
        return ledger.salt


def _tables(run: Run) -> list[str]:
    """The versions of some tables that charges state, in the order in which they come."""
    return [*dict.fromkeys(found for paid in run.paid for found in re.findall("tables [0-9a-f]{64}", paid.stated))]


def differences(here: Run, there: Run) -> Iterator[str]:
    """How two runs of a stream can be told apart by those who see all but the rows."""
    for one, other in zip(here.seen, there.seen, strict=True):
        if one.text != other.text or one.told != other.told:
            told = "\n  on one side, and on the other\n    ".join(_start(seen.told) for seen in (one, other))
            yield f"{one.ask.analyst} asked {one.text} and saw\n    {told}"
    ours, theirs = ([paid.told([*run.versions, *_tables(run)]) for paid in run.paid] for run in (here, there))
    if ours != theirs:
        first = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), (str(len(ours)), str(len(theirs))))
        yield f"charged {first[0]}\n  on one side, and on the other {first[1]}"
    if (here.spent, here.spent_in_periods, here.spent_in_windows) != (there.spent, there.spent_in_periods, there.spent_in_windows):
        yield "the accounts differ"


def _start(text: str) -> str:
    return text if len(text) < 700 else f"{text[:700]}..."


def _told(cursor: Any) -> str:
    """Everything that an answer shows."""
    answer = cursor.answer
    if answer is None:
        return f"{cursor.description} {cursor.fetchall()} {getattr(cursor, 'explanation', None)}"
    return " ".join(map(str, (answer.columns, answer.rows, answer.errors, answer.intervals, answer.notes, answer.cost, answer.stored,
                              answer.shared)))


def _less(after: Charge, before: Charge) -> Charge | None:
    """By how much an account has grown; None if it has not. An epsilon that is no more (None) has come with a rho."""
    if after == before:
        return None
    epsilon = None if after.epsilon is None or before.epsilon is None else after.epsilon - before.epsilon
    return Charge(epsilon=epsilon, rho=after.rho - before.rho, delta=after.delta - before.delta)


def _grown(after: Mapping[int, Charge], before: Mapping[int, Charge]) -> dict[int, Charge]:
    """By how much accounts have grown, of those that have."""
    return {number: more for number, spent in after.items() if (more := _less(spent, before.get(number, NOTHING))) is not None}


def _days_by(today: Callable[[], dt.date]) -> Any:
    """The module of times for the ledger, by a clock that knows the day."""
    class Moments(dt.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> dt.datetime:  # type: ignore[override]
            return dt.datetime.combine(today(), dt.time(12), tz)

    class Times:
        date, timedelta, UTC, datetime = dt.date, dt.timedelta, dt.UTC, Moments

    return Times


def _constant(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)
