"""Passwords cannot be guessed without limit, even by a front in other hands, and nobody is locked out."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import pytest

pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

import scramp
from support.sessions import session_of
from support.vaults import channel_to

from dpsql.errors import OperationalError
from dpsql.server.link.login_messages import PLAIN, FirstProof
from dpsql.server.vault import passwords
from dpsql.server.vault.doorkeeper import Doorkeeper
from dpsql.server.vault.proof_attempts import LONGEST, MOST_KEPT, OF_ALL, OF_NAME, ProofAttempts
from dpsql.server.vault.vault import Vault


class Hours:
    """A clock that goes on when somebody waits."""

    def __init__(self) -> None:
        self.time, self.waited = 1000.0, 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time, self.waited = self.time + seconds, seconds


@pytest.fixture
def hours() -> Hours:
    return Hours()


@pytest.fixture
def attempts(hours: Hours) -> ProofAttempts:
    return ProofAttempts(hours.now, hours.sleep)


def fail(attempts: ProofAttempts, name: str) -> None:
    with contextlib.suppress(KeyError), attempts.one(name):
        raise KeyError


def test_proofs_that_fail_are_spaced(attempts: ProofAttempts, hours: Hours) -> None:
    for _ in range(OF_NAME.free + 1):
        fail(attempts, "ada")
        assert hours.waited == 0
    for _ in range(100):
        fail(attempts, "ada")
        assert hours.waited == pytest.approx(OF_NAME.gap)
    fail(attempts, "eve")
    assert hours.waited == 0, "of another name"
    hours.time += 120
    fail(attempts, "ada")
    assert hours.waited == 0


def test_those_that_succeed_are_free(attempts: ProofAttempts, hours: Hours) -> None:
    for _ in range(1000):
        with attempts.one("ada"):
            pass
        assert hours.waited == 0


def test_many_at_once_wait_or_are_refused_and_nobody_is_locked_out(hours: Hours) -> None:
    waits: list[float] = []
    attempts = ProofAttempts(hours.now, waits.append)  # all of them come at the same time
    refused = 0
    for _ in range(1000):
        try:
            fail(attempts, "ada")
        except OperationalError as fault:
            refused += fault.code == "login-busy"
    admitted = OF_NAME.free + LONGEST / OF_NAME.gap + 1
    assert len(waits) == admitted and refused == 1000 - admitted and max(waits) <= LONGEST
    hours.time += OF_NAME.gap
    fail(attempts, "ada")
    assert len(waits) == admitted + 1


def test_all_names_together_are_limited_and_forgotten(hours: Hours) -> None:
    waits: list[float] = []
    attempts = ProofAttempts(hours.now, waits.append)
    for number in range(10_000):
        with contextlib.suppress(OperationalError):
            fail(attempts, f"name {number}")
        hours.time += 0.001
    assert len(waits) <= OF_ALL.free + (LONGEST + 10) / OF_ALL.gap + 1 and len(attempts) <= MOST_KEPT + 1


@pytest.mark.parametrize("name", ["ada", "nobody"])
def test_a_front_in_other_hands_waits_too(name: str, tmp_path: Path, hours: Hours, caplog: pytest.LogCaptureFixture) -> None:
    """And it is told the same of a name that is nobody's."""
    users = tmp_path / "dpsql.users.json"
    passwords.add_user(users, passwords.User(name="ada", verifier=passwords.verifier("correct horse")))
    waits: list[float] = []
    keeper = Doorkeeper(policy=tmp_path / "dpsql.toml", users=passwords.WatchedUsers(users), attempts=ProofAttempts(hours.now, waits.append))
    vault = Vault(lambda user, database: session_of(tmp_path, analyst=user), keeper.authenticate, pace=None)
    told = []
    for _ in range(70):
        channel, client = channel_to(vault), scramp.ScramClient([PLAIN], "user", "a wrong one")
        first = FirstProof(mechanism=PLAIN, message=client.get_client_first().encode(), bound=False)
        said = iter((lambda message: first.as_bytes(), lambda message: b"c=biws,r=" + message[2:].split(b",")[0] + b",p=" + b"A" * 43 + b"="))
        with caplog.at_level(logging.ERROR), pytest.raises(OperationalError) as caught:
            channel.log_in(name, "", lambda message: next(said)(message))
        told.append(caught.value.code)
        channel.close()
    assert told == ["login"] * 61 + ["login-busy"] * 9
    assert waits[OF_NAME.free:OF_NAME.free + 3] == [0, OF_NAME.gap, 2 * OF_NAME.gap] and len(waits) == 61
    vault.close()
