"""How often passwords may be guessed, whatever becomes of the front: proofs that failed delay others of the same name.

The front delays the logins of an address (`login_delays`), which a front in other hands need not do; and what it says of
addresses is not believed here. So proofs are counted by the name that they are for: of one name, 40 may fail at once, and then
two a second; of all names together, more. Whoever comes earlier waits for their turn; who would wait for longer than LONGEST is
refused, and can try again: no lock outlasts an attack. A proof that succeeds is not counted. From one address fewer fail, as the
front delays them, so that an outsider needs several to make a user wait.

Names that are nobody's are counted like others. What is kept of a name is forgotten when it says nothing any more; as all names
together are limited too, there are never many of them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from dpsql.errors import OperationalError
from dpsql.frozen import Frozen

LONGEST = 10.0  # seconds that a proof waits: less than a client is given to log in
MOST_KEPT = 1000  # names; then those that say nothing any more are forgotten


class ProofRate(Frozen):
    """How many proofs may fail: `free` at once, and then one each `gap` seconds."""

    free: int
    gap: float


OF_NAME, OF_ALL = ProofRate(free=40, gap=0.5), ProofRate(free=400, gap=0.02)


class ProofAttempts:
    """Counts proofs that failed or are being checked. Safe with threads.

    Of a rate, the *time of arrival* is when the proofs so far would have come at one each `gap`: the next one waits until that is
    at most `free` gaps ahead (the generic cell rate algorithm).
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self._now, self._sleep, self._turn = now, sleep, threading.Lock()
        self._all = 0.0
        self._of_names: dict[str, float] = {}

    @contextlib.contextmanager
    def one(self, name: str) -> Iterator[None]:
        """A context in which one proof for a name is checked, entered when it is allowed. A proof that raises anything counts as
        failed. Raises OperationalError after too many failures."""
        self._sleep(self._admitted(name))
        yield
        self._give_back(name)

    def __len__(self) -> int:
        return len(self._of_names)

    def _admitted(self, name: str) -> float:
        """Counts a proof, and tells how many seconds it waits."""
        with self._turn:
            now = self._now()
            of_name, of_all = max(self._of_names.get(name, now), now), max(self._all, now)
            wait = max(0.0, of_name - now - OF_NAME.free * OF_NAME.gap, of_all - now - OF_ALL.free * OF_ALL.gap)
            if wait > LONGEST:
                raise OperationalError("too many logins failed just now", code="login-busy", try_="again in a minute")
            self._of_names[name], self._all = of_name + OF_NAME.gap, of_all + OF_ALL.gap
            if len(self._of_names) > MOST_KEPT:
                self._of_names = {each: arrival for each, arrival in self._of_names.items() if arrival > now}
            return wait

    def _give_back(self, name: str) -> None:
        with self._turn:
            self._of_names[name] = self._of_names.get(name, 0.0) - OF_NAME.gap
            self._all -= OF_ALL.gap
