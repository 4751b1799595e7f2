"""Signing on elsewhere: what the vault takes for a proof, what it refuses, and the whole way with a real provider and a browser."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("joserfc", reason="the extra dpsql[sso] is not installed")
pytest.importorskip("scramp", reason="the extra dpsql[server] is not installed")

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from support.browsers import browser, opened
from support.http_servers import HttpRunning, http_running
from support.sessions import open_ledger, session_of
from support.vaults import channel_to
from support.wire_servers import PASSWORD, served

import dpsql
from dpsql.catalog.policy import read_policy
from dpsql.demo.folder import BUDGET, export
from dpsql.engine.accounts import answers_of
from dpsql.errors import OperationalError, OptionError
from dpsql.frozen import replace
from dpsql.ledgers.ledger_reports import ReportingLedger
from dpsql.server.front.http.sign_ons_begun import NETWORKS, SignOnsBegun
from dpsql.server.front.statements.remote_session import open_remote_session
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.vault import passwords, sign_on_provider
from dpsql.server.vault import sign_on as sign_on_module
from dpsql.server.vault.doorkeeper import SignOnKeeper
from dpsql.server.vault.sign_on import GOOD_FOR, LASTING, MOST_OF_PERSON, SignedOn, SignOn
from dpsql.server.vault.sign_on_names import admit, names_file
from dpsql.server.vault.sign_on_terms import SignOnTerms, is_safe_address, read_sign_on
from dpsql.server.vault.user_office import UserOffice
from dpsql.server.vault.vault import Vault

CLIENT, SECRET = "dpsql", "a secret of tests, which is long enough"
MODULES = os.environ.get("NODE_PATH", "/usr/share/nodejs")
PROVIDER = Path(__file__).parents[1] / "support" / "identity_provider.mjs"


class FakeProvider:
    """A provider on this machine, which answers whatever a test wants: `claims` and `header` are of its tokens."""

    def __init__(self) -> None:
        self.key: Any = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.published = [self.key.as_dict(private=False)]
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.sign: Callable[[dict[str, Any], dict[str, Any]], str] = lambda header, claims: jwt.encode(
            {"alg": "RS256", "kid": "one", **header}, claims, self.key)
        self.asked: list[tuple[str, dict[str, list[str]], str | None]] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answered(provider.document() if "openid-configuration" in self.path else {"keys": provider.published})

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                provider.asked.append((self.path, form, self.headers["Authorization"]))
                self.answered({"id_token": provider.sign(provider.header, provider.token_claims())})

            def answered(self, told: Any) -> None:
                status, headers, body = provider.answers.get(self.path, (200, {}, json.dumps(told).encode()))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def document(self) -> dict[str, str]:
        return {"issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/auth", "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys"}

    def token_claims(self) -> dict[str, Any]:
        now = time.time()
        made = {"iss": self.issuer, "aud": CLIENT, "sub": "ada", "exp": now + 300, "iat": now, "nonce": self.nonce, "groups": ["researchers"]}
        return {name: value for name, value in {**made, **self.claims}.items() if value is not None}

    nonce = ""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = FakeProvider()
    yield made
    made.server.shutdown()
    made.server.server_close()


def terms(provider: FakeProvider, **more: Any) -> SignOnTerms:
    return replace(SignOnTerms(
        issuer=provider.issuer, client=CLIENT, secret=SECRET, redirect="https://dpsql.example/sign-on/back", budget="study", name="sub", groups="groups",
        roles=(("auditor", frozenset({"auditors"})), ("analyst", frozenset({"researchers", "guests"})))), **more)


def sign_on_of(provider: FakeProvider, users: passwords.Users | None = None, **more: Any) -> SignOn:
    found = users or passwords.Users(secret=b"s" * 32, users={})
    return SignOn(terms(provider, **more), lambda: found)


def begun(door: SignOn, provider: FakeProvider) -> tuple[dict[str, str], str]:
    """What the browser is sent to the provider with, and the state; the provider remembers the nonce."""
    address, state = door.begun()
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    provider.nonce = asked["nonce"]
    return asked, state


def test_a_person_is_signed_on_by_code_and_proof(provider: FakeProvider) -> None:
    door = sign_on_of(provider)
    asked, state = begun(door, provider)
    assert asked.items() >= {"response_type": "code", "client_id": CLIENT, "redirect_uri": "https://dpsql.example/sign-on/back", "state": state,
                             "code_challenge_method": "S256"}.items() and "openid" in asked["scope"]
    person, role = door.signed_on("a code", state)
    assert (person.name, person.role, role()) == ("ada", "analyst", "analyst")
    (path, form, authorization), = provider.asked
    assert (path, form["code"], form["redirect_uri"], form["grant_type"]) == (
        "/token", ["a code"], ["https://dpsql.example/sign-on/back"], ["authorization_code"])
    verifier, = form["code_verifier"]
    assert base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=") == asked["code_challenge"]
    assert verifier not in asked.values() and 43 <= len(verifier) <= 128
    assert authorization == "Basic " + base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '+').replace(',', '%2C')}".encode()).decode()


@pytest.mark.parametrize("claims", [
    {"iss": "https://evil.example"}, {"iss": None}, {"aud": "another"}, {"aud": []}, {"aud": None}, {"aud": ["dpsql", "another"]}, {"aud": {"dpsql": 1}},
    {"azp": "another"}, {"aud": ["dpsql", "another"], "azp": "another"}, {"exp": 1}, {"exp": None}, {"exp": "9999999999"}, {"exp": True}, {"exp": float(2**60)},
    {"iat": 1}, {"iat": None}, {"iat": 9_999_999_999}, {"nonce": "another"}, {"nonce": None}, {"nonce": ["x"]}, {"nonce": ""},
    {"sub": None}, {"sub": ""}, {"sub": 5}, {"sub": "a b"}, {"sub": "x" * 5000}], ids=str)
def test_a_token_that_says_anything_else_is_refused(provider: FakeProvider, claims: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    door = sign_on_of(provider)
    _, state = begun(door, provider)
    provider.claims = claims
    with pytest.raises(OperationalError, match="the sign-on failed") as caught:
        door.signed_on("a code", state)
    assert caught.value.code == "sign-on" and "a sign-on failed" in caplog.text


@pytest.mark.parametrize("claims", [{"aud": ["dpsql"]}, {"aud": ["dpsql", "another"], "azp": "dpsql"}, {"azp": "dpsql"}, {"groups": ["x", 5, "guests"]},
                                    {"exp": "just over"}], ids=str)
def test_other_ways_to_say_the_same_are_taken(provider: FakeProvider, claims: dict[str, Any]) -> None:
    door = sign_on_of(provider)
    _, state = begun(door, provider)
    provider.claims = {"exp": time.time() - 30} if "exp" in claims else claims
    assert door.signed_on("a code", state)[0].name == "ada"


def by_hmac(header: dict[str, Any], claims: dict[str, Any], key: bytes) -> str:
    made = unsigned(header, claims).rstrip(".")
    return f"{made}.{base64.urlsafe_b64encode(hmac.digest(key, made.encode(), 'sha256')).decode().rstrip('=')}"


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    parts = (json.dumps(each).encode() for each in ({"alg": "none", **header}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])


def test_what_the_issuer_has_not_signed_is_refused(provider: FakeProvider) -> None:
    """Nor what is signed by its public key as if that were a secret."""
    door, other = sign_on_of(provider), RSAKey.generate_key(2048, {"kid": "one"})
    public = provider.key.as_pem(private=False)
    good = provider.sign
    forged = {
        "none": unsigned, "another key": lambda header, claims: jwt.encode({"alg": "RS256", "kid": "one"}, claims, other),
        "hmac": lambda header, claims: by_hmac({"alg": "HS256", "kid": "one"}, claims, public),
        "its own key": lambda header, claims: jwt.encode({"alg": "RS256", "jwk": other.as_dict(private=False)}, claims, other),
        "changed": lambda header, claims: ".".join([(parts := good(header, claims).split("."))[0], parts[1][:-2] + "AA", parts[2]]),
        "no token": lambda header, claims: "x", "empty": lambda header, claims: "", "long": lambda header, claims: "x" * 70_000,
        "nested": lambda header, claims: "a.b.c.d.e", "bytes": lambda header, claims: "\x00.\x00.\x00"}
    for name, sign in forged.items():
        _, state = begun(door, provider)
        provider.sign = sign
        with pytest.raises(OperationalError, match="the sign-on failed"):
            door.signed_on("a code", state)
        assert name
    provider.sign = good
    _, state = begun(door, provider)
    assert door.signed_on("a code", state)


def test_a_new_key_of_the_issuer_is_found_and_strangers_cannot_have_it_asked_often(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    door = sign_on_of(provider)
    asked: list[str] = []
    asking = sign_on_provider.Provider._asked
    monkeypatch.setattr(sign_on_provider.Provider, "_asked", lambda self, address, *more: (asked.append(address), asking(self, address, *more))[1])
    _, state = begun(door, provider)
    assert door.signed_on("a code", state)
    provider.key = ECKey.generate_key("P-256", {"kid": "two", "use": "sig"})
    provider.published = [provider.key.as_dict(private=False), {"kty": "strange"}, 5, {"kty": "RSA"}]
    provider.sign = lambda header, claims: jwt.encode({"alg": "ES256", "kid": "two"}, claims, provider.key)
    for _ in range(3):
        _, state = begun(door, provider)
        with pytest.raises(OperationalError):
            door.signed_on("a code", state)
    assert sum(each.endswith("/keys") for each in asked) == 1, "it was asked a moment ago"
    monkeypatch.setattr(sign_on_provider, "AGAIN", -1.0)
    _, state = begun(door, provider)
    assert door.signed_on("a code", state)


def test_a_state_is_of_this_process_and_good_once_and_not_for_long(provider: FakeProvider) -> None:
    now = [time.time()]
    door, other = SignOn(terms(provider), lambda: passwords.Users(secret=b"s" * 32, users={}), now=lambda: now[0]), sign_on_of(provider)
    _, state = begun(door, provider)
    assert door.signed_on("a code", state)
    foreign = other.begun()[1]
    name, at, mac = begun(door, provider)[1].split(".")
    wrong = (state, foreign, "", ".", "..", "a.b.c", f"{name}.{int(at) + 1}.{mac}", f"{name}x.{at}.{mac}", f"{name}.{at}.{mac[:-1]}", f"{name}.{at}.ä",
             f"{name}.nan.{mac}", "x" * 10_000, "\ud800")
    for each in wrong:
        with pytest.raises(OperationalError, match="the sign-on failed"):
            door.signed_on("a code", each)
    now[0] += GOOD_FOR + 2
    with pytest.raises(OperationalError, match="the sign-on failed"):
        door.signed_on("a code", f"{name}.{at}.{mac}")
    for code in ("", "x" * 5000):
        with pytest.raises(OperationalError, match="the sign-on failed"):
            door.signed_on(code, door.begun()[1])
    assert len(provider.asked) == 1, "the provider was asked for nobody else"


def test_strangers_fill_no_memory_and_keep_nobody_from_signing_on(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code that is wrong leaves its state as it was, whatever the number; so does that of a person without a role."""
    door = sign_on_of(provider)
    _, own = begun(door, provider)
    good = provider.nonce
    provider.answers["/token"] = (400, {}, b'{"error": "invalid_grant"}')
    for state in [own, *(door.begun()[1] for _ in range(300))]:
        with pytest.raises(OperationalError, match="the sign-on failed"):
            door.signed_on("a wrong code", state)
    provider.answers.clear()
    provider.nonce, provider.claims = good, {"groups": ["nobody's"]}
    with pytest.raises(OperationalError, match="no role here"):
        door.signed_on("a code", own)
    assert (len(door._opened), len(door._order), len(door._of_person)) == (0, 0, 0)
    provider.claims = {}
    assert door.signed_on("a code", own)[0].name == "ada"
    asked = len(provider.asked)
    with pytest.raises(OperationalError, match="the sign-on failed"):
        door.signed_on("a code", own)
    assert len(provider.asked) == asked


