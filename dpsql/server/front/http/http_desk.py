"""What requests over HTTP share: logins, sessions, threads, and the limits, which are those of the wire.

All but the work that `ask` hands to threads is done on the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from dpsql.dbapi import Connection
from dpsql.errors import Error, OperationalError
from dpsql.server.front.http.http_errors import HttpRefusal, limited, not_logged_in, refused, told_over_http
from dpsql.server.front.http.http_sessions import HttpSession, HttpSessions
from dpsql.server.front.http.sign_ons_begun import SignOnsBegun
from dpsql.server.front.statements.doors import Say
from dpsql.server.front.statements.leaving_times import stopped_for
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire.login_delays import FailedLogins, network
from dpsql.server.front.wire.server_limits import AccountUse, ServerLimits
from dpsql.server.front.wire.steady_answers import at_a_multiple
from dpsql.server.link.login_messages import PLAIN, FirstProof, NotProven, library
from dpsql.server.link.vault_calls import LEFT, REQUEST, SERVER
from dpsql.trusted.declarations import names

LOG = logging.getLogger("dpsql.server")
ENDING = ("user", "closed")  # codes of errors after which a session is of no use
SWEEP = 5.0  # seconds between two looks for sessions that are over

Made = TypeVar("Made")


class ConnectionDoor(Protocol):
    """Runs in threads."""

    def connect(self, name: str, database: str, first: FirstProof, say: Say) -> Connection:
        """The connection of a user who has proven to know the password. Raises NotProven and errors.Error."""

    def begin_sign_on(self) -> tuple[str, str]:
        """The provider's address for a sign-on, and the state that the browser brings back. Raises errors.Error."""

    def sign_on(self, code: str, state: str) -> Connection:
        """The connection of a person who has signed on. Raises NotProven and errors.Error."""


