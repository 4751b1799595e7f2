"""The first packets of a connection: requests to encrypt, the version of the protocol, the parameters of the startup.

The first eight bytes are read from the socket itself, and no byte more, before it is known whether TLS begins: so nothing that
was sent in the clear can be taken for something that came encrypted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Mapping

from pygwire import BackendConnection
from pygwire.messages import (
    CancelRequest,
    GSSEncRequest,
    GSSResponse,
    NegotiateProtocolVersion,
    SSLRequest,
    SSLResponse,
    StartupMessage,
)

from dpsql.frozen import Frozen
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire.packets import Gone, Packets, WatchedReader, clean, decoded, error_of, violated
from dpsql.server.front.wire.server_limits import ServerLimits

MAJOR, NEWEST = 3, 0x0003_0002  # the protocol 3.2
_CANCELS = 1234  # of requests, among them that to cancel
_HANDSHAKE_SECONDS = 10.0


class Startup(Frozen):
    """A client that wants to log in. `minor` is that of the protocol which both speak: 0 or 2."""

    packets: Packets
    parameters: Mapping[str, str]
    minor: int
    encrypted: bool


class Cancelling(Frozen):
    """A client that wants a statement of another connection to be interrupted."""

    packets: Packets
    process: int
    key: bytes


async def started(sock: socket.socket, tls: ssl.SSLContext | None, limits: ServerLimits,
                  encrypting: Callable[[], object] = lambda: None) -> Startup | Cancelling:
    """The request of a new client. `encrypting` is called when it asks to encrypt the connection, which takes a while. Raises
    Gone, also after a refusal that is sent to the client. The caller limits the time, and closes the socket."""
    connection, encrypted, head, seen = BackendConnection(), False, b"", set[bytes]()
    while not encrypted and _is_request(head := await _first_bytes(sock)):
        if head in seen:  # each is made once; then it is the version of a protocol
            await _refused_version(sock, head)
        seen.add(head)
        encrypting()
        encrypted = await _answered(sock, connection, head, tls)
    packets = await _stream(sock, tls if encrypted else None, connection, b"" if encrypted else head, limits)
    try:
        return await _startup(packets, connection, limits, encrypted=encrypted)
    except RefusedOnWire as refusal:
        packets.send(error_of(refusal))
        await packets.close()
        raise Gone from None
    except BaseException:
        packets.abort()
        raise


def _is_request(head: bytes) -> bool:
    """Whether this is a whole packet, which has no parameters: a request to encrypt."""
    return int.from_bytes(head[:4], "big") == len(head)


async def _answered(sock: socket.socket, connection: BackendConnection, packet: bytes, tls: ssl.SSLContext | None) -> bool:
    """Whether TLS begins now, as the client is told. Raises Gone."""
    try:
        request = decoded(connection, packet)
    except RefusedOnWire:
        raise Gone from None
    if not isinstance(request, SSLRequest | GSSEncRequest):
        raise Gone
    accepted = isinstance(request, SSLRequest) and tls is not None
    reply = SSLResponse(accepted=accepted) if isinstance(request, SSLRequest) else GSSResponse(accepted=False)
    try:
        await asyncio.get_running_loop().sock_sendall(sock, connection.send(reply))
    except OSError:
        raise Gone from None
    return accepted


async def _refused_version(sock: socket.socket, head: bytes) -> None:
    """Say that a version of the protocol is not served. Raises Gone."""
    with contextlib.suppress(OSError):
        await asyncio.get_running_loop().sock_sendall(sock, error_of(_version(int.from_bytes(head[4:8], "big"))).to_wire())
    raise Gone


def _version(asked: int) -> RefusedOnWire:
    return RefusedOnWire(f"unsupported frontend protocol {asked >> 16}.{asked & 0xFFFF}: the server supports 3.0 and 3.2",
                         sqlstate="0A000", severity="FATAL")


async def _first_bytes(sock: socket.socket) -> bytes:
    """Eight bytes: the length and the code of a first packet. Raises Gone."""
    loop, head = asyncio.get_running_loop(), b""
    while len(head) < 8:
        try:
            more = await loop.sock_recv(sock, 8 - len(head))
        except OSError:
            raise Gone from None
        if not more:
            raise Gone
        head += more
    return head


async def _stream(sock: socket.socket, tls: ssl.SSLContext | None, connection: BackendConnection, head: bytes,
                  limits: ServerLimits) -> Packets:
    """A stream over the socket, which it owns from now on; `head` was read of it already. Raises Gone."""
    loop = asyncio.get_running_loop()
    reader = WatchedReader(limit=limits.unproven_bytes)
    reader.feed_data(head)
    protocol = asyncio.StreamReaderProtocol(reader)
    seconds = None if tls is None else _HANDSHAKE_SECONDS
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=tls, ssl_handshake_timeout=seconds)
    except OSError:  # which errors of TLS are as well
        raise Gone from None
    return Packets(reader, asyncio.StreamWriter(transport, protocol, reader, loop), connection, limits.send_seconds)


async def _startup(packets: Packets, connection: BackendConnection, limits: ServerLimits, *,
                   encrypted: bool) -> Startup | Cancelling:
    """What the first packet after all requests to encrypt says. Raises Gone, and RefusedOnWire."""
    packet = await packets.receive_packet(limits.unproven_bytes)
    asked = int.from_bytes(packet[4:8], "big")
    if asked >> 16 not in (MAJOR, _CANCELS):
        raise _version(asked)
    known = min(asked, NEWEST)
    if asked >> 16 == MAJOR and known != NEWEST:
        known = MAJOR << 16  # 3.1 is no version
    message = decoded(connection, packet[:4] + known.to_bytes(4, "big") + packet[8:] if asked >> 16 == MAJOR else packet)
    match message:
        case CancelRequest():
            return Cancelling(packets=packets, process=message.process_id, key=message.secret_key)
        case StartupMessage():
            unknown = [clean(name) for name in message.params if name.startswith("_pq_.")]
            if unknown or known != asked:
                packets.send(NegotiateProtocolVersion(newest_minor=known, unrecognized=unknown))  # as PostgreSQL: with the major
            return Startup(packets=packets, parameters=message.params, minor=known & 0xFFFF, encrypted=encrypted)
    raise violated()
