"""Bytes at random, and messages that were bent, before the login and after it: the server answers or hangs up, and serves the next.

As a program, `test_fuzz_wire.py NUMBER SEED` runs that many sequences.
"""

from __future__ import annotations

import asyncio
import random
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygwire", reason="the extra dpsql[server] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

import logging

from pygwire import BackendConnection, BackendMessageDecoder, ConnectionPhase
from support.seats import ScriptedSeat
from support.wire_servers import Raw, UsersDoor, add, packet, running, startup

from dpsql.server.front.wire.login_delays import FailedLogins
from dpsql.server.front.wire.packets import Packets, WatchedReader
from dpsql.server.front.wire.server_limits import AccountUse, ServerLimits
from dpsql.server.front.wire.startup import Startup
from dpsql.server.front.wire.wire import Client

TEXTS = ["ROWS 3", "ALL TYPES", "ECHO $1::BIGINT $2::DATE", "ECHO $1", "BEGIN", "COMMIT", "ROLLBACK", "ROLLBACK TO a", "SET x", "BOGUS",
         "FAIL", "CRASH", "NOTE; ROWS 1; FAIL", "", ";", "COPY t", "COPY (SELECT ROWS 3) TO STDOUT CSV", "COPY t FROM STDIN", "DEALLOCATE ALL", "DEALLOCATE s", "SAVEPOINT a", "-- x", "/* x", "\u00e4"]
NAMES = ["", "s", "p", "x" * 70]
VALUES = [None, b"", b"1", b"x", b"2024-01-01", b"\0\0\0\1", b"\0" * 8, b"\xff", b"infinity", b"1e400", b"\xff" * 40]
OIDS = [0, 16, 20, 21, 23, 25, 700, 701, 705, 1043, 1082, 1114, 1700, 2950, 2**32 - 1]


def counted(drawn: random.Random, parts: list[bytes]) -> bytes:
    return struct.pack("!H", len(parts)) + b"".join(parts)


def message(drawn: random.Random) -> bytes:
    """One message that is well formed, or nearly."""
    def name() -> bytes:
        return drawn.choice(NAMES).encode() + b"\0"

    def few() -> range:
        return range(drawn.choice([0, 0, 1, 2, 3]))

    match drawn.choice("QPPBBBDEEECSSSHFXpd"):
        case "Q":
            return packet(b"Q", drawn.choice(TEXTS).encode() + b"\0")
        case "P":
            return packet(b"P", name() + drawn.choice(TEXTS).encode() + b"\0" + counted(drawn, [struct.pack("!I", drawn.choice(OIDS)) for _ in few()]))
        case "B":
            values = [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
                      for value in drawn.choices(VALUES, k=len(few()))]
            return packet(b"B", name() + name() + counted(drawn, [struct.pack("!H", drawn.choice([0, 1, 1, 2])) for _ in few()])
                          + counted(drawn, values) + counted(drawn, [struct.pack("!H", drawn.choice([0, 1, 1, 7])) for _ in few()]))
        case "D" | "C" as kind:
            return packet(kind.encode(), drawn.choice([b"S", b"P", b"P", b"x"]) + name())
        case "E":
            return packet(b"E", name() + struct.pack("!I", drawn.choice([0, 1, 2, 2**31, 2**32 - 1])))
        case "S" | "H" | "X" as kind:
            return packet(kind.encode(), b"")
        case "F":
            return packet(b"F", struct.pack("!IHHH", 1, 0, 0, 0))
        case kind:
            return packet(kind.encode(), drawn.randbytes(drawn.randrange(12)))


def usual(drawn: random.Random) -> bytes:
    """What clients send for one statement, with values that may be malformed."""
    text = drawn.choice(TEXTS[:7])
    number = text.count("$")
    forms = [struct.pack("!H", drawn.randrange(2)) for _ in range(number)]
    values = [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in drawn.choices(VALUES, k=number)]
    parts = [packet(b"P", b"\0" + text.encode() + b"\0" + counted(drawn, [struct.pack("!I", drawn.choice(OIDS[:-2])) for _ in range(number)])),
             packet(b"B", b"\0\0" + counted(drawn, forms) + counted(drawn, values) + counted(drawn, [struct.pack("!H", drawn.randrange(2))])),
             packet(b"D", b"P\0"), packet(b"E", b"\0" + struct.pack("!I", drawn.randrange(3))), packet(b"S", b"")]
    return b"".join(parts)


def bent(drawn: random.Random, sent: bytes) -> bytes:
    """The bytes with a few changes: flipped, cut, doubled, or lengths that lie."""
    made = bytearray(sent)
    for _ in range(drawn.choice([0, 0, 1, 1, 2, 5])):
        if not made:
            break
        at = drawn.randrange(len(made))
        match drawn.randrange(5):
            case 0:
                made[at] = drawn.randrange(256)
            case 1:
                del made[at:at + drawn.randrange(1, 9)]
            case 2:
                made[at:at] = drawn.randbytes(drawn.randrange(1, 9))
            case 3:
                made[at:at] = made[at:at + drawn.randrange(1, 40)]
            case 4:
                made[at:at + 4] = struct.pack("!I", drawn.choice([0, 3, 4, 5, 2**31 - 1, 2**31, 2**32 - 1]))
    return bytes(made)


