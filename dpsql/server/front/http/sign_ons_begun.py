"""How many sign-ons each network begins. To begin one costs the server a channel for a moment, and no memory (`sign_on`).

A network has a store of sign-ons that refills evenly. Memory is bounded: the networks that began one longest ago are forgotten
first. If clients come through a proxy, all are one network, and only the proxy can tell them apart and limit them.
"""

from __future__ import annotations

from collections import OrderedDict

from dpsql.server.front.terms.answers_on_wire import RefusedOnWire

NETWORKS = 10_000


class SignOnsBegun:
    """For one thread."""

    def __init__(self, a_minute: int) -> None:
        self._a_minute = a_minute
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how many are left, and when it was so

    def __len__(self) -> int:
        return len(self._left)

    def begin(self, network: str, now: float) -> None:
        """Count a sign-on that begins now, in seconds of a monotonic clock. Raises RefusedOnWire if there are too many."""
        left, then = self._left.get(network, (float(self._a_minute), now))
        left = min(float(self._a_minute), left + (now - then) * self._a_minute / 60)
        if left < 1:
            raise RefusedOnWire("too many people of this address are signing on", sqlstate="53400", hint="again in a moment")
        self._left[network] = left - 1, now
        self._left.move_to_end(network)
        if len(self._left) > NETWORKS:
            self._left.popitem(last=False)
