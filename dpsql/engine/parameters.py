"""The values of the parameters `?`, `$1` or `:name`, for one statement and for several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from dpsql.catalog.sections import suggest
from dpsql.errors import ProgrammingError
from dpsql.sql.text.literals import ParameterValue
from dpsql.sql.text.statement import Query
from dpsql.trusted.plan.expr.nodes import Value

Parameters: TypeAlias = Sequence[Value | Sequence[Value]] | Mapping[str, Value | Sequence[Value]]


def given_values(query: Query, parameters: Parameters) -> dict[str, ParameterValue]:
    """The values of a query's parameters, by name. Raises ProgrammingError if they do not match."""
    check_parameters(parameters)
    wanted = dict.fromkeys(query.parameters)
    if isinstance(parameters, Mapping):
        return _by_name(parameters, wanted)
    in_order = [name for name in wanted if name.startswith("?") or name.isdigit()]
    if parameters and len(in_order) < len(wanted):
        raise ProgrammingError("the parameters of the statement have names, but the values have none", code="parameters",
                               try_="{" + ", ".join(f'"{name}": ...' for name in wanted) + "}")
    if 0 < len([name for name in wanted if name.startswith("?")]) < len(wanted):
        raise ProgrammingError("parameters must be either all ? or all numbered", code="parameters",
                               try_="$1, $2")
    marked = not wanted or in_order[:1] == ["?1"]
    given = {f"?{i + 1}" if marked else str(i + 1): _kept(value) for i, value in enumerate(parameters)}
    if marked and len(given) > len(wanted):
        raise ProgrammingError(f"{_counted(len(given), 'value')} for {_counted(len(wanted), 'parameter')}", code="parameters",
                               try_="as many as there are ? in the statement")
    unused = next((name for name in given if name not in wanted), None)
    if unused is not None:
        raise ProgrammingError(f"{_counted(len(given), 'value')}, and the statement has no parameter ${unused}",
                               code="parameters", try_="a value for each of " + ", ".join(f"${name}" for name in wanted))
    return given


def check_parameters(parameters: object) -> None:
    """Raise ProgrammingError if this is neither a sequence nor a mapping of values."""
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence | Mapping):
        raise ProgrammingError("parameters are a sequence of values, or a mapping of names to values", code="parameters",
                               try_='[18, "a"] for ?, {"name": 18} for $name and :name')


def _by_name(parameters: Mapping[str, Value | Sequence[Value]], wanted: Mapping[str, None]) -> dict[str, ParameterValue]:
    given = {str(name): _kept(value) for name, value in parameters.items()}
    unused = next((name for name in given if name not in wanted), None)
    if unused is None:
        return given
    names = [name for name in wanted if not name.startswith("?")]
    hint = "a list of values" if len(names) < len(wanted) else suggest(unused, names) if names else "no values"
    raise ProgrammingError(f"the statement has no parameter {unused}", code="parameters", try_=hint)


def _kept(value: Value | Sequence[Value]) -> ParameterValue:
    """The value as plans keep it: a list becomes a tuple, as parameters are compared and hashed with the plan."""
    return tuple(value) if isinstance(value, list | tuple) else cast(Value, value)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"


def shared_out(parameters: Parameters, queries: Sequence[Query]) -> list[dict[str, ParameterValue]]:
    """The values for each of several queries: by name, or in order. Raises ProgrammingError if they do not match."""
    check_parameters(parameters)
    if isinstance(parameters, Mapping):
        wanted = dict.fromkeys(name for query in queries for name in query.parameters)
        _by_name(parameters, wanted)
        return [given_values(query, {name: parameters[name] for name in dict.fromkeys(query.parameters) if name in parameters})
                for query in queries]
    found, rest = [], list(parameters)
    for query in queries:
        count = len(dict.fromkeys(query.parameters))
        found.append(given_values(query, rest[:count]))
        rest = rest[count:]
    if rest:
        raise ProgrammingError(f"{_counted(len(rest), 'value')} for no parameter", code="parameters", try_="fewer values")
    return found
