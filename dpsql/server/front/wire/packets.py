"""Messages of the protocol on one stream, in bounded memory both ways.

The frame of a message is read here, so that its length is checked before its bytes are waited for; what it says is decoded by
pygwire, which also knows which messages may come until the client has logged in. From then on a client may send any message at
any time, as PostgreSQL's documentation says: a simple query, for instance, while an extended one has not ended with Sync, which
pygwire's own connection refuses. What is sent is gathered, and waits where the client does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator

from pygwire import BackendConnection, ConnectionPhase
from pygwire.codec import FrontendMessageDecoder
from pygwire.messages import ErrorResponse, NoticeResponse, PGMessage

from dpsql.frozen import Frozen
from dpsql.server.front.terms.answers_on_wire import Notice, RefusedOnWire

GATHERED = 32_768  # bytes that are sent at once
UNSENT = 262_144  # bytes beyond which the client is waited for
ENCODED = 256  # of each kind of messages that answers share, which are encoded once
_LATER, _OF_COPYING = (b"Q", b"P", b"B", b"D", b"E", b"C", b"S", b"H", b"F", b"X"), (b"d", b"c", b"f")
_SQLSTATES = {"NOTICE": "00000", "INFO": "00000", "LOG": "00000", "DEBUG": "00000", "WARNING": "01000"}


class Gone(Exception):
    """The client is gone, or does not read."""


def _nothing() -> None:
    """Do nothing."""


class WatchedReader(asyncio.StreamReader):
    """A reader that notices the end of its stream while bytes are still unread, unless they are more than twice its limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)
        self.ended = False
        self.at_end: Callable[[], object] = _nothing  # called when it ends

    def feed_eof(self) -> None:
        super().feed_eof()
        self._end()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._end()

    def _end(self) -> None:
        self.ended = True
        self.at_end()


class Undecoded(Frozen):
    """A message of a client that is logged in, of a known kind, whose body is malformed."""

    kind: bytes

    @property
    def is_in_batch(self) -> bool:
        """Whether PostgreSQL skips what follows it, until the next Sync."""
        return self.kind in b"PBDECH"


