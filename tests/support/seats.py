"""Seats for tests of the wire: one that is scripted, and one over a connection of dpsql."""

from __future__ import annotations

import datetime as dt
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpsql.server.front.statements.copy_statements import read_copy
from dpsql.server.front.statements.copying import copied_outcome, described_copy
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, Notice, Outcome, RefusedOnWire

STATUS = {"server_version": "15.0", "client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC",
          "integer_datetimes": "on", "standard_conforming_strings": "on"}
PARAMETER = re.compile(r"\$(\d+)(?:::(\w+))?")
COLUMNS = (("i", "BIGINT"), ("h", "HUGEINT"), ("d", "DOUBLE"), ("b", "BOOLEAN"), ("t", "VARCHAR"), ("day", "DATE"),
           ("at", "TIMESTAMP"))
ROW = (42, 10**30, 1.5, True, "ä\"'", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 1, 250))


class ScriptedSeat:
    """Knows a few statements: ALL TYPES, ROWS n, WIDE n, ECHO $1::KIND ..., SLEEP n, FAIL, CRASH, NOTE, and SET, SHOW and 1. Each may
    stand after SELECT, as COPY and some clients want it."""

    def __init__(self, user: str = "ada", database: str = "d", startup: Mapping[str, str] | None = None) -> None:
        self.user, self.database, self.startup = user, database, dict(startup or {})
        self.parameter_status: Mapping[str, str] = STATUS
        self.interrupted, self.closed, self.executed, self.given_up, self.cause = threading.Event(), False, 0, 0, ""

    settings_kept: Mapping[str, str] = {}

    def take_process(self, process: int) -> None:
        pass

    def put_back(self, kept: Mapping[str, str]) -> None:
        pass

    def end_of_local_settings(self) -> None:
        pass

    def split(self, text: str) -> list[str]:
        return [part for part in text.split(";") if part.strip()]

    async def described_lately(self, text: str, given: Sequence[str | None]) -> Described | None:
        return None

    async def shown_lately(self, text: str, parameters: Sequence[object]) -> Outcome | None:
        return None

    def describe(self, text: str, given: Sequence[str | None]) -> Described:
        if (copy := read_copy(text)) is not None:
            return described_copy(copy, lambda query: self.describe(query, given))
        kinds = {int(number): kind for number, kind in PARAMETER.findall(text)}
        stated = dict(enumerate((kind for kind in given), start=1))
        names = [(kinds[i] or stated.get(i) or "VARCHAR").upper().replace("NUMERIC", "DOUBLE") for i in sorted(kinds)]
        if not set(names) <= {kind for _, kind in COLUMNS}:
            raise RefusedOnWire("no such type", sqlstate="42704")
        return Described(parameters=tuple(names), columns=self._columns(text, names))

    def _columns(self, text: str, kinds: Sequence[str]) -> tuple[ColumnOnWire, ...] | None:
        match _words(text):
            case ["SET", *_]:
                return None
            case ["ECHO", *_]:
                made = [(f"c{i}", kind) for i, kind in enumerate(kinds, start=1)]
            case ["ALL", *_]:
                made = list(COLUMNS)
            case ["ROWS" | "SLEEP" | "FAIL" | "CRASH", *_] | ["1"]:
                made = [("n", "BIGINT")]
            case ["oid," | "attrelid,", *names]:  # of ADBC, about types
                names = [name.strip(",") for name in ("oid", *names[:names.index("FROM")])]
                made = [(name, "VARCHAR" if name in ("typname", "attname", "typreceive") else "BIGINT") for name in names]
            case ["select", *_]:  # of ODBC, about large objects
                made = [("oid", "BIGINT"), ("typbasetype", "BIGINT")]
            case ["WIDE" | "NOTE" | "SHOW" | "show" | "version()", *_]:
                made = [("t", "VARCHAR")]
            case _:
                raise RefusedOnWire("no such statement", sqlstate="42601", detail="a detail", hint="a hint", position=1)
        return tuple(ColumnOnWire(name=name, kind=kind) for name, kind in made)

    def execute(self, text: str, parameters: Sequence[object], stated: Sequence[str] = ()) -> Outcome:
        if (copy := read_copy(text)) is not None:
            return copied_outcome(copy, lambda query: self.describe(query, ()), lambda query: self.execute(query, parameters))
        self.executed += 1
        notices: tuple[Notice, ...] = ()
        rows: list[tuple[object, ...]] | Iterator[tuple[object, ...]]
        match _words(text):
            case ["CRASH"]:
                raise ValueError("a secret")
            case ["FAIL"]:
                raise RefusedOnWire("failed", sqlstate="42883", position=2)
            case ["SLEEP", seconds]:
                self.interrupted.clear()
                if self.interrupted.wait(float(seconds)):
                    raise RefusedOnWire("canceling statement due to user request", sqlstate="57014")
                rows = [(1,)]
            case ["ECHO", *_]:
                rows = [tuple(parameters)]
            case ["ALL", *_]:
                rows = [ROW, (None,) * len(ROW)]
            case ["ROWS", number]:
                rows = [(i,) for i in range(int(number))]
            case ["WIDE", number]:
                rows = (("x" * 10_000,) for _ in range(int(number)))
            case ["NOTE"]:
                rows, notices = [("noted",)], (Notice(text="a note", detail="more", hint="less"), )
            case ["1"]:
                rows = [(1,)]
            case ["version()"]:  # of ADBC
                rows = [("PostgreSQL 15.0",)]
            case ["select" | "oid," | "attrelid,", *_]:
                rows = []
            case _:
                rows = [("",)]
        columns = self._columns(text, self.describe(text, ()).parameters)
        if columns is None:
            return Outcome(tag="SET", columns=None, rows=iter(()), notices=())
        tag = f"SELECT {len(rows)}" if isinstance(rows, list) else "SELECT 0"
        return Outcome(tag=tag, columns=columns, rows=iter(rows), notices=notices)

    def cancel(self, cause: str) -> None:
        self.cause = cause
        self.interrupted.set()

    def give_up_turn(self) -> None:
        self.given_up += 1

    def close(self) -> None:
        self.closed = True


def _words(text: str) -> list[str]:
    words = text.split()
    return words[1:] if words[:1] == ["SELECT"] else words


def wait_until(condition: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
