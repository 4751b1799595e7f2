"""Requests as plain values, and back: what the front process says to the vault.

Bytes of the front are never unpickled: they are JSON, which makes nothing but numbers, texts and lists. (The standard library's
reader keeps integers of any size and doubles as they are, and is as well kept as any; a binary format would save a third of the
bytes, which cost less than the statement.) A message is a list of *nodes*: each is a list that begins with the kind of a value,
and a part of it is a plain value or [i], the i-th node before it. So there are no cycles; and what was one object is one object
again, on which the cost of several tests of one plan depends (`kernel.taken`).

What can be made is what the kernel takes, class by class: `kernel.taken.MADE` from their fields, each of which checks itself.
The kernel copies and checks all of it again, and believes nothing of it.

Tables are not made from what the front says: what a table holds, who owns its rows and which of its columns are keys decide the
sensitivity. The front names a table, and the reader of a message puts its own in its place. With the name of a public one come
the columns as the front reads them, for queries that read nothing private.

*Domains* are made: they are lists of values for people to see, many are not in a catalog, and the kernel reads none.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from dpsql.catalog.days import Days
from dpsql.frozen import field_names
from dpsql.trusted.accounting.cost import Cost
from dpsql.trusted.declarations.tables import Column, Domain, Table
from dpsql.trusted.kernel.taken import FIELDS, MADE
from dpsql.trusted.plan.operators.statistics import ExactAggregate, Statistics
from dpsql.types import Type

MOST_BYTES = 2**28  # of a message
MOST_NODES, MOST_LISTS = 2**22, 2**24
MOST_DEPTH = 800  # of values in values; what is deeper cannot be planned either
MOST_WRITTEN = 2**26  # of values, if each were written as often as it is used: what walks a plan as a tree ends
MOST_BITS = 4096  # of an integer
MOST_EXPONENT = 400  # of a decimal number

PlainTable: TypeAlias = Callable[[str, tuple[Column, ...] | None], Table]
"""The table of a name; the columns are those that the front reads of a public one that is not in the catalog."""

WRITTEN = {float, int, str, bool, type(None)}
CLASSES: Mapping[str, tuple[type, tuple[str, ...]]] = {
    **{kind.__name__: (kind, FIELDS[kind]) for kind in MADE},
    **{kind.__name__: (kind, field_names(kind))
       for kind in (Column, Statistics, ExactAggregate, Cost)}}
NAMES = {kind: name for name, (kind, _) in CLASSES.items()}


class UnreadableMessage(ValueError):
    """Bytes that are no message. The text is constant."""

    def __init__(self) -> None:
        super().__init__("this message is unknown")


# -- to bytes


def encoded(value: object, tables: Mapping[str, Table]) -> bytes:
    """A value as bytes. Of `tables`, which the reader has too, only the names are sent. Raises TypeError for an unsupported
    value, ValueError for one that is too large."""
    nodes = _Nodes(tables)
    root = nodes.part(value)
    data = json.dumps([nodes.written, root], ensure_ascii=True, separators=(",", ":")).encode()
    if len(data) > MOST_BYTES:
        raise ValueError("this is too large to be sent")
    return data


class _Nodes:
    """The nodes of a message that is written."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.written: list[list[Any]] = []
        self._tables = tables
        self._known: dict[int, tuple[object, list[int]]] = {}  # by identity; the values are kept, so that no other gets a number

    def part(self, value: object) -> Any:
        if type(value) in WRITTEN:
            return value
        if id(value) not in self._known:
            node = self._node(value)
            self.written.append(node)
            self._known[id(value)] = value, [len(self.written) - 1]
        return self._known[id(value)][1]

    def _node(self, value: Any) -> list[Any]:
        kind = type(value)
        if kind is tuple:
            return ["tuple", *(value if WRITTEN.issuperset(map(type, value)) else map(self.part, value))]
        if kind in NAMES:
            name = NAMES[kind]
            return [name, *(self.part(getattr(value, field)) for field in CLASSES[name][1])]
        if kind in _SCALARS:
            return [kind.__name__, *_SCALARS[kind][0](value)]
        match value:
            case Type():
                return ["type", value.value]
            case Domain():
                return ["domain", self.part(value.values)]
            case Table():
                if self._tables.get(value.name) is value:
                    return ["table", value.name, None]
                if value.public is True:
                    return ["table", value.name, self.part(tuple(value.columns.values()))]
        raise TypeError(f"{kind.__name__} is not part of a request")


