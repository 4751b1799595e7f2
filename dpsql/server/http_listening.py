"""Serving HTTP on the event loop of the front: uvicorn, without its signal handlers and logs, within times and counts of ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpsql.server.answers_on_wire import RefusedOnWire
from dpsql.server.console_files import console_files
from dpsql.server.http_desk import HttpDesk
from dpsql.server.http_guard import Guard
from dpsql.server.http_routes import application
from dpsql.server.listening import TlsFiles, tls_terms

HEAD_BYTES = 16_384  # of the first line and the headers of a request


class HttpServer:
    """HTTP over listening sockets. `names` are those under which it is reached, beside its address."""

    def __init__(self, desk: HttpDesk, *, tls: TlsFiles | None, names: frozenset[str] = frozenset()) -> None:
        self._desk = desk
        context = None if tls is None else tls_terms(tls, "http/1.1").context
        self._server = _Unsignalled(_config(Guard(application(desk, console_files()), desk, names=names), desk, context))

    async def serve(self, sockets: list[socket.socket], stop: asyncio.Event) -> None:
        """Serve clients until `stop` is set; then statements that run are finished, for as long as the limits say."""
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # what it would tell may hold what clients sent
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


class _Unsignalled(uvicorn.Server):
    """Signals are the front's."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


def _config(app: ASGIApp, desk: HttpDesk, context: ssl.SSLContext | None) -> uvicorn.Config:
    limits = desk.limits

    class Timed(TimedProtocol):
        at = desk

    given: dict[str, Any] = {} if context is None else {"ssl_context_factory": lambda config, default: context}
    return uvicorn.Config(
        app, http=Timed, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False, proxy_headers=False,
        server_header=False, limit_concurrency=2 * limits.connections, h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_graceful_shutdown=max(1, round(limits.stop_seconds)), timeout_keep_alive=10, **given)


class TimedProtocol(H11Protocol):
    """Connections that do not send a request in time, or do not read their answer in time, are closed; those of an address that
    have not sent one yet are few."""

    at: HttpDesk

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._silent, self._late = contextlib.ExitStack(), None
        try:
            self._silent.enter_context(self.at.use.unproven(self.client[0] if self.client is not None else ""))
        except RefusedOnWire:
            transport.abort()
            return
        self._expect(self.at.limits.request_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self._silent.close()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # its head is there; the body is the guard's
            self._silent.close()
            self._expect(None)
        elif self._late is None:
            self._expect(self.at.limits.request_seconds)

    def on_response_complete(self) -> None:
        self._expect(None)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect(self.at.limits.send_seconds)

    def resume_writing(self) -> None:
        self._expect(None)
        super().resume_writing()

    def _expect(self, seconds: float | None) -> None:
        """Close the connection after some seconds, unless something else is expected before."""
        if self._late is not None:
            self._late.cancel()
        self._late = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    _late: asyncio.TimerHandle | None
