"""The program of the front process: the protocol of PostgreSQL and, where the owner wants it, HTTP, on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpsql.server.front.control import Control
from dpsql.server.front.statements.doors import VaultDoor
from dpsql.server.front.wire.listening import ListeningServer, TlsFiles, tls_terms
from dpsql.server.front.wire.server_limits import ServerLimits
from dpsql.server.link.freed_memory import FreedMemory

if TYPE_CHECKING:
    from dpsql.server.front.http.http_agents import AgentRoute
    from dpsql.server.front.http.http_desk import HttpDesk

LOG = logging.getLogger("dpsql.server")


def serve_front(control: Control) -> None:
    """Serve clients until SIGTERM or SIGINT. The settings are read from stdin; see `serving`."""
    settings = json.loads(sys.stdin.read())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    LOG.info("what analysts send is parsed by the user %d of the system", os.getuid())
    memory = FreedMemory()
    memory.use_few_arenas()
    memory.give_back_forever()
    asyncio.run(_served(VaultDoor(control.channel), settings, control.ready))


async def _served(door: VaultDoor, settings: Mapping[str, Any], ready: Callable[[], None]) -> None:
    tls = None if settings["tls"] is None else TlsFiles(**settings["tls"])
    server = ListeningServer(door=door, tls=None if tls is None else tls_terms(tls), needs_tls=settings["needs_tls"],
                             limits=ServerLimits(**settings["limits"]))
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    running = contextlib.AsyncExitStack()
    serving, accepting = [server.serve(_sockets(settings["sockets"]), stop)], [server.accepting]
    if settings["http_sockets"]:
        from dpsql.server.front.http.http_desk import HttpDesk  # FastAPI takes a while, and many servers have no need of it
        from dpsql.server.front.http.http_listening import HttpServer

        desk = HttpDesk(door=door, limits=server.limits, use=server.use, failed=server.failed, policy=settings["policy"],
                        sign_on_scheme=settings["sign_on_scheme"])
        agents = await running.enter_async_context(_agents(desk)) if settings["agents"] else None
        http = HttpServer(desk, tls=tls, names=frozenset(settings["http_names"]), agents=agents)
        serving.append(http.serve(_sockets(settings["http_sockets"]), stop))
        accepting.append(http.accepting)
    async with running:
        await asyncio.gather(*serving, _told_when(accepting, ready))


@contextlib.asynccontextmanager
async def _agents(desk: HttpDesk) -> AsyncIterator[AgentRoute]:
    """The route for agents, while it is open."""
    from dpsql.server.front.http.http_agents import AgentRoute

    route = AgentRoute(desk)
    async with route.running():
        yield route


async def _told_when(accepting: Sequence[asyncio.Event], ready: Callable[[], None]) -> None:
    for each in accepting:
        await each.wait()
    gc.freeze()  # what is there for as long as the server is no full collection looks at again
    gc.set_threshold(10_000)  # a plan has some thousand parts, most of which are not in cycles
    ready()


def _sockets(numbers: list[int]) -> list[socket.socket]:
    return [socket.socket(fileno=number) for number in numbers]
