"""Frozen values as a forger makes them: with fields that their class was not told of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.frozen import field_names, settle


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a frozen value that are set."""
    return {name: getattr(value, name) for name in field_names(type(value)) if hasattr(value, name)}


def made_of(kind: type, fields: Mapping[str, Any]) -> Any:
    """A value of a class with these fields and no others, whether the class takes them or not."""
    names = field_names(kind)
    unasked = type(kind)(kind.__name__, (kind,), {"__post_init__": lambda self: None, "__module__": kind.__module__})
    made = unasked(**dict.fromkeys(names))
    object.__dict__["__class__"].__set__(made, kind)
    for name in names:
        if name not in fields:
            getattr(kind, name).__delete__(made)
    return tampered(made, **fields)


def tampered(value: Any, /, **fields: Any) -> Any:
    """The same object, with other fields than its class gave it: `object.__setattr__` cannot set them, but descriptors can."""
    for name, part in fields.items():
        settle(value, name, part)
    return value
