"""Errors of dpsql as answers of HTTP: a status, and a body that says what is wrong, where, and what would help."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dpsql import errors
from dpsql.errors import Error
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.terms.sqlstates import state_of

BY_CODE: Mapping[str, int] = {
    "account-closed": 403, "account-busy": 503, "busy": 503, "naming": 409, "user": 401, "closed": 401, "role": 403,
    "interrupted": 409, "data-changed": 503, "extra": 406, "answer-size": 406}
BY_CLASS: tuple[tuple[type[Error], int], ...] = (
    (errors.BudgetExhausted, 402), (errors.InternalError, 500), (errors.PolicyError, 503), (errors.OperationalError, 503),
    (errors.IntegrityError, 503), (errors.Error, 400))
LATER = "10"  # seconds after which a client may try again


class HttpRefusal(Exception):
    """An answer that is an error. `body` is its object in JSON."""

    def __init__(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.status, self.body, self.headers = status, body, dict(headers or {})

    def as_bytes(self) -> bytes:
        return json.dumps(self.body).encode()


def refused(status: int, code: str, message: str, *, try_: str = "", kind: str = "InterfaceError", sqlstate: str = "08000",
            headers: Mapping[str, str] | None = None) -> HttpRefusal:
    """An error of the server itself, for a request that does not reach the engine."""
    return HttpRefusal(status, _body(kind, code, message, try_, sqlstate), headers)


def fault_of_server() -> HttpRefusal:
    """The response to an internal fault of the server. It gives no details, as these may depend on anything."""
    return refused(500, "fault", "a fault of the server stopped this", kind="InternalError", sqlstate="XX000")


def not_logged_in(code: str = "session", message: str = "there is no such session, or it has ended") -> HttpRefusal:
    return refused(401, code, message, try_="POST /api/login", kind="OperationalError", sqlstate="28000",
                   headers={"WWW-Authenticate": "Bearer"})


def limited(refusal: RefusedOnWire) -> HttpRefusal:
    """The response if a limit of the server, which all clients share, is reached."""
    return refused(503, "limit", refusal.message, try_=refusal.hint, kind="OperationalError", sqlstate=refusal.sqlstate,
                   headers={"Retry-After": LATER})


def told_over_http(fault: Error, text: str) -> HttpRefusal:
    """The response to an error of the engine about a statement with this text."""
    status = BY_CODE.get(fault.code) or next(status for kind, status in BY_CLASS if isinstance(fault, kind))
    here = fault.span if fault.text in ("", text) and text else None
    line = None if here is None else here.place(text)[0]
    span = (None, None) if here is None else (here.start, here.end)
    headers = {503: {"Retry-After": LATER}, 401: {"WWW-Authenticate": "Bearer"}}.get(status)
    body = _body(type(fault).__name__, fault.code, fault.reason, fault.try_, state_of(fault), span, line)
    return HttpRefusal(status, body, headers)


def _body(kind: str, code: str, message: str, try_: str, sqlstate: str, span: tuple[int | None, int | None] = (None, None),
          line: int | None = None) -> dict[str, Any]:
    return {"error": {"type": kind, "code": code, "message": message, "try": try_ or None, "start": span[0], "end": span[1],
                      "line": line, "sqlstate": sqlstate}}
