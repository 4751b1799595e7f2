"""Properties of frozen values that are computed once, where several threads may ask."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """`functools.cached_property` without a lock, as it is in Python 3.12 and later.

    In 3.11 a property has one lock for all instances of its class, which is held while it is computed. Properties of values
    that consist of others ask for theirs; so two threads that ask for two properties in different orders would wait for each
    other for ever, whatever the values are. Without it two threads may compute the same value, a function of frozen fields.
    """

    def __init__(self, func: Callable[[Any], T]) -> None:
        super().__init__(func)
        self.lock = nullcontext()  # nobody asks for it from 3.12 on
