"""Frozen values: classes that list their fields, and whose instances never change.

Two values are equal if they are of exactly the same class and their fields are equal, and then they have the same hash. Fields
are given by name, unless a class says `kw_only=False`. A class with a cached property has room for what is computed, and can be
referred to weakly; the instances of others hold their fields and nothing else. Values of a class that says `gc=False` are
ignored by Python's cyclic garbage collector: they form no cycles, as long as no field is a list, a mapping or a function.

>>> class Place(Frozen, kw_only=False):
...     x: int
...     y: int = 0
>>> Place(3), replace(Place(3), y=4) == Place(3, 4)
(Place(x=3, y=0), True)

The methods are those of msgspec, which are written in C and shared by all classes: with dataclasses, which generate the source of
some for each class, a command spent a third of its time on that.
"""

from __future__ import annotations

import functools
from abc import ABCMeta
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast, dataclass_transform

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import force_setattr

if TYPE_CHECKING:  # type checkers take these for dataclasses, whose fields they know to check, and to be frozen
    from builtins import object as Struct
    from builtins import type as StructMeta
    from dataclasses import replace as replace
else:
    from msgspec import Struct, StructMeta
    from msgspec.structs import replace as replace


class _Field(NamedTuple):
    made: Any
    compare: bool
    repr: bool


def field(*, default: Any = NODEFAULT, default_factory: Any = NODEFAULT, compare: bool = True, repr: bool = True) -> Any:
    """Declare a field that gets a new default for each value, or that equality and the hash (`compare`) or `repr` ignore."""
    return _Field(msgspec.field(default=default, default_factory=default_factory), compare, repr)  # type: ignore[call-overload]


def _named(bases: tuple[type, ...], kind: str) -> frozenset[str]:
    return frozenset().union(*(getattr(base, kind, ()) for base in bases))


def _getter(names: list[str]) -> Callable[[Any], Any]:
    """These fields as one value: of a single one as a pair, since tuples take what is the same object to be equal."""
    return attrgetter(*names, *names[:len(names) == 1]) if names else lambda value: None


def _equal(one: Frozen, other: object) -> Any:
    if type(one) is not type(other):
        return NotImplemented
    return bool(one._key_of_equals(one) == one._key_of_equals(other))


def _hash(one: Frozen) -> int:
    return hash(one._key_of_equals(one))


def _shown(one: Frozen) -> str:
    shown = ", ".join(f"{name}={getattr(one, name)!r}" for name in field_names(type(one)) if name not in one._unshown)
    return f"{type(one).__name__}({shown})"


class FrozenType(StructMeta):
    """Makes a class of frozen values from what its body says."""

    def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], *, kw_only: bool = True, eq: bool = True,
                gc: bool = True) -> Any:
        options = {key: item for key, item in body.items() if isinstance(item, _Field)}
        body |= {key: item.made for key, item in options.items()}
        uncompared = _named(bases, "_uncompared") | {key for key, item in options.items() if not item.compare}
        unshown = _named(bases, "_unshown") | {key for key, item in options.items() if not item.repr}
        if uncompared:
            body = {"__eq__": _equal, "__hash__": _hash} | body | {"_uncompared": uncompared}
        if unshown:
            body = {"__repr__": _shown} | body | {"_unshown": unshown}
        caches = any(isinstance(item, functools.cached_property) for item in body.values())
        made: Any = super().__new__(mcls, name, bases, body, frozen=True, kw_only=kw_only, eq=eq, **({} if gc else {"gc": False}),
                                    **({"dict": True, "weakref": True} if caches else {}))
        if uncompared:
            made._key_of_equals = _getter([key for key in made.__struct_fields__ if key not in uncompared])
        return made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Frozen(Struct, metaclass=FrozenType):
    """A value whose fields are those that its class lists, and never change."""

    _key_of_equals: ClassVar[Any]
    _uncompared: ClassVar[frozenset[str]] = frozenset()
    _unshown: ClassVar[frozenset[str]] = frozenset()


class _AbstractType(FrozenType, ABCMeta):
    pass


class AbstractFrozen(Frozen, metaclass=_AbstractType):
    """The base of frozen values with abstract methods."""


def is_frozen(value: object) -> bool:
    """Whether this is a frozen value, or a class of such values."""
    return isinstance(value, Frozen | FrozenType)


def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a class of frozen values, in the order in which they are declared."""
    names: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    return names


def settle(value: Frozen, name: str, settled: object) -> None:
    """Replace the given value of a field by its final form. Only for the `__post_init__` of the value's own class, while no other
    code has seen the value."""
    force_setattr(cast(Any, value), name, settled)


def asdict(value: Any) -> dict[str, Any]:
    """The fields by name, converted recursively, also inside lists and mappings."""
    return {name: _plain(getattr(value, name)) for name in field_names(type(value))}


def _plain(value: Any) -> Any:
    if isinstance(value, Frozen):
        return asdict(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return {_plain(key): _plain(item) for key, item in value.items()} if isinstance(value, dict) else value
