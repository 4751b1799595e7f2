"""What passes between the front process and the vault, on one channel for each analyst's connection.

Frames are a length and bytes. The front's are a name and plain values (`plain_values`); the vault's answers are pickled, as the
front believes the vault, and never the other way round. Faults cross as the name of a known class and its constant fields.
"""

from __future__ import annotations

import logging
import pickle
import socket
import struct
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Generic, TypeVar

from dpsql import errors
from dpsql.catalog.model import LONGEST_PACE, Budget, Catalog
from dpsql.catalog.price import Price
from dpsql.errors import Error, OperationalError
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import Entry, Failure, KeptAnswer, PaidAnswer, RecordedNote, SharedAnswer
from dpsql.server.link.told_to_overseers import (
    AddedUser,
    CheckOutcome,
    LateOutcomes,
    ListedStatements,
    StoppedStatements,
    UserState,
    VaultState,
    is_moment,
    is_outcome,
    is_place,
    is_size_of_page,
)
from dpsql.trusted.accounting.cost import Charge, Cost
from dpsql.trusted.kernel.claims import Disagreement
from dpsql.trusted.kernel.data_versions import TABLES
from dpsql.trusted.kernel.ledger import Busy, Closed, Refused
from dpsql.trusted.kernel.marks import MARKS
from dpsql.trusted.kernel.model_progress import SERIES
from dpsql.trusted.kernel.period_reads import START
from dpsql.trusted.kernel.period_runs import ChargedRuns
from dpsql.trusted.kernel.revisions import TimeState
from dpsql.trusted.kernel.run import AnsweredBefore
from dpsql.trusted.measurements.online_comparisons import ComparisonResult
from dpsql.trusted.plan.certificate import Unbounded
from dpsql.trusted.plan.node import InvalidPlan, Node

Told = TypeVar("Told")
LOG = logging.getLogger("dpsql.server")
LENGTH = struct.Struct(">Q")
MOST_ASKED = 200  # bytes of a message on the control socket
CAUSES = REQUEST, TIMEOUT, LEFT, SERVER = "request", "time limit", "client left", "server stopped"
"""Why a statement is stopped: its analyst cancels it, it exceeds a time limit, its client has left, or the server ends."""
WITHHELD = "answered"  # in place of an answer that is not told
PIECE = 2**20  # bytes that are read at a time, so that nobody fills memory by announcing a length
AHEAD = 2**14  # bytes that are read at least, if they are there: most frames come in one piece


class ToldAccount(Frozen):
    """What the front is told of the account that a channel is bound to: the declarations, and never a secret of the ledger."""

    catalog: Catalog
    budget: Budget
    analyst: str
    price: Price | None
    confidence: Fraction
    policy: str
    notes: tuple[str, ...]
    version: str
    role: str


class AccountState(Frozen):
    """What was charged to an account of a budget, of which `total` is the limit: None where there is none of its own. The analyst
    is None for the whole budget. Of `incidents` statements that may fail, `failed` did. The next outcome `waits` for so many
    seconds if other statements run; it may wait less if none does, see `departure`."""

    analyst: str | None
    statements: int
    spent: Charge
    total: Price | None
    failed: int = 0
    incidents: int = 0
    waits: float = 0.0


class Spent(Frozen):
    """What was spent of the account's budget in all, and by the account, and its last charge; see `kernel.ledger.Ledger`. Its
    next outcome `waits` for so many seconds, as many were late; 0 where they were not."""

    all: Charge
    own: Charge
    last: Charge | None
    waits: float


class Ran(Frozen):
    """What is told when the answer of a statement is stored: the version of the content that it is about, and what is spent;
    None if that cannot be told, as the answer is paid for."""

    version: str
    spent: Spent | None


class Made(Frozen, kw_only=False):
    """The outcome of a call."""

    value: Any


class ReleasedStep(Frozen, kw_only=False):
    """What was released for a request of a script, which goes on."""

    value: Any


