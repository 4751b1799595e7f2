"""Faults of the server, reported without details: the text of an exception may depend on the data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from dpsql.server.front.terms.answers_on_wire import RefusedOnWire, Seat
from dpsql.server.front.wire.packets import Gone
from dpsql.server.link.login_messages import NotProven


@contextlib.contextmanager
def told_faults(severity: str = "ERROR", let_through: tuple[type[Exception], ...] = (RefusedOnWire,)) -> Iterator[None]:
    """A context that replaces an exception with a RefusedOnWire that gives no details, except for those that are let through."""
    try:
        yield
    except let_through:
        raise
    except Exception:  # its text and its chain may depend on the data
        raise fault_of_server(severity) from None


def entered(work: Callable[[], Seat]) -> Seat:
    """The seat that a door gives. Raises NotProven, Gone or RefusedOnWire."""
    with told_faults("FATAL", (RefusedOnWire, NotProven, Gone)):
        return work()


def quietly(work: Callable[[], None]) -> None:
    """Do work, and ignore its exceptions."""
    with contextlib.suppress(Exception):
        work()


def fault_of_server(severity: str) -> RefusedOnWire:
    """The refusal that reports a fault of the server."""
    return RefusedOnWire("a fault of the server; what was charged stays charged, and its answer is kept", sqlstate="XX000",
                         severity=severity)
