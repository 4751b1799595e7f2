"""The kinds of a statement's parameters and columns, before its values are known: no charge, and no private row is read.

Clients prepare a statement first and give the values later. What kind a parameter is, the binder itself tells: the statement is
described with a value of each kind, and the first kind that it takes is the one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from sqlglot import exp

from dpsql.answers.answer import AnswerColumn
from dpsql.answers.described_columns import DescribedColumn
from dpsql.catalog.model import Catalog
from dpsql.dbapi import Connection
from dpsql.engine.answering import describe
from dpsql.errors import Error, SqlError
from dpsql.frozen import Frozen
from dpsql.server.front.terms.answers_on_wire import ColumnOnWire, Described
from dpsql.sql.text.border import parameter_of
from dpsql.sql.text.durations import Duration
from dpsql.sql.text.statement import (
    CreateStandingQuery,
    Explain,
    OpenModel,
    Query,
    Statement,
    Synthesize,
    SynthesizeTables,
    Validate,
)
from dpsql.sql.text.syntax import TYPES, carrier_of

NUMERIC = "NUMERIC"  # of a parameter that is a whole number or a double, whichever its value is
_VALUES: Mapping[str, tuple[object, ...]] = {
    "BIGINT": (1, 0), "DOUBLE": (0.5, 1.5), "DATE": (dt.date(2000, 1, 1),), "TIMESTAMP": (dt.datetime(2000, 1, 1),),
    "BOOLEAN": (True,), "VARCHAR": ("a", "", "year", "%a"), NUMERIC: (1, 0.5, 0, 1.5)}
TRIED: Mapping[str, tuple[object, ...]] = {
    **_VALUES, **{f"{kind}[]": ((values[0],),) for kind, values in _VALUES.items()}, "INTERVAL": (Duration(days=1),)}
"""Values by which a kind is tried; several where some statements take only some values, such as a fraction."""
UNKNOWN = "VARCHAR"  # of a parameter that any kind fits, as in PostgreSQL


def describe_with(statement: Statement, text: str, given: Sequence[str | None], connection: Connection) -> Described:
    """The types of the numbered parameters of a client's statement, and its columns. Given types are kept. Raises a located
    `errors.Error` if the statement is wrong for all values."""
    count = count_of(statement)
    names = names_of(statement)
    if is_by_name(names):
        names = tuple(str(at + 1) for at in range(count))
    return _described(Unvalued(text=text, names=names, by_name=False, connection=connection), statement,
                      [*given[:count], *[None] * (count - len(given))])


def described_by_name(statement: Statement, text: str, connection: Connection) -> tuple[dict[str, str], Described]:
    """The same for a statement whose parameters may have names: the type of each by its name (`names_of`), and its columns."""
    names = names_of(statement)
    asked = Unvalued(text=text, names=names, by_name=is_by_name(names), connection=connection)
    found = _described(asked, statement, [None] * len(names))
    return dict(zip(names, found.parameters, strict=True)), found


class Unvalued(Frozen):
    """A statement whose values are not known yet. They are given by the `names` of its parameters, or in their order."""

    text: str
    names: tuple[str, ...]
    by_name: bool
    connection: Connection

    def columns(self, values: Sequence[object]) -> tuple[ColumnOnWire, ...]:
        """The columns of its answer with these values. Raises a located `errors.Error`."""
        given: Any = dict(zip(self.names, values, strict=True)) if self.by_name else values
        return columns_of(self.text, given, self.connection)


def _described(asked: Unvalued, statement: Statement, stated: Sequence[str | None]) -> Described:
    likely = likely_kinds(statement, asked.connection.session.catalog)
    kinds: list[str | None] = list(stated)
    values: list[object] = [TRIED[kind][0] if kind is not None else () if likely.get(name, "").endswith("[]") else None
                            for kind, name in zip(stated, asked.names, strict=True)]
    for at, name in enumerate(asked.names):
        kinds[at], values[at] = _first_that_fits(asked, values, at, _tried(stated[at], likely.get(name)))
        if stated[at] == NUMERIC:
            kinds[at] = _kind_of_numeric(asked, values, at)
    return Described(parameters=tuple(kind or UNKNOWN for kind in kinds), columns=asked.columns(values))


def columns_of(text: str, values: Sequence[Any] | Mapping[str, Any], connection: Connection) -> tuple[ColumnOnWire, ...]:
    """The columns that the answer of a statement will have. Raises a located `errors.Error`."""
    return tuple(ColumnOnWire(name=column.name, kind=kind_of(column)) for column in describe(text, connection.session, values))


def kind_of(column: DescribedColumn | AnswerColumn) -> str:
    """The type of a column on the wire: sums that may exceed 64 bits are numeric to clients."""
    return "HUGEINT" if column.wide else column.type.value


def _kind_of_numeric(asked: Unvalued, values: Sequence[object], at: int) -> str:
    """Which numbers a parameter takes that a client states to be numeric: whole ones as such and others as doubles, where that
    makes no other columns, as in age > $1; else one of the two. A double would not hold all numbers of 64 bits."""
    found: dict[str, tuple[ColumnOnWire, ...]] = {}
    for kind in ("BIGINT", "DOUBLE"):
        for value in TRIED[kind]:
            with contextlib.suppress(Error):
                found.setdefault(kind, asked.columns([*values[:at], value, *values[at + 1:]]))
    return NUMERIC if len(found) == 2 and len({*found.values()}) == 1 else "DOUBLE" if "DOUBLE" in found else "BIGINT"


def _tried(stated: str | None, likely: str | None) -> Iterator[tuple[str, object]]:
    others = (kind for kind in TRIED if kind not in (likely, NUMERIC, f"{NUMERIC}[]"))
    kinds = [stated] if stated is not None else [*([likely] if likely else []), *others]
    return ((kind, value) for kind in kinds for value in TRIED[kind])


def _first_that_fits(asked: Unvalued, values: list[object], at: int,
                     tried: Iterator[tuple[str, object]]) -> tuple[str, object]:
    """A kind and a value for one parameter, with which the statement is accepted beside the values of the others; NULL if
    these are not known yet. Raises the error of the first one if none is, which is the statement's own."""
    first: Error | None = None
    for kind, value in tried:
        try:
            asked.columns([*values[:at], value, *values[at + 1:]])
        except Error as fault:
            if is_of_statement(fault):
                raise
            first = first or fault
        else:
            return kind, value
    others = [TRIED["BIGINT"][0] if value is None else value for value in values]
    if first is None or (any(value is None for value in values[at + 1:]) and others != values):  # another one may not be NULL
        return UNKNOWN, others[at]
    raise first


