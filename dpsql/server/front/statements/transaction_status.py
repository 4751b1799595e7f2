"""Statements about the connection alone: transactions, which do nothing here but keep the state that clients rely on.

An answer is final when it is given, so there is nothing to commit and nothing to take back but settings and cursors. Drivers and
pools open and end transactions all the same, and count on an error to end one: after it, everything but the end is refused.
"""

from __future__ import annotations

import re

from dpsql.frozen import Frozen
from dpsql.server.front.terms.answers_on_wire import Notice, RefusedOnWire

IDLE, OPEN, FAILED = "I", "T", "E"
_AHEAD = re.compile(r"(\s+|--[^\n]*(\n|$)|/\*([^*]|\*(?!/))*\*/)+")
_WORD = re.compile(r"\w+")
_FIRST = {
    "BEGIN": re.compile(r"BEGIN\b|START\s+TRANSACTION\b", re.IGNORECASE),
    "ROLLBACK TO": re.compile(r"ROLLBACK\s+((WORK|TRANSACTION)\s+)?TO\b", re.IGNORECASE),
    "COMMIT": re.compile(r"(COMMIT|END)\b", re.IGNORECASE),
    "ROLLBACK": re.compile(r"(ROLLBACK|ABORT)\b", re.IGNORECASE),
    "SAVEPOINT": re.compile(r"SAVEPOINT\b", re.IGNORECASE),
    "RELEASE": re.compile(r"RELEASE\b", re.IGNORECASE),
    "DEALLOCATE": re.compile(r"DEALLOCATE\b", re.IGNORECASE),
}
NAME = r'(?P<name>"(?:[^"]|"")+"|[A-Za-z_\u0080-\uffff][\w$]*)'
_WORK = "(?: (?:WORK|TRANSACTION))?"
_MODE = ("(?:ISOLATION LEVEL (?:SERIALIZABLE|REPEATABLE READ|READ COMMITTED|READ UNCOMMITTED)|READ WRITE|READ ONLY|"
         "(?:NOT )?DEFERRABLE)")
_CHAIN = "(?: AND (?P<no>NO )?(?P<chain>CHAIN))?"
_WHOLE = {word: re.compile(form, re.IGNORECASE) for word, form in {
    "BEGIN": rf"(?:(?P<start>START TRANSACTION)|BEGIN{_WORK})(?: {_MODE}(?:(?: ?, ?| ){_MODE})*+)?",
    "ROLLBACK TO": rf"ROLLBACK{_WORK} TO(?: SAVEPOINT)? {NAME}",
    "COMMIT": rf"(?:COMMIT|END){_WORK}{_CHAIN}", "ROLLBACK": rf"(?:ROLLBACK|ABORT){_WORK}{_CHAIN}",
    "SAVEPOINT": rf"SAVEPOINT {NAME}", "RELEASE": rf"RELEASE(?: SAVEPOINT)? {NAME}",
    "DEALLOCATE": rf"DEALLOCATE(?: PREPARE)? {NAME}"}.items()}
_QUOTED = r"""'(?:[^']|'')*+(?:'|$)|"(?:[^"]|"")*+(?:"|$)"""  # what is never closed goes on to the end: all is read once
_COMMENT = r"--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|$)"
_APART = re.compile(f"{_QUOTED}|(?P<comment>{_COMMENT})")
_GAP = re.compile(rf"(?P<quoted>{_QUOTED})|(?:\s|{_COMMENT})++")


def word_of(text: str) -> str | None:
    """The keyword of a statement that is handled before it reaches a seat, such as COMMIT; None for others."""
    begin = start_of(text)
    return next((word for word, form in _FIRST.items() if form.match(text, begin)), None)


class TransactionStatement(Frozen):
    """A statement about a transaction or a prepared statement: its keyword and tag; the name that it states, where ALL is None;
    and whether another transaction begins at once."""

    word: str
    tag: str
    name: str | None = None
    chain: bool = False


