"""`dpsql serve`: the vault, which is this process, and the front that it starts.

    client ── TLS, PostgreSQL's protocol or HTTP ─> front: parses, binds, plans, has no handle of the data
                                                    │ a channel for each client: plans as plain values
                                                    v
                                                  vault: rows, ledger, noise, users; derives every claim again

The front gets the listening sockets and its settings, is shut in by the system (`shut_in`), and ends on SIGTERM when its clients
are answered; the vault ends with it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import dpsql
from dpsql.catalog.model import Policy
from dpsql.catalog.policy import read_policy
from dpsql.engine.opening import find_ledger, noticed
from dpsql.engine.promises import check_promises
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen, asdict, replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.front.wire.listening import TlsFiles, address_of, is_loopback, listen_on, tls_terms
from dpsql.server.front.wire.server_limits import ServerLimits
from dpsql.server.link.freed_memory import FreedMemory
from dpsql.server.start.front_process import control_sockets, serve_control, start_front
from dpsql.server.vault.account_turns import TurnLimits
from dpsql.server.vault.doorkeeper import Doorkeeper, SignOnKeeper
from dpsql.server.vault.passwords import WatchedUsers, users_file
from dpsql.server.vault.sign_on import SignOn
from dpsql.server.vault.sign_on_terms import read_sign_on
from dpsql.server.vault.user_office import UserOffice
from dpsql.server.vault.vault import Vault
from dpsql.server.walls.front_users import user_of_front
from dpsql.server.walls.shut_in import be_unreadable

LOG = logging.getLogger("dpsql.server")
FRONT = "dpsql.server.front.front_serving:serve_front"
BEGINNING = 60.0  # seconds that the front may take until it accepts clients
LAST_WORDS = 2.0  # seconds for the last lines of its log


class FrontSettings(Frozen):
    """What the front is told when it starts: the numbers of the listening sockets, files in PEM for TLS, limits; for HTTP
    the names of the server, that of the policy's file, and the scheme of the address to which people who sign on come back."""

    sockets: list[int]
    http_sockets: list[int]
    http_names: list[str]
    agents: bool
    policy: str
    tls: TlsFiles | None
    needs_tls: bool
    limits: ServerLimits
    sign_on_scheme: str | None = None

    def as_json(self) -> str:
        return json.dumps(asdict(self))


Ready = Callable[..., None]
"""Is called with the host and the port of each protocol."""


def serve(policy: Path, listen: str, *, http: str | None = None, http_names: Sequence[str] = (), agents: bool = False,
          tls: TlsFiles | None = None, without_tls: bool = False, front_user: str | None = None, sign_on: Path | None = None,
          limits: ServerLimits | None = None, ready: Ready = lambda *addresses: None) -> int:
    """Serve until SIGTERM or SIGINT; must run in the main thread. `ready` is called with the addresses, the HTTP address last,
    when clients can connect. Returns the exit code.

    Passwords are proven without being sent, but answers are read by whoever listens: so an address that is reached from elsewhere
    needs TLS, unless the owner says `without_tls`. Raises PolicyError, LedgerError or OperationalError.

    The front is shut in. Where root starts the server, it runs as another user (`front_users`).
    """
    addresses = [address_of(text) for text in (listen, http) if text is not None]
    needs_tls = [not is_loopback(host) and not without_tls for host, _ in addresses]
    if tls is None and any(needs_tls):
        raise OperationalError(f"{addresses[needs_tls.index(True)][0]} can be reached from other machines, so it needs a "
                               "certificate",
                               code="tls", try_="--certificate FILE --key FILE, or an address such as 127.0.0.1:5433")
    user = user_of_front(front_user)
    memory = FreedMemory()
    memory.use_few_arenas()
    declared = read_policy(policy)
    _check_ledger(declared)
    certificate = None if tls is None else tls_terms(tls).certificate
    keeper = Doorkeeper(policy=policy, users=WatchedUsers(users_file(policy)), certificate=certificate)
    listening = [listen_on(host, port) for host, port in addresses]
    sockets = [*chain(*listening)]
    reached = [(host, found[0].getsockname()[1]) for (host, _), found in zip(addresses, listening, strict=True)]
    limits = limits or ServerLimits()
    elsewhere = None if sign_on is None else SignOnKeeper(policy=policy, sign_on=SignOn(
        read_sign_on(sign_on, [*declared.budgets]), keeper.users.now))
    vault = Vault(keeper.open_account, keeper.authenticate, pace=declared.pace, turns=TurnLimits(
        at_once=limits.statements_of_account, waiting=limits.waiting_of_account, size=limits.waiting_bytes,
        seconds=limits.turn_seconds), office=UserOffice(
            policy, keeper.users, None if elsewhere is None else elsewhere.sign_on), elsewhere=elsewhere)
    ours, theirs = control_sockets()
    numbers = [sock.fileno() for sock in sockets]
    wire = len(listening[0])
    be_unreadable()
    accepts = threading.Event()
    with (contextlib.closing(vault), ours, _folder_of_front() as folder,
          _stopping(accepts) as running):
        handed = None if tls is None else _handed(tls, Path(folder))
        settings = FrontSettings(sockets=numbers[:wire], http_sockets=numbers[wire:], http_names=[*http_names], agents=agents,
                                 policy=policy.name, tls=handed, needs_tls=needs_tls[0],
                                 sign_on_scheme=None if elsewhere is None else elsewhere.sign_on.scheme,
                                 limits=replace(limits, pace_seconds=declared.pace_stored or 0.0))
        if user is not None:
            for path in (folder, *([] if handed is None else handed.paths)):
                os.chown(path, *user)
        with theirs:
            front = start_front(FRONT, theirs, folder=Path(folder), user=user, handles=tuple(numbers), input=subprocess.PIPE,
                                errors=subprocess.PIPE)
        running.append(front)
        log = threading.Thread(target=_copy_log, args=(front.stderr,), daemon=True)
        log.start()
        for sock in sockets:
            sock.close()
        assert front.stdin is not None
        with contextlib.suppress(BrokenPipeError), front.stdin as pipe:  # it may have ended already
            pipe.write(settings.as_json().encode())
        threading.Thread(target=serve_control, args=(ours, vault, accepts.set), daemon=True).start()
        if _has_begun(front, accepts, user, log):
            for path in [] if handed is None else handed.paths:
                os.unlink(path)
            gc.freeze()  # what is there for as long as the server is no full collection looks at again
            gc.set_threshold(10_000)  # a plan has some thousand parts, most of which are not in cycles
            memory.give_back_forever()
            ready(*reached)
        code = front.wait()
        log.join(LAST_WORDS)
        if code == -signal.SIGSYS:
            LOG.error("the process that parses what analysts send was ended: it made a system call that no library of it makes")
        return code


