"""The login of a client: its startup, its proof to know the password, and then the opening of its seat, which may take long."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator

from pygwire.messages import (
    AuthenticationSASL,
    AuthenticationSASLContinue,
    AuthenticationSASLFinal,
    SASLInitialResponse,
    SASLResponse,
)

from dpsql.catalog import name_faults
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire, Seat
from dpsql.server.front.wire.packets import Gone, violated
from dpsql.server.front.wire.server_faults import entered, quietly
from dpsql.server.front.wire.serving_terms import Serving
from dpsql.server.front.wire.startup import Startup
from dpsql.server.link.login_messages import FirstProof, NotProven, mechanisms
from dpsql.trusted.declarations import names

LOG = logging.getLogger("dpsql.server")


class Login:
    """One login of one client."""

    def __init__(self, startup: Startup, address: str, serving: Serving, proven: Callable[[str], None]) -> None:
        """`proven` is called with the name of the account when the client has proved to know the password, before its seat is
        opened. It may raise RefusedOnWire."""
        self._startup, self._address, self._serving, self._at_proof = startup, address, serving, proven
        self._name = ""
        self._decided = asyncio.Event()  # whether the password is proven
        self._packets, self._limits = startup.packets, serving.limits
        self._challenged = False

    async def seated(self) -> tuple[Seat, str]:
        """The seat of a client that has proved to know the password, and the name of its account. Raises RefusedOnWire, with the
        same words and messages for an unknown name and a wrong password."""
        given = self._startup.parameters
        if self._serving.needs_tls and not self._startup.encrypted:
            raise RefusedOnWire("connections are encrypted here", sqlstate="28000", severity="FATAL", hint="sslmode=require")
        if not given.get("user"):
            raise RefusedOnWire("the startup message names no user", sqlstate="28000", severity="FATAL")
        if len(given["user"]) > name_faults.LONGEST_GIVEN:  # the normal form of a stranger's text may take long, and much memory
            raise RefusedOnWire(f"names have {name_faults.LONGEST} characters at most", sqlstate="28000", severity="FATAL")
        if given.get("replication", "false").lower() not in ("", "0", "false", "off", "no"):
            raise RefusedOnWire("replication is not served", sqlstate="0A000", severity="FATAL")
        self._name = names.normal(given["user"])
        first = await self._first_proof()  # whoever says nothing delays nobody
        try:
            return await self._entered(given.get("database") or given["user"], first), self._name
        except NotProven as fault:
            LOG.warning("a login from %s failed", self._address)
            if fault.malformed:
                raise violated() from None
            raise RefusedOnWire(f"password authentication failed for user \"{given['user'][:63]}\"", sqlstate="28P01",
                                severity="FATAL") from None

    async def _entered(self, database: str, first: FirstProof) -> Seat:
        """The seat of the client. It counts as one that logs in until its password is proven. Raises as `entered` does."""
        loop = asyncio.get_running_loop()
        async with self._serving.failed.attempt(self._address):
            entering = asyncio.ensure_future(self._serving.run_login(lambda: entered(lambda: self._serving.door.enter(
                self._name, database, self._startup.parameters, first,
                lambda told: asyncio.run_coroutine_threadsafe(self._said(told), loop).result()))))
            entering.add_done_callback(lambda done: self._decided.set())
            with self._closed_if_left(entering):
                await self._decided.wait()
            if entering.done():
                return await entering
        with self._closed_if_left(entering):
            return await asyncio.shield(entering)

    @contextlib.contextmanager
    def _closed_if_left(self, entering: asyncio.Future[Seat]) -> Iterator[None]:
        """A context which closes the seat that another thread opens, if it is cancelled before."""
        try:
            yield
        except asyncio.CancelledError:
            entering.add_done_callback(lambda done: quietly(lambda: done.result().close()))
            raise

    async def _first_proof(self) -> FirstProof:
        """The client's first message. Raises NotProven."""
        certificate = self._serving.certificate if self._startup.encrypted else None
        self._packets.send(AuthenticationSASL(mechanisms=list(mechanisms(certificate))))
        await self._packets.flush()
        first = await self._packets.receive(self._limits.unproven_bytes)
        if not isinstance(first, SASLInitialResponse):
            raise Gone
        return FirstProof(mechanism=first.mechanism, message=first.data, bound=certificate is not None)

    async def _said(self, told: bytes) -> bytes:
        """The client's answer to the challenge; empty for the last message, which proves that the server knows the password."""
        if self._challenged:
            self._packets.send(AuthenticationSASLFinal(data=told))
            self._at_proof(self._name)
            self._decided.set()
            return b""
        self._challenged = True
        self._packets.send(AuthenticationSASLContinue(data=told))
        await self._packets.flush()
        final = await self._packets.receive(self._limits.unproven_bytes)
        if not isinstance(final, SASLResponse):
            raise Gone
        data: bytes = final.data
        return data
