"""On which cores the threads of the vault run: on one, where they hold the interpreter, as only one of them can at a time.

Python gives its lock away at every call of the system, some hundred times for each statement, and wakes a thread that waits for
it. With several cores that is another core each time, while the thread that gave it away wants it back at once; on one core
they are taken in turn. While rows are read, a thread may be on all cores, as libraries do without the lock for long.

This decides how fast statements are answered, and nothing else. Which rows there are plays no part in it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


class Cores:
    """The cores of this process, and one of them. Where a system does not let a process choose, nothing is chosen."""

    def __init__(self) -> None:
        self._all: set[int] = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        self._one = {sorted(self._all)[os.getpid() % len(self._all)]} if self._all else set()  # not that of all servers

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """A context in which the thread shares one core with all other threads in it, except during `spread`."""
        self.share()
        try:
            yield
        finally:
            self.spread()

    def share(self) -> None:
        self._stay_on(self._one)

    def spread(self) -> None:
        self._stay_on(self._all)

    @staticmethod
    def _stay_on(cores: set[int]) -> None:
        if cores:
            with contextlib.suppress(OSError):  # cores that were taken from the process since it began
                os.sched_setaffinity(0, cores)
