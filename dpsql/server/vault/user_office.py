"""What an owner may do to users through the front: add an analyst, close an account, and reopen one that an owner has closed.

The front is not trusted: an attacker who controls it while an owner is logged in can make these calls too. None of them increases
what can be revealed: the limits of a budget, the rows and the policy are as before, and all analysts together stay within the
total. A new user is an analyst of the owner's budget, one whom the policy allows, and whose name has no answers yet: the front
sees the password, and would read them with it. A person who signs on elsewhere (`sign_on`) has no entry in the file of users. To
close one is to write an entry without a password, which blocks the name; to reopen is to remove it. Only commands add auditors
and owners, or close owners, so that no owner is locked out. What forgives incidents or late outcomes (`dpsql budget --reopen`)
lets an analyst provoke more of them, which reveals more about rows, so it is a command as well, and so is whatever changes the
policy.

Every act is logged.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Generator
from pathlib import Path

from dpsql.catalog.model import Budget
from dpsql.catalog.policy import read_policy
from dpsql.errors import OptionError
from dpsql.server.link.told_to_overseers import AddedUser, CheckOutcome, UserState
from dpsql.server.vault import passwords
from dpsql.server.vault.overseeing import checks
from dpsql.server.vault.sign_on import SignOn

LOG = logging.getLogger("dpsql.server")
NAME = "user-name"  # code of errors about the name that was given; "user" would say that the caller is no user any more
RANDOM = 15  # bytes of a password that is made here: 120 bits
MOST_USERS = 10_000  # with more, none is added through the front, so that nobody fills the disk
REMEMBERED = 60.0  # seconds for which the outcome of checks is reused, as they may take long


class UserOffice:
    """For one policy. Safe with threads. `sign_on` is None where nobody signs on elsewhere."""

    def __init__(self, policy: Path, users: passwords.WatchedUsers, sign_on: SignOn | None = None) -> None:
        self._policy, self._users, self._sign_on = policy, users, sign_on
        self._turn = threading.Lock()
        self._checked: tuple[float, tuple[CheckOutcome, ...]] | None = None

    def states(self, budget: Budget, accounts: Collection[str]) -> tuple[UserState, ...]:
        """The users who spend a budget, by name. `accounts` are the names of its accounts: of those without an entry in the file
        of users, analysts may sign on elsewhere."""
        users = self._users.now().users
        made = [UserState(name=user.name, role=user.role, closed=user.closed) if user.verifier is not None
                else UserState(name=user.name, role=None, closed=True, signs_on=True)
                for user in users.values() if self._spends(user, budget)]
        if (elsewhere := self._elsewhere(budget)) is not None:
            people = elsewhere.people()
            made += [UserState(name=name, role=people.get(name), closed=False, signs_on=True)
                     for name in {*accounts, *people} - users.keys()]
        return tuple(sorted(made, key=lambda state: state.name))

    def add(self, name: str, budget: Budget, by: str, known: Callable[[str], bool]) -> AddedUser:
        """Add an analyst with a password chosen at random. Raises OptionError if there cannot be such a user. `known` returns
        whether an account of this name has asked anything or received an answer."""
        with _about_the_name():
            normal = passwords.account_name(name)
            if normal in self._users.now().users:
                raise passwords.taken(normal)
        if known(normal):
            raise OptionError(f"{normal} has answers already, which a new password would open", code=NAME, subject="name",
                              try_=f"another name, or dpsql user add {normal}")
        if budget.listed is not None and normal not in budget.listed:
            raise OptionError(f"the policy does not list {normal} among its analysts", code=NAME, subject="name",
                              try_="asking the owner to add a line for the analyst to the policy")
        if len(self._users.now().users) >= MOST_USERS:
            raise OptionError(f"there are {MOST_USERS} users already", code=NAME, subject="name", try_="dpsql user add NAME")
        password = secrets.token_urlsafe(RANDOM)
        user = passwords.User(name=normal, verifier=passwords.verifier(password), budget=budget.name)
        with _about_the_name():
            passwords.add_user(self._users.path, user)
        LOG.warning("%s has added the user %s through the server", by, normal)
        return AddedUser(name=normal, password=password)

    def close(self, name: str, budget: Budget, by: str, accounts: Collection[str] = ()) -> None:
        """Close the account of an analyst or auditor, whose next call fails. `accounts` are as in `states`. Raises OptionError if
        there is none."""
        if name in self._users.now().users:
            self._set(name, budget, by, closed=True)
        else:
            self._close_elsewhere(name, budget, by, accounts)

    def reopen(self, name: str, budget: Budget, by: str) -> None:
        """Undo `close`. What the account has spent, and its incidents, stay as they are. Raises OptionError."""
        self._set(name, budget, by, closed=False)

    def checks(self) -> tuple[CheckOutcome, ...]:
        """See `overseeing.checks`: one at a time, as the whole ledger is read."""
        with self._turn:
            if self._checked is None or time.monotonic() - self._checked[0] > REMEMBERED:
                made = checks(self._policy)
                self._checked = time.monotonic(), made
            return self._checked[1]

    def _close_elsewhere(self, name: str, budget: Budget, by: str, accounts: Collection[str]) -> None:
        """The same for a person who signs on elsewhere: one who has done so, or whose account is one of the budget."""
        elsewhere = self._elsewhere(budget)
        people = {} if elsewhere is None else elsewhere.people()
        if elsewhere is None or name not in {*accounts, *people}:
            raise _no_user(name)
        if people.get(name) == passwords.OWNER:
            raise OptionError("an owner is not closed through the server", code=NAME, subject="name",
                              try_=f"another group at the identity provider, or dpsql user add {name}")
        with _about_the_name():
            passwords.add_user(self._users.path, passwords.User(
                name=passwords.account_name(name), verifier=None, budget=budget.name, closed=True))
        LOG.warning("%s has closed %s, who signs on elsewhere, through the server", by, name)

    def _elsewhere(self, budget: Budget) -> SignOn | None:
        """Where people sign on who spend this budget."""
        return self._sign_on if self._sign_on is not None and self._sign_on.terms.budget == budget.name else None

    def _set(self, name: str, budget: Budget, by: str, *, closed: bool) -> None:
        user = self._users.now().users.get(name)
        if user is None or not self._spends(user, budget):
            raise _no_user(name)
        if user.role == passwords.OWNER:
            raise OptionError("an owner is closed and reopened by a command alone", code=NAME, subject="name",
                              try_=f"dpsql user close {name}")
        with _about_the_name():
            passwords.set_closed(self._users.path, name, closed=closed)
        LOG.warning("%s has %s the user %s through the server", by, "closed" if closed else "reopened", name)

    def _spends(self, user: passwords.User, budget: Budget) -> bool:
        """Whether the user spends this budget: one who names none spends the only one."""
        return user.budget == budget.name or (user.budget is None and [*read_policy(self._policy).budgets] == [budget.name])


def _no_user(name: str) -> OptionError:
    return OptionError(f"this budget has no user {name}", code=NAME, subject="name")


@contextlib.contextmanager
def _about_the_name() -> Generator[None]:
    try:
        yield
    except OptionError as fault:
        raise OptionError(fault.reason, code=NAME, subject="name", try_=fault.try_) from None
