"""The file of users, and the commands that change it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import os
import stat
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

import scramp

from dpsql.cli import main
from dpsql.demo import folder
from dpsql.errors import OperationalError, OptionError
from dpsql.server.link.login_messages import NotProven
from dpsql.server.vault import passwords
from dpsql.server.vault.password_proofs import Exchange
from dpsql.server.vault.passwords import User, Verifier, add_user, read_users, remove_user, set_password, verifier


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.users.json"


def user(name: str = "ada", password: str = "correct horse") -> User:
    return User(name=name, verifier=verifier(password))


def test_a_verifier_is_that_of_the_standard() -> None:
    made = verifier("correct horse")
    salted = hashlib.pbkdf2_hmac("sha256", b"correct horse", made.salt, made.iterations)
    assert made.stored_key == hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    assert made.server_key == hmac.digest(salted, b"Server Key", "sha256")
    assert made.iterations >= 4096 and len(made.salt) == 16 and verifier("correct horse").salt != made.salt
    assert Verifier.of_text(made.text) == made and "correct" not in made.text and base64.b64encode(made.salt).decode() not in repr(made)


@pytest.mark.parametrize("text", ["", "md5abc", "SCRAM-SHA-256$4095:AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 43 + "=:" + "A" * 43 + "=",
                                  "SCRAM-SHA-256$4096:AAAA$" + "A" * 43 + "=:" + "A" * 43 + "=",
                                  "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$AAAA:AAAA"])
def test_weak_and_malformed_verifiers_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        Verifier.of_text(text)


def test_users_are_added_changed_and_removed(users: Path) -> None:
    add_user(users, user())
    add_user(users, User(name="eve", verifier=verifier("another one"), budget="b", price={"epsilon": Decimal("0.1")}))
    assert stat.S_IMODE(users.stat().st_mode) == 0o600
    found = read_users(users)
    assert list(found.users) == ["ada", "eve"] and found.users["eve"].price == {"epsilon": Decimal("0.1")}
    with pytest.raises(OptionError):
        add_user(users, user())
    new = verifier("something else")
    set_password(users, " ADA", new)
    assert read_users(users).users["ada"].verifier == new and read_users(users).secret == found.secret
    remove_user(users, "Eve")
    with pytest.raises(OptionError):
        remove_user(users, "eve")
    assert list(read_users(users).users) == ["ada"] and [path.name for path in users.parent.iterdir()] == [users.name]


def test_many_hands_lose_nothing(users: Path) -> None:
    add_user(users, user())
    made = user().verifier
    threads = [threading.Thread(target=add_user, args=(users, User(name=f"u{i}", verifier=made))) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_users(users).users) == 21


def test_a_change_that_fails_leaves_the_file(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_user(users, user())
    before = users.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "no space")

    monkeypatch.setattr(passwords, "put_in_place", full)
    with pytest.raises(OperationalError):
        add_user(users, user("eve"))
    assert users.read_bytes() == before


@pytest.mark.parametrize("change", [
    lambda held: held.update(version=2), lambda held: held.pop("secret"), lambda held: held.update(secret="AAAA"),
    lambda held: held["users"]["ada"].update(verifier="x"),
    lambda held: held["users"].update(ADA=held["users"]["ada"]), lambda held: held["users"]["ada"].update(price={"epsilon": 1}),
    lambda held: held["users"]["ada"].update(price=[]), lambda held: held["users"]["ada"].update(budget=1), lambda held: held.update(users=[]),
])
def test_a_damaged_file_is_refused(users: Path, change: Any) -> None:
    add_user(users, user())
    held = json.loads(users.read_text())
    change(held)
    users.write_text(json.dumps(held))
    with pytest.raises(OperationalError, match="damaged"):
        read_users(users)


def test_a_file_of_another_account_is_refused(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_user(users, user())
    with monkeypatch.context() as patched, pytest.raises(OperationalError, match="belongs to another account"):
        state = os.stat(users)
        patched.setattr(os, "fstat", lambda handle: os.stat_result((state.st_mode, *state[1:4], 12345, *state[5:])))
        read_users(users)


def test_files_that_others_read_are_refused(users: Path) -> None:
    add_user(users, user())
    os.chmod(users, 0o640)
    with pytest.raises(OperationalError, match="read by other users"):
        read_users(users)
    with pytest.raises(OperationalError):
        read_users(users.with_name("none.json"))
    users.write_text("{")
    os.chmod(users, 0o600)
    with pytest.raises(OperationalError):
        read_users(users)


def test_one_without_a_password_is_closed_and_proves_nothing(users: Path) -> None:
    passwords.add_user(users, passwords.User(name="sam", verifier=None, budget="study", closed=True))
    found = passwords.read_users(users)
    assert found.users["sam"] == passwords.User(name="sam", verifier=None, budget="study", closed=True)
    assert found.verifier_of("sam")[1] is False and found.verifier_of("sam")[0].salt == found.verifier_of("sam")[0].salt
    with pytest.raises(OptionError, match="has no password"):
        passwords.set_password(users, "sam", passwords.verifier("correct horse"))
    held = json.loads(users.read_text())
    held["users"]["sam"]["closed"] = False
    text = users.read_text()
    users.write_text(json.dumps(held))
    with pytest.raises(OperationalError, match="damaged"):
        passwords.read_users(users)
    users.write_text(text)
    passwords.set_closed(users, "sam", closed=True)
    passwords.set_closed(users, "sam", closed=False)
    assert "sam" not in passwords.read_users(users).users


def test_a_name_that_is_nobodys_is_challenged_like_a_user(users: Path) -> None:
    add_user(users, user())
    held = read_users(users)
    made, known = held.verifier_of("eve")
    again, _ = held.verifier_of("eve")
    real, whose = held.verifier_of("ada")
    assert whose and not known and made.salt == again.salt != held.verifier_of("bob")[0].salt
    assert (made.iterations, len(made.salt)) == (real.iterations, len(real.salt))
    with pytest.raises(NotProven):
        exchanged(made, "correct horse")


def exchanged(known: Verifier, password: str, *, name: str = "ada") -> None:
    client = scramp.ScramClient(["SCRAM-SHA-256"], name, password)
    exchange = Exchange(known, mechanism="SCRAM-SHA-256", certificate=None)
    client.set_server_first(exchange.challenge(client.get_client_first().encode()).decode())
    client.set_server_final(exchange.proven(client.get_client_final().encode()).decode())


def test_a_proof_is_accepted_and_a_wrong_one_is_not() -> None:
    known = verifier("correct horse")
    exchanged(known, "correct horse")
    with pytest.raises(NotProven):
        exchanged(known, "correct hors")


@pytest.mark.parametrize("first", [b"", b"n,,", b"n,,n=,r=", b"n,,r=abc", b"p=tls-unique,,n=,r=abc", b"n,a=x,n=,r=abc", b"\xff", b"n,,m=1,n=,r=a",
                                   b"n,,n=,r=abc,r=abc", b"y,,n=,x"])
def test_malformed_messages_of_the_exchange(first: bytes) -> None:
    with pytest.raises(NotProven):
        Exchange(verifier("correct horse"), mechanism="SCRAM-SHA-256", certificate=None).challenge(first)
    for mechanism in ("SCRAM-SHA-256-PLUS", "SCRAM-SHA-1", ""):
        with pytest.raises(NotProven):
            Exchange(verifier("correct horse"), mechanism=mechanism, certificate=None)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    policy = folder.export(tmp_path / "demo")

    def run(*given: str, password: str = "correct horse\n") -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(password))
        try:
            done = main(["user", *given, "--policy", str(policy)])
        except SystemExit as left:  # an option that cannot be read
            done = int(str(left.code))
        told = capsys.readouterr()
        return done, told.out + told.err

    assert run("list")[0] == 2
    assert run("add", "Ada", "--budget", "study", "--epsilon", "0.1", "--password-stdin")[0] == 0
    assert run("add", "ada", "--budget", "study", "--password-stdin")[0] == 2
    for wrong in (("add", "eve", "--budget", "no", "--password-stdin"), ("add", "e\u0435", "--budget", "study", "--password-stdin"),
                  ("add", "eve", "--budget", "study"), ("add",), ("add", "eve", "--budget", "study", "--epsilon", "x", "--password-stdin"),
                  ("password", "eve", "--password-stdin"), ("remove", "eve"), ("close", "eve"), ("reopen",)):
        assert run(*wrong)[0] == 2, wrong
    assert run("add", "eve", "--budget", "study", "--password-stdin", password="short\n")[0] == 2
    assert run("list")[1].split() == ["ada", "analyst", "study", "epsilon", "=", "0.1"]
    assert run("password", "ADA", "--password-stdin", password="new password\n")[0] == 0
    exchanged(read_users(policy.with_name("dpsql.users.json")).users["ada"].verifier, "new password")
    for act, closed in (("close", True), ("close", True), ("reopen", False)):
        assert run(act, "ADA")[0] == 0 and run("list")[1].rstrip().endswith("closed") is closed
        assert read_users(policy.with_name("dpsql.users.json")).users["ada"].closed is closed
    assert run("close", "eve")[0] == 2
    add_user(policy.with_name("dpsql.users.json"), User(name="sam", verifier=None, budget="study", closed=True))
    assert "sam  signs on elsewhere  study" in run("list")[1] and run("reopen", "sam")[0] == 0
    assert run("remove", "ada")[0] == 0 and run("list") == (0, "")


def test_a_password_is_asked_for_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    policy = folder.export(tmp_path / "demo")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    said = iter(["correct horse", "correct hors", "correct horse", "correct horse"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(said))
    arguments = ["user", "add", "ada", "--budget", "study", "--policy", str(policy)]
    assert main(arguments) == 2 and "differ" in capsys.readouterr().err
    assert main(arguments) == 0


def test_users_of_a_file_without_roles_are_analysts(tmp_path: Path) -> None:
    path = tmp_path / "dpsql.users.json"
    add_user(path, User(name="ada", verifier=verifier("correct horse"), role="owner"))
    held = json.loads(path.read_text())
    assert read_users(path).users["ada"].role == "owner"
    for role, found in (("auditor", "auditor"), (None, "analyst"), ("root", ""), (["owner"], ""), ("", "")):
        held["users"]["ada"] = {name: value for name, value in held["users"]["ada"].items() if name != "role"} | (
            {} if role is None else {"role": role})
        path.write_text(json.dumps(held))
        if found:
            assert read_users(path).users["ada"].role == found
        else:
            with pytest.raises(OperationalError, match="damaged"):
                read_users(path)
