"""The routes of the interface over HTTP, which /openapi.json describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp

from dpsql import __version__, guides
from dpsql.server.front.http import http_answers as answers
from dpsql.server.front.http import http_bodies as bodies
from dpsql.server.front.http.console_files import ConsoleFile
from dpsql.server.front.http.guide_pages import guide_page, guide_pictures
from dpsql.server.front.http.http_desk import HttpDesk
from dpsql.server.front.http.http_errors import HttpRefusal, fault_of_server, refused
from dpsql.server.front.http.http_guard import cookie_of
from dpsql.server.front.http.http_sessions import HttpSession
from dpsql.server.front.http.http_time import series_of, time_of
from dpsql.server.front.http.oversight_routes import overseeing
from dpsql.server.front.http.request_parts import ERRORS, address_of_client, desk_of, kept, session_of_request, told
from dpsql.server.front.http.sign_on_routes import signing_on

ARROW = "application/vnd.apache.arrow.stream"
ABOUT = """Differentially private answers to SQL. Log in at /api/login, and send the token as `Authorization: Bearer TOKEN`.
Browsers have it in a cookie; then requests other than GET need the header `X-Dpsql: 1`. A session runs one statement at a time.
What is described or priced is not charged; a query is charged when it is first answered, and free whenever it is repeated.
Whole numbers beyond 2**53 are texts, and so are NaN and Infinity; dates are ISO 8601."""
OF_ARROW: Any = {200: {"content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
                       "description": "The answer. With Accept for Arrow it is a stream of rows, and what JSON tells beside them "
                       "is in the metadata `dpsql` of the schema."}}
OF_GUIDE: Any = {200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}}

api = APIRouter(prefix="/api", responses=ERRORS)


@api.get("/login", response_model=bodies.WaysIn)
async def ways_in(request: Request) -> Response:
    """Whether people can log in by single sign-on (/sign-on in a browser) as well as by a password."""
    return _json({"signs_on": desk_of(request).signs_on})


@api.post("/login", response_model=bodies.LoggedIn)
async def login(given: bodies.Credentials, request: Request) -> Response:
    """Begin a session. The password is not kept."""
    token, session = await desk_of(request).log_in(given.name, given.password, address_of_client(request))
    response = _json({"token": token, "name": session.name, "budget": session.connection.session.budget.name})
    response.set_cookie(cookie_of(request.scope), token, **kept(request))
    return response


@api.post("/logout", response_model=bodies.Nothing)
async def logout(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """End the session; a statement that runs is interrupted."""
    await desk_of(request).end(session)
    response = _json({})
    response.delete_cookie(cookie_of(request.scope), **kept(request))
    return response


@api.get("/account", response_model=bodies.OwnAccount)
async def account(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """The user, the data, and the terms of the account."""
    desk = desk_of(request)
    return await told(request, session, lambda connection: answers.account_of(connection, desk.limits, desk.policy))


@api.get("/tables", response_model=bodies.ToldTables)
async def tables(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """The tables that statements may name, as the owner declared them."""
    return await told(request, session, answers.tables_of)


@api.get("/budget", response_model=bodies.ToldBudget)
async def budget(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """What was spent, what is left, and on which statements of the analyst it was spent."""
    return await told(request, session, answers.budget_of_analyst)


@api.get("/releases", response_model=bodies.ToldReleases)
async def releases(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """Stored answers and synthetic tables of the analyst."""
    return await told(request, session, answers.releases)


@api.get("/time", response_model=bodies.ToldTime)
async def time(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """What is left in each period of growing tables, and the standing queries of the budget."""
    return await told(request, session, time_of)


@api.post("/series", response_model=bodies.ToldSeries)
async def series(asked: bodies.AskedSeries, request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """The numbers of a standing query so far, with their charts; no charge. The ledger records whom those of others are shown."""
    return await told(request, session, lambda connection: series_of(connection, asked.name))


@api.post("/describe", response_model=bodies.ToldShape)
async def describe(asked: bodies.AskedStatement, request: Request,
                   session: HttpSession = Depends(session_of_request)) -> Response:
    """The columns and parameters of a statement; no charge. Types of parameters without values are inferred."""
    values = _parameters(asked)
    return await told(request, session, lambda connection: answers.shape_of(connection, asked.sql, values), asked.sql)


@api.post("/price", response_model=bodies.ToldPrice)
async def price(asked: bodies.AskedStatement, request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """What a statement would cost, and how accurate its answer would be; no charge."""
    values = _parameters(asked)
    return await told(request, session, lambda connection: answers.price_of(connection, asked.sql, values), asked.sql)


@api.post("/query", response_model=bodies.ToldAnswer, responses=OF_ARROW)
async def query(asked: bodies.AskedQuery, request: Request, session: HttpSession = Depends(session_of_request),
                errors: bool = Query(default=False, description="with Arrow: columns of errors and intervals too")) -> Response:
    """Answer one statement, which is charged. It is interrupted if the client leaves; the charge is kept."""
    desk, values = desk_of(request), _parameters(asked)

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    if ARROW not in request.headers.get("accept", ""):
        body = await desk.ask(session, asked.sql, lambda connection: answers.answered_json(
            connection, asked.sql, values, asked.name, desk.limits.json_bytes, pace=asked.pace, charts=asked.charts), gone)
        return Response(body, media_type="application/json")
    body, about = await desk.ask(session, asked.sql, lambda connection: answers.answered_arrow(
        connection, asked.sql, values, pace=asked.pace, errors=errors), gone)
    name = quote(asked.name or "answer", safe="")
    told = json.dumps({part: about[part] for part in ("cost", "stored", "left", "confidence")})  # in ASCII, and in one line
    return Response(body, media_type=ARROW, headers={
        "Dpsql-Answer": told, "Content-Disposition": f"attachment; filename*=UTF-8''{name}.arrows"})


@api.post("/cancel", response_model=bodies.Interrupting)
async def cancel(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """Interrupt the session's running statement. Its charge is kept."""
    return _json({"interrupting": desk_of(request).cancel(session)})


