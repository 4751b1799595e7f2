"""The requests and responses for auditors and owners over HTTP, as JSON; see `http_bodies`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, StrictStr

from dpsql.catalog import name_faults
from dpsql.server.front.http.http_bodies import AskedBody, Role

Outcome = Literal["answered", "failed", "stopped", "running", "shared"]


class NamedUser(AskedBody):
    name: StrictStr = Field(max_length=name_faults.LONGEST_GIVEN)


class OverseenStatement(BaseModel):
    """A charged statement of an analyst; `number` is that of its charge. A `shared` statement reused the answer of another
    analyst."""

    number: int
    at: str
    analyst: str
    sql: str
    cost: str
    outcome: Outcome


class ToldStatements(BaseModel):
    """A page of statements, newest first. `found` is how many statements match in total. The next page begins `before` this
    number, which is null on the last page."""

    statements: list[OverseenStatement]
    found: int
    before: int | None


class OverseenAccount(BaseModel):
    """An account: `whose` is an analyst, or all of them. `limit`, `left` and `share` (the part that is spent) are null if the
    account has no limit of its own. `role` and `closed` are null if there is no user of this name. One who `signs_on` by single
    sign-on has no password here, and a role only while signed on. The account closes when `failed`, the number of its failed
    statements, reaches `may_fail`. `late` outcomes left late, so the next one waits at least `waits_seconds` if
    other statements run; if none does, it may wait less."""

    whose: str
    role: Role | None
    closed: bool | None
    signs_on: bool
    limit: str | None
    spent: str
    left: str | None
    share: float | None
    statements: int
    failed: int
    may_fail: int | None
    late: int
    waits_seconds: float


class ToldAccounts(BaseModel):
    budget: str
    total: OverseenAccount
    accounts: list[OverseenAccount]


class ToldFailure(BaseModel):
    """A statement that failed after its charge; it no longer counts if the owner has `forgiven` it. The cause may depend on rows,
    so it is not included."""

    number: int
    at: str
    analyst: str
    sql: str
    forgiven: bool


class ToldStops(BaseModel):
    """The `number` of an analyst's statements that were stopped after their charge for a `cause`. They do not count as failed."""

    analyst: str
    cause: str
    number: int


class ToldLate(BaseModel):
    """The `number` of an analyst's outcomes that left 2^`step` times the pace after the request."""

    analyst: str
    step: int
    number: int


class ToldIncidents(BaseModel):
    failures: list[ToldFailure]
    stopped: list[ToldStops]
    late: list[ToldLate]


class ToldCheck(BaseModel):
    name: str
    fine: bool
    words: str


class ToldChecks(BaseModel):
    checks: list[ToldCheck]


class ToldHealth(BaseModel):
    """`connections` of accounts are open, over all protocols. `under_way` is the number of requests that are not answered yet,
    and `waiting` of those that wait for another request of their session. `events` is the length of the ledger, and `checkpoint`
    the number of its newest checkpoint."""

    version: str
    started: str
    uptime_seconds: float
    connections: int
    most_connections: int
    under_way: int
    waiting: int
    events: int
    ledger_bytes: int | None
    checkpoint: int | None
    checkpoint_at: str | None


class NewUser(BaseModel):
    """A new user. The password was chosen at random and is shown only here."""

    name: str
    password: str
