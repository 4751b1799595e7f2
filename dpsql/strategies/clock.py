"""Time limits of strategy searches: iterative searches stop when the time is over, with the best result so far.

The caller sets the time (`limited`); otherwise searches run to their end. It is CPU time of this process, so the result does not
depend on what else the machine does. It does depend on the machine; but any strategy is as private as any other, and the stated
errors are those of the strategy that is used.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar

from dpsql.trusted.stopping import go_on

USUAL = 1.6  # seconds of CPU that a search may take by default, so that a plan is there within two
EIGEN = 1.5e-10  # seconds of an eigenproblem over n values, divided by n^3

_end: ContextVar[float] = ContextVar("end", default=math.inf)
_stopped: ContextVar[list[bool] | None] = ContextVar("stopped", default=None)


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A context in which searches take about this long in total."""
    end, stopped = _end.set(min(_end.get(), time.process_time() + seconds)), _stopped.set([False])
    try:
        yield
    finally:
        _end.reset(end)
        _stopped.reset(stopped)


@contextlib.contextmanager
def part(share: float) -> Iterator[None]:
    """A context in which searches take at most this share of the remaining time."""
    left = remaining()
    end = _end.set(time.process_time() + share * max(0.0, left)) if math.isfinite(left) else None
    try:
        yield
    finally:
        if end is not None:
            _end.reset(end)


def remaining() -> float:
    """The seconds left; infinite if there is no limit."""
    return _end.get() - time.process_time()


def over() -> bool:
    """Whether a search should end now with its best result so far; records this if so. Raises as `stopping.go_on` does."""
    go_on()
    if time.process_time() < _end.get():
        return False
    _note()
    return True


def allows(seconds: float) -> bool:
    """Whether there is time for a step that takes about this many seconds; records it if there is not."""
    if seconds <= remaining():
        return True
    _note()
    return False


def cut_short() -> bool:
    """Whether some search inside `limited` was cut short or skipped for lack of time."""
    noted = _stopped.get()
    return noted is not None and noted[0]


def _note() -> None:
    if (noted := _stopped.get()) is not None:
        noted[0] = True
