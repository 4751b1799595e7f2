"""The synthetic tables of an account that stand, and DROP SYNTHETIC TABLE.

The ledger keeps what was released, and forgets nothing. To drop a table is to note that it is hidden; its name is free then, and
nothing is paid back, as what was learned stays known. The statement that made it gives it back, by another note. Where
answers are shared, a table that another account made is there from such a note on, too. Notes are recorded as charges of
nothing, for which no row is read.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Generator, Mapping
from operator import methodcaller
from typing import Any

from dpsql.answers.described_columns import OF_DROP
from dpsql.answers.listing import Listing
from dpsql.engine.charging import open_account
from dpsql.engine.session import Session
from dpsql.errors import SqlError
from dpsql.frozen import Frozen, asdict
from dpsql.questions.identity import digest
from dpsql.sql.text.statement import Drop
from dpsql.synthesis.released_database import DATABASE_MARK, stored_tables
from dpsql.synthesis.synthetic_table import MARK
from dpsql.trusted.accounting.cost import FREE
from dpsql.trusted.kernel.marks import SYNTHETIC
from dpsql.trusted.measurements.reading.request import Request

WHOLE = ', "whole": '  # follows the name of a table of one period
BEGINNING = f'{SYNTHETIC} note": '  # of notes, which hold no table


class TableNote(Frozen):
    """That no table of this name stands from now on; or, that the one with this content does."""

    name: str
    content: str | None

    def as_json(self) -> str:
        """The stored form."""
        return BEGINNING + json.dumps(asdict(self)) + "}"


def standing(session: Session) -> dict[str, str]:
    """The stored forms of the account's synthetic tables that are not dropped, by their names in lower case.

    A table that another account made is among them only after this account ran its statement, which is noted. The ledger has it
    among the answers told to this account also if a statement reused its counts.
    """
    made: dict[str, str] = {}
    found: dict[str, str] = {}
    for each in session.ledger.holding(session.account, session.kernel.version, SYNTHETIC):
        if each.body.startswith((MARK, DATABASE_MARK)):
            for part in [each.body] if each.body.startswith(MARK) else stored_tables(each.body):
                made[content_of(part)] = part
                if not each.shared:
                    name, _ = json.JSONDecoder().raw_decode(part, len(MARK))
                    found[name.lower()] = part
        elif each.body.startswith(BEGINNING):
            note = TableNote(**json.loads(each.body)["synthetic table note"])
            found.pop(note.name.lower(), None)
            if note.content is not None and (again := made.get(note.content)) is not None:
                found[note.name.lower()] = again
    return found


def parts_of_wholes(tables: Mapping[str, str]) -> dict[str, list[str]]:
    """Of stored tables, by their names in lower case, those that are of one period each: by the name of the table of all
    periods, in the order of these."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, stored in tables.items():
        if (whole := whole_of(stored)) is not None:
            found.setdefault(whole.lower(), []).append((name, stored))
    return {whole: [stored for _, stored in sorted(parts)] for whole, parts in found.items()}


def whole_of(stored: str) -> str | None:
    """The table of all periods that a stored table is a part of; None if it is none."""
    if not stored.startswith(MARK):
        return None
    _, end = json.JSONDecoder().raw_decode(stored, len(MARK))
    return json.JSONDecoder().raw_decode(stored, end + len(WHOLE))[0] if stored.startswith(WHOLE, end) else None


def content_of(stored: str) -> str:
    """A digest of a stored form, as the same statement of another account gives other rows."""
    return hashlib.sha256(stored.encode()).hexdigest()


def keep_again(name: str, stored: str, session: Session, text: str) -> None:
    """Record that a table is available, if it was dropped, or if another account made it."""
    if standing(session).get(name.lower()) != stored:
        _record(TableNote(name=name, content=content_of(stored)), session, text)


def drop(statement: Drop, session: Session) -> Listing:
    """Record that a table is dropped. Raises SqlError, located, if the account has no synthetic table of this name."""
    names = standing(session)
    for stored in parts_of_wholes(names).get(statement.name.lower(), ()):
        part, _ = json.JSONDecoder().raw_decode(stored, len(MARK))
        _record(TableNote(name=part, content=None), session, statement.text)
        names[statement.name.lower()] = ""
    if names.get(statement.name.lower()) == "":
        return Listing(columns=OF_DROP, rows=((statement.name,),))
    if statement.name.lower() not in names:
        close = difflib.get_close_matches(statement.name.lower(), names, n=1)
        told = SqlError(f"there is no synthetic table {statement.name}", code="unknown-table", span=statement.span,
                        subject=statement.name, try_=close[0] if close else "SHOW TABLES, which lists them")
        raise told.located(statement.text)
    _record(TableNote(name=statement.name, content=None), session, statement.text)
    return Listing(columns=OF_DROP, rows=((statement.name,),))


def _record(note: TableNote, session: Session, text: str) -> None:
    with open_account(text, session):
        session.kernel.run(_noted(note), cost=FREE, account=session.account, sql=text, limits={},
                           digest=digest(session.policy, "note", note.name), encode=methodcaller("as_json"))


def _noted(note: TableNote) -> Generator[Request, Any, TableNote]:
    """A script that asks for nothing."""
    yield from ()
    return note
