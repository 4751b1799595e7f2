"""The process that holds the rows and the ledger, and serves accounts to a front process that holds neither.

A channel is bound to one account when it is opened, by a check of a password that is made here; from then on nothing that the
front says names an account, a limit, a price or a file. Plans come as plain values and are handed to the kernel, which copies
them, derives every claim again, charges, reads and adds noise, exactly as for a caller in its own process. So whatever becomes of
the front, an analyst gets no more than their budget allows: it is trusted only to show each analyst their own answers. Whether
analysts share answers is decided here, by the policy. The vault records what it tells of a statement; that measurements of others
are used in a statement of its own, the front says.

Each channel has a thread, and a session of its own. What a login or a statement comes to leaves at a step of a public grid of
times (`departure`), whatever it is; other calls read nothing private, and are answered at once.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import Any, Protocol, TypeAlias

from dpsql.engine.session import Session
from dpsql.errors import Error, OperationalError, Unsupported
from dpsql.frozen import Frozen, replace
from dpsql.ledgers.ledger_reports import Entry, Failure, KeptAnswer, PaidAnswer, RecordedNote, SharedAnswer
from dpsql.server.link.plain_values import MOST_BYTES, MessageReader, decoded, encoded
from dpsql.server.link.told_to_overseers import (
    AddedUser,
    CheckOutcome,
    LateOutcomes,
    ListedStatements,
    StoppedStatements,
    UserState,
    VaultState,
)
from dpsql.server.link.vault_calls import (
    CALLS,
    CAUSES,
    MOST_HELD,
    MOST_NAME,
    OTHER,
    REQUEST,
    RUN,
    SERVER,
    TELL,
    AccountState,
    Fault,
    Frames,
    LoginMessage,
    Made,
    Ran,
    ReleasedStep,
    Spent,
    ToldAccount,
    fault_for_front,
    is_short,
    may_call,
    send_answer,
)
from dpsql.server.vault.account_turns import AccountTurns, TurnLimits
from dpsql.server.vault.departure import Leaving, StatementsUnderway
from dpsql.server.vault.one_core import Cores
from dpsql.server.vault.overseeing import listed, stopped, without_answer
from dpsql.server.vault.sign_on import SignedOn, SignOn
from dpsql.server.vault.user_office import UserOffice
from dpsql.synthesis.released_table import SyntheticColumn
from dpsql.synthesis.synthetic_table import declared_column
from dpsql.trusted.accounting.cost import NOTHING, Account, Charge, Cost
from dpsql.trusted.declarations.tables import Column, Table
from dpsql.trusted.kernel.chain import InParts
from dpsql.trusted.kernel.model_progress import SERIES
from dpsql.trusted.kernel.period_runs import ChargedRuns
from dpsql.trusted.kernel.revisions import TimeState
from dpsql.trusted.kernel.run import AnsweredBefore
from dpsql.trusted.plan.node import Node
from dpsql.trusted.stopping import stopped_by
from dpsql.types import Type

Say: TypeAlias = Callable[[bytes], bytes]
Authenticate: TypeAlias = Callable[[str, Say], Callable[[], str]]
"""Finds out whether a user is who they say: it says something to the client by `Say`, which returns the answer, until it knows.
Returned is what tells their role, and raises OperationalError as soon as they are no user any more. Raises OperationalError for
all others."""
OpenAccount: TypeAlias = Callable[[str, str], Session]
"""The session of a user who has proved to be one, and of the database that they named. Raises errors.Error."""


class SignOnDoor(Protocol):
    """Logins by single sign-on; see `sign_on` and `doorkeeper`."""

    @property
    def sign_on(self) -> SignOn: ...
    def open_account(self, person: SignedOn) -> Session: ...


MOST_CHANNELS = 1000
MOST_CELLS = 2**26  # values of all of them
MOST_NAMED = 100  # names that a statement gives
MOST_PROOF = 2**16  # bytes of a message before a login, so that nobody fills memory on many channels
NAMING = 60.0  # seconds to wait for a name that another connection gives
LAST_SECONDS = 10.0  # what channels get to end in when the vault does
STOPPING = 5.0  # seconds within which a statement is interrupted that the front has stopped; otherwise it fails
PATIENCE = 0.05  # seconds between two attempts to interrupt: one that comes just before a query begins is lost
CARRIED = {Type.BOOLEAN: bool, Type.VARCHAR: str, Type.DATE: dt.date, Type.TIMESTAMP: dt.datetime}
CORES = Cores()


class Vault:
    """Serves channels. Safe with threads."""

    def __init__(self, open_account: OpenAccount, authenticate: Authenticate, *, pace: float | None,
                 turns: TurnLimits = TurnLimits(), office: UserOffice | None = None, elsewhere: SignOnDoor | None = None) -> None:
        """`pace` is in seconds; see `departure`. Without an `office`, users cannot be seen or changed through the front; without
        `elsewhere`, there is no single sign-on."""
        self._open_account, self._authenticate = open_account, authenticate
        self._common = SharedByAccounts(pace=pace, underway=StatementsUnderway(), turns=AccountTurns(turns))
        self.office, self.elsewhere = office, elsewhere
        self.numbers, self.started = count(1), time.time()
        self._channels: dict[int, Channel] = {}
        self._turn = threading.Condition()

    def channel(self) -> tuple[int, socket.socket] | None:
        """A new channel: its number and the front's end. None if there are too many."""
        ours, theirs = socket.socketpair()
        with self._turn:
            if len(self._channels) >= MOST_CHANNELS:
                ours.close()
                theirs.close()
                return None
            number = next(self.numbers)
            self._channels[number] = made = Channel(ours, self._open_account, self._authenticate, self._common, self)
        threading.Thread(target=self._serve, args=(number, made), daemon=True, name=f"channel {number}").start()
        return number, theirs

    @property
    def channels(self) -> int:
        """How many are open."""
        with self._turn:
            return len(self._channels)

    def interrupt(self, number: int, statement: int, cause: str = REQUEST, *, if_free: bool = False) -> None:
        """Interrupt a statement of a channel, given by its number, if it is the running one; with `if_free`, only if it is not
        charged yet. The cause is what the front says it is."""
        with self._turn:
            found = self._channels.get(number)
        if found is not None and cause in CAUSES:
            found.interrupt(statement, cause, if_free=if_free)

    def close(self) -> None:
        """End all channels; running statements are stopped. Waits a while for their end, because a process that exits during a
        query of the engine is aborted."""
        with self._turn:
            channels = [*self._channels.values()]
        for channel in channels:
            channel.close()
            threading.Thread(target=channel.stop, daemon=True).start()
        with self._turn:
            self._turn.wait_for(lambda: not self._channels, LAST_SECONDS)

    def _serve(self, number: int, channel: Channel) -> None:
        try:
            channel.serve()
        finally:
            with self._turn:
                self._channels.pop(number, None)
                self._turn.notify_all()