_SCALARS: Mapping[type, tuple[Callable[[Any], Sequence[Any]], Callable[..., Any]]] = {
    Fraction: (lambda value: value.as_integer_ratio(), lambda a, b: Fraction(_whole(a), _whole(b))),
    Decimal: (lambda value: [str(value)], lambda text: _decimal(_text(text))),
    bytes: (lambda value: [value.hex()], lambda text: bytes.fromhex(_text(text))),
    dt.datetime: (lambda value: [_local(value).isoformat()], lambda text: _local(dt.datetime.fromisoformat(_text(text)))),
    dt.date: (lambda value: [value.isoformat()], lambda text: dt.date.fromisoformat(_text(text))),
    dt.time: (lambda value: [_local(value).isoformat()], lambda text: _local(dt.time.fromisoformat(_text(text)))),
    dt.timedelta: (lambda value: [value.days, value.seconds, value.microseconds],
                   lambda *parts: dt.timedelta(*map(_whole, parts))),
    range: (lambda value: [value.start, value.stop, value.step], lambda *parts: range(*map(_whole, parts))),
    Days: (lambda value: [value.numbers.start, value.numbers.stop, value.numbers.step],
           lambda *parts: _days(range(*map(_whole, parts)))),
}


# -- from bytes


def decoded(data: bytes, table: PlainTable) -> Any:
    """The value of a message; `table` returns tables by their names, and raises for an unknown name. Raises UnreadableMessage for
    anything else, before any object is made."""
    try:
        return _read(data, table)
    except UnreadableMessage:
        raise
    except (Exception, RecursionError):  # whatever is wrong with it, it is no message
        raise UnreadableMessage() from None


def _read(data: bytes, table: PlainTable) -> Any:
    if len(data) > MOST_BYTES or data.count(b"[") > MOST_LISTS:  # counted before they are made
        raise UnreadableMessage
    nodes, root = json.loads(data)
    if type(nodes) is not list or len(nodes) > MOST_NODES:
        raise UnreadableMessage
    reader = _NodeReader(table)
    for node in nodes:
        reader.add(node)
    return reader.part(root)


class _NodeReader:
    """The values of the nodes that were read so far; of each its depth, and its size if it were written out."""

    def __init__(self, table: PlainTable) -> None:
        self._table = table
        self._values: list[Any] = []
        self._depths: list[int] = []
        self._sizes: list[int] = []

    def add(self, node: Any) -> None:
        if type(node) is not list or not node or type(node[0]) is not str:
            raise UnreadableMessage
        parts, depth, size = [], 1, len(node)
        for part in node[1:]:
            parts.append(self.part(part))
            if type(part) is list:
                depth = max(depth, 1 + self._depths[part[0]])
                size += self._sizes[part[0]]
        if depth > MOST_DEPTH or size > MOST_WRITTEN:
            raise UnreadableMessage
        self._values.append(self._made(node[0], parts))
        self._depths.append(depth)
        self._sizes.append(size)

    def part(self, part: Any) -> Any:
        """A plain value, or the value of an earlier node."""
        kind = type(part)
        if kind is list:
            at, = part
            if type(at) is not int or not 0 <= at < len(self._values):
                raise UnreadableMessage
            return self._values[at]
        if kind is str:
            return _text(part)
        if kind not in WRITTEN or (kind is int and part.bit_length() > MOST_BITS):
            raise UnreadableMessage
        return part

    def _made(self, kind: str, parts: list[Any]) -> Any:
        if kind == "tuple":
            return tuple(parts)
        if kind in CLASSES:
            made, names = CLASSES[kind]
            return made(**dict(zip(names, parts, strict=True)))
        if kind in _BY_NAME:
            return _BY_NAME[kind](*parts)
        match kind, parts:
            case "type", [str(name)]:
                return Type(name)
            case "domain", [tuple() | range() | Days() as values]:
                return Domain(values)
            case "table", [str(name), columns] if columns is None or _are_columns(columns):
                return self._table(name, columns)
        raise UnreadableMessage


_BY_NAME = {kind.__name__: read for kind, (_, read) in _SCALARS.items()}


def _are_columns(columns: Any) -> bool:
    return type(columns) is tuple and all(type(column) is Column and type(column.type) is Type for column in columns)


def _text(text: Any) -> str:
    """A text that every engine and file can hold."""
    if type(text) is not str:
        raise UnreadableMessage
    text.encode()  # raises UnicodeEncodeError for half a character
    return text


def _whole(number: Any) -> int:
    if type(number) is not int:
        raise UnreadableMessage
    return number


def _decimal(text: str) -> Decimal:
    made = Decimal(text)
    if len(text) > MOST_EXPONENT or (made.is_finite() and abs(made.adjusted()) > MOST_EXPONENT):
        raise UnreadableMessage
    return made


def _days(numbers: range) -> Days:
    if numbers:
        _ = dt.date.fromordinal(numbers[0]), dt.date.fromordinal(numbers[-1])
    return Days(numbers)


def _local(value: Any) -> Any:
    """A moment of no zone: columns have no others."""
    if value.tzinfo is not None:
        raise TypeError("a moment with a time zone cannot be part of a request")
    return value
