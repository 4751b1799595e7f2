"""Connections whose password is not proven yet. Where there are too many, one of them gives way to a newcomer.

So nobody without a password can keep others out: whoever opens connections without logging in loses them first. The network with
the most connections loses one: its oldest connection that has sent nothing yet, or else its oldest one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Stranger:
    """A connection whose password is not proven yet. `give_way` closes it; `has_spoken` says that its login is under way."""

    def __init__(self, give_way: Callable[[], object]) -> None:
        self.give_way = give_way
        self.has_spoken = False

    def speaks(self, give_way: Callable[[], object]) -> None:
        """Its login begins."""
        self.give_way, self.has_spoken = give_way, True


class Strangers:
    """The connections of a server whose password is not proven yet, by network. For one thread."""

    def __init__(self, of_network: int) -> None:
        """At most `of_network` connections of one network are kept."""
        self._of_network = of_network
        self._known: dict[str, list[Stranger]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    @contextlib.contextmanager
    def counted(self, network: str, stranger: Stranger) -> Iterator[None]:
        """A context for a connection until its password is proven. Another one of its network gives way if there are too many."""
        while len(self._known.get(network, ())) >= self._of_network:
            self._shed(network)
        self._known.setdefault(network, []).append(stranger)
        try:
            yield
        finally:
            self._forget(network, stranger)

    def shed_one(self) -> bool:
        """Close one connection; False if there is none."""
        if not self._known:
            return False
        self._shed(max(self._known, key=lambda network: len(self._known[network])))
        return True

    def _shed(self, network: str) -> None:
        those = self._known[network]
        first = next((each for each in those if not each.has_spoken), those[0])
        self._forget(network, first)
        first.give_way()

    def _forget(self, network: str, stranger: Stranger) -> None:
        those = self._known.get(network, [])
        if stranger in those:
            those.remove(stranger)
        if not those:
            self._known.pop(network, None)