class SharedByAccounts(Frozen):
    """What the accounts of a vault share."""

    pace: float | None
    underway: StatementsUnderway
    turns: AccountTurns


class Channel:
    """One end of a channel: a login, and then the calls of one account."""

    def __init__(self, front: socket.socket, open_account: OpenAccount, authenticate: Authenticate, common: SharedByAccounts,
                 vault: Vault) -> None:
        self._front, self._frames, self._vault = front, Frames(front), vault
        self._open_account, self._authenticate, self._common = open_account, authenticate, common
        self._account: ServedAccount | None = None

    def serve(self) -> None:
        """Serve the channel until the front ends, or a login fails. Nothing the front sends can end anything else."""
        with contextlib.suppress(OSError, _Gone), self._front:
            try:
                if self._logged_in() and self._account is not None:
                    self._account.serve()
            finally:
                if self._account is not None:
                    self._account.close()

    def interrupt(self, statement: int, cause: str, *, if_free: bool = False) -> None:
        if self._account is not None:
            self._account.interrupt(statement, cause, if_free=if_free)

    def stop(self) -> None:
        """Interrupt the statement that is running, if any."""
        if self._account is not None:
            self._account.interrupt(self._account.number, SERVER)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._front.shutdown(socket.SHUT_RDWR)

    def _logged_in(self) -> bool:
        """Whether a user proved to be one and has their account; otherwise they are told why not."""
        fault: BaseException = OperationalError("the name or the password is wrong", code="login")
        try:
            name, data = _received(self._frames, MOST_PROOF)
            match name, decoded(data, _no_table):
                case "login", (user, database) if is_short(user) and is_short(database):
                    role = self._authenticate(user, self._say)
                    self._open(lambda: self._open_account(user, database), role)
                    return True
                case "sign_on", () if self._vault.elsewhere is not None:
                    send_answer(self._frames, LoginMessage(json.dumps(self._vault.elsewhere.sign_on.begun()).encode()))
                    return False
                case "signed_on", (str(code), str(state)) if (elsewhere := self._vault.elsewhere) is not None:
                    person, role = elsewhere.sign_on.signed_on(code, state)
                    self._open(lambda: elsewhere.open_account(person), role)
                    return True
        except (OSError, _Gone):
            raise
        except Exception as caught:
            fault = caught
        send_answer(self._frames, fault_for_front(fault))
        return False

    def _open(self, made: Callable[[], Session], role: Callable[[], str]) -> None:
        """Open the account with a new session. Files with private rows may be read for that, so its outcome leaves at a step."""
        departure = Leaving(self._common.pace)
        try:
            self._account = ServedAccount(made(), self._frames, role, self._common, self._vault)
        finally:
            departure.hold()
        send_answer(self._frames, Made(self._account.opening()))

    def _say(self, message: bytes) -> bytes:
        send_answer(self._frames, LoginMessage(message))
        name, data = _received(self._frames, MOST_PROOF)
        said = decoded(data, _no_table)
        if name != "say" or type(said) is not bytes:
            raise ValueError("the client has not answered yet")
        return said


