"""How long the next login of an address has to wait, after others that failed or while others are under way."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator

from dpsql.server.link.login_messages import NotProven

_LOOK = 0.05  # seconds until it is looked again whether a login may begin


class FailedLogins:
    """Counts the logins of an address that failed or are under way; too many in a minute delay the next ones, each twice as long
    as the one before.

    So those who try many passwords at once wait as if they had failed one after another, and those who know theirs wait only
    until others of their address have logged in.

    Memory is bounded: the addresses that failed longest ago are forgotten first.
    """

    FREE, MINUTE, LONGEST, ADDRESSES = 5, 60.0, 16.0, 10_000

    def __init__(self) -> None:
        self._failed: OrderedDict[str, list[float]] = OrderedDict()
        self._under_way: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def attempt(self, address: str) -> AsyncGenerator[None]:
        """A context for one login, entered when it may begin. A login that raises NotProven counts as failed."""
        key, begun = network(address), time.monotonic()
        while (left := begun + self.delay(address, time.monotonic()) - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _LOOK))
        self._under_way[key] += 1
        try:
            yield
        except NotProven:
            self.failed(address, time.monotonic())
            raise
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]

    def failed(self, address: str, now: float) -> None:
        key = network(address)
        self._failed[key] = [*self._recent(key, now), now][-16:]
        self._failed.move_to_end(key)
        while len(self._failed) > self.ADDRESSES:
            self._failed.popitem(last=False)

    def delay(self, address: str, now: float) -> float:
        """Seconds until the next login of an address may begin."""
        key = network(address)
        over = len(self._recent(key, now)) + self._under_way[key] - self.FREE
        return 0.0 if over < 0 else min(2.0**over, self.LONGEST)

    def _recent(self, key: str, now: float) -> list[float]:
        return [then for then in self._failed.get(key, []) if now - then < self.MINUTE]


def network(address: str) -> str:
    """The part of an address that is limited as one: for IPv6 the 64-bit network, as one machine has all of its addresses."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
    return str(found)
