"""Databases of the system catalogue that connections share if they have the same contents, as those of one account have.

User and database are among the contents (`catalog_tables`), so two accounts never share one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from dpsql.catalog.model import Catalog
from dpsql.server.front.catalogue.catalog_tables import CatalogContents, CatalogTables

IDLE = 4  # databases that nobody uses and are kept for those who connect next


class SharedCatalogues:
    """Safe with threads."""

    def __init__(self, idle: int = IDLE) -> None:
        self._most_idle, self._turn = idle, threading.Lock()
        self._known: OrderedDict[str, CatalogTables] = OrderedDict()  # the one that was given back last is the last
        self._users: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def take(self, catalog: Catalog, user: str, database: str) -> tuple[str, CatalogTables]:
        """The database of these contents, with its mark, by which it is given back."""
        contents = CatalogContents.of(catalog, user, database)
        mark = contents.mark
        with self._turn:
            if mark not in self._known:
                self._known[mark] = CatalogTables(contents)
            self._users[mark] = self._users.get(mark, 0) + 1
            return mark, self._known[mark]

    def give_back(self, mark: str) -> None:
        """Tell that one of its users does not need a database any more."""
        with self._turn:
            self._users[mark] -= 1
            if not self._users[mark]:
                del self._users[mark]
                self._known.move_to_end(mark)
            idle = [each for each in self._known if each not in self._users]
            ended = [self._known.pop(each) for each in idle[:max(0, len(idle) - self._most_idle)]]
        for each in ended:
            each.close()
