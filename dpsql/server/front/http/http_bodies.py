"""What is sent and answered over HTTP, as JSON: the shapes that the description of the interface tells.

Whole numbers that JavaScript would round (beyond 2**53) are texts, and so are NaN and Infinity, which JSON does not have; the
type of the column tells what they are. Dates are ISO 8601.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from dpsql.catalog import name_faults
from dpsql.catalog.model import LONGEST_PACE

Cell = bool | int | float | str | None
Role = Literal["analyst", "auditor", "owner"]


class AskedBody(BaseModel):
    """What a client sends; a field that is unknown is a mistake of theirs."""

    model_config = ConfigDict(extra="forbid")


class Credentials(AskedBody):
    name: StrictStr = Field(max_length=name_faults.LONGEST_GIVEN)
    password: StrictStr = Field(max_length=1000)


class TypedValue(AskedBody):
    """A value of a type that JSON does not have, as text: a date, a timestamp, or a whole number that JavaScript would round."""

    type: Literal["DATE", "TIMESTAMP", "BIGINT", "DOUBLE"]
    value: StrictStr = Field(max_length=100)


GivenValue = StrictBool | StrictInt | StrictFloat | StrictStr | TypedValue | None
Given = GivenValue | list[GivenValue]


class AskedStatement(AskedBody):
    """One statement, and the values of its parameters: a list for ? and $1, an object for :name. A value may be a list, for
    = ANY($1)."""

    sql: StrictStr
    parameters: list[Given] | dict[str, Given] = Field(default_factory=list)


class AskedQuery(AskedStatement):
    """`name` is what the answer is called: it is given back, and is the name of the file where the answer is one of Arrow. With
    `charts`, an answer in JSON has its charts. An answer leaves after `pace` seconds at the earliest: set it
    for a statement that you know to be slow, so that its answer is not late."""

    name: StrictStr | None = Field(default=None, max_length=200)
    pace: StrictFloat = Field(default=0.0, ge=0, le=LONGEST_PACE)
    charts: StrictBool = False


class ToldError(BaseModel):
    """`type` is a class of errors of dpsql, `start` and `end` are the characters of the statement at fault, and `sqlstate` is as
    in PostgreSQL. What `try` says would help."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_alias=True)

    type: str
    code: str
    message: str
    try_: str | None = Field(alias="try")
    start: int | None
    end: int | None
    line: int | None
    sqlstate: str


class ErrorBody(BaseModel):
    error: ToldError


class WaysIn(BaseModel):
    """Whether people can also sign on at an identity provider."""

    signs_on: bool


class LoggedIn(BaseModel):
    token: str
    name: str
    budget: str


class Nothing(BaseModel):
    """An empty object: it is done."""


class Interrupting(BaseModel):
    """Whether a statement ran, which is being interrupted."""

    interrupting: bool


class ToldLimits(BaseModel):
    """`text_bytes` of one statement, how many `statements_a_minute` and `statements_at_once` an account has, and after how many
    seconds a session ends: `idle_seconds` without a request, `session_seconds` in all."""

    text_bytes: int
    statements_a_minute: int
    statements_at_once: int
    idle_seconds: float
    session_seconds: float


class OwnAccount(BaseModel):
    """`role` is the user's role at the login; `unit` says who is protected; `grows` whether some tables grow by periods; `price`
    is the cost of a statement that does not state one, or null."""

    name: str
    role: Role
    budget: str
    unit: str
    grows: bool
    confidence: float
    policy: str
    price: str | None
    notes: list[str]
    limits: ToldLimits


class ToldColumn(BaseModel):
    """`words` say what the owner declared: values and bounds; `values` are the texts among them."""

    name: str
    type: str
    nullable: bool
    words: str
    values: list[str]


class ToldTable(BaseModel):
    name: str
    public: bool
    columns: list[ToldColumn]
    notes: list[str]


class ToldTables(BaseModel):
    """Tables, and `words` of SQL: with the columns, what an editor can offer."""

    tables: list[ToldTable]
    words: list[str]


class ToldLine(BaseModel):
    """An account that pays: `whose` is an analyst, or all of them; `share` is the part that is spent."""

    whose: str
    limit: str
    spent: str
    left: str
    share: float


class ToldDayShare(ToldLine):
    """What the analyst may spend on this day; it is whole again at the time `renews`."""

    renews: str


class ChargedStatement(BaseModel):
    at: str
    sql: str
    cost: str
    outcome: Literal["answered", "failed", "stopped", "running"]


class ToldBudget(BaseModel):
    """The accounts that pay, the analyst's share of this day (null if they have none), and the newest statements that the analyst
    was charged for, oldest first."""

    budget: str
    words: str
    accounts: list[ToldLine]
    today: ToldDayShare | None
    history: list[ChargedStatement]


class NamedType(BaseModel):
    name: str
    type: str


class ToldShape(BaseModel):
    """The columns and the parameters of a statement. Names of parameters are those of an object of their values: ``1`` of $1, and
    ``least`` of :least. Those of ? are ``?1``, ``?2`` ..., and their values a list."""

    columns: list[NamedType]
    parameters: list[NamedType]