@api.get("/guides", response_model=bodies.GuideNames)
async def guide_names() -> Response:
    """The names of the guides, in reading order."""
    return _json({"guides": [*guides.TOPICS]})


@api.get("/guides/{name}", responses=OF_GUIDE, response_class=Response)
async def guide(name: str) -> Response:
    """A guide, in Markdown."""
    if name not in guides.TOPICS:
        raise refused(404, "unknown-topic", "there is no such guide", try_="GET /api/guides")
    return Response(guides.page(name), media_type="text/markdown")


def _json(body: Mapping[str, Any]) -> Response:
    return Response(answers.as_json(body), media_type="application/json")


def _parameters(asked: bodies.AskedStatement) -> Any:
    """Raises HttpRefusal for a text that is no value of its type."""
    if isinstance(asked.parameters, dict):
        return {name: _value(name, given) for name, given in asked.parameters.items()}
    return tuple(_value(str(at), given) for at, given in enumerate(asked.parameters, 1))


def _value(name: str, given: Any) -> Any:
    try:
        return bodies.value_of(given)
    except ValueError:
        raise refused(400, "bad-value", f"the value of parameter {name} does not fit its type", kind="DataError",
                      sqlstate="22000", try_='{"type": "DATE", "value": "2020-01-31"}') from None


def application(desk: HttpDesk, console: Mapping[str, ConsoleFile], agents: ASGIApp | None = None) -> FastAPI:
    """The routes, without the guard. `agents` is the application for agents, or None. FastAPI's own pages are disabled, as they
    load files from other hosts."""
    app = FastAPI(title="dpsql", version=__version__, description=ABOUT, docs_url=None, redoc_url=None,
                  redirect_slashes=False)
    app.state.desk = desk
    app.include_router(api)
    app.include_router(overseeing)
    app.include_router(signing_on)
    if agents is not None:
        app.router.routes.append(Route("/mcp", agents, methods=["POST"]))  # GET would keep a connection open and send nothing

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return _file("index.html")

    @app.get("/static/{path:path}", include_in_schema=False)
    async def static(path: str) -> Response:
        return _file(path)

    def _file(name: str, files: Mapping[str, ConsoleFile] = console) -> Response:
        if name not in files:
            raise _not_found()
        return Response(files[name].content, media_type=files[name].type)

    @app.get("/guides/{name}", include_in_schema=False)
    async def guide_for_people(name: str) -> Response:
        if name not in guides.TOPICS:
            raise _not_found()
        return Response(guide_page(name), media_type="text/html; charset=utf-8")

    @app.get("/guides/pictures/{name}", include_in_schema=False)
    async def picture(name: str) -> Response:
        return _file(name, guide_pictures())

    @app.exception_handler(HttpRefusal)
    async def refusing(request: Request, refusal: HttpRefusal) -> Response:
        return Response(refusal.as_bytes(), status_code=refusal.status, headers=refusal.headers, media_type="application/json")

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, fault: RequestValidationError) -> Response:
        return await refusing(request, refused(400, "request", _malformed(fault), try_="GET /openapi.json"))

    @app.exception_handler(Exception)
    async def failed(request: Request, fault: Exception) -> Response:
        return await refusing(request, fault_of_server())

    @app.exception_handler(HTTPException)
    async def other(request: Request, fault: HTTPException) -> Response:
        allowed = (fault.headers or {}).get("Allow", "")
        refusal = refused(fault.status_code, "request", f"{request.method} is not allowed for this path" if allowed else
                          "the request is not accepted", try_=allowed)
        refusal = _not_found() if fault.status_code == 404 else refusal
        refusal.headers |= fault.headers or {}
        return await refusing(request, refusal)

    return app


def _malformed(fault: RequestValidationError) -> str:
    """Which fields are wrong, by their names alone: one may be a password."""
    found = {}
    for each in fault.errors():
        field = str(each["loc"][1])[:100] if len(each["loc"]) > 1 else "the body"
        found[field] = {"missing": "is missing", "extra_forbidden": "is not a field here"}.get(each["type"], "has the wrong form")
    return "; ".join(f"{field} {what}" for field, what in [*found.items()][:5]) or "the request has the wrong form"


def _not_found() -> HttpRefusal:
    return refused(404, "not-found", "there is nothing with this name", try_="GET /openapi.json")
