"""What auditors and owners ask and are told over HTTP, as JSON; see `http_bodies`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, StrictStr

from dpsql.catalog import name_faults
from dpsql.server.front.http.http_bodies import AskedBody, Role

Outcome = Literal["answered", "failed", "stopped", "running", "shared"]


class NamedUser(AskedBody):
    name: StrictStr = Field(max_length=name_faults.LONGEST_GIVEN)


class OverseenStatement(BaseModel):
    """A charged statement of an analyst, by the number of its charge. One that is `shared` was answered by the charge of another
    analyst."""

    number: int
    at: str
    analyst: str
    sql: str
    cost: str
    outcome: Outcome


class ToldStatements(BaseModel):
    """A page of statements, newest first. `found` is how many fit in all; the next page is that `before` this number, null after
    the last."""

    statements: list[OverseenStatement]
    found: int
    before: int | None


class OverseenAccount(BaseModel):
    """An account: `whose` is an analyst, or all of them; without a limit of its own, `limit`, `left` and `share` (the part that
    is spent) are null. `role` and `closed` are null if nobody of this name can log in. Of `may_fail` statements, `failed` did;
    `late` outcomes left late, so the next one waits `waits_seconds`."""

    whose: str
    role: Role | None
    closed: bool | None
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
    so it is not recorded."""

    number: int
    at: str
    analyst: str
    sql: str
    forgiven: bool


class ToldLate(BaseModel):
    """How many outcomes left 2^`step` times as late as the first step."""

    analyst: str
    step: int
    number: int


class ToldIncidents(BaseModel):
    failures: list[ToldFailure]
    late: list[ToldLate]


class ToldCheck(BaseModel):
    name: str
    fine: bool
    words: str


class ToldChecks(BaseModel):
    checks: list[ToldCheck]


class ToldHealth(BaseModel):
    """`connections` of accounts are open by all protocols; `under_way` are statements and other requests without an answer, and
    `waiting` those that wait for another one of their session. The ledger has so many events; the newest checkpoint is the event
    `checkpoint`."""

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
    """A user with a password that was chosen at random, and is told this once."""

    name: str
    password: str
