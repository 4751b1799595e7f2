"""PREPARE and EXECUTE in SQL: how they are parsed, and in what time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from dpsql.server.front.statements.prepared_in_sql import executed_in_sql, prepared_in_sql
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, OutcomeOnWire, RefusedOnWire
from dpsql.server.front.wire.held_statements import HeldStatements
from dpsql.server.front.wire.prepared_answers import PreparedAnswers
from dpsql.server.front.wire.server_limits import ServerLimits

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


@pytest.mark.parametrize(("rows", "columns"), [([], 1), ([(1,), (2,)], 1), ([(1, 2)], 2), ([(1,)], 0)])
def test_parameters_that_are_no_expression_are_refused(rows: list[tuple[int, ...]], columns: int) -> None:
    """Such as in EXECUTE a (1 LIMIT 0). That ended the connection, and was logged as a fault of the server."""
    class Work:
        async def whole_outcome(self, text: str, parameters: object) -> Any:
            assert text == "SELECT 1 LIMIT 0"
            return OutcomeOnWire(tag="SELECT", columns=(ColumnOnWire(name="x", kind="BIGINT"),) * columns, rows=iter(rows), notices=()), rows

    answers = PreparedAnswers(HeldStatements(ServerLimits()), Work())  # type: ignore[arg-type]
    with pytest.raises(RefusedOnWire) as told:
        asyncio.run(answers._values(executed_in_sql("EXECUTE a (1 LIMIT 0)").arguments))
    assert told.value.sqlstate == "42601"
