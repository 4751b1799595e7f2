"""Connections whose password is not proven yet. Where there are too many, one of them gives way to a newcomer.

So nobody without a password keeps others out: whoever holds connections open without logging in loses them first. Of the
networks, the one with the most gives one up; of its connections, one that has said nothing yet goes before those whose login is
under way, and older ones before newer ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Stranger:
    """One such connection, which `give_way` closes. `has_spoken` says that its login is under way."""

    def __init__(self, give_way: Callable[[], object]) -> None:
        self.give_way = give_way
        self.has_spoken = False

    def speaks(self, give_way: Callable[[], object]) -> None:
        """Its login begins."""
        self.give_way, self.has_spoken = give_way, True


class Strangers:
    """Those of a server, by their network. For one thread."""

    def __init__(self, of_network: int) -> None:
        """`of_network` is the largest number of one network."""
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
        """Have one give way; whether there was any."""
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
