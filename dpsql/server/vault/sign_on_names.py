"""Whose the names are under which people sign on: a file beside the policy, in JSON, with the person of each name.

A person is the `sub` of the token and the issuer, which a provider never gives to somebody else; the file has a hash of both.

Claim: a sign-on opens the charges and stored answers that the ledger has of a name only if this person was the first to sign on
with the name, when the ledger had nothing of it, or if the owner has listed the name under `inherits`. Proof: `admit` is called
with each session that is opened, under a lock of the folder. A name that is not in the file is given to a person only if the
ledger has nothing of it, and a name in the file only to its own person, unless the owner lists it; the entry is on disk before
the session is used. `dpsql user add` removes the name from the file (`forget`), because from then on its answers are those of a
user with a password: if this user is removed later, the name counts as one of somebody else. What a person asks in a process of
their own, without a server, has the name that they state; but such a person has the files of the rows and of the ledger.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from dpsql.backends.manifests import put_in_place
from dpsql.errors import OperationalError


def names_file(users: Path) -> Path:
    """The path of the file of names, given that of the file of users."""
    return users.with_name(f"{users.name.removesuffix('.users.json')}.people.json")


def admit(path: Path, name: str, person: str, *, is_unused: Callable[[], bool], inherits: Collection[str] = ()) -> None:
    """Let a person use a name; `is_unused` returns whether the ledger has nothing of it. Raises OperationalError if the name
    belongs to somebody else, or the file cannot be used."""
    with _changed(path) as people:
        if people.get(name) == person:
            return
        if name not in inherits and (name in people or not is_unused()):
            raise OperationalError("this name has answers of somebody else", code="user", try_="asking the owner of the data")
        people[name] = person


def forget(path: Path, name: str) -> None:
    """Remove a name: whoever signs on with it next counts as another person. The caller holds the lock of the folder. Raises
    OperationalError."""
    people = _read(path)
    if people.pop(name, None) is not None:
        _write(path, people)


@contextlib.contextmanager
def _changed(path: Path) -> Iterator[dict[str, str]]:
    """The persons by name, to be changed; the file is replaced when the context is left without an error, if they were."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as fault:
        raise _unusable(path, fault) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        before = _read(path)
        people = dict(before)
        yield people
        if people != before:
            _write(path, people)
    finally:
        os.close(folder)  # and the lock with it


def _write(path: Path, people: Mapping[str, str]) -> None:
    try:
        put_in_place(path, json.dumps({"version": 1, "people": people}, indent=1, sort_keys=True) + "\n")
    except OSError as fault:
        raise _unusable(path, fault) from None


def _read(path: Path) -> dict[str, str]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        people = told["people"]
        if told["version"] != 1 or not all(type(each) is str for each in people.values()):
            raise ValueError("another version")
    except FileNotFoundError:
        return {}
    except OSError as fault:
        raise _unusable(path, fault) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise OperationalError(f"{path} is damaged", code="users", try_="restoring a saved copy") from None
    return dict(people)


def _unusable(path: Path, fault: OSError) -> OperationalError:
    return OperationalError(f"{path} cannot be used ({type(fault).__name__})", code="users")
