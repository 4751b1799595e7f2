"""What clients may use of a server: connections, time, sizes, statements; and the counts that are compared with these limits."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Iterator

from dpsql.frozen import Frozen
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire


class ServerLimits(Frozen):
    """Sizes are in bytes, times in seconds."""

    connections: int = 200
    connections_of_account: int = 20
    unproven_of_address: int = 20  # connections that have sent nothing yet; over HTTP, that asked nothing yet, and logins
    logins_of_address: int = 100  # connections of which the password is not proven yet; others find some free
    strangers_of_address: int = 100  # over HTTP: connections that have shown no session yet; others find some free
    sign_ons_a_minute: int = 300  # that an address begins over HTTP
    authentication_seconds: float = 30.0
    idle_seconds: float = 8 * 3600.0
    send_seconds: float = 120.0  # a client that does not read for so long is cut off
    left_seconds: float = 10.0  # what a statement gets to finish whose client has left: then its answer is kept
    stop_seconds: float = 30.0  # what statements that run get to finish when the server stops
    unproven_bytes: int = 16_384  # of one message before the password is proven
    message_bytes: int = 1_048_576
    text_bytes: int = 262_144  # of the text of one statement, or of one script
    statements_of_account: int = 4  # that are charged and run at once; others wait, free ones do not (`account_turns`)
    turn_seconds: float = 30.0  # how long they wait; over HTTP, also for the one before of the same session
    waiting_of_account: int = 100  # statements that wait or run
    waiting_bytes: int = 67_108_864  # of the texts and values of these statements
    statements_a_minute: int = 1_200  # of one account; and as many requests that execute none
    prepared: int = 500  # statements, and as many portals, of a connection
    held_bytes: int = 4_194_304  # of the texts of these statements and the parameters of these portals
    suspended_bytes: int = 67_108_864  # about, of the rows that wait in portals of an account, of which some were fetched
    json_bytes: int = 33_554_432  # over HTTP: of an answer in JSON
    pace_seconds: float = 0.0  # all answers leave at multiples of this (`steady_answers`); 0 for at once
    request_seconds: float = 20.0  # over HTTP: what a client takes to send the head of a request, or its body
    session_idle_seconds: float = 1800.0  # over HTTP
    session_seconds: float = 12 * 3600.0  # over HTTP, in all


class AccountUse:
    """Counts of connections and statements, by account and address. For one thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._connected: Counter[str] = Counter()
        self._unproven: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._suspended: Counter[str] = Counter()
        self._begun: dict[tuple[str, str], deque[float]] = {}

    @property
    def number_running(self) -> int:
        """How many statements of all accounts have no outcome yet."""
        return self._asked.total()

    def unproven(self, address: str) -> contextlib.AbstractContextManager[None]:
        """A context for a connection from an address, until its password is proven. Raises RefusedOnWire."""
        return _counted(self._unproven, address, self._limits.unproven_of_address, RefusedOnWire(
            "too many connections of this address are logging in", sqlstate="53300", severity="FATAL",
            hint="connect again in a moment, when others have logged in"))

    def connected(self, account: str) -> contextlib.AbstractContextManager[None]:
        """A context for a connection of an account. Raises RefusedOnWire."""
        return _counted(self._connected, account, self._limits.connections_of_account, RefusedOnWire(
            f"too many connections for role \"{account}\"", sqlstate="53300", severity="FATAL",
            hint=f"an account has {self._limits.connections_of_account} at most"))

    def suspended(self, account: str, size: int) -> contextlib.AbstractContextManager[None]:
        """A context for rows that an account fetches in portions; `size` is in bytes. Raises RefusedOnWire."""
        return _counted(self._suspended, account, self._limits.suspended_bytes, RefusedOnWire(
            "too many rows of this account wait to be fetched", sqlstate="53400", hint="fetch all of them at once, or close "
            "other portals; the answer is kept, and asking for it again costs nothing"), size)

    def asking(self, account: str, size: int, now: float) -> contextlib.AbstractContextManager[None]:
        """A context for a statement of an account, of so many bytes, which waits or runs. Raises RefusedOnWire."""
        return self._at_work("has {} statements a minute", account, size, now)

    def describing(self, account: str, size: int, now: float) -> contextlib.AbstractContextManager[None]:
        """The same for a request that executes no statement: one that describes or prepares it, or reads about the account. These
        are counted apart, as drivers prepare most statements before they execute them."""
        return self._at_work("can describe or prepare {} statements a minute", account, size, now)

    @contextlib.contextmanager
    def _at_work(self, rate: str, account: str, size: int, now: float) -> Iterator[None]:
        begun = self._begun.setdefault((rate, account), deque())
        while begun and now - begun[0] >= 60:
            begun.popleft()
        if len(begun) >= self._limits.statements_a_minute:
            raise RefusedOnWire(f"an account {rate.format(self._limits.statements_a_minute)}", sqlstate="53400",
                                hint="ask again in a minute; nothing was charged")
        begun.append(now)
        refusal = RefusedOnWire("too many statements of this account are waiting", sqlstate="53400",
                                hint="ask again when some of them are answered; nothing was charged")
        with (_counted(self._asked, account, self._limits.waiting_of_account, refusal),
              _counted(self._bytes, account, self._limits.waiting_bytes, refusal, size)):
            yield


@contextlib.contextmanager
def _counted(counts: Counter[str], key: str, most: int, refusal: RefusedOnWire, number: int = 1) -> Iterator[None]:
    if counts[key] + number > most:
        raise refusal
    counts[key] += number
    try:
        yield
    finally:
        counts[key] -= number
        if not counts[key]:
            del counts[key]
