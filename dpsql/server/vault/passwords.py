"""Who may connect: a file of users beside the policy, with verifiers of their passwords in place of these.

A verifier of SCRAM-SHA-256 (RFC 5802, RFC 7677) lets the server check a proof that the client knows the password, and does not
let whoever reads the file log in. What it lets them do is guess, at the price of one PBKDF2 for each guess; so the file is for
its owner alone, and the number of iterations is eight times that of PostgreSQL. The client pays for it at each login, the
server never does: 8 ms in C and 100 ms in plain Python, and some drivers refuse more than 100,000.

The file is JSON, since programs alone write it: `dpsql user`. It is replaced as a whole. It also holds a secret, from which
salts for names that are nobody's are derived, so that these are challenged like users, and always in the same way.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpsql.backends.manifests import put_in_place
from dpsql.catalog import name_faults
from dpsql.catalog.sections import suggest
from dpsql.errors import OperationalError, OptionError
from dpsql.frozen import Frozen, field, replace
from dpsql.server.link.login_messages import library
from dpsql.server.vault import sign_on_names
from dpsql.trusted.declarations import names

ITERATIONS = 32_768
LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 10_000_000
SALT = 16  # bytes
ANALYST, AUDITOR, OWNER = ROLES = ("analyst", "auditor", "owner")
"""What a user may do: ask; see what everybody asked and spent, and ask nothing that is charged; both. `vault` enforces it."""
SHORTEST = 8  # characters of a password
LONGEST = 1000
_VERIFIER = re.compile(r"SCRAM-SHA-256\$([1-9][0-9]{3,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")


class Verifier(Frozen):
    """What the server keeps of a password; as text it is written as PostgreSQL writes it."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @property
    def text(self) -> str:
        salt, stored, server = (base64.b64encode(part).decode("ascii") for part in (self.salt, self.stored_key, self.server_key))
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"

    @classmethod
    def of_text(cls, text: str) -> Verifier:
        """Read a verifier. Raises ValueError if the text is not one."""
        found = _VERIFIER.fullmatch(text)
        if found is None:
            raise ValueError("no verifier of SCRAM-SHA-256")
        salt, stored, server = (base64.b64decode(part, validate=True) for part in found.groups()[1:])
        iterations = int(found[1])
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS or len(salt) < SALT or len(stored) != 32 or len(server) != 32:
            raise ValueError("no verifier of SCRAM-SHA-256")
        return cls(iterations=iterations, salt=salt, stored_key=stored, server_key=server)


def verifier(password: str) -> Verifier:
    """A new verifier with a fresh salt. Raises OperationalError for a password that cannot be used."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise OperationalError(f"a password has {SHORTEST} to {LONGEST} characters", code="password")
    scramp = library()
    try:
        salt, stored, server, iterations = scramp.ScramMechanism("SCRAM-SHA-256").make_auth_info(
            password, iteration_count=ITERATIONS, salt=secrets.token_bytes(SALT))
    except scramp.ScramException:
        raise OperationalError("the password contains characters that clients do not send", code="password",
                               try_="letters, digits and signs") from None
    return Verifier(iterations=iterations, salt=salt, stored_key=stored, server_key=server)


class User(Frozen):
    """One who may connect. The name is that of the account in the ledger, in its normal form; `price` is that of statements which
    state none: epsilon, delta and rho, as far as they are given; else the budget's. One who is `closed` cannot connect until an
    owner reopens the account.

    One without a verifier has no password: it stands for a person who signs on elsewhere (`sign_on`) and is closed."""

    name: str
    verifier: Verifier | None
    budget: str | None = None
    price: Mapping[str, Decimal] = field(default_factory=dict)
    role: str = ANALYST
    closed: bool = False


class Users(Frozen):
    """All users, by name, and the secret of the salts of others."""

    secret: bytes = field(repr=False)
    users: Mapping[str, User]

    def verifier_of(self, name: str) -> tuple[Verifier, bool]:
        """The verifier for a name, and whether the name belongs to a user; nobody can prove anything against the verifier of
        an unknown name.

        Both take the same time and look alike: the one that is made up is made in either case, and stays the same.
        """
        made_up = self._made_up(name)
        user = self.users.get(name)
        return (made_up, False) if user is None or user.verifier is None else (user.verifier, True)

    def _made_up(self, name: str) -> Verifier:
        salt = hmac.digest(self.secret, name.encode("utf-8", "replace"), hashlib.sha256)[:SALT]
        return Verifier(iterations=ITERATIONS, salt=salt, stored_key=secrets.token_bytes(32), server_key=secrets.token_bytes(32))


def users_file(policy: str | Path) -> Path:
    """The path of a policy's file of users: next to the policy, under its name."""
    path = Path(policy)
    return path.with_name(f"{path.stem}.users.json")


