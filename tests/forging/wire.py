"""Forgeries over the wire: to a vault in a process of its own, whose ledger is on a disk, as a captured front sends them.

A forgery is a request that the wire form can hold, or a real message whose values were changed node by node. What the vault charged
is read from its ledger; what it answered to is read here as it reads it, and judged in this process, on the same rows and all
neighbours.
"""

from __future__ import annotations

import contextlib
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from forging.forger import Forgery
from forging.forging import Forging, Totals, Verdict
from forging.tables import SMALL
from oracle.replay import Family
from support.hostile_fronts import changed
from support.sessions import open_ledger
from support.vaults import PASSWORD, knows

from dpsql.engine.session import Session
from dpsql.errors import OperationalError
from dpsql.server.front.statements.remote_session import VaultChannel
from dpsql.server.link.plain_values import UnreadableMessage, decoded, encoded
from dpsql.server.link.vault_calls import Fault, Made, ReleasedStep, receive_answer
from dpsql.server.vault.vault import Channel
from dpsql.solvers.usual import USUAL
from dpsql.trusted.accounting.cost import FREE, Cost
from dpsql.trusted.kernel.run import Kernel

PAYS = Cost(epsilon=None, rho=Fraction(10**6), delta=Fraction(1))  # what the front offers: a ledger holds no more of many statements
PATIENCE = 30.0  # seconds to wait for an answer


class Kept(Kernel):
    """A kernel whose reader is a test's, which nobody closes."""

    def close(self) -> None:
        pass


class Unlimited(Session):
    """A session whose budget is never spent: what a forgery was refused for is never that."""

    @property
    def limits(self) -> dict[str | None, Any]:
        return {}


def serve(end: int, folder: Path) -> None:
    """Be the vault: one channel, on a socket that was handed over."""
    family = Family(SMALL)
    template = family.session(0)
    ledger = open_ledger(folder)
    kernel = Kept(family.readers[None], ledger, incidents=10**9, late=10**9, solvers=USUAL)  # type: ignore[arg-type]

    def opened(user: str, database: str) -> Session:
        return Unlimited(catalog=template.catalog, budget=template.budget, analyst=user, kernel=kernel, ledger=ledger,
                         scratch=template.scratch, price=template.price, policy="p")

    Channel(socket.socket(fileno=end), opened, knows, None).serve()


@dataclass
class RealVault:
    """A vault that runs, the front's end of its channel, and its ledger."""

    channel: VaultChannel
    events: sqlite3.Connection
    process: subprocess.Popen[bytes]

    def charged(self) -> int:
        found: int = self.events.execute("SELECT COUNT(*) FROM events WHERE kind = 'charge'").fetchone()[0]
        return found

    def ask(self, data: bytes) -> Made | Fault:
        """The outcome of a statement whose script asks for one request."""
        frames = self.channel._frames
        frames.send(b"run\n" + data)
        answer = receive_answer(frames)
        while isinstance(answer, ReleasedStep):
            frames.send(b"step\n" + encoded(("made", "{}"), {}))
            answer = receive_answer(frames)
        assert isinstance(answer, Made | Fault)
        return answer


@contextlib.contextmanager
def running() -> Iterator[RealVault]:
    """A vault for as long as the context lasts."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    with tempfile.TemporaryDirectory() as folder:
        open_ledger(Path(folder)).close()
        process = subprocess.Popen([sys.executable, "-m", "forging", "--vault", str(theirs.fileno()), "--folder", folder],
                                   pass_fds=[theirs.fileno()], env={"PYTHONPATH": ":".join(sys.path), "OPENBLAS_NUM_THREADS": "1", "DPSQL_CACHE": "", "DPSQL_STATE": ""})
        theirs.close()
        channel = VaultChannel(ours)
        try:
            channel.log_in("ada", "", lambda message: PASSWORD)
            yield RealVault(channel, sqlite3.connect(f"file:{folder}/test.ledger?mode=ro", uri=True), process)
        finally:
            channel.close()
            process.kill()
            process.wait()


class Wire:
    """Sends forgeries to a vault, and judges them."""

    def __init__(self, forging: Forging) -> None:
        self.forging, self._inside = forging, contextlib.ExitStack()
        self._tables = dict(forging.corpus.family._catalog.tables)
        self.messages = [("run", data) for base in forging.corpus.bases if (data := self._message(base.request, "d")) is not None]

    def __enter__(self) -> Wire:
        self.vault = self._inside.enter_context(running())
        return self

    def __exit__(self, *told: object) -> None:
        self._inside.close()

    def _message(self, request: Any, digest: str) -> bytes | None:
        try:
            return encoded((PAYS, digest, "forged", (), ("asked", request), 0.0, False), self._tables)
        except (TypeError, ValueError, AttributeError, RecursionError):
            return None  # nothing that can be said on the wire

    def run(self, numbers: Any, totals: Totals, told: Callable[[int, Totals], None] = lambda number, totals: None) -> None:
        for number in numbers:
            dice = random.Random(number)
            forgery = self.forging.forger.forgery(number)
            data = self._message(forgery.request, f"forged {number}") if dice.random() < 0.5 else None
            if data is None:
                _, data = changed(dice.choice(self.messages), dice, self.messages)
                forgery = Forgery(forgery.base.request, forgery.base, "a message")
            totals.add(number, forgery, self.verdict(data, forgery, number))
            told(number, totals)

    def verdict(self, data: bytes, forgery: Forgery, number: int) -> Verdict:
        before = self.vault.charged()
        try:
            answer = self.vault.ask(data)
        except OperationalError:  # what it answers next would be the answer to this one, so another vault takes its place
            ended = self.vault.process.poll()
            self._inside.close()
            self.vault = self._inside.enter_context(running())
            return Verdict("slow", f"no answer within {PATIENCE:.0f} s") if ended is None else Verdict("crashed", f"the vault ended with {ended}")
        charged = self.vault.charged() - before
        if not charged:
            return Verdict("refused") if isinstance(answer, Fault) else Verdict("crashed", f"answered without a charge: {answer!r:.80}")
        offered, request = self._read(data)
        here = self.forging.verdict(Forgery(request, forgery.base, forgery.what), number)
        if isinstance(answer, Fault):
            if here.outcome in ("held", "moved") and not offered.covers(self.forging.cost or FREE):
                return Verdict("refused later", "it costs more than was offered")
            return here if here.outcome == "incident" else Verdict("incident", f"{answer!r:.60}; in this process: {here.outcome} {here.cause}")
        return here

    def _read(self, data: bytes) -> tuple[Cost, Any]:
        """What was offered, and the request, as the vault read them."""
        try:
            cost, *_, step = decoded(data, lambda name, columns: self._tables[name])[:5]
        except (UnreadableMessage, ValueError):
            return FREE, None
        return cost, step[1] if type(step) is tuple and len(step) == 2 else None
