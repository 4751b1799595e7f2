"""Whether a statement must stop, although somebody waits for it; checked between the steps of long work.

Before the charge no private row is read, and a statement that stops is not charged. After it, what is raised here becomes the
same `Interrupted` as the interruption of a query. Other faults are of the statement itself, also if it must stop by then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from threading import Event
from typing import TypeVar

from dpsql.errors import OperationalError

Item = TypeVar("Item")
STOPPED = "interrupted"  # code of an error

_wanted: ContextVar[Event | None] = ContextVar("wanted", default=None)


@contextlib.contextmanager
def stopped_by(event: Event) -> Iterator[None]:
    """A context in which the statement must stop as soon as the event is set."""
    before = _wanted.set(event)
    try:
        yield
    finally:
        _wanted.reset(before)


def is_to_stop() -> bool:
    """Whether the statement must stop."""
    return (event := _wanted.get()) is not None and event.is_set()


def go_on() -> None:
    """Raises OperationalError if the statement must stop; does nothing if it cannot be stopped."""
    if is_to_stop():
        raise stopped()


def each(items: Iterable[Item]) -> Iterator[Item]:
    """The items, until the statement must stop; raises as `go_on` does."""
    for item in items:
        go_on()
        yield item


def stopped() -> OperationalError:
    """The error of a statement that is stopped before its charge."""
    return OperationalError("the statement was interrupted before anything was charged", code=STOPPED, try_="it again")