class LoginMessage(Frozen, kw_only=False):
    """A message of the one who checks a login; the client has not answered yet."""

    message: bytes


class Fault(Frozen, kw_only=False):
    """A fault, by the name of its class."""

    kind: str
    fields: tuple[Any, ...] = ()


# -- calls

MOST_HELD = 4096  # tables of released rows that a channel brings
MOST_TEXT = 2**20  # characters of a statement
MOST_NAME = 1000  # of a name, or of what identifies a statement
MOST_COST = 10**40  # of epsilon, of rho and of delta: far beyond every limit, and no number that would take long


class VaultCall(Frozen, Generic[Told], kw_only=False):
    """A call of the front, and the type of what it returns. The `ServedAccount` of the vault answers it by
    the method of this name, after an underscore.

    fields     whether a value may be given, for each value; the last ones may be left out where the method has defaults
    statement  private rows are read: both sides number these, they may be interrupted, and their outcome leaves at a step
    checked    before it the vault looks whether the files of the database are those that were opened: each statement makes one of
               these first, and what is read afterwards is used only if they still are
    exact      public tables are read, and nothing else; the front says which of their columns it reads
    oversees   it returns what others asked and spent, or the state of the server
    governs    it changes who may connect
    shares     it tells answers of others, where the budget has its analysts share them
    between    it is answered while a script runs
    """

    name: str
    fields: tuple[Callable[[Any], bool], ...] = ()
    statement: bool = False
    checked: bool = False
    exact: bool = False
    oversees: bool = False
    governs: bool = False
    shares: bool = False
    between: bool = True

    def read(self, given: Any) -> tuple[Any, ...]:
        """The arguments in a message. Raises ValueError if they do not fit this call."""
        if type(given) is not tuple or len(given) > len(self.fields) or not all(
                allowed(value) for allowed, value in zip(self.fields, given, strict=False)):
            raise ValueError("these are no values for this call")
        return given


def is_anything(value: Any) -> bool:
    """Accepts any value: the method or the kernel checks it."""
    return True


def is_short(value: Any) -> bool:
    return type(value) is str and len(value) <= MOST_NAME and "\0" not in value


def is_statement(value: Any) -> bool:
    """Whether a value may identify a statement. Charges of comparisons carry secret noise, so their names are excluded."""
    return is_short(value) and not value.startswith(SERIES)


def is_data(value: Any) -> bool:
    """Whether a value states the periods or the versions of tables that a statement reads, or nothing: then it is the version of
    all data."""
    return value is None or (is_short(value) and value.startswith((START, TABLES)))


def is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= MOST_TEXT


def are_texts(value: Any) -> bool:
    return type(value) is tuple and all(type(each) is str for each in value)


def is_tuple(value: Any) -> bool:
    return type(value) is tuple


def is_flag(value: Any) -> bool:
    return type(value) is bool


def are_charges(value: Any) -> bool:
    """Whether a value is a tuple of numbers of charges."""
    return type(value) is tuple and len(value) <= MOST_HELD and all(type(each) is int and 0 < each < 2**63 for each in value)


def is_relation(value: Any) -> bool:
    return isinstance(value, Node)


def is_mark(value: Any) -> bool:
    return type(value) is str and value in MARKS.values()


def is_number_of_texts(value: Any) -> bool:
    return type(value) is int and 0 < value <= MOST_HELD


def is_time(value: Any) -> bool:
    """Whether a value is a time in seconds after which an outcome may leave."""
    return type(value) is float and 0 <= value <= LONGEST_PACE


def is_cost(value: Any) -> bool:
    """Whether a value is an exact cost; only its epsilon may be None."""
    return type(value) is Cost and (value.epsilon is None or _is_amount(value.epsilon)) and (
        _is_amount(value.rho) and _is_amount(value.delta))