@contextlib.contextmanager
def _folder_of_front() -> Iterator[str]:
    """A folder that the front may write in, and that is removed at the end: unless a front in other hands has put so many folders
    inside each other that this cannot be done, which is logged."""
    folder = tempfile.mkdtemp(prefix="dpsql-front-")
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except RecursionError:
            LOG.warning("%s cannot be removed: it has too many folders inside each other", folder)


def _handed(files: TlsFiles, folder: Path) -> TlsFiles:
    """Copies of the files for TLS in the folder of the front, until it has read them: it may be a user who can read them nowhere
    else."""
    made = TlsFiles(certificate=str(folder / "certificate.pem"), key=None if files.key is None else str(folder / "key.pem"))
    for path, copy in zip(files.paths, made.paths, strict=True):
        with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
            written.write(Path(path).read_bytes())
    return made


def _not_begun(user: tuple[int, int] | None) -> OperationalError:
    who = "" if user is None else (f": the user {user[0]} must be able to run {sys.executable}, and to read "
                                   f"{Path(dpsql.__file__).parents[1]}")
    return OperationalError(f"the process that serves clients cannot start{who}", code="front", try_="" if user is None else
                            "a Python environment that everybody can read, such as one in /opt; or --front-user root")


def _copy_log(lines: IO[bytes]) -> None:
    """Copy the log of the front to ours, as text. The front does not inherit ours: a file could be truncated, and a terminal
    could be read."""
    for line in iter(lambda: lines.readline(65_536), b""):
        told = line.decode(errors="replace")
        sys.stderr.write("".join(each if each.isprintable() or each in "\n\t" else "?" for each in told))
        sys.stderr.flush()


def _check_ledger(declared: Policy) -> None:
    """Open the ledger, and log what is noticed of it: what is wrong would first be noticed by an analyst otherwise."""
    with contextlib.closing(ReportingLedger(*find_ledger(declared))) as ledger:
        check_promises(declared, ledger)
        for note in {text: None for budget in declared.budgets for text in noticed(declared, None, ledger, budget)[0]}:
            LOG.warning("%s", note)


def _has_begun(front: subprocess.Popen[bytes], accepts: threading.Event, user: tuple[int, int] | None,
               log: threading.Thread) -> bool:
    """Whether the front accepts clients; it was asked to end otherwise. Raises OperationalError if it ends by itself, and
    where it takes too long."""
    end = time.monotonic() + BEGINNING
    while not accepts.wait(0.02):
        if front.poll() is not None:
            log.join(LAST_WORDS)
            if front.returncode > 0:  # its log says what was wrong
                raise _not_begun(user)
            return False
        if time.monotonic() > end:
            raise OperationalError("the process that serves clients has not started in time", code="front")
    return True


@contextlib.contextmanager
def _stopping(accepts: threading.Event) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A context in which SIGTERM and SIGINT end the front that is put in a list, as soon as it knows of signals: it answers its
    clients first."""
    running: list[subprocess.Popen[bytes]] = []

    def stop(*told: Any) -> None:
        def end() -> None:
            accepts.wait(BEGINNING)
            for front in running:
                with contextlib.suppress(OSError):
                    front.terminate()

        threading.Thread(target=end, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield running
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for front in running:
            if front.poll() is None:
                front.kill()
                print("the front was still running and was ended", file=sys.stderr)
