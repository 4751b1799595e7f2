"""The forms of what tools return, which clients get as output schemas."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class Agreement(BaseModel):
    """The answer of a person to the question whether a statement may be asked."""

    agree: bool = Field(description="Ask this statement and charge its cost to the budget")


class TableForm(BaseModel):
    """A table that can be queried."""

    name: str
    public: bool = Field(description="Its rows are answered exactly and for free")
    rows_per_entity: int | None = Field(description="The most rows of one protected entity that are used")
    key: list[str]
    columns: list[dict[str, Any]] = Field(description="Name, type, declared values and their number, bounds, bins, may_be_null")
    rules: list[str]


class TodayForm(BaseModel):
    """The share of an account for this day (UTC), and what is left of it."""

    share: str
    left: str
    share_left: float = Field(description="The part of the share that is left, from 0 to 1")
    renews: str = Field(description="When the whole share is available again: the next midnight, in UTC")


class CatalogueForm(BaseModel):
    """The public facts of the data and the state of the budget."""

    analyst: str
    budget: str
    protects: str = Field(description="The entity that each answer protects")
    unit: str = Field(description="The unit of `most`: epsilon or rho")
    usual_price: str | None = Field(description="The price of a statement that states none")
    confidence: float
    accounts: list[dict[str, Any]] = Field(description="What is left of the budget of all analysts, and of this one")
    failures_left: int = Field(description="How many statements may still fail after their charge before the account closes")
    today: TodayForm | None = Field(description="The share of this account for today; None if the owner sets none")
    confirm_above: str | None = Field(description="Above this price a person has to agree")
    tables: list[TableForm]
    examples: list[str]
    notes: list[str]


class PriceForm(BaseModel):
    """The price and the expected accuracy of a statement. Nothing was charged."""

    cost: str
    free: bool
    stored: bool = Field(description="It was answered before, so it is free")
    epsilon: float | None
    rho: float | None
    affordable: bool = Field(description="What is left now pays for it")
    needs_consent: bool = Field(description="A person has to agree before it is asked")
    expected: list[dict[str, Any]] = Field(description="The standard error of each aggregate; null if it depends on the data")
    columns: list[dict[str, Any]]
    groups: str
    left: list[str]
    today: TodayForm | None = Field(description="The share of this account for today, which the price has to fit as well")
    notes: list[str]


class PlanForm(PriceForm):
    """The same with the plan, line by line."""

    plan: list[str]


class AnswerTableForm(BaseModel):
    """Rows with the standard error and the interval of each cell; null for exact cells, and for an end that is open."""

    columns: list[dict[str, Any]]
    rows: list[list[Any]]
    errors: list[list[float | None]]
    intervals: list[list[list[Any] | None]]
    confidence: float | None
    rows_in_all: int = Field(description="`released` with the number and an offset gives further rows")
    offset: int
    notes: list[str]


class AnsweredForm(AnswerTableForm):
    """An answer, its cost, its number in the ledger, and what is left."""

    cost: str
    number: int | None = Field(description="The number of the statement in the ledger, for `released`")
    stored: bool
    left: list[str]


class ReleasedForm(BaseModel):
    """What was released to this account before, newest first."""

    statements: list[dict[str, Any]]
    in_all: int
    offset: int
    answer: AnswerTableForm | None


class ClaimForm(BaseModel):
    """A number of a text and what the ledger says of it."""

    written: str
    start: int
    end: int
    verdict: Literal["supported", "contradicted", "not from here"]
    statement: int | None
    sql: str | None
    shared: bool | None = Field(description="Whether another account paid for the answer, which this one was told")
    released: dict[str, Any] | None


class ClaimsForm(BaseModel):
    """Every number of a text, compared with what was released to this account, or shared with it."""

    findings: list[ClaimForm]
    supported: int
    contradicted: int
    not_from_here: int
    whole: bool = Field(description="False if the text was too long, so that not all numbers were compared")
    all_answers: bool = Field(description="False if there are so many answers that the oldest were not compared")
