"""What every request over HTTP passes before anything else sees it: who it is from, where it came from, and how much it holds.

1. *Host*: the name that the client asked for is one of this server, so that a page whose name was pointed at this address
   (DNS rebinding) reads nothing.
2. *Session*: a token in the header Authorization, or else in the cookie.
3. *Origin*: what changes something comes from this server's own pages, as the header Origin says, and with a cookie also has the
   header X-Dpsql, which a foreign page cannot send: no answer allows it to (CORS).
4. *Body*: of one length, whole, in time, small, and strict JSON: no NaN, no name twice, UTF-8 alone, little nesting, few values.

Every answer forbids to be framed, guessed at, or kept by caches. A fault is told without a word of what it was.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import time
from collections.abc import Mapping
from itertools import chain
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpsql.server.front.http.http_desk import HttpDesk
from dpsql.server.front.http.http_errors import HttpRefusal, fault_of_server, limited, refused
from dpsql.server.front.http.http_sessions import HttpSession
from dpsql.server.front.terms.answers_on_wire import RefusedOnWire
from dpsql.server.front.wire.listening import is_loopback

LOG = logging.getLogger("dpsql.server")
MARK = "x-dpsql"
HEAD_BYTES = 16_384  # of the first line and the headers of a request
CLOSING: Mapping[str, str] = {"Connection": "close"}
DEPTH = 10  # of nested lists and objects
MOST_VALUES = 10_000  # of a body, with the names of objects: no statement has as many parameters
READING = ("GET", "HEAD", "OPTIONS")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
ENCRYPTED: Mapping[str, str] = {"Strict-Transport-Security": "max-age=31536000"}
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy":
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"}


def cookie_of(scope: Scope) -> str:
    """The name of the cookie. Browsers send cookies to all ports of a host, so the name contains the server's port. With TLS,
    browsers accept the cookie from no other host (`__Host-`)."""
    _, port = scope["server"] or ("", None)
    return f"{'__Host-' if scope['scheme'] == 'https' else ''}dpsql-{port}"


def protecting(scheme: str) -> Mapping[str, str]:
    """The security headers of every response over HTTP or HTTPS."""
    return {**HEADERS, **ENCRYPTED} if scheme == "https" else HEADERS


class _Left(Exception):
    """The client has left before its request was whole."""


class Guard:
    """Around the application. `names` are those under which the owner says that the server is reached, beside its address."""

    def __init__(self, app: ASGIApp, desk: HttpDesk, *, names: frozenset[str]) -> None:
        self._app, self._desk, self._names = app, desk, names
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun, told = False, scope["path"].startswith(("/static/", "/guides/")) or scope["path"] == "/"

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in protecting(scope["scheme"]).items():
                    headers[name] = value
                headers["Cache-Control"] = "no-cache" if told else "no-store"
            await send(message)

        self._under_way += 1
        try:
            if self._under_way > self._desk.limits.connections:
                raise limited(RefusedOnWire("there are too many requests", sqlstate="53300"))
            await self._app(scope, await self._admitted(scope, receive), sent)
        except _Left:
            pass
        except HttpRefusal as refusal:
            if not begun:
                await _answer(refusal, sent)
        except Exception:  # a fault of ours, whose text may depend on anything
            LOG.error("a request was ended by a fault of the server")
            if not begun:
                await _answer(fault_of_server(), sent)
        finally:
            self._under_way -= 1

    async def _admitted(self, scope: Scope, receive: Receive) -> Receive:
        """What the application receives: the whole body, and later that the client has left. Raises HttpRefusal."""
        headers = Headers(scope=scope)
        if sum(map(len, (scope["raw_path"], scope["query_string"], *chain(*headers.raw)))) > HEAD_BYTES:
            raise refused(431, "too-large", f"the head of a request can have at most {HEAD_BYTES} bytes", headers=CLOSING)
        if "transfer-encoding" in headers and "content-length" in headers:  # a proxy in between may believe either
            raise refused(400, "http", "a request must state its length once", headers=CLOSING)
        host = self._host(scope, headers)
        session, by_cookie = self._session(headers, cookie_of(scope))
        scope.setdefault("state", {})["session"] = session
        _check_origin(scope, headers, host, by_cookie=by_cookie)
        limits = self._desk.limits
        try:
            async with asyncio.timeout(limits.request_seconds):
                body = await _body(receive, headers, limits.unproven_bytes if session is None else limits.message_bytes)
        except TimeoutError:
            raise refused(408, "timeout", "the request took too long", headers=CLOSING) from None
        if body:
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise refused(415, "content-type", "a body is JSON", try_="Content-Type: application/json")
            check_json(body)
        waiting = True

        async def received() -> Message:
            nonlocal waiting
            if waiting:
                waiting = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        return received

    def _host(self, scope: Scope, headers: Headers) -> str:
        """The header Host, which names this server. Raises HttpRefusal."""
        given = headers.getlist("host")
        host = given[0].lower() if len(given) == 1 else ""
        name, port = _parted(host)
        address, own_port = scope["server"] or ("", None)
        standard = {"http": 80, "https": 443}[scope["scheme"]]
        ours = _same(name, address) or (name == "localhost" and is_loopback(address))
        if name in self._names or (ours and (port or standard) == own_port):
            return host
        raise refused(403, "host", "the server does not answer under this name", try_="its address, or dpsql serve --http-name "
                                                                                      "NAME")

    def _session(self, headers: Headers, name: str) -> tuple[HttpSession | None, bool]:
        """The session of a request, if it has one, and whether it is that of a cookie."""
        now, given = time.monotonic(), headers.get("authorization")
        if given is not None:
            scheme, _, token = given.partition(" ")
            return (self._desk.sessions.find(token.strip(), now) if scheme.lower() == "bearer" else None), False
        cookie = cookie_parser(headers.get("cookie", "")).get(name)
        found = None if cookie is None else self._desk.sessions.find(cookie, now)
        return found, found is not None


def _check_origin(scope: Scope, headers: Headers, host: str, *, by_cookie: bool) -> None:
    """Raises HttpRefusal for what a page of another server may have sent."""
    foreign = refused(403, "origin", "the request is from a page of another server")
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None and origin.lower() not in {f"{scope['scheme']}://{host}", f"https://{host}"}:
        raise foreign
    if scope["path"].startswith("/api/") and site not in ("same-origin", "none"):
        raise foreign
    if by_cookie and scope["method"] not in READING:
        if origin is None:
            raise refused(403, "origin", "a request with a cookie must state its origin", try_="Authorization: Bearer TOKEN")
        if headers.get(MARK) != "1":
            raise refused(403, "mark", "a request with a cookie must have the header X-Dpsql", try_="X-Dpsql: 1")


def _parted(host: str) -> tuple[str, int | None]:
    """The name and the port of a header Host; an empty name where it is none."""
    found = _HOST.fullmatch(host)
    return ("", None) if found is None else (found[1].removeprefix("[").removesuffix("]"), int(found[2]) if found[2] else None)


def _same(name: str, address: str) -> bool:
    """Whether both are one address of the internet: names are none."""
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(address)
    except ValueError:
        return False


async def _body(receive: Receive, headers: Headers, most: int) -> bytes:
    """The whole body. Raises HttpRefusal if it is larger than `most` bytes."""
    too_large = refused(413, "too-large", f"a request has {most} bytes at most", sqlstate="54000", headers=CLOSING)
    announced = headers.get("content-length", "0")
    if not announced.isdigit() or int(announced[:20]) > most:
        raise too_large
    found = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Left
        found += message.get("body", b"")
        if len(found) > most:
            raise too_large
        if not message.get("more_body", False):
            return bytes(found)


def check_json(body: bytes) -> None:
    """Raises HttpRefusal unless the body is strict JSON in UTF-8 that is not nested deeply."""
    try:
        _check_value(json.loads(body.decode("utf-8"), parse_constant=_none_such, object_pairs_hook=_once), DEPTH)
    except (ValueError, RecursionError):
        raise refused(400, "json", "the body is not JSON of an accepted form",
                      try_="UTF-8, finite numbers, each name once, little nesting, few values") from None


def _none_such(name: str) -> Any:
    raise ValueError("NaN and Infinity are not valid JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name occurs twice")
    return made


def _check_value(value: Any, depth: int, number: int = 0) -> int:
    """How many values there are, with the `number` of those before. Raises ValueError, which UnicodeEncodeError is too."""
    if number >= MOST_VALUES:
        raise ValueError("too many values")
    number += 1
    match value:
        case str():
            value.encode("utf-8")
        case float() if value in (float("inf"), float("-inf")):
            raise ValueError("the number is too large")
        case list() | dict():
            if not depth:
                raise ValueError("nested too deeply")
            for part in value if isinstance(value, list) else (*value, *value.values()):
                number = _check_value(part, depth - 1, number)
    return number


async def _answer(refusal: HttpRefusal, send: Send) -> None:
    headers = {"content-type": "application/json", **refusal.headers}
    await send({"type": "http.response.start", "status": refusal.status,
                "headers": [(name.lower().encode("ascii"), value.encode("ascii")) for name, value in headers.items()]})
    await send({"type": "http.response.body", "body": refusal.as_bytes()})
