"""What is done with frozen values beside reading them: listing their fields, and settling a field while one is made."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache


def is_frozen(value: object) -> bool:
    """Whether this is a frozen value, or a class of such values."""
    return is_dataclass(value)


def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a class of frozen values, in the order in which they are declared."""
    return _names(kind)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def settle(value: object, name: str, settled: object) -> None:
    """Replace what was given for a field by its final form. Only for the `__post_init__` of the value's own class: nobody else
    may have seen the value yet."""
    object.__setattr__(value, name, settled)
