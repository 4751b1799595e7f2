"""The purpose of each statement that an agent paid for. It is a comment at the end of the statement's text in the ledger.

So it is recorded in the same event as the charge, is covered by the ledger's hashes, and is there in a ledger of several servers
too. A comment is no part of a statement: the identity of a statement, by which its answer is found again, does not depend on its
text (`engine.charging.Charged`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.answers.listing import Listing
from dpsql.answers.listings import price_of_entry
from dpsql.errors import OptionError
from dpsql.ledgers.ledger_reports import Entry
from dpsql.types import Type

MARK = "-- purpose: "
LEAST, LONGEST = 8, 300  # letters


def with_purpose(sql: str, purpose: str) -> str:
    """A statement with its purpose as a last line. Raises OptionError if the purpose is no sentence."""
    told = " ".join("".join(letter if letter.isprintable() else " " for letter in purpose).split())
    if not LEAST <= len(told) <= LONGEST:
        raise OptionError(f"a purpose has {LEAST} to {LONGEST} letters", code="purpose", subject="purpose", source="the call",
                          try_="a sentence for the owner of the data, such as: compare income by health for the annual report")
    return f"{sql.rstrip().rstrip(';').rstrip()}\n{MARK}{told}"


def purpose_of(text: str) -> tuple[str, str]:
    """A statement of the ledger and its purpose; "" if it has none."""
    sql, newline, last = text.rpartition("\n")
    return (sql, last.removeprefix(MARK)) if newline and last.startswith(MARK) else (text, "")


def listed_purposes(entries: Sequence[Entry]) -> Listing:
    """The charged statements that have a purpose, oldest first, for the owner."""
    rows = []
    for entry in entries:
        sql, purpose = purpose_of(entry.sql)
        if purpose:
            rows.append((entry.seq, entry.at, entry.account.analyst, price_of_entry(entry), entry.outcome, purpose, sql))
    titles = ("at", "analyst", "charge", "outcome", "purpose", "statement")
    return Listing(columns=(("number", Type.BIGINT), *((title, Type.VARCHAR) for title in titles)), rows=tuple(rows))
