"""Whether a statement is to stop, for which somebody waits: asked between the steps of what takes long.

Before a charge, when no private row is read, nothing is charged then. After it, what is raised here is a fault of the statement
like any other, and becomes the same `Incident`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from threading import Event
from typing import TypeVar

from dpsql.errors import OperationalError

Item = TypeVar("Item")

_wanted: ContextVar[Event | None] = ContextVar("wanted", default=None)


@contextlib.contextmanager
def stopped_by(event: Event) -> Iterator[None]:
    """A context in which the statement is to stop as soon as the event is set."""
    before = _wanted.set(event)
    try:
        yield
    finally:
        _wanted.reset(before)


def go_on() -> None:
    """Raises OperationalError if the statement is to stop; does nothing if nobody can ask for that."""
    if (event := _wanted.get()) is not None and event.is_set():
        raise stopped()


def each(items: Iterable[Item]) -> Iterator[Item]:
    """The items, as long as the statement is not to stop; raises as `go_on` does."""
    for item in items:
        go_on()
        yield item


def stopped() -> OperationalError:
    """What a statement ends with that is to stop before its charge."""
    return OperationalError("the statement was interrupted before anything was charged", code="interrupted", try_="it again")
