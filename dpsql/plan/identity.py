"""One text for one meaning: what identifies a statement in the ledger.

Two texts that bind to the same question, with the same options, are the same statement and have one answer. Places in the
text take no part, nor do the names under which columns are shown; everything else of the plan does, the policy that it rests
on included.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from collections.abc import Mapping
from types import NoneType

IGNORED = {"span", "text"}
SHOWN = {"Output", "Key", "Fold", "Field", "Merged"}  # whose `name` is for people
PLAIN = frozenset({str, int, float, bool, NoneType, dt.date, dt.datetime})  # subclasses are none of these
LABELLED = {"Project", "UnionAll", "SetOperation"}  # whose `columns` are (identifier, name for people, ...)


def digest(*parts: object) -> str:
    """A hash of the canonical form of some values."""
    return hashlib.sha256("\n".join(canonical(part) for part in parts).encode()).hexdigest()


def canonical(value: object) -> str:
    """A text that is equal exactly for equal values."""
    if type(value) in PLAIN:  # first, as a table carries tens of thousands of public values: every day of a range of dates
        return f"{type(value).__name__}:{value!r}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value).__name__
        parts = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)
                 if item.name not in IGNORED and not (item.name == "name" and kind in SHOWN)}
        if kind in LABELLED:
            parts["columns"] = [(column, *rest) for column, _, *rest in parts["columns"]]
        return f"{kind}({','.join(f'{name}={canonical(part)}' for name, part in parts.items())})"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple | list):
        return "[" + ",".join([canonical(part) for part in value]) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{canonical(key)}:{canonical(part)}" for key, part in value.items())) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(canonical(part) for part in value)) + "}"
    return f"{type(value).__name__}:{value!r}"
