"""Which statements do not count towards those of a minute: the front answers them from the settings of a connection.

They take some hundred microseconds. Pools send several of them for each statement of dpsql: BEGIN and ROLLBACK around it, and
resets when a connection is returned. They are bounded by the turns of other clients: see `wire`.
"""

from __future__ import annotations

from dpsql.server.front.statements.oversight import listing_named
from dpsql.server.front.statements.statements_about_connection import is_about_connection


def is_uncounted(text: str) -> bool:
    return listing_named(text) is None and is_about_connection(text)