class HttpDesk:
    """The sessions of analysts, and what they may use."""

    def __init__(self, *, door: ConnectionDoor, limits: ServerLimits, use: AccountUse, failed: FailedLogins,
                 policy: str, sign_on_scheme: str | None = None) -> None:
        """`policy` is what the policy is called. `sign_on_scheme` is that of the address to which people who sign on come back;
        None without single sign-on."""
        self.limits, self.use, self.policy = limits, use, policy
        self.signs_on, self.signs_on_by_https = sign_on_scheme is not None, sign_on_scheme == "https"
        self._sign_ons = SignOnsBegun(limits.sign_ons_a_minute)
        self.sessions = HttpSessions(limits)
        self._door, self._failed, self._at_once = door, failed, AccountUse(limits)  # of logins by HTTP alone
        self._pool = ThreadPoolExecutor(max_workers=limits.connections, thread_name_prefix="http")  # each may wait for a turn
        self._at_door = ThreadPoolExecutor(max_workers=limits.connections, thread_name_prefix="http-login")  # wait for the vault

    async def run(self, work: Callable[[], Made]) -> Made:
        """The result of work that another thread does."""
        async with at_a_multiple(self.limits.pace_seconds):
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    # -- sessions

    async def log_in(self, name: str, password: str, address: str) -> tuple[str, HttpSession]:
        """A new session and its token. Raises HttpRefusal, with the same message for an unknown name and a wrong password."""
        with _limits(), self._at_once.unproven(network(address)):
            connection = await self._connected(address, lambda: connected(self._door, names.normal(name), password))
        return await self._begun(connection)

    async def begin_sign_on(self, address: str) -> tuple[str, str]:
        """The provider's address for a sign-on, and the state that the browser brings back. Raises HttpRefusal."""
        with _limits(), self._at_once.unproven(network(address)):
            self._sign_ons.begin(network(address), time.monotonic())
            return await self._at_the_door(self._door.begin_sign_on)

    async def sign_on(self, code: str, state: str, address: str) -> tuple[str, HttpSession]:
        """A new session of a person who has signed on, and its token. Raises HttpRefusal."""
        with _limits(), self._at_once.unproven(network(address)):
            connection = await self._connected(address, lambda: self._door.sign_on(code, state))
        return await self._begun(connection)

    async def _begun(self, connection: Connection) -> tuple[str, HttpSession]:
        """A session on a connection, and its token. Raises HttpRefusal."""
        counted, kept = contextlib.ExitStack(), False
        try:
            with _limits():
                counted.enter_context(self.use.connected(connection.session.analyst))
            if len(self.sessions) >= self.limits.connections:
                raise limited(RefusedOnWire("there are too many sessions", sqlstate="53300"))
            now, kept = time.monotonic(), True
            token = self.sessions.begin(connection.session.analyst, connection, now, counted.close)
        finally:
            if not kept:
                counted.close()
                await asyncio.shield(self.run(connection.close))
        found = self.sessions.find(token, now)
        assert found is not None
        return token, found

    async def _connected(self, address: str, proven: Callable[[], Connection]) -> Connection:
        try:
            async with self._failed.attempt(address):
                return await self._at_the_door(proven)
        except NotProven:
            LOG.warning("a login from %s failed", address)
            raise refused(401, "login", "the name or the password is wrong", kind="OperationalError", sqlstate="28P01") from None

    async def _at_the_door(self, work: Callable[[], Made]) -> Made:
        """The result of work that may wait for the vault. Raises HttpRefusal and NotProven."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._at_door, work)
        except Error as fault:
            raise told_over_http(fault, "") from None

    async def end(self, session: HttpSession) -> None:
        """End a session and interrupt its running statement."""
        if not self.sessions.take(session):
            return
        try:
            await asyncio.shield(self.run(lambda: _closed(session.connection)))
        finally:
            session.left()

    async def sweep(self) -> None:
        """End expired sessions, in an endless loop."""
        while True:
            await asyncio.sleep(min(SWEEP, self.limits.session_idle_seconds))
            for session in self.sessions.over(time.monotonic()):
                await self.end(session)

    async def close(self) -> None:
        """End all sessions and interrupt their running statements."""
        await asyncio.gather(*map(self.end, self.sessions.all()), return_exceptions=True)
        for pool in (self._pool, self._at_door):
            pool.shutdown(wait=False, cancel_futures=True)

    # -- statements

    async def ask(self, session: HttpSession, text: str, work: Callable[[Connection], Made],
                  gone: Callable[[], Awaitable[str | None]] | None = None, *, executes: bool = True) -> Made:
        """Do work on the connection of a session when its turn comes, and return the result. `gone` returns when the client has
        left, or the cause for which the statement is to stop; a running one is then interrupted. `executes` says whether the work
        counts as a statement. Raises HttpRefusal; errors refer to a statement with this text."""
        if len(text.encode()) > self.limits.text_bytes:
            raise refused(413, "too-large", f"a statement can have at most {self.limits.text_bytes} bytes", sqlstate="54000")
        counted = self.use.asking if executes else self.use.describing
        with _limits(), counted(session.name, len(text), time.monotonic()):
            async with self._turn(session):
                return await self._worked(session, text, work, gone)

    @contextlib.asynccontextmanager
    async def _turn(self, session: HttpSession) -> AsyncIterator[None]:
        """A context in which nothing else runs on the connection. Raises HttpRefusal if others take too long."""
        busy = refused(409, "busy", "another statement of this session is running", try_="POST /api/cancel, or another session",
                       kind="OperationalError", sqlstate="55006")
        session.waiting += 1
        try:
            async with asyncio.timeout(self.limits.turn_seconds):
                await session.turn.acquire()
        except TimeoutError:
            raise busy from None
        finally:
            session.waiting -= 1
        session.used, session.working, session.cancelled = time.monotonic(), True, False
        try:
            yield
        finally:
            session.used, session.working = time.monotonic(), False
            session.turn.release()

    async def _worked(self, session: HttpSession, text: str, work: Callable[[Connection], Made],
                      gone: Callable[[], Awaitable[str | None]] | None) -> Made:
        watching = None if gone is None else asyncio.ensure_future(gone())
        await asyncio.sleep(0)  # then it is known whether the client has left while it waited
        session.cancelled |= watching is not None and watching.done()
        running = asyncio.ensure_future(self.run(lambda: _unless_cancelled(session, work)))
        running.add_done_callback(lambda done: None if done.cancelled() else done.exception())  # which is told, or of no interest
        fault: Error | None = None
        try:
            if watching is not None:
                await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
                if not running.done():
                    self.cancel(session, watching.result() or LEFT)
            return await asyncio.shield(running)
        except asyncio.CancelledError:  # the server stops, and cannot wait any longer
            self.cancel(session, SERVER)
            raise
        except Error as caught:
            fault = caught
        finally:
            if watching is not None:
                watching.cancel()
        if fault.code in ENDING:
            raise await self._ended(session, fault)
        raise told_over_http(fault, text)

    async def _ended(self, session: HttpSession, fault: Error) -> HttpRefusal:
        await asyncio.shield(self.end(session))
        return not_logged_in(fault.code, fault.reason)

    def cancel(self, session: HttpSession, cause: str = REQUEST) -> bool:
        """Interrupt the running statement and return whether there is one. The ledger records the cause."""
        if session.working:
            session.cancelled = True
            stopped_for(session.connection.session, cause)
            session.interruption.begin(session.connection.interrupting())
        return session.working


def connected(door: ConnectionDoor, name: str, password: str) -> Connection:
    """The connection of a user. Here the server acts as the client in the exchange in which the vault checks the password, so the
    password goes no further. Raises NotProven and errors.Error."""
    scramp = library()
    try:
        client = scramp.ScramClient([PLAIN], "user", password)  # the vault ignores this name
        first = client.get_client_first().encode()
        steps = iter((lambda told: _final(client, told), lambda told: _checked(client, told)))
        return door.connect(name, name, FirstProof(mechanism=PLAIN, message=first, bound=False), lambda told: next(steps)(told))
    except (scramp.ScramException, UnicodeError):
        raise NotProven from None


def _final(client: object, challenge: bytes) -> bytes:
    client.set_server_first(challenge.decode())  # type: ignore[attr-defined]
    return str(client.get_client_final()).encode()  # type: ignore[attr-defined]


def _checked(client: object, last: bytes) -> bytes:
    client.set_server_final(last.decode())  # type: ignore[attr-defined]
    return b""


def _unless_cancelled(session: HttpSession, work: Callable[[Connection], Made]) -> Made:
    """Raises OperationalError if a statement was cancelled before a thread came to it."""
    if session.cancelled:
        raise OperationalError("the statement was interrupted before anything was charged", code="interrupted", try_="it again")
    return work(session.connection)


def _closed(connection: Connection) -> None:
    _quietly(connection.interrupt)
    _quietly(connection.close)


def _quietly(work: Callable[[], None]) -> None:
    with contextlib.suppress(Error, OSError):
        work()


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Limits of the server as errors of HTTP."""
    try:
        yield
    except RefusedOnWire as refusal:
        raise limited(refusal) from None
