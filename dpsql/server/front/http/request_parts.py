"""What routes share: the desk, the session of a request, and answers in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Depends, Request, Response
from fastapi.security import APIKeyCookie, HTTPBearer

from dpsql.dbapi import Connection
from dpsql.server.front.http.http_answers import as_json
from dpsql.server.front.http.http_bodies import ErrorBody
from dpsql.server.front.http.http_desk import HttpDesk
from dpsql.server.front.http.http_errors import not_logged_in
from dpsql.server.front.http.http_sessions import HttpSession

ERRORS: Any = {"4XX": {"model": ErrorBody, "description": "A mistake of the client, a budget that cannot pay (402), or no "
                       "session (401)"},
               "5XX": {"model": ErrorBody, "description": "A limit of the server (503), or a fault of it"}}
_BEARER = HTTPBearer(auto_error=False, description="The token of a login")
_COOKIE = APIKeyCookie(name="dpsql-8433", auto_error=False, description="The same token, as browsers send it: 8433 stands for "
                       "the port of the server, and with TLS the name begins with __Host-")


def desk_of(request: Request) -> HttpDesk:
    desk: HttpDesk = request.app.state.desk
    return desk


def session_of_request(request: Request, bearer: Any = Depends(_BEARER), cookie: Any = Depends(_COOKIE)) -> HttpSession:
    """The session that the guard found. Raises HttpRefusal."""
    session: HttpSession | None = request.state.session
    if session is None:
        raise not_logged_in()
    return session


async def told(request: Request, session: HttpSession, work: Callable[[Connection], dict[str, Any]], sql: str = "") -> Response:
    """The result of work on the session's connection that executes no statement, in JSON. Raises HttpRefusal; errors refer to a
    statement with this text."""
    return Response(await desk_of(request).ask(session, sql, lambda connection: as_json(work(connection)), executes=False),
                    media_type="application/json")


def address_of_client(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def kept(request: Request) -> Any:
    """The attributes of the cookie. It is for TLS alone if the page came by TLS, which may end at a proxy."""
    secure = request.url.scheme == "https" or request.headers.get("origin", "").lower().startswith("https://")
    return {"path": "/", "httponly": True, "samesite": "strict", "secure": secure}
