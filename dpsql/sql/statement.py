"""What a text may ask for: the kinds of statement, with the text they came from."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.plan.expr.nodes import Value
from dpsql.types import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One `name = value` of an OPTIONS clause."""

    name: str
    value: Value
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A SELECT, as sqlglot's tree, with its OPTIONS."""

    tree: exp.Query
    text: str
    options: tuple[Option, ...] = ()
    parameters: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """EXPLAIN PRIVACY <query>: what would be done, spending nothing."""

    query: Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """SHOW BUDGET | RELEASES | TABLES."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """DESCRIBE <table>: the declared columns."""

    table: str
    span: Span


Statement = Query | Explain | Show | Describe
PARAMETER = "\x01"
"""First letter of the identifiers that stand for parameters; no text can contain it."""