class ExpectedError(BaseModel):
    """The expected standard error of a column, or of an aggregate that no column shows alone; null if it depends on the data,
    as `words` say."""

    column: str
    error: float | None
    words: str


class PlanBranch(BaseModel):
    """A line of a plan, why it is so, and the lines that hang below it."""

    words: str
    because: str
    children: list[PlanBranch]


class PayingAccount(BaseModel):
    """An account that would pay: `whose` is an analyst, or all of them. What is left of it now, and after it, in words and as
    parts of its limit; after it, null if it has no room for the statement."""

    whose: str
    left: str
    part_left: float
    left_after: str | None
    part_left_after: float | None


class ToldPrice(BaseModel):
    """What EXPLAIN tells. `accounts` are those that would pay, none if it is free. `share` is the greatest part of what is
    left of one that it would take; null if it is free, or one has no room. `costly` means that this is so much that a person
    should be asked first. `plan` has the lines of the plan, and `tree` the same for programs."""

    cost: str
    affordable: bool
    stored: bool
    costly: bool
    share: float | None
    accounts: list[PayingAccount]
    errors: list[ExpectedError]
    notes: list[str]
    plan: list[str]
    tree: list[PlanBranch]


class AnsweredColumn(BaseModel):
    """`exact`: without any error; `approximate`: its errors and intervals are approximate."""

    name: str
    type: str
    exact: bool
    approximate: bool


class CellError(BaseModel):
    """The ends of the interval that holds the true value with the confidence of the answer, and the standard error."""

    low: Cell
    high: Cell
    error: Cell


class ToldChart(BaseModel):
    """A column of numbers as pictures in SVG, for broad, wide and narrow places. `number` distinguishes columns of the
    same name, and `notes` say what the marks mean and what is not drawn. Colours are variables of CSS: --text, --dim, --line,
    --bar, --mark, and of groups --c0 to --c9."""

    number: int
    column: str
    form: Literal["bars", "lines", "dot"]
    caption: str
    notes: list[str]
    broad: str
    wide: str
    narrow: str


class ToldAnswer(BaseModel):
    """Rows, and beside each cell its error. `cost` is empty if nothing was charged; `left` says what is left, in words.
    `charts`, where they were asked for, are of each column of numbers in one or several forms, the best first; `undrawn` says why
    there are none, or no more."""

    name: str | None
    columns: list[AnsweredColumn]
    rows: list[list[Cell]]
    errors: list[list[CellError | None]]
    cost: str
    stored: bool
    notes: list[str]
    left: str
    confidence: float | None
    charts: list[ToldChart]
    undrawn: str | None


class StoredAnswer(BaseModel):
    number: int
    at: str
    sql: str
    cost: str


class OwnTable(BaseModel):
    name: str
    columns: list[str]


class ToldReleases(BaseModel):
    """Stored answers of the analyst, which cost nothing when they are asked for again, and synthetic tables of their own."""

    answers: list[StoredAnswer]
    tables: list[OwnTable]


class ToldPeriod(BaseModel):
    """What is left in a closed period, or in the consecutive periods in which the least is left; `whose` account, or all.
    `revised` says when the owner declared that its rows were corrected, and why."""

    tables: str
    period: str
    whose: str
    limit: str
    left: str
    revised: str


class ToldStandingQuery(BaseModel):
    """A standing query: the `last` period that was measured and the `next` one, the day on which it `closes`, the price of a
    period and of a year, and whether the budget has room for it. `own` is what the user made; the numbers of others are
    `readable` where the budget shares answers."""

    name: str
    analyst: str
    last: str
    next: str
    closes: str
    price: str
    year_in_period: str
    year_in_all: str
    room: str
    statement: str
    own: bool
    readable: bool


class ToldTime(BaseModel):
    periods: list[ToldPeriod]
    queries: list[ToldStandingQuery]


class AskedSeries(AskedBody):
    """The name of a standing query."""

    name: StrictStr = Field(max_length=63)


class MeasuredPeriod(BaseModel):
    """A period with its first and last day, and what a person in it was charged for it, and a person in all."""

    period: str
    first: str
    last: str
    price_in_period: str
    price_in_all: str


class ToldSeries(BaseModel):
    """The numbers of a standing query so far: no `answer` if none was measured."""

    name: str
    answer: ToldAnswer | None
    periods: list[MeasuredPeriod]


class GuideNames(BaseModel):
    guides: list[str]


def value_of(given: Any) -> Any:
    """A parameter in the form that the engine takes. Raises ValueError for a text that is not a value of its type."""
    if isinstance(given, list):
        return tuple(value_of(each) for each in given)
    if not isinstance(given, TypedValue):
        return given
    match given.type:
        case "DATE":
            return dt.date.fromisoformat(given.value)
        case "TIMESTAMP":
            return dt.datetime.fromisoformat(given.value)
        case "BIGINT":
            return int(given.value)
        case _:
            return float(given.value)
