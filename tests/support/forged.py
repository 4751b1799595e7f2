"""Frozen values as a forger makes them: with fields that their class was not told of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsql.trusted.frozen import field_names


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a frozen value that are set."""
    return {name: getattr(value, name) for name in field_names(type(value)) if hasattr(value, name)}


def made_of(kind: type, fields: Mapping[str, Any]) -> Any:
    """A value of a class with these fields and no others, whether the class takes them or not."""
    made = object.__new__(kind)
    return tampered(made, **fields)


def tampered(value: Any, /, **fields: Any) -> Any:
    """The same object, with other fields than its class gave it."""
    for name, part in fields.items():
        object.__setattr__(value, name, part)
    return value
