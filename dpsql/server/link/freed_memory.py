"""Return memory that a process no longer uses to the system, for both processes of a server.

The C library keeps what is freed in arenas, one for each few threads, and hands back only what is free at the end of one. A
statement that plans, reads rows or fills an engine frees tens of megabytes in the arena of its thread, where others do not look
for space; so a server with many connections held several times as much as it used, and kept it when all of them had left. Here
the processes have few arenas, and whole pages that are free are handed back from time to time.

When that happens depends on the clock, and on how much processor time the process has used since, which its connections decide
together. The outcome of no statement waits for it: outcomes leave at the steps of their own grid.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from collections.abc import Callable

ARENA_MAX = -8  # the number of this setting in glibc's malloc.h
LEAST_ARENAS = 2
PERIOD = 30.0  # seconds
QUIET = 0.5  # seconds of processor time in such a period, below which nobody waits for an answer


class FreedMemory:
    """Hands back free memory. Where the C library is not glibc, only cyclic garbage is collected."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        """`clock` tells the seconds of processor time that the process has used."""
        self._clock, self._used, self._settled = clock, clock(), False
        library = ctypes.CDLL(None)
        self._trim: Callable[[int], int] = getattr(library, "malloc_trim", lambda rest: 0)
        self._set: Callable[[int, int], int] = getattr(library, "mallopt", lambda name, value: 0)

    def use_few_arenas(self) -> None:
        """Let threads share about as many arenas as there are processors: of Python's threads only one runs at a time. To be
        called before there are others."""
        self._set(ARENA_MAX, max(LEAST_ARENAS, os.cpu_count() or 1))

    def give_back(self) -> bool:
        """Hand back what is free, unless the process was quiet and has done so before; returns whether it did. Cyclic garbage
        of a process that is quiet is collected first, as nothing else would: collections follow allocations."""
        used = self._clock()
        is_quiet, self._used = used - self._used < QUIET, used
        if is_quiet and self._settled:
            return False
        if is_quiet:
            gc.collect()
        self._trim(0)
        self._used, self._settled = self._clock(), is_quiet
        return True

    def give_back_forever(self) -> None:
        """The same each `PERIOD`, in a thread of its own, until the process ends."""
        threading.Thread(target=self._run, daemon=True, name="freed memory").start()

    def _run(self) -> None:
        while True:
            time.sleep(PERIOD)
            self.give_back()