def _is_amount(value: Any) -> bool:
    return type(value) is Fraction and 0 <= value <= MOST_COST


CHECK: VaultCall[str] = VaultCall("check", checked=True)
VERSION_OF: VaultCall[str] = VaultCall("version_of", (are_texts,), checked=True)
PUBLIC_ROWS: VaultCall[list[tuple[Any, ...]]] = VaultCall("public_rows", (is_anything,), exact=True)
FANOUT: VaultCall[int] = VaultCall("fanout", (is_relation, are_texts), exact=True)
HOLD: VaultCall[None] = VaultCall("hold", (is_anything, is_anything), between=False)
RUN: VaultCall[Ran] = VaultCall("run", (is_cost, is_short, is_text, is_tuple, is_anything, is_time, is_flag, is_data),
                                statement=True, checked=True, between=False)
COMPARE: VaultCall[ComparisonResult | None] = VaultCall("compare", (is_anything, is_short, is_text, is_time), statement=True,
                                                        between=False)
STORED: VaultCall[tuple[str, str | None]] = VaultCall("stored", (is_statement, is_data), checked=True)
ANSWERED: VaultCall[tuple[int, str | None] | None] = VaultCall("answered", (is_statement, is_data), checked=True)
ANSWERS: VaultCall[list[str]] = VaultCall("answers", (is_short,), checked=True)
HOLDING: VaultCall[list[KeptAnswer]] = VaultCall("holding", (is_mark,), checked=True)
PART: VaultCall[str] = VaultCall("part", (is_short,))
IS_TOLD: VaultCall[bool] = VaultCall("is_told", (is_statement, is_data), checked=True)
TELL: VaultCall[tuple[str, str | None]] = VaultCall("tell", (is_statement, is_text, is_data), checked=True, shares=True)
TELL_OF: VaultCall[None] = VaultCall("tell_of", (are_charges, is_text, is_data), checked=True, shares=True)
OF_OTHERS: VaultCall[list[SharedAnswer]] = VaultCall("of_others", (is_mark,), checked=True)
OF_ANOTHER: VaultCall[SharedAnswer | None] = VaultCall("of_another", (is_statement, is_data), checked=True)
TEXTS: VaultCall[list[str]] = VaultCall("texts", (is_short, is_number_of_texts, is_flag))
ENTRIES: VaultCall[list[Entry]] = VaultCall("entries")
TOLD_ENTRIES: VaultCall[list[Entry]] = VaultCall("told_entries", (is_number_of_texts,), checked=True)
SPENT: VaultCall[Spent] = VaultCall("spent")
PRICES: VaultCall[tuple[tuple[int | None, int], ...]] = VaultCall("prices")
SPENT_BEFORE: VaultCall[Charge] = VaultCall("spent_before", (is_short,))
SPENT_IN_PERIODS: VaultCall[ChargedRuns] = VaultCall("spent_in_periods", (is_flag,))
SPENT_IN_WINDOWS: VaultCall[ChargedRuns] = VaultCall("spent_in_windows", (is_flag,))
TIME_STATE: VaultCall[TimeState] = VaultCall("time_state")
STANDING_NOTES: VaultCall[list[RecordedNote]] = VaultCall("standing_notes")
ANSWERS_TO: VaultCall[list[PaidAnswer]] = VaultCall("answers_to", (is_text,), checked=True)
TELL_ANSWERS_TO: VaultCall[None] = VaultCall("tell_answers_to", (is_short, is_text), checked=True, shares=True)
FAILED: VaultCall[list[int]] = VaultCall("failed")
REFRESH: VaultCall[Spent] = VaultCall("refresh")
ENTER: VaultCall[None] = VaultCall("enter", (is_short,))
LEAVE: VaultCall[None] = VaultCall("leave", (is_short,))
EVERYTHING: VaultCall[list[Entry]] = VaultCall("everything", oversees=True)
ACCOUNTS: VaultCall[list[AccountState]] = VaultCall("accounts", oversees=True)
LISTED: VaultCall[ListedStatements] = VaultCall(
    "listed", (is_short, is_short, is_outcome, is_moment, is_moment, is_place, is_size_of_page), oversees=True)