_WHATEVER = ("syntax", "unknown-table", "unknown-column", "undeclared-table", "undeclared-column", "outside-table",
             "ambiguous-column", "unknown-option", "options", "unknown-function", "not-a-query", "empty")


def is_of_statement(fault: Error) -> bool:
    """Whether an error occurs for all values of the parameters."""
    return (isinstance(fault, SqlError) and fault.code in _WHATEVER) or fault.code in ("not-accepted", "no-aggregate", "star")


def count_of(statement: Statement) -> int:
    """The number of parameters, which are numbered or marked by ?. Raises SqlError if one has a name."""
    names = names_of(statement)
    if any(not name.startswith("?") and not name.isdigit() for name in names):
        raise SqlError("parameters of a client's statement must be numbered", code="parameter", try_="$1, $2")
    return max((int(name) for name in names if name.isdigit()), default=len(names))


def names_of(statement: Statement) -> tuple[str, ...]:
    """The names of a statement's parameters, in order: ``1`` for $1, ``least`` for :least and $least, and ``?1``, ``?2`` and so
    on for each ?."""
    return tuple(dict.fromkeys(name for _, named in _parameters_of(statement) for name in named.values()))


def is_by_name(names: Sequence[str]) -> bool:
    """Whether the values of parameters with these names are given by name. Those of ? are not, as they only have an order."""
    return not all(name.startswith("?") for name in names)


def _parameters_of(statement: Statement) -> Iterator[tuple[Query, Mapping[str, str]]]:
    """Each query of a statement, with the names of its parameters: where ? are counted in the query, and where in all of them."""
    marks = count(1)
    for query in queries_of(statement):
        yield query, {name: f"?{next(marks)}" if name.startswith("?") else name for name in dict.fromkeys(query.parameters)}


def queries_of(statement: Statement) -> Iterator[Query]:
    """The queries that a statement contains."""
    match statement:
        case Query():
            yield statement
        case Explain(query=inner) | Synthesize(query=inner) | OpenModel(query=inner) | CreateStandingQuery(query=inner):
            yield from queries_of(inner)
        case SynthesizeTables(tables=tables):
            for table in tables:
                yield from queries_of(table)
        case Validate(checks=checks):
            for check in checks:
                yield check.query


def likely_kinds(statement: Statement, catalog: Catalog) -> dict[str, str]:
    """The likely type of each parameter that is compared with a column, by its name: the type of the column, as in age > $1, or a
    list of that type, as in age = ANY($1). It is tried first, so that no value is rounded."""
    types: dict[str, set[str]] = {}
    for table in catalog.tables.values():
        for column in table.columns.values():
            types.setdefault(column.name.lower(), set()).add(column.type.value)
    found: dict[str, str] = {}
    for query, named in _parameters_of(statement):
        for node in query.tree.find_all(exp.Column):
            name = named.get(parameter_of(node) or "")
            if name is None:
                continue
            if isinstance(node.parent, exp.Cast) and node.parent.arg_key == "unnest":  # each element of a list is cast
                found.setdefault(name, f"{carrier_of(TYPES.get(node.parent.to.this.name, UNKNOWN)).value}[]")
            if isinstance(node.parent, exp.Quantile | exp.PercentileCont | exp.PercentileDisc | exp.ApproxQuantile):
                found.setdefault(name, "DOUBLE")
            if not isinstance(node.parent, exp.Predicate | exp.Binary):
                continue
            beside = {kind for other in node.parent.iter_expressions() if isinstance(other, exp.Column)
                      for kind in types.get(other.name.lower(), ())}
            if isinstance(node.parent, exp.In) and node.arg_key == "unnest":
                found.setdefault(name, f"{beside.pop() if len(beside) == 1 else UNKNOWN}[]")
            elif len(beside) == 1:
                found.setdefault(name, beside.pop())
    return found