class _Gone(Exception):
    """The front has closed a channel, or sends what is no frame."""


class _Cancelled(BaseException):
    """A statement is to stop before its charge. Not an Exception, so that the kernel does not take it for a fault of a script."""


class ServedAccount:
    """The calls of one account. What is private in a session stays here."""

    def __init__(self, session: Session, front: Frames, role: Callable[[], str], common: SharedByAccounts,
                 vault: Vault) -> None:
        """`role` tells the user's role now, and raises OperationalError as soon as the account is no user's any more."""
        self._session, self._front, self._role, self._common, self._pace = session, front, role, common, common.pace
        self._vault = vault
        self._departure = Leaving(self._pace)  # of the statement that runs, or ran last
        self._size = 0  # of that statement, in bytes
        self._woken = threading.Event()  # it has its turn, or is to stop
        self.number = 0  # of that statement, as the front counts those that it sends
        self._held: dict[str, HeldTable] = {}
        self._brought: list[int] = []  # how many values there were in each table that the front has brought
        self._models: set[str] = set()  # the names of the comparisons with models of this account
        self._naming: dict[str, contextlib.ExitStack] = {}  # the names that are being given
        self._steps = MessageReader(self._own_table)  # of the script that runs, or ran last
        self._stopping = threading.Event()  # the statement that runs is to stop
        self._idle = threading.Event()  # none runs
        self._idle.set()
        self._turn = threading.Lock()

    def opening(self) -> ToldAccount:
        session, budget = self._session, self._session.budget
        mine = {name: price for name, price in budget.analysts.items() if name == session.analyst}
        return ToldAccount(
            catalog=session.catalog, budget=replace(budget, analysts=mine, listed=None), analyst=session.analyst,
            price=session.price, confidence=session.confidence, policy=session.policy, notes=session.notes,
            version=session.kernel.version, role=self._role())

    def serve(self) -> None:
        """Answer calls one by one. Raises _Gone or OSError if the front has gone."""
        while True:
            name, data = _received(self._front)
            with CORES.one() if name == RUN.name else contextlib.nullcontext():
                self._send(self._answer(name, data))

    def close(self) -> None:
        for inside in self._naming.values():
            inside.close()
        self._session.close()

    def interrupt(self, statement: int, cause: str = REQUEST, *, if_free: bool = False) -> None:
        """From another thread: stop the statement with this number, if it is running, as soon as possible; with `if_free`, only
        if it is not charged yet. Returns when it has ended.

        A statement that is over but has not left is stopped all the same, so an interruption does not reveal when it was over. No
        other statement is stopped: none begins while a thread has the turn and compares the numbers.
        """
        with self._turn:
            if self.number != statement or self._idle.is_set() or self._stopping.is_set() or (
                    if_free and self._departure.is_charged):
                return
            self._departure.interrupt(cause)  # first, so that what fails by itself is never taken for stopped
            self._stopping.set()
            self._woken.set()
        while not self._idle.wait(PATIENCE):
            with self._turn:
                if self.number != statement:
                    return
                self._session.kernel.interrupt()

    def _send(self, answer: Made | ReleasedStep | Fault) -> None:
        try:
            send_answer(self._front, answer)
        except OSError:
            raise
        except Exception:  # what cannot be pickled
            send_answer(self._front, OTHER)

    def _answer(self, name: str, data: bytes) -> Made | Fault:
        """The answer to a call, when it may be sent: that to a statement at a step, refusals too."""
        if name not in CALLS or not CALLS[name].statement:
            return self._outcome(name, data)
        with self._turn:
            self._departure = Leaving(self._pace, charged=CORES.spread, underway=self._common.underway)
            self.number, self._size = self.number + 1, len(data)
        answer = self._outcome(name, data)
        if not (isinstance(answer, Fault) and answer.kind == AnsweredBefore.__name__):  # that is told at once, as by "stored"
            self._departure.hold()  # at once, where the kernel has waited
        return answer

    def _outcome(self, name: str, data: bytes) -> Made | Fault:
        try:
            call = CALLS.get(name)
            if call is None:
                raise ValueError("this call is unknown")
            if not may_call(self._role(), call):
                raise OperationalError("the role of this user does not allow that", code="role",
                                       try_="asking the owner of the data for the role: dpsql user add NAME --role ROLE")
            if call.checked:
                self._session.kernel.check()
            with self._running() if call.statement else contextlib.nullcontext():
                reader = MessageReader(self._read_table if call.exact else self._own_table)
                if call is RUN:  # its steps may refer to what it says
                    self._steps = reader
                given = call.read(reader.decoded(data))
                return Made(getattr(self, f"_{call.name}")(*given))
        except _Cancelled:
            return fault_for_front(OperationalError("the statement was interrupted before it was charged", code="cancelled"))
        except BaseException as fault:
            return fault_for_front(fault)

    @contextlib.contextmanager
    def _running(self) -> Generator[None]:
        """A context in which the statement may be interrupted."""
        with self._turn:
            self._stopping.clear()
            self._woken.clear()
            self._idle.clear()
        try:
            with stopped_by(self._stopping):
                self._session.look()
                yield
        finally:
            self._steps = MessageReader(self._own_table)  # what was read of the front is kept no longer
            self._idle.set()

    # -- tables

    def _own_table(self, name: str, columns: tuple[Column, ...] | None) -> Table:
        """The table of this name, for plans over private rows: what is said of its columns is not believed."""
        if columns is None:
            return self._session.catalog.tables[name]
        return self._held[name].table

    def _read_table(self, name: str, columns: tuple[Column, ...] | None) -> Table:
        """The table of this name, for queries that read public tables alone; those of its columns that there are as the front
        reads them."""
        if columns is None:
            return self._session.catalog.tables[name]
        held, own = self._held.get(name), self._session.catalog.tables.get(name)
        known = held.table if held is not None else own
        if known is None or known.public is not True:
            raise ValueError("only public tables can be read this way")
        there = {column.lower() for column in known.columns}
        return Table(name=name, public=True, columns={column.name: column for column in columns if column.name.lower() in there})

    def _hold(self, name: str, columns: tuple[tuple[str, str, tuple[Any, ...]], ...]) -> None:
        """Hold a table of released rows. It is identified by its account and all of its values, whatever the front says: so no
        account reads, or changes, those of another one."""
        catalog = self._session.catalog
        made = HeldTable.of(name, columns)
        if name.lower() in {other.lower() for other in (*catalog.tables, *catalog.undeclared, *catalog.outside)}:
            raise ValueError("there is a table of this name")
        self._brought.append(len(columns) * len(columns[0][2]))
        if len(self._brought) > MOST_HELD or sum(self._brought) > MOST_CELLS:
            raise OperationalError("this connection has uploaded too many tables", code="too-large", try_="connecting again")
        account = self._session.account
        identity = hashlib.sha256(encoded((account.budget, account.analyst, columns), {})).hexdigest()
        self._session.kernel.hold(name, identity, {column: (kind, values) for column, kind, values in columns})
        self._held = {other: held for other, held in self._held.items() if other.lower() != name.lower()} | {name: made}

    # -- the kernel

    def _check(self) -> str:
        return self._session.kernel.version

    def _version_of(self, names: tuple[str, ...]) -> str:
        """The version of the tables of these names, which are those of the policy or held ones, whatever the front says of
        them."""
        with self._of_the_files():
            return self._session.kernel.version_of([
                self._held[name].table if name in self._held else self._session.catalog.tables[name] for name in names])

    def _public_rows(self, relation: Any) -> list[tuple[Any, ...]]:
        with self._of_the_files():
            return self._session.kernel.public_rows(relation)

    def _fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        with self._of_the_files():
            return self._session.kernel.fanout(relation, columns)

    @contextlib.contextmanager
    def _of_the_files(self) -> Generator[None]:
        """A context in which a fault is that files were changed, if they were."""
        try:
            yield
        except Error:
            self._session.kernel.check()
            raise

    def _run(self, cost: Cost, digest: str, sql: str, views: tuple[Node, ...], step: tuple[Any, ...],
             seconds: float = 0.0, unless_stored: bool = False, data: str | None = None) -> Ran:
        """Run a script of the front: `step` is its first one, and it wants the outcome after so many `seconds` or later. Returned
        is what most clients are told next."""
        self._departure.asked = seconds
        limits = {} if cost.rounded() == NOTHING else self._session.limits  # as nothing exceeds no limit
        with self._in_turn(digest if unless_stored else None, data):
            self._session.kernel.run(self._script(step), cost=cost, account=self._session.account, limits=limits, digest=digest,
                                     sql=sql, encode=_written, views=views, leaving=self._departure, unless_stored=unless_stored,
                                     in_periods=self._session.period_limits, in_any=self._session.window_limits, data=data)
        spent = None
        with contextlib.suppress(Error):
            spent = self._spent()
        return Ran(version=self._session.kernel.version, spent=spent)

    @contextlib.contextmanager
    def _in_turn(self, stored: str | None = None, data: str | None = None) -> Generator[None]:
        """A context in which a statement has its turn. If an answer is stored under the name `stored`, for these data, the
        statement does not wait for a turn. Raises AnsweredBefore, Busy, and _Cancelled."""
        session = self._session

        def look() -> None:
            version = data or session.kernel.version
            if stored is not None and (body := session.ledger.stored(session.account, stored, version)) is not None:
                raise AnsweredBefore(body, version)

        def left() -> int:
            return session.kernel.incidents - len(session.ledger.failed(session.account))

        with self._common.turns.turn(session.account, self._size, self._woken, left, look):
            if self._stopping.is_set():
                raise _Cancelled
            session.kernel.check()  # again, as files may have been changed during the wait: only so many are stopped for it
            yield

    def _script(self, step: Any) -> Generator[Any, Any, str | InParts]:
        """The script that the front runs: its requests, and at the end the text of its answer.

        Before its first request it is not charged, and stops without; afterwards any fault is the script's. It may ask for what
        is public between its steps.
        """
        if self._stopping.is_set():
            raise _Cancelled
        begun = False
        while True:
            match step:
                case ("asked", request):
                    if begun:
                        CORES.spread()
                    released, begun = (yield request), True  # rows are read
                    CORES.share()
                case ("made", str(text)):
                    return text
                case ("made", str(text), tuple(parts)):
                    return InParts(text=text, parts=parts)
                case ("interrupted",):
                    raise KeyboardInterrupt
                case ("stopped",):  # the front has noticed it first; the grid begins when we do, not when a release was ready
                    self._stopping.wait(STOPPING)
                    raise InterruptedError
                case _:
                    raise ValueError("the script of the front failed")
            if self._stopping.is_set():
                raise InterruptedError
            self._send(ReleasedStep(released))
            step = self._next_step()

    def _next_step(self) -> Any:
        while True:
            name, data = _received(self._front)
            if name == "step":
                return self._steps.decoded(data)
            self._send(self._answer(name, data) if name in CALLS and CALLS[name].between else OTHER)

    def _compare(self, asked: Any, model: str, sql: str, seconds: float = 0.0) -> Any:
        self._departure.asked = seconds
        with self._in_turn():
            return self._session.kernel.compare(asked, model=model, account=self._session.account, sql=sql,
                                                leaving=self._departure)

    # -- the ledger, of this account

    def _stored(self, digest: str, data: str | None = None) -> tuple[str, str | None]:
        """The version of the content, and what is stored for a statement on it, or on the periods that are stated."""
        version = self._session.kernel.version
        return version, self._session.ledger.stored(self._session.account, digest, data or version)

    def _answered(self, digest: str, data: str | None = None) -> tuple[int, str | None] | None:
        """The number of the charge, and what a statement that opens a model paid for."""
        found = self._session.ledger.answered(self._session.account, digest, data or self._session.kernel.version)
        if found is not None:
            self._models.add(f"{SERIES}{found[0]}")
        return found

    def _answers(self, series: str) -> list[str]:
        if series not in self._models:
            raise ValueError("these are comparisons of another account")
        return self._session.ledger.answers(series)

    def _holding(self, mark: str) -> list[KeptAnswer]:
        return self._session.ledger.holding(self._session.account, self._session.kernel.version, mark)

    def _part(self, digest: str) -> str:
        return self._session.ledger.part(self._session.account, digest)

    def _texts(self, word: str, most: int, of_others: bool = False) -> list[str]:
        return self._session.ledger.texts(self._session.account, word, most, of_others=of_others and self._shares)

    def _entries(self) -> list[Entry]:
        """The statements that the account was charged for, without their answers, which may be large."""
        return [*map(without_answer, self._session.ledger.entries(self._session.budget.name, self._session.analyst))]

    def _told_entries(self, most: int) -> list[Entry]:
        return self._session.ledger.told_entries(self._session.account, most)

    def _spent(self) -> Spent:
        spent, own, last, first = self._session.ledger.now(self._session.account, self._session.budget.late)
        return Spent(all=spent, own=own, last=last, waits=self._waits(first))

    def _waits(self, first: int) -> float:
        """For how many seconds the next outcome of an account waits, which leaves at this step at first; see `Spent`."""
        return (self._pace or 0.0) * 2.0**first if first else 0.0

    def _prices(self) -> Any:
        return self._session.ledger.prices(self._session.budget.name)

    def _spent_before(self, day: str) -> Charge:
        return self._session.ledger.spent_before(self._session.account, day)

    def _spent_in_periods(self, everybody: bool) -> ChargedRuns:
        account = self._session.account
        return self._session.ledger.spent_in_periods(account.budget, None if everybody else account.analyst).runs

    def _spent_in_windows(self, everybody: bool) -> ChargedRuns:
        account, periods = self._session.account, self._session.budget.in_any_periods
        if not periods:
            return ()
        return self._session.ledger.spent_in_windows(account.budget, None if everybody else account.analyst, periods).runs

    def _time_state(self) -> TimeState:
        return self._session.ledger.time_state()

    def _standing_notes(self) -> list[RecordedNote]:
        """Those of all accounts of the budget: what is to be published is no secret."""
        return self._session.ledger.standing_notes(self._session.budget.name)

    def _answers_to(self, sql: str) -> list[PaidAnswer]:
        return self._session.ledger.answers_to(self._session.account, sql)

    def _failed(self) -> list[int]:
        return self._session.ledger.failed(self._session.account)

    def _refresh(self) -> Spent:
        self._session.ledger.refresh()
        return self._spent()

    # -- the answers of other accounts, as far as the policy here has analysts share them

    @property
    def _shares(self) -> bool:
        """Whether the user may be told answers of other accounts: not an auditor, from whom answers are withheld."""
        return self._session.budget.share_answers and may_call(self._role(), TELL)

    def _is_told(self, digest: str, data: str | None = None) -> bool:
        session, stated = self._session, data or self._session.kernel.version
        return session.budget.share_answers and session.ledger.is_told(session.budget.name, digest, stated)

    def _tell(self, digest: str, sql: str, data: str | None = None) -> tuple[str, str | None]:
        """The version of the content, and the answer of another account on it or on the data that are stated, after recording
        that this one is told it."""
        session, version = self._session, self._session.kernel.version
        return version, session.ledger.tell(session.account, digest, data or version, sql) if self._shares else None

    def _tell_of(self, charges: tuple[int, ...], sql: str, data: str | None = None) -> None:
        if self._shares:
            self._session.ledger.tell_of(self._session.account, charges, data or self._session.kernel.version, sql)

    def _tell_answers_to(self, analyst: str, sql: str) -> None:
        if self._shares:
            self._session.ledger.tell_answers_to(self._session.account, analyst, sql)

    def _of_others(self, mark: str) -> list[SharedAnswer]:
        session = self._session
        return session.ledger.of_others(session.account, session.kernel.version, mark) if self._shares else []

    def _of_another(self, digest: str, data: str | None = None) -> SharedAnswer | None:
        session = self._session
        return session.ledger.of_another(session.account, digest, data or session.kernel.version) if self._shares else None

    # -- the ledger, of everybody who spends from this budget

    def _everything(self) -> list[Entry]:
        """The statements that were charged, without their answers: who asked what is not hidden from a role that may call this,
        and what was answered is."""
        self._session.ledger.refresh()
        return [*map(without_answer, self._session.ledger.entries(self._session.budget.name))]

    def _accounts(self) -> list[AccountState]:
        """The whole budget, under None, and the accounts of all who were charged, have a limit of their own, or are users."""
        ledger, budget = self._session.ledger, self._session.budget
        ledger.refresh()
        asked = ledger.charged(budget.name)
        made = [AccountState(analyst=None, statements=asked.total(), spent=ledger.spent(budget.name), total=budget.total)]
        users = () if self._vault.office is None else self._vault.office.states(budget, self._accounts_of_all())
        for name in sorted({*self._accounts_of_all(), *(user.name for user in users)}):
            account = Account(budget=budget.name, analyst=name)
            made.append(AccountState(analyst=name, statements=asked[name], spent=ledger.spent(budget.name, name),
                                     total=budget.of(name), failed=len(ledger.failed(account)), incidents=budget.incidents,
                                     waits=self._waits(ledger.first_step(account, budget.late, crowded=True))))
        return made

    def _listed(self, analyst: str, text: str, outcome: str, since: str, until: str, before: int, most: int) -> ListedStatements:
        """A page of the statements that were charged; reveals what `_everything` does, and no more."""
        return listed(self._session.ledger, self._session.budget.name, analyst, text, outcome, since, until, before, most)

    def _failures(self) -> list[Failure]:
        """The statements that failed after their charge, of all analysts. That they failed may depend on rows; their number
        is limited for each analyst. Their causes may depend on rows without limit, so they are removed."""
        return [replace(failure, cause="") for failure in self._session.ledger.failures(self._session.budget.name)]

    def _stops(self) -> list[StoppedStatements]:
        """Why statements were stopped: see `overseeing.stopped`."""
        return stopped(self._session.ledger, self._session.budget.name)

    def _late(self) -> list[LateOutcomes]:
        """How many outcomes left late, which each analyst has noticed as well."""
        return [LateOutcomes(analyst=analyst, step=step, number=number)
                for analyst, step, number in self._session.ledger.late(self._session.budget.name)]

    def _state(self) -> VaultState:
        """How many connections there are, and how large the ledger is. Both change when an outcome leaves and not when it is
        made (`departure`), so they reveal nothing more about how long statements take. What runs in the vault is left out."""
        ledger = self._session.ledger.state()
        return VaultState(started=self._vault.started, channels=self._vault.channels, most_channels=MOST_CHANNELS,
                          events=ledger.events, ledger_bytes=ledger.bytes, checkpoint=ledger.checkpoint,
                          checkpoint_at=ledger.checkpoint_at)

    # -- users, and checks of files: by the office, which says what its acts can reveal

    @property
    def _office(self) -> UserOffice:
        """Raises Unsupported where there is none."""
        if self._vault.office is None:
            raise Unsupported("users cannot be seen or changed through this server", code="user", try_="dpsql user list")
        return self._vault.office

    def _users(self) -> tuple[UserState, ...]:
        return self._office.states(self._session.budget, self._accounts_of_all())

    def _accounts_of_all(self) -> set[str]:
        """The names of all who were charged or have a limit of their own."""
        budget = self._session.budget
        return {*self._session.ledger.charged(budget.name), *budget.analysts}

    def _checks(self) -> tuple[CheckOutcome, ...]:
        return self._office.checks()

    def _add_user(self, name: str) -> AddedUser:
        """Refuses a name that has answers, because its new password would open them. The name may belong to a person who uses
        single sign-on, or who works without a server."""
        session, ledger = self._session, self._session.ledger
        ledger.refresh()
        return self._office.add(name, session.budget, session.analyst,
                                known=lambda normal: bool(ledger.entries(session.budget.name, normal)))

    def _close_user(self, name: str) -> None:
        self._session.ledger.refresh()
        self._office.close(name, self._session.budget, self._session.analyst, self._accounts_of_all())

    def _reopen_user(self, name: str) -> None:
        self._office.reopen(name, self._session.budget, self._session.analyst)

    # -- names

    def _enter(self, name: str) -> None:
        """Wait until nobody else gives something of this account a name: not for ever, as two connections may each wait for a
        name that the other one has. Raises OperationalError."""
        if name.lower() in self._naming or len(self._naming) >= MOST_NAMED:
            raise ValueError("a name can be created only once at a time")
        inside = contextlib.ExitStack()
        try:
            inside.enter_context(self._session.ledger.naming(self._session.account, name, NAMING))
        except TimeoutError:
            raise OperationalError("another connection of this account is still creating something with this name", code="naming",
                                   try_="again, when it is done; nothing was charged") from None
        self._naming[name.lower()] = inside

    def _leave(self, name: str) -> None:
        self._naming.pop(name.lower()).close()