def test_an_account_that_signs_on_too_often_blocks_itself_alone_and_not_for_long(provider: FakeProvider) -> None:
    now = [time.time()]
    door = SignOn(terms(provider), lambda: passwords.Users(secret=b"s" * 32, users={}), now=lambda: now[0])

    def sign_on(sub: str) -> str:
        provider.claims = {"sub": sub, "iat": now[0], "exp": now[0] + 300}
        return door.signed_on("a code", begun(door, provider)[1])[0].name

    for _ in range(MOST_OF_PERSON):
        assert sign_on("ada") == "ada"
    with pytest.raises(OperationalError, match="too often") as caught:
        sign_on("ada")
    assert caught.value.code == "login-busy" and sign_on("ben") == "ben"
    assert len(door._opened) == MOST_OF_PERSON + 1
    now[0] += GOOD_FOR + 62
    assert sign_on("ada") == "ada" and (len(door._opened), len(door._order), [*door._of_person.values()]) == (1, 1, [1])


def test_somebody_who_takes_a_name_too_often_does_not_block_the_person_who_has_it(provider: FakeProvider, tmp_path: Path) -> None:
    """Nor do owners see the role of somebody who is refused, or are kept from closing the account by it."""
    policy = export(tmp_path / "study")
    roles = (("owner", frozenset({"owners"})), ("analyst", frozenset({"researchers"})))
    door = sign_on_of(provider, budget=BUDGET, name="preferred_username", roles=roles)
    keeper = SignOnKeeper(policy=policy, sign_on=door)

    def sign_on(sub: str, group: str) -> str:
        provider.claims = {"sub": sub, "preferred_username": "ada", "groups": [group]}
        person, _ = door.signed_on("a code", begun(door, provider)[1])
        with closing(keeper.open_account(person)) as session:
            return session.analyst

    assert sign_on("1", "researchers") == "ada"
    for number in range(MOST_OF_PERSON + 1):
        with pytest.raises(OperationalError, match="too often" if number == MOST_OF_PERSON else "answers of somebody else"):
            sign_on("2", "owners")
    assert door.people() == {"ada": "analyst"} and sign_on("1", "researchers") == "ada"