def transaction_statement(word: str, text: str) -> TransactionStatement:
    """What a statement with a keyword says. Raises RefusedOnWire for a syntax error."""
    found = _WHOLE[word].fullmatch(condensed(text))
    if found is None:
        raise RefusedOnWire(f"{word} is not written as it should be", sqlstate="42601", position=start_of(text) + 1)
    said = found.groupdict()
    name = name_meant(said["name"]) if said.get("name") else None
    tag = {"ROLLBACK TO": "ROLLBACK", "BEGIN": "START TRANSACTION" if said.get("start") else "BEGIN"}.get(word, word)
    if word == "DEALLOCATE" and said["name"].upper() == "ALL":
        name, tag = None, "DEALLOCATE ALL"
    return TransactionStatement(word=word, tag=tag, name=name, chain=bool(said.get("chain")) and not said.get("no"))


def name_meant(name: str) -> str:
    """The name that is written, in quotes or not."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def blanked(text: str) -> str:
    """The text with each comment replaced by as many blanks."""
    return _APART.sub(lambda found: " " * len(found[0]) if found["comment"] else found[0], text)


def condensed(text: str) -> str:
    """The text without comments and a last semicolon, with one blank between words."""
    plain = _GAP.sub(lambda found: found[0] if found["quoted"] else " ", text)
    return plain.strip().removesuffix(";").rstrip()


def start_of(text: str) -> int:
    """The position of the first word of a statement, after blanks and comments."""
    ahead = _AHEAD.match(text)
    return ahead.end() if ahead else 0


def first_word(text: str) -> str:
    """The first word of a statement, in capitals; empty if it does not begin with a word, but with a parenthesis for example."""
    found = _WORD.match(text, start_of(text))
    return found[0].upper() if found else ""


class TransactionStep(Frozen):
    """What such a statement does: the status after it, its tag, and warnings."""

    status: str
    tag: str
    notices: tuple[Notice, ...] = ()


def step(said: TransactionStatement, status: str) -> TransactionStep:
    """The effect of a transaction statement on the status. Raises RefusedOnWire for what is allowed in a transaction alone, and
    for statements refused in a failed transaction."""
    refuse_if_failed(said.word, status)
    match said.word:
        case "BEGIN":
            return TransactionStep(status=OPEN, tag=said.tag,
                                   notices=_warned("there is already a transaction", "25001", status == OPEN))
        case "COMMIT" | "ROLLBACK":
            if said.chain and status == IDLE:
                raise RefusedOnWire(f"{said.word} AND CHAIN is allowed only inside a transaction", sqlstate="25P01")
            return TransactionStep(status=OPEN if said.chain else IDLE, tag="ROLLBACK" if status == FAILED else said.tag,
                                   notices=_warned("there is no transaction", "25P01", status == IDLE))
        case "SAVEPOINT" | "RELEASE" | "ROLLBACK TO" if status == IDLE:
            raise RefusedOnWire(f"{said.word} is allowed only inside a transaction", sqlstate="25P01")
        case "SAVEPOINT" | "RELEASE" | "ROLLBACK TO":
            return TransactionStep(status=OPEN, tag=said.tag)
    return TransactionStep(status=status, tag=said.tag)


def refuse_if_failed(word: str | None, status: str) -> None:
    """Raises RefusedOnWire if a transaction failed and this is not its end."""
    if status == FAILED and word not in ("COMMIT", "ROLLBACK", "ROLLBACK TO"):
        raise RefusedOnWire("current transaction is aborted, commands ignored until end of transaction block", sqlstate="25P02",
                            hint="ROLLBACK; what was answered before stays answered and charged")


def _warned(text: str, sqlstate: str, whether: bool) -> tuple[Notice, ...]:
    return (Notice(text=text, severity="WARNING", sqlstate=sqlstate),) if whether else ()
