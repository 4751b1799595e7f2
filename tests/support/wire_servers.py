"""A server of the wire in a thread, with users of its own, and clients of it as bytes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from support.seats import ScriptedSeat

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen
from dpsql.server.front.statements.doors import Say
from dpsql.server.front.terms.sqlstates import refusal_on_wire
from dpsql.server.front.wire.listening import ListeningServer, TlsTerms, listen_on
from dpsql.server.front.wire.server_limits import ServerLimits
from dpsql.server.link.login_messages import MALFORMED, FirstProof, NotProven
from dpsql.server.vault import passwords
from dpsql.server.vault.doorkeeper import Doorkeeper

PASSWORD = "correct horse"


@dataclasses.dataclass
class Running:
    """A server that runs, and what was opened on it."""

    port: int
    users: Path
    server: ListeningServer
    loop: asyncio.AbstractEventLoop
    stop: asyncio.Event
    thread: threading.Thread
    seats: list[Any] = dataclasses.field(default_factory=list)

    def stopped(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(20)
        assert not self.thread.is_alive()

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=ada password='{PASSWORD}' dbname=study"


def add(users: Path, name: str = "ada", password: str = PASSWORD) -> None:
    passwords.add_user(users, passwords.User(name=name, verifier=passwords.verifier(password)))


class UsersDoor:
    """A door in one process: the doorkeeper is asked here, and seats are opened here. Whoever is no user any more is refused."""

    def __init__(self, users: Path, open_seat: Callable[..., Any], certificate: str | None = None) -> None:
        self.keeper = Doorkeeper(policy=users.parent, users=passwords.WatchedUsers(users), certificate=certificate)
        self.open_seat = open_seat

    def enter(self, name: str, database: str, startup: Mapping[str, str], first: FirstProof, say: Say) -> Any:
        answers = iter((lambda message: first.as_bytes(), say, say))
        try:
            check = self.keeper.authenticate(name, lambda message: next(answers)(message))
        except OperationalError as fault:
            raise NotProven(malformed=fault.code == MALFORMED) from None
        return CheckedSeat(self.open_seat(name, database, startup), check)


class CheckedSeat:
    """A seat for as long as its user is one."""

    def __init__(self, seat: Any, check: Callable[[], None]) -> None:
        self._seat, self._check = seat, check

    def execute(self, *given: Any) -> Any:
        try:
            self._check()
        except OperationalError as fault:
            raise refusal_on_wire(fault, "") from None
        return self._seat.execute(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._seat, name)


class Served(Frozen, kw_only=False):
    """The command `dpsql serve`, run by itself: the process of the vault, which starts the front. The port of HTTP is 0 where it is
    not served."""

    port: int
    http_port: int
    users: Path
    process: subprocess.Popen[str]
    log: list[str]

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=ada password='{PASSWORD}' dbname=study"


@contextlib.contextmanager
def served(policy: Path, *, budget: str, user: str = "ada", price: Mapping[str, Decimal] | None = None, terms: Sequence[str] = (),
           python: str = sys.executable, packages: Sequence[str] = ()) -> Iterator[Served]:
    """`price` is that of the user's statements that state none. `terms` are further arguments of the command, such as ``--http 127.0.0.1:0``. `packages` are folders in which another
    `python` finds what is installed for this one."""
    users = passwords.users_file(policy)
    passwords.add_user(users, passwords.User(name=user, verifier=passwords.verifier(PASSWORD), budget=budget, price=price or {}))
    root = Path(__file__).parents[2]
    with subprocess.Popen([python, "-m", "dpsql.cli", "serve", "--policy", policy, "--listen", "127.0.0.1:0", *terms], text=True,
                          stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *packages])}) as process:
        assert process.stderr is not None
        found, log = None, list[str]()
        while found is None:
            log.append(process.stderr.readline())
            assert log[-1], "".join(log)
            found = re.match(r"serving at 127.0.0.1:(\d+);(?:.*https?://127.0.0.1:(\d+)/)?", log[-1])
        threading.Thread(target=lambda: log.extend(process.stderr or ()), daemon=True).start()
        try:
            yield Served(port=int(found[1]), http_port=int(found[2] or 0), users=users, process=process, log=log)
        finally:
            process.terminate()


@contextlib.contextmanager
def running(folder: Path, open_seat: Callable[..., Any] = ScriptedSeat, *, tls: TlsTerms | None = None, needs_tls: bool = False,
            **limits: Any) -> Iterator[Running]:
    users = folder / "dpsql.users.json"
    if not users.exists():
        add(users)
    seats: list[Any] = []

    def opened(*given: Any) -> Any:
        seats.append(open_seat(*given))
        return seats[-1]

    server = ListeningServer(door=UsersDoor(users, opened, None if tls is None else tls.certificate), tls=tls, needs_tls=needs_tls,
                             limits=ServerLimits(**limits))
    sockets = listen_on("127.0.0.1", 0)
    started, made = threading.Event(), {}

    async def serve() -> None:
        made["loop"], made["stop"] = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await server.serve(sockets, made["stop"])

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    found = Running(port=sockets[0].getsockname()[1], users=users, server=server, loop=made["loop"], stop=made["stop"],
                    thread=thread, seats=seats)
    try:
        yield found
    finally:
        found.stopped()


def certificate(folder: Path) -> Path:
    """A certificate with its key in one file."""
    path = folder / "server.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(folder / "key.pem"),
                    "-out", str(folder / "cert.pem")], check=True, capture_output=True)
    path.write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
    return path


def packet(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def query(text: str) -> bytes:
    return packet(b"Q", text.encode() + b"\0")


def startup(version: int = 0x30000, **parameters: str) -> bytes:
    body = struct.pack("!I", version) + b"".join(f"{key}\0{value}\0".encode() for key, value in parameters.items()) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


class Raw:
    """A client that sends and gets bytes; it logs in by SCRAM without a binding."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.socket.makefile("rb")
        self.key: tuple[int, bytes] = (0, b"")

    def send(self, *packets: bytes) -> None:
        self.socket.sendall(b"".join(packets))

    def receive(self) -> tuple[str, bytes]:
        """The next message; an empty kind at the end."""
        head = self.file.read(5)
        if len(head) < 5:
            return "", b""
        return chr(head[0]), self.file.read(struct.unpack("!I", head[1:])[0] - 4)

    def until(self, kind: str) -> list[tuple[str, bytes]]:
        found = [self.receive()]
        while found[-1][0] not in (kind, ""):
            found.append(self.receive())
        return found

    def login(self, user: str = "ada", password: str = PASSWORD, **parameters: Any) -> list[tuple[str, bytes]]:
        """All messages of the login; the last is an error where it failed."""
        import scramp

        version = parameters.pop("version", 0x30000)
        self.send(startup(version, user=user, **parameters))
        found = [self.receive()]
        while found[-1][0] == "v":
            found.append(self.receive())
        if found[-1][0] != "R":
            return found
        client = scramp.ScramClient(["SCRAM-SHA-256"], user, password)
        first = client.get_client_first().encode()
        self.send(packet(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first))
        found.append(self.receive())
        if found[-1][0] != "R":
            return found
        client.set_server_first(found[-1][1][4:].decode())
        self.send(packet(b"p", client.get_client_final().encode()))
        while found[-1][0] not in ("Z", "E", ""):
            found.append(self.receive())
            if found[-1][0] == "K":
                self.key = struct.unpack("!I", found[-1][1][:4])[0], found[-1][1][4:]
        return found

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fields(body: bytes) -> dict[str, str]:
    """Those of an error or a notice."""
    return {chr(part[0]): part[1:].decode() for part in body.split(b"\0") if part}


def kinds(messages: list[tuple[str, bytes]]) -> str:
    return "".join(kind for kind, _ in messages)