def sequence(drawn: random.Random) -> bytes:
    if drawn.random() < 0.05:
        return drawn.randbytes(drawn.randrange(60))
    made = b"".join(message(drawn) if drawn.random() < 0.5 else usual(drawn) for _ in range(drawn.randrange(1, 9)))
    return made if drawn.random() < 0.4 else bent(drawn, made)


class Transport(asyncio.Transport):
    """Gathers what the server sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.closing = bytearray(), False

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def close(self) -> None:
        self.closing = True

    abort = close


class Alone:
    """A server of one thread, which does the work of seats itself."""

    def __init__(self, users: Path) -> None:
        self.limits = ServerLimits(statements_a_minute=10**9, message_bytes=4096, authentication_seconds=5)
        self.use, self.failed = AccountUse(self.limits), FailedLogins()
        self.door, self.certificate, self.needs_tls = UsersDoor(users, ScriptedSeat), None, False

    async def run(self, work: Any) -> Any:
        return work()

    async def run_login(self, work: Any) -> Any:
        return await asyncio.to_thread(work)  # which waits for what the client says


async def answered(sent: bytes, serving: Alone, *, logged_in: bool) -> bytes:
    """All that a server says to some bytes and their end."""
    loop = asyncio.get_running_loop()
    reader, transport = WatchedReader(limit=4096), Transport()
    reader.feed_data(sent)
    reader.feed_eof()
    protocol = asyncio.StreamReaderProtocol(reader)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    protocol._closed.set_result(None)  # type: ignore[attr-defined]
    phase = ConnectionPhase.AUTHENTICATING if logged_in else ConnectionPhase.STARTUP
    connection = BackendConnection(initial_phase=phase)
    client = Client(Startup(packets=Packets(reader, writer, connection, 1.0), parameters={"user": "ada"}, minor=0, encrypted=False),
                    "192.0.2.1", serving, lambda: None)
    if logged_in:
        async def seated() -> ScriptedSeat:
            client._name = "ada"
            return ScriptedSeat("ada", "study", {})

        client._seated = seated  # type: ignore[method-assign]
    await asyncio.wait_for(client.serve(), 10)
    assert transport.closing
    return bytes(transport.sent)


def check_answer(sent: bytes) -> None:
    """What a server says is messages of the protocol, and no fault of its own but that of the statement which is one."""
    decoder = BackendMessageDecoder()
    decoder.phase = ConnectionPhase.EXTENDED_QUERY
    decoder.feed(sent)
    at = 0
    while at < len(sent):
        assert chr(sent[at]) in "RSKZTDCINEtn123svHdc", sent[at:at + 20]
        at += 1 + struct.unpack_from("!I", sent, at + 1)[0]
    assert at == len(sent) and b"secret" not in sent


def fuzz(number: int, seed: int, users: Path) -> dict[str, int]:
    drawn, serving, seen = random.Random(seed), Alone(users), dict[str, int]()
    serving.failed.FREE = 10**9

    async def all_of_them() -> None:
        for _ in range(number):
            sent, logged_in = sequence(drawn), drawn.random() < 0.9
            try:
                said = await answered(sent, serving, logged_in=logged_in)
                check_answer(said)
            except BaseException:
                print("failed on", sent, logged_in)
                raise
            assert not (logged_in and b"ended by a fault" in said)
            for state in ("XX000", "08P01", "54000", "22P02", "22P03", "25P02", "26000", "34000"):
                seen[state] = seen.get(state, 0) + (f"C{state}".encode() in said)
            seen["rows"] = seen.get("rows", 0) + (b"\0SELECT" not in said and b"CSELECT" not in said and b"SELECT " in said)
        assert not +serving.use._running and not +serving.use._connected

    asyncio.run(all_of_them())
    return seen


class Faults(logging.Handler):
    """The server's own faults, which it tells nobody else."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@pytest.mark.slow
def test_sequences_of_bent_messages(tmp_path: Path) -> None:
    add(tmp_path / "u.json")
    faults = Faults()
    logging.getLogger("dpsql.server").addHandler(faults)
    seen = fuzz(5_000, 1, tmp_path / "u.json")
    logging.getLogger("dpsql.server").removeHandler(faults)
    assert not faults.told and all(seen.values()), seen


def test_over_sockets_the_next_client_is_served(tmp_path: Path) -> None:
    drawn = random.Random(3)
    with running(tmp_path, authentication_seconds=2) as server:
        for i in range(60):
            with Raw(server.port) as raw:
                try:
                    raw.send(sequence(drawn) if i % 2 else bent(drawn, startup(user="ada")))
                    raw.socket.settimeout(0.02)
                    raw.socket.recv(1000)
                except OSError:
                    pass
        with Raw(server.port) as raw:
            assert raw.login()[-1][0] == "Z"


if __name__ == "__main__":
    faults = Faults()
    logging.getLogger("dpsql.server").addHandler(faults)
    with tempfile.TemporaryDirectory() as folder:
        add(Path(folder) / "u.json")
        begun = time.monotonic()
        print(fuzz(int(sys.argv[1]), int(sys.argv[2]), Path(folder) / "u.json"), f"{time.monotonic() - begun:.0f} s", "faults", len(faults.told))
