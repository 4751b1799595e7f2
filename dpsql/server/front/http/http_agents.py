"""Agents over HTTP: the Model Context Protocol at /mcp, for clients that have logged in and send their token.

The SDK's server keeps no state between requests (`stateless`) and answers each in JSON. The only state is the session of the
desk, so accounts, turns, limits and the end of a session work as for all other requests. It opens no file and no socket, so it
can run behind the same walls. It cannot ask the client during a call: clients of the protocol of 2026 receive the question to
their user as the answer to the call, and for earlier clients, statements that need consent are refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import Receive, Scope, Send

from dpsql import errors
from dpsql.agents.agent_desk import AgentDesk
from dpsql.agents.protocol_server import protocol_server
from dpsql.errors import Error, OperationalError
from dpsql.server.front.http.http_desk import HttpDesk
from dpsql.server.front.http.http_errors import HttpRefusal, not_logged_in
from dpsql.server.front.http.http_sessions import HttpSession
from dpsql.types import Span

Made = TypeVar("Made")


class HttpSeat:
    """The seat of a session: work waits for its turn, and counts towards the limits of the account."""

    def __init__(self, desk: HttpDesk, session: HttpSession, tools: AgentDesk) -> None:
        self._desk, self._session, self._tools = desk, session, tools

    async def do(self, work: Callable[[AgentDesk], Made], text: str = "") -> Made:
        try:
            return await self._desk.ask(self._session, text, lambda connection: work(self._tools))
        except HttpRefusal as refusal:
            told = refusal.body["error"]
        raise _fault_of(told, text)


class AgentRoute:
    """The application at /mcp. It answers while it is `running`."""

    def __init__(self, desk: HttpDesk) -> None:
        self._desk = desk
        self._tools: WeakKeyDictionary[HttpSession, AgentDesk] = WeakKeyDictionary()
        self._server = protocol_server(self._seat_of, "entity of the budget")
        self._server.streamable_http_app(json_response=True, stateless_http=True, max_request_body_size=desk.limits.message_bytes,
                                         transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._server.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a session; the guard has checked its host, its origin and its body. Raises HttpRefusal."""
        if scope["state"]["session"] is None:
            raise not_logged_in()
        await self._server.session_manager.handle_request(scope, receive, send)

    def _seat_of(self, context: Any) -> HttpSeat:
        session: HttpSession = context.request_context.request.scope["state"]["session"]
        tools = self._tools.get(session) or self._tools.setdefault(session, AgentDesk(session.connection))
        return HttpSeat(self._desk, session, tools)


def _fault_of(told: dict[str, Any], text: str) -> Error:
    """The error from which a refusal was made, with the fields that the refusal contains."""
    kind = getattr(errors, str(told["type"]), OperationalError)
    if kind in (errors.Incident, errors.Interrupted):
        return kind()  # type: ignore[no-any-return]
    span = None if told["start"] is None else Span(told["start"], told["end"])
    return kind(told["message"], code=told["code"], try_=told["try"] or "", span=span,
                text="" if span is None else text)
