"""Cursors in SQL: DECLARE, FETCH, MOVE and CLOSE.

DECLARE answers and charges its query once, and the cursor has all rows from then on: moving through them costs nothing. The
syntax is that of PostgreSQL. It is parsed here, as sqlglot does not parse these statements.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Sequence

from dpsql.frozen import Frozen
from dpsql.server.front.statements.shown_answers import CELL
from dpsql.server.front.statements.transaction_status import NAME, blanked, condensed, first_word, name_meant, start_of
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, OutcomeOnWire, RefusedOnWire

WORDS = "DECLARE", "FETCH", "MOVE", "CLOSE"
_DECLARE = re.compile(
    rf"DECLARE\s+{NAME}\s+(?P<options>(?:(?:BINARY|INSENSITIVE|ASENSITIVE|NO\s+SCROLL|SCROLL)\s+)*)CURSOR\s+"
    r"(?:(?P<hold>WITH|WITHOUT)\s+HOLD\s+)?FOR\s++(?P<query>.+)", re.IGNORECASE | re.DOTALL)
_READ_ONLY = re.compile(r"\sFOR\s+READ\s+ONLY$", re.IGNORECASE)
_MOVE = re.compile(
    rf"(?P<word>FETCH|MOVE) (?:(?P<way>NEXT|PRIOR|FIRST|LAST|ABSOLUTE|RELATIVE|FORWARD|BACKWARD) )?"
    rf"(?:(?P<number>[+-]? ?[0-9]{{1,18}}|ALL) )?(?:(?:FROM|IN) )?{NAME}", re.IGNORECASE)
_CLOSE = re.compile(rf"CLOSE {NAME}", re.IGNORECASE)
_ALONE = "NEXT", "PRIOR", "FIRST", "LAST"  # ways without a number
_QUERIES = "SELECT", "VALUES", "WITH", "TABLE", "FROM", ""
ALL = 2**63  # more rows than any answer has


class DeclaredCursor(Frozen):
    """A DECLARE: `query` is its query, which begins at the character `start` of the statement; `is_held` says that the cursor
    outlives its transaction, `is_forward` that it only moves forward, and `is_binary` that its values are sent in binary."""

    name: str
    query: str
    start: int
    is_held: bool
    is_forward: bool
    is_binary: bool


class CursorMove(Frozen):
    """A FETCH or MOVE: how far the cursor `name` moves. `from_start` says from where: None for the present row, True for the
    beginning, False for the end. With `each`, all rows passed are
    returned or counted, otherwise only the last one."""

    word: str
    name: str
    number: int
    from_start: bool | None = None
    each: bool = True


def declared_cursor(text: str) -> DeclaredCursor:
    """What a DECLARE says. Raises RefusedOnWire for a syntax error."""
    plain = blanked(text)
    found = _DECLARE.fullmatch(plain, start_of(text))
    if found is None or first_word(found["query"]) not in _QUERIES:
        raise _wrong("DECLARE name CURSOR FOR SELECT ...")
    options = " ".join(found["options"].upper().split())
    scrolls = options.replace("NO SCROLL", "")
    if ("NO SCROLL" in options and "SCROLL" in scrolls) or ("ASENSITIVE" in options and "INSENSITIVE" in options):
        raise RefusedOnWire("options of a cursor contradict each other", sqlstate="42P11")
    start, query = found.start("query"), _READ_ONLY.sub("", found["query"].rstrip()).rstrip()
    return DeclaredCursor(name=name_meant(found["name"]), query=text[start:start + len(query)], start=start,
                          is_held=(found["hold"] or "").upper() == "WITH", is_forward="NO SCROLL" in options,
                          is_binary="BINARY" in options)


def cursor_move(text: str) -> CursorMove:
    """What a FETCH or MOVE says. Raises RefusedOnWire for a syntax error."""
    found = _MOVE.fullmatch(condensed(text))
    way, given = ((found["way"] or "").upper(), (found["number"] or "").upper()) if found else ("", "")
    if found is None or found["name"].upper() in ("FROM", "IN") or (way in _ALONE and given) or (
            way in ("ABSOLUTE", "RELATIVE") and given in ("", "ALL")):
        raise _wrong("FETCH 100 FROM name")
    name, word = name_meant(found["name"]), found["word"].upper()
    number = ALL if given == "ALL" else int("".join(given.split()) or 1)
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
    found = _CLOSE.fullmatch(condensed(text))
    if found is None:
        raise _wrong("CLOSE name")
    return None if found["name"].upper() == "ALL" else name_meant(found["name"])


@dataclasses.dataclass(slots=True, kw_only=True)
class CursorOnWire:
    """The rows of an answer, and the position `at` in them: 0 before the first row, then the number of the row fetched last. Only
    the connection's own task changes it. `formats` are those of the values. `broken` says that a move was refused: as in
    PostgreSQL, the cursor can only be closed then. `counted` is closed when the rows are dropped."""

    declared: DeclaredCursor
    columns: tuple[ColumnOnWire, ...]
    formats: tuple[int, ...]
    rows: Sequence[tuple[object, ...] | None]
    at: int = 0
    broken: bool = False
    counted: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)

    def moved(self, move: CursorMove) -> OutcomeOnWire:
        """Move the cursor, and return the outcome of the FETCH or MOVE. Raises RefusedOnWire for a move backward that the cursor
        does not allow."""
        if self.broken:
            raise cannot_run(self.declared.name)
        end = len(self.rows) + 1
        base = {None: self.at, True: 0, False: end}[move.from_start]
        to = min(max(base + move.number, 0), end)
        if self.declared.is_forward and self._is_backward(move):
            self.broken = True
            raise RefusedOnWire("cursor can only scan forward", sqlstate="55000",
                                hint="Declare it with SCROLL option to enable backward scan.")
        if move.number == 0 or not move.each:
            places = [to]
        else:
            places = list(range(self.at + 1, to + 1) if to > self.at else range(self.at - 1, to - 1, -1))
        self.at = to
        found = [row for place in places if 0 < place < end and (row := self.rows[place - 1]) is not None]
        shown = move.word != "MOVE"
        return OutcomeOnWire(tag=f"{move.word} {len(found)}", columns=self.columns if shown else None,
                             rows=iter(found if shown else ()), notices=())

    def _is_backward(self, move: CursorMove) -> bool:
        """Whether PostgreSQL would move backward, or would read a row again."""
        if move.from_start is not None:
            return not move.from_start or 0 < self.at >= move.number
        if move.number == 0:
            return move.word != "MOVE" and 0 < self.at <= len(self.rows)
        goes_to_start = move.word == "MOVE" and move.each and move.number <= -ALL
        return move.number < 0 and not (goes_to_start and self.at == 0)


def cannot_run(name: str) -> RefusedOnWire:
    return RefusedOnWire(f"portal \"{name}\" cannot be run", sqlstate="55000")


def size_of(rows: Sequence[tuple[object, ...] | None]) -> int:
    """The approximate size of rows in bytes."""
    return sum(CELL + (len(value) if isinstance(value, str) else 0) for row in rows for value in row or ())


def _wrong(form: str) -> RefusedOnWire:
    return RefusedOnWire("this statement about a cursor is not written as it should be", sqlstate="42601", hint=f"try {form}")
