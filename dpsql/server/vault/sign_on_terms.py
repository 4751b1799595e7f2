"""Single sign-on as the owner configures it: a file for `dpsql serve --sign-on`, in TOML.

    issuer = "https://login.example.org/realms/research"
    client = "dpsql"
    secret = "/etc/dpsql/client-secret"      # a file; left out for a client without a secret
    redirect = "https://dpsql.example.org/sign-on/back"
    budget = "study"
    name = "sub"                             # the claim that names the account
    groups = "groups"                        # the claim that lists the groups of a person
    epsilon = 0.1                            # of statements that state no price, as of `dpsql user add`
    inherits = []                            # names whose charges and answers from before open to those who sign on with them

    [roles]                                  # the first role of which a person has a group counts
    auditor = ["dpsql-auditors"]
    analyst = ["researchers"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dpsql.catalog.price import price
from dpsql.errors import OptionError
from dpsql.frozen import Frozen, field
from dpsql.server.vault.passwords import ROLES
from dpsql.trusted.declarations.names import normal

TEXTS = ("issuer", "client", "redirect", "budget")
PRICES = ("epsilon", "delta", "rho")
KNOWN = frozenset({*TEXTS, *PRICES, "inherits", "secret", "name", "groups", "roles"})
BACK = "/sign-on/back"
SCOPES = "openid profile email"


class SignOnTerms(Frozen):
    """See the head of this file. `roles` are pairs of a role and its groups, in order."""

    issuer: str
    client: str
    secret: str | None = field(repr=False)
    redirect: str
    budget: str
    name: str
    groups: str
    roles: tuple[tuple[str, frozenset[str]], ...]
    price: Mapping[str, Decimal] = field(default_factory=dict)
    inherits: frozenset[str] = frozenset()

    def role_of(self, groups: object) -> str | None:
        """The role of a person with these groups, as a token lists them; None if there is none."""
        own = {each for each in groups if type(each) is str} if isinstance(groups, list) else set()
        return next((role for role, needed in self.roles if own & needed), None)


def read_sign_on(path: Path, budgets: Sequence[str]) -> SignOnTerms:
    """Read the file. Raises OptionError if something in it is wrong."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, ValueError) as fault:
        raise _wrong(path, f"it cannot be read ({type(fault).__name__})") from None
    if unknown := sorted(told.keys() - KNOWN):
        raise _wrong(path, f"{unknown[0]} is unknown", ", ".join(sorted(KNOWN)))
    for name in TEXTS:
        if type(told.get(name)) is not str or not told[name]:
            raise _wrong(path, f"{name} is missing, or is no text", f'{name} = "..."')
    for name in ("issuer", "redirect"):
        if not is_safe_address(told[name]):
            raise _wrong(path, f"{name} is no address by https", f'{name} = "https://..."')
    if urlsplit(told["redirect"]).path != BACK:
        raise _wrong(path, f"redirect does not end in {BACK}", f'redirect = "https://this.server{BACK}"')
    if told["budget"] not in budgets:
        raise _wrong(path, f"the policy has no budget {told['budget']}", ", ".join(budgets))
    given = {name: Decimal(told[name]) for name in PRICES if name in told}
    price(**given)  # which checks it
    return SignOnTerms(
        issuer=told["issuer"], client=told["client"], secret=_secret(path, told.get("secret")), redirect=told["redirect"],
        budget=told["budget"], name=_claim(path, told, "name", "sub"), groups=_claim(path, told, "groups", "groups"),
        roles=_roles(path, told.get("roles")), price=given, inherits=_inherits(path, told.get("inherits", [])))


def is_safe_address(address: str) -> bool:
    """Whether an address is one by https, or of this machine."""
    parts = urlsplit(address)
    return bool(parts.hostname) and "@" not in parts.netloc and not parts.fragment and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")))


def _claim(path: Path, told: Mapping[str, Any], which: str, usual: str) -> str:
    if type(named := told.get(which, usual)) is not str or not named:
        raise _wrong(path, f"{which} names no claim", f'{which} = "{usual}"')
    return str(named)


def _secret(path: Path, file: object) -> str | None:
    if file is None:
        return None
    try:
        return (path.parent / str(file)).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as fault:
        raise _wrong(path, f"the file of the secret cannot be read ({type(fault).__name__})") from None


def _roles(path: Path, told: object) -> tuple[tuple[str, frozenset[str]], ...]:
    if not isinstance(told, dict) or not told or not told.keys() <= {*ROLES} or not all(
            isinstance(groups, list) and groups and all(type(group) is str for group in groups) for groups in told.values()):
        raise _wrong(path, "roles is no table of roles and their groups", '[roles] analyst = ["researchers"]')
    return tuple((role, frozenset(groups)) for role, groups in told.items())


def _inherits(path: Path, told: object) -> frozenset[str]:
    if not isinstance(told, list) or not all(type(name) is str for name in told):
        raise _wrong(path, "inherits is no list of names", 'inherits = ["ada"]')
    return frozenset(map(normal, told))


def _wrong(path: Path, what: str, try_: str = "") -> OptionError:
    return OptionError(f"{path}: {what}", code="sign-on", subject="sign-on", try_=try_)
