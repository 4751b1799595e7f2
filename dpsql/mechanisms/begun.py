"""Scripts that are begun together: what text and policy decide of all of them is decided before the first one asks anything."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from dpsql.trusted.measurements.reading.request import Request

Made = TypeVar("Made")


def begun(steps: Generator[Request, Any, Made]) -> Generator[Request, Any, Made]:
    """Make the first request of a script now, and return the script that begins with it. Raises what goes wrong up to there, and
    InvalidPlan if a plan of that request is none."""
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