FAILURES: VaultCall[list[Failure]] = VaultCall("failures", oversees=True)
STOPS: VaultCall[list[StoppedStatements]] = VaultCall("stops", oversees=True)
LATE: VaultCall[list[LateOutcomes]] = VaultCall("late", oversees=True)
USERS: VaultCall[tuple[UserState, ...]] = VaultCall("users", oversees=True)
STATE: VaultCall[VaultState] = VaultCall("state", oversees=True)
CHECKS: VaultCall[tuple[CheckOutcome, ...]] = VaultCall("checks", oversees=True, between=False)
ADD_USER: VaultCall[AddedUser] = VaultCall("add_user", (is_short,), governs=True, between=False)
CLOSE_USER: VaultCall[None] = VaultCall("close_user", (is_short,), governs=True, between=False)
REOPEN_USER: VaultCall[None] = VaultCall("reopen_user", (is_short,), governs=True, between=False)
CALLS: Mapping[str, VaultCall[Any]] = {call.name: call for call in (
    CHECK, VERSION_OF, PUBLIC_ROWS, FANOUT, HOLD, RUN, COMPARE, STORED, ANSWERED, ANSWERS, HOLDING, PART, IS_TOLD, TELL,
    TELL_OF, OF_OTHERS, OF_ANOTHER, TEXTS, ENTRIES, TOLD_ENTRIES, SPENT, PRICES, SPENT_BEFORE, SPENT_IN_PERIODS,
    SPENT_IN_WINDOWS, TIME_STATE, STANDING_NOTES, ANSWERS_TO, TELL_ANSWERS_TO, FAILED, REFRESH, ENTER, LEAVE, EVERYTHING,
    ACCOUNTS, LISTED, FAILURES, STOPS, LATE, USERS, STATE, CHECKS, ADD_USER, CLOSE_USER, REOPEN_USER)}


def may_call(role: str, call: VaultCall[Any]) -> bool:
    """Whether a user of this role may make a call: analysts may spend, auditors may see what others asked and spent, and
    owners may do both and change who may connect."""
    return {"analyst": not (call.oversees or call.governs), "auditor": not (call.statement or call.shares or call.governs),
            "owner": True}[role]


# -- frames


class Frames:
    """Frames on a socket, which nobody else reads. For one thread at a time."""

    def __init__(self, end: socket.socket) -> None:
        self.socket, self._ahead = end, b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(LENGTH.pack(len(data)) + data)

    def receive(self, most: int | None = None) -> bytes | None:
        """The next frame; None if the other side has gone, or if it announces more than `most` bytes."""
        head = self._taken(LENGTH.size)
        if head is None:
            return None
        size, = LENGTH.unpack(head)
        return self._taken(size) if most is None or size <= most else None

    def _taken(self, size: int) -> bytes | None:
        """So many bytes; None if the other side goes before."""
        found = bytearray(self._ahead)
        while len(found) < size:
            piece = self.socket.recv(max(AHEAD, min(PIECE, size - len(found))))
            if not piece:
                return None
            found += piece
        self._ahead = bytes(memoryview(found)[size:])
        return bytes(memoryview(found)[:size])


def send_answer(to: Frames, answer: Made | ReleasedStep | LoginMessage | Fault) -> None:
    """Send an answer. For the vault only."""
    to.send(pickle.dumps(answer, protocol=5))


def receive_answer(vault: Frames) -> Made | ReleasedStep | LoginMessage | Fault:
    """Receive an answer. For the front only. Raises OperationalError if the vault has gone."""
    try:
        data = vault.receive()
    except OSError:
        data = None
    if data is None:
        raise gone()
    answer: Made | ReleasedStep | LoginMessage | Fault = pickle.loads(data)  # noqa: S301 - of the vault, which is trusted
    return answer


