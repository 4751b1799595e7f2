"""A server for many clients: it accepts them within limits, lets one interrupt what another one runs, and stops in good order."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen
from dpsql.server.front.statements.doors import Door
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire.login_delays import FailedLogins, network
from dpsql.server.front.wire.packets import Gone, Packets, error_of
from dpsql.server.front.wire.server_limits import AccountUse, ServerLimits
from dpsql.server.front.wire.startup import Cancelling, Startup, started
from dpsql.server.front.wire.strangers import Stranger, Strangers
from dpsql.server.front.wire.wire import Client
from dpsql.server.link.login_messages import can_bind
from dpsql.server.link.vault_calls import SERVER

LOG = logging.getLogger("dpsql.server")
_TURNED_AWAY_SECONDS = 3.0
_WAITING = 128  # connections that the system holds until they are accepted

Made = TypeVar("Made")


class TlsTerms(Frozen):
    """The certificate of a server, as text as well, where clients can bind their proof of the password to it."""

    context: ssl.SSLContext
    certificate: str | None


class TlsFiles(Frozen):
    """Files in PEM, by their whole paths; the key may stand in that of the certificate."""

    certificate: str
    key: str | None = None

    @property
    def paths(self) -> list[str]:
        return [path for path in (self.certificate, self.key) if path is not None]


def tls_terms(files: TlsFiles, protocol: str = "postgresql") -> TlsTerms:
    """The TLS settings for a protocol, given its name in ALPN. Raises OperationalError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    try:
        context.load_cert_chain(files.certificate, files.key, password="")  # or the library would ask for one
        text = Path(files.certificate).read_text(encoding="ascii")
    except (OSError, ValueError):
        missing = next((path for path in files.paths if not os.path.isfile(path)), None)
        raise OperationalError(f"{files.certificate} and its key cannot be used" if missing is None else
                               f"there is no file {missing}", code="certificate",
                               try_="files in PEM that belong together: --certificate FILE --key FILE") from None
    return TlsTerms(context=context, certificate=text if can_bind(text) else None)


