"""Logins in the vault: passwords are checked and accounts are opened, according to the file of users and the policy."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from dpsql.engine.background import await_store
from dpsql.engine.opening import ConnectionTerms, open_session
from dpsql.engine.session import Session
from dpsql.errors import Error, OperationalError
from dpsql.frozen import Frozen, field
from dpsql.server.link.login_messages import MALFORMED, WRONG, FirstProof, NotProven
from dpsql.server.vault import sign_on_names
from dpsql.server.vault.password_proofs import Exchange
from dpsql.server.vault.passwords import User, Verifier, WatchedUsers, users_file
from dpsql.server.vault.proof_attempts import ProofAttempts
from dpsql.server.vault.sign_on import SignedOn, SignOn, closed
from dpsql.server.vault.vault import Say

LOG = logging.getLogger("dpsql.server")


class Doorkeeper(Frozen):
    """For one policy. `certificate` is that of the server, in PEM, where clients can bind their proof to it."""

    policy: Path
    users: WatchedUsers
    certificate: str | None = None
    attempts: ProofAttempts = field(default_factory=ProofAttempts)

    def authenticate(self, name: str, say: Say) -> Callable[[], str]:
        """Let a client prove that it knows the password of a user. Returns a function that returns the user's role, and raises
        OperationalError as soon as the user is removed or closed, or has another password. Raises OperationalError: with the
        same text, after the same messages, for an unknown name and for a wrong password."""
        verifier, known = self.users.now().verifier_of(name)
        try:
            first = FirstProof.of_bytes(say(b"first"))
            exchange = Exchange(verifier, mechanism=first.mechanism, certificate=self.certificate if first.bound else None)
            final = say(exchange.challenge(first.message))
            with self.attempts.one(name):
                last = exchange.proven(final)
                if not known:
                    raise NotProven
        except NotProven as fault:
            raise OperationalError("the name or the password is wrong", code=MALFORMED if fault.malformed else WRONG) from None
        say(last)
        return lambda: self._role(name, verifier)

    def _role(self, name: str, verifier: Verifier) -> str:
        user = self._user(name)
        if user.verifier != verifier:
            raise _removed()
        return user.role

    def _user(self, name: str) -> User:
        user = self.users.now().users.get(name)
        if user is None:
            raise _removed()
        if user.closed:
            raise closed()
        return user

    def open_account(self, name: str, database: str) -> Session:
        """The session of a user, with the budget and the price in the file of users. The database name that clients send is
        ignored, as there is only one. Raises errors.Error."""
        user = self._user(name)
        return _opened(self.policy, name, user.budget, user.price)


class SignOnKeeper(Frozen):
    """The same for single sign-on (`sign_on`)."""

    policy: Path
    sign_on: SignOn

    def open_account(self, person: SignedOn) -> Session:
        """The session of a person, with the budget and the price that the owner has set for those who sign on. Raises
        errors.Error: also where the name has answers of somebody else."""
        terms = self.sign_on.terms
        session = _opened(self.policy, person.name, terms.budget, terms.price)
        try:
            session.ledger.refresh()
            sign_on_names.admit(sign_on_names.names_file(users_file(self.policy)), person.name, person.person,
                                is_unused=lambda: not session.ledger.entries(terms.budget, person.name), inherits=terms.inherits)
            self.sign_on.admitted(person)
        except BaseException as fault:
            session.close()
            if isinstance(fault, Error):
                LOG.warning("%s signed on and is refused: %s", person.name, fault.reason)
            raise
        return session


def _opened(policy: Path, analyst: str, budget: str | None, price: Mapping[str, Decimal]) -> Session:
    """The session of an analyst. Raises errors.Error."""
    terms: dict[str, Any] = dict(price)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the notes of the session say the same, and so does the log
        return open_session(None, policy, None, ConnectionTerms(budget=budget, analyst=analyst, **terms),
                            await_store=await_store, places=False)


def _removed() -> OperationalError:
    return OperationalError("the user was removed, or the password was changed", code="user")
