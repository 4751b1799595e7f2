"""PREPARE and EXECUTE in SQL: how they are parsed, and in what time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from dpsql.server.front.statements.prepared_in_sql import executed_in_sql, prepared_in_sql
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire

LONG = 60_000  # letters, of the 262,144 that a statement can have


def test_a_prepare_has_the_types_and_the_query_that_are_written() -> None:
    found = prepared_in_sql('/* one */ PREPARE "A b" (numeric(10, 2), character varying (5), text []) AS SELECT $1 /* two */ , \'  \'  -- three')
    assert (found.name, found.oids, found.query) == ("A b", (1700, 1043, 1009), "SELECT $1 /* two */ , '  '")
    assert prepared_in_sql("prepare a as select 1;").oids == ()


@pytest.mark.parametrize("read, text", [
    (prepared_in_sql, f"PREPARE a AS SELECT{' ' * LONG}1"), (prepared_in_sql, f"PREPARE a AS SELECT /*{'a' * LONG}*/ 1"),
    (prepared_in_sql, f"PREPARE a ({'int,' * (LONG // 4)}int) AS SELECT 1"), (executed_in_sql, f"EXECUTE a{' ' * LONG}x"),
    (executed_in_sql, f"EXECUTE a ({'1, ' * (LONG // 3)}1)"), (executed_in_sql, f"EXECUTE a ({') ; ' * (LONG // 4)}x")],
    ids=["blanks", "comment", "types", "blanks at the end", "arguments", "parentheses"])
def test_the_time_is_linear_in_the_length(read: Callable[[str], object], text: str) -> None:
    """The front parses for everybody: time that grew with the square of the length was minutes for one statement."""
    begun = time.process_time()
    try:
        read(text)
    except RefusedOnWire as refusal:
        assert refusal.sqlstate == "42601"
    assert time.process_time() - begun < 2
