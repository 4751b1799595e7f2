"""Connections whose password is not proven yet. Where there are too many, one of them gives way to a newcomer.

So nobody without a password can keep others out: whoever opens connections without logging in loses them first. If the server is
full, the network with the most connections loses one: its oldest connection that has sent nothing yet, or else its oldest one. If
a network has too many that have sent nothing, or too many that log in, it loses the oldest of that kind.

The two kinds are counted apart, so a request to cancel a statement takes no place of a login: it is sent whole, and then the
connection ends. Those that log in may be many, as a pool opens all of its connections at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Stranger:
    """A connection whose password is not proven yet. `give_way` closes it; `has_spoken` says that its login is under way."""

    def __init__(self, give_way: Callable[[], object]) -> None:
        self.give_way = give_way
        self.has_spoken = False


class Strangers:
    """The connections of a server whose password is not proven yet, by network. For one thread."""

    def __init__(self, *, silent: int, logging_in: int) -> None:
        """So many connections of one network are kept at most: of those that have sent nothing yet, and of those that log in."""
        self._most = {False: silent, True: logging_in}
        self._known: dict[str, list[Stranger]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    @contextlib.contextmanager
    def counted(self, network: str, stranger: Stranger) -> Iterator[None]:
        """A context for a connection until its password is proven. Another one of its network gives way if there are too many."""
        self._make_room(network, has_spoken=False)
        self._known.setdefault(network, []).append(stranger)
        try:
            yield
        finally:
            self._forget(network, stranger)

    def speaks(self, network: str, stranger: Stranger, give_way: Callable[[], object]) -> None:
        """The login of a connection begins, or goes on. Another one of its network gives way if too many log in."""
        if not stranger.has_spoken:
            self._make_room(network, has_spoken=True)
        stranger.give_way, stranger.has_spoken = give_way, True

    def _make_room(self, network: str, *, has_spoken: bool) -> None:
        same = [each for each in self._known.get(network, ()) if each.has_spoken is has_spoken]
        for each in same[:max(0, len(same) - self._most[has_spoken] + 1)]:
            self._close(network, each)

    def shed_one(self) -> bool:
        """Close one connection; False if there is none."""
        if not self._known:
            return False
        network, those = max(self._known.items(), key=lambda item: len(item[1]))
        self._close(network, next((each for each in those if not each.has_spoken), those[0]))
        return True

    def _close(self, network: str, stranger: Stranger) -> None:
        self._forget(network, stranger)
        stranger.give_way()

    def _forget(self, network: str, stranger: Stranger) -> None:
        those = self._known.get(network, [])
        if stranger in those:
            those.remove(stranger)
        if not those:
            self._known.pop(network, None)
