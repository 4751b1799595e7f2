"""`dpsql serve`: the vault, which is this process, and the front that it starts.

    client ── TLS, the protocol of PostgreSQL ──> front: parses, binds, plans, has no handle of the data
                                                    │ a channel for each client: plans as plain values
                                                    v
                                                  vault: rows, ledger, noise, users; derives every claim again

The front gets the listening sockets and its settings, and ends on SIGTERM when its clients are answered; the vault ends with it.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import find_ledger
from dpsql.errors import OperationalError
from dpsql.kernel.ledger import Ledger
from dpsql.server.doorkeeper import Doorkeeper
from dpsql.server.front_process import control_sockets, serve_control, start_front
from dpsql.server.listening import TlsFiles, address_of, is_loopback, listen_on, tls_terms
from dpsql.server.passwords import WatchedUsers, users_file
from dpsql.server.server_limits import ServerLimits
from dpsql.server.vault import Vault

FRONT = "dpsql.server.listening:serve_front"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontSettings:
    """What the front is told when it starts: the numbers of the listening sockets, files in PEM for TLS, and limits."""

    sockets: list[int]
    tls: TlsFiles | None
    needs_tls: bool
    limits: ServerLimits

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def serve(policy: Path, listen: str, *, tls: TlsFiles | None = None, without_tls: bool = False,
          limits: ServerLimits | None = None, ready: Callable[[str, int], None] = lambda host, port: None) -> int:
    """Serve until SIGTERM or SIGINT; for the main thread. `ready` is called with the address when clients can connect. Returns
    the exit code.

    Passwords are proven without being sent, but answers are read by whoever listens: so an address that is reached from elsewhere
    needs TLS, unless the owner says `without_tls`. Raises PolicyError, LedgerError or OperationalError.
    """
    host, port = address_of(listen)
    needs_tls = not is_loopback(host) and not without_tls
    if needs_tls and tls is None:
        raise OperationalError(f"{host} is reached from other machines, and needs a certificate", code="tls",
                               try_="--certificate FILE --key FILE, or --listen 127.0.0.1:5433")
    declared = read_policy(policy)
    Ledger(*find_ledger(declared)).close()  # or each analyst would be told what is wrong, and the owner not
    certificate = None if tls is None else tls_terms(tls).certificate
    keeper = Doorkeeper(policy=policy, users=WatchedUsers(users_file(policy)), certificate=certificate)
    sockets = listen_on(host, port)
    address = sockets[0].getsockname()[1]
    vault = Vault(keeper.open_account, keeper.authenticate, pace=declared.pace)
    ours, theirs = control_sockets()
    settings = FrontSettings(sockets=[sock.fileno() for sock in sockets], tls=tls, needs_tls=needs_tls,
                             limits=limits or ServerLimits())
    with contextlib.closing(vault), ours:
        with theirs:
            front = start_front(FRONT, theirs, handles=tuple(settings.sockets), input=subprocess.PIPE)
        for sock in sockets:
            sock.close()
        assert front.stdin is not None
        with front.stdin as told:
            told.write(settings.as_json().encode())
        threading.Thread(target=serve_control, args=(ours, vault), daemon=True).start()
        with _stopping(front):
            ready(host, address)
            return front.wait()


@contextlib.contextmanager
def _stopping(front: subprocess.Popen[bytes]) -> Iterator[None]:
    """A context in which SIGTERM and SIGINT end the front, which answers its clients first."""
    def stop(*told: Any) -> None:
        with contextlib.suppress(OSError):
            front.terminate()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if front.poll() is None:
            front.kill()
            print("the front was still running, and was ended", file=sys.stderr)
