"""Turns to write that threads of one process share, so that one wait for the disk serves all of them.

A thread leaves a *step* (make an event from the newest state and write it, or raise) and waits for the process's turn. Whoever
gets it takes all steps that were left by then, in the order in which they were left, and runs them one after the other in one
transaction; each sees what those before it wrote. So steps mean the same as in transactions of their own, one right after
the other: a limit is checked against every charge before it, and a step that raises writes nothing and does not concern the
others. No step is reported as done before the transaction is on disk; if the transaction fails, all of its steps fail.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

Step = Callable[[Any], int]


class Waiting:
    """A step and, later, its outcome."""

    def __init__(self, step: Step) -> None:
        self.step, self.outcome = step, Future[int]()


class Turns:
    """The steps of one process that wait for their turn on one ledger."""

    def __init__(self) -> None:
        self._turn, self._waiting = threading.Lock(), deque[Waiting]()

    @contextlib.contextmanager
    def turn(self, mine: Waiting, *, alone: bool = False) -> Iterator[Sequence[Waiting]]:
        """A context for the turn of a thread that submits a step. It yields all waiting steps; the body runs them and gives
        each an outcome, also if it raises. It yields none if another thread has already run the step.

        `alone`: the thread runs its own step, and nobody else's.

        If the thread is interrupted while it waits, its step may have been run all the same.
        """
        if alone:
            with self._turn:
                yield [mine]
            return
        self._waiting.append(mine)
        try:
            with self._turn:
                yield [] if mine.outcome.done() else [self._waiting.popleft() for _ in range(len(self._waiting))]
        except BaseException:
            with contextlib.suppress(ValueError):
                self._waiting.remove(mine)
            raise
