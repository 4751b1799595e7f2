"""Statements about the connection alone: transactions, which do nothing here but keep the state that clients rely on.

An answer is final when it is given, so there is nothing to commit and nothing to take back. Drivers and pools open and end
transactions all the same, and count on an error to end one: after it, everything but the end is refused.
"""

from __future__ import annotations

import re

from dpsql.frozen import Frozen
from dpsql.server.front.terms.answers_on_wire import Notice, RefusedOnWire

IDLE, OPEN, FAILED = "I", "T", "E"
_AHEAD = re.compile(r"(\s+|--[^\n]*(\n|$)|/\*([^*]|\*(?!/))*\*/)+")
_WORD = re.compile(r"\w+")
_FORMS = {
    "BEGIN": re.compile(r"BEGIN\b|START\s+TRANSACTION\b", re.IGNORECASE),
    "ROLLBACK TO": re.compile(r"ROLLBACK\s+((WORK|TRANSACTION)\s+)?TO\b", re.IGNORECASE),
    "COMMIT": re.compile(r"(COMMIT|END)\b", re.IGNORECASE),
    "ROLLBACK": re.compile(r"(ROLLBACK|ABORT)\b", re.IGNORECASE),
    "SAVEPOINT": re.compile(r"SAVEPOINT\b", re.IGNORECASE),
    "RELEASE": re.compile(r"RELEASE\b", re.IGNORECASE),
    "DEALLOCATE": re.compile(r"DEALLOCATE\s+(PREPARE\s+)?(?P<all>ALL\b)?(?P<name>\"[^\"]*\"|\w+)?", re.IGNORECASE),
}


def word_of(text: str) -> str | None:
    """The keyword of a statement that is handled before it reaches a seat, such as COMMIT; None for others."""
    begin = start_of(text)
    return next((word for word, form in _FORMS.items() if form.match(text, begin)), None)


def deallocated(text: str) -> str | None:
    """The name of the prepared statement in DEALLOCATE; None for all."""
    found = _FORMS["DEALLOCATE"].match(text, start_of(text))
    if found is None or found["all"]:
        return None
    name = found["name"] or ""
    return name[1:-1] if name.startswith('"') else name.lower()


def start_of(text: str) -> int:
    """The position of the first word of a statement, after blanks and comments."""
    ahead = _AHEAD.match(text)
    return ahead.end() if ahead else 0


def first_word(text: str) -> str:
    """The first word of a statement, in capitals; empty if it does not begin with a word, but with a parenthesis for example."""
    found = _WORD.match(text, start_of(text))
    return found[0].upper() if found else ""


class TransactionStep(Frozen):
    """What such a statement does: the status after it, its tag, and a warning."""

    status: str
    tag: str
    notices: tuple[Notice, ...] = ()


def step(word: str, status: str) -> TransactionStep:
    """The effect of a transaction statement. Raises RefusedOnWire for savepoints outside a transaction, and for statements
    refused in a failed transaction."""
    refuse_if_failed(word, status)
    match word:
        case "BEGIN":
            return TransactionStep(status=OPEN, tag="BEGIN", notices=_warned("there is already a transaction", status == OPEN))
        case "COMMIT":
            tag = "ROLLBACK" if status == FAILED else "COMMIT"
            return TransactionStep(status=IDLE, tag=tag, notices=_warned("there is no transaction", status == IDLE))
        case "ROLLBACK":
            return TransactionStep(status=IDLE, tag="ROLLBACK", notices=_warned("there is no transaction", status == IDLE))
        case "SAVEPOINT" | "RELEASE" | "ROLLBACK TO" if status == IDLE:
            raise RefusedOnWire(f"{word} is allowed only inside a transaction", sqlstate="25P01")
        case "SAVEPOINT" | "RELEASE":
            return TransactionStep(status=OPEN, tag=word)
        case "ROLLBACK TO":
            return TransactionStep(status=OPEN, tag="ROLLBACK")
    return TransactionStep(status=status, tag="DEALLOCATE")


def refuse_if_failed(word: str | None, status: str) -> None:
    """Raises RefusedOnWire if a transaction failed and this is not its end."""
    if status == FAILED and word not in ("COMMIT", "ROLLBACK", "ROLLBACK TO"):
        raise RefusedOnWire("current transaction is aborted, commands ignored until end of transaction block", sqlstate="25P02",
                            hint="ROLLBACK; what was answered before stays answered and charged")


def _warned(text: str, whether: bool) -> tuple[Notice, ...]:
    return (Notice(text=text, severity="WARNING"),) if whether else ()
