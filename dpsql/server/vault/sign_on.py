"""Signing on by OpenID Connect: the authorization code flow with PKCE. The vault makes every secret of it and checks every claim.

    browser ── /sign-on ───────> front ── "sign_on" ───> vault: a state, and the address of the provider with nonce and challenge
    browser ───────────────────> provider, where the person proves who they are
    browser ── code and state ─> front ── "signed_on" ─> vault ── code, verifier ─> provider ── ID token ─> vault

The front is not trusted. It sees the code, which is useless without the verifier, and never sees the token. An attacker who
controls it can do the same as with passwords that it receives by HTTP: misuse the sessions of people who sign on meanwhile.

*State.* A state is a random name and the time, with a MAC by a secret that ends with the process. The nonce of the token and the
verifier are derived from the name by the same secret. A state is valid for ten minutes and opens at most one session. The front
gives it to the browser in a cookie as well, and compares both, so that no link can sign somebody on as another person.

*Strangers.* What a person without an account can do is begin sign-ons, and come back with codes that are wrong. Claim: neither
takes memory of the vault, and neither keeps anybody else from signing on for longer than the requests themselves take. Proof:
nothing is stored when a sign-on begins, since the MAC proves later that it did. A state is remembered (`_remember`) only after
the issuer has signed that the person proved who they are for this state, and only if they have a role. One person can have at
most `MOST_OF_PERSON` states remembered, and what they have too many of is refused to this person alone, whatever name they sign
on with, so the memory is bounded by the number of people with a role, and no number of states blocks somebody else. A wrong code
costs the vault one request to the provider. `AT_ONCE` of these run at once, and the others wait for at most `WAITING` seconds.
The front delays the failed ones of a network like wrong passwords (`login_delays`) and lets a network begin only so many
(`sign_ons_begun`), so it takes many networks at once to occupy all places, as with any flood of requests, and the places are free
again as soon as it ends. If the provider cannot be reached, it is asked again only after some seconds (`sign_on_provider`), so
threads do not queue up behind it.

A state that came back with a wrong code can be tried again until it expires. That gives an attacker nothing: a new state is to be
had by asking. A code is bound to the state's verifier and to its nonce, the provider accepts it once, and two sessions with one
state are impossible because it is remembered under a lock before the first of them opens; a state that has expired by then is
refused, so it is forgotten only when it is of no more use.

*Claim.* A session is opened for a name only if the configured issuer has signed, with a key that it publishes, that the person of
this name proved to be it for this client, after this vault asked for it with this state, and less than some minutes ago. Proof:
each of `iss`, `aud`, `azp`, `exp`, `iat` and `nonce` is required and compared below; the signature is by a public key alone (no
HMAC and no `none`), and the keys come from the issuer by TLS; the nonce follows from a state that this process has made and that
has opened no session before.

People of different names have different accounts (`_account_of`). A name that has a password in the file of users is refused:
otherwise whoever can choose their claim would ask as somebody with a password. So is a name that the ledger knows from somebody
else (`sign_on_names`), as its stored answers would be opened; and a name that an owner has closed, which is in the file without a
password; but not a person whose group makes them an owner, as the front can have accounts closed (`user_office`) and must not
lock owners out. The role follows from the groups in the token and is valid for `LASTING`, so a person who loses a group loses
access after that time at the latest.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import logging
import re
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeGuard
from urllib.parse import urlencode, urlsplit

from dpsql.errors import OperationalError, OptionError
from dpsql.extras import extra
from dpsql.frozen import Frozen
from dpsql.server.link.login_messages import UNPROVEN
from dpsql.server.vault import passwords
from dpsql.server.vault.sign_on_provider import Provider, ProviderFault
from dpsql.server.vault.sign_on_terms import SCOPES, SignOnTerms

LOG = logging.getLogger("dpsql.server")
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
GOOD_FOR = 600.0  # seconds in which a person signs on
LASTING = 12 * 3600.0  # seconds for which a sign-on opens an account
LEEWAY = 60  # seconds by which clocks may differ
AT_ONCE = 8  # codes that are exchanged at a time
WAITING = 10.0  # seconds for which another one waits
MOST_OF_PERSON = 50  # sessions that one person opens within `GOOD_FOR`
MOST_PEOPLE = 10_000  # whose last sign-on is remembered
LONGEST_CODE, LONGEST_TOKEN = 4096, 2**16
BUSY = "login-busy"  # code of an error
_HASHED = re.compile(r".*\.[0-9a-f]{32}", re.DOTALL)


class SignedOn(Frozen):
    """A person who has signed on: the name of the account, their role, and a hash of who they are at the provider."""

    name: str
    role: str
    person: str


class SignOn:
    """For one issuer. Safe with threads."""

    def __init__(self, terms: SignOnTerms, users: Callable[[], passwords.Users], now: Callable[[], float] = time.time) -> None:
        """Raises InterfaceError if the library that checks tokens is not installed. `users` are those with passwords."""
        extra("joserfc", "sso")
        self.terms, self._users, self._now = terms, users, now
        self._provider, self._secret = Provider(terms), secrets.token_bytes(32)
        self._turn, self._exchanging = threading.Lock(), threading.BoundedSemaphore(AT_ONCE)
        self._opened, self._order, self._of_person = set[str](), deque[tuple[float, str, str]](), Counter[str]()
        self._people: dict[str, tuple[str, float]] = {}  # the role of each person, and until when it is valid

    @property
    def scheme(self) -> str:
        """The scheme of the address to which people come back: https, or http on their own machine."""
        return urlsplit(self.terms.redirect).scheme

    def begun(self) -> tuple[str, str]:
        """The address at which a person signs on, and the state that belongs to it. Raises OperationalError."""
        name = secrets.token_urlsafe(24)
        state = f"{name}.{int(self._now())}"
        state = f"{state}.{self._derived('state', state)}"
        challenge = _in_letters(hashlib.sha256(self._derived("verifier", name).encode()).digest())
        asked = {"response_type": "code", "client_id": self.terms.client, "redirect_uri": self.terms.redirect, "scope": SCOPES,
                 "state": state, "nonce": self._derived("nonce", name), "code_challenge": challenge,
                 "code_challenge_method": "S256"}
        with self._faults():
            address = self._provider.published()["authorization_endpoint"]
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}", state

    def signed_on(self, code: str, state: str) -> tuple[SignedOn, Callable[[], str]]:
        """The person who signed on, and a function that returns their role until the sign-on ends. Raises OperationalError."""
        name, ends = self._checked(state)
        if not code or len(code) > LONGEST_CODE:
            raise failed()
        if not self._exchanging.acquire(timeout=WAITING):
            raise OperationalError("too many people are signing on", code=BUSY, try_="again in a moment")
        try:
            with self._faults():
                token = self._provider.token_for(code, self._derived("verifier", name))
                claims = self.claims_of(token, self._derived("nonce", name))
        finally:
            self._exchanging.release()
        person, until = self._person(claims), self._now() + LASTING
        self._role_now(person, until)
        self._remember(name, ends, person.person)
        return person, lambda: self._role_now(person, until)

    def admitted(self, person: SignedOn) -> None:
        """Remember the role of a person whose account is open now: not of one who has signed on with a name of somebody else."""
        with self._turn:
            self._people.pop(person.name, None)
            self._people[person.name] = person.role, self._now() + LASTING
            while len(self._people) > MOST_PEOPLE:
                del self._people[next(iter(self._people))]

    def people(self) -> Mapping[str, str]:
        """The roles of people whose last sign-on is not over, by the names of their accounts."""
        with self._turn:
            return {name: role for name, (role, until) in self._people.items() if self._now() < until}

    def claims_of(self, token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of an ID token, after all checks. Raises OperationalError, or ProviderFault."""
        if len(token) > LONGEST_TOKEN:
            raise failed("the token is too long")
        claims = self._verified(token)
        now, audience = self._now(), claims.get("aud")
        to = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
        party = claims.get("azp", self.terms.client if len(to) == 1 else None)
        ends, made = claims.get("exp"), claims.get("iat")
        for what, holds in (
                ("iss", claims.get("iss") == self.terms.issuer), ("aud", self.terms.client in to),
                ("azp", party == self.terms.client), ("exp", _is_time(ends) and now < ends + LEEWAY),
                ("iat", _is_time(made) and now - GOOD_FOR - LEEWAY < made < now + LEEWAY),
                ("nonce", type(claims.get("nonce")) is str and hmac.compare_digest(claims["nonce"].encode(), nonce.encode()))):
            if not holds:
                raise failed(f"the token is refused: {what}")
        return claims

    def _verified(self, token: str) -> Mapping[str, Any]:
        """The claims that the issuer has signed. Its keys are asked for again if none fits, as it may have a new one."""
        for anew in (False, True):
            with contextlib.suppress(_Unsigned):
                return _signed(token, self._provider.keys(anew=anew))
        raise failed("the token is refused: its signature")

    def _person(self, claims: Mapping[str, Any]) -> SignedOn:
        given, role = claims.get(self.terms.name), self.terms.role_of(claims.get(self.terms.groups))
        if type(subject := claims.get("sub")) is not str or not subject:
            raise failed("the token has no sub")
        if type(given) is not str or (self.terms.name == "email" and claims.get("email_verified") is not True):
            raise failed(f"the token has no {self.terms.name} that can be relied on")
        try:
            name = self._account_of(given)
        except OptionError:
            raise failed("the token names no account that can be") from None
        if role is None:
            LOG.warning("%s signed on and has no group of a role", name)
            raise OperationalError("you have no role here", code="role", try_="asking the owner of the data for it")
        person = hashlib.sha256(json.dumps([self.terms.issuer, subject]).encode()).hexdigest()
        return SignedOn(name=name, role=role, person=person)

    def _account_of(self, given: str) -> str:
        """The account of a person. Raises OptionError if there can be none.

        Names of accounts are normalized, so two spellings are one account, but two values of `sub` that differ only in spelling
        are two people: a value that is not in the normal form gets a name with its hash, and no other value may have a name of
        this form. In other claims, providers distinguish names without regard to case, so a name may differ from its normal form
        in case and in nothing else."""
        name = passwords.account_name(given)
        if self.terms.name == "sub":
            if _HASHED.fullmatch(name):
                raise OptionError("names of this form are reserved", code="user")
            return name if name == given else passwords.account_name(f"{name}.{hashlib.sha256(given.encode()).hexdigest()[:32]}")
        if name != given.lower():
            raise OptionError("this name is not in its normal form", code="user")
        return name

    def _role_now(self, person: SignedOn, until: float) -> str:
        """Raises OperationalError if the sign-on is over, the account is closed, or there is a user with a password of this
        name."""
        user = self._users().users.get(person.name)
        if user is not None and user.verifier is not None:
            raise OperationalError("this name belongs to a user with a password", code="user")
        if user is not None and person.role != passwords.OWNER:
            raise closed()
        if self._now() >= until:
            raise OperationalError("you signed on too long ago", code="user", try_="signing on again")
        return person.role

    def _checked(self, state: str) -> tuple[str, float]:
        """The name of a state, and the time at which it expires. Raises OperationalError if it is not ours, is too old, or has
        opened a session."""
        made, _, mac = state.rpartition(".")
        name, _, at = made.partition(".")
        if len(state) > 200 or not state.isascii() or not hmac.compare_digest(mac, self._derived("state", made)):
            raise failed()
        now, begun = self._now(), float(at)
        with self._turn:
            if not begun - 1 <= now <= begun + GOOD_FOR or name in self._opened:
                raise failed()
        return name, begun + GOOD_FOR

    def _remember(self, name: str, ends: float, person: str) -> None:
        """Remember that a state opens a session of a person. Raises OperationalError if it has opened one or has expired, or
        if the person has opened too many."""
        with self._turn:
            now = self._now()
            while self._order and self._order[0][0] < now - GOOD_FOR - LEEWAY:
                _, gone, whose = self._order.popleft()
                self._opened.discard(gone)
                self._of_person[whose] -= 1
                if not self._of_person[whose]:
                    del self._of_person[whose]
            if name in self._opened or now > ends:
                raise failed()
            if self._of_person[person] >= MOST_OF_PERSON:
                raise OperationalError("you signed on too often", code=BUSY, try_="again in ten minutes")
            self._opened.add(name)
            self._order.append((now, name, person))
            self._of_person[person] += 1

    def _derived(self, what: str, of: str) -> str:
        return _in_letters(hmac.digest(self._secret, f"{what}\n{of}".encode("utf-8", "surrogatepass"), hashlib.sha256))

    @contextlib.contextmanager
    def _faults(self) -> Generator[None]:
        """A context in which faults of the provider are logged, and raised without details."""
        try:
            yield
        except ProviderFault as fault:
            LOG.warning("a sign-on failed: %s", fault)
            raise failed() from None


class _Unsigned(Exception):
    """No key of the issuer has signed this."""


def _signed(token: str, keys: list[Any]) -> Mapping[str, Any]:
    """The claims of a token that one of these keys has signed. Raises _Unsigned."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    usable = []
    for key in keys:
        with contextlib.suppress(JoseError, ValueError, TypeError, KeyError, AttributeError):
            if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP") and key.get("use", "sig") == "sig":
                usable += KeySet.import_key_set({"keys": [key]}).keys
    try:
        made = jwt.decode(token, KeySet(usable), algorithms=[*ALGORITHMS])
    except Exception:  # whatever the library raises for bytes of strangers, nothing was signed
        raise _Unsigned from None
    return made.claims


def failed(why: str = "") -> OperationalError:
    """The error of a failed sign-on. Its text is the same for every cause; the log has the cause."""
    if why:
        LOG.warning("a sign-on failed: %s", why)
    return OperationalError("the sign-on failed", code=UNPROVEN, try_="signing on again")


def closed() -> OperationalError:
    return OperationalError("the owner of the data has closed this account", code="user")


def _in_letters(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _is_time(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and 0 <= value < 2**53
