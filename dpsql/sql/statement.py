"""What a text may ask for: the kinds of statement, with the text they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp

from dpsql.plan.expr.nodes import Value
from dpsql.types import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One `name = value` of an OPTIONS clause."""

    name: str
    value: Value
    span: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A SELECT, as sqlglot's tree, with its OPTIONS."""

    tree: exp.Query
    text: str
    options: tuple[Option, ...] = ()
    parameters: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN PRIVACY <query or VALIDATE>: what would be done, spending nothing."""

    query: Query | Validate


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """WITHIN <n> | <n> PERCENT [OR <n>]: how far two answers may be apart; the larger of the two where both are given."""

    absolute: Fraction | None
    percent: Fraction | None
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A query of VALIDATE with its tolerance."""

    query: Query
    width: Width | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """<table> [FOR <instead>]: a synthetic table and the private one that it stands for; None: the only one there is."""

    table: str
    instead: str | None
    span: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate:
    """VALIDATE: whether synthetic tables answer queries as the private ones do."""

    checks: tuple[Checked, ...]
    standing: tuple[Standing, ...] = ()
    options: tuple[Option, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """SHOW BUDGET | RELEASES | TABLES."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE <table>: the declared columns."""

    table: str
    span: Span


Statement = Query | Validate | Explain | Show | Describe
PARAMETER = "\x01"
"""First letter of the identifiers that stand for parameters; no text can contain it."""
