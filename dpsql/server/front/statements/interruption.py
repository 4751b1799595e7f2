"""Interrupts the statements of one connection in a thread, as that takes until the statement is over."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable


class Interruption:
    """Of a connection, which has one thread for this, however often its client cancels. Safe with threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._next: Callable[[], object] | None = None
        self._is_running = False

    def begin(self, interrupt: Callable[[], object]) -> None:
        """Interrupt the statement that runs now, by a function of `Connection.interrupting`, and return at once."""
        with self._turn:
            self._next = interrupt  # one that was asked for before is that of the same statement, or of one that is over
            if self._is_running:
                return
            threading.Thread(target=self._run, daemon=True).start()
            self._is_running = True

    def _run(self) -> None:
        while True:
            with self._turn:
                interrupt, self._next = self._next, None
                if interrupt is None:
                    self._is_running = False
                    return
            with contextlib.suppress(Exception):
                interrupt()
