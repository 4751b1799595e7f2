"""Sessions of a front over a channel to a vault in the same process, beside sessions in one process on the same rows and salt."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.sessions import open_ledger, session_of

from dpsql.engine.session import Session
from dpsql.errors import OperationalError
from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.front.statements.remote_session import VaultChannel, open_remote_session
from dpsql.server.vault.passwords import ROLES
from dpsql.server.vault.vault import Say, Vault

PASSWORD = b"correct horse"


def knows(user: str, say: Say) -> Callable[[], str]:
    """A check of a password that is good enough for tests. Each user has the role of their name, or is an analyst."""
    if say(b"password?") != PASSWORD:
        raise OperationalError("the name or the password is wrong", code="login")
    return lambda: user if user in ROLES else "analyst"


def vault_of(made: Callable[[str], Session], pace: float | None = None) -> Vault:
    """A vault of the session of each user."""
    return Vault(lambda user, database: made(user), knows, pace=pace)


def channel_to(vault: Vault) -> VaultChannel:
    found = vault.channel()
    assert found is not None
    return VaultChannel(found[1])


def remote(vault: Vault, user: str = "ada") -> Session:
    channel = channel_to(vault)
    return open_remote_session(channel, channel.log_in(user, "", lambda message: PASSWORD))


class Twins(Frozen):
    """The same world twice: of a session in this process, and behind a vault. The ledgers have one salt."""

    here: Session
    there: Session
    ledgers: tuple[ReportingLedger, ReportingLedger]

    def events(self) -> list[list[tuple[Any, ...]]]:
        """What both ledgers hold, without times and hashes."""
        return [ledger._store.connection.execute(  # type: ignore[union-attr]
            "SELECT kind, budget, analyst, digest, data, sql, epsilon, rho, delta, answers, body FROM events ORDER BY seq").fetchall()
            for ledger in self.ledgers]


def twins(folder: Path, *, readers: Callable[[], Any], **terms: Any) -> Twins:
    """Two sessions of these terms, over a reader each."""
    here, there = folder / "here", folder / "there"
    here.mkdir()
    open_ledger(here).close()
    shutil.copytree(here, there)
    ours, theirs = open_ledger(here), open_ledger(there)
    vault = vault_of(lambda user: session_of(there, reader=readers(), ledger=theirs, analyst=user, **terms))
    return Twins(here=session_of(here, reader=readers(), ledger=ours, **terms), there=remote(vault), ledgers=(ours, theirs))