def gone() -> OperationalError:
    return OperationalError("the connection to the data was closed; what was charged stays charged", code="closed",
                            try_="connecting again")


# -- faults

KNOWN: Mapping[str, type[Error]] = {kind.__name__: kind for kind in vars(errors).values()
                                    if isinstance(kind, type) and issubclass(kind, Error)}
CONSTANT: Mapping[str, Callable[[], BaseException]] = {
    "Incident": errors.Incident, "Interrupted": errors.Interrupted, "SourceChanged": errors.SourceChanged,
    "Disagreement": Disagreement,
    "KeyboardInterrupt": KeyboardInterrupt}
SAID: frozenset[str] = frozenset({"login", "login-message", "login-busy", "user", "user-name", "sign-on", "role", "cancelled",
                                  "too-large", "naming", "data-changed", "promise-outdated"})
"""Codes of errors about files, users and the like whose words name nothing of the owner's machine."""
ABOUT: Mapping[type[Error], str] = {
    errors.LedgerError: "the ledger", errors.PolicyError: "the policy", errors.OptionError: "the policy",
    errors.IntegrityError: "the data", errors.OperationalError: "the data, or a file of the owner's,",
    errors.InterfaceError: "the server"}
"""Errors whose words may name files and machines, and what they are about; the first class counts."""
OTHER = Fault("Other")  # which says nothing: in the front it becomes a fault of dpsql itself


def fault_for_front(fault: BaseException) -> Fault:
    """A fault in the form that is sent to the front. For unlisted faults, it only says that there was one. For faults that may
    name a file or a machine of the owner, it only says what the fault is about, as analysts see it; the log has the rest."""
    name = type(fault).__name__
    match fault:
        case Refused():
            return Fault(name, (fault.analyst, fault.spent, fault.period, fault.periods))
        case Closed():
            return Fault(name, (fault.failed,))
        case Busy():
            return Fault(name, (fault.running,))
        case AnsweredBefore():
            return Fault(name, (fault.body, fault.data, fault.shared))
        case InvalidPlan() | Unbounded():
            return Fault("InvalidPlan", (str(fault),))
        case _ if name in CONSTANT and type(fault) in CONSTANT.values():
            return Fault(name)
        case Error() if KNOWN.get(name) is type(fault) and fault.code not in SAID and isinstance(fault, (*ABOUT,)):
            LOG.warning("an analyst was refused: %s", fault)
            about = next(words for kind, words in ABOUT.items() if isinstance(fault, kind))
            return Fault(name, (f"{about} cannot be used at present; the log of the server says why", fault.code,
                                "asking the owner of the data for help", None, "", "", "SQL"))
        case Error() if KNOWN.get(name) is type(fault):
            return Fault(name, (fault.reason, fault.code, fault.try_, fault.span, fault.subject, fault.text, fault.source))
    return OTHER


def raised(fault: Fault) -> BaseException:
    """The exception that the front raises for a fault."""
    match fault.kind, fault.fields:
        case "Refused", (analyst, Charge() as spent, period, periods):
            return Refused(analyst, spent, period, periods)
        case "Closed", (failed,):
            return Closed(failed)
        case "Busy", (int(running),):
            return Busy(running)
        case "AnsweredBefore", (str(body), str(data), bool(shared)):
            return AnsweredBefore(body, data, shared=shared)
        case "InvalidPlan", (str(text),):
            return InvalidPlan(text)
        case kind, () if kind in CONSTANT:
            return CONSTANT[kind]()
        case kind, (str(reason), code, try_, span, subject, text, source) if kind in KNOWN:
            return KNOWN[kind](reason, code=code, try_=try_, span=span, subject=subject, text=text, source=source)
    return RuntimeError("the vault could not do this")
