"""A bound statement: a private view, what is aggregated over it, and what is done with the noisy results."""

from __future__ import annotations

from fractions import Fraction

from dpsql.frozen import Frozen, field
from dpsql.questions.all_aggregates import AGGREGATES, Aggregate
from dpsql.trusted.declarations.tables import Domain
from dpsql.trusted.plan.expr.nodes import Expr, Placeholder, Value
from dpsql.trusted.plan.node import Node
from dpsql.trusted.plan.operators.statistics import ExactAggregate
from dpsql.types import Span, Type


class Key(Frozen):
    """A key of the outermost GROUP BY: a column of the view. `domain` is None if its values are private.

    `nullable` says that NULL is one of the groups.
    """

    column: str
    name: str
    type: Type
    domain: Domain | None
    nullable: bool
    span: Span | None = None

    @property
    def values(self) -> tuple[Value, ...]:
        """The declared values, NULL last."""
        return (*(self.domain.values if self.domain is not None else ()), *((None,) if self.nullable else ()))


class Combinations(Frozen):
    """The values that some keys, which vary together, can have in one row, as a public table says; and those that they could have
    without the conditions of the query. `enforced`: no row has others; else the policy says so of private columns."""

    keys: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...] = field(repr=False)
    unconditioned: tuple[tuple[Value, ...], ...] = field(repr=False)
    enforced: bool = True

    def __hash__(self) -> int:
        return hash((self.keys, self.enforced))  # the rows are many


class GroupingLevel(Frozen):
    """GROUPING(keys): for each group a number whose bits, the last key's first, say which of the keys are summed out."""

    id: str
    keys: tuple[str, ...]


class OverGroups(Frozen):
    """Which groups an aggregate is added up over: those with the same values of the keys `within` whose value of the key `order`,
    if there is one, lies in a frame.

    rows         ends count groups in this order, and else distances from the group's own value, where 0 is that value
    start, end   of the frame, after the group itself; None for no end
    mean         divided by the number of these groups
    """

    within: tuple[str, ...]
    order: str | None = None
    descending: bool = False
    nulls_first: bool = False
    rows: bool = False
    start: float | None = None
    end: float | None = None
    mean: bool = False

    @property
    def by_number(self) -> bool:
        """Whether an end of the frame is a number of groups away. The frame then depends on which groups there are, and all
        combinations of the values of keys are groups."""
        return self.rows and bool(self.start or self.end)


class AggregateCall(Frozen):
    """One aggregate over the view, named `id` in outputs. `column` and `when` name columns of the view.

    function   a name in `AGGREGATES`
    columns    the arguments, or their logarithms; none for COUNT(*); of two columns, the product of their distances from the
               middles too
    fraction   of a quantile
    discrete   a quantile is one of the values
    values     of count_distinct and mode: all values that there can be, but for NULL; None where the policy does not tell
    over       the groups that it is added up over; None: its own
    beyond     its arguments may have values beyond their known range, which follows from a limit that leaves out rows
    """

    id: str
    function: str
    columns: tuple[str, ...] = ()
    when: str | None = None
    fraction: Fraction | None = None
    discrete: bool = False
    values: Domain | None = None
    over: OverGroups | None = None
    beyond: bool = False
    type: Type = Type.DOUBLE
    span: Span | None = None
    text: str = ""

    @property
    def aggregate(self) -> Aggregate:
        """The entry of this function in the table of aggregates."""
        return AGGREGATES[self.function]

    @property
    def exact(self) -> ExactAggregate:
        """The same aggregate over a public view, which does not need the product of two columns."""
        return ExactAggregate(id=self.id, name=self.text or self.function, function=self.function, columns=self.columns[:2],
                              when=self.when, fraction=self.fraction, discrete=self.discrete, type=self.type)


class Output(Frozen):
    """A column of the answer: an expression over keys and aggregates."""

    name: str
    expr: Expr


class Ordering(Frozen):
    """One term of ORDER BY, over keys and aggregates."""

    expr: Expr
    descending: bool
    nulls_first: bool


class MinimumFrequency(Frozen):
    """Groups of fewer than `entities` entities are withheld. The aggregate `count` tells how many there are: it is at most
    `rows` times their number, whatever the rows are. `entity` is the name of the kind of entity."""

    count: str
    rows: int
    entities: int
    entity: str

    def __str__(self) -> str:
        return f"groups of fewer than {self.entities} entities ({self.entity}) are withheld (minimum_frequency in the policy)"


class Question(Frozen):
    """What a statement asks. HAVING, ORDER BY, LIMIT and OFFSET act on the noisy rows.

    `sets` are the grouping sets, as positions of keys; None: one of all keys. `scalars` are released first, in this order; they
    have none of their own. `minimum` says which groups are withheld; None if none is. `combinations` says which values of
    keys there can be together.
    """

    view: Node
    keys: tuple[Key, ...]
    aggregates: tuple[AggregateCall, ...]
    outputs: tuple[Output, ...]
    having: Expr | None = None
    ordering: tuple[Ordering, ...] = ()
    limit: int | None = None
    offset: int = 0
    distinct: bool = False
    scalars: tuple[Scalar, ...] = ()
    sets: tuple[tuple[int, ...], ...] | None = None
    levels: tuple[GroupingLevel, ...] = ()
    minimum: MinimumFrequency | None = None
    combinations: tuple[Combinations, ...] = ()

    @property
    def together(self) -> bool:
        """Whether its answers are linear queries that only a workload can answer: over several grouping sets, or over groups."""
        return self.sets is not None or any(call.over is not None for call in self.aggregates)

    @property
    def read(self) -> frozenset[str]:
        """The columns of the view that are grouped, aggregated, or conditions of aggregates."""
        calls = [column for call in self.aggregates for column in (*call.columns, call.when) if column is not None]
        return frozenset([*(key.column for key in self.keys), *calls])


class Scalar(Frozen):
    """A scalar subquery, and the placeholder for its value in the questions that follow."""

    awaited: Placeholder
    question: Question
    span: Span | None = None
