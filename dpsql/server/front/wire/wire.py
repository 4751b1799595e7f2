"""One client: it logs in, and its messages are answered one after another until it leaves.

The wire runs on one thread and waits; the seat's work is done by other threads. A message is read when the one before is
answered, so a client that sends much and reads little holds what its system's buffers hold, and the limits of `packets`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import operator
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from pygwire import ConnectionPhase, TransactionStatus
from pygwire.messages import (
    AuthenticationOk,
    AuthenticationSASL,
    AuthenticationSASLContinue,
    AuthenticationSASLFinal,
    BackendKeyData,
    Bind,
    BindComplete,
    Close,
    CloseComplete,
    CommandComplete,
    CopyData,
    CopyDone,
    CopyFail,
    DataRow,
    Describe,
    EmptyQueryResponse,
    Execute,
    FieldDescription,
    Flush,
    FunctionCall,
    NoData,
    ParameterDescription,
    ParameterStatus,
    Parse,
    ParseComplete,
    PGMessage,
    PortalSuspended,
    Query,
    ReadyForQuery,
    RowDescription,
    SASLInitialResponse,
    SASLResponse,
    Sync,
    Terminate,
)

from dpsql.catalog import name_faults
from dpsql.frozen import Frozen
from dpsql.server.front.statements.doors import Door
from dpsql.server.front.statements.shown_answers import CELL
from dpsql.server.front.statements.transaction_status import (
    FAILED,
    IDLE,
    OPEN,
    deallocated,
    first_word,
    refuse_if_failed,
    step,
    word_of,
)
from dpsql.server.front.terms import types_on_wire
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Outcome, RefusedOnWire, Seat
from dpsql.server.front.wire import cursors
from dpsql.server.front.wire.cursors import CursorOnWire, DeclaredCursor, closed_cursor, cursor_move, declared_cursor, size_of
from dpsql.server.front.wire.held_statements import HeldStatements, PortalOnWire, PreparedOnWire, formats_of, same_columns
from dpsql.server.front.wire.login_delays import FailedLogins
from dpsql.server.front.wire.packets import ENCODED, Gone, clean, encoded_notices, error_of, notices_of, violated
from dpsql.server.front.wire.server_limits import AccountUse, ServerLimits
from dpsql.server.front.wire.startup import Startup
from dpsql.server.front.wire.steady_answers import at_a_multiple
from dpsql.server.link.login_messages import FirstProof, NotProven, mechanisms
from dpsql.trusted.declarations import names

LOG = logging.getLogger("dpsql.server")
_BATCH_ROWS, _BATCH_BYTES = 1000, 65_536  # of rows that are encoded before they are sent
_FEW = 100  # rows that are encoded at once, as another thread would take longer to begin
_AT_ONCE = 100  # statements of one message that are answered before others have their turn
_SHORT = 2_000  # characters of a text that is split at once, as another thread would take longer to begin
_EMPTY = Described(parameters=(), columns=None)

Made = TypeVar("Made")


class Serving(Protocol):
    """What a server is to one of its clients."""

    limits: ServerLimits
    use: AccountUse
    failed: FailedLogins
    door: Door
    certificate: str | None
    """In PEM, where clients can bind their proof to it."""
    needs_tls: bool

    async def run(self, work: Callable[[], Made]) -> Made:
        """The result of work that another thread does."""

    async def run_login(self, work: Callable[[], Made]) -> Made:
        """The same for a login, which waits for its client."""


class Client:
    """One client that wants to log in. `process` and `key` let it have its statement interrupted from another connection."""

    def __init__(self, startup: Startup, address: str, serving: Serving, proven: Callable[[], None]) -> None:
        """`proven` is called when the client has logged in."""
        self._startup, self._address, self._serving, self._at_login = startup, address, serving, proven
        self._packets = startup.packets
        self._limits = serving.limits
        self.process = secrets.randbelow(2**31 - 1) + 1
        self.key = secrets.token_bytes(32 if startup.minor >= 2 else 4)  # 3.0 has 4, so the process is random too
        self._held = HeldStatements(serving.limits)
        self._status = IDLE
        self._skipping = False  # after an error, until the next Sync
        self._seat: Seat | None = None
        self._name = ""  # of the account, when the client has logged in
        self._challenged = self._working = self._idle = self._stopping = False
        self._task = asyncio.current_task()

    # -- from other tasks

    def cancel(self) -> None:
        """Interrupt the running statement, if there is one. The statement may end by itself first; the next one is never
        affected."""
        if self._working and self._seat is not None:
            _quietly(self._seat.cancel)

    def stop(self) -> None:
        """Tell the client that the server is stopping: now, or when its statement is answered."""
        self._stopping = True
        if self._idle and self._task is not None:
            self._task.cancel()

    # -- the connection

    async def serve(self) -> None:
        """Serve the client from login to end. Only a cancellation of the task raises."""
        try:
            with contextlib.ExitStack() as counted:
                async with asyncio.timeout(self._limits.authentication_seconds):
                    self._seat = await self._seated()
                self._at_login()
                counted.enter_context(self._serving.use.connected(self._name))
                await self._welcome(self._seat)
                await self._answer_all()
        except RefusedOnWire as refusal:
            self._say_last(refusal)
        except TimeoutError:
            self._say_last(RefusedOnWire("logging in took too long", sqlstate="08006", severity="FATAL"))
        except Gone:
            pass
        except Exception:  # a fault of ours, which ends one connection; its text may depend on the data
            LOG.error("a connection was ended by a fault of the server")
            self._say_last(_fault("FATAL"))
        finally:
            self._held.end_of_transaction()
            if self._seat is not None:
                await asyncio.shield(self._serving.run(self._seat.close))
            await self._packets.close()

    def _say_last(self, refusal: RefusedOnWire) -> None:
        if refusal.severity not in ("FATAL", "PANIC"):
            refusal = RefusedOnWire(refusal.message, sqlstate=refusal.sqlstate, severity="FATAL", detail=refusal.detail,
                                    hint=refusal.hint)
        if not self._packets.has_phase(ConnectionPhase.FAILED, ConnectionPhase.TERMINATED):
            self._packets.send(error_of(refusal))

    # -- logging in

    async def _seated(self) -> Seat:
        """The seat of a client that has proved to know the password. Raises RefusedOnWire, with the same words and messages for
        an unknown name and a wrong password."""
        given = self._startup.parameters
        if self._serving.needs_tls and not self._startup.encrypted:
            raise RefusedOnWire("connections are encrypted here", sqlstate="28000", severity="FATAL", hint="sslmode=require")
        if not given.get("user"):
            raise RefusedOnWire("the startup message names no user", sqlstate="28000", severity="FATAL")
        if len(given["user"]) > name_faults.LONGEST_GIVEN:  # the normal form of a stranger's text may take long, and much memory
            raise RefusedOnWire(f"names have {name_faults.LONGEST} characters at most", sqlstate="28000", severity="FATAL")
        if given.get("replication", "false").lower() not in ("", "0", "false", "off", "no"):
            raise RefusedOnWire("replication is not served", sqlstate="0A000", severity="FATAL")
        name, database = names.normal(given["user"]), given.get("database") or given["user"]
        try:
            async with self._serving.failed.attempt(self._address):
                first, loop = await self._first_proof(), asyncio.get_running_loop()
                seat = await self._serving.run_login(lambda: _entered(lambda: self._serving.door.enter(
                    name, database, given, first,
                    lambda told: asyncio.run_coroutine_threadsafe(self._said(told), loop).result())))
        except NotProven as fault:
            LOG.warning("a login from %s failed", self._address)
            if fault.malformed:
                raise violated() from None
            raise RefusedOnWire(f"password authentication failed for user \"{given['user'][:63]}\"", sqlstate="28P01",
                                severity="FATAL") from None
        self._name = name
        return seat

    async def _first_proof(self) -> FirstProof:
        """The client's first message. Raises NotProven."""
        certificate = self._serving.certificate if self._startup.encrypted else None
        self._packets.send(AuthenticationSASL(mechanisms=list(mechanisms(certificate))))
        await self._packets.flush()
        first = await self._packets.receive(self._limits.unproven_bytes)
        if not isinstance(first, SASLInitialResponse):
            raise Gone
        return FirstProof(mechanism=first.mechanism, message=first.data, bound=certificate is not None)

    async def _said(self, told: bytes) -> bytes:
        """The client's answer to the challenge; empty for the last message, which proves that the server knows the password."""
        if self._challenged:
            self._packets.send(AuthenticationSASLFinal(data=told))
            return b""
        self._challenged = True
        self._packets.send(AuthenticationSASLContinue(data=told))
        await self._packets.flush()
        final = await self._packets.receive(self._limits.unproven_bytes)
        if not isinstance(final, SASLResponse):
            raise Gone
        data: bytes = final.data
        return data

    async def _welcome(self, seat: Seat) -> None:
        self._packets.send(AuthenticationOk())
        for name, value in seat.parameter_status.items():
            self._packets.send(ParameterStatus(name=clean(name), value=clean(value)))
        self._packets.send(BackendKeyData(process_id=self.process, secret_key=self.key))
        self._ready()
        self._packets.logged_in()
        await self._packets.flush()

    # -- messages

    async def _answer_all(self) -> None:
        """Raises Gone or RefusedOnWire (FATAL) when the connection ends by itself."""
        while not isinstance(message := await self._next(), Terminate):
            try:
                if not self._skipping or isinstance(message, Sync):
                    await self._answer(message)
            except RefusedOnWire as refusal:
                if refusal.severity in ("FATAL", "PANIC"):
                    raise
                self._packets.send(error_of(refusal))
                self._status = FAILED if self._status == OPEN else self._status
                if isinstance(message, Query | FunctionCall):
                    await self._finish()
                else:
                    self._skipping = True
                    await self._packets.flush()  # for clients that wait for an answer before their Sync
            await self._packets.flush(whole=False)

    async def _next(self) -> PGMessage:
        if self._stopping:
            raise _stopped()
        self._idle = True
        try:
            async with asyncio.timeout(self._limits.idle_seconds):
                return await self._packets.receive(self._limits.message_bytes)
        except TimeoutError:
            raise RefusedOnWire("the connection was idle for too long", sqlstate="57P05", severity="FATAL") from None
        except asyncio.CancelledError:
            if not self._stopping or self._task is None:
                raise
            self._task.uncancel()
            raise _stopped() from None
        finally:
            self._idle = False

    async def _answer(self, message: PGMessage) -> None:
        match message:
            case Query():
                await self._query(message.query_string)
            case Parse():
                await self._parse(message)
            case Bind():
                self._bind(message)
            case Describe():
                self._describe(message)
            case Execute():
                await self._execute(message)
            case Close():
                self._close(message)
            case Sync():
                self._skipping = False
                await self._finish()
            case Flush():
                await self._packets.flush()
            case CopyData() | CopyDone() | CopyFail():
                pass  # nothing is copied in; a client may not know it yet, and PostgreSQL ignores these as well
            case FunctionCall():
                raise RefusedOnWire("calls of functions by number are not served", sqlstate="0A000")
            case _:
                raise violated()

    def _ready(self) -> None:
        self._packets.send(ReadyForQuery(status=TransactionStatus(self._status)))

    async def _finish(self) -> None:
        """The end of a query or of a batch of messages."""
        if self._status == IDLE:
            self._held.end_of_transaction()
        self._ready()
        await self._packets.flush()

    # -- the simple protocol

    async def _query(self, text: str) -> None:
        self._held.drop_statement("")
        self._held.drop_portal("")
        self._check_size(text)
        statements, at = await self._split(text), 0
        if not statements:
            self._packets.send(EmptyQueryResponse())
        for number, statement in enumerate(statements, 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # other clients have their turn, also where nothing here is waited for
            at = max(text.find(statement, at), at)
            try:
                await self._query_one(statement, alone=len(statements) == 1)
            except RefusedOnWire as refusal:
                if refusal.position is not None and text.startswith(statement, at):
                    refusal.position += at  # clients know the whole text only
                raise
            at += len(statement)
        await self._finish()

    async def _split(self, text: str) -> list[str]:
        seat = self._used_seat()
        if len(text) > _SHORT:
            async with self._steadily():
                return await self._in_thread(lambda: seat.split(text))
        with _told():
            return seat.split(text)

    async def _query_one(self, text: str, *, alone: bool) -> None:
        word = word_of(text)
        if word is not None:
            self._answer_itself(word, text)
            return
        refuse_if_failed(word, self._status)
        if first_word(text) in cursors.WORDS:
            await self._query_cursor(text, alone=alone)
            return
        with self._admitted():
            outcome, rows = await self._outcome(text, (), None)
            if outcome.columns is not None:
                self._packets.send_encoded(_encoded_description(outcome.columns, (0,) * len(outcome.columns)))
            while await self._send(rows):
                rows = await self._rows(outcome, (0,) * len(outcome.columns or ()), _BATCH_ROWS)
        self._complete(outcome.tag)

    def _complete(self, tag: str) -> None:
        if tag == "DISCARD ALL":
            self._held.drop_all()
        self._packets.send_encoded(_encoded_tag(tag))

    def _answer_itself(self, word: str, text: str) -> None:
        """Answer a statement about the connection alone."""
        done = step(word, self._status)
        if done.tag == "ROLLBACK" and done.status == IDLE:
            self._held.undo_transaction()
        if word == "DEALLOCATE":
            self._deallocate(deallocated(text))
        self._status = done.status
        self._packets.send(*notices_of(done.notices), CommandComplete(tag=done.tag))

    def _deallocate(self, name: str | None) -> None:
        if name is None:
            self._held.drop_all_statements()
        else:
            self._held.statement(name)
            self._held.drop_statement(name)

    # -- cursors

    async def _query_cursor(self, text: str, *, alone: bool) -> None:
        """Answer a statement about a cursor in the simple protocol."""
        outcome = await self._moved(text)
        if outcome is None:
            await self._change_cursors(text, (), alone=alone)
            return
        if outcome.columns is not None:
            formats = self._held.cursor(cursor_move(text).name).formats
            self._packets.send_encoded(_encoded_description(outcome.columns, formats))
            rows = await self._rows(outcome, formats, _BATCH_ROWS)
            while await self._send(rows):
                rows = await self._rows(outcome, formats, _BATCH_ROWS)
        self._packets.send_encoded(_encoded_tag(outcome.tag))

    async def _moved(self, text: str) -> Outcome | None:
        """The outcome of a FETCH or MOVE; None for other statements. Raises RefusedOnWire."""
        if first_word(text) not in ("FETCH", "MOVE"):
            return None
        move = cursor_move(text)
        return self._held.cursor(move.name).moved(move)

    async def _change_cursors(self, text: str, parameters: tuple[object, ...], *, alone: bool) -> None:
        """Answer a DECLARE or CLOSE; `alone` if it is its whole transaction, unless that is open."""
        if first_word(text) == "DECLARE":
            await self._declare(declared_cursor(text), parameters, alone=alone)
            self._packets.send_encoded(_encoded_tag("DECLARE CURSOR"))
            return
        name = closed_cursor(text)
        if name is None:
            self._held.drop_all_cursors()
        else:
            self._held.cursor(name)
            self._held.drop_cursor(name)
        self._packets.send_encoded(_encoded_tag("CLOSE CURSOR" if name is not None else "CLOSE CURSOR ALL"))

    async def _declare(self, declared: DeclaredCursor, parameters: tuple[object, ...], *, alone: bool) -> None:
        """Answer the query of a cursor, and hold its rows. Raises RefusedOnWire."""
        if alone and self._status == IDLE and not declared.is_held:
            raise RefusedOnWire("DECLARE CURSOR can only be used in transaction blocks", sqlstate="25P01")
        self._held.check_cursor(declared.name)
        seat = self._used_seat()

        def answered() -> tuple[Outcome, list[tuple[object, ...]]]:
            outcome = seat.execute(declared.query, parameters)
            return outcome, list(outcome.rows)

        try:
            with self._admitted():
                async with self._steadily(), self._at_work():
                    outcome, rows = await self._in_thread(answered)
        except RefusedOnWire as refusal:
            if refusal.position is not None:
                refusal.position += declared.start
            raise
        if outcome.columns is None:
            raise _no_rows()
        self._packets.send_encoded(encoded_notices(outcome.notices))
        cursor = CursorOnWire(declared=declared, columns=outcome.columns, rows=rows)
        cursor.counted.enter_context(self._serving.use.suspended(self._name, size_of(rows, CELL)))
        self._held.hold_cursor(cursor)

    async def _described_cursor(self, text: str, given: Sequence[str | None]) -> Described:
        """The parameters and columns of a statement about a cursor. Raises RefusedOnWire."""
        match first_word(text):
            case "DECLARE":
                found = await self._prepared(declared_cursor(text).query, given)
                if found is None or found[1].columns is None:
                    raise _no_rows()
                return Described(parameters=found[1].parameters, columns=None)
            case "FETCH":
                return Described(parameters=(), columns=self._held.cursor(cursor_move(text).name).columns)
        return _EMPTY

    # -- the extended protocol

    async def _parse(self, message: Parse) -> None:
        text, word = message.query, word_of(message.query)
        self._check_size(text)
        if not message.statement:
            self._held.drop_statement("")
        refuse_if_failed(word, self._status)
        described = _EMPTY
        if word is None:  # an empty word stands for an empty statement from here on
            given = types_on_wire.kinds_given(message.param_types)
            with self._admitted():
                found = await self._prepared(text, given)
            text, described = found or ("", _EMPTY)
            word = None if found else ""
        oids = [*message.param_types, *[0] * len(described.parameters)][:len(described.parameters)]
        known = tuple(oid if oid not in (0, 705) else types_on_wire.OIDS[kind]
                      for oid, kind in zip(oids, described.parameters, strict=True))
        self._held.hold_statement(message.statement, PreparedOnWire(text=text, word=word, described=described, oids=known))
        self._packets.send(ParseComplete())

    async def _prepared(self, text: str, given: Sequence[str | None]) -> tuple[str, Described] | None:
        """The one statement of a text, and what it takes and gives; None if the text is empty. Raises RefusedOnWire."""
        statements, seat = await self._split(text), self._used_seat()
        if len(statements) > 1:
            raise RefusedOnWire("cannot insert multiple commands into a prepared statement", sqlstate="42601")
        if not statements:
            return None
        statement, = statements
        if first_word(statement) in cursors.WORDS:
            return statement, await self._described_cursor(statement, given)
        async with self._steadily():
            with _told():
                described = await seat.described_lately(statement, given)
            if described is None:
                described = await self._in_thread(lambda: seat.describe(statement, given))
        return statement, described

    def _bind(self, message: Bind) -> None:
        statement = self._held.statement(message.statement)
        refuse_if_failed(statement.word, self._status)
        values, described = message.param_values, statement.described
        if len(values) != len(described.parameters):
            raise RefusedOnWire(f"the statement has {len(described.parameters)} parameters, and {len(values)} values came",
                                sqlstate="08P01")
        forms = formats_of(message.param_formats, len(values))
        parameters = tuple(types_on_wire.read(*given, place) for place, given in enumerate(
            zip(values, forms, statement.oids, described.parameters, strict=True), start=1))
        size = sum(len(value or b"") + 16 for value in values)
        self._held.hold_portal(message.portal, PortalOnWire(
            statement=statement, parameters=parameters, size=size,
            formats=formats_of(message.result_formats, len(described.columns or ()))))
        self._packets.send(BindComplete())

    def _describe(self, message: Describe) -> None:
        match message.kind:
            case "S":
                statement = self._held.statement(message.name)
                columns = statement.described.columns
                formats: Sequence[int] = (0,) * len(columns or ())
                self._packets.send(ParameterDescription(type_oids=list(statement.oids)))
            case "P":
                held = self._held.cursor(message.name) if self._held.has_cursor(message.name) else None
                portal = held or self._held.portal(message.name)
                columns, formats = portal.columns, portal.formats
            case _:
                raise violated()
        if columns is None:
            self._packets.send(NoData())
        else:
            self._packets.send_encoded(_encoded_description(columns, tuple(formats)))

    async def _execute(self, message: Execute) -> None:
        portal = self._held.portal(message.portal)
        statement = portal.statement
        refuse_if_failed(statement.word, self._status)
        if statement.word is not None:
            if statement.word:
                self._answer_itself(statement.word, statement.text)
            else:
                self._packets.send(EmptyQueryResponse())
            return
        if first_word(statement.text) in cursors.WORDS and portal.outcome is None:
            portal.outcome = await self._moved(statement.text)
            if portal.outcome is None:
                await self._change_cursors(statement.text, portal.parameters, alone=True)
                return
            self._check_columns(portal, portal.outcome)
        most = message.max_rows if 0 < message.max_rows < 2**31 else None
        with self._admitted(again=portal.outcome is not None):
            suspended = await self._take(portal, most)
        assert portal.outcome is not None
        if suspended:
            self._packets.send(PortalSuspended())
        else:
            self._complete(portal.outcome.tag)

    async def _take(self, portal: PortalOnWire, most: int | None) -> bool:
        """Send the next rows of a portal; whether there were as many as asked for, so that more may follow."""
        if portal.outcome is None:
            outcome, rows = await self._outcome(portal.statement.text, portal.parameters, portal, most)
            if most is not None and not rows.last:
                self._suspend(portal, rows.waiting(outcome))
        else:
            outcome, rows = portal.outcome, await self._rows(portal.outcome, portal.formats, _least(most))
        sent = rows.number
        while await self._send(rows) and (most is None or sent < most):
            rows = await self._rows(outcome, portal.formats, _least(None if most is None else most - sent))
            sent += rows.number
        if rows.last:
            portal.suspended.close()
        return most is not None and sent >= most

    def _suspend(self, portal: PortalOnWire, size: int) -> None:
        """Count the rows of a portal, of which some may wait. Raises RefusedOnWire; then none do."""
        try:
            portal.suspended.enter_context(self._serving.use.suspended(self._name, size))
        except RefusedOnWire:
            portal.outcome = None
            raise

    def _close(self, message: Close) -> None:
        match message.kind:
            case "S":
                self._held.drop_statement(message.name)
            case "P":
                self._held.drop_portal(message.name)
                self._held.drop_cursor(message.name)
            case _:
                raise violated()
        self._packets.send(CloseComplete())

    # -- the seat's work, in other threads

    async def _outcome(self, text: str, parameters: tuple[object, ...], portal: PortalOnWire | None,
                       most: int | None = None) -> tuple[Outcome, _Rows]:
        """Execute a statement, and have its first rows encoded. Notices are sent."""
        seat = self._used_seat()

        def begun(outcome: Outcome) -> tuple[Outcome, _Rows]:
            if portal is not None:
                self._check_columns(portal, outcome)
            formats = portal.formats if portal is not None else (0,) * len(outcome.columns or ())
            return outcome, _encoded(outcome, formats, _least(most))

        async with self._steadily(), self._at_work():
            with _told():
                shown = await seat.shown_lately(text, parameters)
                made = begun(shown) if shown is not None and operator.length_hint(shown.rows) <= _FEW else None
            if made is None:
                made = await self._in_thread(lambda: begun(shown or seat.execute(text, parameters)))
            outcome, rows = made
        if portal is not None:
            portal.outcome = outcome
        self._packets.send_encoded(encoded_notices(outcome.notices))
        return outcome, rows

    def _check_columns(self, portal: PortalOnWire, outcome: Outcome) -> None:
        if not same_columns(outcome.columns, portal.columns):
            raise RefusedOnWire("the columns of the statement have changed since it was prepared", sqlstate="0A000")

    async def _rows(self, outcome: Outcome, formats: Sequence[int], most: int) -> _Rows:
        async with self._steadily(), self._at_work():
            return await self._in_thread(lambda: _encoded(outcome, formats, most))

    def _steadily(self) -> contextlib.AbstractAsyncContextManager[None]:
        """A context that takes a multiple of a time, where the owner wants that."""
        return at_a_multiple(self._limits.pace_seconds) if self._limits.pace_seconds else contextlib.nullcontext()

    @contextlib.asynccontextmanager
    async def _at_work(self) -> AsyncGenerator[None]:
        """A context in which a statement runs that can be interrupted; it is, some time after its client has left."""
        loop = asyncio.get_running_loop()
        late: list[asyncio.TimerHandle] = []
        self._working = True
        try:
            with self._packets.watched(lambda: late.append(loop.call_later(self._limits.left_seconds, self.cancel))):
                yield
        finally:
            self._working = False
            for timer in late:
                timer.cancel()

    async def _send(self, rows: _Rows) -> bool:
        """Whether more may follow."""
        self._packets.send_encoded(rows.encoded)
        await self._packets.flush(whole=False)
        return not rows.last

    async def _in_thread(self, work: Callable[[], Made]) -> Made:
        """Raises RefusedOnWire: for whatever else the work raises, one in words that say nothing of it."""
        def told() -> Made:
            with _told():
                return work()

        return await self._serving.run(told)

    @contextlib.contextmanager
    def _admitted(self, *, again: bool = False) -> Iterator[None]:
        """A context for a statement of the account. Raises RefusedOnWire."""
        with contextlib.nullcontext() if again else self._serving.use.running(self._name, time.monotonic()):
            yield

    def _used_seat(self) -> Seat:
        assert self._seat is not None
        return self._seat

    def _check_size(self, text: str) -> None:
        if len(text.encode("utf-8", "replace")) > self._limits.text_bytes:
            raise RefusedOnWire(f"the text of a statement can have at most {self._limits.text_bytes} bytes", sqlstate="54000")


class _Rows(Frozen):
    """Some rows of an outcome as messages, their number, and whether these were the last."""

    encoded: bytes
    number: int
    last: bool

    def waiting(self, outcome: Outcome) -> int:
        """Bytes, about, that an outcome holds of which these are the first rows: its rows stay until the last one is taken."""
        number = self.number + operator.length_hint(outcome.rows)
        return number * (CELL * len(outcome.columns or ()) + len(self.encoded) // max(self.number, 1))


def _encoded(outcome: Outcome, formats: Sequence[int], most: int) -> _Rows:
    """The next rows of an outcome: `most` of them, fewer where they are long."""
    if outcome.columns is None:
        return _copied(outcome.copied or iter(()))
    kinds, made, number = [column.kind for column in outcome.columns], bytearray(), 0
    while number < most and len(made) < _BATCH_BYTES:
        row = next(outcome.rows, None)
        if row is None:
            return _Rows(encoded=bytes(made), number=number, last=True)
        made += DataRow(columns=[types_on_wire.written(value, kind, form) for value, kind, form in zip(
            row, kinds, formats, strict=True)]).to_wire()
        number += 1
    return _Rows(encoded=bytes(made), number=number, last=False)


def _copied(messages: Iterator[bytes]) -> _Rows:
    """The next messages of COPY. They count as no rows, as none of them waits for another Execute."""
    made = bytearray()
    for message in messages:
        made += message
        if len(made) >= _BATCH_BYTES:
            return _Rows(encoded=bytes(made), number=0, last=False)
    return _Rows(encoded=bytes(made), number=0, last=True)


def _least(most: int | None) -> int:
    return _BATCH_ROWS if most is None else min(most, _BATCH_ROWS)


@functools.lru_cache(maxsize=ENCODED)
def _encoded_description(columns: tuple[ColumnOnWire, ...], formats: tuple[int, ...]) -> bytes:
    encoded: bytes = _described_row(columns, formats).to_wire()
    return encoded


@functools.lru_cache(maxsize=ENCODED)
def _encoded_tag(tag: str) -> bytes:
    encoded: bytes = CommandComplete(tag=clean(tag)).to_wire()
    return encoded


def _described_row(columns: Sequence[ColumnOnWire], formats: Sequence[int]) -> RowDescription:
    return RowDescription(fields=[
        FieldDescription(name=clean(column.name), type_oid=types_on_wire.OIDS[column.kind], format_code=form,
                         type_size=types_on_wire.SIZES.get(column.kind, -1), type_modifier=-1)
        for column, form in zip(columns, formats, strict=True)])


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """A context that raises RefusedOnWire: for whatever else is raised in it, one in words that say nothing of it."""
    try:
        yield
    except RefusedOnWire:
        raise
    except Exception:  # its text and its chain may depend on the data
        raise _fault("ERROR") from None


def _entered(work: Callable[[], Seat]) -> Seat:
    """Raises NotProven, Gone, or RefusedOnWire: for whatever else the work raises, one in words that say nothing of it."""
    try:
        return work()
    except (RefusedOnWire, NotProven, Gone):
        raise
    except Exception:
        raise _fault("FATAL") from None


def _quietly(work: Callable[[], None]) -> None:
    with contextlib.suppress(Exception):
        work()


def _fault(severity: str) -> RefusedOnWire:
    return RefusedOnWire("a fault of the server; what was charged stays charged, and its answer is kept", sqlstate="XX000",
                         severity=severity)


def _no_rows() -> RefusedOnWire:
    return RefusedOnWire("a cursor is declared for a query", sqlstate="42601", hint="try DECLARE name CURSOR FOR SELECT ...")


def _stopped() -> RefusedOnWire:
    return RefusedOnWire("the server is stopping", sqlstate="57P01", severity="FATAL")
