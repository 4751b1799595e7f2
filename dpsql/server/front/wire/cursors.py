"""Cursors in SQL: DECLARE, FETCH, MOVE and CLOSE.

An answer is complete and final when it is given, so a cursor has all of its rows from the beginning: the query of DECLARE is
answered, and charged, once, and moving through its rows costs nothing. The forms follow PostgreSQL's grammar. They are read here,
since sqlglot does not parse these statements.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Sequence

from dpsql.frozen import Frozen
from dpsql.server.front.statements.transaction_status import start_of
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, OutcomeOnWire, RefusedOnWire

WORDS = "DECLARE", "FETCH", "MOVE", "CLOSE"
_NAME = r'(?P<name>"(?:[^"]|"")+"|[A-Za-z_][\w$]*)'
_DECLARE = re.compile(
    rf"DECLARE\s+{_NAME}\s+(?P<options>(?:(?:BINARY|INSENSITIVE|ASENSITIVE|NO\s+SCROLL|SCROLL)\s+)*)CURSOR\s+"
    r"(?:(?P<hold>WITH|WITHOUT)\s+HOLD\s+)?FOR\s+(?P<query>\S.*)", re.IGNORECASE | re.DOTALL)
_NUMBER = r"[+-]?\s*\d+"
_MOVE = re.compile(
    rf"(?P<word>FETCH|MOVE)\s+(?:(?P<way>NEXT|PRIOR|FIRST|LAST|ABSOLUTE|RELATIVE|FORWARD|BACKWARD)\s+)?"
    rf"(?:(?P<number>{_NUMBER}|ALL)\s+)?(?:(?:FROM|IN)\s+)?{_NAME}\s*", re.IGNORECASE)
_CLOSE = re.compile(rf"CLOSE\s+{_NAME}\s*", re.IGNORECASE)
_ALONE = "NEXT", "PRIOR", "FIRST", "LAST"  # ways without a number
_ALL = 2**63


class DeclaredCursor(Frozen):
    """A DECLARE: `query` is its query, which begins at the character `start` of the statement; `is_held` says that the cursor
    outlives its transaction, `is_forward` that it only moves forward, and `is_binary` that its values are."""

    name: str
    query: str
    start: int
    is_held: bool
    is_forward: bool
    is_binary: bool


class CursorMove(Frozen):
    """A FETCH or MOVE: how far the cursor `name` moves. `from_start` says from which row: None for the row where it is, True for
    the beginning, False for the end. With `each`, all rows on the way are meant, otherwise the last one only."""

    word: str
    name: str
    number: int
    from_start: bool | None = None
    each: bool = True


def declared_cursor(text: str) -> DeclaredCursor:
    """What a DECLARE says. Raises RefusedOnWire for a syntax error."""
    begin = start_of(text)
    found = _DECLARE.fullmatch(text, begin)
    if found is None:
        raise _wrong("DECLARE name CURSOR FOR SELECT ...")
    options = " ".join(found["options"].upper().split())
    return DeclaredCursor(name=_named(found["name"]), query=found["query"], start=found.start("query"),
                          is_held=(found["hold"] or "").upper() == "WITH", is_forward="NO SCROLL" in options,
                          is_binary="BINARY" in options)


def cursor_move(text: str) -> CursorMove:
    """What a FETCH or MOVE says. Raises RefusedOnWire for a syntax error."""
    found = _MOVE.fullmatch(text, start_of(text))
    way, given = ((found["way"] or "").upper(), (found["number"] or "").upper()) if found else ("", "")
    if found is None or (way in _ALONE and given) or (way in ("ABSOLUTE", "RELATIVE") and given in ("", "ALL")):
        raise _wrong("FETCH 100 FROM name")
    name, word = _named(found["name"]), found["word"].upper()
    number = _ALL if given == "ALL" else int("".join(given.split()) or 1)
    match way:
        case "FIRST" | "LAST" | "ABSOLUTE":
            place = {"FIRST": 1, "LAST": -1}.get(way, number)
            return CursorMove(word=word, name=name, number=place, from_start=place >= 0, each=False)
        case "RELATIVE":
            return CursorMove(word=word, name=name, number=number, each=False)
        case "PRIOR" | "BACKWARD":
            return CursorMove(word=word, name=name, number=-number)
    return CursorMove(word=word, name=name, number=number)


def closed_cursor(text: str) -> str | None:
    """The name of the cursor in CLOSE; None for all. Raises RefusedOnWire for a syntax error."""
    found = _CLOSE.fullmatch(text, start_of(text))
    if found is None:
        raise _wrong("CLOSE name")
    return None if found["name"].upper() == "ALL" else _named(found["name"])


@dataclasses.dataclass(slots=True, kw_only=True)
class CursorOnWire:
    """The rows of an answer, and the place in them: 0 before the first one, then that of the last row that was fetched. Only the
    connection's own task changes it. `counted` is closed when the rows are no longer held."""

    declared: DeclaredCursor
    columns: tuple[ColumnOnWire, ...]
    rows: Sequence[tuple[object, ...]]
    at: int = 0
    counted: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)

    @property
    def formats(self) -> tuple[int, ...]:
        """The formats of its values where no others are asked for."""
        return (int(self.declared.is_binary),) * len(self.columns)

    def moved(self, move: CursorMove) -> OutcomeOnWire:
        """The rows of a FETCH or MOVE, after which the cursor is at the last one, or before or after all. Raises RefusedOnWire if
        the cursor would have to move backward and cannot."""
        end = len(self.rows) + 1
        base = {None: self.at, True: 0, False: end}[move.from_start]
        to = min(max(base + move.number, 0), end)
        if self.declared.is_forward and (to < self.at or (move.number == 0 and move.from_start is None)):
            raise RefusedOnWire("cursor can only scan forward", sqlstate="55000",
                                hint="Declare it with SCROLL option to enable backward scan.")
        if move.number == 0 or not move.each:
            places = [to]
        else:
            places = list(range(self.at + 1, to + 1) if to > self.at else range(self.at - 1, to - 1, -1))
        self.at = to
        found = [self.rows[place - 1] for place in places if 0 < place < end]
        shown = move.word == "FETCH"
        return OutcomeOnWire(tag=f"{move.word} {len(found)}", columns=self.columns if shown else None,
                             rows=iter(found if shown else ()), notices=())


def size_of(rows: Sequence[tuple[object, ...]], cell: int) -> int:
    """Bytes, about, that rows take, of which each value but a text takes `cell`."""
    return sum(cell + (len(value) if isinstance(value, str) else 0) for row in rows for value in row)


def _named(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _wrong(form: str) -> RefusedOnWire:
    return RefusedOnWire("this statement about a cursor is not written as it should be", sqlstate="42601", hint=f"try {form}")
