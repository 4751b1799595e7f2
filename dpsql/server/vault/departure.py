"""When the outcome of a statement leaves the vault: at a step of a public grid of times, so that its time tells little of rows.

Step k of a grid is `pace` * 2^k seconds after its beginning: the moment at which the call came, or that at which the statement
was interrupted, which its analyst chose. What is over leaves at the first step that is not past yet, and not before the first
step of its account (`kernel.chain`), nor before a time that its analyst asked for: an outcome that leaves after these is *late*,
which is counted. One that is interrupted, or refused before its charge, is not held for the sake of a time that was asked for.

Claim: until an outcome leaves, nothing that another call can see depends on when it was over; and when it leaves is a function of
the beginning and of k. Proof: the kernel waits here before it writes an answer or a failure (`kernel.run`), so until then the
ledger has a charge without either, as for a statement that runs, and the lock that keeps its slot; the channel, the front's
thread and the slot of the account are waiting for it, too. An interruption that comes before the step has the statement fail,
whether it was over or not; it names its statement by number, so one that comes later meets no other. A vault that ends meanwhile
writes nothing, so both count as failed. From the step on only what is released is worked on, and nothing of the statement runs
any more. So how exactly a thread is woken, and how long the answer takes to be written, is decided by what else the machine does,
but for traces in its caches and in the accounts of its scheduler.

The first step is looked up when the statement is charged, never when it is over: another statement of the account may raise it
in between, at a time that its analyst knows, and which of the two came first would be told by when the outcome leaves.

A statement may have to wait, before its charge, for others of its account, or for the same one of an account with which it shares
answers. These leave at steps, so it is told already when the wait is over; where that takes longer than a step, the grid begins
anew, a whole number of paces after the call, so that nobody is late because others were.

Intermediate releases of a script are not held: the front sees when they come, and its analyst sees only what follows from the
outcome. What a machine shows of its load, a grid does not hide; the guide to the promise says what remains.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from dpsql.frozen import Frozen
from dpsql.trusted.kernel.run import Leave


def first_step(elapsed: float, pace: float) -> int:
    """The least k >= 0 with pace * 2^k >= elapsed, both in seconds. Doubling is exact in binary floating point."""
    step = 0
    while pace * 2.0**step < elapsed:
        step += 1
    return step


class Clock(Frozen, kw_only=False):
    """A clock that never goes back, in seconds; and a wait on a condition, for so many seconds or until it is notified."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Condition, float], object] = threading.Condition.wait


class Leaving(Leave):
    """The departure of the outcome of one call, which comes now. `pace` is in seconds; None if outcomes leave at once.
    `asked` is when its analyst wants it at the earliest, in seconds after it is charged. `charged` is called when it is."""

    asked = 0.0

    def __init__(self, pace: float | None, clock: Clock = Clock(), charged: Callable[[], object] = lambda: None) -> None:
        self._pace, self._clock, self._begun, self._charged = pace, clock, clock.now(), charged
        self._changed = threading.Condition()
        self._interrupted = False
        self._first = self._wanted = 0
        self._left: int | None = None

    def begin(self, first: int) -> None:
        """Record that the statement is charged: its outcome leaves at this step or later."""
        self._charged()
        with self._changed:
            if self._pace is None:
                return
            self._first, self._wanted = first, first_step(self.asked, self._pace)
            waited = self._clock.now() - self._begun
            if waited > self._pace and not self._interrupted:
                self._begun += self._pace * math.ceil(waited / self._pace)

    def interrupt(self) -> None:
        """From another thread: restart the grid of times now, unless the outcome has left. Only the first interruption has an
        effect."""
        with self._changed:
            if not self._interrupted and self._left is None:
                self._begun, self._interrupted = self._clock.now(), True
                self._changed.notify_all()

    def hold(self) -> tuple[int, bool]:
        """Wait for the step at which an outcome that is ready now leaves. Returns the number of this step if it is after the
        first one, otherwise 0, and whether the statement was interrupted before. It is decided once."""
        with self._changed:
            while self._left is None:
                begun, pace = self._begun, self._pace or 0.0
                first = self._first if self._interrupted else max(self._first, self._wanted)
                step = max(first, first_step(self._clock.now() - begun, pace)) if pace else 0
                while begun == self._begun and (rest := begun + pace * 2.0**step - self._clock.now()) > 0:
                    self._clock.wait(self._changed, rest)
                if begun == self._begun:
                    self._left = step if step > first else 0
            return self._left, self._interrupted
