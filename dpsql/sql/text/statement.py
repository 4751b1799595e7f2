"""What a text may ask for: the kinds of statement, with the text they came from."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, TypeAlias

from sqlglot import exp

from dpsql.frozen import Frozen, field, replace
from dpsql.sql.text.places import nodes_of, span_of
from dpsql.trusted.cached import cached_property
from dpsql.trusted.plan.expr.nodes import Value
from dpsql.types import Span


class Option(Frozen):
    """One `name = value` of an OPTIONS clause."""

    name: str
    value: Value
    span: Span | None


class Goal(Frozen):
    """ERROR WITHIN x [CONFIDENCE p], ERROR WITHIN x PERCENT OF y [CONFIDENCE p], or STANDARD ERROR x.

    kind        ranks: WITHIN x ROWS, and share: WITHIN x PERCENT OF ROWS, of quantiles
    of          what `amount` is a percentage of; None: it is in the unit of the answer
    confidence  None: that of the statement's intervals
    column      the place in the SELECT list; None: every column without an accuracy of its own
    """

    kind: Literal["within", "standard", "ranks", "share"]
    amount: Fraction
    of: Fraction | None = None
    confidence: Fraction | None = None
    column: int | None = None
    span: Span | None = None

    @property
    def size(self) -> Fraction:
        """The half-width, or the standard error, in the unit of the answer."""
        return self.amount if self.of is None else self.amount * self.of / 100


class Query(Frozen):
    """A SELECT, as sqlglot's tree, with its OPTIONS and the accuracy that is asked for.

    `errors` says whether the ends of intervals are shown as columns. It is none of the `options`, as these decide what is
    released, and so it does not tell two statements apart: the stored answer is found with or without.
    """

    tree: exp.Query
    text: str
    options: tuple[Option, ...] = ()
    parameters: tuple[str, ...] = field(default=())
    goals: tuple[Goal, ...] = ()
    errors: Option | None = None

    @property
    def shows_ends(self) -> bool:
        return self.errors is not None and self.errors.value is True

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that the query names, without those that it defines in WITH."""
        found = [node for node in nodes_of(self.tree) if isinstance(node, exp.CTE | exp.Table)]
        made = {part.alias.lower() for part in found if isinstance(part, exp.CTE)}
        return tuple(part.name for part in found if isinstance(part, exp.Table) and (
            part.name.lower() not in made or _defines(part)))

    def place_of(self, table: str) -> Span | None:
        """Where the query names a table."""
        found = (part for part in nodes_of(self.tree) if isinstance(part, exp.Table) and part.name == table)
        return next((span_of(part.this) for part in found), None)

    @property
    def all_options(self) -> tuple[Option, ...]:
        """All options of its clause."""
        return self.options if self.errors is None else (*self.options, self.errors)


def _defines(table: exp.Expr) -> bool:
    """Whether a table is read to make one of the same name: WITH t AS (SELECT * FROM t) ..."""
    around = table.find_ancestor(exp.CTE)
    return around is not None and around.alias.lower() == table.name.lower()


class Explain(Frozen):
    """EXPLAIN PRIVACY <what can be explained>: what would be done, spending nothing."""

    query: Explained


class Width(Frozen):
    """WITHIN <n> | <n> PERCENT [OR <n>]: how far two answers may be apart; the larger of the two where both are given."""

    absolute: Fraction | None
    percent: Fraction | None
    span: Span | None = None


class CheckedQuery(Frozen):
    """A query of VALIDATE with its tolerance."""

    query: Query
    width: Width | None


class Standing(Frozen):
    """<table> [FOR <instead>]: a synthetic table and the private one that it stands for; None: the only one there is."""

    table: str
    instead: str | None
    span: Span | None


class Validate(Frozen):
    """VALIDATE: whether synthetic tables answer queries as the private ones do."""

    checks: tuple[CheckedQuery, ...]
    standing: tuple[Standing, ...] = ()
    options: tuple[Option, ...] = ()
    text: str = ""


class Synthesize(Frozen):
    """CREATE SYNTHETIC TABLE: rows drawn from a private model of the rows of a query."""

    name: str
    query: Query
    options: tuple[Option, ...] = ()
    text: str = ""
    span: Span | None = None


class SynthesizeTables(Frozen):
    """CREATE SYNTHETIC TABLES: several tables that hang together by foreign keys. The options are those of all of them."""

    tables: tuple[Synthesize, ...]
    options: tuple[Option, ...] = ()
    text: str = ""
    span: Span | None = None


class OpenModel(Frozen):
    """CREATE ONLINE MODEL: a model of the rows of a query that is paid for once, and then asked for counts."""

    name: str
    query: Query
    options: tuple[Option, ...] = ()
    text: str = ""
    span: Span | None = None


class Drop(Frozen):
    """DROP SYNTHETIC TABLE <name>: the table is not listed any more, and its name is free."""

    name: str
    text: str
    span: Span


class CreateStandingQuery(Frozen):
    """CREATE STANDING QUERY: a query that `dpsql publish` answers for each period of a growing table after it closes."""

    name: str
    query: Query
    options: tuple[Option, ...]
    text: str
    span: Span

    @property
    def priced_query(self) -> Query:
        """The query with the options of the statement."""
        return replace(self.query, options=self.options)


class DropStandingQuery(Frozen):
    """DROP STANDING QUERY <name>: the query is not published any more, and its name is free."""

    name: str
    text: str
    span: Span


class Show(Frozen):
    """SHOW BUDGET | PERIODS | RELEASES | STANDING QUERIES | TABLES."""

    what: str


class Describe(Frozen):
    """DESCRIBE <table>: the declared columns."""

    table: str
    span: Span
    text: str


Explained: TypeAlias = Query | Validate | Synthesize | SynthesizeTables | OpenModel | CreateStandingQuery
Statement: TypeAlias = Explained | Explain | Drop | DropStandingQuery | Show | Describe
PARAMETER = "\x01"
"""First letter of the identifiers that stand for parameters; no text can contain it."""
LISTED = "listed"
"""In the `meta` of VALUES: its one row holds a parameter, whose value is the list of the rows."""