def test_two_codes_for_one_state_at_once_open_one_session(provider: FakeProvider) -> None:
    """And a state that expires while the provider is asked opens none."""
    now, meeting = [time.time()], threading.Barrier(2, timeout=20)
    door = SignOn(terms(provider), lambda: passwords.Users(secret=b"s" * 32, users={}), now=lambda: now[0])
    _, state = begun(door, provider)
    good, found = provider.sign, list[str]()
    provider.sign = lambda header, claims: (meeting.wait(), good(header, claims))[1]

    def sign_on(code: str) -> None:
        try:
            found.append(door.signed_on(code, state)[0].name)
        except OperationalError as fault:
            found.append(fault.reason)

    threads = [threading.Thread(target=sign_on, args=(code,)) for code in ("one", "another")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == ["ada", "the sign-on failed"]
    _, late = begun(door, provider)

    def slow(header: dict[str, Any], claims: dict[str, Any]) -> str:
        now[0] += GOOD_FOR + 5
        return good(header, {**claims, "iat": now[0], "exp": now[0] + 300})

    provider.sign = slow
    with pytest.raises(OperationalError, match="the sign-on failed"):
        door.signed_on("a code", late)


def test_a_code_waits_for_a_place_and_not_for_ever(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    door = sign_on_of(provider)
    for _ in range(sign_on_module.AT_ONCE):
        door._exchanging.acquire()
    _, state = begun(door, provider)
    threading.Timer(0.2, door._exchanging.release).start()
    assert door.signed_on("a code", state)[0].name == "ada"
    door._exchanging.acquire()
    monkeypatch.setattr(sign_on_module, "WAITING", 0.05)
    with pytest.raises(OperationalError, match="too many people") as caught:
        door.signed_on("a code", begun(door, provider)[1])
    assert caught.value.code == "login-busy"


def test_a_provider_that_cannot_be_reached_is_not_asked_by_every_stranger(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    door, asked = sign_on_of(provider), list[str]()
    asking = sign_on_provider.Provider._asked
    monkeypatch.setattr(sign_on_provider.Provider, "_asked", lambda self, address, *more: (asked.append(address), asking(self, address, *more))[1])
    provider.answers["/.well-known/openid-configuration"] = (500, {}, b"")
    for _ in range(20):
        with pytest.raises(OperationalError, match="the sign-on failed"):
            door.begun()
    assert len(asked) == 1
    provider.answers.clear()
    monkeypatch.setattr(sign_on_provider, "REST", 0.0)
    assert door.begun() and len(asked) == 2


def test_a_role_follows_from_groups_and_ends(provider: FakeProvider) -> None:
    now = [time.time()]
    users = {"users": passwords.Users(secret=b"s" * 32, users={})}
    door = SignOn(terms(provider), lambda: users["users"], now=lambda: now[0])
    for groups, expected in ((["auditors", "researchers"], "auditor"), (["guests"], "analyst"), ([], None), (["other"], None), ("researchers", None), (None, None)):
        provider.claims = {"groups": groups}
        _, state = begun(door, provider)
        if expected is None:
            with pytest.raises(OperationalError, match="no role here") as caught:
                door.signed_on("a code", state)
            assert caught.value.code == "role"
        else:
            assert door.signed_on("a code", state)[0].role == expected
    provider.claims = {}
    _, state = begun(door, provider)
    _, role = door.signed_on("a code", state)
    now[0] += LASTING - 1
    assert role() == "analyst"
    now[0] += 2
    with pytest.raises(OperationalError, match="too long ago") as caught:
        role()
    assert caught.value.code == "user"


def test_nobody_takes_the_name_of_a_user_with_a_password(provider: FakeProvider) -> None:
    users = {"users": passwords.Users(secret=b"s" * 32, users={})}
    door = SignOn(terms(provider), lambda: users["users"])
    _, state = begun(door, provider)
    _, role = door.signed_on("a code", state)
    users["users"] = passwords.Users(secret=b"s" * 32, users={"ada": passwords.User(name="ada", verifier=passwords.verifier(PASSWORD))})
    with pytest.raises(OperationalError, match="user with a password"):
        role()
    by_name = SignOn(terms(provider, name="preferred_username"), lambda: users["users"])
    for claims in ({"sub": "ada"}, {"preferred_username": "ada"}, {"preferred_username": "ADA"}):
        provider.claims = claims
        asked = door if "sub" in claims else by_name
        _, state = begun(asked, provider)
        with pytest.raises(OperationalError, match="user with a password"):
            asked.signed_on("a code", state)


def test_who_is_closed_without_a_password_is_out_but_for_owners(provider: FakeProvider) -> None:
    closed_ada = passwords.Users(secret=b"s" * 32, users={"ada": passwords.User(name="ada", verifier=None, budget="study", closed=True)})
    users = {"users": passwords.Users(secret=b"s" * 32, users={})}
    door = SignOn(terms(provider, roles=(("owner", frozenset({"owners"})), ("analyst", frozenset({"researchers"})))), lambda: users["users"])
    for groups in (["owners"], ["researchers"]):
        provider.claims = {"groups": groups}
        users["users"] = passwords.Users(secret=b"s" * 32, users={})
        _, state = begun(door, provider)
        person, role = door.signed_on("a code", state)
        door.admitted(person)
        assert door.people() == {"ada": person.role}
        users["users"] = closed_ada
        _, state = begun(door, provider)
        if person.role == "owner":
            assert role() == "owner" and door.signed_on("a code", state)[0] == person
        else:
            for ask in (role, lambda found=state: door.signed_on("a code", found)):
                with pytest.raises(OperationalError, match="closed this account") as caught:
                    ask()
                assert caught.value.code == "user"
    users["users"] = passwords.Users(secret=b"s" * 32, users={})
    assert role() == "analyst"


def test_an_owner_closes_and_reopens_people_who_sign_on(provider: FakeProvider, tmp_path: Path) -> None:
    """In the file of users, so also for the next process; only people of this budget, and no owner."""
    policy = export(tmp_path / "study")
    passwords.add_user(passwords.users_file(policy), passwords.User(name="pat", verifier=passwords.verifier(PASSWORD), budget=BUDGET))
    users = passwords.WatchedUsers(passwords.users_file(policy))
    roles = (("owner", frozenset({"owners"})), ("analyst", frozenset({"researchers"})))
    door = SignOn(terms(provider, budget=BUDGET, roles=roles), users.now)
    office, budgets = UserOffice(policy, users, door), read_policy(policy).budgets
    _, state = begun(door, provider)
    ada, role = door.signed_on("a code", state)
    provider.claims = {"sub": "olga", "groups": ["owners"]}
    _, state = begun(door, provider)
    for person in (ada, door.signed_on("a code", state)[0]):
        door.admitted(person)

    def states() -> dict[str, tuple[str | None, bool, bool]]:
        return {each.name: (each.role, each.closed, each.signs_on) for each in office.states(budgets[BUDGET], ["ada", "eve", "pat"])}

    assert states() == {"ada": ("analyst", False, True), "eve": (None, False, True), "olga": ("owner", False, True), "pat": ("analyst", False, False)}
    for name, budget in (("olga", BUDGET), ("mallory", BUDGET), ("ada", "pure"), ("Ada", BUDGET)):
        with pytest.raises(OptionError) as caught:
            office.close(name, budgets[budget], "olga", ["eve"])
        assert caught.value.code == "user-name"
    for name in ("ada", "eve"):
        office.close(name, budgets[BUDGET], "olga", ["eve"])
        office.close(name, budgets[BUDGET], "olga", ["eve"])  # which changes nothing
    assert states()["ada"] == states()["eve"] == (None, True, True)
    with pytest.raises(OperationalError, match="closed this account"):
        role()
    again = passwords.WatchedUsers(users.path)
    later = SignOn(terms(provider, budget=BUDGET, roles=roles), again.now)
    provider.claims = {}
    _, state = begun(later, provider)
    with pytest.raises(OperationalError, match="closed this account"):
        later.signed_on("a code", state)
    UserOffice(policy, again, later).reopen("ada", budgets[BUDGET], "olga")
    assert again.now().users.keys() == {"eve", "pat"} and role() == "analyst"
    _, state = begun(later, provider)
    assert later.signed_on("a code", state)[0].name == "ada"
    with pytest.raises(OptionError):
        UserOffice(policy, users).close("ada", budgets[BUDGET], "olga", ["ada"])  # nobody signs on elsewhere


def test_two_people_whose_names_are_folded_alike_have_two_accounts(provider: FakeProvider) -> None:
    """The standard says that values of `sub` are compared letter by letter."""
    door, found = sign_on_of(provider), dict[str, str]()
    for sub in ("ada", "Ada", "aDa", "\uff41da"):
        provider.claims = {"sub": sub}
        _, state = begun(door, provider)
        found[sub] = door.signed_on("a code", state)[0].name
    assert found["ada"] == "ada" and len({*found.values()}) == 4
    provider.claims = {"sub": found["Ada"]}
    _, state = begun(door, provider)
    with pytest.raises(OperationalError, match="the sign-on failed"):
        door.signed_on("a code", state)


def test_a_chosen_name_is_not_taken_for_another_ones(provider: FakeProvider) -> None:
    door = sign_on_of(provider, name="preferred_username")
    for name, works in (("ada", True), ("Ada", True), ("\uff41da", False), (" ada", False), ("\u1d43da", False)):
        provider.claims = {"preferred_username": name}
        _, state = begun(door, provider)
        if works:
            assert door.signed_on("a code", state)[0].name == "ada"
        else:
            with pytest.raises(OperationalError, match="the sign-on failed"):
                door.signed_on("a code", state)


# -- whose a name is


def test_a_sign_on_does_not_open_what_the_ledger_has_of_somebody_else(provider: FakeProvider, tmp_path: Path) -> None:
    """Of a user with a password who was removed, and of somebody who worked without a server: as a new password would not."""
    policy, users = export(tmp_path / "study"), {"users": passwords.Users(secret=b"s" * 32, users={})}
    asked = "SELECT COUNT(*) AS n FROM people"
    with closing(dpsql.connect(policy=policy, budget=BUDGET, analyst="ada")) as before:
        before.execute(asked)
    door = SignOn(terms(provider, budget=BUDGET), lambda: users["users"])
    keeper = SignOnKeeper(policy=policy, sign_on=door)

    def opened_by(sub: str, keeper: SignOnKeeper = keeper, **claims: Any) -> list[str]:
        """The statements that a person finds in the ledger."""
        provider.claims = {"sub": sub, **claims}
        person, _ = keeper.sign_on.signed_on("a code", begun(keeper.sign_on, provider)[1])
        with closing(keeper.open_account(person)) as session:
            return [entry.sql for entry in answers_of(session)]

    for _ in range(2):
        with pytest.raises(OperationalError, match="answers of somebody else") as caught:
            opened_by("ada")
    assert caught.value.code == "user" and not names_file(passwords.users_file(policy)).exists()
    assert opened_by("ben") == opened_by("ben") == [], "a name that nobody had"
    with closing(dpsql.connect(policy=policy, budget=BUDGET, analyst="ben")) as own:
        own.execute(asked)
    assert opened_by("ben") == [asked], "who had the name first keeps it"
    allowing = SignOnKeeper(policy=policy, sign_on=SignOn(terms(provider, budget=BUDGET, inherits=frozenset({"ada"})), lambda: users["users"]))
    assert opened_by("ada", allowing) == [asked], "the owner has allowed it"
    assert opened_by("ada") == [asked], "and need not allow it again"
    # closed and reopened by an owner, which changes nothing of whose the name is
    path = passwords.users_file(policy)
    passwords.add_user(path, passwords.User(name="ben", verifier=None, closed=True))
    passwords.set_closed(path, "ben", closed=False)
    assert opened_by("ben") == [asked]
    # a user with a password in between, who is removed later
    passwords.add_user(path, passwords.User(name="ben", verifier=passwords.verifier(PASSWORD)))
    passwords.remove_user(path, "ben")
    with pytest.raises(OperationalError, match="answers of somebody else"):
        opened_by("ben")


def test_a_name_stays_with_the_person_who_had_it_first(provider: FakeProvider, tmp_path: Path) -> None:
    """Where the claim of the name can be given to another person; and the same `sub` of another issuer is another person."""
    policy = export(tmp_path / "study")
    door = sign_on_of(provider, budget=BUDGET, name="preferred_username")
    keeper = SignOnKeeper(policy=policy, sign_on=door)

    def person_of(sub: str, name: str) -> SignedOn:
        provider.claims = {"sub": sub, "preferred_username": name}
        return door.signed_on("a code", begun(door, provider)[1])[0]

    for name in ("ada", "Ada"):
        keeper.open_account(person_of("1", name)).close()
    keeper.open_account(person_of("1", "another")).close()
    for person in (person_of("2", "ada"), replace(person_of("1", "ada"), person="1 of another issuer")):
        with pytest.raises(OperationalError, match="answers of somebody else"):
            keeper.open_account(person)
    other = FakeProvider()
    other.claims = {"sub": "1", "preferred_username": "ada"}
    elsewhere = sign_on_of(other, name="preferred_username")
    assert elsewhere.signed_on("a code", begun(elsewhere, other)[1])[0].person != person_of("1", "ada").person
    other.server.shutdown()
    other.server.server_close()
    provider.claims = {"sub": None, "preferred_username": "ada"}
    with pytest.raises(OperationalError, match="the sign-on failed"):
        door.signed_on("a code", begun(door, provider)[1])


def test_a_file_of_names_that_cannot_be_used_opens_nothing(tmp_path: Path) -> None:
    path = names_file(tmp_path / "mine.users.json")
    assert path.name == "mine.people.json"
    for text in ("", "{}", "[]", '{"version": 2, "people": {}}', '{"version": 1, "people": {"ada": 5}}', '{"version": 1, "people": [1]}'):
        path.write_text(text)
        with pytest.raises(OperationalError, match="damaged"):
            admit(path, "ada", "1", is_unused=lambda: True)
    path.unlink()
    path.mkdir()
    with pytest.raises(OperationalError, match="cannot be used"):
        admit(path, "ada", "1", is_unused=lambda: True)
    with pytest.raises(OperationalError, match="cannot be used"):
        admit(tmp_path / "gone" / "mine.people.json", "ada", "1", is_unused=lambda: True)


def test_of_two_people_who_take_a_new_name_at_once_one_has_it(tmp_path: Path) -> None:
    path, meeting, refused = tmp_path / "mine.people.json", threading.Barrier(8, timeout=20), list[str]()

    def take(person: str) -> None:
        meeting.wait()
        try:
            admit(path, "ada", person, is_unused=lambda: True)
        except OperationalError:
            refused.append(person)

    threads = [threading.Thread(target=take, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    people = json.loads(path.read_text())["people"]
    assert len(refused) == 7 and {people["ada"], *refused} == {str(number) for number in range(8)}


def test_an_address_of_mail_must_be_verified(provider: FakeProvider) -> None:
    door = sign_on_of(provider, name="email")
    for verified, works in ((True, True), (False, False), (None, False), ("true", False)):
        provider.claims = {"email": "ada@example.org", "email_verified": verified}
        _, state = begun(door, provider)
        if works:
            assert door.signed_on("a code", state)[0].name == "ada@example.org"
        else:
            with pytest.raises(OperationalError, match="the sign-on failed"):
                door.signed_on("a code", state)


@pytest.mark.parametrize(("path", "answer"), [
    ("/token", (302, {"Location": "http://127.0.0.1:9/"}, b"")), ("/token", (400, {}, b'{"error": "invalid_grant"}')), ("/token", (200, {}, b"[]")),
    ("/token", (200, {}, b"{")), ("/token", (200, {}, b'{"id_token": 5}')), ("/token", (200, {}, b'{"a": "' + b"x" * 2**21 + b'"}')),
    ("/token", (200, {}, b"[" * 100_000)), ("/keys", (500, {}, b"")), ("/keys", (200, {}, b'{"keys": 5}')), ("/keys", (200, {}, b'{"keys": []}')),
    ("/.well-known/openid-configuration", (200, {}, b"{}")), ("/.well-known/openid-configuration", (404, {}, b""))], ids=str)
def test_what_a_provider_answers_otherwise_is_told_in_one_way(provider: FakeProvider, path: str, answer: Any) -> None:
    door = sign_on_of(provider)
    provider.answers[path] = answer
    with pytest.raises(OperationalError, match="the sign-on failed") as caught:
        _, state = begun(door, provider)
        door.signed_on("a code", state)
    assert "127.0.0.1" not in str(caught.value)


def test_a_provider_that_publishes_another_issuer_or_unsafe_addresses_is_refused(provider: FakeProvider) -> None:
    for change in ({"issuer": f"{provider.issuer}/"}, {"token_endpoint": "http://evil.example/token"}, {"jwks_uri": "file:///etc/passwd"},
                   {"authorization_endpoint": None}):
        provider.answers["/.well-known/openid-configuration"] = (200, {}, json.dumps({**provider.document(), **change}).encode())
        with pytest.raises(OperationalError, match="the sign-on failed"):
            sign_on_of(provider).begun()


def test_addresses_are_by_https_or_of_this_machine() -> None:
    assert all(map(is_safe_address, ("https://a.example/x", "http://127.0.0.1:5/", "http://localhost/", "http://[::1]/x")))
    assert not any(map(is_safe_address, ("http://a.example", "ftp://127.0.0.1/", "https://", "https://u@a.example/", "", "http://127.0.0.1.evil.example/",
                                         "https://a.example/#x", "file:///etc/passwd")))


GOOD = """issuer = "https://login.example"\nclient = "dpsql"\nsecret = "secret.txt"\nredirect = "https://dpsql.example/sign-on/back"\nbudget = "study"
epsilon = 0.1\n[roles]\nanalyst = ["researchers"]\n"""


def test_the_terms_of_the_owner_are_read(tmp_path: Path) -> None:
    path = tmp_path / "sign_on.toml"
    (tmp_path / "secret.txt").write_text("hidden\n")
    path.write_text(GOOD)
    found = read_sign_on(path, ["study"])
    assert (found.secret, found.name, found.groups, str(found.price["epsilon"])) == ("hidden", "sub", "groups", "0.1") and "hidden" not in repr(found)
    assert found.inherits == frozenset()
    path.write_text(GOOD.replace("epsilon", 'inherits = ["Ada"]\nepsilon'))
    assert read_sign_on(path, ["study"]).inherits == {"ada"}
    for old, new in (("issuer = ", "issuers = "), ("https://login", "http://login"), ("/sign-on/back", "/back"), ('"study"', '"another"'), ('"secret.txt"', '"gone"'),
                     ("analyst = ", "administrator = "), ('["researchers"]', "[]"), ('["researchers"]', '"researchers"'), ("[roles]", "[rolls]"),
                     ("epsilon = 0.1", "epsilon = -1"), ('client = "dpsql"', "client = 5"), ("issuer", "[issuer"), ("[roles]", 'name = ""\n[roles]'),
                     ("epsilon", 'inherits = "ada"\nepsilon'), ("epsilon", "inherits = [1]\nepsilon")):
        assert old in GOOD
        path.write_text(GOOD.replace(old, new, 1))
        with pytest.raises(OptionError):
            read_sign_on(path, ["study"])
    with pytest.raises(OptionError):
        read_sign_on(tmp_path / "gone.toml", ["study"])


# -- by the vault, to a front that may be in other hands


@pytest.fixture
def vault(provider: FakeProvider, tmp_path: Path) -> Iterator[tuple[Vault, SignOn]]:
    ledger, door = open_ledger(tmp_path), sign_on_of(provider)

    class Elsewhere:
        sign_on = door

        def open_account(self, person: SignedOn) -> Any:
            return session_of(tmp_path, analyst=person.name, ledger=ReportingLedger(ledger.path))

    made = Vault(lambda user, database: pytest.fail("nobody has a password"), lambda user, say: pytest.fail("nobody has a password"), pace=None,
                 elsewhere=Elsewhere())
    yield made, door
    made.close()
    ledger.close()


def test_a_channel_is_bound_to_the_account_that_signed_on_and_to_no_other(vault: tuple[Vault, SignOn], provider: FakeProvider) -> None:
    made, _ = vault
    address, state = channel_to(made).begin_sign_on()
    provider.nonce = parse_qs(urlsplit(address).query)["nonce"][0]
    channel = channel_to(made)
    opening = channel.sign_on("a code", state)
    assert (opening.analyst, opening.role, opening.budget.analysts) == ("ada", "analyst", {})
    session = open_remote_session(channel, opening)
    assert session.ledger.entries("person", "eve") == []
    with pytest.raises(OperationalError, match="role"):
        channel.call("everything")
    again = channel_to(made)
    with pytest.raises(OperationalError, match="the sign-on failed") as caught:
        again.sign_on("a code", state)
    assert caught.value.code == "sign-on"
    session.close()


@pytest.mark.parametrize(("name", "given"), [
    ("signed_on", ()), ("signed_on", ("code",)), ("signed_on", (1, 2)), ("signed_on", ("code", "state", "ada")), ("signed_on", ("code", None)),
    ("sign_on", ("https://evil.example/back",)), ("sign_on", 5), ("signed_on", ("x" * 30_000, "state")), ("everything", ()), ("run", ())])
def test_a_front_signs_on_in_no_other_way(vault: tuple[Vault, SignOn], provider: FakeProvider, name: str, given: Any) -> None:
    channel = channel_to(vault[0])
    with pytest.raises(OperationalError):
        channel.call(name, *given) if isinstance(given, tuple) else channel._outcome(channel._asked(name, given))
    with pytest.raises(OperationalError, match="closed"):
        channel.call("check")
    assert provider.asked == []


@pytest.mark.parametrize("redirect, name, more", [
    ("https://dpsql.example.org/sign-on/back", "__Host-dpsql-{port}-sign-on", "; Path=/; SameSite=lax; Secure"),
    ("http://localhost:8080/sign-on/back", "dpsql-{port}-sign-on", "; Path=/sign-on; SameSite=lax")], ids=["https", "http"])
def test_the_cookie_of_a_state_is_of_this_host_and_for_https_alone(provider: FakeProvider, tmp_path: Path, redirect: str, name: str, more: str) -> None:
    """Also where TLS ends at a proxy, as here, and the server itself is asked by HTTP."""
    with signing_on_by_http(tmp_path, provider, redirect=redirect) as server:
        name, port = name.format(port=server.port), server.port
        status, headers = got(port, "/sign-on")
        cookie, = headers["set-cookie"]
        found = re.fullmatch(rf"{re.escape(name)}=([^;]+); HttpOnly; Max-Age=600{more}", cookie)
        assert status == 303 and found, cookie
        asked = {key: values[0] for key, values in parse_qs(urlsplit(headers["location"][0]).query).items()}
        assert asked["state"] == found[1]
        provider.nonce = asked["nonce"]
        other = name.removeprefix("__Host-") if name.startswith("__Host-") else f"__Host-{name}"
        back = f"/sign-on/back?code=good&state={found[1]}"
        for wrong in (f"{other}={found[1]}", f"{name}=another", ""):
            status, headers = got(port, back, wrong)
            assert (status, headers["location"]) == (303, ["/?sign-on=failed"])
        assert provider.asked == [], "a browser that has no such cookie makes nobody ask"
        status, headers = got(port, back, f"{name}={found[1]}")
        session, over = headers["set-cookie"]
        assert headers["location"] == ["/?sign-on=done"] and session.startswith(f"dpsql-{port}=") and over.startswith(f'{name}=""')
        assert ("Secure" in session) is ("Secure" in over) is redirect.startswith("https")
        assert over.endswith(more), "browsers remove only what has the same attributes"


def test_a_network_begins_only_so_many_sign_ons_and_others_go_on(provider: FakeProvider, tmp_path: Path) -> None:
    with signing_on_by_http(tmp_path, provider, sign_ons_a_minute=3) as server:
        places = [got(server.port, "/sign-on")[1]["location"][0] for _ in range(4)]
        assert [place.startswith(provider.issuer) for place in places] == [True, True, True, False] and places[3] == "/?sign-on=busy"
    begun_by = SignOnsBegun(3)
    for network in ("a", "b"):
        for _ in range(3):
            begun_by.begin(network, 100.0)
        with pytest.raises(RefusedOnWire):
            begun_by.begin(network, 119.0)
    begun_by.begin("a", 120.5)
    with pytest.raises(RefusedOnWire):
        begun_by.begin("a", 121.0)
    for number in range(NETWORKS + 10):
        begun_by.begin(f"network {number}", 130.0)
    assert len(begun_by) == NETWORKS


@contextmanager
def signing_on_by_http(folder: Path, provider: FakeProvider, *, redirect: str = "https://dpsql.example/sign-on/back", **limits: Any) -> Iterator[HttpRunning]:
    ledger = open_ledger(folder)

    class Elsewhere:
        sign_on = sign_on_of(provider, redirect=redirect)

        def open_account(self, person: SignedOn) -> Any:
            return session_of(folder, analyst=person.name, ledger=ReportingLedger(ledger.path))

    with closing(ledger), http_running(folder, elsewhere=Elsewhere(), **limits) as server:
        yield server


def got(port: int, path: str, cookie: str = "") -> tuple[int, dict[str, list[str]]]:
    """The status and the headers of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        answer.read()
        found: dict[str, list[str]] = {}
        for name, value in answer.getheaders():
            found.setdefault(name.lower(), []).append(value)
        return answer.status, found


def test_nobody_signs_on_where_the_owner_has_not_set_it_up() -> None:
    made = Vault(lambda user, database: pytest.fail("x"), lambda user, say: pytest.fail("x"), pace=None)
    for ask in (lambda channel: channel.begin_sign_on(), lambda channel: channel.sign_on("code", "state")):
        with pytest.raises(OperationalError):
            ask(channel_to(made))
    made.close()


# -- the whole way


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """A browser, and the address of a server whose people sign on at a provider of this machine."""
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    if subprocess.run(["node", "-e", "require.resolve('oidc-provider')"], capture_output=True, env={**os.environ, "NODE_PATH": MODULES}, check=False).returncode:
        pytest.skip("oidc-provider is not installed; NODE_PATH says where it is")
    folder, ports = tmp_path_factory.mktemp("sign_on"), free_ports(2)
    address = f"http://127.0.0.1:{ports[0]}/"
    (folder / "secret.txt").write_text(SECRET)
    with browser() as chromium, subprocess.Popen(
            ["node", str(PROVIDER), f"{address}sign-on/back", str(ports[1])], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "NODE_PATH": MODULES}) as provider:
        try:
            assert provider.stdout is not None and provider.stdout.readline() == "ready\n"
            (folder / "sign_on.toml").write_text(
                f'issuer = "http://127.0.0.1:{ports[1]}"\nclient = "dpsql"\nsecret = "secret.txt"\nredirect = "{address}sign-on/back"\nbudget = "{BUDGET}"\n'
                '[roles]\nauditor = ["auditors"]\nanalyst = ["researchers"]\n')
            with served(export(folder / "study"), budget=BUDGET, user="pat",
                        terms=("--http", f"127.0.0.1:{ports[0]}", "--sign-on", str(folder / "sign_on.toml"))) as server:
                passwords.add_user(server.users, passwords.User(name="olga", verifier=passwords.verifier(PASSWORD), budget=BUDGET, role="owner"))
                yield chromium, address
        finally:
            provider.terminate()


def free_ports(count: int) -> list[int]:
    with closing(socket.socket()) as one, closing(socket.socket()) as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in (one, other)][:count]


def signed_on(place: tuple[Any, str], name: str) -> Any:
    chromium, address = place
    made = opened(chromium, address)
    made.page.get_by_role("link", name="Sign in with your organization").click()
    made.page.locator("input[name=login]").fill(name)
    made.page.locator("input[name=password]").fill("whatever")
    made.page.get_by_role("button", name=re.compile("sign-in", re.IGNORECASE)).click()
    made.page.get_by_role("button", name="Continue").click()
    return made


def test_people_sign_on_in_a_browser_with_a_real_provider(place: tuple[Any, str]) -> None:
    ada = signed_on(place, "ada")
    ada.page.locator("#who", has_text=f"ada · {BUDGET}").wait_for()
    assert ada.page.url.rstrip("#ask") == place[1]
    assert "Cost" in ada.run("SELECT COUNT(*) AS n FROM people").inner_text()
    ada.page.reload()
    ada.page.locator("#console").wait_for()
    assert [cookie["name"] for cookie in ada.page.context.cookies(place[1]) if "sign-on" in cookie["name"]] == []
    ann = signed_on(place, "ann")
    ann.page.get_by_role("heading", name="Oversight").wait_for()
    ann.page.get_by_text("1 statement, newest first").wait_for()
    sam = signed_on(place, "sam")
    sam.page.get_by_role("alert").get_by_text("have no role here").wait_for()
    pat = signed_on(place, "pat")
    pat.page.get_by_role("alert").wait_for()
    assert pat.page.locator("#console").is_hidden(), "the name is of a user with a password"
    pat.sign_in("pat")
    pat.page.locator("#console").wait_for()
    for made in (ada, ann, sam, pat):
        made.page.context.close()


def test_an_owner_closes_a_person_who_signs_on_in_the_page(place: tuple[Any, str]) -> None:
    ada, olga = signed_on(place, "ada"), opened(*place)
    ada.page.locator("#console").wait_for()
    olga.sign_in("olga")
    olga.page.locator("#console").wait_for()
    olga.page.evaluate("location.hash = 'oversight/accounts'")
    row = olga.page.get_by_role("table", name="Accounts").locator("tr", has=olga.page.get_by_text("ada", exact=True))
    row.get_by_text("analyst, single sign-on").wait_for()
    row.get_by_role("button", name="Close the account of ada").click()
    olga.page.get_by_role("button", name="Close it").click()
    row.get_by_text("closed by an owner").wait_for()
    ada.go("Budget")
    ada.page.get_by_role("heading", name="Sign in").wait_for()
    back = signed_on(place, "ada")
    back.page.get_by_role("alert").get_by_text("This account cannot be used").wait_for()
    row.get_by_role("button", name="Reopen the account of ada").click()
    olga.page.get_by_role("button", name="Reopen it").click()
    row.get_by_role("button", name="Close the account of ada").wait_for()
    again = signed_on(place, "ada")
    again.page.locator("#who", has_text=f"ada · {BUDGET}").wait_for()
    for made in (ada, olga, back, again):
        made.page.context.close()


def test_a_way_back_without_its_cookie_or_once_more_signs_nobody_on(place: tuple[Any, str]) -> None:
    chromium, address = place
    backs: list[str] = []
    made = opened(chromium, address)
    made.page.on("request", lambda request: backs.append(request.url) if "/sign-on/back" in request.url else None)
    made.page.get_by_role("link", name="Sign in with your organization").click()
    made.page.locator("input[name=login]").fill("ada")
    made.page.locator("input[name=password]").fill("whatever")
    made.page.get_by_role("button", name=re.compile("sign-in", re.IGNORECASE)).click()
    made.page.get_by_role("button", name="Continue").click()
    made.page.locator("#console").wait_for()
    back, = backs
    for page in (made.page, opened(chromium, address).page):
        page.goto(back)
        page.wait_for_url("**/*")
        assert "/sign-on/back" not in page.url
    page.get_by_role("alert").get_by_text("The sign-on failed").wait_for()
    assert page.locator("#console").is_hidden()
    made.page.context.close()
