"""One client: it logs in, and its messages are answered one after another until it leaves.

The wire runs on one thread and waits; the seat's work is done by other threads. A message is read when the one before is
answered, so a client that sends much and reads little holds what its system's buffers hold, and the limits of `packets`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
from collections.abc import Callable, Sequence

from pygwire import ConnectionPhase, TransactionStatus
from pygwire.messages import (
    AuthenticationOk,
    BackendKeyData,
    Bind,
    BindComplete,
    Close,
    CloseComplete,
    Describe,
    EmptyQueryResponse,
    Execute,
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
    Sync,
    Terminate,
)

from dpsql.server.front.statements import prepared_in_sql
from dpsql.server.front.statements.transaction_status import (
    IDLE,
    first_word,
    refuse_if_failed,
    transaction_statement,
    word_of,
)
from dpsql.server.front.terms import types_on_wire
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Notice, Outcome, RefusedOnWire, Seat
from dpsql.server.front.wire import cursors
from dpsql.server.front.wire.cursor_answers import CursorAnswers, further, parameters_of
from dpsql.server.front.wire.cursors import CursorOnWire, cannot_run
from dpsql.server.front.wire.encoded_rows import encoded_description, encoded_tag
from dpsql.server.front.wire.held_statements import (
    HeldStatements,
    PortalOnWire,
    PreparedOnWire,
    described_types,
    formats_of,
    same_columns,
)
from dpsql.server.front.wire.logging_in import Login
from dpsql.server.front.wire.packets import Gone, Undecoded, clean, encoded_notices, error_of, notices_of, violated
from dpsql.server.front.wire.prepared_answers import PreparedAnswers
from dpsql.server.front.wire.server_faults import fault_of_server
from dpsql.server.front.wire.serving_terms import Serving
from dpsql.server.front.wire.startup import Startup
from dpsql.server.front.wire.statement_work import Parameters, StatementWork
from dpsql.server.front.wire.transactions import TransactionOfConnection
from dpsql.server.link.vault_calls import REQUEST

LOG = logging.getLogger("dpsql.server")
_AT_ONCE = 5  # messages of a client, or statements of one message, that are answered before others have their turn
_EMPTY = Described(parameters=(), columns=None)
_MOST = 2**31


class Client:
    """One client that wants to log in. `process` and `key` let it have its statement interrupted from another connection."""

    def __init__(self, startup: Startup, address: str, serving: Serving, proven: Callable[[], None]) -> None:
        """`proven` is called when the client has proved to know its password."""
        self._serving, self._at_proof, self._counted = serving, proven, contextlib.ExitStack()
        self._packets = startup.packets
        self._limits = serving.limits
        self.process = secrets.randbelow(2**31 - 1) + 1
        self.key = secrets.token_bytes(32 if startup.minor >= 2 else 4)  # 3.0 has 4, so the process is random too
        self._login = Login(startup, address, serving, self._proven)
        self._held = HeldStatements(serving.limits)
        self._skipping = False  # after an error, until the next Sync
        self._between = True  # no message of a batch was taken since the last Sync or query
        self._seat: Seat | None = None
        self._idle = self._stopping = False
        self._told: dict[str, str] = {}  # the settings that the client knows
        self._task = asyncio.current_task()

    # -- from other tasks

    def cancel(self, cause: str = REQUEST) -> None:
        """Interrupt the running statement, if there is one. The statement may end by itself first; the next one is never
        affected."""
        if self._seat is not None:
            self._work.cancel(cause)

    def stop(self) -> None:
        """Tell the client that the server is stopping: now, or when its statement is answered."""
        self._stopping = True
        if self._idle and self._task is not None:
            self._task.cancel()

    # -- the connection

    async def serve(self) -> None:
        """Serve the client from login to end. Only a cancellation of the task raises."""
        try:
            with self._counted:
                async with asyncio.timeout(self._limits.authentication_seconds):
                    self._seat, name = await self._login.seated()
                self._begin(self._seat, name)
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
            self._say_last(fault_of_server("FATAL"))
        finally:
            self._held.drop_all()
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

    def _proven(self, name: str) -> None:
        """Count the client as one of its account. Raises RefusedOnWire if there are too many."""
        self._at_proof()
        self._counted.enter_context(self._serving.use.connected(name))

    def _begin(self, seat: Seat, name: str) -> None:
        seat.take_process(self.process)
        self._work = StatementWork(self._serving, self._packets, seat, name)
        self._transaction = TransactionOfConnection(self._held, seat)
        self._cursors = CursorAnswers(self._held, self._work, self._transaction)
        self._prepared = PreparedAnswers(self._held, self._work)

    async def _welcome(self, seat: Seat) -> None:
        self._packets.send(AuthenticationOk())
        self._tell_settings(seat)
        self._packets.send(BackendKeyData(process_id=self.process, secret_key=self.key))
        self._ready()
        self._packets.logged_in()
        await self._packets.flush()

    def _tell_settings(self, seat: Seat) -> None:
        """Tell the settings that the client does not know yet."""
        for name, value in seat.parameter_status.items():
            if self._told.get(name) != value:
                self._told[name] = value
                self._packets.send(ParameterStatus(name=clean(name), value=clean(value)))

    # -- messages

    async def _answer_all(self) -> None:
        """Raises Gone or RefusedOnWire (FATAL) when the connection ends by itself."""
        for number in itertools.count(1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # messages that have arrived are read without waiting: one client could block all others
            message = await self._next()
            if isinstance(message, Terminate):
                return
            try:
                if not self._skipping or isinstance(message, Sync):
                    if self._between:
                        self._transaction.begins_implicitly()
                    self._between = isinstance(message, Sync | Query)
                    await self._answer(message)
            except RefusedOnWire as refusal:
                if refusal.severity in ("FATAL", "PANIC"):
                    raise
                self._packets.send(error_of(refusal))
                self._transaction.failed()
                if isinstance(message, Query | FunctionCall) or (isinstance(message, Undecoded) and not message.is_in_batch):
                    await self._finish()
                else:
                    self._skipping = True
                    await self._packets.flush()  # for clients that wait for an answer before their Sync
            await self._packets.flush(whole=False)

    async def _next(self) -> PGMessage | Undecoded:
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

    async def _answer(self, message: PGMessage | Undecoded) -> None:
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
            case Undecoded():
                raise violated(severity="ERROR")
            case FunctionCall():
                raise RefusedOnWire("calls of functions by number are not served", sqlstate="0A000")
            case _:
                raise violated()

    def _ready(self) -> None:
        self._packets.send(ReadyForQuery(status=TransactionStatus(self._transaction.status)))

    async def _finish(self) -> None:
        """The end of a query or of a batch of messages."""
        self._between = True
        self._transaction.end_of_batch()
        self._tell_settings(self._work.seat)
        self._ready()
        await self._packets.flush()

    # -- the simple protocol

    async def _query(self, text: str) -> None:
        self._held.drop_statement("")
        self._held.drop_portal("")
        self._work.check_size(text)
        statements, at = await self._work.split(text), 0
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

    async def _query_one(self, text: str, *, alone: bool) -> None:
        word = word_of(text)
        if word is not None:
            self._answer_itself(word, text)
            return
        refuse_if_failed(word, self._transaction.status)
        match first_word(text):
            case "PREPARE":
                await self._prepare(text)
            case "EXECUTE":
                statement, parameters = await self._prepared.executed(text)
                if first_word(statement.text) == "PREPARE":
                    await self._prepare(statement.text)
                elif statement.word:
                    self._answer_itself(statement.word, statement.text)
                else:
                    await self._query_with(statement.text, parameters, alone=alone)
            case _:
                await self._query_with(text, Parameters(), alone=alone)

    async def _prepare(self, text: str) -> None:
        await self._prepared.prepare(text, self._described_query)
        self._packets.send_encoded(encoded_tag("PREPARE"))

    async def _query_with(self, text: str, parameters: Parameters, *, alone: bool) -> None:
        """Answer a statement that is no transaction's in the simple protocol."""
        if first_word(text) in cursors.WORDS:
            await self._query_cursor(text, parameters, alone=alone)
            return
        with self._work.admitted(text):
            outcome, rows = await self._work.outcome(text, parameters, lambda outcome: (0,) * len(outcome.columns or ()))
            formats = (0,) * len(outcome.columns or ())
            if outcome.columns is not None:
                self._packets.send_encoded(encoded_description(outcome.columns, formats))
            await self._work.send_rows(outcome, formats, first=rows)
        self._complete(outcome, alone=alone)

    async def _query_cursor(self, text: str, parameters: Parameters, *, alone: bool) -> None:
        """Answer a statement about a cursor in the simple protocol."""
        found = await self._cursors.moved(text)
        if found is None:
            self._packets.send_encoded(encoded_tag(await self._cursors.change(text, parameters, alone=alone)))
            return
        outcome, formats = found
        if outcome.columns is not None:
            self._packets.send_encoded(encoded_description(outcome.columns, formats))
            await self._work.send_rows(outcome, formats)
        self._packets.send_encoded(encoded_tag(outcome.tag))

    def _complete(self, outcome: Outcome, *, alone: bool, sent: int | None = None) -> None:
        """The end of a statement; `sent` is the number of rows of the portion that ends it."""
        tag = outcome.tag
        if tag == "DISCARD ALL":
            if not alone or self._transaction.status != IDLE:
                raise RefusedOnWire("DISCARD ALL cannot run inside a transaction block", sqlstate="25001")
            self._held.drop_all()
        if outcome.local and self._transaction.status == IDLE:
            self._packets.send_encoded(encoded_notices(_OF_TRANSACTION_ALONE))
        if sent is not None and outcome.columns is not None and tag.rpartition(" ")[2].isdigit():
            tag = f"{tag.rpartition(' ')[0]} {sent}"
        self._packets.send_encoded(encoded_tag(tag))

    def _answer_itself(self, word: str, text: str) -> None:
        """Answer a statement about transactions or prepared statements."""
        said = transaction_statement(word, text)
        if word == "DEALLOCATE":
            refuse_if_failed(word, self._transaction.status)
            self._deallocate(said.name)
        tag, notices = self._transaction.take(said)
        self._packets.send(*notices_of(notices))
        self._packets.send_encoded(encoded_tag(tag))

    def _deallocate(self, name: str | None) -> None:
        if name is None:
            self._held.drop_all_statements()
        else:
            self._held.statement(name)
            self._held.drop_statement(name)

    # -- the extended protocol

    async def _parse(self, message: Parse) -> None:
        text, word = message.query, word_of(message.query)
        self._work.check_size(text)
        if not message.statement:
            self._held.drop_statement("")
        if word is not None:
            transaction_statement(word, text)
        described = _EMPTY
        if word is None:  # an empty word stands for an empty statement from here on
            given = types_on_wire.kinds_given(message.param_types)
            statement = await self._only_statement(text)
            if statement is not None:
                refuse_if_failed(word, self._transaction.status)
                described = await self._described(statement, given)
            text = statement or ""
            word = None if statement is not None else ""
        else:
            refuse_if_failed(word, self._transaction.status)
        self._held.hold_statement(message.statement, PreparedOnWire(
            text=text, word=word, described=described, oids=described_types(message.param_types, described)))
        self._packets.send(ParseComplete())

    async def _only_statement(self, text: str) -> str | None:
        """The one statement of a text; None if the text is empty. Raises RefusedOnWire."""
        statements = await self._work.split(text)
        if len(statements) > 1:
            raise RefusedOnWire("cannot insert multiple commands into a prepared statement", sqlstate="42601")
        return statements[0] if statements else None

    async def _described(self, statement: str, given: Sequence[str | None]) -> Described:
        """What a statement takes and gives. Raises RefusedOnWire."""
        if first_word(statement) in cursors.WORDS:
            return await self._cursors.described(statement, given, self._described_query)
        if first_word(statement) in prepared_in_sql.WORDS:
            return await self._prepared.described(statement)
        return await self._work.describe(statement, given)

    async def _described_query(self, text: str, given: Sequence[str | None]) -> Described | None:
        statement = await self._only_statement(text)
        return None if statement is None else await self._work.describe(statement, given)

    def _bind(self, message: Bind) -> None:
        statement = self._held.statement(message.statement)
        values, described = message.param_values, statement.described
        forms = formats_of(message.param_formats, len(values))
        if len(values) != len(described.parameters):
            raise RefusedOnWire(f"the statement has {len(described.parameters)} parameters, and {len(values)} values came",
                                sqlstate="08P01")
        refuse_if_failed(statement.word, self._transaction.status)
        parameters = tuple(types_on_wire.read(*given, place) for place, given in enumerate(
            zip(values, forms, statement.oids, described.parameters, strict=True), start=1))
        size = sum(len(value or b"") + 16 for value in values)
        self._held.hold_portal(message.portal, PortalOnWire(
            statement=statement, parameters=parameters, size=size,
            formats=formats_of(message.result_formats, len(described.columns or ()))))
        self._packets.send(BindComplete())

    def _describe(self, message: Describe) -> None:
        columns: tuple[ColumnOnWire, ...] | None
        match message.kind:
            case "S":
                statement = self._held.statement(message.name)
                columns = statement.described.columns
                formats: Sequence[int] = (0,) * len(columns or ())
                self._refuse_rows_if_failed(columns)
                self._packets.send(ParameterDescription(type_oids=list(statement.oids)))
            case "P":
                portal = self._cursor(message.name) or self._held.portal(message.name)
                columns, formats = portal.columns, portal.formats
                self._refuse_rows_if_failed(columns)
            case _:
                raise violated(severity="ERROR")
        if columns is None:
            self._packets.send(NoData())
        else:
            self._packets.send_encoded(encoded_description(columns, tuple(formats)))

    def _refuse_rows_if_failed(self, columns: Sequence[ColumnOnWire] | None) -> None:
        """Raises RefusedOnWire for what returns rows in a failed transaction."""
        if columns is not None:
            refuse_if_failed(None, self._transaction.status)

    def _cursor(self, name: str) -> CursorOnWire | None:
        return self._held.cursor(name) if self._held.has_cursor(name) else None

    async def _execute(self, message: Execute) -> None:
        most = message.max_rows if 0 < message.max_rows < _MOST else None
        cursor = self._cursor(message.portal)
        if cursor is not None:
            refuse_if_failed(None, self._transaction.status)
            await self._execute_cursor(cursor, most)
            return
        portal = self._held.portal(message.portal)
        statement = portal.statement
        if statement.word == "":
            self._packets.send(EmptyQueryResponse())
            return
        refuse_if_failed(statement.word, self._transaction.status)
        if portal.done:
            raise cannot_run(message.portal)
        portal.done = portal.columns is None
        if statement.word is not None:
            self._answer_itself(statement.word, statement.text)
            return
        parameters = parameters_of(portal)
        if first_word(statement.text) == "EXECUTE" and portal.outcome is None:
            statement, parameters = await self._prepared.executed(statement.text)
            if statement.word:
                self._answer_itself(statement.word, statement.text)
                return
        if first_word(statement.text) == "PREPARE":
            await self._prepare(statement.text)
            return
        if first_word(statement.text) in cursors.WORDS and portal.outcome is None:
            found = await self._cursors.moved(statement.text)
            if found is None:
                tag = await self._cursors.change(statement.text, parameters, alone=True)
                self._packets.send_encoded(encoded_tag(tag))
                return
            portal.outcome = found[0]
            self._check_columns(portal, portal.outcome)
        with self._work.admitted(statement.text, portal.size, again=portal.outcome is not None):
            sent, suspended = await self._take(portal, statement.text, parameters, most)
        assert portal.outcome is not None
        if suspended:
            self._packets.send(PortalSuspended())
        else:
            self._complete(portal.outcome, alone=True, sent=sent)

    async def _execute_cursor(self, cursor: CursorOnWire, most: int | None) -> None:
        """Send the next rows of a cursor."""
        outcome = cursor.moved(further(most))
        sent, _ = await self._work.send_rows(outcome, cursor.formats)
        if sent == most:
            self._packets.send(PortalSuspended())
        else:
            self._packets.send_encoded(encoded_tag(outcome.tag))

    async def _take(self, portal: PortalOnWire, text: str, parameters: Parameters, most: int | None) -> tuple[int, bool]:
        """Send the next rows of a portal, which executes a statement with parameters. Their number, and whether there were as
        many as asked for, so that more may follow."""
        rows = None
        if portal.outcome is None:
            portal.outcome, rows = await self._work.outcome(
                text, parameters, lambda outcome: self._formats(portal, outcome), most)
            if most is not None and not rows.last:
                self._suspend(portal, rows.waiting(portal.outcome))
        sent, is_last = await self._work.send_rows(portal.outcome, portal.formats, most, first=rows)
        portal.taken += sent
        if is_last:
            portal.suspended.close()
        return sent, most is not None and sent >= most

    def _formats(self, portal: PortalOnWire, outcome: Outcome) -> Sequence[int]:
        self._check_columns(portal, outcome)
        return portal.formats

    def _check_columns(self, portal: PortalOnWire, outcome: Outcome) -> None:
        """Raises RefusedOnWire if the columns are not those that were described."""
        if not same_columns(outcome.columns, portal.columns):
            raise RefusedOnWire("the columns of the statement have changed since it was prepared", sqlstate="0A000")

    def _suspend(self, portal: PortalOnWire, size: int) -> None:
        """Count the rows of a portal, of which some may wait. Raises RefusedOnWire; then none do."""
        try:
            portal.suspended.enter_context(self._work.suspended(size))
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
                raise violated(severity="ERROR")
        self._packets.send(CloseComplete())


_OF_TRANSACTION_ALONE = (Notice(text="this can only be used in transactions", severity="WARNING", sqlstate="25P01"),)


def _stopped() -> RefusedOnWire:
    return RefusedOnWire("the server is stopping", sqlstate="57P01", severity="FATAL")
