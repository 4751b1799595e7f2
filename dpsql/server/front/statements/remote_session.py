"""What the front process has in place of a kernel and a ledger: calls to the vault. Nothing here holds rows, salts or files.

The scripts of statements run here, where they are planned. The kernel in the vault answers their requests, so a session that is
made of these works as one in the vault's own process.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from dpsql.backends.scratch import DuckScratch
from dpsql.catalog.schema import carried_as
from dpsql.engine.session import Session
from dpsql.errors import Error
from dpsql.ledgers.ledger_reports import Entry, Failure, KeptAnswer, PaidAnswer, RecordedNote, ReportingLedger, SharedAnswer
from dpsql.server.link.plain_values import MessageWriter, encoded
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
    ACCOUNTS,
    ADD_USER,
    ANSWERED,
    ANSWERS,
    ANSWERS_TO,
    CALLS,
    CHECK,
    CHECKS,
    CLOSE_USER,
    COMPARE,
    ENTER,
    ENTRIES,
    EVERYTHING,
    FAILED,
    FAILURES,
    FANOUT,
    HOLD,
    HOLDING,
    IS_TOLD,
    LATE,
    LEAVE,
    LEFT,
    LISTED,
    OF_ANOTHER,
    OF_OTHERS,
    PART,
    PRICES,
    PUBLIC_ROWS,
    REFRESH,
    REOPEN_USER,
    REQUEST,
    RUN,
    SPENT,
    SPENT_BEFORE,
    SPENT_IN_PERIODS,
    SPENT_IN_WINDOWS,
    STANDING_NOTES,
    STATE,
    STOPS,
    STORED,
    TELL,
    TELL_ANSWERS_TO,
    TELL_OF,
    TEXTS,
    TIME_STATE,
    TOLD_ENTRIES,
    USERS,
    VERSION_OF,
    AccountState,
    Fault,
    Frames,
    LoginMessage,
    Made,
    Ran,
    ReleasedStep,
    Spent,
    Told,
    ToldAccount,
    VaultCall,
    gone,
    raised,
    receive_answer,
)
from dpsql.trusted.accounting.cost import Account, Charge, Cost
from dpsql.trusted.accounting.privacy_filter import Limit
from dpsql.trusted.declarations.tables import Table
from dpsql.trusted.kernel.chain import InParts
from dpsql.trusted.kernel.data_versions import TABLES
from dpsql.trusted.kernel.period_reads import START
from dpsql.trusted.kernel.period_runs import ChargesByPeriod
from dpsql.trusted.kernel.period_sums import WindowLimits
from dpsql.trusted.kernel.revisions import TimeState
from dpsql.trusted.kernel.run import AnsweredBefore, Kernel
from dpsql.trusted.measurements.online_comparisons import ComparisonResult, Comparisons
from dpsql.trusted.plan.node import Node
from dpsql.trusted.stopping import is_to_stop

STEP_FAILED = ("failed",)  # a step of a script that raised
STEP_STOPPED = ("stopped",)  # one of a script that was interrupted here, as the vault will be told
NOTHING_GIVEN = encoded((), {})


class VaultChannel:
    """The front's end of a channel: one call at a time. `interrupt` alone may come from another thread meanwhile."""

    def __init__(self, vault: socket.socket,
                 interrupt: Callable[[int, str, bool], None] = lambda number, cause, if_free: None) -> None:
        """`interrupt` has the statement of a number stop for a cause, if the channel runs it, or only if it is not charged."""
        self._vault, self._frames, self._interrupt = vault, Frames(vault), interrupt
        self.asked = 0  # how often something was asked
        self._number = 0  # of the statement that was sent last, as the vault counts them too
        self.version = ""  # of the content, as the vault told it last
        self._tables: Mapping[str, Table] = {}

    def interrupt(self, cause: str = REQUEST, *, if_free: bool = False) -> None:
        """Interrupt the statement that was sent last, if it is running, without waiting for its end; with `if_free`, only if it
        is not charged yet."""
        self._interrupt(self._number, cause, if_free)

    def log_in(self, user: str, database: str, answer: Callable[[bytes], bytes]) -> ToldAccount:
        """Bind the channel to the account of a user; `answer` returns the client's answer to a message of the password check.
        Raises errors.Error."""
        reply = self._asked("login", (user, database))
        while isinstance(reply, LoginMessage):
            reply = self._asked("say", answer(reply.message))
        return self._opened(reply)

    def begin_sign_on(self) -> tuple[str, str]:
        """The address at which a person signs on, and the state that comes back with them; the channel is of no use then. Raises
        errors.Error."""
        reply = self._asked("sign_on", ())
        if not isinstance(reply, LoginMessage):
            self._outcome(reply)
            raise gone()
        address, state = json.loads(reply.message)
        return address, state

    def sign_on(self, code: str, state: str) -> ToldAccount:
        """Bind the channel to the account of a person who has signed on. Raises errors.Error."""
        return self._opened(self._asked("signed_on", (code, state)))

    def _opened(self, reply: Made | ReleasedStep | LoginMessage | Fault) -> ToldAccount:
        opening: ToldAccount = self._outcome(reply)
        self._tables = opening.catalog.tables
        self.take(opening.version)
        return opening

    def call(self, name: str, *given: Any) -> Any:
        """The outcome of a call. Raises the errors of the call in the vault, and TypeError if a value cannot be sent."""
        return self._outcome(self._asked(name, given))

    def ask(self, call: VaultCall[Told], *given: Any) -> Told:
        """The same as `call`, for a call that the vault answers."""
        return cast(Told, self.call(call.name, *given))

    async def ask_meanwhile(self, call: VaultCall[Told], *given: Any) -> Told:
        """The same as `ask`, for calls with short answers: the event loop's thread does other work while waiting."""
        data = encoded(given, self._tables) if given else NOTHING_GIVEN
        with self._whole():
            self._send(call.name, data)
            await _readable(self._vault)
            reply = receive_answer(self._frames)
        return cast(Told, self._outcome(reply))

    def dialogue(self, name: str, *given: Any) -> Generator[Any, Any, Any]:
        """Make a call to which the vault answers with releases, each of which requests the next step, and finally with its
        outcome, which is returned. If a step cannot be sent, it fails in the vault."""
        writer = MessageWriter(self._tables)
        reply = self._exchanged(name, writer.encoded(given))
        while isinstance(reply, ReleasedStep):
            step = yield reply.value
            try:
                data = writer.encoded(step)
            except (TypeError, ValueError, RecursionError):
                data = encoded(STEP_FAILED, self._tables)
            reply = self._exchanged("step", data)
        return self._outcome(reply)

    def take(self, version: str) -> None:
        """Store a version. The same object is kept for an equal version, as many keys of answers refer to it."""
        if version != self.version:
            self.version = version

    def close(self) -> None:
        self._vault.close()

    def _asked(self, name: str, values: Any) -> Made | ReleasedStep | LoginMessage | Fault:
        return self._exchanged(name, encoded(values, self._tables))

    def _exchanged(self, name: str, data: bytes) -> Made | ReleasedStep | LoginMessage | Fault:
        with self._whole():
            self._send(name, data)
            return receive_answer(self._frames)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """A context of one exchange. Given up, it ends the channel, as its answer would be taken for that of the next one."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _send(self, name: str, data: bytes) -> None:
        """Raises OperationalError if the vault has gone."""
        self.asked += 1
        self._number += name in CALLS and CALLS[name].statement
        try:
            self._frames.send(name.encode() + b"\n" + data)
        except OSError:
            raise gone() from None

    @staticmethod
    def _outcome(reply: Made | ReleasedStep | LoginMessage | Fault) -> Any:
        if isinstance(reply, Fault):
            raise raised(reply)
        return reply.value if isinstance(reply, Made) else None


async def _readable(sock: socket.socket) -> None:
    """Returns when something can be read, or the other side has gone."""
    loop, handle = asyncio.get_running_loop(), sock.fileno()  # a socket would be written out at each look-up
    there = loop.create_future()
    loop.add_reader(handle, lambda: None if there.done() else there.set_result(None))
    try:
        await there
    finally:
        loop.remove_reader(handle)


class RemoteKernel:
    """See `kernel.run.Kernel`. The account, the limits and the noise are the vault's. Outcomes leave there after `pace` seconds,
    or later."""

    pace = 0.0
    cause = REQUEST  # for which the statement is interrupted

    def __init__(self, channel: VaultChannel, told: Callable[[Spent], object]) -> None:
        """`told` is called with what is spent when a statement is over."""
        self._channel, self._told = channel, told
        self._versions: dict[tuple[str, ...], str] = {}  # the version of all data, and the names of tables, with their version

    @property
    def version(self) -> str:
        return self._channel.version

    def version_of(self, tables: Iterable[Table]) -> str:
        names = tuple(sorted({table.name for table in tables}))
        if (self.version, *names) not in self._versions:
            self._versions = {(self.version, *names): self._channel.ask(VERSION_OF, names)} | {
                key: found for key, found in self._versions.items() if key[0] == self.version}
        return self._versions[self.version, *names]

    def check(self) -> None:
        """Does nothing: the vault checks the user and the files itself, at each call that needs it (`VaultCall`)."""

    def check_now(self) -> None:
        """Raises OperationalError if the account no longer has a user, or if files of the database have changed."""
        self._channel.take(self._channel.ask(CHECK))

    async def check_meanwhile(self) -> None:
        """The same on the thread of the event loop."""
        self._channel.take(await self._channel.ask_meanwhile(CHECK))

    def interrupt(self) -> None:
        self._channel.interrupt(self.cause)

    def give_up_turn(self) -> None:
        """Stop a statement that is not charged yet."""
        self._channel.interrupt(LEFT, if_free=True)

    def close(self) -> None:
        self._channel.close()

    def run(self, script: Generator[Any, Any, Any], *, cost: Cost, account: Account, limits: Mapping[str | None, Limit],
            digest: str, sql: str, encode: Callable[[Any], str | InParts], views: Sequence[Node] = (),
            unless_stored: bool = False, in_periods: Mapping[str | None, Limit] | None = None, in_any: WindowLimits | None = None,
            data: str | None = None) -> Any:
        """Run a script here, while the vault answers its requests. `account` and the limits are ignored, as the vault knows
        them."""
        step, made = _stepped(lambda: next(script), encode)
        replies = self._channel.dialogue(RUN.name, cost, digest, sql, tuple(views), step, self.pace, unless_stored, data)
        begun = False
        try:
            while True:
                released = replies.send(step) if begun else next(replies)
                step, made = _stepped(functools.partial(script.send, released), encode, begun=True)
                begun = True
        except StopIteration as over:
            ran: Ran = over.value
            self._channel.take(ran.version)
            if ran.spent is not None:
                self._told(ran.spent)
            return made
        except AnsweredBefore as found:
            if data is None:
                self._channel.take(found.data)
            raise
        finally:
            script.close()

    def compare(self, asked: Comparisons, *, model: str, account: Account, sql: str) -> ComparisonResult | None:
        return self._channel.ask(COMPARE, asked, model, sql, self.pace)

    def hold(self, name: str, identity: str, columns: Mapping[str, tuple[str, Sequence[Any]]]) -> None:
        """Store released rows in the vault, which identifies them by their contents."""
        self._versions = {}
        self._channel.ask(HOLD, name, tuple(
            (column, _carried(kind), tuple(values)) for column, (kind, values) in columns.items()))

    def public_rows(self, relation: Node) -> list[tuple[Any, ...]]:
        return self._channel.ask(PUBLIC_ROWS, relation)

    def fanout(self, relation: Node, columns: tuple[str, ...]) -> int:
        return self._channel.ask(FANOUT, relation, tuple(columns))


def _carried(kind: str) -> str:
    """The type in which the vault takes values of a type of SQL."""
    carried = carried_as(kind)
    return kind if carried is None else carried[0].value


def _stepped(step: Callable[[], Any], encode: Callable[[Any], str | InParts], *,
             begun: bool = False) -> tuple[tuple[Any, ...], Any]:
    """The next step of a script, as it is sent, and its answer if it is the last one.

    An interruption, or another errors.Error, is raised before the first request, when nothing is charged; afterwards the vault is
    told.
    """
    try:
        try:
            return ("asked", step()), None
        except StopIteration as done:
            text = encode(done.value)
            return ("made", *text) if isinstance(text, InParts) else ("made", text), done.value
    except Exception as fault:
        if isinstance(fault, Error) and not begun:
            raise
        return STEP_STOPPED if is_to_stop() else STEP_FAILED, None
    except BaseException as fault:
        if not begun:
            raise
        return ("interrupted",) if isinstance(fault, KeyboardInterrupt) else STEP_FAILED, None


def _stated(data: str) -> str | None:
    """What identifies data, as it is sent; None for the version of all data, of which the vault knows the present one."""
    return data if data.startswith((START, TABLES)) else None


class RemoteLedger:
    """See `kernel.ledger.Ledger`: what an analyst may know of it. All of it is of the channel's account, whichever is named."""

    def __init__(self, channel: VaultChannel, role: str) -> None:
        """`role` is that of the user at the login; the vault looks it up at each call."""
        self._channel, self.role = channel, role
        self._spent: tuple[int, Spent] | None = None  # as of which question
        self._fresh = False  # it was told by the statement that has just ended

    def close(self) -> None:
        self._channel.close()

    def stored(self, account: Account, digest: str, data: str) -> str | None:
        version, found = self._channel.ask(STORED, digest, _stated(data))
        self._channel.take(version)
        return found

    def bodies_to(self, account: Account, sql: str) -> dict[tuple[str, str], str]:
        """None: here each stored answer is asked for by itself."""
        return {}

    def answered(self, account: Account, digest: str, data: str) -> tuple[int, str | None] | None:
        return self._channel.ask(ANSWERED, digest, _stated(data))

    def answers(self, digest: str) -> list[str]:
        return self._channel.ask(ANSWERS, digest)

    def holding(self, account: Account, data: str, mark: str) -> list[KeptAnswer]:
        return self._channel.ask(HOLDING, mark)

    def part(self, account: Account, digest: str) -> str:
        return self._channel.ask(PART, digest)

    def tell(self, account: Account, digest: str, data: str, sql: str) -> str | None:
        version, found = self._channel.ask(TELL, digest, sql, _stated(data))
        self._channel.take(version)
        return found

    def tell_of(self, account: Account, charges: Sequence[int], data: str, sql: str) -> None:
        self._channel.ask(TELL_OF, tuple(charges), sql, _stated(data))

    def is_told(self, budget: str, digest: str, data: str) -> bool:
        return self._channel.ask(IS_TOLD, digest, _stated(data))

    def of_others(self, account: Account, data: str, mark: str) -> list[SharedAnswer]:
        return self._channel.ask(OF_OTHERS, mark)

    def of_another(self, account: Account, digest: str, data: str) -> SharedAnswer | None:
        return self._channel.ask(OF_ANOTHER, digest, _stated(data))

    def texts(self, account: Account, word: str, most: int, *, of_others: bool = False) -> list[str]:
        return self._channel.ask(TEXTS, word, most, of_others)

    def entries(self, budget: str, analyst: str | None = None) -> list[Entry]:
        """Entries without their answers: the body only says that there is one."""
        return self._channel.ask(ENTRIES)

    def told_entries(self, account: Account, most: int) -> list[Entry]:
        return self._channel.ask(TOLD_ENTRIES, most)

    def spent(self, budget: str, analyst: str | None = None) -> Charge:
        told = self._told()
        return told.all if analyst is None else told.own

    def prices(self, budget: str) -> tuple[tuple[int | None, int], ...]:
        return self._channel.ask(PRICES)

    def last(self, account: Account) -> Charge | None:
        return self._told().last

    def spent_before(self, account: Account, day: str) -> Charge:
        return self._channel.ask(SPENT_BEFORE, day)

    def spent_in_periods(self, budget: str, analyst: str | None = None) -> ChargesByPeriod:
        runs = self._channel.ask(SPENT_IN_PERIODS, analyst is None)
        return ChargesByPeriod(runs)

    def spent_in_windows(self, budget: str, analyst: str | None, periods: int) -> ChargesByPeriod:
        runs = self._channel.ask(SPENT_IN_WINDOWS, analyst is None)  # of as many periods as the policy says
        return ChargesByPeriod(runs)

    def time_state(self) -> TimeState:
        return self._channel.ask(TIME_STATE)

    def standing_notes(self, budget: str) -> list[RecordedNote]:
        return self._channel.ask(STANDING_NOTES)

    def answers_to(self, account: Account, sql: str) -> list[PaidAnswer]:
        return self._channel.ask(ANSWERS_TO, sql)

    def tell_answers_to(self, account: Account, analyst: str, sql: str) -> None:
        self._channel.ask(TELL_ANSWERS_TO, analyst, sql)

    @property
    def waits(self) -> float:
        """The seconds by which the next outcome is delayed because many outcomes of the account were late; 0 if they were not."""
        return self._told().waits

    def failed(self, account: Account) -> list[int]:
        return self._channel.ask(FAILED)

    def refresh(self) -> None:
        """Update the amounts spent. No call is made if the end of a statement has just reported them and no call followed. This
        holds for one refresh only, as others may spend while the client waits."""
        if self._spent is None or self._spent[0] != self._channel.asked or not self._fresh:
            self._keep(self._channel.ask(REFRESH))
        self._fresh = False

    def _told(self) -> Spent:
        """What was spent: as it was told before, where nothing was asked since that might have changed it."""
        if self._spent is None or self._spent[0] != self._channel.asked:
            return self._keep(self._channel.ask(SPENT))
        return self._spent[1]

    def told_at_end(self, told: Spent) -> None:
        """Store the amounts that the end of a statement reported; the next `refresh` then makes no call."""
        self._keep(told)
        self._fresh = True

    def _keep(self, told: Spent) -> Spent:
        self._spent, self._fresh = (self._channel.asked, told), False
        return told

    def everything(self) -> list[Entry]:
        """All charges under this budget, by all analysts, without answers. Raises OperationalError for a role that may not see
        them."""
        return self._channel.ask(EVERYTHING)

    def accounts(self) -> list[AccountState]:
        """The accounts of this budget. Raises as `everything` does."""
        return self._channel.ask(ACCOUNTS)

    def listed(self, analyst: str, text: str, outcome: str, since: str, until: str, before: int, most: int) -> ListedStatements:
        """A page of `everything`; see `vault.overseeing.listed`. This and the following raise as `everything` does."""
        return self._channel.ask(LISTED, analyst, text, outcome, since, until, before, most)

    def failures(self, budget: str = "") -> list[Failure]:
        return self._channel.ask(FAILURES)

    def stopped_statements(self) -> list[StoppedStatements]:
        return self._channel.ask(STOPS)

    def late_outcomes(self) -> list[LateOutcomes]:
        return self._channel.ask(LATE)

    def users(self) -> tuple[UserState, ...]:
        return self._channel.ask(USERS)

    def vault_state(self) -> VaultState:
        return self._channel.ask(STATE)

    def checks(self) -> tuple[CheckOutcome, ...]:
        return self._channel.ask(CHECKS)

    def add_user(self, name: str) -> AddedUser:
        """Add an analyst of this budget. Raises OperationalError for all but owners, as the next one does, and OptionError."""
        return self._channel.ask(ADD_USER, name)

    def set_closed(self, name: str, *, closed: bool) -> None:
        """Close an account, or reopen it."""
        self._channel.ask(CLOSE_USER if closed else REOPEN_USER, name)

    @contextlib.contextmanager
    def naming(self, account: Account, name: str) -> Iterator[None]:
        self._channel.ask(ENTER, name)
        try:
            yield
        finally:
            self._channel.ask(LEAVE, name)


def open_remote_session(channel: VaultChannel, opening: ToldAccount) -> Session:
    """The session of an account in the vault, in the form that `engine` uses."""
    ledger = RemoteLedger(channel, opening.role)
    return Session(catalog=opening.catalog, budget=opening.budget, analyst=opening.analyst,
                   kernel=cast(Kernel, RemoteKernel(channel, ledger.told_at_end)), ledger=cast(ReportingLedger, ledger),
                   scratch=DuckScratch(), price=opening.price, confidence=opening.confidence, policy=opening.policy,
                   notes=opening.notes)