def address_of(text: str) -> tuple[str, int]:
    """The host and the port of ``127.0.0.1:5433`` or ``[::1]:5433``. Raises OperationalError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise OperationalError(f"{text} is not an address", code="address", try_="--listen 127.0.0.1:5433")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether messages to an address stay on this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ListeningServer:
    """What clients share, as each of them sees it in `Serving`. All but `run`'s work is done on one thread."""

    def __init__(self, *, door: Door, tls: TlsTerms | None, needs_tls: bool, limits: ServerLimits) -> None:
        self.limits, self.door, self.needs_tls = limits, door, needs_tls
        self.certificate = tls.certificate if tls is not None else None
        self.use, self.failed = AccountUse(limits), FailedLogins()
        self.accepting = asyncio.Event()
        self._tls = tls.context if tls is not None else None
        self._pool = ThreadPoolExecutor(max_workers=limits.connections, thread_name_prefix="seat")  # as each may wait for a turn
        self._at_door = ThreadPoolExecutor(max_workers=limits.connections, thread_name_prefix="login")  # they wait for clients
        self._clients: dict[int, Client] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._admitted: set[asyncio.Task[None]] = set()  # without those that are only told why they are refused
        self._unproven: set[asyncio.Task[None]] = set()
        self._strangers = Strangers(silent=limits.unproven_of_address, logging_in=limits.logins_of_address)

    async def run(self, work: Callable[[], Made]) -> Made:
        """The result of work that another thread does."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def run_login(self, work: Callable[[], Made]) -> Made:
        """The same for a login, during which the thread waits for its client."""
        return await asyncio.get_running_loop().run_in_executor(self._at_door, work)

    async def serve(self, sockets: list[socket.socket], stop: asyncio.Event) -> None:
        """Serve clients of listening sockets until `stop` is set. Then idle clients are told that the server stops, and running
        statements may finish within the time limit."""
        accepting = [asyncio.create_task(self._accept(sock)) for sock in sockets]
        self.accepting.set()
        try:
            await stop.wait()
        finally:
            for task in accepting:
                task.cancel()
            for sock in sockets:
                sock.close()
            await self._stop()

    async def _accept(self, listening: socket.socket) -> None:
        async for sock, address in accepted(listening):
            is_full = len(self._admitted) >= self.limits.connections and not self._strangers.shed_one()
            if is_full and len(self._connections) >= 2 * self.limits.connections:  # too many even to be told so
                sock.close()
                continue
            task = asyncio.create_task(self._turned_away(sock) if is_full else self._connection(sock, address))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            if not is_full:
                self._admitted.add(task)
                task.add_done_callback(self._admitted.discard)

    async def _connection(self, sock: socket.socket, address: str) -> None:
        with contextlib.ExitStack() as unproven:
            stranger = self._stranger(network(address), unproven)
            try:
                async with asyncio.timeout(self.limits.authentication_seconds):
                    what = await started(sock, self._tls, self.limits, lambda: self._strangers.speaks(
                        network(address), stranger, stranger.give_way))
                if isinstance(what, Startup):
                    self._strangers.speaks(network(address), stranger, lambda: self._give_way(what.packets))
                else:
                    unproven.close()  # as it ends now
            except (Gone, TimeoutError):
                sock.close()
            except asyncio.CancelledError:
                sock.close()
                raise
            except Exception:  # a fault of ours, which ends one connection
                LOG.error("a connection was ended by a fault of the server before its login")
                sock.close()
            else:
                await self._client(what, address, unproven.close)

    def _stranger(self, network: str, unproven: contextlib.ExitStack) -> Stranger:
        """The connection of this task, which is a stranger until `unproven` is closed."""
        task = asyncio.current_task()
        assert task is not None
        stranger = Stranger(task.cancel)
        self._unproven.add(task)
        unproven.callback(self._unproven.discard, task)
        unproven.enter_context(self._strangers.counted(network, stranger))
        return stranger

    @staticmethod
    def _give_way(packets: Packets) -> None:
        packets.end_with(RefusedOnWire("too many connections are logging in", sqlstate="53300", severity="FATAL",
                                       hint="connect again; this one took long to log in"))

    async def _turned_away(self, sock: socket.socket) -> None:
        """Say why there is no connection, when the client has said what it wants: requests to encrypt are answered first, so that
        libpq shows the words. Statements can be cancelled all the same."""
        try:
            async with asyncio.timeout(_TURNED_AWAY_SECONDS):
                what = await started(sock, None, self.limits)
                if isinstance(what, Cancelling):
                    self._cancel(what)
                else:
                    what.packets.send(error_of(RefusedOnWire(
                        "sorry, too many clients already", sqlstate="53300", severity="FATAL",
                        hint=f"connect again later; the server takes {self.limits.connections} connections")))
                await what.packets.close()
        except (Gone, TimeoutError):
            sock.close()
        except asyncio.CancelledError:
            sock.close()
            raise

    async def _client(self, what: Startup | Cancelling, address: str, proven: Callable[[], None]) -> None:
        if isinstance(what, Cancelling):
            self._cancel(what)
            await what.packets.close()
            return
        client = Client(what, address, self, proven)
        while client.process in self._clients:
            client.process = secrets.randbelow(2**31 - 1) + 1
        self._clients[client.process] = client
        try:
            await client.serve()
        finally:
            del self._clients[client.process]

    def _cancel(self, what: Cancelling) -> None:
        """Interrupt the statement of a client, if the key is its own; nothing tells whether it was."""
        client = self._clients.get(what.process)
        key = client.key if client is not None else secrets.token_bytes(32)
        if secrets.compare_digest(key, what.key) and client is not None:
            client.cancel()

    async def _stop(self) -> None:
        for client in self._clients.values():
            client.stop()
        for task in self._unproven:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=self.limits.stop_seconds)
        for client in self._clients.values():
            client.cancel(SERVER)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=5.0)
        for pool in (self._pool, self._at_door):
            pool.shutdown(wait=False, cancel_futures=True)


async def accepted(listening: socket.socket) -> AsyncIterator[tuple[socket.socket, str]]:
    """The connections of clients as they arrive, each with the client's address."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            sock, address = await loop.sock_accept(listening)
        except OSError:  # no more files can be opened, or the client is gone already
            await asyncio.sleep(0.05)
            continue
        sock.setblocking(False)
        yield sock, address[0]
        await asyncio.sleep(0)  # those that are waiting come without a pause: each has to be known before the next one comes


def listen_on(host: str, port: int) -> list[socket.socket]:
    """Listening sockets, one for each address of the host. Raises OperationalError."""
    made: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM,
                                                                     flags=socket.AI_PASSIVE):
            sock = socket.socket(family, kind, protocol)
            made.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen(_WAITING)
            sock.setblocking(False)
    except OSError as fault:
        for sock in made:
            sock.close()
        raise OperationalError(f"{host}:{port} cannot be listened on: {fault.strerror or type(fault).__name__}", code="address",
                               try_="another port, or an address of this machine") from None
    return made
