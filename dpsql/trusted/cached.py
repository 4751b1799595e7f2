"""Properties of frozen values that are computed once, where several threads may ask."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """`functools.cached_property` without a lock, as it is in Python 3.12 and later, and without its checks, which
    took longer than most of what is computed.

    In 3.11 a property has one lock for all instances of its class, which is held while it is computed. Properties of values
    that consist of others ask for theirs; so two threads that ask for two properties in different orders would wait for each
    other for ever, whatever the values are. Without it two threads may compute the same value, a function of frozen fields.
    """

    if not TYPE_CHECKING:
        def __get__(self, instance, owner=None):
            made = self if instance is None else self.func(instance)
            return made if instance is None else instance.__dict__.setdefault(self.attrname, made)
