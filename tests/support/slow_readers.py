"""A reader that takes minutes unless it is interrupted."""

from __future__ import annotations

import threading
from typing import Any

from dpsql.backends.duckdb import DuckReader

SLOW = "SELECT COUNT(*) FROM range(100000000000) AS a(i) WHERE hash(i) % 7 = 3"


class Slowly:
    """A reader that first runs a query that would take minutes."""

    def __init__(self, reader: DuckReader) -> None:
        self._reader, self.begun = reader, threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def columns(self, sql: str, parts: Any = ()) -> Any:
        self.begun.set()
        self._reader.rows(SLOW)
        return self._reader.columns(sql, parts)
