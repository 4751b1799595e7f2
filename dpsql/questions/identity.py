"""One text for one meaning: what identifies a statement in the ledger.

Two texts that bind to the same question, with the same options, are the same statement and have one answer. Places in the
text take no part, nor do the names under which columns are shown; everything else of the plan does, the policy that it rests
on included.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
from collections.abc import Mapping
from types import NoneType

from dpsql.frozen import field_names, is_frozen
from dpsql.trusted.declarations.tables import Table

IGNORED = {"span", "text", "listed", "listings", "combinations"}  # public rows are identified by the data's version
LATER = ("limits_hold", "closed", "beyond",  # left out where they are false, so that older statements are what they always were
         "stated_rows", "stated_spread")
SHOWN = {"Output", "Key", "Fold", "Field", "Merged"}  # whose `name` is for people
PLAIN = frozenset({str, int, float, bool, NoneType, dt.date, dt.datetime})  # subclasses are none of these
MOST_TABLES = 256  # whose texts are kept
_TABLES: dict[int, tuple[Table, str]] = {}
_PARTS: dict[type, tuple[str, ...] | None] = {}
LABELLED = {"Project", "UnionAll", "SetOperation"}  # whose `columns` are (identifier, name for people, ...)


def digest(*parts: object) -> str:
    """A hash of the canonical form of some values."""
    return hashlib.sha256("\n".join(canonical(part) for part in parts).encode()).hexdigest()


def canonical(value: object) -> str:
    """A text that is equal exactly for equal values."""
    kind = type(value)
    if kind in PLAIN:  # first, as a table carries tens of thousands of public values: every day of a range of dates
        return f"{kind.__name__}:{value!r}"
    if type(value) is tuple:
        return f"[{','.join([canonical(part) for part in value])}]"
    if type(value) is Table:
        return _table(value)
    return _canonical(value)


def _canonical(value: object) -> str:
    kind, names = type(value).__name__, _parts(type(value))
    if names is not None:
        names = tuple(name for name in names if name not in LATER or getattr(value, name))
        if kind in LABELLED:
            parts = {name: getattr(value, name) for name in names}
            parts["columns"] = [(column, *rest) for column, _, *rest in parts["columns"]]
            return f"{kind}({','.join([f'{name}={canonical(part)}' for name, part in parts.items()])})"
        return f"{kind}({','.join([f'{name}={canonical(getattr(value, name))}' for name in names])})"
    if isinstance(value, enum.Enum):
        return f"{kind}.{value.name}"
    if isinstance(value, tuple | list):
        return "[" + ",".join([canonical(part) for part in value]) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{canonical(key)}:{canonical(part)}" for key, part in value.items())) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(canonical(part) for part in value)) + "}"
    return f"{kind}:{value!r}"


def _table(table: Table) -> str:
    """A table's text is worked out once: it is a frozen part of a catalog, and longer than that of all else in a statement."""
    kept = _TABLES.get(id(table))
    if kept is None or kept[0] is not table:
        if len(_TABLES) >= MOST_TABLES:
            _TABLES.clear()
        kept = _TABLES[id(table)] = table, _canonical(table)
    return kept[1]


def _parts(kind: type) -> tuple[str, ...] | None:
    """The fields of a class of values that take part; None of what is none."""
    if kind not in _PARTS:
        _PARTS[kind] = tuple(name for name in field_names(kind) if name not in IGNORED and not (
            name == "name" and kind.__name__ in SHOWN)) if is_frozen(kind) else None
    return _PARTS[kind]
