"""The messages between the vault and auditors or owners: facts about statements, users and the server.

None contains an answer. They depend on rows only through what the ledger records of each statement: that it was charged, was
answered, failed, or left late.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from dpsql.frozen import Frozen
from dpsql.ledgers.ledger_reports import Entry

MOST_LISTED = 500  # statements of a page
OUTCOMES = ("", "answered", "failed", "stopped", "running", "shared")


class ListedStatements(Frozen):
    """A page of statements, newest first and without answers. `found` is the number of all that match. The next page
    begins before the charge `before`, which is 0 on the last page."""

    entries: tuple[Entry, ...]
    found: int
    before: int


class UserState(Frozen):
    """A user of a budget. One who is `closed` cannot log in until an owner reopens the account. One who `signs_on` elsewhere
    has no password here, and has a role only while signed on."""

    name: str
    role: str | None
    closed: bool
    signs_on: bool = False


class AddedUser(Frozen):
    """A new user with the password that was chosen at random; it is stored nowhere."""

    name: str
    password: str


class LateOutcomes(Frozen):
    """How many outcomes of an analyst left at one step of the grid of times, which is later than the first."""

    analyst: str
    step: int
    number: int


class StoppedStatements(Frozen):
    """How many charged statements of an analyst were stopped for a cause."""

    analyst: str
    cause: str
    number: int


class CheckOutcome(Frozen):
    """Whether a check found everything in order, and in words what it found."""

    name: str
    fine: bool
    words: str


class VaultState(Frozen):
    """The state of the vault: times in seconds since the epoch or in ISO form, sizes in bytes. `channels` of at most
    `most_channels` are open. The ledger has this number of `events`; the newest checkpoint is event `checkpoint`, written at
    `checkpoint_at`. `ledger_bytes` is None if the ledger is not a file."""

    started: float
    channels: int
    most_channels: int
    events: int
    ledger_bytes: int | None
    checkpoint: int
    checkpoint_at: str


def is_outcome(value: Any) -> bool:
    return type(value) is str and value in OUTCOMES


def is_moment(value: Any) -> bool:
    """Whether a value is a time with its zone, in ISO form, or no limit ("")."""
    if type(value) is not str or len(value) > 40:
        return False
    try:
        moment = dt.datetime.fromisoformat(value) if value else dt.datetime.now(dt.UTC)
        return moment.tzinfo is not None and moment.astimezone(dt.UTC).year < 9999
    except (ValueError, OverflowError):
        return False


def is_place(value: Any) -> bool:
    """Whether a value may be the number of a charge, or 0."""
    return type(value) is int and 0 <= value < 2**63


def is_size_of_page(value: Any) -> bool:
    return type(value) is int and 0 < value <= MOST_LISTED
