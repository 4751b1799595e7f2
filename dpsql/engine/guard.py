"""The door of all that can be asked: the data are those that were opened, and a fault of dpsql before a charge is reported with a
constant message, and never as a traceback."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from dpsql.engine.session import Session
from dpsql.errors import Error, InternalError
from dpsql.trusted.reader import is_interruption
from dpsql.trusted.stopping import stopped
from dpsql.types import Span

P = ParamSpec("P")
R = TypeVar("R")


def guarded(step: Callable[P, R]) -> Callable[P, R]:
    """A decorator for all requests to a session. It refuses them if files have changed since the session was opened, and turns
    unexpected faults into one `InternalError`, located in the first text among the arguments.

    What fails after a charge never gets here, as the kernel turns it into an `Incident`; so nothing was charged. The message is
    the same whatever went wrong, and has no cause attached, which could reveal public tables that the analyst may not see.
    Running out of memory or of stack is such a fault; an interruption is not, and neither is a call with the wrong arguments.
    """
    signature = inspect.signature(step)

    @functools.wraps(step)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        is_stopped = False
        try:
            for session in (given for given in args if isinstance(given, Session)):
                session.kernel.check()
            return step(*args, **kwargs)
        except Error:
            raise
        except Exception as fault:  # reported below, outside the handler, so that no cause is attached
            is_stopped = is_interruption(fault)
        signature.bind(*args, **kwargs)  # raises TypeError for a call that does not fit
        for session in (given for given in args if isinstance(given, Session)):
            session.kernel.check()  # files that were changed meanwhile are no fault of dpsql
        if is_stopped:
            raise stopped()
        raise fault_of_dpsql(next((text for given in args if (text := _text_of(given))), ""))

    return inner


def fault_of_dpsql(text: str) -> InternalError:
    """The error for an unexpected fault before a charge, located in the statement. All faults get the same text."""
    return InternalError("a fault in dpsql stopped this before anything was charged", code="fault", text=text,
                         try_="writing it in another way, and reporting the statement to the maintainers",
                         span=Span(0, len(text.split("\n", 1)[0])) if text else None)


def _text_of(given: Any) -> str:
    if isinstance(given, list | tuple) and given:
        given = given[0]
    found = given if isinstance(given, str) else getattr(given, "text", "")
    return found if isinstance(found, str) else ""
