"""SIGTERM and SIGINT for long work that is ended in order: the first one asks for that, and the next one ends the process."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """A context in which the first signal sets an event. Outside the main thread, which alone gets signals, it is never set."""
    wanted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield wanted
        return

    def stop(_: int, __: FrameType | None) -> None:
        wanted.set()
        for number in before:
            signal.signal(number, signal.SIG_DFL)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, stop)
        yield wanted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
