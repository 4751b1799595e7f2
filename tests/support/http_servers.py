"""A server of HTTP in a thread, over a vault in the same process, and clients of it that hold every answer against the description."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import http.client
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from openapi_schema_validator import OAS31Validator
from support.sessions import session_of
from support.wire_servers import PASSWORD, add

from dpsql.engine.session import Session
from dpsql.frozen import Frozen
from dpsql.server.front.http.http_desk import HttpDesk
from dpsql.server.front.http.http_listening import HttpServer
from dpsql.server.front.statements.doors import VaultDoor
from dpsql.server.front.statements.remote_session import VaultChannel
from dpsql.server.front.wire.listening import TlsFiles, listen_on
from dpsql.server.front.wire.login_delays import FailedLogins
from dpsql.server.front.wire.server_limits import AccountUse, ServerLimits
from dpsql.server.vault import passwords
from dpsql.server.vault.account_turns import TurnLimits
from dpsql.server.vault.doorkeeper import Doorkeeper
from dpsql.server.vault.user_office import UserOffice
from dpsql.server.vault.vault import SignOnDoor, Vault

ARROW = "application/vnd.apache.arrow.stream"


class ControlHere:
    """What the front asks of a vault on the control socket, asked directly."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    def channel(self) -> VaultChannel:
        number, socket = cast(Any, self.vault.channel())
        return VaultChannel(socket, lambda statement, cause, if_free: threading.Thread(
            target=self.vault.interrupt, args=(number, statement, cause), kwargs={"if_free": if_free}, daemon=True).start())


class Reply(Frozen, kw_only=False):
    status: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def text(self) -> str:
        return self.content.decode()

    @property
    def code(self) -> str:
        """That of the error."""
        return str(self.body["error"]["code"])


@dataclasses.dataclass
class HttpRunning:
    """A server that runs."""

    port: int
    users: Path
    desk: HttpDesk
    http: HttpServer
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]
    tls: ssl.SSLContext | None = None
    description: dict[str, Any] = dataclasses.field(default_factory=dict)

    def client(self, token: str | None = None) -> HttpClient:
        return HttpClient(self, token)

    def logged_in(self, name: str = "ada") -> HttpClient:
        return self.client(self.client().post("/api/login", {"name": name, "password": PASSWORD}).body["token"])


class HttpClient:
    """One that sends a token, if it has one. Each request has a connection of its own."""

    def __init__(self, server: HttpRunning, token: str | None) -> None:
        self.server, self.token = server, token

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.ask("POST", path, None if body is None else json.dumps(body).encode(), headers)

    def query(self, sql: str, **more: Any) -> Reply:
        return self.post("/api/query", {"sql": sql, **more})

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        """`headers` have _ in place of -."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        if self.token is not None:
            given.setdefault("Authorization", f"Bearer {self.token}")
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            reply = Reply(answer.status, answer.headers, answer.read())
        self._check(method, path.partition("?")[0], reply)
        return reply

    def connection(self) -> http.client.HTTPConnection:
        if self.server.tls is not None:
            return http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=30, context=self.server.tls)
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)

    def _check(self, method: str, path: str, reply: Reply) -> None:
        """An answer has the form that the description says, and headers that protect it."""
        assert reply.headers["X-Content-Type-Options"] == "nosniff" and "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
        kind = reply.headers["Content-Type"].partition(";")[0]
        if path.startswith("/api/"):
            assert reply.headers["Cache-Control"] == "no-store"
        described = self.server.description.get("paths", {}).get(re.sub(r"(/api/guides/).*", r"\1{name}", path), {}).get(method.lower())
        if kind != "application/json" or path == "/openapi.json" or method == "HEAD" or not self.server.description:
            return
        schema: Any = {"$ref": "#/components/schemas/ErrorBody"}
        if described is not None:
            found = described["responses"].get(str(reply.status)) or described["responses"][f"{reply.status // 100}XX"]
            schema = found["content"][kind]["schema"]
        assert described is not None or reply.status >= 400
        OAS31Validator({**schema, "components": self.server.description["components"]}).validate(reply.body)


@contextlib.contextmanager
def http_running(folder: Path, *, opened: Callable[[str], Session] | None = None, tls: Path | None = None, names: frozenset[str] = frozenset(),
                 description: bool = True, elsewhere: SignOnDoor | None = None, agents: bool = False, **limits: Any) -> Iterator[HttpRunning]:
    """`opened` gives the session of a user; by default, of a small world. `elsewhere` is the door of single sign-on. With `agents`,
    it serves them at /mcp."""
    users = folder / "dpsql.users.json"
    if not users.exists():
        add(users)
    keeper = Doorkeeper(policy=folder / "dpsql.toml", users=passwords.WatchedUsers(users))
    made = opened or functools.partial(_session, folder)
    allowed = ServerLimits(**limits)
    vault = Vault(lambda user, database: made(user), keeper.authenticate, pace=None,
                  turns=TurnLimits(at_once=allowed.statements_of_account, seconds=allowed.turn_seconds),
                  office=UserOffice(keeper.policy, keeper.users), elsewhere=elsewhere)
    sockets = listen_on("127.0.0.1", 0)
    port, kept, started = sockets[0].getsockname()[1], [], threading.Event()

    async def serve() -> None:
        desk = HttpDesk(door=VaultDoor(ControlHere(vault).channel), limits=allowed, use=AccountUse(allowed), failed=FailedLogins(),
                        policy="dpsql.toml", sign_on_scheme=None if elsewhere is None else elsewhere.sign_on.scheme)
        async with contextlib.AsyncExitStack() as running:
            route = None
            if agents:
                from dpsql.server.front.http.http_agents import AgentRoute

                route = AgentRoute(desk)
                await running.enter_async_context(route.running())
            server = HttpServer(desk, tls=None if tls is None else TlsFiles(certificate=str(tls)), names=names, agents=route)
            stop = asyncio.Event()
            kept.extend((desk, server, stop, asyncio.get_running_loop()))
            started.set()
            await server.serve(sockets, stop)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(20)
    desk, server, stop, loop = kept

    def stopped() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)
        thread.join(20)
        assert not thread.is_alive()

    trusting = None if tls is None else ssl.create_default_context(cafile=str(tls))
    found = HttpRunning(port=port, users=users, desk=desk, http=server, loop=loop, stop=stopped, tls=trusting)
    try:
        if description:
            found.description = found.client().get("/openapi.json").body
        yield found
    finally:
        stopped()
        vault.close()


def _session(folder: Path, user: str) -> Session:
    return session_of(folder, analyst=user)
