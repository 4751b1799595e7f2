"""Requests as plain values, and back: what the front process says to the vault.

Bytes of the front are never unpickled: they are JSON, which makes nothing but numbers, texts and lists. (The standard library's
reader keeps integers of any size and doubles as they are, and is as well kept as any; a binary format would save a third of the
bytes, which cost less than the statement.) A message is a list of *nodes*: each is a list that begins with the kind of a value,
and a part of it is a plain value or [i], the i-th node before it. So there are no cycles; and what was one object is one object
again, on which the cost of several tests of one plan depends (`kernel.taken`).

The messages of a script continue each other: a third part says how many nodes were read before, to which [i] may refer too. So
a relation that several requests of a statement query is sent, read, copied and checked once. `MessageWriter` begins anew when it
knows many nodes; a reader that has read another number of nodes refuses the message.

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
MOST_CONTINUED = 2**13  # nodes to which the messages of a script may refer before it begins anew
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
    return MessageWriter(tables).encoded(value)


class MessageWriter:
    """Writes messages that continue each other, for one `MessageReader`. After an error it writes no more."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables
        self._nodes = _Nodes(tables)

    def encoded(self, value: object) -> bytes:
        """The next message; see `encoded`."""
        if self._nodes.number > MOST_CONTINUED:
            self._nodes = _Nodes(self._tables)
        nodes, before = self._nodes, self._nodes.number
        nodes.written = []
        root = nodes.part(value)
        data = json.dumps([nodes.written, root, before] if before else [nodes.written, root], separators=(",", ":")).encode()
        if len(data) > MOST_BYTES:
            raise ValueError("this is too large to be sent")
        return data


class _Nodes:
    """The nodes of the messages that were written, and those of the one that is."""

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self.written: list[list[Any]] = []
        self.number = 0
        self._tables = tables
        self._known: dict[int, tuple[object, list[int]]] = {}  # by identity; the values are kept, so that no other gets a number

    def part(self, value: object) -> Any:
        if type(value) in WRITTEN:
            return value
        if id(value) not in self._known:
            node = self._node(value)
            self.written.append(node)
            self._known[id(value)] = value, [self.number]
            self.number += 1
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
                own = self._tables.get(value.name)
                if own is value or (own is not None and value.growth is not None and value.growth == own.growth):
                    return ["table", value.name, None]  # what is said of some periods of a growing table is for planning alone
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
    return MessageReader(table).decoded(data)


class MessageReader:
    """Reads messages that continue each other; see `decoded`. After an error the next message must begin anew."""

    def __init__(self, table: PlainTable) -> None:
        self._table = table
        self._nodes = _NodeReader(table)

    def decoded(self, data: bytes) -> Any:
        try:
            return self._read(data)
        except UnreadableMessage:
            raise
        except (Exception, RecursionError):  # any error while reading means that it is not a valid message
            raise UnreadableMessage() from None

    def _read(self, data: bytes) -> Any:
        if len(data) > MOST_BYTES or data.count(b"[") > MOST_LISTS:  # counted before they are made
            raise UnreadableMessage
        nodes, root, *continued = json.loads(data)
        reader, self._nodes = self._nodes if continued else _NodeReader(self._table), _NodeReader(self._table)
        if type(nodes) is not list or continued not in ([], [reader.number]) or reader.number + len(nodes) > MOST_NODES:
            raise UnreadableMessage
        for node in nodes:
            reader.add(node)
        value, self._nodes = reader.part(root), reader
        return value


class _NodeReader:
    """The values of the nodes that were read so far; of each its depth, and its size if it were written out."""

    def __init__(self, table: PlainTable) -> None:
        self._table = table
        self._values: list[Any] = []
        self._depths: list[int] = []
        self._sizes: list[int] = []

    @property
    def number(self) -> int:
        return len(self._values)

    def add(self, node: Any) -> None:
        if type(node) is not list or not node or type(node[0]) is not str:
            raise UnreadableMessage
        values, depths, sizes = self._values, self._depths, self._sizes
        parts, deepest, size = [], 0, len(node)
        for part in node[1:]:
            if type(part) is list:
                at, = part
                if type(at) is not int or not 0 <= at < len(values):
                    raise UnreadableMessage
                parts.append(values[at])
                deepest = max(deepest, depths[at])
                size += sizes[at]
            else:
                parts.append(part if part is None or part is True or part is False else self.part(part))
        if deepest >= MOST_DEPTH or size > MOST_WRITTEN:
            raise UnreadableMessage
        values.append(self._made(node[0], parts))
        depths.append(deepest + 1)
        sizes.append(size)

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
        if (known := CLASSES.get(kind)) is not None:
            return known[0](**dict(zip(known[1], parts, strict=True)))
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
