"""The routes for auditors and owners, under /api/oversight. The vault refuses analysts with the error `role`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Query, Request, Response

from dpsql.catalog import name_faults
from dpsql.server.front.http import http_oversight as oversight
from dpsql.server.front.http import oversight_bodies as bodies
from dpsql.server.front.http.http_bodies import Nothing
from dpsql.server.front.http.http_errors import refused
from dpsql.server.front.http.http_sessions import HttpSession
from dpsql.server.front.http.request_parts import ERRORS, desk_of, session_of_request, told
from dpsql.server.link.told_to_overseers import MOST_LISTED, is_moment

OF_CSV: Any = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "All statements that match"}}
LONGEST_TEXT = 1000

overseeing = APIRouter(prefix="/api/oversight", responses=ERRORS)


def terms_of(analyst: str = Query("", max_length=name_faults.LONGEST_GIVEN), text: str = Query("", max_length=LONGEST_TEXT),
             outcome: bodies.Outcome | None = None, since: str = Query("", max_length=40),
             until: str = Query("", max_length=40)) -> oversight.Terms:
    """The search for statements in a request. Raises HttpRefusal if a time is invalid, or a text contains NUL."""
    if "\0" in analyst + text:
        raise refused(400, "request", "text and analyst cannot contain NUL")
    return analyst, text, outcome or "", _moment("since", since), _moment("until", until)


def _moment(name: str, given: str) -> str:
    """A time in ISO form with its zone. Raises HttpRefusal."""
    if is_moment(given):
        return given
    raise refused(400, "request", f"{name} is not a time with its zone", try_=f"{name}=2026-01-31T00:00:00%2B00:00")


@overseeing.get("/statements", response_model=bodies.ToldStatements)
async def statements(request: Request, terms: oversight.Terms = Depends(terms_of), before: int = Query(0, ge=0, lt=2**63),
                     most: int = Query(100, ge=1, le=MOST_LISTED),
                     session: HttpSession = Depends(session_of_request)) -> Response:
    """A page of the charged statements of all analysts, without answers."""
    return await told(request, session, lambda connection: oversight.statements_of(connection, terms, before, most))


@overseeing.get("/statements.csv", responses=OF_CSV, response_class=Response)
async def statements_as_csv(request: Request, terms: oversight.Terms = Depends(terms_of),
                            session: HttpSession = Depends(session_of_request)) -> Response:
    """The statements of all pages, as a file."""
    desk = desk_of(request)
    body = await desk.ask(session, "", lambda connection: oversight.statements_csv(connection, terms, desk.limits.json_bytes),
                          executes=False)
    return Response(body, media_type="text/csv", headers={"Content-Disposition": 'attachment; filename="statements.csv"'})


@overseeing.get("/accounts", response_model=bodies.ToldAccounts)
async def accounts(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """What each analyst has spent and has left, and how many of their statements failed."""
    return await told(request, session, oversight.accounts)


@overseeing.get("/incidents", response_model=bodies.ToldIncidents)
async def incidents(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """Statements that failed after their charge, or were stopped, and outcomes that left late."""
    return await told(request, session, oversight.incidents)


@overseeing.post("/checks", response_model=bodies.ToldChecks)
async def checks(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """Check the policy and verify the whole ledger, at most once a minute."""
    return await told(request, session, oversight.checks)


@overseeing.get("/health", response_model=bodies.ToldHealth)
async def health(request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """The state of the server and its ledger."""
    desk = desk_of(request)
    under_way, waiting = desk.use.number_running, sum(each.waiting for each in desk.sessions.all())
    return await told(request, session, lambda connection: oversight.health(
        connection, most=desk.limits.connections, under_way=under_way, waiting=waiting))


@overseeing.post("/users", response_model=bodies.NewUser)
async def add_user(asked: bodies.NamedUser, request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """For owners: add an analyst of this budget."""
    return await told(request, session, lambda connection: oversight.added(connection, asked.name))


@overseeing.post("/users/close", response_model=Nothing)
async def close_user(asked: bodies.NamedUser, request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """For owners: close an account. Its next request fails."""
    return await told(request, session, lambda connection: oversight.closed(connection, asked.name, closed=True))


@overseeing.post("/users/reopen", response_model=Nothing)
async def reopen_user(asked: bodies.NamedUser, request: Request, session: HttpSession = Depends(session_of_request)) -> Response:
    """For owners: reopen an account that an owner has closed. Incidents are not forgiven."""
    return await told(request, session, lambda connection: oversight.closed(connection, asked.name, closed=False))
