"""Agents over HTTP: the Model Context Protocol at /mcp, for clients that have logged in and send their token.

The SDK's server keeps no state between requests (`stateless`) and answers each in JSON. The only state is the session of the
desk, so accounts, turns, limits and the end of a session work as for all other requests. It opens no file and no socket, so it
can run behind the same walls. It cannot ask the client during a call: clients of the protocol of 2026 receive the question to
their user as the answer to the call, and for earlier clients, statements that need consent are refused.

A client cancels a call by ending its connection, as clients of the protocol of 2026 do, or by `notifications/cancelled` with the
id of the call, in a request of the same session. Either interrupts the statement of the call, as POST /api/cancel does. The SDK's
server watches for neither without state, so it is done here. Clients choose the ids themselves: if two calls of a session have
the same id, neither is stopped, as it is unknown which is meant.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Message, Receive, Scope, Send

from dpsql import errors
from dpsql.agents.agent_desk import AgentDesk
from dpsql.agents.protocol_server import protocol_server
from dpsql.errors import Error, OperationalError
from dpsql.server.front.http.http_desk import HttpDesk
from dpsql.server.front.http.http_errors import HttpRefusal, not_logged_in
from dpsql.server.front.http.http_sessions import HttpSession
from dpsql.server.link.vault_calls import LEFT, REQUEST
from dpsql.types import Span

Made = TypeVar("Made")
CANCELLED = "notifications/cancelled"


class AgentCall:
    """A request of a client, and whether it is to stop: `identity` is its id, None if it has none, and `cancels` that of the call
    that it cancels."""

    def __init__(self, message: Message) -> None:
        told: Any = None
        with contextlib.suppress(ValueError):
            told = json.loads(message.get("body", b""))
        told = told if isinstance(told, dict) else {}
        params = told.get("params") if told.get("method") == CANCELLED else None
        self.identity = _identity(told.get("id"))
        self.cancels = _identity(params.get("requestId")) if isinstance(params, dict) else None
        self._message: Message | None = message
        self._stopped, self._cause = asyncio.Event(), REQUEST

    def stop(self, cause: str) -> None:
        if not self._stopped.is_set():
            self._cause = cause
            self._stopped.set()

    async def stopped(self) -> str:
        """Wait until it is to stop, and return the cause."""
        await self._stopped.wait()
        return self._cause

    async def receive(self) -> Message:
        """What the SDK's server receives: the body, and later that the client has left."""
        message, self._message = self._message, None
        if message is None:
            await self._stopped.wait()
            return {"type": "http.disconnect"}
        return message

    async def watch(self, receive: Receive) -> None:
        """Stop when the client has left."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.stop(LEFT)


class HttpSeat:
    """The seat of a session: work waits for its turn, and counts towards the limits of the account."""

    def __init__(self, desk: HttpDesk, session: HttpSession, tools: AgentDesk, call: AgentCall) -> None:
        self._desk, self._session, self._tools, self._call = desk, session, tools, call

    async def do(self, work: Callable[[AgentDesk], Made], text: str = "") -> Made:
        try:
            return await self._desk.ask(self._session, text, lambda connection: work(self._tools), self._call.stopped,
                                        executes=bool(text))
        except HttpRefusal as refusal:
            told = refusal.body["error"]
        raise _fault_of(told, text)


class AgentRoute:
    """The application at /mcp. It answers while it is `running`."""

    def __init__(self, desk: HttpDesk) -> None:
        self._desk = desk
        self._tools: WeakKeyDictionary[HttpSession, AgentDesk] = WeakKeyDictionary()
        self._calls: WeakKeyDictionary[HttpSession, list[AgentCall]] = WeakKeyDictionary()
        self._server = protocol_server(self._seat_of, "entity of the budget")
        self._server.streamable_http_app(json_response=True, stateless_http=True, max_request_body_size=desk.limits.message_bytes,
                                         transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._server.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a session; the guard has checked its host, its origin and its body. Raises HttpRefusal."""
        session: HttpSession | None = scope["state"]["session"]
        if session is None:
            raise not_logged_in()
        call = AgentCall(await receive())  # all of its body, which the guard has read
        if call.cancels is not None:
            self._cancel(session, call.cancels)
        scope["state"]["call"] = call
        with self._under_way(session, call):
            watching = asyncio.create_task(call.watch(receive))
            try:
                await self._server.session_manager.handle_request(scope, call.receive, send)
            finally:
                watching.cancel()

    @contextlib.contextmanager
    def _under_way(self, session: HttpSession, call: AgentCall) -> Iterator[None]:
        """A context in which a call can be cancelled by its id."""
        calls = self._calls.setdefault(session, [])
        calls.append(call)
        try:
            yield
        finally:
            calls.remove(call)

    def _cancel(self, session: HttpSession, identity: tuple[type, int | str]) -> None:
        meant = [call for call in self._calls.get(session, []) if call.identity == identity]
        if len(meant) == 1:
            meant[0].stop(REQUEST)

    def _seat_of(self, context: Any) -> HttpSeat:
        state = context.request_context.request.scope["state"]
        session: HttpSession = state["session"]
        tools = self._tools.get(session) or self._tools.setdefault(session, AgentDesk(session.connection))
        return HttpSeat(self._desk, session, tools, state["call"])


def _identity(value: object) -> tuple[type, int | str] | None:
    """The id of a call; the number 1 and the text "1" are two."""
    return (type(value), value) if type(value) is int or type(value) is str else None


def _fault_of(told: dict[str, Any], text: str) -> Error:
    """The error from which a refusal was made, with the fields that the refusal contains."""
    kind = getattr(errors, str(told["type"]), OperationalError)
    if kind in (errors.Incident, errors.Interrupted):
        return kind()  # type: ignore[no-any-return]
    span = None if told["start"] is None else Span(told["start"], told["end"])
    return kind(told["message"], code=told["code"], try_=told["try"] or "", span=span,
                text="" if span is None else text)
