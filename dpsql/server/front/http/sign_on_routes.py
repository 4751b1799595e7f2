"""Single sign-on for browsers: the redirect to the provider, and the redirect back. The vault checks the proof (`sign_on`).

The browser gets the state that the vault makes twice: in the address of the provider, which sends it back, and in a cookie for
these pages alone. Only a browser that has both is signed on, so no link can sign somebody on as another person. The cookie is
Lax, because the redirect back comes from another site; the cookie of the session stays Strict.

Whether these pages come by HTTPS follows from the address that the owner has registered for the way back, because TLS may end at
a proxy, and no header says so here: browsers send no Origin when they follow a link. By HTTPS, the name of the cookie begins with
`__Host-`, so browsers accept it from this host alone, and by HTTPS alone. Otherwise a page of a neighbouring host, or somebody
who answers for this host without TLS, could set the state of a sign-on of their own. An address by HTTP is one of the user's own
machine (`sign_on_terms`).
"""

from __future__ import annotations

import hmac
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from starlette.requests import cookie_parser

from dpsql.server.front.http.http_errors import HttpRefusal, refused
from dpsql.server.front.http.http_guard import cookie_of
from dpsql.server.front.http.request_parts import address_of_client, desk_of, kept

GOOD_FOR = 600  # seconds
REASONS = {"role": "role", "user": "closed", "limit": "busy", "login-busy": "busy"}  # for the page; others: `failed`

signing_on = APIRouter(prefix="/sign-on", include_in_schema=False)


@signing_on.get("")
async def begin(request: Request) -> RedirectResponse:
    """Redirect to the provider."""
    if not desk_of(request).signs_on:
        raise refused(404, "not-found", "single sign-on is not configured", try_="POST /api/login")
    try:
        address, state = await desk_of(request).begin_sign_on(address_of_client(request))
    except HttpRefusal as refusal:
        return _to_page(refusal)
    made = RedirectResponse(address, status_code=303)
    made.set_cookie(_cookie(request), state, max_age=GOOD_FOR, **_of_the_state(request))
    return made


@signing_on.get("/back")
async def back(request: Request, code: str = "", state: str = "") -> RedirectResponse:
    """Receive the redirect from the provider; begin a session, or redirect to a page that says why not."""
    own = cookie_parser(request.headers.get("cookie", "")).get(_cookie(request), "")
    try:
        if not desk_of(request).signs_on or not state or not hmac.compare_digest(own.encode(), state.encode()):
            raise refused(400, "sign-on", "the sign-on failed")
        token, _ = await desk_of(request).sign_on(code, state, address_of_client(request))
    except HttpRefusal as refusal:
        made = _to_page(refusal)
    else:
        made = RedirectResponse("/?sign-on=done", status_code=303)
        made.set_cookie(cookie_of(request.scope), token, **_kept(request))
    made.delete_cookie(_cookie(request), **_of_the_state(request))
    return made


def _to_page(refusal: HttpRefusal) -> RedirectResponse:
    return RedirectResponse(f"/?sign-on={REASONS.get(refusal.body['error']['code'], 'failed')}", status_code=303)


def _cookie(request: Request) -> str:
    plain = cookie_of(request.scope).removeprefix("__Host-")
    return f"{'__Host-' if desk_of(request).signs_on_by_https else ''}{plain}-sign-on"


def _kept(request: Request) -> Any:
    return {**kept(request), "secure": desk_of(request).signs_on_by_https}


def _of_the_state(request: Request) -> Any:
    """The attributes of the cookie of the state. Browsers accept a name with `__Host-` only for all pages of a host."""
    return {**_kept(request), "samesite": "lax", "path": "/" if desk_of(request).signs_on_by_https else "/sign-on"}