class Packets:
    """One stream after the start of TLS, if there is any."""

    def __init__(self, reader: WatchedReader, writer: asyncio.StreamWriter, connection: BackendConnection,
                 send_seconds: float) -> None:
        self._reader, self._writer, self._connection, self._send_seconds = reader, writer, connection, send_seconds
        self._later: FrontendMessageDecoder | None = None
        self._out = bytearray()
        writer.transport.set_write_buffer_limits(high=UNSENT)

    async def receive(self, most: int) -> PGMessage | Undecoded:
        """The next message, of at most `most` bytes; after login, Undecoded for one whose body is malformed. Raises Gone, and
        RefusedOnWire (FATAL) for what is no message."""
        packet = await self.receive_packet(most)
        while self._later is not None and packet[:1] in _OF_COPYING:
            packet = await self.receive_packet(most)  # nothing is copied in; PostgreSQL ignores these outside of COPY as well
        if self._later is None:
            return decoded(self._connection, packet)
        if packet[:1] not in _LATER:
            raise violated()
        try:
            return decoded(self._later, packet)
        except RefusedOnWire:
            self.logged_in()  # another decoder, as this one holds what it could not read
            return Undecoded(kind=packet[:1])

    def logged_in(self) -> None:
        """From now on, take all messages at any time."""
        self._later = FrontendMessageDecoder()
        self._later.phase = ConnectionPhase.READY

    async def receive_packet(self, most: int) -> bytes:
        """The bytes of the next message. Raises as `receive` does."""
        try:
            head = await self._reader.readexactly(4 if self.has_phase(ConnectionPhase.STARTUP) else 5)
            length = int.from_bytes(head[-4:], "big")
            if length < 4:
                raise violated()
            if length > most:
                raise RefusedOnWire(f"a message has {most} bytes at most", sqlstate="54000", severity="FATAL")
            return head + await self._reader.readexactly(length - 4)
        except (asyncio.IncompleteReadError, OSError):
            raise Gone from None

    @contextlib.contextmanager
    def watched(self, left: Callable[[], object]) -> Iterator[None]:
        """A context in which `left` is called when the client closes or loses its connection; immediately, if it already has."""
        if self._reader.ended:
            left()
        self._reader.at_end = left
        try:
            yield
        finally:
            self._reader.at_end = _nothing

    def send(self, *messages: PGMessage) -> None:
        for message in messages:
            self._out += self._connection.send(message) if self._later is None else message.to_wire()

    def send_encoded(self, messages: bytes) -> None:
        """Send messages that are encoded already, and are allowed in all phases of a query: rows and their description, notices
        and tags."""
        self._out += messages

    async def flush(self, *, whole: bool = True) -> None:
        """Write the buffered bytes; unless `whole`, only if there are many. Raises Gone."""
        if not whole and len(self._out) < GATHERED:
            return
        try:
            if self._out:
                self._writer.write(bytes(self._out))
                self._out.clear()
                if self._writer.transport.get_write_buffer_size() == 0:  # all of it was taken, as it nearly always is
                    return
            async with asyncio.timeout(self._send_seconds):
                await self._writer.drain()
        except (OSError, TimeoutError):
            self.abort()
            raise Gone from None

    def end_with(self, refusal: RefusedOnWire) -> None:
        """Close the stream with these words, without waiting for anything."""
        with contextlib.suppress(Exception):  # a stranger may be in any state
            self._writer.write(self._connection.send(error_of(refusal)))
        self._writer.close()

    def abort(self) -> None:
        self._writer.transport.abort()

    def has_phase(self, *phases: ConnectionPhase) -> bool:
        return self._connection.phase in phases

    async def close(self) -> None:
        """Send the buffered bytes and close; a client that does not read them is cut off."""
        try:
            if self._out and not self._writer.is_closing():
                self._writer.write(bytes(self._out))
            self._writer.close()
            async with asyncio.timeout(min(self._send_seconds, 5.0)):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self.abort()


def decoded(by: BackendConnection | FrontendMessageDecoder, packet: bytes) -> PGMessage:
    """The message of one whole packet. Raises RefusedOnWire (FATAL) if it is invalid, or not allowed now."""
    try:
        if isinstance(by, FrontendMessageDecoder):
            by.feed(packet)
            message, = by
        else:
            message, = by.receive(packet)
    except Exception:  # whatever is wrong with bytes of a stranger, it ends their connection and nothing else
        raise violated() from None
    return message


def violated(severity: str = "FATAL") -> RefusedOnWire:
    return RefusedOnWire("this is not a message of the protocol, or it is not allowed here", sqlstate="08P01", severity=severity)


def error_of(refusal: RefusedOnWire) -> ErrorResponse:
    fields = {"S": refusal.severity, "V": refusal.severity, "C": refusal.sqlstate, "M": clean(refusal.message) or "refused"}
    fields |= _optional(refusal.detail, refusal.hint)
    if refusal.position is not None:
        fields["P"] = str(refusal.position)
    return ErrorResponse(fields=fields)


@functools.lru_cache(maxsize=ENCODED)
def encoded_notices(notices: tuple[Notice, ...]) -> bytes:
    return b"".join(notice.to_wire() for notice in notices_of(notices))


def notices_of(notices: Iterable[Notice]) -> list[NoticeResponse]:
    return [NoticeResponse(fields={
        "S": notice.severity, "V": notice.severity, "C": notice.sqlstate or _SQLSTATES.get(notice.severity, "00000"),
        "M": clean(notice.text), **_optional(notice.detail, notice.hint)}) for notice in notices]


def _optional(detail: str, hint: str) -> dict[str, str]:
    return {key: clean(text) for key, text in (("D", detail), ("H", hint)) if text}


def clean(text: str) -> str:
    """A text that the protocol can carry: in UTF-8, without NUL, which ends texts there."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