def read_users(path: Path) -> Users:
    """Read the file of users. Raises OperationalError if it is missing, damaged, or accessible to others than its owner."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise OperationalError(f"there is no file of users {path}", code="no-users", try_="dpsql user add NAME") from None
    except OSError as fault:
        raise OperationalError(f"{path} cannot be read ({type(fault).__name__})", code="users") from None
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(handle)
        if stat.S_IMODE(state.st_mode) & 0o077:
            raise OperationalError(f"{path} can be read by other users than its owner", code="users", try_=f"chmod 600 {path}")
        if state.st_uid not in (0, os.geteuid()):
            raise OperationalError(f"{path} belongs to another account of the system", code="users", try_="that account, "
                                   f"or chown $(whoami) {path}")
        return _users_of(file.read(), path)


def _users_of(text: bytes, path: Path) -> Users:
    try:
        held = json.loads(text)
        users = {name: _user_of(name, entry) for name, entry in held["users"].items()}
        secret = base64.b64decode(held["secret"], validate=True)
        if held["version"] != 1 or len(secret) < 32:
            raise ValueError("another version")
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise OperationalError(f"{path} is not a file of users, or is damaged", code="users", try_="restoring a saved "
                               "copy; or moving it away, and then dpsql user add NAME") from None
    return Users(secret=secret, users=users)


def _user_of(name: str, entry: Mapping[str, Any]) -> User:
    price, budget, role = entry.get("price", {}), entry.get("budget"), entry.get("role", ANALYST)
    if role not in ROLES or type(closed := entry.get("closed", False)) is not bool:
        raise ValueError("no role")
    if name_faults.fault_of(name) is not None or not isinstance(budget, str | None):
        raise ValueError("no user")
    if "verifier" not in entry and not closed:
        raise ValueError("no password")
    if not price.keys() <= {"epsilon", "delta", "rho"} or not all(isinstance(amount, str) for amount in price.values()):
        raise ValueError("no price")
    found = Verifier.of_text(entry["verifier"]) if "verifier" in entry else None
    return User(name=name, verifier=found, budget=budget, role=role, closed=closed,
                price={term: Decimal(amount) for term, amount in price.items()})


def add_user(path: Path, user: User) -> None:
    """Add a user. Raises OptionError if the name is taken, OperationalError if the file cannot be used."""
    with _changed(path, new=True) as users:
        if user.name in users:
            raise taken(user.name)
        if user.verifier is not None:  # a person who signs on elsewhere and is closed keeps the name
            sign_on_names.forget(sign_on_names.names_file(path), user.name)
        users[user.name] = user


def taken(name: str) -> OptionError:
    return OptionError(f"{name} is a user already", code="user", subject=name, try_=f"dpsql user password {name}")


def remove_user(path: Path, name: str) -> None:
    """Remove a user. Raises OptionError if there is no such user."""
    with _changed(path) as users:
        del users[_named(name, users)]


def set_password(path: Path, name: str, new: Verifier) -> None:
    """Change a password. Raises OptionError if there is no such user."""
    with _changed(path) as users:
        found = _named(name, users)
        if users[found].verifier is None:
            raise OptionError(f"{found} signs on elsewhere and has no password", code="user", subject="name",
                              try_=f"dpsql user remove {found}, then dpsql user add {found}")
        users[found] = replace(users[found], verifier=new)


def set_closed(path: Path, name: str, *, closed: bool) -> None:
    """Close the account of a user, or reopen it. Raises OptionError if there is no such user. A person who signs on elsewhere
    is in the file only while closed."""
    with _changed(path) as users:
        found = _named(name, users)
        if closed or users[found].verifier is not None:
            users[found] = replace(users[found], closed=closed)
        else:
            del users[found]


def account_name(name: str) -> str:
    """The normal form of a name. Raises OptionError if it cannot be a user's name."""
    normal = names.normal(name)
    if (fault := name_faults.fault_of(normal)) is not None:
        raise OptionError(f"the name of a user {fault}", code="user", subject="name", try_="letters, digits and . _ @ -")
    return normal


def _named(name: str, users: Mapping[str, User]) -> str:
    normal = names.normal(name)
    if normal not in users:
        raise OptionError(f"there is no user {normal}", code="user", subject="name",
                          try_=suggest(normal, users) if users else "dpsql user add NAME")
    return normal


@contextlib.contextmanager
def _changed(path: Path, *, new: bool = False) -> Iterator[dict[str, User]]:
    """The users, to be changed; the file is replaced when the context is left without an error. One process changes it at a time.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as fault:
        raise OperationalError(f"{path.parent} cannot be opened ({type(fault).__name__})", code="users") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        held = Users(secret=secrets.token_bytes(32), users={}) if new and not path.exists() else read_users(path)
        users = dict(held.users)
        yield users
        try:
            put_in_place(path, _text_of(Users(secret=held.secret, users=users)))
        except OSError as fault:
            raise OperationalError(f"{path} cannot be written ({type(fault).__name__}); it is unchanged", code="users") from None
    finally:
        os.close(folder)  # and the lock with it


def _text_of(users: Users) -> str:
    entries = {name: {**({"verifier": user.verifier.text} if user.verifier is not None else {}),
                      "budget": user.budget, "role": user.role,
                      "price": {term: str(amount) for term, amount in user.price.items()},
                      **({"closed": True} if user.closed else {})}
               for name, user in sorted(users.users.items())}
    return json.dumps({"version": 1, "secret": base64.b64encode(users.secret).decode("ascii"), "users": entries}, indent=1) + "\n"


class WatchedUsers:
    """The file of users as it is now: it is read again when it has changed, so that a user who is removed is out at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] = ()
        self._users = read_users(path)

    def now(self) -> Users:
        """The current users. Raises OperationalError if the file can no longer be used."""
        try:
            state = os.stat(self.path)
        except OSError:
            raise OperationalError(f"{self.path} cannot be read", code="users") from None
        seen = (state.st_mtime_ns, state.st_ino, state.st_size, state.st_mode, state.st_uid)
        if seen != self._seen:
            self._users, self._seen = read_users(self.path), seen
        return self._users
