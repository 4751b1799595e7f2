"""Scripts that are begun before they are paid for, and that stop between their steps.

What text and policy decide of several scripts is decided before the first one asks anything.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from dpsql.trusted.measurements.reading.request import Request
from dpsql.trusted.stopping import go_on

Made = TypeVar("Made")


def begun(steps: Generator[Request, Any, Made]) -> Generator[Request, Any, Made]:
    """Make the first request of a script now, and return a script that begins with it. Raises any error up to that point, and
    InvalidPlan if a plan of that request is invalid."""
    try:
        first = next(steps)
    except StopIteration as over:
        return _unasked(over.value)
    for plan in first.plans:
        _ = plan.fields
    return _from(first, steps)


def _unasked(made: Made) -> Generator[Request, Any, Made]:
    """A script that asks nothing."""
    return made
    yield


def _from(request: Request, steps: Generator[Request, Any, Made]) -> Generator[Request, Any, Made]:
    try:
        while True:
            request = steps.send((yield request))
    except StopIteration as over:
        made: Made = over.value
        return made


def stopping_between(steps: Generator[Request, Any, Made]) -> Generator[Request, Any, Made]:
    """The same steps, but between two steps an interrupted statement raises as `go_on` does."""
    try:
        request = next(steps)
        while True:
            released = yield request
            go_on()
            request = steps.send(released)
    except StopIteration as over:
        made: Made = over.value
        return made
