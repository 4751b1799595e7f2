"""Answer PREPARE, and find what EXECUTE executes.

As in PostgreSQL, statements that are prepared in SQL and those of the protocol share their names: each can be executed, described
and dropped in both ways.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from dpsql.server.front.statements.prepared_in_sql import ExecuteArgument, assigned, executed_in_sql, prepared_in_sql
from dpsql.server.front.statements.transaction_status import first_word
from dpsql.server.front.terms import types_on_wire
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described, RefusedOnWire
from dpsql.server.front.wire.held_statements import HeldStatements, PreparedOnWire, described_types
from dpsql.server.front.wire.statement_work import Parameters, StatementWork

MOST_NESTED = 100  # statements that execute another one
Describes = Callable[[str, Sequence[str | None]], Awaitable[Described | None]]


class PreparedAnswers:
    """For the connection's own task. Its methods raise RefusedOnWire."""

    def __init__(self, held: HeldStatements, work: StatementWork) -> None:
        self._held, self._work = held, work

    async def described(self, text: str) -> Described:
        """PREPARE returns no rows, and EXECUTE those of its statement; an unknown one is refused when it is executed."""
        columns: tuple[ColumnOnWire, ...] | None = None
        if first_word(text) == "PREPARE":
            await self._work.read(text, prepared_in_sql)
        elif self._held.has_statement(name := (await self._work.read(text, executed_in_sql)).name):
            columns = self._held.statement(name).described.columns
        return Described(parameters=(), columns=columns)

    async def prepare(self, text: str, describe: Describes) -> None:
        """Describe the query of a PREPARE by `describe`, and hold it."""
        said = await self._work.read(text, prepared_in_sql)
        given = types_on_wire.kinds_given(list(said.oids))
        try:
            described = await describe(said.query, given)
        except RefusedOnWire as refusal:
            if refusal.position is not None:
                refusal.position += said.start
            raise
        assert described is not None
        self._held.hold_statement(said.name, PreparedOnWire(
            text=said.query, word=None, described=described, oids=described_types(said.oids, described)))

    async def executed(self, text: str) -> tuple[PreparedOnWire, Parameters]:
        """The statement that an EXECUTE executes in the end, and the values of its parameters."""
        for _ in range(MOST_NESTED):
            statement, parameters = await self._named(text)
            if first_word(text := statement.text) != "EXECUTE":
                return statement, parameters
        raise RefusedOnWire("stack depth limit exceeded", sqlstate="54001", hint="a statement that executes itself never ends")

    async def _named(self, text: str) -> tuple[PreparedOnWire, Parameters]:
        said = await self._work.read(text, executed_in_sql)
        statement = self._held.statement(said.name)
        kinds = statement.described.parameters
        if len(said.arguments) != len(kinds):
            raise RefusedOnWire(f"wrong number of parameters for prepared statement \"{said.name}\"", sqlstate="42601",
                                detail=f"Expected {len(kinds)} parameters but got {len(said.arguments)}.")
        values = await self._values(said.arguments)
        found = tuple(assigned(value, kind, oid, wanted, place) for place, ((value, kind), oid, wanted) in enumerate(
            zip(values, statement.oids, kinds, strict=True), start=1))
        return statement, Parameters(values=found, kinds=kinds)

    async def _values(self, arguments: Sequence[ExecuteArgument]) -> list[tuple[object, str | None]]:
        """The value of each argument and its kind; expressions are computed as queries without a table."""
        asked = [argument.text for argument in arguments if not argument.constant]
        computed: list[tuple[object, str | None]] = []
        if asked:
            outcome, rows = await self._work.whole_outcome(f"SELECT {', '.join(asked)}", Parameters())
            columns = outcome.columns or ()
            if len(rows) != 1 or len(columns) != len(asked):
                raise RefusedOnWire("a parameter of EXECUTE is no expression", sqlstate="42601",
                                    hint="try EXECUTE name (1, 'text')")
            computed = [(value, column.kind) for value, column in zip(rows[0], columns, strict=True)]
        others = iter(computed)
        return [(argument.value, argument.kind) if argument.constant else next(others) for argument in arguments]
