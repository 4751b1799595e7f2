"""Serving HTTP on the event loop of the front: uvicorn, without its signal handlers and logs, with limits of our own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpsql.server.front.http.console_files import console_files
from dpsql.server.front.http.http_desk import HttpDesk
from dpsql.server.front.http.http_errors import refused
from dpsql.server.front.http.http_guard import CLOSING, HEAD_BYTES, Guard, protecting
from dpsql.server.front.http.http_lines import StrictLines
from dpsql.server.front.http.http_routes import application
from dpsql.server.front.http.http_strangers import HttpStranger, HttpStrangers
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire.listening import TlsFiles, accepted, tls_terms
from dpsql.server.front.wire.login_delays import network
from dpsql.server.front.wire.server_limits import ServerLimits

KEPT_SECONDS = 10  # a connection without a request
HANDSHAKE_SECONDS = 10.0


class HttpServer:
    """HTTP over listening sockets. `names` are those under which it is reached, beside its address."""

    def __init__(self, desk: HttpDesk, *, tls: TlsFiles | None, names: frozenset[str] = frozenset(),
                 agents: ASGIApp | None = None) -> None:
        self._desk, self.accepting = desk, asyncio.Event()
        app = Guard(application(desk, console_files(), agents), desk, names=names)
        self._server = AcceptingServer(desk, uvicorn.Config(
            app, http=H11Protocol, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, h11_max_incomplete_event_size=HEAD_BYTES, timeout_keep_alive=KEPT_SECONDS,
            timeout_graceful_shutdown=max(1, round(desk.limits.stop_seconds))),
            None if tls is None else tls_terms(tls, "http/1.1").context, self.accepting)

    async def serve(self, sockets: list[socket.socket], stop: asyncio.Event) -> None:
        """Serve clients until `stop` is set; then running statements may finish, within the time that the limits allow."""
        for name in ("uvicorn.error", "uvicorn.asgi"):  # what is told there may hold what clients sent
            logging.getLogger(name).setLevel(logging.CRITICAL)
        sweeping = asyncio.create_task(self._desk.sweep())
        stopping = asyncio.create_task(self._stop_when(stop))
        try:
            await self._server.serve(sockets)
        finally:
            for task in (sweeping, stopping):
                task.cancel()
            await self._desk.close()

    async def _stop_when(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._server.should_exit = True


class AcceptingServer(uvicorn.Server):
    """Accepts connections itself, so that they are counted before TLS begins. The front handles signals."""

    def __init__(self, desk: HttpDesk, config: uvicorn.Config, tls: ssl.SSLContext | None, accepting: asyncio.Event) -> None:
        """`accepting` is set when it accepts."""
        super().__init__(config)
        self._desk, self._tls, self._are_accepted = desk, tls, accepting
        self._strangers = HttpStrangers(desk.limits)
        self._accepting: set[asyncio.Task[None]] = set()
        self._beginning: set[asyncio.Task[None]] = set()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._accepting = {asyncio.create_task(self._accept(sock)) for sock in sockets or []}
        self._are_accepted.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._accepting | self._beginning:
            task.cancel()
        await super().shutdown(sockets)

    async def _accept(self, listening: socket.socket) -> None:
        async for sock, address in accepted(listening):
            task = asyncio.create_task(self._begin(sock, address))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, sock: socket.socket, address: str) -> None:
        """Serve a connection. If there are too many, or too many of its address that have sent no request or have no session,
        the oldest of these is closed; see `http_strangers`."""
        beginning = asyncio.current_task()
        assert beginning is not None
        stranger = HttpStranger(network=network(address), beginning=beginning)
        forget = self._strangers.forgetting(stranger)
        with contextlib.ExitStack() as held:
            held.callback(forget)
            try:
                self._strangers.admit(stranger, len(self.server_state.connections) + len(self._beginning) - 1)
                seconds = None if self._tls is None else HANDSHAKE_SECONDS
                made = functools.partial(self._protocol, has_begun=functools.partial(self._beginning.discard, beginning))
                _, protocol = await asyncio.get_running_loop().connect_accepted_socket(
                    made, sock, ssl=self._tls, ssl_handshake_timeout=seconds)
            except (RefusedOnWire, OSError):  # which errors of TLS are as well
                sock.close()
            except asyncio.CancelledError:
                sock.close()
                raise
            else:
                stranger.connection = protocol
                held.pop_all()
                protocol.is_counted_until(stranger.has_asked, forget)

    def _protocol(self, has_begun: Callable[[], None]) -> TimedProtocol:
        return TimedProtocol(self._desk.limits, has_begun, config=self.config, server_state=self.server_state,
                             app_state=self.lifespan.state)


class TimedProtocol(H11Protocol):
    """A connection that is closed if a request is not sent in time, or an answer is not read in time."""

    def __init__(self, limits: ServerLimits, has_begun: Callable[[], None], **given: Any) -> None:
        """`has_begun` is called when the connection is among those of the server's state, so that it is counted once."""
        super().__init__(**given)
        self.conn._receive_buffer = StrictLines()
        self._limits, self._has_begun = limits, has_begun
        self._request, self._answer = Timer(self), Timer(self)
        self._has_asked: Callable[[], None] = lambda: None
        self._is_known: Callable[[], None] = lambda: None

    def is_counted_until(self, asked: Callable[[], None], known: Callable[[], None]) -> None:
        """Set callbacks: `asked` is called at the first request, `known` after the first request of a session; both at the latest
        when the connection ends."""
        self._has_asked, self._is_known = asked, known
        if self.cycle is not None or self.transport.is_closing():
            asked()
        if self.transport.is_closing():
            known()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._has_begun()
        self._request.start(self._limits.request_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._request, self._answer):
            timer.stop()
        self._has_asked()
        self._is_known()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        if self.cycle is not None and self.cycle.scope.get("state", {}).get("session") is not None:
            self._is_known()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # its head is there; the body is the guard's
            self._has_asked()
            self._request.stop()
        else:
            self._request.start(self._limits.request_seconds)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP like other mistakes; the library's own answer would repeat what it received."""
        refusal = refused(400, "http", "this is not an HTTP/1.1 request")
        headers = {**protecting(self.scheme or ""), **CLOSING, "Cache-Control": "no-store", "Content-Type": "application/json"}
        head = h11.Response(status_code=refusal.status, reason=b"Bad Request",
                            headers=[(name.encode(), value.encode()) for name, value in headers.items()])
        for event in (head, h11.Data(data=refusal.as_bytes()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    @property
    def is_answered(self) -> bool:
        """Whether a whole request is being answered to a client that reads. See `http_strangers`."""
        busy = self.cycle is not None and not self.cycle.response_complete
        return busy and self.conn.their_state in (h11.DONE, h11.MUST_CLOSE) and not self.flow.write_paused

    def shed(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer.start(self._limits.send_seconds)

    def resume_writing(self) -> None:
        self._answer.stop()
        super().resume_writing()


class Timer:
    """Cuts a connection off after some time, unless it is stopped before."""

    def __init__(self, protocol: H11Protocol) -> None:
        self._protocol = protocol
        self._handle: asyncio.TimerHandle | None = None

    def start(self, seconds: float) -> None:
        """Start the timer; has no effect if it is running."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(seconds, self._end)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _end(self) -> None:
        self._protocol.transport.abort()
