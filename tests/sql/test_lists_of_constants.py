"""Constants after IN that programs write with casts or compute, and other words for the same statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import worlds
from support.sessions import session_of

from dpsql.audit.exact import Exact
from dpsql.dbapi import Connection
from dpsql.errors import Unsupported

ALIKE = [
    ("SELECT COUNT(*) FROM people WHERE age IN (CAST(30 AS BIGINT), 1 + 1, 40)", "SELECT COUNT(*) FROM people WHERE age IN (30, 2, 40)"),
    ("SELECT COUNT(*) FROM people WHERE age NOT IN (CAST(30 AS BIGINT), 20 + 20)", "SELECT COUNT(*) FROM people WHERE age NOT IN (30, 40)"),
    ("SELECT COUNT(*) FROM people WHERE age IN ($1::BIGINT, $2::INTEGER)", "SELECT COUNT(*) FROM people WHERE age IN ($1, $2)"),
    ("SELECT COUNT(*) FROM people WHERE nickname LIKE 'a' || '%'", "SELECT COUNT(*) FROM people WHERE nickname LIKE 'a%'"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 2 DESC FETCH FIRST 1 ROWS ONLY",
     "SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 2 DESC LIMIT 1"),
    ("SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 1 OFFSET 1 ROWS FETCH NEXT ROW ONLY",
     "SELECT sex, COUNT(*) FROM people GROUP BY sex ORDER BY 1 LIMIT 1 OFFSET 1"),
]


def asked(connection: Connection, text: str) -> list[tuple[Any, ...]]:
    return connection.execute(text, (30, 40) if "$" in text else ()).fetchall()


@pytest.mark.parametrize(("text", "other"), ALIKE)
def test_they_mean_the_same(text: str, other: str, tmp_path: Path) -> None:
    with Connection(session_of(tmp_path, worlds.world(5), noise=Exact())) as connection:
        assert asked(connection, text) == asked(connection, other)


def test_columns_are_no_constants(tmp_path: Path) -> None:
    with Connection(session_of(tmp_path)) as connection, pytest.raises(Unsupported, match="list of constants"):
        connection.execute("SELECT COUNT(*) FROM people WHERE age IN (1, person_id + 1)")
