"""The values of parameters, `?`, `$1` or `:name`, for one statement and for several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from dpsql.errors import ProgrammingError
from dpsql.plan.expr.nodes import Value
from dpsql.sql.statement import Query

Parameters: TypeAlias = Sequence[Value] | Mapping[str, Value]


def named(parameters: Parameters, query: Query) -> dict[str, Value]:
    """Values by the names that parameters have in the text. Raises ProgrammingError where they do not fit."""
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
        raise ProgrammingError("parameters are a sequence of values, or a mapping of names to values", code="parameters")
    wanted = dict.fromkeys(query.parameters)
    if isinstance(parameters, Mapping):
        given = {str(name): value for name, value in parameters.items()}
    else:
        marks = [name for name in wanted if name.startswith("?")]
        given = {f"?{i + 1}": value for i, value in enumerate(parameters)} if marks or not wanted else {
            str(i + 1): value for i, value in enumerate(parameters)}
    _no_unused(given, wanted, isinstance(parameters, Mapping))
    return given


def shared_out(parameters: Parameters, queries: Sequence[Query]) -> list[dict[str, Value]]:
    """The values of each of several queries: by name, or one after the other."""
    if isinstance(parameters, Mapping):
        wanted = dict.fromkeys(name for query in queries for name in query.parameters)
        _no_unused({str(name): value for name, value in parameters.items()}, wanted, True)
        return [named({name: parameters[name] for name in dict.fromkeys(query.parameters) if name in parameters}, query)
                for query in queries]
    found, rest = [], list(parameters)
    for query in queries:
        count = len(dict.fromkeys(query.parameters))
        found.append(named(rest[:count], query))
        rest = rest[count:]
    if rest:
        raise ProgrammingError(f"{len(rest)} values are given for no parameter", code="parameters")
    return found


def _no_unused(given: Mapping[str, Value], wanted: Mapping[str, None], by_name: bool) -> None:
    unused = [name for name in given if name not in wanted]
    if unused:
        counted = f"{len(given)} values are given for {len(wanted)} parameters"
        raise ProgrammingError(f"the statement has no parameter {unused[0]}" if by_name else counted, code="parameters")
