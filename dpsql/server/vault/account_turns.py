"""The turns of the statements of each account: a limited number run at once, and the others wait in order of arrival.

A statement takes a turn just before it is charged, and gives it back when its outcome has left. Free requests never wait for a
turn: stored answers, the catalogue, EXPLAIN and statements about the connection are not charged, whatever a front says of them.

At most `incidents` minus the number of failed statements of an account can run at once (`kernel.chain`), so there are never more
turns than that. The ledger decides: it also counts what other servers run, and a statement beyond the limit waits there and is
not charged.

What waiting reveals: a turn becomes free when an outcome leaves, at a step of a public grid of times, and the next statement
begins then. So whether a statement waits, and how long, follows from when statements arrived and left, which their analyst knows.
A failure that counts reduces the number of turns from the time at which its analyst receives it.

A waiting statement occupies one thread of the vault, that of its channel. The number of an account's waiting statements and
their size in bytes are limited; further statements are refused.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from dpsql.errors import Error
from dpsql.frozen import Frozen
from dpsql.trusted.accounting.cost import Account
from dpsql.trusted.kernel.ledger import Busy


class TurnLimits(Frozen):
    """The limits of one account: how many statements run `at_once`, how many may be `waiting`, of how many bytes together
    (`size`), and for how many `seconds` one may wait."""

    at_once: int = 4
    waiting: int = 100
    size: int = 67_108_864
    seconds: float = 30.0


class Waiter:
    """A statement that waits: `woken` is set when it has its turn, or must stop."""

    def __init__(self, size: int, woken: threading.Event) -> None:
        self.size, self.woken, self.has_turn = size, woken, False


class Queue:
    """The statements of one account."""

    def __init__(self) -> None:
        self.running, self.most, self.waiting = 0, 1, deque[Waiter]()

    @property
    def is_free(self) -> bool:
        return self.running < self.most

    def hand_on(self) -> None:
        """Give free turns to those who have waited longest."""
        while self.waiting and self.is_free:
            first = self.waiting.popleft()
            first.has_turn = True
            self.running += 1
            first.woken.set()


class AccountTurns:
    """The turns of all accounts of a vault. Safe with threads."""

    def __init__(self, limits: TurnLimits) -> None:
        self._limits, self._lock = limits, threading.Lock()
        self._queues: dict[Account, Queue] = {}

    @contextlib.contextmanager
    def turn(self, account: Account, size: int, woken: threading.Event, left: Callable[[], int],
             stored: Callable[[], object]) -> Iterator[None]:
        """A context in which a statement of `size` bytes has a turn, after a wait if necessary. If another thread sets `woken` to
        stop the statement, it gets no turn and must not be charged. `left` returns how many statements of the account may still
        fail. `stored` is called before a wait; it raises an exception if the answer is stored, so that no wait is necessary.

        Raises Busy if there are too many, or if it takes too long.
        """
        account = account.named
        most = self._most(left)
        has_turn = self._taken_at_once(account, most)
        try:
            if not has_turn:
                stored()
                has_turn = self._waited_for(account, size, woken)
            yield
        finally:
            if has_turn:
                with contextlib.suppress(Error):  # of the ledger: the number is as before
                    most = self._most(left)
                self._give_back(account, most)

    def waiting(self, account: Account) -> int:
        """How many statements of an account wait."""
        with self._lock:
            queue = self._queues.get(account.named)
            return len(queue.waiting) if queue is not None else 0

    def _give_back(self, account: Account, most: int) -> None:
        with self._lock:
            queue = self._queues[account]
            queue.running, queue.most = queue.running - 1, most
            queue.hand_on()
            self._forget(account)

    def _most(self, left: Callable[[], int]) -> int:
        return max(1, min(self._limits.at_once, left()))  # one at least, which the ledger may refuse

    def _taken_at_once(self, account: Account, most: int) -> bool:
        """Take a turn if one is free and nobody waits; returns whether it was."""
        with self._lock:
            queue = self._queues.setdefault(account, Queue())
            queue.most = most
            queue.hand_on()
            free = queue.is_free and not queue.waiting
            queue.running += free
            return free

    def _waited_for(self, account: Account, size: int, woken: threading.Event) -> bool:
        """Wait for a turn; returns whether there was one before the statement had to stop. Raises Busy."""
        waiter, end = Waiter(size, woken), time.monotonic() + self._limits.seconds
        with self._lock:
            queue = self._queues.setdefault(account, Queue())
            if len(queue.waiting) >= self._limits.waiting or size + sum(
                    each.size for each in queue.waiting) > self._limits.size:
                raise Busy(queue.running)
            queue.waiting.append(waiter)
            queue.hand_on()  # the last one that ran may be over by now
        woken.wait(max(0.0, end - time.monotonic()))
        with self._lock:
            if waiter.has_turn:
                return True
            queue.waiting.remove(waiter)
            running = queue.running
            self._forget(account)
        if woken.is_set():
            return False
        raise Busy(running)

    def _forget(self, account: Account) -> None:
        if not self._queues[account].running and not self._queues[account].waiting:
            del self._queues[account]