class HeldTable(Frozen):
    """A table of released rows, as its rows show it: nothing that is claimed of them is believed. It has no keys."""

    table: Table

    @classmethod
    def of(cls, name: Any, columns: Any) -> HeldTable:
        """Make a table from a message. Raises ValueError if it is not a table of plain values."""
        if not is_short(name) or not name or type(columns) is not tuple or not columns:
            raise ValueError("this is no table")
        made: dict[str, Column] = {}
        for column, kind, values in columns:
            if not is_short(column) or type(values) is not tuple or len(values) != len(columns[0][2]):
                raise ValueError("this is no column")
            if not all(value is None or _fits(value, Type(kind)) for value in values):
                raise ValueError("these values do not have this type")
            made[column] = declared_column(SyntheticColumn(name=column, type=Type(kind), values=values))
        if len({column.lower() for column in made}) != len(columns):
            raise ValueError("this is no table")
        return cls(table=Table(name=name, public=True, columns=made))


def _fits(value: Any, kind: Type) -> bool:
    """Whether an engine keeps a value of this type as it is, so that the least and the greatest are those of its rows."""
    match kind:
        case Type.BIGINT:
            return type(value) is int and -(2**63) <= value < 2**63
        case Type.DOUBLE:
            return (type(value) is int and abs(value) <= 2**53) or (type(value) is float and not math.isnan(value))
    return type(value) is CARRIED[kind]


def _received(front: Frames, most: int = MOST_BYTES) -> tuple[str, bytes]:
    """The next message, of so many bytes at most: its name, and its values in bytes. Raises _Gone."""
    frame = front.receive(most)
    if frame is None:
        raise _Gone
    name, _, data = frame.partition(b"\n")
    return name[:MOST_NAME].decode("ascii", "replace"), data


def _no_table(name: str, columns: Sequence[Column] | None) -> Table:
    raise ValueError("no table is named here")


def _written(answer: Any) -> str | InParts:
    """The text that is stored for an answer of the front, which wrote it."""
    found: str | InParts = answer
    if not all(type(text) is str for text in (answer.parts if type(answer) is InParts else [answer])):
        raise TypeError("an answer must be text")
    return found
