"""When the outcome of a statement leaves the vault: at a step of a public grid of times, so that its time reveals little of rows.

Step k of a grid is `pace` * 2^k seconds after its beginning: the moment at which the call came, or that at which the statement
was interrupted, which its analyst or the owner chose. What is over leaves at the first step that is not past yet, and not before
the first step of its account (`kernel.chain`), nor before a time that its analyst asked for: an outcome that leaves after these
is *late*, which is counted. One that is interrupted, or refused before its charge, is not held for the sake of a time that was
asked for.

The first step of an account may be a later one for *crowded* statements. A statement is crowded if another one was under way at
any time from its charge to the first step of statements that are not crowded. This is decided when that step has come, even if
the statement has long been over, so it depends on when others begin and leave, and not on the statement's own rows.

Claim: until an outcome leaves, nothing that another call can see depends on when it was over; and when it leaves is a function of
the beginning and of k. Proof: the kernel waits here before it writes an answer or a failure (`kernel.run`), so until then the
ledger has a charge without either, as for a statement that runs, and the lock that keeps its slot; the channel, the front's
thread and the slot of the account are waiting for it, too. An interruption that comes before the step has the statement stop,
whether it was over or not; it names its statement by number, so one that comes later meets no other. A vault that ends meanwhile
writes nothing, so both count as failed. From the step on only what is released is worked on, and nothing of the statement runs
any more. So how exactly a thread is woken, and how long the answer takes to be written, is decided by what else the machine does,
but for traces in its caches and in the accounts of its scheduler.

Claim: whether a statement is stopped, and when it leaves then, depends on rows only where it is late, which is counted. Proof: up
to the first step D of the statement, an interruption stops it in any case, and the outcome leaves at a step of a grid that begins
at the interruption: at the first one, unless what is left of the work takes longer, which is late. After D there are only those
that were not over at D; an interruption states that, so it counts as late at the step of the old grid that would have been next.

The first steps are looked up when the statement is charged, never when it is over: another statement of the account may raise
them in between, at a time that its analyst knows, and the time at which the outcome leaves would reveal which came first.

A statement may have to wait, before its charge, for others of its account, or for the same one of an account with which it shares
answers. These leave at steps, so the end of the wait reveals nothing more. If the wait takes longer than a step, the grid begins
anew, a whole number of paces after the call, so that no statement is late because others were. The same goes for the wait for a
turn (`account_turns`).

Intermediate releases of a script are not held: the front sees when they come, and its analyst sees only what follows from the
outcome. What a machine shows of its load, a grid does not hide; the guide to the promise says what remains.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from dpsql.frozen import Frozen
from dpsql.trusted.kernel.run import Departure, Leave


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


class StatementsUnderway:
    """The statements of a vault that are charged and have not left. Safe with threads."""

    def __init__(self) -> None:
        self._turn, self._statements = threading.Lock(), set[Leaving]()

    def enter(self, statement: Leaving, now: float) -> None:
        with self._turn:
            for each in (*self._statements, *([statement] if self._statements else [])):
                each.crowded_at = min(each.crowded_at, now)
            self._statements.add(statement)

    def leave(self, statement: Leaving) -> None:
        with self._turn:
            self._statements.discard(statement)


class Leaving(Leave):
    """The departure of the outcome of one call, which comes now. `pace` is in seconds; None if outcomes leave at once.
    `asked` is when its analyst wants it at the earliest, in seconds after it is charged. `charged` is called when it is."""

    asked = 0.0
    is_charged = False
    crowded_at = math.inf  # since when another statement was under way

    def __init__(self, pace: float | None, clock: Clock = Clock(), charged: Callable[[], object] = lambda: None,
                 underway: StatementsUnderway | None = None) -> None:
        self._pace, self._clock, self._begun, self._charged = pace or 0.0, clock, clock.now(), charged
        self._underway = underway or StatementsUnderway()
        self._changed = threading.Condition()
        self._alone = self._crowded = self._wanted = 0
        self._cause: str | None = None  # of the interruption
        self._overdue = Departure()
        self._left: Departure | None = None

    def begin(self, first: int, crowded: int) -> None:
        """Record that the statement is charged: its outcome leaves at the `first` step or later, or at that of statements that
        are `crowded`."""
        self._charged()
        self.is_charged = True
        if not self._pace:
            return
        self._underway.enter(self, self._clock.now())
        with self._changed:
            self._alone, self._crowded, self._wanted = first, max(first, crowded), first_step(self.asked, self._pace)
            waited = self._clock.now() - self._begun
            if waited > self._pace and self._cause is None:
                self._begun += self._pace * math.ceil(waited / self._pace)

    def interrupt(self, cause: str) -> None:
        """From another thread: restart the grid of times now, unless the outcome has left. Only the first interruption has an
        effect."""
        with self._changed:
            if self._cause is None and self._left is None:
                now = self._clock.now()
                if self.is_charged and self._pace and now >= self._at(self._first_step()):
                    step = first_step(now - self._begun, self._pace)
                    self._overdue = Departure(late=step, crowded=self._is_crowded())
                self._begun, self._cause = now, cause
                self._changed.notify_all()

    def hold(self) -> Departure:
        """Wait for the step at which an outcome that is ready now leaves, and return which it was. It is decided once."""
        with self._changed:
            ready = self._clock.now()
            while self._left is None:
                begun = self._begun
                if self._has_come(begun, self._earliest()):  # now it is known whether it is crowded
                    first = self._first_step()
                    step = max(first, first_step(ready - begun, self._pace)) if self._pace else 0
                    if self._has_come(begun, step):
                        self._left = self._departure(step if step > first else 0)
        self._underway.leave(self)
        return self._left

    def _departure(self, late: int) -> Departure:
        if self._overdue.late:
            return Departure(late=max(late, self._overdue.late), crowded=self._overdue.crowded, stopped=self._cause)
        return Departure(late=late, crowded=late > 0 and self._is_crowded(), stopped=self._cause)

    def _has_come(self, begun: float, step: int) -> bool:
        """Wait for a step. Returns whether it is still one of the grid that began then."""
        while begun == self._begun and (rest := self._at(step) - self._clock.now()) > 0:
            self._clock.wait(self._changed, rest)
        return begun == self._begun

    def _at(self, step: int) -> float:
        return self._begun + self._pace * 2.0**step

    def _earliest(self) -> int:
        """The first step if the statement is not crowded."""
        return max(self._alone, self._wanted if self._cause is None else 0)

    def _is_crowded(self) -> bool:
        return self.crowded_at <= self._at(self._earliest())

    def _first_step(self) -> int:
        return max(self._earliest(), self._crowded if self._is_crowded() else 0)
